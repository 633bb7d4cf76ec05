"""Rules of products, and of what a backward pass calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.call.function import decomposed_derivative, derivative_op
from ..core.lib.products import contraction, products
from ..core.views import strided
from ..operations.linalg.products import rows_of_slices, sliced_product
from ..operations.rows import reductions
from ._batched import Level, Running
from ._rules import made, made_of, operation, parameters, rule, sliced, written

Result = Any


# --- products ---------------------------------------
_RANKS = {products.mm: (2, 2), products.bmm: (3, 3), products.mv: (2, 1), products.dot: (1, 1)}


@rule(products.matmul, products.mm, products.bmm, products.mv, products.dot)
def _matmul(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    a, b = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D"
        )
    wanted = _RANKS.get(op)
    if wanted is not None and wanted != (a.ndim, b.ndim):
        raise RuntimeError(
            f"{op.__name__}(): expected tensors of {wanted[0]} and {wanted[1]} dimensions, got {a.ndim} and {b.ndim}"
        )
    inner = a.shape[-1], b.shape[-2 if b.ndim > 1 else -1]
    if inner[0] != inner[1]:
        raise RuntimeError(
            f"{op.__name__}(): shapes cannot be multiplied ({list(a.shape)} and {list(b.shape)})"
        )
    return level.wrapped(_product(level, a, b))


def _product(level: Level, a: Any, b: Any) -> Any:
    product = operation("matmul")
    x, y = level.inside(a), level.inside(b)
    if y is None and b.ndim <= 2 and a.ndim > 1:
        return product(x, b)
    if y is None and b.ndim <= 2:  # a vector a slice: their rows are a matrix
        return product(x, b)
    if x is None and a.ndim == 1 and b.ndim == 2:
        return product(a, y)
    if x is None and a.ndim == 2 and b.ndim == 1:
        return product(y, a.mT)
    if x is not None and y is not None and b.ndim == 2 and shared(y):
        return sliced_product(x, y)
    rank = max(a.ndim, b.ndim, 2)
    left = _as_matrix(level, a, -2, rank)
    right = _as_matrix(level, b, -1, rank)
    result = product(left, right)
    if a.ndim == 1:
        result = result.squeeze(-2)
    return result.squeeze(-1) if b.ndim == 1 else result


def shared(x: Any) -> bool:
    """Whether elements are the same memory for all slices."""
    return x.shape[0] > 1 and x.stride(0) == 0


@made(sliced_product)
def _sliced_product(x: Any, matrix: Any) -> Any:
    return (rows_of_slices(x) @ matrix).reshape(*x.shape[:-1], matrix.shape[-1])


def _as_matrix(level: Level, x: Any, at: int, rank: int) -> Any:
    """Elements of a vector as matrices of one row or column, and of as many dimensions as the others' have."""
    result = level.inside(x)
    if result is None:
        return x.unsqueeze(at) if x.ndim == 1 else x
    if x.ndim == 1:
        result = result.unsqueeze(at)
    missing = rank + 1 - result.ndim
    return result[(slice(None), *(None,) * missing)] if missing > 0 else result


@rule(products.linear)
def _linear(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    input, weight, bias = bound["input"], bound["weight"], bound.get("bias")
    if level.inside(weight) is None and (bias is None or level.inside(bias) is None):
        return level.wrapped(op(level.inside(input), weight, bias))
    result = input @ weight.mT if weight.ndim == 2 else input @ weight
    return result if bias is None else result + bias


@made(products.vdot)
def _vdot(input: Any, other: Any) -> Result:
    return (input.conj() if input.is_complex() else input).dot(other)


@made(products.inner)
def _inner(input: Any, other: Any) -> Result:
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return operation("tensordot")(input, other, ((-1,), (-1,)))


@made(products.outer)
def _outer(input: Any, vec2: Any) -> Result:
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D arguments, but got {input.ndim}-D and {vec2.ndim}-D")
    return input[:, None] * vec2


def _sum(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta input + alpha product; nothing of an input whose factor is 0."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    result = (input if beta == 1 else input * beta) + product
    return result


def _adding(op: Any, in_place: Any, product: Callable) -> None:
    @rule(op, in_place)
    def added(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
        target = written(level, op, args) if op.writes else None
        given = list(args)
        named = dict(kwargs)
        names = list(parameters(op).names)
        for n in names[len(given) : 3]:
            given.append(named.pop(n))
        beta, alpha = named.get("beta", 1), named.get("alpha", 1)
        result = _sum(given[0], product(given[1], given[2]), beta, alpha)
        return result if target is None else target.copy_(result)


_adding(products.addmm, products.addmm_, lambda a, b: a.mm(b))
_adding(products.addmv, products.addmv_, lambda a, b: a.mv(b))
_adding(products.baddbmm, products.baddbmm_, lambda a, b: a.bmm(b))
_adding(products.addbmm, products.addbmm_, lambda a, b: a.bmm(b).sum(0))
_adding(products.addr, products.addr_, lambda a, b: a.outer(b))


# --- what a backward pass calls ----------------------
_TRANSPOSED, _ROW, _COLUMN, _SCALAR = (
    1,
    2,
    3,
    4,
)  # how `core/lib/products/contraction.pxd` numbers what a tensor is in a product


def _matrix_of(x: Any, form: int) -> Any:
    if form == _TRANSPOSED:
        return x.mT
    if form == _SCALAR:
        return x.reshape(1, 1)
    return x.unsqueeze(-2) if form == _ROW else x.unsqueeze(-1) if form == _COLUMN else x


@made(contraction.product_op)
def _gradient_product(a: Any, a_form: int, b: Any, b_form: int, sizes: tuple, form: int, alpha: tuple) -> Any:
    """`product_as`: matrices that may be stored transposed, or as vectors."""
    product = _matrix_of(a, a_form) @ _matrix_of(b, b_form)
    result = product.mT if form == _TRANSPOSED else product.squeeze(-2) if form == _ROW else product
    result = result.squeeze(-1) if form == _COLUMN else result.reshape(()) if form == _SCALAR else result
    factor = alpha[0] if alpha[1] == 0 else complex(alpha[0], alpha[1])
    return operation("sum_to_size")(result if factor == 1 else result * factor, sizes)


@made(contraction.column_sums_op)
def _columns_summed(x: Any) -> Any:
    return x.sum(tuple(range(x.ndim - 1)))


@made(reductions.expand_reduced)
def _expand_reduced(value: Any, sizes: Any, dims: Any, keepdim: Any) -> Any:
    if not keepdim and sizes:
        value = value.reshape([1 if d in dims else n for d, n in enumerate(sizes)])
    return value.expand(tuple(sizes))


rule(strided.through_op, derivative_op)(sliced)
rule(decomposed_derivative)(made_of(lambda label, formula, *arguments: formula(*arguments)))
