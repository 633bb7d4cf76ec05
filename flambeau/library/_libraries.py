"""Libraries: who defines operations and registers kernels for them, and for how long."""

from __future__ import annotations

import functools
import re
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._compat.tags import Tag
from ._aten import names as ours
from ._inference import as_tags
from ._keys import DispatchKey, checked_device_type, key_named, place_of
from ._operators import OpOverload, entry_of, split
from ._packets import enter, leave
from ._schema import FunctionSchema, SchemaType, parse_schema
from ._where import caller, where

NAMELESS_SCHEMA = re.compile(r"\(.*\) -> .*")
RESERVED = ("prim",)
OURS = ("aten",)  # operations that are declared here

_owners: dict[str, str] = {}  # namespace -> where its one library of kind DEF was made
_unnamed: list[Library] = []  # those behind functions that were given none


def fallthrough_kernel() -> None:
    """Stands for "no kernel here" in `Library.impl`; to call it is a NotImplementedError.

    >>> import flambeau
    >>> flambeau.library.fallthrough_kernel()
    Traceback (most recent call last):
    NotImplementedError: fallthrough_kernel() should never be called.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


_TENSOR = SchemaType("Tensor")


def check_in_place(schema: FunctionSchema) -> None:
    """ValueError where a schema is not that of an operation that writes to its first argument and returns it."""
    prefix, got = "Schema tagged with torch.Tag.inplace", f"Got: {schema}"
    first = schema.arguments[0] if schema.arguments else None
    if first is None or first.kwarg_only:
        raise ValueError(f"{prefix} must have at least one positional argument. {got}")
    if not first.is_write:
        raise ValueError(
            f"{prefix} requires the first positional argument to be mutable (e.g., Tensor(a!)). {got}"
        )
    if first.type != _TENSOR:
        raise ValueError(
            f"{prefix} requires the first positional argument to be a Tensor. Got type '{first.type}' for arg '{first.name}'. {got}"
        )
    if len(schema.returns) != 1:
        raise ValueError(
            f"{prefix} must return exactly one value (the first argument). Got {len(schema.returns)} returns. {got}"
        )
    result = schema.returns[0].alias_info
    if schema.returns[0].type != _TENSOR or result is None or result != first.alias_info:
        raise ValueError(
            f"{prefix} must return the first mutable argument (a mutable alias of it, e.g., Tensor(a!)). {got}"
        )
    others = [a.name for a in schema.arguments[1:] if a.is_write]
    if others:
        raise ValueError(
            f"{prefix} must only mutate the first positional argument. Found additional mutable args: {others}. {got}"
        )


def check_out(schema: FunctionSchema) -> None:
    """ValueError where a schema is not that of an operation that writes to tensors given by name and returns them."""
    prefix, got = "Schema tagged with torch.Tag.out", f"Got: {schema}"
    written = [a for a in schema.arguments if a.is_write]
    if not written:
        raise ValueError(f"{prefix} must have at least one mutable argument. {got}")
    if by_place := [a.name for a in written if not a.kwarg_only]:
        raise ValueError(
            f"{prefix} requires all mutable arguments to be keyword-only (after the *). Found mutable positional args: {by_place}. {got}"
        )
    if other := [a.name for a in written if a.type != _TENSOR]:
        raise ValueError(
            f"{prefix} only supports Tensor mutable arguments. Found unsupported mutable args: {other}. {got}"
        )
    if len(schema.returns) != len(written):
        raise ValueError(
            f"{prefix} must return all mutable arguments (got {len(written)} mutable args but {len(schema.returns)} returns). {got}"
        )
    for k, (result, argument) in enumerate(zip(schema.returns, written, strict=True)):
        if result.alias_info != argument.alias_info:
            raise ValueError(
                f"Return {k} of schema tagged with torch.Tag.out must alias mutable arg '{argument.name}' (e.g., Tensor(a!)). {got}"
            )


def define_operation(
    namespace: str,
    text: str,
    tags: tuple[Tag, ...],
    source: str,
    make: Callable[..., OpOverload] = OpOverload,
) -> OpOverload:
    """A new operation in a namespace; RuntimeError for a schema that cannot be read, or one of that name."""
    if not namespace.isidentifier():
        parse_schema(f"{namespace}::{text}")  # points at what is none
        raise RuntimeError(f"{namespace!r} is no name of a namespace")
    schema = parse_schema(text)
    home, scope, name = schema.name.rpartition("::")
    if scope and home != namespace:
        raise RuntimeError(
            f"Explicitly provided namespace ({home}) in schema string does not match namespace of enclosing library ({namespace})"
        )
    schema = FunctionSchema(f"{namespace}::{name}", schema.overload_name, schema.signature)
    if Tag.out in tags:
        check_out(schema)
    if Tag.inplace in tags:
        check_in_place(schema)
    qualname = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    if namespace in OURS and name in ours():
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the name of one that is there already"
        )
    entry = entry_of(qualname)
    if entry.op is not None:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times. Each overload's schema should "
            f"only be registered with a single call to def(). Duplicate registration: registered at {source}. Original registration: "
            f"registered at {entry.op._source}"
        )
    op = make(qualname, schema, entry, tags, source)
    enter(op)
    return op


class Library:
    """Operations and kernels of one namespace, which stay as long as the library does.

    `ns` is the namespace; `kind` "DEF" for the one library that defines a namespace, "FRAGMENT" for one of several, "IMPL" for one
    that registers kernels alone; `dispatch_key` is where kernels go that name no other place.

    Raises:
        ValueError: `kind` is none of "DEF", "IMPL" and "FRAGMENT"

    >>> import flambeau
    >>> lib = flambeau.library.Library("documented_library", "DEF")
    >>> lib.define("sum_of_squares(Tensor x) -> Tensor")
    'sum_of_squares'
    >>> lib.impl("sum_of_squares", lambda x: x.square().sum(), "CPU")
    >>> flambeau.ops.documented_library.sum_of_squares(flambeau.ones(3))
    tensor(3.)
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in RESERVED and kind != "IMPL":
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        if dispatch_key:
            place_of(dispatch_key)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._source = caller(1)
        self._undo: list[Callable[[], Any]] = []
        self._impls: set[str] = set()
        if kind == "DEF":
            if ns in _owners:
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your definitions in a "
                    "single TORCH_LIBRARY block.  If you were trying to specify implementations, consider using TORCH_LIBRARY_IMPL "
                    "(which can be duplicated).  If you really intended to define operators for a single namespace in a distributed "
                    "way, you can use TORCH_LIBRARY_FRAGMENT to explicitly indicate this.  Previous registration of TORCH_LIBRARY was "
                    f"registered at {_owners[ns]}; latest registration was registered at {self._source}"
                )
            _owners[ns] = self._source
            self._undo.append(functools.partial(_owners.pop, ns, None))
        weakref.finalize(self, _take_back, self._undo).atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def _destroy(self) -> None:
        """Take back all that was defined and registered."""
        _take_back(self._undo)

    def _qualname(self, op_name: Any, who: str) -> str:
        """The qualified name of an operation, given by its name in this namespace, its qualified name, or itself."""
        if isinstance(op_name, OpOverload):
            op_name = op_name._qualname
        if not isinstance(op_name, str):
            raise RuntimeError(
                f"{who} should be passed either a name or an OpOverload object as the first argument, got {type(op_name)}"
            )
        return f"{self.ns}::{op_name.rpartition('::')[2]}"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Tag | Sequence[Tag] = ()) -> str:
        """Define an operation, "name(Tensor x) -> Tensor"; its name.  RuntimeError for a schema that cannot be read, with its place."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError(
                f"define(): cannot define an operator inside of a library of kind IMPL for {self.ns}; use DEF or FRAGMENT"
            )
        op = define_operation(self.ns, schema, as_tags(tags), self._source)
        self._undo.append(functools.partial(leave, op))
        return op._qualname.partition("::")[2]

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register a kernel: for a type of device ("CPU", "CUDA", "Meta"), for all ("CompositeExplicitAutograd"), or, without a
        key, as a function of other operations, which are differentiated in its place.

        The operation may be defined later.  What is declared here itself (`aten`) keeps its kernels: NotImplementedError.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        qualname = self._qualname(op_name, "impl")
        key = key_named(dispatch_key or self.dispatch_key or "CompositeImplicitAutograd")
        place = place_of(key)
        if self.ns in OURS and qualname.partition("::")[2].partition(".")[0] in ours():
            raise NotImplementedError(
                f"impl(): {qualname} is declared in this library, and its kernels cannot be replaced; a mode (TorchDispatchMode, "
                "TorchFunctionMode) can answer calls of it"
            )
        if with_keyset:
            raise NotImplementedError(
                f"impl(): {qualname}: no sets of dispatch keys travel with a call here, so that none can be given to "
                f"{where(fn)} (with_keyset=True)"
            )
        if fn is fallthrough_kernel:
            return
        if not allow_override and entry_of(qualname).kernel(place) is not None:
            raise RuntimeError(
                "This is not allowed since there's already a kernel registered from python overriding "
                f"{qualname.partition('::')[2]}'s behavior for {key} dispatch key and {self.ns} namespace."
            )
        self._undo.append(entry_of(qualname).add(place, fn, where(fn)))

    def _register_fake(self, op_name: str, fn: Callable, *, allow_override: bool = True) -> None:
        entry = entry_of(self._qualname(op_name, "register_fake"))
        if not allow_override and entry.fakes:
            raise RuntimeError(
                f"register_fake(...): the operator {entry.qualname} already has a fake impl registered at {entry.fakes[-1].source}."
            )
        self._undo.append(entry.add_fake(fn, where(fn)))

    def _register_torch_dispatch_rule(self, op_name: str, torch_dispatch_class: type, fn: Callable) -> None:
        entry = entry_of(self._qualname(op_name, "register_torch_dispatch"))
        entry.dispatch[torch_dispatch_class] = fn
        self._undo.append(functools.partial(entry.dispatch.pop, torch_dispatch_class, None))

    def fallback(self, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Refused: no function stands behind all operations at a dispatch key here.  A mode sees them all."""
        if self.ns != "_":
            raise RuntimeError(
                f'Fallback can only be registered using library fragment on the global namespace "_" but it is {self.ns}'
            )
        if fn is not fallthrough_kernel:
            raise NotImplementedError(
                f"fallback(): no function stands behind all operations at {dispatch_key or self.dispatch_key} here; a mode "
                "(utils._python_dispatch.TorchDispatchMode) sees them all"
            )


def _take_back(undo: list[Callable[[], Any]]) -> None:
    while undo:
        undo.pop()()


def library_for(qualname: str, lib: Library | None) -> Library:
    """The library given, or one that stays."""
    if lib is not None:
        return lib
    made = Library(split(qualname)[0], "FRAGMENT")
    _unnamed.append(made)
    return made


@functools.singledispatch
def define(qualname: Any, schema: str, *, lib: Library | None = None, tags: Tag | Sequence[Tag] = ()) -> Any:
    """Define an operation: "mylib::sine", "(Tensor x) -> Tensor".  Kernels are registered by `impl`.

    Raises:
        ValueError: the name is not of the form "namespace::name", or the schema is not read

    >>> import flambeau
    >>> flambeau.library.define("documented::sine", "(Tensor x) -> Tensor")
    >>> @flambeau.library.impl("documented::sine", "cpu")
    ... def _(x):
    ...     return flambeau.from_numpy(__import__("numpy").sin(x.numpy()))
    >>> flambeau.ops.documented.sine(flambeau.zeros(1))
    tensor([0.])
    """
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}"
        )
    name = split(qualname)[1]
    if not NAMELESS_SCHEMA.fullmatch(schema):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got "{schema}"'
        )
    library_for(qualname, lib).define(name + schema, tags=tags)


@define.register
def _(lib: Library, schema: str, alias_analysis: str = "") -> Any:
    """The older form: a decorator that defines an operation made of others."""

    def wrap(function: Callable) -> Callable:
        lib.impl(lib.define(schema, alias_analysis), function)
        return function

    return wrap


@functools.singledispatch
def impl(
    qualname: Any, types: str | Sequence[str], func: Callable | None = None, *, lib: Library | None = None
) -> Any:
    """Register a kernel for types of devices ("cpu", "cuda"; "default" for all), as a decorator or with the function.

    Raises:
        ValueError: the name is not of the form "namespace::name"

    >>> import flambeau
    >>> flambeau.library.define("documented::halved", "(Tensor x) -> Tensor")
    >>> flambeau.library.impl("documented::halved", "default", lambda x: x / 2)
    >>> flambeau.ops.documented.halved(flambeau.ones(1))
    tensor([0.5000])
    """
    places = places_of((types,) if isinstance(types, str) else types)

    def register(function: Callable) -> None:
        use = library_for(qualname, lib)
        for place in places:
            use.impl(qualname, function, place)

    return register if func is None else register(func)


@impl.register
def _(lib: Library, name: str, dispatch_key: str = "") -> Any:
    """The older form: a decorator, with a dispatch key."""

    def wrap(function: Callable) -> Callable:
        lib.impl(name, function, dispatch_key)
        return function

    return wrap


def places_of(types: Iterable[str]) -> list[str]:
    """Where kernels for types of devices, "default" or dispatch keys stand; RuntimeError for anything else."""
    keys = ("default", *DispatchKey.__members__)
    return list(dict.fromkeys(place_of(t) if t in keys else checked_device_type(t) for t in types))


def warn_renamed(old: str, new: str) -> None:
    """Say that a function has another name now."""
    warnings.warn(
        f"`torch.library.{old}` was renamed to `torch.library.{new}`. Please use that instead; we will remove `torch.library.{old}` in a "
        "future version of PyTorch.",
        FutureWarning,
        stacklevel=3,
    )
