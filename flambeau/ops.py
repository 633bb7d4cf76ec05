"""Operations by namespace and name: `ops.mylib.scale(x)`, `ops.mylib.scale.default`, `ops.aten.mm.default`.

Those that programs have added with `library`, and under `aten` those of this library.

>>> import flambeau
>>> flambeau.ops.aten.mm(flambeau.eye(2), flambeau.eye(2)).shape
flambeau.Size([2, 2])
>>> flambeau.ops.mylib.nothing  # doctest: +ELLIPSIS
Traceback (most recent call last):
AttributeError: ... no operation mylib::nothing is defined (in mylib: none)
"""

from __future__ import annotations

import os
from typing import Any

from .core.base.callbacks import set_callback

loaded_libraries: set[str] = set()


def load_library(path: str | os.PathLike[str]) -> None:
    """Load a shared library, whose code may define operations when it is loaded; OSError where it cannot be.

    >>> import flambeau
    >>> flambeau.ops.load_library("/nowhere/library.so")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    OSError: Could not load this library: /nowhere/library.so (...)
    """
    import ctypes

    path = os.path.realpath(path)
    try:
        ctypes.CDLL(path)
    except OSError as error:
        raise OSError(f"Could not load this library: {path} ({error})") from error
    loaded_libraries.add(path)


def import_module(module: str) -> None:
    """Import a module of Python that defines operations.

    Raises:
        ModuleNotFoundError: there is no such module

    >>> import flambeau
    >>> flambeau.ops.import_module("json")
    """
    import importlib

    importlib.import_module(module)


def _overload_property(op: Any, what: str) -> Any:
    from .library import _aten

    return _aten.overload_property(op, what)


set_callback("aten_property", _overload_property)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'ops' has no attribute {name!r}")
    from .library import _aten, _aten_core  # noqa: F401  which defines its operations

    result = globals()[name] = _aten.namespace_of(name)
    return result
