"""Plans: the numbers of eager calls, fused and not, on other tensors than were recorded."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record

F = nn.functional


def planned(function, *tensors, fused=True):
    return plan(Program(record(function, *tensors)[0]), fused)


def numbers(*shape, dtype=flambeau.float32, seed=0):
    return flambeau.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def normalised(x, w, b):
    m = x.mean(-1, keepdim=True)
    v = ((x - m) * (x - m)).mean(-1, keepdim=True)
    return (x - m) * flambeau.rsqrt(v + 1e-5) * w + b


def chunks(x):
    a, b = x.chunk(2, -1)
    return a * b.sigmoid() + x[..., :4].T.sum() - x[1:].amax(0)[:4]


def written(x):
    y = x * 2
    y[1:].add_(1)
    y[0] = 5.0
    return y.exp() + y.sum(0), y


def derivative(function, x, g):
    x = x.detach().requires_grad_()
    return flambeau.autograd.grad(function(x * 2, -1), x, g)[0]


def likelihood(x, target):
    x = x.detach().requires_grad_()
    loss = F.cross_entropy(x * 2, target)
    return loss.detach(), flambeau.autograd.grad(loss, x)[0]


def moments(x, mean):
    """Running statistics, as batch normalisation writes them."""
    own = x.mean(0)
    mean.mul_(0.9).add_(own, alpha=0.1)
    return x - own, mean * 1


def optimiser(p, g, m):
    m.mul_(0.9).add_(g)
    p.sub_(m, alpha=0.1)
    flambeau.mul(g, 0, out=g)
    return p.square().sum()


PROGRAMS = {
    "layer norm": (lambda x, r, w: F.layer_norm(F.gelu(x) + r, (5,), w, w * 2), [(3, 4, 5), (4, 5), (5,)]),
    "cross entropy": (lambda x: likelihood(x, flambeau.tensor([1, 0, -100, 4])), [(4, 5)]),
    "a product's operand": (lambda x, w: w.sub_(x @ w), [(5, 5), (5, 5)]),
    "moments": (moments, [(7, 5), (5,)]),
    "optimiser": (optimiser, [(6, 5), (6, 5), (6, 5)]),
    "fills": (lambda x: flambeau.full_like(x, 2.5) + x.new_zeros(5) - flambeau.ones(5), [(4, 5)]),
    "copies": (lambda x: x.T.contiguous().clone() * x[:4].T.half().float(), [(4, 5)]),
    "softmax's derivative": (lambda x, g: derivative(flambeau.softmax, x, g), [(4, 5), (4, 5)]),
    "moments of rows": (lambda x: (x.var(-1, correction=0), x.logsumexp(-1), x.norm(dim=0)), [(4, 5)]),
    "chain": (lambda x: 0.5 * x * (1 + flambeau.tanh(0.79 * (x + 0.04 * x * x * x))), [(7, 9)]),
    "normalised": (normalised, [(6, 33), (33,), (33,)]),
    "masked softmax": (lambda s: (s * 0.1).masked_fill(s > 1, float("-inf")).softmax(-1), [(3, 5, 7)]),
    "likelihood": (
        lambda x: -F.log_softmax(x * 0.5, -1).gather(1, flambeau.tensor([[1], [0]])).mean(),
        [(2, 5)],
    ),
    "chunks": (chunks, [(5, 8)]),
    "written": (written, [(4, 3)]),
    "scattered rows": (lambda x: (x + 1).sum((0, 2, 4)), [(2, 3, 2, 3, 2)]),
    "columns": (lambda x: (x - x.mean(0)) / x.std(0), [(31, 17)]),
    "scalar": (lambda x: x / x.sum() + x.amax(), [(3, 4)]),
    "integers": (lambda x: ((x * 3).int() // 2 % 3).float() + (x > 0).sum(), [(3, 4)]),
    "products": (lambda x, w: F.gelu(F.linear(x.relu(), w)), [(4, 6), (5, 6)]),
    "lists": (lambda x: flambeau.stack([x.cos(), flambeau.cat([x, x], 1)[:, :4]]), [(3, 4)]),
    "drawn": (lambda x: x + 0 * flambeau.rand(3, 4, generator=flambeau.Generator()), [(3, 4)]),
    "several": (lambda x: (x.max(1), x.sort(0), x + 1, x.T), [(3, 4)]),
    "empty": (lambda x: (x + 1).sum(1) * 2, [(0, 4)]),
    "empty rows": (lambda x: (x + 1).sum(1) * 2, [(3, 0)]),
    "0-dim": (lambda x: (x + 1).exp() * 2, [()]),
    "same": (lambda x: x.contiguous(), [(3,)]),
}


def flat(x):
    if isinstance(x, flambeau.Tensor):
        return [x]
    return [t for y in x for t in flat(y)]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_gives_the_programs_numbers(name, fused):
    function, shapes = PROGRAMS[name]
    runner = planned(function, *(numbers(*s) for s in shapes), fused=fused)
    given = [numbers(*s, seed=k + 1) for k, s in enumerate(shapes)]
    expected = flat(function(*(t.clone() for t in given)))
    for _ in range(2):  # a second run finds nothing of the first
        for a, b in zip(flat(runner(*(t.clone() for t in given))), expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
            if fused:
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-6, atol=1e-6)
            else:
                np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16, flambeau.float64])
def test_halves_round_between_calls_as_in_eager(dtype):
    function = lambda x: ((x * 1.1 + 3).exp() * 0.01 - x).sigmoid()
    x, y = numbers(50, dtype=dtype), numbers(50, dtype=dtype, seed=1)
    np.testing.assert_array_equal(planned(function, x)(y).double().numpy(), function(y).double().numpy())


@pytest.mark.parametrize("to", "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split())
def test_conversions_are_part_of_a_kernel(to):
    dtype = getattr(flambeau, to)
    function = lambda x: (x * 3).to(dtype).T.float() + 1
    runner = planned(function, numbers(5, 7))
    x = numbers(5, 7, seed=1)
    np.testing.assert_array_equal(runner(x).numpy(), function(x).numpy())
    assert len(runner.steps) <= 2 and all("Call" not in repr(step) for step in runner.steps)


def test_special_values_are_those_of_eager():
    x = flambeau.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e38, 1e-45])
    function = lambda x: (x * 2).maximum(x) / x.abs() + x.sign().copysign(x)
    np.testing.assert_array_equal(planned(function, flambeau.ones(7))(x).numpy(), function(x).numpy())


def test_a_step_with_gradients():
    def step(x, y, *weights):
        a, b, c, d = weights
        loss = F.cross_entropy(F.linear(F.relu(F.linear(x, a, b)), c, d), y)
        return tuple((w - 0.1 * g).detach() for w, g in zip(weights, flambeau.autograd.grad(loss, weights)))

    def made(seed):
        shapes = [(8, 16), (32, 16), (32,), (10, 32), (10,)]
        x, *weights = [numbers(*s, seed=seed + k) for k, s in enumerate(shapes)]
        return x, flambeau.arange(8), *(w.requires_grad_() for w in weights)

    runner = planned(step, *made(0))
    for a, b in zip(runner(*made(10)), step(*made(10)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-7)
        assert not a.requires_grad


def test_a_backward_pass_through_a_join_records_its_node():
    def gradient(x):
        x = x.detach().requires_grad_()
        a, b = (x * 2).chunk(2)
        return flambeau.autograd.grad((a * b.mT.mT.sin()).sum(), x)[0]

    runner = planned(gradient, numbers(6, 3))
    x = numbers(6, 3, seed=1)
    np.testing.assert_allclose(runner(x).numpy(), gradient(x).numpy(), rtol=1e-6)


def test_forty_operations_are_one_launch():
    def body(x, y):
        for _ in range(10):
            x = (x * 1.01 + y).tanh() - 0.1
        return x

    runner = planned(body, numbers(64), numbers(64))
    assert len(runner.steps) == 1 and runner.nbytes == 0


def test_runs_are_apart_in_threads_and_inside_one_another():
    function = lambda x: ((x @ x).relu() @ x + 1).softmax(-1)
    runner = planned(function, numbers(16, 16))
    inputs = [numbers(16, 16, seed=k) for k in range(4)]
    expected = [function(x).numpy() for x in inputs]
    wrong = []

    def work(k):
        for _ in range(50):
            if not np.allclose(runner(inputs[k]).numpy(), expected[k], rtol=1e-5, atol=1e-6):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_the_bits_do_not_depend_on_the_number_of_threads():
    function = lambda x: (x * 2 + 1).softmax(-1).sum() + x.exp()
    runner = planned(function, numbers(400, 300))
    x, before = numbers(400, 300, seed=1), flambeau.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            found.append(runner(x).numpy().copy())
    finally:
        flambeau.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(
    "given",
    [
        (flambeau.ones(3, 2),),
        (flambeau.ones(2, 3, dtype=flambeau.float64),),
        (flambeau.ones(3, 2).T,),
        (flambeau.ones(2, 3, device="meta"),),
        (flambeau.ones(2, 3), flambeau.ones(2, 3)),
        (),
        (3.0,),
    ],
)
def test_other_tensors_are_refused(given):
    runner = planned(lambda x: x + 1, flambeau.ones(2, 3))
    with pytest.raises(TypeError, match="the plan (was made for|takes)"):
        runner(*given)
    assert runner(flambeau.zeros(2, 3)).sum() == 6


def test_a_shape_that_depends_on_values_is_seen():
    runner = planned(lambda x: x.nonzero(), flambeau.tensor([0.0, 1.0, 1.0]))
    assert runner(flambeau.tensor([1.0, 0.0, 1.0])).tolist() == [[0], [2]]
    with pytest.raises(RuntimeError, match="depends on values"):
        runner(flambeau.tensor([1.0, 1.0, 1.0]))


def test_an_error_in_a_step_leaves_modes_as_they_were():
    runner = planned(lambda x: flambeau.linalg.cholesky(x) + 1, flambeau.eye(2))
    with pytest.raises(flambeau.linalg.LinAlgError):
        runner(-flambeau.eye(2))
    assert flambeau.is_grad_enabled()
    assert runner(flambeau.eye(2)).tolist() == [[2, 1], [1, 2]]


def test_results_are_new_and_the_arena_is_reused():
    runner = planned(lambda x: ((x @ x) @ x) @ x + 0, numbers(32, 32))
    x = numbers(32, 32, seed=1)
    a, b = runner(x), runner(x)
    assert a.data_ptr() != b.data_ptr()
    np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_random_numbers_are_drawn_in_the_order_of_the_program():
    def f(x):
        y = x.abs() + 0.5
        z = y + flambeau.rand_like(y)  # waits for the kernel that the next line would be part of
        return y * flambeau.randn(y.shape), z * 2

    compiled = flambeau.compile(f)
    x = flambeau.randn(3, 4)
    for seed in range(3):
        flambeau.manual_seed(seed)
        expected = f(x)
        flambeau.manual_seed(seed)
        for a, b in zip(compiled(x), expected, strict=True):
            assert flambeau.equal(a, b)


SHARED_ENDS = {
    "sum": lambda a, dim: a.exp().tanh().sum(dim),
    "sum of a chain": lambda a, dim: (a.exp() + 1).log().sin().sum(dim),
    "softmax": lambda a, dim: a.exp().tanh().softmax(dim),
    "norm": lambda a, dim: (a.exp().tanh() - a.exp().tanh().mean(dim, keepdim=True)) * a,
}


@pytest.mark.parametrize("end", SHARED_ENDS)
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bfloat16])
@pytest.mark.parametrize("dim", [0, 1])
def test_what_a_chain_of_functions_begins_with_is_a_result_too(end, dtype, dim):
    """A row that is folded over a chain of functions, one of which is an output, in blocks and beyond them."""

    def function(x):
        a = x.tanh()
        return a, SHARED_ENDS[end](a, dim)

    for shape in ((2, 3), (3, 700), (700, 3), (40, 33)):
        x = numbers(*shape, dtype=dtype)
        runner = planned(function, x)
        x = numbers(*shape, dtype=dtype, seed=1)
        for a, b in zip(runner(x), function(x), strict=True):
            flambeau.testing.assert_close(a, b)


ONLY_SHAPES = {
    "of a sum": lambda x: x.pow(3).sum().new_ones(1).cumsum(0),
    "beside elements": lambda x: (x.pow(3).sum().new_ones(1) * 2, x.exp()),
    "of rows": lambda x: (x.outer(x).sum(-1).new_full((len(x),), 3.0).cumsum(0), x * 2),
    "of columns": lambda x: x.outer(x).sum(-1, keepdim=True).new_full((len(x), 1), 3.0).cumsum(0),
    "of rows beside elements": lambda x: (
        (m := x.outer(x) + 1).exp(),
        m.sum(-1, keepdim=True).new_full((len(x), 1), 3.0).cumsum(0),
    ),
}


@pytest.mark.parametrize("name", ONLY_SHAPES)
def test_a_fold_of_which_only_the_shape_is_read(name):
    for n in (2, 5, 300):
        runner, x = planned(ONLY_SHAPES[name], numbers(n)), numbers(n, seed=1)
        flambeau.testing.assert_close(runner(x), ONLY_SHAPES[name](x))
