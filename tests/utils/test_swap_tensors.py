"""`utils.swap_tensors`, and modules that convert and load by it."""

import copy
import gc
import weakref

import pytest

import flambeau
from flambeau import nn
from flambeau.utils import swap_tensors

SHAPES = [(), (3,), (2, 3), (1, 2, 1, 2, 1, 2), (0, 4), (1,) * 7]


@pytest.fixture
def swapping():
    flambeau.__future__.set_swap_module_params_on_conversion(True)
    yield
    flambeau.__future__.set_swap_module_params_on_conversion(False)


def facts(t):
    return (
        type(t), t.dtype, tuple(t.shape), t.stride(), t.storage_offset(), t.data_ptr(), t.requires_grad, t.grad, t.grad_fn,
        t.is_contiguous(), t._version, dict(vars(t)), t.tolist(),
    )  # fmt: skip


@pytest.mark.parametrize("first", SHAPES)
@pytest.mark.parametrize("second", SHAPES)
def test_everything_but_identity(first, second):
    a = flambeau.arange(flambeau.ones(first).numel()).reshape(first)
    b = nn.Parameter(flambeau.rand(second, dtype=flambeau.float64))
    b.grad = flambeau.ones_like(b)
    b.tag = "b"
    before = facts(a), facts(b)
    swap_tensors(a, b)
    assert (facts(b), facts(a)) == before
    (a * 2).sum().backward()
    assert a.grad.shape == second and b.grad is None
    swap_tensors(b, a)
    assert facts(a)[:6] == before[0][:6] and b.tag == "b"


def test_views_results_and_itself():
    a, b = flambeau.rand(4, 5, requires_grad=True), flambeau.rand(3)
    row, exp = (a * 2)[1], b.exp()
    node, values = row.grad_fn, row.tolist()
    swap_tensors(row, exp)
    assert exp.grad_fn is node and exp.tolist() == values and row.grad_fn is None
    exp.sum().backward()
    assert a.grad[1].tolist() == [2.0] * 5
    swap_tensors(a, a)
    assert a.grad is not None


def test_hooks_go_with_the_leaf():
    a, b = flambeau.zeros(2, requires_grad=True), flambeau.ones(2, requires_grad=True)
    seen = []
    a.register_hook(lambda g: seen.append("a"))
    b.register_post_accumulate_grad_hook(lambda t: seen.append("b"))
    swap_tensors(a, b)
    a.sum().backward()
    assert seen == ["b"] and a.grad.tolist() == [1.0, 1.0]
    b.sum().backward()
    assert seen == ["b", "a"]


GRAPHS = {
    "leaf": lambda p: p + 1,
    "saved": lambda p: p * p,
    "view": lambda p: p[1:] * 1,
    "function": lambda p: Cube.apply(p),
    "packed": lambda p: packed(p),
    "layer": lambda p: nn.functional.layer_norm(p, (3,), p),
}


class Cube(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def packed(p):
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        return p.exp() * p


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_recorded_before_refuse(name):
    p, q = flambeau.rand(3, requires_grad=True), flambeau.rand(3, requires_grad=True)
    loss = GRAPHS[name](p).sum()
    swap_tensors(p, q)
    with pytest.raises(RuntimeError, match="swap_tensors"):
        loss.backward()
    assert p.grad is None and q.grad is None
    with pytest.raises(RuntimeError, match="swap_tensors"):
        flambeau.autograd.grad(loss, p)
    GRAPHS[name](p).sum().backward()
    GRAPHS[name](q).sum().backward()
    assert p.grad is not None and q.grad is not None


def test_saved_tensor_without_gradient_refuses():
    w, x = flambeau.rand(3, requires_grad=True), flambeau.rand(3)
    loss = (w * x).sum()
    swap_tensors(x, flambeau.zeros(3))
    with pytest.raises(RuntimeError, match="MulBackward0 needs a tensor that was exchanged by swap_tensors"):
        loss.backward()


def test_views_of_what_was_swapped():
    base = flambeau.zeros(4)
    view = base[:2]
    swap_tensors(base, flambeau.ones(3))
    with pytest.raises(RuntimeError, match="view of a tensor that was exchanged"):
        view.add_(flambeau.ones(2, requires_grad=True))
    with flambeau.no_grad():
        view.add_(1)
    assert view.tolist() == [1.0, 1.0] and base.tolist() == [1.0] * 3


def test_refusals():
    a, b = flambeau.zeros(1), flambeau.ones(2)
    with pytest.raises(TypeError, match=r"swap_tensors\(\): argument 't2' must be Tensor, not int"):
        swap_tensors(a, 1)
    held = weakref.ref(a)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        swap_tensors(a, b)
    del held

    class Slotted(flambeau.Tensor):
        __slots__ = ("more",)

    with pytest.raises(RuntimeError, match="different slots"):
        swap_tensors(a, b.as_subclass(Slotted))
    with pytest.raises(RuntimeError, match="masked, nested and sparse"):
        swap_tensors(a, flambeau.ones(2).to_sparse())
    assert a.tolist() == [0.0] and b.tolist() == [1.0, 1.0]


def test_memory_goes_back():
    a, b = flambeau.zeros((1,) * 8), flambeau.ones(2)
    swap_tensors(a, b)
    dead = weakref.ref(b)
    del b
    gc.collect()
    assert dead() is None and a.tolist() == [1.0, 1.0]


@pytest.mark.usefixtures("swapping")
def test_module_conversions():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    model(flambeau.ones(2, 3)).sum().backward()
    names = dict(model.named_parameters())
    grads = {n: p.grad.clone() for n, p in names.items()}
    values = {n: p.detach().clone() for n, p in names.items()}
    model.double()
    for name, p in model.named_parameters():
        assert p is names[name] and p.dtype is flambeau.float64 and isinstance(p, nn.Parameter)
        assert flambeau.equal(p.grad, grads[name].double())
    optimizer.step()
    for name, p in names.items():
        assert flambeau.allclose(p, values[name].double() - 0.1 * grads[name].double())
    loss = model(flambeau.ones(2, 3, dtype=flambeau.float64)).sum()
    model.float()
    with pytest.raises(RuntimeError, match="swap_tensors"):
        loss.backward()


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize("assign", [False, True])
def test_load_state_dict(assign):
    model, other = nn.BatchNorm1d(3), nn.BatchNorm1d(3).double()
    with flambeau.no_grad():
        other.weight.fill_(2.5)
        other.running_mean.fill_(7)
    saved = dict(model.named_parameters()) | dict(model.named_buffers())
    model.load_state_dict(other.state_dict(), assign=assign)
    for name, t in (dict(model.named_parameters()) | dict(model.named_buffers())).items():
        assert t is saved[name]
        assert t.tolist() == other.state_dict()[name].tolist()
    assert model.weight.dtype is (flambeau.float64 if assign else flambeau.float32)
    assert isinstance(model.weight, nn.Parameter) and model.weight.requires_grad


@pytest.mark.usefixtures("swapping")
def test_load_state_dict_by_a_class():
    class Loaded(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is flambeau.Tensor.module_load:
                return args[0].detach() * 0 + 5
            return super().__torch_function__(func, types, args, kwargs or {})

    model = nn.Linear(2, 1, bias=False)
    model.load_state_dict({"weight": flambeau.ones(1, 2).as_subclass(Loaded)})
    assert model.weight.tolist() == [[5.0, 5.0]]


def test_overwriting():
    layer = nn.Linear(2, 2)
    layer(flambeau.ones(1, 2)).sum().backward()
    before = layer.weight
    flambeau.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        flambeau.__future__.set_overwrite_module_params_on_conversion(False)
    assert layer.weight is not before and before.dtype is flambeau.float32
    assert layer.weight.grad.dtype is flambeau.float64 and isinstance(layer.weight, nn.Parameter)
    assert copy.deepcopy(layer).weight.dtype is flambeau.float64
