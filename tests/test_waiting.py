"""Modules that wait in the package until they are used: what a start imports, and that nobody sees that they waited."""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST_MODULES = 420  # of this package and of Python, in a program that imports flambeau and nothing else
WAITING = "backends cuda distributions fft hub linalg multiprocessing optim profiler serialization signal special testing"


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_start_imports_few_modules_and_no_tools_of_programmers():
    tools = "ast ctypes dataclasses decimal dis hashlib inspect pathlib tokenize traceback urllib"
    said = run(
        f"import sys, flambeau; print(len(sys.modules), *(m for m in '{tools}'.split() if m in sys.modules))"
    )
    count, *found = said.split()
    assert not found and int(count) <= MOST_MODULES


def test_a_module_waits_until_it_is_used_and_is_then_a_plain_one():
    said = run(
        "import sys, types, flambeau\n"
        "held = flambeau.optim\n"
        "assert isinstance(held, types.ModuleType) and 'optim' in dir(flambeau) and 'flambeau.optim' not in sys.modules\n"
        "from flambeau.optim import SGD\n"
        "import flambeau.optim as again\n"
        "assert held is again is flambeau.optim is sys.modules['flambeau.optim'] and type(held) is types.ModuleType\n"
        "assert held.SGD is SGD and vars(held)['SGD'] is SGD and held.__spec__.name == 'flambeau.optim'\n"
        "print(SGD.__module__, repr(held).startswith(\"<module 'flambeau.optim' from\"))\n"
    )
    assert said.split() == ["flambeau.optim.sgd", "True"]


@pytest.mark.parametrize(
    "use",
    [
        "dir(flambeau.fft)",
        "vars(flambeau.fft)['rfft']",
        "flambeau.fft.__doc__.splitlines()",
        "setattr(flambeau.fft, 'added', 1); flambeau.fft.added, flambeau.fft.rfft",
        "from flambeau.fft import *; rfft",
        "import importlib; importlib.reload(flambeau.fft).rfft",
        "import inspect; inspect.getsource(flambeau.fft)",
        "import pickle; pickle.loads(pickle.dumps(flambeau.fft.rfft))",
    ],
)
def test_every_use_imports_it(use):
    run(f"import sys, flambeau; assert 'flambeau.fft' not in sys.modules; {use}; assert flambeau.fft.irfft")


def test_all_of_them_load_under_both_names():
    run(
        "import sys, flambeau\n"
        f"names = '{WAITING}'.split()\n"
        "held = {name: getattr(flambeau, name) for name in names}\n"
        "torch = flambeau.as_torch()\n"
        "import importlib\n"
        "for name in names:\n"
        "    module = importlib.import_module('torch.' + name)\n"
        "    assert module is held[name] is getattr(torch, name) is sys.modules['flambeau.' + name], name\n"
        "    assert module.__name__ == module.__spec__.name == 'torch.' + name\n"
    )


def test_threads_that_want_one_first_all_get_it_whole():
    said = run(
        "import sys, threading, flambeau\n"
        "sys.setswitchinterval(1e-6)\n"
        "names, found, barrier = ['SGD', 'AdamW', 'swa_utils', 'lr_scheduler', 'Muon', 'LBFGS'], [], threading.Barrier(6)\n"
        "def work(name):\n"
        "    barrier.wait()\n"
        "    found.append(getattr(flambeau.optim, name))\n"
        "threads = [threading.Thread(target=work, args=(name,)) for name in names]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len(found))\n"
    )
    assert said.split() == ["6"]


def test_one_that_fails_is_tried_again(tmp_path):
    package = tmp_path / "lazy_one"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from flambeau.core.base.lazily import waiting\nwaiting(__name__, 'inner')\n"
    )
    (package / "inner.py").write_text("import builtins\nvalue = builtins.missing_until_later\n")
    said = run(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import builtins, lazy_one\n"
        "held = lazy_one.inner\n"
        "try:\n    held.value\n"
        "except AttributeError as error:\n    print('missing_until_later' in str(error), 'lazy_one.inner' in sys.modules)\n"
        "builtins.missing_until_later = 7\n"
        "print(held.value, held is lazy_one.inner is sys.modules['lazy_one.inner'])\n"
    )
    assert said.split() == ["True", "False", "7", "True"]
