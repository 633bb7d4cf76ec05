"""nn.utils.prune: masks against sorting in NumPy, pruning again, removing, what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parameters_to_vector, prune

RNG = np.random.default_rng(0)


def conv():
    layer = nn.Conv2d(3, 4, 2, dtype=flambeau.float64)
    layer.weight.data = flambeau.tensor(RNG.standard_normal((4, 3, 2, 2)))
    return layer


def smallest(scores, count):
    """A mask without the `count` smallest magnitudes."""
    mask = np.ones(scores.size)
    mask[np.argsort(np.abs(scores).ravel(), kind="stable")[:count]] = 0
    return mask.reshape(scores.shape)


@pytest.mark.parametrize("amount, count", [(0, 0), (1, 1), (5, 5), (48, 48), (0.0, 0), (0.3, 14), (1.0, 48)])
def test_l1_unstructured(amount, count):
    layer = conv()
    weight, w = layer.weight, layer.weight.detach().numpy().copy()
    assert prune.l1_unstructured(layer, "weight", amount) is layer
    assert layer.weight_orig is weight and layer.weight_mask.numpy().tolist() == smallest(w, count).tolist()
    assert layer.weight.detach().numpy().tolist() == (w * smallest(w, count)).tolist()
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight_orig"]
    assert prune.is_pruned(layer) and prune.is_pruned(nn.Sequential(layer)) and not prune.is_pruned(conv())
    scores = RNG.standard_normal(w.shape)
    other = prune.l1_unstructured(conv(), "weight", amount, importance_scores=flambeau.tensor(scores))
    assert other.weight_mask.numpy().tolist() == smallest(scores, count).tolist()


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("p", [1, 2, np.inf, -np.inf])
@pytest.mark.parametrize("amount, count", [(0, 0), (1, 1), (0.5, None)])
def test_ln_structured(dim, p, amount, count):
    layer = conv()
    w = layer.weight.detach().numpy()
    channels = np.moveaxis(w, dim, 0).reshape(w.shape[dim], -1)
    count = round(amount * len(channels)) if count is None else count
    kept = np.ones(len(channels))
    kept[np.argsort(np.linalg.norm(channels, p, axis=1))[:count]] = 0
    prune.ln_structured(layer, "weight", amount, p, dim)
    mask = np.moveaxis(layer.weight_mask.numpy(), dim, 0).reshape(len(channels), -1)
    assert mask.tolist() == np.repeat(kept[:, None], mask.shape[1], 1).tolist()


def test_random_pruning():
    layer = prune.random_unstructured(conv(), "weight", 7)
    assert int((layer.weight_mask == 0).sum()) == 7
    prune.random_unstructured(layer, "weight", 0.5)  # half of what is left
    assert int((layer.weight_mask == 0).sum()) == 7 + round(0.5 * 41)
    layer = prune.random_structured(conv(), "weight", 2, 1)
    assert sorted(layer.weight_mask.sum((0, 2, 3)).tolist()) == [0, 0, 16]
    prune.random_structured(layer, "weight", 1, 1)  # of the one channel that is left
    assert float(layer.weight_mask.sum()) == 0
    masks = {
        tuple(prune.random_unstructured(nn.Linear(8, 8), "weight", 3).weight_mask.flatten().tolist())
        for _ in range(5)
    }
    assert len(masks) > 1


def test_pruning_again_takes_from_what_is_left():
    layer = conv()
    w = layer.weight.detach().numpy().copy()
    prune.l1_unstructured(layer, "weight", 10)
    prune.l1_unstructured(layer, "weight", 5)
    assert layer.weight_mask.numpy().tolist() == smallest(w, 15).tolist()
    prune.l1_unstructured(layer, "weight", 0.5)
    assert layer.weight_mask.numpy().tolist() == smallest(w, 15 + round(33 / 2)).tolist()
    (hook,) = layer._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 3
    assert [type(m) for m in hook] == [prune.L1Unstructured] * 3 and hook[0].amount == 10
    mask = RNG.integers(0, 2, w.shape)
    before = layer.weight_mask.numpy().copy()
    prune.custom_from_mask(layer, "weight", flambeau.tensor(mask))
    assert layer.weight_mask.numpy().tolist() == (before * mask).tolist()


def test_structured_after_unstructured():
    layer = conv()
    w = layer.weight.detach().numpy()
    prune.ln_structured(layer, "weight", 1, 2, 0)
    gone = np.argsort(np.linalg.norm(w.reshape(4, -1), axis=1))
    prune.ln_structured(layer, "weight", 1, 2, 0)
    assert np.flatnonzero(layer.weight_mask.sum((1, 2, 3)).numpy() == 0).tolist() == sorted(gone[:2].tolist())
    prune.l1_unstructured(layer, "weight", 3)
    assert int(layer.weight_mask.sum()) == 24 - 3


def test_training_and_removing():
    layer = prune.l1_unstructured(conv(), "weight", 0.5)
    mask, original = layer.weight_mask.clone(), layer.weight_orig
    optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.1)
    x = flambeau.rand(2, 3, 4, 4, dtype=flambeau.float64)
    layer(x).sum().backward()
    assert bool((original.grad[mask == 0] == 0).all()) and bool((original.grad[mask == 1] != 0).all())
    optimizer.step()
    layer(x)
    wanted = (original * mask).detach()
    assert layer.weight.equal(wanted)
    assert prune.remove(layer, "weight") is layer and not layer._forward_pre_hooks
    assert layer.weight is original and layer.weight.equal(wanted)
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight"] and not list(layer.buffers())
    with pytest.raises(ValueError, match="Parameter 'weight' of module .* has to be pruned before"):
        prune.remove(layer, "weight")


def test_several_parameters_at_once():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()
    pairs = [(net[0], "weight"), (net[1], "weight"), (net[0], "bias")]
    together = np.concatenate([getattr(m, n).detach().numpy().ravel() for m, n in pairs])
    prune.global_unstructured(iter(pairs), prune.L1Unstructured, amount=0.25)
    masks = [getattr(m, n + "_mask") for m, n in pairs]
    assert parameters_to_vector(masks).numpy().tolist() == smallest(together, 6).tolist()
    scores = {(net[1], "weight"): flambeau.zeros(2, 4, dtype=flambeau.float64)}
    left = int(net[1].weight_mask.sum())
    prune.global_unstructured(pairs, prune.L1Unstructured, scores, amount=left)
    assert float(net[1].weight_mask.sum()) == 0 and float(parameters_to_vector(masks).sum()) == 18
    assert isinstance(next(iter(net[0]._forward_pre_hooks.values())), prune.PruningContainer)


def test_a_method_without_a_module():
    x = flambeau.tensor([1.0, -3.0, 2.0])
    method = prune.L1Unstructured(1)
    assert method.prune(x).tolist() == [0.0, -3.0, 2.0]
    assert method.prune(x, importance_scores=flambeau.tensor([2.0, 1.0, 3.0])).tolist() == [1.0, 0.0, 2.0]
    assert method.prune(x, default_mask=flambeau.tensor([1.0, 1.0, 0.0])).tolist() == [0.0, -3.0, 0.0]
    with pytest.raises(AssertionError, match="same shape as tensor t"):
        method.prune(x, importance_scores=x[:2])


def test_copies_and_pickles():
    layer = prune.l1_unstructured(prune.identity(nn.Linear(2, 3), "weight"), "weight", 2)
    with pytest.raises(
        RuntimeError, match="graph leaves"
    ):  # the pruned weight has a history until it is made anew
        copy.deepcopy(layer)
    layer.requires_grad_(False)
    layer(flambeau.eye(2))
    again = prune.identity(nn.Linear(2, 3), "weight")
    again.load_state_dict(layer.state_dict())
    for made in (copy.deepcopy(layer), again):
        assert made(flambeau.eye(2)).equal(layer(flambeau.eye(2))) and made.weight.equal(layer.weight)
        assert made.weight_orig is not layer.weight_orig and prune.is_pruned(made)
    again = pickle.loads(pickle.dumps(layer))
    assert prune.is_pruned(again) and again.weight_mask.equal(layer.weight_mask)
    assert prune.remove(again, "weight").weight.equal(layer.weight)


class Broken(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        raise ZeroDivisionError


class Odd(prune.BasePruningMethod):
    PRUNING_TYPE = "odd"

    def compute_mask(self, t, default_mask):
        return default_mask


class Channels(Odd):
    PRUNING_TYPE = "structured"


def test_what_fails_changes_nothing():
    for make in (conv, lambda: prune.l1_unstructured(conv(), "weight", 3)):
        layer = make()
        before = {name: value.clone() for name, value in layer.state_dict().items()}
        hooks = list(layer._forward_pre_hooks.values())
        for call, error, message in (
            (lambda: Broken.apply(layer, "weight"), ZeroDivisionError, None),  # noqa: B023
            (lambda: prune.l1_unstructured(layer, "weight", 100), ValueError, "amount=100 should be smaller"),  # noqa: B023
            (lambda: prune.custom_from_mask(layer, "weight", flambeau.ones(2)), AssertionError, "shape"),  # noqa: B023
        ):
            with pytest.raises(error, match=message):
                call()
        assert list(layer.state_dict()) == list(before) and list(layer._forward_pre_hooks.values()) == hooks
        assert all(value.equal(before[name]) for name, value in layer.state_dict().items())


def test_bad_arguments():
    layer, twice = conv(), prune.identity(conv(), "weight")
    for call, error, message in (
        (
            lambda: prune.l1_unstructured(layer, "weight", -1),
            ValueError,
            "amount=-1 should either be a float",
        ),
        (
            lambda: prune.l1_unstructured(layer, "weight", 1.5),
            ValueError,
            "amount=1.5 should either be a float",
        ),
        (lambda: prune.l1_unstructured(layer, "weight", float("nan")), ValueError, "amount=nan"),
        (
            lambda: prune.l1_unstructured(layer, "weight", "1"),
            TypeError,
            "Invalid type for amount: 1. Must be",
        ),
        (
            lambda: prune.l1_unstructured(layer, "weight", 1, flambeau.ones(1)),
            AssertionError,
            "same shape as parameter",
        ),
        (
            lambda: prune.ln_structured(layer, "bias", 1, 2, 0),
            ValueError,
            "multidimensional tensors. Found tensor of shape",
        ),
        (lambda: prune.ln_structured(layer, "weight", 1, 2, 4), IndexError, "Invalid index 4 for tensor"),
        (lambda: prune.random_structured(layer, "weight", 1, -5), IndexError, "Invalid index -5"),
        (
            lambda: prune.ln_structured(layer, "weight", 9, 2, 0),
            ValueError,
            "amount=9 should be smaller .* prune=4",
        ),
        (lambda: prune.ln_structured(twice, "weight", 1, 2, 4), IndexError, "dimensions 4"),
        (lambda: prune.identity(layer, "nope"), AttributeError, "nope"),
        (lambda: Odd.apply(twice, "weight"), ValueError, "Unrecognized PRUNING_TYPE odd"),
        (lambda: Channels.apply(twice, "weight"), AttributeError, "need to have the attribute `dim`"),
        (
            lambda: prune.global_unstructured(3, prune.L1Unstructured),
            TypeError,
            "parameters is not an Iterable",
        ),
        (
            lambda: prune.global_unstructured([], prune.L1Unstructured, [1], amount=1),
            TypeError,
            "of type dict",
        ),
        (
            lambda: prune.global_unstructured([(layer, "weight")], prune.LnStructured, amount=1, n=1),
            TypeError,
            'Only "unstructured" PRUNING_TYPE supported',
        ),
        (lambda: prune.PruningContainer(3), TypeError, "is not a BasePruningMethod subclass"),
        (lambda: prune.L1Unstructured(1).apply_mask(layer), AssertionError, "has to be pruned"),
    ):
        with pytest.raises(error, match=message):
            call()
    one, other = prune.Identity(), prune.Identity()
    one._tensor_name, other._tensor_name = "weight", "bias"
    with pytest.raises(ValueError, match="named 'weight' to PruningContainer .* Found 'bias'"):
        prune.PruningContainer(one, other)
    with pytest.raises(TypeError, match="abstract"):
        prune.BasePruningMethod()
