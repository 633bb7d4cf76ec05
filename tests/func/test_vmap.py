"""`vmap`: arguments and results, nesting, derivatives, random numbers, writes, refusals."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap
from flambeau.nn import functional as F

REAL = flambeau.float64


@pytest.fixture(autouse=True)
def seeded():
    flambeau.manual_seed(0)


def real(*shape):
    return flambeau.randn(*shape, dtype=REAL)


def close(a, b):
    flambeau.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


# --- arguments and results ---
def test_the_dimension_of_slices_may_stand_anywhere_and_in_nested_arguments():
    x, y = real(2, 5, 3), real(3, 5)

    def f(tree, c):
        return {"sum": tree["a"] @ tree["b"][0] + c}

    found = vmap(f, in_dims=({"a": 1, "b": [-1]}, None), out_dims={"sum": -1})({"a": x, "b": [y]}, 2.0)
    expected = flambeau.stack([x[:, k] @ y[:, k] + 2.0 for k in range(5)], -1)
    close(found["sum"], expected)


def test_results_that_are_the_same_for_all_are_repeated_or_kept():
    x, c = real(3, 2), real(4)
    found, kept = vmap(lambda a: (c * 2, c), out_dims=(0, None))(x)
    assert found.shape == (3, 4) and kept is c
    close(found[2], c * 2)


def test_chunks_give_what_all_slices_give():
    x = real(7, 3)
    for size in (1, 3, 7, 100):
        a, b = vmap(lambda v: (v.sum(), v * 2), out_dims=(0, 1), chunk_size=size)(x)
        close(a, x.sum(1))
        close(b, (x * 2).mT)


def test_no_slices():
    found = vmap(lambda a: (a @ a.mT).exp().sum(0))(flambeau.zeros(0, 2, 3))
    assert found.shape == (0, 2)


def test_keywords_are_the_same_for_all_slices():
    x = real(3, 3)
    close(vmap(lambda a, b=None: a + b)(x, b=x), x[:, None] + x)


WRONG = {
    "no inputs": (lambda x: vmap(lambda a: a)(), ValueError, "got no inputs"),
    "a number": (lambda x: vmap(lambda a: a)(3), ValueError, "We cannot vmap over non-Tensor"),
    "dimension": (lambda x: vmap(lambda a: a, in_dims=5)(x), ValueError, "Got in_dim=5"),
    "structure": (lambda x: vmap(lambda a: a, in_dims=(0, 0))(x), ValueError, "in_dims is not compatible"),
    "kind": (lambda x: vmap(lambda a: a, in_dims=[0])(x), ValueError, "expected `in_dims` to be int or a"),
    "text": (lambda x: vmap(lambda a: a, in_dims=("a",))(x), ValueError, "Got in_dim=a"),
    "sizes": (
        lambda x: vmap(lambda a, b: a, in_dims=(0, 1))(x, x),
        ValueError,
        "Expected all tensors to have the same size",
    ),
    "nothing": (lambda x: vmap(lambda a: a, in_dims=(None,))(x), ValueError, "Expected at least one Tensor"),
    "no tensor": (lambda x: vmap(lambda a: 3)(x), ValueError, "must only return Tensors"),
    "batched": (lambda x: vmap(lambda a: a, out_dims=None)(x), ValueError, "can not return a BatchedTensor"),
    "results": (
        lambda x: vmap(lambda a: (a, a), out_dims=(0, 0, 0))(x),
        ValueError,
        "out_dims is not compatible",
    ),
    "result dimension": (lambda x: vmap(lambda a: a, out_dims=5)(x), IndexError, "Dimension out of range"),
    "result text": (
        lambda x: vmap(lambda a: a, out_dims="a")(x),
        ValueError,
        "`out_dims` must be an int, None",
    ),
    "chunk": (
        lambda x: vmap(lambda a: a, chunk_size=0)(x),
        ValueError,
        "chunk_size should be None or greater",
    ),
    "randomness": (
        lambda x: vmap(lambda a: a, randomness="x")(x),
        RuntimeError,
        "Only allowed values for randomness",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name):
    call, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        call(flambeau.ones(3, 2))


def test_classes_are_asked_only_while_a_mapped_tensor_lives():
    """In a process of its own, where no test has classes that are asked."""
    program = """
import gc
gc.disable()  # no cycles are made, which would keep all slices in memory
import flambeau
from flambeau.core.call.interceptors import has_interceptors
from flambeau import vmap
x = flambeau.ones(3, 2)
try:
    vmap(lambda a: 1 / 0)(x)
except ZeroDivisionError:
    pass
assert not has_interceptors()
vmap(vmap(lambda a: (a * 2 + x.sum()).sin()))(x)
vmap(flambeau.func.grad(lambda a: (a @ x.mT).softmax(0)[0]))(x)
vmap(flambeau.func.grad(lambda a: flambeau.nn.functional.layer_norm(a, (2,)).prod(0)))(x)
assert not has_interceptors()
kept = []
vmap(lambda a: kept.append(a) or a)(x)
assert has_interceptors()
try:
    kept[0] + 1
    raise AssertionError("a tensor that escaped was used")
except RuntimeError as error:
    assert "escaped" in str(error)
kept.clear()
assert not has_interceptors()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# --- nesting ---
def test_masks_by_index_arithmetic():
    """As libraries make attention masks: four mapped functions over indices."""
    padding = flambeau.tensor([[True] * 5, [True, True, True, False, False]])

    def mask(b, h, q, k):
        return (k <= q) & padding[b, k] & (h >= 0)

    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        mask = vmap(mask, in_dims=dims, out_dims=0)
    found = mask(flambeau.arange(2), flambeau.arange(3), flambeau.arange(5), flambeau.arange(5))
    causal = np.tril(np.ones((5, 5), dtype=bool))
    np.testing.assert_array_equal(
        found.numpy(), np.broadcast_to((causal & padding.numpy()[:, None])[:, None], (2, 3, 5, 5))
    )


def test_mapped_functions_nest_with_shared_and_own_arguments():
    x, y = real(3, 2), real(4, 2)
    pairs = vmap(vmap(lambda a, b: (a - b).square().sum(), in_dims=(None, 0)), in_dims=(0, None))
    close(pairs(x, y), (x[:, None] - y).square().sum(-1))


def test_promotion_sees_slices():
    x = flambeau.arange(3, dtype=flambeau.float64)
    y = flambeau.ones(2)
    assert vmap(lambda a: a * y)(x).dtype == flambeau.float32  # a number without dimensions does not widen
    assert vmap(lambda a: a * flambeau.ones((), dtype=flambeau.float32))(x).dtype == flambeau.float64


# --- indexing ---
KEYS = {
    "numbers": lambda x, i, j: x[1, ..., 0],
    "slices": lambda x, i, j: x[:, None, 1:, ::2],
    "own index": lambda x, i, j: x[i],
    "own index behind": lambda x, i, j: x[:, i],
    "two own": lambda x, i, j: x[i, j],
    "apart": lambda x, i, j: x[i, :, j],
    "with a number": lambda x, i, j: x[i, 1, j],
    "shared": lambda x, i, j: x[:, :, flambeau.tensor([0, 1, 1])],
    "shared apart": lambda x, i, j: x[flambeau.tensor([0, 1]), :, flambeau.tensor([0, 1])],
    "both": lambda x, i, j: x[:, i, flambeau.tensor([[0], [2]])],
    "mask shared": lambda x, i, j: x[flambeau.tensor([True, False, True])],
    "element": lambda x, i, j: x[i[0], j[1]],
    "list": lambda x, i, j: x[[0, 2], 1],
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("shared", [None, 0, 1])
def test_keys(name, shared):
    x, i, j = real(4, 3, 3, 4), flambeau.randint(0, 3, (4, 2)), flambeau.randint(0, 3, (4, 2))
    given = [x, i, j]
    dims = [0, 0, 0]
    if shared is not None:
        given[shared], dims[shared] = given[shared][0], None
    if shared == 0 and not name.startswith(("own", "two", "apart", "with", "both", "element")):
        dims[0], given[0] = 0, x
    expected = [KEYS[name](*(g if d is None else g[k] for g, d in zip(given, dims))) for k in range(4)]
    close(vmap(KEYS[name], in_dims=tuple(dims))(*given), flambeau.stack(expected))


WRITES = {
    "number": lambda x, i, v: x.__setitem__((i[0], 1), 5.0),
    "slice": lambda x, i, v: x.__setitem__((slice(None), slice(0, 4)), v[0]),
    "index": lambda x, i, v: x.__setitem__(i, v),
    "index behind": lambda x, i, v: x.__setitem__((slice(None), i), v[0, :2] * 2),
    "mask": lambda x, i, v: x.__setitem__(x > 0, 0.0),
    "mask tensor": lambda x, i, v: x.__setitem__(x > 0, v[0, 0]),
    "add": lambda x, i, v: x.index_put_((i,), v, accumulate=True),
    "add_": lambda x, i, v: x.add_(v[0]).mul_(2),
    "view": lambda x, i, v: x.mT[1].copy_(v[0, :3]),
    "fill": lambda x, i, v: x.masked_fill_(x > 0, 3.0),
    "scatter": lambda x, i, v: x.scatter_(0, i.unsqueeze(1).expand(2, 4), v),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_those_of_the_loop(name):
    x, i, v = real(4, 3, 4), flambeau.tensor([[0, 2], [1, 0], [2, 1], [0, 1]]), real(4, 2, 4)

    def written(x, i, v):
        x = x.clone()
        WRITES[name](x, i, v)
        return x

    close(vmap(written)(x, i, v), flambeau.stack([written(x[k], i[k], v[k]) for k in range(4)]))


def test_shapes_may_change_in_place():
    def f(x):
        x = x.clone()
        x.unsqueeze_(0).transpose_(0, 1).t_().squeeze_(0)
        return x * 2

    x = real(3, 4)
    close(vmap(f)(x), x * 2)


def test_a_write_that_would_need_a_value_for_each_slice_is_refused():
    x, y = real(3, 2), real(2)
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(lambda a: y.add_(a))(x)
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(lambda a: y.__setitem__(0, a[0]))(x)
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(lambda a: flambeau.add(a, 1, out=y))(x)


REFUSED = {
    "item": lambda a: a[0].item(),
    "float": lambda a: flambeau.tensor(float(a[0])),
    "bool": lambda a: a if a.sum() > 0 else -a,
    "numpy": lambda a: a.numpy(),
    "memory": lambda a: a.data_ptr(),
    "allclose": lambda a: flambeau.allclose(a, a),
    "mask": lambda a: a[a > 0],
    "unique": lambda a: a.unique(),
    "places": lambda a: flambeau.where(a > 0),
    "nonzero": lambda a: a.nonzero(),
    "range": lambda a: flambeau.arange(a[0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_one_value_is_refused(name):
    with pytest.raises((RuntimeError, NotImplementedError), match="vmap"):
        vmap(REFUSED[name])(flambeau.ones(3, 2))


def test_what_has_no_rule_says_so_and_is_right():
    x, i = real(3, 4), flambeau.tensor([[0, 1], [1, 2], [3, 3]])
    with pytest.warns(UserWarning, match="batching rule for index_fill"):
        found = vmap(lambda a, i: a.index_fill(0, i, 0.0))(x, i)
    close(found, flambeau.stack([x[k].index_fill(0, i[k], 0.0) for k in range(3)]))


# --- derivatives ---
def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double(), (5, 4)


def cnn():
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 2, groups=2), nn.Flatten()
    )
    return nn.Sequential(net, nn.GroupNorm(2, 36), nn.Linear(36, 3)).double(), (3, 2, 8, 8)


def transformer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(24, 3)).double(), (3, 3, 8)


def embedding():
    net = nn.Sequential(nn.Embedding(7, 4, padding_idx=0), nn.LayerNorm(4), nn.Flatten(), nn.Linear(12, 3))
    return net.double(), None


@pytest.mark.parametrize("model", [mlp, cnn, transformer, embedding])
def test_gradients_of_each_sample(model):
    net, shape = model()
    x = flambeau.tensor([[0, 1, 2], [3, 3, 0], [6, 5, 1]]) if shape is None else real(*shape)
    y = flambeau.arange(len(x)) % 3
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(p, x, y):
        return F.cross_entropy(functional_call(net, p, (x[None],)), y[None])

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one call each, no loops
        found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    each = [grad(loss)(parameters, x[k], y[k]) for k in range(len(x))]
    for name in parameters:
        close(found[name], flambeau.stack([e[name] for e in each]))


def test_an_ensemble_of_modules():
    models = [nn.Linear(3, 2).double() for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    x = real(5, 3)
    found = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(
        parameters, buffers, x
    )
    close(found, flambeau.stack([m(x) for m in models]))
    found.sum().backward()
    assert parameters["weight"].grad.shape == (4, 2, 3)


def curve(x):
    return (x.sin() * x.sum()).cumsum(0)


def test_derivatives_inside_and_outside():
    x, v = real(4, 3), real(4, 3)
    close(vmap(jacrev(curve))(x), flambeau.stack([jacrev(curve)(a) for a in x]))
    close(vmap(jacfwd(curve))(x), flambeau.stack([jacrev(curve)(a) for a in x]))
    close(
        vmap(hessian(lambda a: curve(a).sum()))(x),
        flambeau.stack([hessian(lambda a: curve(a).sum())(a) for a in x]),
    )
    out, moved = jvp(vmap(curve), (x,), (v,))
    close(moved, flambeau.stack([jvp(curve, (a,), (b,))[1] for a, b in zip(x, v)]))
    close(vmap(lambda a, b: jvp(curve, (a,), (b,))[1])(x, v), moved)
    close(vmap(lambda b: jvp(curve, (x[0],), (b,))[1])(v), v @ jacrev(curve)(x[0]).mT)
    pull = vjp(curve, x[0])[1]
    close(vmap(lambda b: pull(b)[0])(v), v @ jacrev(curve)(x[0]))
    close(
        grad(lambda a: vmap(curve)(a).square().sum())(x),
        flambeau.stack([grad(lambda b: curve(b).square().sum())(a) for a in x]),
    )
    twice = vmap(grad(lambda a: grad(lambda b: curve(b).sum())(a).square().sum()))(x)
    close(
        twice,
        flambeau.stack([grad(lambda a: grad(lambda b: curve(b).sum())(a).square().sum())(a) for a in x]),
    )


def test_rows_of_a_jacobian_by_autograd():
    x = real(3).requires_grad_()
    y = curve(x)
    rows = vmap(lambda v: flambeau.autograd.grad(y, x, v, retain_graph=True)[0])(flambeau.eye(3, dtype=REAL))
    close(rows, jacrev(curve)(x.detach()))


def test_jacobians_in_chunks_and_with_several_outputs():
    x = real(6)

    def f(a):
        return curve(a), {"b": a[:2].exp().softmax(0)}

    whole = jacrev(f)(x)
    for size in (1, 2, 4, 100):
        part = jacrev(f, chunk_size=size)(x)
        close(part[0], whole[0])
        close(part[1]["b"], whole[1]["b"])
    with pytest.raises(ValueError, match="chunk_size"):
        jacrev(f, chunk_size=0)


def test_second_derivatives_go_through_rows_sent_back_together():
    x = real(2, 4)

    def f(a):
        return F.layer_norm(a.softmax(-1), (4,)).reshape(-1) * a.log_softmax(0).sum()

    def of_rows(chunk):
        return lambda a: jacrev(f, chunk_size=chunk)(a).square().sum()

    close(grad(of_rows(None))(x), grad(of_rows(1))(x))


def test_gradients_of_leaves_around():
    w = real(3).requires_grad_()
    x = real(5, 3)
    vmap(lambda a: (a * w).sin().sum())(x).sum().backward()
    close(w.grad, (x * (x * w.detach()).cos()).sum(0))


# --- functions of programs ---
class Cube(flambeau.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, k):
        return x**3 * k, x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x * ctx.k + 2 * h, None

    @staticmethod
    def jvp(ctx, t, _):
        (x,) = ctx.saved_tensors
        return 3 * x * x * t * ctx.k, 2 * t


def test_a_function_whose_rule_is_made():
    x = real(4, 3)
    close(vmap(lambda a: Cube.apply(a, 2)[0])(x), 2 * x**3)
    close(vmap(grad(lambda a: Cube.apply(a, 2)[0].sum()))(x), 6 * x**2)
    close(vmap(grad(lambda a: grad(lambda b: Cube.apply(b, 2)[0].sum())(a).sum()))(x), 12 * x)
    close(vmap(lambda a: jvp(lambda b: Cube.apply(b, 2)[0], (a,), (a,))[1])(x), 6 * x**3)
    shared = real(3).requires_grad_()
    vmap(lambda a: (Cube.apply(shared, 1)[0] * a).sum())(x).sum().backward()
    close(shared.grad, 3 * shared.detach() ** 2 * x.sum(0))


class Scaled(flambeau.autograd.Function):
    seen: list = []

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def vmap(info, in_dims, x, y):
        Scaled.seen.append((info.batch_size, info.randomness, in_dims))
        return Scaled.apply(x.movedim(in_dims[0], 0), y), 0


def test_a_function_with_a_rule_of_its_own():
    x, y = real(4, 3), real(3)
    close(vmap(Scaled.apply, in_dims=(0, None))(x, y), x * y)
    assert Scaled.seen[-1] == (4, "error", (0, None))


class Ruleless(flambeau.autograd.Function):
    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class Old(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x


@pytest.mark.parametrize(
    "cls, text", [(Ruleless, "does not have vmap support"), (Old, "setup_context staticmethod")]
)
def test_functions_without_a_rule_are_refused(cls, text):
    with pytest.raises(RuntimeError, match=text):
        vmap(cls.apply)(real(3))


def test_an_operation_that_a_program_added():
    seen = []

    @flambeau.library.custom_op("mapped::cube", mutates_args=())
    def cube(x: flambeau.Tensor) -> flambeau.Tensor:
        return x**3

    x = real(4, 3)
    with pytest.warns(UserWarning, match="batching rule for cube"):
        close(vmap(cube)(x), x**3)

    def rule(info, in_dims, x):
        seen.append((info.batch_size, in_dims))
        return cube(x), in_dims[0]

    cube.register_vmap(rule)
    cube.register_autograd(
        lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    close(vmap(cube, in_dims=1)(x), x.mT**3)
    close(vmap(grad(lambda a: cube(a).sum()))(x), 3 * x**2)
    assert seen == [(3, (0,)), (4, (0,))]


# --- random numbers ---
DRAWS = {
    "rand": lambda x: flambeau.rand(4),
    "randn_like": lambda x: flambeau.randn_like(x),
    "dropout": lambda x: F.dropout(flambeau.ones(4)),
    "dropout of slices": lambda x: F.dropout(x * 0 + 1),
    "normal_": lambda x: flambeau.empty_like(x).normal_(),
    "randperm": lambda x: flambeau.randperm(9),
    "randint": lambda x: flambeau.randint(0, 1000, (4,)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_operations(name):
    x = flambeau.ones(3, 4)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(DRAWS[name])(x)
    same = vmap(DRAWS[name], randomness="same")(x)
    assert (same == same[0]).all()
    if name == "dropout":
        return
    draws = [vmap(DRAWS[name], randomness="different")(x) for _ in range(4)]
    assert any(not (d == d[0]).all() for d in draws)


def test_layers_that_do_not_draw_are_no_random_operations():
    x = real(3, 4)
    close(vmap(lambda a: F.dropout(a, training=False))(x), x)


def test_random_numbers_of_nested_functions():
    outer = vmap(lambda a: vmap(lambda b: flambeau.rand(2), randomness="same")(a), randomness="different")
    found = outer(flambeau.ones(3, 4))
    assert found.shape == (3, 4, 2)
    assert (found == found[:, :1]).all() and not (found == found[:1]).all()


def test_numbers_for_each_slice_need_a_tensor_for_each():
    y = flambeau.zeros(2)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(lambda a: y.normal_(), randomness="different")(flambeau.ones(3))
    with pytest.raises(RuntimeError, match="same randomness with a batched"):
        vmap(lambda a: flambeau.bernoulli(a), randomness="same")(flambeau.ones(3, 2))


# --- layers ---
def test_batch_norm_needs_running_statistics_for_each_slice():
    x = flambeau.randn(3, 5, 4)
    with pytest.raises(RuntimeError, match="Batch norm got a batched tensor"):
        vmap(nn.BatchNorm1d(4))(x)
    for layer in (nn.BatchNorm1d(4).eval(), nn.BatchNorm1d(4, track_running_stats=False)):
        flambeau.testing.assert_close(vmap(layer)(x), flambeau.stack([layer(a) for a in x]))


def test_what_a_slice_says_of_itself():
    def f(a):
        assert a.shape == (2, 4) and a.ndim == 2 and a.numel() == 8 and len(a) == 2 and a.is_contiguous()
        assert a.device.type == "cpu" and a.stride() == (4, 1) and isinstance(a, flambeau.Tensor)
        assert "BatchedTensor" in repr(a)
        return sum(row for row in a)

    x = real(3, 2, 4)
    close(vmap(f)(x), x.sum(1))


def test_a_pointwise_operation_is_one_call():
    calls = []

    class Counted(flambeau.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = real(100, 3)
    with Counted():
        vmap(lambda a: a.sin())(x)
    assert calls == ["sin"]


def test_partial_functions_and_modules_are_named():
    part = functools.partial(lambda a, b: 3, 1)
    with pytest.raises(ValueError, match="functools.partial"):
        vmap(part)(real(2))
    assert vmap(nn.Linear(3, 2))(flambeau.ones(4, 3)).shape == (4, 2)


@pytest.mark.parametrize(
    "name", ["median", "nanmedian", "max", "sum", "var", "softmax", "cumsum", "logsumexp"]
)
def test_arguments_by_name_are_those_by_position(name):
    x = flambeau.arange(24.0).reshape(2, 3, 4).cos()
    function = getattr(flambeau, name)
    found, expected = (
        flambeau.vmap(lambda t: function(t, dim=1))(x),
        flambeau.vmap(lambda t: function(t, 1))(x),
    )
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, expected)), strict=True):
        assert flambeau.equal(a, b)
