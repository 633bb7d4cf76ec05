"""`import torch` that means this library: one object under two names, whichever door a program comes in by."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import flambeau
from flambeau._compat import as_torch as _as_torch

SHIM = Path(_as_torch.SHIM)
ROOT = Path(__file__).resolve().parents[2]
LIBRARY = str(Path(flambeau.__file__).resolve().parent.parent)


def run(
    *arguments: str, path: list[str] | None = None, check: bool = True, **more
) -> subprocess.CompletedProcess:
    """Python on `arguments` where `torch` is found first in `path`, by default the shim: also beside an installed PyTorch."""
    found = os.pathsep.join([*([str(SHIM)] if path is None else path), LIBRARY])
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment = {**inherited, "PYTHONPATH": found}
    more.setdefault("cwd", os.sep)  # Python puts it on the path, and the sources may lie in ours
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, **more
    )
    assert not check or done.returncode == 0, done.stderr
    return done


EVERY_MODULE = """
import importlib, pkgutil, sys
import torch, flambeau
assert torch is flambeau
wrong = []
for found in pkgutil.walk_packages(flambeau.__path__, "flambeau."):
    name = found.name
    if name.rpartition(".")[2] in ("__main__", "torch") or "._shim" in name:
        continue
    package, _, child = name.rpartition(".")
    second = "torch" + name[len("flambeau"):]
    order = (second, name) if len(wrong) == 0 and hash(name) % 2 else (name, second)
    try:
        pair = [importlib.import_module(n) for n in order]
    except ImportError as error:
        if "optional" not in str(error) and "pip install" not in str(error):
            raise
        continue
    before = getattr(sys.modules[package], child)
    if pair[0] is not pair[1]:
        wrong.append((name, "two objects"))
    if pair[0].__name__ != second or pair[0].__spec__.name != second:
        wrong.append((name, "shown", pair[0].__name__, pair[0].__spec__.name))
    if not isinstance(before, type(sys)) and getattr(sys.modules[package], child) is not before:
        wrong.append((name, "hides the function of its name"))
    for key, value in vars(pair[0]).items():
        if isinstance(value, type) and str(value.__module__).partition(".")[0] == "flambeau":
            wrong.append((name, key, value.__module__))
print(wrong)
"""


def test_every_module_is_one_object_under_two_names():
    assert run("-c", EVERY_MODULE).stdout == "[]\n"


PROGRAM = """
import importlib.metadata, pickle, sys
import torch
import torch.nn.functional as F
from torch import nn
print(torch.__name__, torch.nn.__name__, nn.Linear.__module__, torch.dtype, torch.device, torch.Tensor, torch.Size, nn)
print(torch.float32, torch.ones(1).type(), torch.Size([2]), torch.strided, torch.contiguous_format, F.softmax.__module__)
print(importlib.metadata.version("torch"), torch.__version__ >= "2.4", torch.__version__ >= (2, 13), torch.__version__.split("+")[0])
x = torch.ones(2)
for wrong in (lambda: x.to("nowhere"), lambda: torch.zeros(2, dtype="x"), lambda: torch.fft.fft(x.bfloat16())):
    try:
        wrong()
    except Exception as error:
        assert "flambeau" not in str(error), error
    else:
        raise AssertionError("accepted")
assert pickle.loads(pickle.dumps(nn.Linear)) is nn.Linear and b"flambeau" not in pickle.dumps([torch.float32, torch.ones(2), nn.ReLU()])
print(sys.argv[1:], __name__)
"""
SAID = f"""torch torch.nn torch.nn.modules.linear <class 'torch.dtype'> <class 'torch.device'> <class 'torch.Tensor'> \
<class 'torch.Size'> <module 'torch.nn' from {flambeau.nn.__file__!r}>
torch.float32 torch.FloatTensor torch.Size([2]) torch.strided torch.contiguous_format torch.nn.functional
2.13.0 True True 2.13.0
['a', '-b'] __main__
"""


@pytest.mark.parametrize("door", ["import torch", "-m flambeau.torch", "-m flambeau.torch -c", "as_torch()"])
def test_a_program_sees_torch(door, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(("import flambeau; flambeau.as_torch()\n" if door == "as_torch()" else "") + PROGRAM)
    if door == "-m flambeau.torch -c":
        done = run("-m", "flambeau.torch", "-c", PROGRAM, "a", "-b")
    else:
        done = run(*(["-m", "flambeau.torch"] if door.startswith("-m") else []), str(script), "a", "-b")
    assert done.stdout == SAID


def test_paths_are_left_alone_where_python_leaves_them(tmp_path):
    """`-P` keeps the script's folder off the path: the first entry is then another's."""
    (tmp_path / "program.py").write_text(
        "import sys, importlib.metadata as m; print(m.version('torch'), sys.path[0])"
    )
    done = run("-P", "-m", "flambeau.torch", str(tmp_path / "program.py"))
    assert done.stdout.split() == [_as_torch.VERSION, str(SHIM)]


def test_a_module_is_run_as_a_program(tmp_path):
    (tmp_path / "mine.py").write_text("import torch, sys; print(torch.float16, sys.argv[1:], __name__)")
    done = run("-m", "flambeau.torch", "-m", "mine", "x", cwd=tmp_path)
    assert done.stdout == "torch.float16 ['x'] __main__\n"
    for asked, status in ((["-h"], 0), ([], 2), (["-m"], 2)):
        done = run("-m", "flambeau.torch", *asked, check=False)
        assert (done.returncode, "runs a program" in done.stdout) == (status, True)


SPAWNING = """
import os, subprocess, sys
import torch
import torch.multiprocessing as mp
def tell(queue):
    import torch
    queue.put((str(torch.float32), torch.ones(3)))
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        context = mp.get_context(how)
        queue = context.Queue()
        process = context.Process(target=tell, args=(queue,))
        process.start()
        name, tensor = queue.get(timeout=60)
        process.join()
        print(name, tensor.sum().item())
    text = "import torch; print(torch.__name__, torch.ones(1).dtype)"
    print(subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.strip())
"""


def test_processes_started_from_a_program_see_torch(tmp_path):
    (tmp_path / "program.py").write_text(SPAWNING)
    done = run("-m", "flambeau.torch", str(tmp_path / "program.py"))
    assert done.stdout == "torch.float32 3.0\ntorch.float32 3.0\ntorch torch.float32\n"


@pytest.mark.parametrize("state", ["installed", "imported already"])
def test_beside_pytorch_it_refuses(state, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("tensor = 'another library'")
    first = "import torch; " if state == "imported already" else ""
    done = run("-c", first + "import flambeau; flambeau.as_torch()", path=[str(tmp_path)], check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert (
        last.startswith("ImportError: flambeau.as_torch(): PyTorch itself is " + state)
        and str(tmp_path) in last
    )
    # and nothing was renamed on the way to the refusal
    kept = """
import flambeau
try:
    flambeau.as_torch()
except ImportError:
    print(flambeau.__name__, flambeau.float32, flambeau.Tensor)
"""
    assert (
        run("-c", kept, path=[str(tmp_path)]).stdout
        == "flambeau flambeau.float32 <class 'flambeau.Tensor'>\n"
    )


def test_a_second_call_changes_nothing():
    twice = """
import flambeau, sys
a, before = flambeau.as_torch(), list(sys.meta_path)
b, after = flambeau.as_torch(), list(sys.meta_path)
import torch
print(a is b is torch, before == after)
"""
    assert run("-c", twice).stdout == "True True\n"


def test_what_a_module_lacks_is_said_in_torchs_name():
    done = run("-c", "import torch.nowhere", check=False)  # no room of PyTorch's
    assert done.stderr.strip().splitlines()[-1] == "ModuleNotFoundError: No module named 'torch.nowhere'"
    done = run("-c", "import torch.fx.passes.backends", check=False)
    assert done.stderr.strip().splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'torch.fx.passes.backends': "
        "a pass for compilers of PyTorch's own (docs/coverage.md lists what is here)"
    )
    asked = "import importlib.util as i, torch; print(i.find_spec('torch.fx.tensor_type'), hasattr(torch.fx, 'tensor_type'))"
    assert run("-c", asked).stdout == "None False\n"


@pytest.mark.parametrize("name", ["nn/modules/linear.py", "utils/tensorboard/__init__.py"])
def test_sources_are_found(name):
    """Debuggers, `inspect` and tracebacks ask a module's loader for its source, by name."""
    module = "torch." + name.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    text = f"import torch, importlib, inspect; m = importlib.import_module({module!r}); "
    text += "print(len(m.__loader__.get_source(m.__name__)) == len(inspect.getsource(m)) > 100)"
    assert run("-c", text).stdout == "True\n"


def test_the_installed_drop_in_is_the_shim():
    dropin = ROOT / "dropin"
    for package in ("torch", "functorch"):
        file = f"{package}/__init__.py"
        assert (dropin / "src" / file).read_bytes() == (SHIM / file).read_bytes()
    assert tomllib.loads((dropin / "pyproject.toml").read_text())["project"]["version"] == _as_torch.VERSION
    assert (SHIM / f"torch-{_as_torch.VERSION}.dist-info/METADATA").exists()


def test_lua_torch_is_imported_by_programs_that_name_it():
    run(
        "-c",
        """if True:
        import sys, torch
        loaded = [n for n in sys.modules if n.startswith(("torch.legacy", "flambeau.legacy"))]
        assert not loaded, loaded
        import torch.legacy.nn
        assert torch.legacy.nn is sys.modules["flambeau.legacy.nn"] and torch.legacy.nn.Linear.__module__[:6] == "torch."
        """,
    )
