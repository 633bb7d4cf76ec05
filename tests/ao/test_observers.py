"""Observers, rounding by them, and linear layers with dynamic integers, against their formulas in NumPy."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.ao import quantization as q
from flambeau.ao._dynamic_range import qparams_of
from flambeau.ao.nn.quantized import dynamic

f4 = np.float32


def watched(observer, tensors):
    for x in tensors:
        assert observer(x) is x
    return tuple(t.numpy() for t in observer.calculate_qparams())


def formula(least, most, low, high, symmetric, middle=0):
    """Jacob et al., in float32, step by step."""
    least, most = np.minimum(least, f4(0)), np.maximum(most, f4(0))
    least, most = np.asarray(least, "f4"), np.asarray(most, "f4")
    eps = f4(2.0**-23)
    if symmetric:
        return np.maximum(np.maximum(-least, most) / f4((high - low) / 2), eps), np.full(least.shape, middle)
    scale = np.maximum((most - least) / f4(high - low), eps)
    return scale, np.clip(low - np.round(least / scale), low, high)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype, low, high", [("quint8", 0, 255), ("qint8", -128, 127)])
@pytest.mark.parametrize("shift", [-10.0, 0.0, 10.0])
def test_scales_per_tensor_and_per_channel(symmetric, dtype, low, high, shift):
    generator = np.random.default_rng(0)
    batches = [(generator.standard_normal((3, 4, 5)) + shift).astype("f4") for _ in range(3)]
    tensors = [flambeau.tensor(b) for b in batches]
    middle = 128 if dtype == "quint8" else 0
    kind = "symmetric" if symmetric else "affine"
    given = {"dtype": getattr(flambeau, dtype)}
    whole = np.stack(batches)
    observer = q.MinMaxObserver(qscheme=getattr(flambeau, f"per_tensor_{kind}"), **given)
    for found, wanted in zip(
        watched(observer, tensors), formula(whole.min(), whole.max(), low, high, symmetric, middle)
    ):
        assert found.tolist() == [wanted]
    scheme = getattr(flambeau, f"per_channel_{kind}")
    for axis in (0, 1, -1):
        others = tuple(d for d in range(4) if d != axis % 3 + 1)
        observer = q.PerChannelMinMaxObserver(ch_axis=axis, qscheme=scheme, **given)
        wanted = formula(whole.min(others), whole.max(others), low, high, symmetric, middle)
        for found, numbers in zip(watched(observer, tensors), wanted):
            assert found.tolist() == numbers.tolist()


def test_moving_averages():
    tops = [1.0, 3.0, 2.0]
    tensors = [flambeau.tensor([[-top, top]]) for top in tops]
    average = f4(tops[0])
    for top in tops[1:]:
        average += f4(0.25) * (f4(top) - average)
    observer = q.MovingAverageMinMaxObserver(averaging_constant=0.25)
    watched(observer, tensors)
    assert observer.max_val.item() == average == -observer.min_val.item()
    observer = q.MovingAveragePerChannelMinMaxObserver(averaging_constant=0.25)
    watched(observer, tensors)
    assert observer.max_val.tolist() == [average] == (-observer.min_val).tolist()


def test_ranges_and_what_was_not_watched():
    with pytest.warns(UserWarning, match="reduce_range will be deprecated"):
        observer = q.MinMaxObserver(dtype=flambeau.qint8, reduce_range=True)
    assert (observer.quant_min, observer.quant_max) == (-64, 63)
    observer = q.MinMaxObserver(quant_min=0, quant_max=15)
    with pytest.warns(UserWarning, match="must run observer"):
        assert [t.tolist() for t in observer.calculate_qparams()] == [[1.0], [0]]
    observer(flambeau.empty(0, 3))
    assert observer.min_val == float("inf")
    scale, _ = watched(observer, [flambeau.tensor([0.0, 15.0])])
    assert scale.tolist() == [1.0]
    observer.reset_min_max_vals()
    assert observer.max_val == -float("inf")
    assert watched(q.MinMaxObserver(), [flambeau.zeros(3)])[0].tolist() == [2.0**-23]


@pytest.mark.parametrize(
    "error, message, make",
    [
        (NotImplementedError, "per tensor", lambda: q.MinMaxObserver(qscheme=flambeau.per_channel_affine)),
        (
            NotImplementedError,
            "per channel",
            lambda: q.PerChannelMinMaxObserver(qscheme=flambeau.per_tensor_affine),
        ),
        (NotImplementedError, "dynamic", lambda: q.PerChannelMinMaxObserver(is_dynamic=True)),
        (NotImplementedError, "constant of 1", lambda: q.MovingAverageMinMaxObserver(is_dynamic=True)),
        (AssertionError, "dtype must be one of", lambda: q.MinMaxObserver(dtype=flambeau.float32)),
        (AssertionError, "must hold 0", lambda: q.MinMaxObserver(quant_min=1, quant_max=5)),
        (AssertionError, "out of bound", lambda: q.FakeQuantize(quant_min=-1, quant_max=5)),
        (ValueError, "observer instance", lambda: q.QConfig(q.MinMaxObserver(), q.MinMaxObserver)),
        (NotImplementedError, "does not say", lambda: q.ObserverBase(flambeau.quint8)(flambeau.ones(1))),
    ],
)
def test_refusals(error, message, make):
    with pytest.raises(error, match=message):
        make()


# --- rounding ------------------------------
def test_rounding_by_what_was_seen_and_its_gradient():
    rounding = q.FakeQuantize(
        q.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=flambeau.qint8,
        qscheme=flambeau.per_tensor_symmetric, averaging_constant=1.0,
    )  # fmt: skip
    x = flambeau.tensor([-1.0, 0.3, 0.0, 127.0 / 127.5], requires_grad=True)
    y = rounding(x)
    scale = f4(1) / f4(127.5)
    assert y.tolist() == (np.round(x.detach().numpy() / scale) * scale).astype("f4").tolist()
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 4
    rounding.disable_observer()
    x = flambeau.tensor([-5.0, 0.5], requires_grad=True)
    rounding(x).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0] and rounding.scale.item() == scale
    rounding.apply(q.disable_fake_quant)
    assert rounding(x) is x
    rounding.apply(q.enable_fake_quant)
    assert rounding(x) is not x
    assert not np.signbit(rounding(flambeau.tensor([-1e-6])).item())  # integers have no -0


def test_states_are_saved_whatever_their_sizes():
    rounding = q.default_per_channel_weight_fake_quant()
    x = flambeau.randn(3, 4)
    y = rounding(x)
    file = io.BytesIO()
    flambeau.save(rounding.state_dict(), file)
    file.seek(0)
    other = q.default_per_channel_weight_fake_quant()
    other.load_state_dict(flambeau.load(file))
    other.disable_observer()
    assert (
        other.scale.shape == (3,)
        and flambeau.equal(other(x), y)
        and flambeau.equal(copy.deepcopy(other)(x), y)
    )


def test_a_model_trains_with_rounded_weights():
    flambeau.manual_seed(0)

    class Rounded(nn.Linear):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.rounding = q.default_qat_qconfig.weight()

        def forward(self, x):
            return nn.functional.linear(x, self.rounding(self.weight), self.bias)

    net = nn.Sequential(Rounded(4, 16), nn.ReLU(), Rounded(16, 1))
    x = flambeau.randn(64, 4)
    target = x.sum(1, keepdim=True).abs()
    optimizer = flambeau.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        losses.append(nn.functional.mse_loss(net(x), target))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0] / 10


# --- dynamic integers ------------------------------
def by_hand(x, w, bias, channels):
    """Integers by integers, in 64 bits."""
    amax = np.abs(w).max(1, keepdims=True) if channels else np.abs(w).max()
    weight_scale = np.maximum(f4(amax) / f4(127.5), f4(2.0**-23))
    codes = np.clip(np.round(w * (f4(1) / weight_scale)), -128, 127).astype("i8")
    scale, zero = qparams_of(float(x.min()), float(x.max()), 0, 127)
    integers = np.clip(np.round(x * (f4(1) / f4(scale)) + zero), 0, 127).astype("i8") - zero
    return (integers @ codes.T).astype("f8") * scale * np.asarray(weight_scale, "f8").reshape(1, -1) + bias


@pytest.mark.parametrize("channels", [False, True])
def test_dynamic_integers(channels):
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 4)))
    config = q.per_channel_dynamic_qconfig if channels else q.default_dynamic_qconfig
    made = q.quantize_dynamic(net, {nn.Linear: config})
    assert type(net[0]) is nn.Linear and not list(made.parameters())
    w, bias = net[0].weight.detach().numpy(), net[0].bias.detach().numpy()
    for shape in ((5, 64), (64,), (2, 3, 64), (40, 64)):
        x = flambeau.randn(shape)
        wanted = by_hand(x.numpy().reshape(-1, 64), w, bias, channels).reshape(*shape[:-1], 16)
        assert np.allclose(made[0](x).numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert made(flambeau.ones(0, 64)).shape == (0, 4)
    file = io.BytesIO()
    flambeau.save(made.state_dict(), file)
    file.seek(0)
    other = q.quantize_dynamic(nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 4))))
    other.load_state_dict(flambeau.load(file))
    assert flambeau.equal(other(x), made(x))


def test_scales_of_dynamic_integers_hold_zero():
    for least, most in (
        (-1.0, 3.0),
        (0.5, 2.0),
        (-3.0, -1.0),
        (0.0, 0.0),
        (-1e-7, 1e-7),
        (0.0, 1e-6),
        (-1e30, 1.0),
    ):
        scale, zero_point = qparams_of(least, most, 0, 127)
        assert 0 <= zero_point <= 127 and scale == f4(scale) > 0
        for number in (min(least, 0.0), 0.0, max(most, 0.0)):
            code = min(max(round(number / scale) + zero_point, 0), 127)
            assert abs((code - zero_point) * scale - number) <= 1.01 * scale


def test_what_dynamic_integers_are_for():
    net = nn.ModuleDict(
        {"a": nn.Linear(4, 4), "b": nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), "rnn": nn.LSTM(4, 4)}
    )
    made = q.quantize_dynamic(net, {"b": q.default_dynamic_qconfig, "b.1": None})
    kinds = [type(m) for m in (made["a"], made["b"][0], made["b"][1])]
    assert kinds == [nn.Linear, dynamic.Linear, nn.Linear]
    assert type(q.quantize_dynamic(net)["rnn"]) is dynamic.LSTM
    assert type(q.quantize_dynamic(net, {nn.Linear: q.default_dynamic_qconfig})["rnn"]) is nn.LSTM
    with pytest.raises(NotImplementedError, match="must be qint8"):
        q.quantize_dynamic(net, {nn.Linear}, dtype=flambeau.float16)
    with pytest.raises(NotImplementedError, match="0: .*proj_size"):
        q.quantize_dynamic(nn.Sequential(nn.LSTM(4, 4, proj_size=2)))
    with pytest.raises(ValueError, match="the model itself"):
        q.quantize_dynamic(nn.Linear(4, 4))
    with pytest.raises(TypeError, match="0: DynamicQuantizedLinear: expected a float32"):
        q.quantize_dynamic(nn.Sequential(nn.Linear(4, 4).double()))
    with pytest.raises(RuntimeError, match="expected finite input"):
        made["b"](flambeau.tensor([[1.0, float("nan"), 0.0, 0.0]]))
    with pytest.raises(RuntimeError, match=r"shape \(…, 4\)"):
        made["b"](flambeau.ones(3))
    assert q.quantize_dynamic(net, {"a"}, inplace=True) is net and type(net["a"]) is dynamic.Linear
