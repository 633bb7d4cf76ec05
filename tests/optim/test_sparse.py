"""Optimisers and sparse gradients: who takes them, who refuses, and that only what the gradient lists is stepped."""

import copy

import numpy as np
import pytest

import flambeau
from flambeau import optim

TAKE = {"SGD", "Adagrad", "SparseAdam", "LBFGS"}
ALL = sorted(
    n
    for n, c in vars(optim).items()
    if isinstance(c, type) and issubclass(c, optim.Optimizer) and c is not optim.Optimizer
)


def parameter(values):
    return flambeau.nn.Parameter(flambeau.tensor(values, dtype=flambeau.float64))


def sparse(rows, values):
    return flambeau.sparse_coo_tensor([rows], flambeau.tensor(values, dtype=flambeau.float64), (4, 2))


def sparse_adam(p, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, (rows, g) in enumerate(grads, 1):
        total = np.zeros_like(p)
        np.add.at(total, rows, g)
        for row in set(rows):
            g = -total[row] if maximize else total[row]
            m[row] = betas[0] * m[row] + (1 - betas[0]) * g
            v[row] = betas[1] * v[row] + (1 - betas[1]) * g**2
            size = lr * np.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)
            p[row] = p[row] - size * m[row] / (np.sqrt(v[row]) + eps)
    return p


@pytest.mark.parametrize("options", [{}, {"lr": 0.1, "betas": (0.5, 0.75)}, {"maximize": True}], ids=str)
def test_sparse_adam(options):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 2))
    grads = [
        ([0, 2, 2], rng.normal(size=(3, 2))),
        ([2], rng.normal(size=(1, 2))),
        ([0, 1], rng.normal(size=(2, 2))),
    ]
    p = parameter(start)
    optimizer = optim.SparseAdam([p], **options)
    for rows, g in grads:
        p.grad = sparse(rows, g)
        optimizer.step()
    assert np.allclose(p.tolist(), sparse_adam(start.copy(), grads, **options), rtol=1e-12)
    assert p.tolist()[3] == start[3].tolist() and optimizer.state[p]["step"] == 3
    saved = copy.deepcopy(optimizer.state_dict())
    again = parameter(p.tolist())
    other = optim.SparseAdam([again], **options)
    other.load_state_dict(saved)
    for each, q in ((optimizer, p), (other, again)):
        q.grad = sparse([1, 3], [[1.0, 2.0], [3.0, 4.0]])
        each.step()
    assert p.tolist() == again.tolist() and other.state[again]["step"] == 4
    p.grad = sparse([], np.zeros((0, 2)))
    before = p.tolist()
    optimizer.step()
    assert p.tolist() == before and optimizer.state[p]["step"] == 5


@pytest.mark.parametrize(
    "cls, options",
    [
        (optim.SGD, {"lr": 0.1}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        (optim.SGD, {"lr": 0.1, "maximize": True}),
        (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1}),
        (optim.Adagrad, {"lr": 0.1, "initial_accumulator_value": 1.0}),
    ],
)
def test_steps_are_those_by_the_dense_gradient(cls, options):
    """Where an element without gradient stands still, leaving it out changes nothing."""
    start = np.random.default_rng(0).normal(size=(4, 2))
    p, q, plain = parameter(start), parameter(start), parameter(start)
    one, other = cls([p, plain], **options), cls([q], **options)
    for rows in ([0, 2, 2], [2, 1], [3, 3]):
        values = np.random.default_rng(len(rows)).normal(size=(len(rows), 2))
        p.grad, q.grad = sparse(rows, values), sparse(rows, values).to_dense()
        plain.grad = q.grad
        one.step()
        other.step()
        assert p.tolist() == q.tolist() == plain.tolist()


@pytest.mark.parametrize("name", ALL)
def test_every_optimizer_takes_or_refuses(name):
    p = parameter([[1.0, 2.0]] * 4)
    optimizer = getattr(optim, name)([p])
    p.grad = sparse([0, 2], [[1.0, 1.0], [1.0, 1.0]])
    if name in TAKE:
        optimizer.step(*[lambda: flambeau.tensor(1.0)] * (name == "LBFGS"))
        assert p.tolist()[1] == [1.0, 2.0] and p.tolist()[0] != [1.0, 2.0]
        return
    with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
        optimizer.step()
    assert p.tolist() == [[1.0, 2.0]] * 4 and p not in optimizer.state


def test_refusals():
    p = parameter([[1.0, 2.0]] * 4)
    optimizer = optim.SparseAdam([p])
    p.grad = flambeau.ones_like(p)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        optimizer.step()
    p.grad = sparse([0], [[1.0, 1.0]])
    for cls in (optim.SGD, optim.Adagrad):
        with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse gradients"):
            cls([p], weight_decay=0.1).step()
    with pytest.raises(ValueError, match="dense parameter tensors"):
        optim.SparseAdam([p.grad])
    with pytest.raises(ValueError, match="complex"):
        optim.SparseAdam([flambeau.zeros(2, dtype=flambeau.complex64)])
