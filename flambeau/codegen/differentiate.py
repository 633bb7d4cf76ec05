"""Symbolic differentiation of scalar expressions, in reverse: one walk gives the gradients of all inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from . import expr as ex
from .expr import Expr, call, where

Rule = Callable[[Expr, Expr], Sequence["Expr | None"]]
_LN2, _LN10 = math.log(2.0), math.log(10.0)


def _select(e: Expr, g: Expr):
    zero = ex.like(g, 0.0)
    return None, where(e.args[0], g, zero), where(e.args[0], zero, g)


def _extreme(e: Expr, g: Expr):
    """At a tie each side gets half, and beside NaN all of it, as PyTorch has it."""
    a, b = e.args
    share, zero = where(a == b, g * 0.5, g), ex.like(g, 0.0)
    below, above = (a < b, a > b) if e.op == "max" else (a > b, a < b)
    return where(below, zero, share), where(above, zero, share)


def _cast(e: Expr, g: Expr):
    source = e.args[0].dtype
    return (ex.cast(g, source),) if ex.is_smooth(source) and ex.is_smooth(e.dtype) else (None,)


def sign(x: Expr) -> Expr:
    """-1, 0 or 1; NaN for NaN; of a complex number, the one of length 1 in its direction."""
    if ex.is_complex(x.dtype):
        length = ex.absolute(x)
        none = length == 0
        return where(none, ex.like(x, 0.0), x / ex.cast(where(none, 1, length), x.dtype))
    one, zero = ex.like(x, 1), ex.like(x, 0)
    below = ex.neg(one) if ex.is_signed(x.dtype) else zero
    result = where(x > 0, one, where(x < 0, below, zero))
    return where(ex.isnan(x), x, result) if ex.is_float(x.dtype) else result


def flat(g: Expr) -> Expr:
    """What reaches the argument of a step function: 0, of g's sign, also where g is infinite or NaN."""
    return ex.copysign(ex.like(g, 0.0), g)


def _absolute(e: Expr, g: Expr):
    """0 at 0, and at NaN, as PyTorch has it."""
    x = e.args[0]
    if ex.is_complex(x.dtype):
        return (g * sign(x),)
    one = ex.like(x, 1.0)
    return (g * where(x > 0, one, where(x < 0, -one, ex.like(x, 0.0))),)


def _div(e: Expr, g: Expr):
    """-(g/b)·(a/b): the first quotient is the other side's gradient."""
    to_a = g / e.args[1]
    return to_a, -(to_a * e)


def _pow(e: Expr, g: Expr):
    """d/da is 0 where b is 0, and d/db is 0 where a is 0 and b is not negative, so that no 0·inf appears."""
    a, b = e.args
    to_a = where(b == 0, ex.like(a, 0.0), g * (b * call("pow", a, b - 1)))
    to_b = where((a == 0) & (ex.real(b) >= 0), ex.like(a, 0.0), g * (e * call("log", a)))
    return to_a, to_b


def _expanded(e: Expr, g: Expr):
    """A function whose derivative has no name: what it expands to is differentiated."""
    from .lower import _expansions

    return gradients([_expansions()[e.op.removeprefix("call:")](*e.args)], [g], e.args)


def _atan2(e: Expr, g: Expr):
    """0 at the origin, where there is no angle."""
    y, x = e.args
    square = y * y + x * x
    square = where(square == 0.0, ex.like(square, math.inf), square)
    return g * (x / square), -(g * (y / square))


def _acosh(e: Expr, g: Expr):
    x = e.args[0]
    if ex.is_complex(x.dtype):  # two roots, so that the sign is right on the left half-plane too
        return (g * call("rsqrt", x - 1.0) * call("rsqrt", x + 1.0),)
    return (g * call("rsqrt", x * x - 1.0),)


# What reaches each argument, from the expression `e` and what reached it, `g`.  Rows in the order of DLMF
# chapter 4.
RULES: dict[str, Rule] = {
    "add": lambda e, g: (g, g),
    "sub": lambda e, g: (g, -g),
    "mul": lambda e, g: (g * e.args[1], g * e.args[0]),
    "div": _div,
    "neg": lambda e, g: (-g,),
    "fma": lambda e, g: (g * e.args[1], g * e.args[0], g),
    "abs": _absolute,
    "sqrt": lambda e, g: (g / (e * 2.0),),
    "copysign": lambda e, g: (g * sign(e.args[0]) * sign(e), None),
    "select": _select,
    "min": _extreme,
    "max": _extreme,
    "cast": _cast,
    "floor": lambda e, g: (None,),
    "ceil": lambda e, g: (None,),
    "rint": lambda e, g: (None,),
    "trunc": lambda e, g: (None,),
    "call:exp": lambda e, g: (g * e,),
    "call:exp2": lambda e, g: (g * e * _LN2,),
    "call:expm1": lambda e, g: (g * (e + 1.0),),
    "call:log": lambda e, g: (g / e.args[0],),
    "call:log2": lambda e, g: (g / (e.args[0] * _LN2),),
    "call:log10": lambda e, g: (g / (e.args[0] * _LN10),),
    "call:log1p": lambda e, g: (g / (e.args[0] + 1.0),),
    "call:sin": lambda e, g: (g * call("cos", e.args[0]),),
    "call:cos": lambda e, g: (-(g * call("sin", e.args[0])),),
    "call:tan": lambda e, g: (g * (e * e + 1.0),),
    "call:asin": lambda e, g: (g * call("rsqrt", 1.0 - e.args[0] * e.args[0]),),
    "call:acos": lambda e, g: (-(g * call("rsqrt", 1.0 - e.args[0] * e.args[0])),),
    "call:atan": lambda e, g: (g / (e.args[0] * e.args[0] + 1.0),),
    "call:sinh": lambda e, g: (g * call("cosh", e.args[0]),),
    "call:cosh": lambda e, g: (g * call("sinh", e.args[0]),),
    "call:tanh": lambda e, g: (g * (1.0 - e * e),),
    "call:asinh": lambda e, g: (g * call("rsqrt", e.args[0] * e.args[0] + 1.0),),
    "call:acosh": _acosh,
    "call:atanh": lambda e, g: (g / (1.0 - e.args[0] * e.args[0]),),
    "call:sigmoid": lambda e, g: (g * (e * (1.0 - e)),),
    "call:rsqrt": lambda e, g: (g * (e * e * e) * -0.5,),
    "call:cbrt": lambda e, g: (g / (e * e * 3.0),),
    "call:erf": lambda e, g: (g * (call("exp", -(e.args[0] * e.args[0])) * (2.0 / math.sqrt(math.pi))),),
    "call:erfc": lambda e, g: (g * (call("exp", -(e.args[0] * e.args[0])) * (-2.0 / math.sqrt(math.pi))),),
    "call:erfinv": lambda e, g: (g * (call("exp", e * e) * (math.sqrt(math.pi) / 2.0)),),
    "call:lgamma": lambda e, g: (g * call("digamma", e.args[0]),),
    "call:digamma": lambda e, g: (g * call("trigamma", e.args[0]),),
    "call:trigamma": _expanded,
    "call:pow": _pow,
    "call:atan2": _atan2,
    "call:hypot": lambda e, g: (g * (e.args[0] / e), g * (e.args[1] / e)),
    "call:fmod": lambda e, g: (g, -(g * ex.trunc(e.args[0] / e.args[1]))),
    "call:remainder": lambda e, g: (g, -(g * ex.floor(e.args[0] / e.args[1]))),
}


# A complex number counts as its two parts: the gradient of a real L is dL/dx + i dL/dy.  These relate the parts; for
# all others, which are differentiable in the complex sense, it is g times the conjugate of the derivative.
PARTS: dict[str, Rule] = {
    "real": lambda e, g: (ex.pair(g, ex.like(g, 0.0)),),
    "imag": lambda e, g: (ex.pair(ex.like(g, 0.0), g),),
    "pair": lambda e, g: (ex.real(g), ex.imag(g)),
    "abs": _absolute,
    "select": _select,
}


def _masked(g: Expr) -> tuple[Callable[[Expr], Expr], Expr] | None:
    """How a gradient that is 0 on one side of a condition is made, and of what; None for another gradient."""
    if g.op != "select":
        return None
    condition, a, b = g.args
    if b.op == "const" and b.value == 0:
        return lambda part: where(condition, part, ex.like(part, 0.0)), a
    if a.op == "const" and a.value == 0:
        return lambda part: where(condition, ex.like(part, 0.0), part), b
    return None


def parts_of(e: Expr, g: Expr) -> Sequence[Expr | None]:
    """What reaches each argument of `e`.

    A branch that was not taken gets 0 whatever its slope is: the condition is asked after the slope has been
    multiplied, since 0·inf is NaN.
    """
    masked = _masked(g)
    if masked is not None:
        mask, inner = masked
        return [part if part is None else mask(part) for part in parts_of(e, inner)]
    if not any(ex.is_complex(x.dtype) for x in (e, *e.args)):
        return RULES[e.op](e, g)
    if e.op in PARTS:
        return PARTS[e.op](e, g)
    return [part if part is None else ex.conj(part) for part in RULES[e.op](e, ex.conj(g))]


def _sum(a: Expr, b: Expr) -> Expr:
    """a + b, under their condition where both have the same one."""
    if a.op == b.op == "select" and a.args[0] is b.args[0]:
        first, second = _masked(a), _masked(b)
        if first is not None and second is not None:
            one = ex.like(a, 1.0)
            if first[0](one) is second[0](one):
                return first[0](first[1] + second[1])
    return a + b


def gradients(outputs: Sequence[Expr], grads: Sequence[Expr], inputs: Sequence[Expr]) -> list[Expr | None]:
    """The gradients of Σ grads·outputs with respect to the inputs; None where an output does not depend on
    one.
    """
    arriving: dict[int, Expr] = {}

    def arrive(e: Expr, g: Expr) -> None:
        before = arriving.get(id(e))
        arriving[id(e)] = g if before is None else _sum(before, g)

    for out, given in zip(outputs, grads):
        if ex.is_smooth(out.dtype):
            arrive(out, given)
    wanted = {id(x) for x in inputs}
    for e in reversed(list(ex.walk(outputs))):
        g = arriving.get(id(e))
        if g is None or not e.args or id(e) in wanted or e.dtype == "bool":
            continue
        if e.op not in RULES and e.op not in PARTS:
            raise TypeError(f"no rule differentiates {e.op}; declare the derivative of the operation")
        for argument, part in zip(e.args, parts_of(e, g)):
            if part is not None and ex.is_smooth(argument.dtype):
                arrive(argument, part)
    return [arriving.get(id(x)) for x in inputs]
