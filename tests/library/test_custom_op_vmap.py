"""Operations of programs inside of `vmap`."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flambeau
from flambeau import Tensor
from flambeau.library import Library, custom_op, register_vmap


@custom_op("tests_vmap::cube", mutates_args=())
def cube(x: Tensor, *, by: float = 1.0) -> tuple[Tensor, Tensor]:
    x = x.numpy()
    return flambeau.from_numpy(by * x**3), flambeau.from_numpy(3 * by * x**2)


cube.register_autograd(
    lambda ctx, g, _: g * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, keyword_only_inputs, output: ctx.save_for_backward(output[1]),
)
SEEN = []


@cube.register_vmap
def _(info, in_dims, x, by=1.0):
    SEEN.append((info.batch_size, info.randomness, in_dims, tuple(x.shape), by))
    return cube(x, by=by), (in_dims[0], in_dims[0])


def test_the_registered_rule_runs_once_for_all_slices():
    SEEN.clear()
    x = flambeau.arange(6.0).view(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result, slopes = flambeau.vmap(lambda t: cube(t, by=2.0), in_dims=1, randomness="same")(x)
    assert flambeau.equal(result, 2 * x.T**3) and flambeau.equal(slopes, 6 * x.T**2)
    assert SEEN == [(2, "same", (0,), (2, 3), 2.0)]


def test_levels_and_derivatives():
    x = flambeau.arange(6.0).view(3, 2)
    twice = flambeau.vmap(flambeau.vmap(lambda t: cube(t)[0]))(x)
    assert flambeau.equal(twice, x**3)
    gradients = flambeau.vmap(flambeau.func.grad(lambda t: cube(t)[0].sum()))(x)
    assert flambeau.allclose(gradients, 3 * x**2)
    leaf = x.clone().requires_grad_()
    flambeau.vmap(lambda t: cube(t)[0])(leaf).sum().backward()
    assert flambeau.allclose(leaf.grad, 3 * x**2)


def test_arguments_that_are_not_mapped_and_lists():
    @custom_op("tests_vmap::weighted", mutates_args=())
    def weighted(xs: list[Tensor], w: Tensor) -> Tensor:
        return flambeau.from_numpy(sum(x.numpy() for x in xs) * w.numpy())

    @register_vmap("tests_vmap::weighted")
    def _(info, in_dims, xs, w):
        dims, of_w = in_dims
        assert dims == [0, None] and of_w is None
        return weighted([xs[0], xs[1].expand_as(xs[0])], w), 0

    x, y, w = flambeau.ones(3, 2), flambeau.ones(2), flambeau.tensor([2.0, 3.0])
    result = flambeau.vmap(lambda t: weighted([t, y], w))(x)
    assert result.tolist() == [[4.0, 6.0]] * 3


def test_without_a_rule_slice_by_slice_with_a_warning():
    @custom_op("tests_vmap::sine", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        assert x.ndim == 1
        return flambeau.from_numpy(np.sin(x.numpy()))

    x = flambeau.rand(3, 2)
    with pytest.warns(UserWarning, match="performance drop.*sine"):
        assert flambeau.allclose(flambeau.vmap(sine)(x), x.sin())
    sine.register_vmap(lambda info, in_dims, x: (x.sin(), 0))  # also after it has run without
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flambeau.allclose(flambeau.vmap(sine)(x), x.sin())


def test_functions_of_other_operations_are_mapped_by_those():
    lib = Library("tests_vmap_parts", "DEF")
    lib.define("norm(Tensor x) -> Tensor")
    lib.impl("norm", lambda x: (x * x).sum().sqrt())
    x = flambeau.rand(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flambeau.allclose(flambeau.vmap(flambeau.ops.tests_vmap_parts.norm)(x), x.norm(dim=1))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_writes_go_to_each_slice_or_are_refused():
    @custom_op("tests_vmap::add_to", mutates_args={"x"})
    def add_to(x: Tensor, y: Tensor) -> None:
        x.numpy()[...] += y.numpy()

    def function(x, y):
        add_to(x, y)
        return x

    x = flambeau.zeros(3, 2)
    flambeau.vmap(function)(x, flambeau.arange(3.0))
    assert x.tolist() == [[0.0] * 2, [1.0] * 2, [2.0] * 2]
    with pytest.raises(RuntimeError, match="vmap: inplace"):
        flambeau.vmap(function, in_dims=(None, 0))(flambeau.zeros(2), flambeau.arange(3.0))


@pytest.mark.parametrize(
    "answer, said",
    [
        (lambda x: x, "to return two values"),
        (lambda x: (x.sum(), 0), "."),
        (lambda x: ([x, x], (0,)), "they must match"),
    ],
)
def test_rules_that_answer_wrongly(answer, said):
    @custom_op("tests_vmap::wrong", mutates_args=())
    def wrong(x: Tensor) -> Tensor:
        return x.clone()

    wrong.register_vmap(lambda info, in_dims, x: answer(x))
    with pytest.raises((RuntimeError, IndexError), match=said):
        flambeau.vmap(wrong)(flambeau.ones(3, 2))


def test_named_tensors_have_no_rule():
    flambeau.library.define("tests_vmap::named", "(Tensor x, *, Tensor y) -> Tensor")
    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        register_vmap("tests_vmap::named", lambda *given: None)
