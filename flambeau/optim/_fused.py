"""A rule of an optimiser as one kernel.

The rule is traced once.  What depends on numbers alone (a learning rate, 1 - β, a bias correction) is taken out
and computed once a step, by Python in float64; the rest is the body of a kernel that walks over a parameter, its
gradient and its state in one pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from ..codegen import expr as ex
from ..codegen.expr import Expr
from ..core.call.pointwise import PointwiseOp
from ..operations.declare.pointwise import FLOATING, Pointwise
from ._functions import kept

# How an operation on numbers is written in Python; `{1} if {0} else {2}` computes one choice alone.
_WRITTEN = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "div": "({} / {})",
    "neg": "(-{})",
    "abs": "abs({})",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "sqrt": "sqrt({})",
    "call:pow": "({} ** {})",
    "call:exp": "exp({})",
    "call:log": "log({})",
    "call:kept": "kept({})",
    "select": "({1} if {0} else {2})",
    "eq": "({} == {})",
    "ne": "({} != {})",
    "lt": "({} < {})",
    "le": "({} <= {})",
    "gt": "({} > {})",
    "ge": "({} >= {})",
}


class Leaf(NamedTuple):
    """A number that a rule is given: its name, and the statement that reads it from a group (none for scalars)."""

    name: str
    statement: str


class Fused:
    """The kernel of `results`, which a rule has made of a parameter, its gradient, the `entries` of its state and
    `leaves`.

    `numbers(group, *scalars)` computes what `op` takes, and the new values of the scalars: of `step` the next, of
    those in `updates` these, of others the old.
    """

    def __init__(
        self,
        name: str,
        results: Sequence[Expr],
        updates: dict[str, Expr],
        entries: Sequence[str],
        scalars: Sequence[str],
        leaves: dict[Expr, Leaf],
    ):
        self.tensors = [itemgetter(name) for name in entries]  # how they are taken from a state
        self.scalars = [itemgetter(name) for name in scalars]
        self.reads = bool(entries or scalars)
        taken = _numbers_in(results, leaves)
        places = {e: ex.make("number", (), e.dtype, k) for k, e in enumerate(taken)}
        self.results = _rounded_once(ex.substitute(list(results), places))
        parameters = [f"n{k}" for k in range(len(taken))]
        operands = [
            f"x{k}" for k in range(len(results) + 1)
        ]  # a gradient, and what the results are written to
        declared = Pointwise(name, self.body, operands, parameters, results=len(results), dtypes=FLOATING)
        self.op: PointwiseOp = declared.make_op(differentiable=False)
        self.numbers = _function(taken, updates, scalars, leaves)

    def body(self, *operands: Expr, **parameters: Expr) -> tuple[Expr, ...]:
        """The rule in the dtype that the operands are computed in."""
        dtype = operands[0].dtype
        made: dict[int, Expr] = {}
        for e in ex.walk(self.results):
            if e.op == "input":
                made[id(e)] = operands[e.value]
            elif e.op == "number":
                number = parameters[f"n{e.value}"]
                made[id(e)] = ex.compare("ne", number, 0.0) if e.dtype == "bool" else number
            else:
                own = "bool" if e.dtype == "bool" else dtype
                arguments = tuple(made[id(a)] for a in e.args)
                made[id(e)] = (
                    ex.const(e.value, own) if e.op == "const" else ex.make(e.op, arguments, own, e.value)
                )
        return tuple(made[id(e)] for e in self.results)

    def run(
        self, group: dict[str, Any], lists: list[list[Any]], scalars: list[list[Any]], now: Sequence[float]
    ) -> None:
        """A step of the lists [parameters, gradients, *state], whose `scalars` are `now`."""
        numbers, after = self.numbers(group, *now)
        self.op.foreach(lists, out=[lists[0], *lists[2:]], **numbers)
        for column, value in zip(scalars, after):
            for x in column:
                x.fill_(value)


def _numbers_in(results: Sequence[Expr], leaves: dict[Expr, Leaf]) -> list[Expr]:
    """The largest subexpressions that are made of `leaves` and constants."""
    numeric: set[int] = {id(e) for e in leaves}
    plain: set[int] = set(numeric)  # numbers and constants
    for e in ex.walk(results):
        if e.op == "const":
            plain.add(id(e))
        elif e.args and all(id(a) in plain for a in e.args):
            numeric.add(id(e))
            plain.add(id(e))
    result: dict[int, Expr] = {}
    for e in ex.walk(results):
        if id(e) not in numeric:
            result.update((id(a), a) for a in e.args if id(a) in numeric)
    return list(result.values())


def _rounded_once(results: list[Expr]) -> list[Expr]:
    """The results with sums c + a·b and differences c - a·b rounded once, a product on the right first."""
    made: dict[int, Expr] = {}
    for e in ex.walk(results):
        a, *rest = (made[id(x)] for x in e.args) if e.args else (e,)
        if e.op == "add" and "mul" in (rest[0].op, a.op):
            product, other = (rest[0], a) if rest[0].op == "mul" else (a, rest[0])
            made[id(e)] = ex.fma(product.args[0], product.args[1], other)
        elif e.op == "sub" and rest[0].op == "mul":
            made[id(e)] = ex.fma(ex.neg(rest[0].args[0]), rest[0].args[1], a)
        else:
            made[id(e)] = ex.remade(e, (a, *rest)) if e.args else e
    return [made[id(e)] for e in results]


def _text(e: Expr, leaves: dict[Expr, Leaf]) -> str:
    """The expression in Python."""
    if e in leaves:
        return leaves[e].name
    if e.op == "const":
        return f"({e.value!r})"
    return _WRITTEN[e.op].format(*(_text(a, leaves) for a in e.args))


def _function(
    taken: Sequence[Expr], updates: dict[str, Expr], scalars: Sequence[str], leaves: dict[Expr, Leaf]
) -> Callable[..., tuple[dict[str, float], tuple[float, ...]]]:
    """A function of a group and of its scalars that computes `taken`, for the kernel, and the new scalars."""
    used = [leaves[e] for e in ex.walk([*taken, *updates.values()]) if e in leaves]
    numbers = ", ".join(f"'n{k}': {_text(e, leaves)}" for k, e in enumerate(taken))
    after = "".join(f"{_text(updates[n], leaves) if n in updates else n}, " for n in scalars)
    lines = [
        f"def numbers({', '.join(('group', *scalars))}):",
        *(["step += 1.0"] if "step" in scalars else []),
        *dict.fromkeys(leaf.statement for leaf in used if leaf.statement),
        f"return {{{numbers}}}, ({after})",
    ]
    scope: dict[str, Any] = {**vars(math), "kept": kept}
    exec("\n    ".join(lines), scope)
    return scope["numbers"]


def which_are_off(names: Sequence[str]) -> Callable[[dict[str, Any]], tuple[bool, ...]]:
    """A function that says of these options of a group whether they are off."""
    return eval(f"lambda group: ({''.join(f'not group[{name!r}], ' for name in names)})")
