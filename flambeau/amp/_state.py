"""What is on in this thread, as programs ask for it and set it: `is_autocast_enabled` and its kin."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..core.base import display
from ..core.base.dtypes import device, dtype
from ..core.call import casting
from ..core.call.function import BuiltIn

_HIDDEN = "meta"  # tests read rules off it


def is_available(device_type: str) -> bool:
    """Whether autocast knows a type of device; RuntimeError where there is no such type."""
    name = device_type.partition(":")[0]
    if casting.known(name):
        return name != _HIDDEN
    device(name)
    return False


def _type(who: str, device_type: Any, place: int = 1) -> str:
    """The type of device that an argument names."""
    if not isinstance(device_type, str):
        raise TypeError(
            f"{who}(): argument 'device_type' (position {place}) must be str, not {type(device_type).__name__}"
        )
    if device_type != _HIDDEN and not is_available(device_type):
        raise RuntimeError(f"{who}(): unknown device type for autocast: '{device_type}'")
    return device_type.partition(":")[0]


@BuiltIn
def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on in this thread for a type of device.

    Raises TypeError unless the type is a str, RuntimeError for one that autocast does not know.

    >>> import flambeau
    >>> with flambeau.autocast("cpu"):
    ...     flambeau.is_autocast_enabled("cpu")
    True
    """
    return casting.is_on(_type("is_autocast_enabled", device_type))


@BuiltIn
def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switches autocast on or off in this thread for a type of device; one bool alone is meant for "cuda".

    Nothing ends what this begins: `autocast` is what programs use.  Raises TypeError unless `enabled` is a bool.

    >>> import flambeau
    >>> flambeau.set_autocast_enabled("cpu", True)
    >>> (flambeau.ones(2, 2) @ flambeau.ones(2, 2)).dtype
    flambeau.bfloat16
    >>> flambeau.set_autocast_enabled("cpu", False)
    """
    kind, place = (device_type, 2) if enabled is not None else ("cuda", 1)
    on = enabled if enabled is not None else device_type
    if not isinstance(on, bool):
        raise TypeError(
            f"set_autocast_enabled(): argument 'enabled' (position {place}) must be bool, not {type(on).__name__}"
        )
    casting.set_on(_type("set_autocast_enabled", kind), on)


@BuiltIn
def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype that operations on a type of device compute in under autocast, where they may: bfloat16 on the CPU, float16 on
    graphics processors, unless a block or `set_autocast_dtype` says otherwise.

    Raises:
        TypeError: `device_type` is no str
        RuntimeError: there is no such type of device

    >>> import flambeau
    >>> flambeau.get_autocast_dtype("cpu"), flambeau.get_autocast_dtype("cuda")
    (flambeau.bfloat16, flambeau.float16)
    """
    return casting.lower_type(_type("get_autocast_dtype", device_type))


@BuiltIn
def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Sets that dtype in this thread.

    Raises TypeError unless it is a dtype.

    >>> import flambeau
    >>> flambeau.set_autocast_dtype("cpu", flambeau.float16)
    >>> flambeau.get_autocast_dtype("cpu")
    flambeau.float16
    >>> flambeau.set_autocast_dtype("cpu", flambeau.bfloat16)
    """
    kind = _type("set_autocast_dtype", device_type)
    if not isinstance(dtype, globals()["dtype"]):
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be {display.NAME}.dtype, not {type(dtype).__name__}"
        )
    casting.set_lower_type(kind, dtype)


@BuiltIn
def is_autocast_cache_enabled() -> bool:
    """Whether the copies of parameters that autocast makes are kept until the outermost block ends.

    >>> import flambeau
    >>> flambeau.is_autocast_cache_enabled()
    True
    """
    return casting.is_cache_enabled()


@BuiltIn
def set_autocast_cache_enabled(enabled: bool) -> None:
    """Says whether they are kept, in this thread.  Raises TypeError unless it is a bool.

    >>> import flambeau
    >>> flambeau.set_autocast_cache_enabled(True)
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    casting.set_cache_enabled(enabled)


@BuiltIn
def clear_autocast_cache() -> None:
    """Drops the copies of parameters that this thread keeps.

    >>> import flambeau
    >>> flambeau.clear_autocast_cache()
    """
    casting.clear_cache()


@BuiltIn
def autocast_increment_nesting() -> int:
    """Counts one more open block in this thread; returns how many are open.

    >>> import flambeau
    >>> flambeau.autocast_increment_nesting()
    1
    >>> flambeau.autocast_decrement_nesting()
    0
    """
    return casting.add_nesting(1)


@BuiltIn
def autocast_decrement_nesting() -> int:
    """Counts one open block less in this thread; returns how many are open.

    >>> import flambeau
    >>> flambeau.autocast_increment_nesting(), flambeau.autocast_decrement_nesting()
    (1, 0)
    """
    return casting.add_nesting(-1)


class Carried:
    """What is on in this thread now, for a second computation, or for another thread."""

    def __init__(self) -> None:
        on, _, lower, cache_off = casting.thread_state()
        self.state = on, on, lower, cache_off

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """A block in which the same is on; copies of parameters that it made go with it, where it is the outermost."""
        before = casting.thread_state()
        casting.set_thread_state(self.state)
        casting.add_nesting(1)
        try:
            yield
        finally:
            if casting.add_nesting(-1) == 0:
                casting.clear_cache()
            casting.set_thread_state(before)


def _old(name: str, kind: str, function: Callable, what: str) -> Callable:
    """A function of one type of device from before there was one for all; deprecated in PyTorch, too."""
    new = function.__name__

    def old(*args: Any) -> Any:
        given = "dtype" if new.endswith("dtype") else "enabled"
        message = f"'{kind}'" + (f", {given}" if new.startswith("set_") else "")
        warnings.warn(
            f"{display.NAME}.{name}() is deprecated. Please use {display.NAME}.{new}({message}) instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return function(kind, *args)

    old.__name__ = old.__qualname__ = name
    old.__module__ = display.NAME
    changes = new.startswith("set_")
    wanted = "dtype" if new.endswith("dtype") else "bool"
    refused = f"TypeError: the argument is no {wanted}" if changes else "TypeError: there is an argument"
    call = (
        f"{name}(flambeau.{new.replace('set_', 'get_')}('{kind}'))" if wanted == "dtype" else f"{name}(False)"
    )
    shown = f"{name}() == flambeau.{new}('{kind}')\n    True" if not changes else call
    old.__doc__ = f"""{what} for "{kind}"; deprecated: `{new}` takes the type of device.

    Raises:
        {refused}

    >>> import flambeau
    >>> flambeau.{shown}
    """
    return BuiltIn(old)


OLD = {
    _name: _old(_name, _kind, _function, _what)
    for _kind, _short in (("cpu", "cpu"), ("cuda", "gpu"), ("ipu", "ipu"), ("xla", "xla"))
    for _name, _function, _what in (
        (f"is_autocast_{_short}_enabled", is_autocast_enabled, "Whether autocast is on"),
        (f"set_autocast_{_short}_enabled", set_autocast_enabled, "Switches autocast on or off"),
        (f"get_autocast_{_short}_dtype", get_autocast_dtype, "The lower dtype"),
        (f"set_autocast_{_short}_dtype", set_autocast_dtype, "Sets the lower dtype"),
    )
    if _short != "gpu" or _name.endswith("dtype")
}
