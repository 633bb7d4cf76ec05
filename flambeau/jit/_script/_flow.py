"""Branches and loops, and what is known of variables in them and after them."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ._assignments import Assignments
from ._types import (
    INT,
    NONE,
    STR,
    TENSOR,
    Type,
    is_subtype,
    unified,
)
from ._values import Iteration, ModuleRef, Several, Simple, Value


class Flow(Assignments):
    """The part of a function's compiler that reads branches and loops."""

    # --- branches ------------------------------
    @contextlib.contextmanager
    def branch(self, refined: dict[str, Type]) -> Iterator[dict[str, Value]]:
        """Within it, variables that are set are a branch's own."""
        self.frames.append({})
        for name, t in refined.items():
            self.refine_one(name, t)
        try:
            yield self.frames[-1]
        finally:
            self.frames.pop()

    @contextlib.contextmanager
    def refined(self, types: dict[str, Type]) -> Iterator[None]:
        """Within it, variables are known to be of these types."""
        with self.branch(types):
            yield

    def refine(self, types: dict[str, Type]) -> None:
        """Variables are of these types from here on."""
        for name, t in types.items():
            self.refine_one(name, t)

    def refine_one(self, name: str, t: Type) -> None:
        result = self.look_up(name)
        if not isinstance(result, Simple) or result.type == t:
            return
        if t == NONE:
            self.frames[-1][name] = Simple(result.text, result.py, NONE, stable=True)
            return
        self.declared.setdefault(name, result.type)
        text, py = self.named(name)
        if result.text == text:
            self.add(f"{text} = unchecked_cast({t.text}, {text})", None)
        self.frames[-1][name] = Simple(text, py, t, stable=True)

    def on_If(self, node: ast.If) -> None:
        test = self.condition(node.test)
        if test.static is not None:
            self.refine(test.then if test.static else test.other)
            self.block(node.body if test.static else node.orelse)
            return
        self.add(f"if {test.value.text}:", f"if {test.value.py}:")
        yes, yes_ended = self.one_branch(node.body, test.then)
        self.add("else:", "else:")
        no, no_ended = self.one_branch(node.orelse, test.other)
        self.ended = yes_ended and no_ended
        if not self.ended:
            self.join(yes, no, yes_ended, no_ended, node)

    def one_branch(self, body: list[ast.stmt], refined: dict[str, Type]) -> tuple[dict[str, Value], bool]:
        """Write a branch; its variables, and whether no way leads out of it."""
        self.depth += 1
        with self.captured() as lines, self.branch(refined) as frame:
            self.block(body)
        self.depth -= 1
        self.take(lines)
        ended, self.ended = self.ended, False
        return frame, ended

    def join(
        self, yes: dict[str, Value], no: dict[str, Value], yes_ended: bool, no_ended: bool, node: ast.AST
    ) -> None:
        """What variables are after a branch."""
        if yes_ended or no_ended:
            for name, value in (no if yes_ended else yes).items():
                self.frames[-1][name] = value
            return
        for name in (*yes, *(n for n in no if n not in yes)):
            outer = self.look_up(name)
            a, b = yes.get(name, outer), no.get(name, outer)
            if a is None or b is None:
                where = "false" if b is None else "true"
                other = "true" if b is None else "false"
                self.absent[name] = (
                    f"{name} is not defined in the {where} branch: it is set in the {other} branch alone"
                )
                continue
            if not isinstance(a, Simple) or not isinstance(b, Simple):
                if a is not b:
                    self.absent[name] = f"{name} is not the same value in both branches"
                    continue
                self.frames[-1][name] = a
                continue
            t = unified(a.type, b.type)
            declared = self.declared.get(name)
            if (
                t is None
                and declared is not None
                and is_subtype(a.type, declared)
                and is_subtype(b.type, declared)
            ):
                t = declared
            if t is None:
                self.refuse(
                    f"Type mismatch: {name} is set to type {a.type} in the true branch and type {b.type} in the false branch",
                    node,
                )
            assert t is not None
            text, py = self.named(name)
            self.frames[-1][name] = Simple(text, py, t, stable=True)

    # --- loops ------------------------------
    def on_While(self, node: ast.While) -> None:
        if node.orelse:
            self.code.unsupported("else branches of while loops aren't supported", node)
        self.forget([node])
        self.depth += 1
        with self.captured() as test_lines, self.branch({}):
            test = self.condition(node.test)
            with self.captured() as lines, self.branch(test.then):
                self.loops.append("while")
                self.block(node.body)
                self.loops.pop()
        self.depth -= 1
        self.ended = False
        if test.static is False:
            return
        if test_lines:
            self.add("while True:", "while True:")
            self.lines += test_lines
            self.depth += 1
            self.add(f"if {test.value.text}:", f"if not {test.value.py}:")
            self.depth += 1
            self.add("pass", "break")
            self.depth -= 1
            self.add("else:", None)
            self.depth += 1
            self.add("break", None)
            self.depth -= 2
        else:
            self.add(f"while {test.value.text}:", f"while {test.value.py}:")
        self.take(lines)
        self.ended = test.static is True and not any((line.py or "") == "break" for line in lines)

    def on_For(self, node: ast.For) -> None:
        if node.orelse:
            self.code.unsupported("else branches of for loops aren't supported", node)
        iterated = self.expression(node.iter)
        if self.unrolled(iterated) is None:
            self.forget(node.body)
        self.loop_over(iterated, node.target, lambda: self.block(node.body), node)

    def forget(self, nodes: list[ast.stmt]) -> None:
        """What variables are that a loop sets is not known in it."""
        for part in (p for n in nodes for p in ast.walk(n)):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                for frame in self.frames:
                    value = frame.get(part.id)
                    if isinstance(value, Simple) and value.is_constant and value.type != NONE:
                        frame[part.id] = Simple(value.text, value.py, value.type, stable=True)

    def on_Break(self, node: ast.Break) -> None:
        self._leave("break", node)

    def on_Continue(self, node: ast.Continue) -> None:
        self._leave("continue", node)

    def _leave(self, word: str, node: ast.AST) -> None:
        if self.loops and self.loops[-1] == "unrolled":
            self.refuse(f"{word} is not supported in loops over modules or tuples, which are unrolled", node)
        if not self.loops:
            self.refuse(f"'{word}' outside loop", node)
        self.add(word, word)
        self.ended = True

    def unrolled(self, value: Value) -> list[Value] | None:
        """The items of what is there while the program is compiled; None for what is not."""
        if isinstance(value, ModuleRef):
            result = value.kind.items(value)
            if result is None:
                return None
            return (
                [self.literal(k) for k in result.keys]
                if value.kind.keys is not None and result.keys is not None
                else result.items
            )
        if isinstance(value, Several):
            return value.items
        if isinstance(value, Simple) and value.type.kind == "Tuple":
            held = value if value.items is not None else self.held(value)
            return [self.item_of(held, k) for k in range(len(value.type.inner))]
        if isinstance(value, Iteration) and value.kind in ("enumerate", "zip", "reversed"):
            return self._unrolled_parts(value)
        return None

    def _unrolled_parts(self, value: Iteration) -> list[Value] | None:
        if value.kind == "enumerate":
            items = self.unrolled(value.parts[0])
            start = value.parts[1] if len(value.parts) > 1 else self.literal(0)
            first = start.constant if isinstance(start, Simple) and start.is_constant else 0
            return (
                None
                if items is None
                else [Several([self.literal(k + first), v]) for k, v in enumerate(items)]
            )
        parts = [self.unrolled(p) for p in value.parts]
        if value.kind == "reversed":
            return None if parts[0] is None else parts[0][::-1]
        if all(p is None for p in parts):
            return None
        length = min(len(p) for p in parts if p is not None)
        columns: list[list[Value]] = []
        for part, items in zip(value.parts, parts):
            if items is None:
                held = self.held(self.as_simple(part, value.node))
                t = held.type.inner[0] if held.type.kind == "List" else TENSOR
                items = [Simple(f"{held.text}[{k}]", f"{held.py}[{k}]", t) for k in range(length)]
            columns.append(items)
        return [Several(list(row)) for row in zip(*columns)]

    def loop_over(
        self,
        iterated: Value,
        target: ast.expr,
        body: Callable[[], None],
        node: ast.AST,
        own_names: bool = False,
    ) -> None:
        """A loop: over what is there while the program is compiled it is unrolled."""
        items = self.unrolled(iterated)
        if items is not None:
            self.loops.append("unrolled")
            for item in items:
                if self.ended:
                    break
                self.bind_target(target, item, node)
                body()
            self.loops.pop()
            return
        count, count_py, getter, small = self.counted(iterated, node)
        index = self.fresh()
        is_simple_range = (
            isinstance(iterated, Iteration) and iterated.kind == "range" and isinstance(target, ast.Name)
        )
        self.loops.append("for")
        self.depth += 1
        with self.captured() as lines, self.branch({}):
            item = getter(index)
            if (
                is_simple_range
                and isinstance(item, Simple)
                and item.text == index
                and isinstance(target, ast.Name)
            ):
                if own_names:
                    self.names.pop(target.id, None)
                self._loop_variable(target, node, own_names)
                text, py = self.named(target.id)
                index = index if text is None else text
                made = Simple(text, py, INT, stable=True, small=True)
                if not own_names:
                    self.enter(target.id, made, node)
                self.frames[-1][target.id] = made
                index_py = py
            else:
                self._bound_item(target, item, node, own_names)
                index_py = index
            body()
        self.depth -= 1
        self.loops.pop()
        self.ended = False
        self.add(f"for {index} in range({count}):", f"for {index_py} in {count_py}:")
        self.take(lines)

    def _loop_variable(self, target: ast.Name, node: ast.AST, own_names: bool) -> None:
        before = self.look_up(target.id)
        if (
            isinstance(before, Simple)
            and not own_names
            and not is_subtype(INT, self.declared.get(target.id, before.type))
        ):
            self.refuse(
                f"Variable '{target.id}' previously had type {before.type} but is now being assigned to a value of type int",
                node,
            )

    def _bound_item(self, target: ast.expr, item: Value, node: ast.AST, own_names: bool) -> None:
        if isinstance(item, Several) and isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, item, node, own_names)
        else:
            self.bind_target(target, item, node, own_names)

    def counted(self, value: Value, node: ast.AST) -> tuple[str, str, Callable[[str], Value], bool]:
        """How often a loop runs, as code and as what Python goes over, and its item for an index."""
        if isinstance(value, Iteration):
            if value.kind == "range":
                return self._range(value, node)
            parts = [
                self.counted(p, node) for p in (value.parts[:1] if value.kind == "enumerate" else value.parts)
            ]
            if value.kind == "enumerate":
                start = self.as_simple(value.parts[1], node) if len(value.parts) > 1 else None
                return self._enumerated(parts[0], start)
            if value.kind == "zip":
                count = f"ops.prim.min([{', '.join(p[0] for p in parts)}])" if len(parts) > 1 else parts[0][0]
                counts = ", ".join(f"len({p[1]})" for p in parts)
                py = f"range(min({counts}))" if len(parts) > 1 else parts[0][1]
                return count, py, lambda k: Several([p[2](k) for p in parts]), False
            return self.refuse(f"{value.kind} cannot be iterated here", node)
        result = self.held(self.as_simple(value, node))
        if result.type.kind == "Dict":
            result = self.held(self.of_hosts("keys", [result], {}, node))
        if result.type == TENSOR:
            return (
                f"torch.len({result.text})",
                f"range(len({result.py}))",
                lambda k: Simple(f"torch.select({result.text}, 0, {k})", f"{result.py}[{k}]", TENSOR),
                False,
            )
        if result.type.kind == "class":
            return self._of_object(result, node)
        if result.type.kind not in ("List", "str"):
            return self.refuse(f"'{result.type}' object is not iterable", node)
        t = STR if result.type == STR else result.type.inner[0]
        return (
            f"torch.len({result.text})",
            f"range(len({result.py}))",
            lambda k: Simple(f"{result.text}[{k}]", f"{result.py}[{k}]", t),
            False,
        )

    def _of_object(self, result: Simple, node: ast.AST) -> Any:
        self.refuse(f"'{result.type}' object is not iterable", node)

    def _range(self, value: Iteration, node: ast.AST) -> tuple[str, str, Callable[[str], Value], bool]:
        limits = [self.held(self.as_simple(p, node)) for p in value.parts]
        for limit in limits:
            if limit.type not in (INT, TENSOR):
                self.refuse(f"range() takes ints, got a value of type {limit.type}", node)
        limits = [
            v if v.type == INT else Simple(f"int({v.text})", f"number(int, {v.py})", INT) for v in limits
        ]
        arguments = ", ".join(v.py for v in limits)
        if len(limits) == 1:
            return (
                limits[0].text,
                f"range({arguments})",
                lambda k: Simple(k, k, INT, stable=True, small=True),
                True,
            )
        three = [*(v.text for v in limits), "1"][:3]
        count = f"torch.__range_length({', '.join(three)})"

        def item(k: str) -> Value:
            text = f"torch.__derive_index({k}, {three[0]}, {three[2]})"
            return Simple(text, f"range({arguments})[{k}]", INT, small=True)

        return count, f"range(len(range({arguments})))", item, True

    def _enumerated(self, part: Any, start: Simple | None) -> Any:
        count, py, getter, _ = part

        def item(k: str) -> Value:
            number = Simple(k, k, INT, stable=True, small=True)
            if start is not None:
                number = Simple(f"torch.add({k}, {start.text})", f"({k} + {start.py})", INT)
            return Several([number, getter(k)])

        return count, py, item, False

    def on_With(self, node: ast.With) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self.code.not_supported("`with … as` is not supported here", node)
        texts = []
        for item in node.items:
            call = item.context_expr
            result = self.host_of(call.func) if isinstance(call, ast.Call) else None
            mode = self.unit.grad_modes.get(result) if getattr(result, "__hash__", None) is not None else None
            if mode is None:
                self.code.not_supported(
                    "with statements are of no_grad() and enable_grad() alone: other contexts are not compiled",
                    node,
                )
            texts.append(mode)
        for text, py in texts:
            self.add(f"with {text}:", f"with {py}:")
            self.depth += 1
        with self.captured() as lines:
            self.block(node.body)
        self.depth -= 1
        self.take(lines)
        self.depth -= len(texts) - 1
