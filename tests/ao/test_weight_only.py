"""Linear layers of few bits, against the weights that their codes mean."""

from __future__ import annotations

import copy
import gc
import io
import pathlib

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.ao.quantization import (
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    NF4WeightOnlyConfig,
    WeightOnlyEmbedding,
    WeightOnlyLinear,
    quantize_,
)
from flambeau.codegen.tiles.quantised import NF4

CONFIGS = [
    Int8WeightOnlyConfig(),
    Float8WeightOnlyConfig(),
    Float8WeightOnlyConfig(flambeau.float8_e5m2),
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
    if config.kind.startswith("float8"):
        largest, bits, least = (448, 3, -9) if config.kind == "float8" else (57344, 2, -16)
        scale = np.abs(w).max(1, keepdims=True) / largest
        numbers = np.abs(w / scale)
        step = 2.0 ** np.maximum(  # of so many bits of mantissa
            np.floor(np.log2(np.maximum(numbers, 1e-30))) - bits, least
        )
        return np.sign(w) * np.round(numbers / step) * step * scale
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


# --- rounded inputs ------------------------------
@pytest.mark.parametrize(
    "config", [Int8DynamicActivationInt8WeightConfig(), Int8DynamicActivationInt4WeightConfig(32)], ids=repr
)
@pytest.mark.parametrize("rows", [0, 1, 3, 20])
def test_dynamic_activations(config, rows):
    net = model()
    quantize_(net, config)
    layer = net[0]
    x = flambeau.randn(rows, 128) * flambeau.arange(1.0, rows + 1).unsqueeze(1) + 1.0
    numbers = x.numpy().astype("f4")
    if config.kind == "int8":
        scale = np.abs(numbers).max(1, keepdims=True, initial=0) / np.float32(127)
        rounded = np.round(numbers / scale) * scale
    else:
        least, most = (f(numbers, 1, keepdims=True, initial=0) for f in (np.min, np.max))
        scale = (most - least) / np.float32(255)
        zero = -128 - np.round(least / scale)
        rounded = (np.clip(np.round(numbers / scale) + zero, -128, 127) - zero) * scale
    wanted = rounded.astype("f8") @ layer.weight.numpy().astype("f8").T + layer.bias.detach().numpy()
    # Half-way cases may go either way: at most a step of one input each.
    slack = 1e-3 * (np.abs(scale) if rows else 1.0) + 1e-4
    assert (np.abs(layer(x).detach().numpy() - wanted) <= slack + 1e-5 * np.abs(wanted)).all()
    plain = numbers @ layer.weight.numpy().T + layer.bias.detach().numpy()
    assert rows == 0 or not np.allclose(layer(x).detach().numpy(), plain, rtol=1e-6, atol=1e-6)


def test_four_bits_around_zero_are_the_nearest():
    net = nn.Sequential(nn.Linear(64, 5))
    w = net[0].weight.detach().numpy().astype("f8").reshape(5, 2, 32)
    scale = np.abs(w).max(2, keepdims=True) / 7.5
    quantize_(net, Int8DynamicActivationInt4WeightConfig(32))
    codes = net[0].weight.numpy().reshape(5, 2, 32) / scale
    assert np.abs(codes - np.round(codes)).max() < 1e-5 and codes.min() > -8.01 and codes.max() < 7.01
    assert np.abs(codes - w / scale).max() < 0.5 + 1e-5  # the largest of a group lies half-way


@pytest.mark.parametrize(
    "config", [Int8DynamicActivationInt8WeightConfig(), Int8DynamicActivationInt4WeightConfig()], ids=repr
)
def test_rounded_inputs_of_zeros_and_nan_and_their_gradient(config):
    net = model()
    quantize_(net, config)
    x = flambeau.zeros(3, 128)
    x[1, 7], x[2, 7] = float("nan"), float("inf")
    y = net[0](x)
    assert flambeau.allclose(y[0], net[0].bias) and y[1].isnan().all() and not y[2].isfinite().any()
    x = flambeau.randn(2, 128, requires_grad=True)
    net[0](x).sum().backward()
    assert np.allclose(x.grad.numpy(), net[0].weight.sum(0).numpy(), rtol=1e-3, atol=1e-4)


# --- embeddings ------------------------------
@pytest.mark.parametrize("config", CONFIGS, ids=repr)
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bfloat16])
def test_embeddings(config, dtype):
    net = nn.ModuleDict({"words": nn.Embedding(50, 64, padding_idx=0), "head": nn.Linear(64, 5)}).to(dtype)
    quantize_(net, config, lambda module, name: isinstance(module, nn.Embedding))
    assert type(net["words"]) is WeightOnlyEmbedding and type(net["head"]) is nn.Linear
    table = net["words"].weight
    for index in (
        flambeau.tensor([[0, 3], [49, 3]]),
        flambeau.tensor(7),
        flambeau.empty(0, 2, dtype=flambeau.int64),
    ):
        found = net["words"](index)
        assert found.dtype == dtype and found.shape == (*index.shape, 64)
        assert flambeau.equal(found, table[index])
    with pytest.raises((IndexError, RuntimeError), match="index 50 is out of bounds"):
        net["words"](flambeau.tensor([50]))


def test_embeddings_that_change_are_refused():
    net = nn.Sequential(nn.Embedding(5, 32, max_norm=1.0))
    with pytest.raises(
        ValueError, match=r"quantize_\(\): 0: WeightOnlyEmbedding: an embedding with max_norm"
    ):
        quantize_(net, Int8WeightOnlyConfig(), lambda module, name: name == "0")
    with pytest.raises(ValueError, match="weight_dtype must be float8_e4m3fn or float8_e5m2"):
        Float8WeightOnlyConfig(flambeau.float16)


# --- how much is lost ------------------------------
class Letters(nn.Module):
    """Which letter is next, by the eight before it."""

    def __init__(self, letters):
        super().__init__()
        self.words = nn.Embedding(letters, 32)
        self.inner, self.head = nn.Linear(8 * 32, 128), nn.Linear(128, letters)

    def forward(self, x):
        return self.head(self.inner(self.words(x).flatten(1)).relu())


def test_perplexity_of_a_trained_model():
    """Eight bits cost at most 1 % of the perplexity on text that was not trained on, four bits at most 3 %."""
    flambeau.manual_seed(1)
    text = "".join(
        p.read_text(encoding="utf-8")
        for p in sorted(pathlib.Path(flambeau.__file__).parent.glob("nn/modules/*.py"))
    )
    letters = sorted(set(text))
    places = flambeau.tensor([letters.index(c) for c in text])
    rows, next_one = places.unfold(0, 9, 1)[:, :8], places[8:]
    cut = len(rows) * 9 // 10
    net = Letters(len(letters))
    optimizer = flambeau.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(300):
        batch = flambeau.randint(0, cut, (256,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(rows[batch]), next_one[batch]).backward()
        optimizer.step()

    @flambeau.no_grad()
    def perplexity(config=None, everything=False):
        kept = copy.deepcopy(net)
        if config is not None:
            quantize_(
                kept,
                config,
                (lambda module, name: isinstance(module, (nn.Linear, nn.Embedding))) if everything else None,
            )
        return nn.functional.cross_entropy(kept(rows[cut:][:4000]), next_one[cut:][:4000]).exp().item()

    floats = perplexity()
    assert floats < len(letters) / 4  # it has learned something
    for config in (Int8WeightOnlyConfig(), Float8WeightOnlyConfig(), Int8DynamicActivationInt8WeightConfig()):
        assert abs(perplexity(config) / floats - 1) < 0.01, config
    for config in (
        Int4WeightOnlyConfig(32),
        NF4WeightOnlyConfig(32),
        Int8DynamicActivationInt4WeightConfig(32),
    ):
        assert abs(perplexity(config) / floats - 1) < 0.03, config
    assert abs(perplexity(Int8WeightOnlyConfig(), everything=True) / floats - 1) < 0.01
