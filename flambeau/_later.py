"""Attributes of a module that are imported when they are first asked for, so that `import flambeau` does not pay for
what few programs use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def later(
    module: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `module`, which finds names in modules that it has not imported.

    Args:
        module: its `__name__`.
        homes: the names by the module, relative to this one's package, that holds them. A home that is a part of the
            package itself, such as `".lazy"` of a package, is an attribute, too.
    """
    namespace = sys.modules[module].__dict__
    package = namespace["__package__"]
    found = {name: home for home, names in homes.items() for name in names}
    if package == module:
        found |= {home[1:]: "" for home in homes if home.count(".") == 1}

    def __getattr__(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if found[name] == "":
            return import_module("." + name, package)  # which makes it an attribute of the package
        value = namespace[name] = getattr(import_module(found[name], package), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*namespace, *found})

    return __getattr__, __dir__
