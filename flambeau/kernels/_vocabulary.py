"""What bodies may call: functions of traced values, under their usual names."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, NamedTuple

from ..codegen import differentiate
from ..codegen import expr as ex
from ..codegen import functions as fn
from ..codegen import kernels as kn
from ..codegen.expr import Expr
from ..core.base.dtypes import dtype as dtype_class
from ._adjoint import adjoint


def cast(x: Expr, dtype: Any) -> Expr:
    """The value as another dtype, as in C; to bool: whether it is not zero."""
    return ex.cast(x, dtype.name if isinstance(dtype, dtype_class) else dtype)


def bitcast(x: Expr, dtype: Any) -> Expr:
    """The same bits as another dtype of the same width."""
    return ex.bitcast(x, dtype.name if isinstance(dtype, dtype_class) else dtype)


def position() -> Expr:
    """Where the element stands in its row, an int64."""
    return ex.index(1)


def clamp(x: Expr, low: Any, high: Any) -> Expr:
    """The value, or the bound that it lies beyond; NaN stays."""
    return ex.minimum(ex.maximum(x, low), high)


class Word(NamedTuple):
    """A function of bodies."""

    name: str
    arguments: str
    gives: str
    where: str  # kinds of kernels whose bodies may call it
    function: Callable


_ANY, _ROW, _SCAN = "any", "row, reduction", "scan"


def _math(names: str, gives: str, arguments: str = "x") -> list[Word]:
    return [Word(n, arguments, gives, _ANY, getattr(fn, n)) for n in names.split()]


WORDS: tuple[Word, ...] = (
    *_math("exp exp2 expm1 log log2 log10 log1p", "exponentials and logarithms"),
    *_math(
        "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh",
        "trigonometric and hyperbolic functions",
    ),
    *_math("sqrt rsqrt cbrt", "roots; rsqrt is 1 / sqrt"),
    *_math("sigmoid erf erfc erfinv lgamma digamma trigamma", "special functions"),
    *_math(
        "atan2 hypot pow fmod remainder",
        "functions of two values; remainder has the sign of y, fmod that of x",
        "x, y",
    ),
    *_math("absolute", "the distance from zero; also abs(x)"),
    *_math("floor ceil rint trunc", "rounded to an integer: down, up, to even, towards zero"),
    *_math("maximum minimum", "the larger or smaller; NaN where either is", "x, y"),
    *_math("copysign", "x with the sign of y", "x, y"),
    *_math("fma", "x · y + z, rounded once", "x, y, z"),
    *_math("isnan", "whether it is NaN"),
    *_math("where", "x where the condition holds, else y", "condition, x, y"),
    *_math("rem", "the remainder of integers, with the sign of x", "x, y"),
    *_math("like", "a number as a value of x's dtype", "x, number"),
    *_math("real imag conj", "parts of a complex number, and its conjugate"),
    *_math("pair", "the complex number of two parts", "x, y"),
    Word("sign", "x", "-1, 0 or 1; NaN for NaN", _ANY, differentiate.sign),
    Word("clamp", "x, low, high", "the value within bounds", _ANY, clamp),
    Word("cast", "x, dtype", "the value as another dtype", _ANY, cast),
    Word("bitcast", "x, dtype", "the same bits as another dtype", _ANY, bitcast),
    Word("sum", "x", "the sum over the row", _ROW, kn.sum),
    Word("mean", "x", "the mean over the row", _ROW, kn.mean),
    Word("max", "x", "the largest of the row; NaN where one is", _ROW, kn.max),
    Word("min", "x", "the smallest of the row; NaN where one is", _ROW, kn.min),
    Word("max_index", "x", "the largest and where it first stands", _ROW, kn.max_index),
    Word("min_index", "x", "the smallest and where it first stands", _ROW, kn.min_index),
    Word("prod", "x", "the product over the row", _ROW, kn.prod),
    Word("any", "x", "whether any is not zero", _ROW, kn.any),
    Word("all", "x", "whether all are not zero", _ROW, kn.all),
    Word("fold", "combine, init, *x", "any associative and commutative combination, a tuple", _ROW, kn.fold),
    Word("length", "", "how long the row is, an int64", _ROW, kn.length),
    Word("position", "", "where the element stands in its row, an int64", _ROW, position),
    Word("running_sum", "x", "the sum of the elements so far", _SCAN, kn.running_sum),
    Word("running_prod", "x", "the product of the elements so far", _SCAN, kn.running_prod),
    Word("running_max_index", "x", "the largest so far and where it last stood", _SCAN, kn.running_max_index),
    Word(
        "running_min_index", "x", "the smallest so far and where it last stood", _SCAN, kn.running_min_index
    ),
    Word(
        "prefix",
        "combine, init, *x",
        "any associative combination of the elements so far, a tuple",
        _SCAN,
        kn.prefix,
    ),
)


for _word in WORDS:
    if not _word.function.__doc__:
        _word.function.__doc__ = f"`{_word.name}({_word.arguments})`: {_word.gives}."


def _gradient(word: Word) -> str:
    """Whether kernels that call it have gradients of themselves."""
    if word.arguments in ("", "x, number") or "combine" in word.arguments:
        return {"fold": "of sums", "prefix": "of sums", "like": "yes"}.get(word.name, "–")
    if word.name in ("rem", "isnan", "bitcast", "any", "all"):
        return "–"
    if word.name == "sign":  # whose NaN comes from the value itself
        return "0"
    kind = "complex64" if word.name in ("real", "imag", "conj") else "float32"
    names = [a for a in word.arguments.split(", ") if a not in ("dtype", "condition")]
    given = [ex.input(k, kind) for k in range(len(names))]
    call: list[Any] = [*given, "float64"] if "dtype" in word.arguments else list(given)
    if "condition" in word.arguments:
        call.insert(0, given[0] > given[1])
    found = word.function(*call)
    result = found[0] if isinstance(found, tuple) else found
    if word.where == _SCAN:
        return "yes" if word.name == "running_sum" else "–"
    try:
        grads = adjoint([result], [ex.input(9, result.dtype)], given, lambda e: e.op != "fold")
    except TypeError:
        return "–"
    return "yes" if builtins.any(g is not None for g in grads) else "0"


def vocabulary() -> str:
    """The functions that bodies may call, as a table: what they give, in which kernels, and whether gradients go through them.

    Besides them stand the operators `+ - * / % ** < <= > >= == != & | ^ ~ << >>`, numbers, pointwise operations of the
    library (`flambeau.nn.functional.softplus(x)`), and kernels declared with `pointwise`.

    >>> from flambeau import kernels
    >>> "| `sqrt(x)` `rsqrt(x)` `cbrt(x)` | roots; rsqrt is 1 / sqrt | any | yes |" in kernels.vocabulary()
    True
    """
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for w in WORDS:
        grouped.setdefault((w.gives, w.where, _gradient(w)), []).append(f"`{w.name}({w.arguments})`")
    rows = ["| function | gives | in | gradient |", "|---|---|---|---|"]
    rows += [f"| {' '.join(calls)} | {' | '.join(told)} |" for told, calls in grouped.items()]
    return "\n".join(rows) + "\n"
