"""Single points where NumPy, C or common sense would answer otherwise than PyTorch, whose answers these are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

SMALL = [getattr(flambeau, n) for n in ("uint8", "int8", "int16", "int32")]


def test_addr_of_bools():
    m = flambeau.tensor([[True, False], [False, False]])
    a, b = flambeau.tensor([True, False]), flambeau.tensor([False, True])
    for beta, alpha in itertools.product([0, 1, 3, False, True], [0, 1, 2, False, True]):
        want = (m.numpy() & bool(beta)) | (np.outer(a.numpy(), b.numpy()) & bool(alpha))
        found = flambeau.addr(m, a, b, beta=beta, alpha=alpha)
        assert found.dtype == flambeau.bool and found.tolist() == want.tolist()


@pytest.mark.parametrize("kind", SMALL, ids=str)
def test_dtypes_of_small_integers(kind):
    x = flambeau.ones(1, 2, 3, dtype=kind)
    # a sum over a dimension of one operand alone is a sum as any other; a contraction keeps the dtype
    assert flambeau.einsum("...ik,...j->ij", x, flambeau.ones(3, dtype=kind)).dtype == flambeau.int64
    assert flambeau.einsum("ijk,jl->il", x, flambeau.ones(2, 4, dtype=kind)).dtype == flambeau.int64
    assert flambeau.einsum("ijk,ik->j", x, flambeau.ones(1, 3, dtype=kind)).dtype == kind
    assert flambeau.einsum("ijk,kl->ijl", x, flambeau.ones(3, 2, dtype=kind)).dtype == kind
    assert [t.dtype for t in flambeau.unravel_index(x[0, 0], (2, 3))] == [flambeau.int64] * 2
    mask = flambeau.tensor([True, False, True])
    for function in (flambeau.masked.cumsum, flambeau.masked.cumprod):
        assert function(x[0, 0], 0, mask=mask).dtype == kind
        assert function(x[0, 0], 0, mask=mask, dtype=flambeau.int64).dtype == flambeau.int64


def test_bincount_of_small_integers():
    for kind in SMALL:
        assert flambeau.bincount(flambeau.tensor([1, 3, 1], dtype=kind)).tolist() == [0, 2, 0, 1]
        assert flambeau.bincount(flambeau.tensor([], dtype=kind), minlength=2).tolist() == [0, 0]


@pytest.mark.parametrize("kind", [flambeau.int8, flambeau.int16, flambeau.int32], ids=str)
def test_arange_of_small_integers_with_float_bounds(kind):
    """As many as the numbers given ask for, each computed from them cut off."""
    for start, end, step in (
        (0.0, -8.000001, -4.0),
        (-0.9, 2.1, 2.0),
        (2.1, -2.9, -1.0),
        (0.0, 3.1, 1.0),
        (0.9, -0.9, 1.0),
    ):
        found = flambeau.arange(start, end, step, dtype=kind)
        n = max(0, int(np.ceil((end - start) / step)))
        assert found.tolist() == [int(start) + i * int(step) for i in range(n)]
    assert flambeau.arange(3.1, dtype=kind).tolist() == [0, 1, 2, 3]
    assert flambeau.arange(3.1, dtype=flambeau.int64).tolist() == [0, 1, 2]


def test_local_response_norm_of_integers():
    """The mean of the squares is cut off to an integer, as a mean by pooling is."""
    x = flambeau.tensor([[[3, 5], [2, 1], [7, 4]]])
    padded = np.pad(x.numpy() ** 2, ((0, 0), (1, 0), (0, 0)))
    mean = (padded[:, :-1] + padded[:, 1:]) // 2
    np.testing.assert_allclose(
        F.local_response_norm(x, 2, alpha=0.5, beta=0.5, k=2.0).numpy(),
        x.numpy() / np.sqrt(2 + 0.5 * mean),
        rtol=1e-6,
    )
    nothing = flambeau.zeros(0, 1, 2, dtype=flambeau.int64)
    assert F.local_response_norm(nothing, 1).dtype == flambeau.int64


def test_histograms_by_bisection():
    """Sorted edges as NumPy has them; unsorted ones are searched as if they were sorted, as in PyTorch."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(50, 2)), rng.random(50)
    edges = [np.linspace(-1, 1, 5), np.array([-2.0, -0.5, 0.1, 3.0])]
    x[0], x[1] = (1.0, 3.0), (np.nan, 0.0)
    given = flambeau.from_numpy(x), [flambeau.from_numpy(e) for e in edges]
    for w, density in itertools.product([None, weights], [False, True]):
        want, _ = np.histogramdd(x, edges, weights=w, density=density)
        found = flambeau.histogramdd(
            *given, weight=None if w is None else flambeau.from_numpy(w), density=density
        )
        np.testing.assert_allclose(found.hist.numpy(), want, rtol=1e-12)
    unsorted = flambeau.tensor([0.0, 3.0, 1.0, 4.0])
    # 0.5: edge 2 (1.0) is larger, edge 1 is larger, edge 0 is not; 3.5: only edge 3 is larger
    found = flambeau.histogram(flambeau.tensor([0.5, 3.5, 5.0, -1.0, 4.0]), unsorted)
    assert found.hist.tolist() == [1.0, 0.0, 2.0] and found.bin_edges.tolist() == unsorted.tolist()
    with pytest.raises(RuntimeError, match="is not finite"):
        flambeau.histogram(flambeau.tensor([float("nan"), 1.0]), 3)


def test_sparse_embeddings_without_a_gradient():
    """What is asked for is the gradient's layout: without a gradient nothing is missing."""
    weight, words = flambeau.rand(5, 3), flambeau.tensor([[0, 2], [4, 2]])
    assert F.embedding(words, weight, sparse=True).tolist() == F.embedding(words, weight).tolist()
    assert F.embedding_bag(words, weight, sparse=True).tolist() == F.embedding_bag(words, weight).tolist()
    weight.requires_grad_()
    with flambeau.no_grad():
        assert F.embedding(words, weight, sparse=True).grad_fn is None


def test_polygamma_with_an_order_in_a_tensor():
    x = flambeau.tensor([0.5, 2.0])
    assert flambeau.polygamma(flambeau.tensor(2), x).tolist() == flambeau.polygamma(2, x).tolist()
    assert x.polygamma(flambeau.tensor(1)).tolist() == x.polygamma(1).tolist()
    for order in (1.0, flambeau.tensor(1.0), flambeau.tensor([1]), True):
        with pytest.raises(TypeError, match="'n'"):
            flambeau.polygamma(order, x)


def test_running_logarithms_of_complex_sums_keep_the_turn():
    """The first result is the first number, also beyond π; the exponentials are the running sums."""
    z = flambeau.tensor([[0.5 + 7j, 1.0 - 9j, 0.2 + 20j], [-1j, 8j, 30j]], dtype=flambeau.complex128)
    for dim in (0, 1):
        found = z.logcumsumexp(dim)
        assert found.select(dim, 0).tolist() == z.select(dim, 0).tolist()
        np.testing.assert_allclose(found.exp().numpy(), np.exp(z.numpy()).cumsum(dim), rtol=1e-12)
    assert flambeau.tensor(2 + 9j).logcumsumexp(0).item() == 2 + 9j


def pillow(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The last dimension of bytes times a matrix of weights of 15 bits, rounded to bytes."""
    bits = 0
    while bits < 22 and int(0.5 + weights.max() * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    whole = np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)).astype(np.int64)
    return np.clip((image.astype(np.int64) @ whole.T + (1 << bits >> 1)) >> bits, 0, 255).astype(np.uint8)


def linear_weights(size: int, out: int) -> np.ndarray:
    """(out, size): what each input element gives to each output element, as bilinear interpolation of ones tells."""
    eye = flambeau.eye(size, dtype=flambeau.float64).reshape(1, size, size)
    return F.interpolate(eye, out, mode="linear")[0].numpy().T


def test_images_of_bytes_are_resized_in_fixed_point():
    x = np.random.default_rng(1).integers(0, 256, (2, 3, 17, 23), dtype=np.uint8)
    found = F.interpolate(flambeau.from_numpy(x), (11, 9), mode="bilinear").numpy()
    rows = pillow(x, linear_weights(23, 9))
    want = np.swapaxes(pillow(np.swapaxes(rows, 2, 3), linear_weights(17, 11)), 2, 3)
    assert found.dtype == np.uint8 and (found == want).all()
    for mode, antialias in itertools.product(["bilinear", "bicubic"], [False, True]):
        found = F.interpolate(flambeau.from_numpy(x), (30, 9), mode=mode, antialias=antialias)
        exact = F.interpolate(flambeau.from_numpy(x).double(), (30, 9), mode=mode, antialias=antialias).clamp(
            0, 255
        )
        limit = 1.1 if mode == "bilinear" else 40  # bytes in between cannot overshoot
        assert float((found.double() - exact).abs().max()) <= limit


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name):
    function, reference = getattr(flambeau.fft, name), getattr(np.fft, name)
    for n, d in itertools.product([1, 2, 5, 8], [1.0, 0.5, 3]):
        found = function(n, d, dtype=flambeau.float64, pin_memory=False)
        np.testing.assert_allclose(found.numpy(), reference(n, d), rtol=1e-15)
        assert function(flambeau.tensor(n), flambeau.tensor(d)).tolist() == function(n, d).tolist()
    limits = function(4, 0.0)
    assert limits[0].isnan() and limits[1:].isinf().all()
    assert function(0).shape == ((0,) if name == "fftfreq" else (1,))
    out = flambeau.empty(0)
    assert function(4, out=out) is out and out.tolist() == function(4).tolist()
    for bad in ((4.0,), (True,), (4, 1j), (4, "a")):
        with pytest.raises(TypeError, match=rf"{name}\(\): argument '[nd]' \(position"):
            function(*bad)
    with pytest.raises(RuntimeError, match=f"{name}.*negative"):
        function(-1)
    with pytest.raises(RuntimeError, match="floating point or complex dtype"):
        function(4, dtype=flambeau.int64)


def test_edges_and_ranges_of_histograms_are_checked():
    """A range with an end too few would leave coordinates out."""
    points, x = flambeau.rand(10, 2), flambeau.rand(5)
    for ends in ([0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0] * 3):
        with pytest.raises(RuntimeError, match="expected range to have 4 elements"):
            flambeau.histogramdd(points, [2, 3], range=ends)
    for bins in (flambeau.tensor([0, 1]), flambeau.tensor([0.0, 1.0], dtype=flambeau.float64)):
        with pytest.raises(RuntimeError, match="expected bins of the input's dtype"):
            flambeau.histogram(x, bins)
    for n in (0, 1):
        with pytest.raises(RuntimeError, match="at least two edges"):
            flambeau.histogram(x, flambeau.zeros(n))


@pytest.mark.parametrize("ord", [float("inf"), float("-inf"), -1.0, -0.5])
def test_norms_without_an_identity_refuse_nothing(ord):
    for shape, dim in (((0,), None), ((2, 0), 1), ((2, 0), -1), ((2, 0, 3), (0, 1)), ((0, 2), ())):
        with pytest.raises(RuntimeError, match="does not have an identity"):
            flambeau.linalg.vector_norm(flambeau.ones(shape), ord, dim)
    assert flambeau.linalg.vector_norm(flambeau.ones(0, 2), ord, 1).shape == (0,)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfft2", "irfft2"])
def test_a_single_number_has_no_dimension_to_transform(name):
    with pytest.raises(
        IndexError, match=rf"fft\.{name}\(\): Dimension specified as -[12] but tensor has no dimensions"
    ):
        getattr(flambeau.fft, name)(flambeau.tensor(1.0))
