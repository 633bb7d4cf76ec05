"""Every public class and function of the libraries around training has a docstring with an example, which `test_doctests.py` runs.

`tools/docstrings.py` counts what docstrings of all public callables have; what is reached is held here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

import pytest

import flambeau

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import docstrings  # noqa: E402

# Modules whose every name is shown; those of older rooms are shown by their families.
SHOWN = (
    *(
        "_higher_order_ops",
        "_symbols.numbers",
        "accelerator",
        "backends",
        "compiler",
        "cuda.nccl",
        "cuda.nvtx",
        "cuda.profiler",
        "cuda.random",
        "futures",
        "distributions",
        "hub",
        "library",
        "ops",
        "legacy",
        "mps",
        "mtia",
        "masked",
        "kernels",
        "multiprocessing",
        "nested",
        "nn.attention",
        "nn.grad",
        "nn.parallel",
        "nn.utils",
        "quasirandom",
        "random",
    ),
    *(
        "serialization",
        "sparse",
        "storage",
        "testing",
        "utils.collect_env",
        "utils.cpp_extension",
        "utils.safetensors",
        "utils.serialization",
        "utils.tensorboard",
        "utils.trainer",
    ),
    *("optim.swa_utils", "nn.modules.lazy", "utils.data.distributed", "xpu"),
    *("amp", "cpu.amp", "cuda.amp"),
    *("optim.swa_utils", "nn.modules.lazy", "utils.data.distributed"),
    *(
        "autograd.profiler",
        "autograd.profiler_util",
        "monitor",
        "profiler",
        "utils.benchmark",
        "utils.flop_counter",
        "utils.module_tracker",
    ),
)


def modules():
    for found in pkgutil.walk_packages(flambeau.__path__, "flambeau."):
        name = found.name.removeprefix("flambeau.")
        inside = any(name == shown or name.startswith(shown + ".") for shown in SHOWN)
        if inside and not any(part.startswith("_") for part in name.split(".")):
            yield found.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_public_names_have_examples(name):
    module = importlib.import_module(name)
    public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    bare = []
    for what in public:
        value = getattr(module, what)
        own = (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == name
        if own and ">>>" not in (value.__doc__ or ""):
            bare.append(what)
    assert not bare, f"{name}: no example in the docstrings of {bare}"


# Aspects that every public callable has; errors are stated everywhere but in the modules of Lua Torch.
WHOLE = ("definition", "formula", "shapes", "example")


@functools.cache
def lacking() -> list[tuple[docstrings.Callable, set[str]]]:
    return [(one, docstrings.missing(one)) for one in docstrings.callables()]


@pytest.mark.parametrize("aspect", WHOLE)
def test_callables_are_wholly_described(aspect):
    bare = [f"{one.home}.{one.name}" for one, gaps in lacking() if aspect in gaps]
    assert not bare, f"no {aspect} in the docstrings of {bare}"
    assert len(lacking()) > 2000


def test_callables_state_their_errors():
    bare = [f"{one.home}.{one.name}" for one, gaps in lacking() if "errors" in gaps]
    assert not [name for name in bare if not name.startswith("legacy.")]
    assert len(bare) < len(lacking()) / 10
