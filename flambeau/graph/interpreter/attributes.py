"""Attributes, as Python finds them, with a source for what is found outside."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import weakref
from collections import namedtuple
from typing import TYPE_CHECKING, Any

from ..sources import Attribute, Computed, Is, Item, Lacks, Namespace, Object
from .arrays import seen_through
from .code import NULL
from .policy import Policy
from .reads import Reads

FROZEN = (inspect.Signature, inspect.Parameter)  # classes of objects that stay what they are
FOREIGN = (
    vars(threading.local)["__getattribute__"],
    vars(weakref.ProxyType)["__getattribute__"],
)  # not Python's usual way
FIELD = type(vars(namedtuple("_Named", "field"))["field"])
MODULE_NAMES = frozenset(("__dict__", "__class__"))


def in_class(kind: type, name: str) -> Any:
    """What a class and its bases have under a name, unbound; NULL where they have nothing."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return NULL


class Attributes:
    """The part of the interpreter that reads and writes attributes."""

    policy: Policy
    reads: Reads

    if TYPE_CHECKING:

        def refuse(self, why: str) -> None: ...
        def changes(self, value: Any, why: str) -> None: ...
        def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
        def namespace(self, value: Any) -> dict[str, Any] | None: ...
        def read_members(self, value: Any, name: str) -> Any: ...

    def load_attribute(self, of: Any, name: str) -> Any:
        """`of.name`."""
        if not self.reads.active:
            return getattr(of, name)
        if self.reads.number_source(of) is not None:
            self.reads.fix(of)
        if isinstance(of, type):
            return self.class_attribute(of, name)
        if isinstance(of, types.ModuleType):
            return self.module_attribute(of, name)
        kind = type(of)
        if kind is super:
            return self.super_attribute(of, name)
        if kind is types.MethodType:
            self.reads.bound(of)
            return self.load_attribute(of.__func__, name) if not hasattr(kind, name) else getattr(of, name)
        if self.policy.is_native_object(of):
            return self.native_attribute(of, name)
        result = in_class(kind, "__getattribute__")
        try:
            if isinstance(result, types.FunctionType):
                self.reads.classed(of)
                return self.call(self.reads.hold(result), (of, name), {})
            if result in FOREIGN:
                return self.foreign_attribute(of, name)
            return self.ordinary_attribute(of, name)
        except AttributeError:
            fallback = in_class(kind, "__getattr__")
            if not isinstance(fallback, types.FunctionType):
                raise
            self.reads.classed(of)
        return self.call(self.reads.hold(fallback), (of, name), {})

    def ordinary_attribute(self, of: Any, name: str) -> Any:
        """What `object.__getattribute__` gives; AttributeError."""
        kind = type(of)
        source = self.reads.classed(of)
        result = in_class(kind, name)
        data = result is not NULL and (
            hasattr(type(result), "__set__") or hasattr(type(result), "__delete__")
        )
        if data:
            return self.described(result, of, kind)
        if name == "__class__":
            return self.reads.hold(kind)
        space = self.namespace(of)
        if space is not None:
            if name in space:
                return (
                    space[name]
                    if source is None
                    else self.reads.take(space[name], Item(Namespace(source), name))
                )
            if result is not NULL and source is not None:
                self.reads.lacks(Namespace(source), name)
        if result is not NULL:
            return self.described(result, of, kind)
        member = self.read_members(of, name)
        if member is not NULL:
            return member
        if space is not None and source is not None:
            self.reads.lacks(Namespace(source), name)
        return object.__getattribute__(of, name)  # which says that there is none

    def foreign_attribute(self, of: Any, name: str) -> Any:
        """An attribute of an object whose class finds it in a way of its own, in C."""
        source = self.reads.classed(of)
        if source is not None and not self.of_thread(of, name):
            self.refuse(f"reads the attribute {name!r} of a {type(of).__qualname__}")
        try:
            value = getattr(of, name)
        except AttributeError:
            if source is not None:
                self.reads.pin(of)
                self.reads.guard(
                    Is(Computed(functools.partial(getattr, of, name, NULL), ()), NULL), (of, name)
                )
            raise
        return value if source is None else self.reads.take(value, Attribute(source, name))

    @staticmethod
    def of_thread(of: Any, name: str) -> bool:
        """Whether an attribute is one that each thread has of its own, and its class nothing or a value to begin with."""
        return isinstance(of, threading.local) and not hasattr(type(in_class(type(of), name)), "__get__")

    def described(self, result: Any, of: Any, kind: type) -> Any:
        """What lies in a class, bound to an instance."""
        how = type(result)
        source = self.reads.source(of)
        self.reads.hold(result)
        if how is types.FunctionType:
            return types.MethodType(result, of)
        if how is property:
            if result.fget is None:
                return result.__get__(of, kind)
            return self.call(self.reads.hold(result.fget), (of,), {})
        if how is classmethod:
            if isinstance(result.__func__, types.FunctionType):
                self.reads.hold(result.__func__)
                return types.MethodType(result.__func__, self.reads.hold(kind))
            return result.__get__(of, kind)
        if how is staticmethod:
            return self.reads.hold(result.__func__)
        if how is FIELD:  # of a named tuple: the item of a number
            self.reads.sized(of)
            return self.reads.item(of, result.__reduce__()[1][0], result.__get__(of, kind))
        if how in (types.MemberDescriptorType, types.GetSetDescriptorType):
            value = result.__get__(of, kind)
            if result.__name__ in MODULE_NAMES:
                return self.known_part(value, of, result.__name__)
            if kind in FROZEN:
                self.reads.pin(of)
                return value if type(value) is types.MappingProxyType else self.reads.hold(value)
            if source is None and self.reads.aliases:
                return seen_through(self.reads, value, (of,))
            return value if source is None else self.reads.take(value, Attribute(source, result.__name__))
        get = in_class(how, "__get__")
        if get is NULL:
            return result
        if isinstance(get, types.FunctionType):
            return self.call(self.reads.hold(get), (result, of, kind), {})
        return result.__get__(of, kind)

    def known_part(self, value: Any, of: Any, name: str) -> Any:
        """An object's `__dict__` or class."""
        source = self.reads.source(of)
        if name == "__class__":
            return self.reads.hold(value)
        if source is not None and isinstance(value, dict):
            self.reads.known.setdefault(id(value), (value, Namespace(source)))
        return value

    def native_attribute(self, of: Any, name: str) -> Any:
        """An attribute that is computed in C from what is guarded of the object, or is in its `__dict__`."""
        kind, source = type(of), self.reads.source(of)
        result, space = in_class(kind, name), self.namespace(of)
        if space is not None and name in space and not hasattr(type(result), "__set__"):
            return (
                space[name] if source is None else self.reads.read(space[name], Item(Namespace(source), name))
            )
        why = self.policy.refuses(result, (of,))
        if why is not None:
            self.refuse(why)
            return getattr(of, name)
        if isinstance(result, types.FunctionType) and not self.policy.is_native(result):
            return types.MethodType(self.reads.hold(result), of)
        if result is NULL and space is not None and source is not None:
            self.reads.lacks(Namespace(source), name)
        value = getattr(of, name)
        if self.policy.is_input(value) and not self.policy.is_variable(result):
            return value  # computed of what is guarded: a view
        if source is not None and self.policy.is_variable(result):
            return self.reads.read(value, Attribute(source, name))
        if not callable(value) and not self.reads.constant(value) and source is not None:
            self.reads.open(value)
        return value

    def class_attribute(self, kind: type, name: str) -> Any:
        """An attribute of a class."""
        self.reads.hold(kind)
        meta = in_class(type(kind), name)
        if meta is not NULL and hasattr(type(meta), "__set__"):
            value = getattr(kind, name)
            return self.reads.hold(value) if name != "__dict__" else value
        earlier = []
        for base in kind.__mro__:
            if name not in base.__dict__:
                earlier.append(base)
                continue
            result = base.__dict__[name]
            if base.__flags__ & 1 << 9:  # of a class made in Python
                for other in earlier:
                    if other.__flags__ & 1 << 9:
                        self.reads.guard(Lacks(Namespace(Object(other)), name), name)
                self.reads.read(result, Item(Namespace(Object(base)), name))
            if isinstance(result, staticmethod):
                return self.reads.hold(result.__func__)
            if isinstance(result, classmethod) and isinstance(result.__func__, types.FunctionType):
                return types.MethodType(self.reads.hold(result.__func__), kind)
            get = in_class(type(result), "__get__")
            if isinstance(get, types.FunctionType):
                return self.call(self.reads.hold(get), (result, None, kind), {})
            value = getattr(kind, name)
            return value if isinstance(value, types.MethodType) else self.reads.hold(value)
        if meta is not NULL:
            if isinstance(meta, types.FunctionType):
                return types.MethodType(self.reads.hold(meta), kind)
            return getattr(kind, name)
        fallback = in_class(type(kind), "__getattr__")
        if isinstance(fallback, types.FunctionType):
            return self.call(self.reads.hold(fallback), (kind, name), {})
        return getattr(kind, name)

    def module_attribute(self, module: types.ModuleType, name: str) -> Any:
        """An attribute of a module."""
        self.reads.hold(module)
        space = types.ModuleType.__getattribute__(module, "__dict__")
        value = getattr(module, name)
        if name == "__dict__":
            self.reads.known.setdefault(id(space), (space, Namespace(Object(module))))
            return value
        source = Item(Namespace(Object(module)), name) if name in space else Attribute(Object(module), name)
        return self.reads.read(value, source)

    def super_attribute(self, of: Any, name: str) -> Any:
        """An attribute of `super(cls, obj)`."""
        cls, obj, kind = of.__thisclass__, of.__self__, of.__self_class__
        self.reads.classed(obj)
        mro = kind.__mro__
        for base in mro[mro.index(cls) + 1 :]:
            if name in base.__dict__:
                result = base.__dict__[name]
                if obj is kind and isinstance(result, types.FunctionType):
                    return self.reads.hold(result)
                if name == "__new__" or isinstance(result, staticmethod):
                    return self.reads.hold(getattr(of, name))
                if obj is kind:
                    break
                return self.described(result, obj, kind)
        return getattr(of, name)

    def load_special(self, of: Any, name: str) -> Any:
        """A method that Python's own syntax calls: of the class, not of the instance."""
        if not self.reads.active or self.policy.is_native_object(of):
            return getattr(of, name)
        result = in_class(type(of), name)
        if result is NULL:
            return getattr(of, name)
        self.reads.classed(of)
        return self.described(result, of, type(of))

    def store_attribute(self, of: Any, name: str, value: Any) -> None:
        """`of.name = value`."""
        if not self.reads.active:
            setattr(of, name, value)
            return
        if isinstance(of, (type, types.ModuleType)):
            self.refuse(f"writes the attribute {name!r} of {of.__name__}")
            setattr(of, name, value)
            return
        setter = in_class(type(of), "__setattr__")
        if isinstance(setter, types.FunctionType):
            self.reads.classed(of)
            self.call(self.reads.hold(setter), (of, name, value), {})
            return
        self.put_attribute(of, name, value)

    def put_attribute(self, of: Any, name: str, value: Any) -> None:
        """`object.__setattr__(of, name, value)`."""
        source = self.reads.classed(of)
        result = in_class(type(of), name)
        if isinstance(result, property) and isinstance(result.fset, types.FunctionType):
            self.call(self.reads.hold(result.fset), (of, value), {})
            return
        put = in_class(type(result), "__set__")
        if isinstance(put, types.FunctionType):
            self.call(self.reads.hold(put), (result, of, value), {})
            return
        if self.policy.is_native_object(of):
            if not self.policy.is_variable(result):
                if self.policy.may_write(of, name):
                    setattr(of, name, value)
                    return
                self.refuse(f"writes the attribute {name!r} of a {type(of).__name__}")
            elif source is not None:
                self.reads.write(Attribute(source, name), value)
        elif source is not None:
            space = self.namespace(of)
            if self.of_thread(of, name):
                self.reads.write(Attribute(source, name), value)
            elif put is not NULL or space is None:
                self.refuse(f"writes the attribute {name!r} of an object that was there before")
            else:
                if name not in space:
                    self.reads.extend(Namespace(source), space)
                self.reads.write(Item(Namespace(source), name), value)
        if isinstance(in_class(type(of), "__setattr__"), types.FunctionType):
            object.__setattr__(of, name, value)
        else:
            setattr(of, name, value)

    def delete_attribute(self, of: Any, name: str) -> None:
        """`del of.name`."""
        if isinstance(in_class(type(of), "__delattr__"), types.FunctionType):
            self.refuse(f"deletes the attribute {name!r} by {type(of).__name__}.__delattr__")
        self.changes(of, f"deletes the attribute {name!r} of an object that was there before")
        delattr(of, name)
