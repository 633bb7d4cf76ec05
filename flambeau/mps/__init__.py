"""Apple's graphics processors, of which there are none here: what asks has a true answer, all else is a RuntimeError.

>>> import flambeau
>>> flambeau.mps.is_available(), flambeau.mps.device_count()
(False, 0)
"""

from ..core.base.lazily import lazily as _lazily
from ..devices.absent import refusals as _refusals

__all__ = [
    "Event",
    "compile_shader",
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "load_metallib",
    "manual_seed",
    "recommended_max_memory",
    "seed",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
]


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.mps.is_available()
    False
    """
    return False


def device_count() -> int:
    """0.

    >>> import flambeau
    >>> flambeau.mps.device_count()
    0
    """
    return 0


def manual_seed(seed: int) -> None:
    """Nothing comes of it: there is no device to seed.  Programs call this for every type of device.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.mps.manual_seed(0)
    """
    int(seed)


def seed() -> None:
    """Nothing comes of it, as of `manual_seed`.

    >>> import flambeau
    >>> flambeau.mps.seed()
    """


globals().update(
    _refusals(
        "mps",
        "Event compile_shader current_allocated_memory driver_allocated_memory empty_cache get_rng_state load_metallib "
        "recommended_max_memory set_per_process_memory_fraction set_rng_state synchronize",
        RuntimeError,
    )
)

__getattr__, __dir__ = _lazily(__name__, submodules=("event", "profiler"))
