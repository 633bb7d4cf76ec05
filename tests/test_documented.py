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
        "_symbolic",
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


# Namespaces whose every callable has it; those of more aspects may be added, none is taken away.
WHOLE = {
    "example": """
        accelerator fft func linalg masked nn.functional nn.init nn.utils optim optim.lr_scheduler signal.windows sparse special
        utils.data
    """,
    "shapes": "fft linalg masked nn.functional signal.windows special",
    "errors": "fft linalg nn.functional nn.init optim.lr_scheduler signal.windows special",
}


@functools.cache
def lacking() -> list[tuple[docstrings.Callable, set[str]]]:
    return [(one, docstrings.missing(one)) for one in docstrings.callables()]


def test_operations_have_examples():
    bare = {f"{one.home}.{one.name}".lstrip(".") for one, gaps in lacking() if one.kind and "example" in gaps}
    assert not bare


@pytest.mark.parametrize("aspect", WHOLE)
def test_namespaces_are_wholly_described(aspect):
    homes = WHOLE[aspect].split()
    bare = [f"{one.home}.{one.name}" for one, gaps in lacking() if one.home in homes and aspect in gaps]
    assert not bare, f"no {aspect} in the docstrings of {bare}"
    assert set(homes) <= {one.home for one, _ in lacking()}


def test_every_operation_is_defined():
    assert not [one.name for one, gaps in lacking() if one.kind and "definition" in gaps]
