"""Every module of `legacy.nn` with inputs, and what NumPy or `flambeau.nn` makes of them."""

from __future__ import annotations

import numpy as np

import flambeau as torch
from flambeau.legacy import nn

F = torch.nn.functional


def numbers(*shape, seed=0, low=-2.0, high=2.0):
    """Numbers in double precision, none of which is near another or near 0."""
    count = int(np.prod(shape))
    points = np.linspace(low, high, count) + (high - low) / (4 * max(count, 1))
    return torch.tensor(np.random.RandomState(seed).permutation(points).reshape(shape))


def positive(*shape, seed=0):
    return numbers(*shape, seed=seed, low=0.1, high=2.0)


def maps(kind, *sizes):
    return getattr(nn.SpatialConvolutionMap.maps, kind)(*sizes)


class Case:
    """A module, its input, and a formula of (input, module) that is written without it; None where others test that."""

    def __init__(self, make, input, formula=None, name=None):
        self.make, self.input, self.formula = make, input, formula
        self.name = name or type(make()).__name__

    def __repr__(self):
        return self.name


def in_numpy(f):
    return lambda x, m: torch.tensor(f(x.numpy()))


def unpooling(pool, unpool):
    return nn.Sequential().add(pool).add(unpool(pool))


def batch_statistics(x, m):
    dims = [d for d in range(x.dim()) if d != 1]
    a = x.numpy()
    mean, var = a.mean(tuple(dims), keepdims=True), a.var(tuple(dims), keepdims=True)
    shape = [1, -1] + [1] * (x.dim() - 2)
    weight, bias = (np.ones(1), np.zeros(1)) if m.weight is None else (m.weight.numpy(), m.bias.numpy())
    return torch.tensor((a - mean) / np.sqrt(var + m.eps) * weight.reshape(shape) + bias.reshape(shape))


def windows(x, k, d):
    """The windows of k frames in steps of d along the dimension before the last, as (…, windows, k, frame)."""
    a = x.numpy()
    starts = range(0, a.shape[-2] - k + 1, d)
    return np.stack([a[..., s : s + k, :] for s in starts], -3)


def local(x, m):
    """A convolution with kernels of their own, place by place."""
    a = np.pad(x.numpy(), ((0, 0), (0, 0), (m.padH, m.padH), (m.padW, m.padW)))
    w, made = m.weight.numpy(), np.zeros((x.shape[0], m.nOutputPlane, m.oH, m.oW))
    for i in range(m.oH):
        for j in range(m.oW):
            part = a[:, :, i * m.dH : i * m.dH + m.kH, j * m.dW : j * m.dW + m.kW]
            made[:, :, i, j] = np.einsum("nchw,ochw->no", part, w[i, j])
    return torch.tensor(made + m.bias.numpy())


def mapped(x, m, full=False):
    """Connection by connection."""
    a, w = x.numpy(), m.weight.numpy()
    size = [
        (n - 1) * d + k if full else (n - k) // d + 1
        for n, d, k in zip(a.shape[1:], (m.dH, m.dW), (m.kH, m.kW))
    ]
    made = np.zeros((m.nOutputPlane, *size)) + m.bias.numpy()[:, None, None]
    for kernel, (source, to) in zip(w, m.connTable.numpy().astype(int)):
        for i in range(a.shape[1] if full else size[0]):
            for j in range(a.shape[2] if full else size[1]):
                window = slice(i * m.dH, i * m.dH + m.kH), slice(j * m.dW, j * m.dW + m.kW)
                if full:
                    made[to][window] += a[source, i, j] * kernel
                else:
                    made[to, i, j] += (a[source][window] * kernel).sum()
    return torch.tensor(made)


def around(x, kernel):
    """Weighted sums around each place in all planes, by loops; and the weights inside."""
    a, k = np.atleast_3d(x.numpy()), np.asarray(kernel, float)
    k = np.outer(k, k) if k.ndim == 1 else k
    h, w = k.shape[0] // 2, k.shape[1] // 2
    padded = np.pad(a, ((0, 0), (0, 0), (h, h), (w, w)))
    ones = np.pad(np.ones_like(a), ((0, 0), (0, 0), (h, h), (w, w)))
    made, inside = np.zeros((a.shape[0], 1, *a.shape[2:])), np.zeros((a.shape[0], 1, *a.shape[2:]))
    for i in range(a.shape[2]):
        for j in range(a.shape[3]):
            part = slice(i, i + k.shape[0]), slice(j, j + k.shape[1])
            made[:, 0, i, j] = (padded[:, :, part[0], part[1]] * k).sum((1, 2, 3)) / (k.sum() * a.shape[1])
            inside[:, 0, i, j] = (ones[:, :, part[0], part[1]] * k).sum((1, 2, 3)) / (k.sum() * a.shape[1])
    return made, inside


def centered(x, m):
    sums, inside = around(x, m.kernel.numpy())
    return torch.tensor(x.numpy() - sums / inside)


def divided(x, m):
    sums, inside = around(x * x, m.kernel.numpy())
    deviation = np.sqrt(sums) / inside
    return torch.tensor(x.numpy() / np.where(deviation > m.threshold, deviation, m.thresval))


x34, y34, z34 = numbers(3, 4), numbers(3, 4, seed=1), numbers(3, 4, seed=2)
planes = numbers(2, 3, 6, 6)
volume = numbers(2, 3, 4, 4, 4)
frames = numbers(2, 10, 4)

POINTWISE = [
    Case(nn.Abs, x34, in_numpy(np.abs)),
    Case(lambda: nn.AddConstant(3.5), x34, lambda x, m: x + 3.5),
    Case(lambda: nn.MulConstant(4), x34, lambda x, m: x * 4),
    Case(nn.Exp, x34, in_numpy(np.exp)),
    Case(nn.Log, positive(3, 4), in_numpy(np.log)),
    Case(nn.Sqrt, positive(3, 4), in_numpy(np.sqrt)),
    Case(nn.Square, x34, in_numpy(np.square)),
    Case(lambda: nn.Power(1.5), positive(3, 4), in_numpy(lambda a: a**1.5)),
    Case(nn.Identity, x34, lambda x, m: x),
    Case(nn.ReLU, x34, in_numpy(lambda a: np.maximum(a, 0))),
    Case(nn.ReLU6, x34 * 5, in_numpy(lambda a: np.clip(a, 0, 6))),
    Case(lambda: nn.Threshold(1, -2), x34, in_numpy(lambda a: np.where(a > 1, a, -2))),
    Case(nn.HardTanh, x34, in_numpy(lambda a: np.clip(a, -1, 1))),
    Case(lambda: nn.Clamp(-0.7, 1.1), x34, in_numpy(lambda a: np.clip(a, -0.7, 1.1))),
    Case(lambda: nn.ELU(0.7), x34, in_numpy(lambda a: np.where(a > 0, a, 0.7 * np.expm1(a)))),
    Case(lambda: nn.LeakyReLU(0.1), x34, in_numpy(lambda a: np.where(a > 0, a, 0.1 * a))),
    Case(nn.HardShrink, x34, in_numpy(lambda a: np.where(abs(a) > 0.5, a, 0))),
    Case(nn.SoftShrink, x34, in_numpy(lambda a: np.sign(a) * np.maximum(abs(a) - 0.5, 0))),
    Case(nn.Sigmoid, x34, in_numpy(lambda a: 1 / (1 + np.exp(-a)))),
    Case(nn.LogSigmoid, x34, in_numpy(lambda a: -np.log1p(np.exp(-a)))),
    Case(nn.Tanh, x34, in_numpy(np.tanh)),
    Case(nn.TanhShrink, x34, in_numpy(lambda a: a - np.tanh(a))),
    Case(lambda: nn.SoftPlus(2), x34, in_numpy(lambda a: np.log1p(np.exp(2 * a)) / 2)),
    Case(nn.SoftSign, x34, in_numpy(lambda a: a / (1 + abs(a)))),
    Case(nn.PReLU, x34, in_numpy(lambda a: np.where(a > 0, a, 0.25 * a))),
    Case(lambda: nn.PReLU(3), planes, in_numpy(lambda a: np.where(a > 0, a, 0.25 * a)), "PReLU of planes"),
    Case(lambda: nn.PReLU(3), planes[0], in_numpy(lambda a: np.where(a > 0, a, 0.25 * a)), "PReLU of one"),
    Case(lambda: nn.RReLU(0.2, 0.2), x34, in_numpy(lambda a: np.where(a > 0, a, 0.2 * a))),
    Case(nn.RReLU, x34),
    Case(nn.SoftMax, x34, in_numpy(lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True))),
    Case(nn.SoftMin, x34, in_numpy(lambda a: np.exp(-a) / np.exp(-a).sum(1, keepdims=True))),
    Case(nn.SoftMax, planes[0], in_numpy(lambda a: np.exp(a) / np.exp(a).sum(0)), "SoftMax of planes"),
    Case(nn.SpatialSoftMax, planes, in_numpy(lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True))),
    Case(nn.LogSoftMax, x34, in_numpy(lambda a: a - np.log(np.exp(a).sum(1, keepdims=True)))),
]

LINEAR = [
    Case(lambda: nn.Linear(4, 5), x34, lambda x, m: x @ m.weight.T + m.bias),
    Case(lambda: nn.Linear(4, 5), x34[0], lambda x, m: m.weight @ x + m.bias, "Linear of a vector"),
    Case(lambda: nn.Linear(4, 5, bias=False), x34, lambda x, m: x @ m.weight.T, "Linear without bias"),
    Case(lambda: nn.PartialLinear(4, 6), x34, lambda x, m: x @ m.weight.T + m.bias),
    Case(
        lambda: nn.PartialLinear(4, 6).setPartition(torch.tensor([2, 4])),
        x34,
        lambda x, m: (x @ m.weight.T + m.bias)[:, [2, 4]],
        "PartialLinear of a part",
    ),
    Case(
        lambda: nn.Bilinear(4, 3, 2),
        [x34, numbers(3, 3)],
        lambda x, m: (
            torch.tensor(np.einsum("ni,kij,nj->nk", x[0].numpy(), m.weight.numpy(), x[1].numpy())) + m.bias
        ),
    ),
    Case(lambda: nn.Add(4), x34, lambda x, m: x + m.bias),
    Case(lambda: nn.Add(torch.Size([3, 2])), numbers(2, 3, 2), lambda x, m: x + m.bias, "Add of a matrix"),
    Case(lambda: nn.Add(1, True), x34, lambda x, m: x + m.bias, "Add of a number"),
    Case(nn.Mul, x34, lambda x, m: x * m.weight),
    Case(lambda: nn.CMul(4), x34, lambda x, m: x * m.weight),
    Case(lambda: nn.CMul(3, 4), numbers(2, 3, 4), lambda x, m: x * m.weight, "CMul of a matrix"),
    Case(
        lambda: nn.Euclidean(4, 5),
        x34,
        lambda x, m: ((x[:, :, None] - m.weight) ** 2).sum(1).sqrt(),
    ),
    Case(
        lambda: nn.WeightedEuclidean(4, 5),
        x34,
        lambda x, m: (((x[:, :, None] - m.weight) * m.diagCov) ** 2).sum(1).sqrt(),
    ),
    Case(
        lambda: nn.Cosine(4, 5),
        x34,
        lambda x, m: F.cosine_similarity(x[:, None], m.weight[None], dim=2),
    ),
    Case(lambda: nn.LookupTable(5, 3), torch.tensor([[1, 0, 1], [4, 1, 2]]), lambda x, m: m.weight[x]),
    Case(
        lambda: nn.LookupTable(5, 3),
        torch.tensor([3, 1, 3]),
        lambda x, m: m.weight[x],
        "LookupTable of a vector",
    ),
    Case(nn.DotProduct, [x34, y34], lambda x, m: (x[0] * x[1]).sum(1)),
    Case(nn.CosineDistance, [x34, y34], lambda x, m: F.cosine_similarity(*x)),
    *(
        Case(
            lambda p=p: nn.PairwiseDistance(p),
            [x34, y34],
            lambda x, m, p=p: ((x[0] - x[1]).abs() ** p).sum(1) ** (1 / p),
            f"PairwiseDistance {p}",
        )
        for p in (1, 2, 3, 4)
    ),
    Case(nn.MM, [numbers(2, 3, 4), numbers(2, 4, 5, seed=1)], lambda x, m: torch.bmm(*x)),
    Case(
        lambda: nn.MM(True, True), [numbers(4, 3), numbers(5, 4)], lambda x, m: x[0].T @ x[1].T, "MM turned"
    ),
    Case(nn.MV, [numbers(2, 3, 4), numbers(2, 4)], lambda x, m: (x[0] * x[1][:, None]).sum(2)),
    Case(lambda: nn.MV(True), [numbers(4, 3), numbers(4)], lambda x, m: x[0].T @ x[1], "MV turned"),
    Case(lambda: nn.Copy(torch.DoubleTensor, torch.DoubleTensor), x34, lambda x, m: x),
]

SHAPES = [
    Case(lambda: nn.View(-1, 2), x34, lambda x, m: x.view(-1, 2)),
    Case(lambda: nn.View(torch.Size([2, 6])), x34.T, lambda x, m: x.reshape(2, 6), "View of a turned one"),
    Case(lambda: nn.Reshape(2, 2), x34, lambda x, m: x.view(3, 2, 2)),
    Case(nn.Contiguous, x34.T, lambda x, m: x),
    Case(nn.Squeeze, numbers(2, 1, 3, 1), lambda x, m: x.view(2, 3)),
    Case(lambda: nn.Squeeze(1), numbers(2, 1, 3, 1), lambda x, m: x.view(2, 3, 1), "Squeeze of one"),
    Case(lambda: nn.Unsqueeze(1), x34, lambda x, m: x[:, None]),
    Case(
        lambda: nn.Transpose((0, 1), (1, 2)),
        numbers(2, 3, 4),
        in_numpy(lambda a: a.transpose(1, 2, 0).copy()),
    ),
    Case(lambda: nn.Replicate(2, 1), x34, lambda x, m: torch.stack([x, x], 1)),
    Case(lambda: nn.Narrow(1, 1, 2), x34, lambda x, m: x[:, 1:3]),
    Case(lambda: nn.Narrow(1, 1, -1), x34, lambda x, m: x[:, 1:], "Narrow to the end"),
    Case(lambda: nn.Select(1, 2), x34, lambda x, m: x[:, 2]),
    Case(lambda: nn.Index(0), [x34, torch.tensor([0, 2, 2])], lambda x, m: x[0][[0, 2, 2]]),
    Case(nn.MaskedSelect, [x34, (x34 > 0).byte()], lambda x, m: x[0][x[0] > 0]),
    Case(lambda: nn.Padding(0, 2, 2, -10), x34, in_numpy(lambda a: np.vstack([a, np.full((2, 4), -10.0)]))),
    Case(
        lambda: nn.Padding(0, -2, 1, 7, 1),
        x34,
        in_numpy(lambda a: np.hstack([a[:, :1], np.full((3, 2), 7.0), a[:, 1:]])),
        "Padding inside of a batch",
    ),
    Case(nn.Max, x34, in_numpy(lambda a: a.max(0))),
    Case(lambda: nn.Min(1), x34, in_numpy(lambda a: a.min(1))),
    Case(lambda: nn.Mean(-1), x34, in_numpy(lambda a: a.mean(1))),
    Case(lambda: nn.Sum(1), x34, in_numpy(lambda a: a.sum(1))),
    Case(lambda: nn.Sum(1, True), x34, in_numpy(lambda a: a.mean(1)), "Sum as mean"),
]

TABLES = [
    Case(nn.CAddTable, [x34, y34, x34 * 2], lambda x, m: x[0] + x[1] + x[2]),
    Case(nn.CSubTable, [x34, y34], lambda x, m: x[0] - x[1]),
    Case(nn.CMulTable, [x34, y34, x34 * 2], lambda x, m: x[0] * x[1] * x[2]),
    Case(nn.CDivTable, [x34, positive(3, 4)], lambda x, m: x[0] / x[1]),
    Case(nn.CMaxTable, [x34, y34 + 0.03], lambda x, m: torch.maximum(*x)),
    Case(nn.CMinTable, [x34, y34 + 0.03], lambda x, m: torch.minimum(*x)),
    Case(lambda: nn.JoinTable(1), [x34, numbers(3, 2)], lambda x, m: torch.cat(x, 1)),
    Case(lambda: nn.SplitTable(1), x34, lambda x, m: list(x.unbind(1))),
    Case(lambda: nn.SelectTable(1), [x34, [y34, z34]], lambda x, m: x[1]),
    Case(lambda: nn.NarrowTable(1, 2), [x34, y34, z34, y34 * 3], lambda x, m: x[1:3]),
    Case(nn.FlattenTable, [x34, [y34, [z34]], z34 * 2], lambda x, m: [x[0], x[1][0], x[1][1][0], x[2]]),
    Case(
        nn.MixtureTable,
        [numbers(3, 2), [x34, y34]],
        lambda x, m: x[0][:, :1] * x[1][0] + x[0][:, 1:] * x[1][1],
    ),
    Case(
        nn.MixtureTable,
        [numbers(3, 2), numbers(3, 2, 4)],
        lambda x, m: (x[0][:, :, None] * x[1]).sum(1),
        "MixtureTable of one tensor",
    ),
]


def conv(f, dims):
    def formula(x, m):
        axes = ("T", "H", "W")[3 - dims :]
        options = {
            "stride": [getattr(m, "d" + a) for a in axes],
            "padding": [getattr(m, "pad" + a, 0) for a in axes],
        }
        if hasattr(m, "dilationH"):
            options["dilation"] = [m.dilationH, m.dilationW]
        if hasattr(m, "adjW"):
            options["output_padding"] = [getattr(m, "adj" + a) for a in axes]
        return f(x, m.weight, m.bias, **options)

    return formula


PLANES = [
    Case(lambda: nn.SpatialConvolution(3, 4, 3, 2, 2, 1, 1), planes, conv(F.conv2d, 2)),
    Case(
        lambda: nn.SpatialConvolution(3, 4, 3, 3), planes[0], conv(F.conv2d, 2), "SpatialConvolution of one"
    ),
    Case(lambda: nn.SpatialDilatedConvolution(3, 2, 3, 3, 2, 2, 1, 1, 2, 1), planes, conv(F.conv2d, 2)),
    Case(
        lambda: nn.SpatialFullConvolution(3, 2, 3, 3, 2, 2, 1, 1, 1, 1), planes, conv(F.conv_transpose2d, 2)
    ),
    Case(
        lambda: nn.SpatialFullConvolution(3, 2, 3, 3, 2, 2, 1),
        [planes, torch.zeros(1, 12, 11)],
        lambda x, m: F.conv_transpose2d(x[0], m.weight, m.bias, 2, 1, (1, 0)),
        "SpatialFullConvolution to a size",
    ),
    Case(lambda: nn.SpatialConvolutionLocal(3, 2, 6, 6, 2, 3, 2, 1, 1), planes, local),
    Case(lambda: nn.SpatialConvolutionMap(maps("oneToOne", 3), 3, 2, 2), planes[0], mapped),
    Case(
        lambda: nn.SpatialConvolutionMap(maps("full", 3, 4), 3, 3),
        planes[0],
        mapped,
        "SpatialConvolutionMap full",
    ),
    Case(
        lambda: nn.SpatialConvolutionMap(maps("random", 3, 4, 2), 2, 2),
        planes[0],
        mapped,
        "SpatialConvolutionMap random",
    ),
    Case(
        lambda: nn.SpatialFullConvolutionMap(maps("full", 3, 2), 3, 2, 2),
        planes[0],
        lambda x, m: mapped(x, m, True),
    ),
    Case(lambda: nn.VolumetricConvolution(3, 2, 2, 3, 2, 2, 1, 1, 1), volume, conv(F.conv3d, 3)),
    Case(
        lambda: nn.VolumetricFullConvolution(3, 2, 2, 3, 2, 2, 2, 2, adjT=1),
        volume,
        conv(F.conv_transpose3d, 3),
    ),
    Case(
        lambda: nn.TemporalConvolution(4, 5, 3, 2),
        frames,
        lambda x, m: torch.tensor(windows(x, 3, 2).reshape(2, -1, 12)) @ m.weight.T + m.bias,
    ),
    Case(
        lambda: nn.TemporalSubSampling(4, 3, 2),
        frames[0],
        lambda x, m: torch.tensor(windows(x, 3, 2).sum(-2)) * m.weight + m.bias,
    ),
    Case(lambda: nn.TemporalMaxPooling(3, 2), frames, lambda x, m: torch.tensor(windows(x, 3, 2).max(-2))),
    Case(lambda: nn.SpatialMaxPooling(3, 3, 2, 2, 1, 1), planes, lambda x, m: F.max_pool2d(x, 3, 2, 1)),
    Case(
        lambda: nn.SpatialMaxPooling(3, 2).ceil(),
        planes,
        lambda x, m: F.max_pool2d(x, (2, 3)),
        "SpatialMaxPooling ceil",
    ),
    Case(lambda: nn.SpatialAdaptiveMaxPooling(4, 2), planes, lambda x, m: F.adaptive_max_pool2d(x, (2, 4))),
    Case(
        lambda: nn.SpatialFractionalMaxPooling(2, 2, 0.5, 0.5).fixPoolingRegions(),
        planes,
        lambda x, m: F.fractional_max_pool2d(x, 2, output_ratio=0.5, _random_samples=m.randomSamples),
    ),
    Case(
        lambda: nn.SpatialAveragePooling(2, 3, 2, 1, 1, 1),
        planes,
        lambda x, m: F.avg_pool2d(x, (3, 2), (1, 2), 1),
    ),
    Case(
        lambda: nn.SpatialAveragePooling(2, 3, 2, 1, 1, 1).setCountExcludePad(),
        planes,
        lambda x, m: F.avg_pool2d(x, (3, 2), (1, 2), 1, count_include_pad=False),
        "SpatialAveragePooling without zeros",
    ),
    Case(lambda: nn.SpatialLPPooling(3, 2, 2, 2), planes, lambda x, m: F.lp_pool2d(x, 2, 2)),
    Case(
        lambda: nn.SpatialLPPooling(3, 3, 2, 2),
        positive(2, 3, 6, 6),
        lambda x, m: F.lp_pool2d(x, 3, 2),
        "LP of 3",
    ),
    Case(
        lambda: nn.SpatialSubSampling(3, 3, 2, 2),
        planes,
        lambda x, m: F.avg_pool2d(x, (2, 3), (1, 2)) * 6 * m.weight.view(3, 1, 1) + m.bias.view(3, 1, 1),
    ),
    Case(
        lambda: unpooling(nn.SpatialMaxPooling(2, 2), nn.SpatialMaxUnpooling),
        planes,
        lambda x, m: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        "SpatialMaxUnpooling",
    ),
    Case(
        lambda: unpooling(nn.VolumetricMaxPooling(2, 2, 2), nn.VolumetricMaxUnpooling),
        volume,
        lambda x, m: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2),
        "VolumetricMaxUnpooling",
    ),
    Case(
        lambda: nn.VolumetricMaxPooling(2, 3, 2, 1, 1, 2),
        volume,
        lambda x, m: F.max_pool3d(x, (2, 2, 3), (1, 2, 1)),
    ),
    Case(lambda: nn.VolumetricAveragePooling(2, 3, 2), volume, lambda x, m: F.avg_pool3d(x, (2, 2, 3))),
    Case(
        lambda: nn.SpatialUpSamplingNearest(2),
        planes,
        lambda x, m: F.interpolate(x, scale_factor=2, mode="nearest"),
    ),
    Case(
        lambda: nn.SpatialZeroPadding(1, 2, -1, 3),
        planes,
        in_numpy(lambda a: np.pad(a[:, :, 1:], ((0, 0), (0, 0), (0, 3), (1, 2)))),
    ),
    Case(
        lambda: nn.SpatialReflectionPadding(1, 2, 3, 4),
        planes,
        in_numpy(lambda a: np.pad(a, ((0, 0), (0, 0), (3, 4), (1, 2)), "reflect")),
    ),
    Case(
        lambda: nn.SpatialReplicationPadding(1, 2, 3, 4),
        planes,
        in_numpy(lambda a: np.pad(a, ((0, 0), (0, 0), (3, 4), (1, 2)), "edge")),
    ),
    Case(
        lambda: nn.VolumetricReplicationPadding(1, 2, 1, 0, 1, 2),
        volume,
        in_numpy(lambda a: np.pad(a, ((0, 0), (0, 0), (1, 2), (1, 0), (1, 2)), "edge")),
    ),
]

NORMALIZATION = [
    Case(lambda: nn.BatchNormalization(4), x34, batch_statistics),
    Case(
        lambda: nn.BatchNormalization(4, 1e-3, 0.3, False), x34, batch_statistics, "BatchNormalization plain"
    ),
    Case(lambda: nn.SpatialBatchNormalization(3), planes, batch_statistics),
    Case(lambda: nn.VolumetricBatchNormalization(3), volume, batch_statistics),
    *(
        Case(
            lambda p=p: nn.Normalize(p),
            x34,
            lambda x, m, p=p: torch.tensor(x.numpy() / np.linalg.norm(x.numpy(), p, 1, keepdims=True)),
            f"Normalize {p}",
        )
        for p in (1, 2, 1.5, float("inf"))
    ),
    Case(lambda: nn.Dropout(0.3), x34, lambda x, m: x * m.noise),
    Case(lambda: nn.SpatialDropout(0.3), planes, lambda x, m: x * m.noise),
    Case(lambda: nn.VolumetricDropout(0.3), volume, lambda x, m: x * m.noise),
    Case(
        lambda: nn.SpatialCrossMapLRN(3, 0.5, 0.6, 2),
        planes,
        lambda x, m: F.local_response_norm(x, 3, 0.5, 0.6, 2),
    ),
    Case(lambda: nn.SpatialSubtractiveNormalization(3, torch.rand(3)), planes, centered, "Subtractive 1-D"),
    Case(lambda: nn.SpatialSubtractiveNormalization(3, torch.rand(3, 5)), planes, centered),
    Case(lambda: nn.SpatialDivisiveNormalization(3), planes, divided),
    Case(
        lambda: nn.SpatialDivisiveNormalization(3, torch.rand(3), 0.9, 5.0), planes, divided, "Divisive 1-D"
    ),
    Case(
        lambda: nn.SpatialContrastiveNormalization(3, torch.rand(3, 3)),
        planes,
        lambda x, m: divided(centered(x, m), m),
    ),
]


def branches(container, *modules):
    for m in modules:
        container.add(m)
    return container


def joined(x, m):
    return torch.cat([part.output for part in m.modules], 1)


CONTAINERS = [
    Case(
        lambda: branches(nn.Sequential(), nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)),
        x34,
        lambda x, m: (x @ m.get(0).weight.T + m.get(0).bias).tanh() @ m.get(2).weight.T + m.get(2).bias,
    ),
    Case(lambda: branches(nn.Concat(1), nn.Linear(4, 5), nn.Tanh(), nn.Linear(4, 2)), x34, joined),
    Case(
        lambda: branches(nn.ConcatTable(), nn.Linear(4, 5), nn.Tanh()),
        x34,
        lambda x, m: [p.output for p in m.modules],
    ),
    Case(
        lambda: branches(nn.ParallelTable(), nn.Linear(4, 5), nn.Tanh()),
        [x34, y34],
        lambda x, m: [m.get(0).output, x[1].tanh()],
    ),
    Case(
        lambda: branches(nn.Parallel(0, 1), nn.Linear(4, 2), nn.Tanh()),
        numbers(2, 3, 4),
        lambda x, m: torch.cat([x[0] @ m.get(0).weight.T + m.get(0).bias, x[1].tanh()], 1),
    ),
    Case(
        lambda: branches(
            nn.DepthConcat(1), nn.SpatialConvolution(3, 2, 1, 1), nn.SpatialConvolution(3, 4, 4, 3)
        ),
        planes,
        lambda x, m: torch.cat([m.get(0).output, F.pad(m.get(1).output, (1, 2, 1, 1))], 1),
    ),
    Case(
        lambda: nn.MapTable(nn.Linear(4, 2)),
        [x34, y34],
        lambda x, m: [a @ m.get(0).weight.T + m.get(0).bias for a in x],
    ),
]

MODULES = [*POINTWISE, *LINEAR, *SHAPES, *TABLES, *PLANES, *NORMALIZATION, *CONTAINERS]
