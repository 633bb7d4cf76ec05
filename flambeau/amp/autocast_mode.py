"""`autocast`, and how a user's `autograd.Function` goes along with it."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..core.base.device import device_count
from ..core.base.dtypes import by_name, dtype
from ..core.base.tensor import TensorBase
from ..core.call import casting
from ._state import get_autocast_dtype, is_autocast_enabled, is_available

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

F = TypeVar("F", bound=Callable[..., Any])

_LOWER = (by_name["bfloat16"], by_name["float16"])
_open = threading.local()  # .states: what each open block of the thread puts back


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` takes a type of device.

    Raises RuntimeError for a str that names no type of device.

    >>> import flambeau
    >>> flambeau.amp.is_autocast_available("cpu"), flambeau.amp.is_autocast_available("meta")
    (True, False)
    """
    if not isinstance(device_type, str):
        raise TypeError(
            f"is_autocast_available(): argument 'device_type' must be str, not {type(device_type).__name__}"
        )
    return is_available(device_type)


class autocast:
    """A block (`with autocast("cpu"):`), or a decorator, in which operations choose the dtype that they compute in.

    On floating tensors of that type of device, other than float64:

    - products (`linear`, `matmul`, `conv2d`, `scaled_dot_product_attention` …) compute in `dtype` (None for
      `get_autocast_dtype`: bfloat16 on the CPU, else float16), and so their results are of it;
    - what needs the range or the digits (on the CPU losses, decompositions, Fourier transforms; on graphics processors also
      exponentials, logarithms, sums, norms, softmax) computes in float32;
    - what takes several tensors of one dtype (`cat`, `stack`; elsewhere `addcmul`, `cross`, `dot` …) in the widest among them;
    - all else in the dtypes that it is given.

    Each operation declares its rule; the rules are PyTorch's.  Forms in place and with `out=` are not cast: operands of several
    dtypes are there what they are without autocast.

    Parameters are cast once a region: copies of leaves of float32 that require gradients are kept until the outermost block
    ends (unless `cache_enabled=False`), each until its parameter is written to.  Blocks nest; `enabled=False` is a block
    without casts, whose operands may have to be brought to one dtype with `.float()`.  The state belongs to the
    thread.  Call `backward` outside of the block: gradients have the dtypes of what they are gradients of.

    Raises ValueError where the type is no str, RuntimeError where autocast does not know it.  A dtype other than float16 and
    bfloat16, or "cuda" where there is no device, is a warning, and the block without casts.

    >>> import flambeau
    >>> from flambeau import nn
    >>> net, x = nn.Linear(3, 2), flambeau.ones(4, 3)
    >>> with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
    ...     y = net(x)
    ...     loss = nn.functional.mse_loss(y, flambeau.zeros(4, 2))
    >>> y.dtype, loss.dtype
    (flambeau.bfloat16, flambeau.float32)
    >>> loss.backward()
    >>> net.weight.grad.dtype
    flambeau.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type.partition(":")[0]
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = casting.is_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        if enabled and self.device == "cuda" and not device_count("cuda"):
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in _LOWER:
            warnings.warn(
                f"In {self.device.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{self.device.upper()} Autocast only supports dtypes of {', '.join(map(str, _LOWER))} currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = bool(enabled)

    def __enter__(self) -> autocast:
        kind = self.device
        before = casting.state(kind)
        casting.set_on(kind, self._enabled)
        if isinstance(self.fast_dtype, dtype):  # what is none was warned of
            casting.set_lower_type(kind, self.fast_dtype)
        casting.set_cache_enabled(self._cache_enabled)
        casting.add_nesting(1)
        try:
            _open.states.append((kind, before))
        except AttributeError:
            _open.states = [(kind, before)]
        return self

    def __exit__(self, *exception: object) -> None:
        states = getattr(_open, "states", None)
        if not states:
            raise RuntimeError("autocast: the block was entered in another thread")
        if casting.add_nesting(-1) == 0:
            casting.clear_cache()
        casting.put_back(*states.pop())

    def __call__(self, func: F) -> F:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. "
                f"Did you mean to use autocast as a context manager? For example:\n"
                f"    with autocast(device_type=...):\n"
                f"        output = model(input)"
            )
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: F) -> F:
    """The function, run under that `autocast` at every call; what decorates a function decorates a method.

    Raises:
        TypeError: the first argument is no context

    >>> import flambeau
    >>> from flambeau.amp.autocast_mode import autocast_decorator
    >>> autocast_decorator(flambeau.autocast("cpu"), flambeau.mm)(flambeau.ones(1, 1), flambeau.ones(1, 1)).dtype
    flambeau.bfloat16
    """

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast  # type: ignore[return-value]


def _enter_autocast(*given: Any) -> autocast:
    """Begin a block that no `with` ends; `_exit_autocast` does."""
    return autocast(*given).__enter__()


def _exit_autocast(mode: autocast) -> None:
    """End it."""
    mode.__exit__(None, None, None)


def _cast(value: Any, device_type: str, dtype: dtype) -> Any:
    """Floating tensors of that type of device, other than float64, in another dtype: also in mappings and what is gone through."""
    if isinstance(value, TensorBase):
        eligible = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not by_name["float64"]
        )
        return value.to(dtype) if eligible else value
    if isinstance(value, (str, bytes)) or type(value).__module__ == "numpy":
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast(v, device_type, dtype) for v in value))
    if isinstance(value, Iterable):
        result = (_cast(v, device_type, dtype) for v in value)
        return type(value)(result) if isinstance(value, (list, tuple)) else result  # type: ignore[call-arg]
    return value


def _check_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(
    fwd: Callable | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Callable:
    """Decorates `forward` of an `autograd.Function` that is used under autocast.

    With `cast_inputs`, floating tensors of that type of device come in that dtype, and `forward` runs without casts.  Without, it
    runs as the program around it, and `custom_bwd` lets `backward` do the same.  Outside of autocast both do nothing.
    Raises ValueError unless the type is a str.

    >>> import flambeau
    >>> from flambeau.amp import custom_bwd, custom_fwd
    >>> class Squares(flambeau.autograd.Function):
    ...     @staticmethod
    ...     @custom_fwd(device_type="cpu", cast_inputs=flambeau.float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x @ x
    ...     @staticmethod
    ...     @custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         x, = ctx.saved_tensors
    ...         return grad @ x.T + x.T @ grad
    >>> with flambeau.autocast("cpu"):
    ...     Squares.apply(flambeau.ones(2, 2, dtype=flambeau.bfloat16)).dtype
    flambeau.float32
    """
    _check_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        context, on = args[0], is_autocast_enabled(device_type)
        context._dtype = get_autocast_dtype(device_type)
        context._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(
                *_cast(args, device_type, cast_inputs),
                **{name: _cast(x, device_type, cast_inputs) for name, x in kwargs.items()},
            )

    return decorate_fwd


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """Decorates `backward` of an `autograd.Function` whose `forward` has `custom_fwd`: it runs with autocast as `forward` did.

    Raises ValueError unless the type is a str.

    >>> import flambeau
    >>> from flambeau.amp import custom_bwd
    >>> custom_bwd(lambda ctx, grad: grad, device_type="cpu").__name__
    '<lambda>'
    """
    _check_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type=device_type, enabled=context._fwd_used_autocast, dtype=context._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
