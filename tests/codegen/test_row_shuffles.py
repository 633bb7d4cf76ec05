"""Row kernels for NVIDIA's processors, interpreted thread by thread, and for others what they become."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flambeau.codegen import expr as ex
from flambeau.codegen import kernels as kn
from flambeau.codegen import schedule_gpu as gpu
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_rows import most_held

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tools")]
import ptx_rows  # noqa: E402
from ptx import ptxas  # noqa: E402
from ptx_machine import Machine  # noqa: E402


def norm(x, weight, eps=1e-5):
    centred = x - kn.mean(x)
    return (centred / ex.sqrt(kn.mean(centred * centred) + eps) * weight,)


def norm_reference(x, weight):
    x = x.astype("d")
    return ((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight,)


def best_reference(x):
    return np.max(x, 1), np.argmax(x, 1)


def scanned(x):
    value, place = kn.running_max_index(x)
    return kn.running_sum(ex.cast(x, "float64")), value, place


def scanned_reference(x):
    best = np.maximum.accumulate(x, 1)
    where = np.maximum.accumulate(np.where(x == best, np.arange(x.shape[1]), 0), 1)
    return x.astype("d").cumsum(1), best, where


# Expressions, dtypes of inputs, reference, and which results vary along the row.
CASES = {
    "sum": (lambda x: (kn.sum(x),), ("float32",), lambda x: (x.sum(1, dtype="d"),), (False,)),
    "wide sum": (lambda x: (kn.sum(x),), ("float64",), lambda x: (x.sum(1),), (False,)),
    "best": (lambda x: kn.max_index(x), ("float32",), best_reference, (False, False)),
    "bytes": (
        lambda x: (kn.max(x), kn.sum(x)),
        ("int8",),
        lambda x: (x.max(1), x.sum(1, dtype="i1")),
        (False, False),
    ),
    "logic": (lambda x: (kn.any(x), kn.all(x)), ("bool",), lambda x: (x.any(1), x.all(1)), (False, False)),
    "norm": (norm, ("float32", "float32"), norm_reference, (True,)),
    "scan": (scanned, ("float32",), scanned_reference, (True, True, True)),
}


def kernel_of(name: str) -> kn.Row:
    body, dtypes, _, varies = CASES[name]
    outputs = tuple(body(*(ex.input(k, d) for k, d in enumerate(dtypes))))
    access = tuple(kn.CONTIGUOUS if v else kn.BROADCAST for v in varies)
    operands = tuple(kn.Operand(d, kn.CONTIGUOUS) for d in dtypes)
    return kn.Row("k", outputs, access, operands, (), "r")


def run(name: str, form: gpu.Form, shape: tuple[int, int], blocks: int, seed: int = 0) -> tuple:
    """Results, what NumPy says, and the machine; instructions are counted over all warps of all blocks."""
    _, dtypes, reference, varies = CASES[name]
    kernel = kernel_of(name)
    random = np.random.default_rng(seed)
    inputs = [
        (9 * random.standard_normal(shape) if d == "int8" else random.standard_normal(shape)).astype(d)
        for d in dtypes
    ]
    if name == "logic":
        inputs = [random.random(shape) < np.linspace(0, 1, shape[0])[:, None]]
    if name == "norm":  # one weight for all rows
        inputs[1] = inputs[1][0]
    if name in ("best", "scan"):
        inputs[0] = np.round(4 * inputs[0])  # with equals
    text = tg.image(str(gpu.module_for(kernel, "nvptx", form)), "nvptx", "sm_80")
    machine = Machine(text, seed)
    sizes = [shape if v else shape[:1] for v in varies]
    outputs = [np.zeros(s, e.dtype) for s, e in zip(sizes, kernel.outputs)]
    given: dict[str, int] = {"size0": shape[0], "size1": shape[1], "total": shape[1], "first": 0, "step0": 0}
    for k, array in enumerate((*outputs, *inputs)):
        given |= {f"data{k}": machine.place(array), f"offset{k}": 0}
        along = array.ndim == 2 or array.shape[0] != shape[0]
        given |= {
            f"stride{k}_0": shape[1] if array.ndim == 2 else 0 if along else 1,
            f"stride{k}_1": int(along),
        }
    machine.run(blocks, gpu.BLOCK, 0, *(given[n] for n, _ in gpu.parameters(kernel, form)))
    return outputs, reference(*inputs), machine


FORMS = [
    ("sum", gpu.Form(width=256), (2, 600)),
    ("sum", gpu.Form(width=8, wide=False), (37, 9)),
    ("wide sum", gpu.Form(width=64), (5, 70)),
    ("best", gpu.Form(width=32), (9, 33)),
    ("best", gpu.Form(width=256), (2, 513)),
    ("bytes", gpu.Form(width=32, wide=False), (9, 67)),
    ("logic", gpu.Form(width=64), (5, 5)),
    ("norm", gpu.Form(width=64, held=4, wide=False), (5, 251)),
    ("norm", gpu.Form(width=8, held=4), (35, 31)),
    ("norm", gpu.Form(width=128, held=1), (3, 1)),
    ("norm", gpu.Form(width=32), (9, 67)),
    ("scan", gpu.Form(width=256, held=2), (1, 600)),
    ("scan", gpu.Form(width=256, held=1), (1, 31)),
]


@pytest.mark.parametrize(("name", "form", "shape"), FORMS)
def test_shuffles_give_what_numpy_gives(name, form, shape):
    """In whatever order warps and blocks run, with NaN in all shared memory before."""
    found, wanted, machine = run(name, form, shape, blocks=2)
    assert (form.width == 1) == (not any(key.startswith("shfl.") for key in machine.counts))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-5)
    again, _, _ = run(name, form, shape, blocks=3)
    for a, b in zip(found, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fault_is_seen():
    """Without a barrier, or with another partner, results are wrong."""
    kernel, form = kernel_of("sum"), gpu.Form(width=256)
    text = tg.image(str(gpu.module_for(kernel, "nvptx", form)), "nvptx", "sm_80")
    for pattern, instead in (
        (r"bar\.sync \s*0;", ""),
        (r"(shfl\.sync\.bfly\.b32\s+%r\d+, %r\d+), 16,", r"\1, 8,"),
    ):
        broken = re.sub(pattern, instead, text)
        assert broken != text
        wrong = False
        for seed in range(4):
            x = np.random.default_rng(seed).standard_normal((3, 600)).astype("f4")
            out = np.zeros(3, "f4")
            machine = Machine(broken, seed)
            places = machine.place(out), machine.place(x)
            machine.run(1, gpu.BLOCK, 0, places[0], 0, places[1], 0, 3, 600, 600, 0, 0, 1, 0, 600, 1)
            wrong = wrong or not np.allclose(out, x.sum(1, dtype="d"), rtol=1e-5, atol=1e-4)
        assert wrong, pattern


def test_a_row_that_is_held_is_read_once():
    """Bytes by count: a norm reads each element of its input once where threads hold it, and once a pass where they do not."""
    counts = []
    for held in (0, 4):
        form = gpu.Form(width=64, held=held)
        _, _, machine = run("norm", form, (8, 256), blocks=2)
        loads = sum(n for key, n in machine.counts.items() if key.startswith("ld.global"))
        counts.append(loads * 32 / (8 * 256))  # of a warp each
    assert counts[1] == 2.0  # the element, and its weight
    assert counts[0] >= 4.0  # for the mean, for the variance, and for the result, with its weight


def test_the_table_of_rows():
    """Softmax moves as few bytes as it can, and spills nothing."""
    if ptxas() is None:
        pytest.skip("there is no ptxas")
    (line,) = ptx_rows.lines("softmax 128 sm_80")
    assert re.fullmatch(
        r"\| softmax \| 4096 × 128 \| sm_80 \| 32 \| 4 \| \d+ \| 0 \| 0 \| \d+ % \| 4.00 \| 4.00 \|", line
    )


@pytest.mark.parametrize("processor", tg.PROCESSORS["nvptx"])
def test_no_registers_are_spilled(tmp_path, processor):
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas")
    told = subprocess.run([assembler, "--help"], capture_output=True, text=True, check=True).stdout
    if f"'{processor}'" not in told:
        pytest.skip(f"the assembler has left {processor} behind")
    files = []
    for name in CASES:
        kernel = kernel_of(name)
        held = most_held(kernel, "nvptx")
        form = gpu.Form(width=gpu.BLOCK, held=held, wide=False)
        text = tg.image(str(gpu.module_for(kernel, "nvptx", form)), "nvptx", processor)
        files.append(tmp_path / f"{name}.ptx")
        files[-1].write_text(
            text.replace("kernel", f"kernel{len(files)}").replace("shared_", f"s{len(files)}_")
        )
    command = [
        assembler,
        "-v",
        f"-arch={processor}",
        "-c",
        "-o",
        str(tmp_path / "all.cubin"),
        *map(str, files),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    spills = re.findall(r"(\d+) bytes spill", done.stderr)
    assert len(spills) == 2 * len(files) and not any(map(int, spills))


@pytest.mark.parametrize("processor", tg.PROCESSORS["amdgcn"])
def test_waves_swizzle(processor):
    """AMD's processors exchange registers, too, `ds_swizzle_b32` once for each word and step, and no vector register goes to memory."""
    for name, steps in (("sum", 5), ("wide sum", 10), ("norm", 10)):
        kernel = kernel_of(name)
        form = gpu.Form(width=gpu.BLOCK, held=most_held(kernel, "amdgcn"), wide=False)
        machine = tg.machine("amdgcn", processor)
        module = tg.optimised(str(gpu.module_for(kernel, "amdgcn", form)), machine, 3)
        text = machine.emit_assembly(module)
        assert text.count("ds_swizzle_b32") == steps, name
        numbers = re.findall(r"(?:vgpr_spill_count|private_segment_fixed_size):\s*(\d+)", text)
        assert len(numbers) == 2 and not any(map(int, numbers)), name
