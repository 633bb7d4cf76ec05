"""Writes docs/ulp.md: how far the math functions are from the true values.

`python tools/ulp_table.py` measures them on the points of tests/codegen/test_math.py, but far more of
them. Needs what the tests need.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "codegen"))

import test_math as tests  # noqa: E402

COUNTS = {"float32": 300_000, "float64": 4_000}  # points a group; mpmath is slow
HEAD = """# Accuracy of the math functions

Largest distance from the true value that was found, in units in the last place (ULP), with the argument it
was found at. The points are random bit patterns (so that all exponents are covered), even samples of the
intervals where a function does its work, and neighbourhoods known to be hard: multiples of pi/2, arguments
near 1 of logarithms, powers near overflow and underflow. float32 is compared with float64 results of NumPy
and SciPy (erfinv, lgamma and digamma with mpmath), float64 with mpmath. Rounding the true value costs up to
0.5 ULP by itself.

All functions follow C99 for zeros, infinities and NaN, and round to subnormal numbers where the result is
one. `fmod` is exact; `remainder` is `fmod` and one rounded addition. For negative arguments `lgamma` and
`digamma` have zeros between the poles; there the bound is 2 ULP of the largest term of the reflection
formula, not of the value. `float16` and `bfloat16` are computed in float32 and rounded once more.

Written by `tools/ulp_table.py`.

| function | float32 | at | float64 | at |
|---|---|---|---|---|
"""


def cell(name: str, dtype: str) -> str:
    count = COUNTS[dtype] if name not in tests.MPMATH_ONLY else 4_000
    error, where = tests.largest_error(name, dtype, count, seed=1)
    print(f"{name} {dtype} {error:.3f}", file=sys.stderr)
    return f"{error:.2f} | {', '.join(f'{float(v):.9g}' for v in where)}"


def main() -> None:
    rows = [f"| {name} | {cell(name, 'float32')} | {cell(name, 'float64')} |" for name in tests.FUNCTIONS]
    (ROOT / "docs" / "ulp.md").write_text(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
