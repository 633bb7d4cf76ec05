"""nn.init: values, bounds, moments and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau.nn import Parameter, init


def values(tensor):
    return tensor.detach().numpy().astype(np.float64)


@pytest.fixture(autouse=True)
def seed():
    flambeau.manual_seed(0)


def test_gains():
    for name in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose3d", "sigmoid"):
        assert init.calculate_gain(name) == 1
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("selu") == 0.75
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / (1 + 0.01**2))
    assert init.calculate_gain("leaky_relu", 2) == math.sqrt(2 / 5)
    with pytest.raises(ValueError, match="negative_slope True not a valid number"):
        init.calculate_gain("leaky_relu", True)
    with pytest.raises(ValueError, match="Unsupported nonlinearity softmax"):
        init.calculate_gain("softmax")


def test_constants():
    tensor = flambeau.empty(2, 3)
    assert init.constant_(tensor, 2.5) is tensor and (values(tensor) == 2.5).all()
    assert (values(init.ones_(tensor)) == 1).all()
    assert (values(init.zeros_(tensor)) == 0).all()
    for shape in ((3, 4), (4, 3)):
        assert (values(init.eye_(flambeau.full(shape, 7.0))) == np.eye(*shape)).all()


def test_parameters_are_filled_outside_of_the_graph():
    parameter = Parameter(flambeau.empty(4, 4))
    for fill in (init.uniform_, init.normal_, init.trunc_normal_, init.ones_, init.zeros_, init.eye_):
        assert fill(parameter) is parameter and parameter.is_leaf and parameter.requires_grad
    for fill in (init.xavier_uniform_, init.kaiming_normal_, init.orthogonal_):
        assert fill(parameter) is parameter and parameter.grad_fn is None


def test_uniform_and_normal_have_their_moments():
    n = 40_000
    u = values(init.uniform_(flambeau.empty(n), -2.0, 6.0))
    assert u.min() >= -2 and u.max() < 6
    assert abs(u.mean() - 2) < 5 * 8 / math.sqrt(12 * n) and abs(u.std() - 8 / math.sqrt(12)) < 0.05
    x = values(init.normal_(flambeau.empty(n), 3.0, 2.0))
    assert abs(x.mean() - 3) < 5 * 2 / math.sqrt(n) and abs(x.std() - 2) < 0.05


def test_trunc_normal():
    n = 40_000
    x = values(init.trunc_normal_(flambeau.empty(n), 1.0, 2.0, 0.0, 4.0))
    assert x.min() >= 0 and x.max() <= 4

    # mean of a normal restricted to [a, b]: mu + sigma (phi(alpha) - phi(beta)) / (Phi(beta) - Phi(alpha))
    def phi(z):
        return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    def cdf(z):
        return (1 + math.erf(z / math.sqrt(2))) / 2

    alpha, beta = -0.5, 1.5
    assert abs(x.mean() - (1 + 2 * (phi(alpha) - phi(beta)) / (cdf(beta) - cdf(alpha)))) < 0.03
    below = (x < 1).mean()
    assert abs(below - (cdf(0) - cdf(alpha)) / (cdf(beta) - cdf(alpha))) < 0.015
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        far = values(init.trunc_normal_(flambeau.empty(100), 0.0, 1.0, 3.0, 4.0))
    assert far.min() >= 3 and far.max() <= 4 and far.std() > 0


@pytest.mark.parametrize("shape, fan_in, fan_out", [((200, 300), 300, 200), ((40, 50, 3, 5), 750, 600)])
def test_fans(shape, fan_in, fan_out):
    n = math.prod(shape)
    bound = 2 * math.sqrt(6 / (fan_in + fan_out))
    x = values(init.xavier_uniform_(flambeau.empty(shape), gain=2.0))
    assert 0.99 * bound < np.abs(x).max() <= bound * (1 + 1e-6)
    x = values(init.xavier_normal_(flambeau.empty(shape), gain=2.0))
    assert abs(x.std() / (2 * math.sqrt(2 / (fan_in + fan_out))) - 1) < 5 / math.sqrt(n)
    for mode, fan in (("fan_in", fan_in), ("fan_out", fan_out)):
        bound = math.sqrt(2 / (1 + 0.25)) * math.sqrt(3 / fan)
        x = values(init.kaiming_uniform_(flambeau.empty(shape), a=0.5, mode=mode))
        assert 0.99 * bound < np.abs(x).max() <= bound * (1 + 1e-6)
        x = values(init.kaiming_normal_(flambeau.empty(shape), mode=mode, nonlinearity="relu"))
        assert abs(x.std() / math.sqrt(2 / fan) - 1) < 5 / math.sqrt(n)


def test_dirac_passes_channels_on():
    weight = values(init.dirac_(flambeau.ones(4, 2, 3), groups=2))
    expected = np.zeros((4, 2, 3))
    for channel in range(4):
        expected[channel, channel % 2, 1] = 1
    assert (weight == expected).all()
    square = values(init.dirac_(flambeau.ones(3, 2, 3, 4)))
    assert square.sum() == 2 and square[0, 0, 1, 2] == square[1, 1, 1, 2] == 1
    assert values(init.dirac_(flambeau.ones(1, 1, 3, 3, 3)))[0, 0, 1, 1, 1] == 1


@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (7, 4), (3, 2, 5)])
def test_orthogonal(shape):
    x = values(init.orthogonal_(flambeau.empty(shape), gain=3.0)).reshape(shape[0], -1) / 3
    gram = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    assert np.allclose(gram, np.eye(min(x.shape)), atol=1e-5)


def test_sparse_zeros_a_share_of_each_column():
    x = values(init.sparse_(flambeau.empty(10, 50), sparsity=0.25, std=2.0))
    assert ((x == 0).sum(axis=0) == 3).all()
    assert abs(x[x != 0].std() - 2) < 0.4


def test_errors_and_empty_tensors():
    vector, matrix = flambeau.empty(3), flambeau.empty(3, 3)
    for fill in (init.xavier_uniform_, init.xavier_normal_, init.kaiming_uniform_, init.kaiming_normal_):
        with pytest.raises(
            ValueError, match="Fan in and fan out can not be computed for tensor with fewer than 2"
        ):
            fill(vector)
    with pytest.raises(ValueError, match="Mode both not supported, please use one of"):
        init.kaiming_uniform_(matrix, mode="both")
    for call in (lambda: init.eye_(vector), lambda: init.sparse_(vector, 0.5)):
        with pytest.raises(ValueError, match="Only tensors with 2 dimensions are supported"):
            call()
    with pytest.raises(ValueError, match="Only tensors with 2 or more dimensions"):
        init.orthogonal_(vector)
    with pytest.raises(ValueError, match="Only tensors with 3, 4, or 5 dimensions"):
        init.dirac_(matrix)
    with pytest.raises(ValueError, match="dim 0 must be divisible by groups"):
        init.dirac_(flambeau.empty(3, 1, 1), groups=2)
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        assert tuple(init.kaiming_uniform_(flambeau.empty(0, 3)).shape) == (0, 3)


OLD = [name for name in init.__all__ if f"{name}_" in init.__all__]


@pytest.mark.parametrize("name", OLD)
def test_old_names_warn_and_do_the_same(name):
    arguments = {"constant": (3.0,), "sparse": (0.5,)}.get(name, ())
    shape = (4, 3, 3) if name == "dirac" else (4, 3)
    flambeau.manual_seed(0)
    expected = getattr(init, f"{name}_")(flambeau.empty(shape), *arguments)
    flambeau.manual_seed(0)
    tensor = flambeau.empty(shape)
    with pytest.warns(
        FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"
    ):
        found = getattr(init, name)(tensor, *arguments)
    assert found is tensor and found.tolist() == expected.tolist()
    assert getattr(init, name).__name__ == name


def test_the_old_names_are_these():
    assert len(OLD) == 11 and "uniform" in OLD and "zeros" not in OLD


def test_objects_that_are_asked():
    """PyTorch asks them by four functions; the others call methods of theirs."""

    class Asked:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function, types, args, {k: v for k, v in kwargs.items() if k != "tensor"}

    x, drawn = Asked(), {"generator": None}
    kaiming = {"a": 0, "mode": "fan_in", "nonlinearity": "leaky_relu"}
    for function, given, named in (
        (init.uniform_, (-1.0,), {"a": -1.0, "b": 1.0, **drawn}),
        (init.normal_, (), {"mean": 0.0, "std": 1.0, **drawn}),
        (init.constant_, (3.0,), {"val": 3.0}),
        (init.kaiming_uniform_, (), {**kaiming, **drawn}),
    ):
        assert function(x, *given) == (function, (Asked,), (), named)


def test_subclasses_and_modes_see_the_function():
    class Seen(flambeau.Tensor):
        names: list = []

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.names.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs)

    class Mode(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            names.append(function.__name__)
            return function(*args, **(kwargs or {}))

    for name, given in (("uniform_", ()), ("normal_", ()), ("constant_", (2.0,)), ("kaiming_uniform_", ())):
        names = Seen.names = []
        x = flambeau.ones(2, 3).as_subclass(Seen)
        assert getattr(init, name)(x, *given) is x and names[0] == name
        names.clear()
        x = flambeau.ones(2, 3)
        with Mode():
            getattr(init, name)(x, *given)
        assert names[0] == name
