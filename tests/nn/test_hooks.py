"""Hooks around a module's call and its backward pass."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.modules import _hooks
from flambeau.nn.modules import module as module_hooks
from flambeau.utils.hooks import RemovableHandle


class Scale(nn.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = factor

    def forward(self, x, *, plus=0.0):
        return x * self.factor + plus


class Failing(nn.Module):
    def forward(self, x):
        raise ValueError("forward failed")


@pytest.fixture(autouse=True)
def no_global_hooks_left():
    yield
    assert not _hooks.everywhere._forward_hooks and not _hooks.everywhere._forward_pre_hooks
    assert not _hooks.everywhere._backward_hooks and not _hooks.everywhere._backward_pre_hooks
    assert not any(_hooks.everywhere.registration.values())


def test_forward_hooks_run_in_order_and_may_replace():
    module, order = Scale(), []
    module.register_forward_pre_hook(lambda m, args: order.append(("pre", args)))
    module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    module.register_forward_pre_hook(lambda m, args: order.append(("first", args)), prepend=True)
    module.register_forward_hook(lambda m, args, out: order.append(("out", args, out)))
    module.register_forward_hook(lambda m, args, out: out * 10)
    assert module(3) == (3 + 1) * 2 * 10
    assert order == [("first", (3,)), ("pre", (3,)), ("out", (4,), 8)]


def test_forward_hooks_with_kwargs():
    module, seen = Scale(), []
    module.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] + 1,), {"plus": 5}), with_kwargs=True)
    module.register_forward_hook(
        lambda m, args, kwargs, out: seen.append((args, kwargs, out)), with_kwargs=True
    )
    assert module(1, plus=100) == 2 * 2 + 5
    assert seen == [((2,), {"plus": 5}, 9)]
    module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(
        RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3"
    ):
        module(1)


def test_handles_remove_hooks():
    module = Scale()
    first = module.register_forward_hook(lambda m, args, out: out + 1, with_kwargs=False)
    with module.register_forward_hook(
        lambda m, args, kwargs, out: out + 10, with_kwargs=True, always_call=True
    ):
        assert module(1) == 13
    assert (
        module(1) == 3 and not module._forward_hooks_with_kwargs and not module._forward_hooks_always_called
    )
    first.remove()
    first.remove()
    assert module(1) == 2
    assert isinstance(first, RemovableHandle)


def test_a_hook_may_remove_itself():
    module, calls = Scale(), []

    def once(m, args, out):
        calls.append(out)
        handle.remove()

    handle = module.register_forward_hook(once)
    assert (module(1), module(1), calls) == (2, 2, [2])


def test_always_called_hooks_run_after_a_failure():
    module, calls = Failing(), []
    module.register_forward_hook(lambda m, args, out: calls.append("skipped"))
    module.register_forward_hook(lambda m, args, out: calls.append(out), always_call=True)
    with pytest.raises(ValueError, match="forward failed"):
        module(1)
    assert calls == [None]

    def fails(m, args, out):
        raise KeyError("hook failed")

    module.register_forward_hook(fails, always_call=True)
    with (
        pytest.warns(UserWarning, match="silenced as another error"),
        pytest.raises(ValueError, match="forward failed"),
    ):
        module(1)


def test_hooks_survive_deepcopy_and_handles_survive_pickle():
    module = Scale()
    handle = module.register_forward_hook(_plus_one)
    other = copy.deepcopy(module)
    handle.remove()
    assert (module(1), other(1)) == (2, 3)
    module.handle = module.register_forward_hook(_plus_one)
    again = pickle.loads(pickle.dumps(module))
    assert again(1) == 3
    again.handle.remove()
    assert again(1) == 2 and module(1) == 3


def _plus_one(module, args, output):
    return output + 1


def test_global_forward_hooks_come_first():
    module, order = Scale(), []
    module.register_forward_pre_hook(lambda m, args: order.append("own pre"))
    module.register_forward_hook(lambda m, args, out: order.append("own"))
    handles = [
        module_hooks.register_module_forward_pre_hook(lambda m, args: order.append("global pre")),
        module_hooks.register_module_forward_hook(lambda m, args, out: order.append("global")),
        module_hooks.register_module_forward_hook(
            lambda m, args, kw, out: order.append(kw), with_kwargs=True
        ),
    ]
    try:
        nn.Sequential(module)(1)
    finally:
        for handle in handles:
            handle.remove()
    assert order == ["global pre", "global pre", "own pre", "global", {}, "own", "global", {}]
    nn.Identity()(1)
    assert len(order) == 8


def test_full_backward_hook_sees_and_replaces_gradients():
    module, seen = Scale(3.0), []
    x = flambeau.ones(2, requires_grad=True)

    def hook(m, grad_input, grad_output):
        seen.append((m is module, grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 10,)

    handle = module.register_full_backward_hook(hook)
    (module(x) * 2).sum().backward()
    assert seen == [(True, [6.0, 6.0], [2.0, 2.0])]
    assert x.grad.tolist() == [60.0, 60.0]
    handle.remove()
    x.grad = None
    module(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and len(seen) == 1


def test_full_backward_pre_hook_replaces_the_output_gradient():
    module, order = Scale(3.0), []
    x = flambeau.ones(2, requires_grad=True)
    module.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] + 1,))
    module.register_full_backward_pre_hook(lambda m, g: order.append(("pre", g[0].tolist())), prepend=True)
    module.register_full_backward_hook(lambda m, gi, go: order.append((gi[0].tolist(), go[0].tolist())))
    module(x).sum().backward()
    assert order == [("pre", [1.0, 1.0]), ([6.0, 6.0], [2.0, 2.0])]
    assert x.grad.tolist() == [6.0, 6.0]


class Several(nn.Module):
    def forward(self, x, y, word, z):
        return x * 2, word, x * y, z


def test_full_backward_hook_with_several_inputs_and_outputs():
    module, seen = Several(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = flambeau.tensor([3.0, 4.0], requires_grad=True)
    out = module(x, y, "word", flambeau.ones(2))
    assert out[1] == "word"
    out[2].sum().backward()
    ((grad_input, grad_output),) = seen
    assert grad_input[0].tolist() == [3.0, 4.0] and grad_input[1].tolist() == [1.0, 2.0]
    assert grad_input[2] is None and grad_input[3].tolist() == [0.0, 0.0]
    assert grad_output[0] is None and grad_output[1] is None and grad_output[2].tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [3.0, 4.0] and y.grad.tolist() == [1.0, 2.0]


def test_full_backward_hook_without_input_gradients():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        layer(flambeau.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]
    with flambeau.no_grad():
        layer(flambeau.ones(1, 2, requires_grad=True))
    assert len(seen) == 1


def test_backward_hook_errors():
    x = flambeau.ones(2, requires_grad=True)
    module = Scale()
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        module(x).sum().backward()
    module = Scale()
    module.register_full_backward_pre_hook(lambda m, go: (go[0], go[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_output, got 2, but expected 1"):
        module(x).sum().backward()


def test_backward_hook_warns_of_other_outputs():
    class Dict(nn.Module):
        def forward(self, x):
            return {"out": x}

    module = Dict()
    module.register_full_backward_hook(lambda m, gi, go: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors"):
        module(flambeau.ones(1, requires_grad=True))


def test_backward_hook_runs_once_a_backward():
    module, count = Scale(), []
    module.register_full_backward_hook(lambda m, gi, go: count.append(1))
    x = flambeau.ones(1, requires_grad=True)
    out = module(x).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert len(count) == 2 and x.grad.tolist() == [4.0]


def test_global_backward_hooks():
    seen = []
    handles = [
        module_hooks.register_module_full_backward_pre_hook(lambda m, go: seen.append("pre")),
        module_hooks.register_module_full_backward_hook(lambda m, gi, go: seen.append(type(m).__name__)),
    ]
    try:
        x = flambeau.ones(1, requires_grad=True)
        nn.Sequential(Scale(), nn.Identity())(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["pre", "pre", "Identity", "pre", "Scale", "Sequential"]


# ---------------------------------------------------------------- old backward hooks


class Exp(nn.Module):
    def forward(self, x):
        return x.exp()


def test_an_old_backward_hook_sees_the_last_operation_and_replaces_its_gradients(recwarn):
    x = flambeau.zeros(3, requires_grad=True)
    module, seen = Exp(), []
    handle = module.register_backward_hook(lambda *given: seen.append(given))
    module.register_backward_hook(lambda m, grad_input, grad_output: (grad_input[0] * 5,))
    for made in (module, copy.deepcopy(module)):
        x.grad = None
        made(x * 1).sum().backward()
        assert x.grad.tolist() == [5.0] * 3
    (owner, (grad_input,), (grad_output,)) = seen[0]
    assert owner is module and grad_input.tolist() == grad_output.tolist() == [1.0] * 3
    assert seen[1][0] is not module and not recwarn.list
    handle.remove()
    module(x * 1).sum().backward()
    assert len(seen) == 2
    with flambeau.no_grad():
        module(x)


@pytest.mark.parametrize(
    "forward, why",
    [
        (lambda self, x: {"y": x.exp(), "z": x.sin()}, "does not return a single Tensor or a tuple"),
        (lambda self, x: (x.exp(), x.sin()), "outputs are generated by different autograd Nodes"),
        (lambda self, x: x.exp().sin(), "the forward contains multiple autograd Nodes"),
    ],
)
def test_an_old_backward_hook_warns_of_what_it_misses(forward, why):
    module, seen = type("Several", (nn.Module,), {"forward": forward})(), []
    module.register_backward_hook(lambda *given: seen.append(given))
    x = flambeau.ones(2, requires_grad=True) * 1
    with pytest.warns(FutureWarning, match=why):
        y = module(x)
    first = y["y"] if isinstance(y, dict) else y[0] if isinstance(y, tuple) else y
    first.sum().backward()
    assert len(seen) == 1


def test_an_old_backward_hook_warns_of_arguments_that_are_no_tensors():
    class Times(nn.Module):
        def forward(self, x, n):
            return x * n

    module = Times()
    module.register_backward_hook(lambda *given: None)
    with pytest.warns(FutureWarning, match="does not take as input"):
        module(flambeau.ones(2, requires_grad=True) * 1, 3)


def test_backward_hooks_are_of_one_kind():
    module = Exp()
    handle = module.register_backward_hook(lambda *given: None)
    message = "Cannot use both regular backward hooks and full backward hooks on a single Module"
    with pytest.raises(RuntimeError, match=message):
        module.register_full_backward_hook(lambda *given: None)
    handle.remove()
    module.register_full_backward_hook(lambda *given: None)
    with pytest.raises(RuntimeError, match=message):
        module.register_backward_hook(lambda *given: None)


def test_global_old_backward_hooks():
    seen = []
    handle = module_hooks.register_module_backward_hook(lambda m, grad_input, grad_output: seen.append(m))
    with pytest.raises(RuntimeError, match="as a global Module hook"):
        module_hooks.register_module_full_backward_hook(lambda *given: None)
    module = Exp()
    module(flambeau.ones(1, requires_grad=True) * 1).backward()
    handle.remove()
    Exp()(flambeau.ones(1, requires_grad=True) * 1).backward()
    assert seen == [module]
    handle = module_hooks.register_module_full_backward_hook(lambda *given: None)
    with pytest.raises(RuntimeError, match="as a global Module hook"):
        module_hooks.register_module_backward_hook(lambda *given: None)
    handle.remove()


# ---------------------------------------------------------------- hooks of registration


def test_hooks_of_registration_see_what_is_registered():
    seen = []
    handles = [
        module_hooks.register_module_parameter_registration_hook(
            lambda m, n, p: seen.append(("parameter", n))
        ),
        module_hooks.register_module_buffer_registration_hook(lambda m, n, b: seen.append(("buffer", n))),
        module_hooks.register_module_module_registration_hook(lambda m, n, c: seen.append(("module", n))),
    ]
    norm = nn.BatchNorm1d(2, affine=False)
    assert seen == [("buffer", name) for name in ("running_mean", "running_var", "num_batches_tracked")]
    seen.clear()
    norm.running_mean = flambeau.ones(2)
    norm.more = nn.Buffer(flambeau.ones(1))
    norm.gain = nn.Parameter(flambeau.ones(1))
    norm.register_parameter("none", None)
    norm.child = nn.ReLU()
    norm.child = None
    norm.add_module("other", Exp())
    for handle in handles:
        handle.remove()
    nn.Sequential(nn.BatchNorm1d(2))
    assert seen == [
        ("buffer", "running_mean"),
        ("buffer", "more"),
        ("parameter", "gain"),
        *[("module", name) for name in ("child", "child", "other")],
    ]


def test_hooks_of_registration_replace_what_is_registered():
    with_five = module_hooks.register_module_parameter_registration_hook(
        lambda m, n, p: nn.Parameter(flambeau.full(p.shape, 5.0))
    )
    with_exp = module_hooks.register_module_module_registration_hook(lambda m, n, c: Exp())
    with_zeros = module_hooks.register_module_buffer_registration_hook(lambda m, n, b: flambeau.zeros(3))
    module = nn.Module()
    module.weight, module.child = nn.Parameter(flambeau.ones(2)), nn.ReLU()
    module.register_buffer("b", flambeau.ones(1))
    for handle in (with_five, with_exp, with_zeros):
        handle.remove()
    assert module.weight.tolist() == [5.0, 5.0] and type(module.child) is Exp and module.b.shape == (3,)


def test_a_refused_name_calls_no_hook_of_registration():
    seen = []
    handle = module_hooks.register_module_parameter_registration_hook(lambda *given: seen.append(given))
    with pytest.raises(KeyError):
        nn.Module().register_parameter("a.b", nn.Parameter(flambeau.ones(1)))
    handle.remove()
    assert seen == []


def test_without_hooks_for_every_module_calls_go_the_short_way_again():
    modules = module_hooks
    kinds = ("forward_pre", "forward", "full_backward_pre", "full_backward")
    handles = [getattr(modules, f"register_module_{kind}_hook")(lambda *given: None) for kind in kinds]
    for handle in handles:
        assert nn.Module._hooked
        handle.remove()
    assert not nn.Module._hooked
    with modules.register_module_backward_hook(lambda *given: None):
        assert nn.Module._hooked
    assert not nn.Module._hooked
