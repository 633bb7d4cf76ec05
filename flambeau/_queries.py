"""Questions about tensors and dtypes that are plain functions."""

from __future__ import annotations

from ._tensor import Tensor
from .core.base.dtypes import dtype
from .core.call.function import BuiltIn


def is_tensor(obj: object) -> bool:
    """Whether an object is a Tensor.

    Raises:
        TypeError: there is no argument

    >>> import flambeau
    >>> flambeau.is_tensor(flambeau.zeros(2)), flambeau.is_tensor([0.0, 0.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


@BuiltIn
def numel(input: Tensor) -> int:
    """How many elements a tensor has."""
    return input.numel()


@BuiltIn
def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor's dtype is a floating-point one."""
    return input.is_floating_point()


@BuiltIn
def is_complex(input: Tensor) -> bool:
    """Whether a tensor's dtype is a complex one."""
    return input.is_complex()


@BuiltIn
def is_conj(input: Tensor) -> bool:
    """Whether a tensor is a lazy conjugate: False, `conj` computes."""
    return input.is_conj()


@BuiltIn
def is_neg(input: Tensor) -> bool:
    """Whether a tensor is a lazy negative: False, `neg` computes."""
    return input.is_neg()


@BuiltIn
def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    return input.is_inference()


@BuiltIn
def is_distributed(input: Tensor) -> bool:
    """Whether a tensor's elements lie in several processes: False."""
    return input.is_distributed()


@BuiltIn
def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether type promotion may put values of one dtype into a tensor of the other: categories never go down."""
    order = {"bool": 0}

    def rank(d: dtype) -> int:
        return 3 if d.is_complex else 2 if d.is_floating_point else order.get(d.name, 1)

    return rank(from_) <= rank(to)


@BuiltIn
def get_device(input: Tensor) -> int:
    """The number of a tensor's device; -1 on the CPU.

    >>> import flambeau
    >>> flambeau.get_device(flambeau.ones(2))
    -1
    """
    return input.get_device()


def typename(obj: object, /) -> str:
    """The full name of an object's type, of a tensor as `Tensor.type()`; of a class or function its own.

    >>> import flambeau
    >>> flambeau.typename(flambeau.nn.Linear(1, 1)), flambeau.typename(3)
    ('flambeau.nn.modules.linear.Linear', 'int')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    name = getattr(named, "__qualname__", None) or named.__name__  # type: ignore[attr-defined]
    module = getattr(named, "__module__", None) or ""
    return name if module in ("", "builtins") else f"{module}.{name}"
