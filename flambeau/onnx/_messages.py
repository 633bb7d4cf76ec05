"""The messages that a file of ONNX is made of (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), as far as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._wire import field, parsed


@dataclass(slots=True)
class Entry:
    """A key and its value, both text."""

    key: str = field(1, "str")
    value: str = field(2, "str")


@dataclass(slots=True)
class TensorMessage:
    dims: list[int] = field(1, "int", repeated=True)
    data_type: int = field(2, "int")
    float_data: list[float] = field(4, "float", repeated=True)
    int32_data: list[int] = field(5, "int", repeated=True)
    string_data: list[memoryview] = field(6, "bytes", repeated=True)
    int64_data: list[int] = field(7, "int", repeated=True)
    name: str = field(8, "str")
    raw_data: memoryview | None = field(9, "bytes")
    double_data: list[float] = field(10, "double", repeated=True)
    uint64_data: list[int] = field(11, "int", repeated=True)
    external_data: list[Entry] = field(13, lambda: Entry, repeated=True)
    data_location: int = field(14, "int")


@dataclass(slots=True)
class SparseMessage:
    values: TensorMessage | None = field(1, lambda: TensorMessage)
    indices: TensorMessage | None = field(2, lambda: TensorMessage)
    dims: list[int] = field(3, "int", repeated=True)


@dataclass(slots=True)
class DimensionMessage:
    dim_value: int = field(1, "int")
    dim_param: str = field(2, "str")


@dataclass(slots=True)
class ShapeMessage:
    dim: list[DimensionMessage] = field(1, lambda: DimensionMessage, repeated=True)


@dataclass(slots=True)
class TensorTypeMessage:
    elem_type: int = field(1, "int")
    shape: ShapeMessage | None = field(2, lambda: ShapeMessage)


@dataclass(slots=True)
class InnerTypeMessage:
    elem_type: TypeMessage | None = field(1, lambda: TypeMessage)


@dataclass(slots=True)
class TypeMessage:
    tensor_type: TensorTypeMessage | None = field(1, lambda: TensorTypeMessage)
    sequence_type: InnerTypeMessage | None = field(4, lambda: InnerTypeMessage)
    optional_type: InnerTypeMessage | None = field(9, lambda: InnerTypeMessage)


@dataclass(slots=True)
class ValueMessage:
    name: str = field(1, "str")
    type: TypeMessage | None = field(2, lambda: TypeMessage)


@dataclass(slots=True)
class AttributeMessage:
    name: str = field(1, "str")
    f: float = field(2, "float")
    i: int = field(3, "int")
    s: memoryview = field(4, "bytes")
    t: TensorMessage | None = field(5, lambda: TensorMessage)
    g: GraphMessage | None = field(6, lambda: GraphMessage)
    floats: list[float] = field(7, "float", repeated=True)
    ints: list[int] = field(8, "int", repeated=True)
    strings: list[memoryview] = field(9, "bytes", repeated=True)
    tp: TypeMessage | None = field(14, lambda: TypeMessage)
    type: int = field(20, "int")
    ref_attr_name: str = field(21, "str")
    sparse_tensor: SparseMessage | None = field(22, lambda: SparseMessage)


@dataclass(slots=True)
class NodeMessage:
    input: list[str] = field(1, "str", repeated=True)
    output: list[str] = field(2, "str", repeated=True)
    name: str = field(3, "str")
    op_type: str = field(4, "str")
    attribute: list[AttributeMessage] = field(5, lambda: AttributeMessage, repeated=True)
    domain: str = field(7, "str")
    overload: str = field(8, "str")


@dataclass(slots=True)
class GraphMessage:
    node: list[NodeMessage] = field(1, lambda: NodeMessage, repeated=True)
    name: str = field(2, "str")
    initializer: list[TensorMessage] = field(5, lambda: TensorMessage, repeated=True)
    input: list[ValueMessage] = field(11, lambda: ValueMessage, repeated=True)
    output: list[ValueMessage] = field(12, lambda: ValueMessage, repeated=True)
    sparse_initializer: list[SparseMessage] = field(15, lambda: SparseMessage, repeated=True)


@dataclass(slots=True)
class OpsetMessage:
    domain: str = field(1, "str")
    version: int = field(2, "int")


@dataclass(slots=True)
class FunctionMessage:
    name: str = field(1, "str")
    input: list[str] = field(4, "str", repeated=True)
    output: list[str] = field(5, "str", repeated=True)
    attribute: list[str] = field(6, "str", repeated=True)
    node: list[NodeMessage] = field(7, lambda: NodeMessage, repeated=True)
    opset_import: list[OpsetMessage] = field(9, lambda: OpsetMessage, repeated=True)
    domain: str = field(10, "str")
    attribute_proto: list[AttributeMessage] = field(11, lambda: AttributeMessage, repeated=True)
    overload: str = field(13, "str")


@dataclass(slots=True)
class ModelMessage:
    ir_version: int = field(1, "int")
    graph: GraphMessage | None = field(7, lambda: GraphMessage)
    opset_import: list[OpsetMessage] = field(8, lambda: OpsetMessage, repeated=True)
    functions: list[FunctionMessage] = field(25, lambda: FunctionMessage, repeated=True)


def model_of(data: Any) -> ModelMessage:
    """The model that the bytes of a file hold; OnnxFormatError where they are no messages of ONNX."""
    return parsed(ModelMessage, memoryview(data).cast("B"))
