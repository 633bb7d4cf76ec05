"""Parts of the package that are imported when first named, so that `import flambeau` costs what a program uses.

Python looks names up faster in modules without `__getattr__`, by some 30 ns, so `flambeau` itself has none: its modules
stand there from the start, and are light until they are used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from .core.base.provided import provided


def lazily(
    package: str, submodules: tuple[str, ...] = (), names: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` (PEP 562) for a package: its submodules, and names that stand in others of them.

    `names` maps a name to the module, relative to the package, that it is taken from. A module that is no package may
    have such names, too; the modules are relative to the package that it is in.
    """
    homes = dict(names or {})

    def of_name(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(homes[name], vars(sys.modules[package])["__package__"]), name)
        elif name in submodules:
            value = import_module(f"{package}.{name}")
        else:
            return _missing(package, name)
        vars(sys.modules[package])[name] = value  # the next look-up comes no more by here
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *submodules, *homes})

    return of_name, listed


def _missing(package: str, name: str) -> Any:
    """What `_absent.py` makes of a name, or the AttributeError, which says why where that is known and shows this function alone."""
    if "absent" in provided and not name.startswith("__"):
        try:
            return provided["absent"](package, name)
        except (AttributeError, ImportError) as error:
            raise error.with_traceback(None) from None
    raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])


class _FunctionsFirst(ModuleType):
    """A package in which importing a file leaves the function of the same name at that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and callable(vars(value).get(name)):
            value = vars(value)[name]
        super().__setattr__(name, value)


def functions_first(package: str) -> None:
    """Let functions of a package keep their names where files share them, as in `nn.utils.weight_norm`."""
    sys.modules[package].__class__ = _FunctionsFirst


def on_first_use(
    package: str, module: str, alone: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package that has the names of one module in it, which is imported with the first.

    The package's other modules can be imported before that one, and do not bring it; nor do those in `alone`, which others of
    the package name as its attributes.
    """
    whole = f"{package}.{module}"

    def of_name(name: str) -> Any:
        if name in alone:
            return import_module(f"{package}.{name}")
        if name == "__all__" or not name.startswith("_"):
            mine = vars(sys.modules[package])
            loaded = import_module(whole)
            if "__all__" in vars(
                loaded
            ):  # else it is being imported, and asks for another module of the package
                mine.update({n: getattr(loaded, n) for n in loaded.__all__}, __all__=loaded.__all__)
                mine.pop("__getattr__", None)  # the next look-ups are plain
            if name in mine:
                return mine[name]
        return _missing(package, name)

    def listed() -> list[str]:
        of_name("__all__")
        return sorted(vars(sys.modules[package]))

    return of_name, listed
