"""Layers of `nn` in eval mode as ONNX, values beside eager; random numbers by their distribution."""

from __future__ import annotations

import exported  # noqa: F401  finds the folder of the next
import numpy as np
import pytest
from derivative_layers import LAYERS

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    layer, x = make().eval(), torch.randn(shape)
    exported.check(layer, *((x, x * x) if name == "Bilinear" else (x,)))


IMAGE, WINDOWS = (2, 3, 8, 9), (2, 4, 12)
ACTIVATIONS = """
    relu6 elu selu celu gelu silu mish softplus softsign hardswish hardsigmoid hardtanh leaky_relu logsigmoid softshrink hardshrink
    tanhshrink
"""
MORE = {
    "padding": (
        lambda x: [F.pad(x, (1, 2, 0, 1), mode=m) for m in ("constant", "reflect", "replicate", "circular")],
        IMAGE,
    ),
    "max_pool": (lambda x: F.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True, return_indices=True), IMAGE),
    "max_pool with holes": (lambda x: F.max_pool2d(x, 2, 1, 0, 2), IMAGE),
    "avg_pool": (
        lambda x: [
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=c, ceil_mode=m)
            for c in (False, True)
            for m in (False, True)
        ],
        IMAGE,
    ),
    "avg_pool by a divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "adaptive": (
        lambda x: [F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, (3, 2), return_indices=True)],
        IMAGE,
    ),
    "interpolate": (
        lambda x: [
            F.interpolate(x, size=(5, 13), mode=m)
            for m in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
        ],
        IMAGE,
    ),
    "interpolate aligned": (
        lambda x: [
            F.interpolate(x, scale_factor=2, mode=m, align_corners=True) for m in ("bilinear", "bicubic")
        ],
        IMAGE,
    ),
    "interpolate smoothed": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), IMAGE),
    "unfold": (
        lambda x: F.fold(F.unfold(x, (3, 2), padding=1, stride=2), (8, 9), (3, 2), padding=1, stride=2),
        IMAGE,
    ),
    "sampled": (
        lambda x: [
            F.grid_sample(
                x,
                F.affine_grid(torch.tensor([[[0.8, 0.3, 0.1], [-0.2, 1.1, 0.0]]] * 2), x.shape, False),
                mode=m,
                align_corners=False,
            )
            for m in ("bilinear", "nearest", "bicubic")
        ],
        IMAGE,
    ),
    "pixels": (lambda x: F.pixel_unshuffle(F.pixel_shuffle(x[:, :, :8, :8].repeat(1, 4, 1, 1), 2), 2), IMAGE),
    "channels": (lambda x: F.channel_shuffle(x.repeat(1, 2, 1, 1), 3), IMAGE),
    "activations": (
        lambda x: [getattr(F, f)(x) for f in ACTIVATIONS.split()],
        (3, 4),
    ),
    "losses": (
        lambda x: [
            getattr(F, f)(x, x.flip(0).sigmoid())
            for f in "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits poisson_nll_loss kl_div".split()
        ],
        (3, 4),
    ),
    "ctc": (lambda x: F.ctc_loss(x.log_softmax(-1), torch.tensor([[1, 2]]), [12], [2]), (12, 1, 4)),
    "positions": (lambda x: x + torch.arange(x.shape[1]).sin().unsqueeze(-1), WINDOWS),
    "distances": (
        lambda x: [torch.cdist(x, x + 1), F.cosine_similarity(x, x.flip(0), -1), F.normalize(x, dim=1)],
        WINDOWS,
    ),
    "statistics": (
        lambda x: [
            x.std(1),
            x.var(),
            x.median(1),
            x.quantile(0.3, 1),
            x.logsumexp((0, 2)),
            x.norm(3, 1),
            x.prod(1),
        ],
        WINDOWS,
    ),
    "histograms": (
        lambda x: [
            torch.histogram(x, 5),
            torch.histogram(x, 4, range=(-1.0, 1.0), density=True),
            torch.histogram(x, torch.tensor([-1.0, 0.0, 0.5, 2.0]), weight=x.abs()),
            torch.histogramdd(x.reshape(-1, 2), (3, 4)),
            torch.histc(x, 6),
        ],
        WINDOWS,
    ),
    "rounded to quanta": (
        lambda x: torch.fake_quantize_per_channel_affine(
            x, torch.tensor([0.1, 0.2]), torch.tensor([3, 0], dtype=torch.int32), 0, 0, 15
        ),
        WINDOWS,
    ),
    "cumulative": (
        lambda x: [x.cumsum(1), x.cumprod(2), x.cummax(1), x.logcumsumexp(0), x.diff(dim=1)],
        WINDOWS,
    ),
    "products": (
        lambda x: [
            torch.einsum("bij,bkj->bik", x, x),
            torch.tensordot(x, x, ([1, 2], [1, 2])),
            x.matmul(x.mT),
            torch.outer(x[0, 0], x[0, 1]),
        ],
        WINDOWS,
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_functions_of_layers(name):
    torch.manual_seed(0)
    function, shape = MORE[name]
    exported.check(function, torch.randn(shape))


def test_random_numbers_are_drawn_at_each_run():
    program = torch.onnx.export(
        lambda x: (x + torch.rand(1000, 50), torch.randn_like(x)), (torch.zeros(1000, 50),)
    )
    opened, zeros = exported.session(program), {"x": np.zeros((1000, 50), np.float32)}
    first, again = opened.run(None, zeros), opened.run(None, zeros)
    assert not np.array_equal(first[0], again[0])
    assert abs(first[0].mean() - 0.5) < 0.01 and 0 <= first[0].min() and first[0].max() <= 1
    assert abs(first[1].mean()) < 0.03 and abs(first[1].std() - 1) < 0.03


def test_chances():
    x = torch.full((1000, 50), 0.25)
    program = torch.onnx.export(
        lambda x: (torch.bernoulli(x), x.clone().bernoulli_(0.1), x * 0 + torch.normal(x, 2.0)), (x,)
    )
    first, second, third = exported.run(program, [x])
    assert abs(first.mean() - 0.25) < 0.02 and abs(second.mean() - 0.1) < 0.02
    assert abs(third.mean() - 0.25) < 0.06 and abs(third.std() - 2) < 0.06


def test_dropout_in_training_mode():
    x = torch.ones(1000, 50)
    assert [n.op_type for n in exported.check(nn.Dropout(0.25).eval(), x).model_proto.graph.node] == [
        "Identity"
    ]
    (result,) = exported.run(torch.onnx.export(nn.Dropout(0.25), (x,), training=True), [x])
    assert (
        set(np.unique(result.round(4))) == {0.0, np.float32(1.3333)}
        and abs((result == 0).mean() - 0.25) < 0.02
    )


def _written(x):
    z = torch.zeros(3, 8, dtype=torch.complex64)
    z.real.copy_(x)
    z.imag.add_(1)
    z[1:].mul_(2)
    return z.abs(), torch.view_as_real(z)


WINDOW = torch.hann_window(4)
COMPLEX = {
    "spectra": lambda x: [
        torch.fft.rfft(x).abs(),
        torch.fft.fft(x).real,
        torch.fft.fft2(x).angle(),
        torch.fft.ifft(x).imag,
    ],
    "back": lambda x: [torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x.flip(1)), n=n) for n in (7, 8)],
    "longer and joined": lambda x: [
        torch.fft.irfft(torch.fft.rfft(x), n=12),
        torch.cat([torch.complex(x, x), x], -1).abs(),
    ],
    "other transforms": lambda x: [torch.fft.hfft(x), torch.fft.irfft2(x), torch.fft.irfftn(x, norm="ortho")],
    "frames": lambda x: x.flatten().stft(4, window=WINDOW, return_complex=True).abs().log1p(),
    "frames and back": lambda x: x[0].stft(4, window=WINDOW, return_complex=True).istft(4, window=WINDOW),
    "made of parts": lambda x: [
        torch.polar(x.abs(), x).real,
        torch.complex(x, x * 2).abs(),
        (torch.complex(x, x) * 2 + 1).imag,
    ],
    "functions": lambda x: [
        torch.complex(x, x).exp().real,
        torch.complex(x, -x).sqrt().imag,
        torch.complex(x, x).conj().imag,
    ],
    "views": lambda x: [
        torch.complex(x, x * 2).T.reshape(-1)[3:9].real,
        torch.view_as_real(torch.complex(x, x)[:, ::2] ** 2),
    ],
    "turned positions": lambda x: torch.view_as_real(
        torch.view_as_complex(x.reshape(3, 4, 2)) * torch.polar(torch.ones(4), torch.arange(4.0))
    ).flatten(1),
    "chosen": lambda x: torch.where(x > 0, torch.complex(x, x), torch.complex(-x, x)).real,
    "written": _written,
}


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_on_the_way(name, opset):
    torch.manual_seed(0)
    exported.check(COMPLEX[name], torch.randn(3, 8), opset_version=opset)


def test_spectra_of_any_number_of_rows():
    function = lambda x: torch.fft.rfft(x).abs()
    program = torch.onnx.export(function, (torch.randn(2, 8),), dynamic_axes={"x": {0: "rows"}})
    x = torch.randn(5, 8)
    exported.agree(exported.run(program, [x]), function(x))


LONG, HALF, MANY = (1, 2, 3, 20000), (2, 3, 20, 20), (4, 3000)
LARGE = {  # which other functions compute, since their lines are long, their scores many, or their dtype another
    "padding": (
        lambda x: [F.pad(x, (3, 4, 1, 1), mode=m) for m in ("reflect", "replicate", "circular")],
        LONG,
    ),
    "pooling": (lambda x: [F.avg_pool2d(x, (1, 3), (1, 2), (0, 1)), F.adaptive_avg_pool2d(x, (2, 7))], LONG),
    "resizing": (
        lambda x: [F.interpolate(x, scale_factor=(1, 2), mode=m) for m in ("bilinear", "nearest")],
        LONG,
    ),
    "halves": (
        lambda x: [F.max_pool2d(x.half(), 3, 2, 1), F.avg_pool2d(x.half(), 3), F.layer_norm(x.half(), (20,))],
        HALF,
    ),
    "distances": (
        lambda x: [torch.cdist(x[:, :300].mT, x[:, :300].mT, p=p) for p in (0.0, 1.0, 3.0, float("inf"))],
        MANY,
    ),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x * 2, x.sin(), is_causal=True),
        (2, 4, 200, 32),
    ),
    "rows": (
        lambda x: [
            x.sort(-1),
            x.topk(5),
            x.median(-1),
            x.std(1),
            x.logsumexp(1),
            x.softmax(1),
            x.abs().cumsum(1),
        ],
        MANY,
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_sizes(name):
    torch.manual_seed(0)
    function, shape = LARGE[name]
    exported.check(function, torch.randn(shape))
