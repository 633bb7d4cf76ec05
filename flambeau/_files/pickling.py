"""The pickle of a file: PyTorch's names and PyTorch's way to describe tensors, so that either reads the other's.

Written with pickle's Python implementation, whose `save_global` can be given another name; storages are left out of the pickle and
kept in a list.
"""

from __future__ import annotations

import math
import pickle
from collections import OrderedDict
from io import BytesIO
from types import FunctionType
from typing import Any, cast

from .._tensor import Tensor
from ..core.base import display, formats
from ..core.base.dtypes import Size, by_name, dtype
from ..core.base.dtypes import device as Device
from ..core.base.memory import Storage
from ..core.make.create import empty
from ..core.places.join import cat
from ..nn.parameter import Buffer, Parameter
from ..storage import TypedStorage
from . import modules, names, rebuilding
from .locations import location_tag

_BYTES = by_name["uint8"]


class _Named:
    """The class of storages of one kind, which files name."""

    def __init__(self, name: str) -> None:
        self.name = name


_NAMED = {
    name: _Named(name) for name in names.STORAGES
}  # one object each, so that a pickle holds its name once
_CPU = "cpu"  # as this place


class Storages:
    """The storages that a pickle names, each once, in the order in which they came up."""

    def __init__(self, legacy: bool) -> None:
        self.entries: list[tuple[Any, dtype]] = []
        self.legacy = legacy
        self._numbers: dict[Any, int] = {}
        self._keys: list[str] = []  # one object each, which the pickle then holds once

    def _number(self, storage: Any, kind: dtype) -> int:
        key: Any = id(storage)
        if storage.device.type != "meta" and storage.nbytes():
            key = (str(storage.device), storage._address(), storage.nbytes())
        number = self._numbers.setdefault(key, len(self.entries))
        if number == len(self.entries):
            self.entries.append((storage, kind))
            self._keys.append(str(number))
        return number

    def first_dtype(self, storage: Any, kind: dtype) -> dtype:
        """As what a storage is described: as elements of the first tensor over it."""
        return self.entries[self._number(storage, kind)][1]

    def describe(self, storage: Any, kind: dtype, name: Any) -> tuple:
        """What stands for a storage in the pickle."""
        number = self._number(storage, kind)
        tag = location_tag(storage)
        described = (
            "storage",
            name,
            self._keys[number],
            _CPU if tag == _CPU else tag,
            storage.nbytes() // kind.itemsize,
        )
        return (*described, None) if self.legacy else described


def _name_of(kind: dtype) -> str:
    if kind.name not in names.STORAGE_OF:
        raise TypeError(f"files have no class of storages of {kind}: save what its untyped() is")
    return names.STORAGE_OF[kind.name]


def _tensor_arguments(t: Any, storages: Storages) -> tuple:
    """Function and arguments that make a tensor again."""
    storage, kind = t.untyped_storage(), t.dtype
    geometry = (t.storage_offset(), tuple(t.shape), t.stride())
    if t.is_meta:
        return rebuilding._rebuild_meta_tensor_no_storage, (kind, *geometry[1:], t.requires_grad)
    if kind.name not in names.STORAGE_OF:  # there is no class of storages of it
        return rebuilding._rebuild_tensor_v3, (storage, *geometry, t.requires_grad, OrderedDict(), kind)
    first = storages.first_dtype(storage, kind)
    elements = rebuilding.typed(storage, first)
    if first == kind:
        return rebuilding._rebuild_tensor_v2, (elements, *geometry, t.requires_grad, OrderedDict())
    return rebuilding._rebuild_tensor_v3, (elements, *geometry, t.requires_grad, OrderedDict(), kind)


def _reduced(t: Any, storages: Storages) -> tuple | None:
    """A tensor as function and arguments; None where its class has a way of its own."""
    kind = type(t)
    state = object.__getstate__(t)
    if kind is Tensor and not state:
        return _tensor_arguments(t, storages)
    if isinstance(t, Parameter) and kind.__reduce_ex__ is Parameter.__reduce_ex__:
        data = t.data
        if kind is Parameter and not state:
            return rebuilding._rebuild_parameter, (data, t.requires_grad, OrderedDict())
        if kind is Parameter:
            return rebuilding._rebuild_parameter_with_state, (data, t.requires_grad, OrderedDict(), state)
        return rebuilding._rebuild_from_type_v2, (*_parts(t, kind, storages), state)
    if t.is_nested:
        return _nested_arguments(t)
    if t.is_quantized:
        return _quantized_arguments(t)
    if t._is_wrapper and hasattr(kind, "get_mask"):
        return rebuilding._rebuild_masked_tensor, (t._elements, t.get_mask())
    if kind is Buffer:
        return rebuilding._rebuild_from_type_v2, (
            *_parts(t, Tensor, storages),
            {"persistent": t.persistent, "_is_buffer": True},
        )
    if t.layout is not formats.strided:
        if t.layout is formats.sparse_coo:
            parts = (t._indices(), t._values(), t.shape, t.is_coalesced())
        else:
            parts = (*t._pattern.parts(), t._values(), t.shape)
        return rebuilding._rebuild_sparse_tensor, (t.layout, parts)
    if kind.__reduce_ex__ is Tensor.__reduce_ex__:
        return rebuilding._rebuild_from_type_v2, (*_parts(t, kind, storages), state)
    return None


def _nested_arguments(t: Any) -> tuple:
    """A nested tensor as function and arguments: of layout jagged with its values, else a flat buffer with places in it."""
    if t.layout is formats.jagged:
        parts = {
            "values": t.values().detach(),
            "offsets": t.offsets(),
            "lengths": t.lengths(),
            "_ragged_idx": t._ragged_idx,
            "_metadata_cache": {},
            "requires_grad": t.requires_grad,
        }
        return rebuilding._rebuild_from_type_v2, (
            rebuilding._rebuild_njt,
            rebuilding.JaggedClass,
            (parts,),
            {},
        )
    return rebuilding._rebuild_nested_tensor, (
        t.values().detach().requires_grad_(t.requires_grad),
        *t._geometry(),
    )


def _padded(codes: Any, shape: Any) -> Any:
    """Bytes of two codes each, with so much room behind them as if rows began at whole bytes, which PyTorch's storages have."""
    size = math.prod(shape[:-1]) * -(-shape[-1] // 2) if len(shape) else 1
    return cat([codes, codes.new_zeros(max(0, size - codes.numel()))])


def _quantized_arguments(t: Any) -> tuple:
    """A quantised tensor as function and arguments: its integers, in a storage of its own dtype, and what they mean."""
    codes, quantizer = t._elements, t._quantizer
    geometry = (codes.storage_offset(), tuple(t.shape), codes.stride())
    if t.dtype.name == "quint4x2":  # two a byte, in order
        codes = _padded(t.int_repr(), t.shape)
        geometry = (0, tuple(t.shape), empty(t.shape, device="meta").stride())
    elements = rebuilding.typed(codes.untyped_storage(), t.dtype)
    # PyTorch's files name the scheme of channels alone; floating-point zero points say which it is.
    scheme = quantizer.scheme if quantizer.axis is None else formats.qscheme.per_channel_affine
    axis = () if quantizer.axis is None else (quantizer.axis,)
    meaning = (scheme, quantizer.scale, quantizer.zero_point, *axis)
    return rebuilding._rebuild_qtensor, (elements, *geometry, meaning, False, OrderedDict())


def _parts(t: Any, kind: type, storages: Storages) -> tuple:
    function, arguments = _tensor_arguments(t, storages)
    return function, kind, arguments


class _Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """PyTorch's names for what is ours."""

    dispatch: dict[Any, Any] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined,assignment,misc]

    def __init__(self, file: Any, protocol: int, storages: Storages) -> None:
        super().__init__(file, protocol)
        self._storages = storages

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """As the inherited method, without the questions that have one answer for most of what a file holds."""
        known = self.dispatch.get(type(obj))
        if known is None:
            super().save(obj, save_persistent_id)  # type: ignore[misc]
            return
        self.framer.commit_frame()
        written = self.memo.get(id(obj))
        if written is not None:
            self.write(self.get(written[0]))
        else:
            known(self, obj)

    def _save_tensor(self, obj: Any) -> None:
        self.save_reduce(*cast(tuple, _reduced(obj, self._storages)), obj=obj)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            result = _reduced(obj, self._storages)
            return NotImplemented if result is None else result
        return modules.reduced(obj, self.proto) if isinstance(obj, modules.COMPLETED) else NotImplemented

    def save_global(self, obj: Any, name: Any = None) -> None:
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        in_files = names.in_files(getattr(obj, "__module__", None), name)
        if in_files is None or "." in name:
            super().save_global(obj, name)  # type: ignore[misc]
        else:
            self._name(*in_files)
            self.memoize(obj)

    def _name(self, module: str, name: str) -> None:
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(b"c" + module.encode() + b"\n" + name.encode() + b"\n")

    def _save_dtype(self, obj: dtype) -> None:
        self._name("torch", str(obj).rpartition(".")[2])
        self.memoize(obj)

    def _save_format(self, obj: Any) -> None:
        self._name("torch", str(obj).rpartition(".")[2])
        self.memoize(obj)

    def _save_layout(self, obj: Any) -> None:
        self.save_reduce(rebuilding._get_layout, ("torch." + str(obj).rpartition(".")[2],), obj=obj)

    def _save_device(self, obj: Any) -> None:
        self.save_reduce(Device, (obj.type,) if obj.index is None else (obj.type, obj.index), obj=obj)

    def _save_size(self, obj: Any) -> None:
        self.save_reduce(Size, (tuple(obj),), obj=obj)

    def _save_named(self, obj: _Named) -> None:
        self._name("torch.storage" if obj.name == "UntypedStorage" else "torch", obj.name)
        self.memoize(obj)

    def _save_storage(self, obj: Any) -> None:
        # The first formats know no storages without a dtype.
        name = "ByteStorage" if self._storages.legacy else "UntypedStorage"
        self.save_pers(self._storages.describe(obj, _BYTES, _NAMED[name]))

    def _save_typed(self, obj: Any) -> None:
        described = self._storages.describe(obj._untyped_storage, obj.dtype, _NAMED[_name_of(obj.dtype)])
        self.save_pers(described)

    dispatch[FunctionType] = save_global
    dispatch[Tensor] = dispatch[Parameter] = dispatch[Buffer] = _save_tensor
    dispatch[dtype] = _save_dtype
    dispatch[formats.memory_format] = dispatch[formats.qscheme] = _save_format
    dispatch[formats.layout] = _save_layout
    dispatch[Device] = _save_device
    dispatch[Size] = _save_size
    dispatch[_Named] = _save_named
    dispatch[Storage] = _save_storage
    dispatch[TypedStorage] = _save_typed


def _foreign(module: Any, file: Any, protocol: int, storages: Storages) -> Any:
    """A pickler of another module (dill, cloudpickle …): our tensors under our own names."""

    class ForeignPickler(module.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            if isinstance(obj, TypedStorage):
                return storages.describe(obj._untyped_storage, obj.dtype, _name_of(obj.dtype))
            return storages.describe(obj, _BYTES, "UntypedStorage") if isinstance(obj, Storage) else None

        def reducer_override(self, obj: Any) -> Any:
            result = _reduced(obj, storages) if isinstance(obj, Tensor) else None
            if result is not None:
                return result
            inherited = getattr(super(), "reducer_override", None)
            return NotImplemented if inherited is None else inherited(obj)

    return ForeignPickler(file, protocol=protocol)


def dump(obj: Any, protocol: int, module: Any, storages: Storages) -> bytes:
    """The pickle of an object; the error for what cannot be pickled names its place."""
    buffer = BytesIO()
    if module is not pickle:
        _foreign(module, buffer, protocol, storages).dump(obj)
        return buffer.getvalue()
    try:
        _Pickler(buffer, protocol, storages).dump(obj)
    except RecursionError as error:
        raise RecursionError(f"{display.NAME}.save: the object is nested too deep") from error
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        place, result = _place(error)
        raise type(error)(
            f"{display.NAME}.save: {place} is of type {type(result).__name__}, which cannot be saved: {error}"
        ) from error
    return buffer.getvalue()


def _place(error: BaseException) -> tuple[str, Any]:
    """Where in the object pickling came to its end, as an expression, and what is there."""
    saved = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is _Pickler.save.__code__:
            saved.append(trace.tb_frame.f_locals["obj"])
        trace = trace.tb_next
    place, attributes = "obj", False
    for outer, inner in zip(saved, saved[1:]):
        if isinstance(outer, dict):
            key = next((key for key, value in outer.items() if value is inner), None)
            if key is None:
                return f"a key of {place}", inner
            place += f".{key}" if attributes else f"[{key!r}]"
        elif isinstance(outer, (list, tuple)) and type(outer) in (list, tuple):
            at = next((i for i, value in enumerate(outer) if value is inner), None)
            place += "" if at is None or attributes else f"[{at}]"
        else:
            attributes = True
            continue
        attributes = False
    return place, saved[-1] if saved else None
