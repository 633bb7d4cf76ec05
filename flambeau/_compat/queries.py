"""Questions about tensors and dtypes that are plain functions."""

from __future__ import annotations

from .._tensor import Tensor
from ..core.base import display
from ..core.base.dtypes import dtype
from ..core.base.tensor import TensorBase
from ..core.call.function import BuiltIn


def is_tensor(obj: object) -> bool:
    """Whether an object is a Tensor.

    Raises:
        TypeError: there is no argument

    >>> import flambeau
    >>> flambeau.is_tensor(flambeau.zeros(2)), flambeau.is_tensor([0.0, 0.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def _checked(name: str, input: object) -> Tensor:
    """The argument, if it is a tensor."""
    if not isinstance(input, TensorBase):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input  # type: ignore[return-value]


@BuiltIn
def numel(input: Tensor) -> int:
    """How many elements a tensor has.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> flambeau.numel(flambeau.zeros(2, 3))
    6
    """
    return _checked("numel", input).numel()


@BuiltIn
def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor's dtype is a floating-point one.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> flambeau.is_floating_point(flambeau.tensor(1.0)), flambeau.is_floating_point(flambeau.tensor(1j))
    (True, False)
    """
    return _checked("is_floating_point", input).is_floating_point()


@BuiltIn
def is_complex(input: Tensor) -> bool:
    """Whether a tensor's dtype is a complex one.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> flambeau.is_complex(flambeau.tensor(1j)), flambeau.is_complex(flambeau.tensor(1.0))
    (True, False)
    """
    return _checked("is_complex", input).is_complex()


@BuiltIn
def is_conj(input: Tensor) -> bool:
    """Whether a tensor is a lazy conjugate: False, `conj` computes.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> flambeau.is_conj(flambeau.tensor(1j).conj())
    False
    """
    return _checked("is_conj", input).is_conj()


@BuiltIn
def is_neg(input: Tensor) -> bool:
    """Whether a tensor is a lazy negative: False, `neg` computes.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> flambeau.is_neg(-flambeau.ones(2))
    False
    """
    return _checked("is_neg", input).is_neg()


@BuiltIn
def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> with flambeau.inference_mode():
    ...     x = flambeau.ones(2)
    >>> flambeau.is_inference(x), flambeau.is_inference(flambeau.ones(2))
    (True, False)
    """
    return _checked("is_inference", input).is_inference()


@BuiltIn
def is_distributed(input: Tensor) -> bool:
    """Whether a tensor's elements lie in several processes: False.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> flambeau.is_distributed(flambeau.ones(2))
    False
    """
    return _checked("is_distributed", input).is_distributed()


@BuiltIn
def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether type promotion may put values of one dtype into a tensor of the other: categories never go down.

    Raises:
        TypeError: an argument is no dtype

    >>> import flambeau
    >>> flambeau.can_cast(flambeau.int64, flambeau.float32), flambeau.can_cast(flambeau.float32, flambeau.int64)
    (True, False)
    """
    for name, given in (("from_", from_), ("to", to)):
        if not isinstance(given, dtype):
            raise TypeError(
                f"can_cast(): argument '{name}' must be {display.NAME}.dtype, not {type(given).__name__}"
            )

    def rank(d: dtype) -> int:
        return 3 if d.is_complex else 2 if d.is_floating_point else 0 if d.name == "bool" else 1

    return rank(from_) <= rank(to)


@BuiltIn
def get_device(input: Tensor) -> int:
    """The number of a tensor's device; -1 on the CPU.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> flambeau.get_device(flambeau.ones(2))
    -1
    """
    return _checked("get_device", input).get_device()


def typename(obj: object, /) -> str:
    """The full name of an object's type, of a tensor as `Tensor.type()`; of a class or function its own.

    Raises:
        TypeError: there is no argument

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
