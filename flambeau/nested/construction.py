"""How nested tensors are made."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..core.base.formats import jagged as jagged_layout
from ..core.base.formats import strided as strided_layout
from ..core.base.tensor import TensorBase
from ..core.make.literal import as_tensor
from ..operations.declare.registry import published
from .answers import rebuilt
from .jagged import jagged
from .raggedness import INT64, raggedness
from .strided import joined, over

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]

_ops = published("")


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> TensorBase:
    """A nested tensor, a leaf, of copies of the tensors in a list, or of what `flambeau.tensor` takes.

    Parts have equally many dimensions.  With `layout=flambeau.jagged` they may differ in one size alone; with the default,
    `flambeau.strided`, in all.  `dtype` and `device` are the first part's unless given.  TypeError for what is no list, RuntimeError
    for parts that do not fit, and for another layout.

    >>> import flambeau
    >>> flambeau.nested.nested_tensor([[1, 2], [3]])
    nested_tensor([
      tensor([1, 2]),
      tensor([3])
    ])
    >>> flambeau.nested.nested_tensor([flambeau.ones(2, 4), flambeau.ones(3, 4)], layout=flambeau.jagged).offsets()
    tensor([0, 2, 5])
    """
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError(
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor, got "
            f"{type(tensor_list).__name__}"
        )
    tensors = [x.detach() if isinstance(x, TensorBase) else as_tensor(x) for x in tensor_list]
    if device is None and tensors:
        device = tensors[0].device
    if dtype is None and tensors:
        dtype = tensors[0].dtype
    made = _of_list("nested_tensor", [x.to(device=device, dtype=dtype) for x in tensors], layout)
    if not tensors and (dtype is not None or device is not None):
        made = made.to(device=device, dtype=dtype)
    if pin_memory:
        made = made.pin_memory()
    return made.requires_grad_() if requires_grad else made


def _checked_layout(layout: Any) -> Any:
    if layout not in (None, strided_layout, jagged_layout):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return strided_layout if layout is None else layout


def _of_list(name: str, tensors: list[TensorBase], layout: Any) -> Any:
    """Of tensors of one dtype and device, with their history."""
    layout = _checked_layout(layout)
    for k, x in enumerate(tensors):
        if x.is_nested or x.layout != strided_layout:
            raise RuntimeError(f"{name}(): expected dense tensors, got one of layout {x.layout} at index {k}")
        if x.ndim != tensors[0].ndim:
            raise RuntimeError(
                f"All Tensors given to {name} must have the same dimension. Found dimension {x.ndim} for Tensor at index {k} and "
                f"dimension {tensors[0].ndim} for Tensor at index 0."
            )
        if x.dtype != tensors[0].dtype or x.device != tensors[0].device:
            raise RuntimeError(
                f"All Tensors given to {name} must have the same dtype and device. Found {x.dtype} on {x.device} for Tensor at index "
                f"{k} and {tensors[0].dtype} on {tensors[0].device} for Tensor at index 0."
            )
    return joined(tensors) if layout is strided_layout else _jagged_of(tensors)


def _jagged_of(tensors: list[TensorBase]) -> TensorBase:
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if tensors[0].ndim == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    differ = [d for d in range(tensors[0].ndim) if len({x.shape[d] for x in tensors}) > 1]
    if len(differ) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only allows "
            "for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim. Got parts that differ in "
            f"dimensions {differ}"
        )
    dim = differ[0] if differ else 0
    values = _ops["cat"](tensors, dim)
    ends = [0, *itertools.accumulate(x.shape[dim] for x in tensors)]
    offsets = as_tensor(ends, dtype=INT64, device=values.device)
    return jagged(values, raggedness(offsets, None, ends[-1]), dim + 1)


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> TensorBase:
    """A nested tensor of a list of tensors, copied, or of a batch (B, N, …), over its memory; the history is kept.

    A nested tensor of that layout is given back, converted if requested.  TypeError for anything else, RuntimeError for parts that do not
    fit, for a tensor of less than two dimensions, and between layouts.

    >>> import flambeau
    >>> a = flambeau.ones(2, requires_grad=True)
    >>> x = flambeau.nested.as_nested_tensor([a, flambeau.ones(1)], layout=flambeau.jagged)
    >>> (x * 3).sum().backward()
    >>> a.grad
    tensor([3., 3.])
    """
    dense = isinstance(ts, TensorBase)
    if not dense and not (isinstance(ts, (list, tuple)) and all(isinstance(t, TensorBase) for t in ts)):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors, got "
            f"{type(ts).__name__}"
        )
    if dense and ts.is_nested:
        if layout is not None and layout is not ts.layout:
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        return ts.to(device=device, dtype=dtype) if device is not None or dtype is not None else ts
    if not dense:
        device = device if device is not None or not ts else ts[0].device
        dtype = dtype if dtype is not None or not ts else ts[0].dtype
        return _of_list("as_nested_tensor", [t.to(device=device, dtype=dtype) for t in ts], layout)
    if ts.ndim < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    ts = ts.to(device=device or ts.device, dtype=dtype or ts.dtype)
    if _checked_layout(layout) is strided_layout:
        return over(ts.reshape(-1), (tuple(ts.shape[1:]),) * ts.shape[0], ts.ndim)
    n, length = ts.shape[:2]
    ends = as_tensor([k * length for k in range(n + 1)], dtype=INT64, device=ts.device)
    return jagged(ts.contiguous().flatten(0, 1), raggedness(ends, None, n * length), 1)


def nested_tensor_from_jagged(
    values: TensorBase,
    offsets: TensorBase | None = None,
    lengths: TensorBase | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> TensorBase:
    """A nested tensor over `values` (sum of lengths, D …) cut at `offsets` (B + 1,), int64 or int32: its history is that of the values.

    `lengths` (B,) alone gives the offsets; with offsets, sequences begin there and need not reach to the next.  `jagged_dim` is
    the ragged dimension of the result, 1 by default.  Tensors made with the same `offsets` have the same ragged size, and can be
    added and multiplied.  `min_seqlen` and `max_seqlen` may be given as PyTorch wants them; they are known from the offsets.

    RuntimeError without offsets and lengths; ValueError, naming the place, for offsets that fall or leave the values.

    >>> import flambeau
    >>> x = flambeau.nested.nested_tensor_from_jagged(flambeau.ones(5, 2), flambeau.tensor([0, 1, 1, 5]))
    >>> x.sum(1)
    tensor([[1., 1.],
            [0., 0.],
            [4., 4.]])
    """
    name = "nested_tensor_from_jagged"
    if not isinstance(values, TensorBase) or values.is_nested:
        raise TypeError(f"{name}(): values must be a dense tensor, got {type(values).__name__}")
    if offsets is None:
        if lengths is None:
            raise RuntimeError(f"{name}(): At least one of offsets or lengths is required.")
        if lengths.ndim != 1 or (not lengths.is_meta and any(n < 0 for n in lengths.tolist())):
            raise ValueError(f"{name}(): lengths must be of one dimension and not negative, got {lengths}")
        offsets = _ops["cat"]([lengths.new_zeros(1), lengths.cumsum(0, dtype=lengths.dtype)])
        lengths = None
    dim = 1 if jagged_dim is None else jagged_dim
    if dim < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {dim}.")
    return rebuilt(values, offsets, lengths, dim)


def narrow(tensor: TensorBase, dim: int, start: Any, length: Any, layout: Any = strided_layout) -> TensorBase:
    """Places `start` to `start + length` of each element of a batch, along `dim`: another for each with tensors (B,).

    With `layout=flambeau.jagged` a nested tensor over the memory of `tensor` (B, N, …), with gaps, for `dim` 1 alone; with the
    default, copies, for numbers alone.  RuntimeError for other dims and kinds, ValueError for places outside.

    >>> import flambeau
    >>> x = flambeau.arange(6).reshape(2, 3)
    >>> starts, lengths = flambeau.tensor([0, 1]), flambeau.tensor([3, 1])
    >>> flambeau.nested.narrow(x, 1, starts, lengths, layout=flambeau.jagged).unbind()
    (tensor([0, 1, 2]), tensor([4]))
    """
    for label, value in (("start", start), ("length", length)):
        if not isinstance(value, (int, TensorBase)):
            raise RuntimeError(f"{label} must be an integer or a tensor, got {type(value).__name__}")
    if _checked_layout(layout) is strided_layout:
        if isinstance(start, TensorBase) or isinstance(length, TensorBase):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return joined([x.narrow(dim - 1 if dim > 0 else dim, start, length) for x in tensor.unbind()], tensor)
    if dim != 1:
        raise RuntimeError(f"jagged layout only supports dim=1, got {dim}")
    if tensor.ndim < 2:
        raise RuntimeError(f"narrow(): expected a tensor of at least 2 dimensions, got {tuple(tensor.shape)}")
    n, most = tensor.shape[:2]
    numbers = [_for_each(x, n) for x in (start, length)]
    for k, (a, m) in enumerate(zip(*numbers)):
        if a < 0 or m < 0 or a + m > most:
            raise ValueError(
                f"narrow(): places {a} to {a + m} of element {k} are outside of dimension 1 of size {most}"
            )
    starts, lengths = numbers
    begin = [a + k * most for k, a in enumerate(starts)]
    values = tensor.contiguous().flatten(0, 1)
    if all(a == 0 and m == most for a, m in zip(starts, lengths)):
        offsets = as_tensor([*begin, n * most], dtype=INT64, device=tensor.device)
        return jagged(values, raggedness(offsets, None, n * most), 1)
    end = begin[-1] + lengths[-1] if n else 0
    offsets = as_tensor([*begin, end], dtype=INT64, device=tensor.device)
    counts = as_tensor(lengths, dtype=INT64, device=tensor.device)
    return jagged(values, raggedness(offsets, counts, n * most), 1)


def _for_each(value: Any, n: int) -> list[int]:
    if isinstance(value, int):
        return [value] * n
    if value.ndim > 1 or value.numel() not in (1, n):
        raise RuntimeError(
            "When constructing a jagged nested tensor using narrow(), your start and length must be Tensors that broadcast to "
            f"input.shape[0], {n}, got shape {tuple(value.shape)}"
        )
    result = [int(x) for x in value.reshape(-1).tolist()]
    return result * n if len(result) == 1 else result


def masked_select(tensor: TensorBase, mask: TensorBase) -> TensorBase:
    """The elements of `tensor` where the mask, broadcast to it, is true: a jagged tensor (rows, *) with a sequence for each row.

    RuntimeError for layouts other than strided.

    >>> import flambeau
    >>> x = flambeau.arange(6).reshape(2, 3)
    >>> flambeau.nested.masked_select(x, x % 3 > 0).unbind()
    (tensor([1, 2]), tensor([4, 5]))
    """
    for label, value in (("tensor", tensor), ("mask", mask)):
        if value.layout != strided_layout or value.is_nested:
            raise RuntimeError(f"nested.masked_select requires a strided {label}, given {value.layout}")
    counts = mask.expand(tensor.shape).sum(tensor.ndim - 1).reshape(-1)
    values = tensor.masked_select(mask)
    offsets = _ops["cat"]([counts.new_zeros(1), counts.cumsum(0)])
    return jagged(values, raggedness(offsets, None, values.shape[0]), 1)


def to_padded_tensor(input: Any, padding: float, output_size: Sequence[int] | None = None) -> TensorBase:
    """A dense tensor with `padding` where a nested one has nothing, as large as its largest parts or of `output_size`.

    Gradients go to what was there.  RuntimeError where `output_size` is too small, NotImplementedError for dense tensors.

    Shape:
        the result: (sequences, *the largest sizes), or `output_size`

    >>> import flambeau
    >>> flambeau.nested.to_padded_tensor(flambeau.nested.nested_tensor([[1.], [2., 3.]]), 0.0)
    tensor([[1., 0.],
            [2., 3.]])
    """
    return input.to_padded_tensor(padding, output_size)
