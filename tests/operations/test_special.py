"""Functions that SciPy and NumPy compute: values, dtypes, broadcasting, `out=`, derivatives."""

from __future__ import annotations

import importlib
import math

import mpmath
import numpy as np
import pytest
import scipy.special

import flambeau
from flambeau.operations.declare.registry import REGISTRY

CPU_FALLBACK = [e for e in REGISTRY.values() if e.kind == "fallback" and e.reference and e.name != "frexp"]
FLOATING = [e for e in CPU_FALLBACK if e.function.floating]
name_of = lambda entry: entry.name


def reference(entry):
    module, _, name = entry.reference.rpartition(".")
    return getattr(importlib.import_module(module), name)


def operands(entry, shape=(4, 5)):
    rng = np.random.default_rng(1)
    count = len(entry.function.__signature__.parameters) - 1  # without out
    if not entry.function.floating:
        return [rng.integers(-30, 30, shape) for _ in range(count)]
    return [rng.uniform(*entry.domain, shape) for _ in range(count)]


@pytest.mark.parametrize("entry", CPU_FALLBACK, ids=name_of)
def test_values_and_layouts(entry):
    arrays = operands(entry)
    found = entry.function(*map(flambeau.tensor, arrays))
    expected = np.abs(reference(entry)(*arrays)) if entry.name == "lcm" else reference(entry)(*arrays)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
    turned = [flambeau.tensor(a.T.copy()).t() for a in arrays]
    np.testing.assert_array_equal(entry.function(*turned).numpy(), found.numpy())
    out = flambeau.empty(0, dtype=found.dtype)
    assert entry.function(*map(flambeau.tensor, arrays), out=out) is out
    np.testing.assert_array_equal(out.numpy(), found.numpy())


@pytest.mark.parametrize("entry", FLOATING, ids=name_of)
def test_dtypes(entry):
    arrays = [np.abs(a) for a in operands(entry, (3,))]
    for given, wanted in ((np.float32, flambeau.float32), (np.int64, flambeau.float32)):
        assert entry.function(*[flambeau.tensor(a.astype(given)) for a in arrays]).dtype == wanted
    halves = [flambeau.tensor(a).bfloat16() for a in arrays]
    assert entry.function(*halves).dtype == flambeau.bfloat16
    with pytest.raises(NotImplementedError, match="not implemented for 'complex64'"):
        entry.function(*[flambeau.tensor(a.astype("complex64")) for a in arrays])
    with pytest.raises(TypeError):
        entry.function(*[1.0 for _ in arrays])


@pytest.mark.parametrize("entry", [e for e in FLOATING if e.differentiable], ids=name_of)
def test_gradients(entry):
    tensors = [flambeau.tensor(a) for a in operands(entry, (2, 3))]
    tensors[-1].requires_grad_()
    if entry.name == "nextafter":
        grad = flambeau.autograd.grad(entry.function(tensors[1], tensors[0]).sum(), tensors[1])[0]
        assert grad.tolist() == [[1.0] * 3] * 2
        return
    assert flambeau.autograd.gradcheck(entry.function, tensors)
    assert flambeau.autograd.gradgradcheck(entry.function, tensors)


def test_an_unknown_derivative_is_an_error():
    x = flambeau.tensor([1.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="airy_ai"):
        flambeau.special.airy_ai(x).backward()
    with pytest.raises(NotImplementedError, match="igamma"):
        flambeau.igamma(x, flambeau.tensor([1.0])).backward()


def test_airy():
    x = np.linspace(-5, 5, 21)
    np.testing.assert_allclose(
        flambeau.special.airy_ai(flambeau.tensor(x)).numpy(), scipy.special.airy(x)[0], rtol=1e-13
    )


@pytest.mark.parametrize("n", range(5))
def test_polygamma(n):
    x = [0.3, 2.5, 11.0, -1.3]
    expected = [float(mpmath.polygamma(n, v)) for v in x]
    given = flambeau.tensor(x[:3], dtype=flambeau.float64, requires_grad=True)
    np.testing.assert_allclose(flambeau.polygamma(n, given.detach()).numpy(), expected[:3], rtol=1e-12)
    assert flambeau.autograd.gradcheck(lambda t: flambeau.polygamma(n, t), [given])
    assert given.detach().polygamma(n).tolist() == flambeau.polygamma(n, given.detach()).tolist()
    if n < 2:
        found = flambeau.polygamma(n, flambeau.tensor(x, dtype=flambeau.float64))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    with pytest.raises(RuntimeError, match="negative n"):
        flambeau.polygamma(-1, given)


def test_digamma_differentiates_again_and_again():
    x = flambeau.tensor([0.7, -1.3, 2.5], dtype=flambeau.float64, requires_grad=True)
    found = flambeau.digamma(x)
    for n in (1, 2, 3):
        (found,) = flambeau.autograd.grad(found.sum(), x, create_graph=True)
        expected = [float(mpmath.polygamma(n, v)) for v in x.tolist()]
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-11)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_mvlgamma(p):
    x = flambeau.tensor([3.0, 4.5], dtype=flambeau.float64, requires_grad=True)
    expected = scipy.special.multigammaln(3.0, p), scipy.special.multigammaln(4.5, p)
    np.testing.assert_allclose(flambeau.mvlgamma(x, p).detach().numpy(), expected, rtol=1e-12)
    assert flambeau.autograd.gradcheck(lambda t: flambeau.mvlgamma(t, p), [x])


POLYNOMIALS = {
    "chebyshev_polynomial_t": scipy.special.eval_chebyt,
    "chebyshev_polynomial_u": scipy.special.eval_chebyu,
    "shifted_chebyshev_polynomial_t": scipy.special.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": scipy.special.eval_sh_chebyu,
    "hermite_polynomial_h": scipy.special.eval_hermite,
    "hermite_polynomial_he": scipy.special.eval_hermitenorm,
    "laguerre_polynomial_l": scipy.special.eval_laguerre,
    "legendre_polynomial_p": scipy.special.eval_legendre,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    function = getattr(flambeau.special, name)
    x, n = np.linspace(-2, 2, 7)[:, None], np.arange(8)
    found = function(flambeau.tensor(x), flambeau.tensor(n))
    np.testing.assert_allclose(found.numpy(), POLYNOMIALS[name](n, x), rtol=1e-12, atol=1e-10)
    assert function(flambeau.tensor(x), -1).eq(0).all()
    np.testing.assert_array_equal(function(flambeau.tensor(x), 3).numpy(), found[:, 3:4].numpy())


@pytest.mark.parametrize("kind", ["v", "w"])
def test_chebyshev_polynomials_of_the_third_and_fourth_kind(kind):
    """V_n(cos t) = cos((n + 1/2) t) / cos(t / 2), W_n(cos t) = sin((n + 1/2) t) / sin(t / 2): DLMF 18.5."""
    angle, n = np.linspace(0.2, 3, 9)[:, None], np.arange(6)
    wave = np.cos if kind == "v" else np.sin
    expected = wave((n + 0.5) * angle) / wave(angle / 2)
    x = flambeau.tensor(np.cos(angle))
    plain = getattr(flambeau.special, f"chebyshev_polynomial_{kind}")(x, flambeau.tensor(n))
    np.testing.assert_allclose(plain.numpy(), expected, rtol=1e-10, atol=1e-12)
    moved = getattr(flambeau.special, f"shifted_chebyshev_polynomial_{kind}")((x + 1) / 2, flambeau.tensor(n))
    np.testing.assert_allclose(moved.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_frexp_and_ldexp():
    x = flambeau.tensor([0.0, 1.0, -3.5, 1e-40, 1e30])
    mantissa, exponent = flambeau.frexp(x)
    expected = np.frexp(x.numpy())
    np.testing.assert_array_equal(exponent.numpy(), expected[1])
    np.testing.assert_allclose(mantissa.numpy(), expected[0], rtol=1e-7)
    np.testing.assert_array_equal(
        flambeau.ldexp(flambeau.tensor([1.5, 2.0]), flambeau.tensor([3, -1])).numpy(), [12.0, 1.0]
    )
    with pytest.raises(RuntimeError):
        flambeau.frexp(flambeau.tensor([1]))


def test_gcd_takes_integers_only():
    with pytest.raises(NotImplementedError):
        flambeau.gcd(flambeau.tensor([1.0]), flambeau.tensor([2]))
    assert flambeau.tensor([12, 18]).gcd_(flambeau.tensor(8)).tolist() == [4, 2]


def test_out_is_checked():
    x = flambeau.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="can't be cast"):
        flambeau.special.i1(x, out=flambeau.empty(2, dtype=flambeau.int64))
    with pytest.warns(UserWarning, match="was resized"):
        flambeau.special.i1(x, out=flambeau.empty(3))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        flambeau.special.i1(x.requires_grad_(), out=flambeau.empty(2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_airy_of_large_numbers(dtype):
    """Ai vanishes on the right; on the left it is a wave whose place in its period is known while eps · x^(3/2) is small."""
    kind = getattr(flambeau, dtype)
    right = flambeau.tensor([200.0, 1e4, 1e6, 1.1e6, 1e8, 1e30, math.inf], dtype=kind)
    assert flambeau.special.airy_ai(right).tolist() == [0.0] * len(right)
    left = flambeau.tensor([-1e4, -1e5, -1e6, -1.1e6, -1e7, -1e8], dtype=kind)
    with mpmath.workdps(40):
        wanted = [float(mpmath.airyai(x)) for x in left.tolist()]
    found = flambeau.special.airy_ai(left).tolist()
    for x, ours, exact in zip(left.tolist(), found, wanted, strict=True):
        lost = abs(x) ** 1.5 * 2.0**-52 + 1e-6 * (dtype == "float32")
        assert abs(ours - exact) <= 4 * lost / abs(x) ** 0.25, x
    far = flambeau.special.airy_ai(flambeau.tensor([-1e30, -3e38, -math.inf, math.nan], dtype=kind))
    assert far[:3].abs().max() < 1e-7 and far[3].isnan()
