"""Which objects a call took from outside, by which source, and what has to hold of these sources."""

from __future__ import annotations

import enum
import functools
import re
import types
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from typing import Any

from ..guards import renewed
from ..sources import (
    Arguments,
    Attribute,
    ClassIs,
    Computed,
    End,
    Equals,
    Guard,
    Is,
    Item,
    Keys,
    Keywords,
    Lacks,
    Length,
    Object,
    Same,
    Source,
    is_item,
)
from .arrays import guarded, is_array
from .policy import ITERATORS, VALUES, Policy

NUMBERS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
PINNED = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.GenericAlias,
    property,
    staticmethod,
    classmethod,
    enum.Enum,
    range,
    re.Pattern,
)
KNOWN_CLASSES = frozenset(
    (object, types.MethodType, types.SimpleNamespace, functools.partial, *VALUES, *ITERATORS)
)
MAPPINGS = (dict, OrderedDict)
SETS = (set, frozenset)
LARGEST = 1 << 63  # an int below it, and above its negative, is one of 64 bits
HEAP_TYPE = 1 << 9  # a class made in Python, which no function in C knows the attributes of


class Reads:
    """Objects from outside, each with the first source by which it was read, and the guards in the order of reading.

    An object is identified by its identity, so nothing has to follow a value through the program's own containers.  Constants are
    guarded when they are read; functions, classes and modules are guarded to be these; of other objects only what is
    read of them is guarded.

    A number from a source among `variable` may be another at the next call.  It is an object of its own, identified so too, as is
    what is computed of it; where the program looks at it, or hands it to what cannot take another, it is guarded as a constant is.
    """

    def __init__(
        self, policy: Policy, refuse: Callable[[str], None], variable: Container[Source] = ()
    ) -> None:
        self.policy, self.refuse = policy, refuse
        self.variable = variable
        self.numbers: dict[int, tuple[float, Source]] = {}
        self.fresh: dict[Source, float] = {}
        self.known: dict[int, tuple[Any, Source]] = {}
        self.aliases: dict[int, Any] = {}  # views of arrays from outside, by identity
        self.calls: dict[Any, Any] = {}  # of functions with caches, and what they gave
        self.guards: list[Guard] = []
        self.met: set[Any] = set()
        self.written: dict[Source, Any] = {}  # places that the program wrote to, and what lies there now
        self.tails: dict[Source, list[End]] = {}  # of lists, what it appended
        self.cleared: set[Source] = set()  # places that it set to None first
        self.changed: dict[
            Source, tuple[Any, ...]
        ] = {}  # dicts that have got keys, and those before the call
        self.active = True

    def close(self) -> None:
        """The call is over: let go of what it read and wrote.  A generator that it returned may run on."""
        self.active = False
        for held in (
            self.numbers,
            self.fresh,
            self.calls,
            self.known,
            self.met,
            self.written,
            self.tails,
            self.aliases,
            self.cleared,
            self.changed,
        ):
            held.clear()

    def guard(self, guard: Guard, *key: Any) -> None:
        """Add a guard, unless the same stands there."""
        mark = (type(guard), guard.source, *key)
        if mark not in self.met:
            self.met.add(mark)
            self.guards.append(guard)

    def constant(self, value: Any) -> bool:
        """Whether equality with the value is all that a program can tell of another one."""
        kind = type(value)
        if kind in NUMBERS or self.policy.is_constant(value):
            return True
        if kind is slice:
            return all(map(self.constant, (value.start, value.stop, value.step)))
        return kind is tuple and all(map(self.constant, value))

    def source(self, value: Any) -> Source | None:
        """By which source an object was read; None for what the call made."""
        result = self.known.get(id(value))
        return None if result is None else result[1]

    def is_outside(self, value: Any) -> bool:
        """Whether a write to an object is one to something that was there before the call."""
        return id(value) in self.known or id(value) in self.aliases

    def read(self, value: Any, source: Source) -> Any:
        """The value, which the program takes from that source."""
        if not self.active or source in self.met:
            return value
        self.met.add(source)
        if self.constant(value):
            self.guards.append(Equals(source, value))
        elif isinstance(value, PINNED) or self.policy.is_pinned(value):
            self.guards.append(Is(source, value))
            self.hold(value)
        else:
            before = self.source(value)
            if before is None:
                self.known[id(value)] = value, source
                guard = self.policy.input(value, source)
                if guard is not None:
                    self.guards.append(guard)
            elif before != source:
                self.guards.append(Same(source, before))
        return value

    def take(self, value: Any, source: Source) -> Any:
        """As `read`, where the program gets what is returned: a number that may vary as an object of its own."""
        if self.active and varies(value) and source in self.variable and source not in self.met:
            self.guard(ClassIs(source, type(value)))
            return self.number(value, source)
        return self.read(value, source)

    def number(self, value: float, source: Source) -> float:
        """A number as an object of its own."""
        if source not in self.fresh:
            made = self.fresh[source] = renewed(value)
            self.numbers[id(made)] = made, source
        return self.fresh[source]

    def number_source(self, value: Any) -> Source | None:
        """The source of a number that may vary; None for any other object."""
        result = self.numbers.get(id(value))
        return None if result is None else result[1]

    def fix(self, value: Any, depth: int = 0) -> None:
        """The program, or a function in C, looks at a number, or at those in a container: they are guarded."""
        if not self.active or not (self.numbers or self.variable) or type(value) is str:
            return
        source = self.number_source(value)
        if source is not None:
            self.look(source, value)
        elif isinstance(value, (list, tuple)) and depth < 8:
            for _, item in entries(value):
                self.fix(item, depth + 1)
        elif isinstance(value, SETS) and depth < 8:
            for item in frozenset(value):
                self.fix(item, depth + 1)
        elif isinstance(value, dict) and depth < 8:
            for key, item in dict.items(value):
                self.fix(key, depth + 1)
                self.fix(item, depth + 1)
        elif type(value) is slice:
            self.fix((value.start, value.stop, value.step), depth + 1)
        elif not self._plain(value):  # an iterator, or what else in C holds objects
            for number, source in list(self.numbers.values()):
                self.look(source, number)
            self.variable = ()

    def look(self, source: Source, number: float) -> None:
        """The program looks at a number that may be another."""
        if is_item(source):
            self.refuse("looks at a value of a tensor (item)")
        else:
            self.guard(Equals(source, number))

    def _plain(self, value: Any) -> bool:
        """Whether a function in C finds no number in an object, which is no container of Python's own."""
        if self.constant(value) or isinstance(value, PINNED) or self.policy.is_pinned(value):
            return True
        return self.policy.is_native_object(value) or bool(type(value).__flags__ & HEAP_TYPE)

    def write(self, place: Source, value: Any) -> None:
        """The program wrote there; what it reads there from now on is its own."""
        self.met.add(place)
        if value is None and place not in self.written:
            self.cleared.add(place)
        self.written[place] = value

    def ends(self, of: Source) -> list[End]:
        """The places behind those that a list had before the call, which the program has appended to."""
        return self.tails.get(of, [])

    def extend(self, of: Source, keys: dict[Any, Any]) -> None:
        """The program is about to put something under a new key of a dict."""
        self.changed.setdefault(of, tuple(key for key, _ in entries(keys)))

    def append(self, of: Source, value: Any) -> None:
        """The program appended to a list."""
        tail = self.tails.setdefault(of, [])
        tail.append(End(of, len(tail)))
        self.write(tail[-1], value)

    def pop(self, of: Source) -> None:
        """It took off again what it appended last."""
        del self.written[self.tails[of].pop()]

    def hold(self, value: Any) -> Any:
        """The value, which is the same object at each call."""
        if self.active and not self.constant(value) and id(value) not in self.known:
            source = Object(value)
            self.known[id(value)] = value, source
            if not isinstance(value, PINNED):
                guard = self.policy.input(value, source)
                if guard is not None:
                    self.guards.append(guard)
        return value

    def pin(self, value: Any) -> None:
        """The value has to be this object."""
        source = self.source(value)
        if source is not None and not isinstance(source, Object):
            self.guard(Is(source, value))

    def classed(self, value: Any) -> Source | None:
        """The source of an object whose class the program looks at."""
        source = self.source(value)
        if source is not None and not isinstance(value, PINNED) and not self.policy.is_input(value):
            self.guard(ClassIs(source, type(value)))
        return source

    def sized(self, value: Any) -> Source | None:
        """The source of a container whose class and length, or keys, the program looks at."""
        source = self.classed(value)
        if source is None:
            return None
        if source in self.changed and not of_arguments(source):  # which grows from call to call
            self.refuse(f"reads all of a {type(value).__name__} that it has put something into")
        if isinstance(value, MAPPINGS):
            keys = self.changed.get(source)
            keys = tuple(key for key, _ in entries(value)) if keys is None else keys
            for key in keys:
                self.pin(key)
            self.guard(Keys(source, keys))
        elif isinstance(value, (list, tuple)):
            self.guard(Length(source, length_of(value) - len(self.ends(source))))
        return source

    def open(self, value: Any, deep: bool = False, among: tuple[int, ...] = ()) -> None:
        """The program, or a function in C, reads all items of a container; `deep`: and theirs."""
        if not self.active or type(value) in NUMBERS or id(value) in among:
            return
        items: Any = ()
        if isinstance(value, (list, tuple, dict)):
            items = entries(value)
        elif isinstance(value, types.MethodType):
            self.bound(value)
            return
        else:
            if isinstance(value, slice):
                items = [("start", value.start), ("stop", value.stop), ("step", value.step)]
                for name, item in items:
                    self.item(value, name, item)
            return
        source = self.sized(value)
        own = None if source is None or isinstance(value, dict) else len(items) - len(self.ends(source))
        for k, (key, item) in enumerate(items):
            if source is not None and (own is None or k < own):
                self.read(item, Item(source, key))
            if deep:
                self.open(item, deep, (*among, id(value)))

    def whole(self, value: Any) -> None:
        """A function in C reads all there is of an argument: the items of containers; other objects have to be these."""
        self.classed(value)
        self.open(value, True)
        for item in items_of(value):
            if not self.constant(item) and not self.policy.is_input(item):
                self.pin(item)

    def described(self, value: Any, names: tuple[str, ...] = ()) -> bool:
        """Whether operators of an object from outside (`names`: these methods) find nothing in it but what guards tell; the elements of an
        array are guarded here.
        """
        source = self.source(value)
        if (
            source is None
            or self.constant(value)
            or isinstance(value, PINNED)
            or self.policy.is_pinned(value)
        ):
            return True
        if self.policy.is_native_object(value) or not computes_in_c(type(value), names):  # type: ignore[arg-type]
            return True
        guard = guarded(source, value) if is_array(value) else None
        if guard is not None:
            self.guard(guard, "elements")
        return guard is not None

    def guard_set(self, value: Any, orderless: bool) -> bool:
        """Guard what is in a set from outside, where that can be done; `orderless`: what is made of it is the same in any order."""
        source = self.classed(value)
        if isinstance(value, frozenset):  # whose items are these, too
            self.pin(value)
            for x in value:
                self.hold(x)
            return True
        if source is None or not all(self.constant(x) or isinstance(x, PINNED) for x in value):
            return False
        orderless = orderless or len(value) < 2
        if orderless:
            self.guard(Equals(Computed(frozenset, (source,)), frozenset(value)))
        return orderless

    def item(self, of: Any, key: Any, value: Any) -> Any:
        """The value, read at a key of an exact container or as an attribute of a slice."""
        source = self.classed(of)
        if source is None:
            return value
        if isinstance(of, slice):
            return self.read(value, Attribute(source, key))
        if isinstance(of, (list, tuple)) and isinstance(key, int):
            before = length_of(of) - len(self.ends(source))
            self.guard(Length(source, before))
            key = key + length_of(of) if key < 0 else key
            if key >= before:
                return value
        else:
            self.pin(key)
        return self.take(value, Item(source, key))

    def lacks(self, of: Source, key: Any) -> None:
        """The program looked for a key that a dict has not."""
        if self.active:
            self.guard(Lacks(of, key), key)

    def bound(self, method: types.MethodType) -> tuple[Any, Any]:
        """Function and object of a bound method."""
        source = self.classed(method)
        if source is not None:
            self.read(method.__func__, Attribute(source, "__func__"))
            self.read(method.__self__, Attribute(source, "__self__"))
        return method.__func__, method.__self__


IGNORED_METHODS = frozenset(
    "__init__ __new__ __repr__ __str__ __getattribute__ __setattr__ __delattr__ __call__ __get__ __set__ __del__".split()
)


@functools.lru_cache(maxsize=4096)
def computes_in_c(kind: type, names: tuple[str, ...] = ()) -> bool:
    """Whether operators of a class (`names`: these methods) are functions in C, and not those of Python's containers and values."""
    return any(
        isinstance(value, types.WrapperDescriptorType)
        and (name in names if names else name not in IGNORED_METHODS)
        and value.__objclass__ is base
        for base in kind.__mro__
        if base not in KNOWN_CLASSES and not issubclass(base, BaseException)
        for name, value in vars(base).items()
    )


def varies(value: Any) -> bool:
    """Whether a number of this class may be another at the next call: a float, or an int of 64 bits."""
    return type(value) is float or (type(value) is int and -LARGEST < value < LARGEST)


def entries(value: Any) -> list[tuple[Any, Any]]:
    """What lies in a list, tuple or dict under which key, whatever methods in Python its class has."""
    if isinstance(value, dict):
        return list((OrderedDict if isinstance(value, OrderedDict) else dict).items(value))
    return list(enumerate((list if isinstance(value, list) else tuple).__iter__(value)))


def of_arguments(source: Source) -> bool:
    """Whether an object lies among the arguments, in containers alone."""
    while isinstance(source, Item):
        source = source.of
    return isinstance(source, (Arguments, Keywords))


def length_of(value: Any) -> int:
    """How many items a list or tuple has, whatever `__len__` its class has."""
    return (list if isinstance(value, list) else tuple).__len__(value)


def items_of(value: Any, depth: int = 0) -> Iterator[Any]:
    """A value that is no container of Python's own, or those in it."""
    if isinstance(value, (list, tuple, dict)) and depth < 8:
        for _, item in entries(value):
            yield from items_of(item, depth + 1)
    elif not isinstance(value, slice):
        yield value
