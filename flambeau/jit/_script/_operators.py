"""Calls of operations: which overload takes values of these types, how the call is written in code, and what it gives."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...core.call.operation import Op
from ...library._calls import CODES, Overload, Unfit, overloads
from ...library._own import OWN, own_name
from ...library._written import written
from .._text import number_text, quoted
from ._hosts import HostSchema, Parameter, schemas
from ._types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    Type,
    bound,
    filled,
    is_subtype,
    of_schema,
    results_of,
)
from ._values import Simple

_MOST_VARIANTS = 12  # of overloads that an error lists
_IMPLICIT = {INT: "int", FLOAT: "float", COMPLEX: "complex"}


class Match(NamedTuple):
    """An overload that takes the arguments: they in its order, by position as far as all before are there, and its result."""

    name: str
    args: list[Simple]
    kwargs: dict[str, Simple]
    result: Type
    schema: Any


def fit(
    value: Simple, wanted: Type, type_vars: dict[str, Type], length: int | None, loosely: bool
) -> Simple | None:
    """The value as one of a parameter's type; None where it is none."""
    before = dict(type_vars)
    if bound(wanted, value.type, type_vars):
        return value
    type_vars.clear()
    type_vars.update(before)
    target = wanted.unwrapped
    if target.kind == "List" and value.type.kind == "Tuple":
        result = _listed(value, target.inner[0], type_vars, loosely)
        if result is not None:
            return result
    if length is not None and target.kind == "List" and is_subtype(value.type, target.inner[0]):
        return value
    if value.type == STR and target == DEVICE:
        return Simple(f"torch.device({value.text})", f"device({value.py})", DEVICE)
    if loosely and value.type in (TENSOR, NUMBER):
        if target in _IMPLICIT:
            kind = _IMPLICIT[target]
            return Simple(f"annotate({kind}, {value.text})", f"number({kind}, {value.py})", target)
        if target == NUMBER and value.type == TENSOR:
            return Simple(f"annotate(number, {value.text})", f"{value.py}.item()", NUMBER)
    return None


def _listed(value: Simple, element: Type, type_vars: dict[str, Type], loosely: bool) -> Simple | None:
    """A tuple as a list of values of one type."""
    items = value.items
    if items is None:
        items = [
            Simple(f"({value.text})[{k}]", f"{value.py}[{k}]", t) for k, t in enumerate(value.type.inner)
        ]
    result = [fit(v, element, type_vars, None, loosely) for v in items]
    if any(v is None for v in result):
        return None
    present = [v for v in result if v is not None]
    inner = filled(element, type_vars)
    text = f"[{', '.join(v.text for v in present)}]"
    if not present:
        text = f"annotate(List[{inner.text}], [])"
    py = f"[{', '.join(v.py for v in present)}]" if value.items is not None else f"list({value.py})"
    constant = [v.constant for v in present] if all(v.is_constant for v in present) else None
    made = Simple(text, py, Type("List", (inner,)), items=present)
    if constant is not None:
        made.constant = constant
    return made


def matched(
    name: str,
    parameters: Sequence[Parameter],
    lengths: Sequence[int | None],
    args: Sequence[Simple],
    kwargs: dict[str, Simple],
    loosely: bool,
) -> tuple[list[Simple], dict[str, Simple], dict[str, Type]] | str:
    """The arguments as a schema has them, and the types of its variables; why not, where they are none of it."""
    type_vars: dict[str, Type] = {}
    placed: list[Simple] = []
    named: dict[str, Simple] = {}
    left = dict(kwargs)
    remaining = list(args)
    by_name = False
    for k, p in enumerate(parameters):
        value: Simple | None
        if remaining and not p.by_name:
            last = not [q for q in parameters[k + 1 :] if not q.by_name and not q.defaulted]
            many = len(remaining) > 1 or (p.type.inner == (INT,) and not p.defaulted)
            if many and p.type.kind == "List" and last and all(v.type == p.type.inner[0] for v in remaining):
                value = _packed(remaining, p.type)
                remaining = []
            else:
                value = remaining.pop(0)
        else:
            value = left.pop(p.name, None)
            if value is None and p.name == "self":
                value = left.pop("input", None)
            if value is None:
                if not p.defaulted:
                    return f"Argument {p.name} not provided."
                by_name = True
                continue
            by_name = by_name or p.by_name
        length = lengths[k] if k < len(lengths) else None
        result = fit(value, p.type, type_vars, length, loosely)
        if result is None:
            return _unlike(p, value)
        if by_name or p.by_name:
            named[p.name] = result
        else:
            placed.append(result)
    if remaining:
        most = sum(not p.by_name for p in parameters)
        return f"Expected at most {most} arguments but found {len(args)} positional arguments."
    if left:
        return f"Unknown keyword argument '{next(iter(left))}'."
    return placed, named, type_vars


def _packed(values: list[Simple], t: Type) -> Simple:
    text, py = (", ".join(getattr(v, part) for v in values) for part in ("text", "py"))
    return Simple(f"[{text}]", f"[{py}]", t, items=values)


def _unlike(p: Parameter, value: Simple) -> str:
    wrong = (
        f"Expected a value of type '{p.type}' for argument '{p.name}' but instead found type '{value.type}'."
    )
    if value.type.kind == "List" and value.items == [] and p.type.unwrapped.kind == "List":
        wrong += (
            "\nEmpty lists default to List[Tensor]. Add a variable annotation to the assignment to create an empty list of another "
            "type."
        )
    if getattr(value, "inferred", False):
        wrong += f"\nInferred the value for argument '{p.name}' to be of type 'Tensor' because it was not annotated with an explicit type."
    return wrong


class NoOverload(Exception):
    """No overload takes the arguments; the message says of each why not."""


def _described(tried: Sequence[tuple[Any, str]]) -> str:
    if len(tried) == 1:
        return f"{tried[0][0]}:\n  {tried[0][1]}"
    shown = "\n".join(f"  \n  {schema}:\n  {why}" for schema, why in tried[:_MOST_VARIANTS])
    more = f"\n  \n  … and {len(tried) - _MOST_VARIANTS} more" if len(tried) > _MOST_VARIANTS else ""
    return f"Arguments for call are not valid.\nThe following variants are available:\n{shown}{more}"


# --- hosts ------------------------------
def host_call(
    name: str, args: Sequence[Simple], kwargs: dict[str, Simple]
) -> tuple[HostSchema, Match] | list[Any]:
    """The overload of an operation without tensors that takes the arguments; else what was tried."""
    tried: list[Any] = []
    for loosely in (False, True):
        tried = []
        for schema in schemas().get(name, ()):
            result = matched(name, schema.parameters, (), args, kwargs, loosely)
            if not isinstance(result, str):
                placed, named, type_vars = result
                return schema, Match(name, placed, named, filled(schema.result, type_vars), schema)
            tried.append((schema, result))
    return tried


# --- ATen ------------------------------
@functools.cache
def _variants(name: str) -> tuple[tuple[Overload, tuple[Parameter, ...], tuple[int | None, ...]], ...]:
    result = []
    for overload in overloads("aten", name):
        parameters = tuple(
            Parameter(a.name, of_schema(a.type), a.default_value, a.defaulted, a.kwarg_only)
            for a in overload.arguments
        )
        lengths = tuple(a.type.length if a.type.form.startswith("[]") else None for a in overload.arguments)
        result.append((overload, parameters, lengths))
    return tuple(result)


def aten_call(name: str, args: Sequence[Simple], kwargs: dict[str, Simple]) -> Match | list[Any]:
    """The overload of ATen that takes the arguments; else what was tried."""
    tried: list[Any] = []
    out = kwargs.get("out")
    rest = {k: v for k, v in kwargs.items() if k != "out"}
    for loosely in (False, True):
        tried = []
        for overload, parameters, lengths in _variants(name):
            match = matched(name, parameters, lengths, args, rest, loosely)
            if isinstance(match, str):
                tried.append((overload.schema, match))
                continue
            placed, named, _ = match
            result = results_of(overload.schema.returns)
            if out is not None:
                named["out"], result = out, out.type
            return Match(name, placed, named, result, overload.schema)
    return tried


# --- as the tracer writes them ------------------------------
class _Unknown:
    """Stands for a value that is known when the program runs."""

    def __init__(self, value: Simple, kind: type, as_list: bool = False) -> None:
        self.value, self.kind, self.as_list = value, kind, as_list

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # `isinstance` reads its class
        return _Unknown

    def _refuse(self, *args: Any) -> Any:
        raise Unfit("it depends on the value")

    __bool__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __mul__ = _refuse  # type: ignore[assignment]
    __index__ = __int__ = __float__ = __len__ = __iter__ = _refuse
    __hash__ = object.__hash__


def _standing(kind: type) -> type:
    return type(f"_Unknown_{kind.__name__}", (_Unknown,), {"stands_for": kind})


_STANDING: dict[Any, Any] = {kind: _standing(kind) for kind in (int, float, bool, str, complex, object)}
_KINDS = {INT: int, FLOAT: float, BOOL: bool, STR: str, COMPLEX: complex, NUMBER: float}


class _UnknownTensor(Tensor):
    """Stands for a tensor, of which nothing is known."""

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise Unfit("it depends on the tensor")

    shape = ndim = dtype = device = layout = property(_refuse)  # type: ignore[assignment]
    dim = size = numel = is_floating_point = is_complex = _refuse  # type: ignore[assignment]
    __bool__ = __len__ = _refuse  # type: ignore[assignment]


class Tokens:
    """Values of Python that stand for those of a program, for functions that look at the arguments of calls."""

    def __init__(self) -> None:
        self.tensors: dict[int, tuple[Any, Simple]] = {}

    def of(self, value: Simple) -> Any:
        """What stands for a value: itself, where it is known."""
        if value.is_constant:
            return value.constant
        if value.type == NONE:
            return None
        kind_of_value = value.type.unwrapped
        if kind_of_value == TENSOR:
            from ...core.make.create import empty

            made = empty((0,)).as_subclass(_UnknownTensor)
            self.tensors[id(made)] = made, value
            return made
        if value.items is not None and kind_of_value.kind in ("List", "Tuple"):
            items = [self.of(v) for v in value.items]
            return items if kind_of_value.kind == "List" else tuple(items)
        if kind_of_value.kind == "List":
            element = kind_of_value.inner[0].unwrapped
            if element == TENSOR:
                inner = self.of(Simple("", "", TENSOR))
                self.tensors[id(inner)] = inner, Simple(value.text, value.py, value.type, items=[value])
                return [inner]
            return [_STANDING[_KINDS.get(element, object)](value, object, as_list=True)]
        kind = _KINDS.get(kind_of_value, object)
        return _STANDING[kind](value, kind)

    def behind(self, x: Any) -> tuple[Simple | None, bool]:
        """The value that something stands for, and whether it is one item of a list that stands for the whole."""
        if isinstance(x, Tensor):
            result = self.tensors[id(x)][1] if id(x) in self.tensors else None
            return (
                (result, False)
                if result is None or result.items is None or result.type == TENSOR
                else (result, True)
            )
        if type(x) in _STANDING.values():
            return x.value, x.as_list
        return None, False

    def text(self, x: Any, kind: Type) -> str:
        """An argument as code of a type; Unfit where it is none."""
        if isinstance(x, (list, tuple)):
            if len(x) == 1:
                value, as_list = self.behind(x[0])
                if value is not None and as_list:
                    if not is_subtype(value.type, kind):
                        raise Unfit
                    return value.text
            element = kind.unwrapped.inner[0] if kind.unwrapped.kind == "List" else None
            if element is None:
                raise Unfit
            text = f"[{', '.join(self.text(v, element) for v in x)}]"
            return f"annotate({kind.unwrapped.text}, {text})" if not x or element.kind == "Optional" else text
        value, _ = self.behind(x)
        if value is not None:
            if not is_subtype(value.type, kind):
                raise Unfit
            return value.text
        return constant_text(x)


def constant_text(x: Any) -> str:
    """A known value as code; Unfit for one that has no words."""
    if isinstance(x, (bool, type(None))):
        return repr(x)
    if isinstance(x, (int, float, complex)):
        return number_text(x)
    if isinstance(x, str):
        return quoted(x)
    try:
        if x in CODES:
            return str(CODES[x])
    except TypeError:
        raise Unfit from None
    if type(x).__name__ == "device":
        return f"torch.device({quoted(str(x))})"
    raise Unfit


def op_text(op: Op, args: Sequence[Simple], kwargs: dict[str, Simple]) -> tuple[str, Type] | None:
    """The call of an operation in ATen's words, which depend on those of its arguments that are known; None where there are none."""
    tokens = Tokens()
    try:
        stand_ins = [tokens.of(a) for a in args]
        named = {k: tokens.of(v) for k, v in kwargs.items()}
        result = written(op, stand_ins, named)
        if result is None:
            return None
        arguments, parts = result.overload.names, []
        for k, (label, value) in enumerate(result.values):
            argument = result.overload.arguments[arguments[label] if label else k]
            parts.append((f"{label}=" if label else "") + tokens.text(value, of_schema(argument.type)))
        returns = result.overload.schema.returns
        text = f"torch.{result.overload.schema.name.removeprefix('aten::')}({', '.join(parts)})"
        if result.item is not None:
            return f"({text})[{result.item}]", of_schema(returns[result.item].type)
        return text, results_of(returns)
    except (Unfit, TypeError, AttributeError):
        return None


def own_text(op: Op, args: Sequence[Simple], kwargs: dict[str, Simple]) -> tuple[str, Type] | str:
    """The call of an operation that ATen has not, under its name here; why not, where it takes no such arguments."""
    name = own_name(op)
    if name is None:
        return f"{op.__name__} has no name in archives"
    schema = op._schema
    types = {a.name: of_schema(a.type) for a in schema.arguments}
    order = list(types.values())
    more = schema.is_vararg
    parts: list[str] = []
    if len(args) > len(order) and not more:
        return f"Expected at most {len(order)} arguments but found {len(args)} positional arguments."
    for label, value in (*((None, a) for a in args), *kwargs.items()):
        wanted = (
            (order[len(parts)] if len(parts) < len(order) else None) if label is None else types.get(label)
        )
        if label is not None and wanted is None and not more:
            return f"Unknown keyword argument '{label}'."
        if wanted is not None and not _takes(wanted, value):
            return _unlike(Parameter(label or list(types)[len(parts)], wanted), value)
        text = _own(value, wanted)
        parts.append(text if label is None else f"{label}={text}")
    return f"ops.{OWN}.{name}({', '.join(parts)})", results_of(schema.returns)


def _takes(wanted: Type, value: Simple) -> bool:
    """Whether a parameter of ours takes a value: what a schema does not tell is taken."""
    target = wanted.unwrapped
    if "Any" in (target.kind, *(t.kind for t in target.inner)):
        return True
    t = value.type
    if fit(value, wanted, {}, 1, False) is not None:
        return True
    alike = {
        TENSOR: (NUMBER, INT, FLOAT, BOOL, COMPLEX),
        NUMBER: (BOOL, TENSOR),
        FLOAT: (INT, NUMBER),
        COMPLEX: (FLOAT, INT),
    }
    if t in alike.get(target, ()) or t == NONE:
        return True
    return target.kind == "List" and t.kind in ("List", "Tuple", "int")


def _own(value: Simple, wanted: Type | None) -> str:
    """An argument of an operation of ours: dtypes and formats by their names."""
    from .._text import own_text as text_of

    if (
        value.is_constant
        and value.constant is not None
        and not isinstance(value.constant, (int, float, complex, str))
    ):
        try:
            return text_of(value.constant, lambda t: value.text)
        except Exception:  # noqa: BLE001  a value that only its text tells
            return value.text
    return value.text
