"""Inputs and outputs of a program as the schema has them, both ways."""

from __future__ import annotations

from typing import Any

from ..._files.errors import Damaged
from ..graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
    TokenArgument,
)
from . import schema

_SYMBOLIC: dict[str, Any] = {
    "as_sym_int": SymIntArgument,
    "as_sym_float": SymFloatArgument,
    "as_sym_bool": SymBoolArgument,
}
# kinds by the schema's names of them, with the name of the field that says what they stand for
INPUTS = {
    "parameter": (InputKind.PARAMETER, "parameter_name"),
    "buffer": (InputKind.BUFFER, "buffer_name"),
    "tensor_constant": (InputKind.CONSTANT_TENSOR, "tensor_constant_name"),
    "custom_obj": (InputKind.CUSTOM_OBJ, "custom_obj_name"),
}
OUTPUTS = {
    "loss_output": (OutputKind.LOSS_OUTPUT, ""),
    "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
    "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
    "gradient_to_parameter": (OutputKind.GRADIENT_TO_PARAMETER, "parameter_name"),
    "gradient_to_user_input": (OutputKind.GRADIENT_TO_USER_INPUT, "user_input_name"),
    "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
}


def argument_spec(data: Any) -> ArgumentSpec:
    """An argument of a signature."""
    ((kind, value),) = data.items()
    if kind == "as_tensor":
        return TensorArgument(value["name"])
    if kind in _SYMBOLIC and "as_name" in value:
        return _SYMBOLIC[kind](value["as_name"])
    if kind in ("as_int", "as_bool", "as_string"):
        return ConstantArgument("", value)
    if kind == "as_float":
        return ConstantArgument("", schema.number(value))
    if kind == "as_none":
        return ConstantArgument("", None)
    if kind == "as_custom_obj":
        return CustomObjArgument(value["name"], value["class_fqn"])
    raise Damaged(f"a signature has an argument of the kind {kind}")


def constant(data: Any) -> Any:
    """The value of an input that is a constant."""
    ((kind, value),) = data.items()
    return None if kind == "as_none" else schema.number(value) if kind == "as_float" else value


def input_spec(data: Any) -> InputSpec:
    """An input."""
    ((kind, value),) = data.items()
    if kind == "user_input":
        return InputSpec(InputKind.USER_INPUT, argument_spec(value["arg"]), None)
    if kind == "constant_input":
        return InputSpec(
            InputKind.USER_INPUT, ConstantArgument(value["name"], constant(value["value"])), None
        )
    if kind == "token":
        return InputSpec(InputKind.TOKEN, TokenArgument(value["arg"]["name"]), None)
    result, field = INPUTS[kind]
    if kind == "custom_obj":
        arg: ArgumentSpec = CustomObjArgument(value["arg"]["name"], value["arg"]["class_fqn"])
    else:
        arg = TensorArgument(value["arg"]["name"])
    return InputSpec(result, arg, value[field], value["persistent"] if kind == "buffer" else None)


def output_spec(data: Any) -> OutputSpec:
    """An output."""
    ((kind, value),) = data.items()
    if kind == "user_output":
        return OutputSpec(OutputKind.USER_OUTPUT, argument_spec(value["arg"]), None)
    if kind == "token":
        return OutputSpec(OutputKind.TOKEN, TokenArgument(value["arg"]["name"]), None)
    result, field = OUTPUTS[kind]
    return OutputSpec(result, TensorArgument(value["arg"]["name"]), value[field] if field else None)


# --- writing ------------------------------
def serialize_argument(arg: ArgumentSpec) -> dict[str, Any]:
    """An argument of a signature as the schema has it."""
    if isinstance(arg, TensorArgument):
        return {"as_tensor": {"name": arg.name}}
    for kind, cls in _SYMBOLIC.items():
        if isinstance(arg, cls):
            return {kind: {"as_name": arg.name}}
    if isinstance(arg, ConstantArgument):
        return serialize_constant(arg.value)
    if isinstance(arg, CustomObjArgument):
        return {"as_custom_obj": {"name": arg.name, "class_fqn": arg.class_fqn}}
    raise RuntimeError(f"export.save(): {arg} is written nowhere")


def serialize_constant(value: Any) -> dict[str, Any]:
    """A number, a text or None as the schema has it."""
    if value is None:
        return {"as_none": True}
    if isinstance(value, float):
        return {"as_float": schema.shown(value)}
    kinds = {bool: "as_bool", int: "as_int", str: "as_string"}
    if type(value) not in kinds:
        raise RuntimeError(
            f"export.save(): a constant of the class {type(value).__name__} is written nowhere"
        )
    return {kinds[type(value)]: value}


def serialize_input(spec: InputSpec) -> dict[str, Any]:
    """An input as the schema has it."""
    if spec.kind is InputKind.TOKEN:
        return {"token": {"arg": {"name": spec.arg.name}}}
    if spec.kind is InputKind.USER_INPUT:
        if isinstance(spec.arg, ConstantArgument):
            return {"constant_input": {"name": spec.arg.name, "value": serialize_constant(spec.arg.value)}}
        return {"user_input": {"arg": serialize_argument(spec.arg)}}
    kind, field = next((k, f) for k, (result, f) in INPUTS.items() if result is spec.kind)
    arg: dict[str, Any] = {"name": spec.arg.name}
    if isinstance(spec.arg, CustomObjArgument):
        arg["class_fqn"] = spec.arg.class_fqn
    data: dict[str, Any] = {"arg": arg, field: spec.target}
    if kind == "buffer":
        data["persistent"] = bool(spec.persistent)
    return {kind: data}


def serialize_output(spec: OutputSpec) -> dict[str, Any]:
    """An output as the schema has it."""
    if spec.kind is OutputKind.TOKEN:
        return {"token": {"arg": {"name": spec.arg.name}}}
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": serialize_argument(spec.arg)}}
    kind, field = next((k, f) for k, (result, f) in OUTPUTS.items() if result is spec.kind)
    data: dict[str, Any] = {"arg": {"name": spec.arg.name}}
    if field:
        data[field] = spec.target
    return {kind: data}
