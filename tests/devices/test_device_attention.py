"""Attention forward in one kernel on a device, against NumPy in float64; what it becomes for processors that are not here."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.codegen import schedule_gpu_attention_backward as backward
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_attention import Attention, shape_for
from flambeau.core.loops import launch
from flambeau.nn.attention import SDPBackend, sdpa_kernel
from flambeau.operations.neural.attention import on_device
from flambeau.operations.neural.attention.programs import element, symbol

sys.path.insert(0, str(Path(__file__).parent.parent / "codegen"))
sys.path.insert(0, str(Path(__file__).parent))

from disorder import disturbed  # noqa: E402
from ptx import ptxas  # noqa: E402

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
needs_device = pytest.mark.skipif(not getattr(flambeau, TYPE).is_available(), reason=f"no {TYPE} device")
ROUNDING = {"float64": 1e-13, "float32": 5e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
# Batches, heads of keys, heads of queries for each, queries, keys, width, columns.
SIZES = {
    "even": (2, 3, 1, 64, 64, 32, 32),
    "uneven": (1, 2, 2, 33, 101, 20, 12),
    "wide": (1, 1, 2, 70, 40, 128, 65),
    "one": (2, 1, 1, 1, 1, 1, 1),
}


@pytest.fixture
def launched(monkeypatch):
    """The kernels of attention."""
    kernels = []

    def noted(kernel, *arguments):
        kernels.append(kernel)
        launch.run_blocks(kernel, *arguments)

    monkeypatch.setattr(on_device, "run_blocks", noted)
    return kernels


def operands(name, dtype, turned=False):
    batches, heads, groups, queries, keys, width, columns = SIZES[name]
    generator = np.random.default_rng(0)
    shapes = (heads * groups, queries, width), (heads, keys, width), (heads, keys, columns)
    results = []
    for shape in shapes:
        t = flambeau.tensor(generator.standard_normal((batches, *shape))).to(getattr(flambeau, dtype))
        results.append(t.transpose(1, 2).contiguous().transpose(1, 2) if turned else t)
    return results


def wanted(q, k, v, mask=None):
    """Attention of all scores; what sees nothing gives 0."""
    q, k, v = (t.double().numpy() for t in (q, k, v))
    k, v = (np.repeat(t, q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)


def attention(*given, **options):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(*given, enable_gqa=True, **options)


def check(actual, expected, dtype):
    assert actual.shape == expected.shape and actual.dtype is getattr(flambeau, dtype)
    assert np.abs(actual.detach().cpu().double().numpy() - expected).max() <= ROUNDING[dtype] * 4


CALLS = [
    *((name, "float32") for name in SIZES),
    *(("uneven", dtype) for dtype in ROUNDING if dtype != "float32"),
]


@needs_device
@pytest.mark.parametrize(("name", "dtype"), CALLS)
def test_values(name, dtype, launched):
    given = operands(name, dtype, turned=name == "even")
    check(attention(*(t.to(TYPE) for t in given)), wanted(*given), dtype)
    assert len(launched) == 1


@needs_device
@pytest.mark.parametrize("kind", ["causal", "bool", "added", "one a key"])
def test_masks(kind, launched):
    """Rows that see nothing give 0; what the mask hides may be NaN."""
    q, k, v = given = operands("uneven", "float32")
    scores, generator = (1, 4, 33, 101), np.random.default_rng(1)
    mask, options = None, {}
    if kind == "causal":
        seen, options = np.tril(np.ones(scores[2:], bool)), {"is_causal": True}
        k[:, :, 40:], v[:, :, 40:] = float("nan"), 0.0
    elif kind == "added":
        seen = generator.standard_normal(scores).astype("float32")
        seen[0, 1, 5] = -np.inf
        mask = flambeau.tensor(seen)
    else:
        seen = generator.random((1, 1, 1, 101) if kind == "one a key" else scores) < 0.5
        if kind == "bool":
            seen[0, 2, 7:9] = False
        mask = flambeau.tensor(seen)
    expected = wanted(q, k.nan_to_num(), v, seen)
    given = [None if t is None else t.to(TYPE) for t in (*given, mask)]
    check(attention(*given, **options), expected, "float32")
    assert len(launched) == 1


@needs_device
@pytest.mark.parametrize("factor", [-0.4, 0.0, 3.0])
def test_any_factor(factor, launched):
    q, k, v = operands("uneven", "float32")
    mask = flambeau.tensor(np.random.default_rng(2).random((33, 101)) < 0.7)
    actual = attention(*(t.to(TYPE) for t in (q, k, v, mask)), scale=factor)
    check(actual, wanted(q * (factor * math.sqrt(20)), k, v, mask.numpy()), "float32")
    assert len(launched) == 1


@needs_device
def test_the_kernel_is_taken_by_default(launched):
    """Wherever it serves, but where all scores are quicker: without a mask, for wide values, on devices whose threads have vectors."""
    narrow, wide = ([t.to(TYPE) for t in operands(name, "float32")] for name in ("uneven", "wide"))
    options = {"enable_gqa": True}
    check(F.scaled_dot_product_attention(*narrow, **options), wanted(*(t.cpu() for t in narrow)), "float32")
    F.scaled_dot_product_attention(*narrow, is_causal=True, **options)
    F.scaled_dot_product_attention(*(t[0, :2] for t in narrow))  # the batch in place of heads
    mask = flambeau.ones(70, 40, device=TYPE)
    F.scaled_dot_product_attention(*wide, mask > 0, **options)
    F.scaled_dot_product_attention(*wide, mask, **options)
    assert len(launched) == 5
    check(F.scaled_dot_product_attention(*wide, **options), wanted(*(t.cpu() for t in wide)), "float32")
    lanes = on_device._lanes(TYPE, 0)
    assert len(launched) == (6 if lanes < 4 else 5)
    del launched[:]
    F.scaled_dot_product_attention(*wide, mask.requires_grad_(), **options)
    F.scaled_dot_product_attention(*narrow, dropout_p=0.5, **options)
    F.scaled_dot_product_attention(*(t.new_ones(1, 1, 2, 300) for t in narrow), is_causal=True)
    F.scaled_dot_product_attention(*(t.to("meta") for t in narrow), is_causal=True, **options)
    with sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(*narrow, is_causal=True, **options)
    assert not launched


@needs_device
def test_compiled_and_second_derivatives(launched):
    given = [t.to(TYPE).requires_grad_() for t in operands("uneven", "float64")]
    call = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    eager = call(*given)
    assert flambeau.equal(flambeau.compile(call)(*given), eager)
    assert len(launched) >= 1
    grads = flambeau.autograd.grad(eager.square().sum(), given, create_graph=True)
    actual = flambeau.autograd.grad(sum(g.sum() for g in grads), given)
    host = [t.detach().cpu().requires_grad_() for t in given]
    with sdpa_kernel(SDPBackend.MATH):
        grads = flambeau.autograd.grad(call(*host).square().sum(), host, create_graph=True)
        expected = flambeau.autograd.grad(sum(g.sum() for g in grads), host)
    for a, b in zip(actual, expected):
        np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-8, atol=1e-9)


def gradients_of(given, backend, mask=None, **options):
    """Of query, key and value, on their device, for the sum of squares of the output."""
    own = [t.requires_grad_() for t in given]
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(*own, mask, enable_gqa=True, **options)
    return [g.cpu().double().numpy() for g in flambeau.autograd.grad(out.square().sum(), own)]


GRADIENTS = {
    "plain": ("uneven", "float64", {}),
    "causal": ("uneven", "float64", {"is_causal": True}),
    "wide": ("wide", "float32", {}),
    "even, causal": ("even", "float32", {"is_causal": True}),
    "one": ("one", "float32", {}),
    "float16": ("uneven", "float16", {"is_causal": True}),
    "bfloat16": ("uneven", "bfloat16", {}),
    "negative": ("uneven", "float64", {"scale": -0.3}),
}


@needs_device
@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients(case, launched):
    """Two kernels: of queries, and of keys and values of all heads of queries that share them."""
    name, dtype, options = GRADIENTS[case]
    given = operands(name, dtype, turned=case == "causal")
    actual = gradients_of([t.to(TYPE) for t in given], SDPBackend.FLASH_ATTENTION, **options)
    expected = gradients_of([t.double() for t in given], SDPBackend.MATH, **options)
    for a, b in zip(actual, expected):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= 8 * ROUNDING[dtype] * max(np.abs(b).max(), 1)
    assert [type(k).__name__ for k in launched] == ["Attention", "AttentionBackward", "AttentionBackward"]


@needs_device
@pytest.mark.parametrize("kind", ["bool", "added", "one a key"])
def test_gradients_under_masks(kind, launched):
    """What sees nothing, and what nothing sees, has the gradient 0."""
    given, random = operands("uneven", "float64"), np.random.default_rng(3)
    if kind == "added":
        mask = random.standard_normal((1, 4, 33, 101))
        mask[:, :, 5], mask[..., 7] = -np.inf, -np.inf
    else:
        mask = random.random((1, 1, 1, 101) if kind == "one a key" else (33, 101)) < 0.6
        mask[..., 7] = False
        if kind == "bool":
            mask[5] = False
    mask = flambeau.tensor(mask)
    actual = gradients_of([t.to(TYPE) for t in given], SDPBackend.FLASH_ATTENTION, mask.to(TYPE))
    expected = gradients_of(given, SDPBackend.MATH, mask)
    for a, b in zip(actual, expected):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    assert not actual[1][:, :, 7].any() and not actual[2][:, :, 7].any()
    assert kind == "one a key" or not actual[0][:, :, 5].any()
    assert len(launched) == 3


@needs_device
def test_gradients_that_are_wanted(launched):
    q, k, v = (t.to(TYPE) for t in operands("uneven", "float64"))
    whole = gradients_of([q, k, v], SDPBackend.FLASH_ATTENTION)
    for number in range(3):
        del launched[:]
        given = [t.detach().requires_grad_(n == number) for n, t in enumerate((q, k, v))]
        result = attention(*given)
        (own,) = flambeau.autograd.grad(result.square().sum(), given[number : number + 1])
        assert (own.cpu().numpy() == whole[number]).all()
        assert [getattr(k, "side", "") for k in launched] == ["", "queries" if number == 0 else "keys"]
    # what a mask wants is of the size of all scores: blocks of them
    del launched[:]
    mask = flambeau.zeros(33, 101, dtype=flambeau.float64, device=TYPE, requires_grad=True)
    (own,) = flambeau.autograd.grad(attention(q.detach(), k, v, attn_mask=mask).sum(), [mask])
    assert own.shape == mask.shape and len(launched) == 1


@needs_device
def test_nan_stays_in_its_row(launched):
    q, k, v = (t.to(TYPE) for t in operands("uneven", "float32"))
    q[0, 1, 3, 2] = float("nan")
    actual = attention(q, k, v).isnan().cpu().numpy()
    expected = np.zeros_like(actual)
    expected[0, 1, 3] = True
    assert (actual == expected).all()


@needs_device
def test_what_the_kernel_leaves_to_blocks(launched):
    wide = [flambeau.randn(1, 1, 20, 300).to(TYPE) for _ in range(3)]
    check(attention(*wide), wanted(*(t.cpu() for t in wide)), "float32")
    few = [flambeau.randn(1, 2, n, 8).to(TYPE) for n in (5, 0, 0)]
    assert not attention(*few).any()
    assert not launched


CAUSAL = symbol("k", "int64") <= symbol("q", "int64")
PLACES = [symbol(n, "int64") for n in "bhqk"]
ADDED = symbol("score", "float32") + element(0, PLACES, "bfloat16")


def kernels():
    for dtype, width in (("float32", 64), ("float32", 128), ("float64", 128)):
        yield Attention(dtype, shape_for(dtype, width, width), None, CAUSAL)
    yield Attention("bfloat16", shape_for("bfloat16", 64, 80), ADDED, None, (("bfloat16", 4),))


def backward_kernels():
    for side in ("queries", "keys"):
        for dtype, width, mask in (("float32", 64, CAUSAL), ("float32", 128, None), ("float64", 64, None)):
            shape = backward.shape_for(dtype, side, width, width)
            yield backward.AttentionBackward(dtype, side, shape, mask=mask)
        shape, read = backward.shape_for("bfloat16", side, 64, 80), (("bfloat16", 4),)
        yield backward.AttentionBackward(
            "bfloat16", side, shape, ADDED, symbol("grad", "float32"), None, read
        )


@needs_device
@pytest.mark.parametrize("side", ["queries", "keys"])
def test_order_of_blocks_of_gradients(side, monkeypatch):
    if TYPE != "opencl":
        pytest.skip("the order is changed for OpenCL's devices")
    q, k, v = (t.to(TYPE) for t in operands("uneven", "float32"))
    out_like, rows = flambeau.randn(1, 4, 33, 12).to(TYPE), flambeau.randn(2, 1, 4, 33).abs().to(TYPE) + 3
    kernel = backward.AttentionBackward("float32", side, backward.shape_for("float32", side, 20, 12))
    numbers = (1, 2, 2, 33, 101, 20, 12, 0, *q.stride(), *k.stride(), *v.stride(), *out_like.stride())
    count, result = kernel.blocks("spirv", numbers).blocks[0], []
    for number in range(2):
        own = kernel
        if number:
            own, poisoned = disturbed(monkeypatch, kernel, count, 3, 1)
        shapes = [q.shape] if side == "queries" else [k.shape, v.shape]
        results = [flambeau.full(s, float("nan")).to(TYPE) for s in shapes]
        launch.run_blocks(own, (*results, q, k, v, out_like, rows), numbers, (0.2,))
        result.append([t.cpu() for t in results])
    names = {"@tile_q", "@tile_k", "@tile_v", "@tile_g", "@changes"}
    assert count == 8 and poisoned == names | ({"@weights"} if side == "keys" else set())
    assert all(flambeau.equal(a, b) and not a.isnan().any() for a, b in zip(*result))


@needs_device
def test_order_of_blocks_and_what_shared_memory_held_do_not_matter(monkeypatch):
    if TYPE != "opencl":
        pytest.skip("the order is changed for OpenCL's devices")
    q, k, v = (t.to(TYPE) for t in operands("uneven", "float32"))
    kernel = Attention("float32", shape_for("float32", 20, 12), None, CAUSAL)
    numbers = (1, 2, 2, 33, 101, 20, 12, 0, *q.stride(), *k.stride(), *v.stride())
    count, result = kernel.blocks("spirv", numbers).blocks[0], []
    for number in range(2):
        own = kernel
        if number:
            own, poisoned = disturbed(monkeypatch, kernel, count, 3, 1)
        results = [flambeau.full(s, float("nan")).to(TYPE) for s in ((1, 4, 33, 12), (1, 4, 33), (1, 4, 33))]
        launch.run_blocks(own, (*results, q, k, v), numbers, (0.2,))
        result.append([t.cpu() for t in results])
    assert count == 4 and poisoned == {"@queries", "@keys", "@weights", "@partial"}
    assert all(flambeau.equal(a, b) and not a.isnan().any() for a, b in zip(*result))


def test_shared_memory_and_shapes():
    for dtype, most in (("float32", 256), ("bfloat16", 256), ("float64", 128)):
        assert shape_for(dtype, most + 1, 8) is None and shape_for(dtype, 8, most + 1) is None
        for width in (1, 16, 33, 64, 65, 128, most):
            shape = shape_for(dtype, width, 8)
            size = 8 if dtype == "float64" else 4
            held = shape.width * (shape.queries + 1) + max(
                shape.width * (shape.keys + 1), shape.keys * shape.columns
            )
            held += shape.keys * (shape.queries + 1) + shape.queries * 17
            assert shape.width >= width and held * size <= 48 << 10


def test_amdgcn_keeps_its_sums_in_registers():
    for kernel in (*kernels(), *backward_kernels()):
        machine = tg.machine("amdgcn")
        assembly = machine.emit_assembly(tg.optimised(str(kernel.module("amdgcn")), machine, 3))
        assert "s_barrier" in assembly and "ds_write" in assembly and "scratch_store" not in assembly


def test_ptx_is_accepted_and_spills_no_registers(tmp_path):
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas here")
    for number, kernel in enumerate((*kernels(), *backward_kernels())):
        path = tmp_path / f"{number}.ptx"
        path.write_text(tg.image(str(kernel.module("nvptx")), "nvptx"))
        command = [assembler, "-v", "-arch=sm_90", "-o", str(tmp_path / "out.cubin"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, done.stderr
