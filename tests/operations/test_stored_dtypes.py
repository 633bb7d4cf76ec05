"""Dtypes that no kernel sees: every sample call either computes what float32 does, rounded, or refuses by the dtype's name."""

from __future__ import annotations

import numpy as np
import pytest
from samples import ALL, Operands, run

import flambeau

STORED = [
    "complex32",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn_x2",
]
# Results in between are rounded, and have signs, which this dtype has not.
UNSIGNED = {"float8_e8m0fnu": ("multi_dot", "affine_grid", "affine_grid_generator")}
CASES = [(e, text) for e, text in ALL if e.kind != "random"]
ERRORS = (NotImplementedError, RuntimeError, TypeError, ValueError)
# What an error may say that does not name the dtype.
SAID = (
    "dtype",
    "float8",
    "Promotion",
    "type",
    "complex",
    "real",
    "floating",
    "integ",
    "same",
    "Expected",
    "expected",
    "bool",
    "requires",
)


class Stored(Operands):
    """The operands of sample calls in a stored dtype, or the same numbers in the dtype they are computed in."""

    def __init__(self, kind, wide: bool):
        super().__init__()
        self.kind, self.wide = kind, wide

    def floats(self, name: str) -> flambeau.Tensor:
        x = super().floats(name)
        if self.kind.name.startswith("float4"):
            return (x * 8).to(flambeau.uint8).view(self.kind)
        found = x.to(self.kind)
        return (
            found.to(flambeau.complex64 if self.kind.is_complex else flambeau.float32) if self.wide else found
        )

    def complex_square(self) -> flambeau.Tensor:
        return flambeau.complex(Operands.floats(self, "sq"), Operands.floats(self, "low"))


@pytest.mark.parametrize("name", STORED)
def test_samples_are_right_or_refused(name):
    kind, computed, wrong = getattr(flambeau, name), 0, []
    for entry, text in CASES:
        try:
            found = run(entry, text, Stored(kind, False))
        except ERRORS as error:
            if not any(word in str(error) for word in (name, *SAID)):
                wrong.append(f"{entry.name}({text}): {type(error).__name__}: {error}")
            continue
        if (
            name.startswith("float4")
            or entry.name in UNSIGNED.get(name, ())
            or not any(t.dtype == kind for t in found)
        ):
            continue
        for got, want in zip(found, run(entry, text, Stored(kind, True))):
            if got.dtype != kind or not (want.is_floating_point() or want.is_complex()):
                continue
            computed += 1
            near = got.to(flambeau.complex128).numpy()
            true = want.to(kind).to(flambeau.complex128).numpy()
            if near.shape != true.shape or not np.allclose(near, true, rtol=0.26, atol=2e-2, equal_nan=True):
                wrong.append(f"{entry.name}({text}): {near.ravel()[:3]} in place of {true.ravel()[:3]}")
    assert not wrong, "\n".join(wrong[:20])
    assert computed > 60 or name.startswith("float4")
