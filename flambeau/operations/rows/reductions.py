"""Reductions: one declaration each, blocks, stages and kernels follow; and those whose signature is more than
(input, dim, keepdim).
"""

from __future__ import annotations

import math

from ...codegen import functions as fn
from ...codegen import kernels as kn
from ...codegen.differentiate import flat
from ...core.base.tensor import TensorBase
from ...core.call.pointwise import set_sum_to
from ...core.places.join import cat
from ...core.views.strided import expand_gradient
from ..declare import checks
from ..declare.dtype_groups import ALL
from ..declare.examples import of_call
from ..declare.half_types import in_float32
from ..declare.pointwise import COMPLEX, EVERY, FLOATING, NUMERIC, pointwise
from ..declare.registry import leaf, library, register
from ..declare.results import accepts_out, category, into, named_result
from ..declare.rows import reduction, widened
from ..pointwise.arithmetic import maximum, minimum
from ..pointwise.complex_numbers import conj


def restore(value, sizes, dims, keepdim):
    """A reduced tensor with its dimensions back (as size 1), so that it broadcasts against the input."""
    if keepdim or not sizes:
        return value
    return value.reshape([1 if d in dims else n for d, n in enumerate(sizes)])


expand_reduced = leaf(
    "view", name="expand_reduced", inputs=("value",), label="ExpandBackward0", sharding="expanded again"
)(expand_gradient)


@expand_reduced.derivative
def _summed_again(grad, dims, keepdim):
    return grad.sum(dims, keepdim) if dims else grad


def count(sizes, dims) -> int:
    """How many elements a row has."""
    return math.prod(sizes[d] for d in dims) if sizes else 1


def wide(x):
    """In float64 where it is float32: for what is worth the double width."""
    return fn.cast(x, {"float32": "float64", "complex64": "complex128"}.get(x.dtype, x.dtype))


@reduction(
    places=("sum", "Tensor.sum"),
    name="sum",
    accumulate=widened,
    reference="numpy.sum",
    dtypes=EVERY,
    autocast=("fallthrough", "float32 unless dtype"),
    identity=0,
    partial="sum",
)
def sum_(input):
    """Sum over `dim` (an int, a tuple, or None for all), Σᵢ xᵢ; integers and bools give int64.

    Long rows are summed in blocks, so the result has the same bits for any number of threads.

    >>> import flambeau
    >>> flambeau.tensor([[1., 2.], [3., 4.]]).sum(0)
    tensor([4., 6.])
    """
    return kn.sum(input)


sum_.of_out = True


@sum_.derivative
def _(grad, sizes, dims, keepdim):
    return (expand_reduced(grad, sizes, dims, keepdim),)


@reduction(places=("mean", "Tensor.mean"), dtypes=FLOATING | COMPLEX, reference="numpy.mean", partial="avg")
def mean(input):
    """Σ input / n over `dim`, the arithmetic mean; floating-point dtypes only.

    >>> import flambeau
    >>> flambeau.mean(flambeau.tensor([[1.0, 2.0], [3.0, 5.0]]), dim=1)
    tensor([1.5000, 4.0000])
    """
    return kn.mean(input)


@mean.derivative
def _(grad, sizes, dims, keepdim):
    n = count(sizes, dims)
    return (expand_reduced(grad * (1.0 / n if n else float("nan")), sizes, dims, keepdim),)


@reduction(
    places=("amax", "Tensor.amax"),
    reference="numpy.max",
    empty="Expected reduction dim to have non-zero size.",
    identity=-math.inf,
    partial="max",
)
def amax(input):
    """max(input) over `dim`; equal ones share the gradient.

    >>> import flambeau
    >>> flambeau.amax(flambeau.tensor([[1, 4], [3, 2]]), dim=1)
    tensor([4, 3])
    """
    return kn.max(input) if input.dtype != "bool" else kn.any(input)


@reduction(
    places=("amin", "Tensor.amin"),
    reference="numpy.min",
    empty="Expected reduction dim to have non-zero size.",
    identity=math.inf,
    partial="min",
)
def amin(input):
    """min(input) over `dim`; equal ones share the gradient.

    >>> import flambeau
    >>> flambeau.amin(flambeau.tensor([[1, 4], [3, 2]]), dim=1)
    tensor([1, 2])
    """
    return kn.min(input) if input.dtype != "bool" else kn.all(input)


def _shared(grad, input, out, sizes, dims, keepdim):
    hit = input == restore(out, sizes, dims, keepdim)
    share = hit.to(grad.dtype)
    return (restore(grad, sizes, dims, keepdim) * (share / share.sum(dims, True)),)


amax.derivative(_shared)

amin.derivative(_shared)


@pointwise(places=("_stands_at",), dtypes=FLOATING, in_place=False)
def stands_at(input, top):
    """1 where input = top or both are NaN, else 0."""
    same = (input == top) | ((input != input) & (top != top))
    return fn.where(same, fn.like(input, 1.0), fn.like(input, 0.0))


@stands_at.derivative
def _(grad, input, top):
    return flat(grad), flat(grad)


@reduction(
    places=("_max_of_all",),
    name="max",
    registered="max_of_all",
    label="MaxBackward1",
    empty="Expected reduction dim to have non-zero size.",
    identity=-math.inf,
    partial="max",
)
def max_of_all(input):
    """max(input); equal ones share the gradient, and where it is NaN, those that are."""
    return kn.max(input) if input.dtype != "bool" else kn.any(input)


@reduction(
    places=("_min_of_all",),
    name="min",
    registered="min_of_all",
    label="MinBackward1",
    empty="Expected reduction dim to have non-zero size.",
    identity=math.inf,
    partial="min",
)
def min_of_all(input):
    """min(input); equal ones share the gradient, and where it is NaN, those that are."""
    return kn.min(input) if input.dtype != "bool" else kn.all(input)


def _shared_of_all(grad, input, out, sizes, dims, keepdim):
    share = stands_at(input, restore(out, sizes, dims, keepdim))
    return (restore(grad, sizes, dims, keepdim) * (share / share.sum(dims, True)),)


max_of_all.derivative(_shared_of_all)

min_of_all.derivative(_shared_of_all)


@reduction(
    places=("_argmax",),
    fields=("values", "indices"),
    name="max",
    empty="Expected reduction dim to have non-zero size.",
    batching="along all",
)
def max_with_index(input):
    """Largest element and where it first stands."""
    return kn.max_index(fn.cast(input, "uint8") if input.dtype == "bool" else input)


@reduction(
    places=("_argmin",),
    fields=("values", "indices"),
    name="min",
    empty="Expected reduction dim to have non-zero size.",
    batching="along all",
)
def min_with_index(input):
    """Smallest element and where it first stands."""
    return kn.min_index(fn.cast(input, "uint8") if input.dtype == "bool" else input)


@reduction(
    reference="numpy.argmax",
    dtypes=NUMERIC,
    empty="Expected reduction dim to have non-zero size.",
    batching="along flat",
    identity=-math.inf,
)
def argmax(input):
    """argmax(input): where the largest element stands (the first of equal ones), along `dim` or in the
    flattened tensor (int64).
    (int64).

    >>> import flambeau
    >>> flambeau.argmax(flambeau.tensor([[1, 4], [3, 2]]), dim=1)
    tensor([1, 0])
    """
    return kn.max_index(input)[1]


@reduction(
    reference="numpy.argmin",
    dtypes=NUMERIC,
    empty="Expected reduction dim to have non-zero size.",
    batching="along flat",
    identity=math.inf,
)
def argmin(input):
    """argmin(input): where the smallest element stands (the first of equal ones), along `dim` or in the
    flattened tensor (int64).
    (int64).

    >>> import flambeau
    >>> flambeau.argmin(flambeau.tensor([[1, 4], [3, 2]]), dim=1)
    tensor([0, 1])
    """
    return kn.min_index(input)[1]


def _to_place(grads, out1, sizes, dims, keepdim):
    grad, where = grads[0], out1
    if not sizes:
        return (grad,)
    if not keepdim:
        grad, where = grad.unsqueeze(dims[0]), where.unsqueeze(dims[0])
    return (grad.new_zeros(sizes).scatter(dims[0], where, grad),)


max_with_index.derivative(_to_place)

min_with_index.derivative(_to_place)


@reduction(
    places=("any", "Tensor.any"),
    name="any",
    reference="numpy.any",
    dtypes=EVERY,
    literal_dims=True,
    batching="along all",
    identity=0,
    partial="max",
)
def any_(input):
    """Whether any input ≠ 0, over `dim` (bool; uint8 for uint8).

    >>> import flambeau
    >>> flambeau.any(flambeau.tensor([[0, 0], [0, 3]]), dim=1)
    tensor([False,  True])
    """
    result = kn.any(input)
    return fn.cast(result, "uint8") if input.dtype == "uint8" else result


@reduction(
    places=("all", "Tensor.all"),
    name="all",
    reference="numpy.all",
    dtypes=EVERY,
    literal_dims=True,
    batching="along all",
    identity=1,
    partial="min",
)
def all_(input):
    """Whether all input ≠ 0, over `dim` (bool; uint8 for uint8).

    >>> import flambeau
    >>> flambeau.all(flambeau.tensor([[0, 1], [2, 3]]), dim=1)
    tensor([False,  True])
    """
    result = kn.all(input)
    return fn.cast(result, "uint8") if input.dtype == "uint8" else result


@reduction(
    places=("count_nonzero", "Tensor.count_nonzero"),
    reference="numpy.count_nonzero",
    dtypes=EVERY,
    listed_dims=True,
    identity=0,
    partial="sum",
)
def count_nonzero(input):
    """Σ (input ≠ 0): how many elements are not zero, over `dim` (int64).

    >>> import flambeau
    >>> flambeau.count_nonzero(flambeau.tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
    """
    return kn.sum(fn.cast(fn.cast(input, "bool"), "int64"))


@reduction(places=("_count_not_finite",), dtypes=FLOATING)
def count_not_finite(input):
    """How many elements are infinite or NaN (int64)."""
    nothing = input - input
    return kn.sum(fn.cast(nothing != nothing, "int64"))


@reduction(places=("_any_improbable",), dtypes=FLOATING)
def any_improbable(input):
    """Whether any element lies outside [0, 1] or is NaN (bool)."""
    inside = (input >= 0) & (input <= 1)
    return kn.any(fn.where(inside, fn.like(input, 0.0), fn.like(input, 1.0)))


@reduction(places=("_prod",), accumulate=widened, name="product", reference="numpy.prod", dtypes=EVERY)
def product(input):
    """Product of a row."""
    return fn.cast(kn.prod(wide(input)), input.dtype)


# --- of more arguments ------------------------------
@library("composite", "Tensor.sum_to_size", autocast="composite")
def sum_to_size(input, *size) -> TensorBase:
    """Σ input over the dimensions along which a tensor of shape `size` would broadcast to this one.

    Shape:
        input: any that `size` broadcasts to; result: `size`

    Raises:
        RuntimeError: `size` does not broadcast to the input's shape

    >>> import flambeau
    >>> flambeau.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
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
    return sum_(input, dims, True).reshape(sizes) if lead else sum_(input, dims, True)


set_sum_to(sum_to_size)


def _extreme(name: str, shown: str, all_of, pair, best, identity: float):
    def function(input, dim=None, keepdim: bool = False, *, out=None):
        if dim is None:
            return all_of(input) if out is None else into(out, all_of(input), name)
        if isinstance(dim, TensorBase):
            return pair(input, dim) if out is None else pair(input, dim, out=out)
        result = best.over((input,), dim, keepdim)
        values, indices = (
            (result.values.bool() if input.dtype.name == "bool" else result.values),
            result.indices,
        )
        if out is not None:
            return type(result)(into(out[0], values, name), into(out[1], indices, name))
        return result if input.dtype.name != "bool" else type(result)(values, indices)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{name}(input): the {name} of all elements; or along `dim`, or of two tensors.\n\n"
        f"`{name}(input, dim, keepdim=False)`: values and indices along `dim` as a named tuple; `{name}(input, other)`: element by "
        "element.\n\nShape:\n    input: any; results: () or without `dim`, or with size 1 there under `keepdim`\n\n"
        "Raises:\n    IndexError: `dim` is out of range\n    RuntimeError: there are no elements"
        + of_call(f"{name}(flambeau.tensor([[1, 4], [3, 2]]), 1)", shown)
    )
    register(
        f"{name}_of",
        "composite",
        function,
        places=(name, f"Tensor.{name}"),
        forwards=True,
        identity=identity,
        dtypes=ALL,
        overloads=(
            "(input: Tensor, *, out: Tensor | None = None) -> Tensor",
            "(input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None) "
            f"-> return_types.{name}",
            "(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor",
        ),
    )
    return function


_LARGEST, _SMALLEST = (
    "flambeau.return_types.max(\nvalues=tensor([4, 3]),\nindices=tensor([1, 0]))",
    "flambeau.return_types.min(\nvalues=tensor([1, 2]),\nindices=tensor([0, 1]))",
)
max = _extreme("max", _LARGEST, max_of_all, maximum, max_with_index, -math.inf)  # type: ignore[has-type]  # noqa: A001
min = _extreme("min", _SMALLEST, min_of_all, minimum, min_with_index, math.inf)  # type: ignore[has-type]  # noqa: A001

aminmax_result = named_result("aminmax", "min", "max")


@library("composite", dtypes=ALL, gives=aminmax_result)
@accepts_out(exact=True)
def aminmax(input, *, dim=None, keepdim: bool = False):
    """min(input) and max(input) over `dim` (all by default), as a named tuple (min, max).

    Shape:
        input: any; results: without `dim`, or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range
        RuntimeError: there are no elements

    >>> import flambeau
    >>> flambeau.aminmax(flambeau.tensor([3, 1, 2]))
    flambeau.return_types.aminmax(
    min=tensor(1),
    max=tensor(3))
    """
    return aminmax_result(amin(input, dim, keepdim), amax(input, dim, keepdim))


def _prod_gradient(grad, x, dim, keepdim):
    """Product of all others: through cumulative products from both ends, right where elements are zero."""
    if dim is None:
        flat = x.reshape(-1)
        return (_others(flat, 0) * grad).reshape(x.shape)
    return _others(x, dim) * (grad if keepdim else grad.unsqueeze(dim))


def _others(x, dim):
    n = x.shape[dim]
    if n == 0:
        return x
    one = x.new_ones([1 if d == dim % x.ndim else s for d, s in enumerate(x.shape)])
    before = cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = cat([one, x.flip([dim]).narrow(dim, 0, n - 1)], dim).cumprod(dim).flip([dim])
    return before * after


@leaf(
    "reduction",
    "prod",
    "Tensor.prod",
    inputs=("input",),
    reference="numpy.prod",
    autocast=("float32", "float32 unless dtype"),
    batching="along flat",
    identity=1,
    partial="product",
)
def prod(input, dim=None, keepdim: bool = False, *, dtype=None, out=None) -> TensorBase:
    """Π input over one `dim`, or of all elements; integers and bools give int64.

    Shape:
        input: any; result: without `dim` (all by default), or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.prod(flambeau.tensor([[1, 2], [3, 4]]), 1)
    tensor([ 2, 12])
    """
    if dtype is None and out is not None:
        dtype = out.dtype  # as a sum, it is computed in it
    if dtype is not None and dtype.name == "bool":
        return all_(input, dim, keepdim, out=out)
    if dtype is not None and input.dtype != dtype:
        input = input.to(dtype)
    return product.over((input,), dim, keepdim, dtype, out=out)


@prod.derivative
def _(grad, input, dim, keepdim, dtype_input):
    x = conj(input.to(grad.dtype))
    result = _prod_gradient(grad, x, dim, keepdim) if x.ndim else grad
    return result.to(dtype_input)


@library("composite", identity=0, dtypes=ALL)
@accepts_out
def nansum(input, dim=None, keepdim: bool = False, *, dtype=None) -> TensorBase:
    """Σ input over `dim` (all by default), in which NaN counts as zero.

    Shape:
        input: any; result: without `dim`, or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nansum(flambeau.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    checks.dtypes("nansum", checks.FLOATS | checks.INTEGERS | {"bool"}, RuntimeError, input=input)
    return sum_(
        input.masked_fill(input.isnan(), 0) if input.is_floating_point() else input, dim, keepdim, dtype=dtype
    )


@library("composite", identity=math.nan, dtypes=FLOATING | COMPLEX)
@accepts_out
@in_float32()
def nanmean(input, dim=None, keepdim: bool = False, *, dtype=None) -> TensorBase:
    """Σ input / n over `dim` (all by default), over the n elements that are numbers.

    Shape:
        input: any; result: without `dim`, or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nanmean(flambeau.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    checks.dtypes("nanmean", checks.FLOATS | checks.COMPLEXES, RuntimeError, input=input)
    if input.is_complex():
        return sum_(input.masked_fill(input.isnan(), 0), dim, keepdim, dtype=dtype) / sum_(
            (~input.isnan()).to(input.dtype), dim, keepdim
        )
    return nansum(input, dim, keepdim, dtype=dtype) / sum_((~input.isnan()).to(input.dtype), dim, keepdim)
