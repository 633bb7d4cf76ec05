"""Moving and converting what a module holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ... import __future__
from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...core.base import dtypes
from ...core.make.create import empty_like
from ...utils._python_dispatch import is_traceable_wrapper_subclass
from ...utils._swap import swap_tensors
from ..parameter import Parameter

if TYPE_CHECKING:
    from typing import Self


class ConversionMixin:
    """The part of `Module` that moves and converts its tensors."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]

    if TYPE_CHECKING:

        def children(self) -> Iterator[ConversionMixin]: ...

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace every parameter's and gradient's data, and every buffer, by `fn` of it. Parameters stay the
        same objects, unless `flambeau.__future__` says otherwise; those of wrapper subclasses are swapped.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = self._converted(name, parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _converted(self, name: str, parameter: Parameter, fn: Callable[[Tensor], Tensor]) -> Parameter:
        """The parameter with `fn` of its data and gradient: the same object, unless `__future__` says otherwise."""
        grad = parameter.grad
        with no_grad():
            data = fn(parameter)
            grad_data: Any = None if grad is None else fn(grad)
        if __future__.get_swap_module_params_on_conversion() or is_traceable_wrapper_subclass(data):
            try:
                swap_tensors(parameter, Parameter(data, parameter.requires_grad))
                if grad is not None:
                    swap_tensors(grad, grad_data.requires_grad_(grad.requires_grad))
                    parameter.grad = grad
            except Exception as error:
                raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}") from error
            return parameter
        if __future__.get_overwrite_module_params_on_conversion():
            made = Parameter(data, parameter.requires_grad)
            if grad is not None:
                made.grad = grad_data.requires_grad_(grad.requires_grad)
            return made
        parameter.data = data
        if grad is not None:
            grad.data = grad_data
        return parameter

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and convert all parameters and buffers in place, and return the module.

        Called as `to(device=None, dtype=None, non_blocking=False)`, `to(dtype, non_blocking=False)`,
        `to(tensor, non_blocking=False)` for that tensor's device and dtype, or with `memory_format=` for 4-
        and 5-dimensional ones. A dtype applies to floating and complex tensors only; others are just moved.

        Raises:
            TypeError: the dtype is neither floating nor complex, or the arguments fit none of these forms.

        >>> import flambeau
        >>> flambeau.nn.Linear(2, 2).to(flambeau.float64).weight.dtype
        flambeau.float64
        """
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(tensor: Tensor) -> Tensor:
            wanted: dict[str, Any] = {"non_blocking": non_blocking}
            if device is not None:
                wanted["device"] = device
            if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
                wanted["dtype"] = dtype
            if memory_format is not None and tensor.dim() in (4, 5):
                wanted["memory_format"] = memory_format
            try:
                return tensor.to(**wanted)
            except NotImplementedError as error:
                if not tensor.is_meta:
                    raise
                raise NotImplementedError(
                    f"{error} Please use Module.to_empty() instead of Module.to() when moving module from meta to a "
                    "different device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move all parameters and buffers to `device` without copying what is in them."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse=recurse)

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to an NVIDIA GPU, the current one by default."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers, integer ones too, to `dst_type`."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Cast all floating parameters and buffers to float32."""
        return self._cast(dtypes.by_name["float32"])

    def double(self) -> Self:
        """Cast all floating parameters and buffers to float64."""
        return self._cast(dtypes.by_name["float64"])

    def half(self) -> Self:
        """Cast all floating parameters and buffers to float16."""
        return self._cast(dtypes.by_name["float16"])

    def bfloat16(self) -> Self:
        """Cast all floating parameters and buffers to bfloat16."""
        return self._cast(dtypes.by_name["bfloat16"])

    def _cast(self, dtype: Any) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def share_memory(self) -> Self:
        """Move all parameters and buffers to memory that other processes may see; see `Tensor.share_memory_`."""
        return self._apply(lambda tensor: tensor.share_memory_())


def _parse_to(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, non_blocking and memory format from the arguments of `Module.to`."""
    wanted = {
        "device": None,
        "dtype": None,
        "non_blocking": False,
        "memory_format": None,
        "tensor": None,
        **kwargs,
    }
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        wanted["tensor"] = rest.pop(0)
    elif rest and isinstance(rest[0], dtypes.dtype):
        wanted["dtype"] = rest.pop(0)
    elif rest:
        wanted["device"] = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], dtypes.dtype)):
            wanted["dtype"] = rest.pop(0)
    if rest and isinstance(rest[0], bool):
        wanted["non_blocking"] = rest.pop(0)
    if rest or len(wanted) > 5 or not (wanted["dtype"] is None or isinstance(wanted["dtype"], dtypes.dtype)):
        raise TypeError(
            "to() received an invalid combination of arguments; expected (device, dtype, non_blocking), "
            f"(dtype, non_blocking) or (tensor, non_blocking), got {args} {kwargs}"
        )
    if wanted["tensor"] is not None:
        wanted.update(device=wanted["tensor"].device, dtype=wanted["tensor"].dtype)
    device = wanted["device"]
    if device is not None and not isinstance(device, dtypes.device):
        device = dtypes.device(device)
    return device, wanted["dtype"], wanted["non_blocking"], wanted["memory_format"]
