"""Copies and conversions: one kernel, the identity, in different clothes."""

from __future__ import annotations

from ...core.base import display, dtypes
from ...core.base.dtypes import by_name, dtype
from ...core.base.formats import preserve_format
from ...core.base.tensor import TensorBase
from ...core.call.copies import clone, contiguous, copy_, to_dtype
from ...core.call.pointwise import set_identity
from ...core.loops.launch import is_pinned, pin_memory, to_device
from ...core.loops.launch import record_stream as record_use
from ..declare.examples import of_call
from ..declare.registry import library, register
from .arithmetic import identity

set_identity(identity)  # type: ignore[has-type]


def to(self, *args, **kwargs):
    """The tensor in another dtype or on another device: `to(dtype)`, `to(device)`, `to(device, dtype)`,
    `to(other)`.

    The tensor itself where nothing changes and `copy` is not requested.

    Raises:
        TypeError: an argument is no dtype, device or Tensor
        RuntimeError: there is no such device, or `memory_format` is for tensors of another number of
            dimensions

    >>> import flambeau
    >>> flambeau.tensor([1.7, -1.7]).to(flambeau.int64)
    tensor([ 1, -1])
    """
    if len(args) == 1 and not kwargs and type(args[0]) is dtype:
        return to_dtype(self, args[0])
    wanted = kwargs.pop("dtype", None)
    place = kwargs.pop("device", None)
    copy = kwargs.pop("copy", False)
    non_blocking = bool(kwargs.pop("non_blocking", False))
    layout = kwargs.pop("memory_format", None)
    other = kwargs.pop("other", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    rest = list(args)
    if rest and isinstance(rest[0], TensorBase):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], dtype):
        wanted = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], (str, int, dtypes.device))):
        place = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], dtype)):
            wanted = rest.pop(0)
    elif rest:
        raise TypeError(f"to(): a dtype, a device or a Tensor expected, got {type(rest[0]).__name__}")
    if rest:  # non_blocking, copy
        non_blocking, copy = bool(rest[0]), bool(rest[1]) if len(rest) > 1 else copy
    if other is not None:
        wanted = other.dtype
    if place is None and other is not None:
        place = other.device
    if place is not None:
        moved = to_device(self, place, "to", False, non_blocking)
        copy = copy and moved is self
        self = moved
    if layout is not None and layout is not preserve_format and not self.is_contiguous(layout):
        self, copy = clone(self, memory_format=layout), False
    return to_dtype(self, self.dtype if wanted is None else wanted, bool(copy))


_CONVERTED = """

Shape:
    self: any; the result has the same

Raises:
    RuntimeError: `memory_format` is for tensors of another number of dimensions"""


def _of_input(input, *args, **kwargs):
    """What each element of a copy or a conversion is."""
    return input


def _conversion(name: str, target: str, shown: str):
    d = by_name[target]

    def convert(self, memory_format=None):
        return to_dtype(self, d) if memory_format is None else to(self, d, memory_format=memory_format)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor as {target}; itself where it is that already.{_CONVERTED}" + of_call(
        f"tensor([2.5, 0.0]).{name}()", shown
    )
    register(f"as_{target}", "conversion", convert, places=(f"Tensor.{name}",), element=_of_input)


for _name, (_target, _shown) in {  # and what they make of [2.5, 0.0]
    "float": ("float32", "tensor([2.5000, 0.0000])"),
    "double": ("float64", "tensor([2.5000, 0.0000], dtype=flambeau.float64)"),
    "cfloat": ("complex64", "tensor([2.5000+0.j, 0.0000+0.j])"),
    "cdouble": ("complex128", "tensor([2.5000+0.j, 0.0000+0.j], dtype=flambeau.complex128)"),
    "chalf": ("complex32", "tensor([2.5000+0.j, 0.0000+0.j], dtype=flambeau.complex32)"),
    "half": ("float16", "tensor([2.5000, 0.0000], dtype=flambeau.float16)"),
    "bfloat16": ("bfloat16", "tensor([2.5000, 0.0000], dtype=flambeau.bfloat16)"),
    "int": ("int32", "tensor([2, 0], dtype=flambeau.int32)"),
    "long": ("int64", "tensor([2, 0])"),
    "short": ("int16", "tensor([2, 0], dtype=flambeau.int16)"),
    "char": ("int8", "tensor([2, 0], dtype=flambeau.int8)"),
    "byte": ("uint8", "tensor([2, 0], dtype=flambeau.uint8)"),
    "bool": ("bool", "tensor([ True, False])"),
}.items():
    _conversion(_name, _target, _shown)

# The old names of tensors' classes, by dtype; `flambeau._compat.typed` makes classes of some.
OLD_NAMES = {
    **{"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16"},
    **{"int32": "Int", "int64": "Long", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"},
    **{"complex64": "ComplexFloat", "complex128": "ComplexDouble", "complex32": "ComplexHalf"},
    **{"uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64"},
    **{name: name.capitalize() for name in by_name if name.startswith(("float8", "float4"))},
}
_OF_OLD_NAME = {f"{old}Tensor": name for name, old in OLD_NAMES.items()}


def old_kind(who: str, name: str) -> tuple[dtype, str]:
    """The dtype and the type of device that "torch.cuda.LongTensor" names; ValueError for other texts."""
    package, _, rest = name.partition(".")
    place, _, kind = rest.rpartition(".")
    if package not in ("torch", display.NAME) or kind not in _OF_OLD_NAME or "." in place:
        raise ValueError(f"{who}(): invalid type: '{name}'")
    return by_name[_OF_OLD_NAME[kind]], place or "cpu"


def legacy_type(self, dtype=None, non_blocking: bool = False):
    """The legacy name of the tensor's type, or the tensor as another dtype: a dtype, such a name, or a class as `LongTensor`,
    which say where the tensor is to be, too.

    Shape:
        self: any; a result has the same

    >>> import flambeau
    >>> flambeau.ones(2).type()
    'flambeau.FloatTensor'
    >>> flambeau.ones(2).type(flambeau.LongTensor)
    tensor([1, 1])
    """
    if dtype is None:
        place = "" if self.device.type == "cpu" else self.device.type + "."
        return display.public(f"{place}{OLD_NAMES[self.dtype.name]}Tensor")
    if isinstance(dtype, dtypes.dtype):
        return to_dtype(self, dtype)
    if isinstance(dtype, str):
        kind, place = old_kind("type", dtype)
    elif isinstance(dtype, type) and issubclass(dtype, TensorBase):
        kind, place = dtypes.get_default_dtype(), "cpu"
    elif isinstance(dtype, type) and hasattr(dtype, "place_of_tensors"):
        kind, place = dtype.dtype, dtype.place_of_tensors
    elif isinstance(dtype, type):
        raise ValueError(f"type(): invalid type: '{dtype.__name__}'")
    else:
        raise TypeError(f"type(): dtype must be a type, str, or dtype object, not {type(dtype).__name__}")
    return to_dtype(
        self if self.device.type == place else to_device(self, place, "type", False, bool(non_blocking)), kind
    )


def type_as(self: TensorBase, other: TensorBase) -> TensorBase:
    """The tensor in other's dtype.

    Shape:
        self: any; the result has the same

    Raises:
        TypeError: `other` is no Tensor

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).type_as(flambeau.tensor(0.5))
    tensor([1., 2.])
    """
    return to_dtype(self, other.dtype)


def cpu(self, memory_format=None):
    """The tensor in the CPU's memory; itself where it is there.

    Shape:
        self: any; the result has the same

    Raises:
        TypeError: there is a second argument

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).cpu().device
    device(type='cpu')
    """
    return to_device(self, "cpu", "cpu")


def cuda(self, device=None, non_blocking: bool = False, memory_format=None):
    """The tensor on a CUDA device, by default the current one; RuntimeError where there is none.

    Shape:
        self: any; the result has the same

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.ones(2).cuda().is_cuda
    """
    return to_device(self, "cuda" if device is None else device, "cuda", False, non_blocking)


def opencl(self, device=None, non_blocking: bool = False, memory_format=None):
    """The tensor on an OpenCL device, by default the current one; RuntimeError where there is none.

    Shape:
        self: any; the result has the same

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.ones(2).opencl().device.type == "opencl"
    """
    return to_device(self, "opencl" if device is None else device, "opencl", False, non_blocking)


_TO = (
    "non_blocking: bool = False, copy: bool = False, *, memory_format: memory_format | None = None) -> Tensor"
)
_TO_OVERLOADS = (
    f"(input: Tensor, dtype: dtype, {_TO}",
    f"(input: Tensor, device: device | str | int | None = None, dtype: dtype | None = None, {_TO}",
    f"(input: Tensor, other: Tensor, {_TO}",
)
_TYPE_OVERLOADS = (
    "(input: Tensor) -> str",
    "(input: Tensor, dtype: dtype | str | type, non_blocking: bool = False) -> Tensor",
)
register("to", "conversion", to, places=("Tensor.to",), overloads=_TO_OVERLOADS, element=_of_input)
register(
    "type", "conversion", legacy_type, places=("Tensor.type",), overloads=_TYPE_OVERLOADS, element=_of_input
)
register("type_as", "conversion", type_as, places=("Tensor.type_as",), element=_of_input)
register("cpu", "conversion", cpu, places=("Tensor.cpu",))


def record_stream(self, stream) -> None:
    """Keep the tensor's memory, once freed, from others until the work that `stream` (a `flambeau.cuda.Stream`)
    holds by then has run.  RuntimeError for a tensor that is not on a CUDA device.

    Shape:
        self: any

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.ones(2, device="cuda").record_stream(flambeau.cuda.Stream())
    """
    record_use(self, stream.cuda_stream)


register("cuda", "conversion", cuda, places=("Tensor.cuda",))
register("record_stream", "copy", record_stream, places=("Tensor.record_stream",))
register("opencl", "conversion", opencl, places=("Tensor.opencl",))
register("pin_memory", "conversion", pin_memory, places=("Tensor.pin_memory",))
register("is_pinned", "copy", is_pinned, places=("Tensor.is_pinned",), batching="outlined")
register("clone", "copy", clone, element=_of_input)
register("contiguous", "copy", contiguous, places=("Tensor.contiguous",), element=_of_input)
register(
    "copy_",
    "copy",
    copy_,
    places=("Tensor.copy_",),
    batching="pointwise",
    element=lambda input, src, non_blocking=False: src,
    sharding="written",
)


@library("copy", "fill", batching="filled", elementwise=True)
def fill(input, value):
    """A tensor of the same shape and dtype with `value` (a number or a 0-dim tensor) everywhere.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: `value` is a tensor with dimensions

    >>> import flambeau
    >>> flambeau.fill(flambeau.tensor([1, 2]), 7)
    tensor([7, 7])
    """
    return clone(input).fill_(value)
