"""nn.utils as a package: its names and files, what is loaded when; fusion, memory formats, old names of clipping."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import utils

# What PyTorch 2.13 has, and each name's file.
NAMES = """
    clip_grad: clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm
    convert_parameters: parameters_to_vector vector_to_parameters
    fusion: fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights
    init: skip_init
    memory_format: convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format
    spectral_norm: remove_spectral_norm spectral_norm
    weight_norm: remove_weight_norm weight_norm
"""
FILES = {line.split(":")[0].strip(): line.split(":")[1].split() for line in NAMES.strip().splitlines()}
MODULES = {
    "parametrizations": "orthogonal spectral_norm weight_norm",
    "parametrize": "ParametrizationList cached is_parametrized register_parametrization remove_parametrizations"
    " transfer_parametrizations_and_params type_before_parametrizations",
    "prune": "BasePruningMethod CustomFromMask Identity L1Unstructured LnStructured PruningContainer RandomStructured"
    " RandomUnstructured custom_from_mask global_unstructured identity is_pruned l1_unstructured ln_structured"
    " random_structured random_unstructured remove",
    "rnn": "PackedSequence invert_permutation pack_padded_sequence pack_sequence pad_packed_sequence pad_sequence"
    " unpack_sequence unpad_sequence",
    "spectral_norm": "SpectralNorm SpectralNormLoadStateDictPreHook SpectralNormStateDictHook remove_spectral_norm"
    " spectral_norm",
    "stateless": "functional_call",
    "weight_norm": "WeightNorm remove_weight_norm weight_norm",
}


def test_every_name_is_there():
    for file, names in FILES.items():
        assert file in sys.modules or __import__(f"flambeau.nn.utils.{file}")
        module = sys.modules[f"flambeau.nn.utils.{file}"]
        for name in names:
            assert getattr(utils, name) is getattr(module, name) and name in dir(utils)
    for file, names in MODULES.items():
        __import__(f"flambeau.nn.utils.{file}")
        module = sys.modules[f"flambeau.nn.utils.{file}"]
        assert sorted(module.__all__) == sorted(names.split())
    with pytest.raises(AttributeError, match="module 'flambeau.nn.utils' has no attribute 'nope'"):
        getattr(utils, "nope")  # noqa: B009
    with pytest.raises(ImportError, match="cannot import name 'nope'"):
        exec("from flambeau.nn.utils import nope")


PROGRAM = """
import sys
import flambeau
from flambeau import nn
loaded = [m for m in sys.modules if m.startswith("flambeau.nn.utils.")]
assert not loaded, loaded
nn.LSTM(2, 2)(flambeau.ones(1, 2))
assert "flambeau.nn.utils.rnn" not in sys.modules
import flambeau.nn.utils.weight_norm
from flambeau.nn.utils.spectral_norm import SpectralNorm
from flambeau.nn.utils.weight_norm import WeightNorm
assert callable(nn.utils.weight_norm) and callable(nn.utils.spectral_norm)
from flambeau.nn.utils import weight_norm
assert weight_norm is nn.utils.weight_norm and weight_norm.__name__ == "weight_norm"
assert nn.utils.parametrize.cached and nn.utils.rnn.pad_sequence
"""


def test_nothing_is_loaded_before_it_is_used():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- fusion


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("bias, affine, transpose", list(itertools.product([True, False], repeat=3)), ids=str)
def test_a_batch_norm_in_a_convolution(dims, bias, affine, transpose):
    kind = getattr(nn, f"Conv{'Transpose' * transpose}{dims}d")
    conv = kind(2, 3, 2, bias=bias, dtype=flambeau.float64).eval()
    bn = getattr(nn, f"BatchNorm{dims}d")(3, affine=affine, dtype=flambeau.float64)
    bn(flambeau.randn(4, 3, *[3] * dims, dtype=flambeau.float64))
    for parameter in bn.parameters():
        nn.init.normal_(parameter)
    conv.weight.requires_grad_(False)
    fused = utils.fuse_conv_bn_eval(conv, bn.eval(), transpose)
    x = flambeau.randn(2, 2, *[4] * dims, dtype=flambeau.float64)
    assert type(fused) is kind and fused is not conv and flambeau.allclose(fused(x), bn(conv(x)))
    assert [p.requires_grad for p in fused.parameters()] == [False, bias]
    assert all(p.is_leaf for p in fused.parameters())


@pytest.mark.parametrize("bias, features", list(itertools.product([True, False], [4, 1])))
def test_a_batch_norm_in_a_linear_layer(bias, features):
    linear, bn = nn.Linear(3, 4, bias=bias), nn.BatchNorm1d(features)
    bn.running_mean.fill_(0.5)
    bn.running_var.fill_(2.0)
    fused = utils.fuse_linear_bn_eval(linear.eval(), bn.eval())
    x = flambeau.randn(5, 3)
    y = linear(x)
    wanted = bn(y) if features == 4 else (y - 0.5) / (2.0 + bn.eps) ** 0.5
    assert flambeau.allclose(fused(x), wanted, atol=1e-6) and fused.bias.shape == (4,)


def test_dtypes_of_what_is_fused():
    weight, bias = utils.fuse_conv_bn_weights(
        flambeau.ones(2, 3, 1).half(), None, flambeau.zeros(2), flambeau.ones(2), 0.0, None, None
    )
    assert weight.dtype is bias.dtype is flambeau.float16
    assert weight.equal(flambeau.ones(2, 3, 1).half()) and not weight.requires_grad


def test_what_cannot_be_fused():
    conv, bn = nn.Conv2d(1, 2, 1).eval(), nn.BatchNorm2d(2).eval()
    linear = nn.Linear(1, 2).eval()
    for call, message in (
        (lambda: utils.fuse_conv_bn_eval(copy.deepcopy(conv).train(), bn), "Fusion only for eval!"),
        (lambda: utils.fuse_linear_bn_eval(linear, copy.deepcopy(bn).train()), "Fusion only for eval!"),
        (
            lambda: utils.fuse_conv_bn_eval(conv, nn.BatchNorm2d(2, track_running_stats=False).eval()),
            "must not be None",
        ),
        (
            lambda: utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(3).eval()),
            "out_features=2 and .*num_features=3",
        ),
    ):
        with pytest.raises(AssertionError, match=message):
            call()


# ---------------------------------------------------------------- the rest


def test_memory_formats_of_weights():
    net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Sequential(nn.ConvTranspose2d(3, 2, 2)), nn.Conv3d(2, 2, 2))
    weights = [p for p in net.parameters() if p.dim() > 1]
    before = [w.clone() for w in weights]
    last = {"2": flambeau.channels_last, "3": flambeau.channels_last_3d}
    assert utils.convert_conv2d_weight_memory_format(net, last["2"]) is net
    assert [w.is_contiguous() for w in weights] == [False, False, True]
    utils.convert_conv3d_weight_memory_format(net, last["3"])
    formats = (last["2"], last["2"], last["3"])
    assert all(w.is_contiguous(memory_format=f) for w, f in zip(weights, formats, strict=True))
    utils.convert_conv2d_weight_memory_format(net, flambeau.contiguous_format)
    assert [w.is_contiguous() for w in weights] == [True, True, False]
    assert all(a.equal(b) for a, b in zip(weights, before, strict=True))


def test_old_names_of_clipping():
    x = flambeau.zeros(2, requires_grad=True)
    x.grad = flambeau.tensor([3.0, 4.0])
    with pytest.warns(FutureWarning, match="in favor of `nn.utils.clip_grad_norm_`"):
        assert float(utils.clip_grad_norm(x, 1.0)) == 5.0
    assert flambeau.allclose(x.grad, flambeau.tensor([0.6, 0.8]))
    with pytest.warns(UserWarning, match="`parameters` is an empty generator"):
        utils.clip_grad_norm_((p for p in ()), 1.0)
