"""Recurrent layers in bfloat16, whose steps a matrix unit or pairs multiply: beside NumPy in float64, of unequal lengths, in threads."""

import numpy as np
import pytest

import flambeau
from flambeau.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from flambeau.operations.neural.recurrent import tiles

UNIT = 2.0**-8  # of a rounding to bfloat16
WAYS = ("chosen", "pairs")
SIZES = [
    (7, 5, 24, 64),
    (4, 37, 16, 96),
    (6, 2, 8, 32),
    (3, 16, 10, 50),
    (5, 1, 12, 64),
]  # steps, sequences, inputs, units


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if request.param == "pairs":
        monkeypatch.setattr(tiles, "_by_unit", lambda weight, order: False)


def layer(kind, inputs, units):
    flambeau.manual_seed(units)
    return getattr(flambeau.nn, kind)(inputs, units).bfloat16()


def outputs(kind, net, x):
    """In float64."""
    w, u, b, c = (p.detach().double().numpy() for p in net.parameters())
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    hidden = cell = np.zeros((x.shape[1], u.shape[1]))
    found = []
    for step in x:
        of_input, of_state = (
            np.split(step @ w.T + b, len(w) // u.shape[1], 1),
            np.split(hidden @ u.T + c, len(w) // u.shape[1], 1),
        )
        if kind == "LSTM":
            i, f, g, o = (p + q for p, q in zip(of_input, of_state))
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            hidden = sigmoid(o) * np.tanh(cell)
        elif kind == "GRU":
            r, z = (sigmoid(p + q) for p, q in zip(of_input[:2], of_state[:2]))
            n = np.tanh(of_input[2] + r * of_state[2])
            hidden = n + z * (hidden - n)
        else:
            hidden = np.tanh(of_input[0] + of_state[0])
        found.append(hidden)
    return np.stack(found)


def off(found, true):
    """The root of the mean of squared errors, in parts of the numbers'."""
    found, true = (x if isinstance(x, np.ndarray) else x.detach().double().numpy() for x in (found, true))
    return np.sqrt(((found - true) ** 2).mean() / (true**2).mean())


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("sizes", SIZES)
def test_outputs_and_gradients(kind, sizes, way):
    steps, sequences, inputs, units = sizes
    net = layer(kind, inputs, units)
    x = flambeau.randn(steps, sequences, inputs).bfloat16().requires_grad_()
    out, g = net(x)[0], flambeau.randn(steps, sequences, units).bfloat16()
    assert out.dtype == flambeau.bfloat16
    assert off(out, outputs(kind, net, x.detach().double().numpy())) <= UNIT
    found = flambeau.autograd.grad(out, (x, *net.parameters()), g)
    wide = layer(kind, inputs, units).double()
    wide_x = x.detach().double().requires_grad_()
    true = flambeau.autograd.grad(wide(wide_x)[0], (wide_x, *wide.parameters()), g.double())
    for got, wanted in zip(found, true):
        assert got.dtype == flambeau.bfloat16 and off(got, wanted) <= 1.5 * UNIT


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_sequences_of_unequal_lengths(kind):
    """Each has the outputs, and their sums the gradients, of all being as long as the longest: by a matrix unit the same bits."""
    lengths, net = [9, 9, 6, 5, 2, 1], layer(kind, 12, 64)
    x = flambeau.randn(9, len(lengths), 12).bfloat16()
    whole = net(x)[0]
    some = pad_packed_sequence(net(pack_padded_sequence(x, lengths))[0])[0]
    for n, length in enumerate(lengths):
        there, wanted = some[:length, n], whole[:length, n]
        assert there.equal(wanted) if tiles.core.unit() else off(there, wanted) <= UNIT
        assert not some[length:, n].any()
    exists = (flambeau.arange(9)[:, None] < flambeau.tensor(lengths))[..., None]
    g = flambeau.randn(whole.shape).bfloat16() * exists
    weights = list(net.parameters())
    for a, b in zip(flambeau.autograd.grad(some, weights, g), flambeau.autograd.grad(whole, weights, g)):
        assert off(a, b.double().numpy()) <= UNIT


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_bits_do_not_depend_on_the_threads(kind):
    net, x = layer(kind, 64, 256), flambeau.randn(5, 37, 64).bfloat16().requires_grad_()
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            flambeau.set_num_threads(threads)
            out = net(x)[0]
            found.append((out, *flambeau.autograd.grad(out.float().sin().sum(), (x, *net.parameters()))))
    finally:
        flambeau.set_num_threads(before)
    for other in found[1:]:
        assert all(a.equal(b) for a, b in zip(found[0], other))
