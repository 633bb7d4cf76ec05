"""Storages with a dtype, which old programs and checkpoints name: `TypedStorage` and `FloatStorage`, `LongStorage` ….

New programs use `tensor.untyped_storage()`.  As PyTorch's, these warn once that they are deprecated.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, ClassVar

from .core.base import display
from .core.base.callbacks import set_callback
from .core.base.dtypes import by_name, dtype, get_default_dtype
from .core.base.memory import Storage as UntypedStorage
from .core.base.once import warn_once
from .core.call.function import BuiltIn
from .core.make.create import empty
from .core.make.literal import tensor

__all__ = ["TypedStorage", "UntypedStorage"]


def warn(stacklevel: int = 2) -> None:
    """Say once that typed storages are deprecated."""
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
        "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
        "directly, use tensor.untyped_storage() instead of tensor.storage()",
        stacklevel=stacklevel + 1,
    )


def _by_name(action: str, *given: Any) -> Any:
    """Memory under a name is multiprocessing's concern, which is imported when it is first requested."""
    return getattr(import_module(f"{__package__}.multiprocessing._names"), action)(*given)


set_callback("storage.by_name", _by_name)


def converted(elements: UntypedStorage | TypedStorage, to: Any) -> TypedStorage:
    """The elements (of an untyped storage: the bytes) as those of another dtype, given as one, as a class or as its name."""
    if isinstance(to, str):
        to = _classes.get(to.rpartition(".")[2].removesuffix("Storage"), to)
    if isinstance(to, _LegacyMeta):
        to = to.dtype
    if not isinstance(to, dtype):
        raise TypeError(f"Argument 'dtype' must be {display.public('dtype')}, not {type(to)}")
    kind = elements.dtype if isinstance(elements, TypedStorage) else by_name["uint8"]
    untyped = elements._untyped_storage if isinstance(elements, TypedStorage) else elements
    result = _flat(untyped, kind).to(to).untyped_storage()
    return TypedStorage(
        wrap_storage=result.clone() if result is untyped else result, dtype=to, _internal=True
    )


def _flat(untyped: UntypedStorage, kind: dtype) -> Any:
    """All elements of a storage as a tensor."""
    return empty(0, dtype=kind, device=untyped.device).set_(
        untyped, 0, (untyped.nbytes() // kind.itemsize,), (1,)
    )


class TypedStorage:
    """The elements of an `UntypedStorage` as those of one dtype.

    Args:
        size or sequence: how many elements, which are not set, or the elements; none by default.
        dtype: by default the default dtype.
        device: by default the CPU.
        wrap_storage: the bytes, instead of new ones.

    Raises:
        RuntimeError, TypeError: other combinations of these.

    >>> import flambeau, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     s = flambeau.TypedStorage([1, 2, 3], dtype=flambeau.int16)
    ...     s[1] = 7
    >>> s.tolist(), s.nbytes()
    ([1, 7, 3], 6)
    """

    is_sparse = False
    dtype: Any
    _untyped_storage: UntypedStorage

    def __new__(cls, *args: Any, wrap_storage=None, dtype=None, device=None, _internal=False) -> TypedStorage:
        if not _internal:
            warn()
        made = object.__new__(TypedStorage)
        if issubclass(cls, _Legacy):
            if cls is _Legacy:
                raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
            if dtype is not None or device is not None:
                raise RuntimeError(
                    f"{cls.__name__}(): Keyword arguments 'dtype' and 'device' cannot be specified"
                )
            if (
                wrap_storage is not None
                and isinstance(wrap_storage, UntypedStorage)
                and wrap_storage.device.type != "cpu"
            ):
                raise RuntimeError(
                    f"{cls.__name__}(): Device of 'wrap_storage' must be cpu, but got {wrap_storage.device.type}"
                )
            made._set(args, wrap_storage, cls.dtype, None, cls.__name__)
            return made
        if cls is not TypedStorage:
            made = object.__new__(cls)
        made._set(args, wrap_storage, dtype, device, cls.__name__)
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is left to do: `__new__` has made the storage."""

    def _set(self, args: tuple, wrapped: Any, kind: Any, device: Any, who: str) -> None:
        if wrapped is not None:
            if args or device is not None:
                raise RuntimeError(
                    f"{who}(): no other argument than 'dtype' should be given when using 'wrap_storage'"
                )
            if kind is None:
                raise RuntimeError(f"{who}(): Argument 'dtype' must be specified")
            if not isinstance(wrapped, UntypedStorage):
                raise TypeError(
                    f"{who}(): Argument 'wrap_storage' must be UntypedStorage, but got {type(wrapped).__name__}"
                )
        elif len(args) > 1:
            raise RuntimeError(f"{who}(): Too many positional arguments")
        kind = get_default_dtype() if kind is None else kind
        if not isinstance(kind, dtype):
            raise TypeError(f"{who}(): Argument 'dtype' must be {display.public('dtype')}, not {type(kind)}")
        self.dtype = kind
        if wrapped is not None:
            self._untyped_storage = wrapped
        elif args and not hasattr(args[0], "__index__"):
            if not isinstance(args[0], Sequence) or isinstance(args[0], (str, bytes)):
                raise TypeError(f"{who}(): Argument type not recognized: {type(args[0])}")
            self._untyped_storage = tensor(args[0], dtype=kind, device=device or "cpu").untyped_storage()
        else:
            count = operator.index(args[0]) if args else 0
            self._untyped_storage = UntypedStorage(count * kind.itemsize, device=device or "cpu")

    def _like(self, untyped: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=untyped, dtype=self.dtype, _internal=True)

    # the bytes
    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    @property
    def _dtype(self) -> Any:
        return self.dtype

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device."""
        return self._untyped_storage.is_cuda

    @property
    def filename(self) -> str | None:
        """The name of the file that is mapped, None for other memory."""
        return self._untyped_storage.filename

    def get_device(self) -> int:
        """The device's number; -1 on the CPU."""
        return self._untyped_storage.get_device()

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """How many bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """How many elements."""
        return self.nbytes() // self.dtype.itemsize

    _size, _nbytes, _element_size, _data_ptr = size, nbytes, element_size, data_ptr
    __len__ = size

    # elements
    def _at(self, key: Any) -> int:
        if isinstance(key, bool) or not isinstance(key, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(key)}")
        if not -self.size() <= key < self.size():
            raise IndexError(f"index {key} out of range for storage of size {self.size()}")
        return key

    def __getitem__(self, key: int) -> Any:
        if isinstance(key, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return _flat(self._untyped_storage, self.dtype)[self._at(key)].item()

    def __setitem__(self, key: int | slice, value: Any) -> None:
        if isinstance(value, (TypedStorage, UntypedStorage)):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        _flat(self._untyped_storage, self.dtype)[key if isinstance(key, slice) else self._at(key)] = value

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        self[:] = value
        return self

    def tolist(self) -> list:
        """The elements as Python numbers."""
        return _flat(self._untyped_storage, self.dtype).tolist()

    def __iter__(self) -> Iterator:
        return iter(self.tolist())

    def __repr__(self) -> str:
        described = f"[{display.public('storage.TypedStorage')}(dtype={self.dtype}, device={self.device}) of size {len(self)}]"
        if self.device.type == "meta":
            return f"...\n{described}"
        return "".join(f" {element}\n" for element in self.tolist()) + described

    # copies and changes
    def copy_(self, source: TypedStorage | UntypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Copy the bytes of another storage; RuntimeError where it has not as many."""
        untyped = source._untyped_storage if isinstance(source, TypedStorage) else source
        self._untyped_storage.copy_(untyped, non_blocking)
        return self

    def clone(self) -> TypedStorage:
        """A copy in memory of its own."""
        return self._like(self._untyped_storage.clone())

    __copy__ = clone

    def __deepcopy__(self, memo: dict) -> TypedStorage:
        return self._like(copy.deepcopy(self._untyped_storage, memo))

    def __reduce__(self) -> tuple:
        return _rebuilt, (self._untyped_storage, self.dtype)

    def resize_(self, size: int) -> None:
        """Another number of elements, in place; see `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def resizable(self) -> bool:
        """Whether `resize_` works."""
        return self._untyped_storage.resizable()

    def cpu(self) -> TypedStorage:
        """The elements on the CPU."""
        return self._like(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The elements on a CUDA device."""
        return self._like(self._untyped_storage.cuda(device, non_blocking))

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """The elements on a device."""
        return self._like(self._untyped_storage.to(device=device, non_blocking=non_blocking))

    def is_pinned(self, device: Any = None) -> bool:
        """Whether an accelerator copies from this memory directly."""
        return self._untyped_storage.is_pinned(device)

    def pin_memory(self, device: Any = None) -> TypedStorage:
        """A copy in pinned memory."""
        return self._like(self._untyped_storage.pin_memory(device))

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the old class of this dtype; with a class, its name or a dtype, the elements as those."""
        if dtype is not None:
            return converted(self, dtype)
        return display.public(self.pickle_storage_type())

    def pickle_storage_type(self) -> str:
        """The name that checkpoints have for this dtype; KeyError where there is none."""
        return legacy_class(self.dtype).__name__

    _pickle_storage_type = pickle_storage_type

    # memory of several processes
    def is_shared(self) -> bool:
        """Whether other processes can see the elements."""
        return self._untyped_storage.is_shared()

    _is_shared = is_shared

    def share_memory_(self) -> TypedStorage:
        """See `UntypedStorage.share_memory_`."""
        self._untyped_storage.share_memory_()
        return self

    _share_memory_ = share_memory_

    def _new_shared(self, size: int, *, device: Any = None) -> TypedStorage:
        return self._like(UntypedStorage._new_shared(size * self.dtype.itemsize, device=device or "cpu"))

    def _share_fd_cpu_(self) -> tuple[int, int]:
        descriptor, nbytes = self._untyped_storage._share_fd_cpu_()
        return descriptor, nbytes // self.dtype.itemsize

    @classmethod
    def from_buffer(cls, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> TypedStorage:
        """See `UntypedStorage.from_buffer`; the old classes have their dtype, `TypedStorage` takes it."""
        warn()
        if device is not None and str(device) != "cpu":
            raise RuntimeError(f"TypedStorage.from_buffer: Not available for device {device}")
        if issubclass(cls, _Legacy):
            if dtype is not None:
                raise RuntimeError(
                    "from_buffer: 'dtype' can only be specified in UntypedStorage.from_buffer and TypedStorage.from_buffer"
                )
            dtype = cls.dtype
        dtype = get_default_dtype() if dtype is None else dtype
        untyped = UntypedStorage.from_buffer(*args, dtype=dtype, **kwargs)
        return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)

    _from_buffer = from_buffer

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """See `UntypedStorage.from_file`; `size` counts elements."""
        warn()
        if not issubclass(cls, _Legacy):
            raise RuntimeError("from_file can only be called on derived classes")
        untyped = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls.dtype, _internal=True)


def _rebuilt(untyped: UntypedStorage, kind: dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=untyped, dtype=kind, _internal=True)


class _LegacyMeta(type):
    dtype: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        """A storage on the CPU is of the class of its dtype."""
        return (
            type(instance) is TypedStorage and instance.device.type == "cpu" and instance.dtype == cls.dtype
        )


class _Legacy(TypedStorage, metaclass=_LegacyMeta):
    """The old classes, one for each dtype; what they make are TypedStorages."""

    _dtype: ClassVar[Any]  # type: ignore[misc]

    @classmethod
    def _new_shared(cls, size: int) -> TypedStorage:  # type: ignore[override]
        return cls(wrap_storage=UntypedStorage._new_shared(size * cls.dtype.itemsize))


_names = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexDouble": "complex128", "ComplexFloat": "complex64",
}  # fmt: skip
_classes = {
    old: _LegacyMeta(
        f"{old}Storage",
        (_Legacy,),
        {
            "dtype": by_name[name],
            "_dtype": by_name[name],
            "__module__": display.NAME,
            "__doc__": f"""The old name of a `TypedStorage` of {name} on the CPU: uninitialised, of so many elements, or those given.

    Raises:
        TypeError: the argument is neither a size nor a sequence

    >>> import flambeau
    >>> storage = flambeau.{old}Storage([1, 0])
    >>> len(storage), storage.dtype, isinstance(storage, flambeau.{old}Storage)
    (2, flambeau.{name}, True)
    """,
        },
    )
    for old, name in _names.items()
}
LEGACY = {kind.__name__: kind for kind in _classes.values()}
_by_dtype = {kind.dtype: kind for kind in _classes.values()}


def legacy_class(kind: dtype) -> Any:
    """The old class of storages of a dtype; KeyError where there is none."""
    try:
        return _by_dtype[kind]
    except KeyError:
        raise KeyError(f"dtype {kind} is not recognized") from None


def _conversion(name: str) -> Any:
    def convert(self: TypedStorage) -> TypedStorage:
        return converted(self, by_name[name])

    convert.__name__ = name
    convert.__qualname__ = f"TypedStorage.{name}"
    convert.__doc__ = f"The elements as {name}."
    return convert


CONVERSIONS = {
    "double": "float64", "float": "float32", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "complex_double": "complex128", "complex_float": "complex64",
}  # fmt: skip
for _short, _name in CONVERSIONS.items():
    setattr(TypedStorage, _short, _conversion(_name))


def is_storage(obj: object) -> bool:
    """Whether an object is a storage, typed or untyped.

    Raises:
        TypeError: there is no argument

    >>> import flambeau
    >>> flambeau.is_storage(flambeau.zeros(2).untyped_storage()), flambeau.is_storage(flambeau.zeros(2))
    (True, False)
    """
    return isinstance(obj, (UntypedStorage, TypedStorage))


@BuiltIn
def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A 1-D tensor over a mapped file.

    Args:
        filename: its path.
        shared: whether writes go to the file, which is made, or made longer, where needed.
        size: how many elements; 0 or None is as many as the file holds.
        dtype: by default the default dtype.

    Raises:
        RuntimeError: the file cannot be opened, or is shorter than that and not `shared`; another device than the CPU; pinned memory.

    >>> import flambeau, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     x = flambeau.from_file(f"{folder}/numbers", shared=True, size=2, dtype=flambeau.int16).fill_(3)
    ...     open(f"{folder}/numbers", "rb").read()
    b'\\x03\\x00\\x03\\x00'
    """
    if device is not None and str(device) != "cpu":
        raise RuntimeError(f"from_file(): a file is mapped to the CPU's memory, not to {device}")
    if pin_memory:
        raise RuntimeError("from_file(): tensors constructed from a file cannot be pinned")
    kind = get_default_dtype() if dtype is None else dtype
    untyped = UntypedStorage.from_file(filename, bool(shared), (size or 0) * kind.itemsize)
    result = empty(0, dtype=kind, device="cpu").set_(
        untyped, 0, (size or untyped.nbytes() // kind.itemsize,), (1,)
    )
    return result.requires_grad_(requires_grad)
