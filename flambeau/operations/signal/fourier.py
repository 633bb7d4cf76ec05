"""Discrete Fourier transforms of tensors on the host, outside the tape: by our own passes (`core/lib/fourier.pyx`), and by SciPy for
lengths that these leave out: those with prime factors above 13 and of more than 1000 elements, and some beyond two million.
"""

from __future__ import annotations

import math
from typing import Any

from ...codegen import tiles  # noqa: F401  says who provides the passes
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.lib import fourier
from ..declare.host import Result, computed

IN_CACHE = (
    1 << 19
)  # bytes of images that are transformed along both dimensions while a core's second cache holds them
COMPLEX_OF = {"float32": "complex64", "float64": "complex128"}
REAL_OF = {v: k for k, v in COMPLEX_OF.items()}


def complex_to_complex(
    x: TensorBase, dims: tuple[int, ...], scale: float, forward: bool, own: bool = False
) -> TensorBase:
    """The transform of complex numbers along `dims`, contiguous; in place where x, contiguous, is the caller's `own`."""
    if not x.numel() or not dims:
        return (x * scale).contiguous()
    result = None if own else fourier.transformed_rows(x, dims, scale, not forward, x.shape[dims[-1]], False)
    if result is not None:
        return result
    if not all(_possible(x, d) for d in dims):
        return _by_scipy(x, dims, scale, forward)
    out = x if own else x.new_empty(x.shape)
    source = x.contiguous()
    if _are_images(x, dims, x.shape[-1]):
        for a, b in _parts(source, out):
            fourier.complex_to_complex(a, b, 1.0, not forward)
            fourier.complex_along(b, b, 1, scale, not forward)
        return out
    order = sorted(dims, reverse=True)  # the last dimension first: it is read row by row
    for k, d in enumerate(order):
        factor = scale if k == len(order) - 1 else 1.0
        if d == x.ndim - 1:
            fourier.complex_to_complex(source, out, factor, not forward)
        elif fourier.possible_along(x.shape[d], _wide(x)):
            fourier.complex_along(source, out, d, factor, not forward)
        else:  # too long for signals side by side
            rows = source.movedim(d, -1).contiguous()
            fourier.complex_to_complex(rows, rows, factor, not forward)
            out.copy_(rows.movedim(-1, d))
        source = out
    return out


def real_to_complex(x: TensorBase, dims: tuple[int, ...], scale: float, values: int) -> TensorBase:
    """The forward transform of real numbers, contiguous; of its last dimension (of `dims`) so many values, all or the first n/2 + 1."""
    last, others = dims[-1], dims[:-1]
    n = x.shape[last]
    result = fourier.transformed_rows(x, dims, scale, False, values, False)
    if result is not None:
        return result
    kind = by_name[COMPLEX_OF[x.dtype.name]]
    rows = x.movedim(last, -1)
    if x.numel() and not fourier.possible(n, True, x.numel() // n, x.dtype.name == "float64"):
        if values == n:
            return complex_to_complex(x.to(kind), dims, scale, True)
        shape = [*x.shape[:last], values, *x.shape[last + 1 :]]

        def transform(a: Any) -> Any:
            import scipy.fft

            return scipy.fft.rfftn(a, axes=(last,)) * a.dtype.type(1.0 if others else scale)

        result = computed(Result(shape, kind), transform, x)
    elif _are_images(x, dims, values):
        result = x.new_empty((*x.shape[:-1], values), dtype=kind)
        for a, b in _parts(x.contiguous(), result):
            fourier.real_to_complex(a, b, 1.0)
            fourier.complex_along(b, b, 1, scale, False)
        return result
    else:
        result = x.new_empty((*rows.shape[:-1], values), dtype=kind)
        fourier.real_to_complex(rows.contiguous(), result, 1.0 if others else scale)
        result = result.movedim(-1, last).contiguous()
    return complex_to_complex(result, others, scale, True, own=True) if others else result


def complex_to_real(x: TensorBase, dims: tuple[int, ...], scale: float, n: int) -> TensorBase:
    """The inverse of `real_to_complex`, but for its scale: n values in the last of `dims`."""
    last = dims[-1]
    result = fourier.transformed_rows(x, dims, scale, True, n, True)
    if result is not None:
        return result
    kind = by_name[REAL_OF[x.dtype.name]]
    fits = x.numel() and fourier.possible(n, True, x.numel() // x.shape[last], _wide(x))
    if fits and _are_images(x, dims, x.shape[-1]):
        result = x.new_empty((*x.shape[:-1], n), dtype=kind)
        for a, b in _parts(x.contiguous(), result):
            rows = a.new_empty(a.shape)
            fourier.complex_along(a, rows, 1, 1.0, True)
            fourier.complex_to_real(rows, b, scale)
        return result
    if len(dims) > 1:
        x = complex_to_complex(x, dims[:-1], 1.0, False)
    if x.numel() and not fits:
        shape = [*x.shape[:last], n, *x.shape[last + 1 :]]

        def transform(a: Any) -> Any:
            import scipy.fft

            return scipy.fft.irfftn(a, [n], axes=(last,), norm="forward") * a.real.dtype.type(scale)

        return computed(Result(shape, kind), transform, x)
    rows = x.movedim(last, -1).contiguous()
    result = x.new_empty((*rows.shape[:-1], n), dtype=kind)
    fourier.complex_to_real(rows, result, scale)
    return result.movedim(-1, last).contiguous()


def _are_images(x: TensorBase, dims: tuple[int, ...], values: int) -> bool:
    """Whether these are the last two dimensions of several images, of `values` complex numbers a line, that a cache holds one by one."""
    if len(dims) != 2 or sorted(dims) != [x.ndim - 2, x.ndim - 1] or dims[-1] != x.ndim - 1 or x.ndim < 3:
        return False
    wide = x.dtype.name in ("float64", "complex128")
    each = x.shape[-2] * values * (16 if wide else 8)
    return 2 * each <= IN_CACHE < x.numel() // x.shape[-1] * values * 8 and fourier.possible_along(
        x.shape[-2], wide
    )


def _parts(*images: TensorBase) -> list[tuple[TensorBase, ...]]:
    """The same few images of contiguous tensors each time."""
    flat = [t.view(math.prod(t.shape[:-2]), *t.shape[-2:]) for t in images]
    largest = max(t[0].numel() * t.dtype.itemsize for t in flat)
    count, step = flat[0].shape[0], max(IN_CACHE // largest, 1)
    return [tuple(t[k : k + step] for t in flat) for k in range(0, count, step)]


def _wide(x: TensorBase) -> bool:
    return x.dtype.name == "complex128"


def _possible(x: TensorBase, d: int) -> bool:
    n = x.shape[d]
    return fourier.possible(n, False, x.numel() // n, _wide(x))


def _by_scipy(x: TensorBase, dims: tuple[int, ...], scale: float, forward: bool) -> TensorBase:
    def transform(a: Any) -> Any:
        import scipy.fft

        function, norm = (scipy.fft.fftn, "backward") if forward else (scipy.fft.ifftn, "forward")
        return function(a, axes=dims, norm=norm) * a.real.dtype.type(scale)

    return computed(Result(x.shape, x.dtype), transform, x)
