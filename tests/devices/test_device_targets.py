"""Kernels of `operations/on_device` on every target: AMDGCN objects, SPIR-V, and PTX that the assembler takes, where there is one."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.codegen import expr, kernels
from flambeau.codegen import schedule_gpu as gpu
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_attention import Attention, shape_for
from flambeau.codegen.schedule_gpu_attention_backward import AttentionBackward
from flambeau.codegen.schedule_gpu_attention_backward import shape_for as backward_shape
from flambeau.codegen.schedule_gpu_products import Product
from flambeau.devices import images
from flambeau.operations.declare.pointwise import CODE_NAMES
from flambeau.operations.neural.attention.programs import symbol
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

sys.path.insert(0, str(Path(__file__).parent))
import grids  # noqa: E402

CODES = {name: code for code, name in CODE_NAMES.items()}
SEED = {"key": 3, "first": 1 << 40}
TABLES = ("float64 1", "int64 1", "int64 1")
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
        f"drawn {k.name}": (k, ("float32 1",) * (len(k.operands) + 1 - len(TABLES)) + TABLES, SEED, 1, 1)
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


def written(folder: Path, target: str, processor: str, texts) -> list[Path]:
    """PTX of kernels in files of a folder, each under a name of its own."""
    files = []
    for number, (name, text) in enumerate(texts):
        code = tg.image(text, target, processor)
        assert ".entry kernel(" in code and f".target {processor}\n" in code, name
        files.append(folder / f"{number}.ptx")
        files[-1].write_text(code.replace("kernel", f"kernel{number}"))
    return files


def assembled(folder: Path, processor: str, files: list[Path]) -> None:
    """The assembler takes the files, where there is one."""
    assembler = ptxas()
    if assembler is None:
        pytest.skip("PTX is emitted, but there is no ptxas here to check it")
    told = subprocess.run([assembler, "--help"], capture_output=True, text=True, check=True).stdout
    # CUDA 13's assembler has left sm_70 behind; PTX that is made for it is good for every later processor
    known = [p for p in tg.PROCESSORS["nvptx"] if f"'{p}'" in told]
    if processor not in known and not processor.endswith("a"):
        processor = next(
            p for p in known if tg.PROCESSORS["nvptx"].index(p) > tg.PROCESSORS["nvptx"].index(processor)
        )
    command = [assembler, f"-arch={processor}", "-c", "-o", str(folder / "all.cubin"), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ptx_is_accepted(tmp_path):
    assembled(tmp_path, "sm_90a", written(tmp_path, "nvptx", "sm_90a", modules("nvptx")))


def families(target: str):
    """One kernel of each family: pointwise, rows, scans, products, convolutions, indexed ones, and what says itself how it is launched."""
    x, y = expr.input(0, "bfloat16"), expr.input(1, "float16")
    wide = expr.cast(x, "float32") * expr.cast(y, "float32")
    operands = (kernels.Operand("bfloat16", "c"), kernels.Operand("float16", "c"))
    yield "pointwise", kernels.Pointwise("p", (expr.call("exp", wide),), ("c",), operands, ())
    yield "row", kernels.Row("r", (kernels.sum(wide), kernels.max(wide)), ("b", "b"), operands, (), "r")
    yield "scan", kernels.Row("s", (kernels.running_sum(wide),), ("c",), operands, (), "r")
    for dtype in ("float32", "bfloat16", "int8"):
        yield f"product {dtype}", Product(dtype, False, True, True)
    yield "convolution", Product("float32", False, False, True, addend="row", taps=2)
    yield "gradient of a weight", Product("bfloat16", False, True, False, taps=3, summed=True)
    seen = symbol("k", "int64") <= symbol("q", "int64")
    yield "attention", Attention("float32", shape_for("float32", 64, 64), None, seen)
    for side in ("queries", "keys"):
        yield (
            f"attention's {side}",
            AttentionBackward("float32", side, backward_shape("float32", side, 64, 64)),
        )
    yield (
        "indexed",
        ordering._place.kernel(indexed_signature(), True, {"behind": True, "one": True}, 1, 1, 0, False),
    )
    yield "grid", grids.Turned()


def indexed_signature() -> tuple[int, ...]:
    return tuple(CODES[dtype] | 1 << 5 | 1 << 6 for dtype in ("int64", "float32", "float32"))


PROCESSORS = [(target, processor) for target, names in tg.PROCESSORS.items() for processor in names]


@pytest.mark.parametrize(("target", "processor"), PROCESSORS)
def test_each_family_for_each_processor(tmp_path, target, processor):
    made = []
    for name, kernel in families(target):
        form = gpu.Form(width=gpu.BLOCK) if name in ("row", "scan") else gpu.PLAIN
        made.append((name, str(gpu.module_for(kernel, target, form))))
    if target == "nvptx":
        assembled(tmp_path, processor, written(tmp_path, target, processor, made))
        return
    for name, text in made:
        image = tg.image(text, target, processor)
        if target == "spirv":
            assert image[:4] == b"\x03\x02\x23\x07", name
        else:  # an ELF object says in its flags which processor it is for: EF_AMDGPU_MACH
            (flags,) = struct.unpack_from("<I", image, 48)
            assert image[:4] == b"\x7fELF" and flags & 0xFF == MACHINES[processor], name


MACHINES = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}  # LLVM's AMDGPU usage guide, "ELF Header"


def test_a_card_takes_the_newest_code_that_it_runs():
    own = {
        (7, 0): "sm_70",
        (7, 2): "sm_70",
        (7, 5): "sm_75",
        (8, 0): "sm_80",
        (8, 6): "sm_86",
        (8, 9): "sm_89",
        (9, 0): "sm_90a",
    }
    for capability, processor in own.items():
        assert tg.nearest(capability) == processor
    assert tg.nearest((10, 3)) == tg.nearest((12, 1)) == "sm_100"
    assert tg.nearest((9, 1)) == "sm_89"  # code of sm_90a runs on 9.0 alone
    assert tg.nearest((6, 1)) is None
    with pytest.raises(ValueError, match="nvptx: processor is 'sm_60'; one of 'sm_70', "):
        tg.machine("nvptx", "sm_60")


def test_images_are_kept_apart_by_processor(monkeypatch, tmp_path):
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    x = expr.input(0, "float32")
    kernel = kernels.Pointwise("kept", (x * x * x,), ("c",), (kernels.Operand("float32", "c"),), ())
    form = tuple(gpu.PLAIN)
    digests = {
        images.find(kernel, form, "nvptx", processor, "card")[1] for processor in tg.PROCESSORS["nvptx"]
    }
    assert len(digests) == len(tg.PROCESSORS["nvptx"])
