"""Blocks of images as columns, and back (im2col and col2im)."""

from __future__ import annotations

import math
from typing import NamedTuple

from ....codegen import expr as ex
from ....core.base.tensor import TensorBase
from ...declare import checks
from ...declare.dtype_groups import EVERY, INTEGRAL
from ...declare.indexed import indexed
from ...declare.registry import leaf, library
from ...declare.results import each_part
from ..pooling.pooling import ntuple, positive

_STATIC = ("stride", "padding", "dilation")


@indexed(static=_STATIC, moves=("x",))
def blocks(at, x, *, stride, padding, dilation):
    """(N, C, *kernel, *places) of an image (N, C, *)."""
    n = len(stride)
    taps, places = at[2 : 2 + n], at[2 + n :]
    return x.get(
        (*at[:2], *(o * s - p + k * d for o, s, p, k, d in zip(places, stride, padding, taps, dilation))), 0
    )


@indexed(static=(*_STATIC, "kernel"), effort=16)
def joined(at, y, *, kernel, stride, padding, dilation):
    """An image (N, C, *) as the sum of its blocks (N, C, *kernel, *places)."""
    n = len(stride)

    def term(*taps):
        valid, places = None, []
        for d, (i, k, s, p, step) in enumerate(zip(at[2:], taps, stride, padding, dilation)):
            reach = i + p - k * step
            o = ex.div(reach, s)
            fits = (reach >= 0) & (reach == o * s) & (o < y.size(2 + n + d))
            valid = fits if valid is None else valid & fits
            places.append(o)
        return y.load((*at[:2], *taps, *places), valid)

    return at.sum(kernel, term)


class Blocks(NamedTuple):
    """How the blocks lie."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def places(self, sizes) -> list[int]:
        return [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(sizes, self.kernel, self.stride, self.padding, self.dilation)
        ]

    def numbers(self) -> dict:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}


def _blocks(name: str, kernel_size, dilation, padding, stride) -> Blocks:
    result = Blocks(
        ntuple(name, "kernel_size", kernel_size, 2),
        ntuple(name, "stride", stride, 2),
        ntuple(name, "padding", padding, 2),
        ntuple(name, "dilation", dilation, 2),
    )
    for field, least in (("kernel", 1), ("stride", 1), ("dilation", 1), ("padding", 0)):
        positive(name, field, getattr(result, field), least)
    return result


@leaf("library", label="Im2ColBackward0", batching="images")
def blocks_of(input: TensorBase, way: Blocks, sizes: tuple[int, ...]) -> TensorBase:
    """The blocks (N, C, *kernel, *places) of images (N, C, *sizes)."""
    shape = (*input.shape[:2], *way.kernel, *way.places(sizes))
    return blocks(shape, input, **way.numbers())


@blocks_of.derivative
def _to_blocks(grad: TensorBase, way: Blocks, sizes: tuple[int, ...]) -> TensorBase:
    return sum_of_blocks(grad, way, sizes)


@leaf("library", label="Col2ImBackward0", batching="images")
def sum_of_blocks(input: TensorBase, way: Blocks, sizes: tuple[int, ...]) -> TensorBase:
    """Images (N, C, *sizes) as the sums of their blocks (N, C, *kernel, *places)."""
    return joined((*input.shape[:2], *sizes), input, kernel=way.kernel, **way.numbers())


@sum_of_blocks.derivative
def _to_sum(grad: TensorBase, way: Blocks, sizes: tuple[int, ...]) -> TensorBase:
    return blocks_of(grad, way, sizes)


@library(
    "composite",
    "nn.functional.unfold",
    name="im2col",
    aten="im2col",
    batching="images 2d",
    dtypes=EVERY - INTEGRAL,
)
def unfold(input: TensorBase, kernel_size, dilation=1, padding=0, stride=1) -> TensorBase:
    """The blocks of (N, C, H, W) as columns: (N, C · block, places).  RuntimeError where no block fits.

    >>> import flambeau
    >>> flambeau.nn.functional.unfold(flambeau.arange(4.0).reshape(1, 1, 2, 2), 2)
    tensor([[[0.],
             [1.],
             [2.],
             [3.]]])
    """
    if input.is_complex():
        return each_part(unfold, input, kernel_size, dilation, padding, stride)
    checks.dtypes("unfold", checks.FLOATS | {"bool"}, input=input)
    b = _blocks("unfold", kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            f"unfold(): Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(input.shape)}"
        )
    places = b.places(input.shape[-2:])
    if min(places) < 1:
        raise RuntimeError(
            f"unfold(): Given input with spatial size {tuple(input.shape[-2:])}, {b}, calculated shape of the array of sliding "
            f"blocks as {tuple(places)}, but its components must be at least one."
        )
    image = input if input.ndim == 4 else input.unsqueeze(0)
    result = blocks_of(image, b, tuple(image.shape[2:])).reshape(
        image.shape[0], image.shape[1] * math.prod(b.kernel), math.prod(places)
    )
    return result if input.ndim == 4 else result.squeeze(0)


@library(
    "composite",
    "nn.functional.fold",
    name="col2im",
    aten="col2im",
    batching="images 1d",
    dtypes=EVERY - INTEGRAL,
)
def fold(input: TensorBase, output_size, kernel_size, dilation=1, padding=0, stride=1) -> TensorBase:
    """Columns (N, C · block, places) added up to an image (N, C, *output_size): the adjoint of `unfold`.

    Shape:
        input: (N, C · block, places) or (C · block, places); result: (N, C, *output_size) or (C,
            *output_size)

    Raises:
        RuntimeError: the shape fits no image of that size

    >>> import flambeau
    >>> flambeau.nn.functional.fold(flambeau.ones(1, 2, 2), output_size=(1, 3), kernel_size=(1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    if input.is_complex():
        return each_part(fold, input, output_size, kernel_size, dilation, padding, stride)
    b, sizes = (
        _blocks("fold", kernel_size, dilation, padding, stride),
        ntuple("fold", "output_size", output_size, 2),
    )
    if not isinstance(output_size, int) and len(output_size) != 2:
        raise RuntimeError(f"fold(): expected output_size to be 2 numbers, got {tuple(output_size)}")
    checks.dtypes("fold", checks.FLOATS | {"bool"}, input=input)
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            f"fold(): Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    block, places = math.prod(b.kernel), b.places(sizes)
    if input.shape[-2] % block:
        raise RuntimeError(
            f"fold(): Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={input.shape[-2]} and kernel_size={b.kernel}."
        )
    if min(places) < 1 or input.shape[-1] != math.prod(places):
        raise RuntimeError(
            f"fold(): Given output_size={sizes}, kernel_size={b.kernel}, dilation={b.dilation}, padding={b.padding}, "
            f"stride={b.stride}, expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{' * '.join(map(str, places))} = {math.prod(places)}, but got input.size(2)={input.shape[-1]}."
        )
    columns = input if input.ndim == 3 else input.unsqueeze(0)
    channels = columns.shape[1] // block
    apart = columns.reshape(columns.shape[0], channels, *b.kernel, *places)
    result = sum_of_blocks(apart, b, tuple(sizes))
    return result if input.ndim == 3 else result.squeeze(0)
