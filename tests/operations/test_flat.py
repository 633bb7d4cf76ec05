"""Functions of layers as the flat namespace has them, against the layers and against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


@pytest.fixture(autouse=True)
def seeded():
    flambeau.manual_seed(0)


def weights(layer):
    return [p for place in layer.all_weights for p in place]


LAYERS = [
    (nn.LSTM, flambeau.lstm, {}),
    (nn.LSTM, flambeau.lstm, {"proj_size": 2}),
    (nn.GRU, flambeau.gru, {}),
    (nn.RNN, flambeau.rnn_tanh, {}),
    (nn.RNN, flambeau.rnn_relu, {"nonlinearity": "relu"}),
]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kind", "function", "options"), LAYERS)
def test_recurrent_functions_are_the_layers(kind, function, options, bias, bidirectional):
    layer = kind(3, 4, 2, bias=bias, bidirectional=bidirectional, batch_first=True, **options)
    x = flambeau.randn(2, 5, 3)
    output, state = layer(x)
    state = state if isinstance(state, tuple) else (state,)
    zeros = tuple(flambeau.zeros(s.shape) for s in state)
    hx = zeros if kind is nn.LSTM else zeros[0]
    given = (hx, weights(layer), bias, 2, 0.0, False, bidirectional)
    found = function(x, *given, True)
    for a, b in zip(found, (output, *state), strict=True):
        assert flambeau.equal(a, b)
    turned = function(x.transpose(0, 1), *given, False)
    assert flambeau.equal(turned[0].transpose(0, 1), output)

    packed = nn.utils.rnn.pack_sequence([x[0], x[1, :3]])
    wanted, _ = layer(packed)
    found = function(packed.data, packed.batch_sizes, *given)
    assert flambeau.equal(found[0], wanted.data)


@pytest.mark.parametrize(
    ("cell", "function"),
    [
        (nn.LSTMCell, flambeau.lstm_cell),
        (nn.GRUCell, flambeau.gru_cell),
        (nn.RNNCell, flambeau.rnn_tanh_cell),
        (lambda *sizes: nn.RNNCell(*sizes, nonlinearity="relu"), flambeau.rnn_relu_cell),
    ],
)
def test_cells_are_the_layers(cell, function):
    layer = cell(3, 4)
    x, h, c = flambeau.randn(2, 3), flambeau.randn(2, 4), flambeau.randn(2, 4)
    hx = (h, c) if isinstance(layer, nn.LSTMCell) else h
    found = function(x, hx, layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh)
    wanted = layer(x, hx)
    for a, b in zip(found, wanted, strict=True):
        assert flambeau.equal(a, b)


def test_recurrent_functions_refuse_what_does_not_fit():
    layer, x, h = nn.GRU(3, 4), flambeau.randn(5, 2, 3), flambeau.zeros(1, 2, 4)
    good = weights(layer)
    run = lambda x=x, h=h, w=good, biases=True, layers=1: flambeau.gru(
        x, h, w, biases, layers, 0.0, False, False, False
    )
    run()
    for words, bad in (
        ("4 for each of 2 layers", {"layers": 2}),
        ("2 for each", {"biases": False}),
        ("3 dimensions", {"x": x[0]}),
        (r"hx to have shape \[1, 2, 4\]", {"h": h[:, :1]}),
        ("'of_input'", {"x": flambeau.randn(5, 2, 7)}),
        ("at least one step", {"x": x[:0]}),
        ("'state_bias'", {"w": [*good[:3], good[3][:5]]}),
        ("num_layers", {"layers": 0, "w": []}),
    ):
        with pytest.raises(RuntimeError, match=words):
            run(**bad)
    with pytest.raises(RuntimeError, match="two hidden states"):
        flambeau.lstm(x, (h,), good, True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="must not grow"):
        flambeau.gru(x[:, 0], flambeau.tensor([2, 3]), h, good, True, 1, 0.0, False, False)


def test_tables():
    table = flambeau.randn(5, 3, requires_grad=True)
    words = flambeau.tensor([[1, 2], [4, 1]])
    assert flambeau.equal(flambeau.embedding(table, words), F.embedding(words, table))
    flambeau.embedding(table, words, 1).sum().backward()
    assert table.grad.sum(1).tolist() == [0.0, 0.0, 3.0, 0.0, 3.0]

    long = flambeau.tensor([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4], [30.0, 40.0]])
    assert flambeau.embedding_renorm_(long, flambeau.tensor([0, 2]), 1.0, 2.0) is long
    np.testing.assert_allclose(long.numpy(), [[0.6, 0.8], [6, 8], [0.3, 0.4], [30, 40]], rtol=1e-6)


@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags_tell_where_their_rows_are(mode, last, padding):
    table = flambeau.randn(6, 3)
    indices, starts = [4, 1, 1, 3, 0, 5, 2], [0, 3, 3, 4]
    ends = [*starts[1:], len(indices)]
    offsets = flambeau.tensor([*starts, len(indices)] if last else starts)
    found, bag, sizes, places = flambeau.embedding_bag(
        table, flambeau.tensor(indices), offsets, False, mode, False, None, last, padding
    )
    bags = [[i for i in indices[a:b] if i != padding] for a, b in zip(starts, ends, strict=True)]
    assert sizes.tolist() == [len(b) for b in bags]
    assert bag.tolist() == [k for k, b in enumerate(bags) for _ in b]
    rows = table.numpy()
    for k, b in enumerate(bags):
        if mode == 2:
            assert places[k].tolist() == (np.array(b)[rows[b].argmax(0)].tolist() if b else [0, 0, 0])
        reduce = (np.sum, np.mean, np.max)[mode]
        np.testing.assert_allclose(found[k].numpy(), reduce(rows[b], 0) if b else np.zeros(3), rtol=1e-6)
    with pytest.raises(ValueError, match="mode"):
        flambeau.embedding_bag(table, flambeau.tensor(indices), offsets, False, 3)


def test_convolutions():
    x, w, b = flambeau.randn(1, 4, 6, 6), flambeau.randn(2, 2, 3, 3), flambeau.randn(2)
    found = flambeau.convolution(x, w, b, (2,), (1,), (1,), False, (0,), 2)
    assert flambeau.equal(found, F.conv2d(x, w, b, 2, 1, 1, 2))
    w = flambeau.randn(4, 2, 3, 3)
    found = flambeau.convolution(x, w, None, (2, 2), (1, 1), (1, 1), True, (1, 1), 2)
    assert flambeau.equal(found, F.conv_transpose2d(x, w, None, 2, 1, 1, 2, 1))
    with pytest.raises(RuntimeError, match="3 to 5 dimensions"):
        flambeau.convolution(x, w[0, 0], None, (1,), (0,), (1,), False, (0,), 1)


def test_numbers_stand_for_modes():
    scores, target = flambeau.randn(3, 4), flambeau.rand(3, 4)
    for k, name in enumerate(("none", "mean", "sum")):
        for flat, layered in (
            (flambeau.kl_div(scores, target, k), F.kl_div(scores, target, reduction=name)),
            (
                flambeau.binary_cross_entropy_with_logits(scores, target, None, None, k),
                F.binary_cross_entropy_with_logits(scores, target, reduction=name),
            ),
        ):
            assert flambeau.equal(flat, layered)
    image, grid = flambeau.randn(1, 1, 4, 4), flambeau.rand(1, 3, 3, 2) * 3 - 1.5
    for k, mode in enumerate(("bilinear", "nearest", "bicubic")):
        for p, padding in enumerate(("zeros", "border", "reflection")):
            found = flambeau.grid_sampler(image, grid, k, p, True)
            assert flambeau.equal(found, F.grid_sample(image, grid, mode, padding, True))
    for wrong in (-1, 3, True, "mean"):
        with pytest.raises((ValueError, TypeError), match="reduction"):
            flambeau.kl_div(scores, target, wrong)


@pytest.mark.parametrize("name", ["dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"])
def test_dropouts_in_place_and_apart(name):
    x = flambeau.randn(2, 3, 4, 4)
    flambeau.manual_seed(3)
    apart = getattr(flambeau, name)(x, 0.5, True)
    flambeau.manual_seed(3)
    written = x.clone()
    assert getattr(flambeau, name + "_")(written, 0.5, True) is written
    assert flambeau.equal(apart, written) and not flambeau.equal(apart, x)
    if "feature" in name:
        dropped = (
            (apart == 0).flatten(2) if name == "feature_dropout" else (apart == apart[..., :1, :1]).flatten(2)
        )
        assert set(dropped.all(2).reshape(-1).tolist()) == {True, False}
    assert flambeau.equal(getattr(flambeau, name)(x, 0.5, False), x)
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(RuntimeError):
            getattr(flambeau, name)(x, p, True)


def test_native_dropout_keeps_what_its_mask_says():
    x = flambeau.randn(50, 50)
    found, kept = flambeau.native_dropout(x, 0.25, True)
    assert kept.dtype is flambeau.bool and 0.7 < kept.double().mean() < 0.8
    assert flambeau.allclose(found, x * kept / 0.75)
    found, kept = flambeau.native_dropout(x, 1.0, True)
    assert not found.any() and not kept.any()
    found, kept = flambeau.native_dropout(x, 0.25, False)
    assert flambeau.equal(found, x) and kept.all() and found.data_ptr() != x.data_ptr()


def test_native_norms_tell_their_moments():
    x, w, b = flambeau.randn(4, 6, 5), flambeau.randn(6, 5), flambeau.randn(6, 5)
    out, mean, inverse = flambeau.native_layer_norm(x, (6, 5), w, b, 1e-3)
    assert flambeau.equal(out, F.layer_norm(x, (6, 5), w, b, 1e-3))
    array = x.numpy().reshape(4, -1)
    assert mean.shape == inverse.shape == (4, 1, 1)
    np.testing.assert_allclose(mean.reshape(-1).numpy(), array.mean(1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inverse.reshape(-1).numpy(), 1 / np.sqrt(array.var(1) + 1e-3), rtol=1e-5)

    w, b = flambeau.randn(6), flambeau.randn(6)
    out, mean, inverse = flambeau.native_group_norm(x, w, b, 4, 6, 5, 3, 1e-3)
    assert flambeau.equal(out, F.group_norm(x, 3, w, b, 1e-3)) and mean.shape == inverse.shape == (4, 3)
    np.testing.assert_allclose(mean.numpy(), x.numpy().reshape(4, 3, -1).mean(2), rtol=1e-4, atol=1e-6)
    with pytest.raises(RuntimeError, match="4 examples"):
        flambeau.native_group_norm(x, w, b, 4, 6, 7, 3, 1e-3)

    running = flambeau.zeros(6), flambeau.ones(6)
    out, mean, inverse = flambeau.native_batch_norm(x, w, b, *running, True, 0.5, 1e-3)
    np.testing.assert_allclose(mean.numpy(), x.numpy().mean((0, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(running[0].numpy(), mean.numpy() / 2, rtol=1e-4, atol=1e-6)
    out, mean, inverse = flambeau.native_batch_norm(x, w, b, *running, False, 0.5, 1e-3)
    assert mean.shape == inverse.shape == (0,)


def test_norm_except_dim():
    v = flambeau.randn(2, 3, 4)
    for dim in range(3):
        over = tuple(d for d in range(3) if d != dim)
        wanted = np.sqrt((v.numpy() ** 2).sum(over, keepdims=True))
        np.testing.assert_allclose(flambeau.norm_except_dim(v, 2, dim).numpy(), wanted, rtol=1e-5)
    assert flambeau.allclose(flambeau.norm_except_dim(v, 2, -1), v.norm())
    assert flambeau.equal(flambeau.norm_except_dim(v[0, 0]), v[0, 0].abs())
    with pytest.raises(IndexError):
        flambeau.norm_except_dim(v, 2, 3)


# --- rounding as if quantised ---
def rounded(x, scale, zero, low, high):
    with np.errstate(invalid="ignore"):
        place = np.nan_to_num(np.rint(x / scale) + zero, nan=low, posinf=high, neginf=low)
    return (np.clip(place, low, high) - zero) * scale


def test_fake_quantisation_of_tensors():
    x = np.array(
        [-9.0, -1.3, -0.26, -0.25, 0.0, 0.25, 0.75, 0.76, 3.3, 200.0, np.inf, -np.inf, np.nan], np.float32
    )
    given = flambeau.tensor(x, requires_grad=True)
    found = flambeau.fake_quantize_per_tensor_affine(given, 0.5, 2, 0, 31)
    np.testing.assert_array_equal(found.detach().numpy(), rounded(x, 0.5, 2, 0, 31).astype(np.float32))
    found.sum().backward()
    inside = (np.rint(x / 0.5) + 2 >= 0) & (np.rint(x / 0.5) + 2 <= 31)
    np.testing.assert_array_equal(given.grad.numpy(), inside.astype(np.float32))
    assert "FakeQuantizePerTensorAffine" in found.grad_fn.name()
    as_tensors = flambeau.fake_quantize_per_tensor_affine(
        given, flambeau.tensor(0.5), flambeau.tensor(2, dtype=flambeau.int32), 0, 31
    )
    assert flambeau.equal(as_tensors, found)
    for bad in ((0.5, 99, 0, 31), (0.5, 2, 31, 0)):
        with pytest.raises(RuntimeError, match="quant_min"):
            flambeau.fake_quantize_per_tensor_affine(given, *bad)
    with pytest.raises(RuntimeError, match="one element"):
        flambeau.fake_quantize_per_tensor_affine(given, flambeau.ones(2), 2, 0, 31)
    with pytest.raises(NotImplementedError):
        flambeau.fake_quantize_per_tensor_affine(flambeau.tensor([1]), 0.5, 2, 0, 31)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_fake_quantisation_of_channels(axis):
    x = np.random.default_rng(0).normal(0, 3, (3, 3)).astype(np.float32)
    scale = np.array([0.3, 0.7, 1.1], np.float32)
    zero = np.array([0, 3, 15], np.int32)
    shape = (3, 1) if axis == 0 else (1, 3)
    found = flambeau.fake_quantize_per_channel_affine(
        flambeau.tensor(x), flambeau.tensor(scale), flambeau.tensor(zero), axis, 0, 15
    )
    wanted = rounded(x, scale.reshape(shape), zero.reshape(shape), 0, 15)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_fake_quantisation_of_channels_refuses():
    x, scale, zero = flambeau.ones(2, 3), flambeau.ones(3), flambeau.zeros(3, dtype=flambeau.int32)
    run = flambeau.fake_quantize_per_channel_affine
    with pytest.raises(RuntimeError, match="Int32"):
        run(x, scale, zero.long(), 1, 0, 15)
    with pytest.raises(RuntimeError, match="not consistent"):
        run(x, scale, zero, 0, 0, 15)
    with pytest.raises(IndexError):
        run(x, scale, zero, 2, 0, 15)
    with pytest.raises(RuntimeError, match="zero_point"):
        run(x, scale, zero + 16, 1, 0, 15)


# --- places and memory ---
def test_nonzero_static():
    x = flambeau.tensor([[0, 5, 0], [6, 0, 7]])
    whole = x.nonzero()
    assert flambeau.equal(flambeau.nonzero_static(x, size=3), whole)
    assert flambeau.equal(x.nonzero_static(size=2), whole[:2])
    assert x.nonzero_static(size=5, fill_value=9)[3:].tolist() == [[9, 9], [9, 9]]
    assert flambeau.tensor(3).nonzero_static(size=2).shape == (2, 0)
    assert flambeau.zeros(0, 2).nonzero_static(size=1).tolist() == [[-1, -1]]
    assert flambeau.empty(4, 4, device="meta").nonzero_static(size=7).shape == (7, 2)
    with pytest.raises(RuntimeError, match="non-negative"):
        x.nonzero_static(size=-1)


def test_empty_permuted():
    made = flambeau.empty_permuted((2, 3, 4), (2, 0, 1), dtype=flambeau.int16)
    assert made.shape == (2, 3, 4) and made.stride() == (3, 1, 6) and made.dtype is flambeau.int16
    for layout, words in (
        ((0, 1), "length"),
        ((0, 1, 1), "Duplicate"),
        ((0, 1, 3), "out of range"),
        ((0, 1, -1), "range"),
    ):
        with pytest.raises(RuntimeError, match=words):
            flambeau.empty_permuted((2, 3, 4), layout)


def test_functions_that_write():
    x = flambeau.ones(2, 3)
    assert flambeau.zero_(x) is x and not x.any()
    assert flambeau.fill_(x, 2.0) is x and x.unique().tolist() == [2.0]
    assert flambeau.resize_as_(x, flambeau.ones(6)) is x and x.shape == (6,)
    assert flambeau.ldexp_(x, flambeau.tensor(1)) is x and x.unique().tolist() == [4.0]
    assert flambeau.as_strided_(x, (2, 2), (3, 1)) is x and x.shape == (2, 2)
    y = flambeau.ones(2, requires_grad=True) * 2
    assert flambeau.detach_(y) is y and not y.requires_grad


# --- linear algebra ---
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr(dtype, left, transpose):
    dtype = getattr(flambeau, dtype)
    A, C = flambeau.randn(2, 5, 3, dtype=dtype), flambeau.randn(2, 5, 4, dtype=dtype)
    a, tau = flambeau.geqrf(A)
    whole = flambeau.cat([a, flambeau.zeros(2, 5, 2, dtype=dtype)], -1)
    Q = flambeau.linalg.householder_product(whole, tau).numpy()
    Q = np.conj(np.swapaxes(Q, -1, -2)) if transpose else Q
    C = C if left else C.mH
    found = flambeau.ormqr(a, tau, C, left, transpose)
    np.testing.assert_allclose(found.numpy(), Q @ C.numpy() if left else C.numpy() @ Q, atol=1e-12)
    inputs = [x.clone().requires_grad_() for x in (a, tau, C)]
    assert flambeau.autograd.gradcheck(lambda *x: flambeau.ormqr(*x, left, transpose), inputs)


@pytest.mark.parametrize("left", [True, False])
def test_ormqr_reads_as_many_columns_as_there_are_reflections(left):
    a, tau = flambeau.geqrf(flambeau.randn(3, 5, dtype=flambeau.float64))
    C = flambeau.randn(3, 3, dtype=flambeau.float64)
    assert flambeau.equal(flambeau.ormqr(a, tau, C, left), flambeau.ormqr(a[:, :3], tau, C, left))


def test_ormqr_refuses():
    with pytest.raises(RuntimeError, match=r"tau.shape\[-1\] must be equal"):
        flambeau.ormqr(flambeau.ones(2, 4), flambeau.ones(3), flambeau.ones(2, 2))
    a, tau = flambeau.geqrf(flambeau.randn(5, 3))
    with pytest.raises(RuntimeError, match=r"other.shape\[-2\]"):
        flambeau.ormqr(a, tau, flambeau.ones(4, 5))
    with pytest.raises(RuntimeError, match="batch"):
        flambeau.ormqr(a, tau, flambeau.ones(2, 5, 5))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("n", [9, 40])
def test_lobpcg(n, largest):
    A = flambeau.randn(2, n, n, dtype=flambeau.float64)
    A = A @ A.mT / n + flambeau.arange(n).double().diag()
    E, V = flambeau.lobpcg(A, k=2, largest=largest, tol=1e-9)
    L = np.linalg.eigvalsh(A.numpy())
    np.testing.assert_allclose(E.numpy(), L[:, ::-1][:, :2] if largest else L[:, :2], rtol=1e-8)
    np.testing.assert_allclose((A @ V).numpy(), (V * E.unsqueeze(-2)).numpy(), atol=1e-6)

    B = flambeau.arange(1, n + 1).double().diag().expand(2, n, n)
    E, V = flambeau.lobpcg(
        A, B=B, X=flambeau.randn(2, n, 1, dtype=flambeau.float64), largest=largest, tol=1e-9
    )
    np.testing.assert_allclose((A @ V).numpy(), (B @ V * E.unsqueeze(-2)).numpy(), atol=1e-5)


def test_lobpcg_gradient():
    A = flambeau.randn(9, 9, dtype=flambeau.float64)
    A = (A + A.mT + 5 * flambeau.arange(9).double().diag()).requires_grad_()
    X = flambeau.randn(9, 2, dtype=flambeau.float64)

    def invariant(A):  # of the signs of the vectors
        E, V = flambeau.lobpcg(A, X=X, tol=1e-12)
        return E, V.square(), V[0] * V[1]

    assert flambeau.autograd.gradcheck(invariant, (A,), atol=1e-5)


def test_lobpcg_refuses():
    A = flambeau.eye(9)
    for error, words, given in (
        (ValueError, "rows", {"k": 4}),
        (ValueError, "0 < k <= n", {"k": 0}),
        (ValueError, "method", {"method": "fast"}),
        (NotImplementedError, "tracker", {"tracker": print}),
        (AssertionError, "X of shape", {"X": flambeau.ones(8, 1)}),
        (RuntimeError, "dtype", {"X": flambeau.ones(9, 1).double()}),
    ):
        with pytest.raises(error, match=words):
            flambeau.lobpcg(A, **given)
    with pytest.raises(NotImplementedError, match="B is given"):
        flambeau.lobpcg(A.requires_grad_(), B=flambeau.eye(9))
