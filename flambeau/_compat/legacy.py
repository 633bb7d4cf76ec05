"""The constructors of before `flambeau.tensor`: `Tensor(2, 3)`, `FloatTensor([1, 2])`, `x.new(…)`, which take sizes, elements, arrays,
storages and tensors alike.
"""

from __future__ import annotations

from typing import Any

from ..core.base.callbacks import callbacks
from ..core.base.dtypes import Size, device, dtype, get_default_dtype
from ..core.base.memory import Storage
from ..core.base.tensor import TensorBase
from ..core.make.bridge import from_numpy
from ..core.make.create import empty
from ..core.make.literal import tensor
from ..storage import TypedStorage


def made(kind: dtype | None, place: str | None, *args: Any, **named: Any) -> TensorBase:
    """A tensor of that dtype on a device of that type (None: the defaults), made of

    - nothing: a tensor without elements,
    - sizes, one by one or as a `Size`: uninitialised memory,
    - a sequence or an array: its elements; an array of the very dtype is shared,
    - a storage: a 1-D tensor over it,
    - a tensor: another one over its memory.
    """
    on = named.pop("device", None)
    if on is not None and device(on).type != (place or "cpu"):
        raise RuntimeError(
            f"new(): legacy constructor expects device type: {place or 'cpu'} but device type: {device(on).type} was passed"
        )
    for name in ("size", "data", "other", "storage"):
        if name in named and not args:
            args = (Size(named.pop(name)) if name == "size" else named.pop(name),)
    if named:
        raise TypeError(f"new() received an invalid combination of arguments: got '{next(iter(named))}'")
    where = on or place
    options: dict[str, Any] = {"dtype": kind or get_default_dtype(), "device": where}
    given = args[0] if len(args) == 1 else None
    if isinstance(given, TensorBase):
        return callbacks["alias"](_same(given, kind, where))
    if isinstance(given, (Storage, TypedStorage)):
        return _over(given, options["dtype"], where)
    if isinstance(given, Size):
        return empty(given, **options)
    if len(args) != 1 or _is_size(given):
        for k, n in enumerate(args):
            if not _is_size(n):
                raise TypeError(
                    f"new(): argument 'size' failed to unpack the object at pos {k + 1} with error \"type must be tuple of "
                    f'ints,but got {type(n).__name__}"'
                )
        return empty(*args, **options) if args else empty(0, **options)
    if isinstance(given, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(given).__name__}'")
    if not hasattr(type(given), "__len__") or not hasattr(type(given), "__getitem__"):
        raise TypeError(f"new(): data must be a sequence (got {type(given).__name__})")
    if hasattr(given, "__array_interface__") and where in (None, "cpu"):
        array = from_numpy(given)
        return array if array.dtype == options["dtype"] else array.to(options["dtype"])
    return tensor(given, **options)


def _is_size(x: Any) -> bool:
    """An int, of Python or of NumPy; arrays have a method for it, too."""
    return hasattr(type(x), "__index__") and not hasattr(type(x), "__len__") and not isinstance(x, bool)


def _same(given: TensorBase, kind: dtype | None, place: Any) -> TensorBase:
    """The tensor, which has the dtype and lies where it is to; TypeError otherwise."""
    lies = given.device.type == (device(place).type if place is not None else "cpu")
    if kind is not None and (given.dtype != kind or not lies):
        raise TypeError(
            f"new(): expected a tensor of {kind} on {place or 'cpu'}, got one of {given.dtype} on {given.device}"
        )
    return given


def _over(given: Storage | TypedStorage, kind: dtype, place: Any) -> TensorBase:
    """A tensor over a storage of that dtype, or of none."""
    untyped = given
    if isinstance(given, TypedStorage):
        untyped = given._untyped_storage
        if given.dtype != kind:
            raise RuntimeError(
                f"new(): Expected a Storage of type {kind} or an UntypedStorage, but got type {given.dtype} for argument 1 "
                "'storage'"
            )
    return empty(0, dtype=kind, device=untyped.device).set_(
        untyped, 0, (untyped.nbytes() // kind.itemsize,), (1,)
    )
