"""`Parameter` and `Buffer`: tensors that a `Module` registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..core.call.watching import _disabled_torch_function_impl
from ..core.make.create import empty

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
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
        return Tensor._make_subclass(cls, data, requires_grad)

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
        buffer = Tensor._make_subclass(cls, data, data.requires_grad)
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
