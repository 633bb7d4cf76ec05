"""Layers that take the sizes of their inputs from the first one, and parameters that wait for a shape."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


def image(n):
    return flambeau.rand(2, 4, *[7] * n)


# A lazy layer, the layer that it becomes, and an input of 4 channels.
LAYERS = {
    "LazyLinear": (lambda: nn.LazyLinear(3), lambda: nn.Linear(4, 3), flambeau.rand(2, 4)),
    "LazyConv1d": (lambda: nn.LazyConv1d(6, 3), lambda: nn.Conv1d(4, 6, 3), image(1)),
    "LazyConv2d": (
        lambda: nn.LazyConv2d(6, 3, 2, 1, groups=2, bias=False),
        lambda: nn.Conv2d(4, 6, 3, 2, 1, groups=2, bias=False),
        image(2),
    ),
    "LazyConv3d": (lambda: nn.LazyConv3d(6, 2), lambda: nn.Conv3d(4, 6, 2), image(3)),
    "LazyConvTranspose1d": (
        lambda: nn.LazyConvTranspose1d(6, 3, 2, 1, 1),
        lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1),
        image(1),
    ),
    "LazyConvTranspose2d": (
        lambda: nn.LazyConvTranspose2d(6, 3, groups=2),
        lambda: nn.ConvTranspose2d(4, 6, 3, groups=2),
        image(2),
    ),
    "LazyConvTranspose3d": (
        lambda: nn.LazyConvTranspose3d(6, 2),
        lambda: nn.ConvTranspose3d(4, 6, 2),
        image(3),
    ),
    "LazyBatchNorm1d": (nn.LazyBatchNorm1d, lambda: nn.BatchNorm1d(4), image(1)),
    "LazyBatchNorm2d": (
        lambda: nn.LazyBatchNorm2d(bias=False),
        lambda: nn.BatchNorm2d(4, bias=False),
        image(2),
    ),
    "LazyBatchNorm3d": (
        lambda: nn.LazyBatchNorm3d(affine=False),
        lambda: nn.BatchNorm3d(4, affine=False),
        image(3),
    ),
    "LazyInstanceNorm1d": (
        nn.LazyInstanceNorm1d,
        lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
        image(1),
    ),
    "LazyInstanceNorm2d": (
        lambda: nn.LazyInstanceNorm2d(affine=False, track_running_stats=False),
        lambda: nn.InstanceNorm2d(4),
        image(2),
    ),
    "LazyInstanceNorm3d": (
        lambda: nn.LazyInstanceNorm3d(track_running_stats=False),
        lambda: nn.InstanceNorm3d(4, affine=True),
        image(3),
    ),
}
WAITING = [
    name for name in LAYERS if name != "LazyInstanceNorm2d"
]  # those of which something has no shape yet


def test_every_lazy_layer_is_listed():
    assert set(LAYERS) == {name for name in nn.__all__ if name.startswith("Lazy")}


@pytest.mark.parametrize("name", LAYERS)
def test_the_first_call_makes_the_layer(name):
    lazy, full, x = LAYERS[name]
    flambeau.manual_seed(3)
    expected = full()
    flambeau.manual_seed(3)
    layer = lazy()
    assert isinstance(layer, LazyModuleMixin) and type(layer).__name__ == name
    assert layer.has_uninitialized_params() is (name in WAITING)
    found = layer(x)
    assert type(layer) is type(expected) and repr(layer) == repr(expected)
    assert found.tolist() == expected(x).tolist()
    assert not set(vars(layer)) - set(vars(expected)) and not layer._forward_pre_hooks
    state, other = layer.state_dict(), expected.state_dict()
    assert list(state) == list(other) and all(state[k].tolist() == other[k].tolist() for k in state)
    assert [type(p) for p in layer.parameters()] == [nn.Parameter] * len(list(expected.parameters()))


@pytest.mark.parametrize("name", WAITING)
def test_a_layer_that_waits_is_copied_pickled_and_converted(name):
    lazy, full, x = LAYERS[name]
    made = [copy.deepcopy(lazy()), pickle.loads(pickle.dumps(lazy())), lazy().double()]
    twin = lazy()
    assert not twin.load_state_dict(lazy().state_dict())[0]  # both wait: there is nothing to copy
    for layer in (*made, twin):
        assert layer.has_uninitialized_params() and type(layer).__name__ == name
        dtype = next(t.dtype for t in (*layer.parameters(), *layer.buffers()) if is_lazy(t))
        assert dtype is (flambeau.float64 if layer is made[2] else flambeau.float32)
        y = layer(x.to(dtype))
        assert y.dtype is dtype and type(layer) is type(full())
        assert all(t.dtype is dtype for t in layer.state_dict().values() if t.is_floating_point())


@pytest.mark.parametrize("name", WAITING)
@pytest.mark.parametrize("assign", [False, True])
def test_loaded_values_give_the_shapes(name, assign):
    lazy, full, x = LAYERS[name]
    source = full()
    for t in source.state_dict().values():
        t.copy_(flambeau.rand(t.shape) if t.is_floating_point() else 5)
    layer = lazy()
    assert layer.load_state_dict(source.state_dict(), assign=assign) == ([], [])
    assert not layer.has_uninitialized_params()
    source.eval(), layer.eval()
    assert layer(x).tolist() == source(x).tolist() and repr(layer) == repr(source)


def test_loading_what_waits_into_what_does_not_names_the_key():
    with pytest.raises(RuntimeError, match="0.weight is an uninitialized parameter in the checkpoint"):
        nn.Sequential(nn.Linear(2, 3)).load_state_dict(nn.Sequential(nn.LazyLinear(3)).state_dict())


def test_a_network_trains_with_an_optimiser_made_before_its_shapes():
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(1))
    optimiser = flambeau.optim.Adam(net.parameters(), lr=0.05)
    optimiser.step(), optimiser.zero_grad()  # nothing has a gradient yet
    assert optimiser.state_dict()["param_groups"][0]["params"] == list(range(6))
    x, y = flambeau.rand(8, 2, 5), flambeau.rand(8, 1)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    "layer, x, error, message",
    [
        (
            lambda: nn.LazyLinear(2),
            flambeau.tensor(1.0),
            RuntimeError,
            "LazyLinear: expected an input of at least 1",
        ),
        (
            lambda: nn.LazyConv2d(2, 3),
            flambeau.ones(3, 4),
            RuntimeError,
            r"input to LazyConv2d, but got .*\[3, 4\]",
        ),
        (lambda: nn.LazyConv1d(2, 1, groups=2), flambeau.ones(1, 3, 4), ValueError, "divisible by groups"),
        (nn.LazyBatchNorm2d, flambeau.ones(2, 3), ValueError, "expected 4D input .got 2D"),
        (nn.LazyInstanceNorm1d, flambeau.ones(2), ValueError, "expected 2D or 3D input .got 1D"),
    ],
)
def test_a_first_input_that_does_not_fit_leaves_the_layer_waiting(layer, x, error, message):
    layer = layer()
    with pytest.raises(error, match=message):
        layer(x)
    assert layer.has_uninitialized_params() and type(layer).__name__.startswith("Lazy")


def test_a_loaded_layer_refuses_inputs_of_other_sizes():
    layer = nn.LazyLinear(3)
    layer.load_state_dict(nn.Linear(4, 3).state_dict())
    with pytest.raises(AssertionError, match="inferred from input: 5 is not equal to in_features .* 4"):
        layer(flambeau.ones(1, 5))


def test_unbatched_first_inputs():
    for layer, x in (
        (nn.LazyConv2d(3, 1), flambeau.ones(5, 4, 4)),
        (nn.LazyInstanceNorm2d(), flambeau.ones(5, 4, 4)),
    ):
        layer(x)
        assert (layer.in_channels if isinstance(layer, nn.Conv2d) else layer.num_features) == 5


def test_lazy_modules_of_users():
    class Scale(nn.Module):
        def forward(self, x):
            return x * self.scale

    class LazyScale(LazyModuleMixin, Scale):
        cls_to_become = Scale

        def __init__(self):
            super().__init__()
            self.scale = UninitializedParameter()
            self.seen = UninitializedBuffer(persistent=False)

        def initialize_parameters(self, x, **named):
            self.scale.materialize(x.shape[1:])
            nn.init.constant_(self.scale, 3.0)
            self.seen.materialize(())

    layer = LazyScale()
    assert list(layer.state_dict()) == ["scale"] and layer.scale is next(layer.parameters())
    assert layer(x=flambeau.ones(2, 3)).tolist() == [[3.0] * 3] * 2
    assert type(layer) is Scale and layer.seen.shape == ()

    class Forgetful(LazyModuleMixin, Scale):
        def __init__(self):
            super().__init__()
            self.scale = UninitializedParameter()

        def initialize_parameters(self, x):
            """Forgets to."""

    with pytest.raises(RuntimeError, match="module Forgetful has not been fully initialized"):
        Forgetful()(flambeau.ones(1))
    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for Plain"):
        type("Plain", (LazyModuleMixin, Scale), {})()(flambeau.ones(1))


# ---------------------------------------------------------------- tensors without a shape

USES = {
    "add": lambda w: w + 1,
    "sum": lambda w: w.sum(),
    "function": lambda w: flambeau.cat([flambeau.ones(1), w]),
    "linear": lambda w: nn.functional.linear(flambeau.ones(1, 2), w),
    "index": lambda w: w[0],
    "write": lambda w: w.zero_(),
    "detach": lambda w: w.detach(),
    "clone": lambda w: w.clone(),
    "tolist": lambda w: w.tolist(),
    "numpy": lambda w: w.numpy(),
    "item": lambda w: w.item(),
    "numel": lambda w: w.numel(),
    "dim": lambda w: w.dim(),
    "stride": lambda w: w.stride(),
    "init": lambda w: nn.init.zeros_(w),
    "count": lambda w: sum(p.numel() for p in [w]),
}


@pytest.mark.parametrize("cls", [UninitializedParameter, UninitializedBuffer])
@pytest.mark.parametrize("use", USES)
def test_nothing_computes_with_what_has_no_shape(cls, use):
    with pytest.raises(ValueError, match=f"uninitialized parameter in .*nn.parameter.{cls.__name__}"):
        USES[use](cls())


@pytest.mark.parametrize("cls", [UninitializedParameter, UninitializedBuffer])
def test_what_has_no_shape_says_what_it_is(cls):
    x = cls(dtype=flambeau.float16)
    assert repr(x) == f"<{cls.__name__}>" and x.dtype is flambeau.float16 and x.is_floating_point()
    for ask in (lambda: x.shape, lambda: x.size()):
        with pytest.raises(RuntimeError, match="Can't access the shape"):
            ask()
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized"):
        x.share_memory_()
    assert x.double().dtype is flambeau.float64 and is_lazy(x.double()) and is_lazy(x.to("meta"))
    assert x.requires_grad is (cls is UninitializedParameter) and not cls(requires_grad=False).requires_grad
    same = x
    x.materialize((2, 3), dtype=flambeau.float32)
    assert same is x and type(x) is cls.cls_to_become and x.shape == (2, 3) and x.dtype is flambeau.float32


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_what_has_no_shape_is_copied(make):
    for x in (
        UninitializedParameter(False, "meta", flambeau.float64),
        UninitializedBuffer(dtype=flambeau.int64, persistent=False),
    ):
        made = make(x)
        assert type(made) is type(x) and made is not x
        assert (made.dtype, made.device, made.requires_grad) == (x.dtype, x.device, x.requires_grad)
        assert getattr(made, "persistent", None) is getattr(x, "persistent", None)


def test_operations_are_asked_only_while_something_waits():
    """In a process where nothing else is asked."""
    program = """
import copy, gc
from flambeau import nn, ones
from flambeau.core.call.interceptors import has_interceptors
assert not has_interceptors()
layer = nn.LazyLinear(2)
twin = copy.deepcopy(layer)
assert has_interceptors()
layer(ones(1, 3))
assert has_interceptors()
del twin
gc.collect()  # a lazy module and its hook refer to each other
assert not has_interceptors()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
