"""Captures: a call runs once, with Python's results, and says what it depended on."""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
import traceback

import pytest

import flambeau
from flambeau import nn
from flambeau.graph.capture import capture
from flambeau.graph.sources import (
    Arguments,
    Attribute,
    ClassIs,
    Contents,
    Equals,
    Is,
    Item,
    Keys,
    Lacks,
    Length,
    Object,
    Same,
    TensorLike,
)

FACTOR = 2.0


def operations(captured):
    return [call.operation.__name__ for call in captured.recording.calls()]


def whole(function, *args, **kwargs):
    """A capture that is not refused, with the results of a plain call."""
    captured = capture(function, args, kwargs)
    assert captured.refusal is None, str(captured.refusal)
    return captured


def refused(function, *args, **kwargs):
    captured = capture(function, args, kwargs)
    assert captured.refusal is not None
    return captured.refusal


def test_loop_is_unrolled():
    def f(x, y):
        for _ in range(3):
            x = (x * 1.5 + y).tanh()
        return x

    x, y = flambeau.randn(4), flambeau.randn(4)
    captured = whole(f, x, y)
    assert flambeau.equal(captured.result, f(x, y))
    assert operations(captured) == ["mul", "add", "tanh"] * 3
    assert all(t is u for (_, t), u in zip(captured.inputs, (x, y), strict=True))
    assert len(captured.lines) == 9 and all(line[0] == __file__ for line in captured.lines)


def test_guards_are_what_was_read():
    scale = 3.0
    x = flambeau.ones(2)

    def f(x, unused=1):
        return x * scale * FACTOR

    guards = whole(f, x).guards
    cell = Contents(Object(f.__closure__[0]))
    assert [g for g in guards if not isinstance(g, TensorLike)] == [
        Length(Arguments(), 1),
        Keys(guards[1].source, ()),
        Equals(cell, 3.0),
        Equals(Item(Object(globals()), "FACTOR"), 2.0),
    ]
    (tensor,) = (g for g in guards if isinstance(g, TensorLike))
    assert tensor.source == Item(Arguments(), 0) and tensor.value is x and tensor.index == 0


def test_modules_are_read_through():
    net = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 2))
    captured = whole(net, flambeau.randn(2, 4))
    assert [str(source) for source, _ in captured.inputs] == [
        "args[0]",
        *(
            f"Sequential.__dict__['_modules']['{k}'].__dict__['_parameters']['{n}']"
            for k in "02"
            for n in ("weight", "bias")
        ),
    ]
    classes = [g.value for g in captured.guards if isinstance(g, ClassIs)]
    assert classes == [nn.Sequential, dict, nn.Linear, nn.GELU, nn.Linear]
    assert sum(isinstance(g, Lacks) and g.value == "_hooked" for g in captured.guards) == 4


def test_one_object_by_two_sources():
    x = flambeau.ones(2)
    captured = whole(lambda x, y: x + y, x, x)
    assert len(captured.inputs) == 1
    assert Same(Item(Arguments(), 1), Item(Arguments(), 0)) in captured.guards


def test_write_to_what_was_before_is_noted_and_done_once():
    state = {"k": 0}

    def f(x):
        state["k"] += 1
        return x + state["k"]

    found = capture(f, (flambeau.ones(1),), {})
    assert found.refusal is None and state == {"k": 1}
    ((place, value),) = found.writes
    assert (place.key, value) == ("k", 1)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.item() > 2,
        lambda x: int(x),
        lambda x: x.tolist(),
        lambda x: flambeau.zeros(x.long()),
        lambda x: x.data_ptr(),
        lambda x: x.nonzero(),
    ],
)
def test_looking_at_values_is_refused(look):
    found = refused(look, flambeau.ones(()))
    assert found.line == look.__code__.co_firstlineno


def test_truth_values_are_looks():
    def f(x):
        return x * 2 if x > 0 and not (x > 5).any() else -x

    found = capture(f, (flambeau.ones(()),), {})
    assert found.refusal is None and [look.value for look in found.looks] == [True, False]
    assert all(look.own and look.refusal.line == f.__code__.co_firstlineno + 1 for look in found.looks)
    assert found.unless_guessed() is found.looks[0].refusal
    for refused_too in (
        lambda x: (x.add_(1), 1 if x > 0 else 2),  # what is guessed is done again where the guess is wrong
        lambda x: 1 if x + flambeau.rand(()) > 0 else 2,
        lambda x: [k for k in range(30) if x > k],
    ):
        assert "value of a tensor" in refused(refused_too, flambeau.ones(())).why


def test_errors_leave_as_they_are():
    def f(x):
        return x @ flambeau.ones(3)

    with pytest.raises(RuntimeError) as plain:
        f(flambeau.ones(2))
    with pytest.raises(RuntimeError) as captured:
        capture(f, (flambeau.ones(2),), {})
    assert str(plain.value) == str(captured.value)


def test_tracebacks_show_the_program():
    def inner(x):
        return x @ flambeau.ones(3)

    def f(x):
        return inner(x)

    def lines(call):
        with pytest.raises(RuntimeError) as raised:
            call()
        found = [(e.name, e.lineno) for e in traceback.extract_tb(raised.value.__traceback__)]
        return [entry for entry in found if entry[0] in ("f", "inner")]

    x = flambeau.ones(2)
    assert len(lines(lambda: f(x))) == 2
    assert lines(lambda: capture(f, (x,), {})) == lines(lambda: f(x))


def test_gradients_that_are_read_are_guarded():
    x, y = flambeau.ones(2, requires_grad=True), flambeau.ones(2, requires_grad=True)
    y.grad = flambeau.ones(2)
    guards = whole(lambda x, y: (x.grad is None, y.grad * 2), x, y).guards
    assert Equals(Attribute(Item(Arguments(), 0), "grad"), None) in guards
    assert [g.source for g in guards if isinstance(g, TensorLike)][2] == Attribute(
        Item(Arguments(), 1), "grad"
    )


def test_hooks_are_interpreted():
    net, seen = nn.Linear(2, 2), []
    net.register_forward_hook(lambda module, args, result: result * 2)
    net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    x = flambeau.randn(3, 2)
    captured = whole(net, x)
    assert operations(captured) == ["add", "linear", "mul"] and flambeau.equal(captured.result, net(x))
    net.register_forward_hook(lambda module, args, result: seen.append(1))
    whole(net, x)
    assert seen == [1]
    net.register_forward_hook(lambda module, args, result: seen.extend([2, 3]))
    assert "extend" in refused(net, x).why and seen == [1, 1, 2, 3]


def test_generators_of_random_numbers_are_pinned():
    generator = flambeau.Generator()
    guards = whole(lambda x, g: x + flambeau.rand(2, generator=g), flambeau.ones(2), generator).guards
    assert Is(Item(Arguments(), 1), generator) in guards


def test_modes_are_entered_and_left():
    w = flambeau.ones(2, requires_grad=True)

    def f(x):
        with flambeau.no_grad():
            a = x * w
        with flambeau.enable_grad(), flambeau.autocast("cpu"):
            b = x[None] @ w[:, None]
        return a, b

    captured = whole(f, flambeau.ones(2))
    assert [t.requires_grad for t in captured.result] == [False, True]
    assert captured.result[1].dtype is flambeau.bfloat16
    before = flambeau.is_grad_enabled()
    try:
        assert "state of the thread" in refused(lambda: flambeau.set_grad_enabled(not before)).why
    finally:
        flambeau.set_grad_enabled(before)


def test_results_are_described():
    x, config = flambeau.ones(2), {"k": [1]}

    @dataclasses.dataclass
    class Output:
        logits: object
        more: object = None

    def f(x, config):
        y = x + 1
        return Output(y, more=(x, config, [y, 3], {"a": None}))

    output = whole(f, x, config).output
    assert output.cls is Output and list(output.state) == ["logits", "more"]
    y, more = output.state.values()
    assert flambeau.equal(y, x + 1) and more.cls is tuple
    assert more.items[:2] == (Item(Arguments(), 0), Item(Arguments(), 1))
    assert more.items[2].cls is list and more.items[2].items[0] is y and more.items[2].items[1] == 3
    assert more.items[3].items == (("a", None),)


def test_writes_to_inputs_are_recorded():
    net = nn.BatchNorm1d(3)
    captured = whole(net, flambeau.randn(4, 3))
    names = {str(source).rpartition("[")[2] for source, _ in captured.inputs[1:]}
    assert names == {f"'{name}']" for name in (*dict(net.named_buffers()), *dict(net.named_parameters()))}
    w = flambeau.ones(2, requires_grad=True)
    assert "place on the tape" in refused(lambda x: x.mul_(w), flambeau.ones(2)).why
    assert refused(lambda x: x.requires_grad_(), flambeau.ones(2)).why.startswith(
        "looks at, or changes, requires_grad_"
    )


def test_a_shape_chosen_by_a_mask_is_refused():
    assert "shape depends on values" in refused(lambda x: x[x > 0], flambeau.ones(3)).why
    whole(lambda x: x[[0, 2]], flambeau.ones(3))


def test_tensors_of_hidden_state_are_refused():
    hidden = flambeau.ones(2)

    class Opaque:
        __slots__ = ()

        def __eq__(self, other):
            return hidden * 2

        __hash__ = None

    assert whole(lambda o: o == 1, Opaque()).result.tolist() == [2, 2]
    assert (
        "hands a function in Python"
        in refused(lambda x: flambeau.Tensor.map_(x, x, lambda a, b: a), flambeau.ones(2)).why
    )


def test_views_by_attributes_are_computed_of_their_tensor():
    x = flambeau.randn(3, 3, requires_grad=True)
    for f in (lambda x: (x @ x.T).exp(), lambda x: x.mT + x, lambda x: x.H * 2, lambda x: x.real + x.data):
        captured = whole(f, x)
        assert [t is x for _, t in captured.inputs] == [True]
        assert flambeau.equal(captured.result, f(x))


def test_tensors_of_the_call_may_require_gradients():
    def f(x):
        w = flambeau.full((3,), 2.0).requires_grad_()
        (g,) = flambeau.autograd.grad((w * w * x).sum(), w)
        return g + x

    captured = whole(f, flambeau.ones(3))
    assert flambeau.equal(captured.result, flambeau.full((3,), 5.0))


def test_detached_arguments_may_require_gradients():
    def f(x):
        y = x.detach().requires_grad_()
        return flambeau.autograd.grad((y * y).sum(), y)[0]

    whole(f, flambeau.ones(3))
    compiled = flambeau.compile(f)
    for k in (1.0, 2.0):
        x = flambeau.full((3,), k)
        assert flambeau.equal(compiled(x), 2 * x)
        assert not x.requires_grad
    x = flambeau.ones(3)
    compiled = flambeau.compile(lambda x: x.detach().requires_grad_())
    for _ in range(2):
        assert compiled(x).requires_grad and not x.requires_grad


def test_gradients_to_tensors_of_the_call():
    def f(x):
        return (flambeau.full((3,), 2.0).requires_grad_() * x).sum()

    compiled = flambeau.compile(f)
    for scale in (1.0, 3.0):
        x = flambeau.full((3,), scale, requires_grad=scale > 1)
        result = compiled(x)
        assert result.requires_grad and flambeau.equal(result.detach(), f(x).detach())
        result.backward()
        if x.requires_grad:
            assert flambeau.equal(x.grad, flambeau.full((3,), 2.0))


def test_looks_at_modes_are_captured():
    from flambeau.overrides import has_torch_function

    def f(x):
        return x + 1 if has_torch_function((x,)) else x * 2

    x = flambeau.ones(2)
    assert operations(whole(f, x)) == ["mul"]


def test_where_overrides_are_off_python_runs():
    from flambeau.overrides import _DisableTorchFunctionSubclass, has_torch_function

    class Overriding:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            raise AssertionError("not called")

    other = Overriding()
    compiled = flambeau.compile(lambda x: x * 2 if has_torch_function((other,)) else x + 1)
    x = flambeau.full((2,), 3.0)
    assert compiled(x).tolist() == [6, 6]
    with _DisableTorchFunctionSubclass():
        assert compiled(x).tolist() == [4, 4]
    assert compiled(x).tolist() == [6, 6]


def test_tensors_that_a_cache_keeps():
    @functools.lru_cache
    def table(n):
        return flambeau.arange(n) * 2

    def f(x):
        return x + table(3)

    x = flambeau.ones(3)
    assert "keeps tensors" in refused(f, x).why
    captured = whole(f, x)
    assert operations(captured) == ["add"] and len(captured.inputs) == 2

    compiled = flambeau.compile(f)
    assert [compiled(x).tolist() for _ in range(2)] == [[1, 3, 5]] * 2
    table(3)[0] = 7  # the cached tensor is what the call reads
    assert compiled(x).tolist() == f(x).tolist() == [8, 3, 5]
    table.cache_clear()
    assert compiled(x).tolist() == f(x).tolist() == [1, 3, 5]


def test_tensors_of_the_call_may_be_told_to_require_gradients():
    def f(x):
        y = x[:1]
        y.requires_grad = True
        return y * 2

    x = flambeau.ones(2)
    assert whole(f, x).result.requires_grad and not x.requires_grad

    def g(x):
        x.requires_grad = True
        return x * 2

    assert "requires_grad" in refused(g, x).why


def test_functions_with_derivatives_of_their_own_without_a_tape():
    class Doubled(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = flambeau.ones(2)
    assert operations(whole(lambda x: Doubled.apply(x) + 1, x)) == ["mul", "add"]
    compiled = flambeau.compile(lambda x: Doubled.apply(x) + 1)
    x.requires_grad_()
    compiled(x).sum().backward()
    assert compiled.entries[0].launch is None and x.grad.tolist() == [2, 2]


def test_attributes_of_a_thread():
    state = threading.local()
    state.scale, state.counts = 2.0, collections.defaultdict(int)

    def f(x):
        state.counts["calls"] += 1
        return x * state.scale

    x = flambeau.ones(2)
    compiled = flambeau.compile(f)
    assert [compiled(x).tolist() for _ in range(2)] == [[2, 2]] * 2 and state.counts == {"calls": 2}
    state.scale = 3.0
    assert compiled(x).tolist() == [3, 3] and state.counts == {"calls": 3}

    def other():
        state.scale, state.counts = 5.0, collections.defaultdict(int)
        found.append(compiled(x).tolist())

    found = []
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [[5, 5]] and state.counts == {"calls": 3}

    absent = flambeau.compile(lambda x: x * getattr(state, "none", 2), fullgraph=True)
    assert [absent(x).tolist() for _ in range(2)] == [[2, 2]] * 2 and absent.captures == 1
    state.none = 7
    assert absent(x).tolist() == [7, 7]


def test_attributes_of_a_thread_are_written():
    state = threading.local()

    def f(x):
        before = getattr(state, "depth", 0)
        state.depth = before + 1
        try:
            return x * state.depth
        finally:
            state.last, state.depth = state.depth, before

    x = flambeau.ones(2)
    compiled = flambeau.compile(f, fullgraph=True)
    for _ in range(3):
        assert compiled(x).tolist() == [1, 1] and state.depth == 0 and state.last == 1
        state.last = None
    assert compiled.captures == 2
    state.depth = 4
    assert compiled(x).tolist() == [5, 5] and state.depth == 4 and state.last == 5


def test_modules_whose_class_finds_attributes_in_its_own_way():
    class Scaled(nn.Linear):
        def __getattr__(self, name):
            found = super().__getattr__(name)
            return found * 2 if name == "weight" else found

    layer, x = Scaled(2, 2), flambeau.ones(1, 2)
    assert flambeau.equal(whole(layer, x).result, layer(x))
    compiled = flambeau.compile(layer, fullgraph=True)
    for _ in range(2):
        assert flambeau.allclose(compiled(x), x @ (2 * layer._parameters["weight"]).T + layer.bias)


DISTRIBUTIONS = {
    "log_prob": lambda x: flambeau.distributions.Normal(x, 1.0).log_prob(0.5),
    "of a number": lambda x: flambeau.distributions.Normal(0.0, 1.0).log_prob(x),
    "categorical": lambda x: flambeau.distributions.Categorical(logits=x).log_prob(flambeau.tensor([0, 1])),
    "entropy": lambda x: flambeau.distributions.Categorical(logits=x).entropy(),
    "rsample": lambda x: flambeau.distributions.Normal(x, x.exp()).rsample().shape.numel() * x,
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_whose_arguments_are_not_checked(name, monkeypatch):
    monkeypatch.setattr(flambeau.distributions.Distribution, "_validate_args", False)
    compiled = flambeau.compile(DISTRIBUTIONS[name], fullgraph=True)
    for seed in range(2):
        flambeau.manual_seed(seed)
        x = flambeau.randn(2, 3, dtype=flambeau.float64)
        assert flambeau.allclose(compiled(x), DISTRIBUTIONS[name](x))
    assert compiled.captures == 1
