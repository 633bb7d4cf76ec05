"""Derivatives of programs along a row, in reverse: the derivative of a program with folds is a program with folds.

What reaches a value that a whole row shares (a sum, a maximum) is the sum over the row of what its readers send it; what reaches
the elements of a fold follows from its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..codegen import differentiate
from ..codegen import expr as ex
from ..codegen import kernels as kn
from ..codegen.expr import Expr


def adjoint(
    results: Sequence[Expr], grads: Sequence[Expr], inputs: Sequence[Expr], varies: Callable[[Expr], bool]
) -> list[Expr | None]:
    """The gradients of Σ grads·results with respect to the inputs; None where no result depends on one.

    `varies` tells whether a value changes along the row; a gradient of a result that does not is one value a row.
    """
    arriving: dict[int, Expr] = {}

    def arrive(at: Expr, part: Expr, reader: Expr) -> None:
        if varies(reader) and not varies(at):
            part = kn.sum(part) if varies(part) else part * ex.cast(kn.length(), part.dtype)
        before = arriving.get(id(at))
        arriving[id(at)] = part if before is None else before + part

    for result, grad in zip(results, grads):
        if ex.is_smooth(result.dtype):
            arrive(result, grad, result)
    wanted = {id(x) for x in inputs}
    for e in reversed(list(ex.walk(results))):
        g = arriving.get(id(e))
        if g is None or not e.args or id(e) in wanted or e.dtype == "bool":
            continue
        for argument, part in zip(e.args, _parts(e, g)):
            if part is not None and ex.is_smooth(argument.dtype):
                arrive(argument, ex.cast(part, argument.dtype), e)
    return [arriving.get(id(x)) for x in inputs]


def _parts(e: Expr, g: Expr) -> Sequence[Expr | None]:
    """What reaches each argument of `e`."""
    if e.op == "fold":
        return _through_fold(e, g)
    if e.op not in differentiate.RULES and e.op not in differentiate.PARTS:
        raise TypeError(f"no rule differentiates {'a prefix' if e.op == 'prefix' else e.op}")
    return differentiate.parts_of(e, g)


def _through_fold(e: Expr, g: Expr) -> Sequence[Expr | None]:
    """What reaches the elements of a fold: of a sum, what arrives; of an extreme, its share where an element is it."""
    rule, x = e.value, e.args[0]
    combined = rule.combine[rule.which]
    left, right = (
        kn.state(rule.which, combined.dtype),
        kn.state(rule.which + len(rule.combine), combined.dtype),
    )
    if combined is ex.add(left, right):
        return [g if k == rule.which else None for k in range(len(e.args))]
    if len(e.args) == 1 and (combined is ex.maximum(left, right) or combined is ex.minimum(left, right)):
        is_it = (x == e) | (ex.isnan(x) & ex.isnan(e))
        one = ex.like(x, 1.0)
        share = ex.where(is_it, one, ex.like(x, 0.0))
        return [share * (g / kn.sum(share))]
    for result in (kn.max_index, kn.min_index):
        value, place = result(x)
        if e is value:
            return [ex.where(ex.index(1) == place, g, ex.like(g, 0.0)), None]
    raise TypeError("no rule differentiates this fold")
