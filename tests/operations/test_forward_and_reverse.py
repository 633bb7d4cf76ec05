"""Forward mode, reverse mode, and each over each other are the same derivatives: of every operation and layer."""

from __future__ import annotations

import derivatives
import pytest

WAYS = derivatives.FIRST + derivatives.SECOND
CASES = dict(derivatives.all_cases("float64", "contiguous"))


def agree(case, ways) -> None:
    found = derivatives.errors(case, ways)
    assert {w: e for w, e in found.items() if not derivatives.refused(e)} == {}


@pytest.mark.parametrize("name", CASES)
def test_every_way(name):
    case = CASES[name]()
    if case is not None:
        agree(case, [w for w in WAYS if w not in derivatives.NO_ADJOINT.get(name, ())])
