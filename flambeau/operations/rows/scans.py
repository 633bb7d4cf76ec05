"""Scans along a dimension, differences, and the trapezoidal rule."""

from __future__ import annotations

import math
from typing import Any

from ...codegen import functions as fn
from ...codegen import kernels as kn
from ...codegen import tiles  # noqa: F401  says who provides the functions
from ...core import tape
from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.call.destination import check_over, prepare_out
from ...core.call.interceptors import no_interceptors
from ...core.call.wrapping import is_wrapping
from ...core.lib.ordering import extremes as core_extremes
from ...core.places.join import cat
from ..declare import checks
from ..declare.dtype_groups import ALL, BOOL, UNSIGNED
from ..declare.examples import of_call
from ..declare.host import holds
from ..declare.pointwise import COMPLEX, FLOATING, NUMBERS
from ..declare.registry import leaf, library, register
from ..declare.results import into, named_result, overwrite
from ..declare.scan import Scan, scan
from ..declare.shapes import wrapped as _wrapped
from ..pointwise.complex_numbers import conj
from ..pointwise.copying import to_dtype
from .reductions import wide
from .softmax import merge_logsumexp

INT64 = by_name["int64"]

cummax_result = named_result("cummax", "values", "indices")
cummin_result = named_result("cummin", "values", "indices")


@scan(dtypes=NUMBERS)
def running_sum(input):
    """The sum of each element and those before it."""
    return fn.cast(kn.running_sum(wide(input)), input.dtype)


@scan(dtypes=NUMBERS)
def running_product(input):
    """The product of each element and those before it."""
    return fn.cast(kn.running_prod(wide(input)), input.dtype)


def _merge_complex(a, b):
    """log(exp a + exp b) as PyTorch has it: the imaginary part is that of the larger number and an angle of at most π/2."""
    swap = (fn.real(b) > fn.real(a)) | fn.isnan(fn.real(b))
    larger, smaller = fn.where(swap, b, a), fn.where(swap, a, b)
    endless = fn.absolute(fn.real(larger)) == math.inf
    return fn.where(endless, larger, larger + fn.log1p(fn.exp(smaller - larger)))


@scan(dtypes=FLOATING | COMPLEX)
def running_logsumexp(input):
    """log Σ exp over each element and those before it, relative to the largest of them."""
    x = wide(input)
    if fn.is_complex(input.dtype):
        return fn.cast(kn.prefix(_merge_complex, (-math.inf,), x)[0], input.dtype)
    top, total = kn.prefix(merge_logsumexp, (-math.inf, 0.0), x, fn.like(x, 1.0))
    return fn.cast(fn.where(fn.absolute(top) == math.inf, top, fn.log(total) + top), input.dtype)


def _extreme_value(input):
    return fn.cast(input, "uint8") if input.dtype == "bool" else input


@scan()
def running_max(input):
    """The largest element so far, and where it last stood."""
    value, place = kn.running_max_index(_extreme_value(input))
    return fn.cast(value, input.dtype), place


@scan()
def running_min(input):
    """The smallest element so far, and where it last stood."""
    value, place = kn.running_min_index(_extreme_value(input))
    return fn.cast(value, input.dtype), place


def _reversed_sum(x: TensorBase, dim: int) -> TensorBase:
    """Sum of each element and those after it."""
    return x if x.ndim == 0 else cumsum(x.flip(dim), dim).flip(dim)


def _accumulating(
    who: str, input: TensorBase, dim: int, given: dtype | None, out: TensorBase | None
) -> dtype:
    """The dtype that is accumulated in: the one given, that of `out=`, int64 for integers."""
    _wrapped(dim, input, who)
    if given is None and isinstance(out, TensorBase):
        given = out.dtype
    if given is None:
        given = input.dtype if input.is_floating_point() or input.is_complex() else INT64
    if given.name == "bool":
        raise NotImplementedError(f'{who}(): "{who}" not implemented for {given}')
    return given


def _scanned(
    who: str, scan: Scan, input: TensorBase, dim: int, given: dtype, out: TensorBase | None
) -> TensorBase:
    """A scan in that dtype, written to `out=` where that is given."""
    if out is not None:
        prepare_out(who, out, (input,), given, input.shape)
    return scan(input, dim, given, out)


@leaf(
    "scan",
    "cumsum",
    "Tensor.cumsum",
    reference="numpy.cumsum",
    autocast=("fallthrough", "float32 unless dtype"),
    identity=0,
)
def cumsum(
    input: TensorBase, dim: int, *, dtype: dtype | None = None, out: TensorBase | None = None
) -> TensorBase:
    """Σ x₀ … xₖ for each k along `dim`, the running sum; integers and bools give int64, half types are
    summed in float32, float32 in float64.

    >>> import flambeau
    >>> flambeau.tensor([[1, 2, 3], [4, 5, 6]]).cumsum(1)
    tensor([[ 1,  3,  6],
            [ 4,  9, 15]])
    """
    return _scanned("cumsum", running_sum, input, dim, _accumulating("cumsum", input, dim, dtype, out), out)


@cumsum.derivative
def _(grad: TensorBase, dim: int, dtype_input: dtype) -> TensorBase:
    return _reversed_sum(grad.to(dtype_input), dim)


@leaf(
    "scan",
    "cumprod",
    "Tensor.cumprod",
    reference="numpy.cumprod",
    autocast=("fallthrough", "float32 unless dtype"),
    identity=1,
)
def cumprod(
    input: TensorBase, dim: int, *, dtype: dtype | None = None, out: TensorBase | None = None
) -> TensorBase:
    """Π x₀ … xₖ for each k along `dim`, the running product; integers and bools give int64.

    >>> import flambeau
    >>> flambeau.tensor([1, 2, 3, 4]).cumprod(0)
    tensor([ 1,  2,  6, 24])
    """
    given = _accumulating("cumprod", input, dim, dtype, out)
    return _scanned("cumprod", running_product, to_dtype(input, given), dim, given, out)


@cumprod.derivative
def _(grad: TensorBase, input: TensorBase, result: TensorBase, dim: int, dtype_input: dtype) -> TensorBase:
    if input.ndim == 0:
        return grad.to(dtype_input)
    x, out = conj(input.to(result.dtype)), conj(result)
    if holds(x != 0):
        return (_reversed_sum(grad * out, dim) / x).to(dtype_input)
    return cumprod_backward(grad, x, out, dim).to(dtype_input)


@leaf("scan", batching="parts", inputs=("upstream", "x"))
def cumprod_backward(upstream: TensorBase, x: TensorBase, output: TensorBase, dim: int) -> TensorBase:
    """Σ_j≥i upstream_j · (product of all x up to j but x_i), for any number of zeros.

    Up to the first zero that is Σ upstream_j · output_j / x_i.  At it, the zero is left out of the product; after it, every
    product holds the zero.
    """
    zero = x == 0
    seen = zero.cumsum(dim)
    first = zero & (seen == 1)
    others = x.masked_fill(first, 1.0)
    before = _reversed_sum(upstream * output, dim) / x.masked_fill(zero, 1.0)
    at = _reversed_sum(upstream * others.cumprod(dim), dim)
    return before.masked_fill(seen > 0, 0.0) + at.masked_fill(~first, 0.0)


@cumprod_backward.derivative
def _(grad: TensorBase, upstream: TensorBase, x: TensorBase, dim: int) -> tuple:
    """By the definition, element by element: quadratic in the length."""
    n, (x, upstream) = x.shape[dim], (conj(x), conj(upstream))
    one, nothing = x.narrow(dim, 0, 1).detach() * 0.0 + 1.0, upstream.detach() * 0.0
    to_upstream = to_x = grad * 0.0
    for k in range(n):
        others = cat([x.narrow(dim, 0, k), one, x.narrow(dim, k + 1, n - k - 1)], dim)
        products, own = others.cumprod(dim), grad.narrow(dim, k, 1)
        later = [nothing.narrow(dim, 0, k), upstream.narrow(dim, k, n - k)]
        to_upstream = to_upstream + own * cat(
            [nothing.narrow(dim, 0, k), products.narrow(dim, k, n - k)], dim
        )
        rest = cumprod_backward(cat(later, dim), others, products, dim)
        parts = [rest.narrow(dim, 0, k), one * 0.0, rest.narrow(dim, k + 1, n - k - 1)]
        to_x = to_x + own * cat(parts, dim)
    return to_upstream, to_x


@leaf("scan", "logcumsumexp", "Tensor.logcumsumexp", identity=-math.inf, dtypes=FLOATING | COMPLEX)
def logcumsumexp(input: TensorBase, dim: int, *, out: TensorBase | None = None) -> TensorBase:
    """log Σ exp(x₀ … xₖ) for each k along `dim`, without overflow.  NotImplementedError for integers.

    NotImplementedError for integers.

    >>> import flambeau
    >>> flambeau.tensor([0.0, 0.0]).logcumsumexp(0)
    tensor([0.0000, 0.6931])
    """
    _wrapped(dim, input, "logcumsumexp")
    if not input.is_floating_point() and not input.is_complex():
        raise NotImplementedError(f'logcumsumexp(): "logcumsumexp" not implemented for {input.dtype}')
    return _scanned("logcumsumexp", running_logsumexp, input, dim, input.dtype, out)


@logcumsumexp.derivative
def _(grad: TensorBase, input: TensorBase, result: TensorBase, dim: int) -> TensorBase:
    return grad if input.ndim == 0 else logcumsumexp_backward(grad, input, result, dim)


def _weighted(terms: TensorBase, x: TensorBase, output: TensorBase, dim: int, backward: bool) -> TensorBase:
    """Σ terms · e^(x - output) over the places so far, or those from here on: by logarithms, so that nothing overflows."""

    def summed(logs: TensorBase) -> TensorBase:
        if backward:
            return (logcumsumexp((logs - output).flip(dim), dim).flip(dim) + x).exp()
        return (logcumsumexp(logs + x, dim) - output).exp()

    if x.is_complex():
        return summed((terms.conj() if backward else terms).log())
    output = output.masked_fill(output == -math.inf, 0.0)  # every x up to there is -inf, too

    def part(terms: TensorBase) -> TensorBase:
        inside = terms > 0
        return summed(terms.masked_fill(~inside, 1.0).log().masked_fill(~inside, -math.inf))

    return part(terms) - part(-terms)


@leaf("scan", batching="parts")
def logcumsumexp_backward(upstream: TensorBase, x: TensorBase, output: TensorBase, dim: int) -> TensorBase:
    """e^x_i · Σ_j≥i upstream_j · e^-output_j, conjugate where it is complex."""
    return conj(_weighted(upstream, x, output, dim, True))


@leaf("scan", batching="parts")
def logcumsumexp_tangents(tangent: TensorBase, x: TensorBase, output: TensorBase, dim: int) -> TensorBase:
    """e^-output_j · Σ_i≤j tangent_i · e^x_i: the adjoint of `logcumsumexp_backward`."""
    if x.is_complex():
        return _weighted(tangent, x, output, dim, False)
    result = _weighted(tangent.double(), x.double(), output.double(), dim, False)
    return result.to(tangent.dtype)


@logcumsumexp_backward.derivative
def _(
    grad: TensorBase, upstream: TensorBase, x: TensorBase, output: TensorBase, dim: int, result: TensorBase
) -> tuple:
    found = logcumsumexp_tangents(grad, x, output, dim)
    return found, conj(grad) * result, -(upstream * conj(found))


@logcumsumexp_tangents.derivative
def _(
    grad: TensorBase, tangent: TensorBase, x: TensorBase, output: TensorBase, dim: int, result: TensorBase
) -> tuple:
    found = logcumsumexp_backward(grad, x, output, dim)
    return found, conj(tangent) * found, -(grad * conj(result))


def _by_vectors(input: TensorBase, axis: int, smallest: bool) -> tuple[TensorBase, TensorBase] | None:
    """Extremes of rows; None for what has no function."""
    return None if input._is_wrapper else core_extremes.running(input, axis, smallest)


def _extreme(who: str, shown: str, kind: str, run: Scan, result: type):
    def function(input: TensorBase, dim: int, *, out: tuple | None = None):
        axis = _wrapped(dim, input, who)
        values, indices = _by_vectors(input, axis, kind == "min") or run(input, dim)
        if out is not None:
            return result(into(out[0], values, who), into(out[1], indices, who))
        return result(values, indices)

    function.__name__ = function.__qualname__ = who
    function.__doc__ = (
        f"{kind}(x₀ … xₖ) for each k along `dim` and where it stands, as a named tuple (values, indices).\n\n"
        "Of equal elements the last one counts; from the first NaN on, all are NaN.\n\n"
        "Shape:\n    input: any; the results have the same\n\nRaises:\n    IndexError: `dim` is out of range"
        + of_call(f"{who}(flambeau.tensor([2, 3, 1]), 0)", shown)
    )
    names = ("values", "indices")
    least = math.inf if kind == "min" else -math.inf
    made = leaf(
        "scan",
        who,
        f"Tensor.{who}",
        results=names,
        batching="along flat",
        identity=least,
        dtypes=ALL,
        gives=result,
    )(function)
    made.derivative(_to_places)
    return made


def _to_places(grad_values: TensorBase, indices: TensorBase, dim: int) -> TensorBase:
    if grad_values.ndim == 0:
        return grad_values
    return grad_values.new_zeros(grad_values.shape).scatter_add_(dim, indices, grad_values)


cummax = _extreme(
    "cummax",
    "flambeau.return_types.cummax(\nvalues=tensor([2, 3, 3]),\nindices=tensor([0, 1, 1]))",
    "max",
    running_max,
    cummax_result,
)
cummin = _extreme(
    "cummin",
    "flambeau.return_types.cummin(\nvalues=tensor([2, 2, 1]),\nindices=tensor([0, 0, 2]))",
    "min",
    running_min,
    cummin_result,
)


def _in_place(function, sign: str, shown: str):
    """`x.cumsum_(dim)`: the scan written over the tensor."""

    def write(self: TensorBase, dim: int, *, dtype: dtype | None = None) -> TensorBase:
        if dtype not in (None, self.dtype):
            raise RuntimeError(
                f"{function.__name__}_(): Bad in-place call: input tensor dtype {self.dtype} and output tensor dtype {dtype} should match"
            )
        check_over(write.__name__, self)
        if tape.tracked(self) or is_wrapping(self) or not no_interceptors([[self]]):
            return overwrite(self, function, dim, dtype=self.dtype)
        return function(self, dim, dtype=self.dtype, out=self)

    write.__name__ = write.__qualname__ = function.__name__ + "_"
    write.__doc__ = (
        f"`{function.__name__}` in place: {sign} x₀ … xₖ for each k along `dim`.\n\n"
        "Shape:\n    self: any, which stays\n\nRaises:\n    IndexError: `dim` is out of range"
        + of_call(f"tensor([1, 2, 3]).{write.__name__}(0)", shown)
    )
    register(
        write.__name__, "scan", write, places=(f"Tensor.{write.__name__}",), composite=True, dtypes=NUMBERS
    )


_in_place(cumsum, "Σ", "tensor([1, 3, 6])")
_in_place(cumprod, "Π", "tensor([1, 2, 6])")


# --- differences and integrals -------------------------------------------------------------------------------------------
@library("composite", reference="numpy.diff")
def diff(
    input: TensorBase,
    n: int = 1,
    dim: int = -1,
    prepend: TensorBase | None = None,
    append: TensorBase | None = None,
    *,
    out: TensorBase | None = None,
) -> TensorBase:
    """x[k + 1] - x[k] along `dim`, n times over; `prepend` and `append` are joined on first.

    >>> import flambeau
    >>> flambeau.tensor([1, 4, 9]).diff()
    tensor([3, 5])
    """
    if input.ndim == 0:
        raise RuntimeError("diff(): expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"diff(): order must be non-negative but got {n}")
    axis = _wrapped(dim, input, "diff")
    for name, more in (("prepend", prepend), ("append", append)):
        if more is None:
            continue
        checks.rank("diff", name, more, input.ndim)
        if any(a != b for d, (a, b) in enumerate(zip(more.shape, input.shape)) if d != axis):
            raise RuntimeError(
                f"diff(): expected '{name}' to have the shape of the input but along dimension {axis}, got {list(more.shape)} for "
                f"{list(input.shape)}"
            )
    if n == 0:
        return into(out, input.clone(), "diff")
    parts = [p for p in (prepend, input, append) if p is not None]
    x = cat(parts, axis) if len(parts) > 1 else input
    for _ in range(min(n, x.shape[axis])):
        length = max(x.shape[axis] - 1, 0)
        after, before = x.narrow(axis, x.shape[axis] - length, length), x.narrow(axis, 0, length)
        x = after ^ before if x.dtype.name == "bool" else after - before
    return into(out, x, "diff")


def _panels(y: TensorBase, x: TensorBase | None, dx, dim: int, who: str) -> TensorBase:
    """The areas between neighbouring points, times two."""
    if y.ndim == 0:
        raise IndexError(f"{who}(): Dimension specified as {dim} but tensor has no dimensions")
    axis = _wrapped(dim, y, who)
    checks.not_bool(who, y=y, x=x)
    if x is not None and x.ndim > y.ndim:
        raise RuntimeError(
            f"{who}(): expected 'x' to have at most as many dimensions as 'y', {y.ndim}, got {x.ndim}"
        )
    if y.shape[axis] == 0:
        return (y.narrow(axis, 0, 0)) * 1.0
    n = y.shape[axis] - 1
    sums = y.narrow(axis, 1, n) + y.narrow(axis, 0, n)
    if x is None:
        return sums * dx
    if x.ndim == 1:
        if x.shape[0] != y.shape[axis]:
            raise RuntimeError(
                f"{who}(): There must be one `x` value for each sample point, got {x.shape[0]} and {y.shape[axis]}"
            )
        x = x.reshape([x.shape[0] if d == axis else 1 for d in range(y.ndim)])
    steps = diff(x, 1, axis - y.ndim)
    return sums * steps


@library(
    "composite",
    "trapezoid",
    "trapz",
    reference="numpy.trapezoid",
    autocast=("fallthrough", "float32"),
    dtypes=NUMBERS,
)
def trapezoid(y: TensorBase, x: TensorBase | None = None, *, dx: float = 1.0, dim: int = -1) -> TensorBase:
    """Σ dx · (yₖ + yₖ₊₁) / 2 along `dim`: the integral by the trapezoidal rule, at places `x` or at
    distance `dx`.

    >>> import flambeau
    >>> flambeau.trapezoid(flambeau.tensor([1., 2., 3.]))
    tensor(4.)
    """
    return _panels(y, x, dx, dim, "trapezoid").sum(dim) / 2.0


@library("composite", "cumulative_trapezoid", autocast=("fallthrough", "float32"), dtypes=NUMBERS)
def cumulative_trapezoid(
    y: TensorBase, x: TensorBase | None = None, *, dx: float = 1.0, dim: int = -1
) -> TensorBase:
    """Σ dx · (yₖ + yₖ₊₁) / 2 up to each place along `dim`, at places `x` or at distance `dx`.
    It is the running integral by the trapezoidal rule.

    Shape:
        y: (*, n, *); result: (*, n - 1, *)

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.cumulative_trapezoid(flambeau.tensor([0.0, 2.0, 4.0]))
    tensor([1., 4.])
    """
    return _panels(y, x, dx, dim, "cumulative_trapezoid").cumsum(dim) / 2.0


def _slope(f: TensorBase, axis: int, spacing: Any, edge_order: int) -> TensorBase:
    """Second-order differences along one dimension; `spacing` is a distance or the coordinates of all points."""
    n = f.shape[axis]

    def part(start: int, length: int) -> TensorBase:
        return f.narrow(axis, start, length)

    if isinstance(spacing, TensorBase):
        h = diff(spacing).reshape([-1 if d == axis else 1 for d in range(f.ndim)])
        step = lambda start, length: h.narrow(axis, start, length)
    else:
        step = lambda start, length: spacing
    before, after = step(0, n - 2), step(1, n - 2)
    inner = (
        part(2, n - 2) * (before / (after * (before + after)))
        + part(1, n - 2) * ((after - before) / (before * after))
        - part(0, n - 2) * (after / (before * (before + after)))
    )
    if edge_order == 1:
        first = (part(1, 1) - part(0, 1)) / step(0, 1)
        last = (part(n - 1, 1) - part(n - 2, 1)) / step(n - 2, 1)
    else:
        a, b = step(0, 1), step(1, 1)
        first = (
            part(0, 1) * (-(2 * a + b) / (a * (a + b)))
            + part(1, 1) * ((a + b) / (a * b))
            - part(2, 1) * (a / (b * (a + b)))
        )
        a, b = step(n - 3, 1), step(n - 2, 1)
        last = (
            part(n - 3, 1) * (b / (a * (a + b)))
            - part(n - 2, 1) * ((a + b) / (a * b))
            + part(n - 1, 1) * ((a + 2 * b) / (b * (a + b)))
        )
    return cat([first, inner, last], axis)


@library("composite", "gradient", reference="numpy.gradient", dtypes=NUMBERS - UNSIGNED)
def gradient(
    input: TensorBase, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[TensorBase, ...]:
    """Derivatives along dimensions (`dim`, all by default), from differences to both neighbours; at the edges one-sided ones
    of `edge_order` 1 or 2.

    (x[i + 1] - x[i - 1]) / 2h inside, for distances h.

    `spacing` is a distance, one for each dimension, or a 1-dim tensor of coordinates for each.  RuntimeError for a
    dimension with too few elements.

    >>> import flambeau
    >>> flambeau.gradient(flambeau.tensor([1., 4., 9.]))
    (tensor([3., 4., 5.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient(): it supports only edge_order=1 and edge_order=2, got {edge_order}")
    if dim is None:
        axes = list(range(input.ndim))
    else:
        axes = [_wrapped(d, input, "gradient") for d in (dim if isinstance(dim, (list, tuple)) else (dim,))]
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"gradient(): dim {axes} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    if len(spacings) != len(axes):
        raise RuntimeError(
            f"gradient(): expected spacing to be unspecified, a scalar or a list of length {len(axes)}, got length {len(spacings)}"
        )
    if input.dtype.name in BOOL | UNSIGNED:
        raise RuntimeError(f"gradient(): expected input of signed numbers, got {input.dtype}")
    if not (input.is_floating_point() or input.is_complex()):
        input = input * 1.0
    result = []
    for axis, given in zip(axes, spacings):
        if input.shape[axis] < edge_order + 1:
            raise RuntimeError(
                "gradient(): expected each dimension size to be at least edge_order+1, got "
                f"{input.shape[axis]} along dimension {axis}"
            )
        if isinstance(given, TensorBase) and given.ndim == 0:
            given = given.item()
        result.append(_slope(input, axis, given, edge_order))
    return tuple(result)
