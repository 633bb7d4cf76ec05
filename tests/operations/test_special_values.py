"""NaN, infinities, zeros of both signs, the smallest and the largest numbers through every pointwise and row operation that
has a reference, in every floating-point dtype, against the reference in float64.
"""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

# epsilon, the least denormal and normal numbers, the largest
LIMITS = {
    "float16": (2.0**-10, 2.0**-24, 2.0**-14, 65504.0),
    "bfloat16": (2.0**-7, 2.0**-133, 2.0**-126, 3.3895313892515355e38),
    "float32": (2.0**-23, 2.0**-149, 2.0**-126, 3.4028234663852886e38),
    "float64": (2.0**-52, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308),
}
MASKS = ("condition", "mask")
nan, inf = float("nan"), float("inf")

# Where PyTorch's answer, and so ours, is another than NumPy's or SciPy's.
OTHERWISE = {
    ("sign", (nan,)): 0.0,
    ("angle", (-0.0,)): 0.0,
    ("erfinv", (-0.0,)): -0.0,
}


def reference(entry):
    module, _, name = entry.reference.rpartition(".")
    return getattr(importlib.import_module(module), name)


def c_product(a, b):
    """The product as C99's Annex G has it: infinite where a factor is, though both parts come out as NaN."""
    x, y = a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
    terms = (a.real * b.real, a.imag * b.imag, a.real * b.imag, a.imag * b.real)
    if not (np.isnan(x) and np.isnan(y) and any(map(np.isinf, (a.real, a.imag, b.real, b.imag, *terms)))):
        return complex(x, y)

    def box(z):
        whole = np.isinf(z)
        parts = [np.copysign(float(np.isinf(p)), p) if whole else p for p in (z.real, z.imag)]
        return [np.copysign(0.0, p) if np.isnan(p) else p for p in parts]

    (a, b), (c, d) = box(a), box(b)
    return complex(inf * (a * c - b * d), inf * (a * d + b * c))


def c_power(x, y):
    """exp(y log x), as C's cpow and PyTorch have it; 0 to the power 0 is 1."""
    powers = np.array([c_product(b, a) for a, b in zip(np.log(x), y)])
    return np.where((x == 0) & (y == 0), 1, np.exp(powers))


# Where a reference takes no complex numbers, has a convention of its own, or none is declared.
def c_expm1(z):
    """NumPy's, but at infinities and NaN the array API standard's, which are those of exp(z) - 1."""
    return np.where(np.isfinite(z), np.expm1(z), np.exp(z) - 1)


COMPLEX_REFERENCES = {
    "sigmoid": lambda z: np.true_divide(1, 1 + np.exp(-z)),
    "reciprocal": lambda z: np.true_divide(1, z),
    "rsqrt": lambda z: np.true_divide(1, np.sqrt(z)),
    "power": c_power,
    "expm1": c_expm1,
}


def floating(entry):
    """Whether it has a kernel for such dtypes; one over another's kernel names none."""
    return entry.reference and entry.body is not None and any(d in LIMITS for d in entry.dtypes)


POINTWISE = [
    e
    for e in REGISTRY.values()
    if e.kind == "pointwise" and e.places and floating(e) and not set(MASKS) & set(e.details["operands"])
]
CASES = [(e, d) for e in POINTWISE for d in LIMITS if d in e.dtypes]


def points(count: int, dtype: str) -> np.ndarray:
    _, least, normal, most = LIMITS[dtype]
    values = [
        nan,
        inf,
        -inf,
        0.0,
        -0.0,
        least,
        -least,
        normal,
        -normal,
        most,
        -most,
        1.0,
        -1.0,
        0.5,
        2.0,
        -2.0,
    ]
    if count <= 2:
        return np.array(list(itertools.product(values, repeat=count)))
    return np.random.default_rng(count).choice(values, (300, count))


def expected(entry, inputs: list[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        found = np.array(reference(entry)(*inputs))
    for (name, place), value in OTHERWISE.items():
        if name == entry.name:
            same = [
                (a == p) & (np.signbit(a) == np.signbit(p)) | np.isnan(a) & np.isnan(p)
                for a, p in zip(inputs, place)
            ]
            found[np.logical_and.reduce(same)] = value
    if entry.name == "heaviside":
        found[np.isnan(inputs[0])] = 0.0
    return found


def stored(values: np.ndarray, dtype) -> np.ndarray:
    return flambeau.from_numpy(values.astype(np.float64)).to(dtype).double().numpy()


def agree(got: np.ndarray, want: np.ndarray, dtype: str, ulps: float = 8) -> np.ndarray:
    epsilon, least, _, _ = LIMITS[dtype]
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= np.maximum(ulps * epsilon * np.abs(want), 4 * least)
    zeros = (want == 0) & (got == 0)
    signs = ~zeros | (np.signbit(got) == np.signbit(want))
    return ((got == want) | near | np.isnan(got) & np.isnan(want)) & signs


@pytest.mark.parametrize(("entry", "dtype"), CASES, ids=lambda x: getattr(x, "name", x))
def test_pointwise(entry, dtype):
    given = points(len(entry.details["operands"]), dtype)
    tensors = [flambeau.tensor(column.tolist(), dtype=getattr(flambeau, dtype)) for column in given.T]
    inputs = [t.double().numpy() for t in tensors]
    got, want = entry.function(*tensors), expected(entry, inputs)
    if not got.dtype.is_floating_point or want.dtype.kind != "f":
        wrong = got.numpy().astype(bool) != want.astype(bool)
    else:
        wrong = ~agree(got.double().numpy(), stored(want, got.dtype), dtype)
    if entry.name == "sinc":  # sin(πx) / (πx) of the rounded πx, which overflows before x does
        wrong &= np.abs(inputs[0]) < 0.75
    places = [tuple(given[k]) for k in np.flatnonzero(wrong)]
    assert not places, (
        f"{entry.name} at {places[:3]}: {got[flambeau.tensor(wrong)][:3]}, not {want[wrong][:3]}"
    )


COMPLEX = [
    e
    for e in REGISTRY.values()
    if e.kind == "pointwise"
    and "complex128" in e.dtypes
    and (e.name in COMPLEX_REFERENCES or e.reference and e.name != "logaddexp")
]


def complex_points(count: int) -> np.ndarray:
    """All pairs of special parts; for two operands every pair of a third of them."""
    parts = [-inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, inf, nan]
    points = np.empty((len(parts), len(parts)), "complex128")
    points.real, points.imag = np.meshgrid(parts, parts, indexing="ij")
    points = points.reshape(-1)
    if count == 1:
        return points[:, None]
    pairs = list(itertools.product(points[::3], points[::2]))
    return np.concatenate([np.array(pairs), np.array(pairs)[:, ::-1]])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("entry", COMPLEX, ids=lambda e: e.name)
def test_complex(entry, dtype):
    """As NumPy has it, which follows C99's Annex G, zeros' signs included."""
    given = complex_points(len(entry.details["operands"])).astype(dtype)
    columns = [np.ascontiguousarray(c) for c in given.T]
    reference_of = COMPLEX_REFERENCES.get(entry.name) or reference(entry)
    got = entry.function(*map(flambeau.from_numpy, columns)).numpy()
    with np.errstate(all="ignore"):
        want = np.asarray(reference_of(*columns))
    if want.dtype == bool:
        wrong = got != want
    else:
        part = "float32" if dtype == "complex64" else "float64"
        with np.errstate(all="ignore"):
            near = np.abs(got - want) <= 32 * LIMITS[part][0] * np.abs(
                want
            )  # a small part has the large one's error
            zeros = (want.real == 0) | (want.imag == 0)
        wrong = ~(agree(got.real, want.real, part, 32) & agree(got.imag, want.imag, part, 32) | near & ~zeros)
        if entry.name == "sinc":  # the sign of πx's zero part goes its own way through a quotient
            wrong &= ~((want.imag == 0) & (got.imag == 0) & (got.real == want.real))
    found = [(tuple(given[k]), got[k], want[k]) for k in np.flatnonzero(wrong)]
    assert not found, f"{entry.name}: {len(found)} of {len(given)}: {found[:5]}"


def test_complex_logarithms_of_sums_keep_nan():
    for a, b in itertools.product(
        [complex(nan, 0), complex(nan, nan)], [1 + 1j, complex(-inf, 2), complex(inf, 0)]
    ):
        for pair in ((a, b), (b, a)):
            assert flambeau.logaddexp(*[flambeau.tensor([z]) for z in pair]).isnan().all()


ROWS = [e for e in REGISTRY.values() if e.kind in ("reduction", "row") and floating(e)]


@pytest.mark.parametrize("length", [1, 3, 70, 1100])
@pytest.mark.parametrize("entry", ROWS, ids=lambda e: e.name)
def test_rows(entry, length):
    """Special values in two places of a row, along and across the direction of memory."""
    for dtype in ("float32", "float64"):
        large = (
            3.0 if entry.name == "product" else LIMITS[dtype][3] / 2
        )  # whose product overflows in some orders
        rows = []
        for first, last in itertools.product([nan, inf, -inf, 0.0, -0.0, large, -large, 1.0], repeat=2):
            if inf in (first, last) and entry.name == "log_softmax":  # NaN in PyTorch, not in SciPy
                continue
            for filler in (1.0, -0.0):
                line = np.full(length, filler)
                line[0], line[length // 2] = first, last
                rows.append(line)
        x = flambeau.tensor(np.array(rows).tolist(), dtype=getattr(flambeau, dtype))
        wide = np.longdouble if entry.reference.startswith("numpy") else np.float64
        with np.errstate(all="ignore"):
            want = np.asarray(reference(entry)(x.numpy().astype(wide), axis=1))
            want = want.astype(dtype).astype(np.float64).reshape(len(rows), -1)
            rounding = 4 * LIMITS[dtype][0] * np.abs(x.numpy().astype(wide)).sum(1, keepdims=True)
        for layout in (x, x.t().contiguous().t()):
            got = entry.function(layout, 1).double().numpy().reshape(len(rows), -1)
            with np.errstate(all="ignore"):
                zeros = (got == 0) & (want == 0)  # sums begin with 0
                same = (
                    zeros
                    | agree(got, want, dtype, 64)
                    | (np.abs(got - want) <= rounding) & np.isfinite(rounding)
                )
            assert same.all(), (entry.name, dtype, rows[np.flatnonzero(~same.all(1))[0]])


@pytest.mark.parametrize("name", ["sum", "nansum", "cumsum", "mean"])
def test_sums_of_negative_zeros_are_zero(name):
    for shape, dim in (((1,), 0), ((5,), 0), ((70, 3), 0), ((3, 1100), 1), ((40_000,), 0)):
        found = getattr(flambeau, name)(flambeau.full(shape, -0.0), dim).numpy()
        assert not np.signbit(found).any() and not found.any()


def test_folds_of_nothing():
    nothing = flambeau.zeros(0)
    assert str(nothing.sum()) == "tensor(0.)" and nothing.prod().item() == 1.0
    for shape, dim in (((0,), 0), ((3, 0), 1), ((0, 3), 0)):
        x = flambeau.zeros(shape)
        assert not np.signbit(x.sum(dim).numpy()).any() and not np.signbit(x.norm(dim=dim).numpy()).any()
        for found in (x.mean(dim), x.var(dim), x.std(dim), *flambeau.var_mean(x, dim)):
            assert found.isnan().all() and found.shape == x.sum(dim).shape
        assert (x.logsumexp(dim) == -inf).all()


COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("number", [0.1, 0.3, -0.7, 65505.0, 1e-9, 3])
def test_numbers_are_compared_in_the_tensors_dtype(dtype, number):
    x = flambeau.tensor([0.1, 0.3, -0.7, 65504.0, 0.0, 3.0, inf, nan], dtype=getattr(flambeau, dtype))
    rounded = flambeau.tensor(float(number), dtype=flambeau.float64).to(x.dtype).double().item()
    for other in (number, flambeau.tensor(float(number), dtype=flambeau.float64)):
        for name, numpys in COMPARISONS.items():
            want = getattr(np, numpys)(x.double().numpy(), rounded)
            assert getattr(flambeau, name)(x, other).tolist() == want.tolist()
    assert ((x - number) == 0).tolist() == (x == number).tolist()
    assert flambeau.isin(x, number).tolist() == (x == number).tolist()


def test_integers_are_compared_with_numbers_as_in_pytorch():
    assert (flambeau.tensor([1]) == 1.5).tolist() == [False] and (flambeau.tensor([1]) < 1.5).tolist() == [
        True
    ]
    assert (flambeau.tensor([255], dtype=flambeau.uint8) == -1).tolist() == [True]


def test_half_remainders_and_searches_round_the_number():
    x = flambeau.tensor([7.1], dtype=flambeau.float16)
    tenth = np.float16(0.1).astype(np.float64)
    assert flambeau.remainder(x, 0.1).item() == np.float16(np.float64(np.float16(7.1)) % tenth)
    assert flambeau.searchsorted(flambeau.tensor([0.1, 0.2], dtype=flambeau.float16), 0.1).item() == 0


def test_isreal_is_about_the_imaginary_part_alone():
    assert flambeau.isreal(flambeau.tensor([nan, inf, 1.0])).tolist() == [True] * 3
    assert flambeau.isreal(flambeau.tensor([complex(nan, 0), complex(1, nan), 1j])).tolist() == [
        True,
        False,
        False,
    ]


def test_nan_to_num_of_complex_numbers():
    z = flambeau.tensor([complex(nan, inf), complex(-inf, 1.0), complex(2.0, nan)], requires_grad=True)
    assert flambeau.nan_to_num(z, 1.0, 2.0, 3.0).tolist() == [1 + 2j, 3 + 1j, 2 + 1j]
    most = flambeau.finfo(flambeau.float32).max
    assert flambeau.nan_to_num(z).tolist() == [complex(0, most), complex(-most, 1), 2 + 0j]
    flambeau.nan_to_num(z).abs().sum()
    flambeau.view_as_real(flambeau.nan_to_num(z, 1.0, 2.0, 3.0)).sum().backward()
    assert flambeau.view_as_real(z.grad).tolist() == [[0, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_ldexp_keeps_the_dtype_and_reaches_all_exponents(dtype):
    kind = getattr(flambeau, dtype)
    found = flambeau.ldexp(flambeau.tensor([1.0, 3.0, -5.0], dtype=kind), flambeau.tensor([1, -2, 9]))
    assert found.dtype == kind and found.tolist() == [2.0, 0.75, -2560.0]
    x = flambeau.tensor([1.0, 3.0], dtype=kind)
    assert flambeau.ldexp(x, flambeau.tensor(4000)).tolist() == [inf, inf]
    assert flambeau.ldexp(x, flambeau.tensor(-4000)).tolist() == [0.0, 0.0]
    assert x.ldexp_(flambeau.tensor(2)).tolist() == [4.0, 12.0] and x.dtype == kind


def test_ldexp_of_a_small_number_by_a_large_power():
    small = flambeau.tensor([1e-30])
    assert flambeau.ldexp(small, flambeau.tensor(200)).item() == np.ldexp(np.float32(1e-30), 200)
    assert (
        flambeau.ldexp(flambeau.tensor([1.5], dtype=flambeau.float64), flambeau.tensor(-1060)).item()
        == 1.5 * 2.0**-1060
    )


def test_heaviside_of_nan_is_zero():
    assert flambeau.heaviside(flambeau.tensor([nan]), flambeau.tensor([0.5])).tolist() == [0.0]
