"""What `compile` is given beside the function: backends, `fullgraph`, stances, `disable`."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import compiler

exc = torch._dynamo.exc


class Calling(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def keeping(seen):
    def backend(graph, inputs):
        seen.append((graph, inputs))
        return graph.forward

    return backend


def test_a_backend_is_given_the_graph_and_the_tensors():
    seen = []
    layer = torch.nn.Linear(2, 2)
    f = torch.compile(lambda x: {"a": torch.relu(layer(x)), "x": x}, backend=keeping(seen))
    for k in range(3):
        x = torch.randn(3, 2)
        result = f(x)
        layer.zero_grad()
        result["a"].sum().backward()
        got = layer.weight.grad
        layer.weight.grad = None
        torch.relu(layer(x)).sum().backward()
        torch.testing.assert_close(got, layer.weight.grad)
        assert result["x"] is x and f.entries[0].hits == k
    ((graph, inputs),) = seen
    assert isinstance(graph, torch.fx.GraphModule) and any(t is layer.weight for t in inputs)
    assert len([n for n in graph.graph.nodes if n.op == "placeholder"]) == len(inputs) == 3


def test_what_is_off_the_tape_stays_there():
    w = torch.randn(2, 2, requires_grad=True)

    def f(x):
        with torch.no_grad():
            target = x @ w
        return ((x + 1) @ w - target).square().sum()

    for g in (torch.compile(f, backend=keeping([])), torch.compile(f)):
        for _ in range(3):
            x = torch.randn(3, 2)
            (a,), (b,) = torch.autograd.grad(g(x), w), torch.autograd.grad(f(x), w)
            torch.testing.assert_close(a, b)


class Steeper(torch.autograd.Function):
    """Its derivative is not that of the operations it calls."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * ctx.factor, None


def steep(x):
    return Steeper.apply(x.sin(), 7.0) + x


def hooked(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: g * 3)
    return y.exp()


def straight_through(x):
    y = x.exp()
    return y.detach() * x + y + (x.round() - x).detach()


def anew(x):
    return x.detach().requires_grad_() * 2


def of_no_input(x):
    w = torch.ones(3).requires_grad_()
    return Steeper.apply(x * w, 5.0)


@pytest.mark.parametrize("function", [steep, hooked, straight_through, anew, of_no_input])
@pytest.mark.parametrize("make", [lambda: "inductor", lambda: "aot_eager", lambda: keeping([])])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_derivatives_are_those_of_the_program(function, make, fullgraph):
    if fullgraph and function is hooked:
        pytest.skip("registering a hook is no operation of a graph")
    compiled = torch.compile(function, backend=make(), fullgraph=fullgraph)
    for k in range(6):
        gradients = []
        for f in (compiled, function):
            x = (torch.arange(3.0) + k).requires_grad_(k != 3)
            result = f(x)
            if result.requires_grad and k != 3:
                result.sum().backward()
            gradients.append((result.detach(), x.grad, result.requires_grad))
        assert str(gradients[0]) == str(gradients[1])


def test_fullgraph_says_that_a_derivative_is_in_python(caplog):
    torch.compile(steep, fullgraph=True)(torch.ones(2, requires_grad=True))
    assert (
        "captured whole, but runs as Python says: the derivative of SteeperBackward is Python's"
        in caplog.text
    )
    whole = torch.compile(steep, fullgraph=True)
    whole(torch.ones(2)), whole(torch.ones(2))
    assert whole.entries[0].hits == 1  # nothing is in Python where no gradient is wanted


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Dropout(0.5), torch.nn.Linear(5, 2)),
        lambda: torch.nn.TransformerEncoderLayer(6, 2, 8, batch_first=True),
        lambda: Calling(lambda x: torch.where(x > 0, x, -x).gather(0, x.argsort(0)) * (x > 1)),
    ],
)
def test_a_backend_is_given_what_draws_and_what_counts(make):
    seen, net = [], make()
    compiled = torch.compile(net, backend=keeping(seen))
    for k in range(3):
        found = []
        for f in (net, compiled):
            torch.manual_seed(k)
            x = torch.randn(2, 4, 6).requires_grad_()
            net.zero_grad()
            f(x).square().sum().backward()
            found.append([x.grad, *(p.grad for p in net.parameters())])
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b)
    assert len(seen) == 1


def test_errors_of_backends():
    def backend(graph, inputs):
        raise ValueError("no")

    f = torch.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(
        exc.BackendCompilerFailed, match="backend='backend' raised:\\nValueError: no"
    ) as caught:
        f(torch.ones(1))
    assert isinstance(caught.value.inner_exception, ValueError) and (torch.ones(1) + 1).item() == 2
    with pytest.raises(exc.BackendCompilerFailed, match="returned int"):
        torch.compile(lambda x: x + 1, backend=lambda graph, inputs: 3)(torch.ones(1))


def test_fullgraph_names_the_line_and_the_construct():
    def f(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(
        exc.Unsupported, match=rf"f is not captured whole: {__file__}:\d+: looks at a value of a tensor"
    ):
        torch.compile(f, fullgraph=True)(torch.ones(2))
    with compiler.error_on_graph_break(), pytest.raises(exc.Unsupported):
        torch.compile(f)(torch.ones(2))
    assert torch.compile(f)(-torch.ones(2)).tolist() == [1, 1]


def test_stances():
    f = torch.compile(lambda x: x + 1)
    with compiler.set_stance("force_eager"):
        f(torch.ones(1))
    assert f.entries == ()
    f(torch.ones(1))
    with compiler.set_stance("fail_on_recompile"):
        f(torch.ones(1))
        with pytest.raises(exc.RecompileError, match=r"shape \[2\], captured with \[1\]"):
            f(torch.ones(2))
    with compiler.set_stance("eager_on_recompile"):
        assert f(torch.ones(2)).tolist() == [2, 2]
    assert len(f.entries) == 1
    with pytest.raises(RuntimeError, match="invalid stance"):
        compiler.set_stance("never")


def test_what_is_disabled_runs_as_python_says():
    seen = []

    @compiler.disable
    def noted(x):
        seen.append(compiler.is_compiling())
        return x + 1

    f = torch.compile(lambda x: noted(x) * 2)
    for _ in range(3):
        assert f(torch.ones(1)).item() == 4
    assert len(seen) == 3 and f.entries[0].launch is None
    g = torch.compile(lambda x: x + 1 if compiler.is_compiling() else x)
    assert [g(torch.zeros(1)).item() for _ in range(2)] == [1, 1]


def test_a_function_that_is_refused_at_one_place_runs_as_python_after_three_captures():
    xs = [torch.full((4,), float(k)) for k in range(6)]

    def refused(x, k):
        y = x + xs[k]
        return y * y.sum().tolist()

    compiled = torch.compile(refused)
    for k in range(6):
        assert torch.equal(compiled(torch.ones(4), k), refused(torch.ones(4), k))
    assert compiled.captures == 3 and compiled.as_python

    def refused_for_one_branch(x, k):
        return x * x.sum().tolist() if k == 0 else x * 3

    compiled = torch.compile(refused_for_one_branch)
    for _ in range(2):
        for k in range(4):
            assert torch.equal(compiled(torch.ones(4), k), refused_for_one_branch(torch.ones(4), k))
    assert not compiled.as_python and compiled.captures == 2, "k == 0, and any other"


def test_a_backend_may_have_inputs_that_are_on_the_tape_before():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    @torch.compile(backend=backend)
    def f(x, w):
        return (x * w).sin()

    for grad_of in (lambda y: y, lambda y: y.tanh()):
        w = torch.full((3,), 2.0, requires_grad=True)
        x = torch.linspace(-1, 1, 3, requires_grad=True)
        got = torch.autograd.grad(f(grad_of(x.exp()), w).sum(), (x, w))
        want = torch.autograd.grad((grad_of(x.exp()) * w).sin().sum(), (x, w))
        for g, v in zip(got, want):
            torch.testing.assert_close(g, v)
    assert len(graphs) == 1  # the same for both


def test_a_part_off_the_tape_is_still_seen_where_inputs_are_on_it():
    @torch.compile(backend=lambda graph, inputs: graph)
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = y.exp()
        return y + z

    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        (got,) = torch.autograd.grad(f(x.sin()).sum(), x)
        torch.testing.assert_close(got, 2 * x.detach().cos())
