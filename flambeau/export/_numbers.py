"""Sizes while a program is exported: what tensors answer, what is computed of that, and what the program decides by it."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._symbols import numbers
from .._symbols.environment import Again, Known, Symbol, expression_of
from .._symbols.expressions import Expr, number
from .._symbols.numbers import SymBool, SymFloat, SymInt, SymNumber
from .._symbols.sizes import RECORDING
from ..core.base.tensor import TensorBase
from ..fx.node import Node
from ..library._targets import target
from ..operations.declare.registry import REGISTRY
from ._lines import user_line
from ._nodes import Nodes
from .errors import GuardOnDataDependentSymNode


def call_of(name: str) -> Callable[..., Any]:
    """The function that computes with sizes: one of the operator module, or `sym_max` and its kin."""
    return getattr(numbers if name.startswith("sym_") else operator, name)


class SymbolicValue(NamedTuple):
    """What is known of a number that is no expression of sizes: its class."""

    kind: str

    def __str__(self) -> str:
        return self.kind


_INVERTED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _expr(x: Any) -> Expr | None:
    if isinstance(x, SymNumber):
        return x.name.expr
    return number(x) if type(x) is int else None


def _from_item(node: Node) -> bool:
    return str(node.target) == "aten.item.default" or any(map(_from_item, node.all_input_nodes))


class Numbers(Nodes):
    """The numbers that a program computes of sizes are nodes, too."""

    # --- sizes ------------------------------
    def is_on(self) -> bool:
        """Whether what this thread does now is recorded."""
        return RECORDING.tracer is self and not self.suspended

    def trace_size(self, what: str, t: Any, dim: int | None, value: int) -> Any:
        """What a tensor answers of its sizes."""
        result = self.traced(t)
        if what == "numel":
            return math.prod(
                [self.trace_size("size", t, d, n) for d, n in enumerate(TensorBase.shape.__get__(t))]
            )
        if what == "storage_offset":
            return value
        sizes: Any = result.value.shape if what == "size" else result.value.strides
        e = sizes[dim if dim is not None and dim >= 0 else (dim or 0) + len(sizes)]
        if not isinstance(e, Expr):
            return e
        if self.inside:  # a body of the library, where numbers would come into its caches
            self.sized = True
            return value
        place_ = dim % len(sizes) if dim is not None else 0
        key = (what, result.node, place_)
        if key not in self.requested:
            node = self.node(target("aten", f"sym_{what}", "int"), (result.node, place_), {})
            self.requested[key] = self._number(e, self._values(e), node)
        return self.requested[key]

    def _values(self, e: Expr) -> tuple[int, ...]:
        return tuple(e.value(w) for w in self.symbols.worlds)

    def _number(self, e: Expr | None, values: tuple[Any, ...], node: Node | None) -> Any:
        if e is not None and (c := self.symbols.settled(e).constant()) is not None:
            return c
        kind = {bool: SymBool, int: SymInt}.get(type(values[0]), SymFloat)
        if node is not None:
            node.meta["val"] = e if e is not None else SymbolicValue(type(values[0]).__name__)
        return kind(self, Known(e, values, node), values[0])

    def computed(self, called: str, function: Callable[..., Any], *operands: Any) -> Any:
        """A number that is computed of sizes."""
        if not self.is_on():  # a number that outlives its recording, in somebody's cache
            return function(*(x.value if isinstance(x, SymNumber) else x for x in operands))
        key = (called, *(id(x) if isinstance(x, SymNumber) else (type(x), x) for x in operands))
        if key in self.computed_before:
            return self.computed_before[key][0]
        e = expression_of(called, operands)
        if e is not None and (c := self.symbols.settled(e).constant()) is not None:
            return c
        values = tuple(
            function(*(x.name.values[w] if isinstance(x, SymNumber) else x for x in operands))
            for w in range(self.count + 1)
        )
        node = self.node(call_of(called), tuple(map(self.reference, operands)), {})
        result = self._number(e, values, node)
        self.computed_before[key] = result, operands  # operands stay, and so their identities
        return result

    def compared(self, called: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
        """The outcome of a comparison of sizes, where it is the same for all of them; else what decides when it is read."""
        x, y = (_expr(n) for n in (a, b))
        if not self.is_on():
            return bool(function(*(n.value if isinstance(n, SymNumber) else n for n in (a, b))))
        if x is not None and y is not None:
            result = self.symbols.known(x - y, called)
            if result is not None:
                return result
        made = self.computed(called, function, a, b)
        if isinstance(made, SymBool):
            made.name = made.name._replace(expr=None)
            self.computed_before.setdefault(("comparison", id(made)), (made, (called, x, y)))
        return made

    def _comparison(self, outcome: SymBool) -> tuple[str, Expr | None, Expr | None]:
        return self.computed_before.get(("comparison", id(outcome)), (None, ("", None, None)))[1]

    def decided(self, outcome: SymBool) -> bool:
        """The bool of a comparison: what is exported holds for sizes of that outcome alone."""
        if not self.is_on():
            return bool(outcome.value)
        self._learn(outcome, bool(outcome.value), f"the program decides by it{user_line()}")
        return bool(outcome.value)

    def _learn(self, outcome: SymBool, wanted: bool, why: str) -> None:
        called, x, y = self._comparison(outcome)
        if x is None or y is None:
            if all(v == outcome.value for v in outcome.name.values) and not self._is_unbacked(outcome):
                return
            if self._is_unbacked(outcome):
                raise GuardOnDataDependentSymNode(
                    f"Could not guard on data-dependent expression{user_line()}: the program's way depends on a value of a tensor. Let "
                    "torch.cond choose between two functions, or compute both and choose by torch.where"
                )
            raise GuardOnDataDependentSymNode(
                f"Could not guard on an expression of sizes that is no comparison of whole numbers{user_line()}: compare sizes themselves"
            )
        relation = called if wanted else _INVERTED[called]
        d = x - y
        if self.symbols.known(d, relation) is True:
            return
        if any(self.symbols.symbols[n].unbacked for n in d.symbols() if n in self.symbols.symbols):
            raise GuardOnDataDependentSymNode(
                f"Could not guard on data-dependent expression {x} {_SIGNS[called]} {y}{user_line()}: the program looks at a value of a "
                f"tensor. Say what holds with torch._check({x} {_SIGNS[called]} {y}) before, or let torch.cond choose"
            )
        self._require(d, relation, why)

    def _is_unbacked(self, n: SymNumber) -> bool:
        return n.name.expr is None and isinstance(n.name.node, Node) and _from_item(n.name.node)

    def _require(self, d: Expr, relation: str, why: str, samples: bool = True) -> None:
        """Learn a fact; samples that it forbids are drawn anew."""
        before = len(self.symbols.replaced)
        holds = all(
            getattr(operator, relation)(d.value(w), 0) for w in self.symbols.worlds if d.symbols() <= w.keys()
        )
        news = self.symbols.learn(d, relation, why)
        if samples and news and (not holds or len(self.symbols.replaced) != before):
            raise Again

    def demanded(self, outcome: SymBool, message: str | None) -> None:
        """What `_check` demands: known from here on, and checked where a program's own values come in."""
        called, x, y = self._comparison(outcome)
        if x is None or y is None:
            self._assert(outcome, message or "Expected cond to be True, but got False.")
            return
        d = x - y
        names = d.symbols() & {n for n, s in self.symbols.symbols.items() if s.unbacked}
        if names:
            self._assert(
                outcome, message or f"Runtime assertion failed for expression {x} {_SIGNS[called]} {y}"
            )
            if not outcome.value:
                raise RuntimeError(
                    message
                    or f"Expected {x} {_SIGNS[called]} {y}, which does not hold for the example{user_line()}"
                )
        elif not outcome.value:
            raise RuntimeError(
                message
                or f"Expected {x} {_SIGNS[called]} {y}, which does not hold for the example{user_line()}"
            )
        shaped = any(
            self.symbols.ranges[n][0] == 0 for n in names
        )  # counts of elements, whose samples are what they are
        self._require(d, called, f"torch._check demands it{user_line()}", not shaped)

    def _assert(self, outcome: SymBool, message: str) -> None:
        if message not in self.asserted:
            self.asserted.add(message)
            self.node(target("aten", "_assert_scalar"), (self.number_node(outcome), message), {})

    def require_equal(self, n: SymNumber) -> None:
        """The program takes a number as that of the example."""
        if not self.is_on():
            return
        if n.name.expr is None:
            if self._is_unbacked(n) or any(v != n.value for v in n.name.values):
                raise GuardOnDataDependentSymNode(
                    f"Could not take a number that depends on sizes or values as a plain Python number{user_line()}: keep to arithmetic "
                    "and torch.sym_int, torch.sym_sqrt and their kin"
                )
            return
        if any(self.symbols.symbols[s].unbacked for s in n.name.expr.symbols()):
            raise GuardOnDataDependentSymNode(
                f"Could not extract specialized integer from data-dependent expression {n.name.expr}{user_line()}: the program takes a "
                "value of a tensor as a plain Python number"
            )
        self._require(
            n.name.expr - n.value, "eq", f"the program takes it as a plain Python number{user_line()}"
        )

    def shown(self, n: SymNumber) -> str:
        """The expression."""
        return str(n.name) if n.name.expr is not None else repr(n.value)

    def _item(self, t: Any) -> Any:
        """A number out of a tensor: not known before a program runs."""
        result = self.traced(t)
        self.suspended += 1
        value = TensorBase.item(t) if hasattr(TensorBase, "item") else REGISTRY["item"].function(t)
        self.suspended -= 1
        node = self.node(target("aten", "item"), (result.node,), {})
        if type(value) is not int:
            return self._number(None, (value,) * (self.count + 1), node)
        low, high = self.symbols.drawn.get(f"u{self.unbacked}", (2, 40))
        low = int(min(max(low, 2), high))
        drawn = [random.Random(k).randint(low, int(min(high, low + 40))) for k in range(self.count)]
        e = self._new_symbol(value, "u", [value, *drawn], low=-math.inf)
        return self._number(e, self._values(e) if self.count else (value,), node)

    def _new_symbol(self, hint: int, prefix: str, values: Sequence[int], low: float = 0) -> Expr:
        name = f"{prefix}{self.unbacked}"
        self.unbacked += 1
        e = self.symbols.add_unbacked(Symbol(name, hint, name, low, math.inf, unbacked=True))  # type: ignore[arg-type]
        for world, value in zip(self.symbols.worlds, values):
            world[name] = value
        return e
