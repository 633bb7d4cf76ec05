"""The old classes of tensors, one for each dtype and device: `FloatTensor`, `LongTensor`, `cuda.HalfTensor` …

They make tensors, tell tensors of their dtype (`isinstance(x, FloatTensor)`), and name a dtype to `x.type(…)`.  What they make are
Tensors; nothing is derived from them.
"""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..core.base import display
from ..core.base.device import set_default_device
from ..core.base.dtypes import by_name, dtype, set_default_dtype
from ..core.base.formats import strided
from ..core.base.tensor import TensorBase
from ..operations.pointwise.copying import OLD_NAMES, old_kind
from . import legacy

_KINDS = (
    *("float32", "float64", "float16", "bfloat16"),
    *("uint8", "int8", "int16", "int32", "int64", "bool"),
)


class tensortype(type):
    """The class of the old classes of tensors."""

    dtype: dtype
    place_of_tensors: str

    def __new__(cls, name: str, bases: tuple, members: dict) -> tensortype:
        if bases:
            kind = bases[0]
            raise TypeError(f"type '{kind.__module__}.{kind.__name__}' is not an acceptable base type")
        return super().__new__(cls, name, (), members)

    def __call__(cls, *args: Any, **named: Any) -> TensorBase:
        return legacy.made(cls.dtype, cls.place_of_tensors, *args, **named)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype == cls.dtype and x.device.type == cls.place_of_tensors

    def __getattr__(cls, name: str) -> Any:
        """What tensors have: `FloatTensor.add`."""
        if name.startswith("__"):
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return getattr(Tensor, name)


def _made(kind: str, place: str) -> tensortype:
    made = tensortype(
        f"{OLD_NAMES[kind]}Tensor",
        (),
        {
            "__module__": display.NAME if place == "cpu" else f"{display.NAME}.{place}",
            "__doc__": _explained(kind, place),
            "dtype": by_name[kind],
            "layout": strided,
            "is_cuda": place == "cuda",
            "is_sparse": False,
            "place_of_tensors": place,
        },
    )
    return made


def _explained(kind: str, place: str) -> str:
    """The docstring of a class; those of another device have no example, which would want one."""
    name = f"{OLD_NAMES[kind]}Tensor"
    text = f"""The old name of tensors of {kind} on {"the CPU" if place == "cpu" else f"a {place} device"}; use
    `{display.NAME}.tensor(…, dtype={kind})`.

    Shape:
        of the sizes, the sequence, the array or the tensor given; of a storage (elements,); of nothing (0,)

    Raises:
        TypeError: a size is no int, an argument is no sequence, storage or tensor, or a tensor is of another dtype;
            a class is derived from this one
        RuntimeError: `device` is of another type{"" if place == "cpu" else "; there is no such device"}
    """
    if place != "cpu":
        return text
    return f"""{text}
    >>> import flambeau
    >>> x = flambeau.{name}([1, 0])
    >>> x.dtype, x.shape, isinstance(x, flambeau.{name})
    (flambeau.{kind}, flambeau.Size([2]), True)
    """


CLASSES, CUDA_CLASSES = (
    {made.__name__: made for made in (_made(kind, place) for kind in _KINDS)} for place in ("cpu", "cuda")
)


def set_default_tensor_type(t: Any) -> None:
    """The class of tensors, or its name as text, that Python floats become from now on; of a class of an accelerator, new tensors
    are made there.  `set_default_dtype` and `set_default_device` are the newer ways.

    TypeError unless it is a class of a floating-point dtype.

    >>> import flambeau
    >>> flambeau.set_default_tensor_type(flambeau.DoubleTensor)
    >>> flambeau.tensor(1.0).dtype
    flambeau.float64
    >>> flambeau.set_default_tensor_type("torch.FloatTensor")
    """
    try:
        kind, place = (
            old_kind("set_default_tensor_type", t) if isinstance(t, str) else (t.dtype, t.place_of_tensors)
        )
    except (AttributeError, ValueError):
        raise TypeError(
            "set_default_tensor_type(): invalid type object: only floating-point types are supported as the default type"
        ) from None
    if place != "cpu":
        Tensor([]).to(place)  # which refuses where there is none
        set_default_device(place)
    set_default_dtype(kind)


def new(self: Tensor, *args: Any, **named: Any) -> Tensor:
    """A tensor of this one's dtype on its device, made of sizes, elements, an array, a storage or a tensor, as by the old
    constructors.

    Shape:
        of the sizes, the sequence, the array or the tensor given; of a storage (elements,); of nothing (0,)

    Raises:
        TypeError: an argument is no size, sequence, storage or tensor; a tensor is of another dtype
        RuntimeError: `device` is of another type

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).new([3.7])
    tensor([3])
    """
    place = self.device
    result = legacy.made(self.dtype, place.type, *args, **named)
    return result if result.device == place or "device" in named else result.to(place)
