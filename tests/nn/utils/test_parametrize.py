"""nn.utils.parametrize: registering, assigning, removing, copying, caching; what is refused."""

from __future__ import annotations

import abc
import copy
import gc
import pickle
import threading
import weakref

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parametrize as P


class Symmetric(nn.Module):
    calls = 0

    def forward(self, X):
        type(self).calls += 1
        return X.triu() + X.triu(1).mT

    def right_inverse(self, A):
        return A.triu()


class Double(nn.Module):
    """Without right_inverse."""

    def forward(self, X):
        return 2 * X


class Scaled(nn.Module):
    def forward(self, X):
        return 4 * X

    def right_inverse(self, Y):
        return Y / 4


class RankOne(nn.Module):
    def forward(self, x, y):
        return x.unsqueeze(-1) @ y.unsqueeze(-2)

    def right_inverse(self, Z):
        U, S, Vh = flambeau.linalg.svd(Z, full_matrices=False)
        root = S[0].sqrt()
        return U[:, 0] * root, Vh[0] * root


def names(module):
    return [name for name, _ in module.named_parameters()]


def test_a_parametrised_weight():
    layer = nn.Linear(3, 3)
    weight, before = layer.weight, layer.weight.detach().clone()
    optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.1)
    assert P.register_parametrization(layer, "weight", Symmetric()) is layer
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert (
        P.type_before_parametrizations(layer) is nn.Linear
        and P.type_before_parametrizations(nn.ReLU()) is nn.ReLU
    )
    assert P.is_parametrized(layer) and P.is_parametrized(layer, "weight")
    assert not P.is_parametrized(layer, "bias")
    assert names(layer) == ["bias", "parametrizations.weight.original"]
    assert layer.parametrizations.weight.original is weight  # the optimiser's own
    assert layer.weight.equal(before.triu() + before.triu(1).T)
    layer(flambeau.ones(2, 3)).sum().backward()
    assert weight.grad.tolist() == [[2.0, 4.0, 4.0], [0.0, 2.0, 4.0], [0.0, 0.0, 2.0]]
    optimizer.step()
    assert layer.weight.equal(layer.weight.T) and not layer.weight.equal(before)
    wanted = flambeau.arange(9.0).reshape(3, 3)
    layer.weight = wanted + wanted.T
    assert layer.weight.equal(wanted + wanted.T) and layer.parametrizations.weight.original is weight
    assert "(parametrizations): ModuleDict(" in repr(layer) and "(weight): ParametrizationList(" in repr(
        layer
    )
    assert "weight" in dir(layer) and "weight" not in layer._parameters

    assert P.remove_parametrizations(layer, "weight") is layer
    assert type(layer) is nn.Linear and layer.weight is weight and names(layer) == ["bias", "weight"]
    assert weight.equal(wanted + wanted.T) and not hasattr(layer, "parametrizations")


def test_left_as_the_original():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    P.register_parametrization(layer, "weight", Double())
    assert layer.weight.equal(2 * before)
    P.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.equal(before)


def test_several_on_one_tensor():
    layer = nn.Linear(3, 3)
    P.register_parametrization(layer, "weight", Symmetric())
    was = layer.weight.detach().clone()
    P.register_parametrization(layer, "weight", Scaled())
    assert len(layer.parametrizations.weight) == 2 and layer.weight.equal(4 * was)
    layer.weight = flambeau.eye(3)
    assert layer.weight.equal(flambeau.eye(3)) and layer.parametrizations.weight.original.equal(
        flambeau.eye(3) / 4
    )
    P.register_parametrization(layer, "weight", Double())
    with pytest.raises(RuntimeError, match="parametrization Double does not implement right_inverse"):
        layer.weight = flambeau.eye(3)


def test_several_originals():
    layer = nn.Linear(3, 4)
    layer.weight.requires_grad_(False)
    P.register_parametrization(layer, "weight", RankOne())
    assert names(layer) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert [p.requires_grad for p in layer.parameters()] == [True, False, False]
    layer.parametrizations.weight.original0.requires_grad_()
    assert int(flambeau.linalg.matrix_rank(layer.weight.detach())) == 1
    layer.weight = flambeau.ones(4, 3)
    assert flambeau.allclose(layer.weight, flambeau.ones(4, 3))
    with pytest.raises(ValueError, match="parametrized in terms of a sequence of tensors"):
        P.remove_parametrizations(layer, "weight", leave_parametrized=False)
    P.remove_parametrizations(layer, "weight")
    assert type(layer.weight) is nn.Parameter and layer.weight.is_leaf and layer.weight.requires_grad


def test_buffers_and_several_tensors():
    module = nn.Module()
    module.register_buffer("table", flambeau.ones(2))
    module.scale = nn.Parameter(flambeau.ones(2))
    P.register_parametrization(module, "table", Double())
    P.register_parametrization(module, "scale", Double())
    assert list(module.state_dict()) == ["parametrizations.table.original", "parametrizations.scale.original"]
    assert [name for name, _ in module.named_buffers()] == ["parametrizations.table.original"]
    P.remove_parametrizations(module, "table")
    assert module.table.tolist() == [2.0, 2.0] and "table" in module._buffers
    assert P.is_parametrized(module, "scale") and module.scale.tolist() == [2.0, 2.0]
    P.remove_parametrizations(module, "scale")
    assert type(module) is nn.Module


def test_modules_move_and_train_with_their_parametrisations():
    layer = nn.Linear(2, 2).eval()
    part = nn.Dropout()
    P.register_parametrization(layer, "weight", part)
    assert not part.training and layer.train() is layer and part.training
    assert layer.eval().double().weight.dtype is flambeau.float64
    assert layer.to("meta").weight.is_meta


def test_modules_with_the_same_parametrisations_share_a_class_and_nothing_else():
    one, two = (P.register_parametrization(nn.Linear(2, 2), "weight", Double()) for _ in range(2))
    assert type(one) is type(two)
    P.register_parametrization(one, "bias", Double())
    assert type(one) is not type(two) and not P.is_parametrized(two, "bias")
    assert type(one).__bases__ == (nn.Linear,)
    P.remove_parametrizations(one, "weight")
    assert two.weight.shape == (2, 2) and type(one.weight) is nn.Parameter


def test_copies_are_their_own():
    layer = P.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    made = copy.deepcopy(nn.Sequential(layer, layer))
    assert made[0] is made[1] and made[0].weight.equal(layer.weight)
    P.remove_parametrizations(layer, "weight")
    made[0].weight = flambeau.eye(2)
    assert made[0].weight.equal(flambeau.eye(2)) and not layer.weight.equal(flambeau.eye(2))
    assert P.is_parametrized(made[0], "weight")
    P.remove_parametrizations(made[0], "weight")
    assert type(made[0]) is nn.Linear


class Slotted(nn.Linear):
    __slots__ = ("note",)


class Copied(nn.Linear):
    def __deepcopy__(self, memo):
        return "mine"


class Abstract(nn.Linear, abc.ABC):
    pass


def test_classes_of_any_kind():
    layer = Slotted(2, 2)
    layer.note = ["kept"]
    P.register_parametrization(layer, "weight", Double())
    made = copy.deepcopy(layer)
    assert made.note == ["kept"] and made.note is not layer.note and made.weight.equal(layer.weight)
    assert copy.deepcopy(P.register_parametrization(Copied(2, 2), "weight", Double())) == "mine"
    layer = P.register_parametrization(Abstract(2, 2), "weight", Double())
    assert type(type(layer)) is abc.ABCMeta and layer(flambeau.ones(2)).shape == (2,)


def test_classes_live_no_longer_than_their_modules():
    class Local(nn.Linear):
        pass

    layer = P.register_parametrization(Local(2, 2), "weight", Double())
    layer(flambeau.ones(2)).sum().backward()
    gone = weakref.ref(Local), weakref.ref(type(layer)), weakref.ref(layer)
    del Local, layer
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


def test_pickling_is_refused():
    layer = P.register_parametrization(nn.Linear(2, 2), "weight", Double())
    with pytest.raises(RuntimeError, match=r"only supported through state_dict\(\)"):
        pickle.dumps(layer)
    state = layer.state_dict()
    fresh = P.register_parametrization(nn.Linear(2, 2), "weight", Double())
    assert fresh.load_state_dict(state) == ([], []) and fresh.weight.equal(layer.weight)


def test_values_are_cached_in_the_context():
    layer = P.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    assert layer.weight is not layer.weight
    with P.cached():
        Symmetric.calls = 0
        kept = layer.weight
        with P.cached():
            assert layer.weight is kept
        assert layer.weight is kept and Symmetric.calls == 1
        with flambeau.no_grad():
            assert layer.weight is not kept and not layer.weight.requires_grad
        assert layer.weight is kept and kept.requires_grad
        layer.weight = flambeau.eye(2)
        assert layer.weight.equal(flambeau.eye(2))
        copied = copy.deepcopy(layer)
        copied.weight = 3 * flambeau.eye(2)
        assert copied.weight.equal(3 * flambeau.eye(2)) and layer.weight.equal(flambeau.eye(2))
        seen = []
        thread = threading.Thread(target=lambda: seen.append(layer.weight is layer.weight))
        thread.start()
        thread.join()
        assert seen == [False]  # the context is this thread's
        for _ in range(20):  # each with an id that may be one of before
            other = P.register_parametrization(nn.Linear(1, 1), "weight", Double())
            assert other.weight.equal(2 * other.parametrizations.weight.original)
    assert layer.weight is not layer.weight
    with pytest.raises(KeyError), P.cached():
        raise KeyError
    assert layer.weight is not layer.weight


def test_recurrent_layers_with_parametrised_weights():
    flambeau.manual_seed(0)
    module, plain = nn.LSTM(2, 3), nn.LSTM(2, 3)
    P.register_parametrization(module, "weight_hh_l0", Double())
    plain.load_state_dict({name: getattr(module, name) for name in plain.state_dict()})
    x = flambeau.randn(4, 2, 2)
    module(x)[0].sum().backward()
    plain(x)[0].sum().backward()
    assert flambeau.allclose(module(x)[0], plain(x)[0])
    assert flambeau.allclose(module.parametrizations.weight_hh_l0.original.grad, 2 * plain.weight_hh_l0.grad)


def test_transfer():
    source, target = nn.Linear(3, 3), nn.Module()
    P.register_parametrization(source, "weight", Symmetric())
    P.register_parametrization(source, "bias", Double())
    assert P.transfer_parametrizations_and_params(source, target, "weight") is target
    assert target.weight.equal(source.weight) and not hasattr(target, "bias")
    assert target.parametrizations.weight.original is source.parametrizations.weight.original
    other = P.transfer_parametrizations_and_params(source, nn.Linear(3, 3))
    assert other.bias.equal(source.bias) and P.is_parametrized(other, "bias")
    several = P.register_parametrization(nn.Linear(2, 2), "weight", RankOne(), unsafe=True)
    assert P.transfer_parametrizations_and_params(several, nn.Linear(2, 2)).weight.equal(several.weight)
    plain = nn.Linear(2, 2)
    assert P.transfer_parametrizations_and_params(nn.Linear(2, 2), plain) is plain
    assert not P.is_parametrized(plain)


# ---------------------------------------------------------------- what is refused


def of(forward, right_inverse=None):
    members = {"forward": lambda self, *x: forward(*x)}
    if right_inverse is not None:
        members["right_inverse"] = lambda self, x: right_inverse(x)
    return type("Made", (nn.Module,), members)()


def same(x):
    return x


REFUSED = {
    "parametrization must return a tensor. Got list": of(lambda x: [x]),
    "may not change the dtype": of(lambda x: x.double()),
    "may not change the shape": of(lambda x: x[0]),
}
REFUSED_FIRST = REFUSED | {
    "'right_inverse' must return a Tensor or a Sequence of tensors .* Got int": of(same, lambda x: 3),
    "Got element 1 of the sequence with type int": of(same, lambda x: (x, 3)),
    "it may not change the dtype.\noriginal.dtype: flambeau.float32": of(same, lambda x: x.double()),
    "it may not change the device": of(same, lambda x: x.to("meta")),
}
REFUSED_LATER = REFUSED | {
    "right_inverse must return a tensor. Got: tuple": of(same, lambda x: (x,)),
    "must have the same dtype as module.weight": of(same, lambda x: x.double()),
    "must have the same shape as module.weight": of(same, lambda x: x[0]),
}


@pytest.mark.parametrize("message", REFUSED_FIRST)
def test_first_parametrisations_are_checked(message):
    layer = nn.Linear(2, 2)
    weight, before = layer.weight, layer.weight.detach().clone()
    with pytest.raises(ValueError, match=message):
        P.register_parametrization(layer, "weight", REFUSED_FIRST[message])
    assert type(layer) is nn.Linear and layer.weight is weight and weight.equal(before)
    assert names(layer) == ["weight", "bias"]


@pytest.mark.parametrize("message", REFUSED_LATER)
def test_later_parametrisations_are_checked(message):
    layer = P.register_parametrization(nn.Linear(2, 2), "weight", Double())
    with pytest.raises(ValueError, match=message):
        P.register_parametrization(layer, "weight", REFUSED_LATER[message])
    assert len(layer.parametrizations.weight) == 1


def test_unsafe_ones_may_do_anything():
    layer = P.register_parametrization(nn.Linear(2, 2), "weight", of(lambda x: x[0].double()), unsafe=True)
    assert layer.weight.shape == (2,) and layer.weight.dtype is flambeau.float64
    P.register_parametrization(layer, "weight", of(lambda x: x.sum()), unsafe=True)
    assert layer.weight.shape == () and layer.parametrizations.weight.unsafe


def test_a_right_inverse_may_be_missing():
    def refuse(x):
        raise NotImplementedError

    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    P.register_parametrization(layer, "weight", of(same, refuse))
    P.register_parametrization(layer, "weight", of(same, refuse))
    assert layer.weight.equal(before)
    with pytest.raises(NotImplementedError):
        layer.weight = before


def test_assigned_values_are_checked():
    answers = []
    part = of(lambda *x: x[0], lambda x: answers.pop() if answers else x)
    layer = P.register_parametrization(nn.Linear(2, 2), "weight", part)
    for answer, message in ((3, "should return a tensor. Got int"), (flambeau.ones(2).double(), "has dtype")):
        answers.append(answer)
        with pytest.raises(ValueError, match=message):
            layer.weight = flambeau.ones(2, 2)
    pair = of(lambda x, y: x + y, lambda x: answers.pop() if answers else (x, x))
    layer = P.register_parametrization(nn.Linear(2, 2), "weight", pair)
    ones = flambeau.ones(2, 2)
    for answer, message in (
        (3, "a sequence of tensors. Got int"),
        ((ones,), "of length 2. Got a sequence of length 1"),
        ((ones, 3), "Got element 1 of type int"),
        ((ones, ones.double()), "Tensor 1 returned by `right_inverse` has dtype"),
    ):
        before = [p.detach().clone() for p in layer.parametrizations.weight.parameters()]
        answers.append(answer)
        with pytest.raises(ValueError, match=message):
            layer.weight = ones
        after = list(layer.parametrizations.weight.parameters())
        assert all(a.equal(b) for a, b in zip(before, after, strict=True))  # not one of them was set


def test_names_that_are_not_there():
    layer = nn.Linear(2, 2, bias=True)
    for name in ("nope", "in_features"):
        with pytest.raises(ValueError, match=f"does not have a parameter, a buffer, .* with name '{name}'"):
            P.register_parametrization(layer, name, Double())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        P.remove_parametrizations(layer, "weight")
    with pytest.raises(ValueError, match="requires one or more modules"):
        P.ParametrizationList([], flambeau.ones(2))
    P.register_parametrization(layer, "weight", Double())
    with pytest.raises(ValueError, match="does not have a parametrization on bias"):
        P.remove_parametrizations(layer, "bias")
    with pytest.raises(KeyError, match="attribute 'weight' already exists"):
        layer.weight = nn.Parameter(flambeau.ones(2, 2))
