"""Complex numbers through every kind of operation: values against NumPy, gradients against finite differences."""

import cmath
import math

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck

UNARY = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "square": np.square, "reciprocal": np.reciprocal, "neg": np.negative,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "abs": np.abs, "angle": np.angle, "conj_physical": np.conj, "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "rsqrt": lambda z: 1 / np.sqrt(z), "sgn": lambda z: z / np.abs(z), "sinc": np.sinc,
}  # fmt: skip
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power}
FOLDS = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "any": np.any,
    "all": np.all,
    "count_nonzero": np.count_nonzero,
}


def numbers(shape, dtype="complex128", seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    return (spread * (rng.normal(size=shape) + 1j * rng.normal(size=shape))).astype(dtype)


def tensor(values):
    return flambeau.from_numpy(np.ascontiguousarray(values))


def close(got, expected, dtype):
    assert got.dtype == (expected.dtype if hasattr(expected, "dtype") else got.dtype)
    tolerance = 4e-6 if dtype == "complex64" else 2e-14
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", UNARY)
def test_functions(name, dtype):
    z = numbers((5, 37), dtype)
    function = getattr(flambeau, name)
    with np.errstate(all="ignore"):
        close(function(tensor(z)).numpy(), UNARY[name](z), dtype)
        close(function(tensor(z).t()).numpy(), UNARY[name](z.T), dtype)
        close(function(tensor(z)[:, ::3]).numpy(), UNARY[name](z[:, ::3]), dtype)


@pytest.mark.parametrize("name", ["sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_branch_cuts(name):
    cuts = [complex(x, y) for x in (-2.0, -0.5, 0.5, 2.0) for y in (0.0, -0.0)]
    cuts += [complex(x, y) for y in (-2.0, -0.5, 0.5, 2.0) for x in (0.0, -0.0)]
    got = getattr(flambeau, name)(flambeau.tensor(cuts, dtype=flambeau.complex128)).tolist()
    np.testing.assert_allclose(got, [getattr(cmath, name)(z) for z in cuts], rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic(name, dtype):
    a, b = numbers((6, 5), dtype), numbers((5,), dtype, 1)
    function = getattr(flambeau, name)
    close(function(tensor(a), tensor(b)).numpy(), BINARY[name](a, b), dtype)
    real = b.real.copy()
    close(function(tensor(a), tensor(real)).numpy(), BINARY[name](a, real), dtype)
    number = a.dtype.type(1.5 - 0.5j)
    close(function(tensor(a), 1.5 - 0.5j).numpy(), BINARY[name](a, number), dtype)


def test_quotients_do_not_overflow():
    big = flambeau.tensor([1e30 + 1e30j, 1e-30 + 1e-30j])
    np.testing.assert_allclose((big / big).numpy(), [1, 1], rtol=1e-6)


def test_promotion():
    x = flambeau.tensor([1.0, 2.0])
    assert (x * 1j).dtype == flambeau.complex64
    assert (x.double() * 1j).dtype == flambeau.complex128
    assert (x.double() + flambeau.tensor([1j])).dtype == flambeau.complex128
    assert (flambeau.tensor([1, 2]) + 1j).dtype == flambeau.complex64
    assert (x * 1j).tolist() == [1j, 2j]
    assert abs(flambeau.tensor([3 + 4j])).dtype == flambeau.float32


def test_conversions():
    z = flambeau.tensor([1.5 - 2j, 0j])
    assert z.to(flambeau.complex128).tolist() == [1.5 - 2j, 0j]
    assert z.bool().tolist() == [True, False]
    assert flambeau.tensor([2, 3]).to(flambeau.complex64).tolist() == [2 + 0j, 3 + 0j]
    assert flambeau.empty(2, dtype=flambeau.complex64).fill_(1 + 2j).tolist() == [1 + 2j] * 2
    assert flambeau.full((2,), 1 - 1j).tolist() == [1 - 1j] * 2
    assert z.masked_fill(flambeau.tensor([True, False]), 2j).tolist() == [2j, 0j]
    assert flambeau.where(flambeau.tensor([True, False]), z, 1j).tolist() == [1.5 - 2j, 1j]


def test_comparisons():
    z = flambeau.tensor([1 + 1j, 1 - 1j])
    assert (z == 1 + 1j).tolist() == [True, False]
    assert (z != 1 + 1j).tolist() == [False, True]
    for compare in (flambeau.lt, flambeau.ge, flambeau.maximum):
        with pytest.raises(NotImplementedError, match="complex64"):
            compare(z, z)
    odd = flambeau.tensor([complex(math.nan, 0), complex(0, math.inf), 1j, 2])
    assert odd.isnan().tolist() == [True, False, False, False]
    assert odd.isinf().tolist() == [False, True, False, False]
    assert odd.isfinite().tolist() == [False, False, True, True]
    assert odd.isreal().tolist() == [True, False, False, True]
    assert flambeau.allclose(z, z + 1e-9)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape,dim", [((7,), 0), ((3, 50), 1), ((50, 3), 0), ((40000,), 0), ((70, 4100), 0)])
@pytest.mark.parametrize("name", FOLDS)
def test_reductions(name, shape, dim, dtype):
    z = numbers(shape, dtype, spread=1.0 if name != "prod" else 0.5)
    expected = FOLDS[name](z.astype("complex128"), axis=dim)
    got = getattr(flambeau, name)(tensor(z), dim).numpy()
    if got.dtype.kind == "c":
        assert got.dtype == dtype
    np.testing.assert_allclose(
        got,
        expected,
        rtol=1e-3 if dtype == "complex64" else 1e-10,
        atol=1e-2 if dtype == "complex64" else 1e-10,
    )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_moments_and_norms(dtype):
    z = numbers((30, 41), dtype)
    close(tensor(z).var(1).numpy(), z.var(1, ddof=1), dtype)
    close(tensor(z).std(0).numpy(), z.std(0, ddof=1), dtype)
    close(flambeau.linalg.vector_norm(tensor(z), dim=1).numpy(), np.linalg.norm(z, axis=1), dtype)


DIFFERENTIABLE = [n for n in UNARY if n != "exp2"] + ["exp2"]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_functions(name):
    z = tensor(numbers((4,), seed=4)).requires_grad_()
    function = getattr(flambeau, name)
    assert gradcheck(function, (z,))
    assert gradgradcheck(function, (z,))


@pytest.mark.parametrize("name", BINARY)
def test_gradients_of_arithmetic(name):
    function = getattr(flambeau, name)
    a = tensor(numbers((2, 3), seed=4)).requires_grad_()
    b = tensor(numbers((3,), seed=5)).requires_grad_()
    x = tensor(numbers((3,), seed=6).real).requires_grad_()
    for pair in ((a, b), (a, x), (x, a)):
        assert gradcheck(function, pair)
    assert gradcheck(lambda z: function(z, 1.5 + 2j), (a,))
    assert gradgradcheck(function, (a, b))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "norm"])
def test_gradients_of_reductions(name):
    z = tensor(numbers((3, 4), seed=7)).requires_grad_()
    assert gradcheck(lambda t: getattr(t, name)(dim=1), (z,))


def test_gradients_of_parts():
    z = tensor(numbers((3,), seed=8)).requires_grad_()
    x, y = (tensor(p).requires_grad_() for p in numbers((2, 3), seed=9).real + 2)
    assert gradcheck(lambda t: (t.real, t.imag, t.conj(), t.angle()), (z,))
    assert gradcheck(flambeau.complex, (x, y))
    assert gradcheck(flambeau.polar, (x, y))


def test_gradient_is_that_of_both_parts():
    """For L = |z|², dL/dx + i dL/dy is 2z."""
    z = flambeau.tensor([1 + 2j], requires_grad=True)
    (z.abs() ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), [2 + 4j], rtol=1e-6)


# --- products, scans ------------------------------
def leaf(*shape, seed=10):
    return tensor(numbers(shape, seed=seed)).requires_grad_()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_products(dtype):
    a, b, v = numbers((3, 5, 4), dtype), numbers((4, 6), dtype, 1), numbers((4,), dtype, 2)
    close((tensor(a) @ tensor(b)).numpy(), a @ b, dtype)
    close((tensor(a).transpose(1, 2).mH @ tensor(v)).numpy(), a.conj() @ v, dtype)
    close(flambeau.vdot(tensor(v), tensor(v * 1j)).numpy(), np.vdot(v, v * a.dtype.type(1j)), dtype)
    c = numbers((5, 6), dtype, 3)
    got = flambeau.addmm(tensor(c), tensor(a[0]), tensor(b), beta=2j, alpha=1 - 1j)
    close(got.numpy(), a.dtype.type(2j) * c + a.dtype.type(1 - 1j) * (a[0] @ b), dtype)
    with pytest.raises(RuntimeError, match="alpha"):
        flambeau.addmm(tensor(c.real), tensor(a[0].real), tensor(b.real), alpha=1j)


def test_gradients_of_products():
    a, b, v = leaf(3, 4), leaf(4, 2, seed=11), leaf(4, seed=12)
    for function, given in (
        (flambeau.matmul, (a, b)),
        (flambeau.mv, (a, v)),
        (flambeau.dot, (v, leaf(4))),
        (flambeau.vdot, (v, leaf(4))),
        (flambeau.outer, (v, leaf(3))),
        (flambeau.bmm, (leaf(2, 3, 4), leaf(2, 4, 2))),
        (flambeau.nn.functional.linear, (leaf(2, 4), leaf(3, 4), leaf(3))),
        (lambda c, x, y: flambeau.addmm(c, x, y, beta=1 - 1j, alpha=2j), (leaf(3, 2), a, b)),
        (lambda x, y: flambeau.einsum("ij,jk->ki", x, y), (a, b)),
    ):
        assert gradcheck(function, given)
    assert gradgradcheck(flambeau.matmul, (a, b))


def test_covariances():
    z = numbers((3, 7))
    close(flambeau.cov(tensor(z)).numpy(), np.cov(z), "complex128")
    close(flambeau.corrcoef(tensor(z)).numpy(), np.corrcoef(z), "complex128")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_convolutions(dtype):
    z, w = numbers((1, 1, 9), dtype), numbers((1, 1, 3), dtype, 1)
    found = flambeau.nn.functional.conv1d(tensor(z), tensor(w))
    close(found.numpy()[0, 0], np.correlate(z[0, 0], w[0, 0].conj(), "valid"), dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_scans(dtype):
    z = numbers((50, 3), dtype, spread=0.9)
    close(tensor(z).cumsum(0).numpy(), np.cumsum(z.astype("complex128"), 0).astype(dtype), dtype)
    close(tensor(z).cumprod(1).numpy(), np.cumprod(z.astype("complex128"), 1).astype(dtype), dtype)
    long = numbers((70000,), dtype)
    close(
        tensor(long).cumsum(0).numpy() / 300,
        (np.cumsum(long.astype("complex128")) / 300).astype(dtype),
        dtype,
    )
    x = leaf(2, 3)
    assert gradcheck(lambda t: t.cumsum(1), (x,))
    assert gradcheck(lambda t: t.cumprod(1), (x,))


def test_logarithms_of_sums():
    """Beyond the range of exp, to within a turn of 2π; gradients of both orders."""
    a, b = numbers((5, 7)), numbers((5, 7), seed=1)
    close(flambeau.logaddexp(tensor(a), tensor(b)).numpy(), np.log(np.exp(a) + np.exp(b)), "complex128")
    close(flambeau.logsumexp(tensor(a), (0, 1)).numpy(), np.log(np.exp(a).sum()), "complex128")
    close(flambeau.logsumexp(tensor(a + 1000), 1).numpy() - 1000, np.log(np.exp(a).sum(1)), "complex64")
    close(flambeau.logcumsumexp(tensor(a), 1).numpy(), np.log(np.exp(a).cumsum(1)), "complex128")
    nothing = tensor(np.array([-np.inf + 0j, -np.inf + 0j]))
    assert flambeau.logaddexp(nothing, nothing).real.tolist() == [-math.inf] * 2
    assert flambeau.logsumexp(nothing, 0).real.item() == -math.inf
    assert flambeau.logcumsumexp(nothing, 0).real.tolist() == [-math.inf] * 2
    x, y = leaf(2, 3), leaf(2, 3, seed=3)
    for function, inputs in (
        (flambeau.logaddexp, (x, y)),
        (lambda z: flambeau.logsumexp(z, 1), (x,)),
        (lambda z: flambeau.logcumsumexp(z, 1), (x,)),
    ):
        assert gradcheck(function, inputs) and gradgradcheck(function, inputs)


def test_ldexp():
    x, n = np.array([1 + 2j, -3j]), np.array([3, -1])
    np.testing.assert_allclose(flambeau.ldexp(flambeau.tensor(x), flambeau.tensor(n)).numpy(), x * 2.0**n)


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh", "sqrt"])
def test_parts_of_all_magnitudes(name):
    """Each part to a few epsilons, from tiny numbers to huge ones, and on both sides of where 1 is nothing beside z²."""
    rng = np.random.default_rng(0)

    def parts():
        return rng.choice([-1, 1], 4000) * 10.0 ** rng.uniform(-8, 9, 4000)

    z = (parts() + 1j * parts()).astype("complex64")
    z[:1000].real = rng.uniform(1e4, 3e4, 1000)
    got, want = getattr(flambeau, name)(tensor(z)).numpy(), UNARY[name](z.astype("complex128"))
    for g, w in ((got.real, want.real), (got.imag, want.imag)):
        assert (np.abs(g - w) <= 4 * 2.0**-23 * np.abs(w) + 1e-37).all()
