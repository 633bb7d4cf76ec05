"""NVIDIA devices, or AMD's: which there are, their memory, streams and events.

Everything works without a driver as far as it can: `is_available()` is False, `device_count()` 0, and what needs
a device raises RuntimeError.  No work is done on a device before it is first used.

>>> import flambeau
>>> flambeau.cuda.device_count() > 0 or not flambeau.cuda.is_available()
True
"""

from types import SimpleNamespace as _SimpleNamespace
from types import TracebackType as _TracebackType
from typing import Any as _Any

from .._compat.typed import CUDA_CLASSES as _CUDA_CLASSES
from ..core.base import device as _devices
from ..core.base.device import OutOfMemoryError
from ..devices import cuda as _driver
from . import amp, comm, graphs, nccl, nvtx, profiler  # noqa: F401
from ._find import find as _find
from ._find import index_of as _index_of
from ._runtime import CudaError, DeferredCudaCallError, check_error, cudart, cudaStatus
from ._sensors import (
    clock_rate,
    device_memory_used,
    list_gpu_processes,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)
from ._shared import collect as _collect
from .graphs import CUDAGraph, graph, graph_pool_handle, make_graphed_callables
from .memory import (
    CUDAPluggableAllocator,
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
    caching_allocator_disabled,
    caching_allocator_enable,
    change_current_allocator,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from .random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    is_current_stream_capturing,
    set_stream,
    stream,
)

globals().update(_CUDA_CLASSES)

__all__ = [
    "CUDAGraph",
    "CUDAPluggableAllocator",
    "CudaError",
    "DeferredCudaCallError",
    "Event",
    "ExternalStream",
    "MemPool",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "can_device_access_peer",
    "change_current_allocator",
    "check_error",
    "clock_rate",
    "cudaStatus",
    "cudart",
    "current_blas_handle",
    "current_device",
    "current_solver_handle",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "graph",
    "graph_pool_handle",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "nccl",
    "nvtx",
    "power_draw",
    "profiler",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]

has_half = True
has_magma = False


def device_count() -> int:
    """How many devices there are; 0 without a driver.

    >>> import flambeau
    >>> flambeau.cuda.device_count() >= 0
    True
    """
    return _driver.count()


def is_available() -> bool:
    """Whether there is a driver with at least one device; opens the driver, but no device.

    >>> import flambeau
    >>> flambeau.cuda.is_available() == (flambeau.cuda.device_count() > 0)
    True
    """
    return _driver.count() > 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 can be used: on every device that flambeau takes; without `including_emulation`, whether the device has
    instructions for it (capability 8.0 or later, and all of AMD's).

    Raises nothing.

    >>> import flambeau
    >>> flambeau.cuda.is_bf16_supported() == flambeau.cuda.is_available()
    True
    """
    return is_available() and (including_emulation or _driver.is_hip() or get_device_capability() >= (8, 0))


def is_initialized() -> bool:
    """Whether a device has been used in this process.

    >>> import flambeau
    >>> flambeau.cuda.is_initialized() in (True, False)
    True
    """
    return _devices.is_opened("cuda")


def init() -> None:
    """Open the current device now; else that happens at its first use.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.init()
    ...     assert flambeau.cuda.is_initialized()
    """
    _devices.find_device("cuda", None)


def current_device() -> int:
    """The index of the device that "cuda" means.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert 0 <= flambeau.cuda.current_device() < flambeau.cuda.device_count()
    """
    init()
    return _devices.current_device("cuda")


def set_device(device: object) -> None:
    """Choose the device that "cuda" means; a negative index changes nothing.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.set_device(flambeau.cuda.current_device())
    """
    index = _index_of(device)
    if index is not None and index >= 0:
        _devices.set_device("cuda", index)


class device:
    """Context in which "cuda" means another device; None or a negative index changes nothing.

    Raises:
        ValueError: the device is of another type
        RuntimeError: the context is entered, and there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     with flambeau.cuda.device(0):
    ...         assert flambeau.cuda.current_device() == 0
    """

    def __init__(self, device: object):
        self.index = _index_of(device)

    def __enter__(self) -> None:
        self.before = _devices.current_device("cuda")
        set_device(self.index)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: _TracebackType | None) -> None:
        if self.index is not None and self.index >= 0:
            _devices.set_device("cuda", self.before)


class DeviceProperties(_SimpleNamespace):
    """What the driver tells of a device."""

    def __repr__(self) -> str:
        architecture = f"gcnArchName='{self.gcnArchName}', " if hasattr(self, "gcnArchName") else ""
        return (
            f"DeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, {architecture}"
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count})"
        )


def get_device_properties(device: object = None) -> DeviceProperties:
    """`name`, `major`, `minor`, `total_memory` (bytes), `multi_processor_count`, `warp_size`, `L2_cache_size` …; of AMD's devices
    `gcnArchName` besides, as "gfx90a:sramecc+:xnack-".

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.get_device_properties().total_memory > 0
    """
    return DeviceProperties(**_find(device).properties())


def get_device_name(device: object = None) -> str:
    """The device's name, such as "NVIDIA H200".

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert isinstance(flambeau.cuda.get_device_name(), str)
    """
    return get_device_properties(device).name


def get_device_capability(device: object = None) -> tuple[int, int]:
    """The major and minor number of what the device can do: (9, 0) for an H100.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.get_device_capability() >= (7, 0)
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def synchronize(device: object = None) -> None:
    """Wait until all that is queued on the device has run.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.synchronize()
    """
    _find(device).synchronize()


class device_of(device):
    """Context in which "cuda" means the device that a tensor or a storage is on; nothing changes for those elsewhere.

    Raises:
        AttributeError: the argument is neither a tensor nor a storage

    >>> import flambeau
    >>> with flambeau.cuda.device_of(flambeau.ones(2)):
    ...     pass
    """

    def __init__(self, obj: _Any):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def can_device_access_peer(device: object, peer_device: object) -> bool:
    """Whether kernels on one device can read the memory of the other.  RuntimeError where there is no such device.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert not flambeau.cuda.can_device_access_peer(0, 0)
    """
    return _find(device).can_access(_find(peer_device).index)


def get_arch_list() -> list[str]:
    """What kernels can be made for, as "sm_90a", or "gfx942" on AMD's devices; an empty list without a device.

    >>> import flambeau
    >>> all(name.startswith(("sm_", "gfx")) for name in flambeau.cuda.get_arch_list())
    True
    """
    from ..codegen.target import PROCESSORS

    return list(PROCESSORS["amdgcn" if _driver.is_hip() else "nvptx"]) if is_available() else []


def get_gencode_flags() -> str:
    """NVCC's flags for `get_arch_list`; "" on AMD's devices, which NVCC compiles nothing for.

    >>> import flambeau
    >>> flambeau.cuda.get_gencode_flags() == "" or flambeau.cuda.is_available()
    True
    """
    numbers = (name.removeprefix("sm_") for name in get_arch_list() if name.startswith("sm_"))
    return " ".join(f"-gencode compute=compute_{n},code=sm_{n}" for n in numbers)


def is_tf32_supported() -> bool:
    """Whether the device could round operands of products to TF32 (capability 8.0 or later, gfx94 and gfx95); no product here does.

    >>> import flambeau
    >>> flambeau.cuda.is_tf32_supported() <= flambeau.cuda.is_available()
    True
    """
    if not is_available():
        return False
    if _driver.is_hip():
        return get_device_properties().gcnArchName.startswith(("gfx94", "gfx95"))
    return get_device_capability() >= (8, 0)


def current_blas_handle() -> int:
    """cuBLAS's handle for the current device.  RuntimeError where cuBLAS is not installed.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     try:
    ...         assert flambeau.cuda.current_blas_handle()
    ...     except RuntimeError as error:
    ...         assert "not installed" in str(error)
    """
    handle = _find(None).blas_handle()
    if not handle:
        raise RuntimeError(
            "current_blas_handle(): cuBLAS is not installed: products are flambeau's own kernels"
        )
    return handle


def current_solver_handle() -> int:
    """cuSOLVER's handle for the current device.  RuntimeError where cuSOLVER is not installed.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     try:
    ...         assert flambeau.cuda.current_solver_handle()
    ...     except RuntimeError as error:
    ...         assert "not installed" in str(error)
    """
    on = _find(None)
    from ..devices.cusolver import handle_of

    handle = handle_of(on)
    if not handle:
        raise RuntimeError(
            "current_solver_handle(): cuSOLVER is not installed: decompositions are flambeau's own kernels"
        )
    return handle


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What a copy to the host is, for which the host waits: 0 or "default" a copy, 1 or "warn" a warning, 2 or "error" a
    RuntimeError.  RuntimeError for any other mode, and without a device.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.set_sync_debug_mode("default")
    """
    modes = {"default": 0, "warn": 1, "error": 2}
    init()
    mode = modes.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode!r}"
        )
    _driver.set_sync_debug_mode(mode)


def get_sync_debug_mode() -> int:
    """What was set; 0 at first.  RuntimeError without a device.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.get_sync_debug_mode() == 0
    """
    init()
    return _driver.get_sync_debug_mode()


def ipc_collect() -> None:
    """Let go of tensors that were sent to other processes and that those have let go of.  RuntimeError without a device.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.ipc_collect()
    """
    init()
    _collect()
