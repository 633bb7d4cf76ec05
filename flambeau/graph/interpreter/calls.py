"""Calls: what is interpreted, what runs in C, and what refuses the capture."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..sources import Attribute, Computed, Equals
from . import arrays
from .attributes import in_class
from .code import NULL, Frame
from .known import deepcopied, got, makes_annotation, pattern_of, referent, signature_of
from .policy import CONSTRUCTED, GETTERS, ITERATORS, PURE, VALUES, Policy, writes
from .reads import PINNED, Reads, items_of

BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
UNBOUND = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
SORTING = (sorted, min, max, any, all)  # what they make of a set is the same in any order
CONVERSIONS = (list, tuple, set, frozenset)
# Classes that hold what they are made of, and methods of containers that hand on what they are given: an index or a key comes first.
HOLDING: tuple[Any, ...] = (
    list, tuple, zip, enumerate, reversed, slice, types.SimpleNamespace, functools.partial, BaseException,
)  # fmt: skip
KEYED_FIRST = frozenset("insert pop get setdefault __getitem__ __setitem__".split())
HANDING = KEYED_FIRST | frozenset(
    "append appendleft extend extendleft popleft popitem items values keys copy clear reverse __iter__ __len__ __next__".split()
)


def _map(function: Any, *iterables: Any) -> Any:
    for args in zip(*iterables):
        yield function(*args)


def _filter(function: Any, iterable: Any) -> Any:
    for value in iterable:
        if value if function is None else function(value):
            yield value


def _sorted(iterable: Any, *, key: Any = None, reverse: bool = False) -> Any:
    values = list(iterable)
    if key is None:
        return _sort(values, reverse=reverse)
    keys = [key(value) for value in values]
    order = _sort(list(range(len(keys))), key=keys.__getitem__, reverse=reverse)
    return [values[k] for k in order]


_sort = sorted  # which is called as it is


def _best(choose: Callable[..., Any], better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def best(*args: Any, key: Any = None, **kwargs: Any) -> Any:
        values = list(args[0]) if len(args) == 1 else list(args)
        if not values:
            return choose(values, **kwargs)
        result = values[0]
        least = result if key is None else key(result)
        for value in values[1:]:
            other = value if key is None else key(value)
            if better(other, least):
                result, least = value, other
        return result

    return best


def _reduce(function: Any, iterable: Any, *initial: Any) -> Any:
    iterator = iter(iterable)
    value = initial[0] if initial else next(iterator, _reduce)
    if value is _reduce:
        raise TypeError("reduce() of empty iterable with no initial value")
    for other in iterator:
        value = function(value, other)
    return value


REPLACED: dict[Any, Any] = {map: _map, filter: _filter, functools.reduce: _reduce}
KEYED: dict[Any, Any] = {
    sorted: _sorted,
    min: _best(min, lambda a, b: a < b),
    max: _best(max, lambda a, b: a > b),
}


# Methods in Python that no function in C calls behind a program's back.
HARMLESS = frozenset(
    "__init__ __new__ __post_init__ __init_subclass__ __class_getitem__ __getattr__ __setattr__ __enter__ __exit__ __call__ "
    "__reduce__ __reduce_ex__ __getstate__ __setstate__ __copy__ __deepcopy__ __dir__ __getnewargs__ __replace__".split()
)


@functools.lru_cache(maxsize=4096)
def interprets(kind: type, names: tuple[str, ...] = ()) -> bool:
    """Whether a class has methods in Python that operators and functions in C call; `names`: one of these."""
    return any(
        isinstance(value, types.FunctionType)
        and (name in names if names else name[:2] == name[-2:] == "__" and name not in HARMLESS)
        for base in kind.__mro__
        if base.__module__ != "enum"  # whose methods look at names and values alone
        for name, value in vars(base).items()
    )


class Calls:
    """The part of the interpreter that calls."""

    policy: Policy
    reads: Reads
    frame: Frame | None
    handled: BaseException | None

    if TYPE_CHECKING:

        def refuse(self, why: str) -> None: ...
        def changes(self, value: Any, why: str) -> None: ...
        def appends(self, of: Any, value: Any) -> bool: ...
        def pops(self, of: Any) -> bool: ...
        def open(self, value: Any, deep: bool = False) -> None: ...
        def call_function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
        def load_attribute(self, of: Any, name: str) -> Any: ...
        def load_special(self, of: Any, name: str) -> Any: ...
        def store_attribute(self, of: Any, name: str, value: Any) -> None: ...
        def iterate(self, of: Any) -> Any: ...
        def item(self, of: Any, key: Any) -> Any: ...
        def sequence(self, of: Any) -> list[Any]: ...
        def step(self, iterator: Any) -> Any: ...
        def truth(self, a: Any) -> bool: ...
        def transparent(self, a: Any, does: str, *names: str) -> None: ...
        def in_c(self, value: Any, *names: str) -> bool: ...
        def local_names(self) -> dict[str, Any]: ...
        def with_numbers(self, function: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> Any: ...

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`function(*args, **kwargs)`."""
        special = SPECIAL.get(function) if isinstance(function, HASHED) else None
        if not self.reads.active:
            return (
                special(self, args, kwargs)
                if special in OF_FRAMES
                else self.call_as_it_is(function, args, kwargs)
            )
        if special is not None:
            made = special(self, args, kwargs)
            if made is not NULL:
                return made
        if self.policy.is_native(function):
            return self.call_native(function, args, kwargs)
        kind = type(function)
        if kind is types.FunctionType:
            inner = self.policy.replaced(function)
            if inner is None and makes_annotation(self.reads, function, args, kwargs):
                return function(*args, **kwargs)
            return self.call_function(function if inner is None else inner, args, kwargs)
        if kind is types.MethodType:
            inner, of = self.reads.bound(function)
            return self.call(inner, (of, *args), kwargs)
        inner = self.policy.replaced(function)
        if inner is not None:
            return self.call(inner, args, kwargs)
        if isinstance(function, type):
            return self.call_class(function, args, kwargs)
        if kind is functools.partial:
            return self.call_partial(function, args, kwargs)
        if kind in GETTERS:
            return got(self, function, args, kwargs)
        if kind is weakref.ReferenceType and not args and not kwargs:
            source = self.reads.classed(function)
            return (
                function() if source is None else self.reads.read(function(), Computed(referent, (source,)))
            )
        if isinstance(function, functools._lru_cache_wrapper):
            return self.call_cached(function, args, kwargs)
        if isinstance(function, (types.BuiltinFunctionType, *BOUND, *UNBOUND)):
            return self.call_builtin(function, args, kwargs)
        result = in_class(kind, "__call__")
        inner = None if result is NULL else self.policy.replaced(result)
        if inner is not None:
            self.reads.classed(function)
            return self.call(inner, (function, *args), kwargs)
        if isinstance(result, types.FunctionType):
            return self.call(self.load_special(function, "__call__"), args, kwargs)
        return self.call_unknown(function, args, kwargs)

    def call_as_it_is(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that is not interpreted, and finds the exception that is handled now where it looks for one."""
        error = self.handled
        if error is None:
            return function(*args, **kwargs)
        trace, context = error.__traceback__, error.__context__
        try:
            raise error
        except BaseException:  # noqa: BLE001  raised the line before, for `sys.exc_info()`
            error.__traceback__, error.__context__ = trace, context
            return function(*args, **kwargs)

    def call_native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As it is: it reads all of its arguments and nothing else."""
        why = self.policy.refuses(function, args)
        if why is not None:
            self.refuse(why)
        for value in (*args, *kwargs.values()):
            self.reads.whole(value)
            if any(isinstance(item, (types.FunctionType, types.MethodType)) for item in items_of(value)):
                self.refuse(f"hands a function in Python to {function.__name__}")
        made = self.with_numbers(function, args, kwargs)
        return self.policy.run(function, args, kwargs) if made is NULL else made

    def call_unknown(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.reads.active and arrays.is_function(function):
            made = arrays.called(self, function, args, kwargs)
            if made is not NULL:
                return made
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        module = getattr(function, "__module__", None) or type(function).__module__
        self.refuse(f"calls {module}.{name}, of which nothing is known")
        return function(*args, **kwargs)

    def call_partial(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inner, given, named = function.func, function.args, function.keywords
        source = self.reads.classed(function)
        if source is not None:
            self.reads.read(inner, Attribute(source, "func"))
            self.open(self.reads.read(given, Attribute(source, "args")))
            self.open(self.reads.read(named, Attribute(source, "keywords")))
        return self.call(inner, (*given, *args), {**named, **kwargs})

    def call_cached(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function with a cache: of constants it is called at each check of the guards, which finds what the cache holds."""
        given = (*args, *kwargs.values())
        if not all(self.reads.constant(x) or isinstance(x, PINNED) for x in given):
            return self.call(self.reads.hold(function.__wrapped__), args, kwargs)
        self.reads.fix(given)
        key = (function, args, tuple(kwargs.items()))
        if key not in self.reads.calls:
            call = functools.partial(function, *args, **kwargs)
            made, unseen = self.policy.unseen(call)
            if not unseen:
                self.refuse(f"calls {function.__name__}, which keeps tensors that it makes")
                return made
            self.reads.calls[key] = self.reads.read(made, Computed(call, ()))
        return self.reads.calls[key]

    # --- functions in C -------------------------------------------------------------------------------------------------
    def call_builtin(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function or method in C."""
        name = function.__name__
        if isinstance(function, BOUND) and not isinstance(function.__self__, (type(None), types.ModuleType)):
            of = function.__self__
            kind = of if isinstance(of, type) else type(of)
            if (
                isinstance(of, type)
                and getattr(function, "__objclass__", None) is type
                and name == "__call__"
            ):
                return self.construct(of, args, kwargs)
            if isinstance(of, type):
                return self.call_constructor(function, kind, args, kwargs)
            return self.call_method(function, of, name, args, kwargs)
        if isinstance(function, UNBOUND):
            if args and isinstance(args[0], function.__objclass__):
                return self.call_method(function, args[0], name, args[1:], kwargs, args)
            return self.call_unknown(function, args, kwargs)
        if function not in PURE:
            return self.call_unknown(function, args, kwargs)
        if function is sum and args and isinstance(args[0], types.GeneratorType):
            args = (self.sequence(args[0]), *args[1:])  # what it makes is seen
        for value in (*args, *kwargs.values()):
            if self.opaque(value):
                return self.call_unknown(function, args, kwargs)
            self.transparent(value, "compares" if function in SORTING else "reads")
            self.open(value, True)
        made = self.with_numbers(function, args, kwargs)
        return function(*args, **kwargs) if made is NULL else made

    def call_method(
        self,
        function: Any,
        of: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: Any = None,
    ) -> Any:
        """A method in C of `of`; `given` are the arguments where it is not bound to it."""
        if self.policy.is_native_object(of):
            return self.call_native(function, args if given is None else given, kwargs)
        if arrays.has_method(of, name):
            made = arrays.called(self, getattr(type(of), name), (of, *args), kwargs)
            if made is not NULL:
                return made
        if not self.is_known(function, of, name):
            return self.call_unknown(function, args if given is None else given, kwargs)
        if name == "__setattr__" and len(args) == 2 and not kwargs and function.__objclass__ is object:
            return self.put_attribute(of, *args)  # type: ignore[attr-defined]
        if name in ("__setattr__", "__delattr__"):
            self.changes(of, f"writes the attribute {args[0]!r} of an object that was there before")
            return function(*(args if given is None else given), **kwargs)
        if name == "__getattribute__" and len(args) == 1:
            return self.ordinary_attribute(of, *args)  # type: ignore[attr-defined]
        if name == "append" and len(args) == 1 and not kwargs and self.appends(of, args[0]):
            return None
        if name == "pop" and not args and self.pops(of):
            return of.pop()
        if writes(type(of), name):
            self.changes(of, f"{type(of).__name__}.{name} of an object that was there before")
        if name in KEYED_FIRST:
            self.reads.fix(args[:1])
        elif name not in HANDING:
            self.reads.fix((of, args, kwargs))
        if name in ("get", "__getitem__", "__contains__") and isinstance(of, dict):
            return self.dict_method(function, of, name, args, kwargs, given)
        self.transparent(of, "looks for something in" if name in MEMBERSHIP else "reads")
        self.open(of)
        deep = isinstance(of, (str, bytes, int, float)) or name in (
            "index",
            "count",
            "remove",
            "sort",
            "__eq__",
            "__repr__",
        )
        for value in (*args, *kwargs.values()):
            if deep and self.opaque(value) or (callable(value) and name in ("sort", "sub", "subn")):
                return self.call_unknown(function, args if given is None else given, kwargs)
            self.open(value, deep)
        if name in ITERATING and args and not self.in_c(args[0], "__iter__", "__next__", "keys"):
            args = (self.sequence(args[0]), *args[1:])
            given = None if given is None else (given[0], *args)
        return function(*(args if given is None else given), **kwargs)

    @staticmethod
    def is_known(function: Any, of: Any, name: str) -> bool:
        """Whether a method in C reads and changes nothing but an object of Python's containers and values."""
        if isinstance(of, HOLDS_VALUES) or (isinstance(of, LOCKS) and name in ("__enter__", "__exit__")):
            return True
        return name in OBJECT and getattr(function, "__objclass__", object) in (object, type)

    def dict_method(
        self, function: Any, of: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], given: Any
    ) -> Any:
        """A method that looks for a key, of `dict` itself: what its class has in Python does not run."""
        source = self.reads.classed(of)
        if source is None or not args:
            return function(*(args if given is None else given), **kwargs)
        if dict.__contains__(of, args[0]):
            value = self.reads.item(of, args[0], dict.__getitem__(of, args[0]))
            return True if name == "__contains__" else value
        self.reads.lacks(source, args[0])
        if name == "__getitem__" and in_class(type(of), "__missing__") is not NULL:
            self.refuse(f"reads a key that a {type(of).__name__} has not")
        return function(*(args if given is None else given), **kwargs)

    def opaque(self, value: Any, depth: int = 0, names: tuple[str, ...] = ()) -> bool:
        """Whether a function in C may run Python's methods of a value (`names`: one of these): those of a class that is no container and
        not known.
        """
        kind = type(value)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return False
        if self.reads.constant(value) or self.policy.is_native_object(value) or self.policy.is_pinned(value):
            return False
        if depth < 8 and isinstance(value, (list, tuple, set, frozenset, dict)):
            items = (*value.keys(), *value.values()) if isinstance(value, dict) else value
            if any(self.opaque(item, depth + 1, names) for item in items):
                return True
        return interprets(kind, names)  # type: ignore[arg-type]

    # --- classes --------------------------------------------------------------------------------------------------------
    def call_class(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An instance of a class."""
        made = in_class(type(cls), "__call__")
        if isinstance(made, types.FunctionType):
            return self.call(self.reads.hold(made), (cls, *args), kwargs)
        return self.construct(cls, args, kwargs)

    def construct(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `type.__call__` does."""
        if cls in CONSTRUCTED:
            return self.call_constructor(cls, cls, args, kwargs)
        new, init = in_class(cls, "__new__"), in_class(cls, "__init__")
        new = new.__func__ if isinstance(new, staticmethod) else new
        for function in (new, init):
            if not isinstance(function, types.FunctionType) and not self.ordinary(function):
                return self.call_unknown(cls, args, kwargs)
        if inspect.isabstract(cls):
            return cls(*args, **kwargs)  # which raises
        if isinstance(new, types.FunctionType):
            of = self.call(self.reads.hold(new), (cls, *args), kwargs)
        elif getattr(new, "__self__", None) is object and isinstance(init, types.FunctionType):
            of = new(cls)
        else:
            for value in (*args, *kwargs.values()):
                self.open(value)
            if not issubclass(cls, HOLDING):
                self.reads.fix((args, kwargs))
            of = new(cls, *args, **kwargs)
        if isinstance(of, cls):
            if isinstance(init, types.FunctionType):
                if self.call(types.MethodType(self.reads.hold(init), of), args, kwargs) is not None:
                    raise TypeError("__init__() should return None")
            elif init is not object.__init__:
                given = tuple(self.sequence(v) if isinstance(v, types.GeneratorType) else v for v in args)
                if not issubclass(cls, HOLDING):
                    self.reads.fix((given, kwargs))
                init(of, *given, **kwargs)
        return of

    def ordinary(self, function: Any) -> bool:
        """Whether this is a constructor or an initialiser of Python's own classes that hold values."""
        if isinstance(function, types.WrapperDescriptorType):
            kind = function.__objclass__
            return kind is property or (issubclass(kind, VALUES) and self.plain(kind))
        of = getattr(function, "__self__", None)
        return of is property or (isinstance(of, type) and self.plain(of))

    @staticmethod
    def plain(kind: type) -> bool:
        return kind in CONSTRUCTED or issubclass(kind, BaseException)

    def call_constructor(
        self, function: Any, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A class of Python's own, its `__new__` or another class method."""
        if not self.plain(cls) and function.__name__ != "__new__":
            return self.call_unknown(function, args, kwargs)
        deep = cls in (int, float, complex, bool, str, bytes, frozenset, set)
        given = []
        for value in args:
            if deep and self.opaque(value):
                return self.call_unknown(function, args, kwargs)
            self.transparent(value, "reads")
            self.reads.classed(value)
            if not isinstance(value, type) and not self.in_c(value, "__iter__", "__next__", "keys"):
                value = self.pairs(value) if issubclass(cls, dict) else self.sequence(value)
            self.open(value, deep)
            given.append(value)
        for value in kwargs.values():
            self.open(value)
        if cls not in HOLDING and not issubclass(cls, BaseException):
            made = self.with_numbers(function, tuple(given), kwargs)
            if made is not NULL:
                return made
        if cls is float and len(given) == 1 and self.policy.is_native_object(given[0]):
            return self.policy.run(function, tuple(given), kwargs)
        return function(*given, **kwargs)

    def pairs(self, value: Any) -> Any:
        """What `dict` makes of an object of a class in Python: a mapping, or pairs."""
        if in_class(type(value), "keys") is NULL:
            return self.sequence(value)
        get = self.load_special(value, "__getitem__")
        return {
            k: self.call(get, (k,), {})
            for k in self.sequence(self.call(self.load_attribute(value, "keys"), (), {}))
        }

    # --- functions that the interpreter knows ---------------------------------------------------------------------------
    def _isinstance(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 2:
            return NULL
        self.reads.classed(args[0])
        self.open(args[1])
        return isinstance(*args)

    def _type(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1:
            self.refuse("makes a class")
            return NULL
        self.reads.classed(args[0])
        return self.reads.hold(type(args[0]))

    def _getattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) not in (2, 3):
            return NULL
        try:
            return self.load_attribute(args[0], args[1])
        except AttributeError:
            if len(args) == 3:
                return args[2]
            raise

    def _hasattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 2:
            return NULL
        try:
            self.load_attribute(args[0], args[1])
        except AttributeError:
            return False
        return True

    def _setattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 3:
            return NULL
        return self.store_attribute(*args)

    def _super(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args or self.frame is None:
            return super(*args)
        frame = self.frame
        of = frame.locals[frame.code.co_varnames[0]]
        if isinstance(of, types.CellType) and frame.code.co_varnames[0] in frame.code.co_cellvars:
            of = of.cell_contents
        return super(frame.locals["__class__"].cell_contents, of)

    def _len(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1:
            return NULL
        if not self.in_c(args[0], "__len__"):
            return int(self.call(self.load_special(args[0], "__len__"), (), {}))
        if not self.policy.is_native_object(args[0]):
            self.transparent(args[0], "looks at the length of", "__len__")
            self.reads.sized(args[0])
        return len(args[0])

    def _id(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1:
            return NULL
        if self.reads.source(args[0]) is None:
            self.refuse("looks at the identity of an object that it made")
        self.reads.pin(args[0])
        return id(args[0])

    def _iter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.iterate(args[0]) if len(args) == 1 else NULL

    def _next(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) not in (1, 2):
            return NULL
        try:
            if self.in_c(args[0], "__next__"):
                self.changes(args[0], "advances an iterator that was there before")
                return next(args[0])
            return self.call(self.load_special(args[0], "__next__"), (), {})
        except StopIteration:
            if len(args) == 2:
                return args[1]
            raise

    def _bool(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.truth(args[0]) if len(args) == 1 else NULL

    def _locals(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.local_names()

    def _globals(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self.frame is not None
        return self.reads.hold(self.frame.globals)

    def _handled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`sys.exc_info()`: of the interpreted program, or of what has called it."""
        error = self.handled
        if error is not None:
            return type(error), error, error.__traceback__
        outside = sys.exc_info()
        if outside[1] is not None:
            self.refuse("looks at an exception that is handled outside of it")
        elif self.reads.active:
            self.reads.guard(Equals(Computed(sys.exc_info, ()), outside))
        return outside

    def _vars(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.load_attribute(args[0], "__dict__") if len(args) == 1 else self.local_names()

    def _keyed(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs.get("key") is None:
            if len(args) == 1 and not self.in_c(args[0], "__iter__", "__next__"):
                args = (self.sequence(args[0]),)
            if function is sorted or not self.opaque(list(args)):
                return self.call_builtin(function, args, kwargs)
        if isinstance(kwargs.get("key"), BOUND):
            self.reads.fix((args, kwargs["key"].__self__))
            return function(*args, **kwargs) if type(kwargs["key"].__self__) is list else NULL
        return self.call(KEYED[function], args, kwargs)

    def _dunder(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that calls a method of its first argument, which may be one in Python."""
        if (
            args
            and name in FALLS_BACK
            and in_class(type(args[0]), name) is vars(object)[name]
            and not any(args[1:])
        ):
            other, name = FALLS_BACK[name]
            if not self.in_c(args[0], "__str__", "__repr__"):
                return self.call(other, args[:1], {})
        if not args or self.in_c(args[0], name):
            return NULL
        return self.call(self.load_special(args[0], name), args[1:], kwargs)


HOLDS_VALUES = (property, *(kind for kind in (*VALUES, *ITERATORS) if kind is not object))
LOCKS = (
    type(threading.Lock()),
    type(threading.RLock()),
)  # in a `with` statement they are as they were after it
HASHED = (type, types.BuiltinFunctionType, types.FunctionType)
OBJECT = (
    "__init__",
    "__setattr__",
    "__delattr__",
    "__getattribute__",
    "__init_subclass__",
    "__eq__",
    "__ne__",
    "__hash__",
)
MEMBERSHIP = frozenset("__contains__ __len__ isdisjoint issubset issuperset".split())
ITERATING = frozenset(
    ("extend", "join", "update", "union", "intersection", "difference", "extendleft", "fromkeys")
)
FALLS_BACK: dict[str, Any] = {"__format__": (str, "__str__"), "__str__": (repr, "__repr__")}  # of `object`
SPECIAL: dict[Any, Callable[..., Any]] = {
    isinstance: Calls._isinstance,
    type: Calls._type,
    getattr: Calls._getattr,
    hasattr: Calls._hasattr,
    setattr: Calls._setattr,
    super: Calls._super,
    len: Calls._len,
    iter: Calls._iter,
    next: Calls._next,
    bool: Calls._bool,
    locals: Calls._locals,
    globals: Calls._globals,
    vars: Calls._vars,
    callable: lambda m, args, kwargs: (m.reads.classed(args[0]), callable(*args))[1],
    id: Calls._id,
    inspect.signature: signature_of,
    copy.deepcopy: deepcopied,
    re._compile: pattern_of,  # type: ignore[attr-defined]
    types.MethodType: lambda m, args, kwargs: types.MethodType(*args, **kwargs),
    sys.exc_info: Calls._handled,
    issubclass: lambda m, args, kwargs: issubclass(*args),
    **{f: functools.partial(lambda f, m, a, k: m._keyed(f, a, k), f) for f in KEYED},
    **{f: functools.partial(lambda f, m, a, k: m.call(REPLACED[f], a, k), f) for f in REPLACED},
    **{
        f: functools.partial(lambda f, n, m, a, k: m._dunder(f, n, a, k), f, name)
        for f, name in {
            abs: "__abs__", round: "__round__", repr: "__repr__", hash: "__hash__", format: "__format__", str: "__str__",
            int: "__int__", float: "__float__", divmod: "__divmod__",
        }.items()
    },
}  # fmt: skip
OF_FRAMES = frozenset((Calls._super, Calls._locals, Calls._globals, Calls._vars, Calls._handled))
