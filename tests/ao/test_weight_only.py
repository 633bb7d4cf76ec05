"""Linear layers of few bits, against the weights that their codes mean."""

from __future__ import annotations

import copy
import gc
import io

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.ao.quantization import (
    Int4WeightOnlyConfig,
    Int8WeightOnlyConfig,
    NF4WeightOnlyConfig,
    WeightOnlyLinear,
    quantize_,
)
from flambeau.codegen.tiles.quantised import NF4

CONFIGS = [
    Int8WeightOnlyConfig(),
    *(c(g) for c in (Int4WeightOnlyConfig, NF4WeightOnlyConfig) for g in (32, 64)),
]


def model(dtype=flambeau.float32):
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 7, bias=False)).to(dtype)


def coded(weight, config):
    """The nearest weights that have codes, by NumPy."""
    w = weight.detach().numpy().astype("f8")
    if config.kind == "int8":
        scale = np.abs(w).max(1, keepdims=True) / 127
        return np.round(w / scale) * scale
    groups = w.reshape(w.shape[0], -1, config.group_size)
    if config.kind == "int4":
        least, most = groups.min(2, keepdims=True), groups.max(2, keepdims=True)
        scale = (most - least) / 15
        return (np.round((groups - least) / scale) * scale + least).reshape(w.shape)
    scale = np.abs(groups).max(2, keepdims=True)
    table = np.array(NF4)
    return (table[np.abs(groups[..., None] / scale[..., None] - table).argmin(3)] * scale).reshape(w.shape)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_each_weight_has_the_nearest_code(config):
    net = model()
    wanted = [coded(net[k].weight, config) for k in (0, 2)]
    bias = net[0].bias
    quantize_(net, config)
    for k, weight in zip((0, 2), wanted):
        assert isinstance(net[k], WeightOnlyLinear)
        assert np.allclose(net[k].weight.numpy(), weight, rtol=1e-5, atol=1e-6)
    assert net[0].bias is bias and list(dict(net.named_parameters())) == ["0.bias"]
    for shape in ((128,), (5, 128), (2, 3, 128), (0, 128), (40, 128)):
        x = flambeau.randn(shape)
        hidden = np.maximum(x.numpy() @ wanted[0].T + bias.detach().numpy(), 0)
        assert np.allclose(net(x).detach().numpy(), hidden @ wanted[1].T, rtol=1e-4, atol=1e-4)
        assert net(x).shape == (*shape[:-1], 7)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bfloat16, flambeau.float16])
def test_files_copies_and_compile(config, dtype):
    net = model(dtype)
    quantize_(net, config)
    x = flambeau.randn(3, 128).to(dtype)
    y = net(x)
    assert y.dtype == dtype
    file = io.BytesIO()
    flambeau.save(net.state_dict(), file)
    file.seek(0)
    other = model(dtype)
    quantize_(other, config)
    with flambeau.no_grad():
        for t in (*other.parameters(), *other.buffers()):
            t.zero_()
    other.load_state_dict(flambeau.load(file))
    assert flambeau.equal(other(x), y) and flambeau.equal(copy.deepcopy(net)(x), y)
    assert flambeau.allclose(flambeau.compile(net)(x).float(), y.float(), rtol=1e-2, atol=1e-2)


def test_what_stands_beside_such_layers_is_trained():
    net = model()
    quantize_(net, NF4WeightOnlyConfig(32))
    x = flambeau.randn(4, 128, requires_grad=True)
    (net(x) ** 2).sum().backward()
    weights = [net[k].weight.numpy().astype("f8") for k in (0, 2)]
    before = x.detach().numpy() @ weights[0].T + net[0].bias.detach().numpy()
    out = np.maximum(before, 0) @ weights[1].T
    hidden = (2 * out) @ weights[1] * (before > 0)
    assert np.allclose(x.grad.numpy(), hidden @ weights[0], rtol=1e-3, atol=1e-4)
    assert np.allclose(net[0].bias.grad.numpy(), hidden.sum(0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_rows_of_zeros_and_nan(config):
    net = model()
    with flambeau.no_grad():
        net[0].weight[3] = 0.0
        net[0].weight[4, 5] = float("nan")
    quantize_(net, config)
    assert (net[0].weight[3] == 0).all()
    assert net[0](flambeau.ones(1, 128))[0, 4].isnan()


def test_what_is_chosen():
    shared = nn.Linear(32, 32)

    class Own(nn.Linear):
        pass

    net = nn.ModuleDict({"a": shared, "b": shared, "own": Own(32, 32), "head": nn.Linear(32, 5)}).eval()
    quantize_(net, Int8WeightOnlyConfig(), lambda module, name: type(module) is nn.Linear and name != "head")
    assert net["a"] is net["b"] and isinstance(net["a"], WeightOnlyLinear) and not net["a"].training
    assert type(net["own"]) is Own and type(net["head"]) is nn.Linear


def test_refusals_leave_the_model_as_it_was():
    net = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 3))
    with pytest.raises(
        ValueError, match=r"quantize_\(\): 1: group_size 32 does not divide in_features, which is 8"
    ):
        quantize_(net, Int4WeightOnlyConfig(32))
    assert type(net[0]) is nn.Linear
    with pytest.raises(ValueError, match="group_size must be one of"):
        NF4WeightOnlyConfig(33)
    with pytest.raises(TypeError, match="expected a configuration"):
        quantize_(net, "int8")
    with pytest.raises(TypeError, match="which is no Linear but a Sequential"):
        quantize_(net, Int8WeightOnlyConfig(), lambda module, name: True)
    with pytest.raises(ValueError, match="the model itself"):
        quantize_(net[0], Int8WeightOnlyConfig())
    with pytest.raises(TypeError, match="float64"):
        quantize_(nn.Sequential(nn.Linear(2, 2).double()), Int8WeightOnlyConfig())
    quantize_(net, Int8WeightOnlyConfig())
    with pytest.raises(RuntimeError, match=r"shape \(…, 64\) in flambeau.float32"):
        net(flambeau.ones(2, 63))


def test_the_float_weight_is_given_up():
    net = nn.Sequential(nn.Linear(1024, 1024))
    held = net[0].weight.untyped_storage().nbytes()
    quantize_(net, Int4WeightOnlyConfig())
    gc.collect()
    codes = sum(t.untyped_storage().nbytes() for t in (*net.buffers(), *net.parameters()))
    assert codes < held / 6.5
