"""The package opt_einsum, of which `einsum` asks nothing: it contracts from left to right, whether it is installed or not."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.opt_einsum.is_available()
    False
    """
    return False


def get_opt_einsum() -> None:
    """None: the package is not asked.

    >>> import flambeau
    >>> flambeau.backends.opt_einsum.get_opt_einsum() is None
    True
    """
    return None


class _Switches(ModuleType):
    """`enabled` is False and `strategy` None; ValueError for what would ask the package."""

    @property
    def enabled(self) -> bool:
        return False

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value:
            raise ValueError(
                "opt_einsum is not available, so setting `enabled` to True will not reap the benefits of it"
            )

    @property
    def strategy(self) -> None:
        return None

    @strategy.setter
    def strategy(self, value: Any) -> None:
        if value is not None:
            raise ValueError(
                f"opt_einsum is not available, so setting `strategy` to {value!r} will not be meaningful"
            )


sys.modules[__name__].__class__ = _Switches
