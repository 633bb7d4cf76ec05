"""state_dict and load_state_dict, both ways, with their hooks and errors."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


def model():
    return nn.Sequential(
        OrderedDict(a=nn.Linear(2, 3), norm=nn.BatchNorm1d(3), b=nn.Linear(3, 1, bias=False))
    )


KEYS = ["a.weight", "a.bias"]
KEYS += [f"norm.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]
KEYS += ["b.weight"]


def test_keys_metadata_and_sharing():
    net = model()
    state = net.state_dict()
    assert type(state) is OrderedDict and list(state) == KEYS
    assert dict(state._metadata) == {
        "": {"version": 1},
        "a": {"version": 1},
        "norm": {"version": 2},
        "b": {"version": 1},
    }
    assert not state["a.weight"].requires_grad and type(state["a.weight"]) is flambeau.Tensor
    state["a.weight"].fill_(7.0)
    assert float(net.a.weight.detach().min()) == 7.0
    assert net.state_dict(keep_vars=True)["a.weight"] is net.a.weight
    assert list(net.a.state_dict(prefix="x.")) == ["x.weight", "x.bias"]
    into = {"before": 1}
    assert net.a.state_dict(destination=into) is into and list(into) == ["before", "weight", "bias"]


def test_positional_arguments_are_deprecated():
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        state = nn.Linear(1, 1).state_dict(None, "p.")
    assert list(state) == ["p.weight", "p.bias"]


def test_round_trip():
    net, other = model(), model()
    result = other.load_state_dict(net.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert result.missing_keys == [] and result.unexpected_keys == []
    for key, value in net.state_dict().items():
        assert flambeau.equal(other.state_dict()[key], value), key
    assert other.a.weight is not net.a.weight and other.a.weight.requires_grad


def test_copies_in_place_and_converts():
    net = model()
    weight = net.a.weight
    net.load_state_dict({key: value.double() + 1 for key, value in model().state_dict().items()})
    assert net.a.weight is weight and weight.dtype == flambeau.float32


def test_assign_takes_the_tensors_over():
    net = model()
    net.b.weight.requires_grad_(False)
    state = {key: value.clone().double() for key, value in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    assert type(net.a.weight) is nn.Parameter and net.a.weight.dtype == flambeau.float64
    assert net.a.weight.requires_grad and not net.b.weight.requires_grad
    assert net.norm.running_mean is state["norm.running_mean"]
    with flambeau.no_grad():
        net.a.weight.fill_(2.0)
    assert float(state["a.weight"].min()) == 2.0


def test_missing_and_unexpected_keys():
    net = model()
    state = net.state_dict()
    del state["a.bias"], state["b.weight"]
    state["extra"] = state["c.weight"] = flambeau.zeros(1)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "a.bias", "b.weight". \n'
        '\tUnexpected key(s) in state_dict: "extra", "c.weight". '
    )
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["a.bias", "b.weight"] and result.unexpected_keys == ["extra", "c.weight"]
    assert repr(result) == (
        "_IncompatibleKeys(missing_keys=['a.bias', 'b.weight'], unexpected_keys=['extra', 'c.weight'])"
    )
    assert list(state)[-2:] == ["extra", "c.weight"], "the argument is left as it was"


def test_size_mismatch_and_wrong_values():
    net = model()
    state = net.state_dict()
    state["a.weight"] = flambeau.zeros(4, 2)
    state["a.bias"] = 3
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state, strict=False)
    was, wanted = flambeau.Size([4, 2]), flambeau.Size([3, 2])
    lines = str(caught.value).split("\n\t")
    assert lines[0] == "Error(s) in loading state_dict for Sequential:"
    assert lines[1] == (
        f"size mismatch for a.weight: copying a param with shape {was} from checkpoint, "
        f"the shape in current model is {wanted}."
    )
    assert lines[2].startswith('While copying the parameter named "a.bias", expected')
    assert lines[2].endswith("but received <class 'int'>")
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'list'>"):
        net.load_state_dict([1])


def test_a_scalar_may_come_as_a_vector_of_one():
    net = model()
    state = net.state_dict()
    state["norm.num_batches_tracked"] = flambeau.tensor([9])
    net.load_state_dict(state)
    assert int(net.norm.num_batches_tracked) == 9


def test_batch_norm_reads_the_format_without_a_count():
    net = nn.BatchNorm1d(2)
    state = {key: value for key, value in net.state_dict().items() if key != "num_batches_tracked"}
    assert net.load_state_dict(state).missing_keys == []  # no metadata: the first version


def test_none_entries_are_not_part_of_the_state():
    module = nn.Linear(2, 2, bias=False)
    module.register_buffer("unset", None)
    assert list(module.state_dict()) == ["weight"]
    with pytest.raises(RuntimeError, match='Unexpected key.s. in state_dict: "bias"'):
        module.load_state_dict(nn.Linear(2, 2).state_dict())


class WithExtra(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def get_extra_state(self):
        return {"value": self.value}

    def set_extra_state(self, state):
        self.value = state["value"]


def test_extra_state():
    net, other = nn.Sequential(WithExtra(1)), nn.Sequential(WithExtra(2))
    assert dict(net.state_dict()) == {"0._extra_state": {"value": 1}}
    other.load_state_dict(net.state_dict())
    assert other[0].value == 1
    with pytest.raises(RuntimeError, match='Missing key.s. in state_dict: "0._extra_state"'):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match='Unexpected key.s. in state_dict: "0._extra_state"'):
        nn.Sequential(nn.Identity()).load_state_dict(net.state_dict())
    with pytest.raises(RuntimeError, match="Identity"):
        nn.Identity().get_extra_state()


def test_hooks_of_state_dict():
    net = nn.Sequential(nn.Linear(1, 1))
    calls = []
    before = net[0].register_state_dict_pre_hook(lambda module, prefix, keep: calls.append((prefix, keep)))

    def after(module, state, prefix, metadata):
        calls.append((type(module).__name__, prefix, metadata["version"]))
        state[prefix + "added"] = 1

    handle = net[0].register_state_dict_post_hook(after)
    assert list(net.state_dict()) == ["0.weight", "0.bias", "0.added"]
    assert calls == [("0.", False), ("Linear", "0.", 1)]
    handle.remove()
    before.remove()
    assert list(net.state_dict()) == ["0.weight", "0.bias"] and len(calls) == 2
    net.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        net.state_dict()


def test_hooks_of_load_state_dict():
    net = nn.Sequential(nn.Linear(1, 1))
    calls = []

    def rename(module, state, prefix, metadata, strict, missing, unexpected, errors):
        calls.append((module is net[0], prefix, strict))
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    def forgive(module, keys):
        calls.append(list(keys.missing_keys))
        keys.missing_keys.clear()

    net[0].register_load_state_dict_pre_hook(rename)
    handle = net.register_load_state_dict_post_hook(forgive)
    state = {"0.kernel": flambeau.full((1, 1), 4.0)}
    net.load_state_dict(state)
    assert calls == [(True, "0.", True), ["0.bias"]]
    assert float(net[0].weight.detach()) == 4.0 and list(state) == ["0.kernel"]
    handle.remove()
    with pytest.raises(RuntimeError, match='"0.bias"'):
        net.load_state_dict(state)
    net.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="not expected to return new values"):
        net.load_state_dict(state)
