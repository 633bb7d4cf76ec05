"""Intel's graphics processors through SYCL, of which there are none here: what asks has a true answer, all else is an AssertionError.

>>> import flambeau
>>> flambeau.xpu.is_available(), flambeau.xpu.device_count()
(False, 0)
"""

from collections.abc import Iterable as _Iterable
from typing import Any as _Any

from ..core.base.lazily import lazily as _lazily
from ..core.base.tensor import TensorBase as _TensorBase
from ..devices.absent import refusals as _refusals

__all__ = [
    "Event",
    "MemPool",
    "Stream",
    "StreamContext",
    "XPUGraph",
    "XPUPluggableAllocator",
    "can_device_access_peer",
    "change_current_allocator",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_generators",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_usage",
    "power_draw",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]

default_generators: tuple[()] = ()


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.xpu.is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.xpu.is_initialized()
    False
    """
    return False


def device_count() -> int:
    """0.

    >>> import flambeau
    >>> flambeau.xpu.device_count()
    0
    """
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.xpu.is_bf16_supported()
    False
    """
    return False


def manual_seed(seed: int) -> None:
    """Nothing comes of it: there is no device to seed.  Programs call this for every type of device.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.xpu.manual_seed(0)
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Nothing comes of it, as of `manual_seed`.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.xpu.manual_seed_all(0)
    """
    int(seed)


def seed() -> None:
    """Nothing comes of it, as of `manual_seed`.

    >>> import flambeau
    >>> flambeau.xpu.seed()
    """


def seed_all() -> None:
    """Nothing comes of it, as of `manual_seed`.

    >>> import flambeau
    >>> flambeau.xpu.seed_all()
    """


def get_rng_state_all() -> list[_TensorBase]:
    """An empty list.

    Shape:
        there are no states

    >>> import flambeau
    >>> flambeau.xpu.get_rng_state_all()
    []
    """
    return []


def set_rng_state_all(new_states: _Iterable[_TensorBase]) -> None:
    """RuntimeError for any state: there is no device that it could be of.

    Shape:
        there are no states

    >>> import flambeau
    >>> flambeau.xpu.set_rng_state_all([])
    """
    if count := len(list(new_states)):
        raise RuntimeError(f"xpu.set_rng_state_all(): got {count} states for 0 devices")


def memory_allocated(device: _Any = None) -> int:
    """0.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.xpu.memory_allocated()
    0
    """
    return 0


def max_memory_allocated(device: _Any = None) -> int:
    """0.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.xpu.max_memory_allocated()
    0
    """
    return 0


def memory_stats(device: _Any = None) -> dict[str, _Any]:
    """An empty dict.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.xpu.memory_stats()
    {}
    """
    return {}


def memory_reserved(device: _Any = None) -> int:
    """0.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.xpu.memory_reserved()
    0
    """
    return 0


def max_memory_reserved(device: _Any = None) -> int:
    """0.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.xpu.max_memory_reserved()
    0
    """
    return 0


def get_arch_list() -> list[str]:
    """An empty list.

    >>> import flambeau
    >>> flambeau.xpu.get_arch_list()
    []
    """
    return []


def get_gencode_flags() -> str:
    """An empty str.

    >>> import flambeau
    >>> flambeau.xpu.get_gencode_flags()
    ''
    """
    return ""


def is_tf32_supported() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.xpu.is_tf32_supported()
    False
    """
    return False


def empty_cache() -> None:
    """Nothing is cached.

    >>> import flambeau
    >>> flambeau.xpu.empty_cache()
    """


globals().update(
    _refusals(
        "xpu",
        "Event MemPool Stream StreamContext XPUGraph XPUPluggableAllocator can_device_access_peer change_current_allocator "
        "clock_rate current_device current_stream device device_memory_used device_of get_device_capability get_device_name "
        "get_device_properties get_per_process_memory_fraction get_rng_state get_stream_from_external graph "
        "graph_pool_handle init initial_seed is_current_stream_capturing make_graphed_callables mem_get_info "
        "memory_snapshot memory_stats_as_nested_dict memory_usage power_draw reset_accumulated_memory_stats "
        "reset_peak_memory_stats set_device set_per_process_memory_fraction set_rng_state set_stream stream "
        "synchronize temperature use_mem_pool utilization",
        AssertionError,
    )
)

__getattr__, __dir__ = _lazily(__name__, submodules=("graphs", "memory", "random", "streams"))
