"""In which order `einsum` contracts three tensors or more: as the package opt_einsum says, where it is installed and not turned off."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

Path = list[tuple[int, int]]


class Switches:
    """What a program has set: whether the package is called, None for "where it is installed", and for which strategy."""

    enabled: bool | None = None
    strategy: Any = None


@functools.cache
def is_available() -> bool:
    """Whether the package is installed."""
    from importlib.util import find_spec

    return find_spec("opt_einsum") is not None


def get_opt_einsum() -> ModuleType | None:
    """The package; None where it is not installed.

    >>> import flambeau
    >>> (flambeau.backends.opt_einsum.get_opt_einsum() is not None) == flambeau.backends.opt_einsum.is_available()
    True
    """
    if not is_available():
        return None
    import opt_einsum

    return opt_einsum


def enabled() -> bool:
    """Whether the package is called."""
    return is_available() if Switches.enabled is None else Switches.enabled


def path_of(equation: str, shapes: tuple[tuple[int, ...], ...]) -> Path:
    """Which two tensors to contract next, by their places in the list from which they are taken and to whose end their product goes."""
    n = len(shapes)
    if n <= 2 or not enabled():
        return [(0, 1), *((n - k, 0) for k in range(2, n))][: n - 1]
    return _contract_path(equation, shapes, Switches.strategy or "auto")


@functools.lru_cache(maxsize=1024)
def _contract_path(equation: str, shapes: tuple[tuple[int, ...], ...], strategy: Any) -> Path:
    import opt_einsum

    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=strategy)
    return [(pair[0], pair[1]) for pair in path]
