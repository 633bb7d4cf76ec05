"""Leaves that stand in programs as the operations that they call."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record
from flambeau.operations.declare.registry import REGISTRY

F = flambeau.nn.functional


def numbers(*shape, seed=0, dtype=flambeau.float32):
    return flambeau.tensor(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def with_gradients(function, *places):
    def step(*tensors):
        given = [t.detach().requires_grad_() if k in places else t for k, t in enumerate(tensors)]
        found = function(*given)
        return (found.detach(), *flambeau.autograd.grad(found.square().sum(), [given[k] for k in places]))

    return step


PROGRAMS = {
    "layer_norm": (lambda x: F.layer_norm(x, (6,)), (4, 6)),
    "layer_norm with weights": (lambda x, w, b: F.layer_norm(x, (6,), w, b), (2, 4, 6), (6,), (6,)),
    "layer_norm of two dimensions": (lambda x, w: F.layer_norm(x, (4, 6), w), (3, 4, 6), (4, 6)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (6,), w), (4, 6), (6,)),
    "instance_norm": (lambda x: F.instance_norm(x), (2, 3, 5)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (3, 4, 5), (4,), (4,)),
    "batch_norm in eval": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v.abs() + 0.1, w, b),
        (2, 3, 4, 5),
        (3,),
        (3,),
        (3,),
        (3,),
    ),
    "batch_norm in training": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (4, 3, 5),
        (3,),
        (3,),
    ),
    "one of a view": (lambda x: F.layer_norm(x[:, 2:8], (6,)), (4, 9)),
}


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.bfloat16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_and_backward_are_those_of_the_leaf(name, dtype):
    function, *shapes = PROGRAMS[name]
    step = with_gradients(function, 0)
    program = Program(record(step, *(numbers(*s, seed=k, dtype=dtype) for k, s in enumerate(shapes)))[0])
    names = {c.name for c in program.calls}
    assert not names & {n for n, e in REGISTRY.items() if e.details.get("decomposes")}
    given = [numbers(*s, seed=k + 5, dtype=dtype) for k, s in enumerate(shapes)]
    for runner in (plan(program), plan(Program(record(step, *given)[0]), fused=False)):
        for a, b in zip(runner(*given), step(*given), strict=True):
            assert a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype
            tolerance = 2e-2 if dtype is flambeau.bfloat16 else 1e-5
            np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), rtol=tolerance, atol=tolerance)


def test_a_loss_of_classes_and_its_gradient():
    def step(x, target):
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x, target)
        return loss.detach(), flambeau.autograd.grad(loss, x)[0]

    target = flambeau.tensor([1, 0, 4])
    program = Program(record(step, numbers(3, 5), target)[0])
    assert "class_entropy_backward" not in {c.name for c in program.calls}
    given = numbers(3, 5, seed=3), flambeau.tensor([2, 2, 0])
    for a, b in zip(plan(program)(*given), step(*given), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_results_and_views_of_them_lie_where_the_program_has_them():
    def step(x):
        y, mean, _ = REGISTRY["layer_norm_rows"].function(x[1:], None, None, 1, 1e-5)
        return y.T, mean[:, 0], y

    runner = plan(Program(record(step, numbers(4, 6))[0]))
    given = numbers(4, 6, seed=1)
    for a, b in zip(runner(given), step(given), strict=True):
        assert a.stride() == b.stride()
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


def test_a_query_that_nobody_reads_is_left_out():
    """A query of geometry inside of an operation is no step."""
    runner = plan(
        Program(record(lambda x, m: F.batch_norm(x, m, m + 1), numbers(2, 3, 4), numbers(3).abs())[0])
    )
    assert "is_contiguous" not in repr(runner.steps)


@pytest.mark.parametrize("shape", [(5, 6), (2, 3, 6), (1, 6), (0, 6)])
def test_weights_of_fewer_dimensions_are_read_in_the_rows_kernel(shape):
    given = numbers(*shape), numbers(6, seed=1), numbers(6, seed=2)

    def program(x, w, b):
        return F.layer_norm((x + b).tanh() + x, (6,), w, b) * 2

    runner = plan(Program(record(program, *given)[0]))
    assert repr(runner).startswith("Runner(1 kernel, 0 products, 0 calls")
    found, expected = runner(*given), program(*given)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
