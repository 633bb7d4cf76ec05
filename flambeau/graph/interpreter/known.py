"""Functions of Python's library that are called as they are, for what they read is guarded here."""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import re
import types
from typing import TYPE_CHECKING, Any

from ..sources import Item, Keys, Namespace
from .attributes import in_class
from .code import NULL
from .reads import HEAP_TYPE, PINNED, Reads, entries, items_of

if TYPE_CHECKING:
    from .calls import Calls

COPYING = (
    "__deepcopy__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__new__",
    "__getattribute__",
)


def signature_of(m: Calls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`inspect.signature` of a function in Python, which stays what it is."""
    if len(args) != 1 or kwargs:
        return NULL
    function = args[0]
    if type(function) is types.MethodType:
        function, _ = m.reads.bound(function)
    return inspect.signature(args[0]) if type(function) is types.FunctionType else NULL


def makes_annotation(reads: Reads, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call makes an annotation of classes and other annotations, which stay what they are."""
    return function.__module__ in ("typing", "typing_extensions") and all(
        reads.constant(x) or isinstance(x, PINNED) or type(x).__module__ in ("typing", "typing_extensions")
        for value in (*args, *kwargs.values())
        for x in items_of(value)
    )


def got(m: Calls, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of `operator.attrgetter(…)`, `itemgetter(…)` or `methodcaller(…)`."""
    if len(args) != 1 or kwargs:
        return function(*args, **kwargs)  # which raises
    m.reads.pin(function)
    of = args[0]
    made, given = function.__reduce__()
    if isinstance(function, operator.methodcaller):
        named = made.keywords if isinstance(made, functools.partial) else {}
        name, *given = (*made.args, *given) if named else given
        return m.call(m.load_attribute(of, name), tuple(given), named)
    if isinstance(function, operator.itemgetter):
        result = [m.item(of, key) for key in given]
    else:
        result = [functools.reduce(m.load_attribute, name.split("."), of) for name in given]
    return result[0] if len(result) == 1 else tuple(result)


def referent(reference: Any) -> Any:
    """What a weak reference leads to."""
    return reference()


def pattern_of(m: Calls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`re.compile`, and what the other functions of `re` begin with."""
    if len(args) != 2 or kwargs or not all(m.reads.constant(x) or isinstance(x, PINNED) for x in args):
        return NULL
    m.reads.fix(args)
    return m.reads.hold(re._compile(*args))  # type: ignore[attr-defined]


def deepcopied(m: Calls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`copy.deepcopy` of what holds constants in containers and in ordinary objects."""
    if len(args) != 1 or kwargs or not is_plain(m.reads, args[0]):
        return NULL
    read_whole(m, args[0])
    return copy.deepcopy(args[0])


def is_plain(reads: Reads, value: Any, depth: int = 0) -> bool:
    """Whether a deep copy of a value reads nothing but what `read_whole` guards, and runs nothing of the program's."""
    if reads.constant(value) or isinstance(value, PINNED):
        return True
    if depth > 16:
        return False
    if type(value) in (list, tuple, dict):
        parts = [part for pair in entries(value) for part in pair]
    elif is_ordinary(value):
        parts = list(vars(value).values())
    else:
        return False
    return all(is_plain(reads, part, depth + 1) for part in parts)


def is_ordinary(value: Any) -> bool:
    """Whether an object is of a class in Python without slots, bases in C and ways of its own to be copied."""
    kind = type(value)
    return (
        bool(kind.__flags__ & HEAP_TYPE)
        and all(
            base is object or base.__flags__ & HEAP_TYPE and "__slots__" not in vars(base)
            for base in kind.__mro__
        )
        and all(in_class(kind, name) in (NULL, vars(object).get(name)) for name in COPYING)
    )


def read_whole(m: Calls, value: Any) -> None:
    """Guard all there is of a plain value."""
    if m.reads.constant(value) or isinstance(value, PINNED):
        m.reads.fix(value)
        m.reads.pin(value)
        return
    if type(value) in (list, tuple, dict):
        m.open(value)
        for _, part in entries(value):
            read_whole(m, part)
        return
    source = m.reads.classed(value)
    if source is not None:
        m.reads.guard(Keys(Namespace(source), tuple(vars(value))))
    for name, part in vars(value).items():
        if source is not None:
            m.reads.read(part, Item(Namespace(source), name))
        read_whole(m, part)
