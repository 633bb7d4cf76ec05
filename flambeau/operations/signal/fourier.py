"""Discrete Fourier transforms of tensors on the host, outside the tape: by our own passes (`core/lib/fourier.pyx`), and by SciPy for
lengths that these leave out: those with prime factors above 13 and of more than 1000 elements, and some beyond two million.
"""

from __future__ import annotations

from typing import Any

from ...codegen import tiles  # noqa: F401  says who provides the passes
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.lib import fourier
from ..declare.host import Result, computed

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
    if len(dims) > 1:
        x = complex_to_complex(x, dims[:-1], 1.0, False)
    kind = by_name[REAL_OF[x.dtype.name]]
    if x.numel() and not fourier.possible(n, True, x.numel() // x.shape[last], _wide(x)):
        shape = [*x.shape[:last], n, *x.shape[last + 1 :]]

        def transform(a: Any) -> Any:
            import scipy.fft

            return scipy.fft.irfftn(a, [n], axes=(last,), norm="forward") * a.real.dtype.type(scale)

        return computed(Result(shape, kind), transform, x)
    rows = x.movedim(last, -1).contiguous()
    result = x.new_empty((*rows.shape[:-1], n), dtype=kind)
    fourier.complex_to_real(rows, result, scale)
    return result.movedim(-1, last).contiguous()


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
