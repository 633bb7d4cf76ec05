"""Where the polynomial coefficients of the math functions come from.

`python tools/minimax.py` fits every polynomial listed in `FITS` and writes
`flambeau/codegen/_math_coefficients.py`; `python tools/minimax.py erf_small` fits and prints only those
named. Needs mpmath and SciPy; running flambeau needs neither.

A fit starts from the polynomial that interpolates the function at Chebyshev nodes, found in high precision.
Linear programming then finds the correction of its coefficients that makes the largest weighted error
smallest. Last, coefficients are rounded to the target dtype one by one, lowest power first, and those above
are corrected again each time, so that they make up for the rounding. (Brisebarre and Chevillard, "Efficient
polynomial L-infinity approximations", ARITH 2007, is the idea.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mpmath as mp
import numpy as np
from scipy.optimize import linprog

mp.mp.dps = 70
TARGET = Path(__file__).parent.parent / "flambeau" / "compiler" / "_math_coefficients.py"
ONE = mp.mpf(1)
LN2 = mp.log(2)


class Fit(NamedTuple):
    """A polynomial P(x) ~ f(x) on [low, high] for which |weight(x) (P(x) - f(x))| is at most 2^-bits.

    `bits` has one number for float32 and one for float64; so may `high`.
    """

    formula: str
    f: Callable
    weight: Callable
    low: object
    high: object
    bits: tuple[float | None, float | None] = (28, 57)


def chebyshev_grid(low, high, count: int) -> list:
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * k / (count - 1)) for k in range(count)]


def value(coefficients, x):
    return mp.polyval(coefficients[::-1], x)


def interpolation(f, low, high, degree: int) -> list:
    """Coefficients, lowest power first, of the polynomial through f at the Chebyshev nodes of [low, high]."""
    nodes = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * degree + 2))
        for k in range(degree + 1)
    ]
    matrix = mp.matrix([[x**k for k in range(degree + 1)] for x in nodes])
    return list(mp.lu_solve(matrix, mp.matrix([f(x) for x in nodes])))


def corrected(
    coefficients: list, fixed: int, grid: list, values: list, weights: list, scale
) -> tuple[list, float]:
    """The coefficients, changed from number `fixed` on, so that the largest weighted error is least."""
    error = [w * (value(coefficients, x) - v) for x, v, w in zip(grid, values, weights)]
    unit = max(map(abs, error))
    free = range(fixed, len(coefficients))
    if not free:
        return coefficients, float(unit)
    columns = np.array([[float(w * (x / scale) ** k) for k in free] for x, w in zip(grid, weights)])
    level = np.array([float(e / unit) for e in error])
    bound = -np.ones((len(grid), 1))
    solved = linprog(
        np.r_[np.zeros(len(free)), 1.0],
        A_ub=np.block([[columns, bound], [-columns, bound]]),
        b_ub=np.r_[-level, level],
        bounds=[(None, None)] * len(free) + [(0, None)],
        method="highs",
    )
    if solved.status != 0 or solved.x[-1] >= 1:  # no better than it was
        return coefficients, float(unit)
    new = list(coefficients)
    for k, change in zip(free, solved.x):
        new[k] += mp.mpf(change) * unit / mp.mpf(scale) ** k
    return new, float(solved.x[-1] * unit)


def rounded(x, dtype: str):
    bits = 24 if dtype == "float32" else 53
    with mp.workprec(bits):
        return +x


def ends(fit: Fit, dtype: str) -> tuple:
    high = fit.high[dtype == "float64"] if isinstance(fit.high, tuple) else fit.high
    return mp.mpf(fit.low), mp.mpf(high)


def fitted(fit: Fit, dtype: str) -> tuple[list, float]:
    """Coefficients of the lowest degree that is good enough, rounded to the dtype, and the largest weighted
    error."""
    wanted = 2.0 ** -fit.bits[dtype == "float64"]
    low, high = ends(fit, dtype)
    tiny = (high - low) * mp.mpf(10) ** -22  # a removable singularity at 0 is approached, not met

    def at(function, x):
        return function(x if abs(x) > tiny else tiny)

    grid = chebyshev_grid(low, high, 401)
    values, weights = [at(fit.f, x) for x in grid], [at(fit.weight, x) for x in grid]
    scale = max(abs(low), abs(high))
    for degree in range(1, 40):
        coefficients = interpolation(lambda x: at(fit.f, x), low, high, degree)
        error = max(abs(w * (value(coefficients, x) - v)) for x, v, w in zip(grid, values, weights))
        if error > 2**12 * wanted:
            continue
        coefficients, error = corrected(coefficients, 0, grid, values, weights, scale)
        if error <= wanted:
            break
    else:
        raise ValueError(f"{fit.formula}: no polynomial of degree below 40 is good enough")
    for k in range(len(coefficients)):
        coefficients[k] = rounded(coefficients[k], dtype)
        coefficients, error = corrected(coefficients, k + 1, grid, values, weights, scale)
    return coefficients, error


def cbrt_guess() -> float:
    """c such that bits -> 4/3 bias - c - bits / 3, in units of the exponent, is nearest to x^(-1/3)."""
    x = np.linspace(1, 8, 10001)[:-1]
    third = (np.floor(np.log2(x)) + x / 2 ** np.floor(np.log2(x)) - 1) / 3

    def largest_error(c: float) -> float:
        bits = -c - third
        z = 2 ** np.floor(bits) * (1 + bits - np.floor(bits))
        return np.abs(1 - x * z**3).max()

    return min(np.linspace(0, 0.2, 2001), key=largest_error)


CONSTANTS = {
    "ln2": LN2,
    "log2e": 1 / LN2,
    "log10_2": mp.log10(2),
    "log10e": 1 / mp.log(10),
    "2/ln2": 2 / LN2,
    "2/(3 ln2)": 2 / (3 * LN2),
    "pi/2": mp.pi / 2,
    "pi": mp.pi,
    "1/pi": 1 / mp.pi,
    "log(2 pi)/2": mp.log(2 * mp.pi) / 2,
    "cbrt guess": mp.mpf(round(cbrt_guess(), 4)),
    "digamma(2)": mp.digamma(2),
    "digamma root": mp.findroot(mp.digamma, 1.4616),
    "digamma(7/4) / (7/4 - root)": mp.digamma(1.75) / (1.75 - mp.findroot(mp.digamma, 1.4616)),
    "2/pi": 2 / mp.pi,
}


def odd(name: str, f: Callable, high, bits=(28, 57)) -> Fit:
    """x + x^3 P(x^2) ~ f(x) for an odd function of slope 1, on [0, high]."""

    def ratio(z):
        return f(mp.sqrt(z)) / mp.sqrt(z)

    return Fit(
        f"({name}(x) - x) / x^3, in x^2",
        lambda z: (ratio(z) - 1) / z,
        lambda z: z / ratio(z),
        0,
        high**2,
        bits,
    )


def log_ratio(z):
    """log((1 + s) / (1 - s)) / s, z = s^2."""
    s = mp.sqrt(z)
    return mp.log((1 + s) / (1 - s)) / s


SQRT2 = mp.sqrt(2)
HALF_LN2 = LN2 / 2 * (1 + mp.mpf(2) ** -12)
QUARTER_PI = mp.pi / 4 * mp.mpf("1.01")  # rounding 2/pi moves the limits of large angles
LARGEST_S = (SQRT2 - 1) / (SQRT2 + 1)

FITS: dict[str, Fit] = {
    "exp": Fit(
        "(exp(r) - 1 - r) / r^2",
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / mp.exp(r),
        -HALF_LN2,
        HALF_LN2,
    ),
    "expm1": Fit(
        "(exp(r) - 1 - r) / r^2",
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / mp.expm1(r),
        -HALF_LN2,
        HALF_LN2,
    ),
    "exp2": Fit("(2^r - 1) / r", lambda r: mp.expm1(r * LN2) / r, lambda r: r / mp.exp(r * LN2), -0.5, 0.5),
    "tanh": odd("tanh", mp.tanh, 0.626),
    "sinh": odd("sinh", mp.sinh, HALF_LN2),
    "cosh": Fit(
        "(cosh(r) - 1) / r^2, in r^2",
        lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z,
        lambda z: z / mp.cosh(mp.sqrt(z)),
        0,
        HALF_LN2**2,
    ),
    "log": Fit(
        "(log(1 + f) - f + f^2/2) / f^3",
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        lambda f: f**3 / mp.log1p(f),
        1 / SQRT2 - 1,
        SQRT2 - 1,
        (28, None),
    ),
    "log_ratio": Fit(
        "(log((1 + s) / (1 - s)) - 2 s) / s^3, in s^2",
        lambda z: (log_ratio(z) - 2) / z,
        lambda z: z / 2,
        0,
        LARGEST_S**2,
        (None, 58),
    ),
    "pow": Fit(
        "(log2((1 + s) / (1 - s)) - 2 s/ln2 - 2 s^3/(3 ln2)) / s^5, in s^2",
        lambda z: ((log_ratio(z) - 2) / z - mp.mpf(2) / 3) / z / LN2,
        lambda z: z**2 * LN2 / 2,
        0,
        LARGEST_S**2,
        (36, 69),
    ),
    "sin": odd("sin", mp.sin, QUARTER_PI),
    "cos": Fit(
        "(cos(r) - 1 + r^2/2) / r^4, in r^2",
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
        0,
        QUARTER_PI**2,
    ),
    "tan": odd("tan", mp.tan, QUARTER_PI),
    "atan": odd("atan", mp.atan, 1),
    "asin": odd("asin", mp.asin, mp.mpf(0.5)),
    "asinh": odd("asinh", mp.asinh, mp.mpf("0.54")),
    "atanh": odd("atanh", mp.atanh, mp.mpf(0.5)),
    "erf": Fit(
        "erf(x) / x - 1, in x^2",
        lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)),
        0,
        1,
    ),
    "erf_root": Fit(
        "(1 - erf(x))^(1/4)",
        lambda x: mp.root(mp.erfc(x), 4),
        lambda x: 4 * mp.root(mp.erfc(x), 4) ** 3 / mp.erf(x),
        1,
        3.93,
        (26, None),
    ),
    "erf_far": Fit(
        "-log(1 - erf(x))",
        lambda x: -mp.log(mp.erfc(x)),
        lambda x: mp.erfc(x) / mp.erf(x),
        1,
        5.93,
        (None, 57),
    ),
    "erfc": Fit(
        "(1 + 2 x) exp(x^2) erfc(x) - 5/4, in (x - 2) / (x + 2)",
        lambda t: (1 + 2 * erfc_x(t)) * mp.exp(erfc_x(t) ** 2) * mp.erfc(erfc_x(t)) - 1.25,
        lambda t: ONE,
        -0.52,
        (0.68, 0.87),
        (29, 59),
    ),
    "erfinv": Fit(
        "erfinv(x) / x - 1, in -log(1 - x^2) - 3",
        lambda u: erfinv_ratio(u + 3) - 1,
        lambda u: 1 / erfinv_ratio(u + 3),
        -3,
        3,
    ),
    "erfinv_far": Fit(
        "erfinv(x) / x - 2, in sqrt(-log(1 - x^2)) - 3",
        lambda u: erfinv_ratio((u + 3) ** 2) - 2,
        lambda u: 1 / erfinv_ratio((u + 3) ** 2),
        mp.sqrt(6) - 3,
        1.1,
    ),
    "erfinv_end": Fit(
        "erfinv(x) / x - 4, in sqrt(-log(1 - x^2)) - 5",
        lambda u: erfinv_ratio((u + 5) ** 2) - 4,
        lambda u: 1 / erfinv_ratio((u + 5) ** 2),
        -1,
        1.1,
        (None, 57),
    ),
    "lgamma": Fit(
        "(lgamma(2 + d) / d - digamma(2)) / d",
        lambda d: (mp.loggamma(2 + d) / d - mp.digamma(2)) / d,
        lambda d: d**2 / mp.loggamma(2 + d),
        -0.5,
        0.5,
    ),
    "lgamma_far": Fit(
        "(lgamma(y + 1/2) - y log(y) + y - log(2 pi) / 2) y, in 1/y^2",
        lambda v: gamma_rest(1 / mp.sqrt(v)),
        lambda v: mp.sqrt(v) / mp.loggamma(1 / mp.sqrt(v) + 0.5),
        0,
        0.25,
    ),
    "digamma": Fit(
        "(Q(7/4 + d) - Q(7/4)) / d, Q(x) = digamma(x) / (x - its zero)",
        lambda d: (digamma_slope(1.75 + d) - digamma_slope(mp.mpf(1.75))) / d,
        lambda d: d / digamma_slope(1.75 + d),
        -0.75,
        0.75,
    ),
    "digamma_far": Fit(
        "(digamma(y + 1/2) - log(y)) y^2, in 1/y^2",
        lambda v: (mp.digamma(1 / mp.sqrt(v) + 0.5) + mp.log(v) / 2) / v,
        lambda v: v / mp.digamma(1 / mp.sqrt(v) + 0.5),
        0,
        0.25,
    ),
}


def erfinv_ratio(w):
    """erfinv(x) / x for x = sqrt(1 - exp(-w)), from the complement, which keeps its digits near x = 1."""
    if w < mp.mpf(10) ** -15:
        return mp.sqrt(mp.pi) / 2
    e = mp.exp(-w)
    x = mp.sqrt(-mp.expm1(-w))
    complement = e / (1 + x)
    guess = mp.sqrt(w) if w > 1 else x
    return mp.findroot(lambda y: mp.log(mp.erfc(y) / complement), guess) / x


def digamma_slope(x):
    return mp.digamma(x) / (x - CONSTANTS["digamma root"])


def gamma_rest(y):
    return (mp.loggamma(y + 0.5) - y * mp.log(y) + y - mp.log(2 * mp.pi) / 2) * y


def erfc_x(t):
    return 2 * (1 + t) / (1 - t)


def main(names: list[str]) -> None:
    lines = ['"""Polynomials of the math functions, lowest power first; written by tools/minimax.py."""\n']
    lines += ["from __future__ import annotations\n"]
    lines += ["COEFFICIENTS: dict[tuple[str, str], tuple[float, ...]] = {"]
    for name, fit in FITS.items():
        for dtype, bits in zip(("float32", "float64"), fit.bits):
            if bits is None or (names and name not in names):
                continue
            coefficients, error = fitted(fit, dtype)
            interval = "[" + ", ".join(mp.nstr(end, 6) for end in ends(fit, dtype)) + "]"
            lines.append(f"    # {fit.formula}, on {interval}: error 2^{float(mp.log(error, 2)):.1f}")
            lines.append(f'    ("{name}", "{dtype}"): (')
            lines += [f"        {float(c)!r}," for c in coefficients]
            lines.append("    ),")
            print(
                f"{name} {dtype} degree {len(coefficients) - 1} error 2^{float(mp.log(error, 2)):.1f}",
                file=sys.stderr,
            )
    lines.append("}\n")
    lines.append("# Constants with more digits than any dtype holds.\nCONSTANTS: dict[str, str] = {")
    lines += [f'    "{name}": "{mp.nstr(constant, 60)}",' for name, constant in CONSTANTS.items()]
    lines += ["}\n", "# floor(2^1280 * 2/pi)"]
    with mp.workprec(1400):
        lines.append(f"TWO_OVER_PI = 0x{int(mp.floor(mp.mpf(2) ** 1281 / mp.pi)):X}  # noqa: E501\n")
    if names:
        print("\n".join(lines))
    else:
        TARGET.write_text("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
