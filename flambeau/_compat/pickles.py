"""Plain pickles while the library is shown as torch: `pickle`, joblib and cloudpickle write tensors as PyTorch does.

Either then reads what the other wrote, as with files; and libraries that watch for `torch.storage._load_from_bytes` in a pickle, to
choose where tensors go, see it.  As in PyTorch, tensors that share memory are apart after loading; one tensor is one again.
"""

from __future__ import annotations

import copyreg
import io
from collections import OrderedDict
from importlib import import_module
from typing import Any

from .. import _tensor, nn, serialization, storage
from .._files import names
from ..core.base import display
from ..core.base.memory import Storage
from ..nn.parameter import Parameter

_PACKAGE = __name__.partition(".")[0]


def register() -> None:
    """To be called when the library has got its shown name: `pickle` asks here from now on."""
    for name, home in names._HOMES.items():  # where pickles of modules look for their classes
        if name in vars(nn):  # what is imported later stands where it is defined
            vars(nn)[name].__module__ = home
    copyreg.pickle(Storage, _reduce_storage)
    copyreg.pickle(storage.TypedStorage, _reduce_storage)
    copyreg.pickle(_tensor.Tensor, _reduce_tensor)
    copyreg.pickle(Parameter, _reduce_parameter)
    for module, function in (
        (storage, _load_from_bytes),
        (serialization, _get_layout),
        (_tensor, _rebuild_from_type),
        (_tensor, _rebuild_from_type_v2),
    ):
        function.__module__ = module.__name__
        setattr(module, function.__name__, function)


# What pickles name in modules where nothing else of ours is --------------------------------------------------------------------
def _load_from_bytes(b: bytes) -> Any:
    """The storage in `b`, which is a file: the pickle around it is read by pickle, so nothing is gained by refusing classes."""
    return serialization.load(io.BytesIO(b), weights_only=False)


def _get_layout(name: str) -> Any:
    return _rebuilding()._get_layout(name)


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    return _rebuilding()._rebuild_from_type_v2(func, new_type, args, state)


def _rebuild_from_type(func: Any, type: Any, args: Any, dict: Any) -> Any:
    return _rebuilding()._rebuild_from_type_v2(func, type, args, dict)


def _rebuilding() -> Any:
    """The functions that make tensors again, under the names that PyTorch gives them."""
    module = import_module(f"{_PACKAGE}._files.rebuilding")
    if module._rebuild_tensor_v2.__module__ != display.public("_utils"):
        for name in (
            "_rebuild_tensor_v2",
            "_rebuild_tensor_v3",
            "_rebuild_parameter",
            "_rebuild_parameter_with_state",
        ):
            getattr(module, name).__module__ = display.public("_utils")
    return module


# How they are written -------------------------------------------------------------------------------------------------------
def _reduce_storage(given: Any) -> Any:
    if given.device.type == "meta":
        return (
            given.__reduce_ex__(2)
            if isinstance(given, storage.TypedStorage)
            else _tensor._reduce_storage(given)
        )
    file = io.BytesIO()
    serialization.save(given, file)
    return _load_from_bytes, (file.getvalue(),)


def _reduce_tensor(t: Any) -> tuple:
    if t.is_meta or t.__dict__ or not t.is_leaf:
        return t.__reduce_ex__(2)
    rebuilding = _rebuilding()
    place: tuple = (t.storage_offset(), tuple(t.shape), t.stride(), t.requires_grad, OrderedDict())
    untyped = t.detach().untyped_storage()
    if t.dtype.name in names.STORAGE_OF:
        return rebuilding._rebuild_tensor_v2, (rebuilding.typed(untyped, t.dtype), *place)
    return rebuilding._rebuild_tensor_v3, (
        rebuilding.typed(untyped, rebuilding.by_name["uint8"]),
        *place,
        t.dtype,
    )


def _reduce_parameter(p: Any) -> tuple:
    rebuilding = _rebuilding()
    made: tuple = (p.data, p.requires_grad, OrderedDict())
    return (
        (rebuilding._rebuild_parameter_with_state, (*made, p.__dict__))
        if p.__dict__
        else (rebuilding._rebuild_parameter, made)
    )
