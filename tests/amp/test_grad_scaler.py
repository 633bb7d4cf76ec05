"""`GradScaler`: scales, unscales, skips and grows as PyTorch's."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.amp import GradScaler
from flambeau.amp.grad_scaler import OptState

INF = float("inf")


def made(*, lr=0.5, **options):
    weight = nn.Parameter(flambeau.ones(2))
    return weight, flambeau.optim.SGD([weight], lr=lr), GradScaler("cpu", **{"init_scale": 8.0, **options})


def iterate(weight, optimiser, scaler, factor=1.0):
    optimiser.zero_grad()
    scaler.scale((weight * factor).sum()).backward()
    found = scaler.step(optimiser)
    scaler.update()
    return found


def test_a_step_is_that_of_the_gradients_unscaled():
    weight, optimiser, scaler = made()
    iterate(weight, optimiser, scaler)
    assert weight.tolist() == [0.5, 0.5]
    assert weight.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [INF, -INF, math.nan])
def test_a_step_with_what_is_not_finite_is_skipped(bad):
    weight, optimiser, scaler = made()
    iterate(weight, optimiser, scaler, flambeau.tensor([1.0, bad]))
    assert weight.tolist() == [1.0, 1.0]
    assert scaler.get_scale() == 4.0 and scaler._get_growth_tracker() == 0


def test_the_scale_grows_after_the_interval_and_the_count_begins_anew():
    weight, optimiser, scaler = made(growth_interval=2)
    scales = []
    for factor in (1.0, 1.0, 1.0, INF, 1.0, 1.0):
        iterate(weight, optimiser, scaler, factor)
        scales.append(scaler.get_scale())
    assert scales == [8.0, 16.0, 16.0, 8.0, 8.0, 16.0]


def test_growth_stops_where_the_scale_would_be_infinite():
    weight, optimiser, scaler = made(init_scale=2.0**127, growth_interval=1)
    with flambeau.no_grad():
        weight.zero_()
    iterate(weight, optimiser, scaler, 1e-30)
    assert scaler.get_scale() == 2.0**127


def test_a_scaler_that_finds_no_finite_step_halves_to_nothing():
    """As PyTorch's, whose scale has no lower bound either."""
    weight, optimiser, scaler = made(init_scale=2.0**16)
    scales = []
    for _ in range(170):
        iterate(weight, optimiser, scaler, math.nan)
        scales.append(scaler.get_scale())
    assert scales[0] == 2.0**15 and scales[15] == 1.0 and scales[-1] == 0.0
    assert weight.tolist() == [1.0, 1.0]


def test_unscale_gives_gradients_that_may_be_clipped():
    weight, optimiser, scaler = made()
    scaler.scale((weight * 3).sum()).backward()
    assert weight.grad.tolist() == [24.0, 24.0]
    scaler.unscale_(optimiser)
    assert weight.grad.tolist() == [3.0, 3.0]
    nn.utils.clip_grad_norm_([weight], 1.0)
    scaler.step(optimiser)
    assert weight.grad.norm().item() == pytest.approx(1.0, rel=1e-5)


def test_the_order_of_calls_is_held():
    weight, optimiser, scaler = made()
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.unscale_(optimiser)
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimiser)
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.update()
    scaler.scale(weight.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(optimiser, closure=lambda: None)
    scaler.unscale_(optimiser)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimiser)
    scaler.step(optimiser)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimiser)
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        scaler.step(optimiser)
    scaler.update()
    optimiser.zero_grad()
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimiser)


def test_gradients_of_float16_are_refused():
    weight = nn.Parameter(flambeau.ones(2, dtype=flambeau.float16))
    optimiser, scaler = flambeau.optim.SGD([weight], lr=0.5), GradScaler("cpu", init_scale=8.0)
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimiser)
    assert weight.grad.tolist() == [8.0, 8.0]  # nothing was written


def test_nothing_is_written_where_one_of_several_gradients_is_refused():
    first, second = nn.Parameter(flambeau.ones(2)), nn.Parameter(flambeau.ones(2, dtype=flambeau.float16))
    optimiser, scaler = flambeau.optim.SGD([first, second], lr=0.5), GradScaler("cpu", init_scale=8.0)
    scaler.scale((first + second).sum()).backward()
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(optimiser)
    assert first.grad.tolist() == [8.0, 8.0]


def test_several_optimisers_share_a_scale_and_skip_apart():
    first, second = nn.Parameter(flambeau.ones(1)), nn.Parameter(flambeau.ones(1))
    optimisers = [flambeau.optim.SGD([p], lr=0.5) for p in (first, second)]
    scaler = GradScaler("cpu", init_scale=8.0)
    scaler.scale((first + second * INF).sum()).backward()
    for optimiser in optimisers:
        scaler.step(optimiser)
    scaler.update()
    assert (first.item(), second.item(), scaler.get_scale()) == (0.5, 1.0, 4.0)


def test_sparse_gradients():
    layer = nn.Embedding(4, 2, sparse=True)
    optimiser, scaler = flambeau.optim.SGD(layer.parameters(), lr=1.0), GradScaler("cpu", init_scale=8.0)
    before = layer.weight.detach().clone()
    scaler.scale(layer(flambeau.tensor([1, 1, 3])).sum()).backward()
    assert layer.weight.grad.is_sparse
    scaler.step(optimiser)
    scaler.update()
    assert (before - layer.weight.detach()).allclose(flambeau.tensor([0.0, 2, 0, 1])[:, None].expand(4, 2))
    optimiser.zero_grad()
    scaler.scale((layer(flambeau.tensor([1])) * INF).sum()).backward()
    before = layer.weight.detach().clone()
    scaler.step(optimiser)
    assert flambeau.equal(before, layer.weight.detach())


def test_outputs_of_every_shape_are_scaled():
    scaler = GradScaler("cpu", init_scale=2.0)
    one = flambeau.ones(1)
    found = scaler.scale([one, (one, [one * 3])])
    assert isinstance(found, list) and isinstance(found[1], tuple)
    assert [found[0].item(), found[1][0].item(), found[1][1][0].item()] == [2.0, 2.0, 6.0]
    assert [x.item() for x in scaler.scale(x for x in (one, one))] == [2.0, 2.0]
    assert scaler.scale(one.half()).dtype == flambeau.float16
    with pytest.raises(ValueError, match="must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)
    with pytest.raises(ValueError, match="must be a Tensor or an iterable of Tensors"):
        scaler.scale([one, 3])


def test_what_step_returns_and_takes():
    class Told(flambeau.optim.SGD):
        def step(self, word, other=None):
            return word, other

    weight = nn.Parameter(flambeau.ones(1))
    optimiser, scaler = Told([weight], lr=0.5), GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    assert scaler.step(optimiser, "a", other="b") == ("a", "b")
    scaler.update()
    optimiser.zero_grad()
    scaler.scale((weight * INF).sum()).backward()
    assert scaler.step(optimiser, "a") is None


def test_a_disabled_one_only_steps():
    weight, optimiser, scaler = made(enabled=False)
    assert scaler.scale(weight) is weight
    assert not scaler.is_enabled() and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    weight.sum().backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser, closure=None)
    scaler.update()
    scaler.load_state_dict({})
    assert weight.tolist() == [0.5, 0.5]


def test_cuda_without_a_device_is_a_warning():
    if flambeau.cuda.is_available():
        assert GradScaler().is_enabled()
        return
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not GradScaler().is_enabled()


def test_its_state_goes_on_elsewhere():
    weight, optimiser, scaler = made(growth_interval=5, growth_factor=3.0, backoff_factor=0.25)
    for _ in range(3):
        iterate(weight, optimiser, scaler)
    told = scaler.state_dict()
    assert told == {
        "scale": 8.0,
        "growth_factor": 3.0,
        "backoff_factor": 0.25,
        "growth_interval": 5,
        "_growth_tracker": 3,
    }
    for other in (made()[2], made()[2]):
        other.load_state_dict(told)
        assert other.state_dict() == told
        for _ in range(2):
            iterate(weight, optimiser, other)
        assert other.get_scale() == 24.0
        other.load_state_dict(told)  # of one that is in use
        assert other.state_dict() == told
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        scaler.load_state_dict({})
    with pytest.raises(KeyError):
        scaler.load_state_dict({"scale": 2.0})
    assert scaler.state_dict() == told


def test_getters_and_setters():
    scaler = GradScaler("cpu")
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (
        2.0,
        0.5,
        2000,
    )
    scaler.set_growth_factor(4.0)
    scaler.set_backoff_factor(0.1)
    scaler.set_growth_interval(7)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (
        4.0,
        0.1,
        7,
    )


def test_update_takes_a_new_scale():
    weight, _, scaler = made()
    scaler.scale(weight)
    scaler.update(new_scale=3.0)
    assert scaler.get_scale() == 3.0
    new = flambeau.tensor([5.0])
    scaler.update(new)
    new.zero_()
    assert scaler.get_scale() == 5.0
    for wrong in (flambeau.ones(2), flambeau.ones(1, requires_grad=True), flambeau.ones(1, device="meta")):
        with pytest.raises(AssertionError, match="new_scale should be"):
            scaler.update(wrong)


@pytest.mark.parametrize("wrong", [{"growth_factor": 1.0}, {"backoff_factor": 1.0}])
def test_wrong_factors(wrong):
    with pytest.raises(AssertionError, match="factor must be"):
        GradScaler("cpu", **wrong)


def test_pickles_between_iterations_alone():
    weight, optimiser, scaler = made()
    iterate(weight, optimiser, scaler, INF)
    for found in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)):
        assert found.state_dict() == scaler.state_dict()
        iterate(weight, optimiser, found)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimiser)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning"):
        pickle.dumps(scaler)


def test_optimisers_that_unscale_by_themselves():
    class Own(flambeau.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            seen.append((self.grad_scale, self.found_inf.item()))

    seen: list = []
    weight = nn.Parameter(flambeau.ones(1))
    optimiser, scaler = Own([weight], lr=0.5), GradScaler("cpu", init_scale=8.0)
    scaler.scale((weight * INF).sum()).backward()
    scaler.step(optimiser)
    assert not hasattr(optimiser, "grad_scale") and not hasattr(optimiser, "found_inf")
    scaler.update()
    assert scaler.get_scale() == 4.0
    optimiser.zero_grad()
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimiser)
    scaler.step(optimiser)
    assert [s and s.item() for s, _ in seen] == [8.0, None] and [f for _, f in seen] == [1.0, 0.0]
    assert scaler._per_optimizer_states[id(optimiser)]["stage"] is OptState.STEPPED


def test_float16_trains_with_it():
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    optimiser, scaler = flambeau.optim.Adam(net.parameters(), lr=0.05), GradScaler("cpu")
    x = flambeau.randn(64, 4)
    wanted = x.sum(1, keepdim=True)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        with flambeau.autocast("cpu", dtype=flambeau.float16):
            loss = nn.functional.mse_loss(net(x), wanted)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
