"""The accelerator, whichever it is: NVIDIA's devices.

OpenCL's devices go by their name: the commonest of their drivers makes the host's own processor one.
"""

from types import ModuleType as _ModuleType
from types import TracebackType as _TracebackType
from typing import Any as _Any

from .. import cpu as _cpu
from .. import cuda as _cuda
from .. import mps as _mps
from .. import mtia as _mtia
from .. import opencl as _opencl
from .. import xpu as _xpu
from ..core.base.display import NAME as _NAME
from ..core.base.dtypes import by_name as _by_name
from ..core.base.dtypes import device as _Device
from ..core.base.lazily import lazily as _lazily

__all__ = [
    "CpuFallbackWarning",
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_cpu_fallback",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def _here() -> _ModuleType:
    """The module of the accelerator; RuntimeError where there is none."""
    if not _cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return _cuda


def get_device_module(device: _Device | str | None = None) -> _ModuleType:
    """The module of a type of device, as `flambeau.cuda`; None means the accelerator's, or the host's where there is none.

    RuntimeError for a type without a module and for what names no device.

    >>> import flambeau
    >>> flambeau.get_device_module("cpu") is flambeau.cpu
    True
    """
    if device is None:
        return _cuda if _cuda.is_available() else _cpu
    if not isinstance(device, (_Device, str)):
        raise RuntimeError(f"Invalid value of device '{device}', expect {_NAME}.device, str, or None")
    type = _Device(device).type
    if type not in _MODULES:
        raise RuntimeError(
            f"Device '{type}' does not have a corresponding module registered as '{_NAME}.{type}'."
        )
    return _MODULES[type]


_MODULES = {"cpu": _cpu, "cuda": _cuda, "opencl": _opencl, "mps": _mps, "mtia": _mtia, "xpu": _xpu}


def is_available() -> bool:
    """Whether there is one.

    >>> import flambeau
    >>> flambeau.accelerator.is_available() == (flambeau.accelerator.device_count() > 0)
    True
    """
    return _cuda.is_available()


def current_accelerator(check_available: bool = False) -> _Device | None:
    """Its device without an index, as `device("cuda")`; None where there is none.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.accelerator.current_accelerator() in (None, flambeau.device("cuda"))
    True
    """
    return _Device("cuda") if is_available() else None


def device_count() -> int:
    """How many devices of its kind there are; 0 without one.

    >>> import flambeau
    >>> flambeau.accelerator.device_count() >= 0
    True
    """
    return _here().device_count() if is_available() else 0


def current_device_index() -> int:
    """The index of the device in use.  RuntimeError without one.

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     assert 0 <= flambeau.accelerator.current_device_index() < flambeau.accelerator.device_count()
    """
    return _here().current_device()


def set_device_index(device: _Any) -> None:
    """Use the device of that index.  RuntimeError without an accelerator.

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     flambeau.accelerator.set_device_index(0)
    """
    _here().set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:
    """Context in which another device of the accelerator is in use; None changes nothing.

    Raises:
        RuntimeError: the context is entered, and there is no such device

    >>> import flambeau
    >>> with flambeau.accelerator.device_index(0 if flambeau.accelerator.is_available() else None):
    ...     flambeau.ones(2).sum().item()
    2.0
    """

    def __init__(self, device: int | None) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            self.before = current_device_index()
            set_device_index(self.index)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: _TracebackType | None) -> None:
        if self.index is not None:
            set_device_index(self.before)


def synchronize(device: _Any = None) -> None:
    """Wait until all that is queued has run.  RuntimeError without an accelerator.

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     flambeau.accelerator.synchronize()
    """
    _here().synchronize(device)


def current_stream(device: _Any = None) -> _Any:
    """The stream in use.  RuntimeError without an accelerator.

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     flambeau.accelerator.current_stream().synchronize()
    """
    return _here().current_stream(device)


def set_stream(stream: _Any) -> None:
    """Use a stream from here on.  RuntimeError without an accelerator.

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     flambeau.accelerator.set_stream(flambeau.accelerator.current_stream())
    """
    _here().set_stream(stream)


def empty_cache() -> None:
    """Give cached memory back to the driver; nothing where no device was used yet.

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     flambeau.accelerator.empty_cache()
    """
    module = _here()
    if module.is_initialized():
        module.empty_cache()


def memory_stats(device: _Any = None) -> dict[str, _Any]:
    """What the accelerator's own `memory_stats` says.

    Raises:
        RuntimeError: there is no accelerator

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     assert flambeau.accelerator.memory_stats()["allocated_bytes"] >= 0
    """
    return _here().memory_stats(device)


def memory_allocated(device: _Any = None) -> int:
    """Bytes that tensors hold on the device.

    Raises:
        RuntimeError: there is no accelerator

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     assert flambeau.accelerator.memory_allocated() >= 0
    """
    return _here().memory_allocated(device)


def max_memory_allocated(device: _Any = None) -> int:
    """The most that tensors have held on the device.

    Raises:
        RuntimeError: there is no accelerator

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     assert flambeau.accelerator.max_memory_allocated() >= flambeau.accelerator.memory_allocated()
    """
    return _here().max_memory_allocated(device)


def memory_reserved(device: _Any = None) -> int:
    """Bytes taken from the driver.

    Raises:
        RuntimeError: there is no accelerator

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     assert flambeau.accelerator.memory_reserved() >= flambeau.accelerator.memory_allocated()
    """
    return _here().memory_reserved(device)


def reset_peak_memory_stats(device: _Any = None) -> None:
    """Start measuring the peak anew.

    Raises:
        RuntimeError: there is no accelerator

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     flambeau.accelerator.reset_peak_memory_stats()
    """
    _here().reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: _Any = None) -> None:
    """Count anew what is handed out and freed.

    Raises:
        RuntimeError: there is no accelerator

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     flambeau.accelerator.reset_accumulated_memory_stats()
    """
    _here().reset_accumulated_memory_stats(device)


def max_memory_reserved(device: _Any = None) -> int:
    """The most bytes that were taken from the driver.

    Raises:
        RuntimeError: there is no accelerator

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     assert flambeau.accelerator.max_memory_reserved() >= flambeau.accelerator.memory_reserved()
    """
    return _here().max_memory_reserved(device)


def get_memory_info(device: _Any = None) -> tuple[int, int]:
    """Bytes that are free on the device, whoever uses it, and all that it has.

    Raises:
        RuntimeError: there is no accelerator

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     free, total = flambeau.accelerator.get_memory_info()
    """
    return _here().mem_get_info(device)


def empty_host_cache() -> None:
    """Nothing is left to give back: pinned memory of the host is freed with its tensors.  RuntimeError without an accelerator.

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     flambeau.accelerator.empty_host_cache()
    """
    _here()


def get_device_capability(device: _Any = None) -> dict[str, _Any]:
    """`supported_dtypes`: the dtypes of tensors on the device.  RuntimeError without an accelerator.

    >>> import flambeau
    >>> if flambeau.accelerator.is_available():
    ...     assert flambeau.float32 in flambeau.accelerator.get_device_capability()["supported_dtypes"]
    """
    _here().get_device_capability(device)
    return {"supported_dtypes": set(_by_name.values())}


__getattr__, __dir__ = _lazily(
    __name__,
    submodules=("memory",),
    names=dict.fromkeys(("CpuFallbackWarning", "set_cpu_fallback"), "..operations.declare.fallbacks"),
)
