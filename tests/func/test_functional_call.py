"""func.functional_call, its old place nn.utils.stateless, and func.stack_module_state."""

from __future__ import annotations

import types

import pytest

import flambeau
from flambeau import nn
from flambeau.func import functional_call, stack_module_state
from flambeau.nn.utils import parametrize, stateless

ZERO, ONE = flambeau.zeros(()), flambeau.ones(())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.foo = nn.Parameter(flambeau.ones(()))
        self.tied = self.foo
        self.register_buffer("steps", flambeau.zeros(()))

    def forward(self, x):
        self.steps = self.steps + 1
        return x + self.foo + self.tied


def linear():
    layer = nn.Linear(2, 1, bias=False)
    nn.init.ones_(layer.weight)
    return layer


def test_other_tensors_stand_in_for_one_call():
    layer, x = linear(), flambeau.tensor([1.0, 2.0])
    weight, other = layer.weight, flambeau.tensor([[2.0, 3.0]], requires_grad=True)
    functional_call(layer, {"weight": other}, x).backward()
    assert other.grad.tolist() == [[1.0, 2.0]] and weight.grad is None and layer.weight is weight
    assert functional_call(layer, {"weight": other}, kwargs={"input": x}).item() == 8
    assert functional_call(layer, ({"weight": other}, {}), (x,)).item() == 8
    assert functional_call(layer, types.MappingProxyType({"weight": other}), x).item() == 8
    net = nn.Sequential(layer, nn.Sequential(layer))
    assert functional_call(net[1:], {"1.0.weight": other}, x).item() == 8 and layer.weight is weight


def test_tied_weights():
    module = Tied()
    assert functional_call(module, {"foo": ZERO}, ZERO).item() == 0
    assert functional_call(module, {"tied": ZERO}, ZERO).item() == 0
    assert functional_call(module, {"foo": ZERO}, ZERO, tie_weights=False).item() == 1
    assert functional_call(module, {"foo": ZERO, "tied": ZERO}, ZERO).item() == 0
    assert functional_call(module, {"foo": ZERO, "tied": ONE}, ZERO, tie_weights=False).item() == 1
    with pytest.raises(ValueError, match=r"multiple values for keys \['foo', 'tied'\], which are tied"):
        functional_call(module, {"foo": ZERO, "tied": ONE}, ZERO)
    assert functional_call(module, {"foo": ZERO, "steps": ZERO}, ZERO, strict=True).item() == 0
    assert module.foo is module.tied and isinstance(module.foo, nn.Parameter)


def test_what_the_module_rebinds_is_rebound_in_the_dictionary():
    module = Tied()
    for given in ({"steps": ZERO}, [{"foo": ZERO}, {"steps": ZERO}]):
        functional_call(module, given, ZERO)
        assert (given if isinstance(given, dict) else given[1])["steps"].item() == 1
    assert module.steps.item() == 0 and ZERO.item() == 0
    norm = nn.BatchNorm1d(2)
    state = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    functional_call(norm, state, flambeau.randn(4, 2))
    assert int(state["num_batches_tracked"]) == 1 and int(norm.num_batches_tracked) == 0
    assert not state["running_mean"].equal(norm.running_mean)


class Unruly(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.w, self.what = nn.Parameter(flambeau.ones(2)), what

    def forward(self):
        if self.what == "delete":
            del self.w
        elif self.what == "assign":
            self.w = nn.Parameter(flambeau.zeros(2))
        raise ZeroDivisionError


@pytest.mark.parametrize("what", ["delete", "assign", "raise"])
def test_a_call_that_raises_leaves_the_module_as_it_was(what):
    module = Unruly(what)
    weight = module.w
    with pytest.raises(ZeroDivisionError):
        functional_call(module, {"w": flambeau.ones(2), "extra": ONE})
    assert module.w is weight and list(module._parameters) == ["w"] and not hasattr(module, "extra")


def test_errors_leave_the_module_as_it_was():
    layer, x = linear(), flambeau.ones(2)
    weight = layer.weight
    for given, error, message, more in (
        ({"a.b": ONE}, AttributeError, "Linear has no attribute `a`", {}),
        ({"weight": 3}, TypeError, "3 is not an instance of flambeau.Tensor", {}),
        ({"weight": ONE, "in_features": ONE}, TypeError, "attribute `in_features`: 2 is not an instance", {}),
        (
            {"weight.a": ONE},
            TypeError,
            "(?s)submodule `weight`.* is not an instance of flambeau.nn.Module",
            {},
        ),
        (
            {},
            RuntimeError,
            r"Error\(s\) in reparametrizing for Linear:\n\tMissing key\(s\): 'weight'",
            {"strict": True},
        ),
        (
            {"foo": ONE},
            RuntimeError,
            r"Unexpected key\(s\): 'foo'.\n\tMissing key\(s\): 'weight'",
            {"strict": True},
        ),
        (
            [{"weight": ONE}, {"weight": ONE}],
            ValueError,
            r"\['weight'\] appeared in multiple dictionaries",
            {},
        ),
        (5, ValueError, "to be a dict, or a list/tuple of dicts, but got <class 'int'>", {}),
        ([5], ValueError, "all elements of parameter_and_buffer_dicts to be dictionaries", {}),
    ):
        with pytest.raises(error, match=message):
            functional_call(layer, given, x, **more)
        assert layer.weight is weight and list(layer._parameters) == ["weight", "bias"]
    assert functional_call(layer, {"foo": ONE}, x).item() == 2 and not hasattr(
        layer, "foo"
    )  # a name it has not


class Lower(nn.Module):
    def forward(self, X):
        return X.tril()

    def right_inverse(self, X):
        return X.tril()


def test_parametrised_tensors():
    layer = parametrize.register_parametrization(nn.Linear(2, 2, bias=False), "weight", Lower())
    original, before = layer.parametrizations.weight.original, layer.weight.detach().clone()
    other = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    name = "parametrizations.weight.original"
    for key in ("weight", name):
        assert functional_call(layer, {key: other}, flambeau.eye(2)).tolist() == [[1.0, 3.0], [0.0, 4.0]]
        assert layer.parametrizations.weight.original is original and layer.weight.equal(before)


def test_the_old_place():
    with pytest.warns(FutureWarning, match="use `func.functional_call` instead"):
        assert (
            stateless.functional_call(linear(), {"weight": flambeau.zeros(1, 2)}, flambeau.ones(2)).item()
            == 0
        )


def test_states_of_several_modules():
    models = [nn.BatchNorm1d(2) for _ in range(3)]
    nn.init.zeros_(models[1].weight)
    parameters, buffers = stack_module_state(models)
    assert parameters["weight"].tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    assert all(p.is_leaf and p.requires_grad for p in parameters.values())
    assert {n: tuple(b.shape) for n, b in buffers.items()} == {
        "running_mean": (3, 2),
        "running_var": (3, 2),
        "num_batches_tracked": (3,),
    }
    assert buffers["num_batches_tracked"].dtype is flambeau.int64
    frozen = linear().requires_grad_(False)
    assert not stack_module_state([frozen, frozen])[0]["weight"].requires_grad
    for bad, message in (
        ([], "Expected at least one model, got 0"),
        ([linear(), linear().eval()], "same training/eval mode"),
        ([linear(), nn.Bilinear(2, 1, 1)], "models to be of the same class"),
        ([linear(), frozen], "Expected weight from each model to have the same .requires_grad"),
        ([nn.Linear(2, 1), nn.Linear(3, 1)], "size"),
    ):
        with pytest.raises(RuntimeError, match=message):
            stack_module_state(bad)
