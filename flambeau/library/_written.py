"""Calls of operations here, written as ATen's: which overload, and its arguments in order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.base.dtypes import dtype as DType
from ..core.call.operation import Op
from . import _aten
from ._aten_forms import FORMS
from ._calls import (
    ABSENT,
    HINTS,
    REDUCTIONS,
    Overload,
    Target,
    Unfit,
    fitted,
    is_covered,
    kind_of,
    same,
    texts,
)
from ._schema import Argument, parse_schema


class Written(NamedTuple):
    """A call as ATen has it: the values of its arguments in the schema's order; those left out at the end are not there."""

    overload: Overload
    values: list[tuple[str, Any]]  # names are "" for arguments by position
    item: int | None = None  # which of ATen's results is the call's one


def _of(overload: Overload, bound_args: dict[str, Any], defaults: dict[str, Any]) -> Written:
    """A call of the operation here, with its bound arguments, as a call of this overload; Unfit where it cannot be one."""
    left = dict(bound_args)
    result: list[tuple[Argument, Any]] = []
    for argument, target in zip(overload.arguments, overload.plan):
        if target is not None and target.is_variadic and not target.alone:
            value = _item(left, target)
        elif target is None or target.name not in left:
            if target is not None and target.name in defaults:
                value = defaults[target.name]
                if value is None and argument.defaulted:
                    continue
            elif not argument.defaulted:
                if argument.name in HINTS:
                    result.append((argument, argument.type.base == "bool"))
                    continue
                raise Unfit
            else:
                continue
        else:
            value = left.pop(target.name)
        if target.reduces:
            if value not in REDUCTIONS:
                raise Unfit
            value = REDUCTIONS.index(value)
        if target.is_variadic and target.alone and len(value) == 1 and isinstance(value[0], (list, tuple)):
            value = value[0]
        t = argument.type
        if t.base == "Generator":
            if value is not None:
                raise Unfit
            continue
        if argument.defaulted and (
            same(value, argument.default_value) or (value is None and argument.default_value == [])
        ):
            continue
        result.append((argument, fitted(value, t.base, t.form, t.length, False)))
    for name, value in left.items():
        if name not in defaults or not same(value, defaults[name]):
            raise Unfit
    return Written(overload, _in_order(overload.arguments, result))


def _item(left: dict[str, Any], target: Target) -> Any:
    """The next of the values that a parameter for many was given."""
    if not left.get(target.name):
        raise Unfit
    value, *rest = left[target.name]
    left[target.name] = tuple(rest)
    if not rest:
        del left[target.name]
    return value


def _in_order(arguments: Sequence[Argument], result: list[tuple[Argument, Any]]) -> list[tuple[str, Any]]:
    """By position as far as all before it are there, by name from then on."""
    written, by_name = [], False
    for k, (argument, value) in enumerate(result):
        by_name = by_name or argument.kwarg_only or arguments[k] is not argument
        written.append((argument.name if by_name else "", value))
    return written


_HOMES = ("", "Tensor", "nn.functional")  # where ATen's names are ours


@functools.cache
def _writable(op: Op) -> tuple[Overload, ...]:
    """The overloads that calls of an operation may be written as: those of its names in ATen, and of its public places there."""
    names = [name for name, other in _aten.names().items() if other is op]
    names.sort(key=lambda name: name != getattr(op, "aten", None))  # what the declaration says comes first
    entry = op.entry
    if entry is not None:
        ending = "_" if op is entry.in_place else ""
        for place in entry.places:
            home, _, name = place.rpartition(".")
            name += ending
            if home in _HOMES and name not in names and name in texts():
                names.append(name)
    result = (
        Overload(parse_schema("aten::" + text), op, True) for name in names for text in texts().get(name, ())
    )
    return tuple(sorted((overload for overload in result if is_covered(overload)), key=_left_out))


def _left_out(overload: Overload) -> int:
    """How many parameters that matter by default an overload does not have."""
    reached = {t.name for t in overload.plan if t is not None}
    own = _aten._parameters(overload.function).parameters.values()
    return sum(p.name not in reached and p.default not in (p.empty, None, False) for p in own)


def _one_list(values: Sequence[Any]) -> Any:
    """What a parameter for many was given: the numbers themselves, or a list of them."""
    return values[0] if len(values) == 1 and isinstance(values[0], (list, tuple)) else values


def bound(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a call by parameter, those named beside a catch-all too, and the defaults."""
    signature = _aten._parameters(op)
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    sized = len(positional) - 1 if positional and positional[-1].name == "size" else len(args)
    if len(args) > sized and kind_of(args[sized]) is int:  # `zeros(2, 3)`
        args = (*args[:sized], args[sized:])
    try:
        result = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise Unfit(str(error)) from None
    for k, p in enumerate(parameters):
        if p.kind is p.VAR_KEYWORD and p.name in result:
            result.update(result.pop(p.name))
        if p.kind is p.VAR_POSITIONAL and result.get(p.name) and k + 1 < len(parameters):
            named = parameters[k + 1]  # the same by name: `view(*shape, size=None, dtype=None)`
            alike = named.name in p.name or (p.name, named.name) == ("shape", "size")
            if named.kind is named.KEYWORD_ONLY and alike:
                value = _one_list(result.pop(p.name))
                alone = isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], DType)
                result["dtype" if alone else named.name] = value[0] if alone else value
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    return dict(result), defaults


def written(op: Op, args: Sequence[Any], kwargs: dict[str, Any], named: bool = False) -> Written | None:
    """A call of one of our operations as ATen has it; None where ATen has no such call.

    Where the overload is `named` beside the call, it is the one that takes the fewest arguments; else the call leaves ATen no other.
    """
    try:
        bound_args, defaults = bound(op, args, kwargs)
    except Unfit:
        return None
    form = FORMS.get(op.entry.name) if op.entry is not None and op is op.entry.function else None
    if form is not None:
        result = _formed(form, bound_args)
        if result is not None:
            return result
    in_place = bound_args.get("inplace") is True
    if in_place:
        bound_args["inplace"] = False
    fitting: list[Written] = []
    for overload in _writable(op):
        try:
            result = _of(overload, bound_args, defaults)
        except Unfit:
            continue
        if named and not in_place:
            fitting.append(result)
            continue
        if not in_place:
            return _settled(overload, result, defaults)
        name = overload.schema.name.removeprefix("aten::") + "_"
        values = {overload.arguments[k].name if not n else n: v for k, (n, v) in enumerate(result.values)}
        return _fitting(name, (), values)
    return min(fitting, key=lambda result: len(result.values), default=None)


def _settled(overload: Overload, result: Written, defaults: dict[str, Any]) -> Written:
    """The call with so many of its defaults written out that ATen takes this overload of the name and no other."""
    args = [v for n, v in result.values if not n]
    kwargs = {n: v for n, v in result.values if n}
    for text in texts()[overload.schema.name.removeprefix("aten::")]:
        other = parse_schema("aten::" + text)
        if str(other) == str(overload.schema):
            return result
        try:
            Overload(other, None, False).bind(args, kwargs)
        except Unfit:
            continue
        break
    by_name = {overload.arguments[k].name if not n else n: v for k, (n, v) in enumerate(result.values)}
    settled = []
    for argument, target in zip(overload.arguments, overload.plan):
        if argument.name in by_name:
            settled.append((argument, by_name[argument.name]))
        elif target is not None and defaults.get(target.name) is not None:
            value = defaults[target.name]
            value = REDUCTIONS.index(value) if target.reduces else value
            settled.append((argument, value))
    return Written(overload, _in_order(overload.arguments, settled), result.item)


def _formed(form: Callable[..., Any], bound_args: dict[str, Any]) -> Written | None:
    try:
        result = form(**bound_args)
    except (TypeError, Unfit):
        return None
    return None if result is None else _fitting(*result)


def _fitting(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], item: int | None = None
) -> Written | None:
    """A call of ATen with these arguments as the first overload that takes them has it."""
    for text in texts().get(name, ()):
        overload = Overload(parse_schema("aten::" + text), None, False)
        try:
            values = overload.bind(args, kwargs)
        except Unfit:
            continue
        pairs = [(a, v) for a, v in zip(overload.arguments, values) if v is not ABSENT]
        return Written(overload, _in_order(overload.arguments, pairs), item)
    return None
