"""The order of the rooms, held: a module uses only modules of its own room and of rooms above it in `ORDER`, no circle leads
from a module back to itself, and nothing inside imports the package as users do.

Imports inside functions count, Cython's `cimport` too.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from rooms import circles, modules, uses

ORDER = """
    _interpreter _tags
    core.base core.tape core.call core.views core.loops core.make core.places core.lib
    _lazily
    _typeinfo storage _legacy _tensor
    codegen
    operations.declare operations.pointwise operations.moving operations.rows operations.random operations.linalg
    operations.signal operations.neural operations
    devices
    _operators _queries _switches version torch_version _foreach _symbolic
    _absent_names _absent_reasons _absent futures _typed types _composed
    amp _operators _queries _switches version _foreach __future__ overrides
    autograd utils func
    nn.parameter nn.functional nn.init nn.utils.rnn nn.modules nn.utils nn.common_types nn.grad nn.parallel nn optim
    compiler _dynamo _functorch _vmap_internals _subclasses ao classes distributed._stores distributed export fx jit onnx
    graph
    multiprocessing
    sparse
    nn.attention
    _html _printing _tensor_str _checks _C _higher_order_ops
    cpu cuda opencl functional fft linalg masked signal special return_types testing mps mtia xpu nested
    _files utils.safetensors hub utils.model_zoo serialization
    accelerator _utils random quasirandom backends __config__
    autograd._profiler_table autograd.profiler_util autograd._profiler_events autograd._profiler_nvtx
    autograd.profiler profiler
    _array_api _array_object
    legacy utils.serialization._t7 utils.serialization.read_lua_file utils.serialization.write_lua_file
    utils.module_tracker utils.flop_counter utils.benchmark monitor
    utils.collect_env utils.bottleneck
    library ops _ops _custom_ops
    distributions utils.tensorboard utils.trainer
    kernels utils.cpp_extension
    codegen.ahead
    _pickles _as_torch torch _shim
""".split()

# Uses against the order, as (user, used), each with the reason why it stays.
ALLOWED = {
    ("codegen.__main__", "codegen.ahead"): "`python -m flambeau.codegen` is that function",
}
# Circles, by one use that closes each.
CLOSING = {
    (
        "codegen.schedule_cpu",
        "codegen.schedule_cpu_indexed",
    ): "the schedule chooses; both share one signature",
    (
        "codegen.schedule_gpu",
        "codegen.schedule_gpu_indexed",
    ): "the schedule chooses; both share threads and blocks",
    ("nn.modules._hooks", "nn.modules.module"): "parts of one class, in files of their own",
}
# Who imports `flambeau` itself.
OUTSIDE = ("codegen.ahead", "_shim")  # run the library as a program does


def short(module: str) -> str:
    return module.removeprefix("flambeau").lstrip(".")


def room(module: str) -> str:
    """The longest name in `ORDER` that the module lies in."""
    name = short(module)
    found = [r for r in ORDER if name == r or name.startswith(r + ".")]
    assert found, f"{module} stands in no room: give it a place in ORDER"
    return max(found, key=len)


@pytest.fixture(scope="module")
def imports():
    """Those of modules inside, which take seconds to read."""
    return [u for u in uses() if u.user != "flambeau"]


@pytest.fixture(scope="module")
def inside(imports):
    """Those of modules inside by each other."""
    return [u for u in imports if u.used != "flambeau"]


def test_every_module_stands_in_a_room():
    assert {room(m) for m in modules() if m not in ("flambeau", "flambeau.core", "flambeau.nn")} >= set(
        ORDER
    ) - {"nn"}


def test_no_room_looks_upward(inside):
    upward = [
        f"{u.line}: {short(u.user)} uses {short(u.used)}"
        for u in inside
        if ORDER.index(room(u.used)) > ORDER.index(room(u.user))
        and (short(u.user), short(u.used)) not in ALLOWED
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
    found = [u.line for u in imports if u.used == "flambeau" and room(u.user) not in OUTSIDE]
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
