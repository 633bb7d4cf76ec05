"""Operators, items, truth and iteration."""

from __future__ import annotations

import operator
import types
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ..sources import Attribute, Lacks
from .arrays import seen_through
from .attributes import in_class
from .code import NULL
from .policy import CALLED_BY_CONTAINERS, CONTAINERS, ITERATORS, Policy
from .reads import MAPPINGS, SETS, Reads

NAMES = {
    "+": "add", "&": "and", "//": "floordiv", "<<": "lshift", "@": "matmul", "*": "mul", "%": "mod", "|": "or", "**": "pow",
    ">>": "rshift", "-": "sub", "/": "truediv", "^": "xor",
}  # fmt: skip
FUNCTIONS = {symbol: getattr(operator, f"__{name}__") for symbol, name in NAMES.items()}
IN_PLACE = {symbol: getattr(operator, f"__i{name}__") for symbol, name in NAMES.items()}
UNARY: dict[str, tuple[Any, str]] = {
    "UNARY_NEGATIVE": (operator.neg, "__neg__"),
    "UNARY_POSITIVE": (operator.pos, "__pos__"),
    "UNARY_INVERT": (operator.invert, "__invert__"),
}
COMPARED = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
ITERATES = tuple(vars(kind)["__iter__"] for kind in SETS)
ORDERLESS = ("looks for something in", "looks at the truth of", "looks at the length of", "compares")
IMMUTABLE = (tuple, str, bytes, int, float, complex, frozenset)


class Operators:
    """The part of the interpreter for what has symbols."""

    policy: Policy
    reads: Reads

    if TYPE_CHECKING:

        def refuse(self, why: str) -> None: ...
        def changes(self, value: Any, why: str) -> None: ...
        def writes_item(self, of: Any, key: Any, value: Any, why: str) -> None: ...
        def open(self, value: Any, deep: bool = False) -> None: ...
        def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
        def load_special(self, of: Any, name: str) -> Any: ...
        def opaque(self, value: Any, depth: int = 0, names: tuple[str, ...] = ()) -> bool: ...
        def with_numbers(self, function: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> Any: ...

    def in_c(self, value: Any, *names: str) -> bool:
        """Whether these methods of a value's class are no functions in Python that could be interpreted."""
        if not self.reads.active or self.policy.is_native_object(value):
            return True
        kind = type(value)
        return not any(isinstance(in_class(kind, name), types.FunctionType) for name in names)

    def binary(self, symbol: str, a: Any, b: Any, in_place: bool) -> Any:
        """`a + b`, `a += b` and the like."""
        name = NAMES[symbol]
        forward, backward, own = f"__{name}__", f"__r{name}__", f"__i{name}__"
        if self.in_c(a, forward, backward, own) and self.in_c(b, forward, backward):
            self.transparent(a, "computes with")
            self.transparent(b, "computes with")
            self.open(a)
            formats = symbol == "%" and isinstance(a, (str, bytes, bytearray))
            if formats and self.reads.active and self.opaque(b):
                self.refuse("formats objects with methods in Python")
            self.open(b, formats)
            if in_place and not isinstance(a, IMMUTABLE) and not self.policy.is_native_object(a):
                self.changes(a, f"writes in place ({symbol}=) to an object that was there before")
            function = (IN_PLACE if in_place else FUNCTIONS)[symbol]
            made = self.with_numbers(function, (a, b))
            return function(a, b) if made is NULL else made
        tries = [(a, own, b)] if in_place else []
        tries.append((a, forward, b))
        if type(a) is not type(b):
            first = issubclass(type(b), type(a)) and in_class(type(b), backward) is not in_class(
                type(a), backward
            )
            tries.insert(len(tries) - 1 if first else len(tries), (b, backward, a))
        made = self.first(tries)
        if made is not NotImplemented:
            return made
        return (IN_PLACE if in_place else FUNCTIONS)[symbol](a, b)  # which raises

    def first(self, tries: list[tuple[Any, str, Any]]) -> Any:
        """The first method's result that is not NotImplemented."""
        for of, name, other in tries:
            if in_class(type(of), name) in (NULL, None):
                continue
            if isinstance(
                in_class(type(of), name), types.WrapperDescriptorType
            ):  # which runs nothing of the other's
                self.reads.fix((of, other))
                made = getattr(type(of), name)(of, other)
            else:
                made = self.call(self.load_special(of, name), (other,), {})
            if made is not NotImplemented:
                return made
        return NotImplemented

    def unary(self, name: str, a: Any) -> Any:
        function, method = UNARY[name]
        if self.in_c(a, method):
            self.transparent(a, "computes with")
            made = self.with_numbers(function, (a,))
            return function(a) if made is NULL else made
        return self.call(self.load_special(a, method), (), {})

    def compare(self, symbol: str, a: Any, b: Any) -> Any:
        """`a < b` and the like."""
        function, forward, backward = COMPARED[symbol]
        if symbol == "!=" and self.in_c(a, "__ne__") and self.in_c(b, "__ne__"):
            if not (self.in_c(a, "__eq__") and self.in_c(b, "__eq__")):
                return not self.truth(self.compare("==", a, b))
        if symbol in ("==", "!=") and type(a) is type(b) and type(a) in (list, tuple) and self.reads.active:
            if self.opaque((a, b), names=CALLED_BY_CONTAINERS):
                return self.same_items(a, b) == (symbol == "==")
        if self.in_c(a, forward, backward) and self.in_c(b, forward, backward):
            made = self.with_numbers(function, (a, b))
            if made is not NULL:
                return made
            for value in (a, b):
                self.hashes(value, "compares")
                self.reads.classed(value)
                self.transparent(value, "compares")
                self.open(value, True)
            if symbol in ("==", "!=") and not self.compared_by_value(a, b):
                self.identical(a, b)
            return function(a, b)
        made = self.first([(a, forward, b), (b, backward, a)])
        if made is NotImplemented and symbol in ("==", "!="):
            return self.identical(a, b) == (symbol == "==")
        return function(a, b) if made is NotImplemented else made

    def same_items(self, a: Any, b: Any) -> bool:
        """`a == b` for two lists or tuples, whose items have methods in Python."""
        self.open(a)
        self.open(b)
        return len(a) == len(b) and all(
            self.identical(x, y) or self.truth(self.compare("==", x, y)) for x, y in zip(a, b)
        )

    def compared_by_value(self, a: Any, b: Any) -> bool:
        """Whether equality is more than identity."""
        return in_class(type(a), "__eq__") is not object.__dict__["__eq__"] or (
            in_class(type(b), "__eq__") is not object.__dict__["__eq__"]
        )

    def identical(self, a: Any, b: Any) -> bool:
        """`a is b`; two objects from outside have to be these."""
        if a is not None and b is not None:
            self.reads.fix([x for x in (a, b) if self.reads.number_source(x) is not None])
        if self.reads.active and a is not b and a is not None and b is not None:
            if self.reads.source(a) is not None and self.reads.source(b) is not None:
                self.reads.pin(a)
                self.reads.pin(b)
        return a is b

    def truth(self, a: Any) -> bool:
        """`bool(a)`."""
        if a is True or a is False or a is None:
            return bool(a)
        made = self.with_numbers(bool, (a,)) if self.reads.number_source(a) is not None else NULL
        if made is not NULL:
            return made
        if not self.in_c(a, "__bool__", "__len__"):
            name = "__bool__" if in_class(type(a), "__bool__") is not NULL else "__len__"
            return bool(self.call(self.load_special(a, name), (), {}))
        if self.reads.active and not self.policy.is_native_object(a):
            self.transparent(a, "looks at the truth of", "__bool__", "__len__")
            self.reads.sized(a)
        return bool(a)

    def transparent(self, a: Any, does: str, *names: str) -> None:
        """Refuse to look into an object from outside that no guard describes; `names`: the methods of its class that look.

        Of sets order is not guarded, but for frozen ones.
        """
        if not self.reads.active or self.reads.source(a) is None or isinstance(a, (list, tuple, *MAPPINGS)):
            return
        own = in_class(type(a), "__iter__")
        if own in ITERATES and self.reads.guard_set(a, does in ORDERLESS):
            return
        if isinstance(a, (*CONTAINERS, *ITERATORS, bytearray)) or not self.reads.described(a, names):
            self.refuse(f"{does} a {type(a).__name__} that was there before")

    def hashes(self, a: Any, does: str = "hashes") -> None:
        """Refuse what would run Python's own methods of a value in C, such as `__eq__` and `__hash__` of a key or an item."""
        self.reads.fix(a)
        if self.reads.active and self.opaque(a, names=CALLED_BY_CONTAINERS):
            self.refuse(f"{does} objects with methods in Python inside of a container")

    # --- items ----------------------------------------------------------------------------------------------------------
    def item(self, of: Any, key: Any) -> Any:
        """`of[key]`."""
        if not self.reads.active:
            return of[key]
        if isinstance(of, type):
            return self.class_item(of, key)
        if not self.in_c(of, "__getitem__", "__missing__"):
            return self.call(self.load_special(of, "__getitem__"), (key,), {})
        self.open(key, True)
        self.hashes(key)
        source = self.reads.source(of)
        if source is None or self.policy.is_native_object(of):
            return seen_through(self.reads, of[key], (of,)) if self.reads.aliases else of[key]
        if isinstance(of, (list, tuple)):
            if isinstance(key, slice):
                self.open(of)
                return of[key]
            self.reads.sized(of)
            return self.reads.item(of, operator.index(key), of[key])
        if isinstance(of, MAPPINGS):
            if key not in of:
                self.reads.classed(of)
                self.reads.lacks(source, key)
                if type(of) is defaultdict and of.default_factory is not None:
                    factory = self.reads.read(of.default_factory, Attribute(source, "default_factory"))
                    made = self.call(factory, (), {})
                    self.store_item(of, key, made)
                    return made
            return self.reads.item(of, key, of[key])
        self.transparent(of, "reads an item of")
        return seen_through(self.reads, of[key], (of,))

    def class_item(self, of: Any, key: Any) -> Any:
        result = in_class(type(of), "__getitem__")
        if isinstance(result, types.FunctionType):
            return self.call(self.reads.hold(result), (of, key), {})
        return of[key]

    def store_item(self, of: Any, key: Any, value: Any) -> None:
        """`of[key] = value`."""
        if not self.in_c(of, "__setitem__"):
            self.call(self.load_special(of, "__setitem__"), (key, value), {})
            return
        self.open(key, True)
        self.hashes(key)
        if isinstance(key, slice):
            self.open(value)
        if not isinstance(of, (list, dict)):
            self.reads.fix(value)
        if not self.policy.is_native_object(of):
            self.writes_item(of, key, value, f"writes an item of a {type(of).__name__} that was there before")
        of[key] = value

    def delete_item(self, of: Any, key: Any) -> None:
        """`del of[key]`."""
        if not self.in_c(of, "__delitem__"):
            self.call(self.load_special(of, "__delitem__"), (key,), {})
            return
        self.changes(of, f"deletes an item of a {type(of).__name__} that was there before")
        del of[key]

    def contains(self, of: Any, key: Any) -> bool:
        """`key in of`."""
        if not self.reads.active:
            return key in of
        if not self.in_c(of, "__contains__"):
            return self.truth(self.call(self.load_special(of, "__contains__"), (key,), {}))
        ordered = isinstance(of, (list, tuple)) and (self.opaque(key) or self.opaque(of))
        if ordered or (in_class(type(of), "__contains__") is NULL and not self.in_c(of, "__iter__")):
            for value in self.sequence(of):
                if value is key or self.truth(self.compare("==", value, key)):
                    return True
            return False
        self.hashes(key)
        self.reads.fix(of)
        source = self.reads.source(of)
        if isinstance(of, MAPPINGS) and source is not None:
            self.reads.classed(of)
            if dict.__contains__(of, key):
                self.reads.item(of, key, dict.__getitem__(of, key))
                return True
            self.reads.guard(Lacks(source, key), key)
            return False
        self.transparent(of, "looks for something in")
        self.open(of, True)
        return key in of

    # --- iteration ------------------------------------------------------------------------------------------------------
    def iterate(self, of: Any) -> Any:
        """`iter(of)`."""
        if not self.reads.active:
            return iter(of)
        if not self.in_c(of, "__iter__", "__getitem__"):
            if in_class(type(of), "__iter__") is NULL:
                return self.call(self.by_items, (of,), {})
            return self.call(self.load_special(of, "__iter__"), (), {})
        if isinstance(of, type):
            return self.iterate_class(of)
        self.transparent(of, "iterates over")
        self.open(of)
        return iter(of)

    def iterate_class(self, of: Any) -> Any:
        """The members of an enumeration."""
        result = in_class(type(of), "__iter__")
        if isinstance(result, types.FunctionType):
            return self.call(self.reads.hold(result), (of,), {})
        return iter(of)

    @staticmethod
    def by_items(of: Any) -> Any:
        """The iterator of a sequence that has `__getitem__` alone, interpreted."""
        k = 0
        while True:
            try:
                value = of[k]
            except IndexError:
                return
            yield value
            k += 1

    def step(self, iterator: Any) -> Any:
        """The next value; NULL at the end."""
        try:
            if self.in_c(iterator, "__next__"):
                self.changes(iterator, "advances an iterator that was there before")
                return next(iterator)
            return self.call(self.load_special(iterator, "__next__"), (), {})
        except StopIteration:
            return NULL

    def sequence(self, of: Any) -> list[Any]:
        """All values of an iterable."""
        if not self.reads.active or type(of) in (list, tuple):
            self.open(of)
            return list(of)
        iterator, made = self.iterate(of), []
        while (value := self.step(iterator)) is not NULL:
            made.append(value)
        return made
