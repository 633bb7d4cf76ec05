"""The package opt_einsum, which tells `einsum` in which order to contract three tensors or more, where it is installed.

`enabled` (by default whether it is installed) says whether it is called, `strategy` how hard it looks ("auto", "greedy", "optimal" and
what else the package knows).  Without the package both are fixed, and tensors are contracted from left to right.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ..operations.linalg import paths
from ..operations.linalg.paths import get_opt_einsum, is_available

__all__ = ["flags", "get_opt_einsum", "is_available", "set_flags"]


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[bool, str | None]:
    """Sets what is given; returns what both were.  ValueError without the package.

    >>> import flambeau
    >>> before = flambeau.backends.opt_einsum.set_flags(_enabled=False)
    >>> flambeau.backends.opt_einsum.enabled
    False
    >>> _ = flambeau.backends.opt_einsum.set_flags(*before)
    """
    before = paths.enabled(), _strategy_now()
    if _enabled is not None:
        _enable(_enabled)
    if _strategy is not None:
        _choose(_strategy)
    return before


@contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """`set_flags` for a block.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> with flambeau.backends.opt_einsum.flags(enabled=False):
    ...     flambeau.backends.opt_einsum.enabled
    False
    """
    before = paths.Switches.enabled, paths.Switches.strategy
    set_flags(enabled, strategy)
    try:
        yield
    finally:
        paths.Switches.enabled, paths.Switches.strategy = before


def _enable(value: bool) -> None:
    if value and not is_available():
        raise ValueError(
            "opt_einsum is not available, so setting `enabled` to True will not reap the benefits of it"
        )
    paths.Switches.enabled = bool(value)


def _strategy_now() -> str | None:
    return (paths.Switches.strategy or "auto") if is_available() else None


def _choose(value: Any) -> None:
    if value is not None and not is_available():
        raise ValueError(
            f"opt_einsum is not available, so setting `strategy` to {value!r} will not be meaningful"
        )
    paths.Switches.strategy = value


class _Module(ModuleType):
    """The module, in which two names are read and written elsewhere."""

    @property
    def enabled(self) -> bool:
        return paths.enabled()

    @enabled.setter
    def enabled(self, value: bool) -> None:
        _enable(value)

    @property
    def strategy(self) -> str | None:
        return _strategy_now()

    @strategy.setter
    def strategy(self, value: str | None) -> None:
        _choose(value)


sys.modules[__name__].__class__ = _Module
