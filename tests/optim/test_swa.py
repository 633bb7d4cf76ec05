"""Averages of weights along a training, and the schedule that belongs to them."""

import copy

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.optim import SGD
from flambeau.optim.swa_utils import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
    update_bn,
)


def network():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def walk(averaged, model, times=5, seed=0):
    """Random weights, each taken into the average; the arrays of the first parameter and of the running mean."""
    rng, seen = np.random.default_rng(seed), []
    for k in range(times):
        with flambeau.no_grad():
            for x in (*model.parameters(), model[1].running_mean):
                x.copy_(flambeau.tensor(rng.normal(size=tuple(x.shape))))
            model[1].num_batches_tracked.fill_(4 * k)
        averaged.update_parameters(model)
        seen.append((model[0].weight.detach().double().numpy(), model[1].running_mean.double().numpy()))
    return [np.array(x) for x in zip(*seen)]


def ema(values, decay=0.9):
    average = values[0]
    for x in values[1:]:
        average = decay * average + (1 - decay) * x
    return average


@pytest.mark.parametrize(
    "options, formula",
    [
        ({}, lambda values: values.mean(0)),
        ({"avg_fn": get_swa_avg_fn()}, lambda values: values.mean(0)),
        ({"multi_avg_fn": get_swa_multi_avg_fn()}, lambda values: values.mean(0)),
        ({"avg_fn": get_ema_avg_fn(0.9)}, ema),
        ({"multi_avg_fn": get_ema_multi_avg_fn(0.9)}, ema),
    ],
)
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averages(options, formula, use_buffers):
    model = network()
    averaged = AveragedModel(model, use_buffers=use_buffers, **options)
    weights, means = walk(averaged, model)
    assert np.allclose(averaged.module[0].weight.detach().numpy(), formula(weights), rtol=1e-5, atol=1e-6)
    found = averaged.module[1].running_mean.numpy()
    assert np.allclose(found, formula(means) if use_buffers else means[-1], rtol=1e-5, atol=1e-6)
    assert averaged.n_averaged.item() == 5 and averaged.n_averaged.dtype == flambeau.int64
    assert all(p.requires_grad and p.grad_fn is None for p in averaged.parameters())
    counted = averaged.module[1].num_batches_tracked
    assert counted.dtype == flambeau.int64 and (counted.item() == 16) == (not use_buffers)


def test_the_average_is_a_model_of_its_own():
    model = network()
    averaged = AveragedModel(model)
    walk(averaged, model, 2)
    assert list(averaged.state_dict())[:2] == ["n_averaged", "module.0.weight"]
    other = AveragedModel(network())
    other.load_state_dict(averaged.state_dict())
    walk(averaged, model, 2, seed=1)
    walk(other, copy.deepcopy(model), 2, seed=1)
    assert [p.tolist() for p in other.parameters()] == [p.tolist() for p in averaged.parameters()]
    x = flambeau.ones(2, 3)
    assert averaged.eval()(x).tolist() == averaged.module(x).tolist()


def test_wrong_functions():
    for make in (get_ema_avg_fn, get_ema_multi_avg_fn):
        for decay in (-0.1, 1.5):
            with pytest.raises(ValueError, match="decay"):
                make(decay)
    with pytest.raises(AssertionError, match="Only one"):
        AveragedModel(network(), avg_fn=get_swa_avg_fn(), multi_avg_fn=get_swa_multi_avg_fn())


def test_statistics_of_batch_norms():
    model, data = network().eval(), [flambeau.randn(8, 3) for _ in range(3)]
    before = model[1].momentum
    update_bn(([x, "label"] for x in data), model)
    outs = np.stack([model[0](x).detach().numpy() for x in data])
    assert np.allclose(model[1].running_mean.numpy(), outs.mean((0, 1)), atol=1e-6)
    assert np.allclose(model[1].running_var.numpy(), outs.var(1, ddof=1).mean(0), rtol=1e-5)
    assert model[1].momentum == before and not model.training and model[1].num_batches_tracked.item() == 3

    def broken():
        yield data[0]
        raise KeyError("no more")

    with pytest.raises(KeyError):
        update_bn(broken(), model)
    assert model[1].momentum == before and not model.training
    update_bn(broken(), nn.Linear(3, 2))  # without batch norms nothing is read


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_the_rate_goes_to_its_end(strategy):
    params = [flambeau.zeros(1, requires_grad=True) for _ in range(2)]
    optimizer = SGD([{"params": params[:1], "lr": 1.0}, {"params": params[1:], "lr": 0.1}])
    scheduler = SWALR(optimizer, [0.5, 0.2], anneal_epochs=4, anneal_strategy=strategy)
    for epoch in range(1, 7):
        optimizer.step()
        scheduler.step()
        t = min(1, epoch / 4)
        share = t if strategy == "linear" else (1 - np.cos(np.pi * t)) / 2
        expected = [1.0 + share * (0.5 - 1.0), 0.1 + share * (0.2 - 0.1)]
        assert np.allclose(scheduler.get_last_lr(), expected, rtol=1e-12)
        assert [g["swa_lr"] for g in optimizer.param_groups] == [0.5, 0.2]
    state = scheduler.state_dict()
    assert "optimizer" not in state and state["_anneal_strategy"] == strategy
    other = SWALR(optimizer, [0.5, 0.2])
    other.load_state_dict(state)
    assert other.anneal_epochs == 4 and other.last_epoch == 6


@pytest.mark.parametrize(
    "options",
    [
        {"swa_lr": [0.1, 0.2]},
        {"swa_lr": 0.1, "anneal_strategy": "none"},
        {"swa_lr": 0.1, "anneal_epochs": -1},
    ],
)
def test_wrong_schedules(options):
    optimizer = SGD([flambeau.zeros(1, requires_grad=True)])
    with pytest.raises(ValueError):
        SWALR(optimizer, **options)
    assert "swa_lr" not in optimizer.param_groups[0]


def test_a_rate_reached_at_once():
    optimizer = SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    assert SWALR(optimizer, 0.25, anneal_epochs=0).get_last_lr() == [0.25]
