"""The Tensor class: the compiled base, what needs Python, and the methods that the registry declares."""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Sequence
from typing import Any

from . import storage
from ._lazily import lazily
from ._legacy import made as legacy_made
from .core import tape
from .core.base import display
from .core.base.dtypes import by_name, get_default_dtype
from .core.base.formats import strided
from .core.base.memory import Storage
from .core.base.provided import provide, provided
from .core.base.tensor import TensorBase, inherit_operators, set_tensor_class
from .core.call.watching import is_asked, set_plain_class, torch_function, watch_class
from .core.make.create import empty
from .core.make.literal import tensor

_OPERATORS = frozenset(n for n in vars(TensorBase) if n.startswith("__") and n not in ("__doc__", "__new__"))


__getattr__, __dir__ = lazily(
    __name__, names=dict.fromkeys(("_rebuild_from_type", "_rebuild_from_type_v2"), "._files.rebuilding")
)


class Tensor(TensorBase):
    """A multi-dimensional array of elements of one dtype, which records what is done to it.

    Make one with `flambeau.tensor`, `zeros`, `randn` …; its methods are the operations of the flat namespace.

    >>> import flambeau
    >>> x = flambeau.tensor([[1., 2.], [3., 4.]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    __array_priority__ = 1000  # NumPy leaves mixed arithmetic to us
    is_nested = False
    _composed = False  # whether it stands for other tensors, as masked and nested ones do (`_composed.py`)

    _in_slices = False  # whether it is a tensor inside of `vmap` (`func/_batched.py`)

    def __new__(cls, *args: Any, **kwargs: Any):
        """The legacy constructor: `Tensor(2, 3)` is uninitialised, `Tensor([1, 2])` holds these as the
        default dtype; `_legacy.made` has all it takes.
        """
        if len(args) == 1 and type(args[0]) is list and not kwargs:
            made = tensor(args[0], dtype=get_default_dtype())
        else:
            made = legacy_made(None, None, *args, **kwargs)
        return made if cls is Tensor else made.as_subclass(cls)

    __torch_function__ = classmethod(torch_function)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if is_asked(cls) and not vars(cls).get("_asked_while_alive"):  # whoever makes instances of those says when
            watch_class(cls)
        if not any(name in vars(cls) for name in _OPERATORS):
            inherit_operators(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is left to do: `__new__` has made the tensor."""

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return provided["repr"](self)

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and not self.is_meta and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    is_hpu = is_ipu = is_maia = is_mps = is_mtia = is_vulkan = is_xla = is_xpu = property(
        lambda self: False, doc="False: tensors are on no device of that type here."
    )

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (TensorBase, int, float, complex)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but got {type(element).__name__}"
            )
        return bool((self == element).any())

    def __bytes__(self) -> bytes:
        """A byte for each element; so many zeros for a tensor of one integer, which is an index."""
        if self.numel() == 1 and not (self.is_floating_point() or self.is_complex()):
            return bytes(operator.index(self))
        return bytes(self.tolist())

    def __reversed__(self):
        return self.flip(0) if self.ndim else self

    def __deepcopy__(self, memo: dict) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        if id(self) in memo:
            return memo[id(self)]
        copied = self.untyped_storage().__deepcopy__(memo)  # tensors that share memory share it again
        made = empty(0, dtype=self.dtype, device=self.device).set_(
            copied, self.storage_offset(), self.shape, self.stride()
        )
        if type(self) is not Tensor:
            made = made.as_subclass(type(self))
        made.requires_grad_(self.requires_grad)
        if self.grad is not None:
            made.grad = self.grad.__deepcopy__(memo)
        made.__dict__.update({k: v for k, v in self.__dict__.items()})
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> tuple:
        """As a leaf: how it came about stays behind, that it requires a gradient does not."""
        host = self.detach() if self.device.type in ("cpu", "meta") else self.detach().cpu()
        geometry = host.storage_offset(), tuple(host.shape), host.stride()
        where = None if host.device == self.device else str(self.device)
        return _rebuild, (
            type(self),
            host.untyped_storage(),
            self.dtype,
            geometry,
            where,
            self.requires_grad,
            dict(self.__dict__),
        )

    # the tape
    def register_hook(self, hook):
        """`hook(grad)` runs when this tensor's gradient is computed; a tensor it returns replaces the
        gradient.
        """
        return tape.register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook):
        """`hook(tensor)` runs after a gradient was added to this leaf's `.grad`."""
        return tape.register_post_accumulate_grad_hook(self, hook)

    def retain_grad(self) -> None:
        """Keep the gradient of a result in `.grad`."""
        tape.retain_grad(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called."""
        return bool(self.retains_grad_flag())

    @property
    def layout(self):
        """How elements are stored: always `flambeau.strided`."""
        return strided

    def is_distributed(self) -> bool:
        """Whether the elements lie in several processes: False."""
        return False

    def const_data_ptr(self) -> int:
        """`data_ptr()`, of a program that promises not to write there."""
        return self.data_ptr()

    def apply_(self, function) -> Tensor:
        """Replace each element by `function` of it (a Python call for each: slow)."""
        flat = [function(v) for v in self.reshape(-1).tolist()]
        return self.copy_(tensor(flat, dtype=self.dtype, device="cpu").reshape(self.shape))

    def storage(self):
        """The elements under this tensor as a `TypedStorage`; `untyped_storage` has the bytes, and no warning."""
        storage.warn()
        return self._typed_storage()

    def _typed_storage(self):
        return storage.TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)

    def storage_type(self) -> type:
        """The old class of storages of this dtype."""
        return storage.legacy_class(self.dtype)

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """NotImplementedError: only a nested tensor has parts to pad; see `flambeau.nested.to_padded_tensor`."""
        raise NotImplementedError("to_padded_tensor(): expected a nested tensor, got one that is not")

    def is_shared(self) -> bool:
        """Whether other processes can see this memory."""
        return self.untyped_storage().is_shared()

    def share_memory_(self) -> Tensor:
        """Move the tensor's storage to shared memory, in place: all tensors over it, and processes they are sent to, see the
        same elements.  Nothing happens to what is shared already.

        >>> import flambeau
        >>> x = flambeau.zeros(3)
        >>> row = x[1:]
        >>> x.share_memory_() is x and row.is_shared()
        True
        """
        self.untyped_storage().share_memory_()
        return self


def _rebuild(cls, storage, dtype, geometry, where, requires_grad, attributes):
    made = empty(0, dtype=dtype, device="cpu").set_(storage, *geometry)
    if where is not None:
        made = made.to(where)
    if cls is not Tensor:
        made = made.as_subclass(cls)
    made.requires_grad_(requires_grad)
    made.__dict__.update(attributes)
    return made


def _elements(of: Storage) -> Tensor:
    """A storage's bytes as a tensor."""
    return empty(0, dtype=by_name["uint8"], device=of.device).set_(of, 0, (of.nbytes(),), (1,))


def _storage_on(given: Any, device: Any) -> Storage:
    """A new storage of so many bytes, or of these."""
    uint8 = by_name["uint8"]
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return tensor(given, dtype=uint8, device=device).untyped_storage()
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(
            f"UntypedStorage(): argument 'nbytes' must be int or a sequence of ints, not {type(given).__name__}"
        )
    return empty(operator.index(given), dtype=uint8, device=device).untyped_storage()


provide("storage.elements", _elements)
provide("storage.of", _storage_on)
provide("storage.typed", storage.converted)


def _storage_of(raw: bytes, device: str | None = None) -> Storage:
    made = Storage(len(raw))
    memoryview(made)[:] = raw
    return made if device is None else made.to(device=device)


def _storage_without_data(nbytes: int) -> Storage:
    from .core.make.create import empty

    return empty(nbytes, dtype=by_name["uint8"], device="meta").untyped_storage()


def _reduce_storage(storage: Storage) -> tuple:
    if storage.device.type == "meta":
        return _storage_without_data, (storage.nbytes(),)
    where = () if storage.device.type == "cpu" else (str(storage.device),)
    return _storage_of, (bytes(memoryview(storage.cpu())), *where)


# A storage is pickled once however many tensors lie over it, which then share the new one.
copyreg.pickle(Storage, _reduce_storage)


Tensor.__module__ = display.NAME
set_tensor_class(Tensor)
set_plain_class(Tensor)
inherit_operators(Tensor)


def _lies_on(kind: str) -> property:
    return property(
        lambda self: self.device.type == kind,
        None,
        None,
        f"Whether the tensor is on a device of type '{kind}'.",
    )


# What programs ask before they do something for one kind of device.
for _kind in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu"):
    setattr(Tensor, f"is_{_kind}", _lies_on(_kind))
Tensor.is_mkldnn = property(
    lambda self: False, None, None, "Whether the elements are in oneDNN's layout: False."
)
