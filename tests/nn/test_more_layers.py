"""Layers over functions that have tests of their own: what the layer adds."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)
IMAGE = flambeau.tensor(RNG.standard_normal((2, 4, 6, 6)))


@pytest.mark.parametrize(
    "layer, function",
    [
        (nn.Unfold(2, stride=2), lambda x: F.unfold(x, 2, stride=2)),
        (nn.LPPool2d(3, 2), lambda x: F.lp_pool2d(x, 3.0, 2)),
        (nn.LPPool1d(2, 3), lambda x: (x[0] ** 2).unfold(-1, 3, 3).sum(-1).sqrt()),
        (nn.ChannelShuffle(2), lambda x: x[:, [0, 2, 1, 3]]),
        (nn.Upsample(scale_factor=2), lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3)),
        (nn.UpsamplingNearest2d(12), lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3)),
        (nn.UpsamplingBilinear2d(9), lambda x: F.interpolate(x, 9, mode="bilinear", align_corners=True)),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_layers_of_images(layer, function):
    x = IMAGE[0] if isinstance(layer, nn.LPPool1d) else IMAGE
    np.testing.assert_allclose(layer(x).numpy(), function(IMAGE).numpy(), rtol=1e-10)
    assert repr(layer).startswith(type(layer).__name__ + "(")


def test_fold_is_the_adjoint_of_unfold():
    columns = flambeau.tensor(RNG.standard_normal((2, 16, 25)))
    found = (nn.Fold(6, 2)(columns) * IMAGE).sum()
    assert found.item() == pytest.approx((nn.Unfold(2)(IMAGE) * columns).sum().item())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    layer = nn.EmbeddingBag(10, 3, mode=mode, padding_idx=-1)
    assert layer.padding_idx == 9 and layer.weight[9].eq(0).all() and "mode=" in repr(layer)
    rows = flambeau.tensor([[1, 2], [3, 3]])
    table = layer.weight.detach().numpy()[rows.numpy()]
    expected = {"sum": table.sum(1), "mean": table.mean(1), "max": table.max(1)}[mode]
    np.testing.assert_allclose(layer(rows).detach().numpy(), expected, rtol=1e-6)
    flat = layer(flambeau.tensor([1, 2, 3, 3]), flambeau.tensor([0, 2]))
    np.testing.assert_allclose(flat.detach().numpy(), expected, rtol=1e-6)
    layer(rows).sum().backward()
    assert layer.weight.grad[5].eq(0).all() and not layer.weight.grad[3].eq(0).all()
    fixed = nn.EmbeddingBag.from_pretrained(flambeau.ones(4, 2), mode="sum")
    assert fixed(rows).tolist() == [[2.0, 2.0]] * 2 and not fixed.weight.requires_grad
    with pytest.raises(AssertionError):
        nn.EmbeddingBag(3, 2, padding_idx=3)


def test_adaptive_log_softmax():
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0).double()
    x = flambeau.tensor(RNG.standard_normal((6, 8)), requires_grad=True)
    target = flambeau.tensor([0, 2, 3, 6, 7, 11])
    every = layer.log_prob(x)
    np.testing.assert_allclose(every.detach().exp().sum(1).numpy(), 1.0, rtol=1e-12)
    output, loss = layer(x, target)
    np.testing.assert_allclose(output.detach().numpy(), every.detach().numpy()[np.arange(6), target.numpy()])
    assert loss.item() == pytest.approx(-output.mean().item())
    assert layer.predict(x).tolist() == every.argmax(1).tolist()
    single = layer(x[0], target[0])
    assert single.output.ndim == 0 and single.loss.item() == pytest.approx(-output[0].item())
    assert flambeau.autograd.gradcheck(lambda t: layer(t, target).loss, [x])
    with pytest.raises(RuntimeError, match="Target values"):
        layer(x, target + 1)
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [7, 3])


def test_losses():
    scores = flambeau.tensor(RNG.standard_normal((5, 2, 4))).log_softmax(2)
    given = (flambeau.tensor([[1, 2], [3, 0]]), flambeau.tensor([5, 4]), flambeau.tensor([2, 1]))
    assert nn.CTCLoss()(scores, *given).item() == pytest.approx(F.ctc_loss(scores, *given).item())
    x, target = np.array([[0.1, 0.2, 0.4, 0.8]]), np.array([[3, 0, -1, 1]])
    found = nn.MultiLabelMarginLoss()(flambeau.tensor(x), flambeau.tensor(target)).item()
    expected = sum(max(0, 1 - (x[0, t] - x[0, j])) for t in (3, 0) for j in (1, 2)) / 4
    assert found == pytest.approx(expected)


# ---------------------------------------------------------------- layers that few programs use


def test_sync_batch_norm_in_one_process_is_batch_norm():
    flambeau.manual_seed(0)
    x = flambeau.rand(4, 3, 5, dtype=flambeau.float64, requires_grad=True)
    for options in (
        {},
        {"momentum": None},
        {"affine": False},
        {"track_running_stats": False},
        {"bias": False},
    ):
        sync = nn.SyncBatchNorm(3, dtype=flambeau.float64, **options)
        plain = nn.BatchNorm1d(3, dtype=flambeau.float64, **options)
        for training in (True, True, False):
            sync.train(training), plain.train(training)
            assert sync(x).tolist() == plain(x).tolist()
        a, b = sync.state_dict(), plain.state_dict()
        assert list(a) == list(b) and all(a[k].tolist() == b[k].tolist() for k in a)
    assert nn.SyncBatchNorm(3)(flambeau.ones(2, 3)).shape == (2, 3)
    with pytest.raises(ValueError, match="at least 2D input .got 1D"):
        nn.SyncBatchNorm(3)(flambeau.ones(3))
    with pytest.raises(ValueError, match="number of input channels should be non-zero"):
        nn.SyncBatchNorm(0)(flambeau.ones(3, 0))
    with pytest.raises(ValueError, match="process_group needs init_process_group"):
        nn.SyncBatchNorm(3, process_group=object())(flambeau.ones(2, 3))


def test_batch_norms_become_synchronised_ones():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2, eps=0.5), nn.ModuleDict({"n": nn.BatchNorm3d(4, affine=False)})
    )
    weight, mean = net[1].weight, net[1].running_mean
    net[1].eval()
    optimiser = flambeau.optim.SGD(net.parameters(), lr=0.1)
    found = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert found is net and type(net[1]) is type(net[2]["n"]) is nn.SyncBatchNorm
    assert net[1].weight is weight and net[1].running_mean is mean and net[1].eps == 0.5
    assert not net[1].training and net[2]["n"].training and net[2]["n"].weight is None
    assert optimiser.param_groups[0]["params"][2] is net[1].weight
    alone = nn.BatchNorm1d(2)
    assert type(nn.SyncBatchNorm.convert_sync_batchnorm(alone)) is nn.SyncBatchNorm
    other = object()
    assert nn.SyncBatchNorm.convert_sync_batchnorm(net, process_group=other)[1].process_group is other


def test_cross_map_lrn():
    x = np.asarray(RNG.standard_normal((2, 6, 2, 3)))
    layer = nn.CrossMapLRN2d(3, alpha=0.5, beta=0.6, k=2)
    sums = np.stack([(x[:, max(c - 1, 0) : c + 2] ** 2).sum(1) for c in range(6)], 1)
    np.testing.assert_allclose(layer(flambeau.tensor(x)).numpy(), x / (2 + 0.5 / 3 * sums) ** 0.6, rtol=1e-12)
    assert repr(layer) == "CrossMapLRN2d(3, alpha=0.5, beta=0.6, k=2)"
    with pytest.raises(ValueError, match="Expected input to be 4D, got 3D"):
        layer(flambeau.ones(2, 3, 4))


def test_old_names_of_layers_warn():
    with pytest.warns(FutureWarning, match="`nn.Container` is deprecated"):
        box = nn.Container(a=nn.ReLU(), b=None)
    assert list(box._modules) == ["a", "b"]
    with pytest.warns(FutureWarning, match="`NLLLoss2d` has been deprecated"):
        loss = nn.NLLLoss2d(ignore_index=1)
    scores = flambeau.zeros(1, 2, 2, 2).log_softmax(1)
    target = flambeau.tensor([[[0, 1], [1, 0]]])
    assert loss(scores, target).item() == pytest.approx(np.log(2))
