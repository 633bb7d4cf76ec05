"""A written graph as a model of ONNX: what nobody reads left out, equal constants and nodes made one, names, and the file's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._writer import DATA_TYPES, Node, Value
from .errors import UnsupportedOperatorError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
)
# Versions of the file's form, by the first version of the operators that came with them.
_FILE_VERSIONS = ((25, 12), (24, 11), (23, 11), (21, 10), (19, 9), (0, 8))


class Model:
    """Nodes over named values; `inputs` and `outputs` have sizes, which are numbers or names; `weights` are kept under their names."""

    def __init__(
        self,
        nodes: list[Node],
        constants: dict[str, np.ndarray],
        dtypes: dict[str, str],
        inputs: list[tuple[Value, list[Any]]],
        outputs: list[tuple[Value, list[Any]]],
        weights: Sequence[str],
        shapes: dict[str, tuple[int, ...]],
    ) -> None:
        self.nodes, self.constants, self.dtypes, self.shapes = nodes, constants, dtypes, shapes
        self.inputs, self.outputs, self.weights = inputs, outputs, frozenset(weights)
        self.domains: dict[str, int] = {}  # versions of operators' domains, where they are not 1

    def simplify(self) -> None:
        """Leave out what nobody reads, and make one of what is equal."""
        self.drop_dead()
        self.check_defined()
        self.merge_equal()
        self.drop_dead()

    def own_constants(self) -> None:
        """Copy what lies in the memory of tensors, which may be written to."""
        self.constants = {name: np.array(array) for name, array in self.constants.items()}

    def check_defined(self) -> None:
        """UnsupportedOperatorError where a node reads a result that the form of its operation leaves out."""
        defined = {v.name for v, _ in self.inputs} | set(self.constants) | {""}
        defined.update(n for node in self.nodes for n in node.outputs)
        for node in self.nodes:
            if not defined.issuperset(node.reads()):
                raise UnsupportedOperatorError(
                    f"onnx.export(): {node.kind} reads a result that is not written in ONNX: what only backward passes or a sum over "
                    "a grid read"
                )

    def drop_dead(self) -> None:
        read = {v.name for v, _ in self.outputs}
        living = []
        for node in reversed(self.nodes):
            if read.intersection(node.outputs):
                while len(node.outputs) > _fewest(node.kind) and node.outputs[-1] not in read:
                    node.outputs.pop()
                living.append(node)
                read.update(node.reads())
        self.nodes = living[::-1]
        self.constants = {k: v for k, v in self.constants.items() if k in read}

    def merge_equal(self) -> None:
        """Equal constants become one, then nodes that do the same."""
        renamed: dict[str, str] = {}
        seen: dict[Any, str] = {}
        for name, array in self.constants.items():
            if name in self.weights:
                continue
            key: Any = self.dtypes[name], array.shape, array.tobytes()
            renamed[name] = seen.setdefault(key, name)
        distinct = []
        done: dict[Any, list[str]] = {}
        for node in self.nodes:
            node.rename(renamed)
            key = node.spelled()
            if not draws(node) and key in done:
                renamed.update(zip(node.outputs, done[key]))
                continue
            done[key] = node.outputs
            distinct.append(node)
        self.nodes = distinct
        self.outputs = [(self._renamed(v, renamed), sizes) for v, sizes in self.outputs]

    @staticmethod
    def _renamed(value: Value, renamed: dict[str, str]) -> Value:
        return Value(renamed.get(value.name, value.name), value.dtype, value.shape)

    def prefix_values(self, prefix: str, names: set[str]) -> None:
        """Rename values within the graph that have names which are wanted."""
        renamed = {n: prefix + n for n in names if n not in self.weights}
        for node in self.nodes:
            node.rename(renamed)
            node.outputs = [renamed.get(n, n) for n in node.outputs]
        for old, new in renamed.items():
            if old in self.constants:
                self.constants[new], self.dtypes[new] = self.constants.pop(old), self.dtypes[old]
        self.outputs = [(self._renamed(v, renamed), sizes) for v, sizes in self.outputs]

    def name_outputs(self, names: Sequence[str]) -> None:
        """Give the results their names: those of the nodes that make them, or of copies, where a value has a name already."""
        taken = {v.name for v, _ in self.inputs} | set(self.constants)
        makers = {n: node for node in self.nodes for n in node.outputs}
        renamed: dict[str, str] = {}
        outputs = []
        for (value, sizes), name in zip(self.outputs, names, strict=True):
            if value.name in taken or value.name in renamed:
                source = renamed.get(value.name, value.name)
                self.nodes.append(Node("Identity", [source], [name], {}))
            else:
                renamed[value.name] = name
                makers[value.name].outputs = [
                    name if n == value.name else n for n in makers[value.name].outputs
                ]
            self.dtypes[name] = value.dtype
            outputs.append((Value(name, value.dtype, value.shape), sizes))
        for node in self.nodes:
            node.rename(renamed)
        self.outputs = outputs

    def proto(self, opset: int, *, initializers: bool = True, as_inputs: bool = False) -> ModelProto:
        """The model in the form of files; `initializers`: with its constants, `as_inputs`: named among the inputs, too."""
        from onnx import helper

        weights = [name for name in self.constants if name in self.weights]
        inputs = [_info(v, sizes) for v, sizes in self.inputs]
        if as_inputs:
            inputs += [_info(Value(n, self.dtypes[n]), self.constants[n].shape) for n in weights]
        held = [
            _tensor(name, self.dtypes[name], array)
            for name, array in self.constants.items()
            if initializers or name not in self.weights
        ]
        nodes = [_node(n, f"{n.kind}_{k}") for k, n in enumerate(self.nodes)]
        graph = helper.make_graph(nodes, "main_graph", inputs, [_info(v, s) for v, s in self.outputs], held)
        domains = sorted({n.kind.partition("::")[0] for n in self.nodes if "::" in n.kind})
        imports = [
            helper.make_opsetid("", opset),
            *(helper.make_opsetid(d, self.domains.get(d, 1)) for d in domains),
        ]
        model = helper.make_model(graph, producer_name="flambeau", opset_imports=imports)
        model.ir_version = next(version for first, version in _FILE_VERSIONS if opset >= first)
        return model

    def bytes_of_weights(self) -> int:
        return sum(a.nbytes for a in self.constants.values())


def draws(node: Node) -> bool:
    """Whether it, or a node in one of its graphs, draws random numbers."""
    return node.kind in RANDOM or any(draws(n) for body in node.bodies.values() for n in body.nodes)


def _fewest(kind: str) -> int:
    """How many results an operator has at least: those that may be left out are, at the end."""
    from onnx import defs

    if "::" in kind:
        return 1 << 30
    schema = defs.get_schema(kind)
    variadic = schema.outputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic
    return 1 << 30 if variadic else max(schema.min_output, 1)


def _node(node: Node, name: str) -> NodeProto:
    from onnx import helper

    attributes = dict(node.attributes)
    for attribute, body in node.bodies.items():
        inner = [_node(n, f"{name}_{n.kind}_{k}") for k, n in enumerate(body.nodes)]
        inputs = [_info(v, v.shape) for v in body.inputs]
        made = [_info(v, v.shape) for v in body.outputs]
        attributes[attribute] = helper.make_graph(inner, f"{name}_{attribute}", inputs, made)
    domain, _, kind = node.kind.rpartition("::")
    return helper.make_node(kind, node.inputs, node.outputs, name=name, domain=domain, **attributes)


def _info(value: Value, sizes: Sequence[Any] | None) -> ValueInfoProto:
    from onnx import helper

    return helper.make_tensor_value_info(
        value.name, DATA_TYPES[value.dtype], None if sizes is None else list(sizes)
    )


def _tensor(name: str, dtype: str, array: np.ndarray) -> TensorProto:
    from onnx import TensorProto

    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    if contiguous.dtype.byteorder == ">":
        contiguous = contiguous.astype(contiguous.dtype.newbyteorder("<"))
    return TensorProto(
        name=name, data_type=DATA_TYPES[dtype], dims=array.shape, raw_data=contiguous.tobytes()
    )
