"""ONNX forms of random numbers: drawn anew at each run, by the runtime's own generator."""

from __future__ import annotations

from typing import Any

from ..declare.onnx import is_value, onnx_form
from .random import bernoulli, bernoulli_like, normal, rand, rand_like, randn, randn_like


def _like(g: Any, kind: str, **options: float) -> Any:
    """Numbers of that distribution in the shape of the result."""
    made = g.results[0]
    if made.dtype not in ("float16", "float32", "float64"):
        return NotImplemented
    return g.op(kind, g.expand(g.number(0, made.dtype), made.shape), **options)


@onnx_form(rand, rand_like)
def _(g: Any, *_: Any, **__: Any) -> Any:
    return _like(g, "RandomUniformLike")


@onnx_form(randn, randn_like)
def _(g: Any, *_: Any, **__: Any) -> Any:
    return _like(g, "RandomNormalLike")


@onnx_form("uniform_")
def _(g: Any, self: Any, from_: float = 0.0, to: float = 1.0, **_: Any) -> Any:
    return _like(g, "RandomUniformLike", low=float(from_), high=float(to))


@onnx_form("normal_")
def _(g: Any, self: Any, mean: float = 0.0, std: float = 1.0, **_: Any) -> Any:
    return _like(g, "RandomNormalLike", mean=float(mean), scale=float(std))


@onnx_form(normal)
def _(g: Any, mean: Any, std: Any = 1.0, size: Any = None, **_: Any) -> Any:
    drawn = _like(g, "RandomNormalLike")
    return NotImplemented if drawn is NotImplemented else g.Add(g.Mul(drawn, std), mean)


@onnx_form("exponential_")
def _(g: Any, self: Any, lambd: float = 1.0, **_: Any) -> Any:
    drawn = _like(g, "RandomUniformLike", low=2.0**-24)
    return NotImplemented if drawn is NotImplemented else g.Mul(g.Neg(g.Log(drawn)), 1 / lambd)


def _successes(g: Any, chance: Any) -> Any:
    """1 with those chances: by comparison, since the standard's own function of Bernoulli gave the failures in some versions."""
    drawn = _like(g, "RandomUniformLike")
    return NotImplemented if drawn is NotImplemented else g.cast(g.Less(drawn, chance), g.results[0].dtype)


@onnx_form(bernoulli)
def _(g: Any, input: Any, p: Any = None, **_: Any) -> Any:
    return _successes(g, input if p is None else g.number(p, input.dtype))


@onnx_form("bernoulli_")
def _(g: Any, self: Any, p: Any = 0.5, **_: Any) -> Any:
    return _successes(g, g.cast(p, self.dtype) if is_value(p) else g.number(p, self.dtype))


@onnx_form(bernoulli_like)
def _(g: Any, input: Any, p: float, success: float = 1.0) -> Any:
    drawn = _successes(g, g.number(p, input.dtype))
    return (
        drawn if success == 1.0 or drawn is NotImplemented else g.Mul(drawn, g.number(success, input.dtype))
    )
