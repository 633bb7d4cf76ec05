"""Tensors of codes with a scale for each row, and attention over them, against NumPy in float64."""

from __future__ import annotations

import copy
import io
import math

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.ao.quantization import RowQuantizedTensor, quantize_per_row
from flambeau.codegen.tiles import kernels
from flambeau.nn import functional as F
from flambeau.operations.declare import machine
from flambeau.operations.neural.attention import quantised

CODES = {"int8": flambeau.int8, "e4m3": flambeau.float8_e4m3fn, "e5m2": flambeau.float8_e5m2}
FLOATS = {"float32": 1e-6, "bfloat16": 2**-8, "float16": 2**-11}


def wide(t):
    return t.detach().to(flambeau.float32).numpy().astype("f8")


def made(generator, *shape):
    return flambeau.tensor(generator.standard_normal(shape).astype("f4"))


def attention(q, k, v, mask=None, causal=False, factor=None):
    """In float64, by the definition; heads of keys serve as many of the queries'."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat(groups, 1), v.repeat(groups, 1)
    scores = q @ k.swapaxes(2, 3) * (q.shape[3] ** -0.5 if factor is None else factor)
    if causal:
        mask = np.tril(np.ones(scores.shape[2:], bool))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(3, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(3, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def close(found, wanted, unit):
    error = np.abs(wide(found) - wanted)
    assert (error <= unit * np.abs(wanted) + 4e-6 * np.abs(wanted).max()).all(), error.max()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CODES)
def test_each_element_has_the_nearest_code(name, dtype):
    x = made(np.random.default_rng(0), 3, 5, 17).to(getattr(flambeau, dtype))
    x[0, 1] = 0.0
    q = quantize_per_row(x, CODES[name])
    assert isinstance(q, RowQuantizedTensor) and q.codes.dtype is CODES[name]
    assert q.shape == x.shape and q.dtype is x.dtype and q.scales.shape == (3, 5)
    assert q.nbytes == 3 * 5 * 17 + 3 * 5 * 4
    numbers = wide(x)
    scale = np.abs(numbers).max(2, keepdims=True) / {"int8": 127, "e4m3": 448, "e5m2": 57344}[name]
    ratio = numbers / np.where(scale == 0, 1, scale)
    if name == "int8":
        codes = np.round(ratio)
    else:  # so many bits of mantissa, and the least exponent
        bits, least = (3, -9) if name == "e4m3" else (2, -16)
        step = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(np.abs(ratio), 1e-30))) - bits, least)
        codes = np.round(ratio / step) * step
    assert (np.abs(wide(q.codes) - codes) <= 1e-5 * np.abs(codes)).mean() > 0.99  # a tie may fall either way
    assert np.allclose(wide(q.dequantize()), codes * scale, rtol=2**-6, atol=np.abs(numbers).max() / 100)


@pytest.mark.parametrize("name", CODES)
def test_rows_that_are_not_finite_become_nan(name):
    x = flambeau.ones(4, 8)
    x[1, 3], x[2, 0] = math.nan, math.inf
    found = quantize_per_row(x, CODES[name]).dequantize()
    assert found.isnan().all(1).tolist() == [False, True, True, False] and (found[[0, 3]] == 1).all()
    tiny = flambeau.full((1, 4), 1e-44)
    assert (quantize_per_row(tiny, CODES[name]).dequantize() <= 2e-44).all()
    assert quantize_per_row(flambeau.ones(2, 0), CODES[name]).shape == (2, 0)


CALLS = [  # heads, those of keys, queries, keys, widths of keys and values
    (2, 2, 1, 1, 8, 8),
    (4, 2, 1, 63, 64, 64),
    (4, 1, 1, 65, 80, 128),
    (2, 2, 3, 256, 17, 5),
    (6, 3, 5, 257, 33, 100),
    (1, 1, 2, 700, 128, 64),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_few_queries_read_codes(call, name, dtype):
    heads, own, length, keys, width, columns = call
    generator, kind = np.random.default_rng(1), getattr(flambeau, dtype)
    q = made(generator, 2, length, heads, width).to(kind).transpose(1, 2)
    k = quantize_per_row(made(generator, 2, own, keys, width).to(kind), CODES[name])
    v = quantize_per_row(made(generator, 2, own, keys, columns).to(kind), CODES[name])
    numbers = wide(q), *((wide(t.codes) * wide(t.scales)[..., None]) for t in (k, v))
    assert quantised.takes(q, k, v)
    given = {"enable_gqa": heads != own}
    found = F.scaled_dot_product_attention(q, k, v, **given)
    assert found.dtype is kind and type(found) is flambeau.Tensor
    close(found, attention(*numbers), FLOATS[dtype])
    close(
        F.scaled_dot_product_attention(q, k, v, scale=0.3, **given),
        attention(*numbers, factor=0.3),
        FLOATS[dtype],
    )
    close(
        F.scaled_dot_product_attention(q, k, v, is_causal=True, **given), attention(*numbers, causal=True),
        FLOATS[dtype],
    )  # fmt: skip
    allowed = generator.random((2, 1, length, keys)) < 0.7
    allowed[1, 0, 0] = False  # nothing is seen
    close(
        F.scaled_dot_product_attention(q, k, v, flambeau.tensor(allowed), **given),
        attention(*numbers, allowed), FLOATS[dtype],
    )  # fmt: skip
    added = made(generator, length, keys).to(kind)
    close(
        F.scaled_dot_product_attention(q, k, v, added, **given), attention(*numbers, wide(added)[None, None]),
        FLOATS[dtype],
    )  # fmt: skip


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_registers_of_other_processors(lanes, monkeypatch):
    if 4 * lanes > kernels.registers().bytes:
        pytest.skip("this processor has shorter registers")
    monkeypatch.setattr(
        quantised, "_kernel", lambda kind, codes: machine.address(kind(quantised.KINDS[codes], lanes))
    )
    generator = np.random.default_rng(2)
    q = made(generator, 1, 3, 1, 70)
    for dtype in CODES.values():
        k, v = (quantize_per_row(made(generator, 1, 3, 300, w), dtype) for w in (70, 37))
        numbers = (wide(q), *((wide(t.codes) * wide(t.scales)[..., None]) for t in (k, v)))
        close(F.scaled_dot_product_attention(q, k, v), attention(*numbers), 1e-6)


def test_bits_do_not_depend_on_threads():
    generator = np.random.default_rng(3)
    q = made(generator, 3, 4, 2, 64)
    k, v = (quantize_per_row(made(generator, 3, 2, 900, 64)) for _ in range(2))
    before = flambeau.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            flambeau.set_num_threads(threads)
            results.append(F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    finally:
        flambeau.set_num_threads(before)
    assert flambeau.equal(*results)


def test_what_codes_do_not_serve_is_computed_in_floats():
    generator = np.random.default_rng(4)
    k, v = (quantize_per_row(made(generator, 1, 2, 40, 16)) for _ in range(2))
    floats = k.dequantize(), v.dequantize()
    many = made(generator, 1, 2, 50, 16)
    assert not quantised.takes(many, k, v)
    assert flambeau.equal(
        F.scaled_dot_product_attention(many, k, v), F.scaled_dot_product_attention(many, *floats)
    )
    few = many[:, :, :1]
    mixed = F.scaled_dot_product_attention(few, k, floats[1])
    assert flambeau.equal(mixed, F.scaled_dot_product_attention(few, *floats))
    mask = made(generator, 1, 40).requires_grad_()
    F.scaled_dot_product_attention(few, k, v, mask).sum().backward()
    assert mask.grad is not None and mask.grad.abs().sum() > 0
    assert F.scaled_dot_product_attention(few[:0], k[:0], v[:0]).shape == (0, 2, 1, 16)
    with pytest.raises(RuntimeError, match="dtype"):
        F.scaled_dot_product_attention(few.half(), k, v)


def test_the_gradient_goes_to_queries():
    generator = np.random.default_rng(5)
    k, v = (quantize_per_row(made(generator, 2, 2, 70, 16)) for _ in range(2))
    q = made(generator, 2, 4, 2, 16).requires_grad_()
    mask = flambeau.tensor(generator.random((2, 1, 2, 70)) < 0.5)
    grad = made(generator, 2, 4, 2, 16)
    F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True).backward(grad)
    exact = q.detach().double().requires_grad_()
    F.scaled_dot_product_attention(
        exact, k.dequantize().double(), v.dequantize().double(), mask, enable_gqa=True
    ).backward(grad.double())
    assert flambeau.allclose(q.grad.double(), exact.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CODES)
def test_rows_are_written_behind_those_that_are_there(name):
    generator = np.random.default_rng(6)
    pieces = [made(generator, 2, 3, n, 16) for n in (5, 1, 1, 0, 70, 1)]
    with flambeau.no_grad():
        grown = quantize_per_row(pieces[0][:, :, :0], CODES[name])
        steps, storages = [], set()
        for piece in pieces:
            grown = flambeau.cat([grown, piece], dim=-2)
            steps.append(grown)
            storages.add(grown.codes.data_ptr())
        other = flambeau.cat([steps[1], pieces[4]], -2)  # a second time behind the same rows
    assert len(storages) < len(pieces)
    for n, step in enumerate(steps, 1):
        whole = quantize_per_row(flambeau.cat(pieces[:n], -2), CODES[name])
        assert flambeau.equal(step.codes.float(), whole.codes.float()) and flambeau.equal(
            step.scales, whole.scales
        )
    wanted = quantize_per_row(flambeau.cat([pieces[0], pieces[1], pieces[4]], -2), CODES[name])
    assert flambeau.equal(other.dequantize(), wanted.dequantize())
    recorded = flambeau.cat([steps[0], steps[0]], 2)  # with gradients on, nothing is written in place
    assert flambeau.equal(recorded.dequantize(), flambeau.cat([steps[0].dequantize()] * 2, 2))
    legacy = flambeau.cat([flambeau.tensor([]), steps[0]], -2)
    assert flambeau.equal(legacy.dequantize(), steps[0].dequantize())
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"), flambeau.no_grad():
        flambeau.cat([steps[0], pieces[0][:1]], -2)


def test_views_and_choices_are_of_the_same_kind():
    q = quantize_per_row(made(np.random.default_rng(7), 3, 2, 6, 8))
    x = q.dequantize()
    at = flambeau.tensor([2, 0])
    kept = [
        lambda t: t[:, :, :4],
        lambda t: t[..., :-1, :],
        lambda t: t[at, ...],
        lambda t: t[1],
        lambda t: t.index_select(0, at),
        lambda t: t.narrow(2, 1, 3),
        lambda t: t.repeat_interleave(2, dim=0),
        lambda t: t.repeat_interleave(2, 1),
        lambda t: t.transpose(1, 2),
        lambda t: t.split(2, dim=-2)[1],
        lambda t: t.select(1, 1),
        lambda t: t[:, :, -1:, :],
        lambda t: t.expand(3, 2, 6, 8),
        lambda t: t.reshape(6, 6, 8),
        lambda t: t.clone().contiguous().detach(),
    ]
    for n, function in enumerate(kept):
        found = function(q)
        assert type(found) is RowQuantizedTensor, n
        assert flambeau.equal(found.dequantize(), function(x)), n
    floats = [
        lambda t: t[..., :4],
        lambda t: t.transpose(2, 3),
        lambda t: t.index_select(-1, at),
        lambda t: t + 1,
        lambda t: t.flatten(),
        lambda t: t @ flambeau.ones(8, 2),
        lambda t: flambeau.cat([t, t], -1),
        lambda t: t.to(flambeau.float64),
        lambda t: t[t > 0],
    ]
    for n, function in enumerate(floats):
        found = function(q)
        assert type(found) is flambeau.Tensor and flambeau.equal(found, function(x)), n
    assert len(list(q)) == 3 and q.numel() == x.numel() and np.array_equal(q.numpy(), x.numpy())
    with pytest.raises(NotImplementedError, match=r"add_\(\): not available for tensors quantised by rows"):
        q.add_(1)
    with pytest.raises(NotImplementedError, match=r"add\(\): not available"):
        flambeau.add(x, 1, out=q)
    with pytest.raises(NotImplementedError, match=r"__setitem__\(\): not available"):
        q[0] = 1.0
    with pytest.raises(RuntimeError, match="has no gradient"):
        q.requires_grad_()


def test_files_and_copies():
    q = quantize_per_row(made(np.random.default_rng(8), 2, 5, 8))
    file = io.BytesIO()
    flambeau.save(q, file)
    file.seek(0)
    for same in (copy.deepcopy(q), flambeau.load(file, weights_only=False)):
        assert flambeau.equal(same.codes, q.codes) and flambeau.equal(same.scales, q.scales)
        assert same.dtype is q.dtype


@pytest.mark.parametrize(
    "given, error, text",
    [
        (
            (flambeau.ones(2, 2, dtype=flambeau.float64),),
            TypeError,
            "expected a float32, bfloat16 or float16 tensor",
        ),
        (([1.0],), TypeError, "got list"),
        ((flambeau.ones(2), flambeau.uint8), TypeError, "expected int8, float8_e4m3fn or float8_e5m2"),
        ((flambeau.tensor(1.0),), ValueError, "one dimension at least"),
    ],
)
def test_errors(given, error, text):
    with pytest.raises(error, match=rf"quantize_per_row\(\): .*{text}"):
        quantize_per_row(*given)


class Decoder(nn.Module):
    """Words to words: attention by groups of heads, and a cache that a list holds."""

    def __init__(self, words=50, width=64, heads=4, own=2, layers=2):
        super().__init__()
        self.heads, self.own = heads, own
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        each = width // heads
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.RMSNorm(width),
                    "q": nn.Linear(width, width),
                    "kv": nn.Linear(width, 2 * own * each),
                    "out": nn.Linear(width, width),
                    "mlp": nn.Sequential(
                        nn.RMSNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
                    ),
                }
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, words, cache, dtype=None):
        first = cache[0][0].shape[2] if cache else 0
        x = self.words(words) + self.places(flambeau.arange(first, first + words.shape[1]))
        for n, layer in enumerate(self.layers):
            h = layer["norm"](x)
            q = layer["q"](h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            k, v = layer["kv"](h).unflatten(-1, (2, self.own, -1)).permute(2, 0, 3, 1, 4)
            if len(cache) <= n:
                cache.append([t if dtype is None else quantize_per_row(t, dtype) for t in (k, v)])
            else:
                cache[n] = [flambeau.cat([old, new], dim=-2) for old, new in zip(cache[n], (k, v))]
            out = F.scaled_dot_product_attention(q, *cache[n], is_causal=words.shape[1] > 1, enable_gqa=True)
            x = x + layer["out"](out.transpose(1, 2).flatten(2))
            x = x + layer["mlp"](x)
        return self.head(x[:, -1])


@pytest.mark.parametrize("name, most", [("int8", 0.02), ("e4m3", 0.06), ("e5m2", 0.12)])
def test_a_decoder_with_a_cache_in_eight_bits(name, most):
    """Logits of a step after many differ by so much of their spread, and so few bytes are read."""
    flambeau.manual_seed(0)
    model = Decoder().eval()
    words = flambeau.tensor(np.random.default_rng(9).integers(0, 50, (3, 40)))
    with flambeau.no_grad():
        exact, coded = [], []
        logits = model(words, exact), model(words, coded, CODES[name])
        assert flambeau.allclose(*logits, rtol=1e-3, atol=most)
        for _ in range(20):  # both are given the words that the exact one writes
            following = logits[0].argmax(-1, keepdim=True)
            logits = model(following, exact), model(following, coded)
            assert (logits[0] - logits[1]).abs().max() < most * logits[0].std()
    for (k, v), (exact_k, _) in zip(coded, exact):
        assert type(k) is RowQuantizedTensor and k.shape == exact_k.shape == (3, 2, 60, 16)
        assert (k.nbytes + v.nbytes) / (2 * exact_k.nbytes) == (16 + 4) / 64
