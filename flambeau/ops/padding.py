"""Padding: elements added around, or, by negative amounts, taken off."""

from __future__ import annotations

from collections.abc import Sequence

from ..autograd.grad_mode import no_grad
from ..core import tape
from ..core.tensor import TensorBase
from .joining import cat
from .registry import library

MODES = ("constant", "reflect", "replicate", "circular")


@library("shape", "nn.functional.pad")
def pad(
    input: TensorBase, pad: Sequence[int], mode: str = "constant", value: float | None = None
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
        return _constant(input, tuple(amounts), 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f'pad(): Padding mode "{mode}" doesn\'t take in value argument, got {value}')
    dims = len(amounts) // 2
    if dims not in (1, 2, 3) or input.ndim not in (dims + 1, dims + 2):
        raise NotImplementedError(
            "pad(): Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: got padding length "
            f"{len(amounts)} and input of dimension {input.ndim}"
        )
    out = input
    for k in range(dims):
        axis = input.ndim - 1 - k
        before, after = amounts[2 * k], amounts[2 * k + 1]
        _check(input, axis, before, after, mode)
        out = _extended(out, axis, before, after, mode)
    return out if max(amounts) > 0 else out.clone()  # so far a view


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


def _extended(x: TensorBase, axis: int, before: int, after: int, mode: str) -> TensorBase:
    """One dimension made longer (or shorter) at both ends."""
    n = x.shape[axis]
    parts = [x.narrow(axis, max(-before, 0), n - max(-before, 0) - max(-after, 0))]
    if mode == "circular":  # what was taken off does not come round
        x, n = parts[0], parts[0].shape[axis]
    if before > 0:
        parts.insert(0, _border(x, axis, before, mode, 0))
    if after > 0:
        parts.append(_border(x, axis, after, mode, n - 1))
    return cat(parts, axis) if len(parts) > 1 else parts[0] if before or after else x


def _border(x: TensorBase, axis: int, width: int, mode: str, edge: int) -> TensorBase:
    """What is added beyond the first element (edge 0) or the last."""
    n = x.shape[axis]
    if mode == "replicate":
        return x.narrow(axis, edge, 1).expand([width if d == axis else s for d, s in enumerate(x.shape)])
    if mode == "reflect":
        return x.narrow(axis, 1 if edge == 0 else n - 1 - width, width).flip(axis)
    return x.narrow(axis, n - width if edge == 0 else 0, width)


def _constant(input: TensorBase, amounts: tuple[int, ...], value: float) -> TensorBase:
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
    with no_grad():
        out = input.new_full(sizes, value)
        part = out
        for axis, (first, n) in enumerate(zip(start, inner.shape)):
            if n != sizes[axis]:
                part = part.narrow(axis, first, n)
        part.copy_(inner)
    if tape.recording(inner):
        tape.record(
            "ConstantPadNdBackward0", _taken_back, (inner,), out, (), (tuple(start), tuple(inner.shape))
        )
    return out


def _taken_back(grad: TensorBase, start: tuple[int, ...], sizes: tuple[int, ...]) -> TensorBase:
    for axis, (first, n) in enumerate(zip(start, sizes)):
        if n != grad.shape[axis]:
            grad = grad.narrow(axis, first, n)
    return grad
