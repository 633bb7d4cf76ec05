"""Recurrent layers over whole sequences against recorded steps, and what both must agree in."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.codegen.tiles import kernels
from flambeau.operations.neural.recurrent import recurrent
from flambeau.operations.neural.recurrent import tiles as recurrent_tiles
from flambeau.utils import _pytree

LAYERS = {  # the layer, its steps, gates, whether there is a cell, whether there is a bias
    "lstm": (recurrent.lstm_layer, recurrent._lstm_steps, 4, True, False, ()),
    "gru": (recurrent.gru_layer, recurrent._gru_steps, 3, False, True, ()),
    "rnn_tanh": (recurrent.rnn_layer, recurrent._rnn_steps, 1, False, False, ("rnn_tanh",)),
    "rnn_relu": (recurrent.rnn_layer, recurrent._rnn_steps, 1, False, False, ("rnn_relu",)),
}
SIZES = [7, 7, 5, 2, 2, 1]  # of sequences in packed order


def operands(kind, rows, batch, units, dtype=flambeau.float64, seed=0):
    _, _, gates, cell, bias, _ = LAYERS[kind]
    flambeau.manual_seed(seed)
    shapes = [(*rows, gates * units), (batch, units)] + [(batch, units)] * cell
    shapes += [(gates * units, units)] + [(gates * units,)] * bias
    return [(flambeau.randn(*s, dtype=flambeau.float64) * 0.5).to(dtype).requires_grad_() for s in shapes]


def results(function, given, *more):
    """What it returns and the gradients of all operands, from gradients that differ everywhere."""
    for x in given:
        x.grad = None
    found = function(*given, *more)
    found = found if isinstance(found, tuple) else (found,)
    total = sum(
        (y * flambeau.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape)).sum() for y in found
    )
    total.backward()
    return [*(y.detach() for y in found), *(x.grad for x in given)]


def agree(kind, rows, batch, units, sizes=None, turned=False):
    layer, steps, *_, more = LAYERS[kind]
    given = operands(kind, rows, batch, units)
    found = results(layer, given, sizes, turned, *more)
    wanted = results(recurrent._along(steps, turned), given, sizes, *more)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("turned", [False, True])
def test_whole_sequences_are_recorded_steps(kind, turned):
    rng = np.random.default_rng(len(kind) + turned)
    for _ in range(6):
        steps, batch, units = (int(n) for n in rng.integers((2, 3, 1), (7, 20, 45)))
        agree(kind, (steps, batch), batch, units, turned=turned)
    agree(kind, (1, recurrent.FEW), recurrent.FEW, 1, turned=turned)
    agree(kind, (recurrent.FEW, 1), 1, 40, turned=turned)


@pytest.mark.parametrize("kind", LAYERS)
def test_packed_sequences_are_recorded_steps(kind):
    for units in (3, 8, 21):
        agree(kind, (sum(SIZES),), SIZES[0], units, SIZES)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("shape", [(32, 16), (16, 32)], ids=["16 wide registers", "32 narrow ones"])
def test_other_processors_registers(kind, shape, monkeypatch):
    """The tiles of AVX2 and NEON, on whatever runs this."""
    monkeypatch.setattr(kernels, "registers", lambda: kernels.Shape(*shape))
    monkeypatch.setattr(recurrent_tiles.tiles, "registers", kernels.registers)
    caches = (recurrent_tiles._lanes, recurrent_tiles._products, recurrent_tiles._cells)
    for cache in caches:
        cache.cache_clear()
    try:
        agree(kind, (3, 7), 7, 11)
        agree(kind, (sum(SIZES),), SIZES[0], 8, SIZES)
    finally:
        for cache in caches:
            cache.cache_clear()


@pytest.mark.parametrize("kind", LAYERS)
def test_bits_do_not_depend_on_threads(kind):
    layer, *_, more = LAYERS[kind]
    given = operands(kind, (3, 33), 33, 200, flambeau.float32)
    before, all_found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            flambeau.set_num_threads(threads)
            all_found.append(results(layer, given, None, False, *more))
    finally:
        flambeau.set_num_threads(before)
    for found in all_found[1:]:
        for a, b in zip(found, all_found[0], strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("kind", ["gru", "rnn_tanh", "rnn_relu"])
def test_derivatives_of_second_order(kind):
    layer, *_, more = LAYERS[kind]
    for turned in (False, True):
        given = operands(kind, (3, 2), 2, 3)
        for check in (flambeau.autograd.gradcheck, flambeau.autograd.gradgradcheck):
            assert check(lambda *x, turned=turned: layer(*x, None, turned, *more), given)
    given = operands(kind, (6,), 3, 2)
    assert flambeau.autograd.gradcheck(lambda *x: layer(*x, [3, 2, 1], False, *more), given)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bfloat16, flambeau.float16])
def test_errors_are_roundings(kind, dtype):
    """Of float32 within a few units in the last place; of halves, those of operands and results, for between is float32."""
    layer, *_, more = LAYERS[kind]
    given = operands(kind, (20, 9), 9, 70, dtype)
    exact = [x.detach().double().mul(0.1 if x.ndim == 2 and len(x) > 9 else 1.0) for x in given]
    given = [x.to(dtype) for x in exact]
    exact = [x.double() for x in given]
    found, wanted = (layer(*x, None, False, *more) for x in (given, exact))
    pairs = zip(found, wanted) if isinstance(found, tuple) else [(found, wanted)]
    for a, b in pairs:
        assert a.dtype == dtype
        np.testing.assert_allclose(a.double().numpy(), b.numpy(), rtol=0, atol=4 * flambeau.finfo(dtype).eps)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("units", [9, 40], ids=["odd", "in pairs"])
@pytest.mark.parametrize("sizes", [None, [8, 5, 5, 1]], ids=["even", "packed"])
def test_gradients_of_halves(kind, dtype, units, sizes):
    """Those of float64, as near as roundings of a few numbers on the way let them be."""
    layer, *_, more = LAYERS[kind]
    rows = (5, 8) if sizes is None else (sum(sizes),)
    given = operands(kind, rows, 8, units)
    small = [0.15 if x.shape == (LAYERS[kind][2] * units, units) else 0.4 for x in given]  # the weight
    given = [x.detach().mul(by).to(dtype).requires_grad_() for x, by in zip(given, small, strict=True)]
    exact = [x.detach().double().requires_grad_() for x in given]
    found, wanted = (results(layer, x, sizes, False, *more) for x in (given, exact))
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == dtype
        assert float((a.double() - b).norm()) <= 2 * flambeau.finfo(dtype).eps * float(b.norm())


def test_a_gate_far_out_is_0_or_1():
    gates = flambeau.tensor([-3e38, -200.0, -87.0, 0.0, 87.0, 200.0, 3e38, float("inf"), float("nan")])
    batch = recurrent.FEW
    # With z = sigmoid(x) and n = tanh(0), h' is z itself.
    whole = flambeau.cat([flambeau.zeros(9), gates, flambeau.zeros(9)]).expand(1, batch, 27)
    found = recurrent.gru_layer(whole, flambeau.ones(batch, 9), flambeau.zeros(27, 9))[0, 0].double().numpy()
    wanted = 1 / (1 + np.exp(-gates.double().numpy().clip(-87)))
    np.testing.assert_allclose(found, wanted, rtol=3e-7)


def test_nan_stays_in_its_sequence():
    for module in (nn.LSTM(4, 20), nn.GRU(4, 20), nn.RNN(4, 20), nn.RNN(4, 20, nonlinearity="relu")):
        x = flambeau.randn(3, 9, 4)
        x[1, 4] = float("nan")
        lost = module(x)[0].detach().isnan().numpy()
        assert lost[1:, 4].all() and not lost[0].any() and not np.delete(lost, 4, 1).any()


def calls(function):
    """How many functions, Python's and compiled, are called by it."""
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_no_python_runs_for_a_step(kind, bidirectional):
    module, counts = kind(4, 8, bidirectional=bidirectional), []
    for steps in (3, 3, 3, 50):  # the first calls make kernels, of sums of gradients too
        x = flambeau.randn(steps, 2, 4, requires_grad=True)
        grad = flambeau.randn(steps, 2, 8 * (1 + bidirectional))
        counts.append(calls(lambda x=x, grad=grad: module(x)[0].backward(grad)))
    assert counts[2] == counts[3]


def test_memory_does_not_grow_without_gradients():
    """Without a gradient nothing is kept of a step but its output: in one buffer, with the input's share of the gates."""
    made = []

    class Counting(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            made.extend(x.numel() for x in _pytree.tree_leaves(found) if isinstance(x, flambeau.Tensor))
            return found

    gates, hidden, weight = flambeau.randn(30, 2, 32), flambeau.zeros(2, 8), flambeau.randn(32, 8)
    with flambeau.no_grad(), Counting():
        recurrent.lstm_layer(gates, hidden, hidden, weight)
    assert sum(made) == 30 * 2 * 8 + 2 * 8


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("where", [(0, None), (None, 0), (0, 0)], ids=["inputs", "weights", "both"])
def test_slices_are_more_sequences(kind, where):
    module = kind(3, 4, bidirectional=True, dtype=flambeau.float64)
    x = flambeau.randn(2, 5, 2, 3, dtype=flambeau.float64)
    weights = {k: flambeau.stack([v.detach(), v.detach() * 0.5]) for k, v in module.named_parameters()}
    given = [x if where[0] == 0 else x[0], weights if where[1] == 0 else dict(module.named_parameters())]

    def run(x, weights):
        return flambeau.func.functional_call(module, weights, (x,))[0]

    found = flambeau.vmap(run, where)(*given)
    for k in range(2):
        alone = [
            x[k] if where[0] == 0 else x[0],
            {n: v[k] for n, v in given[1].items()} if where[1] == 0 else given[1],
        ]
        np.testing.assert_allclose(found[k].detach().numpy(), run(*alone).detach().numpy(), rtol=1e-12)


def test_results_may_be_written_to_as_pytorch_allows():
    for module in (nn.GRU(3, 4), nn.RNN(3, 4)):
        x = flambeau.randn(5, 2, 3)
        module(x)[0].sum().backward()
        wanted = module.weight_hh_l0.grad.clone()
        module.zero_grad()
        output, _ = module(x)
        output += 1
        output.sum().backward()
        np.testing.assert_array_equal(module.weight_hh_l0.grad.numpy(), wanted.numpy())


def test_shapes_are_refused_before_memory_is_read():
    for kind, (layer, *_, more) in LAYERS.items():
        given = [x.detach() for x in operands(kind, (4, 2), 2, 3)]
        for place in range(len(given)):
            wrong = list(given)
            wrong[place] = wrong[place][..., :-1]
            with pytest.raises(RuntimeError, match="expected .* to have shape"):
                layer(*wrong, None, False, *more)
        rows = [x.detach() for x in operands(kind, (8,), 2, 3)]
        for sizes in ([2, 2, 1], [2, 2, 1, 2, 1]):
            with pytest.raises(RuntimeError):
                layer(*rows, sizes, False, *more)


def test_nothing_to_compute():
    for module in (nn.LSTM(3, 4), nn.GRU(3, 4), nn.RNN(3, 4)):
        output, _ = module(flambeau.zeros(5, 0, 3))
        assert output.shape == (5, 0, 4)
