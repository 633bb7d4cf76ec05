"""Parts of the package that are imported when first named, so that `import flambeau` costs what a program uses.

Python looks names up faster in modules without `__getattr__`, by some 30 ns, so `flambeau` itself has none: its modules
stand there from the start, and most are `waiting` until they are used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from .callbacks import callbacks


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
    """What `_compat/absent.py` makes of a name, or the AttributeError, which says why where that is known and shows this function alone."""
    if "absent" in callbacks and not name.startswith("__"):
        try:
            return callbacks["absent"](package, name)
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


_WAITING: dict[str, ModuleType] = {}  # what stands for modules that nobody has used yet, by name
_NAMES: dict[ModuleType, str] = {}  # of these, always: as they are loaded, `as_torch` gives them others


class _Waiting(ModuleType):
    """A module before its first use: to read, write or list its attributes imports it.

    From then on it is that very module, of Python's own class, so nothing that held it sees a change.
    """

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":  # what `isinstance` looks at
            return ModuleType
        return getattr(_used(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_used(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_used(self), name)


class _Loading(ModuleType):
    """A module while it is run: other threads wait for names that it has not yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system looks for
            raise AttributeError(name)
        import_module(_NAMES[self])  # at once for the thread that runs it
        return ModuleType.__getattribute__(self, name)


def _used(module: ModuleType) -> ModuleType:
    return import_module(_NAMES[module])


def waiting(package: str, *names: str) -> None:
    """Let modules stand in a package, each imported when it is first used, by whichever name leads to it."""
    for name in names:
        whole = f"{package}.{name}"
        vars(sys.modules[package])[name] = module = _WAITING[whole] = _Waiting(whole)
        _NAMES[module] = whole


def use_waiting(*names: str) -> None:
    """Import those that wait among these modules and in these packages."""
    for name in list(_WAITING):
        if name.startswith(tuple(f"{n}." for n in names)) or name in names:
            import_module(name)


_afterwards: dict[
    str, Callable[[ModuleType], None]
] = {}  # what is done with modules when they have been run, by name


def when_loaded(names: Iterable[str], function: Callable[[ModuleType], None]) -> None:
    """Let a function have those modules when they have been run."""
    _afterwards.update(dict.fromkeys(names, function))


def spec_of_waiting(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """How a module that waits is loaded: into what stands for it; and one that somebody wants when it is loaded. None for any other."""
    spec = PathFinder.find_spec(name, path) if name in _WAITING or name in _afterwards else None
    if spec is not None and spec.loader is not None:
        if name in _WAITING:
            spec.loader.create_module = lambda spec: _begun(name)  # type: ignore[method-assign]
        spec.loader.exec_module = partial(_run, spec.loader.exec_module, name)  # type: ignore[method-assign]
    return spec


def _begun(name: str) -> ModuleType | None:
    if (module := _WAITING.pop(name, None)) is not None:
        _become(module, _Loading)
    return module


def _become(module: ModuleType, kind: type) -> None:
    object.__setattr__(module, "__class__", kind)


def _run(execute: Callable[[ModuleType], None], name: str, module: ModuleType) -> None:
    try:
        execute(module)
    except BaseException:
        if type(module) is _Loading:  # the next use tries again
            vars(module).clear()
            vars(module)["__name__"] = name
            _become(module, _Waiting)
            _WAITING[name] = module
        raise
    if type(module) is _Loading:
        _become(module, ModuleType)
    if name in _afterwards:
        _afterwards[name](module)


class _Finder:
    """The first that Python's import looks to, for the modules that wait."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_of_waiting(name, path)


sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
