"""`import torch` that means this library.

Every module has a second name, `torch.x.y` beside `flambeau.x.y`: the same object under two keys of `sys.modules`, run once.
What is shown to users is renamed once, when the second name is taken: modules, classes, functions, and by
`core.base.display` all reprs and messages.  Modules that are loaded later are run under their shown name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from .. import torch_version, version
from ..core.base import display
from ..core.base.lazily import spec_of_waiting
from ..core.base.naming import name_type
from ..core.call.operation import Op
from ..core.make.random import set_stream
from . import absent
from . import pickles as _pickles

OWN = __name__.partition(".")[0]
SHOWN = "torch"
VERSION = "2.13.0"  # the release whose interface this is
SHIM = os.path.join(
    os.path.dirname(__file__), "_shim"
)  # has `torch` and its metadata: what processes started from here import

_FUNCTIONS = (FunctionType, BuiltinFunctionType, Op)
_HEAP = 1 << 9  # flag of classes that a class statement made


def as_torch() -> ModuleType:
    """Let `import torch` mean this library, here and in processes that are started from here; returns the module.

    To be called before anything imports torch. `torch.x.y` is the very object `flambeau.x.y`; `torch.__version__` and
    `importlib.metadata.version("torch")` are those of the release whose interface it is, and reprs, messages and
    `__module__` say torch; generators of the host draw PyTorch's numbers (`backends.random`). A second call changes nothing.
    `python -m flambeau.torch script.py` does the same for a program that is left as it is; `pip install ./dropin` for a whole
    environment.

    ImportError where PyTorch itself is imported already, or installed: one process has one torch.

    >>> import flambeau  # in a program of its own, before anything else imports torch: flambeau.as_torch()
    >>> callable(flambeau.as_torch)
    True
    """
    library = sys.modules[OWN]
    if sys.modules.get(SHOWN) is library:
        return library
    _refuse_beside_pytorch()
    display.NAME = SHOWN
    release = torch_version.TorchVersion(f"{VERSION}+{OWN}")
    vars(library)[SHOWN] = library  # `torch.torch`, as PyTorch has it by accident and programs by mistake
    version.__version__ = library.__version__ = torch_version.__version__ = release
    for name in [n for n in sys.modules if _is_own(n)]:
        _rename_module(sys.modules[name], name)
    for kind in _classes(object, set()):
        _rename(kind)
    sys.meta_path.insert(0, _Finder())
    _pickles.register()
    if not os.environ.get("FLAMBEAU_RANDOM", "").strip():
        set_stream("pytorch")
    if SHIM not in sys.path:
        sys.path.append(SHIM)  # spawned processes get this path
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if SHIM not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, inherited), SHIM])
    return library


def _refuse_beside_pytorch() -> None:
    """Two torches in one process would share names and files, and neither would know the other's tensors."""
    loaded = sys.modules.get(SHOWN)
    spec = PathFinder.find_spec(SHOWN) if loaded is None else loaded.__spec__
    if spec is None or spec.origin is None:
        return
    with open(spec.origin, "rb") as source:
        other = b"as_torch" not in source.read()
    if other:
        raise ImportError(
            f"{OWN}.as_torch(): PyTorch itself is {'installed' if loaded is None else 'imported already'} "
            f"({spec.origin}), and one process has one torch: use an environment without it, or "
            f"`import {OWN} as torch` in the program"
        )


def _is_own(name: str) -> bool:
    return name == OWN or name.startswith(OWN + ".")


def _shown(name: str) -> str:
    """The name that users see for one of this library's modules."""
    return SHOWN + name[len(OWN) :]


def _rename_module(module: ModuleType, name: str) -> None:
    """Give a loaded module its second name, and what it defines the shown one."""
    sys.modules[_shown(name)] = module
    spec = _spec(module)
    module.__name__ = _name_loader(spec, name)
    spec.name = _shown(name)
    module.__package__ = spec.parent  # relative imports compare them
    for value in vars(module).values():
        _rename(value)


def _spec(module: ModuleType) -> ModuleSpec:
    assert module.__spec__ is not None  # as every module has that was imported
    return module.__spec__


def _name_loader(spec: ModuleSpec, name: str) -> str:
    """The shown name, which a module's loader knows from here on: it gives code and source only for the name it knows."""
    spec.loader.name = _shown(name)  # type: ignore[union-attr]
    return _shown(name)


def _rename(value: Any) -> None:
    if isinstance(value, type):
        if not _is_own(value.__module__ if isinstance(value.__module__, str) else ""):
            return
        if value.__flags__ & _HEAP:
            type.__setattr__(value, "__module__", _shown(value.__module__))
        else:
            name_type(value, f"{_shown(value.__module__)}.{value.__qualname__}")
    elif isinstance(value, _FUNCTIONS) or type(value).__name__ == "cython_function_or_method":
        if isinstance(value.__module__, str) and _is_own(value.__module__):
            value.__module__ = _shown(value.__module__)


def _classes(kind: type, seen: set[type]) -> set[type]:
    """All classes below one, so also those that no module's name leads to."""
    below: type
    for below in type.__subclasses__(kind):
        if below not in seen:
            seen.add(below)
            _classes(below, seen)
    return seen


class _Finder:
    """Finds `torch.x` as `flambeau.x`, and lets modules of this library that are loaded from now on be run under the shown name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(SHOWN + "."):
            own = OWN + name[len(SHOWN) :]
            rest = name[len(SHOWN) + 1 :]
            if own in sys.modules or absent.is_module(rest) or PathFinder.find_spec(own, path) is not None:
                return ModuleSpec(name, _Alias(own))  # type: ignore[arg-type]
            absent.refuse_import(name, rest)
            return None
        if name.startswith(OWN + "."):
            result = (
                spec_of_waiting(name, path)
                or PathFinder.find_spec(name, path, target)
                or absent.spec_of(name)
            )
            if result is not None and result.loader is not None:
                result.loader.exec_module = partial(_run_shown, result.loader.exec_module)  # type: ignore[method-assign]
            return result
        return None


def _run_shown(run: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Run a module under its shown name, so that what it defines has that from the start."""
    own = module.__name__
    module.__name__ = _name_loader(_spec(module), own)
    sys.modules[_shown(own)] = module
    try:
        run(module)
    except BaseException:
        del sys.modules[_shown(own)]
        raise
    _rename_module(module, own)


class _Alias:
    """Loads a module of this library for its second name."""

    def __init__(self, own: str) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.own)
        self.spec = module.__spec__
        return module

    def get_code(self, name: str) -> Any:
        """The module's code, for `python -m torch.distributed.run`."""
        spec = _spec(import_module(self.own))
        return spec.loader.get_code(spec.name)  # type: ignore[union-attr]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # it has run; the import system has put the second name's there
