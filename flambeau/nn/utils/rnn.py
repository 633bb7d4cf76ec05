"""Batches of sequences of several lengths: padded, packed, and as lists.

A packed batch holds the steps of all sequences one after another: first the first step of every sequence, then the second
step of those that have one, and so on, the longest sequence first.  Recurrent layers take it as it is, and compute nothing
for padding.

Where each step lies in a padded batch is worked out on the host from the lengths; the steps then move in one gather or
scatter of rows, with its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...core.base import dtypes
from ...core.make.create import arange, empty
from ...core.make.literal import as_tensor
from ...core.places.join import cat
from ...operations.neural.recurrent.sequences import Layout, check_host_integers

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

_INT64 = dtypes.by_name["int64"]


class PackedSequence_(NamedTuple):
    """The fields of a `PackedSequence`."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def bind(optional: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn(optional)`, or None for None."""
    return None if optional is None else fn(optional)


class PackedSequence(PackedSequence_):
    """A batch of sequences of several lengths without padding, as `RNN`, `LSTM` and `GRU` take and return it.

    `pack_padded_sequence` and `pack_sequence` make it; a program does not by hand.

    Args:
        data: the steps of all sequences, (total, *), of any dtype and on any device.
        batch_sizes: int64, on the CPU: how many sequences have a first step, a second, and so on.
        sorted_indices: int64, on the device of `data`: which sequence of the batch stands at each place of the packed one,
            where they were sorted by length.
        unsorted_indices: its inverse, made of it where it is not given.

    Raises:
        ValueError: `batch_sizes` is not on the CPU.
        AssertionError: without `batch_sizes`, `data` is no pair of both.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Any:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _moved(self, data: Tensor, move: Callable[[Tensor], Tensor]) -> Any:
        """The same batch with other `data`; `batch_sizes` stay on the CPU, wherever the rest is."""
        return type(self)(
            data, self.batch_sizes, bind(self.sorted_indices, move), bind(self.unsorted_indices, move)
        )

    def pin_memory(self) -> Any:
        """A copy in page-locked memory."""
        return self._moved(self.data.pin_memory(), lambda indices: indices.pin_memory())

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """`data.to(*args, **kwargs)`, the indices on the device of the result; `self` where nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        non_blocking = kwargs.get("non_blocking", False)
        return self._moved(data, lambda indices: indices.to(data.device, non_blocking=non_blocking))

    def _on(self, kind: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """`to`, on the `kind` of device; `args` may say which of its devices."""
        place = empty(0, dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        return (
            self.to(*args, **kwargs) if place.device.type == kind else self.to(*args, device=kind, **kwargs)
        )

    def cuda(self, *args: Any, **kwargs: Any) -> Any:
        """The batch on an NVIDIA GPU; arguments as of `to`."""
        return self._on("cuda", args, kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Any:
        """The batch on the CPU; arguments as of `to`."""
        return self._on("cpu", args, kwargs)

    def double(self) -> Any:
        """`data` as float64."""
        return self.to(dtype=dtypes.by_name["float64"])

    def float(self) -> Any:
        """`data` as float32."""
        return self.to(dtype=dtypes.by_name["float32"])

    def half(self) -> Any:
        """`data` as float16."""
        return self.to(dtype=dtypes.by_name["float16"])

    def long(self) -> Any:
        """`data` as int64."""
        return self.to(dtype=_INT64)

    def int(self) -> Any:
        """`data` as int32."""
        return self.to(dtype=dtypes.by_name["int32"])

    def short(self) -> Any:
        """`data` as int16."""
        return self.to(dtype=dtypes.by_name["int16"])

    def char(self) -> Any:
        """`data` as int8."""
        return self.to(dtype=dtypes.by_name["int8"])

    def byte(self) -> Any:
        """`data` as uint8."""
        return self.to(dtype=dtypes.by_name["uint8"])

    @property
    def is_cuda(self) -> bool:
        """Whether `data` is on an NVIDIA GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether `data` lies in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Any:
    """The inverse of a permutation of 0 … n-1, (n,) of int64; None for None.

    Shape:
        permutation: (n,); the result has the same

    Raises:
        RuntimeError: an index out of bounds.

    >>> import flambeau
    >>> flambeau.nn.utils.rnn.invert_permutation(flambeau.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    places = arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return permutation.new_zeros(permutation.shape).scatter(0, permutation, places)


def _check_batch(who: str, sequence: Any) -> None:
    if not isinstance(sequence, Tensor):
        raise TypeError(
            f"{who}(): argument 'input' (position 1) must be Tensor, not {type(sequence).__name__}"
        )
    if sequence.dim() < 2:
        raise IndexError(f"{who}(): expected an input of at least 2 dimensions, got {sequence.dim()}")


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack a padded batch: what lies behind the end of each sequence is left out.

    Args:
        input: (T, N, *), or (N, T, *) if `batch_first`, of any dtype.
        lengths: the N lengths, 1 to T each; a tensor must be on the CPU.
        batch_first: whether the batch is the first dimension.
        enforce_sorted: whether to demand that lengths never grow; else sequences are sorted by them, and
            `pad_packed_sequence` brings them back into their order.

    Raises:
        TypeError: `input` is no tensor.
        IndexError: `input` has fewer than two dimensions.
        RuntimeError: an empty input; lengths that are not one-dimensional, not on the CPU, of the wrong number, below 1,
            above T, or unsorted, if `enforce_sorted`.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pack_padded_sequence
    >>> padded = flambeau.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]])
    >>> pack_padded_sequence(padded, [2, 1, 3], batch_first=True, enforce_sorted=False)
    PackedSequence(data=tensor([4, 1, 3, 5, 2, 6]), batch_sizes=tensor([3, 2, 1]), sorted_indices=tensor([2, 0, 1]),
                   unsorted_indices=tensor([1, 2, 0]))
    """
    _check_batch("pack_padded_sequence", input)
    if isinstance(lengths, Tensor):
        ends = lengths.to(_INT64)
    else:
        ends = as_tensor(lengths, dtype=_INT64, device="cpu")
    batch, steps = input.shape[:2] if batch_first else (input.shape[1], input.shape[0])
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    check_host_integers("lengths", ends)
    if len(ends) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(ends)} (batch_size={batch})"
        )
    order = None
    if not enforce_sorted:
        ends, order = ends.sort(descending=True, stable=True)
    elif bool((ends[1:] > ends[:-1]).any()):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement."
        )
    if int(ends[batch - 1]) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    longest = int(ends[0])
    if longest > steps:
        raise RuntimeError(
            f"Expected all of `lengths` to be at most the length of the padded sequences, {steps}, but found {longest}"
        )
    inside = arange(longest, device="cpu").unsqueeze(1) < ends
    rows = _rows(inside, batch, steps, batch_first, order)
    data = input.flatten(0, 1).index_select(0, rows.to(input.device))
    return PackedSequence(data, inside.sum(1), bind(order, lambda indices: indices.to(input.device)))


def _rows(inside: Tensor, batch: Any, steps: Any, batch_first: bool, order: Tensor | None) -> Tensor:
    """The row in a padded and flattened batch of each step of packed order, on the host."""
    places = arange(batch, device="cpu") if order is None else order
    times = arange(inside.size(0), device="cpu").unsqueeze(1)
    return (times + places * steps if batch_first else times * batch + places)[inside]


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """A padded batch, (T, N, *) or, if `batch_first`, (N, T, *), and the lengths of its sequences, (N,) of int64 on the CPU.

    They stand in the order in which they were packed.

    Args:
        sequence: the packed batch.
        batch_first: whether the batch is the first dimension of the result.
        padding_value: what fills the place behind the end of each sequence.
        total_length: T, at least the longest length, which it is by default.

    Raises:
        ValueError: `total_length` is below the longest length.
        RuntimeError: `batch_sizes` do not belong to `data`, or `unsorted_indices` are no permutation.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([flambeau.tensor([1, 2]), flambeau.tensor([3, 4, 5])], enforce_sorted=False)
    >>> pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 0],
            [3, 4, 5]]), tensor([2, 3]))
    """
    data, batch_sizes, unsorted_indices = sequence.data, sequence.batch_sizes, sequence.unsorted_indices
    steps = batch_sizes.size(0)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    layout = Layout("pad_packed_sequence", batch_sizes, data.size(0))
    lengths, order = layout.lengths, None
    if unsorted_indices is not None:
        unsorted = unsorted_indices.cpu()
        order = invert_permutation(unsorted)
        if not order[unsorted].equal(arange(layout.batch, device="cpu")):
            raise RuntimeError(
                f"pad_packed_sequence: unsorted_indices must be a permutation of the {layout.batch} sequences of the batch"
            )
        lengths = lengths[unsorted]
    rows = _rows(layout.inside, layout.batch, steps, batch_first, order)
    return _padded(data, rows, layout.batch, steps, batch_first, padding_value), lengths


def _padded(data: Tensor, rows: Tensor, batch: Any, steps: Any, batch_first: bool, value: float) -> Tensor:
    """The rows of `data` at their places in a batch filled with `value`."""
    filled = data.new_full((batch * steps, *data.shape[1:]), value)
    shape = (batch, steps) if batch_first else (steps, batch)
    return filled.index_copy(0, rows.to(data.device), data).unflatten(0, shape)


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of any lengths as a padded batch, (T, N, *) or, if `batch_first`, (N, T, *); T is the longest length.

    Args:
        sequences: N tensors (length, *), of the dtype, device and further sizes of the first.
        batch_first: whether the batch is the first dimension of the result.
        padding_value: what fills the rest.
        padding_side: where that stands: behind each sequence ("right") or before it ("left").

    Raises:
        TypeError: one of them is no tensor.
        RuntimeError: no sequences, one without a dimension, sizes that do not fit, another `padding_side`.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pad_sequence
    >>> pad_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4])], batch_first=True, padding_side="left")
    tensor([[1, 2, 3],
            [0, 0, 4]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    parts = list(sequences)
    if not parts:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    for i, part in enumerate(parts):
        if not isinstance(part, Tensor):
            raise TypeError(f"pad_sequence: expected Tensor as element {i}, but got {type(part).__name__}")
        if part.dim() == 0:
            raise RuntimeError(
                f"pad_sequence: expected sequences of at least 1 dimension, but element {i} has none"
            )
    first = parts[0]
    rest = first.shape[1:]
    for i, part in enumerate(parts):
        if part.shape[1:] != rest:
            if part.dim() != first.dim() or any(
                a not in (1, b) for a, b in zip(part.shape[1:], rest, strict=True)
            ):
                raise RuntimeError(
                    f"pad_sequence: element {i} has the size {list(part.shape)}, of which all but the first must be those "
                    f"of element 0, {list(first.shape)}"
                )
            part = part.expand(part.size(0), *rest)
        parts[i] = part if part.dtype is first.dtype else part.to(first.dtype)
    lengths = as_tensor([part.size(0) for part in parts], dtype=_INT64, device="cpu").unsqueeze(1)
    steps, batch = int(lengths.max()), len(parts)
    times = arange(steps, device="cpu")
    inside = times < lengths if padding_side == "right" else times >= steps - lengths
    places = arange(batch, device="cpu").unsqueeze(1)
    rows = (places * steps + times if batch_first else times * batch + places)[inside]
    return _padded(cat(parts), rows, batch, steps, batch_first, padding_value)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each a tensor (length, *) of its own.

    Args:
        padded_sequences: (T, N, *), or (N, T, *) if `batch_first`.
        lengths: (N,), integers; what is above T means all of it.
        batch_first: whether the batch is the first dimension.

    Raises:
        ValueError: the number of lengths is not N.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import unpad_sequence
    >>> unpad_sequence(flambeau.tensor([[1, 4], [2, 0], [3, 0]]), flambeau.tensor([3, 1]))
    [tensor([1, 2, 3]), tensor([4])]
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist()
    if len(counts) != batch.size(0):
        raise ValueError(
            f"unpad_sequence: expected as many lengths as sequences, {batch.size(0)}, but got {len(counts)}"
        )
    return [sequence[: max(count, 0)].clone() for sequence, count in zip(batch, counts, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack N tensors (length, *): `pack_padded_sequence` of `pad_sequence`, with the same errors.

    Args:
        sequences: tensors of one dtype and device, whose sizes differ in the first dimension alone, none of them empty.
        enforce_sorted: whether to demand that lengths never grow; else they are sorted by them.

    Raises:
        RuntimeError: the lengths are not sorted, with `enforce_sorted`, or there is no sequence

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pack_sequence
    >>> pack_sequence([flambeau.tensor([1]), flambeau.tensor([2, 3])], enforce_sorted=False).data
    tensor([2, 1, 3])
    """
    sequences = list(sequences)
    padded = pad_sequence(sequences)
    return pack_padded_sequence(padded, [s.size(0) for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch, each a tensor of its own, in the order in which they were packed.

    Shape:
        a result: (length, *)

    Raises:
        AttributeError: the argument is no PackedSequence

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pack_sequence, unpack_sequence
    >>> unpack_sequence(pack_sequence([flambeau.tensor([1, 2]), flambeau.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
