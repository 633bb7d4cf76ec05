"""Nested tensors of layout jagged: each operation against a loop over the parts in NumPy, and against padded tensors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import nested

LENGTHS = (3, 0, 5, 1)


def parts(width=(4,), lengths=LENGTHS, seed=0, before=()):
    draw = np.random.default_rng(seed)
    return [draw.standard_normal((*before, n, *width)) for n in lengths]


def make(arrays, **kwargs):
    return nested.nested_tensor([flambeau.tensor(a) for a in arrays], layout=flambeau.jagged, **kwargs)


def same(actual, wanted, rtol=1e-12):
    """The parts of a nested tensor are these arrays."""
    assert actual.is_nested and len(actual) == len(wanted)
    for x, y in zip(actual.unbind(), wanted):
        np.testing.assert_allclose(x.detach().numpy(), y, rtol=rtol, atol=1e-14)


def softmax(x, axis):
    if not x.shape[axis]:
        return x
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# --- construction ------------------------------
def test_what_it_is():
    a = parts()
    x = make(a)
    assert x.layout is flambeau.jagged and x.is_nested and not flambeau.ones(1).is_nested
    assert x.shape[0] == x.size(0) == len(x) == 4 and x.shape[2] == x.size(-1) == 4 and x.ndim == x.dim() == 3
    assert x.offsets().tolist() == [0, 3, 3, 8, 9] and x.lengths() is None and x._ragged_idx == 1
    assert x.values().shape == (9, 4) and x.numel() == 36 and x._max_seqlen == 5 and x._min_seqlen == 0
    assert x.is_contiguous() and x.values().untyped_storage().data_ptr() == x[2].untyped_storage().data_ptr()
    j = x.shape[1]
    assert repr(x) == f"NestedTensor(size=(4, {j}, 4), offsets=tensor([0, 3, 3, 8, 9]), contiguous=True)"
    assert repr(x.shape) == f"flambeau.Size([4, {j}, 4])" and repr(2 * j) == f"2*{j}"
    assert (
        j == (x + 1).shape[1]
        and j != make(a).shape[1]
        and j != 5
        and 2 * j != j
        and 2 * j == j * 2
        and j >= 2
    )
    assert hash(j) == hash((x * 2).shape[1]) and x.shape[:1] + (7,) == (4, 7) and j <= 2 * j and 2 * j > j
    for wrong in (lambda: int(j), lambda: j > 5, lambda: flambeau.zeros(x.shape)):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.size(3)
    same(x, a)


def test_ragged_dimension_is_found():
    a = parts((2,), before=(3,))
    x = make(a)
    assert x._ragged_idx == 2 and x.values().shape == (3, 9, 2) and x.shape[1] == 3
    same(x, a)
    even = make(parts(lengths=(2, 2)))
    assert even._ragged_idx == 1 and even.offsets().tolist() == [0, 2, 4]


def test_leaves_and_histories():
    a = [flambeau.ones(2, requires_grad=True), flambeau.ones(3, requires_grad=True)]
    leaf = nested.nested_tensor(a, layout=flambeau.jagged, requires_grad=True)
    assert leaf.is_leaf
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [[2, 2], [2, 2, 2]] and a[0].grad is None
    x = nested.as_nested_tensor(a, layout=flambeau.jagged)
    assert not x.is_leaf
    for _ in range(2):
        (x * x).sum().backward(retain_graph=True)
    assert a[0].grad.tolist() == [4, 4] and a[1].grad.tolist() == [4, 4, 4]
    values = flambeau.ones(5, 2, requires_grad=True)
    y = nested.nested_tensor_from_jagged(values, flambeau.tensor([0, 2, 5]))
    (g,) = flambeau.autograd.grad((y * y * y).sum(), values, create_graph=True)
    (second,) = flambeau.autograd.grad(g.sum(), values)
    assert (second == 6).all()
    dense = flambeau.arange(12.0).reshape(2, 3, 2)
    z = nested.as_nested_tensor(dense, layout=flambeau.jagged)
    assert z.values().data_ptr() == dense.data_ptr() and z.offsets().tolist() == [0, 3, 6]
    assert (
        nested.as_nested_tensor(z) is z
        and nested.as_nested_tensor(z, dtype=flambeau.float64).dtype == flambeau.float64
    )


def test_lengths_leave_gaps():
    values = flambeau.arange(12.0).reshape(6, 2).requires_grad_()
    x = nested.nested_tensor_from_jagged(values, flambeau.tensor([0, 2, 3, 6]), flambeau.tensor([1, 1, 2]))
    wanted = [values.detach().numpy()[s] for s in (slice(0, 1), slice(2, 3), slice(3, 5))]
    same(x, wanted)
    assert not x.is_contiguous() and x.numel() == 8 and x.lengths().tolist() == [1, 1, 2]
    same(x + 1, [w + 1 for w in wanted])
    same(x.contiguous(), wanted)
    assert x.contiguous().is_contiguous() and x.contiguous().values().shape == (4, 2)
    assert x.sum().item() == sum(w.sum() for w in wanted)  # not what lies in gaps
    np.testing.assert_allclose(x.amax(1).detach().numpy(), [w.max(0) for w in wanted])
    assert 0.0 in x and 2.0 not in x
    x.sum(1).sum().backward()
    assert values.grad[:, 0].tolist() == [1, 0, 1, 1, 1, 0]
    same(
        nested.nested_tensor_from_jagged(values, lengths=flambeau.tensor([1, 5])),
        np.split(values.detach().numpy(), [1]),
    )


def test_narrow_and_masked_select():
    base = flambeau.arange(24.0).reshape(3, 4, 2)
    starts, lengths = flambeau.tensor([0, 1, 2]), flambeau.tensor([4, 0, 2])
    x = nested.narrow(base, 1, starts, lengths, layout=flambeau.jagged)
    n = base.numpy()
    same(x, [n[0, :4], n[1, 1:1], n[2, 2:4]])
    assert x.values().data_ptr() == base.data_ptr()  # a view
    base[0, 0, 0] = 77.0
    assert x[0][0, 0].item() == 77.0
    same(nested.narrow(base, 1, 1, 2, layout=flambeau.jagged), n[:, 1:3])
    assert nested.narrow(base, 1, 0, 4, layout=flambeau.jagged).is_contiguous()
    for start, length in ((3, 2), (-1, 1), (0, 5)):
        with pytest.raises(ValueError, match="element 0 are outside of dimension 1 of size 4"):
            nested.narrow(base, 1, start, length, layout=flambeau.jagged)
    with pytest.raises(RuntimeError, match="only supports dim=1"):
        nested.narrow(base, 2, 0, 1, layout=flambeau.jagged)
    with pytest.raises(RuntimeError, match="broadcast"):
        nested.narrow(base, 1, flambeau.tensor([0, 1]), 1, layout=flambeau.jagged)
    mask = flambeau.tensor([[True, False], [False, False], [True, True]])
    y = nested.masked_select(flambeau.arange(6.0).reshape(3, 2), mask)
    same(y, [[0.0], [], [4.0, 5.0]])
    z = make([[1.0, -1.0], [-2.0, 3.0, 4.0]])
    same(z.masked_select(z > 0), [[1.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("offsets", "lengths", "match"),
    [
        ([0, 3, 2, 5], None, "fall, got 3 and then 2 at place 2"),
        ([-1, 3], None, "negative, got -1 at place 0"),
        ([0, 3, 6], None, "sequence 1 ends at 6, behind the 5 values"),
        ([0, 3, 5], [3, 3], "sequence 1 ends at 6, behind the 5 values"),
        ([0, 3, 5], [3, -1], "negative, got -1 at place 1"),
        ([0, 3, 5], [3], "2 sequences and lengths of 1"),
        ([], None, "must have a beginning"),
        ([2**62, 2**62 + 1], None, "sequence 0 ends at"),
    ],
)
def test_hostile_offsets(offsets, lengths, match):
    offsets = flambeau.tensor(offsets, dtype=flambeau.int64)
    lengths = None if lengths is None else flambeau.tensor(lengths)
    for _ in range(2):  # the second call, too
        with pytest.raises(ValueError, match=match):
            nested.nested_tensor_from_jagged(flambeau.ones(5), offsets, lengths)


def test_more_that_does_not_fit():
    x, offsets = flambeau.ones(5), flambeau.tensor([0, 5])
    with pytest.raises(ValueError, match="int64 or int32, got shape \\(2,\\) of flambeau.float32"):
        nested.nested_tensor_from_jagged(x, offsets.float())
    with pytest.raises(ValueError, match="one dimension"):
        nested.nested_tensor_from_jagged(x, offsets[None])
    with pytest.raises(RuntimeError, match="At least one of offsets or lengths"):
        nested.nested_tensor_from_jagged(x)
    with pytest.raises(ValueError, match=r"jagged_dim >=1"):
        nested.nested_tensor_from_jagged(x, offsets, jagged_dim=0)
    with pytest.raises(ValueError, match=r"in \[1, 1\]"):
        nested.nested_tensor_from_jagged(x, offsets, jagged_dim=2)
    with pytest.raises(RuntimeError, match="single ragged dimension"):
        make([np.ones((1, 2)), np.ones((2, 3))])
    with pytest.raises(RuntimeError, match="empty tensor list"):
        nested.nested_tensor([], layout=flambeau.jagged)
    with pytest.raises(RuntimeError, match="zero-dim"):
        make([1.0])
    with pytest.raises(RuntimeError, match="same dimension. Found dimension 2 for Tensor at index 1"):
        make([np.ones(1), np.ones((1, 1))])
    with pytest.raises(RuntimeError, match="layout is unsupported"):
        nested.nested_tensor([[1.0]], layout=flambeau.sparse_coo)
    with pytest.raises(TypeError, match="got int"):
        nested.nested_tensor(3)
    mixed = nested.as_nested_tensor([flambeau.ones(1), flambeau.ones(1).double()])
    assert mixed.dtype == flambeau.float32
    with pytest.raises(RuntimeError, match="Converting between"):
        nested.as_nested_tensor(make([[1.0]]), layout=flambeau.strided)


def test_offsets_are_read_once_and_again_when_written():
    offsets, values = flambeau.tensor([0, 2, 5]), flambeau.ones(5)
    a, b = (nested.nested_tensor_from_jagged(values, offsets) for _ in range(2))
    assert a.shape == b.shape and (a + b).sum(1).tolist() == [4, 6]
    offsets[1] = 1
    c = nested.nested_tensor_from_jagged(values, offsets)
    assert c.sum(1).tolist() == [1, 4]


def test_what_is_kept_is_of_no_mode():
    """Places are worked out once, whatever is on then: they serve a gradient later, and lie where the offsets do."""
    offsets, values = flambeau.tensor([0, 2, 5]), flambeau.ones(5, 3, requires_grad=True)
    uses = (
        lambda x: x.sum(1),
        lambda x: x.softmax(1),
        lambda x: x.to_padded_tensor(0.0),
        lambda x: x * flambeau.ones(2, 1, 3),
    )
    first = nested.nested_tensor_from_jagged(values, offsets)
    with flambeau.inference_mode():
        for use in uses:
            use(first)
    for use in uses:
        result = use(first)
        (result.values() if result.is_nested else result).sum().backward()
    assert values.grad is not None
    with flambeau.device("meta"):
        x = nested.nested_tensor_from_jagged(values, flambeau.tensor([0, 1, 5], device="cpu"))
        for use in uses[:3]:
            assert use(x).is_cpu
        assert [y.is_cpu for y in (*x.chunk(2), x[[0]], x[1:], x.contiguous(), flambeau.cat([x, x]))] == [
            True
        ] * 6
        strided = nested.nested_tensor([flambeau.ones(2, device="cpu"), flambeau.ones(1, device="cpu")])
        assert [y.is_cpu for y in (*strided.chunk(2), strided[:1], strided * 2)] == [True] * 4


def test_no_sequences_and_empty_ones():
    x = nested.nested_tensor_from_jagged(flambeau.zeros(0, 3), flambeau.tensor([0]))
    assert len(x) == 0 and x.numel() == 0 and x.unbind() == () and x.sum(1).shape == (0, 3)
    assert (
        x.to_padded_tensor(0.0).shape == (0, 0, 3)
        and (x + 1).shape == x.shape
        and x.softmax(1).shape == x.shape
    )
    y = make(parts(lengths=(0, 0)))
    assert y.to_padded_tensor(0.0).shape == (2, 0, 4) and y.sum(1).tolist() == [[0.0] * 4] * 2
    assert y.softmax(1).numel() == 0 and y.amax(1).tolist() == [[-math.inf] * 4] * 2
    q = make(parts((8,), lengths=(0, 0))).unflatten(-1, (2, 4)).transpose(1, 2)
    assert F.scaled_dot_product_attention(q, q, q, is_causal=True).numel() == 0


def test_writes_to_values_are_seen():
    x = make(parts())
    x.values()[0] = 7.0
    assert (x[0][0] == 7).all()
    x[2][:] = 0
    assert (x.values()[3:8] == 0).all()


# --- elements ------------------------------
def test_nested_with_nested_and_dense():
    a, b = parts(), parts(seed=1)
    x = make(a)
    y = nested.nested_tensor_from_jagged(flambeau.tensor(np.concatenate(b)), x.offsets())
    same(x * y - 2, [p * q - 2 for p, q in zip(a, b)])
    same(x < y, [p < q for p, q in zip(a, b)])
    for shape in ((4,), (1, 4), (1, 1, 4), (1,), (), (1, 1, 1, 4)):
        d = np.random.default_rng(2).standard_normal(shape)
        same(x + flambeau.tensor(d), [p + d.reshape(d.shape[-1:] if d.ndim else ()) for p in a])
    d = np.random.default_rng(3).standard_normal((4, 1, 4))
    same(flambeau.tensor(d) / x, [q / p for p, q in zip(a, d)])
    same(x * flambeau.tensor(d[:, :, :1]), [p * q for p, q in zip(a, d[:, :, :1])])
    same(flambeau.where(x > 0, x, flambeau.zeros(())), [np.where(p > 0, p, 0) for p in a])
    same(x.masked_fill(x > 0, 9.0), [np.where(p > 0, 9.0, p) for p in a])
    same(F.gelu(x.clamp(min=0)).neg_(), [-F.gelu(flambeau.tensor(p).clamp(min=0)).numpy() for p in a])
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add"):
        x + make(b)
    with pytest.raises(RuntimeError, match="size 1 along the ragged dimension"):
        x + flambeau.ones(4, 5, 4)
    with pytest.raises(RuntimeError, match="more dimensions"):
        x + flambeau.ones(2, 1, 1, 4)
    with pytest.raises(RuntimeError, match="cannot be written to a dense tensor"):
        flambeau.ones(4, 1, 4).add_(x)


def test_gradients_of_dense_operands_are_summed():
    a = parts()
    x = make(a)
    d = flambeau.ones(4, 1, 4, dtype=flambeau.float64, requires_grad=True)
    e = flambeau.ones(4, dtype=flambeau.float64, requires_grad=True)
    (x * d * e).sum().backward()
    np.testing.assert_allclose(d.grad[:, 0].numpy(), [p.sum(0) for p in a])
    np.testing.assert_allclose(e.grad.numpy(), np.concatenate(a).sum(0))


def test_tensors_alike_and_conversions():
    x = make(parts())
    for f in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"):
        y = getattr(flambeau, f)(x)
        assert y.shape == x.shape and y.dtype == x.dtype
    assert flambeau.full_like(x, 3.0).sum().item() == 108 and x.float().dtype == flambeau.float32
    assert x.to(flambeau.float64) is x and x.clone().values().data_ptr() != x.values().data_ptr()
    z = flambeau.zeros_like(x)
    assert z.copy_(x) is z and flambeau.equal(z, x) and flambeau.allclose(z, make(parts()))
    assert not flambeau.equal(x, make(parts(lengths=(9,)))) and x.tolist()[0] == x[0].tolist()
    with pytest.raises(RuntimeError, match="exact same offset tensor"):
        z.copy_(make(parts()))
    flambeau.manual_seed(0)
    dropped = F.dropout(flambeau.ones_like(x), 0.5)
    assert set(dropped.values().flatten().tolist()) == {0.0, 2.0}
    meta = x.to("meta")
    assert meta.is_meta and meta.shape == x.shape and (meta * 2).sum(1).shape == (4, 4)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_losses_over_all_elements(name):
    x = make(parts())
    y = nested.nested_tensor_from_jagged(flambeau.tensor(np.concatenate(parts(seed=1))), x.offsets())
    f = getattr(F, name)
    assert f(x, y).item() == f(x.values(), y.values()).item()
    assert f(x, y, reduction="none").shape == x.shape
    with pytest.raises(RuntimeError, match="nested in the same sequences"):
        f(x, y.values())


# --- folds ------------------------------
FOLDS = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "amax": np.max,
    "amin": np.min,
    "var": lambda x, axis, keepdims: np.var(x, axis, ddof=1, keepdims=keepdims),
    "std": lambda x, axis, keepdims: np.std(x, axis, ddof=1, keepdims=keepdims),
    "logsumexp": lambda x, axis, keepdims: np.log(np.exp(x).sum(axis, keepdims=keepdims)),
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_folds(name, keepdim):
    fold = FOLDS[name]
    a = parts(lengths=(3, 2, 5), before=(2,))  # (B, 2, *, 4)
    x = make(a, requires_grad=True)
    f = getattr(flambeau, name)
    along = f(x, 2, keepdim=keepdim)  # the sequences
    np.testing.assert_allclose(along.detach().numpy(), [fold(p, 1, keepdims=keepdim) for p in a], rtol=1e-10)
    same(f(x, -1, keepdim=keepdim), [fold(p, 2, keepdims=keepdim) for p in a], rtol=1e-10)
    same(f(x, 1, keepdim=keepdim), [fold(p, 0, keepdims=keepdim) for p in a], rtol=1e-10)
    assert f(x, 1, keepdim=keepdim)._ragged_idx == (2 if keepdim else 1)
    if name not in ("prod",):
        both = f(x, (2, 3), keepdim=keepdim)
        np.testing.assert_allclose(
            both.detach().numpy(), [fold(p, (1, 2), keepdims=keepdim) for p in a], rtol=1e-10
        )
        whole = f(x, (0, 2), keepdim=keepdim)
        wanted = fold(np.concatenate(a, 1), 1, keepdims=keepdim)
        np.testing.assert_allclose(whole.detach().numpy(), wanted[None] if keepdim else wanted, rtol=1e-10)
    if name != "logsumexp":
        assert f(x).item() == pytest.approx(fold(np.concatenate(a, 1), None, keepdims=False))
    weights = flambeau.randn(along.shape, dtype=along.dtype)
    (g,) = flambeau.autograd.grad((along * weights).sum(), x)
    for k, p in enumerate(x.unbind()):
        plain = p.detach().requires_grad_()
        (f(plain, 1, keepdim=keepdim) * weights[k]).sum().backward()
        np.testing.assert_allclose(g[k].numpy(), plain.grad.numpy(), rtol=1e-9, atol=1e-12)
    with pytest.raises(RuntimeError, match="batch dimension but not the ragged"):
        f(x, 0)


@pytest.mark.parametrize("name", ["amax", "amin", "prod", "logsumexp"])
def test_folds_of_long_sequences(name):
    """Each alone, where padding would cost more than calls."""
    a = parts((40,), lengths=(70, 0, 3))
    x = make(a, requires_grad=True)
    f = getattr(flambeau, name)
    result = f(x, 1)
    empty = {"amax": -math.inf, "amin": math.inf, "prod": 1.0, "logsumexp": -math.inf}[name]
    for p, y in zip(a, result.detach().numpy()):
        np.testing.assert_allclose(
            y, FOLDS[name](p, 0, keepdims=False) if len(p) else np.full(40, empty), rtol=1e-10
        )
    assert f(x, 1, keepdim=True).shape == (3, 1, 40)
    (result[0].sum() + result[2].sum()).backward()
    for p, g in zip(a, x.grad.unbind()):
        plain = flambeau.tensor(p).requires_grad_()
        if len(p):
            f(plain, 0).sum().backward()
            np.testing.assert_allclose(g.numpy(), plain.grad.numpy(), rtol=1e-9)
    assert (make(parts((3,), lengths=(700, 0))) > 0).any(1)[1].tolist() == [False] * 3


def test_norms():
    a = parts(lengths=(3, 2, 5))
    x = make(a, requires_grad=True)
    whole = np.concatenate(a)
    assert x.norm().item() == pytest.approx(np.linalg.norm(whole))
    assert flambeau.linalg.vector_norm(x, 3).item() == pytest.approx((np.abs(whole) ** 3).sum() ** (1 / 3))
    same(x.norm(dim=-1), [np.linalg.norm(p, axis=1) for p in a])
    same(x.norm(1, 2, True), [np.abs(p).sum(1, keepdims=True) for p in a])
    x.sum().backward()
    assert flambeau.nn.utils.clip_grad_norm_([x], 1.0).item() == pytest.approx(math.sqrt(40))
    assert x.grad.norm().item() == pytest.approx(1.0, rel=1e-4)
    with pytest.raises(
        RuntimeError, match=r"norm\(\): not available along the batch or the ragged dimension"
    ):
        x.norm(dim=1)


def test_more_folds():
    a = parts(lengths=(3, 2, 5))
    x = make(a)
    assert x.argmax(1).tolist() == [p.argmax(0).tolist() for p in a]
    top = x.max(1)
    np.testing.assert_allclose(top.values.numpy(), [p.max(0) for p in a])
    assert top.indices.tolist() == [p.argmax(0).tolist() for p in a]
    last = x.min(-1)
    same(last.values, [p.min(1) for p in a])
    same(last.indices, [p.argmin(1) for p in a])
    assert (x > 0).any(1).tolist() == [(p > 0).any(0).tolist() for p in a]
    assert (x > 0).all(1).tolist() == [(p > 0).all(0).tolist() for p in a]
    assert (x > 0).sum(1).tolist() == [(p > 0).sum(0).tolist() for p in a]
    same(flambeau.max(x, flambeau.zeros_like(x)), [np.maximum(p, 0) for p in a])
    assert x.half().sum(1).dtype == flambeau.float16
    with pytest.raises(RuntimeError, match="infer output dtype"):
        x.long().mean(1)
    empty = make(parts(lengths=(0, 2)))
    assert empty.mean(1)[0].isnan().all() and empty.sum(1)[0].tolist() == [0.0] * 4


@pytest.mark.parametrize("dim", [1, 2])
def test_along_sequences_and_rows(dim):
    a = parts()
    x = make(a, requires_grad=True)
    y = x.softmax(dim)
    same(y, [softmax(p, dim - 1) for p in a])
    same(F.softmin(x, dim), [softmax(-p, dim - 1) for p in a])
    same(F.log_softmax(x, dim), [np.log(softmax(p, dim - 1)) for p in a])
    same(x.cumsum(dim), [p.cumsum(dim - 1) for p in a])
    (y * y).sum().backward()
    for p, g in zip(x.unbind(), x.grad.unbind()):
        plain = p.detach().requires_grad_()
        (plain.softmax(dim - 1) ** 2).sum().backward()
        np.testing.assert_allclose(g.numpy(), plain.grad.numpy(), rtol=1e-10, atol=1e-14)
    with pytest.raises(RuntimeError, match="batch dimension"):
        x.softmax(0)


def test_padding():
    a = parts()
    x = make(a, requires_grad=True)
    y = x.to_padded_tensor(-1.0)
    assert y.shape == (4, 5, 4)
    for p, q in zip(a, y.detach().numpy()):
        np.testing.assert_array_equal(q[: len(p)], p)
        assert (q[len(p) :] == -1).all()
    bigger = nested.to_padded_tensor(x, 2.0, (4, 7, 6))
    assert bigger.shape == (4, 7, 6) and (bigger[:, :5, :4] - y.where(y != -1, 2.0)).abs().max() == 0
    assert nested.to_padded_tensor(x, 2.0, (4, -1, 4)).shape == (4, 5, 4)
    (y * y).sum().backward()
    same(x.grad, [2 * p for p in a])
    for wrong in ((4, 4, 4), (3, 5, 4), (4, 5)):
        with pytest.raises(RuntimeError, match="output_size"):
            x.to_padded_tensor(0.0, wrong)
    for dense in (nested.to_padded_tensor, flambeau.Tensor.to_padded_tensor):
        with pytest.raises(NotImplementedError, match="expected a nested tensor"):
            dense(flambeau.ones(2), 0.0)
    z = make(parts((2,), before=(3,)))
    assert z.to_padded_tensor(0.0).shape == (4, 3, 5, 2)


# --- shapes ------------------------------
def test_indexing():
    a = parts()
    x = make(a)
    np.testing.assert_array_equal(x[2].numpy(), a[2])
    np.testing.assert_array_equal(x[-2, 1:, 0].numpy(), a[2][1:, 0])
    same(x[1:3], a[1:3])
    same(x[::2], a[::2])
    same(x[[3, 0]], [a[3], a[0]])
    same(x[flambeau.tensor([True, False, True, True])], [a[0], a[2], a[3]])
    same(x[..., 1:3], [p[:, 1:3] for p in a])
    same(x[:, :, 2], [p[:, 2] for p in a])
    same(x[:, None], [p[None] for p in a])
    assert x[:, None]._ragged_idx == 2 and x[...] is x
    same(x.select(2, 1), [p[:, 1] for p in a])
    same(x.narrow(0, 1, 2), a[1:3])
    same(x.index_select(2, flambeau.tensor([3, 0])), [p[:, [3, 0]] for p in a])
    for wrong in (lambda: x[4], lambda: x[[4]], lambda: x.narrow(0, 3, 2)):
        with pytest.raises((IndexError, RuntimeError)):
            wrong()
    with pytest.raises(RuntimeError, match="ragged dim"):
        x[:, 1:]
    with pytest.raises(NotImplementedError, match="index values"):
        x[:, :, flambeau.tensor([0])]
    with pytest.raises(NotImplementedError, match="__setitem__"):
        x[0] = 1.0


SHAPES = {
    "transpose": (lambda x: x.transpose(1, 2), lambda p: p.swapaxes(0, 1), 2),
    "last two": (lambda x: x.mT, lambda p: p.swapaxes(1, 2), 1),
    "permute": (lambda x: x.permute(0, 3, 1, 2), lambda p: p.transpose(2, 0, 1), 2),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda p: p[None], 2),
    "unsqueeze last": (lambda x: x.unsqueeze(-1), lambda p: p[..., None], 1),
    "flatten": (lambda x: x.flatten(2), lambda p: p.reshape(len(p), 12), 1),
    "unflatten": (lambda x: x.unflatten(-1, (2, -1)), lambda p: p.reshape(len(p), 2, 2, 3), 1),
    "view": (lambda x: x.view(4, -1, 4, 3), lambda p: p.reshape(len(p), 4, 3), 1),
    "view as it is": (lambda x: x.view(x.shape[0], x.shape[1], -1), lambda p: p.reshape(len(p), 12), 1),
    "reshape": (
        lambda x: x.transpose(1, 2).reshape(4, 2, x.shape[1], 6),
        lambda p: p.swapaxes(0, 1).reshape(2, len(p), 6),
        2,
    ),
    "expand": (lambda x: x.unsqueeze(1).expand(-1, 3, -1, -1, -1), lambda p: np.stack([p] * 3), 2),
    "squeeze": (lambda x: x[:, :, :1].squeeze(2), lambda p: p[:, 0], 1),
}


@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
def test_views(case):
    view, wanted, ragged = case
    a = parts((2, 6), lengths=(3, 1, 5, 2))
    x = make(a, requires_grad=True)
    y = view(x)
    assert y._ragged_idx == ragged and y.shape[ragged] == x.shape[1]
    same(y, [wanted(p) for p in a])
    (y * y).sum().backward()
    scale = 3 if case is SHAPES["expand"] else 1
    if case is not SHAPES["squeeze"]:
        same(x.grad, [2 * scale * p for p in a])


def test_shapes_that_are_refused():
    x = make(parts())
    for wrong in (
        lambda: x.transpose(0, 1),
        lambda: x.permute(1, 0, 2),
        lambda: x.unsqueeze(0),
        lambda: x.squeeze(0),
        lambda: x.squeeze(),
        lambda: x.flatten(),
        lambda: x.view(4, 5, 4),
        lambda: x.view(2, 2, -1, 4),
        lambda: x.view(4, x.shape[1], 5),
        lambda: x.view(4, make(parts()).shape[1], 4),
        lambda: x.expand(4, 5, 4),
        lambda: x.chunk(2, 1),
        lambda: x.unbind(1),
    ):
        with pytest.raises(
            RuntimeError,
            match=r"^(view|reshape|transpose|permute|unsqueeze|squeeze|flatten|expand|chunk|unbind)\(\)",
        ):
            wrong()


def test_cuts_and_joins():
    a = parts()
    x = make(a)
    for result, k in zip(x.chunk(2, -1), range(2)):
        same(result, [p[:, 2 * k : 2 * k + 2] for p in a])
    for result, k in zip(x.split([1, 3], 2), (slice(0, 1), slice(1, 4))):
        same(result, [p[:, k] for p in a])
    first, second = x.chunk(chunks=2)
    same(first, a[:2])
    same(second, a[2:])
    same(flambeau.cat([x, x * 2], -1), [np.concatenate([p, 2 * p], 1) for p in a])
    same(flambeau.cat([x, make(a[:2])]), a + a[:2])
    same(flambeau.stack([x, x], 1), [np.stack([p, p]) for p in a])
    with pytest.raises(RuntimeError, match="dense one at place 1"):
        flambeau.cat([x, flambeau.ones(4, 1, 4)])
    with pytest.raises(RuntimeError, match="same sequences"):
        flambeau.cat([x, make(a)], -1)


def test_places_are_written():
    a = parts()
    x = make(a)
    batch, place = flambeau.tensor([0, 2, 2]), flambeau.tensor([1, 0, 4])
    y = x.index_put((batch, place), flambeau.zeros(()).double())
    wanted = [p.copy() for p in a]
    for b, k in zip(batch.tolist(), place.tolist()):
        wanted[b][k] = 0
    same(y, wanted)
    same(x, a)
    assert (
        x.index_put_((batch, place, flambeau.tensor([3, 0, 1])), flambeau.ones(3).double(), accumulate=True)
        is x
    )
    a[0][1, 3] += 1
    a[2][0, 0] += 1
    a[2][4, 1] += 1
    same(x, a)
    for wrong in (
        (flambeau.tensor([1]), flambeau.tensor([0])),
        (flambeau.tensor([4]), flambeau.tensor([0])),
        (flambeau.tensor([0]), flambeau.tensor([-1])),
    ):
        with pytest.raises(IndexError, match="out of bounds for dimension"):
            x.index_put_(wrong, flambeau.zeros(()).double())
    with pytest.raises(RuntimeError, match="expected integer indices"):
        x.index_put_((batch,), flambeau.zeros(()).double())


# --- products and layers ------------------------------
def test_layers():
    a = parts()
    x = make(a)
    linear = flambeau.nn.Linear(4, 3).double()
    w, b = linear.weight.detach().numpy(), linear.bias.detach().numpy()
    same(linear(x), [p @ w.T + b for p in a])
    norm = flambeau.nn.LayerNorm(4).double()
    same(norm(x), [norm(flambeau.tensor(p)).detach().numpy() for p in a])
    same(F.rms_norm(x, (4,)), [F.rms_norm(flambeau.tensor(p), (4,)).numpy() for p in a])
    same(F.glu(x), [F.glu(flambeau.tensor(p)).numpy() for p in a])
    same(F.normalize(x, dim=-1), [F.normalize(flambeau.tensor(p), dim=-1).numpy() for p in a])
    same(F.prelu(x, flambeau.full((1,), 0.3).double()), [np.where(p > 0, p, 0.3 * p) for p in a], rtol=1e-6)
    tokens = nested.nested_tensor([[1, 2], [0], [3, 3, 1]], layout=flambeau.jagged)
    table = flambeau.nn.Embedding(4, 5)
    same(table(tokens), [table.weight.detach().numpy()[t] for t in ([1, 2], [0], [3, 3, 1])], rtol=1e-7)
    table(tokens).sum().backward()
    assert table.weight.grad[:, 0].tolist() == [1, 2, 1, 2]
    bags = F.embedding_bag(tokens, table.weight, mode="sum")
    np.testing.assert_allclose(
        bags.detach().numpy(), [t.detach().numpy().sum(0) for t in table(tokens).unbind()], rtol=1e-6
    )
    same(F.one_hot(tokens, 4), [np.eye(4)[t] for t in ([1, 2], [0], [3, 3, 1])])
    for wrong in (lambda: F.linear(x.mT, flambeau.ones(1, 5)), lambda: F.layer_norm(x.mT, (5,))):
        with pytest.raises(RuntimeError, match="not supported over the ragged dimension"):
            wrong()


def test_products():
    a, b = parts((4,)), parts((5,), seed=1)
    x = make(a, requires_grad=True)
    y = nested.nested_tensor_from_jagged(flambeau.tensor(np.concatenate(b)), x.offsets())
    m = np.random.default_rng(4).standard_normal((4, 4, 6))
    same(x @ flambeau.tensor(m[0]), [p @ m[0] for p in a])
    same(x @ flambeau.tensor(m), [p @ q for p, q in zip(a, m)])
    same(flambeau.bmm(x, flambeau.tensor(m)), [p @ q for p, q in zip(a, m)])
    same(flambeau.tensor(m[0].T) @ x.mT, [m[0].T @ p.T for p in a])
    same(flambeau.tensor(m.swapaxes(1, 2)) @ x.mT, [q.T @ p.T for p, q in zip(a, m)])
    over = x.mT @ y  # summed over the sequences
    np.testing.assert_allclose(over.detach().numpy(), [p.T @ q for p, q in zip(a, b)], rtol=1e-10, atol=1e-12)
    over.sum().backward()
    same(x.grad, [np.repeat(q.sum(1, keepdims=True), 4, 1) for q in b], rtol=1e-10)
    four = make(parts((2, 3)))
    same(four @ four.mT, [p @ p.swapaxes(1, 2) for p in parts((2, 3))])
    for wrong in (
        lambda: x @ x,
        lambda: x @ make(b).mT,
        lambda: x @ y.mT,
        lambda: x.mT @ flambeau.ones(9, 2),
    ):
        with pytest.raises(RuntimeError, match=r"matmul\(\): not supported between inputs of shapes"):
            wrong()


# --- attention ------------------------------
def attention(q, k, v, causal):
    scores = np.einsum("hld,hsd->hls", q, k) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    return softmax(scores, -1) @ v if scores.size else np.zeros((*q.shape[:2], v.shape[-1]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(3, 0, 5, 1), (200, 17, 130)])
def test_attention(causal, lengths):
    a = [parts((2, 4), lengths, seed=s) for s in range(3)]
    x = make(a[0], requires_grad=True)
    y, z = (
        nested.nested_tensor_from_jagged(flambeau.tensor(np.concatenate(p)).requires_grad_(), x.offsets())
        for p in a[1:]
    )
    result = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (x, y, z)), is_causal=causal)
    assert result.shape == x.transpose(1, 2).shape
    turned = [[p.swapaxes(0, 1) for p in s] for s in a]
    same(result, [attention(*p, causal) for p in zip(*turned)], rtol=1e-9)
    weights = flambeau.randn(result.values().shape, dtype=flambeau.float64)
    (result.values() * weights).sum().backward()
    padded = [t.detach().to_padded_tensor(0.0).transpose(1, 2).requires_grad_() for t in (x, y, z)]
    total = padded[0].shape[2]
    there = flambeau.arange(total)[None] < x.offsets().diff()[:, None]
    mask = there[:, None, None, :] & (flambeau.ones(total, total).bool().tril() if causal else True)
    reference = F.scaled_dot_product_attention(*padded, attn_mask=mask)
    (reference.transpose(1, 2)[there] * weights.transpose(0, 1)).sum().backward()
    for t, p in zip((x, y, z), padded):
        np.testing.assert_allclose(
            t.grad.values().numpy(), p.grad.transpose(1, 2)[there].numpy(), rtol=1e-8, atol=1e-10
        )


def test_attention_of_other_keys():
    q, k = parts((2, 4), (3, 2, 0, 2)), parts((2, 4), (4, 1, 2, 0), seed=1)
    x, y = make(q).transpose(1, 2), make(k).transpose(1, 2)
    for causal in (False, True):
        wanted = [
            attention(*(p.swapaxes(0, 1) for p in (a, b, b)), causal) if b.size else np.zeros((2, len(a), 4))
            for a, b in zip(q, k)
        ]
        same(F.scaled_dot_product_attention(x, y, y, is_causal=causal), wanted, rtol=1e-9)


def test_attention_in_groups_with_dropout_and_twice():
    q, k = make(parts((4, 4)), requires_grad=True), make(parts((2, 4), seed=1))
    k = nested.nested_tensor_from_jagged(k.values(), q.offsets())
    x, y = q.transpose(1, 2), k.transpose(1, 2)
    actual = F.scaled_dot_product_attention(x, y, y, enable_gqa=True)
    for a, b, c in zip(x.unbind(), y.unbind(), actual.unbind()):
        wanted = F.scaled_dot_product_attention(a[None], b[None], b[None], enable_gqa=True)[0]
        np.testing.assert_allclose(c.detach().numpy(), wanted.detach().numpy(), rtol=1e-10)
    (g,) = flambeau.autograd.grad((actual * actual).sum(), q, create_graph=True)
    (second,) = flambeau.autograd.grad((g * g).sum(), q)
    assert second.shape == q.shape and not second.values().isnan().any() and second.values().abs().sum() > 0
    flambeau.manual_seed(0)
    assert F.scaled_dot_product_attention(x, x, x, dropout_p=0.5).shape == x.shape


def test_attention_that_is_refused():
    x = make(parts((2, 4))).transpose(1, 2)
    other = make(parts((2, 4), lengths=(1, 2))).transpose(1, 2)
    sdpa = F.scaled_dot_product_attention
    for call, match in (
        (lambda: sdpa(x, x, flambeau.ones(4, 2, 5, 4).double()), "value is dense"),
        (lambda: sdpa(x.transpose(1, 2), x, x), r"nested query of shape \(B, heads, \*, E\)"),
        (lambda: sdpa(x, x, x, attn_mask=flambeau.ones(1)), "attn_mask should not be set"),
        (lambda: sdpa(x, other, other), "as many as query has"),
        (lambda: sdpa(x, x, x.float()), "one dtype and device"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(RuntimeError, match="as many heads"):
        sdpa(x, x[:, :1], x[:, :1])


class Block(flambeau.nn.Module):
    """A transformer's layer that takes padded batches with a mask, and nested ones."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.first, self.second = flambeau.nn.LayerNorm(width), flambeau.nn.LayerNorm(width)
        self.all, self.out = flambeau.nn.Linear(width, 3 * width), flambeau.nn.Linear(width, width)
        self.mlp = flambeau.nn.Sequential(
            flambeau.nn.Linear(width, 32), flambeau.nn.GELU(), flambeau.nn.Linear(32, width)
        )

    def forward(self, x, mask=None):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.all(self.first(x)).chunk(3, -1)
        )
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.second(x))


def test_a_transformer_is_that_of_the_padded_batch():
    flambeau.manual_seed(0)
    model = flambeau.nn.Sequential(Block(), Block()).double()
    a = parts((16,), lengths=(7, 1, 12, 4))
    x = make(a)
    y = model(x)
    (y * y).mean().backward()
    results = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    padded = x.to_padded_tensor(0.0)
    there = flambeau.arange(12)[None] < x.offsets().diff()[:, None]
    z = padded
    for block in model:
        z = block(z, there[:, None, None, :])
    flat = z[there]
    np.testing.assert_allclose(y.values().detach().numpy(), flat.detach().numpy(), rtol=1e-10, atol=1e-12)
    (flat * flat).mean().backward()
    for g, p in zip(results, model.parameters()):
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_multihead_attention(causal):
    flambeau.manual_seed(0)
    layer = flambeau.nn.MultiheadAttention(8, 2, batch_first=True).double()
    a = parts((8,), lengths=(3, 1, 6))
    x = make(a)
    result, weights = layer(x, x, x, need_weights=False, is_causal=causal)
    assert weights is None
    for p, y in zip(a, result.unbind()):
        part = flambeau.tensor(p)[None]
        mask = flambeau.ones(len(p), len(p)).bool().triu(1) if causal else None
        np.testing.assert_allclose(
            y.detach().numpy(),
            layer(part, part, part, attn_mask=mask)[0][0].detach().numpy(),
            rtol=1e-8,
            atol=1e-12,
        )
    for wrong in (
        lambda: layer(x, x, x),
        lambda: layer(x, x, x, need_weights=False, attn_mask=flambeau.ones(3, 3).bool()),
        lambda: layer(x, x, flambeau.ones(3, 6, 8).double(), need_weights=False),
        lambda: flambeau.nn.MultiheadAttention(8, 2)(x, x, x, need_weights=False),
    ):
        with pytest.raises(AssertionError, match="MultiheadAttention"):
            wrong()


def test_encoder_layer():
    flambeau.manual_seed(0)
    layer = flambeau.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True).double()
    encoder = flambeau.nn.TransformerEncoder(layer, 2)
    a = parts((8,), lengths=(3, 1, 6))
    x = make(a, requires_grad=True)
    actual = encoder(x)
    plain = [flambeau.tensor(p)[None].requires_grad_() for p in a]
    wanted = [encoder(p) for p in plain]
    same(actual, [w[0].detach().numpy() for w in wanted], rtol=1e-8)
    (actual * actual).sum().backward()
    sum((w * w).sum() for w in wanted).backward()
    same(x.grad, [p.grad[0].numpy() for p in plain], rtol=1e-7)
