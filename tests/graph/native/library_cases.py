"""Calls of which libraries are made: functions with their arguments, as tests draw them."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


def r(*shape: int) -> Any:
    return torch.randn(shape)


ELEMENTS = {
    "broadcast": (lambda x, y: (x[:, None] * y + 1).exp(), (r(4), r(3, 4, 5))),
    "views": (lambda x: x.T[1:, ::2] * x[0, 1:].unsqueeze(1)[:5] + x.flatten()[3], (r(7, 6),)),
    "many dimensions": (
        lambda x: x.permute(4, 0, 2, 1, 3).contiguous() + x.sum((1, 3)).sum(),
        (r(2, 3, 4, 2, 3),),
    ),
    "results that are views, inputs and one another": (
        lambda x: (x, x.T, x[1:], x[0, 0], (y := x + 1), y, y.T),
        (r(3, 4),),
    ),
    "no dimensions": (lambda x, y: (x + y, x.exp(), y.sum()), (r(), r())),
    "no elements": (lambda x, y: (x * 2, y + 1, x.sum(1)), (r(3, 0), r(2))),
    "half types": (lambda x, y: (x * y.half(), x.bfloat16() + 1, F.softmax(x, -1)), (r(5, 9).half(), r(9))),
    "integers": (
        lambda x, i: (i * 3 + 1, i.sum(0), i // 2, x > 0, (x > 0).sum(), i.argmax()),
        (r(4), torch.arange(12).view(3, 4)),
    ),
    "in place": (lambda x: (y := x * 2, y.add_(1), y[0].mul_(3), y.sum())[0], (r(3, 4),)),
    "index of the element": (lambda x: x + torch.arange(6), (r(4, 6),)),
    "constants": (lambda x: x.masked_fill(torch.ones(5, 5).triu(1).bool(), -1.0), (r(2, 5, 5),)),
    "rows": (
        lambda x: (F.layer_norm(x, (6,)), x.std(1), x.logsumexp((0, 2)), F.normalize(x, dim=1)),
        (r(4, 5, 6),),
    ),
    "joins": (
        lambda x, y: (torch.cat([x, y, x * 2], -1), torch.stack([x, x + 1], 1), torch.cat([x.T, y.T[:2]])),
        (r(3, 4), r(3, 4)),
    ),
    "padding with numbers": (
        lambda x, i: (
            F.pad(x, (1, 1, 2, 0), value=-2.5),
            F.pad(x.half(), (0, 2, -1, 3)),
            F.pad(i, (1, 0), value=-7),
            F.pad(i > 1, (2, 1), value=True),
        ),
        (r(2, 3, 4), torch.arange(4)),
    ),
    "picks": (
        lambda x, i: (x.index_select(1, i), x.T.index_select(0, i) + 1),
        (r(3, 5), torch.tensor([4, 0, 4])),
    ),
    "pools after what was made since": (
        lambda x: (
            F.max_pool2d(x.sigmoid(), 3, 2, 1).tanh(),
            F.max_pool2d(x, 2).exp2(),
            x.sum((2, 3)).log1p(),
        ),
        (r(1, 3, 8, 8),),
    ),
    "pools": (
        lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool1d(x[0], 2), F.adaptive_avg_pool2d(x, 1)),
        (r(2, 3, 9, 8),),
    ),
}

PRODUCTS = {
    "batches that broadcast": (lambda a, b: a @ b, (r(2, 1, 5, 6), r(3, 6, 7))),
    "turned": (lambda a, b: (a @ b.mT, a.mT @ b, (b @ a.mT).mT), (r(2, 4, 6), r(2, 4, 6))),
    "one row, one column": (lambda a, b: (a @ b, b.T @ a.T, a @ b[:, :1]), (r(1, 40), r(40, 33))),
    "a vector": (
        lambda a, v: (a @ v, v @ a, v @ v, a.view(2, 3, 6) @ v, v[:3] @ a.view(2, 3, 6)),
        (r(6, 6), r(6)),
    ),
    "long": (lambda a, b: a @ b, (r(17, 2500), r(2500, 70))),
    "wide": (lambda a, b: a @ b + 1, (r(30, 20), r(20, 300))),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0), (r(5, 7), r(5, 6), r(6, 7))),
    "an addend of rows": (lambda c, a, b: torch.addmm(c, a, b), (r(5, 1), r(5, 6), r(6, 7))),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, alpha=-1.0), (r(1, 7), r(3, 5, 6), r(3, 6, 7))),
    "epilogues": (
        lambda a, b, c: (torch.relu(a @ b + c) * c[0], (a @ b).mul(2.0) + a[:, :1]),
        (r(5, 6), r(6, 7), r(5, 7)),
    ),
    "float64": (lambda a, b: a.double() @ b.double().T, (r(20, 30), r(35, 30))),
}


def pooled(x):
    return F.avg_pool2d(x, 3, 2, 1), F.avg_pool1d(x[0], 2), F.adaptive_avg_pool2d(x, (3, 2))


def resized(x):
    nearest = F.interpolate(x, scale_factor=2)
    return (
        nearest,
        F.interpolate(x, size=(4, 13), mode="bilinear"),
        F.interpolate(x, size=(3, 9), mode="bicubic"),
    )


def padded(x):
    reflected = F.pad(x, (1, 2, 2, 0), mode="reflect")
    return reflected, F.pad(x, (2, 2, 1, 1), mode="circular"), F.pad(x, (0, 3, 1, 0), mode="replicate")


def in_other_orders(x):
    return F.avg_pool2d(x.double().mT, 2).mT, F.interpolate(x.double().transpose(1, 3), size=(4, 3))


TABLES = {
    "mean pooling": (pooled, (r(2, 3, 9, 8),)),
    "mean pooling that counts what is there": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        (r(1, 2, 7, 8),),
    ),
    "resizing": (resized, (r(2, 3, 5, 6),)),
    "padding": (padded, (r(1, 2, 4, 5),)),
    "float64 and other orders": (in_other_orders, (r(1, 2, 6, 8),)),
}

CONVOLUTIONS = {
    "strided and padded": (nn.Conv2d(3, 18, (3, 2), stride=(2, 1), padding=(2, 1)), r(2, 3, 9, 8)),
    "dilated": (nn.Conv2d(5, 7, 3, dilation=2, bias=False), r(1, 5, 9, 9)),
    "one pixel": (nn.Conv2d(16, 33, 1), r(2, 16, 5, 5)),
    "one filter": (nn.Conv2d(4, 1, 5, padding=2), r(1, 4, 7, 7)),
    "as wide as the image": (nn.Conv2d(3, 4, 6), r(3, 3, 6, 6)),
    "float64": (nn.Conv2d(3, 4, 3).double(), r(1, 3, 6, 6).double()),
    "groups": (nn.Conv2d(6, 9, 3, groups=3, padding=1), r(2, 6, 5, 6)),
    "a filter a channel": (nn.Conv2d(7, 14, 3, groups=7, stride=2), r(2, 7, 8, 8)),
    "one dimension": (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2), r(3, 4, 20)),
    "one dimension in groups": (nn.Conv1d(4, 6, 3, groups=2, bias=False), r(3, 4, 9)),
}
