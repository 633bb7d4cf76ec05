"""`ops.aten`: this library's own operations by the names that ATen gives them.

`ops.aten.mm.default` is `flambeau.mm` itself, whatever the overload: an operation is one object here, and is what modes are given.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from .._foreach import functions
from .._tags import Tag
from ..core.base import display
from ..core.call.operation import Op, behind
from ..operations.declare.registry import REGISTRY
from ._overloads import table
from ._packets import DEFINED, KINDS, OpNamespace, OpOverloadPacket, namespace_of
from ._schema import AliasInfo, Argument, FunctionSchema, SchemaType

# Rooms of names, in the order in which a name is looked for, and what ATen writes before it.
_ROOMS = (
    ("", ""),
    ("Tensor", ""),
    ("nn.functional", ""),
    ("linalg", "linalg_"),
    ("special", "special_"),
    ("fft", "fft_"),
)


def candidates() -> dict[str, Any]:
    """The operations declared here by the names that ATen would give them."""
    found: dict[str, Any] = dict(functions())
    public: list[Op] = []
    for room, before in _ROOMS:
        for entry in REGISTRY.values():
            for place in entry.places:
                home, _, name = place.rpartition(".")
                if home != room or name.startswith("_"):
                    continue
                if isinstance(entry.function, Op):
                    public.append(entry.function)
                    found.setdefault(before + name, entry.function)
                if isinstance(entry.in_place, Op):
                    found.setdefault(f"{before}{name}_", entry.in_place)
    for op in public:
        declared = getattr(op, "aten", None)
        if declared is not None and getattr(found.get(declared), "aten", None) != declared:
            found[declared] = op
    return found


@functools.cache
def names() -> dict[str, Any]:
    """ATen's names of the operations that are declared here."""
    return {name: op for name, op in candidates().items() if name in table()}


@functools.cache
def _by_operation() -> dict[Op, str]:
    """The first of ATen's names for each operation."""
    found: dict[Op, str] = {}
    for name, op in names().items():
        found.setdefault(op, name)
    return found


_TAGS = {"pointwise": Tag.pointwise, "reduction": Tag.reduction, "random": Tag.nondeterministic_seeded}
_TYPES = {
    "Tensor": "Tensor",
    "TensorBase": "Tensor",
    "int": "SymInt",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "complex": "Scalar",
    "dtype": "ScalarType",
    "Sequence[int]": "SymInt[]",
    "Sequence[Tensor]": "Tensor[]",
    "Sequence[TensorBase]": "Tensor[]",
}


def _argument(parameter: inspect.Parameter, written: bool) -> Argument:
    """A parameter of one of our operations as an argument of a schema; what its annotation does not tell is of type Any."""
    words = [w.strip() for w in str(parameter.annotation).split("|")]
    told = [_TYPES[w] for w in words if w in _TYPES]
    base, listed, _ = (told[0] if len(told) == 1 else "Tensor" if written else "Any").partition("[]")
    defaulted = parameter.default is not parameter.empty
    form = listed + ("?" if defaulted and parameter.default is None else "")
    alias = AliasInfo(frozenset("a"), frozenset("a"), True) if written else None
    by_name = parameter.kind is parameter.KEYWORD_ONLY
    return Argument(
        parameter.name,
        SchemaType(base, form),
        parameter.default if defaulted else None,
        defaulted,
        by_name,
        alias,
    )


@functools.cache
def _schema(op: Op) -> FunctionSchema:
    """What an operation's parameters make of a schema; its result is written as one Tensor."""
    name = _by_operation().get(op)
    try:
        parameters = list(inspect.signature(op).parameters.values())
    except (TypeError, ValueError, AttributeError):
        parameters = []
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    arguments = tuple(_argument(p, op.writes and k == 0) for k, p in enumerate(named))
    result = Argument(
        "", SchemaType("Tensor"), alias_info=arguments[0].alias_info if op.writes and arguments else None
    )
    told = f"aten::{name}" if name is not None else f"{display.NAME}::{op.__name__}"
    return FunctionSchema(told, "", arguments, (result,), len(named) < len(parameters))


@functools.cache
def _packet(op: Op) -> OpOverloadPacket:
    """What stands for all overloads of an operation that ATen does not have."""
    return OpOverloadPacket(display.NAME, op.__name__, {"default": op})


def told(op: Op, what: str) -> Any:
    """What programs with dispatch modes ask of one of our operations: those of ATen are in the namespace `aten`."""
    op = behind(op)
    name = _by_operation().get(op)
    if what == "overloadpacket":
        return _packet(op) if name is None else getattr(namespace_of("aten"), name)
    if what == "schema":
        return _schema(op)
    if what == "overload":
        return "default" if name is None else table()[name][0]
    if what == "tags":
        return [_TAGS[op.entry.kind]] if op.entry is not None and op.entry.kind in _TAGS else []
    return display.NAME if name is None else "aten"


class AtenNamespace(OpNamespace):
    """The namespace `aten`."""

    def _overloads(self, op_name: str) -> dict[str, Any]:
        ours = names().get(op_name)
        if ours is not None:
            return dict.fromkeys(table()[op_name], ours)
        return DEFINED.get("aten", {}).get(op_name, {})

    def _missing(self, op_name: str) -> str:
        return (
            f"'_OpNamespace' 'aten' object has no attribute '{op_name}': no operation aten::{op_name} is defined; operations are declared "
            "here at the level at which programs call them (docs/operations.md lists them)"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *names()]


KINDS["aten"] = AtenNamespace
__all__ = ["candidates", "names", "namespace_of", "told"]
