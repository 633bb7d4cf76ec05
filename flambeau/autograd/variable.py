"""`Variable`, what a tensor on the tape was called before every tensor could be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ..core.tape import at_end_of_pass

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """Every tensor is a Variable.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.autograd import Variable
    >>> type(Variable).__name__, isinstance(flambeau.ones(2), Variable), isinstance(1.0, Variable)
    ('VariableMeta', True, False)
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class _ExecutionEngine:
    """The engine of backward passes, as `Variable._execution_engine` shows it.

    >>> import flambeau
    >>> x = flambeau.ones(1, requires_grad=True)
    >>> y = x * 2
    >>> handle = x.register_hook(lambda grad: flambeau.autograd.Variable._execution_engine.queue_callback(lambda: print(x.grad)))
    >>> y.backward()
    tensor([2.])
    """

    @staticmethod
    def queue_callback(callback: Callable[[], None]) -> None:
        """Call a function when all nodes of the running backward pass have run.  RuntimeError outside of one."""
        at_end_of_pass(callback)


class Variable(metaclass=VariableMeta):
    """`Variable(data)` is a tensor over the memory of `data`, a new leaf.

    Args:
        data: a tensor; an empty one by default.
        requires_grad: whether gradients are wanted.

    Raises:
        TypeError: `data` is no tensor.

    >>> import flambeau
    >>> from flambeau.autograd import Variable
    >>> x = Variable(flambeau.ones(2), requires_grad=True)
    >>> type(x).__name__, isinstance(x, Variable), x.requires_grad
    ('Tensor', True, True)
    """

    _execution_engine = _ExecutionEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
