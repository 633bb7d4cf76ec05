"""Reductions, functions along a dimension, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from .declare import Ints, fl, ints, operator


def _reduction(name: str, since: int, reduced: Callable[..., Any]) -> tuple[Callable, Callable]:
    """A reduction whose axes are an attribute, and from version `since` on an input; `reduced(x, dims, keepdim)` does it."""

    def over(data: Tensor, axes: Any, keepdims: int, noop: int) -> Tensor:
        dims = ints(axes) if axes is not None else []
        if not dims and not noop:
            dims = list(range(data.ndim))
        return (
            reduced(data, dims, bool(keepdims))
            if data.ndim
            else reduced(data[None], [0] if dims else [], False)
        )

    def by_input(
        data: Tensor, axes: Ints | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        return over(data, axes, keepdims, noop_with_empty_axes)

    def by_attribute(data: Tensor, *, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
        return over(data, axes, keepdims, 0)

    result = []
    for function, first, tail in ((by_input, since, ""), (by_attribute, 1, "_by_attribute")):
        words = "".join(f"_{c.lower()}" if c.isupper() and k else c.lower() for k, c in enumerate(name))
        function.__name__ = function.__qualname__ = words.replace("l_1", "l1") + tail
        result.append(operator(name, first)(function))
    return result[0], result[1]


def _sum(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return fl.sum(x, dims, keepdim, dtype=x.dtype) if dims else x


def _prod(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    for d in sorted((d % x.ndim for d in dims), reverse=True):
        x = fl.prod(x, d, keepdim, dtype=x.dtype)
    return x


def _extreme(function: Callable[..., Tensor], sign: int) -> Callable[..., Tensor]:
    def reduced(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
        if not dims:
            return x
        if any(x.shape[d] == 0 for d in dims):
            return _of_nothing(x, dims, keepdim, sign)
        return function(x, dims, keepdim)

    return reduced


def _of_nothing(x: Tensor, dims: list[int], keepdim: bool, sign: int) -> Tensor:
    """The extreme of no elements: the number that is behind all others."""
    like = fl.sum(x, dims, keepdim, dtype=x.dtype)
    if x.is_floating_point():
        return fl.full_like(like, sign * float("inf"))
    if x.dtype.is_signed:
        most = 2 ** (8 * x.element_size() - 1)
        return fl.full_like(like, most - 1 if sign > 0 else -most)
    return fl.full_like(
        like, (1 if "bool" in str(x.dtype) else 2 ** (8 * x.element_size()) - 1) if sign > 0 else 0
    )


def _mean(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    if not dims or x.is_floating_point():
        return fl.mean(x, dims, keepdim) if dims else x
    return fl.mean(x.double(), dims, keepdim).to(x.dtype)


def _norm(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    if x.is_floating_point():
        return fl.sqrt(_sum(x * x, dims, keepdim)) if dims else fl.abs(x)
    return fl.sqrt(_sum((x * x).double(), dims, keepdim)).to(x.dtype)


def _log(x: Tensor) -> Tensor:
    return fl.log(x) if x.is_floating_point() else fl.log(x.double()).to(x.dtype)


def _log_sum_exp(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    if not x.is_floating_point():
        return _log_sum_exp(x.double(), dims, keepdim).to(x.dtype)
    return fl.logsumexp(x, dims, keepdim) if dims else x


reduce_sum, reduce_sum_by_attribute = _reduction("ReduceSum", 13, _sum)
reduce_prod, reduce_prod_by_attribute = _reduction("ReduceProd", 18, _prod)
reduce_max, reduce_max_by_attribute = _reduction("ReduceMax", 18, _extreme(fl.amax, -1))
reduce_min, reduce_min_by_attribute = _reduction("ReduceMin", 18, _extreme(fl.amin, 1))
reduce_mean, reduce_mean_by_attribute = _reduction("ReduceMean", 18, _mean)
reduce_l1, reduce_l1_by_attribute = _reduction("ReduceL1", 18, lambda x, d, k: _sum(fl.abs(x), d, k))
reduce_l2, reduce_l2_by_attribute = _reduction("ReduceL2", 18, _norm)
reduce_log_sum, reduce_log_sum_by_attribute = _reduction(
    "ReduceLogSum", 18, lambda x, d, k: _log(_sum(x, d, k))
)
reduce_log_sum_exp, reduce_log_sum_exp_by_attribute = _reduction("ReduceLogSumExp", 18, _log_sum_exp)
reduce_sum_square, reduce_sum_square_by_attribute = _reduction(
    "ReduceSumSquare", 18, lambda x, d, k: _sum(x * x, d, k)
)


# --- places of extremes ------------------------------
def _place(function: Callable[..., Tensor], x: Tensor, axis: int, keepdims: int, last: int) -> Tensor:
    if not last:
        return function(x, axis, bool(keepdims))
    return x.shape[axis] - 1 - function(fl.flip(x, [axis]), axis, bool(keepdims))


@operator("ArgMax")
def arg_max(data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _place(fl.argmax, data, axis, keepdims, select_last_index)


@operator("ArgMin")
def arg_min(data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _place(fl.argmin, data, axis, keepdims, select_last_index)


@operator("TopK", since=10)
def top_k(x: Tensor, k: Ints, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    """The k largest or smallest along an axis, and where they are; of equal ones those that come first."""
    values, places = fl.sort(x, dim=axis, descending=bool(largest), stable=True)
    count = ints(k)[0]
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


# --- along a dimension ------------------------------
@operator("Softmax", since=13)
def softmax(input: Tensor, *, axis: int = -1) -> Tensor:
    return fl.softmax(input, axis)


@operator("LogSoftmax", since=13)
def log_softmax(input: Tensor, *, axis: int = -1) -> Tensor:
    return fl.log_softmax(input, axis)


@operator("Hardmax", since=13)
def hardmax(input: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first largest element of each row, 0 elsewhere."""
    return fl.scatter(fl.zeros_like(input), axis, fl.argmax(input, axis, True), 1.0)


def _running(
    function: Callable[..., Tensor], x: Tensor, axis: int, exclusive: int, reverse: int, first: int
) -> Tensor:
    if reverse:
        x = fl.flip(x, [axis])
    result = function(x, axis, dtype=x.dtype)
    if exclusive and x.shape[axis]:
        begin = fl.full_like(result.narrow(axis, 0, 1), first)
        result = fl.cat([begin, result.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return fl.flip(result, [axis]) if reverse else result


@operator("CumSum")
def cum_sum(x: Tensor, axis: Ints, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(fl.cumsum, x, ints(axis)[0], exclusive, reverse, 0)


@operator("CumProd")
def cum_prod(x: Tensor, axis: Ints, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(fl.cumprod, x, ints(axis)[0], exclusive, reverse, 1)
