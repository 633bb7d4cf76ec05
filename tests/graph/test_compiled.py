"""Compiled functions: which capture a call takes, how results are built, and what is never captured."""

from __future__ import annotations

import collections
import copy
import dataclasses
import gc
import inspect
import logging
import pickle
import threading
import weakref

import pytest
from flambeau.graph.compiled import is_capturing

import flambeau as torch

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Output:
    values: object
    extra: object = None


class Named(collections.OrderedDict):
    def __getattr__(self, name):
        return self[name]


@torch.compile
def doubled(x):
    """Twice."""
    return x * 2


def hits(compiled):
    return [entry.hits for entry in compiled.entries]


def test_a_call_like_one_before_runs_its_plan():
    f = torch.compile(lambda x, y: (x * y).exp())
    for k in range(3):
        x, y = torch.randn(3), torch.randn(3)
        assert torch.equal(f(x, y), (x * y).exp()) and hits(f) == [k]
    x = torch.randn(2, 3)
    assert torch.equal(f(x, x[0]), (x * x[0]).exp()) and len(f.entries) == 2
    f(torch.randn(3), torch.randn(3))
    assert hits(f) == [3, 0], "the most recently used comes first"
    torch.compiler.reset()
    assert f.entries == ()


STATES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "lower type": lambda: torch.autocast("cpu", dtype=torch.float16),
}


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_the_thread_is_part_of_a_capture(name):
    w = torch.randn(4, 4, requires_grad=True)
    f = torch.compile(lambda x: torch.tanh(x @ w))
    plain = lambda x: torch.tanh(x @ w)
    x = torch.randn(2, 4)
    for _ in range(2):
        assert f(x).dtype == torch.float32 and f(x).requires_grad
        with STATES[name]():
            for _ in range(2):
                result, wanted = f(x), plain(x)
                assert torch.equal(result, wanted) and result.requires_grad == wanted.requires_grad
                assert result.dtype == wanted.dtype and result.is_inference() == wanted.is_inference()
    assert len(f.entries) == 2 and all(hits(f))


def test_weights_that_autocast_has_cast_are_not_constants():
    net = torch.nn.Linear(4, 4)
    f = torch.compile(net)
    x = torch.randn(2, 4)
    for _ in range(3):
        with torch.autocast("cpu"), torch.no_grad():
            net(x)  # the cast is cached for the block
            assert torch.equal(f(x), net(x))
        with torch.no_grad():
            net.weight.add_(1.0)


def test_the_default_dtype_is_part_of_a_capture():
    f = torch.compile(lambda n: torch.ones(2) * n)
    assert f(2).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert f(2).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_where_nothing_is_captured():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names = []
    f = torch.compile(lambda x: x.sin().sum())
    x = torch.randn(3)
    with Mode():
        f(x)
    assert names == ["sin", "sum"] and f.entries == ()
    torch.vmap(f)(torch.ones(2, 3)), torch.func.jvp(f, (x,), (x,))
    with torch.device("meta"):
        f(x)
    with torch.autograd.set_detect_anomaly(True):
        f(x)
    assert f.entries == () and f.calls_of_python == 5
    f(x), f(x)
    with Mode():
        f(x)
    assert hits(f) == [1] and names == ["sin", "sum"] * 2


def test_subclasses_of_tensors_run_as_python_says():
    class Sub(torch.Tensor):
        pass

    f = torch.compile(lambda x: x + 1)
    for _ in range(2):
        assert type(f(torch.ones(2).as_subclass(Sub))) is Sub
    f(torch.ones(2))
    assert type(f(torch.ones(2))) is torch.Tensor and type(f(torch.ones(2).as_subclass(Sub))) is Sub


def structure(x, y):
    z = x + y
    made = [z, (z, x)]
    return {
        "pair": Pair(z, y),
        "list": made,
        "again": made,
        "out": Output(z * 2, extra=3),
        "named": Named(a=z),
        "n": None,
    }


def test_results_are_built_anew_with_their_classes_and_sharing():
    f = torch.compile(structure)
    x, y = torch.randn(3), torch.randn(3)
    f(x, y)
    x, y = torch.randn(3), torch.randn(3)
    first, second = f(x, y), f(x, y)
    assert hits(f) == [2]
    for r in (first, second):
        z = r["pair"].first
        assert type(r["pair"]) is Pair and r["pair"].second is y and torch.equal(z, x + y)
        assert r["list"] is r["again"] and r["list"][0] is z and r["list"][1][0] is z and r["list"][1][1] is x
        assert type(r["out"]) is Output and r["out"].extra == 3 and torch.equal(r["out"].values, z * 2)
        assert type(r["named"]) is Named and r["named"].a is z and r["n"] is None
        assert list(r) == ["pair", "list", "again", "out", "named", "n"]
    assert first["list"] is not second["list"] and first["pair"].first is not second["pair"].first


def test_objects_of_before_are_handed_out():
    held = {"a": [1], "t": torch.ones(2)}
    f = torch.compile(lambda x: (held["a"], held["t"], x + 1))
    for _ in range(3):
        a, t, _ = f(torch.ones(2))
        assert a is held["a"] and t is held["t"]
    held["t"] = torch.zeros(2)
    assert f(torch.ones(2))[1] is held["t"]


def test_views_of_arguments_are_views():
    f = torch.compile(lambda x: (x.t(), x[1:], x + 1))
    for _ in range(3):
        x = torch.arange(6.0).view(2, 3).clone()
        turned, rest, _ = f(x)
        turned[0, 0] = 9
        assert x[0, 0] == 9 and rest._base is x and rest.tolist() == [[3.0, 4.0, 5.0]]
    assert hits(f) == [2]


def test_arguments_are_changed_in_place():
    def step(x, y):
        x.add_(y)
        y[0] = 7
        return x

    f = torch.compile(step)
    for _ in range(3):
        x, y = torch.ones(3), torch.arange(3.0)
        before = x._version
        assert f(x, y) is x and x.tolist() == [1, 2, 3] and y.tolist() == [7, 1, 2] and x._version > before


def test_arguments_that_share_memory():
    def step(x, y):
        x.add_(1)
        return x + y

    f = torch.compile(step)
    for make in (
        lambda: (torch.zeros(4), torch.zeros(4)),
        lambda: (torch.zeros(4),) * 2,
        lambda: 2 * [torch.zeros(6)],
    ):
        for cut in (slice(0, 4), slice(1, 5)):
            for _ in range(2):
                x, y = make()
                other = (x[:4], y[cut]) if len(y) == 6 else (x, y)
                twin = copy.deepcopy(other)
                assert torch.equal(f(*other), step(*twin)) and torch.equal(other[0], twin[0])


def test_gradients_go_through():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    twin = copy.deepcopy(net)
    f = torch.compile(net)
    for _ in range(3):
        x = torch.randn(5, 3)
        f(x).square().sum().backward(), twin(x).square().sum().backward()
        for p, q in zip(net.parameters(), twin.parameters()):
            torch.testing.assert_close(p.grad, q.grad)
    for p in net[0].parameters():
        p.requires_grad_(False)
        p.grad = None
    f(x).sum().backward()
    assert net[0].weight.grad is None and net[2].weight.grad is not None


def test_modules_may_change():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(2)])
            self.scale, self.table = 1.0, {"shift": 0.0}

        def forward(self, x):
            for layer in self.layers:
                x = layer(x) * self.scale + self.table["shift"]
            return torch.nn.functional.dropout(x, 0.5, self.training)

    net = Net().eval()
    f, x = torch.compile(net), torch.randn(3, 2)

    def same():
        for _ in range(2):
            torch.testing.assert_close(f(x), net(x), rtol=1e-6, atol=1e-6)

    same()
    net.scale = 2.0
    same()
    net.table["shift"] = 1.0
    same()
    net.layers.append(torch.nn.Linear(2, 2))
    same()
    net.layers[0] = torch.nn.Identity()
    same()
    net.layers[1].weight = torch.nn.Parameter(torch.ones(2, 2))
    same()
    net.layers[1].weight.data = torch.zeros(2, 2)
    same()
    net.layers[1].forward = lambda x: x * 3
    same()
    handle = net.layers[1].register_forward_hook(lambda module, args, result: result + 1)
    same()
    handle.remove()
    same()
    net.double()
    x = x.double()
    same()
    net.train()
    assert (f(torch.ones(100, 2).double()) == 0).any()


def test_globals_and_closures_may_change():
    factor = 2.0

    def change(value):
        nonlocal factor
        factor = value

    f = torch.compile(lambda x: x * factor)
    x = torch.ones(2)
    for value in (2.0, 3.0, 2.0, -0.0, 0.0):
        change(value)
        assert torch.equal(f(x), x * factor) and torch.equal(torch.signbit(f(x)), torch.signbit(x * factor))
    assert len(f.entries) == 2 and f.captures == 2
    f = torch.compile(lambda x: x * factor, dynamic=False)
    for value in (2.0, 3.0, 2.0, -0.0, 0.0):
        change(value)
        assert torch.equal(f(x), x * factor) and torch.equal(torch.signbit(f(x)), torch.signbit(x * factor))
    assert len(f.entries) == 4


def test_a_number_that_always_changes_is_not_captured_for_ever(caplog):
    f = torch.compile(lambda x, lr: x * lr, dynamic=False)
    x = torch.ones(2)
    with caplog.at_level(logging.WARNING, "flambeau.graph"):
        for k in range(40):
            assert f(x, k / 7).tolist() == (x * (k / 7)).tolist()
    assert f.captures < 12 and f.calls_of_python > 25
    assert [
        record.getMessage().count("args[1] is another number at every call") for record in caplog.records
    ] == [1]


def test_the_number_of_captures_is_bounded(monkeypatch):
    monkeypatch.setattr(torch.compiler.config, "recompile_limit", 3)
    f, whole = torch.compile(lambda x: x + 1), torch.compile(lambda x: x + 1, fullgraph=True)
    for n in range(1, 6):
        assert f(torch.ones(n)).tolist() == [2] * n
    assert len(f.entries) == 3 and f.calls_of_python == 2
    for n in range(1, 4):
        whole(torch.ones(n))
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit, match=r"shape \[4\], captured with \[3\]"):
        whole(torch.ones(4))


def test_a_counter_is_not_captured_for_ever():
    state = {"k": 0}

    def f(x):
        state["k"] += 1
        return x + state["k"]

    g = torch.compile(f)
    for k in range(1, 40):
        assert g(torch.zeros(1)).item() == k
    assert g.captures <= 3 and state["k"] == 39


def test_what_is_refused_is_not_captured_for_ever():
    called = {}

    def f(x):
        called[len(called)] = x
        return x + len(called)

    g = torch.compile(f)
    for k in range(1, 40):
        assert g(torch.zeros(1)).item() == k
    assert g.captures <= 8 and len(called) == 39


def test_a_list_that_grows_is_not_captured_for_ever():
    called = []

    def f(x):
        called.append(x)
        return x + len(called)

    g = torch.compile(f)
    for k in range(1, 40):
        assert g(torch.zeros(1)).item() == k
    assert g.captures <= 10 and len(called) == 39


def test_errors_leave_and_come_again():
    def f(x, n):
        if n > 1:
            raise KeyError(n)
        return x.view(2, 2)

    g = torch.compile(f)
    for _ in range(2):
        with pytest.raises(KeyError, match="2"):
            g(torch.ones(4), 2)
        with pytest.raises(RuntimeError, match="shape"):
            g(torch.ones(5), 1)
        assert g(torch.ones(4), 1).shape == (2, 2) and not is_capturing()


def test_wrong_arguments_are_errors_of_python():
    f = torch.compile(lambda x: x)
    with pytest.raises(TypeError, match="positional argument"):
        f(1, 2)
    with pytest.raises(TypeError, match="keyword argument"):
        f(y=1)


def test_keyword_arguments():
    f = torch.compile(lambda x, *, n=2, **rest: x * n + sum(rest.values()))
    x = torch.ones(1)
    for _ in range(2):
        assert [f(x).item(), f(x=x, n=3).item(), f(x, a=x, b=x).item(), f(x, b=x, a=2).item()] == [2, 3, 4, 5]
    assert len(f.entries) == 4


def test_threads_capture_side_by_side():
    f, wrong = torch.compile(lambda x: (x * 3).cos()), []

    def run(n):
        for k in range(1, 20):
            x = torch.randn(k % 5 + 1)
            if not torch.equal(f(x), (x * 3).cos()):
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong and 5 <= len(f.entries) <= 20


def test_compiled_functions_inside_of_others():
    inner = torch.compile(lambda x: x.sin())
    outer = torch.compile(lambda x: inner(x) + 1)
    x = torch.randn(3)
    for _ in range(3):
        assert torch.equal(outer(x), x.sin() + 1)
    assert hits(outer) == [2] and inner.entries == ()

    @torch.compile
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * 2

    for _ in range(2):
        assert power(torch.ones(1), 3).item() == 8


def test_functions_stay_functions():
    assert doubled.__name__ == "doubled" and doubled.__doc__ == "Twice." and doubled.__module__ == __name__
    assert str(inspect.signature(doubled)) == "(x)" and doubled.__wrapped__ is doubled.function
    assert copy.copy(doubled) is doubled and copy.deepcopy([doubled])[0] is doubled
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    again = pickle.loads(pickle.dumps(torch.compile(len)))
    assert again([1, 2]) == 2 and again.function is len
    assert torch.compile(doubled).function is doubled.function

    class Owner:
        factor = 2

        @torch.compile
        def scaled(self, x):
            return x * self.factor

    owner = Owner()
    for _ in range(2):
        assert owner.scaled(torch.ones(1)).item() == 2 and Owner.scaled(owner, torch.ones(1)).item() == 2
    owner.factor = 3
    assert owner.scaled(torch.ones(1)).item() == 3


def test_captures_die_with_the_function():
    class Held:
        shift = 1.0

    def make():
        held = Held()
        f = torch.compile(lambda x: x + held.shift)
        f(torch.ones(2)), f(torch.ones(2))
        return f, weakref.ref(f), weakref.ref(held)

    f, function, held = make()
    assert function() is f and hits(f) == [1]
    del f
    gc.collect()
    assert function() is None and held() is None


def test_what_a_call_was_captured_with_is_not_kept():
    f = torch.compile(lambda x: x * 2)
    x = torch.ones(100)
    seen = weakref.ref(x), weakref.ref(f(x))
    del x
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_random_numbers_are_drawn_anew_and_as_eager_draws_them():
    f = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand(4))
    x = torch.ones(4)
    f(x)
    for seed in (1, 2):
        torch.manual_seed(seed)
        a = f(x), f(x)
        torch.manual_seed(seed)
        b = [torch.nn.functional.dropout(x, 0.5) + torch.rand(4) for _ in range(2)]
        assert all(map(torch.equal, a, b)) and not torch.equal(*a)


def test_double_backward_of_a_compiled_function():
    f = torch.compile(lambda x: (x**3).sum())
    for _ in range(2):
        x = torch.randn(3, requires_grad=True)
        try:
            (g,) = torch.autograd.grad(f(x), x, create_graph=True)
            (h,) = torch.autograd.grad(g.sum(), x)
        except RuntimeError as error:
            assert "double backward" in str(error)
        else:
            torch.testing.assert_close(h, 6 * x)


def test_a_tensor_that_is_left_for_a_hook_to_differentiate_by():
    layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    seen = {}

    def keep(module, args, out):
        seen["out"] = out

    def keep_detached(module, args, out):
        seen["out"] = out.detach()

    handle = layers[1].register_forward_hook(keep)
    compiled = torch.compile(layers)
    for _ in range(2):
        result = compiled(torch.randn(5, 3)).sum()
        (slope,) = torch.autograd.grad(result, seen["out"])
        assert torch.equal(slope, layers[2].weight.expand(5, 4))
    handle.remove()
    layers[1].register_forward_hook(keep_detached)
    whole = torch.compile(layers, fullgraph=True)
    assert whole(torch.randn(5, 3)).requires_grad and not seen["out"].requires_grad


def test_a_module_that_is_compiled_keeps_the_modes_of_its_parts():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    net[1].eval()  # frozen, as in fine-tuning
    compiled = torch.compile(net)
    assert (net.training, net[1].training, compiled.training) == (True, False, True)
    before = net[1].running_mean.clone()
    compiled(torch.randn(4, 2))
    assert torch.equal(net[1].running_mean, before)
