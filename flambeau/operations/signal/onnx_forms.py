"""ONNX forms of Fourier transforms: DFT along one dimension after the other, over pairs of real and imaginary parts."""

from __future__ import annotations

from typing import Any

from ..declare.onnx import onnx_form
from .spectral import fft_c2c, fft_c2r, fft_r2c


def _transformed(g: Any, x: Any, axis: int, **options: int) -> Any:
    """DFT of floats whose last dimension holds parts; ONNX wants a dimension in front."""
    given = g.unsqueeze(x, [0])
    if g.opset >= 20:
        result = g.op("DFT", given, None, g.number(axis + 1, "int64"), **options)
    else:
        result = g.op("DFT", given, axis=axis + 1, **options)
    return g.squeeze(result, [0])


def _scaled(g: Any, x: Any, scale: float) -> Any:
    return x if scale == 1 else g.Mul(x, g.number(scale, x.dtype))


def _all(g: Any, x: Any, rank: int, dims: Any, sizes: Any, forward: bool, scale: float) -> Any:
    """Complex transforms along dimensions; ONNX divides inverse ones by their lengths."""
    for d in dims:
        x = _transformed(g, x, d % rank, inverse=int(not forward))
        scale = scale if forward else scale * sizes[d % rank]
    return _scaled(g, x, scale)


@onnx_form(fft_c2c, pairs=True)
def _(g: Any, input: Any, dims: Any, scale: float, forward: bool) -> Any:
    result = _all(g, g.as_floats(input), input.rank, dims, input.shape, forward, scale)
    return g.as_complex(result, input.dtype)


@onnx_form(fft_r2c, pairs=True)
def _(g: Any, input: Any, dims: Any, scale: float, n: int, onesided: bool) -> Any:
    rank, rest = input.rank, list(dims[:-1])
    x = g.op("Unsqueeze", input, [-1])
    x = _transformed(g, x, dims[-1] % rank, onesided=int(onesided))
    return g.as_complex(_all(g, x, rank, rest, input.shape, True, scale), g.results[0].dtype)


@onnx_form(fft_c2r, pairs=True)
def _(g: Any, input: Any, dims: Any, scale: float, n: int) -> Any:
    """The conjugates that are left out put behind, and the real parts of what comes out."""
    rank, axis = input.rank, dims[-1] % input.rank
    x = _all(g, g.as_floats(input), rank, dims[:-1], input.shape, False, scale)
    half = n // 2 + 1
    x = x if input.shape[axis] == half else g.slice(x, axis, 0, half)
    rest = (n - 1) // 2
    if rest:
        mirrored = g.op("Slice", x, [rest], [0], [axis], [-1])
        signs = g.op(
            "Concat", g.reshape(g.number(1, x.dtype), [1]), g.reshape(g.number(-1, x.dtype), [1]), axis=0
        )
        x = g.op("Concat", x, g.Mul(mirrored, signs), axis=axis)
    result = _scaled(g, _transformed(g, x, axis, inverse=1), n)
    return g.op("Gather", result, g.number(0, "int64"), axis=-1)
