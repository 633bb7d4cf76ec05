"""Functions of scores and masks, compiled into the kernels, against NumPy with all scores made."""

from __future__ import annotations

import doctest
import functools
import math
import warnings

import numpy as np
import pytest
from materialised import attention

import flambeau
from flambeau.nn.attention import flex_attention as flex
from flambeau.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from flambeau.nn.attention.varlen import varlen_attn

RNG = np.random.default_rng(0)
SIZES = {"B": 2, "H": 4, "L": 37, "S": 53, "E": 8, "V": 5}  # no multiples of a block or a vector


def draw(B=2, H=4, L=37, S=53, E=8, V=5, shared=None, dtype="float64"):
    shapes = ((B, H, L, E), (B, shared or H, S, E), (B, shared or H, S, V))
    return [RNG.standard_normal(s).astype(dtype) for s in shapes]


SLOPES, TABLE = RNG.random(4), RNG.standard_normal((4, 100))
BIAS = RNG.standard_normal((2, 4, 37, 53))
DOCUMENTS = np.sort(RNG.integers(0, 4, 60))
PREFIX = np.array([5, 20])

# name: score of (numpy or flambeau, captured), mask of the same, captured arrays
CASES = {
    "nothing": (None, None, ()),
    "relative": (lambda m: lambda s, b, h, q, k: s + (q - k), None, ()),
    "causal": (None, lambda m: lambda b, h, q, k: q >= k, ()),
    "sliding window": (None, lambda m: lambda b, h, q, k: (q >= k) & (q - k <= 9), ()),
    "alibi": (lambda m, slope: lambda s, b, h, q, k: s - slope[h] * abs(q - k), None, (SLOPES,)),
    "relative bias table": (lambda m, table: lambda s, b, h, q, k: s + table[h, q - k + 60], None, (TABLE,)),
    "bias of its own": (lambda m, bias: lambda s, b, h, q, k: s + bias[b, h, q, k], None, (BIAS,)),
    "chained index": (
        lambda m, bias: lambda s, b, h, q, k: s * (bias[b][h][q, k] if m is flambeau else bias),
        None,
        (BIAS,),
    ),
    "negative index": (lambda m, table: lambda s, b, h, q, k: s + table[h, -1 - k], None, (TABLE,)),
    "soft cap": (lambda m: lambda s, b, h, q, k: 2 * m.tanh(s / 2), lambda m: lambda b, h, q, k: q >= k, ()),
    "documents": (None, lambda m, doc: lambda b, h, q, k: doc[q] == doc[k], (DOCUMENTS,)),
    "prefix": (None, lambda m, prefix: lambda b, h, q, k: (k < prefix[b]) | (q >= k), (PREFIX,)),
    "by head": (None, lambda m: lambda b, h, q, k: k < 9 * h + b, ()),  # head 0 of batch 0 sees nothing
    "empty rows": (None, lambda m: lambda b, h, q, k: (q > 11) & (k < q), ()),
    "both": (
        lambda m, slope: lambda s, b, h, q, k: m.tanh(s) * slope[h] + q * 0.5,
        lambda m, slope: lambda b, h, q, k: ~((q < k) | (k % 5 == 1)),
        (SLOPES,),
    ),
    "where": (lambda m: lambda s, b, h, q, k: m.where(q >= k, s, -math.inf), None, ()),
    "a number": (lambda m, a: lambda s, b, h, q, k: s * a[()], None, (np.array(1.5),)),
}
CASES = {
    n: (c + (("B", "H"),) if n in ("prefix", "by head") else c + ((None, None),)) for n, c in CASES.items()
}


def functions(case, library, captured):
    score, mask, *_ = CASES[case]
    return (None if f is None else f(library, *captured) for f in (score, mask))


def run(case, arrays, block=16, shared=False, captured=None, **options):
    """What flex_attention gives on tensors of the arrays, and the tensors."""
    given = [x if isinstance(x, flambeau.Tensor) else flambeau.tensor(x) for x in arrays]
    if captured is None:
        captured = [flambeau.tensor(x) for x in CASES[case][2]]
    score, mask = functions(case, flambeau, captured)
    made = None
    if mask is not None:
        B, H = (given[0].shape[0], given[0].shape[1]) if CASES[case][3][0] else (None, None)
        made = create_block_mask(mask, B, H, given[0].shape[2], given[1].shape[2], BLOCK_SIZE=block)
    return flex_attention(*given, score, made, enable_gqa=shared, **options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("block", [16, (8, 32), 128])
def test_values(case, block):
    arrays = draw()
    aux = AuxRequest(lse=True, max_scores=True)
    out, (lse, top) = run(case, arrays, block, return_aux=aux)
    wanted = attention(*arrays, *functions(case, np, CASES[case][2]))
    for found, right in zip((out, lse, top), wanted):
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_gradients(case):
    """Of query, key, value and every captured number, through output and logarithm, by finite differences."""
    sizes = {"B": 2, "H": 4, "L": 3, "S": 4, "E": 2, "V": 1}
    tensors = [flambeau.tensor(x, requires_grad=True) for x in draw(**sizes)]
    captured = [flambeau.tensor(x) for x in CASES[case][2]]
    for c in captured:
        if c.is_floating_point():
            c.requires_grad_()
    moving = [c for c in captured if c.requires_grad and c.numel() < 200]

    def function(*given):
        q, k, v, *rest = given
        rest = iter(rest)
        found = [next(rest) if c.requires_grad and c.numel() < 200 else c for c in captured]
        out, aux = run(case, (q, k, v), 2, captured=found, return_aux=AuxRequest(lse=True))
        return out, aux.lse.clamp(min=-1e9) * (aux.lse > -1e9)

    assert flambeau.autograd.gradcheck(function, (*tensors, *moving))


def test_gradient_of_a_bias_of_every_score():
    arrays = draw()
    bias = flambeau.tensor(BIAS, requires_grad=True)
    query = flambeau.tensor(arrays[0], requires_grad=True)
    weight = flambeau.tensor(RNG.standard_normal((2, 4, 37, 5)))
    key, value = map(flambeau.tensor, arrays[1:])
    flex_attention(query, key, value, lambda s, b, h, q, k: s + bias[b, h, q, k]).mul(weight).sum().backward()
    grads = bias.grad.clone(), query.grad.clone()
    bias.grad = query.grad = None
    scores = query @ key.mT / math.sqrt(8) + bias
    (scores.softmax(-1) @ value).mul(weight).sum().backward()
    for found, wanted in zip(grads, (bias.grad, query.grad)):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-12)


@pytest.mark.parametrize("case", ["alibi", "causal", "by head", "both"])
def test_heads_are_shared(case):
    arrays = draw(shared=2)
    found = run(case, arrays, shared=True)
    wanted = attention(*arrays, *functions(case, np, CASES[case][2]))[0]
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-10)


def test_gradients_where_heads_are_shared():
    arrays = draw(B=1, L=4, S=5, E=2, V=3, shared=2)
    tensors = [flambeau.tensor(x, requires_grad=True) for x in arrays]
    slope = flambeau.tensor(SLOPES, requires_grad=True)
    call = lambda q, k, v, c: run("both", (q, k, v), 2, True, [c])
    assert flambeau.autograd.gradcheck(call, (*tensors, slope))


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float16", 2e-3), ("bfloat16", 2e-2)])
def test_dtypes(dtype, tolerance):
    """Scores are float32 for half types; the output is rounded once."""
    kind = getattr(flambeau, dtype)
    tensors = [flambeau.tensor(x).to(kind) for x in draw()]
    seen = []

    def score(s, b, h, q, k):
        seen.append((s.dtype, q.dtype, s.ndim, s.device))
        return s + (q - k) / 10

    out, aux = flex_attention(*tensors, score, return_aux=AuxRequest(lse=True))
    wanted = attention(*(x.double().numpy() for x in tensors), lambda s, b, h, q, k: s + (q - k) / 10)
    assert out.dtype is kind and aux.lse.dtype is flambeau.float32
    assert seen == [(flambeau.float32, flambeau.int32, 0, flambeau.device("cpu"))]
    np.testing.assert_allclose(out.double().numpy(), wanted[0], atol=tolerance)
    np.testing.assert_allclose(aux.lse.numpy(), wanted[1], atol=1e-4)


def test_layouts():
    """Transposed, expanded and cut operands give the bits of contiguous ones."""
    x = flambeau.tensor(draw(L=20, S=20, E=6, V=6)[0])
    for seen in (x.mT, x.transpose(1, 2), x[:, :1].expand(-1, 3, -1, -1), x[..., ::2], x[:, 1:, 3:17]):
        assert flex_attention(seen, seen, seen).equal(flex_attention(*[seen.contiguous()] * 3))


@pytest.mark.parametrize(
    "sizes", [{"B": 0}, {"H": 0}, {"L": 0}, {"S": 0}, {"E": 0}, {"V": 0}, {"B": 0, "S": 0}], ids=str
)
def test_nothing_in_a_dimension(sizes):
    sizes = SIZES | sizes
    tensors = [flambeau.tensor(x, requires_grad=True) for x in draw(**sizes)]
    out = flex_attention(*tensors, lambda s, b, h, q, k: s * 2)
    out.sum().backward()
    assert tuple(out.shape) == tuple(sizes[n] for n in "BHLV")
    assert [x.grad.shape for x in tensors] == [x.shape for x in tensors]
    if sizes["S"] == 0:
        assert out.count_nonzero() == 0


def test_a_second_call_sees_what_has_changed():
    arrays = draw()
    tensors = [flambeau.tensor(x) for x in arrays]
    table, factor = flambeau.tensor(SLOPES), 1.0

    def score(s, b, h, q, k):
        return s * factor + table[h] * k

    for values in (SLOPES, SLOPES[::-1].copy()):
        for factor in (1.0, 3.0):
            table = flambeau.tensor(values)
            wanted = attention(*arrays, lambda s, b, h, q, k, f=factor, v=values: s * f + v[h] * k)[0]
            np.testing.assert_allclose(flex_attention(*tensors, score).numpy(), wanted, atol=1e-10)
    table.mul_(2.0)
    wanted = attention(*arrays, lambda s, b, h, q, k: s * factor + 2 * SLOPES[::-1][h] * k)[0]
    np.testing.assert_allclose(flex_attention(*tensors, score).numpy(), wanted, atol=1e-10)


def test_the_same_program_is_compiled_once():
    from flambeau.operations.neural.attention import programs

    tensors = [flambeau.tensor(x) for x in draw()]
    make = lambda slope: lambda s, b, h, q, k: s - slope[h] * q
    flex_attention(*tensors, make(flambeau.tensor(SLOPES)))
    known = len(programs._known)
    flex_attention(*tensors, make(flambeau.tensor(SLOPES * 2)))
    assert len(programs._known) == known


def test_captured_numbers_that_were_overwritten_are_noticed():
    q = flambeau.ones(1, 4, 3, 2, requires_grad=True)
    slope = flambeau.tensor(SLOPES, dtype=flambeau.float32)
    out = flex_attention(q, q, q, lambda s, b, h, i, j: s * slope[h])
    slope.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_what_is_computed_from_captured_tensors_has_its_own_history():
    """Operations on captured tensors alone run as usual; their gradients go on."""
    q = flambeau.tensor(draw(L=4, S=4, E=2, V=2)[0])
    slope = flambeau.tensor(SLOPES, requires_grad=True)
    flex_attention(q, q, q, lambda s, b, h, i, j: s + slope.exp()[h] * j)[..., 0].sum().backward()
    found, slope.grad = slope.grad, None
    made = slope.exp().reshape(-1, 1, 1) * flambeau.arange(4)
    ((q @ q.mT / math.sqrt(2) + made).softmax(-1) @ q)[..., 0].sum().backward()
    np.testing.assert_allclose(found.numpy(), slope.grad.numpy(), atol=1e-12)


def test_detached_scores_have_no_gradient():
    q = flambeau.ones(1, 1, 2, 2, requires_grad=True)
    v = flambeau.tensor([[[[1.0], [2.0]]]])
    flex_attention(q, q.detach(), v, lambda s, b, h, i, j: s.detach() * j).sum().backward()
    assert q.grad.count_nonzero() == 0


def test_no_second_derivatives():
    q = flambeau.ones(1, 1, 2, 2, requires_grad=True)
    (grad,) = flambeau.autograd.grad(flex_attention(q, q, q).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="backward pass of flex_attention is not differentiable"):
        grad.sum().backward()


def test_no_forward_mode():
    q = flambeau.ones(1, 1, 2, 2)
    with pytest.raises(RuntimeError, match="backward pass of flex_attention is not differentiable"):
        flambeau.func.jvp(lambda x: flex_attention(x, x, x), (q,), (q,))


def test_numbers_on_another_device_are_brought_along():
    """A captured number of the CPU beside tensors without data."""
    q, a = flambeau.empty(1, 1, 2, 2, device="meta"), flambeau.tensor(2.0)
    assert flex_attention(q, q, q, lambda s, b, h, i, j: s * a).is_meta
    with pytest.raises(RuntimeError, match="on the same device.*on cpu and query on meta"):
        flex_attention(q, q, q, lambda s, b, h, i, j: s * flambeau.ones(3)[i])


def test_scale_and_old_return():
    arrays = draw()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        out, lse = flex_attention(*map(flambeau.tensor, arrays), scale=0.3, return_lse=True)
    assert [w.category for w in seen] == [FutureWarning]
    wanted = attention(*arrays, scale=0.3)
    np.testing.assert_allclose(out.numpy(), wanted[0], atol=1e-10)
    np.testing.assert_allclose(lse.numpy(), wanted[1], atol=1e-10)


def test_one_batch_of_keys_serves_all():
    q, k, v = draw()
    mask = create_block_mask(lambda b, h, i, j: j <= i + b, 2, None, 37, 53, BLOCK_SIZE=16)
    tensors = [flambeau.tensor(x, requires_grad=True) for x in (q, k[:1], v[:1])]
    out = flex_attention(*tensors, block_mask=mask)
    wanted = attention(q, k[:1].repeat(2, 0), v[:1].repeat(2, 0), None, lambda b, h, i, j: j <= i + b)[0]
    np.testing.assert_allclose(out.detach().numpy(), wanted, atol=1e-10)
    out.sum().backward()
    assert tensors[1].grad.shape == tensors[1].shape


def test_the_same_bits_for_any_number_of_threads():
    tensors = [flambeau.tensor(x, requires_grad=True) for x in draw(L=300, S=200, dtype="float32")]
    slope = flambeau.tensor(SLOPES, dtype=flambeau.float32, requires_grad=True)
    mask = create_block_mask(lambda b, h, q, k: q >= k - 30, None, None, 300, 200)
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            flambeau.set_num_threads(threads)
            out = flex_attention(*tensors, lambda s, b, h, q, k: s * slope[h] + q % 7, mask)
            found.append([out, *flambeau.autograd.grad(out.square().sum(), (*tensors, slope))])
    finally:
        flambeau.set_num_threads(before)
    for other in found[1:]:
        assert all(a.equal(b) for a, b in zip(found[0], other))


def test_scores_are_never_held_whole():
    """Forward and backward take less memory than one matrix of all scores; without a mask, and with a bias by place."""
    q = flambeau.ones(1, 2, 2048, 16, requires_grad=True)
    whole = 2 * 2048 * 2048 * 4
    table = flambeau.ones(2, 4096, requires_grad=True)
    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 2048, 2048)
    cases = [(None, None), (lambda s, b, h, i, j: s + table[h, i - j + 2048], causal)]
    for score, mask in cases:
        flex_attention(q, q, q, score, mask).sum().backward()
        flambeau.cpu.reset_peak_memory_stats()
        before = flambeau.cpu.memory_allocated()
        flex_attention(q, q, q, score, mask).sum().backward()
        assert flambeau.cpu.max_memory_allocated() - before < whole / 2


def test_blocks_that_are_left_out_are_not_computed(monkeypatch):
    """By the columns of all buffers: a window of 64 over 1024 keys takes under a fifth of them."""
    from flambeau.operations.neural.attention import blocked

    q = flambeau.ones(1, 1, 1024, 8)
    mask = create_block_mask(lambda b, h, i, j: abs(i - j) < 64, None, None, 1024, 1024, BLOCK_SIZE=64)
    seen = []
    made = blocked.Block.products
    monkeypatch.setattr(blocked.Block, "products", lambda *a: seen.append(found := made(*a)) or found)
    flex_attention(q, q, q, block_mask=mask)
    assert sum(x.numel() for x in seen) < 1024 * 1024 / 5


def test_meta():
    q = flambeau.empty(2, 3, 5, 4, device="meta", requires_grad=True)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 5, 5, device="meta")
    out, aux = flex_attention(q, q, q, lambda s, b, h, i, j: s + i, mask, return_aux=AuxRequest(lse=True))
    assert out.is_meta and out.shape == q.shape and aux.lse.shape == (2, 3, 5)


class Scaled:
    """A callable object, which is a function, too."""

    def __call__(self, score, b, h, q_idx, kv_idx):
        return score * 2


@pytest.mark.parametrize(
    "score",
    [Scaled(), functools.partial(lambda f, s, b, h, q, k: s * f, 2), lambda s, b, h, q, k, f=2: s * f],
    ids=["object", "partial", "default"],
)
def test_kinds_of_functions(score):
    arrays = draw()
    wanted = attention(*arrays, lambda s, b, h, q, k: s * 2)[0]
    np.testing.assert_allclose(
        flex_attention(*map(flambeau.tensor, arrays), score).numpy(), wanted, atol=1e-10
    )


# --- errors ------------------------------
X = flambeau.ones(2, 4, 6, 3)
MASK = create_block_mask(lambda b, h, q, k: q >= k, None, None, 6, 6)
LESS = {
    "dtype": (ValueError, lambda: flex_attention(X, X.double(), X), "same dtype.*float64"),
    "integers": (ValueError, lambda: flex_attention(X.int(), X.int(), X.int()), "floating-point.*int32"),
    "no tensor": (TypeError, lambda: flex_attention(X, 1, X), "'key' .*must be Tensor, not int"),
    "3-D": (NotImplementedError, lambda: flex_attention(X[0], X[0], X[0]), "4D"),
    "1-D": (ValueError, lambda: flex_attention(X[0, 0, 0], X, X), "at least 2 dimensional.*query.dim: 1"),
    "width": (ValueError, lambda: flex_attention(X, X[..., :2], X), "E=3 and E=2"),
    "heads": (ValueError, lambda: flex_attention(X, X[:, :2], X[:, :2]), "Hq=4 and Hkv=2.*enable_gqa"),
    "shared": (ValueError, lambda: flex_attention(X, X[:, :3], X[:, :3], enable_gqa=True), "multiple.*Hkv=3"),
    "lengths": (ValueError, lambda: flex_attention(X, X, X[:, :, :5]), r"\(2, 4, 6, 3\) and \(2, 4, 5, 3\)"),
    "batches": (ValueError, lambda: flex_attention(X, X[:1], X[:1]), "Bq=2, and Bkv=1"),
    "mask, longer": (ValueError, lambda: flex_attention(X[:, :, :5], X, X, None, MASK), "larger length"),
    "mask, shorter": (
        ValueError,
        lambda: flex_attention(flambeau.ones(2, 4, 7, 3), X, X, None, MASK),
        "q_len=7.*smaller length",
    ),
    "mask's heads": (
        ValueError,
        lambda: flex_attention(X, X, X, None, create_block_mask(lambda b, h, q, k: q > h, 1, 3, 6, 6)),
        "number of heads 3, expected 1 or the query's, 4",
    ),
    "no mask": (TypeError, lambda: flex_attention(X, X, X, None, X), "must be BlockMask, not Tensor"),
    "sliced": (RuntimeError, lambda: flex_attention(X, X, X, None, MASK[0]), "sliced BlockMask"),
    "no function": (TypeError, lambda: flex_attention(X, X, X, 3), "score_mod.*must be a function, not int"),
    "arguments": (
        TypeError,
        lambda: flex_attention(X, X, X, lambda s, b, h, q: s),
        "score_mod must take 5 positional arguments, got a function of 4",
    ),
    "mask's arguments": (AssertionError, lambda: create_block_mask(lambda q, k: q > k, 1, 1, 6, 6), "got 2"),
    "score for mask": (
        AssertionError,
        lambda: create_block_mask(lambda s, b, h, q, k: s, 1, 1, 6, 6),
        "requires a mask_mod",
    ),
    "backend": (ValueError, lambda: flex_attention(X, X, X, kernel_options={"BACKEND": "?"}), "BACKEND"),
    "no backend": (
        RuntimeError,
        lambda: flex_attention(X, X, X, kernel_options={"BACKEND": "FLASH"}),
        "'FLASH' is not available",
    ),
    "no option": (AssertionError, lambda: flex_attention(X, X, X, kernel_options={"X": 1}), "X is no kernel"),
    "both returns": (
        ValueError,
        lambda: flex_attention(X, X, X, return_lse=True, return_aux=AuxRequest()),
        "both",
    ),
    "captured, too short": (
        IndexError,
        lambda: flex_attention(X, X, X, lambda s, b, h, q, k: s * X[b, h, q, k]),
        r"index 5 is out of bounds for dimension 3 with size 3 of a captured tensor of shape \(2, 4, 6, 3\)",
    ),
    "captured, computed": (
        IndexError,
        lambda: flex_attention(X, X, X, lambda s, b, h, q, k: s * X[b, h, q, k + q]),
        r"flex_attention\(\): an index into a captured tensor is out of bounds",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LESS)
def test_errors(case):
    error, call, text = LESS[case]
    with pytest.raises(error, match=text) as caught:
        call()
    assert type(caught.value) is error


def test_masked_places_ask_nothing_of_captured_tensors():
    """A table for a window alone serves a window."""
    arrays = draw()
    table = RNG.standard_normal(10)
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 10), None, None, 37, 53, BLOCK_SIZE=16)
    made = flambeau.tensor(table, requires_grad=True)
    out = flex_attention(*map(flambeau.tensor, arrays), lambda s, b, h, q, k: s + made[q - k], mask)
    window = lambda b, h, q, k: (q >= k) & (q - k < 10)
    wanted = attention(*arrays, lambda s, b, h, q, k: s + table[np.clip(q - k, 0, 9)], window)[0]
    np.testing.assert_allclose(out.detach().numpy(), wanted, atol=1e-10)
    out.sum().backward()
    assert bool(made.grad.isfinite().all())


class Names(flambeau.overrides.Mode):
    """Writes down what is called."""

    def __init__(self):
        self.seen = []

    def handle(self, operation, types, args, kwargs):
        self.seen.append(operation.__name__)
        return operation(*args, **kwargs)


@pytest.mark.parametrize("upper", [True, False])
def test_modes_see_one_call(upper):
    x = flambeau.ones(1, 2, 4, 3)
    ends = flambeau.tensor([0, 2])
    mode = type("Level", (Names,), {"upper": upper})()
    with mode:
        flex_attention(x, x, x, lambda s, b, h, q, k: s + x[b, h, q, 0])
        varlen_attn(x[0], x[0], x[0], ends, ends, 2, 2)
    assert [n for n in mode.seen if n != "__getitem__"] == ["flex_attention", "varlen_attn"]


@pytest.mark.parametrize("op", [flex_attention, varlen_attn], ids=lambda op: op.__name__)
def test_examples(op):
    """Operations are objects, which doctest does not look into."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(doctest.DocTestParser().get_doctest(op.__doc__, {}, op.__name__, None, 0))
    assert runner.tries > 2 and runner.failures == 0


def test_all_names_are_here():
    assert all(hasattr(flex, name) for name in flex.__all__)
