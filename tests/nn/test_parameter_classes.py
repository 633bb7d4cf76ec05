"""Tensors of a program's own class stay of it: as `.data`, as parameters and buffers, in copies, in states and in files."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import flambeau
from flambeau import Tensor, nn


class Plain(Tensor):
    pass


class Passing(Tensor):
    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


class Made(Tensor):
    def __new__(cls, x, requires_grad=False):
        return Tensor._make_subclass(cls, x, requires_grad)


class Holding(Tensor):
    @staticmethod
    def __new__(cls, x):
        made = Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, requires_grad=x.requires_grad)
        made.held = x
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        bare = lambda x: x.held if isinstance(x, cls) else x
        result = func(*map(bare, args), **{n: bare(x) for n, x in (kwargs or {}).items()})
        return cls(result) if isinstance(result, Tensor) else result


class Deaf(Tensor):
    __torch_function__ = flambeau._C._disabled_torch_function_impl


KINDS = {
    "plain": lambda x: x.as_subclass(Plain),
    "passing": lambda x: x.as_subclass(Passing),
    "made": Made,
    "holding": Holding,
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


def numbers(x):
    return (x.held if isinstance(x, Holding) else x.as_subclass(Tensor)).tolist()


def test_data(make):
    x = make(flambeau.arange(3.0))
    assert type(x.data) is type(x.data.data) is type(x) and not x.data.requires_grad
    p = nn.Parameter(make(flambeau.arange(3.0)))
    assert type(p.data) is type(x) and not isinstance(p.data, nn.Parameter) and not p.data.requires_grad


def test_writes_through_data_are_unseen_by_the_tape():
    x = flambeau.ones(2).as_subclass(Plain).requires_grad_()
    y = x.exp()
    x.data.add_(1)
    version = x._version
    assert numbers(x) == [2.0, 2.0]
    y.sum().backward()
    x.data.data.add_(1)
    assert x._version == version and numbers(x) == [3.0, 3.0]


def test_data_is_a_call_that_classes_see():
    Passing.seen.clear()
    x = flambeau.ones(2).as_subclass(Passing)
    assert type(x.data) is Passing and Passing.seen[-1] == Tensor.data.__get__

    class Otherwise(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return (
                "other"
                if func == Tensor.data.__get__
                else super().__torch_function__(func, types, args, kwargs or {})
            )

    assert flambeau.ones(2).as_subclass(Otherwise).data == "other"
    assert (
        type(flambeau.ones(2).as_subclass(Deaf).data) is type(nn.Parameter(flambeau.ones(2)).data) is Tensor
    )


@pytest.mark.parametrize("requires_grad", (True, False))
def test_parameters(make, requires_grad):
    x = make(flambeau.arange(3.0))
    p = nn.Parameter(x, requires_grad)
    assert type(p) is type(x) and isinstance(p, nn.Parameter) and p is not x
    assert p.requires_grad == requires_grad and p.is_leaf and not x.requires_grad
    assert (
        not isinstance(x, nn.Parameter)
        and not isinstance(p, nn.Buffer)
        and not issubclass(type(x), nn.Parameter)
    )
    assert not isinstance(p + 1, nn.Parameter) and not isinstance(p.detach(), nn.Parameter)
    assert type(nn.Parameter(p)) is type(nn.Parameter(p.data)) is type(x)
    if type(x) is not Holding:
        assert (
            repr(p).startswith(f"Parameter({type(x).__name__}([0., 1., 2.]") and p.data_ptr() == x.data_ptr()
        )


def test_classes_of_parameters():
    class Own(nn.Parameter):
        pass

    assert (
        type(Own(flambeau.ones(2))) is Own
        and type(nn.Parameter(nn.Parameter(flambeau.ones(2)))) is nn.Parameter
    )
    p = Own(flambeau.ones(2).as_subclass(Plain))
    assert type(p) is Plain and isinstance(p, nn.Parameter) and not isinstance(p, Own)
    for data in (flambeau.ones(2).as_subclass(Deaf), Own(flambeau.ones(2))):
        with pytest.raises(RuntimeError, match=r"detach\(\) returns an instance of the same type"):
            nn.Parameter(data)
    assert type(nn.Parameter(nn.Buffer(flambeau.ones(2)))) is nn.Parameter
    for wrapper in (flambeau.eye(2).to_sparse(), flambeau.nested.nested_tensor([flambeau.ones(2)])):
        with pytest.raises(TypeError, match="cannot be one"):
            nn.Parameter(wrapper)


def test_buffers(make):
    x = make(flambeau.ones(2))
    b = nn.Buffer(x, persistent=False)
    assert (
        type(b) is type(x)
        and isinstance(b, nn.Buffer)
        and not isinstance(b, nn.Parameter)
        and not b.persistent
    )
    assert not isinstance(x, nn.Buffer)
    m = nn.Module()
    m.b = b
    assert m.b is b and [n for n, _ in m.named_buffers()] == ["b"] and not m.state_dict()


class Net(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.p = nn.Parameter(make(flambeau.arange(3.0)))
        self.register_buffer("b", make(flambeau.ones(1)))


def test_modules(make):
    kind = type(make(flambeau.ones(1)))
    net = Net(make)
    state = net.state_dict()
    assert [n for n, _ in net.named_parameters()] == ["p"]
    assert all(type(v) is kind and not isinstance(v, nn.Parameter) for v in state.values())
    other = Net(make)
    other.load_state_dict(state)
    loaded = Net(make)
    loaded.load_state_dict(state, assign=True)
    for made in (net, other, copy.deepcopy(net), Net(make).double(), Net(make).requires_grad_(False), loaded):
        assert type(made.p) is kind and isinstance(made.p, nn.Parameter) and type(made.b) is kind
        assert numbers(made.p) == [0.0, 1.0, 2.0]


def test_copies_and_files(make):
    if type(make(flambeau.ones(1))) is Holding:
        pytest.skip("a wrapper's class says how it is pickled")
    p = nn.Parameter(make(flambeau.arange(3.0)), requires_grad=False)
    file = io.BytesIO()
    flambeau.save([p, p.data], file)
    file.seek(0)
    saved, data = flambeau.load(file, weights_only=False)
    for made in (copy.copy(p), copy.deepcopy(p), pickle.loads(pickle.dumps(p)), saved):
        assert type(made) is type(p) and isinstance(made, nn.Parameter) and not made.requires_grad
        assert numbers(made) == [0.0, 1.0, 2.0]
    assert type(data) is type(p) and not isinstance(data, nn.Parameter)


def test_training(make):
    if type(make(flambeau.ones(1))) is Holding:
        pytest.skip("its operations in place are its class's")
    p = nn.Parameter(make(flambeau.arange(3.0)))
    optimizer = flambeau.optim.SGD([p], lr=0.25)
    (p * p).sum().backward()
    optimizer.step()
    assert type(p) is type(make(flambeau.ones(1))) and numbers(p) == [0.0, 0.5, 1.0]
    p.data = p.data * 2
    assert isinstance(p, nn.Parameter) and numbers(p) == [0.0, 1.0, 2.0]
