"""What stands behind `ops`: namespaces, and the overloads of a name."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from ..core.base import display
from ..core.base.callbacks import set_callback
from ._operators import ENTRIES, OpOverload, split

# namespace -> name -> overload ("default" for none) -> operation
DEFINED: dict[str, dict[str, dict[str, OpOverload]]] = {}


class OpOverloadPacket:
    """All overloads of an operation's name: `ops.mylib.scale`.  A call goes to the first whose schema the arguments fit.

    >>> import flambeau
    >>> lib = flambeau.library.Library("documented_packets", "DEF")
    >>> for kind in ("Tensor", "Scalar"):
    ...     name = lib.define(f"times.{kind}(Tensor x, {kind} by) -> Tensor")
    ...     lib.impl(name, lambda x, by: x * by, "CPU")
    >>> times = flambeau.ops.documented_packets.times
    >>> times(flambeau.ones(2), 3), times.overloads()
    (tensor([3., 3.]), ['Tensor', 'Scalar'])
    """

    __file__ = "torch.ops"

    def __init__(self, namespace: str, name: str, overloads: dict[str, Any]) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self.__module__ = display.public(f"_ops.{namespace}")
        self._overloads = overloads

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        overloads = self._overloads
        for op in overloads.values():
            if len(overloads) == 1 or not isinstance(op, OpOverload):  # one of ours is all overloads
                return op(*args, **kwargs)
            break
        return self._fitting(args, kwargs)(*args, **kwargs)

    def _fitting(self, args: tuple, kwargs: dict[str, Any]) -> OpOverload:
        """The first overload that takes the arguments."""
        errors = []
        for op in self._overloads.values():
            try:
                op._bind(args, kwargs)
            except RuntimeError as error:
                errors.append(str(error))
            else:
                return op
        if not errors:
            raise RuntimeError(f"{self._qualified_op_name} is not defined any more")
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n"
            + "\n\n".join(errors)
        )

    def __getattr__(self, key: str) -> Any:
        if not key.startswith("_"):
            result = self._overloads.get(key)
            if result is not None:
                return result
            overloads = ", ".join(self._overloads)
            raise AttributeError(
                f"The underlying op of '{self}' has no overload name '{key}' (there are: {overloads})",
                name=key,
                obj=self,
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{key}'", name=key, obj=self)

    @property
    def op(self) -> Any:
        """What is called: this object."""
        return self

    @property
    def _overload_names(self) -> list[str]:
        return ["" if n == "default" else n for n in self._overloads]

    @property
    def _schemas(self) -> dict[str, Any]:
        return {"" if n == "default" else n: op._schema for n, op in self._overloads.items()}

    def overloads(self) -> list[str]:
        """Their names."""
        return list(self._overloads)

    def op_overloads(self) -> list[Any]:
        """The operations."""
        return list(self._overloads.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._overloads)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._overloads]

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> Any:
        return packet_of, tuple(self._qualified_op_name.split("::"))

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


class OpNamespace(types.ModuleType):
    """The operations of one namespace: `ops.mylib`."""

    __file__ = "torch.ops"

    def __init__(self, name: str) -> None:
        super().__init__(display.public(f"ops.{name}"))
        self.name = name

    def __getattr__(self, op_name: str) -> Any:
        overloads = self._overloads(op_name)
        if overloads:
            packet = vars(self)[op_name] = OpOverloadPacket(self.name, op_name, overloads)
            return packet
        if op_name.startswith("__"):
            raise AttributeError(
                f"Invalid attribute '{op_name}' for '_OpNamespace' '{self.name}'", name=op_name, obj=self
            )
        raise AttributeError(self._missing(op_name), name=op_name, obj=self)

    def _overloads(self, op_name: str) -> dict[str, Any]:
        return DEFINED.get(self.name, {}).get(op_name, {})

    def _missing(self, op_name: str) -> str:
        text = f"'_OpNamespace' '{self.name}' object has no attribute '{op_name}': no operation {self.name}::{op_name} is defined"
        entry = ENTRIES.get(f"{self.name}::{op_name}")
        if entry is not None and entry.places():
            places = ", ".join(entry.places())
            text += f", though kernels for it are registered ({places}): what defines it, perhaps a compiled library, was not loaded"
        overloads = sorted(DEFINED.get(self.name, {}))
        shown = ", ".join(overloads[:20]) + (
            f" and {len(overloads) - 20} others" if len(overloads) > 20 else ""
        )
        return f"{text} (in {self.name}: {shown or 'none'})"

    def __iter__(self) -> Iterator[str]:
        return iter(DEFINED.get(self.name, {}))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *DEFINED.get(self.name, {})]


class QuantizedNamespace(OpNamespace):
    """`ops.quantized`: functions of quantised tensors, and what programs define there.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 2, flambeau.quint8)
    >>> flambeau.ops.quantized.add(x, x, 0.5, 0).dequantize()
    tensor([2., 2.])
    """

    def __getattr__(self, op_name: str) -> Any:
        from ..ao._quantized_arithmetic import OPERATIONS

        return OPERATIONS[op_name] if op_name in OPERATIONS else super().__getattr__(op_name)

    def __dir__(self) -> list[str]:
        from ..ao._quantized_arithmetic import OPERATIONS

        return sorted({*super().__dir__(), *OPERATIONS})


_namespaces: dict[str, OpNamespace] = {}
KINDS: dict[str, type[OpNamespace]] = {"quantized": QuantizedNamespace}  # namespaces of a class of their own


def namespace_of(name: str) -> OpNamespace:
    """The namespace of that name, empty or not."""
    result = _namespaces.get(name)
    if result is None:
        result = _namespaces[name] = KINDS.get(name, OpNamespace)(name)
    return result


def packet_of(namespace: str, name: str) -> Any:
    """The overloads of a name; AttributeError for none."""
    return getattr(namespace_of(namespace), name)


def lookup_op(qualname: str) -> Any:
    """The operation of a qualified name; AttributeError for none."""
    namespace, name = split(qualname)
    name, _, overload = name.partition(".")
    return getattr(packet_of(namespace, name), overload or "default")


def enter(op: OpOverload) -> None:
    """Make an operation known under its name."""
    DEFINED.setdefault(op._namespace, {}).setdefault(op._opname, {})[op._overloadname] = op
    op._entry.op = op


def leave(op: OpOverload) -> None:
    """The inverse of `enter`."""
    overloads = DEFINED.get(op._namespace, {}).get(op._opname, {})
    if overloads.get(op._overloadname) is op:
        del overloads[op._overloadname]
        if not overloads:
            del DEFINED[op._namespace][op._opname]
            vars(namespace_of(op._namespace)).pop(op._opname, None)
    if op._entry.op is op:
        op._entry.op = None


set_callback("operations_named", packet_of)
set_callback("operation_named", lookup_op)
