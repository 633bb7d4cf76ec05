"""`ops.aten`: this library's own operations by the names that ATen gives them.

`ops.aten.mm.default` is `flambeau.mm` itself, whatever the overload: an operation is one object here, and is what modes are given.
"""

from __future__ import annotations

import ast
import functools
import inspect
from typing import Any

from .._compat.foreach import functions
from .._compat.tags import Tag
from ..core.base import display
from ..core.call.operation import Op, behind
from ..core.call.types import AliasInfo, Result, SchemaType, annotated, described, results
from ..operations.declare.registry import REGISTRY
from ..operations.declare.results import RESULTS
from ._overloads import table
from ._packets import DEFINED, KINDS, OpNamespace, OpOverloadPacket, namespace_of
from ._schema import Argument, FunctionSchema, parse_schema, signature_of

# Namespaces, in the order in which a name is looked for, and what ATen writes before it.
_NAMESPACES = (
    ("", ""),
    ("Tensor", ""),
    ("nn.functional", ""),
    ("linalg", "linalg_"),
    ("special", "special_"),
    ("fft", "fft_"),
)


def candidates() -> dict[str, Any]:
    """The operations declared here by the names that ATen would give them."""
    result: dict[str, Any] = dict(functions())
    public: list[Op] = []
    for namespace, before in _NAMESPACES:
        for entry in REGISTRY.values():
            for place in entry.places:
                home, _, name = place.rpartition(".")
                private = name.startswith("_") and getattr(entry.function, "aten", None) != name
                if home != namespace or private:
                    continue
                if isinstance(entry.function, Op):
                    public.append(entry.function)
                    result.setdefault(before + name, entry.function)
                if isinstance(entry.in_place, Op):
                    result.setdefault(f"{before}{name}_", entry.in_place)
    for op in public:
        declared = getattr(op, "aten", None)
        if declared is not None and getattr(result.get(declared), "aten", None) != declared:
            result[declared] = op
    return result


@functools.cache
def names() -> dict[str, Any]:
    """ATen's names of the operations that are declared here."""
    return {name: op for name, op in candidates().items() if name in table()}


@functools.cache
def _by_operation() -> dict[Op, str]:
    """The first of ATen's names for each operation."""
    result: dict[Op, str] = {}
    for name, op in names().items():
        result.setdefault(op, name)
    return result


_TAGS = {"pointwise": Tag.pointwise, "reduction": Tag.reduction, "random": Tag.nondeterministic_seeded}
_TENSOR = SchemaType("Tensor")
_WRITTEN = AliasInfo(frozenset("a"), frozenset("a"), True)
_SHARED = AliasInfo(frozenset("a"), frozenset("a"), False)


def _parameters(op: Op) -> inspect.Signature:
    try:
        return inspect.signature(op)
    except (TypeError, ValueError, AttributeError):
        return inspect.Signature()


def _results(op: Op, signature: inspect.Signature) -> tuple[Result, ...]:
    """The results: what the declaration says of them, by its first overload too, or the annotation; one Tensor where nothing does."""
    entry = op.entry
    if op.writes:
        return (Result("", _TENSOR, _WRITTEN),)
    if entry is not None and op is entry.function and entry.gives is not None:
        result = entry.gives
        return (
            results(result)
            if isinstance(result, type)
            else parse_schema(f"f() -> {result}").signature.types().results
        )
    if entry is not None and op is entry.function and entry.details.get("overloads"):
        text = entry.details["overloads"][0].rpartition("->")[2].strip()
        return results(RESULTS.get(text.removeprefix("return_types."), text))
    if entry is not None and entry.kind == "view":
        return tuple(
            r._replace(alias=_SHARED) if r.type == _TENSOR else r for r in described(signature).results
        )
    return described(signature).results


def _types(op: Op, signature: inspect.Signature) -> dict[str, SchemaType]:
    """The types of parameters by name: what annotations do not tell, the declaration may."""
    named = [p.name for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    result = dict(zip(named, described(signature).parameters))
    entry, types = op.entry, dict[str, SchemaType]()
    if entry is None:
        return result
    if entry.kind == "pointwise":  # operands are tensors, all else is a number
        types = {
            n: _TENSOR if n in entry.details["operands"] else SchemaType("Scalar")
            for n in result
            if n != "out"
        }
        result.update((n, t) for n, t in types.items() if result[n].base == "float")
    for text in entry.details.get("overloads", ())[:1] if op is entry.function else ():
        arguments = ast.parse(f"def f{text}: ...").body[0].args
        types = {
            a.arg: annotated(ast.unparse(a.annotation))
            for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            if a.annotation is not None
        }
    if op is entry.in_place and isinstance(entry.function, Op):
        types = {a.name: a.type for a in _schema(entry.function).arguments}
    return {n: types.get(n, t) if t.base == "Any" else t for n, t in result.items()}


@functools.cache
def _schema(op: Op) -> FunctionSchema:
    """An operation's signature as ATen writes it: the tensor of a method is `self`, and `out` belongs to another overload."""
    name, signature = _by_operation().get(op), _parameters(op)
    named = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    method = op.entry is not None and any(p.startswith("Tensor.") for p in op.entry.places)
    arguments = []
    types = _types(op, signature)
    for k, p in enumerate(named):
        kind = types[p.name]
        defaulted = p.default is not p.empty
        if name is not None and p.name == "out" and p.kind is p.KEYWORD_ONLY:
            continue
        if k == 0 and (method or op.writes):
            kind, defaulted = kind if kind.base == "Tensor" else _TENSOR, False
        own = "self" if k == 0 and name is not None and method and p.name == "input" else p.name
        arguments.append(
            Argument(
                own,
                kind,
                p.default if defaulted else None,
                defaulted,
                p.kind is p.KEYWORD_ONLY,
                _alias(op, k),
            )
        )
    full_name = f"aten::{name}" if name is not None else f"{display.NAME}::{op.__name__}"
    return FunctionSchema(
        full_name,
        "",
        signature_of(arguments, _results(op, signature), len(named) < len(signature.parameters)),
    )


def _alias(op: Op, place: int) -> AliasInfo | None:
    """What the results share of an argument: the first, where it is written to or viewed."""
    if place:
        return None
    if op.writes:
        return _WRITTEN
    return _SHARED if op.entry is not None and op.entry.kind == "view" else None


@functools.cache
def _packet(op: Op) -> OpOverloadPacket:
    """What stands for all overloads of an operation that ATen does not have."""
    return OpOverloadPacket(display.NAME, op.__name__, {"default": op})


def overload_property(op: Op, what: str) -> Any:
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
__all__ = ["candidates", "names", "namespace_of", "overload_property"]
