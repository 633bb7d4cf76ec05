"""Which way `scaled_dot_product_attention` is computed: all of them agree, and the choice is obeyed."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from materialised import attention

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel
from flambeau.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left
from flambeau.operations.neural.attention import attention as module

RNG = np.random.default_rng(0)
FLASH, MATH = SDPBackend.FLASH_ATTENTION, SDPBackend.MATH


def draw(*shape):
    return flambeau.tensor(RNG.standard_normal(shape), requires_grad=True)


def both(*inputs, **options):
    """Output and gradients by each backend."""
    found = []
    for backend in (MATH, FLASH):
        leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(*leaves, **options)
        weight = flambeau.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
        grads = flambeau.autograd.grad((out * weight).sum(), [x for x in leaves if x.requires_grad])
        found.append([out.detach(), *grads])
    return found


Q, K, V = draw(2, 4, 37, 8), draw(2, 4, 53, 8), draw(2, 4, 53, 5)
CASES = {
    "plain": ((Q, K, V), {}),
    "causal": ((Q, K, V), {"is_causal": True}),
    "causal, more queries": ((K, Q, Q), {"is_causal": True}),
    "lower right": ((Q, K, V), {"attn_mask": causal_lower_right(37, 53)}),
    "upper left": ((Q, K, V), {"attn_mask": causal_upper_left(37, 53)}),
    "bools": ((Q, K, V, flambeau.tensor(RNG.random((37, 53)) < 0.1)), {}),
    "bools of a batch": ((Q, K, V, flambeau.tensor(RNG.random((2, 1, 1, 53)) < 0.5)), {}),
    "bias": ((Q, K, V, draw(2, 4, 37, 53)), {}),
    "bias of keys": ((Q, K, V, draw(53)), {}),
    "bias of queries": ((Q, K, V, draw(4, 37, 1)), {}),
    "shared heads": ((Q, K[:, :2], V[:, :2]), {"enable_gqa": True, "is_causal": True}),
    "one head": ((Q, K[:, :1], V[:, :1]), {"enable_gqa": True}),
    "no keys": ((Q, K[:, :, :0], V[:, :, :0]), {}),
    "no queries": ((Q[:, :, :0], K, V), {}),
    "scaled": ((Q, K, V), {"scale": 0.1}),
    "transposed": (tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (Q, K, V)), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_backends_agree(case):
    inputs, options = CASES[case]
    whole, blocks = both(*inputs, **options)
    for a, b in zip(whole, blocks):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_backends_round_alike(dtype):
    inputs = [x.detach().to(getattr(flambeau, dtype)) for x in (Q, K, V)]
    whole, blocks = both(*inputs)
    assert all(a.dtype is b.dtype is inputs[0].dtype for a, b in zip(whole, blocks))
    np.testing.assert_allclose(whole[0].double().numpy(), blocks[0].double().numpy(), atol=1e-2)


def test_second_derivatives_in_blocks():
    given = [x[:1, :1, :4].detach().requires_grad_() for x in (Q, K, V)]
    mask = draw(1, 1, 4, 4)
    with sdpa_kernel(FLASH):
        call = lambda *x: F.scaled_dot_product_attention(*x)
        assert flambeau.autograd.gradgradcheck(call, (*given, mask))
        causal = lambda *x: F.scaled_dot_product_attention(*x, is_causal=True)
        assert flambeau.autograd.gradgradcheck(causal, tuple(given))


def test_gradients_of_a_mask_under_dropout():
    """The numbers belong to a seed: the function is the same every time, and so are its derivatives."""
    given = [x[:1, :1, :4].detach().requires_grad_() for x in (Q, K, V)]
    mask = draw(1, 1, 4, 4)

    def call(*x):
        flambeau.manual_seed(5)
        return F.scaled_dot_product_attention(*x, dropout_p=0.5)

    with sdpa_kernel(FLASH):
        assert flambeau.autograd.gradcheck(call, (*given, mask))
        assert flambeau.autograd.gradgradcheck(call, (*given, mask))


@pytest.mark.parametrize("options", [{}, {"is_causal": True}])
def test_forward_mode_in_blocks(options):
    given = tuple(x.detach() for x in (Q, K, V))
    tangents = tuple(flambeau.ones_like(x) for x in given)
    call = lambda *x: F.scaled_dot_product_attention(*x, **options)
    found = []
    for backend in (MATH, FLASH):
        with sdpa_kernel(backend):
            found.append(flambeau.func.jvp(call, given, tangents))
    for a, b in zip(*found):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


REFUSED = {
    "dimensions": ((Q[0], K[0], V[0]), {}, "4 dimensions, got 3, 3 and 3"),
    "dropout": (tuple(x.detach().to("meta") for x in (Q, K, V)), {"dropout_p": 0.5}, "dropout_p is 0.5"),
    "heads": ((Q, K[:, :1], V[:, :1]), {}, "as many heads"),
    "batches": ((Q, K[:1], V[:1]), {}, "equal batches"),
    "mask": ((Q, K, V, flambeau.ones(1, 2, 4, 37, 53, dtype=flambeau.bool)), {}, "broadcasts to"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_blocks_refuse_what_they_cannot(case):
    inputs, options, text = REFUSED[case]
    inputs = [x.detach() for x in inputs]
    with sdpa_kernel(FLASH), pytest.raises(RuntimeError, match=f"No available kernel.*{text}"):
        F.scaled_dot_product_attention(*inputs, **options)
    with sdpa_kernel([FLASH, MATH]):
        assert F.scaled_dot_product_attention(*inputs, **options).shape[-1] == 5


@pytest.mark.parametrize(
    "chosen",
    [[], SDPBackend.CUDNN_ATTENTION, [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.OVERRIDEABLE]],
    ids=str,
)
def test_what_is_not_here_serves_nothing(chosen):
    with sdpa_kernel(chosen), pytest.raises(RuntimeError, match="No available kernel"):
        F.scaled_dot_product_attention(Q, K, V)


def test_the_choice_is_nested_and_restored():
    names = lambda backends: [b.name for b in backends]
    every = names(_cur_sdpa_kernel_backends())
    assert every == ["CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "OVERRIDEABLE"]
    with sdpa_kernel([MATH, FLASH], set_priority=True):
        assert names(_cur_sdpa_kernel_backends(True)) == ["MATH", "FLASH_ATTENTION"]
        with pytest.raises(ZeroDivisionError), sdpa_kernel(FLASH):
            assert names(_cur_sdpa_kernel_backends(True)) == ["FLASH_ATTENTION"]
            raise ZeroDivisionError
        assert names(_cur_sdpa_kernel_backends(True)) == ["MATH", "FLASH_ATTENTION"]
    assert names(_cur_sdpa_kernel_backends()) == every
    assert names(_cur_sdpa_kernel_backends(True))[0] == "FLASH_ATTENTION"
    for wrong in ("math", (MATH,), 0):
        with pytest.raises(AssertionError, match="Backend must be"), sdpa_kernel(wrong):
            raise ZeroDivisionError


def taken(monkeypatch, call):
    """Which backend computed it."""
    seen = []
    for where, attribute, name in ((module.all_scores, "attend", "all_scores"), (module, "_flash", "_flash")):
        made = getattr(where, attribute)
        monkeypatch.setattr(where, attribute, lambda *a, f=made, n=name: seen.append(n) or f(*a))
    call()
    return seen


def test_priority_decides(monkeypatch):
    def call():
        for order in ([MATH, FLASH], [FLASH, MATH]):
            with sdpa_kernel(order, set_priority=True):
                F.scaled_dot_product_attention(Q, K, V)

    assert taken(monkeypatch, call) == ["all_scores", "_flash"]


def test_what_is_taken_by_default(monkeypatch):
    """All scores at once where they are few."""
    call = lambda: [
        F.scaled_dot_product_attention(x, x, x) for x in (flambeau.ones(1, 4, n, 4) for n in (3, 300))
    ]
    assert taken(monkeypatch, call) == ["all_scores", "_flash"]


@pytest.mark.parametrize("mask", [None, (40, 50), (600, 40, 50), (600, 1, 50)])
def test_three_dimensions_are_heads_of_one_example(mask):
    """(N, L, E) as (1, N, L, E): the same numbers, and never all scores."""
    q, k, v = (flambeau.randn(600, n, 8, requires_grad=True) for n in (40, 50, 50))
    given = None if mask is None else flambeau.rand(mask) > 0.3
    found = F.scaled_dot_product_attention(q, k, v, given)
    grads = flambeau.autograd.grad(found.sin().sum(), (q, k, v))
    with sdpa_kernel(MATH):
        wanted = F.scaled_dot_product_attention(q, k, v, given)
        others = flambeau.autograd.grad(wanted.sin().sum(), (q, k, v))
    assert found.shape == wanted.shape
    for a, b in zip((found, *grads), (wanted, *others)):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-5)


def test_many_scores_are_not_held(monkeypatch):
    """Memory stays far below all scores."""
    x = flambeau.ones(1, 1, 5800, 4)
    flambeau.cpu.reset_peak_memory_stats()
    before = flambeau.cpu.memory_allocated()
    F.scaled_dot_product_attention(x, x, x)
    assert flambeau.cpu.max_memory_allocated() - before < 5800 * 5800


def test_backends_are_an_enum():
    assert [(b.name, int(b)) for b in SDPBackend] == [
        ("ERROR", -1),
        ("MATH", 0),
        ("FLASH_ATTENTION", 1),
        ("EFFICIENT_ATTENTION", 2),
        ("CUDNN_ATTENTION", 3),
        ("OVERRIDEABLE", 4),
    ]
    assert pickle.loads(pickle.dumps(MATH)) is MATH


# --- causal biases ------------------------------
@pytest.mark.parametrize("backend", [MATH, FLASH])
@pytest.mark.parametrize("make", [causal_upper_left, causal_lower_right])
@pytest.mark.parametrize("lengths", [(37, 53), (53, 37), (9, 9), (130, 300)])
@pytest.mark.filterwarnings("ignore:Lower right")
def test_causal_biases(backend, make, lengths):
    L, S = lengths
    q, k, v = (RNG.standard_normal((1, 2, n, 4)) for n in (L, S, S))
    shift = S - L if make is causal_lower_right else 0
    with sdpa_kernel(backend):
        found = F.scaled_dot_product_attention(*map(flambeau.tensor, (q, k, v)), make(L, S))
    wanted = attention(q, k, v, None, lambda b, h, i, j: j <= i + shift)[0]
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)
    np.testing.assert_array_equal(make(L, S)._materialize().numpy(), np.tri(L, S, shift, dtype=bool))


def test_a_causal_bias_is_a_tensor_that_holds_nothing():
    made = causal_lower_right(2000, 3000)
    assert isinstance(made, flambeau.Tensor) and made.numel() == 0
    assert (made.variant, made.seq_len_q, made.seq_len_kv) == (CausalVariant.LOWER_RIGHT, 2000, 3000)
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(other) is CausalBias and other.seq_len_kv == 3000
    assert repr(causal_upper_left(2, 2)) == "tensor([[ True, False],\n        [ True,  True]])"


def test_errors_of_causal_biases():
    with pytest.raises(ValueError, match="is_causal"):
        F.scaled_dot_product_attention(Q, K, V, causal_lower_right(37, 53), is_causal=True)
    with pytest.raises(
        RuntimeError, match=r"for lengths \(3, 4\), but query and key have lengths \(37, 53\)"
    ):
        F.scaled_dot_product_attention(Q, K, V, causal_lower_right(3, 4))
    with pytest.raises(AssertionError, match="2D"):
        causal_upper_left(3)
    with pytest.raises(AssertionError, match="CausalVariant, got int"):
        CausalBias(1, 2, 3)
    with pytest.warns(UserWarning, match="first queries without keys"):
        causal_lower_right(4, 2)


def test_errors_of_shared_heads():
    with pytest.raises(RuntimeError, match="must divide the query's, 4"):
        F.scaled_dot_product_attention(Q, K[:, :3], V[:, :3], enable_gqa=True)
    with pytest.raises(IndexError, match="Dimension out of range"):
        F.scaled_dot_product_attention(Q[0, 0], K[0, 0], V[0, 0], enable_gqa=True)
    with pytest.raises(RuntimeError, match="must divide the query's, 4"):
        F.scaled_dot_product_attention(Q, K[:, :0], V[:, :0], enable_gqa=True)


def test_width_zero():
    x = flambeau.zeros(1, 1, 3, 0)
    assert not math.isnan(F.scaled_dot_product_attention(x, x, flambeau.ones(1, 1, 3, 2)).sum().item())
