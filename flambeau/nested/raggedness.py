"""How a ragged dimension is cut into sequences: what tensors over the same offsets share."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from ..autograd.grad_mode import inference_mode
from ..core.base.dtypes import Size, by_name
from ..core.base.tensor import TensorBase
from ..core.make.literal import tensor
from ..operations.declare.registry import published

INT64 = by_name["int64"]
_ops = published("")
_numbers = itertools.count(1)


class NestedInt:
    """The size of a ragged dimension: a symbol, equal for tensors over the same offsets and to nothing else.

    It can be multiplied by an int, and is at least 2 as far as comparisons with ints go.

    >>> import flambeau
    >>> x = flambeau.nested.nested_tensor([[1., 2.], [3.]], layout=flambeau.jagged)
    >>> x.shape[1] == (x + 1).shape[1], x.shape[1] == 2, x.shape[1] >= 2
    (True, False, True)
    """

    __slots__ = ("coefficient", "of")

    def __init__(self, of: Raggedness, coefficient: int = 1) -> None:
        self.of, self.coefficient = of, coefficient

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NestedInt)
            and self.of.source is other.of.source
            and self.coefficient == other.coefficient
        )

    def __hash__(self) -> int:
        return hash((id(self.of.source), self.coefficient))

    def __mul__(self, other: Any) -> NestedInt:
        if isinstance(other, int):
            return NestedInt(self.of, self.coefficient * other)
        return NotImplemented

    __rmul__ = __mul__

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, int):
            if other <= 2:
                return True
            raise ValueError(f"the size {self} of a ragged dimension cannot be compared with {other}")
        if isinstance(other, NestedInt) and self.of.source is other.of.source:
            return self.coefficient >= other.coefficient
        return NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self >= other + 1 if isinstance(other, int) else self >= other and self != other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __repr__(self) -> str:
        name = f"j{self.of.number}"
        return name if self.coefficient == 1 else f"{self.coefficient}*{name}"


class NestedSize(Size):
    """The shape of a nested tensor: one of its sizes is a `NestedInt`.

    >>> import flambeau
    >>> from flambeau.nested.raggedness import NestedSize
    >>> x = flambeau.nested.nested_tensor([[1., 2.], [3.]], layout=flambeau.jagged)
    >>> isinstance(x.shape, NestedSize), len(x.shape)
    (True, 2)
    """

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> NestedSize:
        return tuple.__new__(cls, sizes)

    def __getitem__(self, key: Any) -> Any:
        result = tuple.__getitem__(self, key)
        return NestedSize(result) if isinstance(key, slice) else result

    def __add__(self, other: Any) -> NestedSize:
        return NestedSize(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> NestedSize:
        return NestedSize(tuple(other) + tuple(self))

    def __reduce__(self) -> Any:
        raise TypeError("the shape of a nested tensor cannot be pickled; pickle the tensor, or its offsets")


class Raggedness:
    """Offsets and lengths of sequences in one dimension, checked, with what operations ask of them.

    `starts` and `sizes` are lists of ints, `end` is the first place after all sequences.  On `meta` there are no numbers, and all
    sequences count as empty.

    >>> import flambeau
    >>> from flambeau.nested.raggedness import raggedness
    >>> r = raggedness(flambeau.tensor([0, 2, 5]), None, 5)
    >>> r.starts, r.sizes, r.longest, r.gaps(5)
    ([0, 2], [2, 3], 3, False)
    """

    def __init__(self, offsets: TensorBase, lengths: TensorBase | None) -> None:
        self.offsets, self.lengths = offsets, lengths
        self.source = offsets if lengths is None else lengths
        self.root, self.number = self, next(_numbers)
        _check_kind("offsets", offsets)
        offset_list = [0] * offsets.shape[0] if offsets.is_meta else offsets.tolist()
        if not offset_list:
            raise ValueError("offsets must have a beginning, and an end for each sequence: got shape (0,)")
        _check_offsets(offset_list)
        self.starts = offset_list[:-1]
        if lengths is None:
            self.sizes = [b - a for a, b in itertools.pairwise(offset_list)]
        else:
            self.sizes = _checked_lengths(lengths, offset_list)
        ends = [a + n for a, n in zip(self.starts, self.sizes)]
        self.end = max(ends, default=0)
        self.batch = len(self.starts)
        self.rows = sum(self.sizes)
        self.longest, self.shortest = max(self.sizes, default=0), min(self.sizes, default=0)
        self.size = NestedInt(self)
        self._cached: dict[Any, Any] = {}

    def gaps(self, total: int) -> bool:
        """Whether some of `total` places belong to no sequence, or to several."""
        return self.starts[:1] not in ([], [0]) or self.rows != total or self.lengths is not None

    def _once(self, key: Any, make: Any) -> Any:
        if key not in self._cached:
            with inference_mode(False):  # what is kept may be needed for a gradient later
                self._cached[key] = make()
        return self._cached[key]

    def segments(self) -> TensorBase:
        """The number of the sequence that each place of the packed elements belongs to: (rows,)."""
        return self._once(
            "segments",
            lambda: _ops["repeat_interleave"](self._batches(), self._counts(), output_size=self.rows),
        )

    def within(self) -> TensorBase:
        """The place of each packed element in its sequence: (rows,)."""
        return self._once("within", lambda: self._range(self.rows) - self._packed_starts()[self.segments()])

    def places(self) -> TensorBase:
        """Where each packed element lies in the values: (rows,)."""
        return self._once("places", lambda: self._tensor(self.starts)[self.segments()] + self.within())

    def padded_places(self, length: int) -> TensorBase:
        """Where each packed element lies in a padded tensor, flattened, whose rows have this length: (rows,)."""
        return self._once(("padded", length), lambda: self.segments() * length + self.within())

    def packed(self) -> Raggedness:
        """The same sequences without gaps."""
        if self.lengths is None and self.starts[:1] in ([], [0]):
            return self
        return self._once("packed", lambda: raggedness(self._ends_of(self.sizes), None, self.rows))

    def on(self, device: Any) -> Raggedness:
        """The same sequences for elements on another device."""
        if self.offsets.device == device:
            return self
        return self._once(("on", str(device)), lambda: self._moved(device))

    def _moved(self, device: Any) -> Raggedness:
        made = Raggedness.__new__(Raggedness)
        made.__dict__.update(self.__dict__)
        made.offsets = self.offsets.to(device)
        made.lengths = None if self.lengths is None else self.lengths.to(device)
        made.size, made._cached = NestedInt(made), {}  # of the same source: equal to this one's
        return made

    def counts(self) -> TensorBase:
        """How long each sequence is: (batch,)."""
        return self._once("counts", self._counts)

    def part(self, batches: list[int]) -> Raggedness:
        """Those sequences alone, packed."""
        return raggedness(self._ends_of([self.sizes[b] for b in batches]), None, None)

    def _ends_of(self, sizes: list[int]) -> TensorBase:
        return self._tensor([0, *itertools.accumulate(sizes)], self.offsets.dtype)

    def _tensor(self, numbers: list[int], dtype: Any = INT64) -> TensorBase:
        device = self.offsets.device
        return (
            tensor(numbers, dtype=dtype, device=device)
            if numbers
            else _ops["zeros"](0, dtype=dtype, device=device)
        )

    def _range(self, n: int) -> TensorBase:
        return _ops["arange"](n, dtype=INT64, device=self.offsets.device)

    def _batches(self) -> TensorBase:
        return self._range(self.batch)

    def _counts(self) -> TensorBase:
        return self._tensor(self.sizes)

    def _packed_starts(self) -> TensorBase:
        return self._tensor([0, *itertools.accumulate(self.sizes)])


def _check_kind(label: str, value: TensorBase) -> None:
    if value.ndim != 1 or value.dtype.name not in ("int64", "int32"):
        raise ValueError(
            f"{label} must be of one dimension and int64 or int32, got shape {tuple(value.shape)} of {value.dtype}"
        )


def _check_offsets(offsets: list[int]) -> None:
    """ValueError, which names the place, unless offsets rise from a place that there is."""
    if offsets[0] < 0:
        raise ValueError(f"offsets must not be negative, got {offsets[0]} at place 0")
    for k, (a, b) in enumerate(itertools.pairwise(offsets)):
        if a > b:
            raise ValueError(f"offsets must not fall, got {a} and then {b} at place {k + 1}")


def _checked_lengths(lengths: TensorBase, offsets: list[int]) -> list[int]:
    _check_kind("lengths", lengths)
    if lengths.shape[0] != len(offsets) - 1:
        raise ValueError(
            f"offsets of {len(offsets) - 1} sequences and lengths of {lengths.shape[0]} do not fit"
        )
    result = [0] * lengths.shape[0] if lengths.is_meta else lengths.tolist()
    for k, n in enumerate(result):
        if n < 0:
            raise ValueError(f"lengths must not be negative, got {n} at place {k}")
    return result


_cache: weakref.WeakValueDictionary[tuple[int, ...], Raggedness] = weakref.WeakValueDictionary()


def raggedness(offsets: TensorBase, lengths: TensorBase | None, total: int | None) -> Raggedness:
    """The sequences that these tensors cut `total` places into: the same object for the same tensors, which are read once.

    ValueError, naming the place, for offsets that fall or leave the values, and for lengths that do not fit.

    >>> import flambeau
    >>> from flambeau.nested.raggedness import raggedness
    >>> raggedness(flambeau.tensor([0, 3, 2]), None, 3)
    Traceback (most recent call last):
    ValueError: offsets must not fall, got 3 and then 2 at place 2
    """
    key = id(offsets), id(lengths), offsets._version, 0 if lengths is None else lengths._version
    result = _cache.get(key)
    if result is None:
        result = _cache[key] = Raggedness(offsets, lengths)
    if total is not None and result.end > total:
        k = next(k for k, (a, n) in enumerate(zip(result.starts, result.sizes)) if a + n > total)
        raise ValueError(
            f"sequence {k} ends at {result.starts[k] + result.sizes[k]}, behind the {total} values along the ragged dimension"
        )
    return result
