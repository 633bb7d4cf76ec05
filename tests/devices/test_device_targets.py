"""Kernels of `operations/on_device` on every target: AMDGCN objects, SPIR-V, and PTX that the assembler takes, where there is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.codegen import schedule_gpu as gpu
from flambeau.codegen import target as tg
from flambeau.operations.declare.pointwise import CODE_NAMES
from flambeau.operations.on_device import (
    draws,
    elementwise,
    matrices,
    ordering,
    rotations,
    special,
    transforms,
)

sys.path.insert(0, str(Path(__file__).parent.parent / "codegen"))
from ptx import ptxas  # noqa: E402

CODES = {name: code for code, name in CODE_NAMES.items()}
SEED = {"key": 3, "first": 1 << 40}
TABLES = ("float64 1", "int64 1")
# Kernel, operands (dtype and rank, results first), parameters, how many results, how many axes.
KERNELS = {
    "key": (ordering._short_key, ("int32 2", "float16 2"), {"down": True}, 1, 2),
    "merging": (ordering._merged, ("int32 2", "int64 2", "int32 2", "int64 2"), {"level": 3}, 2, 2),
    "search": (ordering._place, ("int64 1", "float32 1", "float32 1"), {"behind": True, "one": True}, 1, 1),
    "runs": (ordering._sum_of_run, ("float64 1", "float64 1", "int64 1", "int64 1"), {}, 1, 1),
    "gcd": (elementwise.gcd, ("int64 1",) * 3, {}, 1, 1),
    "nextafter": (elementwise.nextafter, ("bfloat16 1",) * 3, {}, 1, 1),
    "frexp": (elementwise.frexp, ("float64 1", "int32 1", "float64 1"), {}, 2, 1),
    **{
        f"special {n}": (k, ("float32 1",) * (len(k.operands) + 1), {}, 1, 1)
        for n, k in special.KERNELS.items()
    },
    "pass": (transforms._pass, ("complex64 2", "complex64 2", "complex64 1"), {"radix": 3, "done": 4}, 1, 2),
    "wide pass": (
        transforms._pass,
        ("complex128 2", "complex128 2", "complex128 1"),
        {"radix": 3, "done": 4},
        1,
        2,
    ),
    "triangle": (matrices._solved, ("complex64 2",) * 3, {"step": 1, "upper": True, "unit": False}, 1, 2),
    "cholesky": (matrices._cholesky_step, ("float64 3",) * 2, {"step": 1}, 1, 3),
    "lu": (matrices._lu_step, ("complex128 3", "complex128 3", "int64 1"), {"step": 1}, 1, 3),
    "exchanges": (matrices._row_order, ("int64 2", "int32 2"), {}, 1, 2),
    "reflection": (matrices._reflected, ("float32 3", "float32 3", "float32 2"), {"step": 1}, 1, 3),
    "rotation": (rotations._both_sides, ("complex64 2",) * 4, {"turn": 2}, 2, 2),
    "angles": (
        rotations._angles,
        (*("float32 1",) * 4, "float32 2", "float32 0"),
        {"turn": 2, "rows": 5},
        4,
        1,
    ),
    **{
        f"drawn {k.name}": (k, ("float32 1",) * (len(k.operands) - 1) + TABLES, SEED, 1, 1)
        for k in (draws._gammas, draws._poissons, draws._binomials, draws._negative_binomials, draws._angles)
    },
    "gamma gradient": (draws._gamma_gradients, (*("float64 1",) * 3, "float64 2"), {}, 1, 1),
    "beta gradient": (draws._beta_gradients, (*("float64 1",) * 4, "float64 2"), {}, 1, 1),
}


def modules(target: str):
    for name, (declared, operands, params, outputs, axes) in KERNELS.items():
        signature = []
        for operand in operands:
            dtype, rank = operand.split()
            signature.append(CODES[dtype] | (rank != "0") << 5 | int(rank) << 6)
        for short in (True, False):
            if short and params is SEED:  # 64 bits of a stream
                continue
            kernel = declared.kernel(tuple(signature), short, params, outputs, axes, 0, False)
            yield f"{name}, {'32' if short else '64'} bits", str(gpu.module_for(kernel, target))


def test_objects_for_amdgcn_and_spirv():
    for name, text in modules("amdgcn"):
        assert tg.image(text, "amdgcn")[:4] == b"\x7fELF", name
    for name, text in modules("spirv"):
        assert tg.image(text, "spirv")[:4] == b"\x03\x02\x23\x07", name


def test_ptx_is_accepted(tmp_path):
    written = []
    for number, (name, text) in enumerate(modules("nvptx")):
        code = tg.image(text, "nvptx")
        assert ".entry kernel(" in code, name
        written.append(tmp_path / f"{number}.ptx")
        written[-1].write_text(code.replace("kernel", f"kernel{number}"))
    assembler = ptxas()
    if assembler is None:
        pytest.skip("PTX is emitted, but there is no ptxas here to check it")
    command = [assembler, "-arch=sm_90", "-c", "-o", str(tmp_path / "all.cubin"), *map(str, written)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
