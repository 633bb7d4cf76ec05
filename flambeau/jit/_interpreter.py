"""Serialised code as functions: each expression and statement becomes a closure over a frame, a list of the variables' values.

The code is data throughout: names are looked up among what an archive holds, operations among those of the library, attributes among
those that a class declares.  Where something fails, the error's notes say in which line of which file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ..library._own import CONTEXTS, OWN
from ._host import PRIMITIVES, Error, device_of, formatted, number, shown
from ._objects import (
    Enumeration,
    Function,
    Namespace,
    ScriptClass,
    ScriptObject,
    attribute,
    construct,
    method,
    set_attribute,
)
from ._parser import Source, dotted
from ._sites import NOTHING, Expression, Frame, Literal, Site, Variable
from ._types import annotated, check_of

Statement = Callable[[Frame], "tuple[Any] | None"]  # (value,) where the function returns; _BREAK, _CONTINUE
_BREAK: tuple[Any] = ("break",)
_CONTINUE: tuple[Any] = ("continue",)
_CONSTANTS = {
    "inf": float("inf"),
    "nan": float("nan"),
    "infj": complex(0, float("inf")),
    "nanj": complex(0, float("nan")),
}


class Compiler:
    """Makes a function of a definition in a file."""

    def __init__(self, program: Namespace, source: Source, definition: ast.FunctionDef) -> None:
        self.program, self.source, self.definition = program, source, definition
        self.slots: dict[str, int] = {}
        self.touched: set[int] = set()  # variables that the statement names
        self.loops = 0  # around the statement
        self.parameters = [a.arg for a in definition.args.args]
        if len(set(self.parameters)) < len(self.parameters):
            source.refuse(f"two parameters of {definition.name} have the same name", definition.lineno)
        for name in self.parameters:
            self.slot(name)

    def slot(self, name: str) -> int:
        """The place of a variable in the frame."""
        slot = self.slots.setdefault(name, len(self.slots))
        self.touched.add(slot)
        return slot

    def refuse(self, node: ast.AST, why: str) -> Any:
        self.source.refuse(
            f"{why} (in {self.definition.name})", getattr(node, "lineno", self.definition.lineno)
        )

    def compiled(self) -> tuple[Callable[[Frame], Any], int, list[Any]]:
        """The body, how many variables its frames have, and the defaults of the last parameters."""
        defaults = [self.expression(d)([]) for d in self.definition.args.defaults]
        body = self.block(self.definition.body, dying=True)

        def run(frame: Frame) -> Any:
            result = body(frame)
            return None if result is None else result[0]

        return run, len(self.slots), defaults

    # --- statements ------------------------------
    def block(self, statements: Sequence[ast.stmt], dying: bool = False) -> Statement:
        """Statements one after another; with `dying`, variables are let go of after the last statement that names them."""
        steps: list[tuple[Statement, int, list[int]]] = []
        last: dict[int, int] = {}
        for k, statement in enumerate(statements):
            outer, self.touched = self.touched, set()
            step = self.statement(statement)
            last.update(dict.fromkeys(self.touched, k))
            self.touched |= outer
            steps.append((step, statement.lineno, []))
        for slot, k in last.items():
            if dying and k < len(steps) - 1:
                steps[k][2].append(slot)
        file, name = self.source.name, self.definition.name

        def run(frame: Frame) -> tuple[Any] | None:
            at = 0
            try:
                for step, line, ends in steps:
                    at = line
                    result = step(frame)
                    if result is not None:
                        return result
                    for slot in ends:
                        frame[slot] = None
            except Exception as error:
                _note(error, f'  File "{file}", line ', at, f", in {name}")
                raise
            return None

        return run

    def statement(self, node: ast.stmt) -> Statement:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self.assigned(node.targets[0], self.expression(node.value), node)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return self.assigned(node.target, annotated(node.annotation, self.expression(node.value)), node)
        if isinstance(node, ast.Expr):
            return self.effect(self.expression(node.value))
        if isinstance(node, ast.Return):
            value = self.expression(node.value) if node.value is not None else lambda frame: None
            return lambda frame: (value(frame),)
        if isinstance(node, ast.If):
            return self.conditional(node)
        if isinstance(node, ast.While):
            return self.repeated(node)
        if isinstance(node, ast.For):
            return self.counted(node)
        if isinstance(node, ast.Pass):
            return lambda frame: None
        if isinstance(node, (ast.Break, ast.Continue)):
            leaves = _BREAK if isinstance(node, ast.Break) else _CONTINUE
            return (
                (lambda frame: leaves) if self.loops else self.refuse(node, "a word of loops outside of one")
            )
        if isinstance(node, ast.With):
            return self.within(node)
        return self.refuse(node, f"{type(node).__name__} in a function")

    def effect(self, value: Expression) -> Statement:
        def run(frame: Frame) -> None:
            value(frame)

        return run

    def assigned(self, target: ast.expr, value: Expression, node: ast.stmt) -> Statement:
        if isinstance(target, ast.Name):
            slot = self.slot(target.id)

            def store(frame: Frame) -> None:
                frame[slot] = value(frame)

            return store
        if isinstance(target, ast.Attribute):
            owner, name = self.expression(target.value), target.attr

            def store_attribute(frame: Frame) -> None:
                set_attribute(owner(frame), name, value(frame))

            return store_attribute
        if isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts):
            slots = [self.slot(e.id) for e in target.elts if isinstance(e, ast.Name)]

            def unpack(frame: Frame) -> None:
                result = value(frame)
                if not isinstance(result, (tuple, list)) or len(result) != len(slots):
                    got = (
                        f"{len(result)} values"
                        if isinstance(result, (tuple, list))
                        else type(result).__name__
                    )
                    raise Error(f"Expected {len(slots)} values to unpack, got {got}")
                for slot, item in zip(slots, result):
                    frame[slot] = item

            return unpack
        return self.refuse(node, "an assignment to something else than names and attributes")

    def conditional(self, node: ast.If) -> Statement:
        test, yes = self.expression(node.test), self.block(node.body)
        no = self.block(node.orelse) if node.orelse else None

        def run(frame: Frame) -> tuple[Any] | None:
            if test(frame):
                return yes(frame)
            return no(frame) if no is not None else None

        return run

    def repeated(self, node: ast.While) -> Statement:
        if node.orelse:
            return self.refuse(node, "a loop with else")
        test, body = self.expression(node.test), self.body(node.body)

        def run(frame: Frame) -> tuple[Any] | None:
            while test(frame):
                result = body(frame)
                if result is not None and result is not _CONTINUE:
                    return None if result is _BREAK else result
            return None

        return run

    def body(self, statements: Sequence[ast.stmt]) -> Statement:
        """What a loop repeats."""
        self.loops += 1
        result = self.block(statements)
        self.loops -= 1
        return result

    def within(self, node: ast.With) -> Statement:
        """`with ops.flambeau.value_no_grad():`, and no other context."""
        call = node.items[0].context_expr
        names = (
            dotted(call.func) if isinstance(call, ast.Call) and not call.args and not call.keywords else None
        )
        if (
            len(node.items) > 1
            or node.items[0].optional_vars is not None
            or names is None
            or names[:2] != ["ops", OWN]
        ):
            return self.refuse(node, "a with of something else than whether gradients are recorded")
        context, block = CONTEXTS.get(names[-1]), self.block(node.body)
        if context is None or len(names) != 3:
            return self.refuse(node, f"no context {'.'.join(names)}")

        def run(frame: Frame) -> tuple[Any] | None:
            with context():
                return block(frame)

        return run

    def counted(self, node: ast.For) -> Statement:
        call = node.iter
        ranged = isinstance(call, ast.Call) and dotted(call.func) == ["range"] and len(call.args) == 1
        if (
            node.orelse
            or not isinstance(node.target, ast.Name)
            or not ranged
            or not isinstance(call, ast.Call)
        ):
            return self.refuse(node, "a for loop over something else than range(n)")
        slot, count, body = self.slot(node.target.id), self.expression(call.args[0]), self.body(node.body)

        def run(frame: Frame) -> tuple[Any] | None:
            for k in range(count(frame)):
                frame[slot] = k
                result = body(frame)
                if result is not None and result is not _CONTINUE:
                    return None if result is _BREAK else result
            return None

        return run

    # --- expressions ------------------------------
    def expression(self, node: ast.expr) -> Expression:
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, (int, float, complex, str, type(None))):
                return self.refuse(node, f"a constant of type {type(node.value).__name__}")
            value = _text(node.value) if isinstance(node.value, str) else node.value
            return Literal(lambda frame: value)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.List):
            items = [self.expression(e) for e in node.elts]
            return _folded(lambda frame: [item(frame) for item in items], items)
        if isinstance(node, ast.Tuple):
            items = [self.expression(e) for e in node.elts]
            return lambda frame: tuple([item(frame) for item in items])
        if isinstance(node, ast.Dict) and None not in node.keys:
            pairs = [
                (self.expression(k), self.expression(v))
                for k, v in zip(node.keys, node.values)
                if k is not None
            ]
            return lambda frame: {k(frame): v(frame) for k, v in pairs}
        if isinstance(node, ast.Subscript):
            return self.subscript(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            negated = self.expression(node.operand)
            return _folded(lambda frame: -negated(frame), [negated])
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        return self.refuse(node, f"{type(node).__name__} in an expression")

    def name(self, node: ast.Name) -> Expression:
        if node.id in self.slots:
            return Variable(self.slot(node.id))
        if node.id in _CONSTANTS:
            value = _CONSTANTS[node.id]
            return Literal(lambda frame: value)
        return self.refuse(node, f"undefined value {node.id!r}")

    def subscript(self, node: ast.Subscript) -> Expression:
        owner, index = self.expression(node.value), self.expression(node.slice)

        def run(frame: Frame) -> Any:
            items = owner(frame)
            if not isinstance(items, (list, tuple, dict, str)):
                raise Error(f"an item of a {type(items).__name__}")
            return items[index(frame)]

        return run

    def attribute(self, node: ast.Attribute) -> Expression:
        names = dotted(node)
        if names is not None and names[0] not in self.slots:
            value = self.global_value(names, node)
            return lambda frame: value
        owner, name = self.expression(node.value), node.attr
        return lambda frame: attribute(owner(frame), name)

    def global_value(self, names: list[str], node: ast.AST) -> Any:
        if names[0] == "CONSTANTS" and len(names) == 2:
            result = self.program.constant(names[1])
        else:
            result = self.program.find(names)
        if result is None:
            return self.refuse(node, f"undefined value {'.'.join(names)}")
        if isinstance(result, Function):
            result.compile()
        return result

    # --- calls ------------------------------
    def call(self, node: ast.Call) -> Expression:
        names = dotted(node.func)
        if names is not None and names[0] not in self.slots:
            if len(names) == 1:
                return self.builtin(names[0], node)
            if names[0] == "torch" or names[0] == "ops":
                return self.operation(names, node)
            return self.global_call(names, node)
        args, kwargs = self.arguments(node)
        if isinstance(node.func, ast.Attribute):
            owner, name = self.expression(node.func.value), node.func.attr
            return lambda frame: method(owner(frame), name)(
                *[a(frame) for a in args], **_evaluated(kwargs, frame)
            )
        function = self.expression(node.func)

        def run(frame: Frame) -> Any:
            called = function(frame)
            if not isinstance(called, Function):
                raise Error(f"a call of a {type(called).__name__}")
            return called(*[a(frame) for a in args], **_evaluated(kwargs, frame))

        return run

    def arguments(self, node: ast.Call) -> tuple[list[Expression], dict[str, Expression]]:
        if any(k.arg is None for k in node.keywords):
            self.refuse(node, "** in a call")
        return [self.expression(a) for a in node.args], {
            k.arg: self.expression(k.value) for k in node.keywords if k.arg is not None
        }

    def global_call(self, names: list[str], node: ast.Call) -> Expression:
        if names[-1] == "__new__":
            made = self.program.find(names[:-1])
            if not isinstance(made, ScriptClass):
                return self.refuse(node, f"no class {'.'.join(names[:-1])}")
            return lambda frame: ScriptObject(made)
        function = self.global_value(names, node)
        args, kwargs = self.arguments(node)
        if isinstance(function, Function):
            return lambda frame: function(*[a(frame) for a in args], **_evaluated(kwargs, frame))
        if isinstance(function, (ScriptClass, Enumeration)):
            return lambda frame: construct(function, [a(frame) for a in args], _evaluated(kwargs, frame))
        return self.refuse(node, f"{'.'.join(names)} cannot be called")

    def builtin(self, name: str, node: ast.Call) -> Expression:
        arg_nodes = node.args
        if name in ("annotate", "unchecked_cast") and len(arg_nodes) == 2:
            value = self.expression(arg_nodes[1])
            return annotated(arg_nodes[0], value) if name == "annotate" else value
        if name == "uninitialized" and len(arg_nodes) == 1:
            return lambda frame: None
        if name == "isinstance" and len(arg_nodes) == 2:
            value, check = self.expression(arg_nodes[0]), check_of(arg_nodes[1], self.program.class_check)
            if check is None:
                return self.refuse(
                    node, f"isinstance with a type that is not known: {ast.unparse(arg_nodes[1])[:60]}"
                )
            return lambda frame: check(value(frame))
        if (
            name == "getattr"
            and len(arg_nodes) == 2
            and isinstance(arg_nodes[1], ast.Constant)
            and type(arg_nodes[1].value) is str
        ):
            owner, named = self.expression(arg_nodes[0]), arg_nodes[1].value
            return lambda frame: attribute(owner(frame), named)
        if name not in _FUNCTIONS:
            return self.refuse(node, f"undefined function {name!r}")
        function, (args, kwargs) = _FUNCTIONS[name], self.arguments(node)
        return lambda frame: function(*[a(frame) for a in args], **_evaluated(kwargs, frame))

    def operation(self, names: list[str], node: ast.Call) -> Expression:
        args, kwargs = self.arguments(node)
        if names == ["torch", "device"]:
            return lambda frame: device_of(*[a(frame) for a in args])
        if names[:2] == ["ops", "prim"] and len(names) == 3:
            primitive = PRIMITIVES.get(names[2])
            if primitive is None:
                return self.lacking(f"prim::{names[2]}", node)
            return lambda frame: primitive(*[a(frame) for a in args], **_evaluated(kwargs, frame))
        if names[0] == "torch" and len(names) == 2:
            space, name = "aten", names[1]
        elif names[0] == "ops" and len(names) == 3:
            space, name = names[1], names[2]
        else:
            return self.lacking(".".join(names), node)
        site = Site(space, name)
        if not site.exists():
            return self.lacking(f"{space}::{name}", node)
        return site.caller(args, kwargs)

    def lacking(self, name: str, node: ast.AST) -> Expression:
        """A call of an operation that is not here: an error where it is reached, so that programs may have it in other branches."""
        line = getattr(node, "lineno", 0)

        def run(frame: Frame) -> Any:
            raise NotImplementedError(f"{self.source.name}, line {line}: there is no operation {name}")

        return run


def _folded(made: Expression, parts: Sequence[Expression]) -> Expression:
    """An expression that is a literal where its parts are."""
    return Literal(made) if all(isinstance(part, Literal) for part in parts) else made


def _note(error: Exception, begin: str, line: int, end: str) -> None:
    """Say in an error's notes where it was raised: once for each function on the way."""
    notes = getattr(error, "__notes__", ())
    if not (notes and notes[-1].startswith(begin) and notes[-1].endswith(end)) and len(notes) < 32:
        error.add_note(f"{begin}{line}{end}")


def _text(text: str) -> str:
    """A text whose bytes beyond ASCII stand as octal numbers, as PyTorch writes them."""
    if text.isascii() or any(ord(c) > 255 for c in text):
        return text
    return text.encode("latin-1").decode("utf-8", "replace")


def _evaluated(expressions: dict[str, Expression], frame: Frame) -> dict[str, Any]:
    return {name: e(frame) for name, e in expressions.items()} if expressions else NOTHING


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "int": lambda x: number(int, x),
    "float": lambda x: number(float, x),
    "complex": complex,
    "bool": bool,
    "str": shown,
    "print": lambda *a: print(*[shown(x) for x in a]),
    "range": lambda *a: list(range(*a)),
    "len": len,
    "ord": ord,
    "format": formatted,
}


class Program(Namespace):
    """The code of an archive, whose functions can be called."""

    def compiled(
        self, source: Source, definition: ast.FunctionDef
    ) -> tuple[Callable[[list[Any]], Any], int, list[Any]]:
        """The function as closures."""
        return Compiler(self, source, definition).compiled()


__all__ = ["Compiler", "Error", "Program", "Site"]
