"""Padding: elements added around, or, by negative amounts, taken off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...codegen import expr as ex
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.leaf import LeafOp
from ...core.make.create import zeros
from ...core.make.elements import check_number
from ..declare import taps
from ..declare.indexed import indexed, scatter
from ..declare.registry import leaf, library
from ..declare.results import each_part

MODES = ("constant", "reflect", "replicate", "circular")


def _padding_cast(on_host: bool, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> str:
    """The rule of autocast: PyTorch's CPU list has the modes but one."""
    listed = mode == "replicate" or (mode == "reflect" and len(pad) <= 4)
    return "float32" if on_host and listed else "fallthrough"


@library("shape", "nn.functional.pad", autocast=_padding_cast, composite=True)
def pad(
    input: TensorBase, pad: Sequence[int], mode: str = "constant", value: complex | None = None
) -> TensorBase:
    """The tensor with `pad` = (left, right, top, bottom, …) elements added around, from the last dimension on.

    Modes: "constant" adds `value` (0), "replicate" the outermost element, "reflect" the mirror image without it, "circular"
    the elements of the other end.  Negative amounts take elements off.  RuntimeError where the amounts do not fit the
    shape, NotImplementedError for an unknown mode.

    >>> import flambeau
    >>> flambeau.nn.functional.pad(flambeau.tensor([[1, 2, 3]]), (1, 2), mode="reflect")
    tensor([[2, 1, 2, 3, 2, 1]])
    """
    amounts = [int(p) for p in pad]
    if len(amounts) % 2:
        raise RuntimeError(f"pad(): Padding length must be divisible by 2, got {len(amounts)}")
    if len(amounts) // 2 > input.ndim:
        raise RuntimeError(
            "pad(): Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(amounts)} and input of dimension {input.ndim}"
        )
    if mode not in MODES:
        raise NotImplementedError(f"pad(): Unrecognised padding mode {mode}")
    if mode == "constant":
        if value is not None:
            check_number(value, input, "pad")
        return _constant(input, tuple(amounts), 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'pad(): Padding mode "{mode}" doesn\'t take in value argument, got {value}')
    dims = len(amounts) // 2
    if dims not in (1, 2, 3) or input.ndim not in (dims + 1, dims + 2):
        raise NotImplementedError(
            "pad(): Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: got padding length "
            f"{len(amounts)} and input of dimension {input.ndim}"
        )
    sizes = list(input.shape)
    for k in range(dims):
        axis, before, after = input.ndim - 1 - k, amounts[2 * k], amounts[2 * k + 1]
        _check(input, axis, before, after, mode)
        sizes[axis] += before + after
        if mode == "circular" and min(before, after) < 0:  # what is taken off does not come round
            cut = max(-before, 0)
            input = input.narrow(axis, cut, input.shape[axis] - cut - max(-after, 0))
            amounts[2 * k] = max(before, 0)
    result = _by_tables(input, sizes[-dims:], mode, amounts[: 2 * dims : 2])
    if result is not None:
        return result
    front = tuple(reversed(amounts[: 2 * dims : 2]))
    sides = Sides(mode, front, tuple(input.shape[-dims:]), tuple(sizes[-dims:]))
    op = _EXTENDED[mode, dims]
    return each_part(op, input, sides) if input.is_complex() else op(input, sides)


def _check(input: TensorBase, axis: int, before: int, after: int, mode: str) -> None:
    n = input.shape[axis]
    if mode == "reflect" and max(before, after) >= n:
        raise RuntimeError(
            f"pad(): Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) "
            f"at dimension {axis} of input {list(input.shape)}"
        )
    if mode == "circular" and max(before, after) > n:
        raise RuntimeError(
            f"pad(): Padding value causes wrapping around more than once: padding ({before}, {after}) at dimension {axis} of "
            f"input {list(input.shape)}"
        )
    if n + before + after < 1 or n == 0:
        raise RuntimeError(
            f"pad(): input (size {n} at dimension {axis}) is too small for the padding ({before}, {after})"
        )


def _place(at, sizes, mode: str, before: dict) -> tuple:
    """Where the element at a place of the result comes from; `sizes` of the input."""
    lead = len(at) - len(before)
    place = list(at[:lead])
    for i, n, d in zip(at[lead:], sizes[lead:], range(len(before))):
        i = i - before[f"before{d}"]
        if mode == "reflect":
            i = ex.absolute(i)
            i = n - 1 - ex.absolute(n - 1 - i)
        elif mode == "replicate":
            i = ex.minimum(ex.maximum(i, 0), n - 1)
        else:
            i = ex.where(i < 0, i + n, ex.where(i < n, i, i - n))
        place.append(i)
    return tuple(place)


@indexed(static=("mode",), moves=("x",))
def extended(at, x, *, mode, **before):
    return x[_place(at, [x.size(d) for d in range(len(at))], mode, before)]


@scatter(static=("mode",), effort=4)
def extended_back(at, out, grad, *, mode, **before):
    return out.store(_place(at, [out.size(d) for d in range(len(at))], mode, before), grad[at], "add")


def _by_tables(
    input: TensorBase, sizes: Sequence[int], mode: str, before: Sequence[int]
) -> TensorBase | None:
    """The same by tables of each dimension, `before` from the last one on; gradients of complex numbers have none."""
    if input.is_complex():
        return None
    tables, dims = [], len(sizes)
    for size, out, b in zip(input.shape[-dims:], sizes, reversed(before)):
        if not taps.fits(size, out):
            return None
        tables.append(None if size == out and not b else taps.extended(size, b, out - size - b, mode))
    return taps.taken(input, tables, _BY_TABLES[mode, dims])


class Sides(NamedTuple):
    """What is added before the last dimensions, how large the padded tensor is there, and how it goes on."""

    mode: str
    before: tuple[int, ...]
    sizes: tuple[int, ...]  # of the input
    out: tuple[int, ...]

    def numbers(self) -> dict[str, Any]:
        return {f"before{d}": b for d, b in enumerate(self.before)}


def _extended(input: TensorBase, sides: Sides) -> TensorBase:
    """The input with both ends of the last dimensions made longer (or shorter)."""
    shape = (*input.shape[: -len(sides.out)], *sides.out)
    return extended(shape, input, mode=sides.mode, **sides.numbers())


def _to_extended(grad: TensorBase, sides: Sides) -> TensorBase:
    return pad_backward(grad, sides)


@leaf("library", label="PadBackwardBackward0", batching="leading")
def pad_backward(grad_output: TensorBase, sides: Sides) -> TensorBase:
    """The gradients of all places that an element went to, added up."""
    kind = by_name["float32"] if grad_output.dtype.itemsize == 2 else grad_output.dtype
    shape, dims = grad_output.shape, len(sides.out)
    result = zeros((*shape[:-dims], *sides.sizes), dtype=kind, device=grad_output.device)
    extended_back.into(result, shape, grad_output, serial=dims, mode=sides.mode, **sides.numbers())
    return result.to(grad_output.dtype)


@pad_backward.derivative
def _from_extended(grad: TensorBase, sides: Sides) -> TensorBase:
    return _EXTENDED[sides.mode, len(sides.out)](grad, sides)


# By mode and how many dimensions are padded: by tables, and without.
_BY_TABLES: dict[tuple[str, int], LeafOp] = {}
_EXTENDED: dict[tuple[str, int], LeafOp] = {}


def _declare(mode: str, kind: str, dims: int) -> None:
    name, label = f"{kind.lower()}_pad{dims}d", f"{kind}Pad{dims}DBackward0"
    _BY_TABLES[mode, dims] = taps.leaf_of(f"{name}_tables", label)
    _EXTENDED[mode, dims] = leaf("library", name=name, label=label, batching="leading")(_extended)
    _EXTENDED[mode, dims].derivative(_to_extended)


for _mode, _kind in (("reflect", "Reflection"), ("replicate", "Replication"), ("circular", "Circular")):
    for _dims in (1, 2, 3):
        _declare(_mode, _kind, _dims)


def _constant(input: TensorBase, amounts: tuple[int, ...], value: complex) -> TensorBase:
    """`value` around the tensor; the gradient is the tensor's part of the result's."""
    inner, sizes, start = input, list(input.shape), [0] * input.ndim
    for k in range(len(amounts) // 2):
        axis = input.ndim - 1 - k
        before, after = amounts[2 * k], amounts[2 * k + 1]
        cut, kept = max(-before, 0), input.shape[axis] - max(-before, 0) - max(-after, 0)
        sizes[axis] = input.shape[axis] + before + after
        if sizes[axis] < 0 or kept < 0:
            raise RuntimeError(
                f"pad(): The input size {input.shape[axis]}, plus negative padding {before} and {after} resulted in a negative "
                f"output size at dimension {axis}, which is invalid"
            )
        start[axis] = max(before, 0)
        if kept != input.shape[axis]:
            inner = inner.narrow(axis, cut, kept)
    return constant_pad(inner, tuple(start), tuple(inner.shape), tuple(sizes), value)


@leaf(
    "library",
    label="ConstantPadNdBackward0",
    within=lambda input, start, sizes, out, value: (input, start, value),
    sharding="pad",
)
def constant_pad(
    input: TensorBase, start: tuple[int, ...], sizes: tuple[int, ...], out: tuple[int, ...], value: complex
) -> TensorBase:
    """A tensor of `value` with sizes `out` that has the input, of `sizes`, at `start`."""
    result = part = input.new_full(out, value)
    for axis, (first, n) in enumerate(zip(start, input.shape)):
        if n != out[axis]:
            part = part.narrow(axis, first, n)
    part.copy_(input)
    return result


@constant_pad.derivative
def _taken_back(grad: TensorBase, start: tuple[int, ...], sizes: tuple[int, ...]) -> TensorBase:
    for axis, (first, n) in enumerate(zip(start, sizes)):
        if n != grad.shape[axis]:
            grad = grad.narrow(axis, first, n)
    return grad


@library("composite", "constant_pad_nd")
def constant_pad_nd(input: TensorBase, pad_: Sequence[int], value: complex = 0) -> TensorBase:
    """`nn.functional.pad` with a constant.

    Shape:
        input: any; result: larger by pad[0] + pad[1] in the last dimension, by pad[2] + pad[3] in the one
            before, …

    Raises:
        RuntimeError: the number of paddings is odd

    >>> import flambeau
    >>> flambeau.constant_pad_nd(flambeau.tensor([1, 2]), (1, 2), 9)
    tensor([9, 1, 2, 9, 9])
    """
    return pad(input, tuple(pad_), "constant", value)
