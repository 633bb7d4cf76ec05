"""A batch of no examples goes through every layer, forward and backward: sizes that follow the batch's are 0, gradients are zeros."""

from __future__ import annotations

import pytest
from derivative_layers import LAYERS, tensors_in

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


class Averaging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True)

    def forward(self, x):
        return self.layer(x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1))


class Of(nn.Module):
    """A function as a layer."""

    def __init__(self, function) -> None:
        super().__init__()
        self.forward = function


BESIDES = {
    "grid_sample": (lambda x: F.grid_sample(x, x[:, :1].expand(x.shape).movedim(1, 3)), (4, 2, 3, 3)),
    "grid_sample, cubic": (lambda x: F.grid_sample(x, x.movedim(1, 3), mode="bicubic"), (4, 2, 3, 3)),
    "grid_sample, nearest": (lambda x: F.grid_sample(x, x.movedim(1, 3), mode="nearest"), (4, 2, 3, 3)),
    "grid_sample of a volume": (lambda x: F.grid_sample(x, x.movedim(1, 4)), (4, 3, 2, 2, 2)),
    "fractional_max_pool2d": (lambda x: F.fractional_max_pool2d(x, 2, 2, return_indices=True), (4, 3, 4, 4)),
    "fractional_max_pool3d": (lambda x: F.fractional_max_pool3d(x, 2, 2), (4, 3, 4, 4, 4)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), (4, 3, 4, 4)),
    "area": (lambda x: F.interpolate(x, 3, mode="area"), (4, 3, 4, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (4, 2, 3, 4)),
    "multi_head_attention_forward": (
        lambda x: F.multi_head_attention_forward(
            *[x.transpose(0, 1)] * 3, 4, 2, x.new_ones(12, 4), None, None, None, False, 0.0, x.new_ones(4, 4), None
        ),
        (4, 3, 4),
    ),
    "CrossEntropyLoss": (lambda x: F.cross_entropy(x, x.new_zeros(len(x)).long(), reduction="none"), (4, 3)),
    "matrix_norm": (lambda x: flambeau.linalg.matrix_norm(x, 2), (4, 3, 2)),
    "svd": (lambda x: flambeau.linalg.svd(x), (4, 3, 2)),
    "native_group_norm": (lambda x: flambeau.native_group_norm(x, None, None, len(x), 4, 3, 2, 1e-5), (4, 4, 3)),
}  # fmt: skip
MADE = {
    **LAYERS,
    **{name: (lambda function=function: Of(function), shape) for name, (function, shape) in BESIDES.items()},
    "attention averaged over heads": (Averaging, (4, 3, 4)),
    "encoder, evaluated": (lambda: nn.TransformerEncoderLayer(4, 2, 6, batch_first=True).eval(), (4, 3, 4)),
}
SECOND = frozenset(
    ("RNN", "RNN of relu", "GRU", "LSTM", "LSTM with projections", "LSTM without biases")
)  # batch


def called(layer, shape, dim: int, size: int, device: str = "cpu") -> tuple:
    """The layer's results for so many examples, and their input."""
    shape = [size if d == dim else n for d, n in enumerate(shape)]
    x = flambeau.rand(shape, device=device).requires_grad_()
    inputs = (x, x * 2) if isinstance(layer, nn.Bilinear) else (x,)
    return tensors_in([r for r in flambeau.utils._pytree.tree_leaves(layer(*inputs)) if r is not None]), x


@pytest.mark.parametrize("name", MADE)
def test_no_examples(name):
    make, shape = MADE[name]
    layer, dim = make(), int(name in SECOND)
    two, three = (called(layer, shape, dim, n)[0] for n in (2, 3))
    found, x = called(layer, shape, dim, 0)
    wanted = [tuple(m if m == n else 0 for m, n in zip(a.shape, b.shape)) for a, b in zip(two, three)]
    assert [tuple(r.shape) for r in found] == wanted
    leaves = [x, *layer.parameters()]
    ends = [r for r in found if r.requires_grad]
    grads = flambeau.autograd.grad(ends, leaves, [flambeau.ones_like(r) for r in ends], allow_unused=True)
    for leaf, grad in zip(leaves, grads):
        assert grad is None or (grad.shape == leaf.shape and not grad.any())


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0), (2, 0, 3), (2, 3, 0)])
def test_norms_of_matrices_without_elements_are_zero(shape):
    A = flambeau.ones(shape, requires_grad=True)
    for order in (1, 2, float("inf"), "fro", "nuc"):
        found = flambeau.linalg.matrix_norm(A, order)
        assert found.shape == shape[:-2] and not found.any()
        assert flambeau.linalg.matrix_norm(A, order, keepdim=True).shape == (*shape[:-2], 1, 1)
    with pytest.raises(IndexError, match="non-zero size"):
        flambeau.linalg.matrix_norm(A, -2)


def test_histograms_of_nothing_go_from_0_to_1():
    assert flambeau.histogram(flambeau.ones(0), 4).bin_edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert flambeau.histogramdd(flambeau.ones(0, 2), (2, 1)).bin_edges[0].tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("n", [1, 2])
def test_means_of_no_channels(n):
    pool = getattr(F, f"adaptive_avg_pool{n}d")
    assert pool(flambeau.ones(2, 0, *[4] * n), 2).shape == (2, 0, *[2] * n)
    with pytest.raises(RuntimeError, match="non-zero size"):
        pool(flambeau.ones(2, 3, *[0] * n), 2)
