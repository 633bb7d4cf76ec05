"""Expressions: each becomes a value with its type, its code and its Python."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._text import number_text, quoted
from ._conditions import Conditions
from ._types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    Dict,
    List,
    Tuple,
    Type,
    Union,
    is_subtype,
    unified,
)
from ._values import Host, Method, Several, Simple, Value

_BINARY = {
    ast.Add: ("add", "+"),
    ast.Sub: ("sub", "-"),
    ast.Mult: ("mul", "*"),
    ast.Div: ("div", "/"),
    ast.FloorDiv: ("floordiv", "//"),
    ast.Mod: ("remainder", "%"),
    ast.Pow: ("pow", "**"),
    ast.MatMult: ("matmul", "@"),
    ast.BitAnd: ("__and__", "&"),
    ast.BitOr: ("__or__", "|"),
    ast.BitXor: ("__xor__", "^"),
    ast.LShift: ("__lshift__", "<<"),
    ast.RShift: ("__rshift__", ">>"),
}
_MAGIC = {  # by signs
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "//": "__floordiv__", "%": "__mod__", "**": "__pow__",
    "@": "__matmul__", "==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "&": "__and__",
    "|": "__or__", "^": "__xor__", "<<": "__lshift__", ">>": "__rshift__",
}  # fmt: skip
_OF_TENSORS = {
    "floordiv": "floor_divide",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}
_TURNED = {"<": "gt", "<=": "ge", ">": "lt", ">=": "le", "==": "eq", "!=": "ne"}
_SCALARS = (INT, FLOAT, COMPLEX, NUMBER, BOOL)
_UNSUPPORTED = {
    ast.Lambda: "Lambda aren't supported",
    ast.Await: "await aren't supported",
    ast.Yield: "yield aren't supported",
    ast.YieldFrom: "yield from aren't supported",
    ast.NamedExpr: "NamedExpr aren't supported",
    ast.Set: "Set aren't supported",
    ast.SetComp: "SetComp aren't supported",
    ast.Starred: "Starred aren't supported",
    ast.FormattedValue: "FormattedValue aren't supported",
}


class Expressions(Conditions):
    """The part of a function's compiler that reads expressions."""

    def simple(self, node: ast.expr, hint: Type | None = None) -> Simple:
        """An expression as a value with a type; an error for a module, a function and kin."""
        value = self.expression(node, hint)
        return self.as_simple(value, node)

    def as_simple(self, value: Value, node: ast.AST) -> Simple:
        """The value, where it has a type."""
        if isinstance(value, Simple):
            return value
        if isinstance(value, Several):
            parts = [self.as_simple(v, node) for v in value.items]
            return self.tuple_of(parts)
        if isinstance(value, Host):
            return self.refuse(
                f"{value.shown()} cannot be used as a value. Perhaps it is a closed over global variable? If so, please consider "
                "passing it in "
                "as an argument or use a local variable instead",
                node,
            )
        return self.refuse(f"{value.shown()} cannot be used as a value", node)

    def expression(self, node: ast.expr, hint: Type | None = None) -> Value:
        """What an expression is; `hint` is the type that is wanted of an empty list or dictionary."""
        if isinstance(node, ast.Constant):
            return self.constant(node)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.expression(node.value), node.attr, node)
        if isinstance(node, ast.Call):
            return self.call(node, hint)
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node)
        if isinstance(node, (ast.BoolOp, ast.Compare)):
            return self.condition(node).value
        if isinstance(node, ast.IfExp):
            return self.ternary(node, hint)
        if isinstance(node, ast.Subscript):
            return self.subscript(node)
        if isinstance(node, ast.Tuple):
            return self.tuple_literal(node, hint)
        if isinstance(node, ast.List):
            return self.list_literal(node, hint)
        if isinstance(node, ast.Dict):
            return self.dict_literal(node, hint)
        if isinstance(node, ast.JoinedStr):
            return self.joined(node)
        if isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
            return self.comprehension(node, hint)
        what = _UNSUPPORTED.get(type(node), f"{type(node).__name__} aren't supported")
        return self.code.unsupported(what, node)

    # --- literals ------------------------------
    def constant(self, node: ast.Constant) -> Simple:
        value = node.value
        if value is Ellipsis:
            return self.refuse("an ellipsis stands in an index alone", node)
        if isinstance(value, bytes):
            return self.code.unsupported("bytes aren't supported", node)
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            return self.refuse("Integral value out of range: integers have 64 bits", node)
        return self.literal(value)

    def literal(self, value: Any) -> Simple:
        """A number, a text or None as a value."""
        t = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STR}.get(type(value), NONE)
        text = quoted(value) if t == STR else repr(value) if t in (BOOL, NONE) else number_text(value)
        py = repr(value)
        if t in (FLOAT, COMPLEX) and ("n" in py or "(" in py):  # inf, nan, complex
            py = self.unit.bind(value, "number")
        return Simple(text, py, t, value, small=t == INT and abs(value) < 1 << 48)

    def tuple_of(self, items: list[Simple]) -> Simple:
        """Values as a tuple."""
        text, py = ("".join(getattr(v, part) + ", " for v in items) for part in ("text", "py"))
        made = Simple(f"({text})", f"({py})", Tuple(*(v.type for v in items)), items=items)
        made.stable = all(v.stable for v in items)
        if all(v.is_constant for v in items):
            made.constant = tuple(v.constant for v in items)
        return made

    def tuple_literal(self, node: ast.Tuple, hint: Type | None) -> Value:
        inner = hint.unwrapped.inner if hint is not None and hint.unwrapped.kind == "Tuple" else ()
        hints = inner if len(inner) == len(node.elts) else [None] * len(node.elts)
        result = self.elements(node.elts, hints)
        if all(isinstance(v, Simple) for v in result):
            return self.tuple_of([self.as_simple(v, node) for v in result])
        return Several(result)

    def simples(self, nodes: list[ast.expr], hint: Type | None = None) -> list[Simple]:
        """Expressions as values, in order."""
        result = self.evaluated([lambda n=n: self.simple(n, hint) for n in nodes])
        return [v for v in result if isinstance(v, Simple)]

    def list_literal(self, node: ast.List, hint: Type | None) -> Simple:
        wanted = hint.unwrapped.inner[0] if hint is not None and hint.unwrapped.kind == "List" else None
        result = self.elements(node.elts, [wanted] * len(node.elts))
        return self.list_of([self.as_simple(v, node) for v in result], wanted, node)

    def elements(self, nodes: list[ast.expr], hints: Sequence[Type | None]) -> list[Value]:
        """The elements of a literal, those of `*x` among them."""
        parts = [n.value if isinstance(n, ast.Starred) else n for n in nodes]
        result = self.evaluated([lambda e=e, h=h: self.expression(e, h) for e, h in zip(parts, hints)])
        items: list[Value] = []
        for node, value in zip(nodes, result):
            items += self.starred_items(value, node) if isinstance(node, ast.Starred) else [value]
        return items

    def list_of(self, items: list[Simple], wanted: Type | None, node: ast.AST) -> Simple:
        """Values as a list."""
        if not items:
            element = wanted or TENSOR
            return Simple(f"annotate(List[{element.text}], [])", "[]", List(element), items=[])
        element = items[0].type
        for item in items[1:]:
            element = unified(element, item.type) or Union(element, item.type)
        if wanted is not None and all(is_subtype(v.type, wanted) for v in items):
            element = wanted
        text, py = (f"[{', '.join(getattr(v, part) for v in items)}]" for part in ("text", "py"))
        if any(v.type != element for v in items):
            text = f"annotate(List[{element.text}], {text})"
        made = Simple(text, py, List(element), items=items)
        if all(v.is_constant for v in items):
            made.constant = [v.constant for v in items]
            made.stable = False
        return made

    def dict_literal(self, node: ast.Dict, hint: Type | None) -> Simple:
        wanted = hint.unwrapped.inner if hint is not None and hint.unwrapped.kind == "Dict" else ()
        if None in node.keys:
            return self.code.unsupported("** in a dictionary aren't supported", node)
        makers: list[Callable[[], Value]] = []
        hint_of_values = wanted[1] if wanted else None
        for k, v in zip(node.keys, node.values):
            assert k is not None
            makers.append(functools.partial(self.simple, k))
            makers.append(functools.partial(self.simple, v, hint_of_values))
        result = [v for v in self.evaluated(makers) if isinstance(v, Simple)]
        keys, values = result[::2], result[1::2]
        if not keys:
            key, value = wanted or (STR, TENSOR)
            return Simple(f"annotate(Dict[{key.text}, {value.text}], {{}})", "{}", Dict(key, value))
        key, value = keys[0].type, values[0].type
        for one, item in zip(keys, values):
            if one.type != key:
                return self.refuse(f"Dict keys must be of one type: {key} and {one.type}", node)
            value = unified(value, item.type) or Union(value, item.type)
        if wanted and all(is_subtype(v.type, wanted[1]) for v in values):
            value = wanted[1]
        text, py = (
            "{" + ", ".join(f"{getattr(k, part)}: {getattr(v, part)}" for k, v in zip(keys, values)) + "}"
            for part in ("text", "py")
        )
        if any(v.type != value for v in values):
            text = f"annotate(Dict[{key.text}, {value.text}], {text})"
        return Simple(text, py, Dict(key, value))

    def joined(self, node: ast.JoinedStr) -> Simple:
        parts: list[str] = []
        values: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                if part.conversion != -1 or part.format_spec is not None:
                    what = (
                        "Don't support conversion in JoinedStr"
                        if part.conversion != -1
                        else "Don't support formatting in JoinedStr"
                    )
                    return self.code.not_supported(what, node)
                parts.append("{}")
                values.append(part.value)
        return self.formatted(self.literal("".join(parts)), self.simples(values))

    def formatted(self, text: Simple, values: list[Simple]) -> Simple:
        """`"{}".format(…)`."""
        text_args, py = (", ".join(getattr(v, part) for v in (text, *values)) for part in ("text", "py"))
        return Simple(f"torch.format({text_args})", f"formatted({py})", STR)

    # --- names and attributes ------------------------------
    def name(self, node: ast.Name) -> Value:
        result = self.look_up(node.id)
        if result is not None:
            return result
        if node.id in self.absent:
            return self.refuse(self.absent[node.id], node)
        return self.outer(node.id, node)

    def item_of(self, value: Simple, k: int) -> Simple:
        """An item of a tuple."""
        if value.items is not None:
            return value.items[k]
        t = value.type.inner[k]
        return Simple(f"({value.text})[{k}]", f"{value.py}[{k}]", t, stable=value.stable)

    # --- operators ------------------------------
    def binary(self, node: ast.BinOp) -> Value:
        name, sign = _BINARY[type(node.op)]
        a, b = self.evaluated([lambda: self.expression(node.left), lambda: self.expression(node.right)])
        if isinstance(a, Several) and isinstance(b, Several) and name == "add":
            return Several([*a.items, *b.items])
        return self.operator(name, sign, self.as_simple(a, node.left), self.as_simple(b, node.right), node)

    def operator(self, name: str, sign: str, a: Simple, b: Simple, node: ast.AST) -> Simple:
        """`a + b`, and all that is like it."""
        if a.type.kind == "class":
            return self.as_simple(self.invoke(Method(a, _MAGIC[sign]), [b], {}, node), node)
        if a.type.kind == "Tuple" and b.type.kind == "Tuple" and name == "add":
            items = [self.item_of(self.held(v), k) for v in (a, b) for k in range(len(v.type.inner))]
            return self.tuple_of(items)
        if name == "remainder" and a.type == STR:
            values = b.items if b.type.kind == "Tuple" and b.items is not None else [b]
            text_args, py = (", ".join(getattr(v, part) for v in (a, *values)) for part in ("text", "py"))
            return Simple(f"torch.percentFormat({text_args})", f"percent_formatted({py})", STR)
        if TENSOR in (a.type, b.type):
            return self.tensor_operator(name, sign, a, b, node)
        return self.of_hosts(name, [a, b], {}, node)

    def tensor_operator(self, name: str, sign: str, a: Simple, b: Simple, node: ast.AST) -> Simple:
        py = f"({a.py} {sign} {b.py})"
        if a.type in _SCALARS and name != "matmul":
            text, t = self._turned(name, sign, a, b), TENSOR
            if text is not None:
                return Simple(text, py, t)
        called = _OF_TENSORS.get(name, name)
        result = self.aten(called, [a, b], {}, node)
        return Simple(result.text, py, result.type)

    def _turned(self, name: str, sign: str, a: Simple, b: Simple) -> str | None:
        """`2 - x` as code: the number is the second operand of what ATen has."""
        if sign in _TURNED:
            return f"torch.{_TURNED[sign]}({b.text}, {a.text})"
        if sign in ("+", "*", "&", "|", "^"):
            return f"torch.{_OF_TENSORS.get(name, name)}({b.text}, {a.text})"
        if name == "sub":
            return f"torch.add(torch.neg({b.text}), {a.text})"
        if name == "div":
            return f"torch.mul(torch.reciprocal({b.text}), {a.text})"
        if name == "floordiv":
            return f"torch.floor_divide(torch.full_like({b.text}, {a.text}), {b.text})"
        return None

    def unary(self, node: ast.UnaryOp) -> Simple:
        if isinstance(node.op, ast.Not):
            return self.condition(node).value
        value = self.simple(node.operand)
        if isinstance(node.op, ast.UAdd):
            return self.code.unsupported("unary plus isn't supported", node)
        negates = isinstance(node.op, ast.USub)
        if negates and value.is_constant and type(value.constant) in (int, float):
            return self.literal(-value.constant)
        name, sign = ("neg", "-") if negates else ("bitwise_not", "~")
        if value.type.kind == "class":
            called = Method(value, "__neg__" if negates else "__invert__")
            return self.as_simple(self.invoke(called, [], {}, node), node)
        if value.type == TENSOR:
            return Simple(f"torch.{name}({value.text})", f"({sign}{value.py})", TENSOR)
        return self.of_hosts(name, [value], {}, node)

    def ternary(self, node: ast.IfExp, hint: Type | None) -> Value:
        """`a if c else b`."""
        test = self.condition(node.test)
        if test.static is not None:
            with self.refined(test.then if test.static else test.other):
                return self.expression(node.body if test.static else node.orelse, hint)
        result: list[tuple[Simple, list[Any]]] = []
        self.depth += 1
        for part, refined in ((node.body, test.then), (node.orelse, test.other)):
            with self.captured() as lines, self.refined(refined):
                value = self.simple(part, hint)
            result.append((value, lines))
        self.depth -= 1
        (yes, first), (no, second) = result
        t = unified(yes.type, no.type)
        if t is None and hint is not None and is_subtype(yes.type, hint) and is_subtype(no.type, hint):
            t = hint
        if t is None:
            return self.refuse(
                f"If-expression has type mismatch: its branches have type {yes.type} but also type {no.type}",
                node,
            )
        python = any(line.py is not None for line in (*first, *second))
        name = self.fresh()
        for head, (value, lines) in zip(("if {}:", "else:"), result):
            self.add(head.format(test.value.text), head.format(test.value.py) if python else None)
            self.lines += lines
            self.depth += 1
            text = value.text if value.type == t else f"annotate({t.text}, {value.text})"
            self.add(f"{name} = {text}", f"{name} = {value.py}" if python else None)
            self.depth -= 1
        py = name if python else f"({yes.py} if {test.value.py} else {no.py})"
        return Simple(name, py, t, stable=python)

    # --- comprehensions ------------------------------
    def comprehension(self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp, hint: Type | None) -> Value:
        """`[f(x) for x in y]`, as a loop that appends."""
        if len(node.generators) != 1:
            return self.code.not_supported("Only a single generator is currently supported", node)
        generator = node.generators[0]
        if generator.ifs and isinstance(node, ast.DictComp):
            return self.code.not_supported("Comprehension ifs are not supported yet", node)
        if generator.ifs:
            return self.code.not_supported("Comprehension ifs are not supported yet", node)
        iterated = self.expression(generator.iter)
        unrolled = self.unrolled(iterated)
        if unrolled is not None and not isinstance(node, ast.DictComp):
            return self._unrolled_list(node, generator, unrolled, hint)
        made = self.fresh()
        wanted = hint.unwrapped.inner if hint is not None and hint.unwrapped.kind in ("List", "Dict") else ()
        result: list[Type] = []

        def body() -> None:
            if not isinstance(node, ast.DictComp):
                value = self.simple(node.elt, wanted[0] if wanted else None)
                result.append(List(wanted[0] if wanted and is_subtype(value.type, wanted[0]) else value.type))
                self.add(f"{self.fresh()} = torch.append({made}, {value.text})", f"{made}.append({value.py})")
            else:
                key, value = self.simples([node.key, node.value])
                result.append(Dict(key.type, value.type))
                self.add(
                    f"torch._set_item({made}, {key.text}, {value.text})", f"{made}[{key.py}] = {value.py}"
                )

        with self.captured() as lines:
            self.loop_over(iterated, generator.target, body, node, own_names=True)
        t = result[0]
        self.add(
            f"{made} = annotate({t.text}, {'[]' if t.kind == 'List' else '{}'})",
            f"{made} = {'[]' if t.kind == 'List' else '{}'}",
        )
        self.lines += lines
        return Simple(made, made, t, stable=True)

    def _unrolled_list(
        self,
        node: ast.ListComp | ast.GeneratorExp,
        generator: ast.comprehension,
        items: list[Value],
        hint: Type | None,
    ) -> Value:
        wanted = hint.unwrapped.inner[0] if hint is not None and hint.unwrapped.kind == "List" else None

        def one(value: Value) -> Value:
            self.frames.append({})
            self.bind_target(generator.target, value, node, own_names=True)
            result = self.simple(node.elt, wanted)
            self.frames.pop()
            return result if result.stable else self.held(result)

        result = self.evaluated([lambda v=v: one(v) for v in items])
        return self.list_of([v for v in result if isinstance(v, Simple)], wanted, node)
