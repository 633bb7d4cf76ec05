"""Attention by tensor cores: its PTX, interpreted thread by thread, against NumPy; what the assembler makes of it."""

from __future__ import annotations

import functools
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flambeau.codegen import schedule_gpu_attention_mma as mma
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_attention import Attention, shape_for
from flambeau.codegen.schedule_gpu_attention_wgmma import WarpgroupAttention
from flambeau.operations.neural.attention.programs import element, symbol

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tools")]
import ptx_report  # noqa: E402
from ptx import ptxas  # noqa: E402
from ptx_machine import Machine, bfloat16, rounded  # noqa: E402

SHORT = {"float16": "f16", "bfloat16": "bf16"}
PLACES = [symbol(n, "int64") for n in "bhqk"]
BOOLEAN = {"mask": element(0, PLACES, "bool"), "captures": (("bool", 4),)}
ADDED = {
    "score": symbol("score", "float32") + element(0, PLACES, "bfloat16"),
    "captures": (("bfloat16", 4),),
}


@functools.cache
def kernel_for(dtype: str, processor: str, width: int, columns: int, kind: str = ""):
    functions = {"": {}, "bool": BOOLEAN, "added": ADDED}[kind]
    plain = Attention(dtype, shape_for(dtype, width, columns), **functions)
    return plain.fitted(1, processor)


@functools.cache
def ptx(kernel) -> str:
    return tg.image(str(kernel.module("nvptx")), "nvptx", kernel.processor)


def numbers_of(bits, dtype):
    return bits.view("<f2").astype("f8") if dtype == "float16" else bfloat16(bits).astype("f8")


class Rows:
    """An operand (batch, head, row, column) in a dtype, rows longer by `gap`, `offset` bytes after 256, `step` elements side by side."""

    def __init__(self, random, dtype, batch, heads, rows, columns, gap=0, offset=0, step=1, beyond=0):
        values = random.standard_normal((batch, heads, rows + beyond, columns * step + gap)).astype("f4")
        self.bits, self.offset = rounded(values, SHORT[dtype]), offset
        outside = np.ones(self.bits.shape, bool)
        outside[:, :, :rows, : columns * step : step] = False
        self.bits[outside] = 0x7E00 if dtype == "float16" else 0x7FC0  # NaN is what no result may depend on
        self.view = self.bits[:, :, :rows, : columns * step : step]
        self.steps = [s // 2 for s in self.bits.strides[:3]] + [step]
        self.values = numbers_of(np.ascontiguousarray(self.view), dtype)


def formula(q, k, v, factor, seen=None, added=None):
    """The output, the logarithms of sums and the largest scores."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = factor * (q @ k.swapaxes(-1, -2))
    scores = scores if added is None else scores + added
    scores = scores if seen is None else np.where(seen, scores, -np.inf)
    top = scores.max(-1, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top)[..., None])
    total = weights.sum(-1)
    with np.errstate(divide="ignore"):
        lse = np.where(np.isinf(top), 0, top) + np.log(total)
    return weights @ v / np.where(total == 0, 1, total)[..., None], lse, top


def check(
    processor,
    dtype,
    sizes,
    widths,
    reach=None,
    kind="",
    text=None,
    seed=0,
    q=None,
    k=None,
    v=None,
    blocks=None,
):
    """What the kernel computes for random operands; where `reach` is given, query i sees the keys up to i + reach."""
    (batch, heads, groups, queries, keys), (width, columns) = sizes, widths
    random = np.random.default_rng(seed)
    kernel = kernel_for(dtype, processor, width, columns, kind)
    assert isinstance(kernel, mma.TensorCoreAttention)
    left = Rows(random, dtype, batch, heads * groups, queries, width, **(q or {}))
    right = Rows(random, dtype, batch, heads, keys, width, **(k or {}))
    values = Rows(random, dtype, batch, heads, keys, columns, **(v or {}))
    shape, factor = (batch, heads * groups, queries), 0.7 / math.sqrt(width)
    out = np.zeros((*shape, columns), "<u2")
    lse, top = np.zeros(shape, "f4"), np.zeros(shape, "f4")
    seen, added, captured = None, None, []
    if kind == "bool":
        seen = random.random((*shape, keys)) < 0.4
        seen[:, :, 1] = False
        captured = [seen.astype("u1")]
    elif kind == "added":
        bits = rounded(random.standard_normal((*shape, keys)).astype("f4"), "bf16")
        bits[:, :, 0, 2], bits[:, :, 2] = 0xFF80, 0xFF80  # -inf
        added, captured = numbers_of(bits, "bfloat16"), [bits]
    if reach is not None:
        seen = np.arange(keys) <= np.arange(queries)[:, None] + reach
    machine = Machine(text or ptx(kernel), seed)
    places = [machine.place(x) for x in (out, lse, top)]
    places += [machine.place(x.bits, x.offset) for x in (left, right, values)]
    places += [machine.place(x) for x in captured]
    numbers = [*sizes, width, columns, keys if reach is None else reach]
    numbers += [*left.steps, *right.steps, *values.steps]
    numbers += [s // x.itemsize for x in captured for s in x.strides]
    launch = kernel.blocks("nvptx", numbers)
    machine.run(blocks or launch.blocks[0], launch.threads[0], launch.shared, *places, *numbers, factor)
    given = left.values, right.values, values.values
    found, wanted = numbers_of(out, dtype), formula(*given, factor, seen, added)
    step = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    # weights and results are rounded once each
    bound = step * (np.abs(wanted[0]) + formula(*given[:2], np.abs(given[2]), factor, seen, added)[0]) + 1e-6
    assert (np.abs(found - wanted[0]) <= bound).all()
    np.testing.assert_allclose(lse, wanted[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(top, wanted[2], rtol=1e-5, atol=1e-5)
    return machine


def test_whole_tiles():
    """The way without comparisons and copies by elements, with one tile of queries a warp, with two, and by warpgroups."""
    for processor, dtype, sizes, width in (
        ("sm_80", "bfloat16", (1, 1, 1, 128, 192), 64),
        ("sm_86", "float16", (1, 1, 2, 64, 128), 128),
        ("sm_90a", "float16", (1, 1, 1, 128, 512), 64),
    ):
        machine = check(processor, dtype, sizes, (width, width))
        kernel = kernel_for(dtype, processor, width, width)
        warps, turns = sizes[2] * sizes[3] // (16 * kernel.high), sizes[4] // kernel.keys
        name, barriers = ("mma.sync", 2) if kernel.instruction == "mma" else ("wgmma.mma_async", 1)
        products = sum(n for key, n in machine.counts.items() if key.startswith(name))
        if kernel.instruction == "mma":
            assert products * mma.HIGH * mma.WIDE * mma.DEEP == 2 * width * sizes[2] * sizes[3] * sizes[4]
        else:
            assert products == warps * turns * (width + kernel.keys) // mma.DEEP
        assert machine.counts["bar.sync"] == warps * (1 + barriers * turns)
        assert not any(key.startswith("ld.global") for key in machine.counts), "a copy goes by elements"


CASES = {
    "uneven": ("sm_86", "bfloat16", (2, 2, 2, 19, 71), (40, 24), {}),
    "causal": ("sm_80", "bfloat16", (1, 1, 1, 150, 150), (64, 64), {"reach": 0}),
    "more keys": ("sm_90a", "float16", (1, 1, 2, 37, 140), (80, 128), {"reach": 103}),
    "queries that see nothing": ("sm_89", "float16", (1, 1, 1, 70, 66), (16, 32), {"reach": -5}),
    "bool": ("sm_80", "float16", (1, 1, 2, 33, 70), (24, 64), {"kind": "bool"}),
    "added": ("sm_86", "bfloat16", (1, 2, 1, 20, 67), (128, 16), {"kind": "added"}),
    "one": ("sm_100", "bfloat16", (1, 1, 1, 3, 1), (1, 1), {}),
    "no queries or keys": ("sm_80", "bfloat16", (1, 1, 1, 5, 0), (64, 64), {}),
    "askew": (
        "sm_80",
        "bfloat16",
        (1, 2, 1, 18, 67),
        (23, 9),
        {"q": {"offset": 2}, "k": {"step": 2}, "v": {"gap": 1}},
    ),
    "causal by warpgroups": ("sm_90a", "bfloat16", (1, 1, 1, 200, 330), (64, 64), {"reach": 40}),
    "bool by warpgroups": ("sm_90a", "bfloat16", (1, 1, 2, 33, 150), (24, 64), {"kind": "bool"}),
    "added by warpgroups": ("sm_90a", "float16", (1, 1, 1, 20, 140), (128, 16), {"kind": "added"}),
    "askew by warpgroups": (
        "sm_90a",
        "bfloat16",
        (1, 1, 1, 18, 300),
        (23, 9),
        {"q": {"offset": 2}, "k": {"step": 2}, "v": {"gap": 1}},
    ),
    "few warpgroups": (
        "sm_90a",
        "bfloat16",
        (1, 3, 1, 70, 140),
        (64, 64),
        {"blocks": 2, "k": {"beyond": 60, "gap": 8}, "v": {"beyond": 60}},
    ),
    "one by warpgroups": ("sm_90a", "bfloat16", (1, 1, 1, 3, 1), (1, 1), {}),
    "no keys by warpgroups": ("sm_90a", "bfloat16", (1, 1, 1, 5, 0), (64, 64), {}),
    "few blocks": (
        "sm_80",
        "bfloat16",
        (1, 3, 1, 130, 70),
        (64, 64),
        {"blocks": 2, "k": {"beyond": 60, "gap": 8}, "v": {"beyond": 60}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    *given, options = CASES[case]
    check(*given, **options)


def test_scores_of_any_size():
    """A later key may have a much larger score, scores may be infinite, and NaN stays in its row."""
    kernel = kernel_for("bfloat16", "sm_80", 16, 16)
    q, k, v = (np.zeros((1, 1, n, 16), "<u2") for n in (8, 200, 200))
    one = 0x3F80
    q[..., 0], k[0, 0, :, 0] = one, rounded(np.linspace(-300, 300, 200).astype("f4"), "bf16")
    v[0, 0, 199, 3] = one
    q[0, 0, 2, 1], q[0, 0, 4, 5], k[0, 0, 7, 5] = 0x7FC0, one, 0x7F80  # NaN; one key's score is infinite
    out, lse, top = np.zeros((1, 1, 8, 16), "<u2"), np.zeros((1, 1, 8), "f4"), np.zeros((1, 1, 8), "f4")
    machine = Machine(ptx(kernel))
    places = [machine.place(x) for x in (out, lse, top, q, k, v)]
    numbers = [1, 1, 1, 8, 200, 16, 16, 200]
    numbers += [s // 2 for x in (q, k, v) for s in x.strides]
    launch = kernel.blocks("nvptx", numbers)
    machine.run(launch.blocks[0], launch.threads[0], launch.shared, *places, *numbers, 1.0)
    found = numbers_of(out, "bfloat16")[0, 0]
    broken = np.isnan(found).any(1)
    # 0 · inf is NaN: every other query's score with the infinite key
    assert broken.all() and np.isnan(lse).all()
    k[0, 0, 7, 5] = 0
    machine = Machine(ptx(kernel))
    places = [machine.place(x) for x in (out, lse, top, q, k, v)]
    machine.run(launch.blocks[0], launch.threads[0], launch.shared, *places, *numbers, 1.0)
    found = numbers_of(out, "bfloat16")[0, 0]
    assert np.isnan(found[2]).all() and np.isfinite(np.delete(found, 2, 0)).all()
    scores = bfloat16(k[0, 0, :, 0]).astype("f8")
    weights = np.exp(scores - scores.max())
    assert np.abs(np.delete(found, 2, 0)[:, 3] - weights[-1] / weights.sum()).max() < 2.0**-8
    assert np.abs(np.delete(lse[0, 0], 2) - 300 - math.log(weights.sum())).max() < 1e-3


# What is changed in a kernel, each of which is a fault that the interpreter must meet.
FAULTS = {
    "values are not turned": (r"\.trans\.shared", ".shared"),
    "keys are not waited for": (r"cp\.async\.wait_group\s+0;", ""),
    "no barrier": (r"bar\.sync\s+0;", ""),
    "a quad is halved": (r"(shfl\.sync\.bfly\.b32\s+%\w+, %\w+), 2,", r"\1, 1,"),
    "lanes of another row": (r"(shfl\.sync\.bfly\.b32\s+%\w+, %\w+), 2,", r"\1, 4,"),
    "the swizzle is another": (r"xor\.b64(\s+%\w+, %\w+), 32;", r"xor.b64\1, 96;"),
    "weights are exchanged": (
        r"cvt\.rn\.bf16x2\.f32(\s+%\w+), (%\w+), (%\w+);",
        r"cvt.rn.bf16x2.f32\1, \3, \2;",
    ),
    "sums do not shrink": (r"mul\.rn\.f32", "add.rn.f32"),
}
BUFFER = WarpgroupAttention("bfloat16", "sm_90a", 64, 64).buffer
FAULTS_OF_WARPGROUPS = {
    "values are not turned": (r"p, 1, 1, 1;", "p, 1, 1, 0;"),
    "keys are not waited for": (r"cp\.async\.wait_group\s+0;", ""),
    "no barrier": (r"bar\.sync\s+0;", ""),
    "writes are not made visible to wgmma": (r"fence\.proxy\.async\.shared::cta;", ""),
    "sums are not waited for": (r"wgmma\.wait_group\.sync\.aligned 0", "wgmma.wait_group.sync.aligned 9"),
    "scores add to what was there": (r"setp\.ne\.b32 p, 0, 0;", "setp.ne.b32 p, 1, 0;"),
    "weights are exchanged": FAULTS["weights are exchanged"],
    "copies replace what is multiplied": (
        rf"(setp\.\w+\.\w+\s+%\w+, %\w+), {3 * BUFFER};",
        rf"\1, {2 * BUFFER};",
    ),
}


@pytest.mark.parametrize(
    ("processor", "fault"), [*(("sm_80", f) for f in FAULTS), *(("sm_90a", f) for f in FAULTS_OF_WARPGROUPS)]
)
def test_the_interpreter_meets_faults(processor, fault):
    by_warps = processor == "sm_80"
    found, instead = (FAULTS if by_warps else FAULTS_OF_WARPGROUPS)[fault]
    text, count = re.subn(found, instead, ptx(kernel_for("bfloat16", processor, 64, 64)))
    assert count, "there is nothing to change"
    sizes = (1, 1, 1, 40, 200) if by_warps else (1, 1, 1, 128, 512)
    with pytest.raises(AssertionError):
        for seed in range(3):
            check(processor, "bfloat16", sizes, (64, 64), text=text, seed=seed)


def test_the_processor_chooses():
    """Halves by tensor cores from sm_80 on, for widths whose sums fit into registers."""
    for processor in tg.PROCESSORS["nvptx"]:
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            for width in (8, 64, 128, 129):
                plain = Attention(dtype, shape_for(dtype, width, 8) or shape_for(dtype, 128, 8))
                kernel = plain.fitted(1, processor)
                by_cores = dtype in SHORT and processor not in ("sm_70", "sm_75") and width <= 128
                assert isinstance(kernel, mma.TensorCoreAttention) is by_cores
                if by_cores and processor == "sm_90a":
                    assert (
                        kernel.instruction == "wgmma" and kernel.columns == 64 and kernel.shared <= 227 << 10
                    )
                elif by_cores:
                    assert kernel.instruction == "mma"
                    assert kernel.high == (2 if width <= 64 else 1) and kernel.shared <= 99 << 10
                else:
                    assert kernel == plain
    for processor in tg.PROCESSORS["amdgcn"]:
        plain = Attention("bfloat16", shape_for("bfloat16", 64, 64))
        assert plain.fitted(1, processor) is plain


FORMS = [("bfloat16", 64, ""), ("float16", 128, ""), ("float16", 64, "bool"), ("bfloat16", 128, "added")]


# Two of them for each processor, among them the one that takes most registers; all where they are of another kind.
ASSEMBLED = [
    (p, *FORMS[n])
    for k, p in enumerate(mma.STAGES)
    for n in (range(len(FORMS)) if p == "sm_90a" else (0, 1 + k % 3))
]


@pytest.mark.parametrize(("processor", "dtype", "width", "kind"), ASSEMBLED)
def test_the_assembler_takes_it_without_spills(processor, dtype, width, kind, tmp_path):
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas here")
    kernel = kernel_for(dtype, processor, width, width, kind)
    path = tmp_path / "kernel.ptx"
    path.write_text(ptx(kernel))
    command = [assembler, "-v", f"-arch={processor}", "-o", str(tmp_path / "out.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, done.stderr
    assert "serialized" not in done.stderr, (
        done.stderr
    )  # wgmma whose registers other instructions touch meanwhile


def test_the_inner_loop():
    """What is multiplied, and loaded, for KEYS keys; the rest is what a softmax takes."""
    for dtype, width, _ in FORMS[:2]:
        kernel = kernel_for(dtype, "sm_80", width, width)
        loop = ptx_report.inner_loop(ptx(kernel))
        products = 2 * kernel.high * (mma.KEYS // mma.WIDE) * width // mma.DEEP
        copies = 2 * mma.KEYS * width // (kernel.threads * 8)
        tiles = (2 * mma.KEYS // 16 + kernel.high) * width // 16
        assert loop.matrix == products and loop.loads == copies + tiles
    for dtype, width, _ in FORMS[:2]:
        kernel = kernel_for(dtype, "sm_90a", width, width)
        loop = ptx_report.inner_loop(ptx(kernel))
        assert loop.matrix == (width + kernel.keys) // mma.DEEP
        assert loop.loads == 2 * kernel.keys * width // (kernel.threads * 8)
