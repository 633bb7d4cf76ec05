"""ONNX forms of products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.lib.products.contraction import column_sums_op, product_op
from ...core.lib.products.products import (
    addbmm,
    addmm,
    addmv,
    baddbmm,
    bmm,
    dot,
    inner,
    linear,
    matmul,
    mm,
    mv,
    outer,
    vdot,
)
from ..declare.onnx import onnx_form
from .determinants import linalg_det
from .distances import cdist_forward
from .products import ger, sliced_product


@onnx_form(linear)
def _(g: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    if weight.rank == 1:
        result = g.MatMul(input, weight)
        return result if bias is None else g.Add(result, bias)
    if input.rank == 2 and bias is not None and input.floating:
        result = g.op("Gemm", input, weight, bias, transB=1)
    else:
        result = g.MatMul(input, g.transpose(weight, [1, 0]))
        result = result if bias is None else g.Add(result, bias)
    g.notes[result.name] = "linear", input, weight, bias
    return result


@onnx_form(matmul, mm, bmm, mv, dot, vdot)
def _(g: Any, input: Any, other: Any, **_: Any) -> Any:
    if input.shape[-1] == 0:
        return g.expand(g.number(0, g.results[0].dtype), g.results[0].shape)
    return g.MatMul(input, other)


@onnx_form(inner)
def _(g: Any, input: Any, other: Any) -> Any:
    if not input.rank or not other.rank:
        return g.Mul(input, other)
    if other.rank == 1:
        return g.MatMul(input, other)
    flat = g.reshape(other, [int(np.prod(other.shape[:-1])), other.shape[-1]])
    return g.reshape(g.MatMul(input, g.transpose(flat, [1, 0])).of(()), g.results[0].shape)


@onnx_form(outer, ger)
def _(g: Any, input: Any, other: Any) -> Any:
    dtype = g.results[0].dtype
    return g.Mul(g.unsqueeze(g.cast(input, dtype), [1]), g.cast(other, dtype))


def _added(g: Any, input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta · input + alpha · product; an input that does not count may be NaN."""
    if alpha != 1:
        product = g.Mul(product, g.number(alpha, product.dtype))
    if beta == 0:
        return product
    return g.Add(product, input if beta == 1 else g.Mul(input, g.number(beta, input.dtype)))


@onnx_form(addmm, addmv, baddbmm)
def _(g: Any, input: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1, **_: Any) -> Any:
    if first.shape[-1] == 0:
        product = g.expand(g.number(0, first.dtype), g.results[0].shape)
    else:
        product = g.MatMul(first, second)
    return g.expand(_added(g, input, product, beta, alpha).of(()), g.results[0].shape)


@onnx_form(addbmm)
def _(g: Any, input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1, **_: Any) -> Any:
    product = g.reduce("ReduceSum", g.MatMul(batch1, batch2), [0])
    return g.expand(_added(g, input, product, beta, alpha).of(()), g.results[0].shape)


@onnx_form(sliced_product)
def _(g: Any, input: Any, matrix: Any) -> Any:
    return g.MatMul(input, matrix)


@onnx_form(linalg_det)
def _(g: Any, A: Any, *_: Any, **__: Any) -> Any:
    return g.Det(A) if len(g.results) == 1 else NotImplemented


@onnx_form(product_op)
def _(g: Any, a: Any, a_form: int, b: Any, b_form: int, sizes: Any, form: int, alpha: Any) -> Any:
    """The gradient of a product: matrices, or matrices turned; others have no form."""
    if form or max(a_form, b_form) > 1 or min(a.rank, b.rank) < 2 or alpha[1]:
        return NotImplemented
    left, right = (
        g.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2]) if turned else x
        for x, turned in ((a, a_form), (b, b_form))
    )
    result = g.MatMul(left, right)
    return result if alpha[0] == 1 else g.Mul(result, g.number(alpha[0], result.dtype))


@onnx_form(column_sums_op)
def _(g: Any, input: Any) -> Any:
    return g.reduce("ReduceSum", input, list(range(input.rank - 1)))


@onnx_form(cdist_forward)
def _(g: Any, a: Any, b: Any, p: float) -> Any:
    far = g.Abs(g.Sub(g.unsqueeze(a, [2]), g.unsqueeze(b, [1])))
    if not a.shape[-1]:
        return g.expand(g.number(0, a.dtype), g.results[0].shape)
    if p == 0:
        return g.reduce("ReduceSum", g.cast(g.Not(g.Equal(far, 0)), a.dtype), [-1])
    if p in (1, 2, float("inf")):
        return g.reduce({1: "ReduceSum", 2: "ReduceL2"}.get(p, "ReduceMax"), far, [-1])
    return g.Pow(g.reduce("ReduceSum", g.Pow(far, g.number(p, a.dtype)), [-1]), g.number(1 / p, a.dtype))
