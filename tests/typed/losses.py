"""Losses and functions of `nn.functional`, with keywords and by position."""

from __future__ import annotations

from collections.abc import Callable

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor, nn


def losses(logits: Tensor, classes: Tensor, x: Tensor, y: Tensor) -> list[Tensor]:
    chance = x.sigmoid()
    weight = torch.ones(logits.size(1))
    return [
        F.cross_entropy(logits, classes, weight=weight, ignore_index=-1, reduction="sum"),
        F.nll_loss(F.log_softmax(logits, dim=1), classes),
        F.mse_loss(x, y, reduction="none").mean(),
        F.l1_loss(x, y),
        F.smooth_l1_loss(x, y, beta=0.5),
        F.huber_loss(x, y, delta=2.0),
        F.binary_cross_entropy(chance, y.sigmoid(), weight=None),
        F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=torch.tensor(2.0)),
        F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean", log_target=False),
        F.gaussian_nll_loss(x, y, torch.ones_like(x), full=True),
        F.poisson_nll_loss(x, y.abs(), log_input=True),
        F.hinge_embedding_loss(x, y.sign(), margin=1.0),
        F.margin_ranking_loss(x[0], x[1], torch.ones(x.size(1)), margin=0.5),
        F.cosine_embedding_loss(x, y, torch.ones(x.size(0))),
        F.triplet_margin_loss(x, y, y + 1, margin=1.0, p=2),
        F.triplet_margin_with_distance_loss(
            x, y, y + 1, distance_function=lambda a, b: (a - b).abs().sum(-1)
        ),
        F.multi_margin_loss(logits, classes),
        F.multilabel_soft_margin_loss(x, (y > 0).float()),
        F.soft_margin_loss(x, y.sign()),
        F.ctc_loss(
            torch.randn(6, 1, 4).log_softmax(2),
            torch.tensor([[1, 2]]),
            torch.tensor([6]),
            torch.tensor([2]),
            blank=0,
        ),
    ]


def activations(x: Tensor) -> Tensor:
    chain: list[Callable[[Tensor], Tensor]] = [
        F.relu,
        F.gelu,
        F.silu,
        torch.tanh,
        F.softplus,
        torch.sigmoid,
        F.mish,
    ]
    for function in chain:
        x = function(x)
    x = F.leaky_relu(x, 0.1) + F.elu(x, alpha=0.5) + F.hardtanh(x, -1, 1) + F.selu(x) + F.celu(x) + F.relu6(x)
    x = F.hardswish(x) + F.hardsigmoid(x) + F.logsigmoid(x) + F.softsign(x) + F.relu(x, inplace=False)
    return (
        F.glu(torch.cat([x, x], -1), dim=-1)
        + F.threshold(x, 0.1, 0.0)
        + F.normalize(x, p=2.0, dim=1, eps=1e-8)
    )


def images(x: Tensor) -> Tensor:
    y = F.conv2d(x, torch.randn(4, 3, 3, 3), bias=torch.zeros(4), stride=1, padding="same", dilation=(1, 1))
    y = F.max_pool2d(
        F.batch_norm(y, torch.zeros(4), torch.ones(4), training=True), kernel_size=2, stride=(2, 2)
    )
    y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False) + F.upsample(
        y, scale_factor=2.0
    )
    y = (
        F.group_norm(y, 2)
        + F.layer_norm(y, y.shape[1:])
        + F.dropout(y, p=0.2, training=False)
        + F.instance_norm(y)
    )
    y = F.pad(F.avg_pool2d(y, 2), (1, 1, 1, 1), mode="constant", value=0.0)
    pooled, indices = F.max_pool2d(y, 2, return_indices=True)
    y = F.max_unpool2d(pooled, indices, 2)
    y = F.conv_transpose2d(y, torch.randn(4, 2, 2, 2), stride=2) + 1
    columns = F.fold(
        F.unfold(y, kernel_size=2, stride=2), output_size=(y.size(2), y.size(3)), kernel_size=2, stride=2
    )
    row = (
        F.adaptive_avg_pool2d(columns, (1, None)).flatten(1)
        + F.adaptive_avg_pool2d(columns, 1).flatten(1).sum()
    )
    line = F.conv1d(row[:, None], torch.ones(1, 1, 3), padding=1) + F.avg_pool1d(row[:, None], 3, 1, 1)
    return (
        line.sum()
        + F.pixel_shuffle(torch.ones(1, 4, 2, 2), 2).sum()
        + F.adaptive_max_pool2d(columns, 2).sum()
    )


def sequences(words: Tensor) -> Tensor:
    table = torch.randn(10, 8)
    x = F.embedding(words, table, padding_idx=0)
    x = F.scaled_dot_product_attention(x, x, x, attn_mask=None, dropout_p=0.0, is_causal=True)
    x = F.linear(x, torch.randn(8, 8), bias=torch.zeros(8)) + F.rms_norm(x, (8,)) + F.one_hot(words % 8, 8)
    bags = F.embedding_bag(words, table, mode="mean")
    same = F.cosine_similarity(x, x + 1, dim=-1) + F.pairwise_distance(x, x + 1)
    return x.sum() + bags.sum() + same.sum() + F.gumbel_softmax(x, tau=0.5, hard=True).sum()


def modules(logits: Tensor, classes: Tensor) -> Tensor:
    criterion = nn.CrossEntropyLoss(weight=None, reduction="mean", label_smoothing=0.1)
    loss: Tensor = criterion(logits, classes)
    return loss + nn.MSELoss()(logits, logits + 1) + nn.BCEWithLogitsLoss()(logits, torch.ones_like(logits))


def main() -> None:
    torch.manual_seed(0)
    logits, classes = torch.randn(4, 5, requires_grad=True), torch.tensor([0, 1, 2, 3])
    total = torch.stack(losses(logits, classes, torch.randn(3, 4), torch.randn(3, 4))).sum() + modules(
        logits, classes
    )
    total.backward()
    assert logits.grad is not None
    assert activations(torch.randn(3, 4)).shape == (3, 4)
    assert images(torch.randn(2, 3, 8, 8)).dim() == 0
    assert sequences(torch.randint(0, 10, (2, 4))).isfinite()


main()
