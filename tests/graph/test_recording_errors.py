"""What a recording holds after a call that raises, and that operators and functions are recorded alike."""

import pytest
from flambeau.graph.record import Recording

import flambeau as torch


def names(recording):
    return [call.operation.__name__ for call in recording.calls()]


def test_a_call_that_raises_leaves_nothing():
    x = torch.ones(2)
    with Recording() as recording:
        y = x + 1
        with pytest.raises(RuntimeError):
            y + torch.ones(3)
        with pytest.raises(TypeError):
            torch.add(y, "a")
        y.exp()
    assert names(recording) == ["add", "ones", "exp"]
    assert len(recording) == 3
    assert [tuple(call.result.shape) for call in recording.calls()] == [(2,), (3,), (2,)]


def test_operators_are_recorded_as_functions():
    x, y = torch.ones(3), torch.ones(3)
    with Recording() as operators:
        x + y, x - y, x * 2, x < y, -x  # noqa: B018
        x += y
    with Recording() as functions:
        torch.add(x, y), torch.sub(x, y), torch.mul(x, 2), torch.lt(x, y), torch.neg(x)
        x.add_(y)
    assert [c.args for c in operators.calls()] == [c.args for c in functions.calls()]
    assert [c.operation for c in operators.calls()] == [c.operation for c in functions.calls()]


def test_an_operand_that_overrides_is_asked_while_recording():
    class Wins:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return "won"

    with Recording() as recording:
        assert torch.ones(2) + Wins() == "won"
    assert names(recording) == ["ones"]


@pytest.mark.parametrize("shapes", [((4,), (4,)), ((2, 3), (2, 3)), ((0,), (0,)), ((), ())])
def test_meta_agrees_with_the_host(shapes):
    host = [torch.zeros(s) for s in shapes]
    meta = [torch.zeros(s, device="meta") for s in shapes]
    for function in (torch.add, torch.lt, torch.div, torch.atan2):
        a, b = function(*host), function(*meta)
        assert (a.shape, a.stride(), a.dtype, b.device.type) == (b.shape, b.stride(), b.dtype, "meta")
    for a, b in zip(torch.frexp(host[0]), torch.frexp(meta[0])):
        assert (a.shape, a.dtype, b.device.type) == (b.shape, b.dtype, "meta")


def test_meta_refuses_another_device():
    with pytest.raises(RuntimeError):
        torch.zeros(2, device="meta") + torch.zeros(2)
