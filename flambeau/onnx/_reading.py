"""Graphs of ONNX as graphs of fx: each node a call of what its operator means, functions of the model written out where they are called,
graphs within nodes (branches, bodies of loops) modules of their own, which get what they read from outside as arguments."""

from __future__ import annotations

import keyword
import operator as python
import re
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.make.create import tensor
from ..fx import Graph, Node
from ..fx._names import Namespace
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ._loaded import LoadedModel
from ._messages import (
    AttributeMessage,
    FunctionMessage,
    GraphMessage,
    NodeMessage,
    SparseMessage,
    TensorMessage,
)
from ._operators.declare import ON_NUMBERS, Operator, dtype_of, lookup_operator, operator_of
from ._tensors import Folder, dense_of, tensor_of
from .errors import OnnxFormatError, OnnxLoadError

MOST_NODES = 200_000  # with those of functions where they are called
_DEEPEST = 50  # operators between a shape and where its sizes are read
_LONGEST_LIST = 4096  # elements of constants that become lists of ints
_BAD = re.compile(r"[^0-9A-Za-z_]+")
_KINDS = {
    1: "float",
    2: "int",
    3: "str",
    4: "tensor",
    5: "graph",
    6: "floats",
    7: "ints",
    8: "strs",
    11: "sparse",
    13: "type",
}


class Held:
    """A constant of the file: made a tensor when a node reads it."""

    def __init__(self, name: str, source: Any, folder: Folder, is_weight: bool) -> None:
        self.name, self.source, self.folder, self.is_weight = name, source, folder, is_weight
        self.is_state = False
        self._tensor: Tensor | None = None

    @property
    def tensor(self) -> Tensor:
        if self._tensor is None:
            try:
                self._tensor = self._made()
            except OnnxLoadError as error:
                raise type(error)(f"the tensor '{self.name}': {error}") from None
        return self._tensor

    def _made(self) -> Tensor:
        if isinstance(self.source, TensorMessage):
            return tensor_of(self.source, self.folder)
        if isinstance(self.source, SparseMessage):
            return dense_of(self.source, self.folder)
        return self.source

    def as_ints(self) -> list[int] | None:
        """Its elements as a list, where they are few ints."""
        if self.tensor.is_floating_point() or self.tensor.is_complex() or self.tensor.numel() > _LONGEST_LIST:
            return None
        return [int(n) for n in self.tensor.reshape(-1).tolist()]


class Scope:
    """What names mean where a node stands: nodes of this graph and constants; outside of a branch, those of the graph around it."""

    def __init__(self, target: Target, outer: Scope | None = None) -> None:
        self.target, self.outer = target, outer
        self.items: dict[str, Node | Held | None] = {}
        self.makers: dict[str, tuple[Operator, NodeMessage, dict[str, Any]]] = {}
        self.numbers: dict[str, tuple[Any, int] | None] = {}  # values as lists of ints, and their ranks

    def define(self, name: str, item: Node | Held | None) -> None:
        if name in self.items:
            raise OnnxFormatError(f"'{name}' is made twice")
        self.items[name] = item

    def held(self, name: str) -> Held | None:
        """The constant of that name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.items:
                item = scope.items[name]
                return item if isinstance(item, Held) else None
            scope = scope.outer
        return None

    def knows(self, name: str) -> bool:
        return name in self.items or (self.outer is not None and self.outer.knows(name))

    def node(self, name: str) -> Node | None:
        """The node that a name stands for; None for an input that is left out."""
        if name in self.items:
            item = self.items[name]
            return self.target.constant(item) if isinstance(item, Held) else item
        if self.outer is not None and self.outer.knows(name):
            return self.target.captured(name)
        raise OnnxFormatError(f"it reads '{name}', which nothing before it makes")


class Target:
    """A graph of fx while it is written, and the tensors and modules that it names."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.graph = reader, Graph()
        self.root: dict[str, Any] = {}
        self.passing: set[str] = set()  # buffers that are no part of the state
        self.read: dict[Held, Node] = {}
        self.from_outside: dict[str, Node] = {}
        self.last_input: Node | None = None
        self.inputs: set[str] = {"self"}
        self.spare: list[
            Node
        ] = []  # what is left out where nothing reads it: tensors of what is read as ints

    def input(self, name: str, is_optional: bool = False) -> Node:
        """A new argument, behind those that are there; one that is optional may be left out."""
        base = identifier(name, "input")
        chosen, count = base, 1
        while chosen in self.inputs:
            chosen, count = f"{base}_{count}", count + 1
        self.inputs.add(chosen)
        if self.last_input is None:
            first = next(iter(self.graph.nodes), None)
            place = self.graph.inserting_after(None) if first is None else self.graph.inserting_before(first)
        else:
            place = self.graph.inserting_after(self.last_input)
        with place:
            options = {"default_value": None} if is_optional else {}
            self.last_input = self.graph.placeholder(chosen, **options)
        return self.last_input

    def captured(self, name: str) -> Node:
        if name not in self.from_outside:
            self.from_outside[name] = self.input(name)
        return self.from_outside[name]

    def constant(self, held: Held) -> Node:
        """The attribute that a constant becomes: a parameter, or a buffer."""
        if held not in self.read:
            value: Tensor = held.tensor
            name = self.attribute(held.name)
            if held.is_weight and not held.is_state and self.reader.trains(held.name, value):
                self.root[name] = Parameter(value)
            else:
                self.root[name] = value
                if not held.is_weight:
                    self.passing.add(name)
            node = self.graph.create_node("get_attr", name, name=identifier(name, "p"))
            self.read[held] = node
            if not isinstance(self.root[name], Parameter):
                self.spare.append(node)
        return self.read[held]

    def attribute(self, name: str) -> str:
        """A dotted name for an attribute: that name where it is a plain one, which no attribute of modules has."""
        parts = name.split(".")
        if not all(_is_free(p) for p in parts):
            parts = [identifier(name, "value")]
            if not _is_free(parts[0]):
                parts = [f"value_{parts[0]}"]
        base = chosen = ".".join(parts)
        count = 1
        while any(
            chosen == n or n.startswith(f"{chosen}.") or chosen.startswith(f"{n}.")
            for n in self.taken(parts[0])
        ):
            chosen, count = f"{base.replace('.', '_')}_{count}", count + 1
            parts = [chosen]
        self.heads.setdefault(parts[0], []).append(chosen)
        return chosen

    def taken(self, head: str) -> list[str]:
        """Names of attributes that begin so."""
        return self.heads.get(head, [])

    @property
    def heads(self) -> dict[str, list[str]]:
        if not hasattr(self, "_heads"):
            self._heads: dict[str, list[str]] = {}
        return self._heads

    def finished(self, outputs: Sequence[Node | None], several: bool) -> LoadedModel:
        for node in reversed(self.spare):
            if not node.users and node not in outputs:
                self.graph.erase_node(node)
        self.graph.output(tuple(outputs) if several or len(outputs) != 1 else outputs[0])
        made = LoadedModel(self.root, self.graph)
        referenced = {str(n.target) for n in self.graph.nodes if n.op == "get_attr"}
        for name in self.passing & referenced:
            path, _, last = name.rpartition(".")
            owner = made.get_submodule(path) if path else made
            owner._non_persistent_buffers_set.add(last)
        return made


# What generated code means by these names.
_WRITTEN = frozenset(("self", "getattr", "slice", "complex", *Namespace.reserved))


def identifier(name: str, default: str) -> str:
    """A name as an identifier of Python."""
    result = _BAD.sub("_", name[:100]).strip("_") or default
    if result[0].isdigit() or keyword.iskeyword(result) or result in _WRITTEN:
        result = f"{default}_{result}"
    return result


def _is_free(part: str) -> bool:
    """Whether an attribute of a module may be called so."""
    is_valid = part.isascii() and (part.isidentifier() or part.isdigit())
    return is_valid and not part.startswith("_") and not keyword.iskeyword(part) and part not in _TAKEN


_TAKEN = {*dir(LoadedModel), "training", "meta"}  # attributes of the module itself


class Reader:
    """Reads the graphs of one model."""

    def __init__(
        self, folder: Folder, functions: dict[tuple[str, str, str], FunctionMessage], parameters: Any = None
    ) -> None:
        self.folder, self.functions, self.parameters = folder, functions, parameters
        self.count = 0
        self.calls: list[tuple[str, str, str]] = []

    def trains(self, name: str, value: Tensor) -> bool:
        """Whether a constant is a parameter."""
        if self.parameters is not None:
            return name in self.parameters
        return value.is_floating_point() and value.ndim > 0

    def module(self, graph: GraphMessage, opsets: dict[str, int], outer: Scope | None = None) -> LoadedModel:
        """A graph as a module; one within a node gives a tuple in any case, and has `captured` names in its `meta`."""
        target = Target(self)
        scope = Scope(target, outer)
        for message in graph.initializer:
            scope.define(message.name, Held(message.name, message, self.folder, True))
        for sparse in graph.sparse_initializer:
            name = sparse.values.name if sparse.values is not None else ""
            scope.define(name, Held(name, sparse, self.folder, True))
        for value in graph.input:
            if not value.name:
                raise OnnxFormatError("an input of the graph has no name")
            if value.name not in scope.items:
                is_optional = (
                    outer is None and value.type is not None and value.type.optional_type is not None
                )
                scope.define(value.name, target.input(value.name, is_optional))
            elif isinstance(scope.items[value.name], Node):
                raise OnnxFormatError(f"two inputs are called '{value.name}'")
        self.mark_state(graph, scope, opsets)
        self.nodes(graph.node, scope, opsets, {})
        outputs = []
        for value in graph.output:
            try:
                outputs.append(scope.node(value.name))
            except OnnxFormatError:
                raise OnnxFormatError(f"nothing makes the output '{value.name}'") from None
        if not outputs and outer is None:
            raise OnnxFormatError("the graph has no outputs")
        made = target.finished(outputs, outer is not None)
        if outer is not None:
            made.meta["captured"] = list(target.from_outside)
        return made

    def mark_state(self, graph: GraphMessage, scope: Scope, opsets: dict[str, int]) -> None:
        """Find the constants that are read as state alone, such as running means, in another shape, too."""
        state: set[str] = set()
        other = {v.name for v in graph.output}
        for node in reversed(graph.node):
            domain = _domain(node.domain)
            result = None
            if (domain, node.op_type, node.overload) not in self.functions and domain in opsets:
                result = lookup_operator(domain, node.op_type, opsets[domain])
            moves = (
                result is not None and result.moves and node.output[:1] and node.output[0] in state - other
            )
            for k, name in enumerate(node.input):
                is_state = result is not None and k < len(result.inputs) and result.inputs[k] in result.state
                (state if is_state or (moves and k == 0) else other).add(name)
        for name in state - other:
            item = scope.items.get(name)
            if isinstance(item, Held):
                item.is_state = True

    # --- nodes ------------------------------
    def nodes(
        self,
        nodes: Sequence[NodeMessage],
        scope: Scope,
        opsets: dict[str, int],
        outer: dict[str, AttributeMessage],
    ) -> None:
        for node in nodes:
            self.count += 1
            if self.count > MOST_NODES:
                raise OnnxLoadError(f"the model has more than {MOST_NODES} nodes")
            try:
                self.node(node, scope, opsets, outer)
            except OnnxLoadError as error:
                if getattr(error, "is_located", False):
                    raise
                called = f"node '{node.name}' ({node.op_type})" if node.name else f"a node {node.op_type}"
                message = type(error)(f"{called}: {error}")
                message.is_located = True  # type: ignore[attr-defined]
                raise message from error.__cause__

    def node(
        self,
        node: NodeMessage,
        scope: Scope,
        opsets: dict[str, int],
        outer: dict[str, AttributeMessage],
    ) -> None:
        domain = _domain(node.domain)
        attributes = {}
        for a in node.attribute:
            if a.name in attributes:
                raise OnnxFormatError(f"the attribute '{a.name}' stands twice")
            if a.ref_attr_name:
                if a.ref_attr_name in outer:
                    attributes[a.name] = outer[a.ref_attr_name]
            else:
                attributes[a.name] = a
        key = domain, node.op_type, node.overload
        if key in self.functions:
            self.inlined(key, node, scope, attributes)
            return
        if domain not in opsets:
            raise OnnxFormatError(f"the model does not say which version of the operators '{domain}' it has")
        if domain == "" and node.op_type == "Constant":
            self.constant(node, scope, attributes)
            return
        self.call(operator_of(domain, node.op_type, opsets[domain]), node, scope, attributes, opsets)

    def inlined(
        self,
        key: tuple[str, str, str],
        node: NodeMessage,
        scope: Scope,
        attributes: dict[str, AttributeMessage],
    ) -> None:
        """A call of a function of the model, as the nodes that it has."""
        function = self.functions[key]
        if key in self.calls:
            raise OnnxFormatError(f"the function {function.name} calls itself")
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise OnnxFormatError(
                f"the function {function.name} has {len(function.input)} inputs and {len(function.output)} outputs"
            )
        inner = Scope(scope.target)
        for k, name in enumerate(function.input):
            outside = node.input[k] if k < len(node.input) else ""
            held = scope.held(outside) if outside in scope.items else None
            inner.define(name, held or (scope.node(outside) if outside else None))
        unknown = set(attributes) - set(function.attribute) - {a.name for a in function.attribute_proto}
        if unknown:
            raise OnnxFormatError(f"the function {function.name} has no attribute '{min(unknown)}'")
        call_attributes = {a.name: a for a in function.attribute_proto} | attributes
        opsets = {_domain(o.domain): o.version for o in function.opset_import}
        self.calls.append(key)
        self.nodes(function.node, inner, opsets, call_attributes)
        self.calls.pop()
        for name, outside in zip(function.output, node.output):
            if outside:
                if not inner.knows(name):
                    raise OnnxFormatError(
                        f"nothing in the function {function.name} makes its output '{name}'"
                    )
                scope.define(outside, inner.items[name])

    def constant(self, node: NodeMessage, scope: Scope, attributes: dict[str, AttributeMessage]) -> None:
        if len(attributes) != 1 or len(node.output) != 1:
            raise OnnxFormatError("it has one attribute and one result")
        ((name, a),) = attributes.items()
        values = {"value_int": a.i, "value_float": a.f, "value_ints": a.ints, "value_floats": a.floats}
        if name == "value" and a.t is not None:
            source: Any = a.t
        elif name == "sparse_value" and a.sparse_tensor is not None:
            source = a.sparse_tensor
        elif name in values:
            source = tensor(values[name], dtype=dtype_of(7 if "int" in name else 1))
        else:
            raise OnnxLoadError(f"the attribute '{name}' has no dtype here")
        scope.define(node.output[0], Held(node.output[0], source, self.folder, False))

    def call(
        self,
        operator: Operator,
        node: NodeMessage,
        scope: Scope,
        attributes: dict[str, AttributeMessage],
        opsets: dict[str, int],
    ) -> None:
        target = scope.target
        args = self.arguments(operator, node, scope)
        kwargs, bodies = self.options(operator, scope, attributes, opsets)
        if operator.counts:
            kwargs["outputs"] = len(node.output)
        name = next((n for n in node.output if n), operator.name)
        if isinstance(operator.function, type):
            kind = operator.function.__name__.lower()
            attribute = target.attribute(kind if kind not in ("if",) else "branch")
            target.root[attribute] = operator.function(**kwargs)
            captured = [[scope.node(n) for n in b.meta.pop("captured")] for b in bodies]
            result = target.graph.create_node(
                "call_module", attribute, tuple(args), {"captured": captured}, identifier(name, "value")
            )
        else:
            result = target.graph.create_node(
                "call_function", operator.function, tuple(args), kwargs, identifier(name, "value")
            )
        if operator.function in ON_NUMBERS and node.output:
            scope.makers[node.output[0]] = operator, node, kwargs
            target.spare.append(result)
        if not operator.several:
            if any(node.output[1:]):
                raise OnnxFormatError(f"{operator.name} gives one result, and {len(node.output)} are named")
            scope.define(node.output[0], result) if node.output and node.output[0] else None
            return
        for k, output in enumerate(node.output):
            if output:
                part = target.graph.create_node(
                    "call_function", python.getitem, (result, k), name=identifier(output, "value")
                )
                scope.define(output, part)

    def arguments(self, result: Operator, node: NodeMessage, scope: Scope) -> list[Any]:
        count = len(node.input)
        if count > len(result.inputs) and not result.variadic:
            raise OnnxFormatError(f"{result.name} takes {len(result.inputs)} inputs, and has {count}")
        args: list[Any] = []
        for k, name in enumerate(node.input):
            parameter = result.inputs[k] if k < len(result.inputs) else ""
            if not name:
                if k < result.required:
                    raise OnnxFormatError(f"the input '{parameter}' is missing")
                args.append(None)
                continue
            numbers = self.numbers(scope, name) if parameter in result.ints else None
            args.append(scope.node(name) if numbers is None else numbers[0])
        if len(args) < result.required:
            raise OnnxFormatError(f"the input '{result.inputs[len(args)]}' is missing")
        while not result.variadic and args and args[-1] is None:
            args.pop()
        return args

    def numbers(self, scope: Scope, name: str, depth: int = 0) -> tuple[Any, int] | None:
        """A value as a list of ints, and how many dimensions it has: of a constant, or the node that computes it of sizes."""
        if name in scope.numbers:
            return scope.numbers[name]
        held = scope.held(name)
        made = None
        if held is not None:
            ints = held.as_ints()
            made = None if ints is None else (ints, held.tensor.ndim)
        elif name in scope.makers and depth < _DEEPEST:
            made = self.computed_numbers(scope, name, depth)
        scope.numbers[name] = made
        return made

    def computed_numbers(self, scope: Scope, name: str, depth: int) -> tuple[Any, int] | None:
        result, node, kwargs = scope.makers[name]
        rule = ON_NUMBERS[result.function]
        if rule.of_tensor:
            args, ranks = [scope.node(n) for n in node.input], []
        else:
            operands = [self.numbers(scope, n, depth + 1) for n in node.input]
            if any(o is None or o[1] > 1 for o in operands):
                return None
            args, ranks = [o[0] for o in operands if o], [o[1] for o in operands if o]
        rank = rule.rank(ranks, args)
        if rank > 1:
            return None
        hint = f"{identifier(name, 'value')}_numbers"
        made = scope.target.graph.create_node("call_function", rule.function, tuple(args), kwargs, hint)
        return made, rank

    def options(
        self,
        result: Operator,
        scope: Scope,
        attributes: dict[str, AttributeMessage],
        opsets: dict[str, int],
    ) -> tuple[dict[str, Any], list[Module]]:
        """The attributes as what the function takes, and the modules among them, in the order of the declaration."""
        kwargs: dict[str, Any] = {}
        bodies: list[Module] = []
        for name, a in attributes.items():
            attribute = result.attributes.get(name)
            if attribute is None:
                raise OnnxLoadError(f"the attribute '{name}' is not known")
            got, wanted = (
                _KINDS.get(a.type, str(a.type)),
                "int" if attribute.kind == "dtype" else attribute.kind,
            )
            if got != wanted:
                raise OnnxFormatError(f"the attribute '{name}' must be of the kind {wanted}, and is {got}")
            kwargs[name] = self.option(attribute.kind, name, a, scope, opsets)
        for name, attribute in result.attributes.items():
            if attribute.required and name not in kwargs:
                raise OnnxFormatError(f"the attribute '{name}' is missing")
            if attribute.kind == "graph":
                bodies.append(kwargs[name])
        return kwargs, bodies

    def option(self, kind: str, name: str, a: AttributeMessage, scope: Scope, opsets: dict[str, int]) -> Any:
        if kind == "graph":
            if a.g is None:
                raise OnnxFormatError(f"the attribute '{name}' has no graph")
            return self.module(a.g, opsets, scope)
        if kind == "tensor":
            if a.t is None:
                raise OnnxFormatError(f"the attribute '{name}' has no tensor")
            return scope.target.constant(Held(name, a.t, self.folder, False))
        if kind == "type":
            return None
        if kind == "dtype":
            return dtype_of(a.i)
        if kind == "str":
            return _text(a.s)
        if kind == "strs":
            return [_text(s) for s in a.strings]
        return {"int": a.i, "float": a.f, "ints": a.ints, "floats": a.floats}[kind]


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _text(data: Any) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise OnnxFormatError("an attribute is no UTF-8") from None
