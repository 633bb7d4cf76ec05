"""Products on a device that end in what follows them: one kernel of our own, where the device has no library for products.

The kernel adds one more operand and then computes an expression of the sum (`codegen/schedule_gpu_products.py`).
"""

from __future__ import annotations

from typing import Any

from ..codegen import expr as ex
from ..codegen.expr import Expr
from ..codegen.schedule_gpu_products import suits
from ..core.base.callbacks import callbacks
from ..core.base.tensor import TensorBase
from ..core.lib.products.contraction import has_library
from .expressions import Unfused
from .products import Operands
from .program import Call, Value


class EndedProduct:
    """after(alpha * left @ right + beta * addend), a call of a plan; `shape` is that of the product, `result` of what is returned."""

    __name__ = "ended_product"

    def __init__(
        self, after: Expr, alpha: float, beta: float, shape: tuple[int, ...], result: tuple[int, ...]
    ) -> None:
        self.after, self.alpha, self.beta, self.shape, self.result = after, alpha, beta, shape, result

    def __call__(
        self, left: TensorBase, right: TensorBase, addend: TensorBase | None = None, lies: Any = None
    ) -> TensorBase:
        if addend is not None and lies is not None:
            addend = addend.as_strided(*lies)
        out = left.new_empty(self.shape)
        callbacks["device.multiply_ended"](out, left, right, self.alpha, addend, self.beta, self.after)
        return out if self.shape == self.result else out.view(self.result)


def ended(
    number: int,
    result: Value,
    operands: Operands,
    sums: Value,
    root: Expr,
    others: list[tuple[Value, str, TensorBase]],
) -> Call:
    """The call that computes `result`: the expression `root` of the product, `input(0)`, and of other operands, `input(1)` and so on,
    with how each is read and a tensor of the geometry that it is read with.

    Unfused where the kernel cannot, or where a library computes the product.
    """
    on = sums.device
    if sums.dtype.name not in ("float32", "float64") or result is not result.root or not result.contiguous:
        raise Unfused(f"a product of {sums.dtype.name} on a device")
    left, right, addend, alpha, beta = operands
    if beta == 0:
        addend = None
    given: tuple[Any, ...] = () if addend is None else (addend,)
    if others:
        (value, how, example), *more = others
        root, times, beta = _after_addition(root)
        if more or addend is not None or 1.0 not in (alpha, times):
            raise Unfused(
                "a kernel of a device adds one operand to the sums, and multiplies each of the two once"
            )
        alpha *= times
        lies: Any = example.shape, example.stride()
        if how == "rows":
            lies = (*example.shape, 1), (*example.stride(), 0)
        given = value, lies
    if has_library(on) or not suits(root, on.properties().get("native_vector_width_float", 1)):
        raise Unfused("a library, or a loop, is faster")
    operation = EndedProduct(root, alpha, beta, sums.shape, result.shape)
    call = Call(number, operation, (left, right, *given), {})
    call.results = (result,)
    result.call = call
    return call


def _after_addition(root: Expr) -> tuple[Expr, float, float]:
    """An expression of input(0) and input(1) as one of what alpha * input(0) + beta * input(1) is; alpha and beta."""
    for e in ex.walk([root]):
        if e.op not in ("add", "sub"):
            continue
        (first, alpha), (second, beta) = map(_scaled, e.args)
        if e.op == "sub":
            beta = -beta
        whole = ex.input(2, e.dtype)
        result = ex.substitute([root], {e: whole})[0]
        if {first, second} == {0, 1} and all(
            leaf is whole for leaf in ex.walk([result]) if leaf.op == "input"
        ):
            ended = ex.substitute([result], {whole: ex.input(0, e.dtype)})[0]
            return (ended, alpha, beta) if first == 0 else (ended, beta, alpha)
    raise Unfused("an operand is not added to the sums")


def _scaled(e: Expr) -> tuple[int, float]:
    """The input that an expression is a multiple of, and how many times; no input has the number -1.

    That is one factor and 1s: a product of two would be rounded, or overflow, elsewhere.  A factor of 0 is left to the expression, since
    the kernel does not read what it is given 0 times, and 0·inf is NaN.
    """
    times = 1.0
    while e.op == "mul":
        e, factor = e.args
        while factor.op == "cast":
            factor = factor.args[0]
        number = float(factor.value) if factor.op == "const" else 0.0
        if number == 0 or 1.0 not in (number, times):
            return -1, times
        times *= number
    return (e.value if e.op == "input" else -1), times
