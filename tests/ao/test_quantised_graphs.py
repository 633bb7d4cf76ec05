"""Graphs that are quantised: where observers come, what is converted, and its numbers beside the observed model's."""

from __future__ import annotations

import copy
import io
import operator
import pickle
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.ao import quantization as q
from flambeau.ao.nn import intrinsic, qat, quantized
from flambeau.ao.quantization import quantize_fx as fx
from flambeau.ao.quantization.fx.custom_config import (
    ConvertCustomConfig,
    FuseCustomConfig,
    PrepareCustomConfig,
)

F = nn.functional


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.bn1 = (
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.conv2, self.bn2 = (
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x
        return self.relu(y)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.pool, self.block = nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), Block(8)
        self.avg, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 4)

    def forward(self, x):
        x = self.block(self.pool(F.relu(self.stem(x))))
        return self.fc(flambeau.flatten(self.avg(x), 1))


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.sigmoid = nn.Linear(4, 6), nn.Linear(4, 6), nn.Sigmoid()
        self.weight, self.bias = nn.Parameter(flambeau.randn(3, 12)), nn.Parameter(flambeau.randn(3))

    def forward(self, x):
        y = flambeau.cat([F.relu(self.a(x)), self.b(x).relu()], 1)
        y = F.relu(F.linear(y, self.weight, self.bias))
        return self.sigmoid(y * 2 + 1) * y, F.hardswish(y), y.chunk(3, 1)[0], y @ y.t()


def made(kind, *args):
    flambeau.manual_seed(0)
    model = kind(*args)
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.running_mean, 0, 0.1)
            nn.init.uniform_(m.running_var, 0.5, 2)
    return model


def numbers(*shape, seed=0):
    return flambeau.tensor(np.random.default_rng(seed).standard_normal(shape).astype("f4"))


def converted(model, x, mapping=None, **options):
    observed = fx.prepare_fx(
        model.eval(), mapping or q.get_default_qconfig_mapping("onednn"), (x,), **options
    )
    observed(x)
    return observed, fx.convert_fx(observed)


def targets(model):
    return [str(n.target) if isinstance(n.target, str) else n.target.__name__ for n in model.graph.nodes]


def all_results(x):
    return x if isinstance(x, tuple) else (x,)


def test_a_residual_network():
    model, x = made(Residual), numbers(4, 3, 12, 12)
    observed, whole = converted(model, x)
    assert isinstance(model.stem, nn.Conv2d) and model.block.bn1.num_features == 8  # is not changed
    assert flambeau.allclose(observed(x), model(x), atol=1e-5)
    observers = [t for t in targets(observed) if t.startswith("activation_post_process")]
    assert observers == [f"activation_post_process_{k}" for k in range(9)]
    assert observed.activation_post_process_1 is observed.activation_post_process_2  # of a pooling
    assert observed.activation_post_process_5 is observed.activation_post_process_7
    assert [t for t in targets(whole) if "scale" not in t and "zero_point" not in t] == [
        "x",
        "quantize_per_tensor",
        *("stem", "pool", "block.conv1", "block.conv2", "add_relu", "avg", "flatten", "fc"),
        *("dequantize", "output"),
    ]
    assert type(whole.stem) is intrinsic.quantized.ConvReLU2d and type(whole.block.conv2) is quantized.Conv2d
    assert set(whole.state_dict()) >= {"stem_input_scale_0", "block_relu_zero_point_0", "fc.scale"}
    assert (whole(x) - model(x)).abs().max() < 0.03
    assert whole(x[:0]).shape == (0, 4)


def test_sums_are_those_of_the_observed_scales():
    """The sum of the residual, by NumPy: dequantised, added, clamped, rounded."""
    x = numbers(4, 3, 12, 12)
    _, whole = converted(made(Residual), x)
    kept = {}

    class Watch(flambeau.fx.Interpreter):
        def run_node(self, n):
            kept[n.name] = super().run_node(n)
            return kept[n.name]

    Watch(whole).run(x)
    scale, zero = float(whole.block_relu_scale_0), int(whole.block_relu_zero_point_0)
    total = kept["block_conv2"].dequantize().numpy() + kept["pool"].dequantize().numpy()
    wanted = np.clip(np.rint(np.maximum(total, 0) / np.float32(scale)) + zero, 0, 255)
    assert np.abs(kept["add_relu"].int_repr().numpy().astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("backend", ["x86", "onednn"])
def test_functions_joins_and_numbers(backend):
    model, x = made(Joined), numbers(16, 4)
    observed, whole = converted(model, x, q.get_default_qconfig_mapping(backend))
    for got, wanted in zip(all_results(whole(x)), all_results(model(x))):
        assert (got - wanted).abs().max() < 0.06 * wanted.abs().max() + 0.02
    assert type(whole.linear_layer) is intrinsic.quantized.LinearReLU
    names = targets(whole)
    assert names.count("mul") == 2 and names.count("add") == 1 and "hardswish" in names
    joined = next(n for n in observed.graph.nodes if n.target is flambeau.cat)
    one = {id(observed.get_submodule(n.target)) for n in (*joined.args[0], *joined.users)}
    assert len(one) == 1  # an observer for all that is joined
    by_number = next(n for n in whole.graph.nodes if n.name == "mul")
    assert by_number.args[1] == 2 and len(by_number.args) == 2
    product = next(n for n in whole.graph.nodes if n.target is operator.matmul)
    assert all(n.target == "dequantize" or "dequantize" in str(n.all_input_nodes) for n in product.args)


def test_a_perceptron_trained_with_rounding():
    flambeau.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    x = numbers(64, 4)
    observed = fx.prepare_qat_fx(model, q.get_default_qat_qconfig_mapping("onednn"), (x,))
    assert type(observed.get_submodule("0")) is intrinsic.qat.LinearReLU
    optimizer = flambeau.optim.Adam(observed.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (observed(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    observed.eval().apply(q.disable_observer)
    whole = fx.convert_fx(observed)
    assert (whole(x) - observed(x)).abs().max() < 0.02 * observed(x).abs().max()
    mapping = q.get_default_qat_qconfig_mapping("onednn").set_object_type(nn.Linear, None)
    left = fx.convert_fx(observed, qconfig_mapping=mapping)
    assert "quantize_per_tensor" not in left.code


def test_normalisations_are_trained_beside_their_convolutions():
    x = numbers(4, 3, 12, 12)
    observed = fx.prepare_qat_fx(made(Residual), q.get_default_qat_qconfig_mapping("x86"), (x,))
    assert type(observed.block.conv1) is intrinsic.qat.ConvBnReLU2d
    assert type(observed.block.conv2) is intrinsic.qat.ConvBn2d and type(observed.fc) is qat.Linear
    observed(x).sum().backward()
    whole = fx.convert_fx(observed.eval())
    assert type(whole.block.conv1) is intrinsic.quantized.ConvReLU2d
    assert (whole(x) - observed(x)).abs().max() < 0.1


def test_configurations_by_what_fits_best():
    mapping = q.QConfigMapping().set_global(q.default_qconfig).set_object_type(nn.Linear, None)
    mapping.set_module_name_regex("enc.*", q.default_per_channel_qconfig).set_module_name("encoder.1", None)
    mapping.set_module_name_object_type_order("", operator.add, 1, None)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            self.head, self.conv = nn.Linear(4, 4), nn.Conv1d(4, 4, 1)

        def forward(self, x):
            x = self.conv(self.encoder(x).unsqueeze(2)).squeeze(2)
            return self.head(x) + x, x + x

    x = numbers(3, 4)
    observed, whole = converted(Net(), x, mapping)
    assert observed.encoder.get_submodule("0").qconfig is q.default_per_channel_qconfig
    assert type(whole.encoder.get_submodule("0")) is quantized.Linear
    assert type(whole.encoder.get_submodule("1")) is nn.Linear and type(whole.head) is nn.Linear
    assert type(whole.conv) is quantized.Conv1d
    assert [n.target for n in whole.graph.nodes if n.target is operator.add] == [operator.add]
    again = q.QConfigMapping.from_dict(mapping.to_dict())
    assert again.to_dict() == mapping.to_dict() and "encoder.1: None" in repr(mapping)


def test_an_operation_is_configured_by_any_of_its_names():
    mapping = q.get_default_qconfig_mapping("onednn").set_object_type(flambeau.add, None)

    class Net(nn.Module):
        def forward(self, x):
            return flambeau.add(F.relu(x), x)

    _, whole = converted(Net(), numbers(3), mapping)
    assert [n.target.__name__ for n in whole.graph.nodes if n.op == "call_function"][-1] == "add"
    assert "ops.quantized" not in whole.code


def test_conversion_leaves_what_a_mapping_leaves():
    x, mapping = numbers(3, 4), q.get_default_qconfig_mapping("onednn")
    observed = fx.prepare_fx(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)).eval(), mapping, (x,))
    observed(x)
    whole = fx.convert_fx(observed, qconfig_mapping=copy.deepcopy(mapping).set_module_name("1", None))
    assert type(whole.get_submodule("0")) is quantized.Linear and type(whole.get_submodule("1")) is nn.Linear
    assert (whole(x) - fx.convert_fx(observed)(x)).abs().max() < 0.05


def test_without_data():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm, self.out = nn.Embedding(10, 8), nn.LSTM(8, 4), nn.Linear(4, 2)

        def forward(self, ids):
            states, (hidden, _) = self.lstm(self.words(ids))
            return F.relu(self.out(states)), hidden

    mapping = q.QConfigMapping().set_global(q.default_dynamic_qconfig)
    mapping.set_object_type(nn.Embedding, q.float_qparams_weight_only_qconfig)
    model, ids = Net().eval(), flambeau.tensor([[1, 2], [3, 4]])
    whole = fx.convert_fx(fx.prepare_fx(model, mapping, (ids,)))
    assert type(whole.words) is quantized.Embedding and type(whole.lstm) is quantized.dynamic.LSTM
    assert type(whole.out[0]) is quantized.dynamic.Linear
    for got, wanted in zip(whole(ids), model(ids)):
        assert (got - wanted).abs().max() < 0.05


def test_what_has_no_form_stays_in_floats():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 6)

        def forward(self, x):
            y = F.gelu(self.b(self.norm(self.a(x))))
            return flambeau.exp(y).view(x.size(0) * 2, -1)

    model, x = Net(), numbers(4, 4)
    _, whole = converted(model, x)
    assert type(whole.norm) is nn.LayerNorm and targets(whole).count("quantize_per_tensor") == 3
    assert (whole(x) - model(x)).abs().max() < 0.1


def test_inputs_and_results_in_codes():
    custom = PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    custom.set_preserved_attributes(["version"])
    model, x = nn.Sequential(nn.Linear(4, 3)).eval(), numbers(5, 4)
    model.version = 7
    observed, _ = converted(model, x, prepare_custom_config=custom)
    assert (
        targets(observed) == ["input", "0", "activation_post_process_0", "output"] and observed.version == 7
    )
    whole = fx.convert_fx(observed, ConvertCustomConfig().set_preserved_attributes(["version"]))
    codes = flambeau.quantize_per_tensor(x, 0.03, 128, flambeau.quint8)
    assert whole(codes).dtype is flambeau.quint8 and whole.version == 7
    assert (whole(codes).dequantize() - model(x)).abs().max() < 0.1
    for bad in ([1], [-1]):
        with pytest.raises(IndexError, match="input_quantized_indexes must be in"):
            converted(model, x, prepare_custom_config=PrepareCustomConfig().set_input_quantized_indexes(bad))


class Scaled(nn.Module):
    def forward(self, x):
        return 2 * x if x.sum() > -1e9 else x  # cannot be traced


class ObservedScaled(Scaled):
    @classmethod
    def from_float(cls, module):
        return cls()


class QuantisedScaled(nn.Module):
    def __init__(self, observer):
        super().__init__()
        self.scale, self.zero_point = (t.item() for t in observer.calculate_qparams())

    def forward(self, x):
        return flambeau.quantize_per_tensor(2 * x.dequantize(), self.scale, self.zero_point, x.dtype)

    @classmethod
    def from_observed(cls, module):
        return cls(module.activation_post_process)


def test_modules_of_a_program():
    model, x = nn.Sequential(nn.Linear(4, 3), Scaled()), numbers(5, 4)
    with pytest.raises(flambeau.fx.proxy.TraceError):
        converted(model, x)
    _, whole = converted(
        model, x, prepare_custom_config=PrepareCustomConfig().set_non_traceable_module_classes([Scaled])
    )
    assert type(whole.get_submodule("1")) is Scaled
    custom = PrepareCustomConfig().set_float_to_observed_mapping(Scaled, ObservedScaled)
    observed, _ = converted(model, x, prepare_custom_config=PrepareCustomConfig.from_dict(custom.to_dict()))
    assert type(observed.get_submodule("1")) is ObservedScaled
    swap = ConvertCustomConfig().set_observed_to_quantized_mapping(ObservedScaled, QuantisedScaled)
    whole = fx.convert_fx(observed, swap)
    assert type(whole.get_submodule("1")) is QuantisedScaled
    assert (whole(x) - model(x)).abs().max() < 0.1


def test_a_float_functional_is_its_operation():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.sum = nn.quantized.FloatFunctional()

        def forward(self, x):
            return self.sum.add(x, x)

    observed, whole = converted(Net(), numbers(6))
    assert len(list(observed.named_children())) == 2
    assert "ops.quantized.add" in whole.code


def test_fused_alone():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Linear(4, 4)).eval()
    model.version = 3
    whole = fx.fuse_fx(model, FuseCustomConfig().set_preserved_attributes(["version"]))
    assert [type(m).__name__ for m in whole.children()] == ["ConvReLU2d", "Linear"] and whole.version == 3
    shared = nn.Conv2d(3, 3, 1)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = shared, nn.BatchNorm2d(3)

        def forward(self, x):
            return self.bn(self.conv(self.conv(x)))

    assert type(fx.fuse_fx(Twice().eval()).bn) is nn.BatchNorm2d  # a convolution of two places cannot take it
    with pytest.raises(AssertionError):
        fx.fuse_fx(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train())


def test_kept_and_loaded_again():
    x = numbers(4, 3, 12, 12)
    _, whole = converted(made(Residual), x)
    for again in (copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))):
        assert flambeau.equal(again(x), whole(x))
    file = io.BytesIO()
    flambeau.save(whole.state_dict(), file)
    _, other = converted(made(Residual), numbers(4, 3, 12, 12, seed=5))
    assert not flambeau.equal(other(x), whole(x))
    file.seek(0)
    other.load_state_dict(flambeau.load(file))
    assert flambeau.equal(other(x), whole(x))


def test_observed_models_are_copied():
    x = numbers(4, 3, 12, 12)
    observed, whole = converted(made(Residual), x)
    assert flambeau.equal(fx.convert_fx(copy.deepcopy(observed))(x), whole(x))
    assert flambeau.equal(fx.convert_fx(observed)(x), whole(x))  # converting leaves it as it was


def test_what_is_refused():
    model, mapping = nn.Sequential(nn.Linear(2, 2)).eval(), q.get_default_qconfig_mapping()
    with pytest.raises(ValueError, match="expected what prepare_fx"):
        fx.convert_fx(flambeau.fx.symbolic_trace(model))
    with pytest.raises(NotImplementedError, match="backend_config"):
        fx.prepare_fx(model, mapping, (), backend_config={})
    with pytest.raises(TypeError, match="QConfigMapping"):
        fx.prepare_fx(model, q.default_qconfig, ())
    with pytest.raises(TypeError, match="PrepareCustomConfig"):
        fx.prepare_fx(model, mapping, (), prepare_custom_config=mapping)
    with pytest.raises(ValueError, match="quant_type"):
        PrepareCustomConfig().set_float_to_observed_mapping(Scaled, Scaled, q.QuantType.DYNAMIC)
    with pytest.raises(ValueError, match="standalone"):
        PrepareCustomConfig.from_dict({"standalone_module_name": []})
    with pytest.raises(RuntimeError, match="scale"):
        codes = flambeau.quantize_per_tensor(flambeau.ones(2), 0.1, 0, flambeau.quint8)
        flambeau.ops.quantized.add(codes, codes)


def test_without_typical_data_there_is_a_warning():
    observed = fx.prepare_fx(nn.Sequential(nn.Linear(2, 2)).eval(), q.get_default_qconfig_mapping(), ())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fx.convert_fx(observed)
    assert any("must run observer" in str(w.message) for w in caught)
