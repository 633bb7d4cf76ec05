"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


def kinds(modules):
    return [type(module).__name__ for module in modules]


def test_sequential_forward_and_access():
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Identity())
    assert len(net) == 3 and kinds(net) == ["ReLU", "Tanh", "Identity"]
    assert net[-1] is net[2] and list(net.state_dict()) == []
    assert float(net(flambeau.tensor(-3.0))) == 0.0
    named = nn.Sequential(OrderedDict(act=nn.ReLU(), out=nn.Identity()))
    assert named.act is named[0]
    part = named[1:]
    assert type(part) is nn.Sequential and list(part._modules) == ["out"] and part[0] is named[1]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            net[index]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(3)


def test_sequential_changes():
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert net.append(nn.Sigmoid()) is net
    assert net.insert(0, nn.Identity()) is net
    net.insert(-1, nn.GELU())
    assert kinds(net) == ["Identity", "ReLU", "Tanh", "GELU", "Sigmoid"] and list(net._modules) == list(
        "01234"
    )
    net[1] = nn.ELU()
    del net[0], net[-1]
    assert kinds(net) == ["ELU", "Tanh", "GELU"] and list(net._modules) == list("012")
    assert type(net.pop(1)) is nn.Tanh and list(net._modules) == list("01")
    net.extend([nn.ReLU(), nn.ReLU()])
    del net[1:3]
    assert kinds(net) == ["ELU", "ReLU"] and list(net._modules) == list("01")
    with pytest.raises(IndexError, match="Index out of range: 5"):
        net.insert(5, nn.ReLU())
    with pytest.raises(AssertionError, match="module should be of type"):
        net.insert(0, 3)


def test_sequential_arithmetic():
    a, b = nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh(), nn.Tanh())
    assert kinds(a + b) == ["ReLU", "Tanh", "Tanh"] and len(a) == 1
    assert kinds(b * 2) == kinds(2 * b) == ["Tanh"] * 4 and (b * 2)[2] is b[0]
    same = a
    a += b
    assert a is same and kinds(a) == ["ReLU", "Tanh", "Tanh"]
    b *= 3
    assert len(b) == 6 and list(b._modules) == list("012345")
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
        a + [nn.ReLU()]
    with pytest.raises(TypeError, match="unsupported operand"):
        a * 1.5
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        a * 0


def test_module_list():
    layers = nn.ModuleList(nn.Linear(i + 1, 1, bias=False) for i in range(3))
    assert len(layers) == 3 and [layer.in_features for layer in layers] == [1, 2, 3]
    assert [name for name, _ in layers.named_parameters()] == ["0.weight", "1.weight", "2.weight"]
    assert type(layers[1:]) is nn.ModuleList and layers[1:][0] is layers[1] and layers[-1] is layers[2]
    layers.append(nn.ReLU()).extend([nn.Tanh()])
    layers += [nn.Identity()]
    assert kinds(layers[3:]) == ["ReLU", "Tanh", "Identity"]
    layers.insert(1, nn.GELU())
    assert kinds(layers)[:3] == ["Linear", "GELU", "Linear"] and list(layers._modules) == list("0123456")
    del layers[1:6]
    layers[0] = nn.ELU()
    assert kinds(layers) == ["ELU", "Identity"]
    assert kinds(layers + [nn.ReLU()]) == ["ELU", "Identity", "ReLU"] and len(layers) == 2
    assert type(layers.pop(0)) is nn.ELU and len(layers) == 1
    with pytest.raises(IndexError, match="index 1 is out of range"):
        layers[1]
    with pytest.raises(TypeError, match="ModuleList.extend should be called with an iterable, but got int"):
        layers.extend(3)
    with pytest.raises(NotImplementedError):
        layers(1)


def test_module_list_repr_joins_equal_neighbours():
    assert repr(nn.ModuleList()) == "ModuleList()"
    layers = nn.ModuleList([nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU()), nn.Tanh()])
    assert repr(layers) == ("ModuleList(\n  (0-1): 2 x Sequential(\n    (0): ReLU()\n  )\n  (2): Tanh()\n)")


def test_module_dict():
    heads = nn.ModuleDict({"z": nn.ReLU(), "a": nn.Tanh()})
    assert list(heads) == list(heads.keys()) == ["z", "a"] and len(heads) == 2
    assert "z" in heads and "q" not in heads and heads.z is heads["z"]
    heads.update([("b", nn.ELU()), ["z", nn.GELU()]])
    assert kinds(heads.values()) == ["GELU", "Tanh", "ELU"]
    assert [key for key, _ in heads.items()] == ["z", "a", "b"]
    assert type(heads.pop("a")) is nn.Tanh and "a" not in heads
    del heads["b"]
    assert repr(heads) == "ModuleDict(\n  (z): GELU(approximate='none')\n)"
    heads.update(nn.ModuleDict({"c": nn.ReLU()}))
    heads.clear()
    assert len(heads) == 0
    with pytest.raises(KeyError):
        heads["none"]
    with pytest.raises(TypeError, match="ModuleDict.update should be called with an iterable"):
        heads.update(3)
    with pytest.raises(TypeError, match="element #0 should be Iterable; is int"):
        heads.update([3])
    with pytest.raises(ValueError, match="element #1 has length 1; 2 is required"):
        heads.update([("a", nn.ReLU()), ("b",)])
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        heads["keys"] = nn.ReLU()


def test_parameter_list():
    values = nn.ParameterList([flambeau.ones(2, 3), nn.Parameter(flambeau.zeros(1)), "text"])
    assert type(values[0]) is nn.Parameter and values[2] == "text" and len(values) == 3
    assert [name for name, _ in values.named_parameters()] == ["0", "1"]
    assert list(values.state_dict()) == ["0", "1"]
    values[-2] = flambeau.ones(4)
    assert tuple(values[1].shape) == (4,) and type(values[1]) is nn.Parameter
    values.append(flambeau.ones(1)).extend([flambeau.ones(1)])
    values += [1.5]
    assert [type(value).__name__ for value in values] == ["Parameter", "Parameter", "str"] + [
        "Parameter"
    ] * 2 + ["float"]
    part = values[:2]
    assert type(part) is nn.ParameterList and part[0] is values[0] and len(part) == 2
    kind = flambeau.float32
    assert repr(values[:3]) == (
        f"ParameterList(\n    (0): Parameter containing: [{kind} of size 2x3]\n"
        f"    (1): Parameter containing: [{kind} of size 4]\n    (2): Object of type: str\n)"
    )
    with pytest.raises(IndexError, match="index 6 is out of range"):
        values[6]
    with pytest.raises(TypeError, match="ParameterList.extend should be called with an iterable, but got"):
        values.extend(flambeau.ones(2))
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        values(1)


def test_parameter_dict():
    values = nn.ParameterDict({"b": flambeau.ones(2), "a": flambeau.zeros(1)})
    assert list(values) == ["a", "b"], "a plain dict is taken sorted"
    values["c"] = 3
    assert list(nn.ParameterDict(OrderedDict(b=1, a=2))) == ["b", "a"]
    assert [name for name, _ in values.named_parameters()] == ["a", "b"] and list(values.keys()) == [
        "a",
        "b",
        "c",
    ]
    assert (
        type(values["b"]) is nn.Parameter and values.b is values["b"] and "b" in values and len(values) == 3
    )
    assert list(reversed(values)) == ["c", "b", "a"]
    assert values.get("none", 7) == 7 and values.setdefault("d", 4) == 4 and values.setdefault("d", 5) == 4
    assert values.popitem() == ("d", 4) and values.pop("c") == 3 and list(values) == ["a", "b"]
    copied = values.copy()
    assert copied["a"] is values["a"] and type(copied) is nn.ParameterDict
    joined = values | nn.ParameterDict({"z": 1})
    assert list(joined) == ["a", "b", "z"] and len(values) == 2
    values |= {"y": 2}
    assert (
        list(values) == ["a", "b", "y"] and dict(values.items())["y"] == 2 and list(values.values())[-1] == 2
    )
    assert dict(values.fromkeys(["p", "q"], 0).items()) == {"p": 0, "q": 0}
    del values["y"]
    kind = values["a"].type()
    assert repr(values) == (
        f"ParameterDict(\n    (a): Parameter containing: [{kind} of size 1]\n"
        f"    (b): Parameter containing: [{kind} of size 2]\n)"
    )
    values.clear()
    assert len(values) == 0 and list(values.parameters()) == []
    with pytest.raises(TypeError, match="is not a string .type is 'int'."):
        values[3] = 1
    with pytest.raises(TypeError, match="ParameterDict.update should be called with an iterable"):
        values.update(3)
    with pytest.raises(KeyError):
        values.popitem()
    with pytest.raises(RuntimeError, match="ParameterDict should not be called"):
        values(1)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_containers_are_copied_and_pickled(duplicate):
    net = nn.Sequential(
        nn.ModuleList([nn.Linear(1, 1)]),
        nn.ModuleDict({"a": nn.Linear(1, 1)}),
        nn.ParameterList([flambeau.ones(1)]),
        nn.ParameterDict({"b": flambeau.ones(1)}),
    )
    other = duplicate(net)
    assert list(other.state_dict()) == ["0.0.weight", "0.0.bias", "1.a.weight", "1.a.bias", "2.0", "3.b"]
    assert repr(other) == repr(net) and len(other[2]) == 1 and "b" in other[3]
    assert not {id(p) for p in net.parameters()} & {id(p) for p in other.parameters()}
