"""Forward mode, reverse mode, and each over each other are the same derivatives: of every operation and layer."""

from __future__ import annotations

import derivatives
import pytest

CASES = [(f"{entry.name}({text})", entry, text) for entry, text in derivatives.sample_cases()]


def agree(case, ways) -> None:
    found = derivatives.errors(case, ways)
    assert {w: e for w, e in found.items() if not derivatives.refused(e)} == {}


@pytest.mark.parametrize("name, entry, text", CASES, ids=[c[0] for c in CASES])
def test_calls(name, entry, text):
    case = derivatives.sample_case(entry, text)
    if case is not None:
        ways = [w for w in derivatives.FIRST + derivatives.SECOND if "over_forward" not in w]
        agree(case, [w for w in ways if w != "adjoint" or name not in derivatives.NO_ADJOINT])
