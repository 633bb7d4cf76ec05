"""What an operator of ONNX means: a function of tensors, declared once under the operator's name.

    @operator("Softmax", since=13)
    def softmax(input: Tensor, *, axis: int = -1) -> Tensor:
        return input.softmax(axis)

Parameters that are positional are the operator's inputs, in their order (None where one may be left out, `*` for any number of them);
those by keyword are its attributes, whose kinds the annotations say.  `since` is the first version of the operator that has this
meaning; a node of an older one is refused.  An input that is annotated `Ints` is read as a list of ints: where it is a constant of the
model, when that is loaded.  One that is `State` is no parameter but a buffer, and so is what becomes one through operators
whose first input is `Moved`, which give its elements in another shape.  A parameter `outputs` gets the number of results that
a node wants, and a function that returns a tuple gives several.

An operation of the library that is an operator of ONNX as it stands is declared by `same`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...nn.modules.module import Module
from ...operations.declare.registry import published
from ...overrides import handle_torch_function
from ..errors import OnnxLoadError

Ints = Tensor | Sequence[int]
State = Tensor
Moved = Tensor
DType = Any  # a dtype, which attributes have as a number of ONNX's
TypeNote = Any  # a type of values, which only says what is given

fl = SimpleNamespace(**published(""))  # operations by their public names
nn = SimpleNamespace(**published("nn.functional"))
special = SimpleNamespace(**published("special"))

DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    24: "float8_e8m0fnu",
}
_ABSENT = {0: "undefined", 8: "strings", 21: "uint4", 22: "int4", 23: "float4", 25: "uint2", 26: "int2"}


def dtype_of(number: int) -> Any:
    """The dtype of a number of `TensorProto.DataType`; OnnxLoadError where there is none of that kind."""
    name = DTYPES.get(number)
    if name is None:
        raise OnnxLoadError(f"the data type {number} ({_ABSENT.get(number, 'unknown')}) has no dtype here")
    return by_name[name]


class Attribute(NamedTuple):
    """The kind of an attribute ("int", "floats", "graph" …), and whether nodes must have it."""

    kind: str
    required: bool


class Operator(NamedTuple):
    """What a node of this kind calls, and with what."""

    name: str
    domain: str
    since: int
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    required: int
    variadic: bool
    ints: frozenset[str]
    state: frozenset[str]
    attributes: dict[str, Attribute]
    counts: bool
    several: bool
    moves: bool = False


class OnNumbers(NamedTuple):
    """What an operator means on lists of ints: the function, whether its argument is a tensor, and how many dimensions its result has."""

    function: Callable[..., Any]
    of_tensor: bool
    rank: Callable[[list[int], list[Any]], int]


OPERATORS: dict[tuple[str, str], list[Operator]] = {}
REFUSED: dict[tuple[str, str], str] = {}
ON_NUMBERS: dict[Callable[..., Any], OnNumbers] = {}
_KINDS = {
    "int": "int",
    "bool": "int",
    "float": "float",
    "str": "str",
    "Tensor": "tensor",
    "DType": "dtype",
    "list[int]": "ints",
    "list[float]": "floats",
    "list[str]": "strs",
    "Module": "graph",
    "TypeNote": "type",
}


def _enter(made: Operator) -> None:
    versions = OPERATORS.setdefault((made.domain, made.name), [])
    versions.append(made)
    versions.sort(key=lambda o: o.since)


def _declared(name: str, domain: str, since: int, function: Callable[..., Any], said: Any) -> Operator:
    signature = inspect.signature(said)
    kinds = inspect.Parameter
    inputs, attributes, counts, required, variadic, moves = [], {}, False, 0, False, False
    ints, state = set(), set()
    for p in signature.parameters.values():
        note = str(p.annotation).removesuffix(" | None")
        if p.kind is kinds.KEYWORD_ONLY and p.name in ("outputs", "captured"):
            counts |= p.name == "outputs"
        elif p.kind is kinds.KEYWORD_ONLY:
            attributes[p.name] = Attribute(_KINDS[note], p.default is kinds.empty)
        elif p.kind is kinds.VAR_POSITIONAL:
            variadic = True
        elif p.name != "self":
            inputs.append(p.name)
            required += p.default is kinds.empty
            if note == "Ints":
                ints.add(p.name)
            if note == "State":
                state.add(p.name)
            moves |= note == "Moved"
    several = str(signature.return_annotation).startswith("tuple")
    return Operator(
        name,
        domain,
        since,
        function,
        tuple(inputs),
        required,
        variadic,
        frozenset(ints),
        frozenset(state),
        attributes,
        counts,
        several,
        moves,
    )


def _asking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for objects that are no tensors and have `__torch_function__`, too: those of a tracer.  Modes see what it calls."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(not isinstance(x, Tensor) and hasattr(type(x), "__torch_function__") for x in args):
            return handle_torch_function(call, args, *args, **kwargs)
        return function(*args, **kwargs)

    return call


def on_numbers(
    *operations: Callable[..., Any], rank: Callable[[list[int], list[Any]], int], of_tensor: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what operators mean where their results are wanted as lists of ints: a function of such lists, or of a tensor.

    `rank` of the operands' ranks, and of the operands, is how many dimensions the result has: a list stands for none or one.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        call = _asking(function)
        for operation in operations:
            ON_NUMBERS[operation] = OnNumbers(call, of_tensor, rank)
        return call

    return enter


def operator(
    name: str, since: int = 1, domain: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what an operator means by a function; tracing sees calls of it as one node."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        call = _asking(function)
        _enter(_declared(name, domain, since, call, function))
        return call

    return enter


def flow(name: str, since: int = 1) -> Callable[[type[Module]], type[Module]]:
    """Declare an operator with graphs as attributes by a module: its constructor takes attributes, `forward` what goes in, and what
    the graphs read from outside as `captured`."""

    def enter(cls: type[Module]) -> type[Module]:
        made = _declared(name, "", since, cls, cls.forward)
        built = _declared(name, "", since, cls, cls.__init__)
        _enter(made._replace(attributes=built.attributes, several=True))
        return cls

    return enter


def same(name: str, operation: Callable[..., Any], inputs: int = 1, since: int = 1) -> None:
    """Declare that an operation of the library is that operator, which has so many inputs and no attributes."""
    names = tuple(f"input{k}" for k in range(inputs))
    none: frozenset[str] = frozenset()
    _enter(Operator(name, "", since, operation, names, inputs, False, none, none, {}, False, False))


def refuse(reason: str, *names: str, domain: str = "") -> None:
    """Declare that operators are not read, and why."""
    for name in names:
        REFUSED[domain, name] = reason


def lookup_operator(domain: str, name: str, version: int) -> Operator | None:
    """The declaration for a node of that version of operators, where there is one."""
    versions = OPERATORS.get((domain, name), [])
    return next((made for made in reversed(versions) if made.since <= version), None)


def operator_of(domain: str, name: str, version: int) -> Operator:
    """The declaration for a node of that version of operators; OnnxLoadError where there is none."""
    called = f"{domain}::{name}" if domain else name
    if (domain, name) in REFUSED:
        raise OnnxLoadError(f"{called} is not read: {REFUSED[domain, name]}")
    versions = OPERATORS.get((domain, name))
    if versions is None:
        raise OnnxLoadError(f"{called} is no operator that is known here")
    made = lookup_operator(domain, name, version)
    if made is not None:
        return made
    raise OnnxLoadError(
        f"{called} of opset {version} has another meaning than that of opset {versions[0].since}, from which on it is read"
    )


def ints(x: Any) -> list[int]:
    """A list of ints, from a tensor of them or as it is."""
    if isinstance(x, Tensor):
        return [int(n) for n in x.reshape(-1).tolist()]
    return [int(n) for n in x]
