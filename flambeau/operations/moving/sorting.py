"""Sorting and order statistics.

`core/lib/ordering/order.pyx` finds the indices, on devices `on_device/ordering.py`; values are gathered by them, so that gradients
flow.  NaN counts as the largest number.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.formats import contiguous_format
from ...core.base.tensor import TensorBase
from ...core.lib.ordering.order import order
from ...core.tape.contexts import unrecorded
from ..declare import checks
from ..declare.dtype_groups import WIDE
from ..declare.examples import of_call
from ..declare.host import Result, computed, holds
from ..declare.registry import leaf, library, register
from ..declare.results import into, named_result
from ..declare.shapes import wrapped as _wrapped
from ..on_device import ordering
from ..pointwise.copying import to_dtype

sort_result = named_result("sort", "values", "indices")
topk_result = named_result("topk", "values", "indices")
kthvalue_result = named_result("kthvalue", "values", "indices")
median_result = named_result("median", "values", "indices")
nanmedian_result = named_result("nanmedian", "values", "indices")
mode_result = named_result("mode", "values", "indices")

INT64 = by_name["int64"]
INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _comparable(x: TensorBase) -> TensorBase:
    """The elements without history, in a dtype that has an order."""
    checks.dtypes("sort", checks.FLOATS | checks.INTEGERS | {"bool"}, input=x)
    x = x.detach()
    return to_dtype(x, by_name["float32"]) if x.dtype.name in ("float16", "bfloat16") else x


def _order(x: TensorBase, dim: int, descending: bool, first: int = -1) -> TensorBase:
    """Indices that sort along `dim`, or the first of them; equal elements keep their order."""
    x = _comparable(x)
    find = order if x.is_cpu or x.is_meta else ordering.order
    if dim == x.ndim - 1:
        return find(x, descending, first)
    return find(x.movedim(dim, -1), descending, first).movedim(-1, dim).contiguous()


def _given(out: tuple | None, result: tuple, apart: tuple | None = None) -> tuple:
    if out is None:
        return result
    who = type(result).__name__
    return type(result)(*[into(o, r, who, apart=apart) for o, r in zip(out, result)])


def _ordered(who: str, input: TensorBase) -> None:
    """NotImplementedError for complex numbers, which have no order, and for float8."""
    if input.is_complex() or input.is_floating_point():
        checks.dtypes(who, checks.FLOATS | checks.INTEGERS | {"bool"}, input=input)


@leaf(
    "sort",
    "sort",
    "Tensor.sort",
    results=("values", "indices"),
    inputs=("input",),
    batching="along",
    gives=sort_result,
)
def sort(
    input: TensorBase,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    out: tuple | None = None,
) -> tuple[TensorBase, TensorBase]:
    """The elements in order along `dim` and where each stood, as a named tuple (values, indices).

    NaN comes last (first where `descending`).  Equal elements keep their order, whether or not `stable` asks for it.

    >>> import flambeau
    >>> values, indices = flambeau.tensor([3, 1, 2]).sort()
    >>> values, indices
    (tensor([1, 2, 3]), tensor([1, 2, 0]))
    """
    _ordered("sort", input)
    axis = _wrapped(dim, input, "sort")
    if input.ndim == 0:
        return _given(out, sort_result(input.clone(), _zero_place(input)))
    places = _order(input, axis, descending)
    return _given(out, sort_result(input.gather(axis, places), places))


def _zero_place(input: TensorBase) -> TensorBase:
    """The index of a 0-dim tensor's only element."""
    return input.new_zeros((), dtype=INT64)


def _to_places(grad_values: TensorBase, indices: TensorBase, dim: int, shape_input: Any) -> TensorBase:
    """The gradient of elements that were chosen along a dimension."""
    if not shape_input:
        return grad_values.reshape(())
    return grad_values.new_zeros(shape_input).scatter_add_(dim, indices, grad_values)


sort.derivative(_to_places)


def _to_place(
    grad_values: TensorBase, indices: TensorBase, dim: int, keepdim: bool, shape_input: Any
) -> TensorBase:
    """That of one element of each row."""
    if shape_input and not keepdim:
        grad_values, indices = grad_values.unsqueeze(dim), indices.unsqueeze(dim)
    return _to_places(grad_values, indices, dim, shape_input)


def _to_equals(grad_values: TensorBase, values: TensorBase, input: TensorBase, dim: int) -> TensorBase:
    """That of one element of each row, spread evenly over those that equal it."""
    grad_values, values = grad_values.unsqueeze(dim), values.unsqueeze(dim)
    equal = (input == values) | (input.isnan() & values.isnan())
    return (grad_values / equal.sum(dim, True)).masked_fill(~equal, 0)


@library("sort", "argsort", "Tensor.argsort", differentiable=False, batching="along")
def argsort(input: TensorBase, dim: int = -1, descending: bool = False, stable: bool = False) -> TensorBase:
    """Indices (int64) that sort along `dim`: the second result of `sort`.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.argsort(flambeau.tensor([30, 10, 20]))
    tensor([1, 2, 0])
    """
    _ordered("argsort", input)
    axis = _wrapped(dim, input, "argsort")
    return _zero_place(input) if input.ndim == 0 else _order(input, axis, descending)


@library("sort", "msort", "Tensor.msort", composite=True)
def msort(input: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """The elements in order along the first dimension.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.msort(flambeau.tensor([[3, 1], [2, 5]]))
    tensor([[2, 1],
            [3, 5]])
    """
    values = sort(input, 0).values
    return into(out, values, "msort")


@leaf(
    "sort",
    "topk",
    "Tensor.topk",
    results=("values", "indices"),
    inputs=("input",),
    batching="along",
    gives=topk_result,
)
def topk(
    input: TensorBase,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    out: tuple | None = None,
) -> tuple[TensorBase, TensorBase]:
    """The k largest (or smallest) elements along `dim`, in that order, and where they stand: (values, indices).

    NaN counts as the largest.  RuntimeError where there are fewer than k.

    >>> import flambeau
    >>> flambeau.tensor([1., 5., 3.]).topk(2).values
    tensor([5., 3.])
    """
    _ordered("topk", input)
    axis = _wrapped(dim, input, "topk")
    n = input.shape[axis] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(
            f"topk(): selected index k out of range: k is {k}, dimension {dim} has {n} elements"
        )
    if input.ndim == 0:
        return _given(out, topk_result(input.clone() if k else input.new_zeros(0), _zero_place(input)))
    places = _order(input, axis, largest, k)
    return _given(out, topk_result(input.gather(axis, places), places))


topk.derivative(_to_places)


def _pick(input: TensorBase, axis: int, places: TensorBase, keepdim: bool, result: type) -> tuple:
    """The elements at `places` (of size 1 along the axis)."""
    values = input.gather(axis, places)
    return result(values, places) if keepdim else result(values.squeeze(axis), places.squeeze(axis))


@leaf(
    "sort",
    "kthvalue",
    "Tensor.kthvalue",
    results=("values", "indices"),
    inputs=("input",),
    batching="along",
    gives=kthvalue_result,
)
def kthvalue(
    input: TensorBase, k: int, dim: int = -1, keepdim: bool = False, *, out: tuple | None = None
) -> tuple[TensorBase, TensorBase]:
    """The k-th smallest element along `dim`, counted from 1, and where it stands: (values, indices).

    RuntimeError where there are fewer than k.

    Shape:
        input: any; results: without `dim`, or with size 1 there under `keepdim`

    Raises:
        RuntimeError: there are fewer than k elements
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.kthvalue(flambeau.tensor([30, 10, 20]), 2)
    flambeau.return_types.kthvalue(
    values=tensor(20),
    indices=tensor(2))
    """
    axis = _wrapped(dim, input, "kthvalue")
    _ordered("kthvalue", input)
    n = input.shape[axis] if input.ndim else 1
    if n == 0:
        raise IndexError(
            f"kthvalue(): expected reduction dim {axis} of input to have non-zero size, got {list(input.shape)}"
        )
    if not 1 <= k <= n:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {axis}: k is {k} of {n}"
        )
    if input.ndim == 0:
        return _given(out, kthvalue_result(input.clone(), _zero_place(input)))
    places = _order(input, axis, False, k).narrow(axis, k - 1, 1).contiguous()  # the others' memory goes back
    return _given(out, _pick(input, axis, places, keepdim, kthvalue_result), (input,))


kthvalue.derivative(_to_place)


def _median_places(input: TensorBase, axis: int, skip_nan: bool) -> TensorBase:
    """Where the lower median stands; a NaN is the median unless NaN is skipped."""
    n = input.shape[axis]
    missing = input.detach().isnan() if input.is_floating_point() else None
    if missing is None or (input.is_cpu and holds(~missing)):
        # A tensor of its own, as below, whatever the values are: a view would lie elsewhere in its storage.
        return _order(input, axis, False).narrow(axis, (n - 1) // 2, 1).clone(memory_format=contiguous_format)
    count = missing.sum(axis, True)
    if skip_nan:
        rank = (n - count - 1).clamp(min=0) // 2
    else:  # NaN stands last in the order: the first of them is the answer
        rank = (n - count).masked_fill(count == 0, (n - 1) // 2)
    return _order(input, axis, False).gather(axis, rank)


def _median(who: str, result: type, skip_nan: bool):
    def function(
        input: TensorBase, dim: int | None = None, keepdim: bool = False, *, out: tuple | None = None
    ):
        if dim is None:
            if out is not None:
                raise TypeError(
                    f"{who}(): argument 'out' goes with a dim: without one there is one result, and no out="
                )
            if input.numel() == 0:
                return input.new_full((), math.nan)
            return of_all(input.reshape(-1), 0)
        axis = _wrapped(dim, input, who)
        if input.ndim and input.shape[axis] == 0:
            raise IndexError(f"{who}(): Expected reduction dim {axis} to have non-zero size.")
        return _given(out, of_rows(input, axis, bool(keepdim)))

    def rows(input: TensorBase, dim: int, keepdim: bool) -> tuple[TensorBase, TensorBase]:
        if input.ndim == 0:
            return result(input.clone(), _zero_place(input))
        return _pick(input, dim, _median_places(input, dim, skip_nan), keepdim, result)

    rows.__name__ = rows.__qualname__ = f"{who}_of_rows"
    rows.__doc__ = f"`{who}` along a dimension: the medians and their places."
    of_rows = leaf(
        "sort",
        results=("values", "indices"),
        inputs=("input",),
        label=f"{who.capitalize()}Backward1",
        batching="along",
    )(rows)
    of_rows.derivative(_to_place)

    def whole(input: TensorBase, dim: int) -> TensorBase:
        return _pick(input, dim, _median_places(input, dim, skip_nan), False, result)[0]

    whole.__name__ = whole.__qualname__ = f"{who}_of_all"
    whole.__doc__ = f"`{who}` of all elements, which lie along one dimension."
    of_all = leaf(
        "sort",
        results=("values",),
        inputs=("input",),
        label=f"{who.capitalize()}Backward0",
        batching="along",
    )(whole)
    of_all.derivative(_to_equals)
    function.__name__ = function.__qualname__ = who
    function.__doc__ = (
        "The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`.\n\n"
        f"`{who}(input, dim, keepdim=False)` gives a named tuple (values, indices).  "
        + ("NaN is left out." if skip_nan else "NaN where there is a NaN.")
        + "\n\nShape:\n    input: any; results: () or without `dim`, or with size 1 there under `keepdim`"
        "\n\nRaises:\n    IndexError: `dim` is out of range, or has no elements"
        + of_call(f"{who}(flambeau.tensor([5.0, 1.0, 4.0, 2.0]))", "tensor(2.)")
    )
    overloads = (
        "(input: Tensor) -> Tensor",
        "(input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None) "
        f"-> return_types.{who}",
    )
    return register(who, "sort", function, overloads=overloads, composite=True)


median = _median("median", median_result, False)
nanmedian = _median("nanmedian", nanmedian_result, True)


def _most_frequent(a, ranked):
    """Where the most frequent element of each row last stands; `ranked` puts the rows in order."""
    import numpy as np

    ordered = np.take_along_axis(a, ranked, -1)
    place = np.broadcast_to(np.arange(a.shape[-1]), a.shape)
    starts = np.ones(a.shape, dtype=bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    first = np.maximum.accumulate(np.where(starts, place, 0), axis=-1)  # where this run of equal ones begins
    best = np.argmax(place - first, axis=-1)  # the first of the longest runs ends here
    return np.take_along_axis(ranked, best[..., None], -1)


@leaf(
    "sort",
    "mode",
    "Tensor.mode",
    results=("values", "indices"),
    inputs=("input",),
    batching="along",
    gives=mode_result,
)
def mode(
    input: TensorBase, dim: int = -1, keepdim: bool = False, *, out: tuple | None = None
) -> tuple[TensorBase, TensorBase]:
    """The most frequent element along `dim`, the smallest of equally frequent ones, and where it last stands.

    Shape:
        input: any; results: without `dim`, or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.mode(flambeau.tensor([1, 3, 3, 2, 2]))
    flambeau.return_types.mode(
    values=tensor(2),
    indices=tensor(4))
    """
    axis = _wrapped(dim, input, "mode")
    if input.ndim == 0:
        return _given(out, mode_result(input.clone(), _zero_place(input)))
    n = input.shape[axis]
    if n == 0:
        raise IndexError(f"mode(): Expected reduction dim {axis} to have non-zero size.")
    rows = _comparable(input).movedim(axis, -1)
    ranked = _order(rows, rows.ndim - 1, False)
    if rows.is_cpu or rows.is_meta:
        places = computed(Result((*rows.shape[:-1], 1), INT64), _most_frequent, rows, ranked)
    else:
        places = ordering.most_frequent(rows, ranked)
    places = places.movedim(-1, axis)
    return _given(out, _pick(input, axis, places, keepdim, mode_result))


mode.derivative(_to_place)


def _quantile(who: str, skip_nan: bool):
    def function(
        input: TensorBase,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
        out: TensorBase | None = None,
    ) -> TensorBase:
        if input.dtype.name not in ("float32", "float64"):
            raise RuntimeError(
                f"{who}(): input tensor must be either float or double dtype, got {input.dtype}"
            )
        if interpolation not in INTERPOLATIONS:
            raise RuntimeError(
                f"{who}(): interpolation must be one of {', '.join(INTERPOLATIONS)}, but got {interpolation}"
            )
        points = q if isinstance(q, TensorBase) else input.new_full((), q)
        if points.ndim > 1:
            raise RuntimeError(f"{who}(): q must be a scalar or 1D tensor, got {points.ndim} dimensions")
        if points.dtype != input.dtype:
            raise RuntimeError(
                f"{who}(): q tensor must be same dtype as the input tensor, got {points.dtype} and {input.dtype}"
            )
        if not holds((points >= 0) & (points <= 1)):
            raise RuntimeError(f"{who}(): q must be in the range [0, 1] but got {points.tolist()}")
        if input.numel() == 0:
            raise RuntimeError(f"{who}(): input tensor must be non-empty")
        result = _quantiles(input, points, dim, keepdim, interpolation, skip_nan, who)
        return into(out, result, who)

    function.__name__ = function.__qualname__ = who
    function.__doc__ = (
        "x₍q (n - 1)₎ of the n sorted elements: the q-quantiles along `dim`, or of all elements."
        "\n\nA quantile between two elements is interpolated ('linear', 'midpoint') or one of them ('lower', 'higher', 'nearest'). "
        "A 1-dim q gives a first dimension of its length.  "
        + ("NaN is left out." if skip_nan else "NaN where there is a NaN.")
        + "\n\nShape:\n    input: any; q: () or (Q,); result: (Q,) if q has that, then input's without `dim`, or with size 1 there under "
        "`keepdim`\n\nRaises:\n    IndexError: `dim` is out of range\n    RuntimeError: the dtype is neither float32 nor float64, q lies "
        "outside [0, 1] or has another dtype, or there are no elements"
        + of_call(f"{who}(flambeau.tensor([1.0, 2.0, 4.0]), 0.75)", "tensor(3.)")
    )
    return register(who, "sort", function, autocast=("float32", "fallthrough"), composite=True, dtypes=WIDE)


def _quantiles(input, points, dim, keepdim: bool, interpolation: str, skip_nan: bool, who: str) -> TensorBase:
    from ..pointwise.arithmetic import lerp

    shape = input.shape
    axis = None if dim is None else _wrapped(dim, input, who)
    axis = axis if input.ndim else None
    flat = input.reshape(-1) if axis is None else input.movedim(axis, -1)
    ordered = sort(flat, -1).values
    n = ordered.shape[-1]
    with unrecorded():
        missing = ordered.isnan().sum(-1, True)
        last = (n - 1 - missing).clamp(min=0) if skip_nan else missing * 0 + (n - 1)
    rank = points.reshape(-1) * last.to(points.dtype)  # [..., q]
    if not skip_nan:  # any NaN stands at the end of the row, and takes every quantile there
        rank = rank.masked_fill(missing > 0, n - 1)
    if interpolation == "nearest":
        rank = rank.round()
    with unrecorded():
        lower = rank.ceil() if interpolation == "higher" else rank.floor()
        upper = rank.ceil()
    if interpolation == "linear":
        weight = rank - lower
    else:
        weight = (upper != lower).to(rank.dtype) * 0.5
    result = ordered.gather(-1, lower.to(INT64))
    if interpolation in ("linear", "midpoint"):
        result = lerp(result, ordered.gather(-1, upper.to(INT64)), weight)
    if keepdim:
        kept = [1] * len(shape) if axis is None else [1 if d == axis else s for d, s in enumerate(shape)]
        moved = result.movedim(-1, 0)
        result = moved.reshape([moved.shape[0], *kept])
    else:
        result = result.movedim(-1, 0)
    return result if points.ndim else result.squeeze(0)


quantile = _quantile("quantile", False)
nanquantile = _quantile("nanquantile", True)
