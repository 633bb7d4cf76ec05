"""Calls of classes: `int(x)`, `list(x)`, and those of the program."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from ._attributes import Attributes
from ._types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    STR,
    TENSOR,
    List,
    Type,
)
from ._values import NONE_VALUE, Iteration, Several, Simple, Value


class Making(Attributes):
    """The part of a function's compiler that reads calls of classes."""

    all_simple: Any
    arguments: Any
    matched_call: Any
    list_of: Any
    loop_over: Any

    # --- classes ------------------------------
    def construct(self, f: type, node: ast.Call) -> Value:
        """`int(x)`, `list(x)`, `Foo(x)`."""
        if f in (int, float, bool, complex, str):
            return self.number_of(f, node)
        if f is list:
            return self.list_call(node)
        if f is tuple:
            return self.tuple_call(node)
        if f is dict:
            if not node.args and not node.keywords:
                return Simple("annotate(Dict[str, Tensor], {})", "{}", Type("Dict", (STR, TENSOR)))
            args, _ = self.all_simple(*self.arguments(node), node)
            return self.of_hosts("dict", args, {}, node)
        if issubclass(f, BaseException):
            return self.refuse("an exception is made where it is raised: `raise ValueError(...)`", node)
        if getattr(builtins, f.__name__, None) is f:
            return self.refuse(
                f"Python builtin <class '{f.__name__}'> is currently not supported in Torchscript", node
            )
        made = self.unit.type_of_class(f, self, node)
        args, kwargs = self.all_simple(*self.arguments(node), node)
        if made is None:
            return self.refuse(f"{f.__qualname__} is no class that is compiled", node)
        if made.kind == "Tuple":
            return self.named_tuple(made, f, args, kwargs, node)
        if made.kind == "enum":
            return Simple(
                f"{made.name}({args[0].text})",
                f"_g_construct({self.unit.bind_class(made)}, [{args[0].py}], {{}})",
                made,
            )
        kind = self.unit.class_of(made)
        entry = kind.method("__init__", self, node)
        bound, text = self.matched_call(entry, args, kwargs, node, f.__name__)
        name = self.fresh()
        self.add(
            f"{name} = {made.name}.__new__({made.name})", f"{name} = _g_object({self.unit.bind_class(made)})"
        )
        self.add(
            f"{self.fresh()} = ({name}).__init__({text})",
            f"{entry.py}({', '.join([name, *(v.py for v in bound)])})",
        )
        return Simple(name, name, made, stable=True)

    def named_tuple(
        self, made: Type, f: type, args: list[Simple], kwargs: dict[str, Simple], node: ast.AST
    ) -> Simple:
        entry = self.unit.named_tuples[made.name]
        bound, _ = self.matched_call(entry, args, kwargs, node, f.__name__)
        used = [
            v if v.text else self.unit.constant(p.default) or self.literal(p.default)
            for v, p in zip(bound, entry.parameters)
        ]
        text = ", ".join(v.text for v in used)
        return Simple(
            f"{made.name}({text})", f"{self.unit.bind_class(made)}({', '.join(v.py for v in used)})", made
        )

    def number_of(self, f: type, node: ast.Call) -> Value:
        if not node.args:
            return self.literal(f())
        args, kwargs = self.all_simple(*self.arguments(node), node)
        value, name = args[0], f.__name__
        if kwargs or len(args) > (2 if f is complex else 1):
            return self.refuse(f"{name}() takes one value", node)
        t = {int: INT, float: FLOAT, bool: BOOL, complex: COMPLEX, str: STR}[f]
        if f is str:
            return Simple(f"str({value.text})", f"shown({value.py})", STR)
        if f is bool:
            return self.as_bool(value, node)
        if f is complex:
            text, py = (", ".join(getattr(v, part) for v in args) for part in ("text", "py"))
            return Simple(f"complex({text})", f"complex({py})", COMPLEX)
        if value.type == t:
            return value
        if value.is_constant and type(value.constant) in (int, float, bool):
            return self.literal(f(value.constant))
        if value.type not in (TENSOR, INT, FLOAT, BOOL, STR, NUMBER):
            return self.refuse(f"Could not cast value of type {value.type} to {name}", node)
        py = (
            f"number({name}, {value.py})"
            if value.type in (TENSOR, STR) or f is int
            else f"{name}({value.py})"
        )
        return Simple(f"{name}({value.text})", py, t)

    as_bool: Any
    fixed: Any

    def list_call(self, node: ast.Call) -> Value:
        if not node.args:
            return Simple("annotate(List[Tensor], [])", "[]", List(TENSOR), items=[])
        value = self.expression(node.args[0])
        if isinstance(value, Several):
            return self.list_of([self.as_simple(v, node) for v in value.items], None, node)
        if isinstance(value, Iteration):
            return self.listed(value, node)
        result = self.as_simple(value, node)
        if result.type.kind == "Tuple":
            held = result if result.items is not None else self.held(result)
            return self.list_of([self.item_of(held, k) for k in range(len(result.type.inner))], None, node)
        if result.type.kind == "Dict":
            return self.of_hosts("keys", [result], {}, node)
        if result.type == TENSOR:
            return Simple(f"torch.unbind({result.text}, 0)", f"list({result.py})", List(TENSOR))
        return self.of_hosts("list", [result], {}, node)

    def listed(self, value: Iteration, node: ast.AST) -> Simple:
        """`list(range(n))`: what a loop goes over, as a list."""
        made, result = self.fresh(), list[Type]()
        target = ast.copy_location(ast.Name("item of a list", ast.Store()), node)

        def body() -> None:
            target_value = self.look_up("item of a list")
            item = self.as_simple(target_value, node) if target_value is not None else NONE_VALUE
            result.append(List(item.type))
            self.add(f"{self.fresh()} = torch.append({made}, {item.text})", f"{made}.append({item.py})")

        with self.captured() as lines:
            self.loop_over(value, target, body, node, own_names=True)
        self.add(f"{made} = annotate({result[0].text}, [])", f"{made} = []")
        self.lines += lines
        return Simple(made, made, result[0], stable=True)

    def tuple_call(self, node: ast.Call) -> Value:
        value = self.expression(node.args[0]) if node.args else Several([])
        if isinstance(value, Several):
            return value
        result = self.as_simple(value, node)
        if result.type.kind == "Tuple":
            return result
        if result.items is not None:
            return self.tuple_of(result.items)
        return self.refuse("cannot statically infer the expected size of a list in this context", node)
