"""Random tensors: the stream against Philox itself, distributions by their moments, threads, ranges, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import flambeau
from flambeau.core.make.random import _philox

FLOATS = ["float16", "bfloat16", "float32", "float64"]
N = 200_000


@pytest.fixture(autouse=True)
def seeded():
    flambeau.manual_seed(20)


def test_elements_are_the_words_that_the_module_says():
    seed, n = 0x1234567890ABCDEF, 700
    flambeau.manual_seed(seed)
    got = flambeau.rand(n).numpy()
    wide = flambeau.rand(n, dtype=flambeau.float64).numpy()
    for i in (0, 1, 63, 64, 255, 256, 511, 600, 699):
        group, inside = divmod(i, 256)
        words = _philox(seed, 64 * group + inside % 64)
        assert got[i] == (words[inside // 64] >> 8) / 2**24
        words = _philox(seed, 3 * 64 + 128 * group + inside % 128)
        low, high = words[2 * (inside // 128) : 2 * (inside // 128) + 2]
        assert wide[i] == ((high << 32 | low) >> 11) / 2**53


def test_philox_known_answers():
    """The vectors that come with the authors' Random123."""
    assert _philox(0, 0) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = (1 << 128) - 1
    assert _philox(ones & (1 << 64) - 1, ones) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


@pytest.mark.parametrize("make", [flambeau.rand, flambeau.randn])
def test_shorter_tensors_are_prefixes_and_threads_do_not_matter(make):
    before = flambeau.get_num_threads()
    found = []
    for threads, n in ((1, 100_001), (2, 100_001), (2, 777)):
        flambeau.set_num_threads(threads)
        found.append(make(n, generator=flambeau.Generator().manual_seed(5)).numpy())
    flambeau.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0][:777], found[2])


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype):
    x = flambeau.rand(N, dtype=getattr(flambeau, dtype)).to(flambeau.float64).numpy()
    assert 0 <= x.min() < 0.01 and 0.99 < x.max() < 1
    assert abs(x.mean() - 0.5) < 0.006 and abs(x.var() - 1 / 12) < 0.002
    y = flambeau.empty(N, dtype=getattr(flambeau, dtype)).uniform_(-2, 6).to(flambeau.float64).numpy()
    assert -2 <= y.min() and y.max() <= 6 and abs(y.mean() - 2) < 0.05


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "fill, distribution",
    [
        (lambda t: t.normal_(2.0, 3.0), stats.norm(2, 3)),
        (lambda t: t.exponential_(2.0), stats.expon(scale=0.5)),
        (lambda t: t.cauchy_(1.0, 2.0), stats.cauchy(1, 2)),
        (lambda t: t.log_normal_(0.5, 0.25), stats.lognorm(0.25, scale=math.exp(0.5))),
        (lambda t: t.uniform_(1.0, 4.0), stats.uniform(1, 3)),
    ],
    ids=["normal", "exponential", "cauchy", "log_normal", "uniform"],
)
def test_continuous_distributions(fill, distribution, dtype):
    x = fill(flambeau.empty(N, dtype=getattr(flambeau, dtype))).to(flambeau.float64).numpy()
    assert stats.kstest(x, distribution.cdf).statistic < 1.95 / math.sqrt(N)  # p > 0.001


def test_normal_pairs_are_independent():
    x = flambeau.randn(256 * 1000).numpy().reshape(1000, 4, 64)
    correlations = np.corrcoef(x.transpose(1, 0, 2).reshape(4, -1))
    assert np.abs(correlations - np.eye(4)).max() < 0.015
    squares = np.corrcoef((x.transpose(1, 0, 2).reshape(4, -1)) ** 2)
    assert np.abs(squares - np.eye(4)).max() < 0.015
    assert np.abs(x).max() > 4.2


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float32", "bfloat16"])
def test_randint(dtype):
    x = flambeau.randint(3, 13, (N,), dtype=getattr(flambeau, dtype)).to(flambeau.int64)
    counts = np.bincount(x.numpy(), minlength=14)
    assert counts[:3].sum() == 0 and counts[13] == 0
    assert stats.chisquare(counts[3:13]).pvalue > 1e-4


@pytest.mark.parametrize(
    "low, high", [(-(1 << 30), 1 << 30), (5, 5 + (1 << 31)), (-(1 << 62), 1 << 62), (0, 1 << 40)]
)
def test_wide_ranges(low, high):
    x = flambeau.randint(low, high, (N,)).numpy()
    assert x.min() >= low and x.max() < high
    scaled = (x.astype("float64") - low) / (high - low)
    assert stats.kstest(scaled, "uniform").statistic < 1.95 / math.sqrt(N)


def test_random_reaches_the_whole_dtype():
    x = flambeau.empty(N, dtype=flambeau.uint8).random_()
    assert np.bincount(x.numpy(), minlength=256).min() > 500
    assert flambeau.empty(1000, dtype=flambeau.int64).random_().min().item() >= 0
    y = flambeau.empty(1000, dtype=flambeau.int64).random_(-(1 << 63), None)
    assert y.min().item() < -(1 << 61) and y.max().item() > 1 << 61
    assert sorted(set(flambeau.empty(100, dtype=flambeau.bool).random_().tolist())) == [False, True]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float16"])
def test_bernoulli(dtype):
    x = flambeau.empty(N, dtype=getattr(flambeau, dtype))
    for p in (0.0, 0.3, 1.0):
        assert abs(x.bernoulli_(p).to(flambeau.float64).mean().item() - p) < 0.005 * (0 < p < 1) + 1e-12
    p = flambeau.tensor([0.1, 0.9]).expand(N // 2, 2)
    assert np.abs(flambeau.bernoulli(p).mean(0).numpy() - [0.1, 0.9]).max() < 0.005


def test_geometric_and_poisson():
    x = flambeau.empty(N, dtype=flambeau.int64).geometric_(0.25).numpy()
    assert x.min() == 1 and abs(x.mean() - 4) < 0.05 and abs((x == 1).mean() - 0.25) < 0.005
    rates = flambeau.tensor([0.0, 0.5, 30.0]).expand(N // 4, 3)
    drawn = flambeau.poisson(rates).numpy()
    np.testing.assert_allclose(drawn.mean(0), [0, 0.5, 30], atol=0.08)
    np.testing.assert_allclose(drawn.var(0), [0, 0.5, 30], rtol=0.04)


def test_normal_of_tensors():
    mean, std = flambeau.tensor([[0.0], [10.0]]), flambeau.tensor([1.0, 2.0, 0.0])
    x = flambeau.normal(mean.expand(2, 3), std)
    assert x.shape == (2, 3) and x[:, 2].tolist() == [0.0, 10.0]
    assert flambeau.normal(1.0, 0.0, (2,)).tolist() == [1.0, 1.0]


def test_multinomial():
    weights = flambeau.tensor([[1.0, 0.0, 3.0], [0.0, 5.0, 5.0]])
    x = flambeau.multinomial(weights, 20_000, replacement=True)
    shares = np.stack([np.bincount(row, minlength=3) / 20_000 for row in x.numpy()])
    np.testing.assert_allclose(shares, [[0.25, 0, 0.75], [0, 0.5, 0.5]], atol=0.02)
    for _ in range(20):
        assert sorted(flambeau.multinomial(flambeau.tensor([0.1, 2.0, 1.0, 0.5]), 4).tolist()) == [0, 1, 2, 3]
    firsts = flambeau.multinomial(flambeau.tensor([1.0, 3.0]).expand(20_000, 2), 1)[:, 0].to(flambeau.float32)
    assert abs(firsts.mean().item() - 0.75) < 0.015


def test_generators_and_options():
    g = flambeau.Generator().manual_seed(1)
    a = flambeau.rand(3, generator=g)
    b = flambeau.rand(3, generator=g)
    assert a.tolist() != b.tolist()
    assert flambeau.rand(3, generator=g.manual_seed(1)).tolist() == a.tolist()
    assert flambeau.randn(2, 3, requires_grad=True).requires_grad
    out = flambeau.empty(0)
    assert flambeau.rand(2, 3, out=out) is out and out.shape == (2, 3)
    assert flambeau.rand((2, 3)).shape == flambeau.rand(size=(2, 3)).shape == (2, 3)
    assert flambeau.rand_like(flambeau.zeros(2, 3, dtype=flambeau.float64)).dtype == flambeau.float64
    assert flambeau.randint_like(flambeau.zeros(4, dtype=flambeau.int16), 2, 3).tolist() == [2] * 4
    turned = flambeau.zeros(40, 70).t().uniform_()
    assert turned.stride() == (1, 70) and bool((turned > 0).any(0).all())


def test_complex_numbers():
    z = flambeau.randn(N // 2, dtype=flambeau.complex64).numpy()
    assert abs((np.abs(z) ** 2).mean() - 1) < 0.02 and abs((z**2).mean()) < 0.02
    z = flambeau.empty(N // 2, dtype=flambeau.complex128)
    assert z.normal_(1.0, 2.0) is z and abs((np.abs(z.numpy() - (1 + 1j)) ** 2).mean() - 4) < 0.1
    z = flambeau.rand_like(z).numpy()
    assert abs(z.mean() - (0.5 + 0.5j)) < 0.02 and 0 <= z.real.min() and z.imag.max() < 1


def test_leaves_are_not_overwritten():
    x = flambeau.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x.normal_()
    with flambeau.no_grad():
        version = x._version
        x.normal_()
    assert x._version > version
    p = flambeau.full((3,), 0.5, requires_grad=True)
    flambeau.bernoulli(p).sum().backward()
    assert p.grad.tolist() == [0.0] * 3


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: flambeau.rand(2, dtype=flambeau.int32), NotImplementedError, "floating-point"),
        (lambda: flambeau.zeros(2, dtype=flambeau.int32).normal_(), NotImplementedError, "normal_"),
        (lambda: flambeau.zeros(2).normal_(0, -1), RuntimeError, "std >= 0"),
        (lambda: flambeau.zeros(2).uniform_(2, 1), RuntimeError, "from=2 > to=1"),
        (lambda: flambeau.zeros(2).exponential_(0), RuntimeError, "lambda > 0"),
        (lambda: flambeau.zeros(2).geometric_(1), RuntimeError, r"geometric_\(\): expects p"),
        (lambda: flambeau.zeros(2).bernoulli_(2.0), RuntimeError, r"p to be in \[0, 1\]"),
        (lambda: flambeau.bernoulli(flambeau.tensor([1.5])), RuntimeError, "p_in"),
        (lambda: flambeau.randint(3, 2, (2,)), RuntimeError, "from=3 >= to=2"),
        (lambda: flambeau.randint(0, 300, (2,), dtype=flambeau.uint8), RuntimeError, "out of bounds"),
        (lambda: flambeau.randint(3), TypeError, "size"),
        (lambda: flambeau.rand(-1), RuntimeError, r"rand\(\): .*negative dimension"),
        (lambda: flambeau.rand(2, wrong=1), TypeError, "unexpected keyword"),
        (lambda: flambeau.multinomial(flambeau.ones(3), 4), RuntimeError, "without replacement"),
        (lambda: flambeau.multinomial(-flambeau.ones(3), 1), RuntimeError, "element < 0"),
        (lambda: flambeau.multinomial(flambeau.zeros(3), 1), RuntimeError, "sum of probabilities"),
        (lambda: flambeau.poisson(-flambeau.ones(3)), RuntimeError, "non-negative"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("draw", ["uniform_", "normal_", "exponential_"])
def test_few_numbers_are_the_first_of_many(draw, dtype):
    """Whichever way so many are drawn."""
    dtype = getattr(flambeau, dtype)
    flambeau.manual_seed(3)
    many = getattr(flambeau.empty(5000, dtype=dtype), draw)()
    for shape in (
        (),
        (1,),
        (3, 7),
        (64,),
        (65,),
        (128,),
        (129,),
        (2, 128),
        (300,),
        (2047,),
        (2048,),
        (2049,),
    ):
        flambeau.manual_seed(3)
        few = getattr(flambeau.empty(shape, dtype=dtype), draw)()
        assert few.view(-1).equal(many[: few.numel()])
        after = flambeau.rand(5)
        flambeau.manual_seed(3)
        getattr(flambeau.empty(-(-few.numel() // 256) * 256, dtype=dtype), draw)()
        assert flambeau.rand(5).equal(after)  # whole groups are taken


@pytest.mark.parametrize("p", [math.nan, -1e-30, 1.0 + 1e-6, math.inf])
def test_bernoulli_finds_one_wrong_probability(p):
    for size in (1, 7, 1000):
        given = flambeau.full((size,), 0.5)
        given[size // 2] = p
        with pytest.raises(RuntimeError, match="p_in"):
            flambeau.bernoulli(given)
