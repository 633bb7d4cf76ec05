"""The math functions that bodies of operations may call, and the primitives, under their usual names."""

from __future__ import annotations

from collections.abc import Callable

from .expr import (  # noqa: F401
    Expr,
    absolute,
    bitcast,
    call,
    cast,
    ceil,
    conj,
    const,
    copysign,
    floor,
    fma,
    imag,
    index,
    is_complex,
    is_float,
    is_signed,
    isnan,
    like,
    maximum,
    minimum,
    mulhi,
    pair,
    part,
    real,
    rem,
    rint,
    sqrt,
    trunc,
    where,
)


def _named(name: str) -> Callable[..., Expr]:
    def function(*args: Expr) -> Expr:
        return call(name, *args)

    function.__name__ = name
    return function


exp, exp2, expm1, lifted_exp, log, log2, log10, log1p = map(
    _named, ("exp", "exp2", "expm1", "lifted_exp", "log", "log2", "log10", "log1p")
)
LIFT = {"float32": 32, "float64": 64}  # by how many powers of two `lifted_exp` is too large
sin, cos, tan, asin, acos, atan, atan2 = map(_named, ("sin", "cos", "tan", "asin", "acos", "atan", "atan2"))
sinh, cosh, tanh, asinh, acosh, atanh = map(_named, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
sigmoid, rsqrt, cbrt, erf, erfc, erfinv = map(_named, ("sigmoid", "rsqrt", "cbrt", "erf", "erfc", "erfinv"))
pow, hypot, fmod, remainder, lgamma, digamma, trigamma = map(
    _named, ("pow", "hypot", "fmod", "remainder", "lgamma", "digamma", "trigamma")
)
