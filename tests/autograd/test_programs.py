"""Random programs: flambeau against an interpreter that shares nothing with it, the interpreter against finite differences."""

from __future__ import annotations

import numpy as np
import programs
import pytest

import flambeau

EACH = 150


@pytest.mark.parametrize("block", range(8))
def test_programs(block):
    wrong = []
    for seed in range(block * EACH, (block + 1) * EACH):
        program = programs.generate(seed)
        found = programs.differences(program, flambeau)
        if found:
            wrong.append(f"{program.source()}\n# {found}")
    assert not wrong, "\n\n".join(wrong)


def test_the_interpreter_agrees_with_finite_differences():
    """Where nothing is cut off the tape or scaled by a hook, its derivatives are those of its values."""
    h, checked = 1e-4, 0
    for seed in range(10_000, 10_300):
        program = programs.generate(seed)
        text = program.source()
        if any(word in text for word in ("no_grad", "detach", "hook", "abs", "relu", "clamp")):
            continue
        # writes made before a history began are the same at all places, but what they wrote to is not followed
        ahead, behind = [programs.generate(seed, (s * h, 0.0)).loss for s in (1, -1)]
        slope = (ahead.value - behind.value) / (2 * h)
        ahead, behind = [programs.generate(seed, (0.0, s * h)).loss for s in (1, -1)]
        bend = (ahead.terms[programs.FIRST] - behind.terms[programs.FIRST]) / (2 * h)
        scale = 1 + abs(slope) + abs(bend)
        np.testing.assert_allclose(program.loss.terms[programs.FIRST], slope, rtol=1e-4, atol=1e-5 * scale)
        np.testing.assert_allclose(program.loss.terms[programs.BOTH], bend, rtol=1e-4, atol=1e-5 * scale)
        checked += 1
    assert checked > 30


def test_programs_reach_what_they_are_for():
    """Among the programs are ones of every kind that the tape treats apart."""
    every = [programs.generate(seed) for seed in range(400)]
    text = "\n".join(p.source() for p in every)
    for word in ("no_grad", "detach", "register_hook", "retain_grad", "expand", "as_strided", "requires_grad_()", "unbind",
                 "index_add_", "masked_fill_", "copy_", "unsqueeze_", "[...] ="):  # fmt: skip
        assert text.count(word) > 5, word
    assert sum(p.stale for p in every) > 40 and sum(any(p.refused) for p in every) > 20
    assert sum(not p.stale for p in every) > 200
