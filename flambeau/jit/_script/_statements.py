"""Statements: assignments, branches, loops, returns; and what is known of variables after them."""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ._expressions import Condition, Expressions
from ._marks import Written
from ._operators import fit
from ._source import Code
from ._types import BOOL, INT, NONE, NUMBER, STR, TENSOR, List, Optional, Tuple, Type, is_subtype, of_value, unified
from ._values import Iteration, Method, ModuleRef, Several, Simple, Value

_UNSUPPORTED = {
    ast.Try: "try blocks aren't supported",
    ast.ClassDef: "class definitions aren't supported",
    ast.Import: "import statements aren't supported",
    ast.ImportFrom: "import statements aren't supported",
    ast.Global: "global variables aren't supported",
    ast.Nonlocal: "nonlocal variables aren't supported",
    ast.AsyncFunctionDef: "async function definitions aren't supported",
    ast.AsyncFor: "async for loops aren't supported",
    ast.AsyncWith: "async with statements aren't supported",
    ast.FunctionDef: "function definitions aren't supported",
    ast.Match: "match statements aren't supported",
}
_IN_PLACE = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class Statements(Expressions):
    """The part of a function's compiler that reads statements."""

    def __init__(self, unit: Any, code: Code, returns: Type | None) -> None:
        super().__init__(unit, code)
        self.returns, self.returned = returns, None
        self.declared: dict[str, Type] = {}

    returned: Type | None

    def block(self, nodes: list[ast.stmt]) -> None:
        """Statements one after another; what no way leads to is not compiled."""
        for node in nodes:
            if self.ended:
                return
            self.at = self.code.line(node)
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        method = getattr(self, f"on_{type(node).__name__}", None)
        if method is None:
            what = _UNSUPPORTED.get(type(node), f"{type(node).__name__} aren't supported")
            self.code.unsupported(what, node)
        else:
            method(node)

    # --- plain ones ------------------------------
    def on_Pass(self, node: ast.Pass) -> None:
        """Nothing is written."""

    def on_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        value = self.expression(node.value)
        if isinstance(value, Simple) and not value.stable:
            self.add(f"{self.fresh()} = {value.text}" if value.type != NONE else value.text, value.py)

    def on_Assert(self, node: ast.Assert) -> None:
        test = self.condition(node.test)
        if test.static is not True:
            value = test.value
            self.add(f"if {value.text}:", f"if not {value.py}:")
            self.depth += 1
            self.add("pass", None)
            self.depth -= 1
            self.add("else:", None)
            self.depth += 1
            with self.branch({}):
                text = self.simple(node.msg) if node.msg is not None else self.literal("")
                if text.type != STR:
                    text = Simple(f"str({text.text})", f"shown({text.py})", STR)
                shown = self.operator("add", "+", self.literal("AssertionError: "), text, node)
                self.add(f"ops.prim.RaiseException({shown.text})", f"_g_raise({shown.py}, None)")
            self.depth -= 1
        self.refine(test.then)

    def on_Raise(self, node: ast.Raise) -> None:
        if node.exc is None:
            self.code.not_supported("a raise without an exception is not supported", node)
        assert node.exc is not None
        kind, args = node.exc, list[ast.expr]()
        if isinstance(kind, ast.Call):
            kind, args = kind.func, kind.args
        f = self.host_of(kind)
        if not (isinstance(f, type) and issubclass(f, BaseException)):
            self.refuse("exceptions must derive from BaseException", node)
        texts = [
            v if v.type == STR else Simple(f"str({v.text})", f"shown({v.py})", STR) for v in self.simples(args)
        ]
        text = texts[0] if texts else self.literal("")
        if len(texts) > 1:
            text = self.formatted(self.literal(" ".join(["{}"] * len(texts))), texts)
        name = f.__name__
        module = "builtins" if getattr(builtins, name, None) is f else f.__module__
        self.add(
            f'ops.prim.RaiseException({text.text}, "{module}.{name}")', f"_g_raise({text.py}, {module + '.' + name!r})"
        )
        self.ended = True

    def on_Return(self, node: ast.Return) -> None:
        value: Value = self.expression(node.value, self.returns) if node.value is not None else self.literal(None)
        found = self.as_simple(value, node)
        found = self.returning(found, node)
        self.add(f"return {found.text}", f"return {found.py}")
        self.ended = True

    def returning(self, value: Simple, node: ast.AST) -> Simple:
        """A result as one of the function's type."""
        if self.returns is not None:
            found = fit(value, self.returns, {}, None, value.type != NUMBER)
            if found is None:
                self.refuse(
                    f"Return value was annotated as having type {self.returns} but is actually of type {value.type}", node
                )
            assert found is not None
            self.returned = self.returns
            return found
        both = value.type if self.returned is None else unified(self.returned, value.type)
        if both is None:
            self.refuse(
                f"Previous return statement returned a value of type {self.returned} but this return statement returns a value of type "
                f"{value.type}",
                node,
            )
        self.returned = both
        return value

    def on_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                if target.id not in self.frames[-1]:
                    self.refuse(f"undefined value {target.id}", target)
                del self.frames[-1][target.id]
                self.absent[target.id] = f"{target.id} was deleted"
            elif isinstance(target, ast.Subscript):
                owner, index = self.simples([target.value, target.slice])
                if owner.type.kind == "class":
                    self.effect(self.invoke(Method(owner, "__delitem__"), [index], {}, node))
                    continue
                self.of_hosts("Delete", [owner, index], {}, node)
                self.add(f"torch.Delete({owner.text}, {index.text})", f"del {owner.py}[{index.py}]")
            else:
                self.refuse("del is of variables and items", node)

    def effect(self, value: Value) -> None:
        """Write a value for what computing it does."""
        if isinstance(value, Simple) and not value.stable:
            self.add(value.text, value.py)

    # --- assignments ------------------------------
    def on_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) > 1:
            value: Value = self.simple(node.value)
            value = self.held(self.as_simple(value, node))
            for target in node.targets:
                self.bind_target(target, value, node)
            return
        target = node.targets[0]
        hint = None
        if isinstance(target, ast.Name):
            known = self.look_up(target.id)
            if target.id in self.declared:
                hint = self.declared[target.id]
            elif isinstance(known, Simple):
                hint = known.type
        elif isinstance(target, ast.Attribute):
            hint = self.type_of_target(target)
        self.bind_target(target, self.expression(node.value, hint), node)

    def type_of_target(self, target: ast.Attribute) -> Type | None:
        """The type that an attribute has which is assigned to."""
        owner = self.expression(target.value)
        if isinstance(owner, ModuleRef):
            return owner.kind.attributes.get(target.attr)
        if isinstance(owner, Simple) and owner.type.kind == "class":
            return self.unit.class_of(owner.type).attributes.get(target.attr)
        return None

    def on_AnnAssign(self, node: ast.AnnAssign) -> None:
        t = self.annotation_of(node.annotation)
        target = node.target
        if node.value is None:
            if isinstance(target, ast.Name):
                self.code.unsupported("a declaration without a value is not supported: give the variable its first value", node)
            return
        value = self.tolist(node.value, t) or self.simple(node.value, t)
        found = fit(value, t, {}, None, value.type != NUMBER)
        if found is None:
            what = target.id if isinstance(target, ast.Name) else ast.unparse(target)
            self.refuse(f"Variable '{what}' is annotated with type {t} but is being assigned to a value of type {value.type}", node)
        assert found is not None
        if isinstance(target, ast.Name):
            if any(target.id in f for f in self.frames[:-1]):
                self.refuse(
                    f"Attempting to declare and annotate the type of variable '{target.id}' that is already defined in an outer block", node
                )
            self.declared[target.id] = t
        if found.type != t:
            found = Simple(f"annotate({t.text}, {found.text})", found.py, t)
        self.bind_target(target, found.typed(t), node)

    def tolist(self, node: ast.expr, t: Type) -> Simple | None:
        """`x.tolist()`, whose type the annotation tells; None for any other expression."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "tolist"):
            return None
        owner = self.expression(node.func.value)
        if not isinstance(owner, Simple) or owner.type != TENSOR:
            return None
        depth, element = 0, t
        while element.kind == "List":
            depth, element = depth + 1, element.inner[0]
        kind = {"int": 0, "float": 1, "bool": 3}.get(element.kind)
        if kind is None:
            self.refuse(f"{t} is not one of the supported element types for tolist: int, float, bool", node)
        text = f"annotate({t.text}, ops.prim.tolist({owner.text}, {depth}, {kind}))"
        return Simple(text, f"_g_tolist({owner.py}, {depth}, {element.kind})", t)

    def bind_target(self, target: ast.expr, value: Value, node: ast.AST, own_names: bool = False) -> None:
        """Assign a value to a name, an attribute, an item, or to several of these."""
        if isinstance(target, ast.Name):
            self.assign(target.id, value, node, own_names)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value, node, own_names)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(target, self.as_simple(value, node), node)
        elif isinstance(target, ast.Subscript):
            self.set_item(target, self.as_simple(value, node), node)
        else:
            self.code.unsupported(f"{type(target).__name__} aren't supported", target)

    def assign(self, name: str, value: Value, node: ast.AST, own_names: bool = False) -> None:
        """`name = value`; modules and functions have no line, they are there while the program is compiled."""
        if own_names:
            self.names.pop(name, None)
        if not isinstance(value, Simple):
            if isinstance(value, Several) and all(isinstance(v, Simple) for v in value.items):
                value = self.as_simple(value, node)
            elif isinstance(value, Iteration):
                value = self.listed(value, node)
            else:
                self.enter(name, value, node)
                return
        before = next((f[name] for f in reversed(self.frames[:-1]) if name in f), None)
        if not own_names and isinstance(before, Simple):
            declared = self.declared.get(name, before.type)
            value = fit(value, declared, {}, None, True) or value
        text, py = self.named(name)
        t = value.type
        if value.text != text or value.py != py:
            shown = value.text
            declared_type = self.declared.get(name)
            if declared_type is not None and is_subtype(t, declared_type) and declared_type != t and t == NONE:
                shown = f"annotate({declared_type.text}, {shown})"
            self.add(f"{text} = {shown}", f"{py} = {value.py}")
        made = Simple(text, py, t, stable=True, small=value.small and value.is_constant)
        if value.is_constant and t.kind in ("int", "float", "bool", "str"):
            made.constant = value.constant
        if own_names:
            self.frames[-1][name] = made
        else:
            self.enter(name, made, node)

    def unpack(self, target: ast.Tuple | ast.List, value: Value, node: ast.AST, own_names: bool) -> None:
        count = len(target.elts)
        if any(isinstance(e, ast.Starred) for e in target.elts):
            self.code.unsupported("Starred assignments aren't supported", target)
        if isinstance(value, Several):
            items = value.items
        else:
            found = self.as_simple(value, node)
            if found.type.kind == "Tuple":
                if found.items is None:
                    items = self._unpacked(found)
                else:  # `a, b = b, a`: all are read before one is written
                    items = [v if v.is_constant else self._copied(v) for v in found.items]
            elif found.type.kind == "List":
                held = self.held(found)
                length = f"{count}"
                self.add(
                    f"if torch.ne(torch.len({held.text}), {length}):", f"if len({held.py}) != {length}:"
                )
                self.depth += 1
                why = f"Provided list of another length than {count}, which it is unpacked to"
                self.add(f"ops.prim.RaiseException({self.literal(why).text})", f"_g_raise({why!r}, None)")
                self.depth -= 1
                self.add("else:", None)
                self.depth += 1
                self.add("pass", None)
                self.depth -= 1
                t = found.type.inner[0]
                items = [Simple(f"{held.text}[{k}]", f"{held.py}[{k}]", t) for k in range(count)]
            else:
                self.refuse(f"Provided value of type {found.type} cannot be used as a tuple: it has no items to unpack", node)
                return
        if len(items) != count:
            few = "need more" if len(items) < count else "too many"
            self.refuse(f"{few} values to unpack: found {len(items)}, expected {count}", node)
        for part, item in zip(target.elts, items):
            self.bind_target(part, item, node, own_names)

    def _copied(self, value: Simple) -> Simple:
        name = self.fresh()
        self.add(f"{name} = {value.text}", f"{name} = {value.py}")
        return Simple(name, name, value.type, stable=True)

    def _unpacked(self, value: Simple) -> list[Simple]:
        names = [self.fresh() for _ in value.type.inner]
        left = "".join(n + ", " for n in names)
        if names:
            self.add(f"{left}= {value.text}", f"{left}= {value.py}")
        return [Simple(n, n, t, stable=True) for n, t in zip(names, value.type.inner)]

    def set_attribute(self, target: ast.Attribute, value: Simple, node: ast.AST) -> None:
        owner = self.expression(target.value)
        name = target.attr
        if isinstance(owner, ModuleRef):
            found = owner.kind.place_of(name) or ("constant" if name in owner.kind.constants else None)
            if found is None:
                self.refuse(f"Tried to set an attribute '{name}' that module '{owner.kind.shown}' does not have: declare it in __init__", node)
            if name in owner.kind.constants or name in owner.kind.frozen:
                if self.unit.kept is not None:
                    raise Written(name)
                self.refuse(f"Tried to set the constant '{name}'", node)
            assert found is not None
            value = self.attribute_value(value, owner.kind.attributes[name], name, node)
            if name == "training":
                self.add(f"{owner.text}.training = {value.text}", f"{owner.py}.training = {value.py}")
                return
            text_owner = owner.text if owner.text == "self" else f"({owner.text})"
            self.add(f"{text_owner}.{name} = {value.text}", f"{owner.py}.{found}[{name!r}] = {value.py}")
            return
        made = self.as_simple(owner, node)
        if made.type.kind != "class":
            self.refuse(f"Tried to set an attribute of a value of type {made.type}, which has none to set", node)
        kind = self.unit.class_of(made.type)
        if name not in kind.attributes:
            if not kind.defining:
                self.refuse(f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?", node)
            kind.attributes[name] = value.type
        value = self.attribute_value(value, kind.attributes[name], name, node)
        text_owner = made.text if made.stable else f"({made.text})"
        self.add(f"{text_owner}.{name} = {value.text}", f"{made.py}.values[{name!r}] = {value.py}")

    def attribute_value(self, value: Simple, t: Type, name: str, node: ast.AST) -> Simple:
        found = fit(value, t, {}, None, True)
        if found is None:
            self.refuse(f"Wrong type for attribute assignment. Expected {t} but got {value.type}", node)
        assert found is not None
        return found

    def set_item(self, target: ast.Subscript, value: Simple, node: ast.AST) -> None:
        """`x[i] = value`."""
        owner = self.simple(target.value)
        if owner.type == TENSOR:
            self.write_tensor(owner, target.slice, value, node)
            return
        if owner.type.kind == "List" and isinstance(target.slice, ast.Slice):
            self.refuse("Slices of lists cannot be assigned to", node)
        index = self.simple(target.slice)
        if owner.type.kind == "class":
            self.effect(self.invoke(Method(owner, "__setitem__"), [index, value], {}, node))
            return
        if owner.type.kind not in ("List", "Dict"):
            self.refuse(f"'{owner.type}' object does not support item assignment", node)
        key = INT if owner.type.kind == "List" else owner.type.inner[0]
        found, at = fit(value, owner.type.inner[-1], {}, None, False), fit(index, key, {}, None, False)
        if found is None or at is None:
            self.refuse(f"an item of a {owner.type} cannot be set to a {value.type} at a {index.type}", node)
        assert found is not None and at is not None
        self.add(f"{self.fresh()} = torch._set_item({owner.text}, {at.text}, {found.text})", f"{owner.py}[{at.py}] = {found.py}")

    def write_tensor(self, owner: Simple, index: ast.expr, value: Simple, node: ast.AST) -> None:
        """`x[i, 1:] = value`: a copy into what the plain parts choose, or `index_put_`."""
        parts, values = self.index_parts(owner, index)
        text, looked = self.steps(values[0].text, parts, values[1:], node)
        py = f"{values[0].py}[{self.index_python(parts, values[1:])}] = {value.py}"
        if value.type not in (TENSOR, INT, BOOL) and value.type.kind not in ("float", "complex", "number"):
            self.refuse(f"an item of a tensor cannot be set to a value of type {value.type}", node)
        put = value.text
        if value.type != TENSOR:
            put = f"torch.tensor({put}, dtype=ops.prim.dtype({values[0].text}), device=ops.prim.device({values[0].text}))"
        if looked:
            self.add(f"{self.fresh()} = torch.index_put_({text}, {looked}, {put})", py)
        else:
            self.add(f"{self.fresh()} = torch.copy_({text}, {put})", py)

    def on_AugAssign(self, node: ast.AugAssign) -> None:
        target, kind = node.target, type(node.op)
        if kind in (ast.FloorDiv, ast.MatMult):
            self.code.not_supported(f"unsupported kind of augmented assignment: {kind.__name__}", node)
        load = ast.copy_location(_loaded(target), target)
        before = self.simple(load)
        if self.unit.kept is not None and isinstance(target, ast.Attribute) and target.attr not in self.unit.kept:
            raise Written(target.attr)
        in_place = before.type in (TENSOR,) or before.type.kind == "List"
        if in_place and kind in _IN_PLACE and (before.type == TENSOR or kind is ast.Add or kind is ast.Mult):
            self.augmented(before, target, node)
            return
        whole = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        ast.fix_missing_locations(whole)
        self.bind_target(target, self.expression(whole), node)

    def augmented(self, before: Simple, target: ast.expr, node: ast.AugAssign) -> None:
        """`x += y`, in place."""
        name, sign = _IN_PLACE[type(node.op)], _SIGNS[type(node.op)]
        value = self.simple(node.value, before.type if before.type.kind == "List" else None)
        if before.type.kind == "List":
            self.of_hosts(name, [before, value], {}, node)
            self.add(f"{self.fresh()} = torch.{name}({before.text}, {value.text})", f"_host_{name}({before.py}, {value.py})")
            return
        if isinstance(target, ast.Subscript):
            owner = self.simple(target.value)
            parts, values = self.index_parts(owner, target.slice)
            text, looked = self.steps(values[0].text, parts, values[1:], node)
            put = value.text
            py = f"{values[0].py}[{self.index_python(parts, values[1:])}] {sign}= {value.py}"
            if looked:
                result = f"torch.{name[:-1]}(torch.index({text}, {looked}), {put})"
                self.add(f"{self.fresh()} = torch.index_put_({text}, {looked}, {result})", py)
            else:
                self.add(f"{self.fresh()} = torch.{name}({text}, {put})", py)
            return
        found = self.aten(name, [before, value], {}, node)
        if isinstance(target, ast.Name):
            self.add(f"{before.text} = {found.text}", f"{before.py} {sign}= {value.py}")
            return
        self.add(f"{self.fresh()} = {found.text}", f"{before.py}.{name}({value.py})")

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
    def refined(self, known: dict[str, Type]) -> Iterator[None]:
        """Within it, variables are known to be of these types."""
        with self.branch(known):
            yield

    def refine(self, known: dict[str, Type]) -> None:
        """Variables are of these types from here on."""
        for name, t in known.items():
            self.refine_one(name, t)

    def refine_one(self, name: str, t: Type) -> None:
        found = self.look_up(name)
        if not isinstance(found, Simple) or found.type == t:
            return
        if t == NONE:
            self.frames[-1][name] = Simple(found.text, found.py, NONE, stable=True)
            return
        self.declared.setdefault(name, found.type)
        text, py = self.named(name)
        if found.text == text:
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
                self.absent[name] = f"{name} is not defined in the {where} branch: it is set in the {other} branch alone"
                continue
            if not isinstance(a, Simple) or not isinstance(b, Simple):
                if a is not b:
                    self.absent[name] = f"{name} is not the same value in both branches"
                    continue
                self.frames[-1][name] = a
                continue
            t = unified(a.type, b.type)
            declared = self.declared.get(name)
            if t is None and declared is not None and is_subtype(a.type, declared) and is_subtype(b.type, declared):
                t = declared
            if t is None:
                self.refuse(
                    f"Type mismatch: {name} is set to type {a.type} in the true branch and type {b.type} in the false branch", node
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
        with self.captured() as asked, self.branch({}):
            test = self.condition(node.test)
            with self.captured() as lines, self.branch(test.then):
                self.loops.append("while")
                self.block(node.body)
                self.loops.pop()
        self.depth -= 1
        self.ended = False
        if test.static is False:
            return
        if asked:
            self.add("while True:", "while True:")
            self.lines += asked
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
                    known = frame.get(part.id)
                    if isinstance(known, Simple) and known.is_constant and known.type != NONE:
                        frame[part.id] = Simple(known.text, known.py, known.type, stable=True)

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
            found = value.kind.items(value)
            if found is None:
                return None
            return [self.literal(k) for k in found.keys] if value.kind.keys is not None and found.keys is not None else found.items
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
            return None if items is None else [Several([self.literal(k + first), v]) for k, v in enumerate(items)]
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
        self, iterated: Value, target: ast.expr, body: Callable[[], None], node: ast.AST, own_names: bool = False
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
        plain_range = isinstance(iterated, Iteration) and iterated.kind == "range" and isinstance(target, ast.Name)
        self.loops.append("for")
        self.depth += 1
        with self.captured() as lines, self.branch({}):
            item = getter(index)
            if plain_range and isinstance(item, Simple) and item.text == index and isinstance(target, ast.Name):
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
        if isinstance(before, Simple) and not own_names and not is_subtype(INT, self.declared.get(target.id, before.type)):
            self.refuse(f"Variable '{target.id}' previously had type {before.type} but is now being assigned to a value of type int", node)

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
            parts = [self.counted(p, node) for p in (value.parts[:1] if value.kind == "enumerate" else value.parts)]
            if value.kind == "enumerate":
                start = self.as_simple(value.parts[1], node) if len(value.parts) > 1 else None
                return self._enumerated(parts[0], start)
            if value.kind == "zip":
                count = f"ops.prim.min([{', '.join(p[0] for p in parts)}])" if len(parts) > 1 else parts[0][0]
                counts = ", ".join(f"len({p[1]})" for p in parts)
                py = f"range(min({counts}))" if len(parts) > 1 else parts[0][1]
                return count, py, lambda k: Several([p[2](k) for p in parts]), False
            return self.refuse(f"{value.kind} cannot be iterated here", node)
        found = self.held(self.as_simple(value, node))
        if found.type.kind == "Dict":
            found = self.held(self.of_hosts("keys", [found], {}, node))
        if found.type == TENSOR:
            return (
                f"torch.len({found.text})",
                f"range(len({found.py}))",
                lambda k: Simple(f"torch.select({found.text}, 0, {k})", f"{found.py}[{k}]", TENSOR),
                False,
            )
        if found.type.kind == "class":
            return self._of_object(found, node)
        if found.type.kind not in ("List", "str"):
            return self.refuse(f"'{found.type}' object is not iterable", node)
        t = STR if found.type == STR else found.type.inner[0]
        return (
            f"torch.len({found.text})",
            f"range(len({found.py}))",
            lambda k: Simple(f"{found.text}[{k}]", f"{found.py}[{k}]", t),
            False,
        )

    def _of_object(self, found: Simple, node: ast.AST) -> Any:
        self.refuse(f"'{found.type}' object is not iterable", node)

    def _range(self, value: Iteration, node: ast.AST) -> tuple[str, str, Callable[[str], Value], bool]:
        limits = [self.held(self.as_simple(p, node)) for p in value.parts]
        for limit in limits:
            if limit.type not in (INT, TENSOR):
                self.refuse(f"range() takes ints, got a value of type {limit.type}", node)
        limits = [
            v if v.type == INT else Simple(f"int({v.text})", f"number(int, {v.py})", INT) for v in limits
        ]
        given = ", ".join(v.py for v in limits)
        if len(limits) == 1:
            return limits[0].text, f"range({given})", lambda k: Simple(k, k, INT, stable=True, small=True), True
        three = [*(v.text for v in limits), "1"][:3]
        count = f"torch.__range_length({', '.join(three)})"

        def item(k: str) -> Value:
            text = f"torch.__derive_index({k}, {three[0]}, {three[2]})"
            return Simple(text, f"range({given})[{k}]", INT, small=True)

        return count, f"range(len(range({given})))", item, True

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
            found = self.host_of(call.func) if isinstance(call, ast.Call) else None
            mode = self.unit.grad_modes.get(found) if getattr(found, "__hash__", None) is not None else None
            if mode is None:
                self.code.not_supported(
                    "with statements are of no_grad() and enable_grad() alone: other contexts are not compiled", node
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


def _loaded(target: ast.expr) -> Any:
    """A target, to be read."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())


__all__ = ["Condition", "List", "Optional", "Statements", "Tuple", "of_value"]
