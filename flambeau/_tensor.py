"""The Tensor class: the compiled base, what needs Python, and the methods that the registry declares."""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from . import storage
from ._compat.legacy import made as legacy_made
from .core import tape
from .core.base import display
from .core.base.callbacks import callbacks, set_callback
from .core.base.device import get_default_device
from .core.base.dtypes import by_name, get_default_dtype
from .core.base.dtypes import device as by_text
from .core.base.formats import channels_last, channels_last_3d, strided
from .core.base.lazily import lazily
from .core.base.memory import Storage
from .core.base.tensor import TensorBase, inherit_operators, set_tensor_class
from .core.call.interceptors import (
    _disabled_torch_function_impl,
    add_override_class,
    add_wrapper_class,
    overrides_calls,
    set_plain_class,
    torch_function,
)
from .core.call.wrapping import is_wrapping, slots_of
from .core.call.wrapping import make as make_wrapper
from .core.make.create import empty
from .core.make.literal import tensor

_OPERATORS = frozenset(n for n in vars(TensorBase) if n.startswith("__") and n not in ("__doc__", "__new__"))


__getattr__, __dir__ = lazily(
    __name__, names=dict.fromkeys(("_rebuild_from_type", "_rebuild_from_type_v2"), "._files.rebuilding")
)


class Tensor(TensorBase):
    """A multi-dimensional array of elements of one dtype, which records what is done to it.

    Make one with `flambeau.tensor`, `zeros`, `randn` …; its methods are the operations of the flat namespace.

    Shape:
        `Tensor(2, 3)`: (2, 3), of elements that are not set; `Tensor([1, 2])`: (2,); `Tensor()`: (0,)

    Raises:
        TypeError: a size is no int, or an argument is no sequence, array, storage or tensor

    >>> import flambeau
    >>> x = flambeau.tensor([[1., 2.], [3., 4.]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    __array_priority__ = 1000  # NumPy leaves mixed arithmetic to us
    is_nested = False
    _is_wrapper = False  # whether it stands for other tensors, as masked and nested ones do (`_wrapper`)

    _wrapped_layout = strided

    _is_batched = False  # whether it is a tensor inside of `vmap` (`func/_batched.py`)

    def __new__(cls, *args: Any, **kwargs: Any):
        """The legacy constructor: `Tensor(2, 3)` is uninitialised, `Tensor([1, 2])` holds these as the
        default dtype; `_compat.legacy.made` has all it takes.
        """
        if len(args) == 1 and type(args[0]) is list and not kwargs:
            made = tensor(args[0], dtype=get_default_dtype())
        else:
            made = legacy_made(None, None, *args, **kwargs)
        return made if cls is Tensor else made.as_subclass(cls)

    __torch_function__ = classmethod(torch_function)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__torch_dispatch__" in vars(
            cls
        ):  # it sees operations below the tape, and none above unless it says so
            add_wrapper_class(cls)
            if getattr(cls.__torch_function__, "__func__", None) is torch_function:
                cls.__torch_function__ = _disabled_torch_function_impl
        if overrides_calls(cls) and not vars(cls).get(
            "_overrides_while_alive"
        ):  # whoever makes instances of those says when
            add_override_class(cls)
        others = [vars(base) for base in cls.__mro__ if base not in (Tensor, TensorBase, object)]
        if not any(name in members for members in others for name in _OPERATORS):
            inherit_operators(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is left to do: `__new__` has made the tensor."""

    @staticmethod
    def _make_wrapper_subclass(
        cls: type,
        size: Sequence[int],
        strides: Sequence[int] | None = None,
        storage_offset: int | None = None,
        memory_format: Any = None,
        dtype: Any = None,
        layout: Any = strided,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
        _extra_dispatch_keys: Any = None,
        storage_size: int | None = None,
    ) -> Any:
        """A tensor of a class with `__torch_dispatch__` that has no elements: it stands for what the class puts into it.

        Operations on it are recorded as on every tensor, then handed to `__torch_dispatch__(op, types, args, kwargs)` of its class.

        TypeError for a class without `__torch_dispatch__`; ValueError for a policy that is none.  Policies hand questions about sizes
        to the class in PyTorch; here they are answered by what is given, so one is refused.
        """
        if getattr(cls, "__torch_dispatch__", None) is None:
            raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
        if dispatch_sizes_strides_policy not in (None, "strides", "sizes"):
            raise ValueError(
                f"Unknown sizes_strides_policy: {dispatch_sizes_strides_policy}; expected 'strides' or 'sizes'"
            )
        if dispatch_sizes_strides_policy is not None or dispatch_device or dispatch_layout:
            raise NotImplementedError(
                "_make_wrapper_subclass(): sizes, strides, devices and layouts are those given; a class does not choose them "
                "(dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)"
            )
        size = tuple(size)
        if strides is None:
            strides = strides_in(memory_format, size)
        elif memory_format is not None:
            raise TypeError("_make_wrapper_subclass(): strides and memory_format exclude each other")
        made = make_wrapper(
            cls,
            size,
            tuple(strides),
            storage_offset or 0,
            get_default_dtype() if dtype is None else dtype,
            by_text(device) if device is not None else get_default_device(),
            storage_size,
        )
        if layout is not strided:
            made._wrapped_layout = layout
        return made.requires_grad_(True) if requires_grad else made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if is_wrapping(self) or tensor_contents is not None:
            return _wrapper_text(self, tensor_contents)
        return callbacks["repr"](self)

    def _repr_html_(self) -> str:
        """What notebooks show: the text, figures and a picture."""
        return callbacks["tensor_html"](self)

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
        if is_wrapping(self):
            return _wrapper_copied(self, memo)
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
        if is_wrapping(self):
            geometry = tuple(self.shape), self.stride(), self.storage_offset()
            fields = self.dtype, self.layout, str(self.device), self.requires_grad
            return _rebuild_wrapper, (type(self), *geometry, *fields, dict(self.__dict__), slots_of(self))
        return reduced(self, self.detach() if self.device.type in ("cpu", "meta") else self.detach().cpu())

    # the tape
    def register_hook(self, hook):
        """`hook(grad)` runs when this tensor's gradient is computed; a tensor it returns replaces the
        gradient.

        Raises:
            RuntimeError: the tensor requires no gradient

        >>> import flambeau
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> (x * 2).backward()
        >>> x.grad
        tensor([20.])
        """
        return tape.register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook):
        """`hook(tensor)` runs after a gradient was added to this leaf's `.grad`.

        Raises:
            RuntimeError: the tensor is no leaf that requires a gradient

        >>> import flambeau
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
        >>> (x * 2).backward()
        tensor([2.])
        """
        return tape.register_post_accumulate_grad_hook(self, hook)

    def retain_grad(self) -> None:
        """Keep the gradient of a result in `.grad`.

        Raises:
            RuntimeError: the tensor requires no gradient

        >>> import flambeau
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> y = x * 2
        >>> y.retain_grad()
        >>> (y * 3).backward()
        >>> y.grad
        tensor([3.])
        """
        tape.retain_grad(self)

    @property
    def _cdata(self) -> int:
        """A number that no other tensor has while this one lives, as PyTorch's address of it."""
        return id(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called."""
        return bool(self._retains_grad_flag())

    @property
    def layout(self):
        """How elements are stored: always `flambeau.strided`, but what a wrapper was given."""
        return self._wrapped_layout

    def is_distributed(self) -> bool:
        """Whether the elements lie in several processes: False.

        >>> import flambeau
        >>> flambeau.zeros(2).is_distributed()
        False
        """
        return False

    def const_data_ptr(self) -> int:
        """`data_ptr()`, of a program that promises not to write there.

        >>> import flambeau
        >>> x = flambeau.zeros(2)
        >>> x.const_data_ptr() == x.data_ptr()
        True
        """
        return self.data_ptr()

    def apply_(self, function) -> Tensor:
        """Replace each element by `function` of it (a Python call for each: slow).

        Shape:
            self: any, which stays

        Raises:
            TypeError: the argument cannot be called

        >>> import flambeau
        >>> flambeau.tensor([1.0, 4.0]).apply_(lambda x: x + 1)
        tensor([2., 5.])
        """
        flat = [function(v) for v in self.reshape(-1).tolist()]
        return self.copy_(tensor(flat, dtype=self.dtype, device="cpu").reshape(self.shape))

    def storage(self):
        """The elements under this tensor as a `TypedStorage`; `untyped_storage` has the bytes, and no warning.

        >>> import flambeau
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     len(flambeau.zeros(4)[1:].storage())
        4
        """
        storage.warn()
        return self._typed_storage()

    def _typed_storage(self):
        return storage.TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)

    def storage_type(self) -> type:
        """The old class of storages of this dtype.

        >>> import flambeau
        >>> flambeau.zeros(2).storage_type().__name__
        'FloatStorage'
        """
        return storage.legacy_class(self.dtype)

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """NotImplementedError: only a nested tensor has parts to pad; see `flambeau.nested.to_padded_tensor`.

        Shape:
            self: a nested tensor alone

        >>> import flambeau
        >>> flambeau.nested.nested_tensor([flambeau.ones(1), flambeau.ones(2)]).to_padded_tensor(0.0)
        tensor([[1., 0.],
                [1., 1.]])
        """
        raise NotImplementedError("to_padded_tensor(): expected a nested tensor, got one that is not")

    def is_shared(self) -> bool:
        """Whether other processes can see this memory.

        >>> import flambeau
        >>> x = flambeau.zeros(2)
        >>> x.is_shared(), x.share_memory_().is_shared()
        (False, True)
        """
        return self.untyped_storage().is_shared()

    def share_memory_(self) -> Tensor:
        """Move the tensor's storage to shared memory, in place: all tensors over it, and processes they are sent to, see the
        same elements.  Nothing happens to what is shared already.

        Shape:
            self: any, which stays

        >>> import flambeau
        >>> x = flambeau.zeros(3)
        >>> row = x[1:]
        >>> x.share_memory_() is x and row.is_shared()
        True
        """
        self.untyped_storage().share_memory_()
        return self


def strides_in(memory_format: Any, size: tuple[int, ...]) -> list[int]:
    """The strides of a dense tensor of that size and format."""
    last = memory_format in (channels_last, channels_last_3d)
    order = [*range(len(size))]
    if last:
        if len(size) != (4 if memory_format is channels_last else 5):
            raise RuntimeError(
                f"required rank {4 if memory_format is channels_last else 5} tensor to use {memory_format} format"
            )
        order = [0, *range(2, len(size)), 1]
    strides, step = [1] * len(size), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(int(size[d]), 1)
    return strides


def _wrapper_text(wrapper: Any, contents: str | None) -> str:
    """A wrapper's class, what it says it holds, and what every tensor says."""
    parts = [f"..., size={tuple(wrapper.shape)}" if contents is None else contents]
    if contents is None and wrapper.dtype != get_default_dtype():
        parts.append(f"dtype={wrapper.dtype}")
    if wrapper.device.type != "cpu":
        parts.append(f"device='{wrapper.device}'")
    if wrapper.grad_fn is not None:
        parts.append(f"grad_fn=<{wrapper.grad_fn.name()}>")
    elif wrapper.requires_grad:
        parts.append("requires_grad=True")
    return f"{type(wrapper).__name__}({', '.join(parts)})"


def _wrapper_copied(wrapper: Any, memo: dict) -> Any:
    """A leaf by the class's own `clone`, with its attributes copied."""
    copied = wrapper.detach().clone()
    if type(copied) is not type(wrapper):
        raise RuntimeError(
            "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that properly implement "
            f"clone(): got {type(copied).__name__} of {type(wrapper).__name__}"
        )
    memo[id(wrapper)] = copied
    copied.requires_grad_(wrapper.requires_grad)
    if wrapper.grad is not None:
        copied.grad = deepcopy(wrapper.grad, memo)
    for name, value in {**slots_of(wrapper), **wrapper.__dict__}.items():
        setattr(copied, name, deepcopy(value, memo))
    return copied


def _rebuild_wrapper(cls, size, strides, offset, dtype, layout, device, requires_grad, state, slots):
    made = Tensor._make_wrapper_subclass(
        cls, size, strides, offset, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )
    for name, value in {**slots, **state}.items():
        setattr(made, name, value)
    return made


def reduced(of: Tensor, held: Tensor) -> tuple:
    """What pickle needs to make a tensor from the storage of `held`, which has its elements."""
    geometry = held.storage_offset(), tuple(held.shape), held.stride()
    where = None if held.device == of.device else str(of.device)
    fields = of.requires_grad, dict(of.__dict__)
    return _rebuild, (type(of), held.untyped_storage(), of.dtype, geometry, where, *fields)


def _rebuild(cls, storage, dtype, geometry, where, requires_grad, attributes):
    made = empty(0, dtype=dtype, device=storage.device if storage.device.type == "cuda" else "cpu").set_(
        storage, *geometry
    )
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


set_callback("storage.elements", _elements)
set_callback("storage.of", _storage_on)
set_callback("storage.typed", storage.converted)


def _storage_of(raw: bytes, device: str | None = None) -> Storage:
    made = Storage(len(raw))
    made._fill(lambda bytes_of: operator.setitem(bytes_of, slice(None), raw))
    return made if device is None else made.to(device=device)


def _storage_without_data(nbytes: int) -> Storage:
    from .core.make.create import empty

    return empty(nbytes, dtype=by_name["uint8"], device="meta").untyped_storage()


def _reduce_storage(storage: Storage) -> tuple:
    if storage.device.type == "meta":
        return _storage_without_data, (storage.nbytes(),)
    where = () if storage.device.type == "cpu" else (str(storage.device),)
    return _storage_of, (bytes(storage.cpu()._read_only()), *where)


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
