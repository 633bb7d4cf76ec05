"""ATen's overloads as functions that take ATen's arguments: what stands in exported graphs, as `ops.aten.add.Tensor` is written there.

`ops.aten.mm.default` itself is the operation of this library, whose arguments may have another order.  A target is equal to it, and
calls it as the overload's schema says.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ..core.base import display
from ..core.base.callbacks import set_callback
from ..core.call.operation import Op
from ..overrides import handle_torch_function, has_torch_function
from ..utils._pytree import tree_leaves
from ._aten import names
from ._calls import Overload, Prepared, Unfit, choice, overloads, texts
from ._higher_order import higher_order
from ._own import OWN, own_call, own_name
from ._packets import DEFINED, namespace_of
from ._schema import FunctionSchema, parse_schema

PACKAGE = __name__.partition(".")[0]


class Target:
    """An overload: `Target("aten", "add", "Tensor")(x, y)` is `aten::add.Tensor`; `OWN` has operations that ATen has not.

    Raises:
        AttributeError: there is no such overload
        RuntimeError: it does not take the arguments of a call

    >>> import flambeau as torch
    >>> from flambeau.library._targets import target
    >>> add = target("aten", "add", "Tensor")
    >>> str(add), add == torch.ops.aten.add.Tensor, add(torch.ones(2), torch.ones(2), alpha=2)
    ('aten.add.Tensor', True, tensor([3., 3.]))
    """

    def __init__(self, namespace: str, name: str, overload: str) -> None:
        self.namespace, self._opname, self._overloadname = namespace, name, overload
        self.__name__ = self.__qualname__ = f"{name}.{overload}"
        self.__module__ = f"{display.NAME}.ops.{namespace}"
        self._cache: dict[Any, Prepared] = {}
        if namespace == OWN:
            self._own = own_call(name)
            if self._own is None:
                raise AttributeError(f"there is no operation {OWN}::{name}")
            self._op: Any = self._own
            return
        self._own = None
        self._op = names().get(name)
        self._candidates = _of_overload(name, overload)

    @functools.cached_property
    def _schema(self) -> FunctionSchema:
        if (
            self._own is not None
        ):  # under its own name: an operation behind a function is labelled by the function's
            return FunctionSchema(f"{OWN}::{self._opname}", "", self._op._schema.signature)
        return self._candidates[0].schema

    @functools.cached_property
    def writes(self) -> bool:
        """Whether a call writes to an argument."""
        return bool(self._op.writes) if self._own is not None else self._schema.is_mutable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._own is not None:
            return self._own(*args, **kwargs)
        out = kwargs.pop("out", None)
        key = tuple(map(_class_of, args)) if not kwargs else None
        if key is not None and out is None and (cached := self._cache.get(key)) is not None:
            return cached(args, kwargs)  # type: ignore[arg-type]
        try:
            overload, values, loosely = choice(self._candidates, args, kwargs)
        except Unfit:
            tensors = [x for x in tree_leaves((args, kwargs)) if has_torch_function((x,))]
            if tensors:
                return handle_torch_function(self, tensors, *args, **kwargs)
            types = ", ".join(
                [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
            )
            raise RuntimeError(f"{self}: takes no ({types}); the schema is {self._schema}") from None
        if (
            key is not None
            and out is None
            and (result := overload.prepared(args, kwargs, loosely)) is not None
        ):
            self._cache[key] = result
        return overload.call(values, out)

    def direct(self, args: tuple) -> Any:
        """The function that a call is where it takes arguments of these classes as they are; None where they change."""
        if self._own is not None:
            return self._own
        try:
            overload, _, loosely = choice(self._candidates, args, {})
        except Unfit:
            return None
        result = overload.prepared(args, {}, loosely)
        return result.function if result is not None and result.is_direct else None

    # --- what programs ask ---
    @property
    def code_path(self) -> str:
        """Where the code of a graph finds it in the library."""
        return f"ops.{self}"

    @property
    def overloadpacket(self) -> Any:
        """All overloads of the name."""
        return getattr(namespace_of(self.namespace), self._opname)

    def name(self) -> str:
        """The qualified name: "aten::add.Tensor"."""
        tail = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.namespace}::{self._opname}{tail}"

    def overloads(self) -> list[str]:
        """Its own name."""
        return [self._overloadname]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Op) and other is self._op)

    def __hash__(self) -> int:
        return hash(self._op) if self._op is not None else hash(self.name())

    def __copy__(self) -> Target:
        return self

    def __deepcopy__(self, memo: Any) -> Target:
        return self

    def __reduce__(self) -> Any:
        return target, (self.namespace, self._opname, self._overloadname)

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<Target(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"


def _class_of(x: Any) -> Any:
    """The class of an argument; of a list with that of its first item, of what may be a literal's value itself."""
    if isinstance(x, (list, tuple)):
        return type(x), len(x) and type(x[0]), len(x) == 0
    return x if x is None else type(x)


def _of_overload(name: str, overload: str) -> list[Overload]:
    """What computes an overload; AttributeError where nothing does."""
    result = [o for o in overloads("aten", name) if (o.schema.overload_name or "default") == overload]
    if result:  # numbers in the place of tensors go by the others
        return [*result, *(o for o in overloads("aten", name) if o not in result)]
    declared = [
        t
        for t in texts().get(name, ())
        if (parse_schema("aten::" + t).overload_name or "default") == overload
    ]
    what = "is not run here" if declared else "is not known"
    raise AttributeError(f"the overload aten::{name}.{overload} {what}")


def target(namespace: str, name: str, overload: str = "default") -> Any:
    """The function that stands for an overload in graphs; AttributeError where there is none.

    >>> from flambeau.library._targets import target
    >>> target("aten", "sym_size", "int")
    <OpOverload(op='aten.sym_size', overload='int')>
    """
    defined = DEFINED.get(namespace, {}).get(name, {}).get(overload)
    return _builtin_target(namespace, name, overload) if defined is None else defined


_builtin_target = functools.cache(Target)


def own_target(op: Op) -> Target | None:
    """The target of an operation of ours that ATen has not; None for one without a name."""
    name = own_name(op)
    return None if name is None else target(OWN, name)


class _Namespace:
    """The names under a path, where targets are found: `ops`, a namespace, an operation."""

    def __init__(self, *path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not (
            self._path == ("aten",) and name in DEFINED["aten"]
        ):  # `aten.__and__` is one
            raise AttributeError(name)
        path = (*self._path, name)
        if path[0] == "higher_order":
            return namespace_of(name) if len(path) == 1 else higher_order(name)
        if len(path) == 3:
            result = target(*path)
        elif path[0] not in ("aten", OWN):
            return namespace_of(name)
        else:
            result = _Namespace(*path)
        if isinstance(result, (Target, _Namespace)):  # what programs define may be taken back
            vars(self)[name] = result
        return result


class Root:
    """The library as the code of exported graphs sees it: `ops` has targets, everything else is the library's own."""

    ops = _Namespace()
    import_line = f"from {PACKAGE}.library._targets import ROOT as {display.NAME}"

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules[PACKAGE], name)


ROOT = Root()
set_callback("library_in_code", lambda: ROOT)
