"""Cross-entropy on top of a linear map: against its formula in NumPy, and some rows at a time against all at once."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn import LinearCrossEntropyOptions as Options
from flambeau.nn import functional as F
from flambeau.operations.neural.losses.linear_losses import linear_cross_entropy_rows
from flambeau.operations.neural.losses.losses import class_entropy

RANDOM = np.random.default_rng(4)
X, W, B = RANDOM.normal(size=(7, 4)), RANDOM.normal(size=(5, 4)), RANDOM.normal(size=5)
LABELS = np.array([0, 4, 2, 2, 1, 3, 0])
CLASS_WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 3.0])


def formula(x, w, b, labels, weight=None, ignore=-100, reduction="mean"):
    scores = x @ w.T + (0 if b is None else b)
    scores = scores - scores.max(1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    kept = labels != ignore
    factors = (np.ones(len(w)) if weight is None else weight)[np.where(kept, labels, 0)] * kept
    losses = -logs[np.arange(len(labels)), np.where(kept, labels, 0)] * factors
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / factors.sum()}[reduction]


def tensors(*arrays):
    return [None if a is None else flambeau.tensor(a) for a in arrays]


@pytest.mark.parametrize(
    "options", [None, Options(), Options(batch_chunk_size=3), Options(chunking_method=None)]
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, CLASS_WEIGHTS])
@pytest.mark.parametrize("ignore", [None, 2, -7])
def test_values(options, reduction, weight, ignore):
    labels = np.where(LABELS == 2, -7, LABELS) if ignore == -7 else LABELS
    for bias in (None, B):
        x, w, b, t, c = tensors(X, W, bias, labels, weight)
        found = F.linear_cross_entropy(
            *(x, w, t),
            linear_bias=b,
            weight=c,
            ignore_index=ignore,
            reduction=reduction,
            options=options,
        )
        expected = formula(X, W, bias, labels, weight, -100 if ignore is None else ignore, reduction)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("rows", [1, 3, 7, 50])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_derivatives_of_rows(rows, reduction):
    x, w, b, c = (t.requires_grad_() for t in tensors(X, W, B, CLASS_WEIGHTS))
    labels = flambeau.tensor(np.where(LABELS == 3, -100, LABELS))

    def loss(x, w, b):
        return F.linear_cross_entropy(
            *(x, w, labels),
            linear_bias=b,
            weight=c.detach(),
            reduction=reduction,
            options=Options(batch_chunk_size=rows),
        )

    assert gradcheck(loss, (x, w, b)) and gradgradcheck(loss, (x, w, b))


def test_a_graph_is_kept_and_gone_through_again():
    x, w, t = tensors(X, W, LABELS)
    w.requires_grad_()
    loss = F.linear_cross_entropy(x, w, t, options=Options(batch_chunk_size=2))
    first = flambeau.autograd.grad(loss, w, retain_graph=True)[0]
    assert first.tolist() == flambeau.autograd.grad(loss, w)[0].tolist()
    with flambeau.no_grad():
        assert F.linear_cross_entropy(x, w, t, options=Options()).grad_fn is None


def test_rows_that_do_not_count_have_no_derivative():
    """Not even where they are infinite, or where no row counts."""
    x, w, t = tensors(X.copy(), W, np.full(7, 2))
    w.requires_grad_(), x.requires_grad_()
    loss = F.linear_cross_entropy(x, w, t, ignore_index=2, options=Options(batch_chunk_size=2))
    assert loss.isnan()
    loss.backward()
    assert (w.grad == 0).all() and (x.grad == 0).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_computed_in_float32(dtype):
    dtype = getattr(flambeau, dtype)
    x, w, t = tensors(X, W, LABELS)
    x, w = x.to(dtype).requires_grad_(), w.to(dtype).requires_grad_()
    wide_x, wide_w = x.detach().float().requires_grad_(), w.detach().float().requires_grad_()
    found = F.linear_cross_entropy(x, w, t, options=Options(batch_chunk_size=3))
    expected = F.linear_cross_entropy(wide_x, wide_w, t)
    assert found.dtype is dtype and found.tolist() == expected.to(dtype).tolist()
    found.backward(), expected.backward()
    for a, b in ((x.grad, wide_x.grad), (w.grad, wide_w.grad)):
        assert a.dtype is dtype and flambeau.allclose(a.float(), b.to(dtype).float(), rtol=1e-2, atol=1e-4)
    with pytest.raises(RuntimeError, match="acc_dtype float32 is for inputs of float16 and bfloat16"):
        F.linear_cross_entropy(wide_x, wide_w, t, options=Options(acc_dtype=flambeau.float64))


def shown(mode, operation, args, kwargs):
    """The result; what the leaf by rows calls is shown to the mode, too."""
    if operation is not linear_cross_entropy_rows:
        return operation(*args, **kwargs)
    with mode:
        return operation.function(*args, **kwargs)


def test_scores_of_a_few_rows_are_held_at_once():
    x, w = (
        flambeau.zeros(1024, 4, device="meta"),
        flambeau.zeros(1 << 15, 4, device="meta", requires_grad=True),
    )
    t = flambeau.zeros(1024, dtype=flambeau.int64, device="meta")
    most = []

    class Sizes(flambeau.overrides.Mode):
        def handle(self, operation, types, args, kwargs):
            found = shown(self, operation, args, kwargs)
            if isinstance(found, flambeau.Tensor):
                most.append(found.numel())
            return found

    for options, held in ((None, 1 << 25), (Options(batch_chunk_size=4), 1 << 17)):
        most.clear()
        with Sizes():
            loss = F.linear_cross_entropy(x, w, t, options=options)
        assert loss.shape == () and max(most) == held


def test_how_many_rows():
    rows = []

    class Rows(flambeau.overrides.Mode):
        def handle(self, operation, types, args, kwargs):
            if operation is class_entropy:
                rows.append(args[0].shape[0])
            return shown(self, operation, args, kwargs)

    x, w = flambeau.zeros(100, 4), flambeau.zeros(64, 4)
    t = flambeau.zeros(100, dtype=flambeau.int64)
    for options, expected in (
        (Options(), 4),  # 64 / 4 = 16 times the input's memory: ⌈100 / 16⌉ = 7, up to 8, and half of it
        (Options(chunking_method="aspect_ratio"), 8),
        (Options(chunking_method="aspect_ratio:4"), 2),
        (Options(chunking_method=None), 100),
        (Options(batch_chunk_size=30), 30),
        (Options(batch_chunk_size=300), 100),
    ):
        rows.clear()
        with Rows():
            F.linear_cross_entropy(x, w, t, options=options)
        assert rows[0] == expected and sum(rows) == 100
    with pytest.raises(ValueError, match="give different chunk sizes .30 vs 8."):
        F.linear_cross_entropy(x, w, t, options=Options(batch_chunk_size=30, chunking_method="aspect_ratio"))


@pytest.mark.parametrize("options", [None, Options(batch_chunk_size=2)])
def test_one_sample_and_none(options):
    x, w, t = tensors(X, W, LABELS)
    one = F.linear_cross_entropy(x[0], w, t[0], reduction="none", options=options)
    assert one.shape == () and one.item() == pytest.approx(formula(X[:1], W, None, LABELS[:1]))
    none = F.linear_cross_entropy(x[:0], w, t[:0], reduction="none", options=options)
    assert none.shape == (0,)
    assert F.linear_cross_entropy(x[:0], w, t[:0], reduction="sum", options=options).item() == 0
    assert F.linear_cross_entropy(x[:0], w, t[:0], options=options).isnan()


def test_probabilities_places_and_smoothing():
    x, w, b = tensors(X, RANDOM.normal(size=(5, 2, 3, 4)), RANDOM.normal(size=(5, 2, 3)))
    t = flambeau.tensor(RANDOM.integers(0, 5, (7, 2, 3)))
    scores = flambeau.einsum("ni,cabi->ncab", x, w) + b
    named = {"linear_bias": b, "label_smoothing": 0.1}
    expected = F.cross_entropy(scores, t, label_smoothing=0.1)
    assert F.linear_cross_entropy(x, w, t, **named).item() == pytest.approx(expected.item(), rel=1e-12)
    p = flambeau.tensor(RANDOM.random((7, 5, 2, 3)))
    expected = F.cross_entropy(scores, p, label_smoothing=0.1).item()
    assert F.linear_cross_entropy(x, w, p, **named).item() == pytest.approx(expected, rel=1e-12)
    with pytest.warns(UserWarning, match="`options` ignored"):
        assert F.linear_cross_entropy(x, w, p, **named, options=Options()).item() == pytest.approx(
            expected, rel=1e-12
        )
    with pytest.raises(
        RuntimeError, match="ignore_index cannot be specified when target contains probabilities"
    ):
        F.linear_cross_entropy(x, w, p, ignore_index=2)


@pytest.mark.parametrize("options", [None, Options(batch_chunk_size=2)])
@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((np.ones((1, 2, 4)), W, LABELS), RuntimeError, "input with dimensionality 1 or 2, got 3"),
        ((X, np.ones(4), LABELS), RuntimeError, "linear_weight with dimensionality at least 2, got 1"),
        ((X, np.ones((5, 3)), LABELS), RuntimeError, "last dimensions .in_features., got 4 and 3"),
        ((X[0], np.ones((5, 2, 4)), LABELS), RuntimeError, "requires batched input, .N, 4., got unbatched"),
        ((X, W, LABELS[:3]), ValueError, "target of shape .7,., got .3,|target of shape .7,. .* got .3,."),
        ((X, W, LABELS + 1), IndexError, "Target 5 is out of bounds"),
    ],
)
def test_what_does_not_fit(arguments, error, message, options):
    with pytest.raises(error, match=message):
        F.linear_cross_entropy(*tensors(*arguments), options=options)
    with pytest.raises(RuntimeError, match=r"expected linear_bias shape \(5,\), got \(4,\)"):
        F.linear_cross_entropy(*tensors(X, W, LABELS), linear_bias=flambeau.ones(4), options=options)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"acc_policy": "best"}, "invalid acc_policy: 'best'"),
        ({"chunking_method": "aspect_ratio:0"}, "invalid chunking_method: 'aspect_ratio:0'"),
        ({"chunking_method": "aspect_ratio:"}, "invalid chunking_method"),
        ({"chunking_method": "halves"}, "invalid chunking_method: 'halves'"),
        ({"batch_chunk_size": 0}, "batch_chunk_size must be positive int or None, got 0"),
        ({"batch_chunk_size": 2.5}, "batch_chunk_size must be positive int or None, got 2.5"),
        ({"acc_dtype": flambeau.int64}, "acc_dtype must be None or one of"),
    ],
)
def test_options_that_there_are_not(given, message):
    with pytest.raises(ValueError, match=message):
        Options(**given)


def test_the_module():
    flambeau.manual_seed(1)
    loss = nn.LinearCrossEntropyLoss(
        4, 5, out_features=(2,), bias=True, weight=flambeau.tensor([1.0, 2, 3, 4, 5])
    )
    x, t = flambeau.rand(3, 4), flambeau.tensor([[0, 1], [2, 3], [4, 0]])
    scores = (x @ loss.linear.weight.T + loss.linear.bias).reshape(3, 5, 2)
    expected = F.cross_entropy(scores, t, loss.weight)
    assert loss(x, t).item() == pytest.approx(expected.item(), rel=1e-6)
    assert list(loss.state_dict()) == ["weight", "linear.weight", "linear.bias"]
    assert loss.linear.weight.shape == (10, 4)
    rows = nn.LinearCrossEntropyLoss(4, 5, options=Options(batch_chunk_size=2))
    for made in (copy.deepcopy(rows), pickle.loads(pickle.dumps(rows))):
        assert made.options == rows.options and made(x, t[:, 0]).item() == rows(x, t[:, 0]).item()
    assert "in_features=4, num_classes=5, out_features=(), bias=False" in repr(rows)
    with pytest.raises(RuntimeError, match=r"expected weight shape to be \(5,\), got \(4,\)"):
        nn.LinearCrossEntropyLoss(4, 5, weight=flambeau.ones(4))
    with pytest.raises(RuntimeError, match="label_smoothing to be in range"):
        nn.LinearCrossEntropyLoss(4, 5, label_smoothing=1.5)
    with pytest.raises(IndexError, match="out of bounds"):
        rows(x, t[:, 0] + 3)


def test_a_second_derivative_with_an_ignored_number_that_is_no_class():
    x = flambeau.tensor(X, requires_grad=True)
    t = flambeau.tensor(np.where(LABELS == 0, 9, LABELS % 4))
    assert gradgradcheck(lambda x: F.cross_entropy(x, t, ignore_index=9), (x,))
