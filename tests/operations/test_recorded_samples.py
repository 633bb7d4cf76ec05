"""Every sample call, recorded in compiled code with its backward pass, plays on other numbers with the program's own bits."""

from __future__ import annotations

import numpy as np
import samples
from flambeau.graph.record import Recording
from playing import play

import flambeau


class Changed(samples.Operands):
    """The operands of a sample call, a little smaller."""

    def floats(self, name):
        return super().floats(name) * 0.9375


def results_and_gradients(entry, text, operands, backward):
    flambeau.manual_seed(0)
    results = samples.run(entry, text, operands)
    roots = [t for t in results if t.requires_grad and t.numel()] if backward else []
    if not roots:
        return results
    seeds = [flambeau.ones_like(t) for t in roots]
    gradients = flambeau.autograd.grad(roots, operands.leaves, seeds, allow_unused=True)
    return results + [g for g in gradients if g is not None]


def plays(entry, text, backward=True) -> bool:
    probe = samples.Operands(grad=True)
    samples.run(entry, text, probe)
    ours, others, again = samples.Operands(grad=True), Changed(grad=True), Changed(grad=True)
    for operands in (ours, others, again):
        for name in probe:
            operands[name]  # made before the recording
    pairs = [(ours[k].detach(), others[k].detach()) for k in probe]
    pairs += [(a.detach(), b.detach()) for a, b in zip(ours.leaves, others.leaves)]
    recording = Recording()
    try:
        with recording:
            results = results_and_gradients(entry, text, ours, backward)
        expected = results_and_gradients(entry, text, again, backward)
    except NotImplementedError:  # no derivative
        assert backward
        return plays(entry, text, False)
    flambeau.manual_seed(0)
    for a, b in zip(play(recording, pairs, results), expected, strict=True):
        if a.dtype is flambeau.bfloat16:
            a, b = a.float(), b.float()
        if not np.array_equal(a.detach().numpy(), b.detach().numpy(), equal_nan=True):
            return False
    return True


def test_sample_calls_play():
    """All but those that make tensors of nothing, some of which are not initialised."""
    wrong = [(e.name, text) for e, text in samples.ALL if e.kind != "creation" and not plays(e, text)]
    assert wrong == []
