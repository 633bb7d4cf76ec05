"""The recorder in compiled code: what it writes, what it keeps alive, and what a recording is worth on other numbers."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from flambeau.graph.record import Place, Recording, serial
from playing import place, play

import flambeau
from flambeau import nn


def names(recording):
    return [call.operation.__name__ for call in recording.calls()]


def test_leaves_are_recorded_and_composites_are_not():
    x = flambeau.ones(2, 3, requires_grad=True)
    with Recording() as recording:
        y = nn.functional.mse_loss(x, flambeau.zeros(2, 3))
    assert "mse_loss" not in names(recording) and len(recording) == len(recording.calls()) > 1
    assert recording.inputs == [x]
    assert recording.calls()[-1].result == place(y)


def test_backward_passes_and_steps_are_recorded():
    net = nn.Linear(2, 2)
    optimiser = flambeau.optim.SGD(net.parameters(), lr=0.1)
    with Recording() as recording:
        net(flambeau.ones(1, 2)).square().sum().backward()
        before = len(recording)
        optimiser.step()
    assert "square_backward" in names(recording)[:before] and len(recording) > before


def test_arguments_are_written_as_they_were_before_the_call():
    x = flambeau.ones(2, 3)
    sizes = [3, 2]
    with Recording() as recording:
        x.t_()
        x.reshape(sizes)
        sizes[0] = 6
    first, second = recording.calls()
    assert first.args[0].shape == (2, 3) and first.result.shape == (3, 2)
    assert second.args[1] == [3, 2]


def test_structures_of_arguments_and_results():
    x = flambeau.ones(3)
    with Recording() as recording:
        flambeau.cat([x, x])
        x.max(0)
        x[flambeau.tensor([0, 1])]
    cat, top, *_, index = recording.calls()
    assert cat.args == ([place(x), place(x)],)
    assert isinstance(top.result, tuple) and top.result._fields == ("values", "indices")
    assert isinstance(top.result.indices, Place) and top.result.indices.dtype is flambeau.int64
    assert isinstance(index.result, Place)


def test_results_are_not_kept_alive_and_inputs_are():
    x = flambeau.ones(1000)
    given = weakref.ref(x.untyped_storage())
    with Recording() as recording:
        y = x + 1
        result = weakref.ref(y.untyped_storage())
        y = y * 2
    assert result() is None and given() is not None
    del x
    gc.collect()
    assert given() is not None and recording.inputs[0].shape == (1000,)
    del recording
    gc.collect()
    assert given() is None


def test_serial_numbers_are_never_given_again():
    x = flambeau.ones(4)
    assert serial(x) == serial(x[1:]) == serial(x.detach())
    seen = {serial(flambeau.empty(4)) for _ in range(100)}
    assert len(seen) == 100 and serial(x) not in seen


def test_a_call_that_raises_leaves_nothing():
    with Recording() as recording:
        x = flambeau.ones(2)
        before = names(recording)
        with pytest.raises(RuntimeError):
            x + flambeau.ones(3)[:]
        with pytest.raises(RuntimeError):
            flambeau.stack([x, flambeau.ones(3)])
        x.exp()
    assert names(recording)[: len(before)] == before and names(recording)[-1] == "exp"
    assert "add" not in names(recording) and "stack" not in names(recording)


def test_looking_at_a_value_is_recorded():
    x = flambeau.tensor([2.0])
    for look in (bool, int, float, complex, lambda t: t.item(), lambda t: t.tolist(), lambda t: t.numpy()):
        with Recording() as recording:
            look(x)
        assert len(recording) == 1 and recording.calls()[0].args[0] == place(x), look
    with Recording() as recording:
        range(flambeau.tensor(3))
    assert names(recording) == ["tensor", "item"] or names(recording) == ["item"]


def test_a_thread_records_its_own_calls():
    seen = []

    def other():
        with Recording() as inner:
            flambeau.zeros(2).cos()
        seen.extend(names(inner))

    with Recording() as recording:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        flambeau.zeros(2).sin()
    assert seen[-1] == "cos" and names(recording)[-1] == "sin" and "cos" not in names(recording)
    with Recording(), pytest.raises(RuntimeError, match="records already"), Recording():
        raise AssertionError
    flambeau.zeros(2).cos()
    with Recording() as recording:
        flambeau.ones(1)
    assert len(recording) == 1


def test_modes_come_first_and_what_they_call_is_recorded():
    class Twice(flambeau.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            func(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    x = flambeau.ones(2)
    with Recording() as recording, Twice():
        x.exp()
    assert names(recording) == ["exp", "exp"]


def test_a_long_recording_takes_no_python_objects_for_places():
    x = flambeau.ones(2)
    with Recording() as recording:
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(1000):
            x.exp()
        grown = len(gc.get_objects()) - before
    assert len(recording) == 1000 and grown < 100


def test_a_step_plays_on_other_numbers():
    def made():
        flambeau.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3))
        return net, flambeau.optim.AdamW(net.parameters(), lr=0.1)

    def step(net, optimiser, x):
        loss = nn.functional.cross_entropy(net(x), flambeau.tensor([0, 2]))
        loss.backward()
        optimiser.step()
        return loss

    (ours, first), (others, _), (again, third) = made(), made(), made()
    with flambeau.no_grad():
        for p in [*others.parameters(), *again.parameters()]:
            p.mul_(0.9375)
    x, other = flambeau.randn(2, 4), flambeau.randn(2, 4)
    pairs = [(p, q.detach()) for p, q in zip(ours.parameters(), others.parameters(), strict=True)]
    with Recording() as recording:
        loss = step(ours, first, x)
    (played,) = play(recording, [(x, other), *pairs], [loss])
    assert float(played) == float(step(again, third, other))
    for a, b in zip(others.parameters(), again.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_what_the_tape_copies_before_a_write_is_a_call():
    x = flambeau.tensor([-1.0, 0.5, 8.0], requires_grad=True)
    with Recording() as recording:
        y = x * 2
        nn.functional.relu6(y[1:], inplace=True)
        y.sum().backward()
    copied = names(recording).index("clone")
    clone, write = recording.calls()[copied : copied + 2]
    assert write.operation.__name__ == "relu6_" and clone.args[0] == write.args[0]
    assert len(recording) == len(recording.calls()) and recording.inputs[0] is x
    assert any(clone.result in call.args for call in recording.calls()[copied + 2 :])
    with Recording() as recording, flambeau.no_grad():
        flambeau.relu_(flambeau.ones(2))
    assert "clone" not in names(recording)
