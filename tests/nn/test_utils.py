"""nn.utils: clipping of gradients and parameters as one vector."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import utils


def with_grads(*grads):
    parameters = []
    for grad in grads:
        parameter = nn.Parameter(flambeau.zeros(len(grad)))
        parameter.grad = flambeau.tensor(grad)
        parameters.append(parameter)
    return [*parameters, nn.Parameter(flambeau.zeros(2))]  # the last one has no gradient


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3, math.inf])
def test_clip_grad_norm(norm_type):
    grads = [[3.0, -4.0], [12.0]]
    joined = np.array([3.0, -4.0, 12.0])
    norm = np.linalg.norm(joined, norm_type)
    parameters = with_grads(*grads)
    total = utils.clip_grad_norm_(iter(parameters), 2.0, norm_type)
    assert abs(float(total) - norm) < 1e-5 * norm and tuple(total.shape) == ()
    clipped = np.concatenate([p.grad.numpy() for p in parameters[:-1]])
    assert np.allclose(clipped, joined * 2 / norm, rtol=1e-5)
    assert float(utils.get_total_norm([p.grad for p in parameters[:-1]], norm_type)) == pytest.approx(
        2, rel=1e-5
    )


def test_small_gradients_are_left_alone():
    parameters = with_grads([0.25, 0.5])
    assert float(utils.clip_grad_norm_(parameters[0], 2.0)) == pytest.approx(math.sqrt(0.3125))
    assert parameters[0].grad.tolist() == [0.25, 0.5]
    assert float(utils.clip_grad_norm_([], 1.0)) == 0.0


def test_non_finite_norm():
    parameters = with_grads([math.inf, 1.0])
    with pytest.raises(
        RuntimeError, match="The total norm of order 2.0 .* is non-finite, so it cannot be clipped"
    ):
        utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert parameters[0].grad.tolist() == [math.inf, 1.0]
    assert float(utils.clip_grad_norm_(parameters, 1.0)) == math.inf
    assert parameters[0].grad.tolist()[1] == 0.0


def test_clip_grad_value():
    parameters = with_grads([3.0, -0.25], [-7.0])
    utils.clip_grad_value_(parameters, 0.5)
    assert [p.grad.tolist() for p in parameters[:-1]] == [[0.5, -0.25], [-0.5]]
    assert parameters[-1].grad is None


def test_parameters_as_a_vector_and_back():
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    assert np.allclose(
        vector.detach().numpy(),
        np.concatenate([net.weight.detach().numpy().ravel(), net.bias.detach().numpy()]),
    )
    vector.sum().backward()
    assert net.weight.grad.tolist() == [[1.0, 1.0]] * 3
    utils.vector_to_parameters(flambeau.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] and net.bias.tolist() == [
        6.0,
        7.0,
        8.0,
    ]
    assert net.weight.requires_grad and type(net.weight) is nn.Parameter
    with pytest.raises(TypeError, match="but got: list"):
        utils.vector_to_parameters([1.0], net.parameters())
