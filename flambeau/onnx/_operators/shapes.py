"""Operators that change shapes, join, split and pad, and those that give sizes."""

from __future__ import annotations

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .declare import DType, Ints, Moved, fl, ints, nn, operator


@operator("Identity")
def identity(input: Moved) -> Tensor:
    return input


@operator("Shape")
def shape(data: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return fl.tensor(list(data.shape)[start:end], dtype=by_name["int64"])


@operator("Size")
def size(data: Tensor) -> Tensor:
    return fl.tensor(data.numel(), dtype=by_name["int64"])


@operator("Reshape", since=5)
def reshape(data: Moved, shape: Ints, *, allowzero: int = 0) -> Tensor:
    """A size 0 is that of the data, unless allowzero says that it is 0; -1 is what is left."""
    sizes = ints(shape)
    if not allowzero:
        sizes = [data.shape[d] if n == 0 else n for d, n in enumerate(sizes)]
    if -1 in sizes and data.numel() == 0:
        rest = [n for n in sizes if n != -1]
        if 0 in rest:  # any size fits: that of the elements that there are
            sizes = [0 if n == -1 else n for n in sizes]
    return fl.reshape(data, sizes)


@operator("Flatten")
def flatten(input: Moved, *, axis: int = 1) -> Tensor:
    sizes = list(input.shape)
    at = axis if axis >= 0 else axis + len(sizes)
    rows = 1
    for n in sizes[:at]:
        rows *= n
    columns = 1
    for n in sizes[at:]:
        columns *= n
    return fl.reshape(input, [rows, columns])


@operator("Squeeze", since=13)
def squeeze(data: Moved, axes: Ints | None = None) -> Tensor:
    if axes is None:
        return fl.squeeze(data)
    dims = ints(axes)
    for d in dims:
        if data.shape[d] != 1:
            raise ValueError(f"Squeeze: dimension {d} has size {data.shape[d]}, and not 1")
    return fl.squeeze(data, dims)


@operator("Unsqueeze", since=13)
def unsqueeze(data: Moved, axes: Ints) -> Tensor:
    dims = ints(axes)
    rank = data.ndim + len(dims)
    for d in sorted(d % rank for d in dims):
        data = fl.unsqueeze(data, d)
    return data


@operator("Expand")
def expand(input: Tensor, shape: Ints) -> Tensor:
    sizes = fl.broadcast_shapes(tuple(input.shape), tuple(ints(shape)))
    return fl.broadcast_to(input, sizes)


@operator("Transpose")
def transpose(data: Tensor, *, perm: list[int] | None = None) -> Tensor:
    return fl.permute(data, list(range(data.ndim))[::-1] if perm is None else perm)


@operator("Concat", since=4)
def concat(*inputs: Tensor, axis: int) -> Tensor:
    return fl.cat(list(inputs), axis)


def _parts(size: int, split: list[int] | None, count: int) -> list[int]:
    """Sizes of parts: those given, or equal ones, of which the last may be smaller."""
    if split is not None:
        return split
    each = -(-size // count)
    return [max(min(each, size - k * each), 0) for k in range(count)]


@operator("Split", since=13)
def split(
    input: Tensor, split: Ints | None = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int
) -> tuple[Tensor, ...]:
    split_sizes = None if split is None else ints(split)
    sizes = _parts(input.shape[axis], split_sizes, outputs if num_outputs is None else num_outputs)
    return tuple(fl.split_with_sizes(input, sizes, axis))


@operator("Tile", since=6)
def tile(input: Tensor, repeats: Ints) -> Tensor:
    return fl.tile(input, ints(repeats))


@operator("Pad", since=11)
def pad(
    data: Tensor,
    pads: Ints,
    constant_value: Tensor | None = None,
    axes: Ints | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Elements before and behind each axis, or, where they are below 0, that many fewer."""
    numbers = ints(pads)
    dims = list(range(data.ndim)) if axes is None else [d % data.ndim for d in ints(axes)]
    if len(numbers) != 2 * len(dims):
        raise ValueError(f"Pad: {len(dims)} axes take {2 * len(dims)} pads, and {len(numbers)} are given")
    before, behind = [0] * data.ndim, [0] * data.ndim
    for k, d in enumerate(dims):
        before[d], behind[d] = numbers[k], numbers[k + len(dims)]
    if mode == "constant":
        return _pad_constant(data, before, behind, constant_value)
    for d, (a, b) in enumerate(zip(before, behind)):
        if a or b:
            data = fl.index_select(data, d, _reached(data.shape[d], a, b, mode))
    return data


def _pad_constant(data: Tensor, before: list[int], behind: list[int], value: Tensor | None) -> Tensor:
    pairs = [n for d in reversed(range(data.ndim)) for n in (before[d], behind[d])]
    if "bool" in str(data.dtype):
        filled = bool(value) if value is not None else False
        return nn.pad(data.to(by_name["uint8"]), pairs, value=int(filled)).to(data.dtype)
    return nn.pad(data, pairs, value=0 if value is None else value.reshape(()).item())


def _reached(size: int, before: int, behind: int, mode: str) -> Tensor:
    """The elements that a padded line has, by their places."""
    at = fl.arange(-before, size + behind)
    if mode == "edge":
        return at.clamp(0, size - 1)
    if mode == "wrap":
        return at.remainder(size)
    if mode != "reflect":
        raise ValueError(f"Pad: the mode must be constant, edge, reflect or wrap, got '{mode}'")
    around = max(2 * (size - 1), 1)
    at = at.remainder(around)
    return fl.where(at < size, at, around - at)


@operator("Trilu")
def trilu(input: Tensor, k: Ints | None = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else ints(k)[0]
    diagonal = max(min(diagonal, input.shape[-1] + 1), -input.shape[-2] - 1)
    return fl.triu(input, diagonal) if upper else fl.tril(input, diagonal)


@operator("DepthToSpace")
def depth_to_space(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = input.shape
    b = blocksize
    if mode == "DCR":
        parts = fl.permute(fl.reshape(input, [n, b, b, c // (b * b), h, w]), [0, 3, 4, 1, 5, 2])
    else:
        parts = fl.permute(fl.reshape(input, [n, c // (b * b), b, b, h, w]), [0, 1, 4, 2, 5, 3])
    return fl.reshape(parts, [n, c // (b * b), h * b, w * b])


@operator("SpaceToDepth")
def space_to_depth(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = input.shape
    b = blocksize
    parts = fl.reshape(input, [n, c, h // b, b, w // b, b])
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return fl.reshape(fl.permute(parts, order), [n, c * b * b, h // b, w // b])


@operator("ReverseSequence")
def reverse_sequence(
    input: Tensor, sequence_lens: Ints, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first elements of each sequence the other way round, by their lengths."""
    lengths = fl.tensor(ints(sequence_lens), dtype=by_name["int64"])[:, None]
    at = fl.arange(input.shape[time_axis])
    places = fl.where(at < lengths, lengths - 1 - at, at)
    rows = fl.movedim(input, [batch_axis, time_axis], [0, 1])
    result = rows[fl.arange(rows.shape[0])[:, None], places]
    return fl.movedim(result, [0, 1], [batch_axis, time_axis])


@operator("EyeLike")
def eye_like(input: Tensor, *, dtype: DType | None = None, k: int = 0) -> Tensor:
    rows, columns = input.shape
    at = fl.arange(columns) - fl.arange(rows)[:, None]
    return (at == k).to(input.dtype if dtype is None else dtype)


@operator("Range")
def number_range(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, last, step = (x.item() for x in (start, limit, delta))
    count = max(-int((last - first) // -step), 0)
    if not start.is_floating_point():
        return fl.arange(first, last, step, dtype=start.dtype) if count else fl.zeros(0, dtype=start.dtype)
    return (start.reshape(()) + fl.arange(count).to(start.dtype) * delta.reshape(())).to(start.dtype)


@operator("ConstantOfShape")
def constant_of_shape(input: Ints, *, value: Tensor | None = None) -> Tensor:
    sizes = ints(input)
    if value is None:
        return fl.zeros(sizes)
    return fl.broadcast_to(value.reshape(()), sizes).clone()


@operator("CenterCropPad")
def center_crop_pad(input_data: Tensor, shape: Ints, *, axes: list[int] | None = None) -> Tensor:
    """The middle of the data in these sizes, with zeros around it where they are larger."""
    dims = list(range(input_data.ndim)) if axes is None else [d % input_data.ndim for d in axes]
    before, behind = [0] * input_data.ndim, [0] * input_data.ndim
    for d, n in zip(dims, ints(shape)):
        more = n - input_data.shape[d]
        before[d] = more // 2 if more >= 0 else -(-more // 2)
        behind[d] = more - before[d]
    return _pad_constant(input_data, before, behind, None)
