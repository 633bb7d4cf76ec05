"""Dispatch keys: what PyTorch's dispatcher calls the places where a kernel may stand, and which of them mean something here.

Here a kernel belongs to a type of device (`CPU`), to all (`CompositeExplicitAutograd`), is a function of other operations
(`CompositeImplicitAutograd`), or stands around the others (`Autograd`, `AutocastCPU`).  Kernels of the remaining keys are kept, but
nothing that they serve exists here: quantised tensors have functions of their own (`ao`), and graphs are not functionalised.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from ..core.call import casting
from ..core.call.custom import go_below
from ..core.tape import _set_tracking

_BACKENDS = (
    """CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta""".split()
)
_FAMILIES = "Quantized Sparse SparseCsr NestedTensor Autograd".split()
_ALONE = """Undefined CompositeExplicitAutogradNonFunctional CompositeExplicitAutograd CompositeImplicitAutogradNestedTensor
    CompositeImplicitAutograd AutogradNestedTensor AutogradOther Autograd Conjugate ZeroTensor Negative BackendSelect ADInplaceOrView
    PythonTLSSnapshot Python FuncTorchDynamicLayerFrontMode FuncTorchDynamicLayerBackMode FuncTorchBatchedDecomposition FuncTorchBatched
    FuncTorchVmapMode FuncTorchGradWrapper PythonDispatcher PreDispatch Functionalize AutocastCPU AutocastMPS AutocastXPU AutocastHPU
    AutocastIPU AutocastCUDA AutocastPrivateUse1 Dense Quantized Sparse SparseCsr NestedTensor AutogradFunctionality OpenCL
    AutogradOpenCL""".split()

DispatchKey = Enum(  # type: ignore[misc]
    "DispatchKey", [*_ALONE, *_BACKENDS, *(family + backend for family in _FAMILIES for backend in _BACKENDS)]
)
DispatchKey.__doc__ = "Where a kernel may stand, by PyTorch's names."

_TYPES = {"privateuseone": "PrivateUse1", "lazy": "Lazy", "meta": "Meta", "opencl": "OpenCL"}
# Type of device -> key.
DEVICES: dict[str, str] = {
    kind: _TYPES.get(kind, kind.upper())
    for kind in "cpu cuda hip xla mps ipu xpu hpu ve lazy mtia maia privateuseone meta opencl".split()
}
_TYPE_OF = {key: kind for kind, key in DEVICES.items()}
EVERYWHERE = "CompositeExplicitAutograd"
PARTS = "CompositeImplicitAutograd"


def place_of(key: str) -> str:
    """Where a kernel stands: a type of device (also by its dispatch key), or another dispatch key; RuntimeError for neither."""
    if key in DEVICES:
        return key
    if key == "default":
        return EVERYWHERE
    if key == "CompositeExplicitAutogradNonFunctional":
        return EVERYWHERE
    if key not in DispatchKey.__members__:
        raise RuntimeError(f"could not parse dispatch key: {key}")
    return _TYPE_OF.get(key, key)


def checked_device_type(kind: str) -> str:
    """A type of device; RuntimeError for no such type."""
    if kind in DEVICES:
        return kind
    raise RuntimeError(f"Expected one of {', '.join(DEVICES)} device type at start of device string: {kind}")


def key_named(key: Any) -> str:
    """A dispatch key, or its name, as its name."""
    return key.name if isinstance(key, Enum) else str(key)


class DispatchKeySet:
    """A set of dispatch keys.

    >>> from flambeau import _C
    >>> keys = _C.DispatchKeySet(_C.DispatchKey.CPU) | _C.DispatchKeySet(_C.DispatchKey.AutocastCPU)
    >>> keys, keys.has(_C.DispatchKey.CPU)
    (DispatchKeySet(AutocastCPU, CPU), True)
    """

    def __init__(self, keys: Any = ()) -> None:
        several: Iterable[Any] = (
            (keys,)
            if isinstance(keys, Enum | str)
            else keys._keys
            if isinstance(keys, DispatchKeySet)
            else keys
        )
        self._keys: frozenset[Any] = frozenset(DispatchKey[key_named(k)] for k in several)

    def has(self, key: Any) -> bool:
        """Whether a key is among them."""
        return DispatchKey[key_named(key)] in self._keys

    def add(self, key: Any) -> DispatchKeySet:
        """These and one more."""
        return self | DispatchKeySet(key)

    def remove(self, key: Any) -> DispatchKeySet:
        """These without one."""
        return self - DispatchKeySet(key)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __iter__(self) -> Any:
        return iter(sorted(self._keys, key=lambda k: k.value))

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(k.name for k in self)})"


class _AutoDispatchBelowAutograd:
    """Within it nothing is recorded, and `Autograd` kernels are not called."""

    def __enter__(self) -> None:
        self._before = _set_tracking(0)
        go_below(1)

    def __exit__(self, *exception: Any) -> None:
        go_below(-1)
        _set_tracking(self._before)


class _ExcludeDispatchKeyGuard:
    """Within it the keys are not looked at: `Autograd` ones as in `_AutoDispatchBelowAutograd`, `AutocastX` is off for that type."""

    def __init__(self, keys: DispatchKeySet) -> None:
        names = {k.name for k in keys}
        self._types = [t for t, key in DEVICES.items() if "Autocast" + key in names and casting.known(t)]
        self._below = _AutoDispatchBelowAutograd() if any(n.startswith("Autograd") for n in names) else None
        self._states: list[tuple] = []

    def __enter__(self) -> None:
        for kind in self._types:
            self._states.append(casting.state(kind))
            casting.set_on(kind, False)
        if self._below is not None:
            self._below.__enter__()

    def __exit__(self, *exception: Any) -> None:
        if self._below is not None:
            self._below.__exit__(*exception)
        for kind, state in zip(reversed(self._types), reversed(self._states), strict=True):
            casting.put_back(kind, state)
        self._states.clear()
