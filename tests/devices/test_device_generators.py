"""Each device draws from a generator of its own, which the host's draws do not move.  FLAMBEAU_TEST_DEVICE=cuda runs the same on
another kind of device.
"""

from __future__ import annotations

import copy
import os
import pickle

import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
module = getattr(flambeau, TYPE)
if not module.is_available():
    pytest.skip(f"no {TYPE} device", allow_module_level=True)

DEVICE = flambeau.device(TYPE, 0)
# Operations that draw, by their parameter; some of them do so on the host, from the device's stream.
DRAWING = [
    name
    for name, entry in REGISTRY.items()
    if "generator" in getattr(getattr(entry.function, "__signature__", None), "parameters", ())
]
GIVEN = {"size": (7,), "low": 0, "high": 9, "p": 0.5, "num_samples": 2, "n": 7}


def draw(name, generator=None, place=DEVICE):
    """A call of the operation with tensors of probabilities on the device for what it needs."""
    entry = REGISTRY[name]
    option = {} if generator is None else {"generator": generator}
    if name == "randint":
        return entry.function(9, (7,), device=place, **option)
    if name == "randint_like":
        return entry.function(flambeau.zeros(7, device=place), 9, **option)
    parameters = entry.function.__signature__.parameters.values()
    needed = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD and p.name != "dtype"
    ]
    given = [GIVEN.get(n, None) for n in needed]
    given = [flambeau.full((7,), 0.5, device=place) if v is None else v for v in given]
    named = {} if any(isinstance(v, flambeau.Tensor) for v in given) else {"device": place}
    result = entry.function(*given, **named, **option)
    return result[0] if isinstance(result, tuple) else result


@pytest.fixture(autouse=True)
def _seeded():
    flambeau.manual_seed(11)


def state():
    return flambeau.get_rng_state().tolist(), module.get_rng_state(0).tolist()


def test_the_registry_has_operations_that_draw():
    assert {"rand", "normal_", "randperm", "bernoulli", "multinomial"} <= set(DRAWING)


@pytest.mark.parametrize("name", DRAWING)
def test_a_draw_on_a_device_moves_its_generator_alone(name):
    host, device = state()
    result = draw(name)
    assert result.device == DEVICE
    assert state()[0] == host and state()[1] != device
    flambeau.manual_seed(11)
    assert flambeau.equal(draw(name), result)


@pytest.mark.parametrize("name", DRAWING)
def test_a_draw_on_the_host_moves_its_generator_alone(name):
    host, device = state()
    draw(name, place="cpu")
    assert state()[0] != host and state()[1] == device


@pytest.mark.parametrize("name", DRAWING)
def test_generators_of_another_type_of_device_are_refused(name):
    before = state()
    with pytest.raises(
        RuntimeError,
        match=f"{name.partition('_and_')[0]}.*Expected a '{TYPE}' device type for generator but found 'cpu'",
    ):
        draw(name, flambeau.Generator())
    with pytest.raises(RuntimeError, match=f"Expected a 'cpu' device type for generator but found '{TYPE}'"):
        draw(name, flambeau.Generator(DEVICE), "cpu")
    assert state() == before


def test_one_seed_gives_the_same_bits_everywhere():
    host = [flambeau.rand(1003), flambeau.randn(5, dtype=flambeau.float64), flambeau.randperm(40)]
    there = [
        flambeau.rand(1003, device=DEVICE),
        flambeau.randn(5, dtype=flambeau.float64, device=DEVICE),
        flambeau.randperm(40, device=DEVICE),
    ]
    for a, b in zip(host, there):
        assert flambeau.equal(a, b.cpu())


def test_seeds_of_devices():
    module.manual_seed(3)
    assert module.initial_seed() == 3 and flambeau.initial_seed() == 11
    module.manual_seed_all(4)
    assert {g.initial_seed() for g in module.default_generators} == {4}
    module.seed()
    module.seed_all()
    assert module.initial_seed() != 4 and flambeau.initial_seed() == 11
    flambeau.seed()
    assert module.initial_seed() == flambeau.initial_seed() != 11
    assert len(module.default_generators) == module.device_count()
    assert module.default_generators[0].device == DEVICE
    assert module.default_generators[-1] in list(module.default_generators)
    for call in (module.manual_seed, module.manual_seed_all):
        with pytest.raises(ValueError):
            call("three")
        with pytest.raises(RuntimeError, match="must lie in"):
            call(1 << 64)


def test_states_of_devices():
    flambeau.rand(5, device=DEVICE)
    saved, all_states = module.get_rng_state(DEVICE), module.get_rng_state_all()
    assert saved.is_cpu and saved.dtype == flambeau.uint8 and saved.shape == (16,)
    first = flambeau.rand(5, device=DEVICE)
    for back in (lambda: module.set_rng_state(saved), lambda: module.set_rng_state_all(all_states)):
        back()
        assert flambeau.equal(flambeau.rand(5, device=DEVICE), first)
    with pytest.raises(RuntimeError):
        module.get_rng_state(module.device_count())
    with pytest.raises(RuntimeError):
        module.set_rng_state_all([saved] * (module.device_count() + 1))


def test_a_generator_keeps_its_device():
    made = flambeau.Generator(TYPE).manual_seed(5)
    assert made.device == DEVICE
    flambeau.rand(3, generator=made, device=DEVICE)
    for other in (copy.copy(made), pickle.loads(pickle.dumps(made)), made.clone_state()):
        assert other.device == DEVICE
        assert (other.initial_seed(), other.get_offset()) == (5, made.get_offset())
    assert made.get_offset() > 0
    assert made.set_offset(0) is made and made.get_offset() == 0
    with pytest.raises(RuntimeError, match="set_offset"):
        made.set_offset(-1)


def test_fork_rng_on_devices():
    before = state()
    for options in ({}, {"device_type": TYPE}, {"device_type": TYPE, "devices": [0]}):
        with flambeau.random.fork_rng(**options):
            flambeau.manual_seed(99)
            flambeau.rand(5), flambeau.rand(5, device=DEVICE)
        assert state() == before
    with flambeau.random.fork_rng(devices=[], device_type=TYPE):
        flambeau.rand(5, device=DEVICE)
    assert state()[1] != before[1]
    with pytest.raises(RuntimeError), flambeau.random.fork_rng([module.device_count()], device_type=TYPE):
        pass


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_on_devices(reentrant):
    x = flambeau.ones(400, device=DEVICE, requires_grad=True)
    seen = []

    def noisy(x):
        seen.append(flambeau.nn.functional.dropout(x * 2, 0.5))
        return seen[-1]

    y = flambeau.utils.checkpoint.checkpoint(noisy, x, use_reentrant=reentrant)
    flambeau.rand(3, device=DEVICE)
    after = state()
    y.sum().backward()
    assert flambeau.equal(x.grad, seen[0]) and state() == after


def test_a_trainer_keeps_the_states_of_devices():
    from flambeau.utils.trainer._position import random_states, set_random_states

    flambeau.rand(5, device=DEVICE)
    saved = random_states()
    first = flambeau.rand(5, device=DEVICE)
    flambeau.manual_seed(1)
    set_random_states(saved)
    assert flambeau.equal(flambeau.rand(5, device=DEVICE), first)


def test_samplers_whose_weights_are_on_a_device():
    from flambeau.utils.data import WeightedRandomSampler

    weights = flambeau.tensor([0.0, 1.0, 0.0], device=DEVICE)
    assert list(WeightedRandomSampler(weights, 4)) == [1] * 4
