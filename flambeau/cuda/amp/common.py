"""Whether mixed precision is out of the question."""

from __future__ import annotations

from ...core.base.device import device_count

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device.

    >>> import flambeau
    >>> flambeau.cuda.amp.common.amp_definitely_not_available() == (not flambeau.cuda.is_available())
    True
    """
    return not device_count("cuda")
