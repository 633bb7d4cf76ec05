"""What optimisers of other libraries, written beside PyTorch's, take from `torch.optim.optimizer`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.grad_mode import set_grad_enabled
from ..core.base.dtypes import by_name, dtype, get_default_dtype
from ..core.base.tensor import TensorBase
from ..core.views.views import view_as_real

FUSED_DEVICES = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia"]  # as PyTorch names them
FOREACH_DEVICES = ["cuda", "xpu", "mtia"]

_params_doc = (
    "params (iterable): parameters, (name, parameter) pairs, or dictionaries that define groups of them"
)
_foreach_doc = "foreach (bool, optional): whether a step is made by functions of lists of tensors"
_fused_doc = "fused (bool, optional): whether a step is one kernel"
_capturable_doc = "capturable (bool, optional): whether steps may be captured in a graph"
_differentiable_doc = "differentiable (bool, optional): whether steps are recorded by autograd"
_maximize_doc = "maximize (bool, optional): maximise the objective instead of minimising it"


def _use_grad_for_differentiable(func: Callable) -> Callable:
    """Runs a `step` with gradients recorded only where `self.defaults["differentiable"]`."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step


def _get_value(x: Any) -> Any:
    """The number that a tensor of one element holds; others as they are."""
    return x.item() if isinstance(x, TensorBase) else x


def _stack_if_compiling(x: Any) -> Any:
    """`x`: nothing is compiled."""
    return x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dimensions; others as they are."""
    return x.squeeze() if isinstance(x, TensorBase) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused: bool | None = None) -> dtype:
    """The dtype of counters of steps."""
    name = "float64" if not is_fused and get_default_dtype() == by_name["float64"] else "float32"
    return by_name[name]


def _view_as_real(params: list[TensorBase], *state_and_grads: list[TensorBase]) -> None:
    """Replaces complex tensors in the lists by their views as real ones, where the parameter is complex."""
    for k, parameter in enumerate(params):
        if parameter.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[k] = view_as_real(tensors[k])


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The types of devices on which PyTorch's optimisers may be captured."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _device_dtype_check_for_fused(p: TensorBase, cuda_unsupported: bool = False) -> None:
    """RuntimeError for a parameter that is no floating point number or lies elsewhere than fused steps run."""
    devices = [name for name in FUSED_DEVICES if not (cuda_unsupported and name == "cuda")]
    if p.device.type not in devices or not p.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: {devices} but {p.dtype} and {p.device.type}"
        )


def _default_to_fused_or_foreach(
    params: Sequence[TensorBase | None], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Which of its two faster ways an optimiser takes that was given neither: (fused, foreach)."""
    if differentiable:
        return False, False
    given = [p for p in params if p is not None]
    fused = use_fused and all(p.device.type in FUSED_DEVICES and p.is_floating_point() for p in given)
    return fused, not fused and all(p.device.type in FOREACH_DEVICES for p in given)


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable | None = None,
) -> Callable[[Callable], Callable]:
    """A decorator that changes nothing: steps are not compiled."""
    return lambda func: func


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[TensorBase | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[TensorBase | None]], list[int]]]:
    """Lists of tensors that belong together, cut by the device and dtype of the first list's tensors.

    Returns {(device, dtype): (lists, indices)}; the indices are empty unless requested.

    >>> import flambeau
    >>> from flambeau.optim._derived import _group_tensors_by_device_and_dtype
    >>> a, b = flambeau.zeros(1), flambeau.zeros(1, dtype=flambeau.float64)
    >>> groups = _group_tensors_by_device_and_dtype([[a, b, a], [None, b, a]], with_indices=True)
    >>> [(str(dtype), indices) for (device, dtype), (lists, indices) in groups.items()]
    [('flambeau.float32', [0, 2]), ('flambeau.float64', [1])]
    """
    groups: dict[tuple[Any, Any], tuple[list[list[TensorBase | None]], list[int]]] = {}
    for k, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError(
                "_group_tensors_by_device_and_dtype(): tensors of the first list cannot be None"
            )
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for result, tensors in zip(lists, tensorlistlist, strict=True):
            result.append(tensors[k])
        if with_indices:
            indices.append(k)
    return groups
