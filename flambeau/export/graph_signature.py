"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, what the caller gives, and what is written back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from ..core.base import display

__all__ = [
    "ConstantArgument",
    "CustomObjArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymBoolArgument",
    "SymFloatArgument",
    "SymIntArgument",
    "TensorArgument",
    "TokenArgument",
]


@dataclass
class TensorArgument:
    """A tensor, by the name of its node in the graph.

    Raises nothing.

    >>> from flambeau.export.graph_signature import TensorArgument
    >>> TensorArgument("x")
    TensorArgument(name='x')
    """

    name: str


@dataclass
class TokenArgument:
    """What orders effects in PyTorch's graphs, by the name of its node.

    Raises nothing.

    >>> from flambeau.export.graph_signature import TokenArgument
    >>> TokenArgument("token")
    TokenArgument(name='token')
    """

    name: str


@dataclass
class SymIntArgument:
    """An integer that follows from sizes, by the name of its node.

    Raises nothing.

    >>> from flambeau.export.graph_signature import SymIntArgument
    >>> SymIntArgument("sym_size_int")
    SymIntArgument(name='sym_size_int')
    """

    name: str


@dataclass
class SymFloatArgument:
    """A number that follows from sizes, by the name of its node.

    Raises nothing.

    >>> from flambeau.export.graph_signature import SymFloatArgument
    >>> SymFloatArgument("truediv")
    SymFloatArgument(name='truediv')
    """

    name: str


@dataclass
class SymBoolArgument:
    """A truth value that follows from sizes, by the name of its node.

    Raises nothing.

    >>> from flambeau.export.graph_signature import SymBoolArgument
    >>> SymBoolArgument("ge")
    SymBoolArgument(name='ge')
    """

    name: str


@dataclass
class CustomObjArgument:
    """An object of a class that is registered with PyTorch, by the name of its node.

    Raises nothing.

    >>> from flambeau.export.graph_signature import CustomObjArgument
    >>> CustomObjArgument("obj", "lib.Queue")
    CustomObjArgument(name='obj', class_fqn='lib.Queue', fake_val=None)
    """

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclass
class ConstantArgument:
    """A number, text or None that the graph was exported for.

    Raises nothing.

    >>> from flambeau.export.graph_signature import ConstantArgument
    >>> ConstantArgument("k", 2)
    ConstantArgument(name='k', value=2)
    """

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | ConstantArgument
    | CustomObjArgument
    | TokenArgument
)
_SYMBOLIC = (SymIntArgument, SymFloatArgument, SymBoolArgument)
_ARGUMENTS = (TensorArgument, *_SYMBOLIC, ConstantArgument, CustomObjArgument, TokenArgument)


class InputKind(Enum):
    """What an input of the graph is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What an output of the graph is."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


def _check_argument(spec: InputSpec | OutputSpec) -> None:
    if not isinstance(spec.arg, _ARGUMENTS):
        raise AssertionError(
            f"{type(spec).__name__}: expected arg to be an ArgumentSpec, got {type(spec.arg)}"
        )


@dataclass
class InputSpec:
    """An input: its kind, its node, and for what is kept with the program the name of it.

    Raises:
        AssertionError: `arg` is no ArgumentSpec, or a buffer is not said to be persistent or not.

    >>> from flambeau.export.graph_signature import InputKind, InputSpec, TensorArgument
    >>> print(InputSpec(InputKind.PARAMETER, TensorArgument("p_weight"), "weight"))
    p_weight: PARAMETER target='weight'
    """

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError(
                "InputSpec: expected `persistent` to be True or False for a buffer, got None"
            )
        _check_argument(self)

    def __str__(self) -> str:
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{_target(self.target)}{persistent}"


@dataclass
class OutputSpec:
    """An output: its kind, its node, and for what is written back the name of it.

    Raises:
        AssertionError: `arg` is no ArgumentSpec.

    >>> from flambeau.export.graph_signature import OutputKind, OutputSpec, TensorArgument
    >>> print(OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument("add"), "count"))
    add: BUFFER_MUTATION target='count'
    """

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __post_init__(self) -> None:
        _check_argument(self)

    def __str__(self) -> str:
        return f"{self.arg.name}: {self.kind.name}{_target(self.target)}"


def _target(target: str | None) -> str:
    return "" if target is None else f" target='{target}'"


@dataclass
class ExportBackwardSignature:
    """Which outputs of a graph with a backward pass are the loss and the gradients.

    Raises nothing.

    >>> from flambeau.export.graph_signature import ExportBackwardSignature
    >>> ExportBackwardSignature({}, {}, "loss")
    ExportBackwardSignature(gradients_to_parameters={}, gradients_to_user_inputs={}, loss_output='loss')
    """

    gradients_to_parameters: dict[str, str] = field(default_factory=dict)
    gradients_to_user_inputs: dict[str, str] = field(default_factory=dict)
    loss_output: str = ""


def _named(specs: Iterable[InputSpec | OutputSpec], kind: InputKind | OutputKind) -> Mapping[str, str]:
    """Names of nodes to names of what they stand for; it cannot be written to."""
    return MappingProxyType(
        {s.arg.name: s.target for s in specs if s.kind is kind and isinstance(s.target, str)}
    )


@dataclass
class ExportGraphSignature:
    """What the inputs and the outputs of an exported graph are, in their order.

    Inputs are parameters, buffers and constants, then the leaves of what the caller gives; outputs are what is written back to
    buffers, parameters and inputs, then the leaves of the result.

    RuntimeError where a token stands among the user's inputs or outputs.

    >>> from flambeau.export.graph_signature import *
    >>> x, y = TensorArgument("x"), TensorArgument("relu")
    >>> signature = ExportGraphSignature(
    ...     [InputSpec(InputKind.USER_INPUT, x, None)], [OutputSpec(OutputKind.USER_OUTPUT, y, None)]
    ... )
    >>> signature.user_inputs, signature.user_outputs, signature.parameters
    (('x',), ('relu',), ())
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.kind is kind and isinstance(s.target, str))

    @property
    def parameters(self) -> Collection[str]:
        """The parameters' names in the module that was exported."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> Collection[str]:
        """The buffers' names in the module that was exported."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> Collection[str]:
        """The names of buffers that no state dict has."""
        non_persistent = (s for s in self.input_specs if s.kind is InputKind.BUFFER and s.persistent is False)
        return tuple(s.target for s in non_persistent if isinstance(s.target, str))

    @property
    def lifted_tensor_constants(self) -> Collection[str]:
        """The names of tensors that are neither parameters nor buffers."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> Collection[str]:
        """The names of objects of registered classes."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> Collection[int | float | bool | str | None]:
        """The nodes of what the caller gives; constants themselves."""
        return tuple(_shown(s.arg, "input") for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> Collection[int | float | bool | str | None]:
        """The nodes of what the caller gets, the loss among them; constants themselves."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_shown(s.arg, "output") for s in self.output_specs if s.kind in kinds)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Nodes to parameters."""
        return _named(self.input_specs, InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Nodes to buffers."""
        return _named(self.input_specs, InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Nodes to constants."""
        return _named(self.input_specs, InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """Nodes to objects."""
        return _named(self.input_specs, InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Nodes whose values are written to buffers after a run."""
        return _named(self.output_specs, OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Nodes whose values are written to parameters after a run."""
        return _named(self.output_specs, OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Nodes whose values are written to inputs after a run."""
        return _named(self.output_specs, OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """Loss and gradients; None for a graph without a backward pass."""
        losses = [s.arg.name for s in self.output_specs if s.kind is OutputKind.LOSS_OUTPUT]
        if not losses:
            return None
        if len(losses) > 1:
            raise AssertionError(f"ExportGraphSignature: expected one LOSS_OUTPUT, got {len(losses)}")
        return ExportBackwardSignature(
            dict(_named(self.output_specs, OutputKind.GRADIENT_TO_PARAMETER)),
            dict(_named(self.output_specs, OutputKind.GRADIENT_TO_USER_INPUT)),
            losses[0],
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """None: no token orders assertions here."""
        return None

    @property
    def input_tokens(self) -> Collection[str]:
        """The nodes of tokens among the inputs."""
        return tuple(s.arg.name for s in self.input_specs if s.kind is InputKind.TOKEN)

    @property
    def output_tokens(self) -> Collection[str]:
        """The nodes of tokens among the outputs."""
        return tuple(s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Name a node otherwise wherever the signature has it; AssertionError for names that are no text."""
        if not isinstance(old, str) or not isinstance(new, str):
            raise AssertionError(f"replace_all_uses(): expected two names, got {old!r} and {new!r}")
        for spec in (*self.output_specs, *self.input_specs):
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Callable[[Any, str, Any], None]:
        """A function that `fx` calls where the users of a node get another: it renames outputs, and inputs where wanted."""

        def renamed(old: Any, new: str, user: Any) -> None:
            if user.op == "output" or (replace_inputs and old.op == "placeholder"):
                self.replace_all_uses(old.name, new)

        return renamed

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


def _shown(arg: ArgumentSpec, what: str) -> int | float | bool | str | None:
    if isinstance(arg, ConstantArgument):
        return arg.value
    if isinstance(arg, TokenArgument):
        raise RuntimeError(f"{arg} is not a valid user {what}")
    return arg.name


for _class in [c for c in globals().values() if isinstance(c, type) and c.__module__ == __name__]:
    _class.__module__ = display.public("export.graph_signature")
