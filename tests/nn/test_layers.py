"""Layers: values worked out with NumPy, reprs, initial values and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau import nn

RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((4, 6)).astype(np.float32)
SEQUENCE = RNG.standard_normal((2, 4, 8)).astype(np.float32)
IMAGE = RNG.standard_normal((2, 4, 6, 8)).astype(np.float32)


def run(module, *arrays):
    return module(*(flambeau.tensor(array) for array in arrays)).detach().numpy()


def array(tensor):
    return tensor.detach().numpy()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ERF = np.vectorize(math.erf)
ACTIVATIONS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0), "ReLU()"),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6), "ReLU6()"),
    (nn.SiLU(), lambda x: x * sigmoid(x), "SiLU()"),
    (nn.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x))), "Mish()"),
    (
        nn.SELU(),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        "SELU()",
    ),
    (nn.Hardsigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6, "Hardsigmoid()"),
    (nn.Hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6, "Hardswish()"),
    (nn.Threshold(0.1, 5.0), lambda x: np.where(x > 0.1, x, 5), "Threshold(threshold=0.1, value=5.0)"),
    (nn.Hardtanh(-0.5, 0.25), lambda x: np.clip(x, -0.5, 0.25), "Hardtanh(min_val=-0.5, max_val=0.25)"),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x), "LeakyReLU(negative_slope=0.2)"),
    (nn.PReLU(), lambda x: np.where(x > 0, x, 0.25 * x), "PReLU(num_parameters=1)"),
    (nn.PReLU(6, init=0.5), lambda x: np.where(x > 0, x, 0.5 * x), "PReLU(num_parameters=6)"),
    (nn.RReLU(0.5, 0.5), lambda x: np.where(x > 0, x, 0.5 * x), "RReLU(lower=0.5, upper=0.5)"),
    (nn.ELU(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x)), "ELU(alpha=2.0)"),
    (nn.CELU(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), "CELU(alpha=2.0)"),
    (nn.GELU(), lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2, "GELU(approximate='none')"),
    (
        nn.GELU("tanh"),
        lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
        "GELU(approximate='tanh')",
    ),
    (nn.Softplus(2.0), lambda x: np.log1p(np.exp(2 * x)) / 2, "Softplus(beta=2.0, threshold=20.0)"),
    (nn.Hardshrink(0.3), lambda x: np.where(np.abs(x) > 0.3, x, 0), "Hardshrink(0.3)"),
    (nn.Softshrink(0.3), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.3, 0), "Softshrink(0.3)"),
    (nn.Sigmoid(), sigmoid, "Sigmoid()"),
    (nn.Tanh(), np.tanh, "Tanh()"),
    (nn.LogSigmoid(), lambda x: -np.log1p(np.exp(-x)), "LogSigmoid()"),
    (nn.Softsign(), lambda x: x / (1 + np.abs(x)), "Softsign()"),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x), "Tanhshrink()"),
    (nn.GLU(1), lambda x: x[:, :3] * sigmoid(x[:, 3:]), "GLU(dim=1)"),
    (nn.Softmax(1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), "Softmax(dim=1)"),
    (nn.Softmin(1), lambda x: np.exp(-x) / np.exp(-x).sum(1, keepdims=True), "Softmin(dim=1)"),
    (nn.LogSoftmax(0), lambda x: x - np.log(np.exp(x).sum(0)), "LogSoftmax(dim=0)"),
    (nn.Identity(3, bias=True), lambda x: x, "Identity()"),
    (nn.Flatten(0), np.ravel, "Flatten(start_dim=0, end_dim=-1)"),
    (nn.Unflatten(1, (2, 3)), lambda x: x.reshape(4, 2, 3), "Unflatten(dim=1, unflattened_size=(2, 3))"),
]


@pytest.mark.parametrize("module, expected, text", ACTIVATIONS, ids=[text for *_, text in ACTIVATIONS])
def test_elementwise_layers(module, expected, text):
    assert repr(module) == text
    assert np.allclose(run(module, MATRIX), expected(MATRIX.astype(np.float64)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["ReLU", "ReLU6", "SiLU", "Mish", "SELU", "Hardsigmoid", "Hardswish", "ELU", "CELU", "Hardtanh"]
)
def test_inplace_overwrites_the_input(name):
    x = flambeau.tensor(MATRIX)
    module = getattr(nn, name)(inplace=True)
    expected = run(getattr(nn, name)(), MATRIX)
    out = module(x)
    assert np.allclose(array(x), expected) and np.allclose(array(out), expected)
    assert "inplace=True" in repr(module) or name in ("Hardsigmoid", "Hardswish")


def test_activation_errors():
    with pytest.raises(AssertionError, match=r"max_val \(0\) must be greater than min_val \(1\)"):
        nn.Hardtanh(1, 0)
    with pytest.warns(FutureWarning, match="`min_value` is deprecated and renamed to `min_val`"):
        assert nn.Hardtanh(min_value=-3).min_val == -3
    with pytest.raises(ValueError, match="Softmax2d: expected input to be 3D or 4D, got 2D instead"):
        nn.Softmax2d()(flambeau.zeros(1, 1))
    with pytest.raises(TypeError, match="unflattened_size must be a tuple of ints, but found type int"):
        nn.Unflatten(1, 3)
    with pytest.raises(TypeError, match="found element of type float at pos 1"):
        nn.Unflatten(1, (3, 1.0))
    assert np.allclose(run(nn.Softmax2d(), IMAGE).sum(1), 1, rtol=1e-5)


def test_rrelu_draws_slopes_while_training():
    flambeau.manual_seed(0)
    module = nn.RReLU(0.2, 0.4)
    slopes = run(module, np.full(1000, -1.0, np.float32))
    assert slopes.min() >= -0.4 and slopes.max() <= -0.2 and slopes.std() > 0.03
    assert np.allclose(run(module.eval(), np.full(3, -1.0, np.float32)), -0.3)


def test_linear():
    layer = nn.Linear(6, 3)
    assert np.allclose(run(layer, MATRIX), MATRIX @ array(layer.weight).T + array(layer.bias), atol=1e-5)
    bare = nn.Linear(6, 3, bias=False, dtype=flambeau.float64)
    assert bare.bias is None and bare.weight.dtype == flambeau.float64
    assert repr(bare) == "Linear(in_features=6, out_features=3, bias=False)"
    bilinear = nn.Bilinear(6, 4, 2)
    other = MATRIX[:, :4]
    expected = np.einsum("ni,kij,nj->nk", MATRIX, array(bilinear.weight), other) + array(bilinear.bias)
    assert np.allclose(run(bilinear, MATRIX, other), expected, atol=1e-5)
    assert repr(bilinear) == "Bilinear(in1_features=6, in2_features=4, out_features=2, bias=True)"
    with pytest.raises(ValueError, match=r"in1_features must be > 0, but got \(in1_features=0\)"):
        nn.Bilinear(0, 1, 1)


@pytest.mark.parametrize(
    "module, fan_in",
    [
        (lambda: nn.Linear(100, 200), 100),
        (lambda: nn.Bilinear(100, 20, 50), 100),
        (lambda: nn.Conv2d(10, 80, (2, 5)), 100),
        (lambda: nn.Conv1d(40, 80, 5, groups=2), 100),
        (lambda: nn.ConvTranspose2d(80, 10, (2, 5)), 100),
    ],
)
def test_initial_values_are_uniform(module, fan_in):
    flambeau.manual_seed(0)
    module = module()
    bound = 1 / math.sqrt(fan_in)
    weight = array(module.weight)
    assert np.abs(weight).max() <= bound * (1 + 1e-6) and abs(weight.std() * math.sqrt(3) / bound - 1) < 0.05
    assert abs(weight.mean()) < 0.05 * bound
    bias = array(module.bias)
    assert 0.5 * bound < np.abs(bias).max() <= bound * (1 + 1e-6)


def convolve(x, weight, stride=1, dilation=1, groups=1):
    """Cross-correlation without padding, one output element after the other."""
    n = weight.ndim - 2
    reach = [(k - 1) * dilation for k in weight.shape[2:]]
    sizes = [(x.shape[2 + i] - reach[i] - 1) // stride + 1 for i in range(n)]
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    per_out, per_in = weight.shape[0] // groups, weight.shape[1]
    for place in np.ndindex(*sizes):
        window = tuple(
            slice(p * stride, p * stride + r + 1, dilation) for p, r in zip(place, reach, strict=True)
        )
        for channel in range(weight.shape[0]):
            first = channel // per_out * per_in
            part = x[(slice(None), slice(first, first + per_in), *window)]
            out[(slice(None), channel, *place)] = (part * weight[channel]).reshape(len(x), -1).sum(1)
    return out


def channels(bias, ndim):
    return bias.reshape(1, -1, *[1] * (ndim - 2))


@pytest.mark.parametrize("cls, x", [(nn.Conv1d, SEQUENCE), (nn.Conv2d, IMAGE)])
def test_convolution(cls, x):
    layer = cls(4, 6, 3, stride=2, padding=1, groups=2)
    padded = np.pad(x, [(0, 0), (0, 0)] + [(1, 1)] * (x.ndim - 2))
    expected = convolve(padded, array(layer.weight), 2, groups=2) + channels(array(layer.bias), x.ndim)
    assert np.allclose(run(layer, x), expected, atol=1e-5)
    valid = cls(4, 2, 2, padding="valid", dilation=2, bias=False)
    assert np.allclose(run(valid, x), convolve(x, array(valid.weight), dilation=2), atol=1e-5)
    assert np.allclose(run(valid, x[0]), run(valid, x)[0], atol=1e-6), "without a batch"


@pytest.mark.parametrize(
    "mode, numpy_mode", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_padding_modes_of_convolutions(mode, numpy_mode):
    layer = nn.Conv2d(4, 2, (3, 2), padding=(1, 2), padding_mode=mode)
    padded = np.pad(IMAGE, [(0, 0), (0, 0), (1, 1), (2, 2)], mode=numpy_mode)
    expected = convolve(padded, array(layer.weight)) + channels(array(layer.bias), 4)
    assert np.allclose(run(layer, IMAGE), expected, atol=1e-5)
    same = nn.Conv1d(4, 2, 4, padding="same", padding_mode=mode, bias=False)
    padded = np.pad(SEQUENCE, [(0, 0), (0, 0), (1, 2)], mode=numpy_mode)
    assert np.allclose(run(same, SEQUENCE), convolve(padded, array(same.weight)), atol=1e-5)


def test_same_padding():
    layer = nn.Conv1d(4, 2, 4, padding="same", dilation=2, bias=False)
    padded = np.pad(SEQUENCE, [(0, 0), (0, 0), (3, 3)])
    assert np.allclose(run(layer, SEQUENCE), convolve(padded, array(layer.weight), dilation=2), atol=1e-5)


@pytest.mark.parametrize("cls, x", [(nn.ConvTranspose1d, SEQUENCE), (nn.ConvTranspose2d, IMAGE)])
def test_transposed_convolution(cls, x):
    layer = cls(4, 3, 3, stride=2, padding=1, output_padding=1)
    weight = array(layer.weight)
    n = x.ndim - 2
    full = np.zeros((2, 3, *[(s - 1) * 2 + 3 + 1 for s in x.shape[2:]]))
    for place in np.ndindex(*x.shape[2:]):
        window = tuple(slice(p * 2, p * 2 + 3) for p in place)
        full[(slice(None), slice(None), *window)] += np.tensordot(
            x[(slice(None), slice(None), *place)], weight, 1
        )
    expected = full[(slice(None), slice(None), *[slice(1, -1)] * n)] + channels(array(layer.bias), x.ndim)
    assert np.allclose(run(layer, x), expected, atol=1e-5)
    exact = cls(4, 3, 3, stride=2, padding=1)
    exact.load_state_dict(layer.state_dict())
    size = tuple(expected.shape)
    for output_size in (size, size[2:]):
        assert np.allclose(
            exact(flambeau.tensor(x), output_size=output_size).detach().numpy(), expected, atol=1e-5
        )


def test_convolution_reprs():
    assert repr(nn.Conv1d(2, 4, 3)) == "Conv1d(2, 4, kernel_size=(3,), stride=(1,))"
    assert repr(
        nn.Conv2d(2, 4, (3, 5), 2, (1, 2), dilation=2, groups=2, bias=False, padding_mode="reflect")
    ) == (
        "Conv2d(2, 4, kernel_size=(3, 5), stride=(2, 2), padding=(1, 2), dilation=(2, 2), groups=2, "
        "bias=False, padding_mode=reflect)"
    )
    assert (
        repr(nn.Conv2d(2, 4, 3, padding="same"))
        == "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=same)"
    )
    assert repr(nn.ConvTranspose2d(2, 4, 3, 2, 1, 1)) == (
        "ConvTranspose2d(2, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1))"
    )


def test_convolution_errors():
    with pytest.raises(ValueError, match="groups must be a positive integer"):
        nn.Conv1d(2, 2, 1, groups=0)
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.Conv1d(3, 4, 1, groups=2)
    with pytest.raises(ValueError, match="out_channels must be divisible by groups"):
        nn.Conv1d(4, 3, 1, groups=2)
    with pytest.raises(ValueError, match="Invalid padding string 'full'"):
        nn.Conv1d(2, 2, 1, padding="full")
    with pytest.raises(ValueError, match="padding='same' is not supported for strided convolutions"):
        nn.Conv1d(2, 2, 1, stride=2, padding="same")
    with pytest.raises(ValueError, match="padding_mode must be one of .* but got padding_mode='mirror'"):
        nn.Conv1d(2, 2, 1, padding_mode="mirror")
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported for ConvTranspose1d'):
        nn.ConvTranspose1d(2, 2, 1, padding_mode="circular")
    with pytest.raises(ValueError, match=r"valid sizes range from \[11\] to \[12\]"):
        nn.ConvTranspose1d(1, 1, 3, stride=2)(flambeau.zeros(1, 1, 5), output_size=[13])
    with pytest.raises(ValueError, match=r"output_size must have 1 or 3 elements \(got 2\)"):
        nn.ConvTranspose1d(1, 1, 3)(flambeau.zeros(1, 1, 5), output_size=[1, 13])


def test_pooling():
    windows = SEQUENCE.reshape(2, 4, 4, 2)
    assert np.allclose(run(nn.MaxPool1d(2), SEQUENCE), windows.max(-1))
    assert np.allclose(run(nn.AvgPool1d(2), SEQUENCE), windows.mean(-1), atol=1e-6)
    tiles = IMAGE.reshape(2, 4, 3, 2, 2, 4)
    assert np.allclose(run(nn.MaxPool2d((2, 4)), IMAGE), tiles.max((3, 5)))
    assert np.allclose(run(nn.AvgPool2d((2, 4)), IMAGE), tiles.mean((3, 5)), atol=1e-6)
    assert np.allclose(run(nn.AvgPool2d((2, 4), divisor_override=2), IMAGE), tiles.sum((3, 5)) / 2, atol=1e-5)
    assert np.allclose(run(nn.AdaptiveAvgPool1d(4), SEQUENCE), windows.mean(-1), atol=1e-6)
    assert np.allclose(run(nn.AdaptiveAvgPool2d((3, 2)), IMAGE), tiles.mean((3, 5)), atol=1e-6)
    assert np.allclose(run(nn.AdaptiveAvgPool2d((None, 1)), IMAGE), IMAGE.mean(3, keepdims=True), atol=1e-6)
    assert np.allclose(run(nn.AdaptiveMaxPool2d((3, 2)), IMAGE), tiles.max((3, 5)))
    value, index = nn.MaxPool1d(2, return_indices=True)(flambeau.tensor(SEQUENCE))
    assert (np.take_along_axis(SEQUENCE, index.numpy(), 2) == value.numpy()).all()
    value, index = nn.AdaptiveMaxPool2d(1, return_indices=True)(flambeau.tensor(IMAGE))
    assert (index.numpy().ravel() == IMAGE.reshape(8, -1).argmax(1)).all()
    assert nn.MaxPool1d(3, ceil_mode=True)(flambeau.tensor(SEQUENCE)).shape[2] == 3
    no_pad = nn.AvgPool1d(2, padding=1, count_include_pad=False)
    assert np.allclose(run(no_pad, SEQUENCE)[..., 0], SEQUENCE[..., 0], atol=1e-6)


def test_pooling_reprs():
    assert repr(nn.MaxPool2d(3, 2)) == (
        "MaxPool2d(kernel_size=3, stride=2, padding=0, dilation=1, ceil_mode=False)"
    )
    assert repr(nn.AvgPool1d(3)) == "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))"
    assert repr(nn.AvgPool2d(3, padding=1)) == "AvgPool2d(kernel_size=3, stride=3, padding=1)"
    assert repr(nn.AdaptiveAvgPool2d((3, None))) == "AdaptiveAvgPool2d(output_size=(3, None))"


@pytest.mark.parametrize(
    "module, mode",
    [
        (nn.ZeroPad2d, "constant"),
        (nn.ReflectionPad2d, "reflect"),
        (nn.ReplicationPad2d, "edge"),
        (nn.CircularPad2d, "wrap"),
    ],
)
def test_padding(module, mode):
    expected = np.pad(IMAGE, [(0, 0), (0, 0), (3, 4), (1, 2)], mode=mode)
    assert (run(module((1, 2, 3, 4)), IMAGE) == expected).all()
    expected = np.pad(IMAGE, [(0, 0), (0, 0), (2, 2), (2, 2)], mode=mode)
    assert (run(module(2), IMAGE) == expected).all()
    assert repr(module(2)) == f"{module.__name__}((2, 2, 2, 2))"


def test_constant_padding_and_errors():
    module = nn.ConstantPad1d((1, 0), 3.5)
    assert repr(module) == "ConstantPad1d(padding=(1, 0), value=3.5)"
    assert (run(module, SEQUENCE) == np.pad(SEQUENCE, [(0, 0)] * 2 + [(1, 0)], constant_values=3.5)).all()
    with pytest.raises(ValueError, match=r"expected 3D or 4D input \(got 2D input\)"):
        nn.CircularPad2d(1)(flambeau.zeros(3, 3))


def normalised(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize(
    "cls, x", [(nn.BatchNorm1d, MATRIX), (nn.BatchNorm1d, SEQUENCE), (nn.BatchNorm2d, IMAGE)]
)
def test_batch_norm(cls, x):
    n = x.shape[1]
    layer = cls(n, eps=1e-3, momentum=0.25)
    with flambeau.no_grad():
        layer.weight.copy_(flambeau.arange(1.0, n + 1))
        layer.bias.fill_(0.5)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    weight = channels(np.arange(1, n + 1), x.ndim)
    assert np.allclose(run(layer, x), normalised(x, axes, 1e-3) * weight + 0.5, atol=1e-4)
    count = x.size // n
    mean, var = 0.25 * x.mean(axes), 0.75 + 0.25 * x.var(axes) * count / (count - 1)
    assert np.allclose(array(layer.running_mean), mean, atol=1e-6)
    assert np.allclose(array(layer.running_var), var, atol=1e-5)
    assert int(layer.num_batches_tracked) == 1
    layer.eval()
    expected = (x - channels(mean, x.ndim)) / np.sqrt(channels(var, x.ndim) + 1e-3) * weight + 0.5
    assert np.allclose(run(layer, x), expected, atol=1e-4) and int(layer.num_batches_tracked) == 1
    layer.reset_running_stats()
    assert (array(layer.running_mean) == 0).all() and (array(layer.running_var) == 1).all()


def test_batch_norm_options():
    layer = nn.BatchNorm1d(6, momentum=None)
    for scale in (1, 3, 5):
        run(layer, MATRIX * scale)
    assert np.allclose(array(layer.running_mean), MATRIX.mean(0) * 3, atol=1e-5)
    untracked = nn.BatchNorm1d(6, affine=False, track_running_stats=False)
    assert untracked.running_mean is None and list(untracked.state_dict()) == [] and untracked.weight is None
    assert np.allclose(run(untracked.eval(), MATRIX), normalised(MATRIX, 0, 1e-5), atol=1e-4)
    assert nn.BatchNorm1d(6, bias=False).bias is None
    assert repr(nn.BatchNorm2d(3)) == (
        "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    )
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 4D input\)"):
        nn.BatchNorm1d(4)(flambeau.tensor(IMAGE))
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
        nn.BatchNorm2d(4)(flambeau.tensor(MATRIX))


def test_instance_norm():
    assert np.allclose(run(nn.InstanceNorm2d(4), IMAGE), normalised(IMAGE, (2, 3), 1e-5), atol=1e-4)
    assert np.allclose(run(nn.InstanceNorm1d(4), SEQUENCE[0]), normalised(SEQUENCE[0], 1, 1e-5), atol=1e-4)
    tracked = nn.InstanceNorm2d(4, affine=True, track_running_stats=True, momentum=0.5)
    run(tracked, IMAGE)
    assert np.allclose(array(tracked.running_mean), IMAGE.mean((0, 2, 3)) / 2, atol=1e-6)
    with pytest.raises(ValueError, match=r"input's size at dim=1 to match num_features \(3\), but got: 4"):
        nn.InstanceNorm2d(3, affine=True)(flambeau.tensor(IMAGE))
    with pytest.warns(UserWarning, match="does not match num_features"):
        nn.InstanceNorm2d(3)(flambeau.tensor(IMAGE))
    with pytest.raises(ValueError, match=r"expected 3D or 4D input \(got 2D input\)"):
        nn.InstanceNorm2d(3)(flambeau.tensor(MATRIX))


def test_layer_group_and_rms_norm():
    layer = nn.LayerNorm([6, 8])
    with flambeau.no_grad():
        layer.weight.mul_(2)
        layer.bias.add_(1)
    assert np.allclose(run(layer, IMAGE), normalised(IMAGE, (2, 3), 1e-5) * 2 + 1, atol=1e-4)
    assert repr(layer) == "LayerNorm((6, 8), eps=1e-05, elementwise_affine=True, bias=True)"
    assert nn.LayerNorm(3, bias=False).bias is None
    assert list(nn.LayerNorm(3, elementwise_affine=False).state_dict()) == []
    group = nn.GroupNorm(2, 4)
    expected = normalised(IMAGE.reshape(2, 2, -1), 2, 1e-5).reshape(IMAGE.shape)
    assert np.allclose(run(group, IMAGE), expected, atol=1e-4)
    assert repr(group) == "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"
    with pytest.raises(ValueError, match=r"num_channels \(4\) must be divisible by num_groups \(3\)"):
        nn.GroupNorm(3, 4)
    rms = nn.RMSNorm(6, eps=1e-3)
    assert np.allclose(
        run(rms, MATRIX), MATRIX / np.sqrt((MATRIX**2).mean(1, keepdims=True) + 1e-3), atol=1e-5
    )
    assert repr(rms) == "RMSNorm((6,), eps=0.001, elementwise_affine=True)"


def test_local_response_norm():
    layer = nn.LocalResponseNorm(2, alpha=0.1, beta=0.5, k=2.0)
    before = np.concatenate([np.zeros_like(IMAGE[:, :1]), IMAGE[:, :-1]], 1)
    expected = IMAGE / np.sqrt(2 + 0.1 * (IMAGE**2 + before**2) / 2)
    assert np.allclose(run(layer, IMAGE), expected, atol=1e-5)
    assert repr(layer) == "LocalResponseNorm(2, alpha=0.1, beta=0.5, k=2.0)"


@pytest.mark.parametrize(
    "module, whole",
    [(nn.Dropout(0.25), False), (nn.Dropout1d(0.25), True), (nn.Dropout2d(0.25), True)],
)
def test_dropout(module, whole):
    flambeau.manual_seed(0)
    shape = (200, 20, 4) if isinstance(module, nn.Dropout1d) else (200, 20, 2, 2)
    x = np.ones(shape, np.float32)
    out = run(module, x)
    assert np.isin(out, np.array([0, 1 / 0.75], np.float32)).all()
    assert abs((out == 0).mean() - 0.25) < 0.03
    per_channel = out.reshape(4000, 4)
    assert (per_channel == per_channel[:, :1]).all() == whole
    assert (run(module.eval(), x) == x).all()
    assert repr(module) == f"{type(module).__name__}(p=0.25, inplace=False)"


def test_alpha_dropout_keeps_the_moments():
    flambeau.manual_seed(0)
    x = np.random.default_rng(1).standard_normal(40_000).astype(np.float32)
    out = run(nn.AlphaDropout(0.3), x)
    assert abs(out.mean()) < 0.03 and abs(out.std() - 1) < 0.03 and not np.allclose(out, x)
    assert (run(nn.AlphaDropout(0.3).eval(), x) == x).all()


def test_dropout_errors_and_inplace():
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 1.5"):
        nn.Dropout(1.5)
    x = flambeau.ones(100)
    out = nn.Dropout(1.0, inplace=True)(x)
    assert (array(x) == 0).all() and (array(out) == 0).all()


def test_embedding():
    flambeau.manual_seed(0)
    table = nn.Embedding(10, 3, padding_idx=-1)
    index = np.array([[1, 9], [0, 1]])
    assert (run(table, index) == array(table.weight)[index]).all()
    assert (array(table.weight)[9] == 0).all() and table.padding_idx == 9
    table(flambeau.tensor(index)).sum().backward()
    expected = np.zeros((10, 3))
    expected[1], expected[0] = 2, 1
    assert (table.weight.grad.numpy() == expected).all()
    weight = array(nn.Embedding(200, 50).weight)
    assert abs(weight.mean()) < 0.05 and abs(weight.std() - 1) < 0.05
    assert repr(
        nn.Embedding(10, 3, 2, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)
    ) == (
        "Embedding(10, 3, padding_idx=2, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)"
    )
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(3, 2, padding_idx=3)


def test_embedding_from_pretrained():
    rows = flambeau.tensor(MATRIX)
    fixed = nn.Embedding.from_pretrained(rows)
    assert (fixed.num_embeddings, fixed.embedding_dim) == (4, 6) and not fixed.weight.requires_grad
    assert (run(fixed, np.array([2])) == MATRIX[[2]]).all()
    assert nn.Embedding.from_pretrained(rows, freeze=False).weight.requires_grad
    with pytest.raises(AssertionError, match="expected to be 2-dimensional"):
        nn.Embedding.from_pretrained(flambeau.zeros(3))
    with pytest.raises(AssertionError, match="Shape of weight does not match"):
        nn.Embedding(5, 6, _weight=rows)


def test_pixel_shuffle_and_back():
    out = run(nn.PixelShuffle(2), IMAGE)
    expected = IMAGE.reshape(2, 1, 2, 2, 6, 8).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 16)
    assert (out == expected).all() and (run(nn.PixelUnshuffle(2), out) == IMAGE).all()
    assert repr(nn.PixelShuffle(2)) == "PixelShuffle(upscale_factor=2)"


def test_distances():
    other = MATRIX[::-1].copy()
    cosine = (MATRIX * other).sum(1) / np.linalg.norm(MATRIX, axis=1) / np.linalg.norm(other, axis=1)
    assert np.allclose(run(nn.CosineSimilarity(), MATRIX, other), cosine, atol=1e-6)
    distance = np.abs(MATRIX - other + 1e-6).sum(1, keepdims=True)
    assert np.allclose(run(nn.PairwiseDistance(1, keepdim=True), MATRIX, other), distance, rtol=1e-5)


def test_batch_norm_of_an_empty_batch_leaves_the_running_moments():
    for layer, shape in (
        (nn.BatchNorm1d(3), (0, 3)),
        (nn.BatchNorm2d(3), (0, 3, 2, 2)),
        (nn.BatchNorm1d(3), (0, 3, 4)),
    ):
        x = flambeau.zeros(shape, requires_grad=True)
        layer(x).sum().backward()
        assert layer.running_mean.tolist() == [0.0] * 3 and layer.running_var.tolist() == [1.0] * 3
        assert x.grad.shape == shape and layer.weight.grad.tolist() == layer.bias.grad.tolist() == [0.0] * 3


@pytest.mark.parametrize("eps", [0.0, -1.0])
def test_batch_norm_refuses_an_eps_that_is_not_positive(eps):
    with pytest.raises(ValueError, match="eps must be positive"):
        nn.functional.batch_norm(flambeau.ones(2, 3), None, None, training=True, eps=eps)


def test_batch_norm_with_running_moments_takes_an_eps_of_zero():
    moments = flambeau.zeros(3), flambeau.full((3,), 4.0)
    found = nn.functional.batch_norm(flambeau.ones(2, 3), *moments, eps=0.0)
    assert found.tolist() == [[0.5] * 3] * 2
    with pytest.raises(ValueError, match="eps must be non-negative"):
        nn.functional.batch_norm(flambeau.ones(2, 3), *moments, eps=-1.0)


def test_instance_norm_of_constants_with_an_eps_of_zero():
    """They become 0 and have no gradient, of any order; what is not constant, beside them, has its own."""
    x = flambeau.tensor([[[2.0, 2.0, 2.0], [1.0, 2.0, 6.0]]], dtype=flambeau.float64, requires_grad=True)
    y = nn.functional.instance_norm(x, eps=0.0)
    (first,) = flambeau.autograd.grad((y**3).sum(), x, create_graph=True)
    (second,) = flambeau.autograd.grad((first * first).sum(), x)
    row = flambeau.tensor([[1.0, 2.0, 6.0]], dtype=flambeau.float64, requires_grad=True)
    z = (row - row.mean()) / (row - row.mean()).square().mean().sqrt()
    (one,) = flambeau.autograd.grad((z**3).sum(), row, create_graph=True)
    (two,) = flambeau.autograd.grad((one * one).sum(), row)
    for found, expected in ((y, z), (first, one), (second, two)):
        assert (found[0, 0] == 0).all()
        assert np.allclose(array(found)[0, 1], array(expected)[0])


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_layers(n):
    cls = getattr(nn, f"FractionalMaxPool{n}d")
    layer = cls(2, output_ratio=0.5)
    assert layer.kernel_size == (2,) * n and layer.output_ratio == (0.5,) * n and layer.output_size is None
    assert cls([2] * n, output_size=3).output_size == (3,) * n
    for ratio in (0.0, 1.0, (0.5,) * (n - 1) + (2.0,)):
        with pytest.raises(ValueError, match="output_ratio must be between 0 and 1"):
            cls(2, output_ratio=ratio)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_takes_the_first_of_the_samples(n):
    """An image without a batch is pooled as the first of a batch."""
    x = flambeau.tensor(RNG.standard_normal((4, 3) + (7,) * n))
    samples = flambeau.rand(4, 3, n, dtype=x.dtype)
    pool = getattr(nn, f"FractionalMaxPool{n}d")(2, output_size=3, _random_samples=samples)
    assert pool(x[0]).tolist() == pool(x[:1])[0].tolist() == pool(x)[0].tolist()
    for wrong in (samples[:3], samples[:, :2], samples[..., :1], samples[0]):
        pool._random_samples = wrong
        with pytest.raises(RuntimeError, match="Expected _random_samples of shape"):
            pool(x)
    pool._random_samples = samples.float()
    with pytest.raises(RuntimeError, match="dtype"):
        pool(x)
