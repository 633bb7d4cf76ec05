"""Math functions written in primitives: at most 2 ULP from the true value, for float32 and float64, on every processor.

`EXPANSIONS[name]` takes expressions of one dtype and returns an expression.  There are no tables in memory, no calls, and no
wider dtype inside; the few inputs that need more work than the rest (huge angles, infinities, subnormal numbers) are put behind
`rarely`.  Polynomials come from tools/minimax.py; what accuracy each function reaches stands in docs/ulp.md.

>>> from flambeau.compiler import expr
>>> x = expr.input(0, "float32")
>>> EXPANSIONS["rsqrt"](x)
div(1.0, sqrt(in0))
"""

from __future__ import annotations

from . import _math_arithmetic, _math_explog, _math_hyperbolic, _math_special, _math_trig  # noqa: F401  (each adds its functions to EXPANSIONS)
from ._math_base import EXPANSIONS

__all__ = ["EXPANSIONS"]
