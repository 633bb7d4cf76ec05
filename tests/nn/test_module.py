"""Module: registration, attributes, iteration, conversion, repr, copying."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter(flambeau.ones(4))
        self.register_buffer("mean", flambeau.zeros(4))
        self.register_buffer("cache", flambeau.zeros(1), persistent=False)
        self.last = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))

    def forward(self, x):
        return self.last(self.first(x) * self.scale - self.mean)


def names(pairs):
    return [name for name, _ in pairs]


def test_registration_order_and_iteration():
    net = Net()
    assert names(net.named_parameters()) == ["scale", "first.weight", "first.bias", "last.1.weight"]
    assert names(net.named_parameters(prefix="net", recurse=False)) == ["net.scale"]
    assert names(net.named_buffers()) == ["mean", "cache"]
    assert names(net.named_children()) == ["first", "last"]
    assert names(net.named_modules()) == ["", "first", "last", "last.0", "last.1"]
    assert names(net.named_modules(prefix="net"))[:2] == ["net", "net.first"]
    assert [id(p) for p in net.parameters()] == [id(p) for _, p in net.named_parameters()]
    assert [id(b) for b in net.buffers()] == [id(net.mean), id(net.cache)]
    assert list(net.children()) == [net.first, net.last]
    assert list(net.modules()) == [net, net.first, net.last, net.last[0], net.last[1]]
    assert set(net._parameters) == {"scale"} and set(net._buffers) == {"mean", "cache"}


def test_shared_parameters_and_modules_appear_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert names(net.named_parameters()) == ["0.weight", "0.bias", "1.bias"]
    assert names(net.named_parameters(remove_duplicate=False)) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    shared = nn.Linear(2, 2)
    twice = nn.ModuleList([shared, shared])
    assert names(twice.named_children()) == ["0"]
    assert names(twice.named_modules()) == ["", "0"]
    assert names(twice.named_modules(remove_duplicate=False)) == ["", "0", "1"]
    assert len(list(twice.parameters())) == 2
    assert list(twice.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_assignment_moves_between_kinds():
    module = nn.Module()
    module.x = 1
    module.x = nn.Parameter(flambeau.zeros(1))
    assert "x" in module._parameters and "x" not in module.__dict__
    del module.x
    module.x = nn.Linear(1, 1)
    module.x = nn.Parameter(flambeau.zeros(1))
    assert list(module._modules) == [] and list(module._parameters) == ["x"]
    module.x = None
    assert module.x is None and list(module.parameters()) == []
    module.x = nn.Parameter(flambeau.zeros(1))
    assert len(list(module.parameters())) == 1


def test_assignment_errors():
    module = nn.Linear(1, 1)
    with pytest.raises(
        TypeError, match=r"cannot assign '.*Tensor' as parameter 'weight' \(.*nn.Parameter or None"
    ):
        module.weight = flambeau.zeros(1, 1)
    with pytest.raises(TypeError, match="cannot assign 'int' as parameter 'weight'"):
        module.weight = 3
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'first'"):
        net.first = 1
    with pytest.raises(TypeError, match="cannot assign 'str' as buffer 'mean'"):
        net.mean = "no"
    net.mean = None
    assert net.mean is None
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nowhere'"):
        _ = net.nowhere
    with pytest.raises(AttributeError, match="nowhere"):
        del net.nowhere


def test_registration_errors():
    module = nn.Module()
    for register, kind in ((module.register_parameter, "parameter"), (module.register_buffer, "buffer")):
        with pytest.raises(KeyError, match=f"{kind} name can.*t contain"):
            register("a.b", None)
        with pytest.raises(KeyError, match=f"{kind} name can.*t be empty string"):
            register("", None)
        with pytest.raises(TypeError, match=f"{kind} name should be a string. Got int"):
            register(3, None)
        with pytest.raises(KeyError, match="attribute 'training' already exists"):
            register("training", None)
        with pytest.raises(TypeError, match=f"cannot assign 'float' object to {kind} 'x'"):
            register("x", 1.0)
    with pytest.raises(KeyError, match="module name can.*t contain.*got: a.b"):
        module.add_module("a.b", None)
    with pytest.raises(KeyError, match="module name can.*t be empty"):
        module.add_module("", None)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        module.add_module("x", 3)
    with pytest.raises(TypeError, match="module name should be a string. Got int"):
        module.register_module(3, nn.Identity())
    grown = nn.Parameter(flambeau.zeros(1), requires_grad=False)
    grown += flambeau.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'x'"):
        module.register_parameter("x", grown)


def test_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.value = value

    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        Early(nn.Parameter(flambeau.zeros(1)))
    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Early(nn.Identity())
    assert Early(3).value == 3


def test_init_takes_no_arguments():
    with pytest.raises(TypeError, match=r"Module.__init__\(\) takes 1 positional argument but 2 were given"):
        nn.Module(1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        nn.Module(size=1)


def test_missing_forward():
    with pytest.raises(
        NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'
    ):
        nn.Module()(1)


def test_buffer_class():
    module = nn.Module()
    module.kept = nn.Buffer(flambeau.ones(2))
    module.dropped = nn.Buffer(flambeau.ones(2), persistent=False)
    assert names(module.named_buffers()) == ["kept", "dropped"]
    assert list(module.state_dict()) == ["kept"]
    module.kept = flambeau.zeros(2)
    assert list(module.state_dict()) == ["kept"]
    del module.dropped
    assert names(module.named_buffers()) == ["kept"] and not module._non_persistent_buffers_set


def test_members_by_dotted_name():
    net = Net()
    assert net.get_submodule("") is net
    assert net.get_submodule("last.1") is net.last[1]
    assert net.get_parameter("last.1.weight") is net.last[1].weight
    assert net.get_buffer("mean") is net.mean
    for get, name, message in (
        (net.get_submodule, "last.7", "Sequential has no attribute `7`"),
        (net.get_submodule, "scale", "`scale` is not an nn.Module"),
        (net.get_parameter, "first.nothing", "Linear has no attribute `nothing`"),
        (net.get_parameter, "mean", "`mean` is not an nn.Parameter"),
        (net.get_buffer, "scale", "`scale` is not a buffer"),
    ):
        with pytest.raises(AttributeError, match=message):
            get(name)
    net.set_submodule("last.1", nn.Identity())
    assert isinstance(net.last[1], nn.Identity)
    net.set_submodule("last.extra", nn.Tanh())
    assert isinstance(net.last.extra, nn.Tanh)
    with pytest.raises(AttributeError, match="has no attribute `new`"):
        net.set_submodule("last.new", nn.Tanh(), strict=True)
    with pytest.raises(ValueError, match="without a target name"):
        net.set_submodule("", nn.Tanh())
    with pytest.raises(ValueError, match="`module` is not an nn.Module, found <class 'int'>"):
        net.set_submodule("first", 3)


def test_apply_goes_from_the_leaves_to_the_root():
    net = Net()
    seen = []
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


def test_train_and_eval():
    net = Net()
    assert all(module.training for module in net.modules())
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert net.last[1].training
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train("yes")


def test_requires_grad_and_zero_grad():
    net = Net()
    net(flambeau.ones(1, 3)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert all(float(p.grad.abs().sum()) == 0 for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    assert net.requires_grad_(False) is net
    assert not any(p.requires_grad for p in net.parameters())
    assert not net(flambeau.ones(1, 3)).requires_grad


def test_conversion_keeps_the_parameters_and_converts_gradients():
    net = Net()
    net.register_buffer("count", flambeau.tensor(3))
    net(flambeau.ones(1, 3)).sum().backward()
    weight = net.first.weight
    grad = weight.grad.clone()
    assert net.to(flambeau.float64) is net
    assert net.first.weight is weight and weight.requires_grad
    assert weight.dtype == weight.grad.dtype == net.mean.dtype == flambeau.float64
    assert net.count.dtype == flambeau.int64
    assert flambeau.equal(weight.grad, grad.double())
    assert net(flambeau.ones(1, 3, dtype=flambeau.float64)).dtype == flambeau.float64
    for convert, dtype in (
        (net.half, flambeau.float16),
        (net.bfloat16, flambeau.bfloat16),
        (net.double, flambeau.float64),
        (net.float, flambeau.float32),
    ):
        assert convert() is net
        assert weight.dtype == dtype and net.mean.dtype == dtype and net.count.dtype == flambeau.int64
    assert net.cpu().first.weight is weight
    assert net.type(flambeau.float64).count.dtype == flambeau.float64


def test_forms_of_to():
    layer = nn.Linear(2, 2)
    for args, kwargs in (
        (("cpu", flambeau.float64), {}),
        ((flambeau.device("cpu"),), {"dtype": flambeau.float64}),
        ((flambeau.zeros(1, dtype=flambeau.float64),), {}),
        ((flambeau.float64, True), {}),
        ((), {"device": "cpu", "dtype": flambeau.float64, "non_blocking": True}),
    ):
        layer.float()
        layer.to(*args, **kwargs)
        assert layer.weight.dtype == flambeau.float64
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point or complex dtypes"):
        layer.to(flambeau.int64)
    with pytest.raises(TypeError):
        layer.to(nothing=1)
    with pytest.raises(TypeError):
        layer.to("cpu", flambeau.float32, True, 3)


def test_to_empty_keeps_shape_and_dtype():
    layer = nn.Linear(2, 3).double().to_empty(device="cpu")
    assert tuple(layer.weight.shape) == (3, 2) and layer.weight.dtype == flambeau.float64


def test_to_empty_keeps_the_parameters_themselves():
    shared = nn.Linear(3, 3)
    net = nn.Sequential(shared, nn.BatchNorm1d(3), shared)
    net.turned = nn.Parameter(flambeau.ones(2, 3).t(), requires_grad=False)
    shared.weight.grad = flambeau.ones(3, 3)
    before, pointer = dict(net.named_parameters()), shared.weight.data_ptr()
    assert net.to_empty(device="cpu") is net and net[0] is net[2]
    assert all(before[name] is parameter for name, parameter in net.named_parameters())
    assert shared.weight.data_ptr() != pointer and shared.weight.grad.shape == (3, 3)
    assert net.turned.stride() == (1, 3) and not net.turned.requires_grad
    assert net[1].num_batches_tracked.dtype == flambeau.int64
    pointer, inner = net.turned.data_ptr(), shared.weight.data_ptr()
    net.to_empty(device="cpu", recurse=False)
    assert net.turned.data_ptr() != pointer and shared.weight.data_ptr() == inner


class Described(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 2)
        self.free = None
        self.add_module("empty", None)

    def extra_repr(self):
        return "one\ntwo"


def test_repr():
    assert repr(nn.Module()) == "Module()"
    assert repr(nn.Linear(20, 30)) == "Linear(in_features=20, out_features=30, bias=True)"
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (last): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=4, out_features=2, bias=False)\n"
        "  )\n"
        ")"
    )
    assert repr(Described()) == (
        "Described(\n"
        "  one\n"
        "  two\n"
        "  (inner): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (empty): None\n"
        ")"
    )


def test_dir_lists_members():
    listed = dir(Net())
    assert {"first", "scale", "mean", "forward", "training"} <= set(listed)
    assert "0" not in dir(nn.Sequential(nn.ReLU()))
    assert listed == sorted(listed)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_deepcopy_and_pickle(duplicate):
    net = Net().eval()
    net.last[1].weight.requires_grad_(False)
    net.tied = net.scale
    other = duplicate(net)
    assert type(other) is Net and not other.training
    assert list(other.state_dict()) == list(net.state_dict())
    for (name, mine), (_, theirs) in zip(net.named_parameters(), other.named_parameters(), strict=True):
        assert type(theirs) is nn.Parameter and theirs is not mine, name
        assert theirs.requires_grad == mine.requires_grad and flambeau.equal(mine, theirs), name
    assert other.tied is other.scale
    x = flambeau.ones(2, 3)
    assert flambeau.equal(net(x), other(x))
    with flambeau.no_grad():
        other.scale.fill_(5.0)
    assert float(net.scale.detach().max()) == 1.0
    assert list(other.state_dict()) == list(net.state_dict()) and "cache" not in other.state_dict()


def test_parameter():
    data = flambeau.ones(2)
    parameter = nn.Parameter(data)
    assert parameter.requires_grad and parameter.is_leaf and isinstance(parameter, flambeau.Tensor)
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    data[0] = 3.0
    assert float(parameter[0].detach()) == 3.0, "the memory is shared"
    assert type(parameter * 2) is flambeau.Tensor and type(parameter.data) is flambeau.Tensor
    assert tuple(nn.Parameter().shape) == (0,)
    with flambeau.no_grad():
        assert nn.Parameter(flambeau.ones(1)).requires_grad
    assert not nn.Parameter(flambeau.tensor([1, 2]), requires_grad=False).requires_grad
    with pytest.raises(AttributeError):
        nn.Parameter([1.0])
    with pytest.raises(RuntimeError, match="floating point and complex dtype"):
        nn.Parameter(flambeau.tensor([1, 2]))


def test_training_step_reaches_all_parameters():
    flambeau.manual_seed(0)
    net = Net()
    x = flambeau.randn(16, 3)
    y = x[:, :2] + 1
    losses = []
    for _ in range(50):
        loss = ((net(x) - y) ** 2).mean()
        net.zero_grad()
        loss.backward()
        with flambeau.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad
        losses.append(float(loss))
    assert losses[-1] < losses[0] * 0.5


def test_share_memory_is_that_of_every_tensor(monkeypatch):
    shared = []
    monkeypatch.setattr(
        flambeau.Tensor, "share_memory_", lambda self: shared.append(self) or self, raising=False
    )
    module = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    parameters = list(module.parameters())
    assert module.share_memory() is module
    assert {id(t) for t in shared} == {id(t) for t in (*module.parameters(), *module.buffers())}
    assert [id(p) for p in module.parameters()] == [id(p) for p in parameters]
