"""Statements of a function, one after another; what they return."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from ._flow import Flow
from ._operators import fit
from ._source import Code
from ._types import (
    NONE,
    NUMBER,
    STR,
    Type,
    unified,
)
from ._values import Method, Simple, Value

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


class Statements(Flow):
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
            v if v.type == STR else Simple(f"str({v.text})", f"shown({v.py})", STR)
            for v in self.simples(args)
        ]
        text = texts[0] if texts else self.literal("")
        if len(texts) > 1:
            text = self.formatted(self.literal(" ".join(["{}"] * len(texts))), texts)
        name = f.__name__
        module = "builtins" if getattr(builtins, name, None) is f else f.__module__
        self.add(
            f'ops.prim.RaiseException({text.text}, "{module}.{name}")',
            f"_g_raise({text.py}, {module + '.' + name!r})",
        )
        self.ended = True

    def on_Return(self, node: ast.Return) -> None:
        value: Value = (
            self.expression(node.value, self.returns) if node.value is not None else self.literal(None)
        )
        result = self.as_simple(value, node)
        result = self.returning(result, node)
        self.add(f"return {result.text}", f"return {result.py}")
        self.ended = True

    def returning(self, value: Simple, node: ast.AST) -> Simple:
        """A result as one of the function's type."""
        if self.returns is not None:
            result = fit(value, self.returns, {}, None, value.type != NUMBER)
            if result is None:
                self.refuse(
                    f"Return value was annotated as having type {self.returns} but is actually of type {value.type}",
                    node,
                )
            assert result is not None
            self.returned = self.returns
            return result
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
