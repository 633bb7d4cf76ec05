"""Models over integers: prepared, converted, trained with rounding, and kept, against the float model and integer arithmetic."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.ao import _integers
from flambeau.ao import quantization as q
from flambeau.ao.nn import intrinsic, qat, quantized

f4 = np.float32
F = nn.functional
FUSED = [["stem", "bn", "relu"], ["depth", "bn2"], ["fc", "relu2"]]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
        self.stem, self.bn, self.relu = nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU()
        self.depth, self.bn2 = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8)
        self.add, self.pool, self.drop = (
            nn.quantized.FloatFunctional(),
            nn.AdaptiveAvgPool2d(2),
            nn.Dropout(0.0),
        )
        self.fc, self.relu2, self.out = nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 5)

    def forward(self, x):
        x = self.relu(self.bn(self.stem(self.quant(x))))
        x = self.add.add_relu(x, self.bn2(self.depth(x)))
        x = self.drop(self.pool(F.max_pool2d(x, 2)).flatten(1))
        return self.dequant(self.out(self.relu2(self.fc(x))))


def model():
    flambeau.manual_seed(0)
    made = Net()
    for bn in (made.bn, made.bn2):
        nn.init.normal_(bn.running_mean, 0, 0.1)
        nn.init.uniform_(bn.running_var, 0.5, 2)
        nn.init.uniform_(bn.weight, 0.5, 1.5)
    return made


def images(seed=0):
    return flambeau.tensor(np.random.default_rng(seed).standard_normal((4, 3, 20, 20)).astype("f4"))


def observed(net, qconfig=None):
    net = q.fuse_modules(net.eval(), FUSED)
    net.qconfig = qconfig or q.get_default_qconfig("onednn")
    net = q.prepare(net)
    with flambeau.no_grad():
        for seed in range(3):
            net(images(seed))
    return net


def through_a_file(state):
    file = io.BytesIO()
    flambeau.save(state, file)
    file.seek(0)
    return flambeau.load(file)


@pytest.mark.parametrize(
    "qconfig", [*(q.get_default_qconfig(name) for name in ("x86", "qnnpack", "onednn")), q.default_qconfig]
)
def test_a_network_over_integers_is_near_the_floats(qconfig):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of `reduce_range`, which PyTorch warns of
        floats = model().eval()
        wanted = floats(images()).detach().numpy()
        prepared = observed(floats, qconfig)
        assert np.allclose(prepared(images()).detach().numpy(), wanted, atol=1e-4)  # observers change nothing
        net = q.convert(prepared)
    kinds = [
        type(m) for m in (net.quant, net.stem, net.depth, net.add, net.fc, net.out, net.drop, net.dequant)
    ]
    fused = intrinsic.quantized
    assert kinds == [
        *(quantized.Quantize, fused.ConvReLU2d, quantized.Conv2d, quantized.QFunctional),
        *(fused.LinearReLU, quantized.Linear, quantized.Dropout, quantized.DeQuantize),
    ]
    found = net(images()).numpy()
    assert np.abs(found - wanted).max() < 0.12 * np.abs(wanted).max() and not np.array_equal(found, wanted)
    assert not list(net.parameters()) and not any(hasattr(m, "qconfig") for m in net.modules())
    assert net(images()[:0]).shape == (0, 5)


def test_each_layer_is_integer_arithmetic():
    net = q.convert(observed(model()))
    x = net.quant(images())
    codes, stem = x.int_repr().numpy().astype("i8"), net.stem
    w = stem.weight()
    centred = flambeau.tensor((codes - x.q_zero_point()).astype("f8"))
    sums = F.conv2d(centred, w.int_repr().double(), None, 2).numpy()
    unit = (w.q_per_channel_scales().numpy() * x.q_scale()).reshape(1, -1, 1, 1)
    numbers = (sums + stem.bias().numpy().reshape(1, -1, 1, 1) / unit) * unit / stem.scale
    wanted = np.clip(np.round(numbers) + stem.zero_point, stem.zero_point, 255)
    assert np.abs(stem(x).int_repr().numpy() - wanted).max() <= 1


def test_states_copies_and_pickles():
    net = q.convert(observed(model()))
    wanted = net(images())
    state = through_a_file(net.state_dict())
    assert {
        "stem.weight",
        "stem.scale",
        "fc._packed_params._packed_params",
        "quant.scale",
        "add.zero_point",
    } <= set(state)
    other = q.convert(observed(Net()))
    assert not flambeau.equal(other(images()), wanted)
    other.load_state_dict(state)
    assert flambeau.equal(other(images()), wanted)
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert flambeau.equal(again(images()), wanted)
    del state["stem.weight"]
    with pytest.raises(RuntimeError, match="stem.weight"):
        other.load_state_dict(state)


def test_modules_that_are_left_alone_or_shared():
    layer = nn.Linear(4, 4)
    net = nn.Sequential(q.QuantStub(), layer, layer, q.DeQuantStub(), nn.Linear(4, 2)).eval()
    net.qconfig = q.default_qconfig
    net[4].qconfig = None
    prepared = q.prepare(net)
    prepared(flambeau.randn(3, 4))
    made = q.convert(prepared)
    assert made[1] is made[2] and type(made[1]) is quantized.Linear and type(made[4]) is nn.Linear
    assert made(flambeau.randn(3, 4)).shape == (3, 2) and type(net[1]) is nn.Linear


def test_hooks_stay():
    seen = []
    net = q.QuantWrapper(nn.Linear(2, 2)).eval()
    net.module.register_forward_hook(lambda module, args, result: seen.append(result.is_quantized))
    net.qconfig = q.default_qconfig
    prepared = q.prepare(net)
    prepared(flambeau.ones(1, 2))
    q.convert(prepared)(flambeau.ones(1, 2))
    assert seen == [False, True]


@pytest.mark.parametrize(
    "modules, example",
    [
        ((nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU()), (2, 3, 8)),
        ((nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), (2, 3, 8, 8)),
        ((nn.Conv3d(3, 4, 3), nn.ReLU()), (2, 3, 5, 5, 5)),
        ((nn.Linear(8, 4), nn.BatchNorm1d(4)), (3, 8)),
        ((nn.Linear(8, 4), nn.ReLU()), (3, 8)),
        ((nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)), (2, 3, 8, 8)),
        ((nn.BatchNorm2d(3), nn.ReLU()), (2, 3, 8, 8)),
    ],
)
def test_fused_modules_compute_the_same(modules, example):
    net = nn.Sequential(*modules).eval()
    for m in net:
        if hasattr(m, "running_var"):
            m.running_var.uniform_(0.5, 2)
    x = flambeau.randn(example)
    fused = q.fuse_modules(net, [[str(k) for k in range(len(modules))]])
    assert flambeau.allclose(fused(x), net(x), atol=1e-5)
    assert all(type(m) is nn.Identity for m in list(fused)[1:]) and type(net[1]) is not nn.Identity


@pytest.mark.parametrize(
    "error, message, run",
    [
        (
            NotImplementedError,
            "Cannot fuse",
            lambda: q.fuse_modules(nn.Sequential(nn.ReLU(), nn.ReLU()), ["0", "1"]),
        ),
        (AttributeError, "nowhere", lambda: q.fuse_modules(nn.Sequential(nn.ReLU()), ["0", "nowhere"])),
        (
            AssertionError,
            "same mode",
            lambda: q.fuse_conv_bn(False, nn.Conv1d(1, 1, 1).eval(), nn.BatchNorm1d(1)),
        ),
        (
            AssertionError,
            "match num_features",
            lambda: q.fuse_conv_bn(True, nn.Conv1d(1, 1, 1), nn.BatchNorm1d(2)),
        ),
        (AssertionError, "Incorrect types", lambda: intrinsic.LinearReLU(nn.ReLU(), nn.ReLU())),
        (AssertionError, "training mode", lambda: q.prepare_qat(nn.Sequential().eval())),
        (AssertionError, "backend: mlas", lambda: q.get_default_qconfig("mlas")),
        (AssertionError, "qconfig must be", lambda: qat.Linear(1, 1)),
        (AssertionError, "got: ReLU", lambda: quantized.Linear.from_float(nn.ReLU())),
        (ValueError, "padding_mode", lambda: quantized.Conv2d(1, 1, 1, padding_mode="reflect")),
        (NotImplementedError, "is_reference", lambda: q.convert(nn.Sequential(), is_reference=True)),
        (AttributeError, "prepare_fx is not here", lambda: q.prepare_fx),
    ],
)
def test_refusals(error, message, run):
    with pytest.raises(error, match=message):
        run()


def test_recurrent_layers_are_refused_where_they_are_prepared():
    net = nn.Sequential(nn.LSTM(2, 2))
    net.qconfig = q.default_qconfig
    with pytest.raises(NotImplementedError, match="0 is a LSTM.*quantize_dynamic"):
        q.prepare(net)
    net[0].qconfig = None
    q.prepare(net)


# --- layers of one kind ------------------------------
def quantised(x, scale=0.1, zero_point=30):
    return flambeau.quantize_per_tensor(flambeau.as_tensor(x), scale, zero_point, flambeau.quint8)


def near(found, numbers, scale, zero_point):
    wanted = np.clip(np.round(numbers / scale) + zero_point, 0, 255)
    assert np.abs(found.int_repr().numpy().astype(int) - wanted).max() <= 1
    assert (found.q_scale(), found.q_zero_point()) == (scale, zero_point)


def test_functions_of_two_tensors():
    x, y = flambeau.randn(3, 4), flambeau.randn(3, 4)
    a, b = quantised(x), quantised(y, 0.2, 9)
    f = quantized.QFunctional()
    f.scale, f.zero_point = 0.05, 100
    n, m = a.dequantize().numpy(), b.dequantize().numpy()
    near(f.add(a, b), n + m, 0.05, 100)
    near(f.mul(a, b), n * m, 0.05, 100)
    near(f.add_relu(a, b), np.maximum(n + m, 0), 0.05, 100)
    near(f.cat([a, b], 1), np.concatenate([n, m], 1), 0.05, 100)
    near(f.matmul(a, b.t()), n @ m.T, 0.05, 100)
    for number in (0.7, -0.7, 3.0, -5.0, 100.0, -100.0):
        found = f.add_scalar(a, number)
        assert np.abs(found.dequantize().numpy() - (n + number)).max() <= found.q_scale() * 1.01 + 0.05
        scaled = f.mul_scalar(a, number)
        assert np.allclose(scaled.dequantize().numpy(), n * number, rtol=1e-5, atol=1e-5)
    assert f.mul_scalar(a, 0.0).dequantize().abs().max() == 0
    with pytest.raises(RuntimeError, match="expected quantised"):
        f.add(a, y)


@pytest.mark.parametrize("dims, kind", [(2, quantized.BatchNorm2d), (3, quantized.BatchNorm3d)])
def test_normalisation(dims, kind):
    layer = kind(3)
    layer.running_mean.copy_(flambeau.tensor([0.1, -0.2, 0.3]))
    layer.running_var.copy_(flambeau.tensor([0.5, 1.0, 2.0]))
    layer.scale, layer.zero_point = flambeau.tensor(0.05), flambeau.tensor(100)
    x = quantised(flambeau.randn(2, 3, *[4] * dims))
    shape = (1, -1) + (1,) * dims
    mean, var = (t.numpy().reshape(shape) for t in (layer.running_mean, layer.running_var))
    near(layer(x), (x.dequantize().numpy() - mean) / np.sqrt(var + layer.eps), float(layer.scale), 100)


@pytest.mark.parametrize(
    "layer, function",
    [
        (quantized.Hardswish(0.05, 20), lambda x: x * np.clip(x + 3, 0, 6) / 6),
        (quantized.ELU(0.05, 20, 0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
        (quantized.LeakyReLU(0.05, 20, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    ],
)
def test_activations_with_a_scale(layer, function):
    x = quantised(flambeau.randn(50))
    near(layer(x), function(x.dequantize().numpy().astype("f8")), 0.05, 20)


@pytest.mark.parametrize("dtype, levels, dim", [("quint8", 255, 7), ("quint4x2", 15, 7), ("quint4x2", 15, 8)])
def test_embeddings(dtype, levels, dim):
    flambeau.manual_seed(0)
    net = nn.ModuleList([nn.Embedding(10, dim), nn.EmbeddingBag(10, dim, mode="mean")])
    made = q.quantize_dynamic(net, dtype=getattr(flambeau, dtype))
    tables = []
    for layer, floats in zip(made, net):
        w = floats.weight.detach().numpy()
        step = (w.max(1, keepdims=True) - w.min(1, keepdims=True)) / levels
        tables.append(layer.weight().dequantize().numpy())
        assert np.abs(tables[-1] - w).max() <= step.max() / 2 * 1.01 and layer.weight().dtype is getattr(
            flambeau, dtype
        )
    at = flambeau.tensor([[1, 5], [9, 1]])
    assert np.allclose(made[0](at).numpy(), tables[0][at.numpy()], atol=1e-6)
    assert np.allclose(made[1](at).numpy(), tables[1][at.numpy()].mean(1), atol=1e-6)
    weights = flambeau.tensor([0.5, 2.0, 1.0, 3.0])
    sums = q.quantize_dynamic(
        nn.ModuleList([nn.EmbeddingBag.from_pretrained(net[1].weight.detach(), mode="sum")]),
        dtype=made[1].dtype,
    )
    found = sums[0](at.flatten(), flambeau.tensor([0, 3]), weights).numpy()
    rows = tables[1][at.numpy().ravel()] * weights.numpy()[:, None]
    assert np.allclose(found, np.stack([rows[:3].sum(0), rows[3:].sum(0)]), atol=1e-5)
    assert made[0](at[:0]).shape == (0, 2, dim)
    other = q.quantize_dynamic(
        nn.ModuleList([nn.Embedding(10, dim), nn.EmbeddingBag(10, dim, mode="mean")]), dtype=made[0].dtype
    )
    other.load_state_dict(through_a_file(made.state_dict()))
    assert flambeau.equal(other[0](at), made[0](at)) and flambeau.equal(other[1](at), made[1](at))


# --- recurrent layers ------------------------------
def coded(w):
    scale = np.maximum(f4(np.abs(w).max()) / f4(127.5), f4(2.0**-23))
    return np.clip(np.round(w * (f4(1) / scale)), -128, 127).astype("f8") * float(scale)


def rounded(x):
    """Numbers as codes 0 to 127 mean them."""
    from flambeau.ao._dynamic_range import qparams_of

    scale, zero = qparams_of(float(x.min()), float(x.max()), 0, 127)
    codes = np.clip(np.round(x.astype("f4") * (f4(1) / f4(scale)) + f4(zero)), 0, 127)
    return (codes.astype("f8") - zero) * scale


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(kind, net, x, layer, end, reverse):
    """One layer in one direction over (steps, batch, width), in float64."""
    name = f"l{layer}{end}"
    w, v = (coded(getattr(net, f"weight_{what}_{name}").detach().numpy()) for what in ("ih", "hh"))
    a, b = (getattr(net, f"bias_{what}_{name}").detach().numpy().astype("f8") for what in ("ih", "hh"))
    given = rounded(x) @ w.T + a
    h = c = np.zeros((x.shape[1], v.shape[1]))
    out = [None] * len(x)
    for t in range(len(x))[:: -1 if reverse else 1]:
        product = rounded(h) @ v.T + b
        if kind == "LSTM":
            i, f, g, o = np.split(given[t] + product, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            (r, z, n), (s, y, m) = np.split(given[t], 3, 1), np.split(product, 3, 1)
            reset, update = sigmoid(r + s), sigmoid(z + y)
            new = np.tanh(n + reset * m)
            h = (h - new) * update + new
        out[t] = h
    return np.stack(out), h


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("layers, both", [(1, False), (2, True)])
def test_recurrent_layers(kind, layers, both):
    flambeau.manual_seed(0)
    net = getattr(nn, kind)(6, 5, layers, bidirectional=both)
    made = q.quantize_dynamic(nn.Sequential(net))[0]
    x = flambeau.randn(4, 3, 6)
    wanted, ends = x.numpy().astype("f8"), []
    for layer in range(layers):
        parts = [by_hand(kind, net, wanted, layer, end, bool(end)) for end in ("", "_reverse")[: 1 + both]]
        wanted, ends = np.concatenate([p[0] for p in parts], 2), ends + [p[1] for p in parts]
    found, state = made(x)
    h = state[0] if kind == "LSTM" else state
    # A number at a half-way case may take the other code.
    assert np.abs(found.numpy() - wanted).max() < 0.02 and np.abs(h.numpy() - np.stack(ends)).max() < 0.02
    first = getattr(nn, kind)(6, 5, layers, bidirectional=both, batch_first=True)
    first.load_state_dict(net.state_dict())
    turned = q.quantize_dynamic(nn.Sequential(first))[0](x.transpose(0, 1))[0]
    assert flambeau.equal(turned.transpose(0, 1), found)
    alone, end = made(x[:, 0])
    assert alone.shape == (4, 5 * (1 + both)) and (end[0] if kind == "LSTM" else end).ndim == 2
    other = q.quantize_dynamic(nn.Sequential(getattr(nn, kind)(6, 5, layers, bidirectional=both)))
    other.load_state_dict({f"0.{k}": v for k, v in through_a_file(made.state_dict()).items()})
    assert flambeau.equal(other[0](x)[0], found) and flambeau.equal(copy.deepcopy(made)(x)[0], found)
    again = made(x, state)[0]
    assert again.shape == found.shape and not flambeau.equal(again, found)


def test_sequences_of_many_lengths():
    flambeau.manual_seed(0)
    made = q.quantize_dynamic(nn.Sequential(nn.LSTM(6, 5, bidirectional=True)))[0]
    parts = [flambeau.randn(n, 6) for n in (2, 5, 3)]
    packed = nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
    found, (h, _) = made(packed)
    found, sizes = nn.utils.rnn.pad_packed_sequence(found)
    assert sizes.tolist() == [2, 5, 3] and found.shape == (5, 3, 10)
    for k, n in enumerate((2, 5, 3)):
        assert flambeau.equal(found[n - 1, k, :5], h[0, k]) and flambeau.equal(found[0, k, 5:], h[1, k])
        assert (found[n:, k] == 0).all()
        one = made(parts[k])[0]  # rounded by a scale of its own
        assert flambeau.allclose(found[:n, k], one, atol=0.05)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(kind):
    flambeau.manual_seed(0)
    cell = getattr(nn, kind)(6, 5)
    made = q.quantize_dynamic(nn.ModuleList([cell]))[0]
    x, h = flambeau.randn(3, 6), flambeau.randn(3, 5)
    given = (h, h) if kind == "LSTMCell" else h
    found, wanted = made(x, given), cell(x, given)
    found, wanted = (found, wanted) if kind == "LSTMCell" else ((found,), (wanted,))
    for a, b in zip(found, wanted, strict=True):
        assert flambeau.allclose(a, b.detach(), atol=0.05) and not flambeau.equal(a, b)
    one = made(x[0])
    assert (one[0] if kind == "LSTMCell" else one).shape == (5,)
    with pytest.raises(RuntimeError, match="a state of shape"):
        made(x, (h[:1], h[:1]) if kind == "LSTMCell" else h[:1])


# --- histograms ------------------------------
def test_histograms_have_less_error_than_the_whole_range():
    x = np.random.default_rng(1).standard_t(3, 20000).astype("f4")
    errors, scales = [], []
    for observer in (q.HistogramObserver(), q.MinMaxObserver()):
        observer(flambeau.tensor(x))
        scale, zero_point = (t.item() for t in observer.calculate_qparams())
        codes = np.clip(np.round(x / scale) + zero_point, 0, 255)
        errors.append((((codes - zero_point) * scale - x) ** 2).mean())
        scales.append(scale)
    assert errors[0] < errors[1] and scales[0] < scales[1]
    observer = q.HistogramObserver(bins=16)
    observer(flambeau.tensor(x))
    assert observer.histogram.tolist() == np.histogram(x, 16)[0].tolist()


def test_histograms_move_where_the_range_grows():
    observer = q.HistogramObserver(bins=8)
    observer(flambeau.tensor([0.0, 1.0, 1.0, 2.0]))
    observer(flambeau.tensor([4.0]))
    # Bins of 1/4 go into those of 1/2; numbers 1 and 2 are spread over the bin that they began and ended.
    assert observer.histogram.tolist() == [1.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert (observer.min_val.item(), observer.max_val.item()) == (0.0, 4.0)
    observer(flambeau.empty(0))
    with pytest.warns(UserWarning, match="inf detected"):
        observer(flambeau.tensor([float("inf"), 1.0]))
    assert observer.histogram.sum().item() == 6.0
    other = q.HistogramObserver(bins=8)
    other.load_state_dict(through_a_file(observer.state_dict()))
    assert [t.tolist() for t in other.calculate_qparams()] == [
        t.tolist() for t in observer.calculate_qparams()
    ]
    with pytest.warns(UserWarning, match="must run observer"):
        assert q.HistogramObserver().calculate_qparams()[0].tolist() == [1.0]
    constant = q.HistogramObserver(bins=8)
    for number in (2.0, 2.0, 3.0):
        constant(flambeau.full((3,), number))
    assert constant.histogram.sum().item() == 9.0


# --- training ------------------------------
@pytest.mark.parametrize("backend, version", [("x86", 1), ("qnnpack", 0)])
def test_training_with_rounding_and_what_it_converts_to(backend, version):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = q.fuse_modules_qat(model().train(), FUSED)
        net.qconfig = q.get_default_qat_qconfig(backend, version)
        net = q.prepare_qat(net)
        trained = intrinsic.qat
        assert [type(m) for m in (net.stem, net.depth, net.fc, net.out)] == [
            *(trained.ConvBnReLU2d, trained.ConvBn2d, trained.LinearReLU, qat.Linear),
        ]
        optimizer = flambeau.optim.SGD(net.parameters(), lr=0.02)
        losses = []
        for step in range(12):
            optimizer.zero_grad()
            losses.append((net(images(step % 2)) ** 2).mean())
            losses[-1].backward()
            optimizer.step()
        assert losses[-1] < losses[0] / 2 and net.stem.bn.num_batches_tracked == 12
        net.apply(q.disable_observer)
        rounding = net.eval()(images()).detach().numpy()
        made = q.convert(net)
    found = made(images()).numpy()
    assert type(made.stem) is intrinsic.quantized.ConvReLU2d and type(made.depth) is quantized.Conv2d
    assert np.rint(np.abs(found - rounding).max() / made.out.scale) <= 4  # whole steps: both are multiples
    state = through_a_file(net.state_dict())
    assert "stem.bn.running_mean" in state and "stem.weight_fake_quant.scale" in state


def test_a_frozen_normalisation_is_left_alone():
    layer = intrinsic.qat.ConvBn2d(2, 3, 1, qconfig=q.default_qat_qconfig).freeze_bn_stats().train()
    before = layer.bn.running_mean.clone()
    x = flambeau.randn(4, 2, 3, 3)
    frozen = layer(x)
    assert flambeau.equal(layer.bn.running_mean, before) and not layer.bn.training
    fused = nn.utils.fusion.fuse_conv_bn_weights(
        layer.weight,
        None,
        layer.bn.running_mean,
        layer.bn.running_var,
        layer.bn.eps,
        layer.bn.weight,
        layer.bn.bias,
    )
    assert flambeau.allclose(frozen, F.conv2d(x, *fused), atol=0.1)
    layer.update_bn_stats()(x)
    assert not flambeau.equal(layer.bn.running_mean, before)


@pytest.mark.parametrize(
    "config, dtype",
    [(q.default_embedding_qat_qconfig, "quint8"), (q.default_embedding_qat_qconfig_4bit, "quint4x2")],
)
def test_embeddings_are_trained_and_converted(config, dtype):
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Embedding(6, 4)).train()
    net.qconfig = config
    net = q.prepare_qat(net, q.get_embedding_qat_module_mappings())
    at = flambeau.tensor([1, 2, 2])
    net(at).sum().backward()
    assert net[0].weight.grad[2].tolist() == [2.0] * 4 and net[0].weight.grad[0].tolist() == [0.0] * 4
    rounding = net(at).detach()
    made = q.convert(net, q.get_embedding_static_quant_module_mappings())
    assert made[0].dtype is getattr(flambeau, dtype) and flambeau.allclose(made[0](at), rounding, atol=1e-6)


def correlated(x, w, stride, padding, dilation, outside):
    """Sums over windows by NumPy, in integers: x (N, C, *sizes), w (K, C, *window)."""
    dims = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]], constant_values=outside)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])]
    views = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + dims)))
    views = views[(slice(None), slice(None), *[slice(None, None, s) for s in stride])]
    views = views[(..., *[slice(None, None, d) for d in dilation])]
    axes = [1, *range(2 + dims, 2 + 2 * dims)]
    return np.moveaxis(np.tensordot(views, w, (axes, range(1, 2 + dims))), -1, 1)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    "channels, window, stride, padding, dilation",
    [
        (3, (7, 7), (2, 2), (3, 3), (1, 1)),
        (8, (3, 3), (1, 1), (1, 1), (1, 1)),
        (5, (3, 2), (2, 1), (0, 1), (2, 3)),
        (4, (1, 1), (2, 3), (0, 0), (1, 1)),
        (6, (3,), (2,), (2,), (1,)),
        (3, (2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 2)),
    ],
)
def test_windows_are_summed_where_they_lie(dtype, channels, window, stride, padding, dilation):
    rng = np.random.default_rng(3)
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    sizes = (9, 8, 7)[: len(window)]
    x = rng.integers(low, high, (3, channels, *sizes)).astype(dtype)
    w = rng.integers(-128, 128, (5, channels, *window)).astype("i1")
    zero, zeros = 7, np.array([0, -3, 5, 0, 100])
    weight = flambeau._make_per_channel_quantized_tensor(
        flambeau.tensor(w), flambeau.ones(5, dtype=flambeau.float64), flambeau.tensor(zeros), 0
    )
    params = _integers.ConvParams(weight, None, stride, padding, dilation, 1)
    wide = x.astype("i8") - zero
    wanted = correlated(
        wide, w.astype("i8") - zeros.reshape(-1, *[1] * (w.ndim - 1)), stride, padding, dilation, 0
    )
    for images in (3, 2, 0):  # the places of windows are found again for another batch
        given = flambeau.tensor(x[:images])
        sums = params._windows(given, zero, list(wanted.shape[2:])).numpy()
        assert np.array_equal(sums, np.moveaxis(wanted[:images], 1, -1).reshape(-1, 5))
