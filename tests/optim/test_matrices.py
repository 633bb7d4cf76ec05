"""Adafactor and Muon against their formulas in NumPy, and L-BFGS against what it should find."""

import math

import numpy as np
import pytest

import flambeau
from flambeau.optim import LBFGS, Adafactor, Muon


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def parameter(values, dtype=flambeau.float64):
    return flambeau.nn.Parameter(flambeau.tensor(values, dtype=dtype))


def train(optimizer, p, grads):
    for g in grads:
        p.grad = flambeau.tensor(g, dtype=p.dtype)
        optimizer.step()


def root_mean_square(x):
    return math.sqrt((x**2).mean())


def adafactor(p, grads, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, maximize=False):
    least = np.finfo(p.dtype).eps if eps[0] is None else eps[0]
    rows = columns = variance = 0.0
    for t, g in enumerate(grads, 1):
        g, weight = -g if maximize else g, t**beta2_decay
        size = max(eps[1], root_mean_square(p)) * min(lr, 1 / math.sqrt(t))
        if p.ndim > 1:
            rows = rows + weight * ((g**2).mean(-1, keepdims=True) - rows)
            columns = columns + weight * ((g**2).mean(-2, keepdims=True) - columns)
            estimate = rows * columns / np.maximum(rows.mean(-2, keepdims=True), least)
        else:
            variance = variance + weight * (g**2 - variance)
            estimate = variance
        update = g / np.sqrt(np.maximum(estimate, least**2))
        p = p * (1 - lr * weight_decay) - size * update / max(1, root_mean_square(update) / d)
    return p


@pytest.mark.parametrize("shape", [(3, 4), (5,), (), (2, 3, 4)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.5, "weight_decay": 0.1},
        {"d": 2.0, "beta2_decay": -1.0},
        {"eps": (0.5, 0.1), "maximize": True},
    ],
    ids=str,
)
def test_adafactor(shape, options):
    start, grads = numbers(*shape), numbers(6, *shape, seed=1)
    for dtype, tolerance in ((flambeau.float64, 1e-12), (flambeau.float32, 1e-4)):
        p = parameter(start, dtype)
        optimizer = Adafactor([p], **options)
        train(optimizer, p, grads)
        if dtype == flambeau.float32:  # whose epsilon is another
            options = {"eps": (float(np.finfo("float32").eps), 1e-3), **options}
        expected = adafactor(start, grads, **options)
        assert np.allclose(p.tolist(), expected, rtol=tolerance, atol=tolerance)
    state = {k: tuple(v.shape) for k, v in optimizer.state[p].items()}
    if len(shape) > 1:
        assert state == {"step": (), "row_var": (*shape[:-1], 1), "col_var": (*shape[:-2], 1, shape[-1])}
    else:
        assert state == {"step": (), "variance": shape}


def muon(p, grads, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, steps=5, match=False):
    """With the exact iteration in place of bfloat16's."""
    m = np.zeros_like(p)
    for g in grads:
        m = m + (1 - momentum) * (g - m)
        x = g + momentum * (m - g) if nesterov else m
        x = x / max(np.linalg.norm(x), 1e-7)
        wide = x.shape[0] <= x.shape[1]
        x = x if wide else x.T
        for _ in range(steps):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        x = x if wide else x.T
        scale = 0.2 * math.sqrt(max(p.shape)) if match else math.sqrt(max(1, p.shape[0] / p.shape[1]))
        p = p * (1 - lr * weight_decay) - lr * scale * x
    return p


@pytest.mark.parametrize("shape", [(3, 4), (6, 2), (5, 5), (1, 3)])
@pytest.mark.parametrize(
    "options, named",
    [({}, {}), ({"nesterov": False, "momentum": 0.5}, {}), ({"ns_steps": 3}, {"steps": 3}),
     ({"adjust_lr_fn": "match_rms_adamw"}, {"match": True})],
    ids=str,
)  # fmt: skip
def test_muon(shape, options, named):
    start, grads = numbers(*shape), numbers(4, *shape, seed=1)
    p = parameter(start)
    optimizer = Muon([p], lr=0.1, **options)
    train(optimizer, p, grads)
    known = {k: v for k, v in options.items() if k in ("nesterov", "momentum")}
    expected = muon(start, grads, lr=0.1, **known, **named)
    assert np.allclose(
        p.tolist(), expected, atol=0.1 * 4 * 0.05
    )  # 4 steps of 0.1, each within bfloat16's 5 %
    assert list(optimizer.state[p]) == ["momentum_buffer"]


def test_muon_makes_singular_values_alike():
    p = parameter(np.zeros((6, 4)))
    train(Muon([p], lr=1.0, weight_decay=0.0, momentum=0.0), p, numbers(1, 6, 4))
    assert 0.5 < np.linalg.svd(np.array(p.tolist()) / math.sqrt(1.5), compute_uv=False).min() < 1.3
    still = parameter(np.ones((2, 2)))
    train(Muon([still], weight_decay=0.0), still, np.zeros((1, 2, 2)))
    assert still.tolist() == [[1, 1], [1, 1]]


def test_muon_refuses():
    with pytest.raises(ValueError, match="2D parameters.*4"):
        Muon([parameter(np.zeros(4))])
    optimizer = Muon([parameter(np.zeros((2, 2)))])
    with pytest.raises(ValueError, match="2D"):
        optimizer.add_param_group({"params": [parameter(np.zeros(4))]})
    assert len(optimizer.param_groups) == 1
    for options in ({"ns_steps": 100}, {"ns_coefficients": (1.0, 2.0)}):
        p = parameter(np.ones((2, 2)))
        with pytest.raises(ValueError, match="less than 100|exactly 3"):
            train(Muon([p], **options), p, np.ones((1, 2, 2)))


# --- L-BFGS ------------------------------


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def minimise(optimizer, params, loss, times):
    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        calls.append(value.item())
        return value

    calls: list[float] = []
    for _ in range(times):
        optimizer.step(closure)
    return calls


def test_lbfgs_finds_the_valley():
    p = parameter([-1.2, 1.0, -0.5, 2.0])
    optimizer = LBFGS([p], line_search_fn="strong_wolfe", max_iter=100)
    calls = minimise(optimizer, [p], lambda: rosenbrock(p), 2)
    assert np.allclose(p.tolist(), 1.0, atol=1e-4) and len(calls) < 120
    assert optimizer.state[p]["func_evals"] == len(calls)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_solves_a_square_in_as_many_steps_as_dimensions(search):
    """With exact directions n steps are enough; parameters of any shape, complex ones as pairs."""
    scale = flambeau.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=flambeau.float64)
    real, pair = (
        parameter(numbers(2, 1)),
        flambeau.nn.Parameter(flambeau.tensor([1 + 2j, -1j], dtype=flambeau.complex128)),
    )

    def loss():
        flat = flambeau.cat([real.reshape(-1), flambeau.view_as_real(pair).reshape(-1)])
        return (scale * flat * flat).sum()

    minimise(LBFGS([real, pair], line_search_fn=search, lr=1.0), [real, pair], loss, 3)
    assert loss().item() < 1e-9


def test_lbfgs_ends():
    p = parameter([2.0])
    assert len(minimise(LBFGS([p], max_iter=3), [p], lambda: (p**4).sum(), 1)) == 3
    assert len(minimise(LBFGS([p], max_iter=50, max_eval=5), [p], lambda: (p**4).sum(), 1)) == 5
    assert len(minimise(LBFGS([p], tolerance_grad=1e6), [p], lambda: (p**4).sum(), 1)) == 1
    optimizer = LBFGS([p], history_size=2, max_iter=8, lr=0.1)
    minimise(optimizer, [p], lambda: (p**4).sum(), 2)
    assert len(optimizer.state[p]["old_dirs"]) == 2


def test_lbfgs_refuses():
    p = parameter([2.0])
    with pytest.raises(ValueError, match="parameter groups"):
        LBFGS([{"params": [p]}, {"params": [parameter([1.0])]}])
    optimizer = LBFGS([p], line_search_fn="armijo")
    with pytest.raises(RuntimeError, match="only 'strong_wolfe'.*'armijo'"):
        optimizer.step(lambda: flambeau.tensor(1.0))
    with pytest.raises(TypeError):
        LBFGS([p]).step()


def test_lbfgs_with_a_loss_of_nan():
    """It ends within its evaluations, as any other loss."""
    p, calls = parameter([2.0]), []

    def closure():
        calls.append(1)
        p.grad = p.detach() * math.nan
        return flambeau.tensor(math.nan)

    for search in (None, "strong_wolfe"):
        LBFGS([p], line_search_fn=search).step(closure)
    assert len(calls) <= 2 * 26
