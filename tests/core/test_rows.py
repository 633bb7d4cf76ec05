"""Reductions of views in any order of memory: permuted, broadcast, with gaps."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau

OPERATIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "var": lambda a, axis: np.var(a, axis, ddof=0),
    "count_nonzero": np.count_nonzero,
}


def views(seed):
    """The same random view as a tensor and as an array."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(rng.choice([1, 2, 3, 5], rng.integers(1, 4)))
    t = flambeau.tensor(a)
    for _ in range(rng.integers(0, 4)):
        d = int(rng.integers(0, a.ndim))
        match int(rng.integers(0, 3)):
            case 0:
                order = [int(k) for k in rng.permutation(a.ndim)]
                a, t = a.transpose(order), t.permute(order)
            case 1:
                shape = [*a.shape[:d], int(rng.choice([1, 2, 5])), *a.shape[d:]]
                a, t = np.broadcast_to(np.expand_dims(a, d), shape), t.unsqueeze(d).expand(shape)
            case 2:
                cut = (slice(None),) * d + (slice(None, None, 2),)
                a, t = a[cut], t[cut]
    dims = tuple(int(k) for k in rng.permutation(a.ndim)[: rng.integers(1, a.ndim + 1)])
    return a, t, dims


@pytest.mark.parametrize("name", OPERATIONS)
def test_random_views(name):
    for seed in range(300):
        a, t, dims = views(seed)
        options = {"correction": 0} if name == "var" else {}
        found = getattr(t, name)(dims, **options)
        np.testing.assert_allclose(
            found.numpy(),
            OPERATIONS[name](a, axis=dims),
            rtol=1e-12,
            atol=1e-12,
            err_msg=f"{seed} {dims} {t.stride()}",
        )


def test_broadcast_rows():
    x = flambeau.arange(1.0, 5.0).reshape(2, 2).expand(3, 2, 2)
    assert x.sum().item() == 30.0 and x.amax().item() == 4.0 and x.mean().item() == 2.5
    assert x.sum((0, 2)).tolist() == [9.0, 21.0]
    weights = flambeau.tensor([[1.0], [2.0]])  # one value a row here, several in the rows of both dimensions
    from flambeau.ops.reductions import log_sum_exp

    assert log_sum_exp(weights.expand(2, 3)).item() == pytest.approx(np.log(3 * np.e + 3 * np.e**2))


def test_row_functions_of_broadcast_rows():
    x = flambeau.tensor([[1.0], [2.0]]).expand(2, 3)
    assert np.allclose(x.softmax(1).numpy(), 1 / 3)
    assert np.allclose(x.log_softmax(1).numpy(), -np.log(3))
    assert np.allclose(flambeau.tensor([1.0]).expand(4, 1).softmax(0).numpy(), 0.25)
    y = flambeau.tensor([[1.0], [2.0]], requires_grad=True)
    (y.expand(2, 3).softmax(1) * flambeau.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert np.allclose(y.grad.numpy(), 0.0)


def test_rows_that_lie_scattered_broadcast_all_operands():
    """Gathered into copies, each operand has the common shape, whichever of them has it."""
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal((3, 5, 4)) for _ in range(3))
    scattered = lambda a: flambeau.from_numpy(np.repeat(np.repeat(a, 2, 0), 2, 2))[
        ::2, :, ::2
    ].requires_grad_()
    plain = lambda a: flambeau.from_numpy(a.copy()).requires_grad_()
    seed = flambeau.from_numpy(np.repeat(rng.standard_normal((3, 5, 4)), 2, 1))[:, ::2]
    grads = []
    for layout in (scattered, plain):
        operands = [layout(a) for a in (x, w, b)]
        y = flambeau.nn.functional.layer_norm(operands[0], (3, 5, 4), *operands[1:])
        grads.append(flambeau.autograd.grad(y, operands, seed))
    for a, b in zip(*grads):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)
