"""What this flambeau is, as programs ask for it."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
debug = False
git_version = None  # an installed package does not know the commit that it was made from
rocm = None
xpu = None


def __getattr__(name: str) -> Any:
    """`cuda`: the newest CUDA that the driver speaks, as "12.4"; `hip`: the version of HIP, as "6.3.42131".  None without a driver
    of NVIDIA's, or of AMD's.
    """
    if name not in ("cuda", "hip"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .devices import cuda as driver

    spoken = driver.driver_version() if driver.count() and driver.is_hip() == (name == "hip") else 0
    if name == "hip" and spoken:
        return f"{spoken // 10_000_000}.{spoken // 100_000 % 100}.{spoken % 100_000}"
    return f"{spoken // 1000}.{spoken % 1000 // 10}" if spoken else None


def __dir__() -> list[str]:
    return sorted([*globals(), "cuda", "hip"])
