"""Layers and programs for `derivatives.py`: each a function of its input and parameters, with these in float64."""

from __future__ import annotations

from collections.abc import Callable

import flambeau
from flambeau import nn
from flambeau.func import functional_call
from flambeau.nn import functional as F


def normal(*shape: int) -> flambeau.Tensor:
    return flambeau.randn(*shape, dtype=flambeau.float64)


LAYERS: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "Bilinear": (lambda: nn.Bilinear(3, 3, 2), (4, 3)),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 2, padding=1, stride=2), (2, 2, 5)),
    "Conv1d, reflected": (lambda: nn.Conv1d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 4)),
    "Conv2d": (lambda: nn.Conv2d(2, 3, 3, padding=1), (2, 2, 4, 4)),
    "Conv2d in groups": (lambda: nn.Conv2d(4, 4, 2, groups=2, dilation=2), (1, 4, 4, 4)),
    "Conv2d of channels": (lambda: nn.Conv2d(3, 3, 2, groups=3), (2, 3, 3, 3)),
    "Conv2d of points": (lambda: nn.Conv2d(2, 3, 1, stride=2), (2, 2, 4, 4)),
    "Conv3d": (lambda: nn.Conv3d(2, 2, 2), (1, 2, 3, 3, 3)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 2, 3, stride=2), (1, 2, 3)),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(2, 2, 3, stride=2, padding=1, output_padding=1),
        (1, 2, 3, 3),
    ),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (4, 3)),
    "BatchNorm1d evaluated": (lambda: nn.BatchNorm1d(3).eval(), (4, 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(2, track_running_stats=False), (3, 2, 2, 2)),
    "BatchNorm2d without weights": (lambda: nn.BatchNorm2d(2, affine=False, track_running_stats=False), (3, 2, 2, 2)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(2), (3, 2, 4)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(2, affine=True), (3, 2, 2, 2)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    "GroupNorm without weights": (lambda: nn.GroupNorm(2, 4, affine=False), (2, 4, 3)),
    "LayerNorm": (lambda: nn.LayerNorm((2, 3)), (4, 2, 3)),
    "LayerNorm without weights": (lambda: nn.LayerNorm(3, elementwise_affine=False), (4, 3)),
    "LayerNorm without bias": (lambda: nn.LayerNorm(3, bias=False), (4, 3)),
    "RMSNorm": (lambda: nn.RMSNorm(3), (4, 3)),
    "RMSNorm without weights": (lambda: nn.RMSNorm(3, elementwise_affine=False), (4, 3)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), (2, 4, 3)),
    "RNN": (lambda: nn.RNN(2, 3), (3, 2, 2)),
    "RNN of relu": (lambda: nn.RNN(2, 3, nonlinearity="relu", bidirectional=True), (3, 2, 2)),
    "GRU": (lambda: nn.GRU(2, 3), (3, 2, 2)),
    "GRU in both directions": (lambda: nn.GRU(2, 2, num_layers=2, bidirectional=True, batch_first=True), (2, 3, 2)),
    "LSTM": (lambda: nn.LSTM(2, 3), (3, 2, 2)),
    "LSTM with projections": (lambda: nn.LSTM(2, 3, proj_size=2, bidirectional=True), (3, 2, 2)),
    "LSTM without biases": (lambda: nn.LSTM(2, 2, num_layers=2, bias=False), (3, 2, 2)),
    "RNNCell": (lambda: nn.RNNCell(2, 3), (4, 2)),
    "GRUCell": (lambda: nn.GRUCell(2, 3), (4, 2)),
    "LSTMCell": (lambda: nn.LSTMCell(2, 3), (4, 2)),
    "PReLU": (lambda: nn.PReLU(3), (4, 3)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2, padding=1), (1, 2, 4, 4)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2, stride=1), (1, 2, 4, 4)),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), (1, 2, 4, 4)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (1, 1, 3, 3)),
    "Softmax": (lambda: nn.Softmax(1), (3, 4)),
    "LogSoftmax": (lambda: nn.LogSoftmax(1), (3, 4)),
    "AdaptiveLogSoftmaxWithLoss": (lambda: Classes(), (3, 4)),
    "MultiheadAttention": (lambda: Attending(), (2, 3, 4)),
    "MultiheadAttention without weights": (lambda: Attending(need_weights=False), (2, 3, 4)),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True),
        (2, 3, 4),
    ),
    "TransformerDecoderLayer": (lambda: Decoding(), (2, 3, 4)),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), (4, 3)),
}  # fmt: skip


class Classes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4])

    def forward(self, x):
        return self.layer.log_prob(x)


class Attending(nn.Module):
    def __init__(self, **options) -> None:
        super().__init__()
        self.layer, self.options = nn.MultiheadAttention(4, 2, batch_first=True), options

    def forward(self, x):
        found, weights = self.layer(x, x, x, **self.options)
        return (found,) if weights is None else (found, weights)


class Decoding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, x):
        return self.layer(x, x * 0.5)


def tensors_in(found) -> list:
    if isinstance(found, flambeau.Tensor):
        return [found]
    return [t for f in found for t in tensors_in(f)]


def layer_case(name: str):
    flambeau.manual_seed(3)
    make, shape = LAYERS[name]
    layer = make().double()
    parameters = {n: p.detach() + 0.1 * normal(*p.shape) for n, p in layer.named_parameters()}

    def function(x, *given):
        inputs = (x, x * x) if name == "Bilinear" else (x,)
        buffers = {n: b.clone() for n, b in layer.named_buffers()}
        return tensors_in(functional_call(layer, {**dict(zip(parameters, given)), **buffers}, inputs))

    return function, [normal(*shape), *parameters.values()]


# --- functions of one tensor ------------------------------
def complex_pair(x):
    return flambeau.complex(x, x * x)


def _written_view(x):
    y = x * 1
    y[1:].mul_(x[:-1])
    y[0] = x[1] * x[-1]
    return [y * y]


def _written_often(x):
    y = x * 3
    y.mul_(x).add_(1)
    y[..., 0].sin_()
    y.t()[0] += x[:, 0]
    return [y]


def _recorded_results(x):
    y = Squared.apply(x)
    return [y * y, Exponential.apply(x, x * x)]


class Squared(flambeau.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * tangent * ctx.saved_tensors[0]


class Exponential(flambeau.autograd.Function):
    """exp(x) y, whose node keeps its result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x.exp() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output, inputs[1])
        ctx.save_for_forward(output, inputs[1])

    @staticmethod
    def backward(ctx, grad):
        found, y = ctx.saved_tensors
        return grad * found, grad * found / y

    @staticmethod
    def jvp(ctx, tangent, other):
        found, y = ctx.saved_tensors
        return tangent * found + other * found / y


PROGRAMS: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "absolute of complex": (lambda x: [complex_pair(x).abs()], (2, 3)),
    "angle of complex": (lambda x: [complex_pair(x).angle()], (2, 3)),
    "norm of complex": (lambda x: [complex_pair(x).norm(), flambeau.linalg.vector_norm(complex_pair(x), 3)], (2, 3)),
    "dist of complex": (lambda x: [flambeau.dist(complex_pair(x), complex_pair(x.flip(0)))], (2, 3)),
    "normalized complex": (lambda x: [F.normalize(complex_pair(x))], (2, 3)),
    "l1_loss of complex": (lambda x: [F.l1_loss(complex_pair(x), complex_pair(x.flip(0)))], (2, 3)),
    "spectrum": (lambda x: [flambeau.fft.rfft(x).abs(), flambeau.fft.fft2(x).angle()], (2, 4)),
    "filtered": (lambda x: [flambeau.fft.irfft(flambeau.fft.rfft(x) * flambeau.fft.rfft(x.flip(1)))], (2, 4)),
    "stft": (lambda x: [x.stft(4, return_complex=True).abs()], (16,)),
    "complex views": (lambda x: [flambeau.view_as_complex(x.contiguous()) ** 2, flambeau.view_as_real(complex_pair(x)).prod(-1)], (3, 2)),
    "complex product": (lambda x: [(complex_pair(x) @ complex_pair(x).mH).real], (2, 2)),
    "complex and real": (lambda x: [complex_pair(x) * x, flambeau.where(x > 0, complex_pair(x), x)], (2, 3)),
    "complex powers": (lambda x: [complex_pair(x) ** 2, complex_pair(x).sqrt()], (2, 3)),
    "polar": (lambda x: [flambeau.polar(x, x * x)], (2, 3)),
    "written complex": (lambda x: [(lambda z: z.real.mul_(x) * z.abs())(complex_pair(x))], (2, 3)),
    "convolved with itself": (lambda x: [F.conv2d(x, x)], (2, 2, 3, 3)),
    "convolved with a part of itself": (lambda x: [F.conv2d(x, x[:1, :, :1, :1] * x.sum(), padding=1)], (2, 2, 3, 3)),
    "convolved in groups": (lambda x: [F.conv2d(x, x[:, :1], groups=2, stride=2)], (2, 2, 3, 3)),
    "convolved with its transpose": (lambda x: [F.conv1d(x, x.transpose(0, 1).contiguous(), padding=1)], (2, 2, 3)),
    "transposed convolution": (lambda x: [F.conv_transpose2d(x, x, stride=2)], (2, 2, 2, 2)),
    "attention to itself": (lambda x: [F.scaled_dot_product_attention(x, x.sin(), x.exp(), is_causal=True)], (1, 2, 3, 2)),
    "attention with a mask": (lambda x: [F.scaled_dot_product_attention(x, x, x, attn_mask=x[..., :1])], (1, 2, 3, 2)),
    "as_strided": (lambda x: [x.as_strided((2, 2), (1, 2)), x.t().as_strided((2,), (3,), 1)], (2, 3)),
    "as_strided of a part": (lambda x: [x.contiguous()[1:].as_strided((2, 2), (1, 1))], (2, 3)),
    "overlapping": (lambda x: [x.unfold(0, 2, 1).square(), x.expand(2, 4).as_strided((2, 2), (1, 1))], (4,)),
    "written views": (_written_view, (4,)),
    "written often": (_written_often, (3, 3)),
    "index_put": (lambda x: [x.clone().index_put((flambeau.tensor([0, 0]),), x[1:] * x[1:], accumulate=True)], (3, 2)),
    "Function": (_recorded_results, (2, 3)),
    "Function of two": (lambda x: [Exponential.apply(x, flambeau.ones_like(x) * 2), Exponential.apply(flambeau.ones_like(x), x)], (2, 3)),
    "masks and integers": (lambda x: [x * (x > 0), x ** flambeau.tensor([1, 2, 3]), x[x > 100], flambeau.where(x > 0, x, 1)], (2, 3)),
    "checkpointed": (lambda x: [flambeau.utils.checkpoint.checkpoint(lambda y: y.sin() * y, x, use_reentrant=False)], (2, 3)),
    "no elements": (lambda x: [x[:0].exp().sum() * x, F.layer_norm(x[:0], (3,)).sum() + x], (2, 3)),
    "of a detached": (lambda x: [x * x.detach()], (2, 3)),
    "without grad": (lambda x: [x.softmax(0).log_softmax(1), x.cumsum(0).cumprod(1)], (2, 3)),
    "cross_entropy of images": (lambda x: [F.cross_entropy(x, flambeau.tensor([[0, 1], [2, 0]]), label_smoothing=0.1)], (2, 3, 2)),
    "cross_entropy with ignored rows": (lambda x: [F.cross_entropy(x, flambeau.tensor([0, -100]), reduction="sum")], (2, 3)),
    "nll_loss": (lambda x: [F.nll_loss(x.log_softmax(1), flambeau.tensor([0, 2]), x[0].exp().detach())], (2, 3)),
    "eigenvalues": (lambda x: [flambeau.linalg.eigvals(x + 3 * flambeau.diag(x.new_tensor([1.0, 2.0, 4.0]))).abs()], (3, 3)),
    "decompositions": (lambda x: [flambeau.linalg.svdvals(x), flambeau.linalg.pinv(x), flambeau.linalg.matrix_norm(x, "nuc")], (3, 2)),
    "sums of outer products": (lambda x: [flambeau.einsum("ij,ik,jk->", x, x, x.new_ones(3, 3)), flambeau.pdist(x)], (2, 3)),
}  # fmt: skip


def program_case(name: str):
    flambeau.manual_seed(4)
    function, shape = PROGRAMS[name]
    smooth = name not in ("of a detached", "nll_loss")
    return function, [normal(*shape)], smooth


def cases() -> list[tuple[str, Callable]]:
    """Names, and what makes a case of each."""
    return [(n, lambda n=n: layer_case(n)) for n in LAYERS] + [
        (n, lambda n=n: program_case(n)) for n in PROGRAMS
    ]
