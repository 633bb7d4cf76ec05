"""Which names of PyTorch a Python source mentions, and when: as it is imported, behind a guard, or in functions that are called later."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

IMPORT, GUARDED, CALLED = "import", "guarded", "called"

# Conditions under which a name is looked for only where it can be expected.
_GUARDS = re.compile(
    r"version|hasattr|getattr|available|TYPE_CHECKING|find_spec|platform|\bhas_|HAS_|_HAS|is_\w+|installed|supports?",
    re.IGNORECASE,
)
_CAUGHT = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}


def mentions(source: str) -> set[tuple[str, str]]:
    """Pairs of a dotted name such as "torch.nn.Linear" and when it is looked up: IMPORT, GUARDED or CALLED."""
    tree = ast.parse(source)
    later = any(
        isinstance(s, ast.ImportFrom)
        and s.module == "__future__"
        and any(a.name == "annotations" for a in s.names)
        for s in tree.body
    )
    reader = _Reader(later)
    reader.body(tree.body, IMPORT, {})
    return reader.seen


def _chain(node: ast.expr) -> tuple[str, list[str]] | None:
    """The first name of `a.b.c` and the rest; None for another expression."""
    rest: list[str] = []
    while isinstance(node, ast.Attribute):
        rest.append(node.attr)
        node = node.value
    return (node.id, rest[::-1]) if isinstance(node, ast.Name) else None


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind).rpartition(".")[2] in _CAUGHT for kind in kinds)


class _Reader:
    """Walks statements with what each local name stands for; `later` says that annotations are not evaluated."""

    def __init__(self, later: bool) -> None:
        self.later = later
        self.seen: set[tuple[str, str]] = set()

    def body(self, statements: list[ast.stmt], when: str, names: dict[str, str]) -> None:
        for statement in statements:
            self.visit(statement, when, names)

    def visit(self, node: ast.AST, when: str, names: dict[str, str]) -> None:
        special = getattr(self, f"of_{type(node).__name__}", None)
        if special is not None:
            special(node, when, names)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child, when, names)

    # What binds names.

    def of_Import(self, node: ast.Import, when: str, names: dict[str, str]) -> None:
        for each in node.names:
            if each.name.partition(".")[0] == "torch":
                self.seen.add((each.name, when))
                names[each.asname or "torch"] = each.name if each.asname else "torch"
            else:
                names.pop(each.asname or each.name.partition(".")[0], None)

    def of_ImportFrom(self, node: ast.ImportFrom, when: str, names: dict[str, str]) -> None:
        module = "" if node.level else node.module or ""
        for each in node.names:
            if module.partition(".")[0] != "torch":
                names.pop(each.asname or each.name, None)
            elif each.name == "*":
                self.seen.add((module, when))
            else:
                self.seen.add((f"{module}.{each.name}", when))
                names[each.asname or each.name] = f"{module}.{each.name}"

    def of_Assign(self, node: ast.Assign, when: str, names: dict[str, str]) -> None:
        self.visit(node.value, when, names)
        meant = self.resolved(node.value, names)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if meant is None:
                    names.pop(target.id, None)
                else:
                    names[target.id] = meant
            else:
                self.visit(target, when, names)

    # What is looked up.

    def resolved(self, node: ast.expr, names: dict[str, str]) -> str | None:
        chain = _chain(node)
        if chain is None or chain[0] not in names:
            return None
        return ".".join([names[chain[0]], *chain[1]])

    def of_Attribute(self, node: ast.Attribute, when: str, names: dict[str, str]) -> None:
        meant = self.resolved(node, names)
        if meant is None:
            self.visit(node.value, when, names)
        elif isinstance(node.ctx, ast.Load):
            self.seen.add((meant, when))
        else:  # the name is set or deleted; what it stands in is looked up
            self.seen.add((meant.rpartition(".")[0], when))

    # What is evaluated later, or behind a guard.

    def of_function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, when: str, names: dict[str, str]
    ) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator, when, names)
        self.arguments(node.args, when, names)
        if node.returns is not None:
            self.annotation(node.returns, when, names)
        names.pop(node.name, None)
        self.body(node.body, CALLED, self.inside(node.args, names))

    of_FunctionDef = of_AsyncFunctionDef = of_function

    def of_Lambda(self, node: ast.Lambda, when: str, names: dict[str, str]) -> None:
        self.arguments(node.args, when, names)
        self.visit(node.body, CALLED, self.inside(node.args, names))

    def of_ClassDef(self, node: ast.ClassDef, when: str, names: dict[str, str]) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part, when, names)
        names.pop(node.name, None)
        self.body(node.body, when, dict(names))

    def _parameters(self, arguments: ast.arguments) -> Iterator[ast.arg]:
        yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        yield from (a for a in (arguments.vararg, arguments.kwarg) if a is not None)

    def inside(self, arguments: ast.arguments, names: dict[str, str]) -> dict[str, str]:
        own = {a.arg for a in self._parameters(arguments)}
        return {name: meant for name, meant in names.items() if name not in own}

    def arguments(self, arguments: ast.arguments, when: str, names: dict[str, str]) -> None:
        for default in (*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)):
            self.visit(default, when, names)
        for parameter in self._parameters(arguments):
            if parameter.annotation is not None:
                self.annotation(parameter.annotation, when, names)

    def annotation(self, node: ast.expr, when: str, names: dict[str, str]) -> None:
        self.visit(node, CALLED if self.later else when, names)

    def of_AnnAssign(self, node: ast.AnnAssign, when: str, names: dict[str, str]) -> None:
        self.annotation(node.annotation, when, names)
        if node.value is not None:
            self.visit(node.value, when, names)

    def guarded(self, when: str) -> str:
        return GUARDED if when == IMPORT else when

    def of_Try(self, node: ast.Try, when: str, names: dict[str, str]) -> None:
        guarded = self.guarded(when) if any(map(_catches, node.handlers)) else when
        self.body(node.body, guarded, names)
        for handler in node.handlers:
            self.body(handler.body, self.guarded(when), names)
        self.body(node.orelse, guarded, names)
        self.body(node.finalbody, when, names)

    of_TryStar = of_Try

    def of_If(self, node: ast.If, when: str, names: dict[str, str]) -> None:
        self.visit(node.test, when, names)
        test = ast.unparse(node.test)
        if "__main__" in test:
            self.body(node.body, CALLED, dict(names))
            return
        guarded = self.guarded(when) if _GUARDS.search(test) else when
        self.body(node.body, guarded, names)
        self.body(node.orelse, guarded, names)

    def of_IfExp(self, node: ast.IfExp, when: str, names: dict[str, str]) -> None:
        self.visit(node.test, when, names)
        guarded = self.guarded(when) if _GUARDS.search(ast.unparse(node.test)) else when
        self.visit(node.body, guarded, names)
        self.visit(node.orelse, guarded, names)

    def of_BoolOp(self, node: ast.BoolOp, when: str, names: dict[str, str]) -> None:
        for value in node.values:
            self.visit(value, when, names)
            if _GUARDS.search(ast.unparse(value)):  # `hasattr(torch, "x") and torch.x`
                when = self.guarded(when)

    def of_With(self, node: ast.With, when: str, names: dict[str, str]) -> None:
        for item in node.items:
            self.visit(item, when, names)
        suppressed = any("suppress" in ast.unparse(item.context_expr) for item in node.items)
        self.body(node.body, self.guarded(when) if suppressed else when, names)
