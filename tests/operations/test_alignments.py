"""CTC: the sum over all paths, by trying every one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)


def collapsed(path, blank):
    found, last = [], None
    for k in path:
        if k != last and k != blank:
            found.append(k)
        last = k
    return tuple(found)


def by_paths(log_probs, target, blank):
    steps, classes = log_probs.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=steps):
        if collapsed(path, blank) == tuple(target):
            total += np.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
    return -np.log(total) if total else np.inf


@pytest.mark.parametrize("blank", [0, 2])
def test_values(blank):
    scores = RNG.standard_normal((4, 3, 3))
    log_probs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    labels = [k for k in range(3) if k != blank]
    targets = [[labels[0]], [labels[0], labels[0]], [labels[1], labels[0]]]
    expected = [by_paths(log_probs[: (4, 4, 2)[n], n], targets[n], blank) for n in range(3)]
    padded = flambeau.tensor([t + [labels[0]] * (2 - len(t)) for t in targets])
    given = (flambeau.tensor([4, 4, 2]), flambeau.tensor([1, 2, 2]), blank)
    found = F.ctc_loss(flambeau.tensor(log_probs), padded, *given, reduction="none")
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
    joined = flambeau.tensor([k for t in targets for k in t])
    np.testing.assert_allclose(
        F.ctc_loss(flambeau.tensor(log_probs), joined, *given).item(),
        np.mean(np.array(expected) / [1, 2, 2]),
        rtol=1e-10,
    )


def test_gradient_behind_log_softmax_and_impossible_targets():
    scores = flambeau.tensor(RNG.standard_normal((4, 2, 3)), requires_grad=True)
    loss = lambda x: F.ctc_loss(
        x.log_softmax(2), flambeau.tensor([[1, 2], [1, 1]]), [4, 4], [2, 2], reduction="sum"
    )
    assert flambeau.autograd.gradcheck(loss, [scores])
    args = (flambeau.tensor([[1, 1, 1]]), [3], [3])
    assert F.ctc_loss(scores[:3, :1].log_softmax(2), *args).item() == float("inf")
    assert F.ctc_loss(scores[:3, :1].log_softmax(2), *args, zero_infinity=True).item() == 0.0
    with pytest.raises(RuntimeError, match="input_lengths"):
        F.ctc_loss(scores, flambeau.tensor([[1], [1]]), [9, 4], [1, 1])
