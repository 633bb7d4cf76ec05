"""Sequences of different lengths in one tensor, each against NumPy alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from materialised import attention

import flambeau
from flambeau.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

RNG = np.random.default_rng(0)
QUERIES, KEYS = (
    [0, 3, 3, 150, 160],
    [0, 5, 9, 140, 150],
)  # one without queries; longer and shorter than its keys


def draw(queries=160, keys=150, heads=4, shared=4, width=8, values=6):
    return [
        RNG.standard_normal((n, h, w))
        for n, h, w in ((queries, heads, width), (keys, shared, width), (keys, shared, values))
    ]


def ends(values):
    return flambeau.tensor(values, dtype=flambeau.int32)


def one_by_one(q, k, v, window=(-1, -1), queries=QUERIES, keys=KEYS, last=None, scale=None):
    """Each sequence alone; the last query stands at the last key."""
    out, lse = np.zeros((*q.shape[:2], v.shape[2])), np.full((q.shape[1], q.shape[0]), -math.inf)
    for n, (q0, q1, k0) in enumerate(zip(queries, queries[1:], keys)):
        k1 = keys[n + 1] if last is None else last[n]
        shift = (k1 - k0) - (q1 - q0)
        left, right = (math.inf if w < 0 else w for w in window)
        mask = lambda b, h, i, j, s=shift, lo=left, hi=right: (j >= i + s - lo) & (j <= i + s + hi)
        parts = [x.swapaxes(0, 1)[None] for x in (q[q0:q1], k[k0:k1], v[k0:k1])]
        found = attention(*parts, None, mask, scale)
        out[q0:q1], lse[:, q0:q1] = found[0][0].swapaxes(0, 1), found[1][0]
    return out, lse


WINDOWS = [(-1, -1), (-1, 0), (7, 0), (0, 0), (3, 5), (-1, 4), (200, -1)]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("shared", [4, 2])
def test_values(window, shared):
    arrays = draw(shared=shared)
    found, lse = varlen_attn(
        *map(flambeau.tensor, arrays),
        ends(QUERIES),
        ends(KEYS),
        200,
        200,
        window_size=window,
        enable_gqa=shared != 4,
        return_aux=AuxRequest(lse=True),
    )
    wanted = one_by_one(*arrays, window)
    np.testing.assert_allclose(found.numpy(), wanted[0], atol=1e-12)
    np.testing.assert_allclose(lse.numpy(), wanted[1], atol=1e-12)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (1, 1)])
def test_gradients(window):
    given = [flambeau.tensor(x, requires_grad=True) for x in draw(6, 7, 2, 1, 2, 2)]
    call = lambda *x: varlen_attn(
        *x, ends([0, 2, 6]), ends([0, 4, 7]), 4, 4, window_size=window, enable_gqa=True
    )
    assert flambeau.autograd.gradcheck(call, tuple(given))


def test_a_sequence_does_not_depend_on_the_others():
    arrays = [flambeau.tensor(x).float() for x in draw()]
    q, k, v = arrays
    whole = varlen_attn(*arrays, ends(QUERIES), ends(KEYS), 200, 200, window_size=(-1, 0))
    for q0, q1, k0, k1 in zip(QUERIES, QUERIES[1:], KEYS, KEYS[1:]):
        alone = varlen_attn(
            q[q0:q1],
            k[k0:k1],
            v[k0:k1],
            ends([0, q1 - q0]),
            ends([0, k1 - k0]),
            200,
            200,
            window_size=(-1, 0),
        )
        np.testing.assert_allclose(whole[q0:q1].numpy(), alone.numpy(), atol=1e-6)


def test_queries_of_no_sequence_give_zero():
    q, k, v = map(flambeau.tensor, draw())
    out = varlen_attn(q, k, v, ends([0, 100]), ends([0, 150]), 100, 150)
    assert out[100:].count_nonzero() == 0 and out[:100].count_nonzero() == out[:100].numel()


def test_parts_of_the_keys():
    arrays = draw()
    used = [2, 0, 100, 10]
    found = varlen_attn(
        *map(flambeau.tensor, arrays),
        ends(QUERIES),
        ends(KEYS),
        200,
        200,
        window_size=(-1, 0),
        seqused_k=ends(used),
        scale=0.2,
    )
    last = [k + n for k, n in zip(KEYS, used)]
    np.testing.assert_allclose(
        found.numpy(), one_by_one(*arrays, (-1, 0), last=last, scale=0.2)[0], atol=1e-12
    )


def test_pages():
    """Keys in pages, in any order, are the keys one after another."""
    q, k, v = draw()
    used, size = [b - a for a, b in zip(KEYS, KEYS[1:])], 4
    pages = [-(-n // size) for n in used]
    order = RNG.permutation(sum(pages) + 3)
    table = np.full((4, max(pages)), 0)
    held = [np.full((len(order), size, *x.shape[1:]), 9.0) for x in (k, v)]
    at = 0
    for n, count in enumerate(pages):
        for p in range(count):
            table[n, p] = order[at]
            first = KEYS[n] + p * size
            last = min(first + size, KEYS[n + 1])
            for pool, x in zip(held, (k, v)):
                pool[order[at], : last - first] = x[first:last]
            at += 1
    found = varlen_attn(
        flambeau.tensor(q),
        *map(flambeau.tensor, held),
        ends(QUERIES),
        None,
        200,
        200,
        seqused_k=ends(used),
        block_table=ends(table),
    )
    np.testing.assert_allclose(found.numpy(), one_by_one(q, k, v)[0], atol=1e-12)


def test_into_a_tensor():
    arrays = [flambeau.tensor(x) for x in draw()]
    given = (*arrays, ends(QUERIES), ends(KEYS), 200, 200)
    out = flambeau.empty(160, 4, 6, dtype=flambeau.float64)
    assert varlen_attn_out(out, *given) is out and out.equal(varlen_attn(*given))
    same, lse = varlen_attn_out(out, *given, return_aux=AuxRequest(lse=True))
    assert same is out and lse.shape == (4, 160)
    with pytest.raises(ValueError, match=r"out of shape \(160, 4, 6\)"):
        varlen_attn_out(out[:5], *given)
    with pytest.raises(RuntimeError, match="out=.*automatic differentiation"):
        varlen_attn_out(out, arrays[0].detach().requires_grad_(), *given[1:])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dtypes(dtype):
    tensors = [flambeau.tensor(x).to(getattr(flambeau, dtype)) for x in draw()]
    found = varlen_attn(*tensors, ends(QUERIES), ends(KEYS), 200, 200)
    assert found.dtype is tensors[0].dtype and found.is_contiguous()
    wanted = one_by_one(*(x.double().numpy() for x in tensors))[0]
    np.testing.assert_allclose(found.double().numpy(), wanted, atol=2e-2)


def call(q=(6, 4, 2), k=(6, 2, 2), v=None, cq=(0, 6), ck=(0, 6), most=6, dtype=flambeau.float32, **options):
    tensors = [flambeau.ones(s, dtype=dtype) for s in (q, k, v or k)]
    options = {"enable_gqa": True} | options
    ck = None if ck is None else ends(ck)
    return varlen_attn(*tensors, ends(cq), ck, most, most, **options)


ERRORS = {
    "heads": (ValueError, {"enable_gqa": False}, "Hq=4 and Hkv=2.*enable_gqa"),
    "shared": (ValueError, {"k": (6, 3, 2)}, "multiple of kv heads.*Hkv=3"),
    "dimensions": (ValueError, {"q": (1, 6, 4, 2)}, "query of 3 dimensions.*got 4"),
    "width": (ValueError, {"k": (6, 2, 3)}, "as wide as key"),
    "values": (ValueError, {"v": (5, 2, 2)}, "equal lengths"),
    "dtype": (ValueError, {"dtype": flambeau.int64}, "floating-point.*int64"),
    "window": (ValueError, {"window_size": (1, 2, 3)}, "length 2, got 3"),
    "falling": (ValueError, {"cq": (0, 4, 2)}, "cu_seq_q to rise"),
    "beyond": (ValueError, {"ck": (0, 7)}, "cu_seq_k to rise from 0 to at most 6"),
    "first": (ValueError, {"cq": (1, 6)}, "cu_seq_q to rise from 0"),
    "longest": (ValueError, {"most": 5}, "max_q is 5.*length 6"),
    "counts": (ValueError, {"ck": (0, 3, 6)}, "cu_seq_q has 1 sequences, cu_seq_k 2"),
    "no ends": (ValueError, {"ck": None}, "cu_seq_k is None"),
    "used": (ValueError, {"seqused_k": ends([7])}, "seqused_k must lie"),
    "used, count": (ValueError, {"seqused_k": ends([1, 2])}, r"seqused_k of shape \(1,\)"),
    "pages alone": (ValueError, {"k": (2, 3, 2, 2), "block_table": ends([[0, 1]])}, "needs seqused_k"),
    "no page": (
        ValueError,
        {"k": (2, 3, 2, 2), "block_table": ends([[0, 5]]), "seqused_k": ends([6])},
        r"pages \[0, 5\] of 2",
    ),
    "pages, count": (
        ValueError,
        {"k": (2, 3, 2, 2), "block_table": ends([[0], [1]]), "seqused_k": ends([3])},
        "block_table of shape",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    error, options, text = ERRORS[case]
    with pytest.raises(error, match=text):
        call(**options)


def test_pages_are_for_inference():
    x = flambeau.ones(6, 2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="seqused_k is an inference-only parameter"):
        varlen_attn(x, x, x, ends([0, 6]), ends([0, 6]), 6, 6, seqused_k=ends([3]))
