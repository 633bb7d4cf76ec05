"""`fx.symbolic_trace`, tracers and proxies: what is recorded computes what the program does."""

from __future__ import annotations

import enum
import gc
import math
import operator
import random
from typing import NamedTuple

import pytest
from flambeau.core.call.interceptors import has_interceptors

import flambeau as torch
from flambeau import fx, nn
from flambeau.nn import functional as F


@fx.wrap
def leaf_function(x, factor=2):
    if x.sum() > 0:  # what cannot be traced
        return x * factor
    return x


fx.wrap("len")
CONSTANT = torch.tensor([1.0, 2.0])


def check(f, *args, **options):
    """A function, what it was traced to, its code run anew, and its interpreter give the same."""
    module = fx.symbolic_trace(f, **options)
    module.graph.lint()
    want = f(*args)
    for way in (
        module,
        fx.GraphModule(module, module.graph),
        fx.Interpreter(module).run,
        fx.Transformer(module).transform(),
    ):
        torch.testing.assert_close(way(*args), want, rtol=0, atol=0)
    return module


def operators(x, y):
    z = (1 + x) * 2 - y / 3
    z = -(z**2) + (3 - z) @ y.T - 2 // (abs(z) + 1) @ y.T
    return (z < 1) & (z != 2) | ~(z >= 0) ^ (z == z), +z % 5


def methods(x, y):
    a, b = x.split(1, dim=0)
    u = x[..., None, 0:1] + x.T.T[:, [0, 1]].unsqueeze(-1)
    values, places = torch.max(y, dim=1)
    return a.view(-1), b.reshape(y.shape[1]), u.mean(), {"k": [values, places]}, x.size(0) * x.shape[1]


def functions(x, y):
    parts = torch.stack([x, y, CONSTANT.expand(2, 2)])
    h = F.gelu(F.linear(x, y)) + F.dropout(x, 0.5, training=False) + torch.where(x > 0, x, y)
    return (
        torch.cat((h, F.softmax(parts.sum(0), dim=-1)), dim=0),
        torch.einsum("ij,jk->ik", x, y).to(torch.float64),
        float("inf"),
        -1.5,
    )


@pytest.mark.parametrize("f", [operators, methods, functions])
def test_what_is_traced_computes_the_same(f):
    torch.manual_seed(0)
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    check(f, x, y)


@pytest.mark.parametrize("x", [torch.ones(2), -torch.ones(2)])
def test_wrapped_functions_stay_whole(x):
    module = check(lambda x: (leaf_function(x, factor=3), len(x), math.sqrt(len(x))), x)
    assert [n.target for n in module.graph.nodes if n.op == "call_function"][:2] == [leaf_function, len]
    assert leaf_function.__name__ == "leaf_function" and not hasattr(leaf_function, "_fx_leaf")


def test_wrap_belongs_at_the_top_of_a_module():
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("len")
    with pytest.raises(RuntimeError, match="global function or the name"):
        fx.wrap(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.deep = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.BatchNorm1d(3)))
        self.scale = nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("shift", torch.arange(3.0))
        self.plain = torch.ones(3)
        self.same = self.layer

    def forward(self, x, y=None, *, factor=2.0):
        x = self.deep(self.layer(x)) * self.scale + self.shift + self.plain * factor
        return self.same(x), self.scale + self.scale


def test_modules_are_traced_to_their_leaves():
    net = Net().eval()
    x = torch.randn(4, 3)
    module = check(net, x)
    targets = [(n.op, n.target) for n in module.graph.nodes if n.op in ("call_module", "get_attr")]
    assert targets == [
        ("call_module", "layer"), ("call_module", "deep.0"), ("call_module", "deep.1.0"), ("call_module", "deep.1.1"),
        ("get_attr", "scale"), ("get_attr", "shift"), ("get_attr", "plain"), ("call_module", "layer"),
    ]  # fmt: skip
    assert module.layer is net.layer and "shift" in module._buffers and not module.training
    assert dict(module.named_parameters()).keys() == dict(net.named_parameters()).keys()
    calls = next(n for n in module.graph.nodes if n.target == "deep.1.0")
    assert calls.meta["nn_module_stack"]["deep.1"] == ("deep.1", nn.Sequential)
    assert module(x)[0].requires_grad


class Inside(fx.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return False


def test_subclasses_say_what_stays_whole():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout(0.1))
    assert fx.symbolic_trace(net).code.strip().startswith("def forward(self, input):\n")
    graph = Inside().trace(net)
    assert [n.target for n in graph.nodes if n.op == "call_function"] == [F.linear, F.relu, F.dropout]
    x = torch.randn(3, 2)
    net.eval()
    torch.testing.assert_close(fx.GraphModule(net, Inside().trace(net))(x), net(x))


def if_positive(x):
    if x.sum() > 0:
        return x
    return -x


def over(x):
    return [row for row in x]


@pytest.mark.parametrize(
    "f, line",
    [
        (if_positive, "if x.sum() > 0:"),
        (over, "return [row for row in x]"),
        (lambda x: 3 in x, "in <lambda>"),
    ],
)
def test_control_flow_is_an_error_that_names_the_line(f, line):
    with pytest.raises(fx.proxy.TraceError, match=r"test_tracing.py") as caught:
        fx.symbolic_trace(f)
    assert line in str(caught.value) and str(f.__code__.co_firstlineno + (f.__name__ != "<lambda>")) in str(
        caught.value
    )


def test_what_proxies_cannot_do():
    x = fx.Proxy(fx.Graph().placeholder("x"))
    with pytest.raises(RuntimeError, match="'len' is not supported"):
        x.__len__()
    with pytest.raises(TypeError):
        int(x)
    with pytest.raises(TypeError, match="item assignment"):
        x[0] = 1
    with pytest.raises(AttributeError):
        x.__array__  # noqa: B018
    other = fx.Proxy(fx.Graph().placeholder("y"))
    with pytest.raises(RuntimeError, match="multiple different tracers"):
        torch.add(x, other)
    with pytest.raises(RuntimeError, match="cannot contain a Node"):
        x.given({x: 1})
    with pytest.raises(NotImplementedError, match="argument of type"):
        torch.add(x, object())


def test_after_an_error_modules_are_as_they_were():
    call, read = nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(if_positive)
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is read
    assert not fx._symbolic_trace.is_fx_tracing()
    net = nn.Linear(2, 2)
    assert net(torch.ones(1, 2)).shape == (1, 2) and net.weight.shape == (2, 2)


def test_operations_are_watched_as_long_as_there_are_proxies():
    gc.collect()
    before = has_interceptors()
    x = fx.Proxy(fx.Graph().placeholder("x"))
    assert has_interceptors()
    F.layer_norm(x, (3,))
    assert [n.name for n in x.node.graph.nodes] == ["x", "layer_norm"]
    del x
    gc.collect()
    assert has_interceptors() == before


class Color(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    first: object
    second: object


def test_arguments_of_all_kinds():
    def given(v):
        plain = (
            Color.RED,
            torch.float32,
            torch.device("cpu"),
            None,
            ...,
            -1,
            1j,
            "s",
            float("-inf"),
            (),
            [],
            {},
        )
        return (v, [1, {"k": v}], Pair(v, 2), slice(v, None), (v,), *plain)

    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    node = x.tracer.create_proxy("call_function", tuple_of, given(x), {}).node
    assert node.args == given(x.node) and type(node.args[2]) is Pair
    graph.output(node)
    assert fx.GraphModule({}, graph)(7) == given(7)


def tuple_of(*args):
    return args


def test_concrete_arguments_decide_conditions():
    def f(x, twice, k=3):
        return x * k if twice else x

    module = fx.symbolic_trace(f, concrete_args={"twice": True})
    assert torch.equal(module(torch.ones(2), True), torch.full((2,), 3.0))
    with pytest.raises(AssertionError, match="twice has been specialized to have value True"):
        module(torch.ones(2), False)
    with pytest.raises(AssertionError, match="k has been specialized"):
        fx.symbolic_trace(f, concrete_args={"twice": True, "k": 5})(torch.ones(2), True, 4)
    assert fx.symbolic_trace(f, concrete_args=(fx.PH, False, 3))(torch.ones(1), False, 3) == 1
    with pytest.raises(RuntimeError, match="expected 3 arguments"):
        fx.symbolic_trace(f, concrete_args=(1,))


def test_structures_of_inputs():
    def f(x, scale):
        return {"sum": x["a"] + x["b"][0], "both": [x["a"], x["b"][1] * scale]}

    module = fx.symbolic_trace(f, concrete_args={"x": {"a": fx.PH, "b": [fx.PH, 3]}})
    assert module({"a": 1, "b": [2, 3]}, 10) == {"sum": 3, "both": [1, 30]}
    assert fx.Interpreter(module).run({"a": 1, "b": [2, 3]}, 10) == {"sum": 3, "both": [1, 30]}
    with pytest.raises(ValueError):
        module({"a": 1}, 10)


def test_variable_arguments_are_proxies():
    def f(x, *args, scale=2, **kwargs):
        return x * scale + args[0] * kwargs["k"]

    module = fx.symbolic_trace(f)
    assert [n.target for n in module.graph.nodes if n.op == "placeholder"] == [
        "x",
        "scale",
        "*args",
        "**kwargs",
    ]
    assert module(1, 2, 5, k=10) == 52


def test_shapes_of_parameters_may_be_known():
    class Shaped(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3, 4))

        def forward(self, x):
            return (
                x.view(self.w.shape[0], self.w.dim()) if self.w.size(1) == 4 and self.w.numel() == 12 else x
            )

    graph = fx.Tracer(param_shapes_constant=True).trace(Shaped())
    assert next(n for n in graph.nodes if n.target == "view").args[1:] == (3, 2)
    with pytest.raises(fx.proxy.TraceError):
        fx.Tracer().trace(Shaped())


def test_lines_of_the_program_are_recorded_where_that_is_wanted():
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(operators)
    added = next(n for n in graph.nodes if n.name == "add")
    assert "test_tracing.py" in added.stack_trace and added.stack_trace.endswith("z = (1 + x) * 2 - y / 3")
    text = fx.GraphModule({}, graph).print_readable(print_output=False)
    assert "in operators, code: z = (1 + x) * 2 - y / 3" in text


def test_writes_are_refused_where_that_is_wanted():
    tracer = fx.Tracer()
    tracer.check_mutable_operations = True
    with pytest.raises(RuntimeError, match="mutable operation relu_"):
        tracer.trace(lambda x: torch.relu_(x))


def test_asserts_are_traced_where_that_is_wanted():
    names = {}
    exec(
        "def f(x):\n    assert x.sum() > 0, 'positive'\n    return x", names
    )  # pytest writes its own for those in tests
    f = names["f"]
    tracer = fx.Tracer()
    tracer.trace_asserts = True
    module = fx.GraphModule({}, tracer.trace(f))
    assert module(torch.ones(1)) == 1
    with pytest.raises(AssertionError):
        module(-torch.ones(1))
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(f)


def test_what_is_no_part_of_the_root_is_refused():
    hidden = [nn.Linear(2, 2)]
    net = nn.Module()
    net.forward = lambda x: x
    with pytest.raises(NameError, match="not installed as a submodule"):
        fx.symbolic_trace(lambda x: hidden[0](x))
    with pytest.raises(TypeError, match="must be a Module or a function"):
        fx.symbolic_trace(3)


def test_random_programs():
    """Functions of random operators and operations compute the same once traced."""
    chance = random.Random(1)
    unary = [
        torch.relu,
        torch.sin,
        operator.neg,
        torch.sigmoid,
        lambda x: x.T.contiguous(),
        lambda x: x[:, [1, 0]],
        lambda x: x.cumsum(0),
    ]
    binary = [
        operator.add,
        operator.mul,
        torch.maximum,
        operator.matmul,
        lambda x, y: torch.cat([x, y])[:2],
        lambda x, y: x - y.mean(),
    ]

    def program(steps):
        def run(x, y):
            values = [x, y]
            for k, (f, a, b) in enumerate(steps):
                picked = values[a % (k + 2)], values[b % (k + 2)]
                values.append(f(picked[0]) if f in unary else f(*picked))
            return values[-1], {"all": values[2:]}

        return run

    torch.manual_seed(0)
    for _ in range(25):
        steps = [
            (chance.choice(unary + binary), chance.randrange(99), chance.randrange(99)) for _ in range(8)
        ]
        check(program(steps), torch.randn(2, 2), torch.randn(2, 2))
