"""Compiled regions on the tape beside eager calls: results, gradients, and what the node refuses."""

import gc
import threading
import weakref

import pytest
from flambeau.graph.record import Recording
from flambeau.graph.region import Region
from flambeau.graph.runner import Runner

import flambeau as torch
from flambeau.graph.partition import region_of
from flambeau.graph.sources import Refusal

nn = torch.nn


def compiled(function, *inputs):
    """What `region_of` makes of a call."""
    with Recording() as recording:
        found = function(*inputs)
    return region_of(recording, list(inputs), list(found) if isinstance(found, tuple) else [found])


def inputs_of(module, *given):
    return [*given, *module.parameters(), *module.buffers()]


MODULES = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)),
        lambda: torch.randn(4, 6),
    ),
    "convolution and batch norm": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
        lambda: torch.randn(2, 2, 6, 6),
    ),
    "transformer layer": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True),
        lambda: torch.randn(2, 5, 16),
    ),
    "lstm": (lambda: nn.LSTM(4, 6), lambda: torch.randn(5, 2, 4)),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm(4), nn.Linear(4, 3)),
        lambda: torch.randint(0, 7, (3, 5)),
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_modules_are_those_of_eager_calls(name):
    make, draw = MODULES[name]
    torch.manual_seed(3)
    module, x = make(), draw()
    state = {k: v.clone() for k, v in module.state_dict().items()}

    def call(*inputs):
        found = module(inputs[0])
        return found[0] if isinstance(found, tuple) else found

    region = compiled(call, *inputs_of(module, x))
    assert isinstance(region, Region), region
    x = draw()
    module.load_state_dict(state)
    expected = call(x)
    weight = torch.randn(expected.shape)
    gradients = torch.autograd.grad((expected * weight).sum(), list(module.parameters()))
    buffers = [b.clone() for b in module.buffers()]
    module.load_state_dict(state)
    (found,) = region(*inputs_of(module, x))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    own = torch.autograd.grad((found * weight).sum(), list(module.parameters()))
    for a, b in zip(own, gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
    for a, b in zip(module.buffers(), buffers, strict=True):
        assert torch.equal(a, b)


@pytest.fixture
def product():
    """A region of exp(x) * w, and its inputs."""
    x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    return compiled(lambda x, w: x.exp() * w, x, w), x, w


def test_a_pass_that_may_run_again_leaves_what_was_saved():
    x, w = torch.randn(8, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)
    region = compiled(lambda x, w: (((x @ w).tanh() @ w).tanh() @ w).exp(), x, w)
    (y,) = region(x, w)
    passes = [torch.autograd.grad(y.sum(), [x, w], retain_graph=True) for _ in range(2)]
    passes.append(torch.autograd.grad(y.sum(), [x, w]))  # writes over what was saved
    for found in passes[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found, passes[0], strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y.sum(), [x, w])


def test_gradients_add_up_over_calls(product):
    region, x, w = product
    for _ in range(2):
        region(x, w)[0].sum().backward()
    torch.testing.assert_close(x.grad, 2 * (x.exp() * w).detach())
    torch.testing.assert_close(w.grad, 2 * x.exp().detach())


def test_the_node_is_one(product):
    region, x, w = product
    (y,) = region(x, w)
    assert y.grad_fn.name() == "CompiledFunctionBackward"
    assert [n.variable for n, _ in y.grad_fn.next_functions] == [x, w]
    assert y._base is None and not y.is_leaf


def test_without_grad_mode_there_is_no_node(product):
    region, x, w = product
    with torch.no_grad():
        (y,) = region(x, w)
    assert y.grad_fn is None and not y.requires_grad
    (y,) = region(x.detach(), w.detach())
    assert y.grad_fn is None


def test_a_second_pass_needs_retain_graph(product):
    region, x, w = product
    y = region(x, w)[0].sum()
    first = torch.autograd.grad(y, [x, w], retain_graph=True)
    again = torch.autograd.grad(y, [x, w])
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, [x, w])


def test_what_backward_needs_must_not_be_written_to(product):
    region, x, w = product
    y = region(x, w)[0].sum()
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_results_that_are_saved_must_not_be_written_to():
    x = torch.randn(3, requires_grad=True)
    region = compiled(torch.exp, x)
    (y,) = region(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_second_derivatives(product):
    region, x, w = product

    def second(call):
        (g,) = torch.autograd.grad(call(x, w).sum(), x, create_graph=True)
        return torch.autograd.grad((g * g).sum(), [x, w])

    for a, b in zip(second(lambda *t: region(*t)[0]), second(lambda x, w: x.exp() * w), strict=True):
        torch.testing.assert_close(a, b)


def test_no_second_derivative_of_random_numbers():
    x = torch.randn(8, requires_grad=True)
    region = compiled(lambda x: nn.functional.dropout(x, 0.5) * x, x)
    with pytest.raises(RuntimeError, match="differentiated twice"):
        torch.autograd.grad(region(x)[0].sum(), x, create_graph=True)


def test_random_numbers_are_those_of_eager_calls():
    x = torch.randn(50, requires_grad=True)
    call = lambda x: nn.functional.dropout(x * 2, 0.5).sin()  # noqa: E731
    region = compiled(call, x)
    torch.manual_seed(1)
    expected = call(x)
    torch.manual_seed(1)
    (found,) = region(x)
    assert torch.equal(found, expected)
    assert torch.equal(torch.autograd.grad(found.sum(), x)[0], torch.autograd.grad(expected.sum(), x)[0])


def test_cotangents_of_any_geometry_or_none():
    x = torch.randn(3, 4, requires_grad=True)
    region = compiled(lambda x: (x.exp(), x.sin(), x > 0), x)
    a, b, c = region(x)
    assert not c.requires_grad
    (g,) = torch.autograd.grad(a, x, torch.randn(4, 3).T.mul(0).add(1), retain_graph=True)
    torch.testing.assert_close(g, x.exp().detach())
    (g,) = torch.autograd.grad(b.sum(), x, retain_graph=True)
    torch.testing.assert_close(g, x.cos().detach())
    (g,) = torch.autograd.grad(b.sum() + a.sum(), x)
    torch.testing.assert_close(g, (x.cos() + x.exp()).detach())


def test_results_that_are_inputs_or_views_of_them():
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    region = compiled(lambda x, w: (x, x[1:], x * w), x, w)
    a, b, c = region(x, w)
    assert a is x
    assert b._base is x and b.data_ptr() == x[1:].data_ptr() and torch.equal(b, x[1:])
    (g,) = torch.autograd.grad(b.sum() + c.sum(), x)
    torch.testing.assert_close(g, w.detach().expand(3, 4) + torch.tensor([0.0, 1, 1])[:, None])


def test_results_that_share_memory():
    x = torch.randn(4, 6, requires_grad=True)
    region = compiled(lambda x: x.exp().chunk(2, 1), x)
    a, b = region(x)
    (g,) = torch.autograd.grad(a.sum() + 2 * b.sum(), x)
    torch.testing.assert_close(g, x.exp().detach() * torch.tensor([1.0, 1, 1, 2, 2, 2]))

    def both(x):
        y = x.exp()
        return y, y.detach()

    a, b = compiled(both, x)(x)
    assert a is not b and a.requires_grad and not b.requires_grad and a.data_ptr() == b.data_ptr()

    def overlapping(x):
        y = x.exp()
        return y, y[1:]

    assert "overlap" in str(compiled(overlapping, x))


def test_buffers_are_written():
    norm = nn.BatchNorm1d(3)
    x = torch.randn(5, 3)
    region = compiled(lambda *t: norm(t[0]), *inputs_of(norm, x))
    before, version = norm.running_mean.clone(), norm.running_mean._version
    region(*inputs_of(norm, x))
    assert not torch.equal(norm.running_mean, before) and norm.running_mean._version > version


def test_what_is_refused():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = torch.randn(3, requires_grad=True)

    def hooked(x):
        y = x.exp()
        y.register_hook(lambda g: g * 2)
        return y * 2

    def written(x, b):
        b.mul_(x)
        return b * 2

    beyond = torch.randn(3, requires_grad=True)
    for found, why in [
        (compiled(Double.apply, x), "Python's"),
        (compiled(hooked, x), "hook"),
        (compiled(written, x, torch.ones(3)), "writes to an argument"),
        (compiled(lambda x: x * beyond, x), "no input"),
        (compiled(lambda x: beyond.detach(), x), "there before"),
    ]:
        assert isinstance(found, Refusal) and why in str(found)


def test_what_needs_no_gradient_is_a_plan():
    assert isinstance(compiled(torch.exp, torch.ones(3)), Runner)


def test_other_geometry_is_refused(product):
    region, _, w = product
    with pytest.raises(TypeError, match="shape"):
        region(torch.ones(4, requires_grad=True), w)


def test_hooks_on_inputs_run_once_a_pass():
    seen = []
    x = torch.randn(3, requires_grad=True)
    y = x * 2
    x.register_hook(lambda g: seen.append("leaf"))
    y.register_hook(lambda g: seen.append("result"))
    region = compiled(torch.sin, y)
    assert not seen
    region(y)[0].sum().backward()
    assert seen == ["result", "leaf"]


def test_hooks_on_results(product):
    region, x, w = product
    (y,) = region(x, w)
    y.register_hook(lambda g: g * 3)
    y.retain_grad()
    y.sum().backward()
    torch.testing.assert_close(y.grad, torch.full((3,), 3.0))
    torch.testing.assert_close(w.grad, 3 * x.exp().detach())


def test_saved_tensors_hooks(product):
    region, x, w = product
    packed, unpacked = [], []

    def pack(t):
        packed.append(t)
        return t.clone()

    def unpack(t):
        unpacked.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        (y,) = region(x, w)
    (g,) = torch.autograd.grad(y.sum(), w)
    torch.testing.assert_close(g, x.exp().detach())
    assert packed and len(unpacked) == len(packed)


def test_anomaly_mode_names_the_node():
    x = torch.tensor([-1.0], requires_grad=True)
    region = compiled(torch.sqrt, x)
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly():
        (y,) = region(x)
        with pytest.raises(RuntimeError, match="CompiledFunctionBackward"):
            y.sum().backward()


def test_two_threads(product):
    region, x, w = product
    found = []

    def run():
        for _ in range(20):
            found.append(torch.autograd.grad(region(x, w)[0].sum(), w)[0])

    threads = [threading.Thread(target=run) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 40 and all(torch.equal(g, found[0]) for g in found)


def test_nothing_outlives_the_results(product):
    region, x, w = product
    y = x * 1
    (z,) = region(y, w)
    watched = weakref.ref(y)
    del y, z
    gc.collect()
    assert watched() is None


def test_batched_cotangents(product):
    region, x, w = product
    (y,) = region(x, w)
    (found,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    torch.testing.assert_close(found, torch.diag((x.exp() * w).detach()))


def test_inputs_that_share_memory_have_no_gradients():
    a, other = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    found = compiled(lambda a, turned: (a @ turned).softmax(1) @ a, a, a.T)
    assert isinstance(found, Refusal) and "share memory" in str(found)
    region = compiled(lambda a, b, turned: (b @ turned) @ a, a, other, other.T)
    assert isinstance(region, Region)
    (gradient,) = torch.autograd.grad(region(a, other, other.T)[0].sum(), a)
    torch.testing.assert_close(gradient, (other @ other.T).sum(0)[:, None].expand(3, 4))


IN_PLACE = {
    "relu6": lambda x: nn.functional.relu6(x, inplace=True),
    "hardswish": lambda x: nn.functional.hardswish(x, inplace=True),
    "silu": lambda x: nn.functional.silu(x, inplace=True),
    "elu": lambda x: nn.functional.elu(x, inplace=True),
    "clamp_": lambda x: x.clamp_(-0.5, 0.5),
    "pow_": lambda x: x.pow_(3),
    "mul_": lambda x: x.mul_(x.detach().cos()),
    "of a view": lambda x: x[1:].sin_().sum() + x,
    "twice": lambda x: x.sin_().pow_(2),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_writes_in_place_whose_derivative_reads_what_was_there(name):
    def f(x):
        return IN_PLACE[name](x * 3).exp()

    whole = torch.compile(f, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
        (wanted,) = torch.autograd.grad(f(x).sum(), x)
        y = whole(x)
        (got,) = torch.autograd.grad(y.sum(), x)
        assert torch.allclose(got, wanted, rtol=1e-12) and torch.allclose(y, f(x), rtol=1e-12)
    assert whole.captures == 1


@pytest.mark.parametrize("options", [{"padding_idx": 1}, {"scale_grad_by_freq": True}], ids=lambda x: [*x][0])
def test_embeddings_whose_rows_get_uneven_gradients(options):
    def f(words, table):
        return nn.functional.embedding(words, table, **options).sin()

    words = torch.tensor([[1, 0, 2], [2, 1, 4]])
    whole = torch.compile(f, fullgraph=True)
    for _ in range(2):
        table = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
        whole(words, table).sum().backward()
        slopes = table.detach().cos()
        counts = torch.tensor([1, 2, 2, 0, 1]).unsqueeze(1)
        if "padding_idx" in options:
            wanted = slopes * counts * torch.tensor([1, 0, 1, 1, 1]).unsqueeze(1)
        else:
            wanted = slopes * (counts > 0)
        assert torch.allclose(table.grad, wanted)


def test_sparse_gradients_are_left_to_python():
    layer = nn.Embedding(5, 3, sparse=True)
    whole = torch.compile(layer)
    words = torch.tensor([[1, 0], [1, 4]])
    for _ in range(2):
        layer.zero_grad()
        whole(words).sum().backward()
        assert layer.weight.grad.is_sparse
        assert layer.weight.grad.to_dense().sum(1).tolist() == [3, 6, 0, 0, 3]
