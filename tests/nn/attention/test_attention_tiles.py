"""Attention in tiles, against the formula in float64: shapes that fill no tile, masks, groups of heads, derivatives, threads."""

import itertools
import math

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.codegen.tiles import attention as passes
from flambeau.codegen.tiles import register
from flambeau.core.base.callbacks import callbacks
from flambeau.nn import functional as F
from flambeau.nn.attention import SDPBackend, sdpa_kernel
from flambeau.nn.attention.bias import causal_lower_right

SHAPES = [  # batches, heads, heads of keys, queries, keys, widths of keys and of values
    (1, 1, 1, 64, 64, 64, 64),
    (2, 4, 2, 37, 53, 24, 40),
    (1, 2, 2, 200, 333, 64, 64),
    (2, 2, 2, 129, 7, 8, 33),
    (1, 3, 1, 300, 260, 5, 16),
]
KINDS = ("plain", "causal", "bool", "float", "keys")


@pytest.fixture(autouse=True)
def in_tiles():
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        yield


def formula(q, k, v, mask, causal, grad):
    """The output and its three gradients, in float64."""
    groups = q.shape[1] // k.shape[1]
    wide_k, wide_v = (np.repeat(x, groups, 1) for x in (k, v))
    scores = np.einsum("bhle,bhse->bhls", q, wide_k) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(total == 0, 1, total)
    out = weights @ wide_v
    arriving = np.einsum("bhlv,bhsv->bhls", grad, wide_v)
    change = weights * (arriving - (arriving * weights).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    joined = lambda x: x.reshape(x.shape[0], k.shape[1], groups, *x.shape[2:]).sum(2)
    to_k = joined(np.einsum("bhls,bhle->bhse", change, q))
    to_v = joined(np.einsum("bhls,bhlv->bhsv", weights, grad))
    return out, change @ wide_k, to_k, to_v


def operands(shape, kind, dtype):
    b, h, kv, queries, keys, width, depth = shape
    random = np.random.default_rng(sum(shape))
    q, k, v, g = (
        random.standard_normal(s).astype(dtype)
        for s in ((b, h, queries, width), (b, kv, keys, width), (b, kv, keys, depth), (b, h, queries, depth))
    )
    mask = {
        "bool": lambda: random.random((b, 1, queries, keys)) > 0.5,
        "float": lambda: random.standard_normal((queries, keys)).astype(dtype),
        "keys": lambda: random.random((b, 1, 1, keys)) > 0.3,
    }.get(kind, lambda: None)()
    return q, k, v, g, mask


def run(q, k, v, g, mask, causal):
    """The output and its gradients, as arrays."""
    leaves = [flambeau.from_numpy(x).requires_grad_() for x in (q, k, v)]
    given = None if mask is None else flambeau.from_numpy(mask)
    out = F.scaled_dot_product_attention(
        *leaves, attn_mask=given, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
    )
    out.backward(flambeau.from_numpy(g))
    return [out.detach().numpy(), *(x.grad.numpy() for x in leaves)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape,kind", list(itertools.product(SHAPES, KINDS)))
def test_tiles_give_the_formula(shape, kind, dtype):
    q, k, v, g, mask = operands(shape, kind, dtype)
    wide = [x.astype("float64") for x in (q, k, v)]
    wanted = formula(*wide, mask, kind == "causal", g.astype("float64"))
    for got, true in zip(run(q, k, v, g, mask, kind == "causal"), wanted):
        assert np.abs(got - true).max() <= (3e-6 if dtype == "float32" else 1e-14) * np.abs(true).max()


@pytest.mark.parametrize("kind", ["bool", "causal"])
def test_queries_that_see_nothing_give_zero_and_take_no_gradient(kind):
    x = flambeau.randn(1, 2, 70, 8)
    leaves = [x.clone().requires_grad_() for _ in range(3)]
    if kind == "bool":
        mask = flambeau.ones(70, 70, dtype=flambeau.bool)
        mask[10:20] = False
    else:  # the last query sees all three keys, the first 67 none
        with pytest.warns(UserWarning, match="without keys"):
            mask = causal_lower_right(70, 3)
        leaves[1:] = [x[:, :, :3].clone().requires_grad_() for _ in range(2)]
    F.scaled_dot_product_attention(*leaves, attn_mask=mask).sum().backward()
    out = F.scaled_dot_product_attention(*[t.detach() for t in leaves], attn_mask=mask)
    blind = slice(10, 20) if kind == "bool" else slice(0, 67)
    assert not out[:, :, blind].any() and out.isfinite().all()
    assert not leaves[0].grad[:, :, blind].any() and all(t.grad.isfinite().all() for t in leaves)


def test_later_keys_may_have_larger_scores():
    """What was summed before is brought down: 400 keys in steps of 50, of which the last tile's are the largest."""
    keys = flambeau.arange(400.0, dtype=flambeau.float64).reshape(1, 1, 400, 1)
    values = keys.flip(2)
    got = F.scaled_dot_product_attention(
        flambeau.full((1, 1, 1, 1), 50.0, dtype=flambeau.float64), keys, values
    )
    np.testing.assert_allclose(got.item(), math.exp(-50.0) / (1 + math.exp(-50.0)), rtol=1e-12)


def test_nan_and_infinite_scores():
    q, k, v = (flambeau.ones(1, 1, 40, 4) for _ in range(3))
    k = k.clone()
    k[0, 0, 35] = math.nan
    assert F.scaled_dot_product_attention(q, k, v).isnan().all()
    causal = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert not causal[0, 0, :35].isnan().any() and causal[0, 0, 35:].isnan().all()


@pytest.mark.parametrize("batches,queries,keys", [(0, 4, 4), (2, 0, 4), (2, 4, 0)])
def test_nothing_to_attend(batches, queries, keys):
    q = flambeau.randn(batches, 2, queries, 8, requires_grad=True)
    k, v = (flambeau.randn(batches, 2, keys, 8, requires_grad=True) for _ in range(2))
    out = F.scaled_dot_product_attention(q, k, v)
    out.sum().backward()
    assert out.shape == (batches, 2, queries, 8) and not out.any()
    assert all(x.grad is not None and not x.grad.any() for x in (q, k, v))


@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float"])
def test_derivatives_of_both_orders(kind):
    random = flambeau.Generator().manual_seed(3)
    q, k, v = (
        flambeau.randn(1, 2, n, 3, dtype=flambeau.float64, generator=random).requires_grad_()
        for n in (3, 5, 5)
    )
    mask = {"bool": flambeau.ones(3, 5).tril(1).bool(), "float": flambeau.ones(3, 5, dtype=flambeau.float64)}
    call = lambda *x: F.scaled_dot_product_attention(*x, attn_mask=mask.get(kind), is_causal=kind == "causal")
    assert gradcheck(call, (q, k, v)) and gradgradcheck(call, (q, k, v))


def test_operands_of_other_layouts():
    """Heads that lie inside a row of the model's width, a gradient that is expanded, values without neighbours."""
    x = flambeau.randn(2, 90, 3, 4, 16)
    q, k, v = (x[:, :, n].transpose(1, 2) for n in range(3))
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    plain = [t.contiguous().detach().requires_grad_() for t in (q, k, v)]
    a, b = (F.scaled_dot_product_attention(*t) for t in (leaves, plain))
    assert a.equal(b)
    a.sum().backward()
    b.backward(flambeau.ones(b.shape))
    assert all(s.grad.equal(t.grad) for s, t in zip(leaves, plain))
    turned = [t.transpose(2, 3).contiguous().transpose(2, 3) for t in (q, k, v)]
    assert F.scaled_dot_product_attention(*turned).equal(a)


@pytest.mark.parametrize("dtype,depth", [(flambeau.float16, 16), (flambeau.bfloat16, 24)])
def test_half_types_are_rounded_once(dtype, depth):
    """But bfloat16 whose values are as wide as its keys, whose weights a processor may round: test_half_attention.py."""
    q, k, v = (flambeau.randn(1, 2, 150, n).to(dtype) for n in (16, 16, depth))
    wide = F.scaled_dot_product_attention(q.float(), k.float(), v.float())
    assert F.scaled_dot_product_attention(q, k, v).equal(wide.to(dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [*SHAPES, (1, 2, 1, 600, 33, 16, 20)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_read_and_written_as_they_are(shape, kind, dtype):
    """Output and gradients beside the formula of the same numbers: a rounding of each result, and of the output that gradients read."""
    half, unit = getattr(flambeau, dtype), {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    q, k, v, g, mask = operands(shape, kind, "float32")
    q, k, v, g = (flambeau.from_numpy(x).to(half) for x in (q, k, v, g))
    given = None if mask is None else flambeau.from_numpy(mask)
    given = given if given is None or given.dtype == flambeau.bool else given.to(half)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(
        *inputs, attn_mask=given, is_causal=kind == "causal", enable_gqa=q.shape[1] != k.shape[1]
    )
    found = out, *flambeau.autograd.grad(out, inputs, g)
    exact = [x.detach().double().numpy() for x in (q, k, v)]
    mask = mask if given is None or given.dtype == flambeau.bool else given.double().numpy()
    for got, true in zip(found, formula(*exact, mask, kind == "causal", g.double().numpy())):
        assert got.dtype == half and got.shape == true.shape
        assert np.abs(got.detach().double().numpy() - true).max() <= 2 * unit * np.abs(true).max() + 1e-6


def test_bits_do_not_depend_on_the_threads():
    q, k, v, g, _ = operands((1, 2, 1, 1100, 700, 64, 64), "plain", "float32")
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 7):
            flambeau.set_num_threads(threads)
            found.append(run(q, k, v, g, None, True))
    finally:
        flambeau.set_num_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other))


def test_memory_grows_with_the_length_in_training_too():
    x = flambeau.ones(1, 1, 3000, 8, requires_grad=True)
    flambeau.cpu.reset_peak_memory_stats()
    before = flambeau.cpu.memory_allocated()
    F.scaled_dot_product_attention(x, x, x).sum().backward()
    assert flambeau.cpu.max_memory_allocated() - before < 3000 * 3000


# --- dropout ------------------------------
def dropped(q, k, v, p=0.3, seed=5, **others):
    flambeau.manual_seed(seed)
    return F.scaled_dot_product_attention(q, k, v, dropout_p=p, **others)


def test_dropout_leaves_out_and_scales():
    """Of 300 · 200 weights that are all 1 / 200, each value tells which of its own were left."""
    q, k = flambeau.zeros(1, 2, 300, 8), flambeau.zeros(1, 2, 200, 8)
    v = flambeau.eye(200).expand(1, 2, 200, 200)
    found = dropped(q, k, v) * 200
    kept = found != 0
    np.testing.assert_allclose(found[kept].numpy(), 1 / 0.7, rtol=1e-5)
    assert abs(kept.float().mean().item() - 0.7) < 0.01
    assert (
        kept.float().mean(2).sub(0.7).abs().max() < 0.12 and kept.float().mean(3).sub(0.7).abs().max() < 0.15
    )
    assert not kept[0, 0].equal(kept[0, 1])
    assert dropped(q, k, v).equal(dropped(q, k, v)) and not dropped(q, k, v, seed=6).equal(dropped(q, k, v))
    later = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
    assert not later.equal(dropped(q, k, v)) and not dropped(q, k, v, 1.0).any()


@pytest.mark.parametrize("kind", ["plain", "causal", "bool"])
def test_dropout_has_the_formulas_gradients(kind):
    """The factors are read off an identity of values; the output and both orders of gradients are then the formula's."""
    random = flambeau.Generator().manual_seed(3)
    q, k, v = (
        flambeau.randn(2, 2, n, 3, dtype=flambeau.float64, generator=random).requires_grad_()
        for n in (70, 131, 131)
    )
    mask = flambeau.rand(70, 131, generator=random) > 0.2 if kind == "bool" else None
    more = {"attn_mask": mask, "is_causal": kind == "causal"}
    all_one = (
        flambeau.zeros(2, 2, 70, 3, dtype=flambeau.float64),
        flambeau.zeros(2, 2, 131, 3, dtype=flambeau.float64),
    )
    eye = flambeau.eye(131, dtype=flambeau.float64).expand(2, 2, 131, 131)
    factors = (dropped(*all_one, eye) != 0).double() / 0.7
    scores = q @ k.transpose(2, 3) / math.sqrt(3)
    if kind != "plain":
        seen = flambeau.ones(70, 131).tril().bool() if kind == "causal" else mask
        scores = scores.masked_fill(~seen, -math.inf)
    wanted = (scores.softmax(-1) * factors) @ v
    got = dropped(q, k, v, **more)
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-11, atol=1e-13)
    first = [
        flambeau.autograd.grad(x.sin().sum(), (q, k, v), create_graph=c, retain_graph=True)
        for x in (got, wanted)
        for c in (0, 1)
    ]
    second = [flambeau.autograd.grad(sum(g.cos().sum() for g in first[n]), (q, k, v)) for n in (1, 3)]
    for one, other in ((first[0], first[2]), (first[1], first[3]), second):
        for a, b in zip(one, other):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)


def test_dropout_depends_on_places_alone():
    q, k, v = (flambeau.randn(1, 2, n, 16) for n in (1100, 300, 300))
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 7):
            flambeau.set_num_threads(threads)
            found.append(dropped(q, k, v))
    finally:
        flambeau.set_num_threads(before)
    assert found[0].equal(found[1]) and found[0].equal(found[2])


@pytest.mark.parametrize("bytes_wide,form", [(64, (4, 2)), (32, (4, 2)), (16, (8, 2))])
def test_tiles_of_other_processors(bytes_wide, form, monkeypatch):
    """The same call with the tiles and registers that other processors have."""
    caches = (passes.address, register.address, register.lanes)
    monkeypatch.setattr(register, "width", lambda: bytes_wide)
    monkeypatch.setattr(passes, "shape", lambda: form)
    monkeypatch.setitem(callbacks, "attention.functions", passes.functions)
    q, k, v, g, mask = operands((2, 2, 1, 70, 150, 24, 40), "bool", "float32")
    wanted = formula(*(x.astype("float64") for x in (q, k, v)), mask, False, g.astype("float64"))
    try:
        for cache in caches:
            cache.cache_clear()
        found = run(q, k, v, g, mask, False)
    finally:
        for cache in caches:
            cache.cache_clear()
    for got, true in zip(found, wanted):
        assert np.abs(got - true).max() <= 3e-6 * np.abs(true).max()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
@pytest.mark.parametrize("shape", [(2, 2), (37, 53)])
@pytest.mark.parametrize("learns", [False, True])
def test_masks_of_float32_beside_other_dtypes(dtype, shape, learns):
    """They are added as they are: not rounded to the query's dtype first, in which the least number would be infinite."""
    random, kind = np.random.default_rng(7), getattr(flambeau, dtype)
    queries, keys = shape
    sizes = (1, 2, queries, 16), (1, 2, keys, 16), (1, 2, keys, 16), (1, 2, queries, 16)
    given = [flambeau.from_numpy(random.standard_normal(s)).to(kind) for s in sizes]
    mask = random.standard_normal(shape).astype("f4")
    mask[:, 1] = np.finfo("f4").min
    leaves = [x.requires_grad_() for x in given[:3]]
    added = flambeau.from_numpy(mask).requires_grad_(learns)
    out = F.scaled_dot_product_attention(*leaves, attn_mask=added)
    found = [out, *flambeau.autograd.grad(out, leaves, given[3], retain_graph=True)]
    q, k, v, g = (x.detach().double().numpy() for x in given)
    expected = formula(q, k, v, mask.astype("f8"), False, g)
    limit = {"bfloat16": 4e-2, "float16": 5e-3, "float64": 1e-5}[dtype]
    for got, true in zip(found, expected):
        assert got.dtype == kind
        np.testing.assert_allclose(got.detach().double().numpy(), true, atol=limit, rtol=limit)
    if learns:
        to_mask = flambeau.autograd.grad(out, added, given[3])[0]
        assert to_mask.dtype == flambeau.float32 and to_mask.shape == mask.shape
        np.testing.assert_allclose(to_mask.sum(-1).numpy(), np.zeros(queries), atol=10 * limit)


def test_masks_of_other_dtypes():
    x = flambeau.zeros(1, 1, 3, 4, dtype=flambeau.bfloat16)
    for kind in (flambeau.float16, flambeau.float64, flambeau.int64):
        with pytest.raises(RuntimeError, match="Expected attn_mask dtype"):
            F.scaled_dot_product_attention(x, x, x, flambeau.zeros(3, 3, dtype=kind))
