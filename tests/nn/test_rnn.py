"""RNN, LSTM, GRU and their cells against loops in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau import nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 3, 6)).astype(np.float32)  # time, batch, feature


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(kind, x, state, w):
    """The next state, a list of arrays whose first is the output."""
    from_x = x @ w["weight_ih"].T + w.get("bias_ih", 0)
    from_h = state[0] @ w["weight_hh"].T + w.get("bias_hh", 0)
    if kind == "RNN":
        return [np.tanh(from_x + from_h)]
    if kind == "LSTM":
        i, f, g, o = np.split(from_x + from_h, 4, -1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return [h @ w["weight_hr"].T if "weight_hr" in w else h, c]
    x_r, x_z, x_n = np.split(from_x, 3, -1)
    h_r, h_z, h_n = np.split(from_h, 3, -1)
    z, n = sigmoid(x_z + h_z), np.tanh(x_n + sigmoid(x_r + h_r) * h_n)
    return [(1 - z) * n + z * state[0]]


def layers(kind, module, x, state):
    """All layers and directions; `state` is a list of arrays (layers · directions, batch, size)."""
    directions = 2 if module.bidirectional else 1
    weights = {name: value.detach().numpy() for name, value in module.named_parameters()}
    finals = []
    for layer in range(module.num_layers):
        outputs = []
        for direction in range(directions):
            end = f"_l{layer}" + "_reverse" * direction
            w = {name.removesuffix(end): value for name, value in weights.items() if name.endswith(end)}
            now = [part[layer * directions + direction] for part in state]
            steps = []
            for t in range(len(x))[:: -1 if direction else 1]:
                now = cell(kind, x[t], now, w)
                steps.append(now[0])
            outputs.append(np.stack(steps[:: -1 if direction else 1]))
            finals.append(now)
        x = np.concatenate(outputs, -1)
    return x, [np.stack(parts) for parts in zip(*finals, strict=True)]


def call(module, x, state):
    """The module's outputs and final state as arrays, given arrays."""
    given = [flambeau.tensor(part) for part in state]
    hx = tuple(given) if isinstance(module, (nn.LSTM, nn.LSTMCell)) else given[0]
    output, final = module(flambeau.tensor(x), hx)
    final = final if isinstance(final, tuple) else (final,)
    return output.detach().numpy(), [part.detach().numpy() for part in final]


def first_state(module, batch):
    n = module.num_layers * (2 if module.bidirectional else 1)
    sizes = [module.proj_size or module.hidden_size] + [module.hidden_size] * isinstance(module, nn.LSTM)
    return [RNG.standard_normal((n, batch, size)).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}, {"num_layers": 3, "dropout": 0.5}],
    ids=lambda options: "-".join(options),
)
def test_layers(kind, options):
    module = getattr(nn, kind)(6, 4, **options).eval()
    state = first_state(module, 3)
    output, final = call(module, X, state)
    wanted, wanted_final = layers(kind, module, X, state)
    assert output.shape == wanted.shape and np.allclose(output, wanted, atol=1e-5)
    for mine, theirs in zip(final, wanted_final, strict=True):
        assert mine.shape == theirs.shape and np.allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_layouts(kind):
    module = getattr(nn, kind)(6, 4, batch_first=True)
    state = first_state(module, 3)
    wanted, wanted_final = layers(kind, module, X, state)
    output, final = call(module, X.transpose(1, 0, 2).copy(), state)
    assert np.allclose(output, wanted.transpose(1, 0, 2), atol=1e-5)
    assert np.allclose(final[0], wanted_final[0], atol=1e-5)
    for batch_first in (False, True):
        module.batch_first = batch_first
        output, final = call(module, X[:, 0].copy(), [part[:, 0].copy() for part in state])
        assert np.allclose(output, wanted[:, 0], atol=1e-5)
        assert all(np.allclose(a, b[:, 0], atol=1e-5) for a, b in zip(final, wanted_final, strict=True))
    zeros = [np.zeros_like(part) for part in state]
    module.batch_first = False
    assert np.allclose(module(flambeau.tensor(X))[0].detach().numpy(), call(module, X, zeros)[0], atol=1e-6)


def test_projected_lstm_and_relu():
    module = nn.LSTM(6, 4, num_layers=2, bidirectional=True, proj_size=3)
    state = first_state(module, 3)
    output, final = call(module, X, state)
    wanted, wanted_final = layers("LSTM", module, X, state)
    assert output.shape == (5, 3, 6) and np.allclose(output, wanted, atol=1e-5)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(final, wanted_final, strict=True))
    relu = nn.RNN(6, 4, nonlinearity="relu", bias=False)
    h = np.zeros((3, 4), np.float32)
    for x in X:
        h = np.maximum(x @ relu.weight_ih_l0.detach().numpy().T + h @ relu.weight_hh_l0.detach().numpy().T, 0)
    assert np.allclose(relu(flambeau.tensor(X))[1].detach().numpy()[0], h, atol=1e-5)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_cells(kind):
    module = getattr(nn, kind + "Cell")(6, 4)
    weights = {name: value.detach().numpy() for name, value in module.named_parameters()}
    state = [RNG.standard_normal((3, 4)).astype(np.float32) for _ in range(1 + (kind == "LSTM"))]
    wanted = cell(kind, X[0], state, weights)

    def step(x, state):
        given = [flambeau.tensor(part) for part in state]
        out = module(flambeau.tensor(x), tuple(given) if kind == "LSTM" else given[0])
        return [part.detach().numpy() for part in (out if kind == "LSTM" else (out,))]

    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(step(X[0], state), wanted, strict=True))
    single = step(X[0, 1].copy(), [part[1].copy() for part in state])
    assert all(np.allclose(a, b[1], atol=1e-5) for a, b in zip(single, wanted, strict=True))
    started = module(flambeau.tensor(X[0]))
    from_zeros = step(X[0], [np.zeros_like(part) for part in state])
    assert np.allclose((started[0] if kind == "LSTM" else started).detach().numpy(), from_zeros[0], atol=1e-6)


def test_gradients_agree_with_differences():
    flambeau.manual_seed(0)
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        module = kind(2, 3, bidirectional=True, dtype=flambeau.float64)
        x = flambeau.randn(4, 2, 2, dtype=flambeau.float64)
        module(x)[0].sum().backward()
        for name in ("weight_hh_l0", "bias_ih_l0_reverse"):
            parameter = getattr(module, name)
            place = (0,) * parameter.dim()
            values = []
            for step in (1e-6, -2e-6):
                with flambeau.no_grad():
                    parameter[place] += step
                    values.append(float(module(x)[0].sum()))
            assert float(parameter.grad[place]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_parameters_names_and_reprs():
    module = nn.LSTM(6, 4, num_layers=2, bidirectional=True, proj_size=3)
    names = [name for name, _ in module.named_parameters()]
    one = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    assert names == [f"{name}_l{i}{end}" for i in range(2) for end in ("", "_reverse") for name in one]
    assert tuple(module.weight_ih_l1.shape) == (16, 6) and tuple(module.weight_hr_l0.shape) == (3, 4)
    assert [len(weights) for weights in module.all_weights] == [5] * 4
    assert module.all_weights[1][0] is module.weight_ih_l0_reverse
    bound = 1 / math.sqrt(4)
    assert all(np.abs(p.detach().numpy()).max() <= bound for p in module.parameters())
    assert module.flatten_parameters() is None
    assert repr(module) == "LSTM(6, 4, proj_size=3, num_layers=2, bidirectional=True)"
    assert repr(nn.GRU(6, 4, 2, False, True, 0.5)) == (
        "GRU(6, 4, num_layers=2, bias=False, batch_first=True, dropout=0.5)"
    )
    assert repr(nn.RNNCell(6, 4, False, "relu")) == "RNNCell(6, 4, bias=False, nonlinearity=relu)"
    assert repr(nn.LSTMCell(6, 4)) == "LSTMCell(6, 4)"


def test_errors():
    for options, error, message in (
        ({"dropout": 1.5}, ValueError, r"dropout should be a number in range \[0, 1\]"),
        ({"bias": 1}, TypeError, "bias should be of type bool, got: int"),
        ({"hidden_size": 0}, ValueError, "hidden_size must be greater than zero"),
        ({"input_size": 2.0}, TypeError, "input_size should be of type int, got: float"),
        ({"num_layers": 0}, ValueError, "num_layers must be greater than zero"),
        ({"proj_size": -1}, ValueError, "proj_size should be a positive integer or zero"),
        ({"proj_size": 4}, ValueError, "proj_size has to be smaller than hidden_size"),
    ):
        with pytest.raises(error, match=message):
            nn.LSTM(**{"input_size": 6, "hidden_size": 4} | options)
    with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1"):
        nn.GRU(6, 4, dropout=0.5)
    with pytest.raises(ValueError, match="Unknown nonlinearity 'gelu'"):
        nn.RNN(6, 4, nonlinearity="gelu")
    with pytest.raises(RuntimeError, match="Unknown nonlinearity: gelu"):
        nn.RNNCell(6, 4, nonlinearity="gelu")
    gru, lstm = nn.GRU(6, 4), nn.LSTM(6, 4)
    x = flambeau.tensor(X)
    for call_it, error, message in (
        (lambda: gru(x[0, 0]), ValueError, "GRU: Expected input to be 2D or 3D, got 1D"),
        (lambda: gru(x.double()), ValueError, "does not match weight dtype"),
        (lambda: gru(x[..., :5]), RuntimeError, "must be equal to input_size. Expected 6, got 5"),
        (lambda: gru(x[:0]), RuntimeError, "Expected sequence length to be larger than 0"),
        (lambda: gru(x, flambeau.zeros(3, 4)), RuntimeError, "hx should also be 3-D but got 2-D"),
        (
            lambda: gru(x, flambeau.zeros(1, 2, 4)),
            RuntimeError,
            r"Expected hidden size \(1, 3, 4\), got \[1, 2, 4\]",
        ),
        (
            lambda: lstm(x, (flambeau.zeros(1, 3, 4), flambeau.zeros(1, 3, 5))),
            RuntimeError,
            r"Expected hidden\[1\] size \(1, 3, 4\), got \[1, 3, 5\]",
        ),
        (lambda: nn.GRUCell(6, 4)(x), ValueError, "GRUCell: Expected input to be 1D or 2D, got 3D"),
        (lambda: nn.LSTMCell(6, 4)(x[0], (x[0], x)), ValueError, r"Expected hx\[1\] to be 1D or 2D, got 3D"),
    ):
        with pytest.raises(error, match=message):
            call_it()


def test_lstm_gradients_of_any_order():
    """The layer's own derivative, and the step by step one that it leaves a second derivative to."""
    flambeau.manual_seed(0)
    layer = nn.LSTM(3, 4, num_layers=2, bidirectional=True).double()
    x, h, c = (
        flambeau.randn(*size, dtype=flambeau.float64, requires_grad=True)
        for size in ((5, 2, 3), (4, 2, 4), (4, 2, 4))
    )

    def outputs(x, h, c, *weights):
        output, (hidden, cell) = layer(x, (h, c))
        return output, hidden, cell

    assert flambeau.autograd.gradcheck(outputs, (x, h, c, *layer.parameters()))
    assert flambeau.autograd.gradgradcheck(lambda x, h, c: outputs(x, h, c)[0], (x, h, c))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_states_of_cells_fit_the_input(kind):
    layer = getattr(nn, f"{kind}Cell")(6, 4)
    x, fits = flambeau.zeros(2, 6), flambeau.zeros(2, 4)
    for bad in (flambeau.zeros(1, 4), flambeau.zeros(3, 4), flambeau.zeros(2, 1), flambeau.zeros(4)):
        for state in ((bad, fits), (fits, bad)) if kind == "LSTM" else (bad,):
            with pytest.raises(RuntimeError, match="doesn't match hidden|inconsistent hidden_size"):
                layer(x, state)


def test_projections_are_for_lstm_and_flat_weights_list_all():
    for cls in (nn.RNN, nn.GRU):
        with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM"):
            cls(3, 5, proj_size=2)
    layer = nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2)
    assert layer._flat_weights_names == [name for name, _ in layer.named_parameters()]
    assert all(a is b for a, b in zip(layer._flat_weights, layer.parameters(), strict=True))
