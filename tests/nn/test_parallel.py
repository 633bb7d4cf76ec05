"""`nn.parallel`: parts of a batch through copies of a module, here all on the CPU and on the meta device."""

from __future__ import annotations

import threading
from collections import namedtuple

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.parallel import DataParallel, data_parallel, gather, parallel_apply, replicate, scatter
from flambeau.nn.parallel.scatter_gather import scatter_kwargs

CPU = flambeau.device("cpu")
Point = namedtuple("Point", "x y")


def net():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.mark.parametrize("copies", [1, 2, 3, 8])
def test_results_and_gradients_are_those_of_the_module(copies):
    one, x = net(), flambeau.rand(5, 3, requires_grad=True)
    parallel = DataParallel(net(), device_ids=["cpu"] * copies)
    y = flambeau.rand(5, 3).requires_grad_()
    y.data.copy_(x.detach())
    expected, found = one(x), parallel(y)
    assert flambeau.allclose(found, expected, rtol=1e-6)
    expected.square().sum().backward(), found.square().sum().backward()
    pairs = zip([x, *one.parameters()], [y, *parallel.parameters()], strict=True)
    assert all(flambeau.allclose(a.grad, b.grad, rtol=1e-5, atol=1e-6) for a, b in pairs)
    assert [n for n, _ in parallel.named_parameters()] == [f"module.{n}" for n, _ in one.named_parameters()]


@pytest.mark.parametrize("device_ids", [None, [0, 1], []])
def test_without_accelerators_it_is_the_module_itself(device_ids, monkeypatch):
    monkeypatch.setattr("flambeau.devices.cuda.count", lambda: 0)
    inner = net()
    calls = []
    inner.register_forward_hook(lambda module, args, output: calls.append(module))
    parallel = DataParallel(inner, device_ids)
    assert parallel(flambeau.ones(2, 3)).shape == (2, 2)
    assert parallel.device_ids == [] and calls == [inner]


def test_the_devices_of_an_accelerator_are_found(monkeypatch):
    """With three CUDA devices that nobody can use, one must not be asked for."""
    monkeypatch.setattr("flambeau.devices.cuda.count", lambda: 3)
    assert DataParallel(net()).device_ids == [0, 1, 2]
    parallel = DataParallel(net(), [2, 0], output_device=1)
    assert parallel.device_ids == [2, 0] and parallel.output_device == 1
    with pytest.raises(
        RuntimeError, match=r"on device cuda:2 \(device_ids\[0\]\) but found .* on device: cpu"
    ):
        parallel(flambeau.ones(2, 3))


def test_buffers_of_the_first_copy_stay():
    parallel = DataParallel(nn.BatchNorm1d(2, momentum=1.0), ["cpu", "cpu"])
    x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0], [50.0, 60.0], [70.0, 80.0]])
    parallel(x)
    assert parallel.module.running_mean.tolist() == [2.0, 3.0]
    assert parallel.module.num_batches_tracked.item() == 1


def test_arguments_of_all_kinds_and_outputs_of_all_kinds():
    class Kinds(nn.Module):
        def forward(self, x, n, *, pair, point, none=None):
            assert none is None and n == 3
            return {"x": x + pair[0], "list": [pair[1]["y"], point], "none": none}

    x = flambeau.arange(6.0).reshape(3, 2)
    named = {"pair": (x, {"y": -x}), "point": Point(x, x * 2)}
    found = DataParallel(Kinds(), ["cpu", "cpu"])(x, 3, **named)
    assert found["x"].tolist() == (x + x).tolist() and found["none"] is None
    assert found["list"][0].tolist() == (-x).tolist()
    assert type(found["list"][1]) is Point and found["list"][1].y.tolist() == (x * 2).tolist()
    assert DataParallel(nn.Identity(), ["cpu", "cpu"], dim=1)(flambeau.ones(2, 3)).shape == (2, 3)

    class Nothing(nn.Module):
        def forward(self):
            return flambeau.ones(2)

    assert DataParallel(Nothing(), ["cpu", "cpu"])().tolist() == [1.0, 1.0]


def test_scatter():
    x = flambeau.arange(5)
    parts = scatter(x, ["cpu"] * 3)
    assert [p.tolist() for p in parts] == [[0, 1], [2, 3], [4]]
    assert [p.tolist() for p in scatter(x[:1], ["cpu"] * 3)] == [[0]]
    assert scatter(x, ["cpu", "meta"])[1].is_meta
    assert scatter([x, "s"], ["cpu"] * 2)[1][0].tolist() == [3, 4]
    assert scatter((), ["cpu"] * 2) == [(), ()] and scatter("s", [CPU]) == ["s"]
    assert [p.x.tolist() for p in scatter(Point(x, 1), ["cpu"] * 2)] == [[0, 1, 2], [3, 4]]
    positional, named = scatter_kwargs((x[:1],), {"y": x}, ["cpu"] * 2)
    assert len(positional) == len(named) == 2 and positional[1] == () and named[1]["y"].tolist() == [3, 4]


def test_gather():
    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        assert gather([flambeau.tensor(1.0), flambeau.tensor(2.0)], "cpu").tolist() == [1.0, 2.0]
    assert gather([flambeau.ones(2, 1), flambeau.zeros(2, 2)], -1, dim=1).shape == (2, 3)
    with pytest.raises(ValueError, match="All dicts must have the same keys"):
        gather([{"a": flambeau.ones(1)}, {"b": flambeau.ones(1)}], "cpu")


def test_copies_hold_no_parameters_and_share_what_is_shared():
    inner = nn.Linear(2, 2)
    both = nn.Sequential(inner, nn.Dropout(), inner)
    both[1].register_buffer("b", flambeau.ones(1))
    first, second = replicate(both, ["cpu", "meta"])
    assert not list(first.parameters()) and first[0] is first[2] and first[0].weight is inner.weight
    assert second[0].weight.is_meta and second[1].b.is_meta and second[0].weight.requires_grad
    assert not replicate(inner, ["cpu"], detach=True)[0].weight.requires_grad
    assert list(both.parameters()) == [inner.weight, inner.bias]
    with pytest.raises(RuntimeError, match="uninitialized parameters can't be used with `DataParallel`"):
        replicate(nn.LazyLinear(2), ["cpu"])


def test_modules_run_at_the_same_time_as_their_caller_would():
    meeting = threading.Barrier(3, timeout=60)  # nobody passes alone

    class Meets(nn.Module):
        def forward(self, x):
            meeting.wait()
            return flambeau.is_grad_enabled(), x

    for recording in (True, False):
        with flambeau.set_grad_enabled(recording):
            found = parallel_apply([Meets() for _ in range(3)], [1, (2,), 3])
        assert found == [(recording, 1), (recording, 2), (recording, 3)]


def test_an_error_names_the_copy():
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        DataParallel(net(), ["cpu"] * 2)(flambeau.ones(4, 5))
    linear = "in 0: Linear(in_features=3, out_features=4, bias=True), called with a tensor of shape (2, 5)"
    assert caught.value.__notes__ == [linear, "Caught RuntimeError in replica 0 on device cpu."]
    with pytest.raises(ValueError, match="2 modules, 1 inputs, 2 keyword arguments and 2 devices"):
        parallel_apply([net(), net()], [1])
    assert parallel_apply([], []) == []


def test_data_parallel():
    inner, x = net(), flambeau.rand(4, 3)
    assert flambeau.allclose(data_parallel(inner, x, ["cpu", "cpu"]), inner(x))
    assert flambeau.allclose(data_parallel(inner, (), ["cpu"], module_kwargs={"input": x}), inner(x))
