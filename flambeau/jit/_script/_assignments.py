"""Assignments: to names, attributes, items, to several of them, and in place."""

from __future__ import annotations

import ast
from typing import Any

from ._expressions import Expressions
from ._marks import Written
from ._operators import fit
from ._types import (
    BOOL,
    INT,
    NONE,
    NUMBER,
    TENSOR,
    Type,
    is_subtype,
)
from ._values import Iteration, Method, ModuleRef, Several, Simple, Value

_IN_PLACE = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class Assignments(Expressions):
    """The part of a function's compiler that reads assignments."""

    effect: Any
    block: Any

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
            before = self.look_up(target.id)
            if target.id in self.declared:
                hint = self.declared[target.id]
            elif isinstance(before, Simple):
                hint = before.type
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
                self.code.unsupported(
                    "a declaration without a value is not supported: give the variable its first value", node
                )
            return
        value = self.tolist(node.value, t) or self.simple(node.value, t)
        result = fit(value, t, {}, None, value.type != NUMBER)
        if result is None:
            what = target.id if isinstance(target, ast.Name) else ast.unparse(target)
            self.refuse(
                f"Variable '{what}' is annotated with type {t} but is being assigned to a value of type {value.type}",
                node,
            )
        assert result is not None
        if isinstance(target, ast.Name):
            if any(target.id in f for f in self.frames[:-1]):
                self.refuse(
                    f"Attempting to declare and annotate the type of variable '{target.id}' that is already defined in an outer block",
                    node,
                )
            self.declared[target.id] = t
        if result.type != t:
            result = Simple(f"annotate({t.text}, {result.text})", result.py, t)
        self.bind_target(target, result.typed(t), node)

    def tolist(self, node: ast.expr, t: Type) -> Simple | None:
        """`x.tolist()`, whose type the annotation tells; None for any other expression."""
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "tolist"
        ):
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
            if (
                declared_type is not None
                and is_subtype(t, declared_type)
                and declared_type != t
                and t == NONE
            ):
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
        items: list[Any]
        if isinstance(value, Several):
            items = value.items
        else:
            result = self.as_simple(value, node)
            if result.type.kind == "Tuple":
                if result.items is None:
                    items = self._unpacked(result)
                else:  # `a, b = b, a`: all are read before one is written
                    items = [v if v.is_constant else self._copied(v) for v in result.items]
            elif result.type.kind == "List":
                held = self.held(result)
                length = f"{count}"
                self.add(f"if torch.ne(torch.len({held.text}), {length}):", f"if len({held.py}) != {length}:")
                self.depth += 1
                why = f"Provided list of another length than {count}, which it is unpacked to"
                self.add(f"ops.prim.RaiseException({self.literal(why).text})", f"_g_raise({why!r}, None)")
                self.depth -= 1
                self.add("else:", None)
                self.depth += 1
                self.add("pass", None)
                self.depth -= 1
                t = result.type.inner[0]
                items = [Simple(f"{held.text}[{k}]", f"{held.py}[{k}]", t) for k in range(count)]
            else:
                self.refuse(
                    f"Provided value of type {result.type} cannot be used as a tuple: it has no items to unpack",
                    node,
                )
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
            result = owner.kind.place_of(name) or ("constant" if name in owner.kind.constants else None)
            if result is None:
                self.refuse(
                    f"Tried to set an attribute '{name}' that module '{owner.kind.shown}' does not have: declare it in __init__",
                    node,
                )
            if name in owner.kind.constants or name in owner.kind.frozen:
                if self.unit.preserved is not None:
                    raise Written(name)
                self.refuse(f"Tried to set the constant '{name}'", node)
            assert result is not None
            value = self.attribute_value(value, owner.kind.attributes[name], name, node)
            if name == "training":
                self.add(f"{owner.text}.training = {value.text}", f"{owner.py}.training = {value.py}")
                return
            text_owner = owner.text if owner.text == "self" else f"({owner.text})"
            self.add(f"{text_owner}.{name} = {value.text}", f"{owner.py}.{result}[{name!r}] = {value.py}")
            return
        made = self.as_simple(owner, node)
        if made.type.kind != "class":
            self.refuse(
                f"Tried to set an attribute of a value of type {made.type}, which has none to set", node
            )
        kind = self.unit.class_of(made.type)
        if name not in kind.attributes:
            if not kind.defining:
                self.refuse(
                    f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?",
                    node,
                )
            kind.attributes[name] = value.type
        value = self.attribute_value(value, kind.attributes[name], name, node)
        text_owner = made.text if made.stable else f"({made.text})"
        self.add(f"{text_owner}.{name} = {value.text}", f"{made.py}.values[{name!r}] = {value.py}")

    def attribute_value(self, value: Simple, t: Type, name: str, node: ast.AST) -> Simple:
        result = fit(value, t, {}, None, True)
        if result is None:
            self.refuse(f"Wrong type for attribute assignment. Expected {t} but got {value.type}", node)
        assert result is not None
        return result

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
        result, at = fit(value, owner.type.inner[-1], {}, None, False), fit(index, key, {}, None, False)
        if result is None or at is None:
            self.refuse(f"an item of a {owner.type} cannot be set to a {value.type} at a {index.type}", node)
        assert result is not None and at is not None
        self.add(
            f"{self.fresh()} = torch._set_item({owner.text}, {at.text}, {result.text})",
            f"{owner.py}[{at.py}] = {result.py}",
        )

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
        if (
            self.unit.preserved is not None
            and isinstance(target, ast.Attribute)
            and target.attr not in self.unit.preserved
        ):
            raise Written(target.attr)
        in_place = before.type in (TENSOR,) or before.type.kind == "List"
        if in_place and kind in _IN_PLACE and (before.type == TENSOR or kind is ast.Add or kind is ast.Mult):
            self.augmented(before, target, node)
            return
        binary = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        ast.fix_missing_locations(binary)
        self.bind_target(target, self.expression(binary), node)

    def augmented(self, before: Simple, target: ast.expr, node: ast.AugAssign) -> None:
        """`x += y`, in place."""
        name, sign = _IN_PLACE[type(node.op)], _SIGNS[type(node.op)]
        value = self.simple(node.value, before.type if before.type.kind == "List" else None)
        if before.type.kind == "List":
            self.of_hosts(name, [before, value], {}, node)
            self.add(
                f"{self.fresh()} = torch.{name}({before.text}, {value.text})",
                f"_host_{name}({before.py}, {value.py})",
            )
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
        written = self.aten(name, [before, value], {}, node)
        if isinstance(target, ast.Name):
            self.add(f"{before.text} = {written.text}", f"{before.py} {sign}= {value.py}")
            return
        self.add(f"{self.fresh()} = {written.text}", f"{before.py}.{name}({value.py})")


def _loaded(target: ast.expr) -> Any:
    """A target, to be read."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())
