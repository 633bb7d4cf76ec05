"""Context parallel attention: results and gradients of all parts are those of one process's attention."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.tensor.experimental import (
    _attention,
    context_parallel,
    context_parallel_unshard,
    set_rotate_method,
)
from flambeau.distributed.tensor.experimental._ring import block_of, merged
from flambeau.nn import functional as F


def made(seed: int, *shape: int, dtype=np.float32):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def against_one_process(rank: int, size: int) -> int:
    mesh, count = init_device_mesh("cpu", (size,)), 0
    b, heads, length, width = 2, 4, 8 * size, 6
    for rotate in ("allgather", "alltoall"):
        set_rotate_method(rotate)
        for causal in (False, True):
            for balanced in (True, False):
                for options in ({}, {"scale": 0.3}, {"enable_gqa": True}, {"value": 5}, {"length": size * 3}):
                    options = dict(options)
                    n = options.pop("length", length)  # an odd part has no head and tail
                    few = 2 if "enable_gqa" in options else heads
                    wide = options.pop("value", width)
                    dtype = np.float64 if "scale" in options else np.float32
                    q = made(0, b, heads, n, width, dtype=dtype)
                    k, v = made(1, b, few, n, width, dtype=dtype), made(2, b, few, n, wide, dtype=dtype)
                    g = made(3, b, heads, n, wide, dtype=dtype)
                    whole = [t.clone().requires_grad_() for t in (q, k, v)]
                    expected = F.scaled_dot_product_attention(*whole, is_causal=causal, **options)
                    expected.backward(g)
                    saved = q.clone()
                    _attention._cp_options.enable_load_balance = balanced
                    with context_parallel(mesh, buffers=[q, k, v, g], buffer_seq_dims=[2] * 4):
                        assert q.shape[2] == n // size
                        parts = [t.clone().requires_grad_() for t in (q, k, v)]
                        out = F.scaled_dot_product_attention(*parts, is_causal=causal, **options)
                        out.backward(g)
                        actual = context_parallel_unshard(mesh, [out, *(t.grad for t in parts)], [2] * 4)
                    assert torch.equal(q, saved)
                    what = f"{rotate} causal={causal} balanced={balanced} {options} {n}"
                    limit = 1e-12 if dtype is np.float64 else 1e-6
                    for one, other in zip(actual, (expected, *(t.grad for t in whole))):
                        np.testing.assert_allclose(
                            one.numpy(), other.detach().numpy(), rtol=10 * limit, atol=3 * limit, err_msg=what
                        )
                    count += 1
    set_rotate_method("allgather")
    _attention._cp_options.enable_load_balance = True
    return count


class Model(nn.Module):
    """Attention with positions in front of it and a loss behind it, all along the sequence."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.inner, self.out = nn.Embedding(11, 8), nn.Linear(8, 24), nn.Linear(8, 11)

    def forward(self, ids, positions):
        x = self.embedding(ids) + positions
        q, k, v = self.inner(x).view(*ids.shape, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2) + x)


def training(rank: int, size: int) -> str:
    """A model's gradients, added up over the parts, are those of the whole sequence."""
    mesh, length = init_device_mesh("cpu", (size,)), 4 * size
    rng = np.random.default_rng(1)
    ids, labels = (torch.tensor(rng.integers(0, 11, (2, length))) for _ in range(2))
    positions = made(5, length, 8)

    def loss(net):
        return F.cross_entropy(net(ids, positions).flatten(0, 1), labels.flatten(), reduction="sum")

    whole, part = Model(), Model()
    loss(whole).backward()
    saved = [t.clone() for t in (ids, labels, positions)]
    with context_parallel(
        mesh, buffers=[ids, labels, positions], buffer_seq_dims=[1, 1, 0], no_restore_buffers={labels}
    ):
        loss(part).backward()
    assert torch.equal(ids, saved[0]) and torch.equal(positions, saved[2]) and labels.shape == (2, 4)
    for p, q in zip(part.parameters(), whole.parameters()):
        dist.all_reduce(p.grad)
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=3e-6)
    return "done"


def errors(rank: int, size: int) -> str:
    mesh = init_device_mesh("cpu", (size,))
    x = made(0, 1, 2, 8, 4)
    inside = (
        (
            lambda: F.scaled_dot_product_attention(x, x, x, torch.zeros(4, 4)),
            NotImplementedError,
            "attn_mask",
        ),
        (
            lambda: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
            NotImplementedError,
            "dropout_p=0.5",
        ),
        (
            lambda: F.scaled_dot_product_attention(x[0], x[0], x[0]),
            RuntimeError,
            "batch, heads, length, width",
        ),
        (lambda: F.scaled_dot_product_attention(x, x.double(), x), RuntimeError, "one dtype"),
        (lambda: F.scaled_dot_product_attention(x, x[:, :1], x[:, :1]), RuntimeError, "enable_gqa=False"),
        (lambda: F.scaled_dot_product_attention(x, x[..., :2], x), RuntimeError, "do not fit"),
        (
            lambda: F.scaled_dot_product_attention(x, x[:, :, :2], x[:, :, :2], is_causal=True),
            NotImplementedError,
            "same query and context",
        ),
        (
            lambda: nn.MultiheadAttention(4, 2)(x[0], x[0], x[0]),
            NotImplementedError,
            "MultiheadAttention would see",
        ),
    )
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        for call, error, text in inside:
            with pytest.raises(error, match=text):
                call()
    assert x.shape[2] == 8
    outside = (
        (dict(buffers=[x], buffer_seq_dims=[]), ValueError, "same number of elements"),
        (dict(buffers=[x], buffer_seq_dims=[4]), IndexError, "no dimension 4"),
        (
            dict(buffers=[x[:, :, :7].clone()], buffer_seq_dims=[2]),
            ValueError,
            "size 7, cannot be split evenly over 2",
        ),
        (
            dict(buffers=[x], buffer_seq_dims=[2], no_restore_buffers={x.clone()}),
            ValueError,
            "must be a subset",
        ),
        (dict(buffers=["x"], buffer_seq_dims=[2]), TypeError, "must be tensors"),
    )
    for given, error, text in outside:
        with pytest.raises(error, match=text), context_parallel(mesh, **given):
            pass
    with pytest.raises(ZeroDivisionError), context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        raise ZeroDivisionError
    assert x.shape[2] == 8  # put back
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        q = x.clone().requires_grad_()
        out = F.scaled_dot_product_attention(q, q, q)
        with pytest.raises(RuntimeError, match="not differentiable twice"):
            torch.autograd.grad(out.sum(), q, create_graph=True)
    dist.barrier()
    return "done"


def everything(rank: int, size: int) -> tuple:
    result = against_one_process(rank, size), training(rank, size)
    return (*result, errors(rank, size)) if size == 2 else result


@pytest.mark.parametrize("size", [2, 4])
def test_attention_over_parts(size):
    for result in world(size, everything):
        assert result[0] == 40 and set(result[1:]) == {"done"}


def test_results_merge_by_their_sums():
    rng = np.random.default_rng(0)
    scores, values = (
        rng.standard_normal((3, 7)) * 30,
        rng.standard_normal((7, 2)),
    )  # far apart: naive sums would overflow float32

    def attend(at):
        s = scores[:, at]
        top = s.max(1, keepdims=True)
        weights = np.exp(s - top)
        return weights / weights.sum(1, keepdims=True) @ values[at], top + np.log(
            weights.sum(1, keepdims=True)
        )

    given = [torch.tensor(a.astype("f")) for part in (slice(0, 3), slice(3, 7)) for a in attend(part)]
    out, lse = merged(*given)
    whole, sums = attend(slice(0, 7))
    np.testing.assert_allclose(out.numpy(), whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(lse.numpy(), sums, rtol=1e-6)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("head_tail", [True, False])
def test_blocks_are_the_causal_mask(ranks, head_tail):
    """Each allowed pair of places is in one block, no other is in any; with head and tail all have as many."""
    length = 8 * ranks
    balancer = _attention._HeadTailLoadBalancer(length, ranks, "cpu")
    places = balancer._generate_indices()[0].numpy() if head_tail else np.arange(length)
    assert sorted(places) == list(range(length))
    np.testing.assert_array_equal(
        places[balancer._generate_indices(True)[0].numpy()], np.arange(length)
    ) if head_tail else None
    seen, work = np.zeros((length, length), int), []
    for rank in range(ranks):
        before = seen.sum()
        for source in range(ranks):
            block = block_of(rank, source, 8, True, head_tail)
            if block is None:
                continue
            q, k = (
                places[rank * 8 : rank * 8 + 8][block.queries],
                places[source * 8 : source * 8 + 8][block.keys],
            )
            allowed = np.tril(np.ones((len(q), len(k)), int)) if block.causal else 1
            seen[np.ix_(q, k)] += allowed
        work.append(seen.sum() - before)
    np.testing.assert_array_equal(seen, np.tril(np.ones((length, length), int)))
    assert len(set(work)) == 1 or not head_tail


def test_names_and_their_errors():
    with pytest.raises(NotImplementedError, match="does not support using ring"):
        set_rotate_method("ring")
    with pytest.raises(AssertionError, match="cannot be cut into 4 chunks"):
        _attention._HeadTailLoadBalancer(6, 2, "cpu")
    behaviour = [_attention._is_causal_behavior(1, 2, i, True) for i in range(2)]
    assert behaviour == [_attention._CausalBehavior.IS_CAUSAL, _attention._CausalBehavior.NOT_IS_CAUSAL]
