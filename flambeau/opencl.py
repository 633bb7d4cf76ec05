"""OpenCL devices: which there are, their memory, and marks in their queues.

A device can be used where its driver takes SPIR-V and hands out addresses (cl_intel_unified_shared_memory), as Intel's
do.  `pip install intel-opencl-rt intel-cmplr-lib-rt` makes the CPU one, on which the tests run.  Work on a device is
queued and runs in the order of the calls.

>>> import flambeau
>>> flambeau.opencl.device_count() > 0 or not flambeau.opencl.is_available()
True
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from .core.base import device as _devices
from .core.base.device import OutOfMemoryError
from .core.base.dtypes import device as _device
from .core.base.tensor import TensorBase
from .core.make.random import seed_devices as _seed_devices
from .devices import generators as _generators
from .devices import opencl as _driver
from .devices import streams as _streams
from .devices.opencl import Event

__all__ = [
    "Event",
    "OutOfMemoryError",
    "current_device",
    "default_generators",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "synchronize",
]


_streams.kinds["opencl"] = {"Event": Event}


def _index(device: Any) -> int | None:
    if device is None or isinstance(device, int):
        return device
    result = device if isinstance(device, _device) else _device(device)
    if result.type != "opencl":
        raise ValueError(f"expected an opencl device, but got: {result}")
    return result.index


def _find(device: Any) -> _devices.Device:
    return _devices.find_device("opencl", _index(device))


def device_count() -> int:
    """How many devices can be used; 0 without a driver.

    >>> import flambeau
    >>> flambeau.opencl.device_count() >= 0
    True
    """
    return _driver.count()


def is_available() -> bool:
    """Whether there is a device.

    >>> import flambeau
    >>> flambeau.opencl.is_available() == (flambeau.opencl.device_count() > 0)
    True
    """
    return _driver.count() > 0


def is_initialized() -> bool:
    """Whether a device has been used in this process.

    >>> import flambeau
    >>> flambeau.opencl.is_initialized() in (True, False)
    True
    """
    return _devices.is_opened("opencl")


def current_device() -> int:
    """The index of the device that "opencl" means.

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.opencl.current_device() >= 0
    """
    return _find(None).index


def set_device(device: Any) -> None:
    """Choose the device that "opencl" means; RuntimeError where there is none of that number.

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     flambeau.opencl.set_device(flambeau.opencl.current_device())
    """
    index = _index(device)
    if index is not None:
        _devices.set_device("opencl", index)


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """`name`, `vendor`, `version`, `driver_version`, `total_memory` (bytes), `multi_processor_count` …

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.opencl.get_device_properties().total_memory > 0
    """
    return SimpleNamespace(**_find(device).properties())


def get_device_name(device: Any = None) -> str:
    """The device's name.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert isinstance(flambeau.opencl.get_device_name(), str)
    """
    return get_device_properties(device).name


def synchronize(device: Any = None) -> None:
    """Wait until all that is queued has run; IndexError where a kernel has met an index out of bounds.

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     flambeau.opencl.synchronize()
    """
    _find(device).synchronize()


def memory_stats(device: Any = None) -> dict[str, int]:
    """`allocated_bytes` in tensors, their peak, `cached_bytes` for the next ones, and `system_allocations`.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.opencl.memory_stats()["allocated_bytes"] >= 0
    """
    return _find(device).memory_stats()


def memory_allocated(device: Any = None) -> int:
    """Bytes of the blocks that tensors hold.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.opencl.memory_allocated() >= 0
    """
    return memory_stats(device)["allocated_bytes"]


def max_memory_allocated(device: Any = None) -> int:
    """The most that tensors have held since the start, or since `reset_peak_memory_stats`.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.opencl.max_memory_allocated() >= 0
    """
    return memory_stats(device)["peak_allocated_bytes"]


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver: those that tensors hold and those cached.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.opencl.memory_reserved() >= 0
    """
    stats = memory_stats(device)
    return stats["allocated_bytes"] + stats["cached_bytes"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start measuring the peak anew.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     flambeau.opencl.reset_peak_memory_stats()
    """
    _find(device).reset_peak_memory_stats()


def empty_cache() -> None:
    """Give cached memory back to the driver.

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     flambeau.opencl.empty_cache()
    """
    _find(None).empty_cache()


# --- random numbers ---
default_generators = _generators.Defaults("opencl")


def manual_seed(seed: int) -> None:
    """Start the stream of that seed on the current device; nothing is opened for it, and without a driver nothing comes of it.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.opencl.manual_seed(1)
    """
    _generators.current("opencl").manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Start the stream of that seed on every device, also on those that are first used later.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.opencl.manual_seed_all(1)
    >>> all(generator.initial_seed() == 1 for generator in flambeau.opencl.default_generators)
    True
    """
    _seed_devices(int(seed), "opencl")


def seed() -> None:
    """Give the current device a seed that nobody can foresee.

    >>> import flambeau
    >>> flambeau.opencl.seed()
    """
    _generators.current("opencl").seed()


def seed_all() -> None:
    """Give all devices one seed that nobody can foresee.

    >>> import flambeau
    >>> flambeau.opencl.seed_all()
    """
    _generators.reseed("opencl")


def initial_seed() -> int:
    """The seed of the current device.  RuntimeError without one.

    >>> import flambeau
    >>> flambeau.opencl.manual_seed_all(2)
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.opencl.initial_seed() == 2
    """
    return _generators.of("opencl", None).initial_seed()


def get_rng_state(device: Any = "opencl") -> TensorBase:
    """The state of a device's generator: 16 bytes on the host.  RuntimeError where there is no such device.

    Shape:
        a state: (16,)

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     assert flambeau.opencl.get_rng_state().shape == (16,)
    """
    return _generators.of("opencl", _index(device)).get_state()


def get_rng_state_all() -> list[TensorBase]:
    """The states of all devices' generators.

    Shape:
        a state: (16,)

    >>> import flambeau
    >>> len(flambeau.opencl.get_rng_state_all()) == flambeau.opencl.device_count()
    True
    """
    return _generators.states("opencl")


def set_rng_state(new_state: TensorBase, device: Any = "opencl") -> None:
    """Let a device's generator continue from a state.  RuntimeError where there is no such device.

    Shape:
        a state: (16,)

    >>> import flambeau
    >>> if flambeau.opencl.is_available():
    ...     flambeau.opencl.set_rng_state(flambeau.opencl.get_rng_state())
    """
    _generators.of("opencl", _index(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[TensorBase]) -> None:
    """Let all devices' generators continue from their states.  RuntimeError for more states than devices.

    Shape:
        a state: (16,)

    >>> import flambeau
    >>> flambeau.opencl.set_rng_state_all(flambeau.opencl.get_rng_state_all())
    """
    _generators.set_states("opencl", new_states)
