"""None where a tensor belongs: an error, whatever is called, never a crash."""

from __future__ import annotations

import importlib
import pkgutil
import signal
import subprocess
import sys

from flambeau import core

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: of classes that are not compiled

# Every public function and method, with up to three arguments of no meaning.
SCRIPT = """
import sys, types, warnings
import flambeau

warnings.simplefilter("ignore")
STATE = ("set_", "push_", "pop_", "refuse_", "seed", "manual_seed", "forget", "_set", "hold", "register", "rename", "exit", "inherit",
         "start", "stop", "load_pool", "breakpoint", "default_generator", "_rebuild", "watch", "enable", "disable", "require", "set")
homes = [flambeau, flambeau.Tensor, flambeau.nn.functional, flambeau.linalg, flambeau.fft, flambeau.special, flambeau.autograd,
         flambeau.Generator, flambeau.UntypedStorage, flambeau.Size]
for home in homes:
    for name in sorted(dir(home)):
        found = getattr(home, name, None)
        if not callable(found) or isinstance(found, types.ModuleType) or name.startswith("__") or name.startswith(STATE):
            continue
        if isinstance(found, type) and not issubclass(found, flambeau.Tensor):
            continue
        for count in (1, 2, 3):
            sys.stdout.write(f"{home.__name__}.{name}\\n")
            sys.stdout.flush()
            try:
                found(*[None] * count)
            except Exception:
                continue
print("done")
"""


def test_none_is_an_error_or_an_answer():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    last = run.stdout.strip().splitlines()[-1]
    if run.returncode < 0:
        raise AssertionError(f"{signal.Signals(-run.returncode).name} in {last}")
    assert run.returncode == 0 and last == "done", run.stderr[-2000:]


def test_methods_of_compiled_classes_check_what_they_are_called_on():
    """Cython's own functions do not, and read fields that are not there: `cython.binding(False)` makes them Python's."""
    for module in pkgutil.iter_modules(core.__path__):
        for cls in vars(importlib.import_module(f"flambeau.core.{module.name}")).values():
            if isinstance(cls, type) and not cls.__flags__ & HEAP_TYPE:
                for name, found in vars(cls).items():
                    assert type(found).__name__ != "cython_function_or_method", f"{cls.__name__}.{name}"
