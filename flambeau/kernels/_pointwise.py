"""`pointwise`: the elements of the results are a function of the elements of the operands at the same place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..codegen import expr as ex
from ..core.base.dtypes import by_name, dtype
from ..operations.declare.pointwise import FLOATING, Pointwise, compute_dtype
from ._bodies import Body, Lifted
from ._functions import check_shadows
from ._kinds import declares
from ._traces import Trace


class Declared(Pointwise):
    """A user's pointwise declaration: what goes wrong when a derivative is made names the function."""

    body: Body
    differentiated = False

    def derivation(self, mask: int, complexes: int = 0) -> Any:
        self.differentiated = True
        return self.located(super().derivation, mask, complexes)

    def tangent(self, mask: int, number: int = 0) -> Any:
        self.differentiated = True
        return self.located(super().tangent, mask, number)

    def located(self, make: Callable, *which: int) -> Any:
        """What `make` gives; the error of a missing rule of differentiation names the kernel."""
        try:
            return make(*which)
        except TypeError as error:
            if "no rule differentiates" not in str(error):
                raise
            text = str(error).partition(";")[0]
            raise TypeError(
                f"{self.body.where}: {text}; declare its derivative with @{self.name}.derivative, or that it has none with "
                "differentiable=False"
            ) from None


@declares
def pointwise(
    function: Callable | None = None,
    *,
    name: str | None = None,
    dtypes: Iterable[dtype | str] | None = None,
    int_to_float: bool | None = None,
    differentiable: bool = True,
) -> Any:
    """An operation from a function of one element.

    The function is called once for each combination of dtypes, with traced values, and what it computes becomes one kernel
    for any shapes, strides and devices, with gradients of any order.  Positional parameters are operands: tensors, or
    numbers beside at least one tensor, broadcast and promoted as in `flambeau.add`.  Parameters after `*` are numbers
    (float64) that do not make a kernel of their own.  Several results are returned as a tuple.  In the body stand
    operators, the functions of `vocabulary()`, pointwise operations of the library, and kernels declared before.

    Args:
        function: the body; without it, a decorator is returned.
        name: what messages and nodes of the tape say; the function's own name by default.
        dtypes: what operands are promoted to at most: dtypes, or one of the sets `FLOATING` (the default), `INTEGRAL`,
            `NUMERIC`, `COMPLEX`, `ALL`.  Half types are computed in float32 and rounded once.
        int_to_float: whether integers become the default dtype; by default where `dtypes` has no integers.
        differentiable: False for results that carry no gradient.

    Returns:
        an operation, called as `op(*operands, *numbers, out=None)`.  `op.derivative` declares a formula for its gradients in
        place of symbolic differentiation.

    Raises:
        TypeError: the function takes or returns what a kernel cannot, or branches on a value; the message has its file and line.
        NotImplementedError: at a call, for dtypes that it does not take.

    >>> import flambeau
    >>> from flambeau import kernels
    >>> @kernels.pointwise
    ... def squareplus(x, *, b=4.0):
    ...     return (x + kernels.sqrt(x * x + b)) * 0.5
    >>> x = flambeau.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> squareplus(x, b=1.0)
    tensor([0.2071, 0.5000, 2.1180], grad_fn=<SquareplusBackward0>)
    >>> squareplus(x).sum().backward(); x.grad
    tensor([0.2764, 0.5000, 0.8536])
    """
    if function is None:
        return functools.partial(
            pointwise, name=name, dtypes=dtypes, int_to_float=int_to_float, differentiable=differentiable
        )
    body = Body("pointwise", function, name)
    taken = names_of(dtypes, body)
    operands, numbers, defaults = body.parameters
    example = "float32" if "float32" in taken else min(taken)
    results = body(
        *(ex.input(k, compute_dtype(example)) for k in range(len(operands))), **traced_numbers(body, example)
    )
    declared = Declared(
        body.name,
        body,
        operands,
        numbers,
        results=len(results),
        int_to_float=taken <= FLOATING if int_to_float is None else bool(int_to_float),
        dtypes=taken,
    )
    if len(operands) > 10 or len(numbers) > 12 or len(results) > 8:
        raise ValueError(
            f"{body.where}: at most 10 operands, 12 numbers and 8 results, got {len(operands)}, {len(numbers)} and "
            f"{len(results)}"
        )
    op = declared.make_op([float(d) for d in defaults], differentiable)
    op.declared, op.derivative = declared, functools.partial(_derivative, declared)
    return publish(op, function, body)


def publish(op: Any, function: Callable, body: Body) -> Any:
    """The operation as what stands at the function's name: its documentation, and where pickle finds it."""
    op.__doc__, op.body = function.__doc__, function
    op.__module__ = getattr(function, "__module__", None) or "__main__"
    path = getattr(function, "__qualname__", body.name)
    op.public_name = path if path.rpartition(".")[2] == body.name else body.name
    return op


def names_of(dtypes: Iterable[dtype | str] | None, body: Body) -> frozenset[str]:
    """The names of dtypes that kernels can be made for."""
    if dtypes is None:
        return FLOATING
    result = frozenset(d.name if isinstance(d, dtype) else d for d in dtypes)
    wrong = [d for d in result if d not in by_name or d not in ex.BITS]
    if wrong or not result:
        raise ValueError(
            f"{body.where}: dtypes must be some that kernels compute in, got {sorted(map(str, wrong))}"
        )
    return result


def traced_numbers(body: Body, example: str) -> dict[str, Any]:
    part = ex.part(compute_dtype(example))
    return {n: ex.cast(ex.param(k, "float64"), part) for k, n in enumerate(body.parameters.numbers)}


def _derivative(declared: Declared, formula: Callable) -> Callable:
    """Declare the gradients: a function of `grad` (or `grads`), operands, `out` (or `outs`) and numbers, by name, that
    returns a traced value or None for each operand.
    """
    allowed = {"grad", "grads", "out", "outs", *declared.operands, *declared.params}
    check_names(declared.body, formula, allowed)
    check_shadows(declared.body.where, declared.operands, inspect.signature(formula).parameters)
    if declared.differentiated:
        raise RuntimeError(
            f"{declared.body.where}: the derivative must be declared before the first gradient is requested"
        )
    body = declared.body

    @functools.wraps(formula)
    def checked(**args: Any) -> tuple:
        trace = Trace(body.where)
        try:
            with Lifted():
                result = formula(**{n: trace.leaf_of(x) for n, x in args.items()})
        except Exception as error:
            raise body.located(error) from error
        parts = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        check_count(body, formula, parts, len(declared.operands))
        grad = next(v if n == "grad" else v[0] for n, v in _with_grad(args, declared).items())
        own = iter(trace.returned([ex.like(grad, g) for g in parts if g is not None]))
        return tuple(g if g is None else next(own) for g in parts)

    return declared.derivative(checked)


def _with_grad(leaves: dict, declared: Declared) -> dict[str, Any]:
    result = {n: v for n, v in leaves.items() if n in ("grad", "grads")}
    return result or {"grad": next(iter(leaves.values()))}


def check_names(body: Body, formula: Callable, allowed: set[str]) -> None:
    """TypeError where a derivative asks for what there is not."""
    for p in inspect.signature(formula).parameters.values():
        if p.name not in allowed or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(
                f"{body.where}: the derivative takes '{p.name}'; it may name {', '.join(sorted(allowed))}"
            )


def check_count(body: Body, formula: Any, parts: Sequence[Any], wanted: int) -> None:
    if len(parts) != wanted:
        code = formula.__code__
        raise TypeError(
            f"{body.where}: its derivative ({code.co_filename}:{code.co_firstlineno}) must return {wanted} gradients, one (or None) "
            f"for each operand, and returned {len(parts)}"
        )
