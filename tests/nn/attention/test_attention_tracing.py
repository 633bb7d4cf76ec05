"""Every pointwise operation as a function of scores: traced, it is the kernel that the operation itself is, derivative included."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from flambeau.core.call.interceptors import has_interceptors

import flambeau
from flambeau.nn.attention.flex_attention import create_mask, flex_attention
from flambeau.operations.declare.registry import REGISTRY

POINTWISE = [
    e
    for e in REGISTRY.values()
    if e.kind == "pointwise" and e.places and "float64" in e.dtypes and e.places[0][0] != "_"
]


def through_scores(function, *arrays):
    """The function of the scores `arrays[0]`, and of captured arrays of one value for each; and the gradient of each.

    One key alone: the logarithm of the sum of exponentials is the score itself.
    """
    n = arrays[0].size
    query = flambeau.tensor(arrays[0].reshape(1, 1, n, 1), requires_grad=True)
    captured = [flambeau.tensor(x.reshape(-1), requires_grad=x.dtype.kind == "f") for x in arrays[1:]]
    one = flambeau.ones(1, 1, 1, 1, dtype=query.dtype)
    score = lambda s, b, h, q, k: function(s, *[c[q] for c in captured])
    aux = flambeau.nn.attention.flex_attention.AuxRequest(lse=True)
    _, found = flex_attention(query, one, one, score, scale=1.0, return_aux=aux)
    return found.lse.reshape(-1), [query, *captured]


@pytest.mark.parametrize("entry", POINTWISE, ids=lambda e: e.name)
def test_pointwise(entry):
    rng = np.random.default_rng(0)
    low, high = entry.domain
    arrays = []
    for name in entry.details["operands"]:
        x = rng.uniform(low, high, 11)
        arrays.append(x > (low + high) / 2 if name in ("condition", "mask") else x)
    first = next(k for k, x in enumerate(arrays) if x.dtype.kind == "f")
    order = [first, *(k for k in range(len(arrays)) if k != first)]

    def function(*given):
        placed = dict(zip(order, given))
        found = entry.function(*[placed[k] for k in range(len(given))])
        return found[0] if isinstance(found, tuple) else found

    operands = [flambeau.tensor(arrays[k], requires_grad=arrays[k].dtype.kind == "f") for k in order]
    wanted = function(*operands)
    if wanted.is_complex():
        with pytest.raises(RuntimeError, match="complex"):
            through_scores(function, *[arrays[k] for k in order])
        return
    found, inputs = through_scores(function, *[arrays[k] for k in order])
    wide = wanted.to(flambeau.float64).detach()
    seen = ~(wide.isnan() | wide.isinf())
    np.testing.assert_allclose(found.detach()[seen].numpy(), wide[seen].numpy(), rtol=1e-12, atol=1e-12)
    if not wanted.requires_grad or not bool(seen.all()):
        return
    grads = flambeau.autograd.grad(found.sum(), [x for x in inputs if x.requires_grad])
    right = flambeau.autograd.grad(
        wanted.sum(), [x for x in operands if x.requires_grad], allow_unused=True, materialize_grads=True
    )
    for a, b in zip(grads, right):
        np.testing.assert_allclose(a.numpy().reshape(-1), b.numpy(), rtol=1e-9, atol=1e-9)


F = flambeau.nn.functional
COMPOSITES = {
    "where, numbers": lambda s: flambeau.where(s > 0, 1.0, s),
    "where, a number made here": lambda s: flambeau.where(s > 0, s, flambeau.tensor(-2.0)),
    "clamp": lambda s: s.clamp(-0.5, 0.5),
    "clip, a tensor": lambda s: flambeau.clamp(s, min=flambeau.tensor(0.25)),
    "gelu": lambda s: F.gelu(s),
    "silu": lambda s: F.silu(s),
    "hardtanh": lambda s: F.hardtanh(s),
    "power": lambda s: s**2 + s.abs() ** 1.5,
    "rounded quotient": lambda s: flambeau.div(s, 0.3, rounding_mode="floor"),
    "remainder": lambda s: s % 0.3,
    "reflected": lambda s: 1 - s / 2 + 2 * (1 / (s.abs() + 1)),
    "masked_fill": lambda s: s.masked_fill(s > 0.5, 0.5),
    "conversion": lambda s: s.float().to(flambeau.float64),
    "as another": lambda s: (s > 0).type_as(s),
    "filled": lambda s: s + flambeau.full_like(s, 2.0) + s.new_tensor(3.0) + flambeau.ones_like(s),
    "logic": lambda s: (((s > 0) & ~(s > 1)) | (s < -1) ^ (s != s)).to(s.dtype),
    "alpha": lambda s: flambeau.add(s, s, alpha=3),
    "by name": lambda s: flambeau.sub(input=s, other=flambeau.exp(input=s)),
    "in place": lambda s: s.clone().add_(1).mul_(2),
    "nothing": lambda s: s.contiguous().clone(),
    "constant": lambda s: 3.0,
}


@pytest.mark.parametrize("case", COMPOSITES)
def test_composites(case):
    """Operations made of others, conversions and constants."""
    x = np.random.default_rng(0).standard_normal(23)
    wanted = COMPOSITES[case](flambeau.tensor(x))
    wanted = np.broadcast_to(np.asarray(wanted, np.float64), x.shape)
    found, _ = through_scores(COMPOSITES[case], x)
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-6 if case == "conversion" else 1e-12)


def test_augmented_assignment():
    def score(s):
        s += 1
        s *= 2
        return s

    x = np.arange(5.0)
    np.testing.assert_allclose(through_scores(score, x)[0].detach().numpy(), (x + 1) * 2)


def test_places_are_integers():
    """Quotients of places are floating point, floors and remainders whole, bits can be shifted."""
    kinds = []

    def score(s, b, h, q, k):
        kinds.extend(x.dtype for x in (q / 2, q // 2, q % 3, q << 1, q > k, q * 1.5, q.float(), q.long()))
        return s + (q // 3) * 100 + (q % 3) * 10 + ((k - q) % 3) + (q << 1) * 1000

    found = create_mask(
        lambda s, b, h, q, k: flambeau.where(score(s, b, h, q, k) > 3021, 0.0, -math.inf), 1, 1, 7, 5
    )
    q, k = np.ogrid[:7, :5]
    np.testing.assert_array_equal(
        found[0, 0].numpy(), (q // 3) * 100 + (q % 3) * 10 + ((k - q) % 3) + (q << 1) * 1000 > 3021
    )
    names = [str(kind).removeprefix("flambeau.") for kind in kinds]
    assert names == ["float32", "int32", "int32", "int32", "bool", "float32", "float32", "int64"]


TABLE = flambeau.ones(4, 6)
REFUSED = {
    "if": (RuntimeError, lambda s, b, h, q, k: s if q > k else -s, "score_mod: bool()"),
    "and": (RuntimeError, lambda s, b, h, q, k: s * (q > k and h > 1), "torch.where"),
    "item": (RuntimeError, lambda s, b, h, q, k: s * h.item(), "score_mod: item()"),
    "float": (RuntimeError, lambda s, b, h, q, k: math.exp(s), "score_mod: float()"),
    "int": (RuntimeError, lambda s, b, h, q, k: s * int(h), "score_mod: int()"),
    "list": (RuntimeError, lambda s, b, h, q, k: s * [1, 2][h], "score_mod: an index of a list"),
    "numpy": (RuntimeError, lambda s, b, h, q, k: np.exp(s), "score_mod: "),
    "iteration": (RuntimeError, lambda s, b, h, q, k: [*s][0], "score_mod: iteration"),
    "sum": (RuntimeError, lambda s, b, h, q, k: s.sum(), "the operation sum"),
    "softmax": (RuntimeError, lambda s, b, h, q, k: s.softmax(0), "the operation softmax"),
    "matmul": (RuntimeError, lambda s, b, h, q, k: TABLE @ s, "the operation matmul"),
    "random": (RuntimeError, lambda s, b, h, q, k: s * flambeau.rand_like(s), "the operation rand_like"),
    "stack": (RuntimeError, lambda s, b, h, q, k: flambeau.stack([s, s]), "the operation stack"),
    "a whole tensor": (RuntimeError, lambda s, b, h, q, k: s + TABLE, r"add with a tensor of shape \(4, 6\)"),
    "a part": (RuntimeError, lambda s, b, h, q, k: s + TABLE[h], r"add with a tensor of shape \(6,\)"),
    "a slice": (RuntimeError, lambda s, b, h, q, k: TABLE[h, :][q], "indexing with slice"),
    "many indices": (IndexError, lambda s, b, h, q, k: TABLE[h, q, k], "dimension 2: 3"),
    "an index of a score": (IndexError, lambda s, b, h, q, k: s[q], "dimension 0"),
    "a real index": (
        IndexError,
        lambda s, b, h, q, k: TABLE[h, s],
        "integer type here, got flambeau.float32",
    ),
    "a bool index": (
        IndexError,
        lambda s, b, h, q, k: TABLE[h, q > k],
        "integer type here, got flambeau.bool",
    ),
    "a large index": (IndexError, lambda s, b, h, q, k: TABLE[h, 9], "index 9 is out of bounds"),
    "complex": (RuntimeError, lambda s, b, h, q, k: s * 1j, "complex"),
    "a captured complex": (RuntimeError, lambda s, b, h, q, k: s * TABLE.cfloat()[h, q], "complex"),
    "a write": (RuntimeError, lambda s, b, h, q, k: TABLE.add_(s), "the write of add_"),
    "setitem": (RuntimeError, lambda s, b, h, q, k: TABLE.__setitem__(h, s), "__setitem__"),
    "no result": (RuntimeError, lambda s, b, h, q, k: None, "score_mod returned NoneType"),
    "a vector": (RuntimeError, lambda s, b, h, q, k: TABLE[0], r"returned a tensor of shape \(6,\)"),
    "its own error": (ZeroDivisionError, lambda s, b, h, q, k: s / 0 + 1 // 0, "zero"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_traced_is_named(case):
    error, score, text = REFUSED[case]
    x = flambeau.ones(1, 4, 6, 2)
    watched = has_interceptors()
    with pytest.raises(error, match=text):
        flex_attention(x, x, x, score)
    assert has_interceptors() == watched


def test_too_many_captured_tensors():
    x, many = flambeau.ones(1, 4, 6, 2), [flambeau.ones(4) for _ in range(10)]
    with pytest.raises(RuntimeError, match="read 10 tensors, at most 9"):
        flex_attention(x, x, x, lambda s, b, h, q, k: s + sum(c[h] for c in many))


def test_nobody_is_asked_for_it():
    """The classes that stand for scores and parts do not slow other calls down: in a process of its own, nothing is watched."""
    program = (
        "import flambeau\n"
        "from flambeau.nn.attention import bias, flex_attention\n"
        "from flambeau.core.call.interceptors import has_interceptors\n"
        "x = flambeau.ones(1, 1, 2, 2)\n"
        "flex_attention.flex_attention(x, x, x, lambda s, b, h, q, k: s + x[b][h][q, k])\n"
        "assert bias.causal_lower_right(2, 2) is not None and not has_interceptors()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
