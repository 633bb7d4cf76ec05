"""ATen's core operations that are made of others here, against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from scipy.spatial import distance

import flambeau
from flambeau.library._targets import target

RNG = np.random.default_rng(0)


def given(*shape: int) -> tuple:
    x = RNG.standard_normal(shape).astype(np.float32)
    return x, flambeau.from_numpy(x.copy())


def close(actual, wanted) -> None:
    np.testing.assert_allclose(actual.numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 2, 2)])
def test_batch_normalisation(shape):
    x, t = given(*shape)
    (w, tw), (b, tb), (m, tm) = given(3), given(3), given(3)
    v, tv = np.abs(m) + 0.5, flambeau.from_numpy(np.abs(m) + np.float32(0.5))
    dims = tuple(k for k in range(len(shape)) if k != 1)
    wide = (1, 3) + (1,) * (len(shape) - 2)
    mean, var, count = x.mean(dims), x.var(dims), x.size // 3

    def normalised(mean, var):
        return (x - mean.reshape(wide)) / np.sqrt(var.reshape(wide) + 1e-3) * w.reshape(wide) + b.reshape(
            wide
        )

    after = m * 0.9 + mean * 0.1, v * 0.9 + var * count / (count - 1) * 0.1
    functional = target("aten", "_native_batch_norm_legit_functional")(t, tw, tb, tm, tv, True, 0.1, 1e-3)
    for actual, wanted in zip(functional, (normalised(mean, var), mean, 1 / np.sqrt(var + 1e-3), *after)):
        close(actual, wanted)
    close(tm, m)
    still = target("aten", "_native_batch_norm_legit_functional")(t, tw, tb, tm, tv, False, 0.1, 1e-3)
    close(still[0], normalised(m, v))
    close(still[3], m)
    assert still[3].data_ptr() != tm.data_ptr()
    close(
        target("aten", "_native_batch_norm_legit_no_training")(t, tw, tb, tm, tv, 0.1, 1e-3)[0],
        normalised(m, v),
    )
    none = target("aten", "_native_batch_norm_legit", "no_stats")(t, tw, tb, True, 0.1, 1e-3)
    close(none[0], normalised(mean, var))
    written = target("aten", "_native_batch_norm_legit")(t, tw, tb, tm, tv, True, 0.1, 1e-3)
    close(written[0], normalised(mean, var))
    close(tm, after[0])
    close(tv, after[1])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_margins(n):
    x, t = given(2, *range(4, 4 + n))
    padding = [1, 2, 0, 1, 1, 0][: 2 * n]
    widths = [(0, 0)] + [(padding[2 * k], padding[2 * k + 1]) for k in reversed(range(n))]
    close(target("aten", f"reflection_pad{n}d")(t, padding), np.pad(x, widths, "reflect"))
    close(target("aten", f"replication_pad{n}d")(t, padding), np.pad(x, widths, "edge"))


ACTIVATIONS = {
    "silu_": lambda x: x * special.expit(x),
    "hardswish_": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hardsigmoid_": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "mish_": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "gelu_": lambda x: x * special.ndtr(x),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_in_place(name):
    x, t = given(3, 4)
    view = t[:, 1:]
    result = target("aten", name)(view)
    assert result is view
    close(t[:, 1:], ACTIVATIONS[name](x[:, 1:]))
    close(t[:, :1], x[:, :1])


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_bits(name):
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    wanted = getattr(np, f"logical_{name}")(a, b)
    one, other = flambeau.from_numpy(a.copy()), flambeau.from_numpy(b)
    assert target("aten", f"__{name}__", "Tensor")(one, other).tolist() == wanted.tolist()
    assert target("aten", f"__i{name}__", "Tensor")(one, other) is one and one.tolist() == wanted.tolist()
    actual = target("aten", f"__{name}__", "Scalar")(flambeau.tensor([6, 3]), 5)
    assert actual.tolist() == getattr(np, f"bitwise_{name}")([6, 3], 5).tolist()


def test_rows_of_minus_infinity():
    x = flambeau.tensor([[0.0, 1.0], [-np.inf, -np.inf], [-np.inf, 2.0]])
    result = target("aten", "_safe_softmax")(x, -1)
    close(result, np.array([special.softmax([0.0, 1.0]), [0, 0], [0, 1]]))


def test_losses():
    x, t = given(4, 3)
    w, tw = np.array([1.0, 2.0, 0.5], np.float32), flambeau.tensor([1.0, 2.0, 0.5])
    y = np.array([2, 0, 1, 0])
    forward = target("aten", "nll_loss_forward")
    picked = -x[np.arange(4), y]
    for weight, weights in ((None, np.ones(4)), (tw, w[y])):
        not_ignored = weights * (y != 1)
        for reduction, wanted in (
            (0, picked * not_ignored),
            (1, (picked * not_ignored).sum() / not_ignored.sum()),
            (2, (picked * not_ignored).sum()),
        ):
            actual, total = forward(t, flambeau.from_numpy(y), weight, reduction, 1)
            close(actual, wanted)
            close(total, not_ignored.sum() if reduction else 0.0)
    close(target("aten", "log_sigmoid_forward")(t)[0], np.log(special.expit(x)))
    close(target("aten", "_prelu_kernel")(t, flambeau.tensor([0.5])), np.where(x > 0, x, 0.5 * x))


def test_distances_and_bags():
    (x, t), (y, u) = given(4, 3), given(5, 3)
    close(target("aten", "_cdist_forward")(t, u, 2.0, None), distance.cdist(x, y))
    close(target("aten", "_pdist_forward")(t, 2.0), distance.pdist(x))
    table, weight = given(6, 2)
    indices, offsets = flambeau.tensor([1, 2, 5, 0]), flambeau.tensor([0, 3])
    for mode, fold in enumerate((np.sum, np.mean, np.max)):
        result = target("aten", "_embedding_bag")(weight, indices, offsets, False, mode)
        assert len(result) == 4
        close(result[0], np.stack([fold(table[[1, 2, 5]], 0), fold(table[[0]], 0)]))


def test_conversions_and_copies():
    x, t = given(2, 3)
    made = target("aten", "to", "dtype_layout")(
        t, dtype=flambeau.float64, layout=flambeau.strided, device="cpu"
    )
    assert made.dtype is flambeau.float64
    close(made, x)
    with pytest.raises(NotImplementedError, match="to_sparse"):
        target("aten", "to", "dtype_layout")(t, layout=flambeau.sparse_coo)
    assert target("aten", "zero")(t).sum().item() == 0 and t.abs().sum().item() > 0
    lifted = target("aten", "lift")(t)
    assert lifted.data_ptr() != t.data_ptr() and flambeau.equal(lifted, t)
    rows, columns = target("aten", "nonzero_numpy")(flambeau.tensor([[0, 2], [3, 0]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    put = target("aten", "_unsafe_index_put")(t, [flambeau.tensor([0, 0]), None], flambeau.ones(2, 3), True)
    close(put, x + np.array([[2.0], [0.0]]))


def test_factors():
    x, t = given(3, 3)
    lu, pivots, info = target("aten", "_lu_with_info")(t)
    lower, upper = np.tril(lu.numpy(), -1) + np.eye(3), np.triu(lu.numpy())
    rows = list(range(3))
    for k, p in enumerate(pivots.tolist()):
        rows[k], rows[p - 1] = rows[p - 1], rows[k]
    np.testing.assert_allclose(lower @ upper, x[rows], rtol=1e-4, atol=1e-5)
    assert info.item() == 0


def test_ranges_of_sizes():
    constrain = target("aten", "sym_constrain_range")
    assert constrain(3, min=0, max=5) is None
    for n in (-1, 6):
        with pytest.raises(RuntimeError, match=rf"Invalid value range for {n} between \[0, 5\]"):
            constrain(n, min=0, max=5)
