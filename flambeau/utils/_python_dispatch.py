"""Modes that see every operation, those of backward passes and optimisers included, as `torch.utils._python_dispatch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.base.tensor import TensorBase
from ..core.call.custom import CustomOp
from ..core.call.interceptors import Mode, modes_on
from ..core.call.operation import Op

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


class TorchDispatchMode(Mode):
    """A mode whose `__torch_dispatch__` answers the operations that reach it, after modes of the upper level and classes.

    It is given leaves, and those that a backward pass calls: an operation that is made of others is not shown, but they are.

    >>> import flambeau
    >>> from flambeau.utils._python_dispatch import TorchDispatchMode
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with Names():
    ...     y = x.exp()
    exp
    """

    def __torch_dispatch__(
        self, func: Callable, types: Sequence, args: tuple = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} is a TorchDispatchMode without __torch_dispatch__")

    def handle(self, operation: Op, types: tuple, args: tuple, kwargs: dict) -> Any:
        """Hand the call to `__torch_dispatch__`, or to the rule that `library.register_torch_dispatch` has for this class."""
        if isinstance(operation, CustomOp):  # what may be given by position is
            args, named = operation._bind(args, kwargs)
            kwargs = named or {}
        rules = getattr(operation, "dispatch_rules", None)
        if rules and type(self) in rules:
            return rules[type(self)](self, operation, types, args, kwargs)
        return self.__torch_dispatch__(operation, types, args, kwargs)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchDispatchMode:
        """A new mode; enter it with `with`."""
        return cls(*args, **kwargs)


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost of them, None where none is on."""
    modes = modes_on(False)
    return modes[-1] if modes else None


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether it is of a class of tensors that says how it is taken apart: `__tensor_flatten__`, `__tensor_unflatten__`.

    >>> import flambeau
    >>> from flambeau.utils._python_dispatch import is_traceable_wrapper_subclass
    >>> is_traceable_wrapper_subclass(flambeau.ones(2))
    False
    """
    return (
        isinstance(t, TensorBase) and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    )
