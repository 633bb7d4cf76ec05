"""Gradients of attention by tensor cores: their PTX, interpreted thread by thread, against NumPy; what the assembler makes of it."""

from __future__ import annotations

import functools
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flambeau.codegen import schedule_gpu_attention_backward as plain
from flambeau.codegen import schedule_gpu_attention_backward_mma as mma
from flambeau.codegen import target as tg
from flambeau.operations.neural.attention.programs import symbol

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tools")]
import ptx_report  # noqa: E402
from ptx import ptxas  # noqa: E402
from ptx_machine import Machine, Warp, rounded  # noqa: E402
from test_tensor_core_attention import SHORT, Rows, numbers_of  # noqa: E402

SIDES = ("queries", "keys")


@functools.cache
def kernel_for(dtype: str, processor: str, side: str, width: int, columns: int):
    shape = plain.shape_for(dtype, side, width, columns)
    return plain.AttentionBackward(dtype, side, shape).fitted(1, processor)


@functools.cache
def ptx(kernel) -> str:
    return tg.image(str(kernel.module("nvptx")), "nvptx", kernel.processor)


def formula(q, k, v, g, lse, delta, factor, seen):
    """The gradients of query, key and value, from the logarithms of sums and what is taken off of dP."""
    groups = q.shape[1] // k.shape[1]
    wide_k, wide_v = (np.repeat(x, groups, 1) for x in (k, v))
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(factor * (q @ wide_k.swapaxes(-1, -2)) - lse[..., None])
    weights = np.where(seen & np.isfinite(lse)[..., None], weights, 0)
    changes = weights * (g @ wide_v.swapaxes(-1, -2) - delta[..., None])

    def of_keys(x):
        return x.reshape(x.shape[0], k.shape[1], groups, *x.shape[2:]).sum(2)

    return (
        factor * changes @ wide_k,
        of_keys(factor * changes.swapaxes(-1, -2) @ q),
        of_keys(weights.swapaxes(-1, -2) @ g),
        (weights, changes),
    )


def check(processor, dtype, side, sizes, widths, reach=None, text=None, seed=0, operands=None, blocks=None):
    """What the kernel computes for random operands; where `reach` is given, query i sees the keys up to i + reach."""
    (batch, heads, groups, queries, keys), (width, columns) = sizes, widths
    random = np.random.default_rng(seed)
    kernel = kernel_for(dtype, processor, side, width, columns)
    assert isinstance(kernel, mma.TensorCoreBackward)
    given = [
        Rows(random, dtype, batch, n, rows, wide, **(operands or {}).get(name, {}))
        for name, n, rows, wide in (
            ("q", heads * groups, queries, width),
            ("k", heads, keys, width),
            ("v", heads, keys, columns),
            ("g", heads * groups, queries, columns),
        )
    ]
    q, k, v, g = (x.values for x in given)
    factor = 0.7 / math.sqrt(width)
    seen = np.ones((queries, keys), bool)
    if reach is not None:
        seen = np.arange(keys) <= np.arange(queries)[:, None] + reach
    scores = np.where(seen, factor * (q @ np.repeat(k, groups, 1).swapaxes(-1, -2)), -np.inf)
    with np.errstate(divide="ignore"):
        lse = np.log(np.exp(scores).sum(-1)).astype("f4")
    delta = random.standard_normal(lse.shape).astype("f4")
    results = [
        np.zeros(x.shape, "<u2") for name, x in (("queries", q), ("keys", k), ("keys", v)) if name == side
    ]
    machine = Machine(text or ptx(kernel), seed)
    places = [machine.place(x) for x in results]
    places += [machine.place(x.bits, x.offset) for x in given]
    places.append(machine.place(np.stack([lse, delta])))
    numbers = [*sizes, width, columns, keys if reach is None else reach, *(s for x in given for s in x.steps)]
    launch = kernel.blocks("nvptx", numbers)
    machine.run(blocks or launch.blocks[0], launch.threads[0], launch.shared, *places, *numbers, factor)
    *wanted, (weights, changes) = formula(q, k, v, g, lse.astype("f8"), delta.astype("f8"), factor, seen)
    step = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    wide_k = np.repeat(np.abs(k), groups, 1)

    def of_keys(x):
        return x.reshape(x.shape[0], heads, groups, *x.shape[2:]).sum(2)

    magnitudes = (
        factor * np.abs(changes) @ wide_k,
        of_keys(factor * np.abs(changes).swapaxes(-1, -2) @ np.abs(q)),
        of_keys(weights.swapaxes(-1, -2) @ np.abs(g)),
    )
    first = 0 if side == "queries" else 1
    for found, right, magnitude in zip(results, wanted[first:], magnitudes[first:]):
        # weights and changes are rounded once each, and results
        bound = step * (np.abs(right) + 1.01 * magnitude) + 1e-5 * magnitude + 1e-6
        assert (np.abs(numbers_of(found, dtype) - right) <= bound).all()
    return machine


CASES = {
    "whole": ("sm_80", "bfloat16", (1, 1, 1, 64, 64), (64, 64), {}),
    "uneven": ("sm_86", "bfloat16", (1, 2, 2, 19, 71), (40, 24), {}),
    "causal": ("sm_80", "float16", (1, 1, 1, 90, 90), (64, 32), {"reach": 0}),
    "more keys": ("sm_90a", "float16", (1, 1, 2, 37, 70), (80, 128), {"reach": 33}),
    "queries that see nothing": ("sm_89", "float16", (1, 1, 1, 40, 36), (16, 32), {"reach": -5}),
    "one": ("sm_100", "bfloat16", (1, 1, 1, 1, 1), (1, 1), {}),
    "askew": (
        "sm_80",
        "bfloat16",
        (1, 2, 1, 18, 37),
        (23, 9),
        {"operands": {"q": {"offset": 2}, "k": {"step": 2}, "g": {"gap": 1}}},
    ),
    "few blocks": ("sm_80", "bfloat16", (1, 3, 1, 70, 70), (16, 16), {"blocks": 2}),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("case", CASES)
def test_values(case, side):
    processor, dtype, *given, options = CASES[case]
    check(processor, dtype, side, *given, **options)


def test_the_same_bits_in_any_order(monkeypatch):
    """No sum depends on which warp or block is first."""
    monkeypatch.setattr(Warp, "approximate", lambda self, values: values.astype("f4"))
    found = []
    for seed in (1, 2):
        kernel = kernel_for("bfloat16", "sm_80", "keys", 16, 16)
        random = np.random.default_rng(0)
        q, k, v, g = (rounded(random.standard_normal((1, 2, 70, 16)).astype("f4"), "bf16") for _ in range(4))
        results = [np.zeros(k.shape, "<u2") for _ in range(2)]
        machine = Machine(ptx(kernel), seed)
        rows = np.zeros((2, 1, 2, 70), "f4")
        places = [machine.place(x) for x in (*results, q, k, v, g, rows)]
        numbers = [1, 2, 1, 70, 70, 16, 16, 70, *(s // 2 for x in (q, k, v, g) for s in x.strides)]
        launch = kernel.blocks("nvptx", numbers)
        machine.run(launch.blocks[0], launch.threads[0], launch.shared, *places, *numbers, 0.25)
        found.append(np.stack(results))
    assert np.array_equal(*found) and found[0].any()


# What is changed in a kernel, each of which is a fault that the interpreter must meet.
FAULTS = {
    "rows are not turned": (r"\.trans\.shared", ".shared"),
    "copies are not waited for": (r"cp\.async\.wait_group\s+0;", ""),
    "no barrier": (r"bar\.sync\s+0;", ""),
    "the swizzle is another": (r"xor\.b64(\s+%\w+, %\w+), 32;", r"xor.b64\1, 96;"),
    "neighbours are exchanged": (
        r"cvt\.rn\.bf16x2\.f32(\s+%\w+), (%\w+), (%\w+);",
        r"cvt.rn.bf16x2.f32\1, \3, \2;",
    ),
    "powers of e": (r"ex2\.approx\.ftz\.f32(\s+%\w+), (%\w+)", r"mul.rn.f32\1, \2, \2"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_interpreter_meets_faults(fault):
    found, instead = FAULTS[fault]
    side = SIDES[list(FAULTS).index(fault) % 2]
    text, count = re.subn(found, instead, ptx(kernel_for("bfloat16", "sm_80", side, 64, 64)))
    assert count, "there is nothing to change"
    with pytest.raises(AssertionError):
        for seed in range(3):
            check("sm_80", "bfloat16", side, (1, 1, 1, 70, 70), (64, 64), text=text, seed=seed)


def test_the_processor_chooses():
    """Halves by tensor cores from sm_80 on, for widths whose sums fit into registers, without functions of scores."""
    for processor in tg.PROCESSORS["nvptx"]:
        for dtype, width in (("float16", 64), ("bfloat16", 128), ("bfloat16", 144), ("float32", 64)):
            kernel = plain.AttentionBackward(dtype, "keys", plain.shape_for(dtype, "keys", width, 16))
            by_cores = dtype in SHORT and processor not in ("sm_70", "sm_75") and width <= 128
            assert isinstance(kernel.fitted(1, processor), mma.TensorCoreBackward) is by_cores
    shape = plain.shape_for("float16", "keys", 64, 64)
    score = plain.AttentionBackward("float16", "keys", shape, score=symbol("score", "float32"))
    assert score.fitted(1, "sm_80") is score


# Two of them for each processor, among them the one that takes most registers.
ASSEMBLED = [
    (p, *one)
    for k, p in enumerate(mma.STAGES)
    for one in (("keys", 128), (("queries", 128), ("queries", 64), ("keys", 64))[k % 3])
]


@pytest.mark.parametrize(("processor", "side", "width"), ASSEMBLED)
def test_the_assembler_takes_it_without_spills(processor, side, width, tmp_path):
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas here")
    path = tmp_path / "kernel.ptx"
    path.write_text(ptx(kernel_for("bfloat16", processor, side, width, width)))
    command = [assembler, "-v", f"-arch={processor}", "-o", str(tmp_path / "out.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, done.stderr


@pytest.mark.parametrize("side", SIDES)
def test_the_inner_loop(side):
    """What is multiplied for OTHER rows of the other side."""
    kernel = kernel_for("bfloat16", "sm_80", side, 64, 64)
    loop = ptx_report.inner_loop(ptx(kernel))
    products = 3 if side == "queries" else 4
    assert loop.matrix == products * mma.OTHER * 64 // (mma.WIDE * mma.DEEP)
