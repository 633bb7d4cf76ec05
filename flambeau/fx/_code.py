"""Graphs as Python code: one readable statement a node."""

from __future__ import annotations

import builtins
import enum
import sys
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..core.base import display
from ..core.base.callbacks import callbacks
from ..core.base.dtypes import device
from ..utils import _pytree as pytree
from . import _pytree as fx_pytree
from ._names import OWN, Namespace, is_ours, is_reached, qualified_name, reached
from .node import Node

__all__ = ["CodeGen", "PythonCode"]

MAGIC = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}",
    "floordiv": "{} // {}", "truediv": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}",
    "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
IN_PLACE = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip
# What generated code means by these names, whatever a program calls its own values.
BUILTINS: dict[str, Any] = {
    "inf": float("inf"),
    "nan": float("nan"),
    "NoneType": type(None),
    "device": device,
    "fx_pytree": fx_pytree,
    "pytree": pytree,
}
_IMPORTS = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "NoneType = type(None)",
    "device": "from {} import device",
    "fx_pytree": "import {}.fx._pytree as fx_pytree",
    "pytree": "import {}.utils._pytree as pytree",
}
Namespace.reserved = {**BUILTINS, OWN: BUILTINS, "torch": BUILTINS}  # the library, which no node stands for


@dataclass
class PythonCode:
    """The code of a graph and the globals that it reads.

    Raises nothing.

    >>> import flambeau as torch
    >>> graph = torch.fx.Graph()
    >>> _ = graph.output(graph.placeholder("x"))
    >>> print(graph.python_code("self").src.strip())
    def forward(self, x):
        return x
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None)
    _prologue_start: int = 0


class TreeInfo(NamedTuple):
    """Names of a program's own arguments, and the structures of what it takes and gives."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


def import_line(name: str, value: Any) -> str:
    """The statement that gives generated code a global of this name; PicklingError where no import finds it.

    >>> import operator
    >>> from flambeau.fx._code import import_line
    >>> import_line("operator_concat", operator.concat)
    'from operator import concat as operator_concat'
    """
    from pickle import PicklingError

    if name in BUILTINS:
        return _IMPORTS[name].format(display.NAME)
    if isinstance(line := getattr(value, "import_line", None), str):
        return line
    if value is sys.modules[OWN]:
        return f"import {display.NAME}" + (f" as {name}" if name != display.NAME else "")
    if isinstance(value, type(sys)):
        return f"import {value.__name__} as {name}"
    module, _, last = qualified_name(value).rpartition(".")
    module = module or "builtins"
    if reached(f"{module}.{last}") is not value:
        raise PicklingError(
            f"{name} in the code of a graph is {value!r}, which no module has under its own name"
        )
    return f"from {module} import {last} as {name}" if last != name else f"from {module} import {last}"


def _attribute(base: str, dotted: str) -> str:
    """The expression for `base.dotted`, whatever its names."""
    for part in dotted.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class Writer:
    """What is known while a graph becomes code: names of nodes, and globals."""

    def __init__(self, root_module: str, namespace: Namespace) -> None:
        self.root, self.namespace = root_module, namespace
        self.globals: dict[str, Any] = dict(BUILTINS)
        self.wrapped: dict[str, None] = {}
        namespace.associate_name_with_obj(root_module, self)

    def name(self, node: Node) -> str:
        """The variable of a node."""
        return self.namespace.create_name(node.name, node)

    def global_name(self, hint: str, value: Any) -> str:
        """An expression for a function, a class or another object: a dotted name of this library, or a global."""
        if isinstance(
            path := getattr(value, "code_path", None), str
        ):  # an overload of ATen, or of a program's library
            self.globals[display.NAME] = callbacks["library_in_code"]()
            return f"{display.NAME}.{path}"
        if is_ours(value) and value is not device:
            dotted = qualified_name(value)
            if is_reached(f"{OWN}.{dotted.partition('.')[2]}", value):
                self.globals.setdefault(display.NAME, sys.modules[OWN])
                return dotted
        if vars(builtins).get(hint) is value:
            return hint
        name = hint.replace(".", "_")
        if self.globals.get(name, self) is value:
            return name
        name = self.namespace.create_name(name, value)
        self.globals[name] = value
        return name

    def value(self, x: Any) -> str:
        """An argument as an expression."""
        kind = type(x)
        if isinstance(x, Node):
            return self.name(x)
        if isinstance(x, tuple):
            if hasattr(x, "_fields"):
                return f"{self.global_name(qualified_name(kind), kind)}({', '.join(map(self.value, x))})"
            if kind is not tuple and is_ours(kind):  # a Size
                return f"{self.global_name(qualified_name(kind), kind)}([{', '.join(map(self.value, x))}])"
            return f"({', '.join(map(self.value, x))}{',' if len(x) == 1 else ''})"
        if isinstance(x, list):
            return f"[{', '.join(map(self.value, x))}]"
        if isinstance(x, dict):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in x.items()) + "}"
        if kind is slice:
            return f"slice({self.value(x.start)}, {self.value(x.stop)}, {self.value(x.step)})"
        if isinstance(x, enum.Enum):
            return f"{self.global_name(qualified_name(kind), kind)}.{x.name}"
        if kind is complex:
            return f"complex({x.real!r}, {x.imag!r})"
        if x is None or x is ... or kind in (int, float, bool, str, device):
            return repr(x)
        if isinstance(x, type) or callable(x):
            return self.global_name(qualified_name(x), x)
        text = repr(x)
        if text.startswith(f"{display.NAME}."):  # a dtype, a layout, a memory format
            self.globals.setdefault(display.NAME, sys.modules[OWN])
        return text

    def operand(self, x: Any) -> str:
        """An argument as an expression that operators and attributes may follow."""
        text = self.value(x)
        return text if isinstance(x, Node) or text.isidentifier() or text.isdigit() else f"({text})"

    def annotation(self, kind: Any) -> str:
        """A type as an expression."""
        if kind is None or kind is type(None):
            return "None"
        if isinstance(kind, str):
            return repr(kind)
        if kind is ...:
            return "..."
        if isinstance(kind, list):
            return f"[{', '.join(map(self.annotation, kind))}]"
        origin = typing.get_origin(kind)
        if origin is None:
            if isinstance(kind, type):
                return self.global_name(qualified_name(kind), kind)
            name = getattr(kind, "_name", None)
            generic = getattr(typing, name, None) if name else None
            return (
                self.global_name(f"typing.{name}", kind)
                if generic is kind
                else self.global_name("annotation", kind)
            )
        inner = typing.get_args(kind)
        if type(kind).__name__ == "UnionType":
            return " | ".join(map(self.annotation, inner))
        name = "Union" if origin is typing.Union else getattr(kind, "_name", None)
        base = getattr(typing, name) if name and hasattr(typing, name) else origin
        hint = f"typing.{name}" if name and hasattr(typing, name) else qualified_name(origin)
        if not inner:
            return self.global_name(hint, base)
        if origin is typing.Literal:
            return f"{self.global_name(hint, base)}[{', '.join(map(repr, inner))}]"
        return f"{self.global_name(hint, base)}[{', '.join(map(self.annotation, inner))}]"

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """Arguments as they stand between the parentheses of a call."""
        return ", ".join([*map(self.value, args), *(f"{k} = {self.value(v)}" for k, v in kwargs.items())])

    def statement(self, node: Node) -> str:
        """The line that computes a node's value."""
        name, args, kwargs = self.name(node), node.args, node.kwargs
        kind = "" if node.type is None else f" : {self.annotation(node.type)}"
        if node.op == "get_attr":
            return f"{name}{kind} = {_attribute(self.root, str(node.target))}"
        if node.op == "call_module":
            return f"{name}{kind} = {_attribute(self.root, str(node.target))}({self.arguments(args, kwargs)})"
        if node.op == "call_method":
            of = self.operand(args[0])
            return f"{name}{kind} = {_attribute(of, str(node.target))}({self.arguments(args[1:], kwargs)})"
        assert node.op == "call_function" and callable(node.target)
        function = getattr(node.target, "__name__", "")
        if getattr(node.target, "__module__", None) == "_operator" and not kwargs:
            form = MAGIC.get(function)
            if form is not None and len(args) == form.count("{}"):
                if function == "getitem":
                    return f"{name}{kind} = {self.operand(args[0])}[{self.value(args[1])}]"
                return f"{name}{kind} = {form.format(*map(self.operand, args))}"
            form = IN_PLACE.get(function)
            if form is not None and len(args) == form.count("{}") and isinstance(args[0], Node):
                return f"{form.format(*map(self.value, args))};  {name}{kind} = {self.value(args[0])}"
        if node.target is getattr and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            return f"{name}{kind} = {self.operand(args[0])}.{args[1]}"
        called = self.global_name(qualified_name(node.target), node.target)
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(called)
        return f"{name}{kind} = {called}({self.arguments(args, kwargs)})"


class CodeGen:
    """How a graph becomes code; subclasses change the signature and what is returned.

    >>> import flambeau as torch
    >>> class Called(torch.fx.CodeGen):
    ...     def generate_output(self, output_args, *, repr_fn=repr):
    ...         return f"return ({repr_fn(output_args)}, 'done')"
    >>> module = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> module.graph.set_codegen(Called())
    >>> _ = module.recompile()
    >>> module(1)
    (2, 'done')
    """

    def __init__(self) -> None:
        # what `Graph.on_generate_code` has registered: a function of the statements
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line that begins the function, `free_vars` being its parameters."""
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        """The statement that returns."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """What placeholders take of the function's arguments."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function returns of the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names and values that the code reads beside its own."""
        return []

    def write(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: Namespace,
        comments: Callable[[Node], list[str]] | None = None,
        described: Callable[[Node], str] | None = None,
    ) -> PythonCode:
        """The code of nodes in their order.

        `comments` gives lines that stand before a node's statement; `described` what stands as the annotation of its variable.
        """
        writer = Writer(root_module, namespace)
        for name, value in self.additional_globals():
            writer.global_name(name, value)
        ordered = list(nodes)
        for node in ordered:  # parameters before variables
            if node.op == "placeholder":
                writer.name(node)
        dead = _dying(ordered)
        parameters: list[str] = []
        body: list[str] = []
        lines: list[int | None] = []
        returned = ""
        for k, node in enumerate(ordered):
            for line in comments(node) if comments is not None else ():
                body.append(line)
                lines.append(None)
            if node.op == "placeholder":
                raw = str(node.target).replace("*", "")
                name = writer.name(node)
                kind = "" if node.type is None else f" : {writer.annotation(node.type)}"
                if described is not None and not kind and (description := described(node)):
                    kind = f': "{description}"'
                default = f" = {writer.value(node.args[0])}" if node.args else ""
                first = name if raw != name and not (raw.isidentifier() and not _keyword(raw)) else None
                parameters.append(f"{str(node.target) if first is None else first}{kind}{default}")
                if first is None and raw != name:
                    body.append(f"{name} = {raw}")
                    lines.append(k)
                continue
            if node.op == "output":
                if node.type is not None:
                    returned = f" -> {writer.annotation(node.type)}"
                body.append(self.generate_output(node.args[0] if node.args else None, repr_fn=writer.value))
                lines.append(k)
                continue
            text = writer.statement(node)
            if described is not None and node.type is None and (description := described(node)):
                name = writer.name(node)
                text = text.replace(f"{name} = ", f'{name}: "{description}" = ', 1)
            if dead[node]:
                text += ";  " + "".join(f"{writer.name(n)} = " for n in dead[node]) + "None"
            body.append(text)
            lines.append(k)
        if not body:
            body, lines = ["pass"], [None]
        if self._body_transformer is not None:
            body = [line.rstrip("\n") for line in self._body_transformer([f"{line}\n" for line in body])]
        home = f"{display.NAME}.fx._symbolic_trace"
        wraps = "\n".join(f'{home}.wrap("{name}")' for name in writer.wrapped)
        if wraps:
            writer.globals[display.NAME] = sys.modules[OWN]
        head = f"\n{wraps}\n\n{self.gen_fn_def(parameters, returned)}"
        start = head.count("\n") + 1
        numbers: dict[int, int | None] = {}
        at = start + 1
        for text, number in zip(body, lines, strict=False):
            for _ in range(text.count("\n") + 1):
                numbers[at] = number
                at += 1
        block = "\n".join(f"    {line}" for text in body for line in text.split("\n"))
        return PythonCode(f"{head}\n{block}\n    ", writer.globals, numbers, start)


def _keyword(name: str) -> bool:
    import keyword

    return keyword.iskeyword(name)


def _dying(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """By node: those whose values nothing reads after it, so that their memory is free."""
    dead: dict[Node, list[Node]] = {node: [] for node in nodes}
    last: dict[Node, Node] = {}
    for node in reversed(nodes):
        if node.op == "output":
            last.update(dict.fromkeys(node._input_nodes, node))
            continue
        mine = [n for n in node._input_nodes if n not in last]
        last.update(dict.fromkeys(mine, node))
        if node.op != "placeholder":
            dead[node] = mine + ([] if node in last or node.users else [node])
    return dead


class _PyTreeCodeGen(CodeGen):
    """Code that takes and gives nested structures."""

    def __init__(self, pytree_info: TreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, outputs: Any) -> Any:
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names = list(self.pytree_info.orig_args)
        if not names or names[0] != "self":
            names = ["self", *names]
        head = super().gen_fn_def(names, maybe_return_annotation)
        if not free_vars:
            return head
        variables = [v.partition("=")[0].partition(":")[0].strip() for v in free_vars]
        return f"{head}\n    {', '.join(variables)}, = fx_pytree.tree_flatten_spec([{', '.join(names[1:])}], self._in_spec)"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"
