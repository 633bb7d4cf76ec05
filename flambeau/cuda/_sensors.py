"""What NVIDIA's management library tells of a device, through the package nvidia-ml-py where it is installed."""

from __future__ import annotations

import os
from typing import Any

from ..core.base import device as _devices
from ._find import index_of


def _handle(device: object) -> tuple[Any, Any]:
    """The library, and its handle of the device, which it counts without regard to CUDA_VISIBLE_DEVICES.

    ModuleNotFoundError where the package is not installed, RuntimeError where there is no driver.
    """
    try:
        import pynvml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported."
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise RuntimeError("cuda driver can't be loaded, is cuda enabled?") from error
    index = index_of(device)
    if index is None:
        index = _devices.current_device("cuda")
    seen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    if index < len(seen):
        if not seen[index].isdecimal():
            return pynvml, pynvml.nvmlDeviceGetHandleByUUID(seen[index])
        index = int(seen[index])
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)


def utilization(device: object = None) -> int:
    """Percent of the last sample period in which a kernel ran.

    ModuleNotFoundError without the package nvidia-ml-py, as of all functions here.

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.utilization() <= 100
    ... except (ModuleNotFoundError, RuntimeError):
    ...     True
    True
    """
    library, handle = _handle(device)
    return library.nvmlDeviceGetUtilizationRates(handle).gpu


def memory_usage(device: object = None) -> int:
    """Percent of the last sample period in which memory was read or written.

    Raises:
        ModuleNotFoundError: `pynvml`, which the package nvidia-ml-py has, is not installed

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.memory_usage() <= 100
    ... except (ModuleNotFoundError, RuntimeError):
    ...     True
    True
    """
    library, handle = _handle(device)
    return library.nvmlDeviceGetUtilizationRates(handle).memory


def device_memory_used(device: object = None) -> int:
    """Bytes that are taken on the device, whoever uses them.

    Raises:
        ModuleNotFoundError: `pynvml`, which the package nvidia-ml-py has, is not installed

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.device_memory_used() >= 0
    ... except (ModuleNotFoundError, RuntimeError):
    ...     True
    True
    """
    library, handle = _handle(device)
    return library.nvmlDeviceGetMemoryInfo(handle).used


def temperature(device: object = None) -> int:
    """Degrees Celsius.

    Raises:
        ModuleNotFoundError: `pynvml`, which the package nvidia-ml-py has, is not installed

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.temperature() < 200
    ... except (ModuleNotFoundError, RuntimeError):
    ...     True
    True
    """
    library, handle = _handle(device)
    return library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)


def power_draw(device: object = None) -> int:
    """Milliwatts.

    Raises:
        ModuleNotFoundError: `pynvml`, which the package nvidia-ml-py has, is not installed

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.power_draw() >= 0
    ... except (ModuleNotFoundError, RuntimeError):
    ...     True
    True
    """
    library, handle = _handle(device)
    return library.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device: object = None) -> int:
    """MHz of the multiprocessors.

    Raises:
        ModuleNotFoundError: `pynvml`, which the package nvidia-ml-py has, is not installed

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.clock_rate() >= 0
    ... except (ModuleNotFoundError, RuntimeError):
    ...     True
    True
    """
    library, handle = _handle(device)
    return library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)


def list_gpu_processes(device: object = None) -> str:
    """The processes that use the device and their memory, as text; where that cannot be told, text that says why.

    Raises nothing.

    >>> import flambeau
    >>> type(flambeau.cuda.list_gpu_processes())
    <class 'str'>
    """
    try:
        library, handle = _handle(device)
    except ModuleNotFoundError:
        return "pynvml module not found, please install nvidia-ml-py"
    except RuntimeError as error:
        return str(error)
    result = library.nvmlDeviceGetComputeRunningProcesses(handle)
    lines = [f"GPU:{_devices.current_device('cuda') if index_of(device) is None else index_of(device)}"]
    lines += [
        f"process {p.pid:>10d} uses {(p.usedGpuMemory or 0) / 2**20:>12.3f} MB GPU memory" for p in result
    ]
    return "\n".join(lines if result else [*lines, "no processes are running"])
