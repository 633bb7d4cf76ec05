"""Graphs of archives as graphs of fx: checked JSON in, nodes out; nothing that a file says is run or imported.

A call's target is one of ATen's overloads, of a library that the program itself has loaded, Python's own operators, or control flow.
"""

from __future__ import annotations

import keyword
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from ..._files.errors import Damaged, require, short
from ..._symbols import numbers
from ...core.base.dtypes import device as Device
from ...fx._lazy_graph_module import _LazyGraphModule
from ...fx.graph import Graph
from ...fx.graph_module import GraphModule
from ...fx.node import Node
from ...library._higher_order import higher_order
from ...library._targets import target as target_of
from ...nn.modules.module import Module
from .._values import TensorValue
from . import schema
from .payload import place
from .texts import UnparsedExpr, parsed

MOST_NODES = 1 << 20
_PART = re.compile(r"[A-Za-z0-9_@:+-]+")  # of a dotted name; code has what is no identifier as a text
MOST_LETTERS = 4096  # of a name
_OPERATORS = (
    "add sub mul truediv floordiv mod pow neg pos eq ne lt le gt ge and_ or_ not_ lshift rshift getitem abs"
).split()
_MATH = {f.__name__: f for f in (math.trunc, math.floor, math.ceil, math.sqrt)}
_NUMBERS = [name for name in numbers.__all__ if name.startswith("sym_")]
_TAKEN = frozenset(dir(Module())) | frozenset(dir(GraphModule)) | {"graph", "meta"}
POSITIONAL, KEYWORD = 1, 2


def function_of(text: str) -> Callable[..., Any]:
    """The function that a target names; Damaged for any that a program may not call."""
    parts = text.split(".")
    if parts[0] == "_operator" and len(parts) == 2 and parts[1] in _OPERATORS:
        return getattr(operator, parts[1])
    if parts[0] == "math" and len(parts) == 2 and parts[1] in _MATH:
        return _MATH[parts[1]]
    if parts[0] == "torch" and len(parts) == 2 and parts[1] in _NUMBERS:
        return getattr(numbers, parts[1])
    if parts[:3] == ["torch", "ops", "higher_order"] and len(parts) == 4:
        try:
            return higher_order(parts[3])
        except AttributeError as error:
            raise Damaged(f"{short(text)}: {error}") from None
    if parts[:2] == ["torch", "ops"] and len(parts) == 5 and all(p.isidentifier() for p in parts):
        try:
            return target_of(parts[2], parts[3], parts[4])
        except AttributeError as error:
            raise Damaged(f"{short(text)}: {error}") from None
    raise Damaged(f"{short(text)} is nothing that an exported program calls")


def check_name(name: str, what: str) -> str:
    """A dotted name of a parameter, a buffer or a graph; Damaged for one that modules cannot have."""
    parts = name.split(".")
    is_valid = all(_PART.fullmatch(p) for p in parts)
    if (
        len(name) > MOST_LETTERS
        or not is_valid
        or parts[-1] in _TAKEN
        or any(p.startswith("__") for p in parts)
        or len(parts) > 64
    ):
        raise Damaged(f"{short(name)} is no name of a {what}")
    if any(p in _TAKEN for p in parts[:-1]):
        raise Damaged(f"{short(name)} is no name of a {what}: modules keep a part of it for themselves")
    return name


class GraphReader:
    """One graph of an archive, and those of its branches in it."""

    def __init__(self, data: Any, budget: list[int], depth: int = 0) -> None:
        require(depth < schema.MOST_DEPTH, "graphs lie in each other too deep")
        self.data, self.budget, self.depth = data, budget, depth
        self.graph = Graph()
        self.root: dict[str, Any] = {}
        self.nodes: dict[str, Node] = {}
        self.sizes: dict[str, Any] = {}  # texts that were read
        self.hints: dict[str, int] = {}  # symbols in the example
        self.metas = {
            **{name: ("tensor", v) for name, v in data["tensor_values"].items()},
            **{name: ("int", v) for name, v in data["sym_int_values"].items()},
            **{name: ("float", v) for name, v in (data.get("sym_float_values") or {}).items()},
            **{name: ("bool", v) for name, v in data["sym_bool_values"].items()},
        }

    def read(self, names: list[str] | None = None) -> GraphModule:
        """The module of the graph; `names` are those of inputs that are constants."""
        data = self.data
        for k, argument in enumerate(data["inputs"]):
            self._input(argument, names[k] if names is not None and k < len(names) else "")
        for node in data["nodes"]:
            try:
                self._node(node)
            except Damaged as error:
                where = node.get("name") or node["target"]
                raise Damaged(
                    f"node {short(where)}: {error}" if not str(error).startswith("node ") else str(error)
                ) from None
        outputs = tuple(self.value(a) for a in data["outputs"])
        single = bool(data.get("is_single_tensor_return"))
        require(not single or len(outputs) == 1, f"a graph of one result has {len(outputs)}")
        self.graph.output(outputs[0] if single else outputs)
        return _LazyGraphModule(self.root, self.graph, "GraphModule")

    # --- values ---
    def _input(self, argument: Any, constant: str) -> None:
        ((kind, value),) = argument.items()
        if kind == "as_tensor":
            self._placeholder(value["name"])
        elif kind in ("as_sym_int", "as_sym_float", "as_sym_bool") and "as_name" in value:
            self._placeholder(value["as_name"])
        elif kind in ("as_int", "as_float", "as_bool", "as_none", "as_string"):
            node = self.graph.create_node(
                "placeholder", _identifier(constant or "arg"), name=constant or "arg"
            )
            node.meta["val"] = self.value(argument)
            self.nodes.setdefault(constant, node)
        else:
            raise Damaged(f"an input of the kind {kind} is not taken")

    def _placeholder(self, name: str) -> None:
        self._enter(name, self.graph.create_node("placeholder", _identifier(name), name=name))

    def _enter(self, name: str, node: Node) -> None:
        """Let a node be the value of this name."""
        require(name not in self.nodes, f"two values have the name {short(name)}")
        self.nodes[name] = node
        node.meta["val"] = self.meta(name)

    def meta(self, name: str) -> Any:
        """The description of a value."""
        result = self.metas.get(name)
        if result is None:
            raise Damaged(f"there is no description of the value {short(name)}")
        kind, data = result
        if kind == "tensor":
            return self.tensor(name, data)
        if "as_expr" in data:
            size = self.size(data)
            if kind == "int":
                return size
            names = size.symbols() if hasattr(size, "symbols") else ()
            return UnparsedExpr(data["as_expr"]["expr_str"], tuple(sorted(names)), kind)
        ((_, value),) = data.items()
        return schema.number(value) if kind == "float" else value

    def tensor(self, name: str, data: Any) -> TensorValue:
        sizes = tuple(self.size(n) for n in data["sizes"])
        strides = tuple(self.size(n) for n in data["strides"])
        require(len(sizes) <= 64, f"{short(name)} has {len(sizes)} dimensions")
        require(
            len(strides) == len(sizes) or not strides,
            f"{short(name)} has {len(sizes)} sizes and {len(strides)} strides",
        )
        negative = [n for n in sizes if isinstance(n, int) and n < 0]
        require(not negative, f"{short(name)} has the size {negative[:1]}")
        return TensorValue(
            sizes,
            schema.DTYPES[data["dtype"]],
            strides,
            _device(data["device"]),
            data["requires_grad"],
            schema.LAYOUTS[data["layout"]],
            self.size(data["storage_offset"]),
        )

    def size(self, data: Any) -> Any:
        """A size: a number or an expression."""
        if "as_expr" not in data:
            ((_, value),) = data.items()
            return value
        text, hint = data["as_expr"]["expr_str"], data["as_expr"].get("hint") or {}
        if text not in self.sizes:
            result = self.sizes[text] = parsed(text)
            if str(result).isidentifier() and "as_int" in hint:
                self.hints[str(result)] = hint["as_int"]
        return self.sizes[text]

    def named(self, name: str) -> Node:
        """The node of a value that was computed before."""
        result = self.nodes.get(name)
        if result is None:
            raise Damaged(f"the value {short(name)} is read before it is computed")
        return result

    def value(self, argument: Any) -> Any:
        """An argument of a node."""
        ((kind, value),) = argument.items()
        if kind == "as_tensor":
            return self.named(value["name"])
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._number(value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self._number(v) for v in value]
        if kind == "as_tensors":
            return [self.named(v["name"]) for v in value]
        if kind == "as_nested_tensors":
            return [[self.named(v["name"]) for v in inner] for inner in value]
        if kind == "as_optional_tensors":
            return [self.named(v["as_tensor"]["name"]) if "as_tensor" in v else None for v in value]
        if kind == "as_optional_tensor":
            return self.named(value["as_tensor"]["name"]) if "as_tensor" in value else None
        if kind == "as_none":
            return None
        if kind == "as_scalar_type":
            return schema.DTYPES[value]
        if kind == "as_layout":
            return schema.LAYOUTS[value]
        if kind == "as_memory_format":
            return schema.FORMATS[value]
        if kind == "as_device":
            return _device(value)
        if kind == "as_float":
            return schema.number(value)
        if kind == "as_floats":
            return [schema.number(v) for v in value]
        if kind == "as_float_lists":
            return [[schema.number(v) for v in inner] for inner in value]
        if kind == "as_int_lists":
            return [tuple(inner) for inner in value]
        if kind == "as_complex":
            return complex(schema.number(value["real"]), schema.number(value["imag"]))
        if kind == "as_string_to_argument":
            return {key: self.value(v) for key, v in value.items()}
        if kind == "as_graph":
            return self._branch(value)
        if kind == "as_operator":
            return function_of(value)
        if kind == "as_custom_obj":
            raise Damaged(
                f"an object of the class {short(value['class_fqn'])}, which is compiled with PyTorch, is not here"
            )
        return list(value) if isinstance(value, list) else value

    def _number(self, value: Any) -> Any:
        ((kind, result),) = value.items()
        if kind == "as_name":
            return self.named(result)
        return schema.number(result) if kind == "as_float" else result

    def _branch(self, value: Any) -> Node:
        name = check_name(value["name"], "graph")
        require("." not in name, f"{short(name)} is no name of a graph")
        require(name not in self.root, f"two graphs have the name {short(name)}")
        reader = GraphReader(value["graph"], self.budget, self.depth + 1)
        self.root[name] = reader.read()
        return self.graph.create_node("get_attr", name, name=name)

    # --- nodes ---
    def _node(self, data: Any) -> None:
        self.budget[0] -= 1
        require(self.budget[0] >= 0, f"the graphs have more than {MOST_NODES} nodes")
        function = function_of(data["target"])
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        schema = getattr(function, "_schema", None)
        order = [a.name for a in schema.arguments] if schema is not None else []
        required = {a.name for a in schema.arguments if not a.kwarg_only} if schema is not None else set()
        for k, input in enumerate(data["inputs"]):
            name, kind = input["name"], input.get("kind")
            by_place = kind == POSITIONAL or (kind is None and (not name or name in required))
            at = not kwargs and by_place and (not order or (k < len(order) and order[k] == name))
            if at or schema is None and (not name or by_place):
                require(not kwargs, "an argument by position follows one by name")
                args.append(self.value(input["arg"]))
            else:
                require(
                    name.isidentifier() and not keyword.iskeyword(name) and name not in kwargs,
                    f"{short(name)} is no name of an argument",
                )
                kwargs[name] = self.value(input["arg"])
        if schema is not None:
            kwargs = self._by_schema(data["target"], schema, args, kwargs)
        node = self.graph.call_function(function, tuple(args), kwargs, name=self._node_name(data))
        node.meta.update(metadata(data["metadata"]))
        self._outputs(data, node)

    def _by_schema(self, target: str, schema: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments in the schema's order; Damaged where the call is none of the overload."""
        positions = {a.name: k for k, a in enumerate(schema.arguments)}
        for name in kwargs:
            if name not in positions or positions[name] < len(args):
                raise Damaged(f"{short(target)} has no argument {short(name)}")
        if len(args) > len(positions):
            raise Damaged(f"{short(target)} takes {len(positions)} arguments, got {len(args)}")
        for name, k in positions.items():
            if k >= len(args) and name not in kwargs and not schema.arguments[k].defaulted:
                raise Damaged(f"{short(target)} is called without {short(name)}")
        return {name: kwargs[name] for name in positions if name in kwargs}

    def _node_name(self, data: Any) -> str | None:
        if data.get("name"):
            return data["name"]
        outputs = data["outputs"]
        if len(outputs) == 1:
            ((_, value),) = outputs[0].items()
            if isinstance(value, dict):
                return value.get("name") or value.get("as_name")
        return None

    def _outputs(self, data: Any, node: Node) -> None:
        """Names for the results of a node: its own for one, an item of it for each of several."""
        outputs = data["outputs"]
        if not outputs:
            return
        higher = data["target"].startswith("torch.ops.higher_order.")
        alone = len(outputs) == 1 and not (higher and data.get("is_hop_single_tensor_return") is False)
        if alone:
            ((kind, value),) = outputs[0].items()
            if kind == "as_none":
                node.meta["val"] = None
                return
            if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"):
                self._enter(value.get("name", value.get("as_name", "")), node)
                return
            require(kind == "as_tensors", f"a result of the kind {kind} is not taken")
            node.meta["val"] = self._items(node, [{"as_tensor": v} for v in value])
            return
        node.meta["val"] = tuple(self._items(node, outputs))

    def _items(self, node: Node, outputs: list[Any]) -> list[Any]:
        result: list[Any] = []
        for k, output in enumerate(outputs):
            ((kind, value),) = output.items()
            if kind == "as_none":
                result.append(None)
                continue
            if kind == "as_tensors":
                inner = self.graph.call_function(operator.getitem, (node, k))
                inner.meta["val"] = self._items(inner, [{"as_tensor": v} for v in value])
                result.append(inner.meta["val"])
                continue
            name = value.get("name", value.get("as_name")) if isinstance(value, dict) else None
            require(isinstance(name, str), f"a result of the kind {kind} is not taken")
            item = self.graph.call_function(operator.getitem, (node, k), name=name)
            self._enter(str(name), item)
            item.meta |= {n: v for n, v in node.meta.items() if n != "val"}
            result.append(item.meta["val"])
        return result


def _identifier(name: str) -> str:
    require(
        name.isidentifier() and name.isascii() and not name.startswith("__"),
        f"{short(name)} is no name of an input",
    )
    return name


def _device(data: Any) -> Any:
    try:
        return Device(place(data))
    except RuntimeError as error:
        raise Damaged(str(error)[:200]) from None


# --- metadata ------------------------------
def metadata(data: dict[str, str]) -> dict[str, Any]:
    """`node.meta` of what an archive keeps of it."""
    result: dict[str, Any] = {}
    if data.get("stack_trace"):
        result["stack_trace"] = data["stack_trace"]
    if data.get("nn_module_stack"):
        stack = {}
        for item in data["nn_module_stack"].split(";"):
            parts = _split(item)
            if len(parts) == 3:
                stack[parts[0]] = (parts[1], parts[2])
        result["nn_module_stack"] = stack
    if data.get("torch_fn"):
        result["torch_fn"] = tuple(data["torch_fn"].split(";"))
    archived = {k: v for k, v in data.items() if k in ("source_fn_stack", "custom", "from_node")}
    if archived:  # written again as it was read
        result["archived"] = archived
    return result


def _split(item: str) -> list[str]:
    """A text at its commas outside of brackets."""
    parts, start, depth = [], 0, 0
    for k, c in enumerate(item):
        depth += (c in "[(") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(item[start:k])
            start = k + 1
    return [*parts, item[start:]]
