"""The operations that programs have added: what is registered under a name, and the operation that is called.

An `OpOverload` is an operation as ours are, and is dispatched as they are: modes, classes of tensors, autocast and the profiler see
it.  What is registered for a name (`Entry`) is kept apart from it, since kernels may be registered before the operation is defined.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .._compat.tags import Tag
from ..core.base import display
from ..core.base.callbacks import callbacks
from ..core.base.dtypes import device
from ..core.call import casting
from ..core.call.custom import CustomOp, callable_class, go_below
from . import _fakes
from ._binding import Binder, as_results
from ._keys import DEVICES, EVERYWHERE, PARTS, key_named, place_of
from ._schema import FunctionSchema, SchemaType, has_named_tensors, is_functional, mutated
from ._tape import Taped, Unregistered
from ._where import Registered, where

BEYOND = 1 << 20  # the place of what has none, a count that is never reached


class Autograd(NamedTuple):
    """A derivative as a program has registered it."""

    backward: Callable
    setup: Callable | None


class Entry:
    """What is registered under a qualified name, whether or not an operation of that name is defined yet."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname
        self.kernels: dict[str, list[Registered]] = {}  # place -> functions, the newest last
        self.fakes: list[Registered] = []
        self.autograd: Autograd | None = None
        self.vmap: Callable | None = None
        self.dispatch: dict[type, Callable] = {}  # class of modes or tensors -> rule
        self.casts: dict[str, Any] = {}  # type of device -> dtype under autocast, or a function
        self.op: OpOverload | None = None

    def kernel(self, place: str) -> Callable | None:
        """The function for a type of device, or for a dispatch key."""
        result = self.kernels.get(place)
        return result[-1].function if result else None

    def add(self, place: str, function: Callable, source: str) -> Callable[[], None]:
        """Register a kernel; returns what takes it back."""
        registered = Registered(function, source)
        self.kernels.setdefault(place, []).append(registered)
        if place.startswith("Autocast"):
            self.casts[next(t for t, key in DEVICES.items() if place == "Autocast" + key)] = function
        self.changed()
        return functools.partial(self._drop, self.kernels[place], registered, place)

    def add_fake(self, function: Callable, source: str) -> Callable[[], None]:
        """Register what makes results without data; returns what takes it back."""
        registered = Registered(function, source)
        self.fakes.append(registered)
        self.changed()
        return functools.partial(self._drop, self.fakes, registered, "")

    def _drop(self, stack: list[Registered], registered: Registered, place: str) -> None:
        if registered in stack:
            stack.remove(registered)
        if place.startswith("Autocast"):
            self.casts = {t: f for t, f in self.casts.items() if f is not registered.function}
        self.changed()

    def changed(self) -> None:
        """Let the operation, where it is defined, look again."""
        if self.op is not None:
            self.op._changed()

    def places(self) -> list[str]:
        """Where kernels stand, as dispatch keys."""
        result = [DEVICES.get(p, p) for p, kernels in self.kernels.items() if kernels]
        return result + ["Meta"] * bool(self.fakes and "Meta" not in result)


ENTRIES: dict[str, Entry] = {}


def entry_of(qualname: str) -> Entry:
    """What is registered under a name, made where nothing was."""
    return ENTRIES.setdefault(qualname, Entry(qualname))


def split(qualname: str) -> tuple[str, str]:
    """Namespace and name; ValueError for another form."""
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname passed to the torch.library APIs '
            "must consist of a namespace and a name, e.g. aten::sin"
        )
    return parts[0], parts[1]


@callable_class
class OpOverload(CustomOp):
    """An operation of a program, one overload of a name: `ops.mylib.scale.default`.

    >>> import flambeau
    >>> flambeau.library.define("documented::twice", "(Tensor x) -> Tensor")
    >>> flambeau.library.impl("documented::twice", "cpu", lambda x: x * 2)
    >>> op = flambeau.ops.documented.twice.default
    >>> op(flambeau.ones(2)), op.name(), str(op), str(op._schema)
    (tensor([2., 2.]), 'documented::twice', 'documented.twice.default', 'documented::twice(Tensor x) -> Tensor')
    """

    # Op asks ATen's table for these.
    _schema: FunctionSchema = None  # type: ignore[assignment]
    _overloadname: str = ""
    namespace: str = ""
    tags: list[Tag] = []  # noqa: RUF012

    def __init__(
        self, name: str, schema: FunctionSchema, entry: Entry, tags: tuple[Tag, ...], source: str
    ) -> None:
        self._schema, self._entry, self._source = schema, entry, source
        self._namespace, self._opname = split(schema.name)
        self._overloadname = schema.overload_name or "default"
        self.namespace = self._namespace
        self.tags = list(tags)
        self._in_place, self._out = Tag.inplace in tags, Tag.out in tags
        self.__module__ = display.public(f"_ops.{self._namespace}")
        positional = [a for a in schema.arguments if not a.kwarg_only]
        places, names = mutated(schema)
        written = (*((k, schema.arguments[k].name) for k in places), *((BEYOND, n) for n in names))
        one_tensor = [r.type for r in schema.returns] == [SchemaType("Tensor")] and not (
            self._in_place or self._out
        )
        returned = -1 if not schema.returns else 1 if one_tensor else 0
        required = sum(not a.defaulted for a in positional)
        if schema.is_vararg or any(a.kwarg_only and not a.defaulted for a in schema.arguments):
            required = BEYOND  # no call is plain
        self._binder = Binder(schema)
        self._declare(schema.signature, self._binder.kinds, len(positional), required, written, returned)
        self._tape = Taped(self)
        self._changed()

    # --- what is called when something is registered, and in calls that are not plain ---
    def _changed(self) -> None:
        entry = self._entry
        self.chosen: dict[str | None, Callable] = {}
        parts = entry.kernel(PARTS)
        self.whole = (
            None if any(p in DEVICES or p == EVERYWHERE for p, k in entry.kernels.items() if k) else parts
        )
        around = [p for p, k in entry.kernels.items() if k and p.startswith("Autograd")]
        self.over = entry.kernel("Autograd") if around == ["Autograd"] else self._around if around else None
        self.taped = entry.autograd is not None
        self.casts = entry.casts
        self.on_host = self.elsewhere = casting.RULES["by device" if entry.casts else "composite"]
        self.unverified = bool(entry.fakes)
        self.composite = self.whole

    def _around(self, *args: Any, **named: Any) -> Any:
        """The `Autograd` kernel of the type of device, where there is one."""
        entry = self._entry
        for place, key in DEVICES.items():
            kernel = entry.kernel("Autograd" + key)
            if kernel is not None and any(
                getattr(getattr(x, "device", None), "type", None) == place for x in (*args, *named.values())
            ):
                return kernel(*args, **named)
        kernel = entry.kernel("Autograd")
        if kernel is not None:
            return kernel(*args, **named)
        go_below(1)
        try:
            return self(*args, **named)
        finally:
            go_below(-1)

    def _bind(self, args: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any] | None]:
        return self._binder.bind(args, named)

    def _place(self, args: tuple, named: dict[str, Any] | None) -> str | None:
        """The type of device of a call without tensors: of its argument `device`."""
        for k, argument in enumerate(self._schema.arguments):
            if argument.name == "device":
                value = (named or {}).get("device") if argument.kwarg_only or k >= len(args) else args[k]
                return device(value).type if value is not None else None
        return None

    def _choose(self, place: str | None) -> Callable:
        """The kernel for a type of device; NotImplementedError where there is none."""
        entry = self._entry
        kernel = entry.kernel(place) if place is not None else None
        if kernel is None and place == "meta":
            kernel = self._without_data()
        kernel = kernel or entry.kernel(EVERYWHERE) or entry.kernel(PARTS)
        if kernel is None:
            there = f"'{self._qualname}' is only available for these backends: [{', '.join(entry.places())}]."
            if place is None:
                raise NotImplementedError(
                    "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), but no fallback function "
                    f"is registered for schema {self._qualname}. {there}"
                )
            if not any(a.type.base == "Tensor" for a in self._schema.arguments):
                raise RuntimeError(
                    f"{self._opname} does not have a kernel registered for {place}. Please use register_kernel to do so. {there}"
                )
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the '{DEVICES.get(place, place)}' backend. {there}"
            )
        self.chosen[place] = kernel
        return kernel

    def _without_data(self) -> Callable | None:
        """The kernel for tensors without data, other than one registered for `Meta`."""
        if self._entry.fakes:
            fake = self._entry.fakes[-1]
            return _fakes.on_meta(self._qualname, fake.function, fake.source)
        return self._default_fake()

    def _default_fake(self) -> Callable | None:
        """What tells the results of an operation that only writes; None where nothing does."""
        schema = self._schema
        if self._in_place:
            return lambda *args, **named: args[0]
        if self._out:
            names = mutated(schema)[1]
            return lambda *args, **named: (
                named[names[0]] if len(names) == 1 else tuple(named[n] for n in names)
            )
        return (lambda *args, **named: None) if schema.is_mutable and not schema.returns else None

    def _recorded(self, args: tuple, named: dict[str, Any] | None) -> Any:
        if self._out:
            raise RuntimeError(
                f"{self._opname}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
                "requires grad."
            )
        return self._tape.record(args, named)

    def _unrecorded(self, args: tuple, named: dict[str, Any] | None) -> Any:
        if self._out:
            return self._recorded(args, named)
        result = self._compute(args, named, True)
        return Unregistered(self).attach(result, args)

    def _who(self, kernel: Callable) -> str:
        return f"{self._opname} (with implementation {where(kernel)})"

    def _blame(self, error: BaseException, kernel: Callable) -> None:
        error.add_note(f"in {where(kernel)}, an implementation of {self._qualname}")

    def _aliased(self, kernel: Callable) -> RuntimeError:
        return RuntimeError(
            f"{self._who(kernel)}: The output of this custom operator (1) must not also be an input to this custom operator and (2) may "
            "not alias any inputs to this custom operator or other returns. The most common way to trigger this error is if we have "
            "y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending output tensor(s) (e.g. "
            "return x.clone()) or refactor the custom operator to not return y."
        )

    def _result(self, result: Any, kernel: Callable, args: tuple, named: dict[str, Any] | None) -> Any:
        if self._in_place and result is not args[0]:
            raise RuntimeError(
                f"{self._who(kernel)}: An operator tagged with torch.Tag.inplace must return its first argument."
            )
        if self._out:
            outs = [(named or {})[n] for n in mutated(self._schema)[1]]
            results = result if isinstance(result, tuple) else (result,)
            if len(results) != len(outs) or any(a is not b for a, b in zip(results, outs)):
                raise RuntimeError(
                    f"{self._who(kernel)}: An operator tagged with torch.Tag.out must return its mutable keyword-only arguments."
                )
        return as_results(self._schema, result, self._who(kernel))

    def _verify(
        self, result: Any, kernel: Callable, place: str | None, args: tuple, named: dict[str, Any] | None
    ) -> None:
        """Once: compare a result with what the fake implementation says.

        One that raises is not held against the kernel: it may ask arguments for the device that tensors without data do not have.
        `opcheck` shows what it raises.
        """
        if place == "meta":
            return
        fake = self._entry.fakes[-1].function
        try:
            declared = _fakes.predicted(fake, args, named)
        except Exception:
            self.unverified = False
            return
        _fakes.check_result(self._qualname, kernel, fake, declared, result, args, named)
        self.unverified = False

    # --- what programs ask ---
    @property
    def _qualname(self) -> str:
        return self._entry.qualname

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"{self._opname}.{self._overloadname}"

    def name(self) -> str:  # type: ignore[override]
        """The qualified name: "mylib::scale"."""
        return self._qualname

    _name = property(name)

    @property
    def overloadpacket(self) -> Any:
        """All overloads of the name."""
        return callbacks["operations_named"](self._namespace, self._opname)

    _overloadpacket = overloadpacket

    @property
    def op(self) -> Any:
        """What is called: this operation."""
        return self

    @property
    def code_path(self) -> str:
        """Where the code of a graph finds it in the library."""
        return f"ops.{self._namespace}.{self._opname}.{self._overloadname}"

    @property
    def is_view(self) -> bool:
        """Whether results share memory with arguments."""
        return self._schema._is_view_op()

    @property
    def vmap_rule(self) -> Callable | None:
        """The function (info, in_dims, *args) that `vmap` calls in its place; None where a program has registered none."""
        return self._entry.vmap

    def written_among(self, args: tuple) -> list[tuple[str, Any]]:
        """The arguments by position that it writes to, with their names."""
        places = mutated(self._schema)[0]
        return [(self._schema.arguments[at].name, args[at]) for at in places if at < len(args)]

    @property
    def dispatch_rules(self) -> dict[type, Callable]:
        """The answers to this operation by class of modes and tensors."""
        return self._entry.dispatch

    def redispatch(self, /, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """The kernel's result, past the tape; keys choose nothing here."""
        return self._compute(*self._bind(args, kwargs))

    def _can_decompose(self) -> bool:
        return self._entry.kernel(PARTS) is not None

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """What the operation is made of, called; NotImplemented for one with kernels alone."""
        parts = self._entry.kernel(PARTS)
        return NotImplemented if parts is None else parts(*args, **kwargs)

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Whether a kernel stands at that key."""
        return self._entry.kernel(place_of(key_named(key))) is not None

    def py_impl(self, key: Any) -> Callable[[Callable], Callable]:
        """Decorate a kernel for a dispatch key."""

        def register(function: Callable) -> Callable:
            self._entry.add(place_of(key_named(key)), function, where(function))
            return function

        return register

    def __copy__(self) -> OpOverload:
        return self

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return callbacks["operation_named"], (self._qualname,)

    def __str__(self) -> str:
        return f"{self._namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._namespace}.{self._opname}', overload='{self._overloadname}')>"


def check_derivable(op: Any, schema: FunctionSchema, tags: Iterable[Tag]) -> None:
    """RuntimeError where an operation can have no derivative."""
    if Tag.out in tags:
        raise RuntimeError(
            f"Cannot register autograd formula for operator tagged with torch.Tag.out: {op!r}. Out variants do not support autograd."
        )
    if not is_functional(schema, valid_views=True):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {op!r} with schema {schema}. Please create a functional "
            "operator and register an autograd formula for that."
        )
    if has_named_tensors(schema):
        raise NotImplementedError(
            "register_autograd with kwarg-only Tensor args. In the original definition of the op, please make your tensors not "
            f"kwarg-only. Got: {schema}"
        )
