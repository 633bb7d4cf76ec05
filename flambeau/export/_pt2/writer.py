"""Graphs of fx as archives have them: calls of ATen's overloads with their arguments by the schemas' names."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..._symbols import numbers
from ..._symbols.expressions import Expr
from ...core.base.dtypes import device as Device
from ...core.call.operation import Op, behind
from ...core.make.create import empty
from ...fx.graph_module import GraphModule
from ...fx.node import Node, map_arg
from ...library._higher_order import HigherOrder, higher_order
from ...library._written import written as written_call
from .._values import is_tensor
from . import payload, schema
from .reader import KEYWORD, POSITIONAL
from .texts import UnparsedExpr, expression, written

_LISTS = {int: "as_ints", bool: "as_bools", float: "as_floats", str: "as_strings"}
_WHILE = higher_order("while_loop")
_NUMBERS = {id(getattr(numbers, name)): name for name in numbers.__all__}
# what Python's operators are called in expressions of sizes
NUMBER_FUNCTIONS: dict[Any, str] = {
    operator.eq: "Equality",
    operator.ne: "Unequality",
    operator.lt: "StrictLessThan",
    operator.le: "LessThan",
    operator.gt: "StrictGreaterThan",
    operator.ge: "GreaterThan",
    operator.and_: "And",
    operator.or_: "Or",
    numbers.sym_not: "Not",
    operator.truediv: "IntTrueDiv",
    numbers.sym_float: "ToFloat",
    operator.add: "Add",
    operator.mul: "Mul",
}
_EMPTY = {
    "Tensor": "as_tensors",
    "int": "as_ints",
    "SymInt": "as_ints",
    "float": "as_floats",
    "bool": "as_bools",
    "str": "as_strings",
}


class SerializeError(RuntimeError):
    """A program that archives cannot hold, and which node it is."""


class Call(NamedTuple):
    """A call as an archive has it."""

    target: str
    inputs: list[tuple[str, Any, str, bool]]  # name, value, type in the schema, whether by name
    schema: Any = None
    item: int | None = None  # which of several results is the node's


class GraphWriter:
    """One graph, and those of branches in it."""

    def __init__(self, module: GraphModule, hints: Mapping[str, int], single: bool = False) -> None:
        self.module, self.hints, self.single = module, hints, single
        self.data: dict[str, Any] = {
            "inputs": [],
            "outputs": [],
            "nodes": [],
            "tensor_values": {},
            "sym_int_values": {},
            "sym_bool_values": {},
            "is_single_tensor_return": False,
            "custom_obj_values": {},
            "sym_float_values": {},
        }
        self.items: dict[
            Node, dict[Any, str]
        ] = {}  # of nodes with several results: the names of those that are read
        self.same: dict[Node, str] = {}

    def write(self) -> dict[str, Any]:
        """The graph as the schema has it."""
        for node in self.module.graph.nodes:
            source = node.args[0] if node.target is operator.getitem else None
            if isinstance(source, Node) and not is_tensor(source.meta.get("val")):
                names = self.items.setdefault(source, {})
                self.same[node] = names.setdefault(node.args[1], node.name)
        for node in self.module.graph.nodes:
            try:
                self._node(node)
            except SerializeError as error:
                raise SerializeError(f"{node.name}: {error}") from None
        return self.data

    def _node(self, node: Node) -> None:
        if node.op == "placeholder":
            self.data["inputs"].append(self._input(node))
        elif node.op == "output":
            self._output(node.args[0])
        elif node.op == "call_function":
            if node not in self.same:
                self._call(node)
        elif node.op != "get_attr":
            raise SerializeError(f"an exported graph has no {node.op}")

    def _input(self, node: Node) -> dict[str, Any]:
        value = node.meta.get("val")
        if is_tensor(value) or isinstance(expression(value), (Expr, UnparsedExpr)):
            return self.result(node.name, value)
        return self.argument(value)

    def _output(self, value: Any) -> None:
        if isinstance(value, Node) or (self.single and len(value) == 1):
            self.data["is_single_tensor_return"] = True
            value = (value,) if isinstance(value, Node) else value
        self.data["outputs"] = [self.argument(v) for v in value]

    # --- values ---
    def size(self, value: Any) -> dict[str, Any]:
        """A size as the schema has it."""
        result = expression(value)
        if not isinstance(result, (Expr, UnparsedExpr)):
            return {"as_int": int(result)}
        hint = None
        if isinstance(result, Expr) and all(name in self.hints for name in result.symbols()):
            hint = {"as_int": int(result.value(self.hints))}
        return {"as_expr": {"expr_str": written(result), "hint": hint}}

    def result(self, name: str, value: Any) -> dict[str, Any]:
        """Enter what is known of a value under its name; the argument that names it."""
        value = expression(value)
        if value is None:
            return {"as_none": True}
        if is_tensor(value):
            self.data["tensor_values"][name] = payload.tensor_meta(value, self.size)
            return {"as_tensor": {"name": name}}
        kind = (
            value.kind
            if isinstance(value, UnparsedExpr)
            else "int"
            if isinstance(value, Expr)
            else type(value).__name__
        )
        if kind not in ("int", "float", "bool"):
            raise SerializeError(f"a result of the class {kind} is written nowhere")
        if isinstance(value, (Expr, UnparsedExpr)):
            data = self.size(value)
        else:
            data = {f"as_{kind}": schema.shown(value) if kind == "float" else value}
        self.data[f"sym_{kind}_values"][name] = data
        return {f"as_sym_{kind}": {"as_name": name}}

    def argument(self, value: Any, kind: str = "") -> dict[str, Any]:
        """An argument as the schema has it; `kind` is its type in the operation's schema."""
        if isinstance(value, Node):
            return self._read(value)
        if value is None:
            return {"as_none": True}
        if isinstance(value, (list, tuple)):
            return self._list(list(value), kind)
        if isinstance(value, dict):
            return {"as_string_to_argument": {str(k): self.argument(v) for k, v in value.items()}}
        if isinstance(value, float):
            return {"as_float": schema.shown(value)}
        if isinstance(value, complex):
            return {"as_complex": {"real": schema.shown(value.real), "imag": schema.shown(value.imag)}}
        if isinstance(value, Device):
            return {"as_device": {"type": value.type, "index": value.index}}
        for cls, name in ((bool, "as_bool"), (int, "as_int"), (str, "as_string")):
            if isinstance(value, cls):
                return {name: value}
        for name, table in (
            ("as_scalar_type", schema.DTYPES),
            ("as_layout", schema.LAYOUTS),
            ("as_memory_format", schema.FORMATS),
        ):
            if value in table.values():
                return {name: schema.CODES[value]}
        raise SerializeError(f"an argument of the class {type(value).__name__} is written nowhere")

    def _read(self, node: Node) -> dict[str, Any]:
        name = self.same.get(node, node.name)
        if node.op == "get_attr":
            branch = getattr(self.module, str(node.target), None)
            if not isinstance(branch, GraphModule):
                raise SerializeError(f"the attribute {node.target} is the graph of no branch")
            # PyTorch's loops ask a condition for one value
            single = any(n.target is _WHILE and n.args[0] is node for n in node.users)
            graph = GraphWriter(branch, self.hints, single).write()
            return {"as_graph": {"name": str(node.target), "graph": graph}}
        for kind in ("int", "float", "bool"):
            if name in self.data[f"sym_{kind}_values"]:
                return {f"as_sym_{kind}": {"as_name": name}}
        return {"as_tensor": {"name": name}}

    def _list(self, values: list[Any], kind: str) -> dict[str, Any]:
        if not values:
            return {_EMPTY.get(kind.rstrip("?").split("[")[0].rstrip("?"), "as_tensors"): []}
        kinds = {type(v) for v in values}
        if len(kinds) == 1 and (name := _LISTS.get(kinds.pop())) is not None:
            return {name: [schema.shown(v) for v in values] if name == "as_floats" else values}
        data = [self.argument(v) for v in values]
        names = {next(iter(t)) for t in data}
        if names == {"as_tensor"}:
            return {"as_tensors": [t["as_tensor"] for t in data]}
        if names <= {"as_tensor", "as_none"}:
            return {"as_optional_tensors": data}
        for number in ("int", "float", "bool"):
            if names <= {f"as_sym_{number}", f"as_{number}"}:
                return {
                    f"as_sym_{number}s": [
                        t.get(f"as_sym_{number}", t if f"as_{number}" in t else None) for t in data
                    ]
                }
        if names == {"as_tensors"}:
            return {"as_nested_tensors": [t["as_tensors"] for t in data]}
        if names == {"as_ints"}:
            return {"as_int_lists": [t["as_ints"] for t in data]}
        if names == {"as_floats"}:
            return {"as_float_lists": [t["as_floats"] for t in data]}
        raise SerializeError(f"a list of {', '.join(sorted(names))} is written nowhere")

    # --- nodes ---
    def _call(self, node: Node) -> None:
        call = self.called(node)
        inputs = [
            {"name": name, "arg": self.argument(value, kind), "kind": KEYWORD if by_name else POSITIONAL}
            for name, value, kind, by_name in call.inputs
        ]
        data: dict[str, Any] = {
            "target": call.target,
            "inputs": inputs,
            "outputs": self._outputs(node, call),
            "metadata": metadata(node),
            "is_hop_single_tensor_return": None,
            "name": node.name,
        }
        if call.target.startswith("torch.ops.higher_order."):
            data["is_hop_single_tensor_return"] = is_tensor(node.meta.get("val"))
        self.data["nodes"].append(data)

    def called(self, node: Node) -> Call:
        """The call of a node, whatever function stands there."""
        function: Any = node.target
        if isinstance(function, Op) and not hasattr(function, "code_path"):
            return self._of_own(node, function)
        if (overload := getattr(function, "_schema", None)) is not None:
            return self._of_schema(function, overload, node)
        if isinstance(function, HigherOrder):
            args = [("", a, "", False) for a in node.args]
            named = [(k, v, "", True) for k, v in node.kwargs.items()]
            return Call(f"torch.ops.higher_order.{function.name()}", [*args, *named])
        module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
        if module in ("_operator", "math"):
            target = f"{module}.{name}"
        elif id(function) in _NUMBERS:
            target = f"torch.{_NUMBERS[id(function)]}"
        elif function is round:
            target = "_operator.round"
        else:
            raise SerializeError(f"{function!r:.80} is no operation that archives know")
        names = ("a", "b", "c")
        return Call(target, [(n, a, "", False) for n, a in zip(names, node.args)])

    def _of_schema(self, function: Any, overload: Any, node: Node) -> Call:
        inputs = []
        for k, argument in enumerate(overload.arguments):
            kind = str(argument.type)
            if k < len(node.args):
                inputs.append((argument.name, node.args[k], kind, False))
            elif argument.name in node.kwargs:
                inputs.append((argument.name, node.kwargs[argument.name], kind, True))
        namespace, _, name = overload.name.partition("::")
        return Call(f"torch.ops.{namespace}.{name}.{overload.overload_name or 'default'}", inputs, overload)

    def _of_own(self, node: Node, op: Op) -> Call:
        """A call of one of this library's operations, as a call of ATen's."""
        stands: dict[int, Any] = {}
        args = map_arg(node.args, lambda n: _stand_in(n, stands))
        kwargs = map_arg(node.kwargs, lambda n: _stand_in(n, stands))
        result = written_call(behind(op), args, kwargs)
        if result is None:
            raise SerializeError(
                f"{op.__name__} with these arguments is no call of ATen; run_decompositions takes it apart"
            )
        overload = result.overload
        inputs = []
        for k, (name, value) in enumerate(result.values):
            argument = overload.arguments[overload.names[name] if name else k]
            inputs.append((argument.name, _back(value, stands), str(argument.type), bool(name)))
        data = overload.schema
        target = f"torch.ops.aten.{data.name.removeprefix('aten::')}.{data.overload_name or 'default'}"
        return Call(target, inputs, data, result.item)

    def meta_of(self, value: Any) -> Any:
        """A number as an expression: the one that was recorded, or that of the node which computes it."""
        if not isinstance(value, Node):
            return value
        result = expression(value.meta.get("val"))
        if not hasattr(result, "kind") or isinstance(result, UnparsedExpr):
            return result
        name = NUMBER_FUNCTIONS.get(value.target)
        operands = [self.meta_of(a) for a in value.args]
        if name is None or any(is_tensor(a) for a in operands):  # a symbol of its own, as PyTorch names it
            prefix, kind = ("zuf", "real") if result.kind == "float" else ("u", "integer")
            return UnparsedExpr(f"Symbol('{prefix}{value._place}', {kind}=True)", (), result.kind)
        return UnparsedExpr(f"{name}({', '.join(map(written, operands))})", (), result.kind)

    def _outputs(self, node: Node, call: Call) -> list[dict[str, Any]]:
        value = node.meta.get("val")
        if hasattr(value, "kind"):
            value = self.meta_of(node)
        if call.schema is not None and not call.schema.returns:
            return []
        if call.item is not None:
            return [
                self.result(node.name if k == call.item else f"{node.name}_unused_{k}", value)
                for k in range(len(call.schema.returns))
            ]
        if value is None and node in self.items and (count := self._count(node, call)) is not None:
            value = self._of_items(node, count)
        if not isinstance(value, (tuple, list)):
            if value is None and node.users:
                raise SerializeError("nothing is known of its result (meta['val'])")
            return [self.result(node.name, value)]
        names = self.items.get(node, {})
        if call.schema is not None and len(call.schema.returns) == 1:
            return [{"as_tensors": [self._item(node, names, k, v)["as_tensor"] for k, v in enumerate(value)]}]
        return [self._item(node, names, k, v) for k, v in enumerate(value)]

    def _count(self, node: Node, call: Call) -> int | None:
        """How many results a call has, by its schema or by the graph that it calls; None for one."""
        if call.schema is not None:
            return len(call.schema.returns) if len(call.schema.returns) > 1 else None
        graphs = [getattr(self.module, str(n.target)) for n in node._input_nodes if n.op == "get_attr"]
        results = graphs[-1].graph.output_node().args[0] if graphs else None
        return len(results) if isinstance(results, (tuple, list)) else None

    def _of_items(self, node: Node, count: int) -> tuple[Any, ...]:
        """What is known of several results by those that are read: others, which nothing reads, get the same."""
        items = {user.args[1]: user.meta.get("val") for user in node.users if user.target is operator.getitem}
        return tuple(items.get(k, next(iter(items.values()))) for k in range(count))

    def _item(self, node: Node, names: dict[Any, str], k: int, value: Any) -> dict[str, Any]:
        name = names.get(k, f"{node.name}_unused_{k}")
        if isinstance(value, (tuple, list)):
            user = next((u for u in node.users if u.name == name), None)
            inner = self.items.get(user, {}) if user is not None else {}
            data = [self.result(inner.get(i, f"{name}_unused_{i}"), v) for i, v in enumerate(value)]
            return {"as_tensors": [t["as_tensor"] for t in data]}
        return self.result(name, value)


def _stand_in(node: Node, stands: dict[int, Any]) -> Any:
    """A tensor without data, or what stands for a number, in the place of a node."""
    value = expression(node.meta.get("val"))
    if is_tensor(value):
        made: Any = empty(
            [n if isinstance(n, int) else 2 for n in value.shape], dtype=value.dtype, device="meta"
        )
    else:
        made = _Number()
        made.value = value
    stands[id(made)] = made, node
    return made


class _Number:
    """What stands for an integer."""

    stands_for = int
    value: Any = None


def _back(value: Any, stands: dict[int, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_back(v, stands) for v in value]
    return stands[id(value)][1] if id(value) in stands else value


# --- metadata ------------------------------
def metadata(node: Node) -> dict[str, str]:
    """What an archive keeps of `node.meta`."""
    result: dict[str, str] = {}
    if node.meta.get("stack_trace"):
        result["stack_trace"] = str(node.meta["stack_trace"])
    if node.meta.get("nn_module_stack"):
        items = node.meta["nn_module_stack"].items()
        result["nn_module_stack"] = ";".join(f"{k},{path},{_class(kind)}" for k, (path, kind) in items)
    if node.meta.get("torch_fn"):
        result["torch_fn"] = ";".join(map(str, node.meta["torch_fn"]))
    result.update(node.meta.get("archived", {}))
    if node.meta.get("custom") and "custom" not in result:
        result["custom"] = json.dumps(node.meta["custom"])
    return result


def _class(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
