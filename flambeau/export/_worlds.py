"""Calls in all worlds: what an operation gives for other sizes tells the shapes of its results, and what must hold of the sizes."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._symbols.environment import Again
from .._symbols.expressions import Expr, number
from .._symbols.fitting import fitted
from .._symbols.numbers import SymInt, SymNumber
from .._symbols.solving import explain
from ..autograd.grad_mode import no_grad
from ..core.base.tensor import TensorBase
from ..core.call.operation import Op
from ..core.tape import is_grad_enabled
from ..fx.node import Node, map_arg
from ..library._targets import own_target, target
from ..overrides import TorchFunctionMode
from ._lines import user_line
from ._numbers import Numbers
from ._shadows import (
    Traced,
    alike,
    example_of,
    filled,
    leaves_of,
    like,
    mapped,
    results_count,
    shadow_of,
    strides_of,
    tensors_of,
    value_of,
    without_data,
)
from ._values import TensorValue
from .errors import GuardOnDataDependentSymNode

_LARGEST = 1 << 24  # elements of a tensor with data that a world may have


class Worlds(Numbers):
    """A call is appended once, and runs in each world."""

    mode: TorchFunctionMode

    # --- worlds ------------------------------
    def emit(
        self,
        function: Any,
        args: tuple,
        kwargs: dict[str, Any],
        run: Callable[..., Any],
        run_args: tuple,
        run_kwargs: dict[str, Any],
        item: int | None = None,
        returns: int | None = None,
        op: Any = None,
    ) -> Any:
        """Append a node of `function`, whose result is what `run` gives; `item` of ATen's results is the call's one."""
        rule = self.decompositions.get(function)
        if rule is not None:
            with self.mode:
                decomposed = rule(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed if item is None else decomposed[item]
        self.suspended += 1
        try:
            result = run(*example_of(run_args), **example_of(run_kwargs))
        finally:
            self.suspended -= 1
        if (
            result is not None
            and not any(isinstance(x, TensorBase) for x in leaves_of(result))
            and not isinstance(result, (tuple, list))
        ):
            return self._answer(function, run, run_args, run_kwargs, result)
        if (
            isinstance(result, list)
            and not any(isinstance(x, TensorBase) for x in leaves_of(result))
            and result
        ):
            return self._answer(function, run, run_args, run_kwargs, result)
        if op is not None and item is None and returns is not None and returns != results_count(result):
            return self._own_after(op, run, run_args, run_kwargs, result)
        return self._append(function, args, kwargs, run, run_args, run_kwargs, result, item)

    def _own_after(self, op: Op, run: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> Any:
        function = own_target(op)
        return self._append(function, args, kwargs, run, args, kwargs, result, None)

    def _append(
        self,
        function: Any,
        args: tuple,
        kwargs: dict[str, Any],
        run: Callable[..., Any],
        run_args: tuple,
        run_kwargs: dict[str, Any],
        result: Any,
        item: int | None,
    ) -> Any:
        node = self.node(
            function, tuple(map(self.reference, args)), {k: self.reference(v) for k, v in kwargs.items()}
        )
        shadows, opaque = self._in_worlds(node, run, run_args, run_kwargs, result)
        detached = self.began_with_grad and not is_grad_enabled()
        if detached and not any(map(self._may_have_history, tensors_of((run_args, run_kwargs)))):
            detached = False
            self.without_history.add(node)
        elif detached and self.has_effect(node):  # what is written to keeps the history that it has
            with self.graph.inserting_before(node):
                node.args, node.kwargs = map_arg((node.args, node.kwargs), self._detached)
        if item is not None:
            node = self._item_node(node, item)
        more = self._prober(run, run_args, run_kwargs)
        self.suspended += 1  # shapes are plain numbers here
        try:
            self._name(
                node, result, shadows, self._sizes_of((run_args, run_kwargs)), more, (), opaque, detached
            )
        finally:
            self.suspended -= 1
        return result

    def _detached(self, node: Node) -> Node:
        """A value without its history, in the same memory."""
        if node in self.without_history:
            return node
        made = self.node(target("aten", "detach"), (node,), {})
        made.meta["val"] = node.meta.get("val")
        return made

    def _may_have_history(self, t: Any) -> bool:
        """Whether a gradient may flow through a tensor when the program runs, where inputs may require one that do not now."""
        if not (t.is_floating_point() or t.is_complex()):
            return False
        entry = self.entries.get(id(t))
        return entry is None or entry[1].node not in self.without_history

    def _item_node(self, node: Node, k: int) -> Node:
        made = self.node(operator.getitem, (node, k), {})
        if node in self.without_history:
            self.without_history.add(made)
        return made

    def _name(
        self,
        node: Node,
        result: Any,
        shadows: Sequence[Any],
        sizes: list[Expr],
        more: Any,
        path: tuple[int, ...],
        opaque: bool,
        detached: bool = False,
    ) -> None:
        """Nodes for what a call gave."""
        if isinstance(result, TensorBase):
            value = self._described(result, shadows, sizes, more, path, opaque)
            entry = Traced(node, value, tuple(shadows))
            self._describe(entry)
            if detached and id(result) in self.entries:
                return  # itself, with its history
            if detached and (result.is_floating_point() or result.is_complex()):
                if node.target is not target("aten", "detach"):
                    entry = entry._replace(node=self.node(target("aten", "detach"), (node,), {}))
                    self._describe(entry)
                self.without_history.add(entry.node)
            self.enter(result, entry)
        elif isinstance(result, (tuple, list)) and any(isinstance(x, TensorBase) for x in leaves_of(result)):
            values: list[Any] = []
            for k, each in enumerate(result):
                if isinstance(each, (TensorBase, tuple, list)):
                    inner = self._item_node(node, k)
                    self._name(
                        inner, each, [s[k] for s in shadows], sizes, more, (*path, k), opaque, detached
                    )
                    values.append(inner.meta.get("val"))
                else:
                    values.append(None)
            node.meta["val"] = tuple(values)

    def _described(
        self,
        t: Any,
        shadows: Sequence[Any],
        sizes: list[Expr],
        more: Any,
        path: tuple[int, ...],
        opaque: bool,
    ) -> TensorValue:
        shape, strides = tuple(t.shape), tuple(t.stride())
        if not shadows:
            return value_of(t, shape, strides)
        result: list[Any] = []
        for d, n in enumerate(shape):
            values = (n, *(int(s.shape[d]) for s in shadows))
            result.append(self._fitted(values, sizes, more, path, d, opaque))
        return value_of(t, tuple(result), strides_of(t, shadows, result))

    def _fitted(
        self,
        values: tuple[int, ...],
        sizes: list[Expr],
        more: Any,
        path: tuple[int, ...],
        d: int,
        opaque: bool,
    ) -> Any:
        worlds = self.symbols.worlds

        def samples() -> Iterator[tuple[Mapping[str, int], int]]:
            for assigned, result in more():
                for k in path:
                    result = result[k]
                yield assigned, int(result.shape[d])

        if not opaque:
            e = fitted(values, worlds, sizes, samples)
            if e is not None:
                c = e.constant()
                return e if c is None else c
        elif len(set(values)) == 1:
            return values[0]
        elif (e := fitted(values, worlds, sizes, lambda: iter(()))) is not None and opaque:
            return e
        return self._new_symbol(values[0], "u", values)

    def _sizes_of(self, args: Any) -> list[Expr]:
        """The expressions that sizes of results may be made of."""
        result: list[Expr] = []
        tensors = [x for x in leaves_of(args) if isinstance(x, TensorBase)]
        shapes = [self.traced(t).value.shape for t in tensors]
        for x in leaves_of(args):
            if isinstance(x, SymInt) and x.name.expr is not None:
                result.append(x.name.expr)
        for shape in shapes:
            result += [e for e in shape if isinstance(e, Expr)]
        for shape in shapes:
            for first in range(len(shape)):
                step: Any = 1
                for k in range(first, len(shape)):
                    step = shape[k] * step
                    if k > first and isinstance(step, Expr):
                        result.append(step)
        rank = max((len(s) for s in shapes), default=0)
        if len(shapes) > 1:
            for d in range(rank):
                total: Any = sum((s[d] for s in shapes if d < len(s)), number(0))
                if isinstance(total, Expr) and total.symbols():
                    result.append(total)
        roots = sorted(set().union(*(e.symbols() for e in result)))
        result += [Expr({(name,): 1}) for name in roots]
        return list(dict.fromkeys(result))

    def _in_worlds(
        self, node: Node, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any], result: Any
    ) -> tuple[list[Any], bool]:
        """The results in the other worlds, and whether they came of drawn elements."""
        results: list[Any] = []
        self.suspended += 1
        try:
            with no_grad():
                for w in range(1, self.count + 1):
                    call = self._args_in(args, kwargs, w)
                    try:
                        made = without_data(run, *call)
                    except Exception as error:  # noqa: BLE001  of whatever class the operation raises
                        return self._failed(node, run, args, kwargs, result, error)
                    if not alike(made, result):
                        return self._failed(node, run, args, kwargs, result, None)
                    results.append(made)
        finally:
            self.suspended -= 1
        return results, False

    def _args_in(self, args: Any, kwargs: Any, w: int) -> tuple[Any, Any]:
        def one(x: Any) -> Any:
            if isinstance(x, TensorBase):
                return self.traced(x).shadows[w - 1]
            return x.name.values[w] if isinstance(x, SymNumber) else x

        return mapped(args, one), mapped(kwargs, one)

    def _failed(
        self,
        node: Node,
        run: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
        result: Any,
        error: Exception | None,
    ) -> tuple[list[Any], bool]:
        """Learn what must hold of the sizes; where the call needs elements, its results in the worlds of drawn ones."""
        sizes = self._sizes_of((args, kwargs))

        def works(assigned: Mapping[str, int]) -> bool:
            try:
                return alike(self._at(run, args, kwargs, assigned), result)
            except Exception:  # noqa: BLE001  of whatever class the operation raises
                return False

        if works(self.symbols.worlds[0]):
            message = (
                f"{str(error).splitlines()[0]}"
                if error is not None and str(error)
                else "its result has other dimensions"
            )
            explain(self.symbols, sizes, works, f"{node.target}: {message}{user_line()}")
            raise Again
        return self._drawn(run, args, kwargs, result), True

    def _drawn(self, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any], result: Any) -> list[Any]:
        """The results of drawn elements in the other worlds; in worlds that are too large for that, those of the example."""
        results = []
        for w in range(1, self.count + 1):

            def one(x: Any, w: int = w) -> Any:
                if isinstance(x, TensorBase):
                    return filled(self.traced(x).shadows[w - 1], w)
                return x.name.values[w] if isinstance(x, SymNumber) else x

            made: Any = result
            if all(s.numel() <= _LARGEST for s in tensors_of(self._args_in(args, kwargs, w))):
                try:
                    made = run(*mapped(args, one), **mapped(kwargs, one))
                except Exception:  # noqa: BLE001  elements that the operation does not take
                    made = result
            results.append(mapped(made, lambda x: shadow_of(x) if isinstance(x, TensorBase) else x))
        return results

    def _at(
        self, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any], assigned: Mapping[str, int]
    ) -> Any:
        """The result for given sizes of symbols, without data."""

        def one(x: Any) -> Any:
            if isinstance(x, TensorBase):
                result = self.traced(x)
                return like(result.value, x, assigned)
            if isinstance(x, SymNumber):
                return x.name.expr.value(assigned) if x.name.expr is not None else x.value
            return x

        self.suspended += 1
        try:
            with no_grad():
                return without_data(run, mapped(args, one), mapped(kwargs, one))
        finally:
            self.suspended -= 1

    def _prober(self, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        before = list(tensors_of((args, kwargs)))
        values = [self.traced(t).value for t in before]

        def more() -> Iterator[tuple[Mapping[str, int], Any]]:
            rng = random.Random(7)
            if any(self.traced(t).value is not v for t, v in zip(before, values)):
                return
            for _ in range(40):
                assigned = self.symbols.sample("drawn", rng)
                if assigned is None:
                    return
                try:
                    yield assigned, self._at(run, args, kwargs, assigned)
                except Exception:  # noqa: BLE001  sizes that the operation does not take
                    continue

        return more

    def _answer(
        self, function: Any, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any], result: Any
    ) -> Any:
        """What a tensor answers that is no tensor: GuardOnDataDependentSymNode where it follows from elements."""

        def one(x: Any) -> Any:
            return shadow_of(x) if isinstance(x, TensorBase) else x.value if isinstance(x, SymNumber) else x

        self.suspended += 1
        try:
            run(*mapped(args, one), **mapped(kwargs, one))
        except Exception:  # noqa: BLE001  of whatever class: it has no answer without elements
            raise GuardOnDataDependentSymNode(
                f"export(): {getattr(run, '__name__', function)}() looks at values of a tensor, which are not known before the program runs"
                f"{user_line()}: compute with tensors (torch.where), let torch.cond choose, or take numbers with item() and torch._check"
            ) from None
        finally:
            self.suspended -= 1
        return result
