"""Loss layers: each against its formula in NumPy, for all reductions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau import nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 4))
Y = RNG.standard_normal((5, 4))
P = RNG.uniform(0.05, 0.95, (5, 4))
Q = RNG.uniform(0.05, 0.95, (5, 4))
CLASSES = np.array([0, 3, 1, 1, 2])
SIGNS = np.where(RNG.standard_normal((5, 4)) > 0, 1.0, -1.0)
WEIGHT = np.array([0.5, 1.0, 2.0, 0.25])
LOG_P = X - np.log(np.exp(X).sum(1, keepdims=True))
PICKED = LOG_P[np.arange(5), CLASSES]
COSINE = (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)


def weight():
    return flambeau.tensor(WEIGHT)


def bce(p, y):
    return -(y * np.log(p) + (1 - y) * np.log(1 - p))


def distance(a, b):
    return np.linalg.norm(a - b + 1e-6, axis=1)


def margin_terms(p, w):
    picked = X[np.arange(5), CLASSES][:, None]
    terms = np.maximum(0, 0.5 - picked + X) ** p * w[CLASSES][:, None]
    terms[np.arange(5), CLASSES] = 0
    return terms.sum(1) / 4


SIGMOID = 1 / (1 + np.exp(-X))
# module, its arguments, inputs, the unreduced losses
CASES = [
    (nn.L1Loss, {}, (X, Y), np.abs(X - Y)),
    (nn.MSELoss, {}, (X, Y), (X - Y) ** 2),
    (
        nn.SmoothL1Loss,
        {"beta": 0.5},
        (X, Y),
        np.where(np.abs(X - Y) < 0.5, (X - Y) ** 2, np.abs(X - Y) - 0.25),
    ),
    (
        nn.HuberLoss,
        {"delta": 0.5},
        (X, Y),
        np.where(np.abs(X - Y) < 0.5, (X - Y) ** 2 / 2, 0.5 * (np.abs(X - Y) - 0.25)),
    ),
    (nn.BCELoss, {}, (P, Q), bce(P, Q)),
    (nn.BCELoss, {"weight": weight}, (P, Q), bce(P, Q) * WEIGHT),
    (nn.BCEWithLogitsLoss, {}, (X, Q), bce(SIGMOID, Q)),
    (
        nn.BCEWithLogitsLoss,
        {"pos_weight": weight},
        (X, Q),
        -(WEIGHT * Q * np.log(SIGMOID) + (1 - Q) * np.log(1 - SIGMOID)),
    ),
    (nn.KLDivLoss, {}, (X, P), P * (np.log(P) - X)),
    (nn.KLDivLoss, {"log_target": True}, (X, Y), np.exp(Y) * (Y - X)),
    (nn.PoissonNLLLoss, {}, (X, P), np.exp(X) - P * X),
    (nn.PoissonNLLLoss, {"log_input": False, "eps": 0.1}, (P, Q), P - Q * np.log(P + 0.1)),
    (nn.GaussianNLLLoss, {}, (X, Y, P), (np.log(P) + (X - Y) ** 2 / P) / 2),
    (
        nn.GaussianNLLLoss,
        {"full": True},
        (X, Y, P),
        (np.log(P) + (X - Y) ** 2 / P) / 2 + math.log(2 * math.pi) / 2,
    ),
    (nn.SoftMarginLoss, {}, (X, SIGNS), np.log1p(np.exp(-SIGNS * X))),
    (nn.HingeEmbeddingLoss, {"margin": 0.5}, (X, SIGNS), np.where(SIGNS == 1, X, np.maximum(0, 0.5 - X))),
    (
        nn.CosineEmbeddingLoss,
        {"margin": 0.1},
        (X, Y, SIGNS[:, 0]),
        np.where(SIGNS[:, 0] == 1, 1 - COSINE, np.maximum(0, COSINE - 0.1)),
    ),
    (nn.MarginRankingLoss, {"margin": 0.1}, (X, Y, SIGNS), np.maximum(0, -SIGNS * (X - Y) + 0.1)),
    (nn.NLLLoss, {}, (LOG_P, CLASSES), -PICKED),
    (nn.CrossEntropyLoss, {}, (X, CLASSES), -PICKED),
    (
        nn.CrossEntropyLoss,
        {"label_smoothing": 0.2},
        (X, CLASSES),
        -0.8 * PICKED - 0.2 * LOG_P.mean(1),
    ),
    (nn.MultiMarginLoss, {"margin": 0.5}, (X, CLASSES), margin_terms(1, np.ones(4))),
    (nn.MultiMarginLoss, {"margin": 0.5, "p": 2, "weight": weight}, (X, CLASSES), margin_terms(2, WEIGHT)),
    (nn.MultiLabelSoftMarginLoss, {}, (X, Q), bce(SIGMOID, Q).mean(1)),
    (nn.MultiLabelSoftMarginLoss, {"weight": weight}, (X, Q), (bce(SIGMOID, Q) * WEIGHT).mean(1)),
    (
        nn.TripletMarginLoss,
        {"margin": 0.5},
        (X, Y, P),
        np.maximum(0, distance(X, Y) - distance(X, P) + 0.5),
    ),
    (
        nn.TripletMarginLoss,
        {"swap": True},
        (X, Y, P),
        np.maximum(0, distance(X, Y) - np.minimum(distance(X, P), distance(Y, P)) + 1),
    ),
    (
        nn.TripletMarginWithDistanceLoss,
        {"distance_function": lambda: lambda a, b: (a - b).abs().sum(1)},
        (X, Y, P),
        np.maximum(0, np.abs(X - Y).sum(1) - np.abs(X - P).sum(1) + 1),
    ),
]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "case", CASES, ids=[f"{cls.__name__}-{'-'.join(options)}" for cls, options, *_ in CASES]
)
def test_values(case, reduction):
    cls, options, inputs, expected = case
    module = cls(**{k: v() if callable(v) else v for k, v in options.items()}, reduction=reduction)
    out = module(*(flambeau.tensor(a) for a in inputs)).numpy()
    if reduction != "none":
        expected = getattr(np, reduction)(expected)
    assert out.shape == np.shape(expected) and np.allclose(out, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("cls", [nn.NLLLoss, nn.CrossEntropyLoss])
def test_class_weights_and_ignored_targets(cls):
    module = cls(weight=weight(), ignore_index=1)
    given = LOG_P if cls is nn.NLLLoss else X
    kept = CLASSES != 1
    w = WEIGHT[CLASSES][kept]
    out = float(module(flambeau.tensor(given), flambeau.tensor(CLASSES)))
    assert out == pytest.approx(-(PICKED[kept] * w).sum() / w.sum(), rel=1e-6)
    assert list(module.state_dict()) == ["weight"] and list(module.parameters()) == []


def test_kl_div_by_batch():
    out = nn.KLDivLoss(reduction="batchmean")(flambeau.tensor(X), flambeau.tensor(P))
    assert float(out) == pytest.approx((P * (np.log(P) - X)).sum() / 5)


@pytest.mark.parametrize(
    "size_average, reduce, reduction",
    [
        (None, False, "none"),
        (True, False, "none"),
        (False, None, "sum"),
        (False, True, "sum"),
        (True, True, "mean"),
    ],
)
def test_deprecated_forms_of_reduction(size_average, reduce, reduction):
    with pytest.warns(UserWarning, match=f"please use reduction='{reduction}' instead"):
        module = nn.MSELoss(size_average=size_average, reduce=reduce)
    assert module.reduction == reduction and repr(module) == "MSELoss()"


def test_errors():
    with pytest.raises(TypeError, match="delta must be a float or int, got: <class 'str'>"):
        nn.HuberLoss(delta="1")
    with pytest.raises(ValueError, match="only p == 1 and p == 2 supported"):
        nn.MultiMarginLoss(p=3)
    with pytest.raises(ValueError, match="expected weight to be None or 1D tensor, got 2D instead"):
        nn.MultiMarginLoss(weight=flambeau.ones(1, 1))
    for cls in (nn.TripletMarginLoss, nn.TripletMarginWithDistanceLoss):
        with pytest.raises(
            ValueError, match=f"{cls.__name__}: expected margin to be greater than 0, got 0 instead"
        ):
            cls(margin=0)


@pytest.mark.parametrize("given", [{}, {"weight": [1.0, 2.0, 3.0]}, {"label_smoothing": 0.1}])
def test_cross_entropy_of_ignored_targets_alone_has_derivatives_of_zero(given):
    given = {k: flambeau.tensor(v) if k == "weight" else v for k, v in given.items()}
    x = flambeau.ones(2, 3, requires_grad=True)
    loss = nn.functional.cross_entropy(x, flambeau.tensor([-100, -100]), **given)
    (first,) = flambeau.autograd.grad(loss, x, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), x)
    assert loss.isnan() and first.count_nonzero() == 0 and second.count_nonzero() == 0


# --- what class numbers, weights and variances are refused ------------------------------

F = nn.functional
SHAPES = [
    # scores, class numbers, what there is of PyTorch
    ((2, 3), (2, 2), RuntimeError),
    ((2, 3), (3,), ValueError),
    ((2, 3), (), ValueError),
    ((2, 3, 5), (3, 5), ValueError),
    ((2, 3, 5), (2, 4), RuntimeError),
    ((2, 3, 5), (2,), RuntimeError),
    ((2, 3, 5), (2, 5, 1), RuntimeError),
    ((2, 3, 4, 5), (2, 4, 6), RuntimeError),
    ((3,), (2,), ValueError),
]


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss], ids=lambda f: f.__name__)
@pytest.mark.parametrize("scores, classes, error", SHAPES, ids=str)
def test_class_numbers_of_wrong_shape(loss, scores, classes, error):
    with pytest.raises(error, match=rf"{loss.__name__}\(\): .*Expected target of shape"):
        loss(flambeau.zeros(scores), flambeau.zeros(classes, dtype=flambeau.int64))


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [((2, 3), (2,)), ((2, 3, 5), (2, 5)), ((3,), ())], ids=str)
def test_class_numbers_and_weights_of_wrong_dtype_or_size(loss, shape):
    scores, classes = flambeau.zeros(shape[0]), flambeau.zeros(shape[1], dtype=flambeau.int64)
    for dtype in (flambeau.float32, flambeau.int32, flambeau.bool):
        with pytest.raises(RuntimeError, match="expected target dtype to be int64 or uint8"):
            loss(scores, classes.to(dtype))
    for dtype in (flambeau.float16, flambeau.float64):
        with pytest.raises(RuntimeError, match="expected weight of dtype float32"):
            loss(scores, classes, weight=flambeau.ones(3, dtype=dtype))
    with pytest.raises(RuntimeError, match="weight tensor should be defined"):
        loss(scores, classes, weight=flambeau.ones(2))
    with pytest.raises(NotImplementedError, match="int64"):
        loss(scores.long(), classes)
    assert loss(scores, classes.to(flambeau.uint8)).shape == ()


def test_probabilities_of_classes_are_checked():
    scores = flambeau.zeros(2, 3)
    with pytest.raises(RuntimeError, match="Expected floating point type"):
        F.cross_entropy(scores, flambeau.zeros(2, 3, dtype=flambeau.int64))
    with pytest.raises(RuntimeError, match="ignore_index is not supported"):
        F.cross_entropy(scores, flambeau.ones(2, 3), ignore_index=1)
    with pytest.raises(RuntimeError, match="weight tensor should be defined"):
        F.cross_entropy(scores, flambeau.ones(2, 3), weight=flambeau.ones(2))


def test_one_class_number_in_a_list():
    x = flambeau.tensor([1.0, 2.0, 3.0])
    assert F.nll_loss(x, flambeau.tensor([2])).tolist() == F.nll_loss(x, flambeau.tensor(2)).tolist() == -3.0


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ignored_rows_pass_no_nan_on_at_any_order(reduction):
    """The mean of no losses is NaN, and so is what comes back from its square."""
    x = flambeau.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]], dtype=flambeau.float64, requires_grad=True)
    loss = F.cross_entropy(x, flambeau.tensor([1, 1]), ignore_index=1, reduction=reduction)
    (first,) = flambeau.autograd.grad((loss * loss).sum(), x, create_graph=True)
    (second,) = flambeau.autograd.grad((first * first).sum(), x)
    assert (first == 0).all() and (second == 0).all()


@pytest.mark.parametrize("shape", [(4, 1, 2), (4, 3, 1), (1, 3, 2), (4, 3), (4, 3, 2)], ids=str)
def test_gaussian_variances_broadcast_along_one_dimension(shape):
    rng = np.random.default_rng(0)
    x, y, var = rng.normal(size=(4, 3, 2)), rng.normal(size=(4, 3, 2)), rng.uniform(0.5, 2, shape)
    wide = var[..., None] if var.ndim == 2 else var
    expected = 0.5 * (np.log(wide) + (x - y) ** 2 / wide)
    found = F.gaussian_nll_loss(*map(flambeau.tensor, (x, y, var)), reduction="none")
    assert np.allclose(found.numpy(), expected)


@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 2), (4, 3, 3), (4,), ()], ids=str)
def test_gaussian_variances_of_wrong_size(shape):
    x = flambeau.zeros(4, 3, 2)
    with pytest.raises(ValueError, match="var is of incorrect size"):
        F.gaussian_nll_loss(x, x, flambeau.ones(shape))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "options", [{}, {"weight": 2.0}, {"pos_weight": 2.0}, {"reduction": "none"}], ids=str
)
def test_entropies_of_logits_have_the_dtype_of_the_target(dtype, options):
    dtype = getattr(flambeau, dtype)
    options = {
        k: flambeau.tensor(v, dtype=flambeau.float64) if "weight" in k else v for k, v in options.items()
    }
    x = flambeau.tensor(X, requires_grad=True)
    target = flambeau.tensor(P, dtype=dtype)
    found = F.binary_cross_entropy_with_logits(x, target, **options)
    wide = F.binary_cross_entropy_with_logits(x, target.double(), **options)
    assert found.dtype is dtype
    flambeau.testing.assert_close(found, wide.to(dtype))
    found.sum().backward()
    assert x.grad.dtype is flambeau.float64


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_weights_of_elements(name, reduction):
    """The mean of `mse_loss` and `l1_loss` is divided by the weights, that of `huber_loss` by the number of elements."""
    gap = np.abs(X - Y)
    each = {"mse_loss": gap**2, "l1_loss": gap, "huber_loss": np.where(gap < 1, gap**2 / 2, gap - 0.5)}[
        name
    ] * P
    mean = each.mean() if name == "huber_loss" else each.sum() / P.sum()
    x, y, w = (flambeau.tensor(a, requires_grad=True) for a in (X, Y, P))
    loss = getattr(nn.functional, name)
    found = loss(x, y, reduction=reduction, weight=w)
    np.testing.assert_allclose(
        found.detach().numpy(), {"none": each, "sum": each.sum(), "mean": mean}[reduction], rtol=1e-12
    )
    assert flambeau.autograd.gradcheck(
        lambda *given: loss(*given[:2], reduction=reduction, weight=given[2]), (x, y, w)
    )


def test_losses_of_nothing_and_cutoffs_between_classes():
    for shape in ((0, 2, 4), (3, 0, 4)):
        with pytest.raises(RuntimeError, match="log_probs tensor must not be empty"):
            n = shape[1]
            nn.functional.ctc_loss(flambeau.zeros(shape), flambeau.ones(n, 2).long(), [0] * n, [2] * n)
    for cutoffs in ([5.5, 10], [5, 5], [10, 5], [0, 5], [5, 20]):
        with pytest.raises(ValueError, match="unique, positive integers sorted"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)


def test_targets_that_do_not_fit_are_named_in_pytorchs_words():
    scores = flambeau.zeros(3, 5)
    for loss in (F.cross_entropy, F.nll_loss):
        with pytest.raises(
            ValueError, match=r"Expected input batch_size \(3\) to match target batch_size \(2\)"
        ):
            loss(scores, flambeau.zeros(2).long())
        with pytest.raises(RuntimeError, match="0D or 1D target tensor expected, multi-target not supported"):
            loss(scores, flambeau.zeros(3, 4).long())
    with pytest.raises(ValueError, match="that is different to the input size .* is deprecated"):
        F.binary_cross_entropy(flambeau.ones(1), flambeau.ones(2))
