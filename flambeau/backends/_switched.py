"""Settings that are kept as programs set them, checked when they are set; nothing here makes use of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

PRECISIONS = ("none", "ieee", "tf32", "bf16")


def _get(self: Any) -> str:
    return vars(self).get("_fp32_precision", "none")


def _set(self: Any, value: str) -> None:
    if value not in PRECISIONS:
        raise RuntimeError(f"Unknown precision: {value}")
    vars(self)["_fp32_precision"] = value


# To what operands of float32 may be rounded: "ieee" not at all, "tf32", "bf16", or "none": nothing is said.
fp32_precision = property(_get, _set)


class Part:
    """The operations of one kind of a library: `fp32_precision` is what it may round float32's operands to.

    >>> import flambeau
    >>> flambeau.backends.cudnn.conv.fp32_precision
    'none'
    """

    fp32_precision = fp32_precision


_frozen = False


def disable_global_flags() -> None:
    """Have assignments to switches raise RuntimeError from now on: contexts (`flags`) alone change them.

    >>> import subprocess, sys
    >>> code = "from flambeau import backends; backends.disable_global_flags(); print(backends.flags_frozen())"
    >>> subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    'True'
    """
    global _frozen
    _frozen = True


def flags_frozen() -> bool:
    """Whether assignments to switches raise.

    >>> import flambeau
    >>> flambeau.backends.flags_frozen()
    False
    """
    return _frozen


@contextmanager
def assignable() -> Iterator[None]:
    """A context in which switches may be assigned."""
    global _frozen
    before, _frozen = _frozen, False
    try:
        yield
    finally:
        _frozen = before


class _WithPrecision(ModuleType):
    fp32_precision = fp32_precision

    def __setattr__(self, name: str, value: Any) -> None:
        held = vars(self).get(name, value)
        switch = name == "fp32_precision" or isinstance(held, (bool, int, str)) and not name.startswith("_")
        if _frozen and switch:
            raise RuntimeError(
                f"not allowed to set {self.__name__}.{name} after disable_global_flags; please use flags() context manager instead"
            )
        super().__setattr__(name, value)


def has_precision(module: str) -> None:
    """Give a module `fp32_precision`, which takes the names above alone: RuntimeError for others."""
    sys.modules[module].__class__ = _WithPrecision


@contextmanager
def during(state: dict[str, Any], **values: Any) -> Iterator[None]:
    """A context in which a module's settings are these."""
    before = {name: state[name] for name in values}
    state.update(values)
    try:
        yield
    finally:
        state.update(before)
