"""What bodies may call: functions of traced values, under their usual names."""

from __future__ import annotations

import builtins
import functools
import inspect
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


def where(condition: Expr, x: Any, y: Any) -> Expr:
    """x where the condition, a bool, holds, else y; both are computed."""
    if isinstance(condition, Expr) and condition.dtype != "bool":
        raise TypeError(
            f"where(): argument 'condition' must be a bool, got {condition.dtype}; compare it (x != 0) or cast it to bool"
        )
    return fn.where(condition, x, y)


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
    shown: str  # what the example prints
    example: str = ""  # the example in its docstring, where it is not the usual one of its kind


_ANY, _ROW, _SCAN = "any", "row, reduction", "scan"


def _math(gives: str, shown: str, *functions: Callable, arguments: str = "x") -> list[Word]:
    return [
        Word(f.__name__, arguments, gives, _ANY, f, f"tensor({v})")
        for f, v in zip(functions, shown.split(), strict=True)
    ]


def _typed(
    name: str, gives: str, dtypes: str, call: str, example_input: str, shown: str, arguments: str = "x"
) -> Word:
    """A word for values that are no floats, whose example declares their dtypes."""
    example = f"kernels.pointwise(lambda {example_input.partition('=')[0]}: {call}, dtypes=kernels.{dtypes})"
    return Word(
        name,
        arguments,
        gives,
        _ANY,
        getattr(fn, name),
        shown,
        f"{example}(flambeau.tensor({example_input.partition('=')[2]}))",
    )


WORDS: tuple[Word, ...] = (
    *_math(
        "exponentials and logarithms",
        "1.6487 1.4142 0.6487 -0.6931 -1. -0.3010 0.4055",
        *(fn.exp, fn.exp2, fn.expm1, fn.log, fn.log2, fn.log10, fn.log1p),
    ),
    *_math(
        "trigonometric and hyperbolic functions",
        "0.4794 0.8776 0.5463 0.5236 1.0472 0.4636 0.5211 1.1276 0.4621 0.4812 nan 0.5493",
        *(fn.sin, fn.cos, fn.tan, fn.asin, fn.acos, fn.atan),
        *(fn.sinh, fn.cosh, fn.tanh, fn.asinh, fn.acosh, fn.atanh),
    ),
    *_math("roots; rsqrt is 1 / sqrt", "0.7071 1.4142 0.7937", fn.sqrt, fn.rsqrt, fn.cbrt),
    *_math(
        "special functions",
        "0.6225 0.5205 0.4795 0.4769 0.5724 -1.9635 4.9348",
        *(fn.sigmoid, fn.erf, fn.erfc, fn.erfinv, fn.lgamma, fn.digamma, fn.trigamma),
    ),
    *_math(
        "functions of two values; remainder has the sign of y, fmod that of x",
        "2.8966 2.0616 4. 0.5000 -1.5000",
        *(fn.atan2, fn.hypot, fn.pow, fn.fmod, fn.remainder),
        arguments="x, y",
    ),
    *_math("the distance from zero; also abs(x)", "0.5000", fn.absolute),
    *_math(
        "rounded to an integer: down, up, to even, towards zero",
        "0. 1. 0. 0.",
        *(fn.floor, fn.ceil, fn.rint, fn.trunc),
    ),
    *_math(
        "the larger or smaller; NaN where either is", "0.5000 -2.", fn.maximum, fn.minimum, arguments="x, y"
    ),
    *_math("x with the sign of y", "-0.5000", fn.copysign, arguments="x, y"),
    *_math("x · y + z, rounded once", "2.", fn.fma, arguments="x, y, z"),
    *_math("whether it is NaN", "False", fn.isnan),
    Word(
        "where",
        "condition, x, y",
        "x where the condition holds, else y",
        _ANY,
        where,
        "tensor(0.5000)",
        "kernels.pointwise(lambda x, y: kernels.where(x > y, x, y))(flambeau.tensor(0.5), flambeau.tensor(-2.0))",
    ),
    _typed(
        "rem",
        "the remainder of integers, with the sign of x",
        "INTEGRAL",
        "kernels.rem(x, 3)",
        "x=-7",
        "tensor(-1)",
        "x, y",
    ),
    Word(
        "like",
        "x, number",
        "a number as a value of x's dtype",
        _ANY,
        fn.like,
        "tensor(2.)",
        "kernels.pointwise(lambda x: kernels.like(x, 2))(flambeau.tensor(0.5))",
    ),
    *(
        _typed(n, "parts of a complex number, and its conjugate", "COMPLEX", f"kernels.{n}(z)", "z=1 + 2j", v)
        for n, v in (("real", "tensor(1.)"), ("imag", "tensor(2.)"), ("conj", "tensor(1.-2.j)"))
    ),
    *_math("the complex number of two parts", "0.5000-2.j", fn.pair, arguments="x, y"),
    Word("sign", "x", "-1, 0 or 1; NaN for NaN", _ANY, differentiate.sign, "tensor(1.)"),
    Word("clamp", "x, low, high", "the value within bounds", _ANY, clamp, "tensor(1.)"),
    Word("cast", "x, dtype", "the value as another dtype", _ANY, cast, "tensor(0, dtype=flambeau.int32)"),
    Word(
        "bitcast",
        "x, dtype",
        "the same bits as another dtype",
        _ANY,
        bitcast,
        "tensor(1056964608, dtype=flambeau.int32)",
    ),
    Word("sum", "x", "the sum over the row", _ROW, kn.sum, "tensor(6.)"),
    Word("mean", "x", "the mean over the row", _ROW, kn.mean, "tensor(2.)"),
    Word("max", "x", "the largest of the row; NaN where one is", _ROW, kn.max, "tensor(3.)"),
    Word("min", "x", "the smallest of the row; NaN where one is", _ROW, kn.min, "tensor(1.)"),
    Word(
        "max_index",
        "x",
        "the largest and where it first stands",
        _ROW,
        kn.max_index,
        "(tensor(3.), tensor(1))",
    ),
    Word(
        "min_index",
        "x",
        "the smallest and where it first stands",
        _ROW,
        kn.min_index,
        "(tensor(1.), tensor(0))",
    ),
    Word("prod", "x", "the product over the row", _ROW, kn.prod, "tensor(6.)"),
    Word("any", "x", "whether any is not zero", _ROW, kn.any, "tensor(True)"),
    Word("all", "x", "whether all are not zero", _ROW, kn.all, "tensor(True)"),
    Word(
        "fold",
        "combine, init, *x",
        "any associative and commutative combination, a tuple",
        _ROW,
        kn.fold,
        "tensor(6.)",
        "kernels.reduction(lambda x: kernels.fold(lambda a, b: a * b, (1,), x)[0])(flambeau.tensor([1.0, 3.0, 2.0]))",
    ),
    Word(
        "length",
        "",
        "how long the row is, an int64",
        _ROW,
        kn.length,
        "tensor(1.)",
        "kernels.reduction(lambda x: kernels.sum(x) / kernels.cast(kernels.length(), 'float32'))(flambeau.ones(3))",
    ),
    Word(
        "position",
        "",
        "where the element stands in its row, an int64",
        _ROW,
        position,
        "tensor([0., 1., 2.])",
        "kernels.row(lambda x: x * kernels.cast(kernels.position(), 'float32'))(flambeau.ones(3), 0)",
    ),
    Word("running_sum", "x", "the sum of the elements so far", _SCAN, kn.running_sum, "tensor([1., 4., 6.])"),
    Word(
        "running_prod",
        "x",
        "the product of the elements so far",
        _SCAN,
        kn.running_prod,
        "tensor([1., 3., 6.])",
    ),
    Word(
        "running_max_index",
        "x",
        "the largest so far and where it last stood",
        _SCAN,
        kn.running_max_index,
        "(tensor([1., 3., 3.]), tensor([0, 1, 1]))",
    ),
    Word(
        "running_min_index",
        "x",
        "the smallest so far and where it last stood",
        _SCAN,
        kn.running_min_index,
        "(tensor([1., 1., 1.]), tensor([0, 0, 0]))",
    ),
    Word(
        "prefix",
        "combine, init, *x",
        "any associative combination of the elements so far, a tuple",
        _SCAN,
        kn.prefix,
        "tensor([1., 3., 6.])",
        "kernels.scan(lambda x: kernels.prefix(lambda a, b: a * b, (1,), x)[0])(flambeau.tensor([1.0, 3.0, 2.0]), 0)",
    ),
)

_USUAL = {"x": "0.5", "y": "-2.0", "z": "3.0", "low": "1.0", "high": "2.0"}  # values in examples


def _usual_example(word: Word) -> str:
    """A kernel that is this word alone, called."""
    if word.where == _ANY:
        taken = [n for n in word.arguments.split(", ") if n in _USUAL]
        call = word.arguments.replace("dtype", "'int32'")
        values = ", ".join(f"flambeau.tensor({_USUAL[n]})" for n in taken)
        return f"kernels.pointwise(lambda {', '.join(taken)}: kernels.{word.name}({call}))({values})"
    kind, dim = ("reduction", "") if word.where == _ROW else ("scan", ", 0")
    return f"kernels.{kind}(lambda x: kernels.{word.name}(x))(flambeau.tensor([1.0, 3.0, 2.0]){dim})"


def _public(word: Word) -> Callable:
    """The function of a word, which says so where no argument is a value of a body, with its docstring."""
    names = word.arguments.split(", ")
    either = names in (["x", "y"], ["x", "low", "high"])  # numbers may stand beside a traced value

    @functools.wraps(word.function)
    def function(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        values = values[2:] if "combine" in names else values if either else values[:1]
        if values and not builtins.any(isinstance(v, Expr) for v in values):
            raise TypeError(
                f"{word.name}(): a traced value of a kernel's body expected, got {type(values[0]).__name__}"
            )
        return word.function(*args, **kwargs)

    source = "no argument" if either else "an element" if "combine" in names else f"`{names[0]}`"
    description = (
        f"{source} is {'' if either else 'not '}a traced value of a kernel's body"
        if word.arguments
        else "there is an argument"
    )
    own = inspect.cleandoc(word.function.__doc__ or f"`{word.name}({word.arguments})`: {word.gives}.")
    example = (
        f">>> import flambeau\n>>> from flambeau import kernels\n>>> {word.example or _usual_example(word)}"
    )
    function.__doc__ = f"{own}\n\nRaises:\n    TypeError: {description}\n\n{example}\n{word.shown}\n"
    return function


WORDS = tuple(word._replace(function=_public(word)) for word in WORDS)
__test__ = {word.name: word.function for word in WORDS}  # which doctest runs


def _gradient(word: Word) -> str:
    """Whether kernels that call it have gradients of themselves."""
    if word.arguments in ("", "x, number") or "combine" in word.arguments:
        return {"fold": "of sums", "prefix": "of sums", "like": "yes"}.get(word.name, "–")
    if word.function.__wrapped__ is bitcast:  # type: ignore[attr-defined]
        return "–"  # the same bits of another dtype are another number
    if word.name == "sign":  # whose NaN comes from the value itself
        return "0"
    kind = "complex64" if word.name in ("real", "imag", "conj") else "float32"
    names = [a for a in word.arguments.split(", ") if a not in ("dtype", "condition")]
    inputs = [ex.input(k, kind) for k in range(len(names))]
    call: list[Any] = [*inputs, "float64"] if "dtype" in word.arguments else list(inputs)
    if "condition" in word.arguments:
        call.insert(0, inputs[0] > inputs[1])
    results = word.function(*call)
    result = results[0] if isinstance(results, tuple) else results
    if not (ex.is_float(result.dtype) or ex.is_complex(result.dtype)):
        return "–"
    if word.where == _SCAN:
        return "yes" if word.name == "running_sum" else "–"
    try:
        grads = adjoint([result], [ex.input(9, result.dtype)], inputs, lambda e: e.op != "fold")
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
    rows += [f"| {' '.join(calls)} | {' | '.join(description)} |" for description, calls in grouped.items()]
    return "\n".join(rows) + "\n"
