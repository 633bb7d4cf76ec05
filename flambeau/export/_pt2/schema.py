"""The structures of a program in an archive, version 8 of PyTorch's schema, and the check that JSON has one of them.

A structure is its fields with their types; in a union exactly one field is there.  What the check has passed is read without looking again.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ..._files.errors import Damaged, short
from ...core.base import formats
from ...core.base.dtypes import by_name

VERSION = (8, 20)
TREES = 1  # the version of structures of arguments
MOST_BYTES = 1 << 28  # of a program's JSON
MOST_DEPTH = 64  # of graphs in graphs, and of arguments in arguments

# The schema's numbers of dtypes, layouts and memory formats.
_DTYPES = "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool bfloat16".split()
_LATER = (
    "uint16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu uint32 uint64".split()
)
_NAMES = {**dict(enumerate(_DTYPES, 1)), **dict(enumerate(_LATER, 28))}
DTYPES = {code: by_name[name] for code, name in _NAMES.items() if name in by_name}
LAYOUTS = {1: formats.sparse_coo, 2: formats.sparse_csr, 7: formats.strided}
FORMATS = {
    1: formats.contiguous_format,
    2: formats.channels_last,
    3: formats.channels_last_3d,
    4: formats.preserve_format,
}
CODES = {value: code for table in (DTYPES, LAYOUTS, FORMATS) for code, value in table.items()}

# Types: "int", "number" …; "[x]" a list of x, "{x}" a dictionary of text to x, "x?" also null or left out; else a structure.
STRUCTURES: dict[str, dict[str, str]] = {
    "ExportedProgram": {
        "graph_module": "GraphModule",
        "opset_version": "{int}",
        "range_constraints": "{RangeConstraint}",
        "schema_version": "SchemaVersion",
        "verifiers": "[text]?",
        "torch_version": "text?",
        "guards_code": "[text]?",
    },
    "SchemaVersion": {"major": "int", "minor": "int"},
    "RangeConstraint": {"min_val": "int?", "max_val": "int?"},
    "GraphModule": {
        "graph": "Graph",
        "signature": "GraphSignature",
        "module_call_graph": "[ModuleCallEntry]",
        "metadata": "{text}?",
        "treespec_namedtuple_fields": "{NamedTupleDef}?",
    },
    "NamedTupleDef": {"field_names": "[text]"},
    "Graph": {
        "inputs": "[Argument]",
        "outputs": "[Argument]",
        "nodes": "[Node]",
        "tensor_values": "{TensorMeta}",
        "sym_int_values": "{SymInt}",
        "sym_bool_values": "{SymBool}",
        "is_single_tensor_return": "bool?",
        "custom_obj_values": "{CustomObjArgument}?",
        "sym_float_values": "{SymFloat}?",
    },
    "Node": {
        "target": "text",
        "inputs": "[NamedArgument]",
        "outputs": "[Argument]",
        "metadata": "{text}",
        "is_hop_single_tensor_return": "bool?",
        "name": "text?",
    },
    "NamedArgument": {"name": "text", "arg": "Argument", "kind": "int?"},
    "TensorMeta": {
        "dtype": "dtype",
        "sizes": "[SymInt]",
        "requires_grad": "bool",
        "device": "Device",
        "strides": "[SymInt]",
        "storage_offset": "SymInt",
        "layout": "layout",
    },
    "Device": {"type": "text", "index": "int?"},
    "SymExpr": {"expr_str": "text", "hint": "SymExprHint?"},
    "TensorArgument": {"name": "text"},
    "TokenArgument": {"name": "text"},
    "GraphArgument": {"name": "text", "graph": "Graph"},
    "CustomObjArgument": {"name": "text", "class_fqn": "text"},
    "ComplexValue": {"real": "number", "imag": "number"},
    "GraphSignature": {"input_specs": "[InputSpec]", "output_specs": "[OutputSpec]"},
    "UserInputSpec": {"arg": "Argument"},
    "InputToConstantInputSpec": {"name": "text", "value": "ConstantValue"},
    "InputToParameterSpec": {"arg": "TensorArgument", "parameter_name": "text"},
    "InputToBufferSpec": {"arg": "TensorArgument", "buffer_name": "text", "persistent": "bool"},
    "InputToTensorConstantSpec": {"arg": "TensorArgument", "tensor_constant_name": "text"},
    "InputToCustomObjSpec": {"arg": "CustomObjArgument", "custom_obj_name": "text"},
    "InputTokenSpec": {"arg": "TokenArgument"},
    "UserOutputSpec": {"arg": "Argument"},
    "LossOutputSpec": {"arg": "TensorArgument"},
    "BufferMutationSpec": {"arg": "TensorArgument", "buffer_name": "text"},
    "ParameterMutationSpec": {"arg": "TensorArgument", "parameter_name": "text"},
    "GradientToParameterSpec": {"arg": "TensorArgument", "parameter_name": "text"},
    "GradientToUserInputSpec": {"arg": "TensorArgument", "user_input_name": "text"},
    "UserInputMutationSpec": {"arg": "TensorArgument", "user_input_name": "text"},
    "OutputTokenSpec": {"arg": "TokenArgument"},
    "ModuleCallEntry": {"fqn": "text", "signature": "ModuleCallSignature?"},
    "ModuleCallSignature": {
        "inputs": "[Argument]",
        "outputs": "[Argument]",
        "in_spec": "text",
        "out_spec": "text",
        "forward_arg_names": "[text]?",
    },
    "PayloadConfig": {"config": "{PayloadMeta}"},
    "PayloadMeta": {
        "path_name": "text",
        "is_param": "bool",
        "use_pickle": "bool",
        "tensor_meta": "TensorMeta?",
    },
}
UNIONS: dict[str, dict[str, str]] = {
    "SymExprHint": {"as_int": "int", "as_bool": "bool", "as_float": "number"},
    "SymInt": {"as_expr": "SymExpr", "as_int": "int"},
    "SymFloat": {"as_expr": "SymExpr", "as_float": "number"},
    "SymBool": {"as_expr": "SymExpr", "as_bool": "bool"},
    "SymIntArgument": {"as_name": "text", "as_int": "int"},
    "SymFloatArgument": {"as_name": "text", "as_float": "number"},
    "SymBoolArgument": {"as_name": "text", "as_bool": "bool"},
    "OptionalTensorArgument": {"as_tensor": "TensorArgument", "as_none": "bool"},
    "ConstantValue": {
        "as_none": "bool",
        "as_int": "int",
        "as_float": "number",
        "as_string": "text",
        "as_bool": "bool",
    },
    "InputSpec": {
        "user_input": "UserInputSpec",
        "parameter": "InputToParameterSpec",
        "buffer": "InputToBufferSpec",
        "tensor_constant": "InputToTensorConstantSpec",
        "custom_obj": "InputToCustomObjSpec",
        "token": "InputTokenSpec",
        "constant_input": "InputToConstantInputSpec",
    },
    "OutputSpec": {
        "user_output": "UserOutputSpec",
        "loss_output": "LossOutputSpec",
        "buffer_mutation": "BufferMutationSpec",
        "gradient_to_parameter": "GradientToParameterSpec",
        "gradient_to_user_input": "GradientToUserInputSpec",
        "user_input_mutation": "UserInputMutationSpec",
        "token": "OutputTokenSpec",
        "parameter_mutation": "ParameterMutationSpec",
    },
    "Argument": {
        "as_none": "bool",
        "as_tensor": "TensorArgument",
        "as_tensors": "[TensorArgument]",
        "as_int": "int",
        "as_ints": "[int]",
        "as_float": "number",
        "as_floats": "[number]",
        "as_string": "text",
        "as_strings": "[text]",
        "as_sym_int": "SymIntArgument",
        "as_sym_ints": "[SymIntArgument]",
        "as_scalar_type": "dtype",
        "as_memory_format": "format",
        "as_layout": "layout",
        "as_device": "Device",
        "as_bool": "bool",
        "as_bools": "[bool]",
        "as_sym_bool": "SymBoolArgument",
        "as_sym_bools": "[SymBoolArgument]",
        "as_graph": "GraphArgument",
        "as_optional_tensors": "[OptionalTensorArgument]",
        "as_custom_obj": "CustomObjArgument",
        "as_operator": "text",
        "as_sym_float": "SymFloatArgument",
        "as_sym_floats": "[SymFloatArgument]",
        "as_optional_tensor": "OptionalTensorArgument",
        "as_complex": "ComplexValue",
        "as_nested_tensors": "[[TensorArgument]]",
        "as_int_lists": "[[int]]",
        "as_string_to_argument": "{Argument}",
        "as_float_lists": "[[number]]",
    },
}
_SCALARS = {"int": int, "bool": bool, "text": str}
_Codes = dict[int, Any]
_CODED: dict[str, tuple[_Codes, _Codes]] = {
    "dtype": (_NAMES, DTYPES),
    "layout": (LAYOUTS, LAYOUTS),
    "format": (FORMATS, FORMATS),
}
_LONE = re.compile("[\ud800-\udfff]")
_WORDS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def parsed(data: bytes, kind: str, what: str) -> Any:
    """JSON that holds a structure of this kind; Damaged for anything else."""
    if len(data) > MOST_BYTES:
        raise Damaged(f"{what} has {len(data)} bytes")
    try:
        result = json.loads(data.decode(), parse_constant=_refused, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is no JSON: {str(error)[:200]}") from None
    try:
        return checked(result, kind, what)
    except RecursionError:
        raise Damaged(f"{what}: graphs and arguments lie in each other too deep") from None


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return result


def checked(data: Any, kind: str, path: str, depth: int = 0) -> Any:
    """The data, once it is found to be of a kind; Damaged where it is not, which says where."""
    if depth > 8 * MOST_DEPTH:
        raise Damaged(f"{path[:200]}: graphs and arguments lie in each other too deep")
    if kind.endswith("?"):
        return None if data is None else checked(data, kind[:-1], path, depth)
    if kind.startswith("["):
        _require(isinstance(data, list), path, "a list", data)
        for k, value in enumerate(data):
            checked(value, kind[1:-1], f"{path}[{k}]", depth + 1)
    elif kind.startswith("{"):
        _require(isinstance(data, dict), path, "an object", data)
        for key, value in data.items():
            _require(not _LONE.search(key), path, "names that are text", key)
            checked(value, kind[1:-1], f"{path}.{key[:60]}", depth + 1)
    elif kind in _SCALARS:
        _require(type(data) is _SCALARS[kind], path, f"a {kind}", data)
        if kind == "int":
            _require(-(2**63) <= data < 2**63, path, "a number of 64 bits", data)
        elif kind == "text":
            _require(not _LONE.search(data), path, "a text without lone surrogates", data)
    elif kind == "number":
        _require(type(data) in (int, float) or data in _WORDS, path, "a number", data)
        _require(type(data) is not int or abs(data) < 2**63, path, "a number of 64 bits", data)
    elif kind in _CODED:
        names, here = _CODED[kind]
        _require(type(data) is int and data in names, path, f"the number of a {kind}", data)
        _require(data in here, path, f"a {kind} that is here", names[data])
    elif kind in UNIONS:
        _require(isinstance(data, dict) and len(data) == 1, path, f"one of {kind}", data)
        ((name, value),) = data.items()
        _require(name in UNIONS[kind], path, f"one of {', '.join(UNIONS[kind])}", name)
        checked(value, UNIONS[kind][name], f"{path}.{name}", depth + 1)
    else:
        _require(isinstance(data, dict), path, f"a {kind}", data)
        for name, inner in STRUCTURES[kind].items():
            if name not in data and not inner.endswith("?"):
                raise Damaged(f"{path}: a {kind} without {name!r}")
            checked(data.get(name), inner, f"{path}.{name}", depth + 1)
    return data


def _require(holds: bool, path: str, wanted: str, result: Any) -> None:
    if not holds:
        raise Damaged(f"{path[:200]}: expected {wanted}, got {short(result)}")


def number(value: Any) -> float:
    """A float of the schema, which has words for what JSON has no number for."""
    return _WORDS[value] if isinstance(value, str) else float(value)


def shown(value: float) -> Any:
    """The inverse of `number`."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
