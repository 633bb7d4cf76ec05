"""uint16, uint32 and uint64 in all sample calls: int64's numbers modulo their range, or a refusal that names the dtype."""

from __future__ import annotations

import numpy as np
import pytest
from samples import ALL, Operands, run

import flambeau

CASES = [(e, text) for e, text in ALL if e.kind != "random" and "empty" not in e.name]
ERRORS = (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError)
# Distances, where negative numbers in between are none of these dtypes'.
SIGNED = (
    "l1_loss",
    "margin_ranking_loss",
    "pairwise_distance",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
)


class Whole(Operands):
    """The operands of sample calls as integers from 0 to 9."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def floats(self, name: str) -> flambeau.Tensor:
        return (super().floats(name).abs() * 10).to(flambeau.int64).to(self.kind)


def differences(kind):
    """The calls whose results are not int64's, with both."""
    wrong, compared = [], 0
    for entry, text in CASES:
        if entry.name in SIGNED:
            continue
        try:
            wanted = run(entry, text, Whole(flambeau.int64))
        except ERRORS:
            continue
        try:
            found = run(entry, text, Whole(kind))
        except ERRORS as error:
            if not any(
                word in str(error)
                for word in (kind.name, "uint16", "dtype", "type", "index", "nteger", "ounding")
            ):
                wrong.append(f"{entry.name}({text}): {type(error).__name__}: {error}")
            continue
        for got, want in zip(found, wanted):
            if got.dtype == kind:
                want = want.to(kind)
            if got.dtype.is_complex or want.dtype.is_complex or got.is_meta:
                continue
            compared += 1
            a, b = got.detach().double().numpy(), want.detach().double().numpy()
            if a.shape != b.shape or not np.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True):
                wrong.append(f"{entry.name}({text}): {a.ravel()[:4]} in place of {b.ravel()[:4]}")
    return wrong, compared


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_samples(name):
    wrong, compared = differences(getattr(flambeau, name))
    assert not wrong, "\n".join(wrong[:20])
    assert compared > 200
