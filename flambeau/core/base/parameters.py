"""What functions of Python and Cython take, without `inspect`: importing that costs more than declaring fifty operations, and at the
interpreter's end nothing is imported.

A decorated function says its parameters by `describe_parameters`, a function that lists them; `functools.wraps` hands it on.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import inspect

_ARGS, _KWARGS, _GENERATOR = 0x04, 0x08, 0x20  # flags of code
BY_PLACE, STARRED, BY_NAME = range(3)  # how arguments are given
MISSING = object()  # the default, or the annotation, of a parameter that has none
Parameter = tuple[str, int, Any, Any]  # name, how it is given, default, annotation


def described(function: Callable) -> list[Parameter]:
    """The parameters in order; TypeError or ValueError where they cannot be known."""
    late = getattr(function, "describe_parameters", None)
    if late is not None:
        return late()
    if getattr(function, "__text_signature__", "") == "($self)":  # a compiled method that takes nothing
        return [("self", BY_PLACE, MISSING, MISSING)]
    own = vars(function) if hasattr(function, "__dict__") else {}
    if "__wrapped__" in own and "__signature__" not in own:
        return described(own["__wrapped__"])
    if "__signature__" in own or not _is_plain(function):
        return _inspected(function)
    code = function.__code__
    names, first = code.co_varnames, code.co_argcount
    last = first + code.co_kwonlyargcount
    notes, by_place = function.__annotations__, function.__defaults__ or ()  # type: ignore[attr-defined]
    by_name = function.__kwdefaults__ or {}  # type: ignore[attr-defined]
    defaults = (MISSING,) * (first - len(by_place)) + tuple(by_place)
    result = [(n, BY_PLACE, d, notes.get(n, MISSING)) for n, d in zip(names, defaults)]
    if code.co_flags & _ARGS:
        result.append((names[last], STARRED, MISSING, MISSING))
        last += 1
    named = names[first : first + code.co_kwonlyargcount]
    result += [(n, BY_NAME, by_name.get(n, MISSING), notes.get(n, MISSING)) for n in named]
    if code.co_flags & _KWARGS:
        result.append((names[last], STARRED, MISSING, MISSING))
    return result


def _is_plain(function: Callable) -> bool:
    return type(function) is FunctionType or type(function).__name__ == "cython_function_or_method"


def _inspected(function: Callable) -> list[Parameter]:
    import inspect

    kinds: dict[Any, int] = {
        inspect.Parameter.VAR_POSITIONAL: STARRED,
        inspect.Parameter.VAR_KEYWORD: STARRED,
        inspect.Parameter.KEYWORD_ONLY: BY_NAME,
    }
    known = lambda value, p: MISSING if value is p.empty else value
    return [
        (p.name, kinds.get(p.kind, BY_PLACE), known(p.default, p), known(p.annotation, p))
        for p in inspect.signature(function).parameters.values()
    ]


def parameters(function: Callable) -> tuple[list[str], dict[str, Any]]:
    """The names of those that are given by position, stars among them, and those given by name alone with their defaults."""
    every = described(function)
    return [n for n, kind, _, _ in every if kind != BY_NAME], {
        n: default for n, kind, default, _ in every if kind == BY_NAME
    }


def signature(function: Callable) -> inspect.Signature:
    """What `inspect` tells of a function, and what its decorators add."""
    import inspect

    result = inspect.signature(function)
    if not hasattr(function, "describe_parameters"):
        return result
    kinds, known = inspect.Parameter, lambda value: inspect.Parameter.empty if value is MISSING else value
    return result.replace(
        parameters=[
            kinds(
                name,
                kinds.KEYWORD_ONLY if kind == BY_NAME else kinds.POSITIONAL_OR_KEYWORD,
                default=known(default),
                annotation=known(annotation),
            )
            for name, kind, default, annotation in described(function)
        ]
    )


def is_generator(function: Callable) -> bool:
    """Whether a call of it gives a generator."""
    if type(function) is FunctionType:
        return bool(function.__code__.co_flags & _GENERATOR)
    import inspect

    return inspect.isgeneratorfunction(function)
