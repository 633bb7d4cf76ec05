"""Math functions written in primitives, for float32 and float64: at most 2 ULP from the true value.

`EXPANSIONS[name]` takes expressions of one dtype and returns an expression. There are no tables in memory,
no calls, and no wider float inside; the few inputs that need more work than the rest (huge angles,
infinities, subnormal numbers) are put behind `rarely`. Polynomials come from tools/minimax.py; what
accuracy each function reaches stands in docs/ulp.md.

>>> import flambeau
>>> from flambeau.codegen import expr
>>> EXPANSIONS["rsqrt"](expr.input(0, "float32"))
div(1.0, sqrt(in0))
"""

from __future__ import annotations

# Each of these adds its functions to EXPANSIONS.
from . import _math_arithmetic, _math_explog, _math_hyperbolic, _math_special, _math_trig  # noqa: F401
from ._math_base import EXPANSIONS

__all__ = ["EXPANSIONS"]
