"""ONNX forms of random numbers: drawn anew at each run, by the runtime's own generator."""

from __future__ import annotations

from typing import Any

from ..declare.onnx import onnx_form


def _drawn(kind: str) -> Any:
    def form(g: Any, *_: Any, **__: Any) -> Any:
        made = g.results[0]
        if made.dtype not in ("float16", "float32", "float64"):
            return NotImplemented
        like = g.expand(g.number(0, made.dtype), made.shape)
        return g.op(f"Random{kind}Like", like)

    return form


onnx_form("rand", "rand_like")(_drawn("Uniform"))
onnx_form("randn", "randn_like")(_drawn("Normal"))
