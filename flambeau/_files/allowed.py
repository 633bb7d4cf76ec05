"""What files may name that are read with `weights_only=True`: what users allow, and what is allowed by itself.

Of the latter each has a maker, which a call in a pickle goes to: it takes the arguments that such a file has, and no others.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from .._tensor import Tensor
from ..core.base import formats
from ..core.base.dtypes import Size, by_name, without_tensors
from ..core.base.dtypes import device as Device
from ..nn.parameter import Parameter
from . import names, rebuilding
from .errors import short

if TYPE_CHECKING:
    from .unpickling import Unpickler

_user: dict[Any, None] = {}  # what users allowed, in their order


# --- what users allow ------------------------------


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow functions and classes in the files that `load` reads with `weights_only=True`.

    Functions may be called and classes made and given attributes by whoever wrote the file.  An item is one, or a pair of
    one and of its full name in the file, where that is not `module.qualname`.

    Raises:
        TypeError: the argument cannot be iterated over

    >>> import flambeau
    >>> flambeau.serialization.add_safe_globals([range])
    >>> flambeau.serialization.get_safe_globals()
    [<class 'range'>]
    >>> flambeau.serialization.clear_safe_globals()
    """
    _user.update(dict.fromkeys(safe_globals))


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` allowed.

    >>> import flambeau
    >>> flambeau.serialization.add_safe_globals([complex])
    >>> complex in flambeau.serialization.get_safe_globals()
    True
    >>> flambeau.serialization.clear_safe_globals()
    """
    return list(_user)


def clear_safe_globals() -> None:
    """Allow nothing any more but what is allowed by itself.

    >>> import flambeau
    >>> flambeau.serialization.clear_safe_globals()
    >>> flambeau.serialization.get_safe_globals()
    []
    """
    _user.clear()


class safe_globals:
    """A context in which `add_safe_globals(safe_globals)` holds.

    Raises:
        TypeError: the block is entered, and the argument cannot be iterated over

    >>> import flambeau
    >>> with flambeau.serialization.safe_globals([range]):
    ...     flambeau.serialization.get_safe_globals()
    [<class 'range'>]
    >>> flambeau.serialization.get_safe_globals()
    []
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._added = [item for item in self.safe_globals if item not in _user]
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: object) -> None:
        for item in self._added:
            _user.pop(item, None)


def user_allowed() -> dict[str, Any]:
    """What users allowed, by all the names it may have in files."""
    result: dict[str, Any] = {}
    for item in _user:
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: {len(item)}"
                )
            if type(item[1]) is not str:
                raise TypeError(
                    f"Expected second item in tuple to be str of callable full path, but got: {type(item[1])}"
                )
            result[item[1]] = item[0]
            continue
        result[f"{item.__module__}.{item.__qualname__}"] = item
        in_files = names.in_files(item.__module__, item.__qualname__)
        if in_files is not None:
            result[".".join(in_files)] = item
    return result


# --- what is allowed by itself ------------------------------


def _items(x: Any) -> list[Any]:
    if type(x) not in (list, tuple, set, frozenset):
        raise UnpicklingError(f"a container is made of a {type(x).__name__}")
    return list(x)


def hashable(machine: Unpickler, items: list[Any]) -> list[Any]:
    for item in items:
        machine.check_key(item)
    return items


def _encode(machine: Unpickler, text: Any, encoding: Any = "utf-8") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise UnpicklingError(f"bytes are made of {short(text)} by {short(encoding)}")
    return text.encode(encoding)


def _bytearray(machine: Unpickler, *args: Any) -> bytearray:
    if args and type(args[0]) is str:
        return bytearray(_encode(machine, *args))
    if len(args) > 1 or (args and type(args[0]) is not bytes):
        raise UnpicklingError(f"a bytearray is made of {[type(a).__name__ for a in args]}")
    return bytearray(*args)


def _bytes(machine: Unpickler, *args: Any) -> bytes:
    return bytes(_bytearray(machine, *args))


def _ordered(machine: Unpickler, pairs: Any = ()) -> OrderedDict:
    made: OrderedDict = OrderedDict()
    for pair in _items(pairs) if not isinstance(pairs, dict) else pairs.items():
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise UnpicklingError("an OrderedDict is made of something else than pairs")
        machine.check_key(pair[0])
        made[pair[0]] = pair[1]
    return made


def _counter(machine: Unpickler, counts: Any = None) -> Counter:
    if counts is not None and type(counts) is not dict:
        raise UnpicklingError(f"a Counter is made of a {type(counts).__name__}")
    return Counter(counts)


def _numbers(kind: Callable, *types: type) -> Callable:
    def make(machine: Unpickler, *args: Any) -> Any:
        if any(type(arg) not in types for arg in args):
            raise UnpicklingError(f"a {kind.__name__} is made of {[type(a).__name__ for a in args]}")
        return kind(*args)

    return make


def _size(machine: Unpickler, sizes: Any = ()) -> Any:
    if any(type(n) is not int or not 0 <= n < 2**63 for n in _items(sizes)):
        raise UnpicklingError("a Size is made of something else than numbers of at least 0")
    return Size(sizes)


def _rebuild_from_type(machine: Unpickler, func: Any, new_type: Any, args: Any, state: Any) -> Any:
    if type(args) is not tuple:
        raise UnpicklingError(f"a tensor is made of a {type(args).__name__}")
    machine.charge(state)
    if new_type not in (Tensor, Parameter, rebuilding.JaggedClass) and not machine.is_users(new_type):
        raise UnpicklingError(f"a tensor is of class {short(new_type)}, which is not allowed")
    return rebuilding._rebuild_from_type_v2(func, new_type, args, state)


def _parameter_with_state(machine: Unpickler, data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    machine.charge(state)
    return rebuilding._rebuild_parameter_with_state(data, requires_grad, hooks, state)


def _plain(function: Callable) -> Callable:
    return lambda machine, *args: function(*args)


def _tensor_function(function: Callable, metadata_at: int) -> Callable:
    def make(machine: Unpickler, *args: Any) -> Any:
        if len(args) > metadata_at and args[metadata_at]:  # a mark of a lazy view, for which a copy is made
            machine.charge_copy(args[0])
        return function(*args)

    return make


# What a call of each of these makes.  By identity, since what is called may not even be hashable.
MAKERS: dict[int, Callable] = {
    id(OrderedDict): _ordered,
    id(Counter): _counter,
    id(set): lambda machine, items=(): set(hashable(machine, _items(items))),
    id(frozenset): lambda machine, items=(): frozenset(hashable(machine, _items(items))),
    id(bytearray): _bytearray,
    id(bytes): _bytes,
    id(complex): _numbers(complex, int, float),
    id(slice): _numbers(slice, int, type(None)),
    id(range): _numbers(range, int),
    id(Size): _size,
    id(Device): _numbers(Device, str, int, type(None)),
    id(Parameter): lambda machine, data=None, requires_grad=True: (
        Parameter() if data is None else rebuilding._rebuild_parameter(data, requires_grad, None)
    ),
    id(rebuilding._rebuild_tensor): _plain(rebuilding._rebuild_tensor),
    id(rebuilding._rebuild_tensor_v2): _tensor_function(rebuilding._rebuild_tensor_v2, 6),
    id(rebuilding._rebuild_tensor_v3): _tensor_function(rebuilding._rebuild_tensor_v3, 7),
    id(rebuilding._rebuild_sparse_tensor): _plain(rebuilding._rebuild_sparse_tensor),
    id(rebuilding._rebuild_qtensor): _plain(rebuilding._rebuild_qtensor),
    id(rebuilding._rebuild_nested_tensor): _plain(rebuilding._rebuild_nested_tensor),
    id(rebuilding._rebuild_masked_tensor): _plain(rebuilding._rebuild_masked_tensor),
    id(rebuilding._DimRange): lambda machine: rebuilding._DimRange(),
    id(rebuilding._rebuild_parameter): _plain(rebuilding._rebuild_parameter),
    id(rebuilding._rebuild_parameter_with_state): _parameter_with_state,
    id(rebuilding._rebuild_meta_tensor_no_storage): _plain(rebuilding._rebuild_meta_tensor_no_storage),
    id(rebuilding._rebuild_device_tensor_from_cpu_tensor): _plain(
        rebuilding._rebuild_device_tensor_from_cpu_tensor
    ),
    id(rebuilding._rebuild_from_type_v2): _rebuild_from_type,
    id(rebuilding._rebuild_from_type): _rebuild_from_type,
    id(rebuilding._get_layout): _plain(rebuilding._get_layout),
    id(_encode): _encode,
}


class StorageType:
    """What the name of a storage's class in a file stands for: the dtype of its elements.

    Raises:
        KeyError: no dtype has a storage of that name

    >>> from flambeau.serialization import StorageType
    >>> StorageType("FloatStorage").dtype
    flambeau.float32
    """

    def __init__(self, name: str) -> None:
        self.name = name
        kind = names.STORAGES[name]
        self.dtype = by_name.get(kind) or without_tensors[kind]

    def __repr__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def _allowed() -> dict[str, Any]:
    result: dict[str, Any] = {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "torch.nn.parameter.Parameter": Parameter,
        "torch.nn.Parameter": Parameter,
        "_codecs.encode": _encode,
        **{
            f"builtins.{kind.__name__}": kind
            for kind in (set, frozenset, bytearray, bytes, complex, slice, range)
        },
        **{f"torch.{name}": kind for name, kind in by_name.items()},
        **{
            f"torch.{name}": getattr(formats, name)
            for name in ("contiguous_format", "channels_last", "preserve_format")
        },
        **{f"torch.{kind}": without_tensors[kind] for kind in ("qint8", "quint8", "qint32", "quint4x2")},
        **{f"torch.{scheme.name}": scheme for scheme in formats.qscheme},
    }
    for name in names.STORAGES:
        for module in ("torch", "torch.storage", "torch.cuda"):
            result[f"{module}.{name}"] = StorageType(name)
    for module, name, _, _ in names._TABLE:
        result.setdefault(f"{module}.{name}", names.find(module, name))
    return result


ALLOWED = _allowed()
