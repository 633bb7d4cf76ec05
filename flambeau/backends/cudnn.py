"""cuDNN, which nothing here uses: convolutions on NVIDIA's devices are generated.

`enabled`, `benchmark`, `deterministic`, `allow_tf32` and `benchmark_limit` are kept as programs set them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._switched import Part, has_precision

__all__ = ["flags", "is_acceptable", "is_available", "set_flags", "version"]

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True
conv, rnn = Part(), Part()
has_precision(__name__)


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.cudnn.is_available()
    False
    """
    return False


def version() -> None:
    """None.

    >>> import flambeau
    >>> flambeau.backends.cudnn.version() is None
    True
    """
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: cuDNN takes no tensor.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.cudnn.is_acceptable(flambeau.ones(2))
    False
    """
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Sets the switches that are not None; returns all five as they were.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> before = flambeau.backends.cudnn.set_flags(_benchmark=True)
    >>> flambeau.backends.cudnn.benchmark
    True
    >>> _ = flambeau.backends.cudnn.set_flags(*before)
    """
    state = globals()
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    before = tuple(state[name] for name in names)
    for name, value in zip(names, (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)):
        if value is not None:
            state[name] = value
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """A context in which the switches are these.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> with flambeau.backends.cudnn.flags(deterministic=True):
    ...     flambeau.backends.cudnn.deterministic
    True
    """
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
