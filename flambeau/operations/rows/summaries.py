"""Functions over the reductions: those whose signature is more than (input, dim, keepdim)."""

from __future__ import annotations

import math
from typing import Any

from ...core.base.tensor import TensorBase
from ...core.call.operands import result_type
from ...core.call.pointwise import set_sum_to
from ..declare import checks
from ..declare.half_types import in_float32
from ..declare.registry import library, register
from ..declare.results import accepts_out, category, into, named_result
from ..pointwise.arithmetic import clamp as _clamp
from ..pointwise.arithmetic import is_counted, maximum, minimum, overwrite
from ..pointwise.complex_numbers import conj
from ..pointwise.elementary import log_odds
from ..pointwise.elementary import numbers_only as _numbers_only
from . import reductions as r

aminmax_result = named_result("aminmax", "min", "max")


@library("composite", "Tensor.sum_to_size")
def sum_to_size(input, *size):
    """Sum over the dimensions along which a tensor of shape `size` would broadcast to this one."""
    sizes = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    lead = input.ndim - len(sizes)
    if lead < 0:
        raise RuntimeError(
            f"sum_to_size(): size {list(sizes)} is not expandable to size {list(input.shape)}."
        )
    dims = tuple(range(lead)) + tuple(
        d for d in range(lead, input.ndim) if sizes[d - lead] == 1 and input.shape[d] != 1
    )
    if any(s != input.shape[lead + d] and s != 1 for d, s in enumerate(sizes)):
        raise RuntimeError(
            f"sum_to_size(): size {list(sizes)} is not expandable to size {list(input.shape)}."
        )
    if not dims:
        return input if sizes or category(input.dtype) > 1 else input.long()
    return r.sum_(input, dims, True).reshape(sizes) if lead else r.sum_(input, dims, True)


set_sum_to(sum_to_size)


def _extreme(name: str, all_of, pair, best):
    def function(input, dim=None, keepdim=False, *, out=None):
        if dim is None:
            return all_of(input) if out is None else into(out, all_of(input), name)
        if isinstance(dim, TensorBase):
            return pair(input, dim) if out is None else pair(input, dim, out=out)
        found = best.over((input,), dim, keepdim)
        values, indices = (found.values.bool() if input.dtype.name == "bool" else found.values), found.indices
        if out is not None:
            return type(found)(into(out[0], values, name), into(out[1], indices, name))
        return found if input.dtype.name != "bool" else type(found)(values, indices)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{name}(input): the {name} of all elements; {name}(input, dim, keepdim=False): values and indices along `dim` as a "
        f"named tuple; {name}(input, other): element by element."
    )
    register(f"{name}_of", "composite", function, places=(name, f"Tensor.{name}"), thin=True)
    return function


max = _extreme("max", r.amax, maximum, r.max_with_index)  # noqa: A001
min = _extreme("min", r.amin, minimum, r.min_with_index)  # noqa: A001


@library("composite")
@accepts_out(exact=True)
def aminmax(input, *, dim=None, keepdim=False):
    """Smallest and largest element as a named tuple (min, max)."""
    return aminmax_result(r.amin(input, dim, keepdim), r.amax(input, dim, keepdim))


def _correction(dim, unbiased, correction):
    """The three spellings of how many degrees of freedom are lost: dim may hold `unbiased` in the oldest one."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, float(correction)


def _spread(name: str, op, doc: str):
    def function(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
        dim, free = _correction(dim, unbiased, correction)
        return op.over((input,), dim, keepdim, params=(free,), out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    register(name, "composite", function, thin=True)
    return function


var = _spread("var", r.variance, "Variance over `dim`: squared deviations over n - correction (default 1).")
std = _spread("std", r.deviation, "Standard deviation over `dim`, the root of `var`.")


@library("composite")
def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Variance and mean over `dim`."""
    dim, free = _correction(dim, unbiased, correction)
    return r.variance_and_mean.over((input,), dim, keepdim, params=(free,))


@library("composite")
def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Standard deviation and mean over `dim`."""
    dim, free = _correction(dim, unbiased, correction)
    return r.deviation.over((input,), dim, keepdim, params=(free,)), r.mean(input, dim, keepdim)


@library("composite", "logsumexp", "Tensor.logsumexp", "special.logsumexp")
def logsumexp(input, dim, keepdim=False, *, out=None):
    """log Σ exp(input) over `dim`, without overflow."""
    if input.is_complex():
        top = input.real.detach().amax(dim, True)
        top = top.masked_fill(top.abs() == math.inf, 0.0)
        logs = (input - top).exp().sum(dim, keepdim).log()
        return into(out, logs + top.reshape(logs.shape), "logsumexp")
    x = input if input.is_floating_point() else input.to(result_type(input, 1.0))
    return r.log_sum_exp.over((x,), dim, keepdim, out=out)


def _prod_gradient(grad, x, dim, keepdim):
    """Product of all others: through cumulative products from both ends, right where elements are zero."""
    if dim is None:
        flat = x.reshape(-1)
        return (_others(flat, 0) * grad).reshape(x.shape)
    return _others(x, dim) * (grad if keepdim else grad.unsqueeze(dim))


def _others(x, dim):
    from ..moving.joining import cat

    n = x.shape[dim]
    if n == 0:
        return x
    one = x.new_ones([1 if d == dim % x.ndim else s for d, s in enumerate(x.shape)])
    before = cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = cat([one, x.flip([dim]).narrow(dim, 0, n - 1)], dim).cumprod(dim).flip([dim])
    return before * after


@library("composite", reference="numpy.prod")
def prod(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """Product over one `dim`, or of all elements; integers and bools give int64."""
    from ...core import tape

    if dtype is not None and dtype.name == "bool":
        return r.all_(input, dim, keepdim, out=out)
    if dtype is not None and input.dtype != dtype:
        input = input.to(dtype)
    if not tape.recording(input):
        return r.product.over((input,), dim, keepdim, dtype, out=out)
    found = r.product.over((input.detach(),), dim, keepdim)
    if input.ndim == 0:
        dim = None
    tape.record(
        "ProdBackward0",
        lambda g, x: (_prod_gradient(g, conj(x), dim, keepdim) if x.ndim else g,),
        (input,),
        found,
        (input,),
    )
    return found


def _number(p) -> float | None:
    """The order of a norm that has a name; None for the nuclear norm, which is none of vectors."""
    if isinstance(p, (int, float)):
        return float(p)
    return {"fro": 2.0, "inf": math.inf, "-inf": -math.inf}.get(p)


@library("composite", "norm", "Tensor.norm")
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The p-norm over `dim` (all by default): (Σ |x|^p)^(1/p), the largest |x| for inf, the count of
    non-zeros for 0.
    """
    order = _number(2.0 if p is None else p)
    if order is None:
        from ..linalg.matrices import linalg_norm

        return linalg_norm(input, p, dim, keepdim, dtype=dtype, out=out)
    return vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)


def check_norm(who: str, x: TensorBase, ord: Any, dtype: Any) -> None:
    """RuntimeError for numbers that have no norm, a complex order, and a dtype that would take something from the numbers."""
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(f"{who}(): Expected a floating point or complex tensor as input. Got {x.dtype}")
    if isinstance(ord, complex):
        raise RuntimeError(
            f"{who}(): Expected a non-complex number as argument 'ord', the order of the norm, got {ord}"
        )
    if dtype is None:
        return
    if not (dtype.is_floating_point or dtype.is_complex) or dtype.is_complex != x.is_complex():
        kind = "complex for complex inputs" if x.is_complex() else "real floating point for real inputs"
        raise RuntimeError(f"{who}(): argument 'dtype' should be {kind}, but got {dtype}")
    if dtype.itemsize < x.dtype.itemsize:
        raise RuntimeError(
            f"{who}(): the dtype of the input, {x.dtype}, should be convertible without narrowing to the argument 'dtype', {dtype}"
        )


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The norm of order `ord` of vectors along `dim` (all dimensions flattened by default); its derivative is 0 where an
    element (or all of them) is 0.
    """
    check_norm("linalg.vector_norm", x, ord, dtype)
    if dtype is not None:
        x = x.to(dtype)
    x = x.abs() if x.is_complex() else x
    if ord == 2:
        found = r.norm2.over((x,), dim, keepdim)
    elif ord == math.inf:
        found = r.amax(x.abs(), dim, keepdim)
    elif ord == -math.inf:
        found = r.amin(x.abs(), dim, keepdim)
    elif ord == 0:
        found = r.sum_(is_counted(x), dim, keepdim)
    elif ord == 1:
        found = r.sum_(x.abs(), dim, keepdim)
    else:
        found = _power_sum(x, float(ord), dim, keepdim)
    return into(out, found, "linalg.vector_norm")


@in_float32()
def _power_sum(x, p: float, dim, keepdim):
    """(Σ |x|^p)^(1/p), whose derivative leaves out zeros: that of a power below 1 is infinite there."""
    zero = x.detach() == 0
    powers = (x.abs().masked_fill(zero, 1.0) ** p).masked_fill(zero, 0.0 if p > 0 else math.inf)
    total = r.sum_(powers, dim, keepdim)
    none = total.detach() == 0
    return (total.masked_fill(none, 1.0) ** (1.0 / p)).masked_fill(none, 0.0 if p > 0 else math.inf)


register("vector_norm", "composite", vector_norm, places=("linalg.vector_norm",), thin=True)


@library("composite")
def dist(input, other, p=2):
    """The p-norm of input - other."""
    return vector_norm(input - other, float(p))


@library("composite")
@accepts_out
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    """Sum in which NaN counts as zero."""
    checks.dtypes("nansum", checks.FLOATS | checks.INTEGERS | {"bool"}, RuntimeError, input=input)
    return r.sum_(
        input.masked_fill(input.isnan(), 0) if input.is_floating_point() else input, dim, keepdim, dtype=dtype
    )


@library("composite")
@accepts_out
@in_float32()
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """Mean of the elements that are numbers."""
    checks.dtypes("nanmean", checks.FLOATS | checks.COMPLEXES, RuntimeError, input=input)
    if input.is_complex():
        return r.sum_(input.masked_fill(input.isnan(), 0), dim, keepdim, dtype=dtype) / r.sum_(
            (~input.isnan()).to(input.dtype), dim, keepdim
        )
    return nansum(input, dim, keepdim, dtype=dtype) / r.sum_((~input.isnan()).to(input.dtype), dim, keepdim)


@library("composite", "nan_to_num", "Tensor.nan_to_num", reference="numpy.nan_to_num")
@accepts_out
def nan_to_num(input, nan=0.0, posinf=None, neginf=None):
    """NaN and infinities replaced by numbers: the dtype's largest and lowest for the infinities by default."""
    from ..._typeinfo import finfo

    if not input.is_floating_point() and not input.is_complex():
        return input.clone()
    limits = finfo(input.dtype)
    return _numbers_only(
        input,
        nan=0.0 if nan is None else nan,
        posinf=limits.max if posinf is None else posinf,
        neginf=limits.min if neginf is None else neginf,
    )


@library(
    "composite", "logit", "Tensor.logit", "special.logit", domain=(0.1, 0.9), reference="scipy.special.logit"
)
@accepts_out
@in_float32()
def logit(input, eps=None):
    """log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps]."""
    return log_odds(input if eps is None else _clamp(input, eps, 1 - eps))


@library("composite", "float_power", "Tensor.float_power")
@accepts_out
def float_power(input, exponent):
    """input ** exponent in float64, or in complex128 where either is complex."""
    from ...core.base.dtypes import by_name

    some_complex = any(
        x.is_complex() if isinstance(x, TensorBase) else isinstance(x, complex) for x in (input, exponent)
    )
    double = by_name["complex128" if some_complex else "float64"]
    first = input.to(double) if isinstance(input, TensorBase) else input
    number = complex if some_complex else float
    second = exponent.to(double) if isinstance(exponent, TensorBase) else number(exponent)
    return first**second


@library("composite")
@in_float32()
def renorm(input, p, dim, maxnorm, *, out=None):
    """Slices along `dim` whose p-norm is above maxnorm, scaled down to it.

    RuntimeError for a tensor of less than two dimensions, a p not above 0 and a negative maxnorm.
    """
    if input.ndim < 2:
        raise RuntimeError(f"renorm(): input needs at least 2 dimensions, got {input.ndim} dimensions")
    if isinstance(p, complex) or not p > 0 or not maxnorm >= 0:
        raise RuntimeError(
            f"renorm(): expected p, a real number, to be > 0 and maxnorm to be >= 0, got {p} and {maxnorm}"
        )
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(
            f"renorm(): Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {dim})"
        )
    others = tuple(d for d in range(input.ndim) if d != dim % input.ndim)
    lengths = vector_norm(input, p, others, True)
    above = lengths > maxnorm
    factor = (maxnorm / (lengths.masked_fill(~above, 1.0) + 1e-7)).masked_fill(~above, 1.0)
    return into(out, input * factor.to(input.dtype), "renorm")


@library("composite", "Tensor.renorm_", name="renorm_in_place")
def renorm_(self, p, dim, maxnorm):
    """`renorm` in place."""
    return overwrite(self, renorm, p, dim, maxnorm)
