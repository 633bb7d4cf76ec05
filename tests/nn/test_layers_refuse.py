"""What layers and losses refuse is said in the words that programs written for PyTorch match, beside what was given."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn, ones

F = nn.functional
NUMBERS = ones(2, 3).long()


def ctc(inputs, targets):
    return F.ctc_loss(flambeau.zeros(5, 2, 4), NUMBERS, flambeau.tensor(inputs), flambeau.tensor(targets))


CALLS = {
    "index out of range in self": (IndexError, lambda: nn.Embedding(5, 3)(flambeau.tensor([5]))),
    "'weight' must be 2-D": (RuntimeError, lambda: F.embedding(flambeau.tensor([0]), ones(3))),
    r"offsets\[-1\] can not be greater than input's length": (
        RuntimeError,
        lambda: nn.EmbeddingBag(6, 3)(flambeau.tensor([0, 1]), flambeau.tensor([0, 3])),
    ),
    "negative padding is not supported": (
        RuntimeError,
        lambda: nn.Conv2d(1, 1, 3, padding=-1)(ones(1, 5, 5)),
    ),
    "non-positive stride is not supported": (
        RuntimeError,
        lambda: nn.Conv2d(1, 1, 3, stride=0)(ones(1, 5, 5)),
    ),
    r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got input of size: \[4, 4\]": (
        RuntimeError,
        lambda: nn.Conv2d(4, 4, 3)(ones(4, 4)),
    ),
    r"Given input size: \(1x2x2\)\. .* Output size is too small": (
        RuntimeError,
        lambda: F.max_pool2d(ones(1, 1, 2, 2), 5),
    ),
    r"Given output_size=\(3, 3\), kernel_size=\(2, 2\), dilation=\(1, 1\), padding=\(0, 0\), stride=\(1, 1\), expected": (
        RuntimeError,
        lambda: F.fold(ones(1, 4, 5), (3, 3), 2),
    ),
    "Target size .* must be the same as input size": (
        ValueError,
        lambda: F.binary_cross_entropy_with_logits(ones(1), ones(2)),
    ),
    "foo is not a valid value for reduction": (
        ValueError,
        lambda: F.mse_loss(ones(1), ones(1), reduction="foo"),
    ),
    "does not support negative values for beta": (
        RuntimeError,
        lambda: F.smooth_l1_loss(ones(1), ones(1), beta=-1),
    ),
    "does not support non-positive values for delta": (
        RuntimeError,
        lambda: F.huber_loss(ones(1), ones(1), delta=0),
    ),
    "input_lengths must be of size batch_size": (RuntimeError, lambda: ctc([5], [3, 3])),
    "target_lengths must be of size batch_size": (RuntimeError, lambda: ctc([5, 5], [3])),
    "input_lengths must be integral": (RuntimeError, lambda: ctc([5.0, 5.0], [3, 3])),
    "Expected input_lengths to have value at least 0": (RuntimeError, lambda: ctc([5, -1], [3, 3])),
    "Expected tensor to have size at least 4 at dimension 1": (RuntimeError, lambda: ctc([5, 5], [3, 4])),
    "input has inconsistent input_size: got 2 expected 3": (
        RuntimeError,
        lambda: nn.GRUCell(3, 4)(ones(2, 2)),
    ),
    "are expected to have the same number of dimensions": (
        RuntimeError,
        lambda: F.triplet_margin_loss(ones(3, 4), ones(3), ones(3, 4)),
    ),
    "argument #2 'target' is out of range": (
        RuntimeError,
        lambda: F.multilabel_margin_loss(ones(1, 3), 3 * NUMBERS[:1]),
    ),
    "All input tensors should have same dimension but got sizes": (
        RuntimeError,
        lambda: F.margin_ranking_loss(ones(2, 1), ones(2), ones(2)),
    ),
    "1D target tensor expects 2D input tensors": (
        RuntimeError,
        lambda: F.cosine_embedding_loss(ones(2, 3, 4), ones(2, 3, 4), ones(2)),
    ),
    "optimizer got an empty parameter list": (ValueError, lambda: flambeau.optim.Adam([])),
    "should be an iterable of Tensors or dicts": (
        TypeError,
        lambda: flambeau.optim.Adam(ones(1, requires_grad=True)),
    ),
}


@pytest.mark.parametrize("words", CALLS)
def test_pytorchs_words(words):
    error, call = CALLS[words]
    with pytest.raises(error, match=words):
        call()
