"""The order of imports, held: a module uses only modules of its own layer and of layers before it in `LAYERS`, no circle leads
from a module back to itself, and nothing inside imports the package as users do.

Imports inside functions count, Cython's `cimport` too.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from layers import circles, modules, uses

LAYERS = (
    "core.base",
    "core.tape",
    "core.call",
    "core.views",
    "core.loops",
    "core.make",
    "core.places",
    "core.lib",
    "storage _compat.legacy _tensor",
    "codegen",
    "operations.declare",
    "operations",
    "devices",
    "_compat _symbols _wrapper __config__ __future__ _functorch _higher_order_ops _vmap_internals amp autograd "
    "backends fft func functional futures linalg nn optim overrides quasirandom return_types signal "
    "special testing torch_version types utils version",
    "distributed distributed.checkpoint.metadata distributed.checkpoint.stateful distributions masked multiprocessing nested "
    "nn.attention nn.parallel sparse",
    "_C _dynamo _subclasses _tensor_str ao classes compiler fx graph onnx quantization",
    "_utils accelerator autograd.profiler autograd._profiler_nvtx cpu cuda mps mtia opencl random xpu",
    "_files distributed.checkpoint hub serialization utils.model_zoo utils.safetensors utils.serialization.config",
    "_array_api _compat.array_object _custom_ops _ops distributed.pipelining export jit legacy library monitor ops profiler "
    "utils.bottleneck utils.collect_env utils.serialization utils.trainer",
    "_compat._shim _compat.as_torch _compat.pickles codegen.__main__ kernels torch utils.cpp_extension",
)
ORDER = {name: k for k, names in enumerate(LAYERS) for name in names.split()}

# Uses against the order, as (user, used), each with the reason why it stays.
ALLOWED: dict[tuple[str, str], str] = {}
# Circles, by one use that closes each.
CLOSING = {
    ("nn.modules._hooks", "nn.modules.module"): "parts of one class, in files of their own",
}
# Who imports `flambeau` itself.
OUTSIDE = ("kernels._ahead", "_compat._shim")  # run the library as a program does


def short(module: str) -> str:
    return module.removeprefix("flambeau").lstrip(".")


def layer(module: str) -> str:
    """The longest name in `ORDER` that the module lies in."""
    name = short(module)
    found = [r for r in ORDER if name == r or name.startswith(r + ".")]
    assert found, f"{module} stands in no layer: give it a place in LAYERS"
    return max(found, key=len)


@pytest.fixture(scope="module")
def imports():
    """Those of modules inside, which take seconds to read."""
    return [u for u in uses() if u.user != "flambeau"]


@pytest.fixture(scope="module")
def inside(imports):
    """Those of modules inside by each other."""
    return [u for u in imports if u.used != "flambeau"]


def test_every_module_stands_in_a_layer():
    assert {layer(m) for m in modules() if m not in ("flambeau", "flambeau.core", "flambeau.nn")} >= set(
        ORDER
    ) - {"nn"}


def test_no_layer_imports_upward(inside):
    upward = [
        f"{u.line}: {short(u.user)} uses {short(u.used)}"
        for u in inside
        if ORDER[layer(u.used)] > ORDER[layer(u.user)] and (short(u.user), short(u.used)) not in ALLOWED
    ]
    assert not upward, "\n".join(upward)


def test_no_circles_between_modules(inside):
    edges: dict[str, set[str]] = defaultdict(set)
    for u in inside:
        if (short(u.user), short(u.used)) not in {**ALLOWED, **CLOSING}:
            edges[u.user].add(u.used)
    found = circles(edges)
    assert not found, found


def test_nothing_inside_imports_the_package(imports):
    found = [u.line for u in imports if u.used == "flambeau" and not short(u.user).startswith(OUTSIDE)]
    assert not found, found


@pytest.mark.parametrize("pair", [*ALLOWED, *CLOSING])
def test_every_exception_is_still_needed(pair, inside):
    assert pair in {(short(u.user), short(u.used)) for u in inside}


def test_the_check_sees_what_python_and_cython_import(tmp_path):
    """A package with an upward `cimport`, a circle through a function, and a multi-line import."""
    for path, text in {
        "core/__init__.py": "",
        "core/low.pyx": '"""from .nothing import x"""\nfrom .high cimport (\n    a,\n    b,\n)\n',
        "core/high.pyx": "cdef f():\n    from . import low\n",
        "core/high.pxd": "from .low cimport thing as other, more\n",
        "outer.py": "def f():\n    import flambeau.core.low\n    from .core import high\n",
    }.items():
        file = tmp_path / "flambeau" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = {(short(u.user), short(u.used), u.inside) for u in uses(tmp_path)}
    assert found == {
        ("core.low", "core.high", False),
        ("core.high", "core.low", True),
        ("core.high", "core.low", False),
        ("outer", "core.low", True),
        ("outer", "core.high", True),
    }
    edges = defaultdict(set)
    for u in uses(tmp_path):
        edges[short(u.user)].add(short(u.used))
    assert circles(edges) == [["core.high", "core.low"]]
