"""Every criterion of `legacy.nn` with input, target, and the loss in NumPy."""

from __future__ import annotations

import numpy as np
from lua_modules import numbers, planes, x34, y34

import flambeau as torch
from flambeau.legacy import nn

signs = torch.tensor(np.sign(numbers(3, 4, seed=2).numpy()))
probabilities = torch.tensor(np.random.RandomState(0).uniform(0.1, 0.9, (3, 4)))
classes = torch.tensor([2, 0, 3])
weights = torch.tensor([0.5, 1.0, 2.0, 0.7], dtype=torch.float64)


def nll(x, y, w=None, average=True):
    rows, y = x.numpy(), y.numpy()
    w = np.ones(rows.shape[1]) if w is None else w.numpy()
    losses = -rows[np.arange(len(y)), y] * w[y]
    return losses.sum() / (w[y].sum() if average else 1)


def logs(x):
    return torch.tensor(x.numpy() - np.log(np.exp(x.numpy()).sum(1, keepdims=True)))


def bce(p, y, w=1.0):
    return (-(y * np.log(p) + (1 - y) * np.log(1 - p)) * w).mean()


def multi_margin(x, y, p=1, margin=1.0):
    total = 0.0
    for row, c in zip(x.numpy(), y.tolist()):
        total += sum(max(0, margin - row[c] + row[i]) ** p for i in range(len(row)) if i != c) / len(row)
    return total / len(x)


def multi_label(x, y):
    total = 0.0
    for row, labels in zip(x.numpy(), y.tolist()):
        wanted = labels[: labels.index(-1)]
        rest = [i for i in range(len(row)) if i not in wanted]
        total += sum(max(0, 1 - (row[j] - row[i])) for j in wanted for i in rest) / len(row)
    return total / len(x)


def cosines(x):
    a, b = (t.numpy() for t in x)
    return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))


# criterion, input, target, the loss in NumPy
CRITERIONS = [
    (nn.AbsCriterion, x34, y34, lambda x, y, c: np.abs((x - y).numpy()).mean()),
    (lambda: nn.AbsCriterion(False), x34, y34, lambda x, y, c: np.abs((x - y).numpy()).sum()),
    (nn.MSECriterion, x34, y34, lambda x, y, c: ((x - y).numpy() ** 2).mean()),
    (
        lambda: nn.WeightedMSECriterion(weights),
        x34,
        y34,
        lambda x, y, c: ((x - y * weights).numpy() ** 2).mean(),
    ),
    (
        nn.SmoothL1Criterion,
        x34,
        y34,
        lambda x, y, c: np.where(
            abs((x - y).numpy()) < 1, (x - y).numpy() ** 2 / 2, abs((x - y).numpy()) - 0.5
        ).mean(),
    ),
    (nn.DistKLDivCriterion, x34, probabilities, lambda x, y, c: (y * (y.log() - x)).numpy().mean()),
    (nn.BCECriterion, probabilities, (signs + 1) / 2, lambda x, y, c: bce(x.numpy(), y.numpy())),
    (
        lambda: nn.BCECriterion(weights),
        probabilities,
        (signs + 1) / 2,
        lambda x, y, c: bce(x.numpy(), y.numpy(), weights.numpy()),
    ),
    (nn.ClassNLLCriterion, x34, classes, lambda x, y, c: nll(x, y)),
    (lambda: nn.ClassNLLCriterion(weights, False), x34, classes, lambda x, y, c: nll(x, y, weights, False)),
    (lambda: nn.ClassNLLCriterion(weights), x34, classes, lambda x, y, c: nll(x, y, weights)),
    (nn.ClassNLLCriterion, x34[0], torch.tensor([2]), lambda x, y, c: -x[2].item()),
    (
        nn.SpatialClassNLLCriterion,
        planes,
        torch.tensor(np.random.RandomState(1).randint(0, 3, (2, 6, 6))),
        lambda x, y, c: nll(x.permute(0, 2, 3, 1).reshape(-1, 3), y.flatten()),
    ),
    (nn.CrossEntropyCriterion, x34, classes, lambda x, y, c: nll(logs(x), y)),
    (lambda: nn.CrossEntropyCriterion(weights), x34, classes, lambda x, y, c: nll(logs(x), y, weights)),
    (
        nn.MultiLabelSoftMarginCriterion,
        x34,
        (signs + 1) / 2,
        lambda x, y, c: bce(1 / (1 + np.exp(-x.numpy())), y.numpy()),
    ),
    (
        nn.MultiLabelMarginCriterion,
        x34,
        torch.tensor([[1, 2, -1, 0], [0, -1, 3, 3], [3, 1, 0, -1]]),
        lambda x, y, c: multi_label(x, y),
    ),
    (nn.MultiMarginCriterion, x34, classes, lambda x, y, c: multi_margin(x, y)),
    (
        lambda: nn.MultiMarginCriterion(2, margin=0.5),
        x34,
        classes,
        lambda x, y, c: multi_margin(x, y, 2, 0.5),
    ),
    (nn.SoftMarginCriterion, x34, signs, lambda x, y, c: np.log1p(np.exp((-x * y).numpy())).mean()),
    (
        lambda: nn.MarginCriterion(0.7),
        x34,
        signs,
        lambda x, y, c: np.maximum(0, 0.7 - (x * y).numpy()).mean(),
    ),
    (
        lambda: nn.HingeEmbeddingCriterion(0.7),
        x34,
        signs,
        lambda x, y, c: np.where(y.numpy() == 1, x.numpy(), np.maximum(0, 0.7 - x.numpy())).mean(),
    ),
    (nn.L1HingeEmbeddingCriterion, [x34, y34], 1, lambda x, y, c: abs((x[0] - x[1]).numpy()).sum()),
    (
        lambda: nn.L1HingeEmbeddingCriterion(50),
        [x34, y34],
        -1,
        lambda x, y, c: 50 - abs((x[0] - x[1]).numpy()).sum(),
    ),
    (
        lambda: nn.MarginRankingCriterion(0.5),
        [x34[:, 0], y34[:, 0]],
        signs[:, 0],
        lambda x, y, c: np.maximum(0, (-y * (x[0] - x[1])).numpy() + 0.5).mean(),
    ),
    (
        lambda: nn.CosineEmbeddingCriterion(0.1),
        [x34, y34],
        torch.tensor([1, -1, -1]),
        lambda x, y, c: np.where(y.numpy() == 1, 1 - cosines(x), np.maximum(0, cosines(x) - 0.1)).mean(),
    ),
    (nn.L1Cost, x34, None, lambda x, y, c: np.abs(x.numpy()).sum()),
    (
        lambda: nn.ClassSimplexCriterion(4),
        x34,
        classes,
        lambda x, y, c: ((x.numpy() - c.simplex.numpy()[y.numpy()]) ** 2).mean(),
    ),
    (
        lambda: nn.MultiCriterion().add(nn.MSECriterion(), 0.5).add(nn.AbsCriterion()),
        x34,
        y34,
        lambda x, y, c: ((x - y).numpy() ** 2).mean() / 2 + np.abs((x - y).numpy()).mean(),
    ),
    (
        lambda: nn.ParallelCriterion().add(nn.ClassNLLCriterion(), 0.5).add(nn.MSECriterion()),
        [x34, y34],
        [classes, x34],
        lambda x, y, c: nll(x[0], y[0]) / 2 + ((x[1] - y[1]).numpy() ** 2).mean(),
    ),
    (
        lambda: nn.ParallelCriterion(True).add(nn.MSECriterion(), 0.5).add(nn.MSECriterion()),
        [x34, y34],
        probabilities,
        lambda x, y, c: ((x[0] - y).numpy() ** 2).mean() / 2 + ((x[1] - y).numpy() ** 2).mean(),
    ),
]
