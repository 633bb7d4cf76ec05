"""Discrete Fourier transforms on devices: Stockham's passes, one launch for each prime factor of a length.

Lengths with a large prime factor are convolutions of a power of two (L. Bluestein, 1970).  SciPy adds in another order: bits differ
from the CPU's.
"""

from __future__ import annotations

import math

from ...codegen import functions as fn
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import arange, zeros
from ...core.places.join import cat
from ...core.tape.contexts import unrecorded
from ..declare.indexed import indexed
from ..pointwise.complex_numbers import complex_of

LARGEST = 61  # prime factor that is transformed by its definition


@indexed(effort=64)
def _pass(at, x, roots, *, radix, done):
    """One pass: `done` is the product of the factors of the passes before; `roots` are those of unity for the whole length."""
    row, o, n = at[:-1], at[-1], at.size(x.rank - 1)
    r, s = radix, done
    m = n / (r * s)
    q, t = fn.rem(o, s), o / s
    c, p = fn.rem(t, r), t / r
    zero = fn.real(x[at]) * 0.0
    zero = zero - zero

    def step(j, turn, real, imag):
        z = x[(*row, q + s * (p + m * j))]
        w = roots[(turn * (m * s),)]
        a, b, u, v = fn.real(z), fn.imag(z), fn.real(w), fn.imag(w)
        following = turn + c
        following = fn.where(following >= r, following - r, following)
        return j + 1, following, real + (a * u - b * v), imag + (a * v + b * u)

    _, _, real, imag = at.repeat((o * 0, o * 0, zero, zero), lambda j, *_: j < r, step)
    w = roots[(p * c * s,)]
    u, v = fn.real(w), fn.imag(w)
    return (fn.pair(real * u - imag * v, real * v + imag * u),)


def _roots(n: int, sign: float, like: TensorBase) -> TensorBase:
    """exp(±2πi k / n), of angles of an eighth of a turn at most, in the dtype of another tensor."""
    k = arange(n, device=like.device)
    eighth = (8 * k + n) // (2 * n)  # the quarter turn nearest to k / n
    angle = (4 * k - n * eighth).to(by_name["float64"]) * (0.5 * math.pi / n)
    c, s = angle.cos(), angle.sin()
    quarter = eighth % 4
    real = c.where(quarter == 0, (-s).where(quarter == 1, (-c).where(quarter == 2, s)))
    imag = s.where(quarter == 0, c.where(quarter == 1, (-s).where(quarter == 2, -c)))
    return complex_of(real, imag * sign).to(like.dtype)


def _factors(n: int) -> list[int]:
    """Prime factors, those of 4 and 8 together."""
    result, p = [], 2
    while n > 1:
        if p * p > n:
            p = n
        while n % p == 0:
            result.append(p)
            n //= p
        p += 1
    twos = result.count(2)
    return [*[8] * (twos // 3), *([2 ** (twos % 3)] if twos % 3 else []), *result[twos:]]


def _along_last(x: TensorBase, sign: float) -> TensorBase:
    """The transform along the last dimension, not scaled."""
    n = x.shape[-1]
    if n <= 1 or not x.numel():
        return x.clone()
    factors = _factors(n)
    if max(factors) > LARGEST:
        return _bluestein(x, sign)
    roots, done = _roots(n, sign, x), 1
    for radix in factors:
        x = _pass(x.shape, x, roots, radix=radix, done=done)
        done *= radix
    return x


def _bluestein(x: TensorBase, sign: float) -> TensorBase:
    """jk = (j² + k² - (j - k)²) / 2: a convolution with a chirp."""
    n = x.shape[-1]
    size = 1 << (2 * n - 2).bit_length()
    k = arange(n, device=x.device)
    chirp = _roots(2 * n, sign, x)[k * k % (2 * n)]
    given = cat([x * chirp, zeros((*x.shape[:-1], size - n), dtype=x.dtype, device=x.device)], -1)
    back = chirp.conj().resolve_conj()
    gap = zeros(size - 2 * n + 1, dtype=x.dtype, device=x.device)
    kernel = cat([back, gap, back.narrow(0, 1, n - 1).flip(0)])
    product = _along_last(given, -1.0) * _along_last(kernel, -1.0)
    return _along_last(product, 1.0).narrow(-1, 0, n) * chirp * (1.0 / size)


def complex_to_complex(x: TensorBase, dims: tuple[int, ...], scale: float, forward: bool) -> TensorBase:
    """The transform along `dims`, times `scale`."""
    with unrecorded():
        result = x.resolve_conj().contiguous()
        for d in dims:
            moved = result.movedim(d, -1).contiguous()
            result = _along_last(moved, -1.0 if forward else 1.0).movedim(-1, d)
        result = result.contiguous()
        return result * scale if scale != 1.0 else result.clone() if not dims else result


def real_to_complex(x: TensorBase, dims: tuple[int, ...], scale: float, values: int) -> TensorBase:
    """The forward transform of real numbers, of which the first `values` in the last of `dims` are given."""
    with unrecorded():
        wide = complex_of(x, zeros(x.shape, dtype=x.dtype, device=x.device))
        last = complex_to_complex(wide, dims[-1:], 1.0, True).narrow(dims[-1], 0, values)
        return complex_to_complex(last, dims[:-1], scale, True)


def complex_to_real(x: TensorBase, dims: tuple[int, ...], scale: float, n: int) -> TensorBase:
    """The inverse transform of half of Hermitian values, where the last of `dims` gets n of them."""
    with unrecorded():
        d = dims[-1]
        half = complex_to_complex(x, dims[:-1], 1.0, False).narrow(d, 0, n // 2 + 1)
        rest = n - half.shape[d]
        mirrored = half.narrow(d, 1, rest).flip(d).conj().resolve_conj()
        whole = cat([half, mirrored], d)
        return complex_to_complex(whole, (d,), scale, False).real.contiguous()
