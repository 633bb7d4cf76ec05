"""`Parameter` and `Buffer`: tensors that a `Module` registers when they are assigned to it, and those that wait for a shape."""

from __future__ import annotations

from typing import Any, Protocol

from .._tensor import Tensor
from ..core.base.formats import strided
from ..core.call.interceptors import _disabled_torch_function_impl, add_override_class
from ..core.call.wrapping import is_wrapping
from ..core.make.create import empty

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


def _own(data: Tensor, name: str) -> Tensor:
    """The data, unless it is that of other tensors."""
    if data._is_wrapper or data.layout is not strided:
        raise TypeError(
            f"{name}(): masked, nested and sparse tensors cannot be one; make one of their elements (values(), get_data())"
        )
    return data


def _of_own_class(data: Tensor) -> bool:
    """Whether the data is of a user's class of tensors, which it keeps."""
    kind = type(data)
    return (
        kind is not Tensor and not issubclass(kind, (Parameter, Buffer)) and _own(data, "Parameter") is data
    )


class _OfWrappers(type(Protocol)):  # type: ignore[misc]
    """A user's class of tensors stays of its class as a parameter, and is one.  Derived from the class of protocols, so that classes may be
    both.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)
        )

    __subclasscheck__ = type.__subclasscheck__


class Parameter(Tensor, metaclass=_OfWrappers):
    """A tensor that is trained: assigned to a `Module` it appears in `module.parameters()`.

    It shares the memory of `data` and is a leaf of the graph. What operations return for a Parameter are
    plain tensors. `requires_grad` does not depend on `flambeau.no_grad()`.

    Args:
        data: a Tensor of any shape; an empty float tensor by default.
        requires_grad: whether gradients are wanted; `data` must then be of a floating or complex dtype.

    Raises:
        AttributeError: `data` is no tensor.
        RuntimeError: `requires_grad` with an integer or bool tensor.

    >>> import flambeau
    >>> flambeau.nn.Parameter(flambeau.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    __torch_function__ = _disabled_torch_function_impl  # what operations return for it is a plain tensor

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = empty(0)
        elif not isinstance(data, Tensor):
            raise AttributeError(f"Parameter(): argument 'data' must be a Tensor, not {type(data).__name__}")
        if is_wrapping(data) or _of_own_class(data):
            wrapper = data.detach().requires_grad_(requires_grad)
            if type(wrapper) is not type(data):
                raise RuntimeError(
                    f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an instance of "
                    f"the same type, but return type {type(wrapper).__name__} was found instead"
                )
            wrapper._is_param = True  # type: ignore[union-attr]
            return wrapper  # type: ignore[return-value]
        return Tensor._make_subclass(cls, _own(data, "Parameter"), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return _rebuild, (type(self), self.data, self.requires_grad, self.__dict__)


def _rebuild(cls: type[Parameter], data: Tensor, requires_grad: bool, state: dict[str, Any]) -> Parameter:
    parameter = cls(data, requires_grad)
    parameter.__dict__.update(state)
    return parameter


class Buffer(Tensor):
    """A tensor that belongs to a `Module`'s state but is not trained: assigned to a Module it is registered
    as a buffer.

    Args:
        data: a Tensor of any shape and dtype, whose memory and `requires_grad` the buffer shares; an empty
            float tensor by default.
        persistent: whether the buffer is part of the module's `state_dict`.

    Raises:
        AttributeError: `data` is no Tensor

    >>> import flambeau
    >>> module = flambeau.nn.Module()
    >>> module.steps = flambeau.nn.Buffer(flambeau.zeros(1))
    >>> list(module.state_dict())
    ['steps']
    """

    persistent: bool
    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = empty(0)
        elif not isinstance(data, Tensor):
            raise AttributeError(f"Buffer(): argument 'data' must be a Tensor, not {type(data).__name__}")
        buffer = Tensor._make_subclass(cls, _own(data, "Buffer"), data.requires_grad)
        buffer.persistent = persistent
        return buffer

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            copied = type(self)(self.detach().clone(), persistent=self.persistent)
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return _rebuild_buffer, (type(self), self.data, self.requires_grad, self.persistent)


def _rebuild_buffer(cls: type[Buffer], data: Tensor, requires_grad: bool, persistent: bool) -> Buffer:
    return cls(data, persistent=persistent).requires_grad_(requires_grad)


class UninitializedTensorMixin:
    """What parameters and buffers of a shape not known yet share: a dtype and a device.

    Nothing computes with them. `materialize` makes the tensor an ordinary one, the same object.

    Raises:
        ValueError: an operation is called with it.
        RuntimeError: its `shape` is requested.

    >>> import flambeau
    >>> from flambeau.nn.parameter import UninitializedTensorMixin
    >>> layer = flambeau.nn.LazyLinear(2)
    >>> isinstance(layer.weight, UninitializedTensorMixin), layer.weight.dtype
    (True, flambeau.float32)
    >>> out = layer(flambeau.zeros(1, 3))
    >>> isinstance(layer.weight, UninitializedTensorMixin), layer.weight.shape == (2, 3)
    (False, True)
    """

    cls_to_become: type[Tensor]

    # What may be read of a tensor that has no shape: what moves it, and what it is.
    _allowed_methods = frozenset(
        "is_complex is_floating_point half bfloat16 float double char short int long type to cpu cuda get_device"
        " share_memory_".split()
    )

    def __new__(cls, requires_grad: bool, device: Any, dtype: Any) -> Any:
        made = Tensor._make_subclass(cls, empty(0, device=device, dtype=dtype), requires_grad)
        # Tensor subclasses that intercept operations make every call dearer: ours intercept while an instance
        # is waiting for its shape, which holds this.
        made._waiting = _Waiting()
        add_override_class(made._waiting)
        return made

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Make it an ordinary parameter or tensor of that shape, whose elements are not initialised.

        Args:
            shape: the sizes.
            device, dtype: in place of those that it had.
        """
        self.data = empty(
            shape,
            device=self.data.device if device is None else device,
            dtype=self.data.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become
        del self._waiting

    @property
    def shape(self) -> Any:
        """There is none yet.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        """There is no memory to share yet.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def _likewise(self: Any, device: Any, dtype: Any) -> Any:
        return type(self)(self.requires_grad, device, dtype)

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self._likewise(self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self: Any, protocol: Any) -> tuple:
        return type(self), (self.requires_grad, self.device, self.dtype)


def _used(cls: type, name: str) -> ValueError:
    return ValueError(
        f"Attempted to use an uninitialized parameter in {name}. This error happens when you are using a `LazyModule` or "
        f"explicitly manipulating `flambeau.nn.parameter.{cls.__name__}` objects. When using LazyModules call `forward` "
        "with a dummy batch to initialize the parameters before calling flambeau functions"
    )


def _refuse(name: str) -> None:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise _used(type(self), name)

    method.__name__ = name
    setattr(UninitializedTensorMixin, name, method)


# What tells of a tensor's shape without being an operation.
for _name in ("dim", "ndimension", "numel", "nelement", "stride", "storage_offset", "data_ptr"):
    _refuse(_name)


class _Waiting:
    """Lives as long as something waits for its shape."""


def is_lazy(param: Any) -> bool:
    """Whether `param` is an `UninitializedParameter` or `UninitializedBuffer`.

    Raises nothing.

    >>> from flambeau import nn
    >>> nn.parameter.is_lazy(nn.LazyLinear(2).weight), nn.parameter.is_lazy(nn.Linear(2, 2).weight)
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc, override]
    """A parameter whose shape is not known yet; lazy modules give it one at their first call.

    It may be moved and converted, copied, saved, and handed to an optimiser. `materialize(shape)` turns this very object
    into a `Parameter`.

    Args:
        requires_grad: whether the parameter will want gradients.
        device, dtype: where it will be made, and of what; the defaults are those of `empty`.

    Raises:
        ValueError: an operation is called with it.
        RuntimeError: its `shape` is requested.

    >>> from flambeau import nn
    >>> weight = nn.UninitializedParameter()
    >>> weight
    <UninitializedParameter>
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape == (2, 3)
    ('Parameter', True)
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        return super().__new__(cls, requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):  # type: ignore[misc, override]
    """A buffer whose shape is not known yet; see `UninitializedParameter`. `materialize` turns it into a plain tensor.

    Args:
        requires_grad, device, dtype: as of an `UninitializedParameter`.
        persistent: whether the buffer is part of the module's `state_dict`.

    Raises:
        ValueError: it is used before `materialize` gives it a shape

    >>> import flambeau
    >>> mean = flambeau.nn.UninitializedBuffer(dtype=flambeau.float64)
    >>> mean.materialize(2)
    >>> mean.dtype, mean.shape == (2,)
    (flambeau.float64, True)
    """

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made = super().__new__(cls, requires_grad, device, dtype)
        made.persistent = persistent
        return made

    def _likewise(self, device: Any, dtype: Any) -> Any:
        return type(self)(self.requires_grad, device, dtype, self.persistent)

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return type(self), (self.requires_grad, self.device, self.dtype, self.persistent)


@classmethod  # type: ignore[misc]
def _torch_function(cls: Any, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
    if func.__name__ not in cls._allowed_methods:
        raise _used(cls, func.__name__)
    result = _disabled_torch_function_impl(func, types, args, kwargs)
    if isinstance(result, Tensor) and result is not args[0]:
        return args[0]._likewise(result.device, result.dtype)
    return result


# Set when the classes are made: they do not intercept because they exist, but while an instance waits.
UninitializedTensorMixin.__torch_function__ = _torch_function  # type: ignore[attr-defined]
