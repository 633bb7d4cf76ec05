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
from ...core.call.watching import is_watched
from ...core.lib import extremes as core_extremes
from ...core.places.join import cat
from ...core.tape.contexts import unrecorded
from ..declare import checks
from ..declare.examples import of_call
from ..declare.host import holds
from ..declare.pointwise import COMPLEX, FLOATING, NUMBERS
from ..declare.registry import library, register
from ..declare.results import into, named_result
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


def _accumulating(who: str, input: TensorBase, dim: int, given: dtype | None) -> dtype:
    """The dtype that is accumulated in: the one given, int64 for integers."""
    _wrapped(dim, input, who)
    if given is None:
        given = input.dtype if input.is_floating_point() or input.is_complex() else INT64
    if given.name == "bool":
        raise NotImplementedError(f'{who}(): "{who}" not implemented for {given}')
    return given


@library("scan", reference="numpy.cumsum", autocast=("whole", "float32 unless told"))
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
    given = _accumulating("cumsum", input, dim, dtype)
    found = running_sum(input, dim, given)
    if tape.recording(input):
        tape.record(
            "CumsumBackward0", lambda g: _reversed_sum(to_dtype(g, input.dtype), dim), (input,), found
        )
    return into(out, found, "cumsum")


@library("scan", reference="numpy.cumprod", autocast=("whole", "float32 unless told"))
def cumprod(
    input: TensorBase, dim: int, *, dtype: dtype | None = None, out: TensorBase | None = None
) -> TensorBase:
    """Π x₀ … xₖ for each k along `dim`, the running product; integers and bools give int64.

    >>> import flambeau
    >>> flambeau.tensor([1, 2, 3, 4]).cumprod(0)
    tensor([ 1,  2,  6, 24])
    """
    x = to_dtype(input, _accumulating("cumprod", input, dim, dtype))
    found = running_product(x, dim)
    if tape.recording(x):
        tape.record("CumprodBackward0", _cumprod_gradient, (x,), found, (x, found), (dim,))
    return into(out, found, "cumprod")


def _cumprod_gradient(grad: TensorBase, x: TensorBase, out: TensorBase, dim: int) -> TensorBase:
    """Σ_j≥i grad_j · (product of all x up to j but x_i), of the conjugates of complex x.

    Up to the first zero that is Σ grad_j · out_j / x_i.  At it, the zero is left out of the product; after it, every
    product holds the zero.
    """
    if x.ndim == 0:
        return grad
    x, out = conj(x), conj(out)
    with unrecorded():
        zero = x == 0
        without_zero = holds(~zero)
    if without_zero:
        return _reversed_sum(grad * out, dim) / x
    if tape.recording(grad, x):
        return _cumprod_gradient_by_element(grad, x, dim)
    seen = zero.cumsum(dim)
    first = zero & (seen == 1)
    others = x.masked_fill(first, 1.0)
    before = _reversed_sum(grad * out, dim) / x.masked_fill(zero, 1.0)
    at = _reversed_sum(grad * others.cumprod(dim), dim)
    return before.masked_fill(seen > 0, 0.0) + at.masked_fill(~first, 0.0)


def _cumprod_gradient_by_element(grad: TensorBase, x: TensorBase, dim: int) -> TensorBase:
    """The definition, element by element: right at zeros for derivatives of any order, quadratic in the length."""
    n = x.shape[dim]
    one = x.narrow(dim, 0, 1).detach() * 0.0 + 1.0
    found = []
    for k in range(n):
        others = [x.narrow(dim, 0, k), one, x.narrow(dim, k + 1, n - k - 1)]
        products = cat([o for o in others if o.shape[dim]], dim).cumprod(dim)
        found.append((grad * products).narrow(dim, k, n - k).sum(dim, True))
    return cat(found, dim)


@library("scan")
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
    found = running_logsumexp(input, dim)
    if tape.recording(input):
        tape.record("LogcumsumexpBackward0", _logcumsumexp_gradient, (input,), found, (input, found), (dim,))
    return into(out, found, "logcumsumexp")


def _logcumsumexp_gradient(grad: TensorBase, x: TensorBase, out: TensorBase, dim: int) -> TensorBase:
    """e^x_i · Σ_j≥i grad_j · e^-out_j, the positive and the negative terms each by its logarithm.

    Where out_j is -inf, so is every x_i up to it: e^x_i is 0 whatever stands for out_j.
    """
    if x.ndim == 0:
        return grad
    if x.is_complex():
        if tape.recording(grad, x):  # linear in grad, at 0 too
            top = x.real.detach().amax(dim, True)
            top = top.masked_fill(top.abs() == math.inf, 0.0)
            weighted = grad * (top - out).exp().conj()
            return (x - top).exp().conj() * weighted.flip(dim).cumsum(dim).flip(dim)
        logs = grad.conj().log() - out
        return (logcumsumexp(logs.flip(dim), dim).flip(dim) + x).exp().conj()
    out = out.masked_fill(out == -math.inf, 0.0)

    if tape.recording(
        grad
    ):  # tangents are the adjoint of this: it must be linear in grad, at 0 too, as logarithms are not
        top = x.detach().amax(dim, True).double()
        top = top.masked_fill(top.abs() == math.inf, 0.0)
        weighted = grad.double() * (top - out.double()).clamp(max=700.0).exp()
        return ((x.double() - top).exp() * weighted.flip(dim).cumsum(dim).flip(dim)).to(grad.dtype)

    def part(terms: TensorBase) -> TensorBase:
        inside = terms > 0
        logs = terms.masked_fill(~inside, 1.0).log().masked_fill(~inside, -math.inf) - out
        return (logcumsumexp(logs.flip(dim), dim).flip(dim) + x).exp()

    return part(grad) - part(-grad)


def _by_vectors(input: TensorBase, axis: int, smallest: bool) -> tuple[TensorBase, TensorBase] | None:
    """Extremes of rows; None where those who watch are to see the scan, and for what has no function."""
    if input._composed or is_watched():
        return None
    with unrecorded():
        return core_extremes.running(input, axis, smallest)


def _extreme(who: str, shown: str, kind: str, run: Scan, result: type):
    def function(input: TensorBase, dim: int, *, out: tuple | None = None):
        axis = _wrapped(dim, input, who)
        values, indices = _by_vectors(input, axis, kind == "min") or run(input, dim)
        if tape.recording(input):
            tape.record(f"{who.capitalize()}Backward0", _to_places, (input,), values, (indices,), (axis,))
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
    return register(who, "scan", function, batching="along flat")


def _to_places(grad: TensorBase, indices: TensorBase, dim: int) -> TensorBase:
    return grad if grad.ndim == 0 else grad.new_zeros(grad.shape).scatter_add(dim, indices, grad)


cummax = _extreme(
    "cummax", "cummax(values=tensor([2, 3, 3]), indices=tensor([0, 1, 1]))", "max", running_max, cummax_result
)
cummin = _extreme(
    "cummin", "cummin(values=tensor([2, 2, 1]), indices=tensor([0, 0, 2]))", "min", running_min, cummin_result
)


def _in_place(function, sign: str, shown: str):
    """`x.cumsum_(dim)`: the scan written over the tensor."""

    def write(self: TensorBase, dim: int, *, dtype: dtype | None = None) -> TensorBase:
        from ..pointwise.arithmetic import overwrite

        tape._check_in_place(self, function.__name__ + "_")
        return overwrite(self, function, dim, **({} if dtype is None else {"dtype": dtype}))

    write.__name__ = write.__qualname__ = function.__name__ + "_"
    write.__doc__ = (
        f"`{function.__name__}` in place: {sign} x₀ … xₖ for each k along `dim`.\n\n"
        "Shape:\n    self: any, which stays\n\nRaises:\n    IndexError: `dim` is out of range"
        + of_call(f"tensor([1, 2, 3]).{write.__name__}(0)", shown)
    )
    register(write.__name__, "scan", write, places=(f"Tensor.{write.__name__}",))


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


@library("composite", "trapezoid", "trapz", reference="numpy.trapezoid", autocast=("whole", "float32"))
def trapezoid(y: TensorBase, x: TensorBase | None = None, *, dx: float = 1.0, dim: int = -1) -> TensorBase:
    """Σ dx · (yₖ + yₖ₊₁) / 2 along `dim`: the integral by the trapezoidal rule, at places `x` or at
    distance `dx`.

    >>> import flambeau
    >>> flambeau.trapezoid(flambeau.tensor([1., 2., 3.]))
    tensor(4.)
    """
    return _panels(y, x, dx, dim, "trapezoid").sum(dim) / 2.0


@library("composite", "cumulative_trapezoid", autocast=("whole", "float32"))
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


@library("composite", "gradient", reference="numpy.gradient")
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
    if input.dtype.name in ("uint8", "bool"):
        raise RuntimeError(f"gradient(): expected input of signed numbers, got {input.dtype}")
    if not (input.is_floating_point() or input.is_complex()):
        input = input * 1.0
    found = []
    for axis, given in zip(axes, spacings):
        if input.shape[axis] < edge_order + 1:
            raise RuntimeError(
                "gradient(): expected each dimension size to be at least edge_order+1, got "
                f"{input.shape[axis]} along dimension {axis}"
            )
        if isinstance(given, TensorBase) and given.ndim == 0:
            given = given.item()
        found.append(_slope(input, axis, given, edge_order))
    return tuple(found)
