"""Meta's accelerators (MTIA), of which there are none here: what asks has a true answer, all else is an AssertionError.

>>> import flambeau
>>> flambeau.mtia.is_available(), flambeau.mtia.device_count()
(False, 0)
"""

from collections.abc import Iterable as _Iterable
from typing import Any as _Any

from ..core.base.lazily import lazily as _lazily
from ..core.base.tensor import TensorBase as _TensorBase
from ..devices.absent import refusals as _refusals

__all__ = [
    "Event",
    "MTIAGraph",
    "Stream",
    "StreamContext",
    "attach_out_of_memory_observer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "record_memory_history",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "snapshot",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.mtia.is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.mtia.is_initialized()
    False
    """
    return False


def device_count() -> int:
    """0.

    >>> import flambeau
    >>> flambeau.mtia.device_count()
    0
    """
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.mtia.is_bf16_supported()
    False
    """
    return False


def manual_seed(seed: int) -> None:
    """Nothing comes of it: there is no device to seed.  Programs call this for every type of device.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.mtia.manual_seed(0)
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Nothing comes of it, as of `manual_seed`.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.mtia.manual_seed_all(0)
    """
    int(seed)


def seed() -> None:
    """Nothing comes of it, as of `manual_seed`.

    >>> import flambeau
    >>> flambeau.mtia.seed()
    """


def seed_all() -> None:
    """Nothing comes of it, as of `manual_seed`.

    >>> import flambeau
    >>> flambeau.mtia.seed_all()
    """


def get_rng_state_all() -> list[_TensorBase]:
    """An empty list.

    Shape:
        there are no states

    >>> import flambeau
    >>> flambeau.mtia.get_rng_state_all()
    []
    """
    return []


def set_rng_state_all(new_states: _Iterable[_TensorBase]) -> None:
    """RuntimeError for any state: there is no device that it could be of.

    Shape:
        there are no states

    >>> import flambeau
    >>> flambeau.mtia.set_rng_state_all([])
    """
    if given := len(list(new_states)):
        raise RuntimeError(f"mtia.set_rng_state_all(): got {given} states for 0 devices")


def memory_allocated(device: _Any = None) -> int:
    """0.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.mtia.memory_allocated()
    0
    """
    return 0


def max_memory_allocated(device: _Any = None) -> int:
    """0.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.mtia.max_memory_allocated()
    0
    """
    return 0


def memory_stats(device: _Any = None) -> dict[str, _Any]:
    """An empty dict.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.mtia.memory_stats()
    {}
    """
    return {}


globals().update(
    _refusals(
        "mtia",
        "Event MTIAGraph Stream StreamContext attach_out_of_memory_observer current_device current_stream default_stream device "
        "empty_cache get_device_capability get_device_properties get_rng_state graph graph_pool_handle init initial_seed "
        "record_memory_history reset_peak_memory_stats set_device set_rng_state set_stream snapshot stream "
        "synchronize",
        AssertionError,
    )
)

__getattr__, __dir__ = _lazily(__name__, submodules=("memory", "mtia_graph"))
