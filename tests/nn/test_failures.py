"""An error in a network says which of its modules it came from, and for what input."""

from __future__ import annotations

import gc
import pickle
import sys
import weakref

import pytest

import flambeau
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Sequential(nn.Linear(3, 4))]
        )
        self.head = nn.Conv1d(2, 2, 1)

    def forward(self, x, *, image=None):
        if image is not None:
            return self.head(image)
        for block in self.blocks:
            x = block(x)
        return x


def notes(call, *args, **kwargs):
    with pytest.raises(Exception) as caught:
        call(*args, **kwargs)
    return caught.value.__notes__


LINEAR = "Linear(in_features=3, out_features=4, bias=True), called with a tensor of shape (2, 4)"


def test_the_module_is_named_by_its_place_in_the_network():
    assert notes(nn.Linear(3, 4), flambeau.ones(2, 4)) == [f"in {LINEAR}"]
    assert notes(Net(), flambeau.ones(2, 4)) == [f"in blocks.1.0: {LINEAR}"]
    assert notes(nn.ModuleDict({"a": Net()})["a"], flambeau.ones(2, 4)) == [f"in blocks.1.0: {LINEAR}"]
    assert notes(nn.Sequential(nn.Identity(), Net()), flambeau.ones(2, 4)) == [f"in 1.blocks.1.0: {LINEAR}"]
    head = "in head: Conv1d(2, 2, kernel_size=(1,), stride=(1,)), called with a tensor of shape (1, 3, 3)"
    assert notes(Net(), None, image=flambeau.ones(1, 3, 3)) == [head]


def test_all_ways_of_a_call_are_named():
    """With keyword arguments, with many arguments, with hooks."""

    class Many(nn.Module):
        def forward(self, *args, **kwargs):
            raise ValueError("no")

    module = Many()
    assert notes(module, x=1) == ["in Many(), called with no positional arguments"]
    assert notes(module, *range(9)) == ["in Many(), called with " + ", ".join(["int"] * 9)]
    module.register_forward_hook(lambda *given: None)
    assert notes(module, "s", None) == ["in Many(), called with str, NoneType"]
    assert notes(nn.Sequential(module), 1) == ["in 0: Many(), called with int"]


def test_the_error_stays_what_it_is():
    net = Net()
    with pytest.raises(
        RuntimeError, match=r"linear\(\): mat1 and mat2 shapes cannot be multiplied \(2x4 and 3x4\)"
    ) as caught:
        net(flambeau.ones(2, 4))
    error = caught.value
    assert type(error) is RuntimeError and "Linear(" not in str(error)
    made = pickle.loads(pickle.dumps(error))  # without the module: errors travel between processes
    assert made.__notes__ == error.__notes__ and len(pickle.dumps(error)) < 1000

    class Own(Exception):
        __slots__ = ()

        def __setattr__(self, name, value):
            raise TypeError("no attributes")

    class Raises(nn.Module):
        def forward(self, error):
            raise error

    with pytest.raises(Own):
        Raises()(Own())
    for other in (KeyboardInterrupt(), SystemExit()):  # no errors
        with pytest.raises(type(other)):
            Raises()(other)
        assert not hasattr(other, "__notes__")
    stop = StopIteration(5)
    with pytest.raises(StopIteration):
        Raises()(stop)
    assert stop.value == 5


def test_a_module_that_cannot_say_what_it_is_hides_no_error():
    class Silent(nn.Module):
        def extra_repr(self):
            raise ZeroDivisionError

        def forward(self, x):
            raise KeyError("the error")

    with pytest.raises(KeyError, match="the error"):
        Silent()(1)


def test_failed_calls_leave_nothing_behind():
    net, x = Net(), flambeau.ones(2, 4)
    before = sys.getrefcount(x)
    for _ in range(10):
        notes(net, x)
    gc.collect()
    assert sys.getrefcount(x) == before
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None
