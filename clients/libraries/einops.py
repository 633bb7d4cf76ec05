"""einops: its whole suite, for PyTorch and NumPy, and its layers in a small network."""

import os

os.environ["EINOPS_TEST_BACKENDS"] = "numpy,torch"

import einops
import torch
from einops.layers.torch import EinMix, Rearrange, Reduce
from harness import Client, fill, normal

client = Client("einops")
client.suite("its tests", "--pyargs", "einops.tests")


@client.case
def mixer():
    """One block of an MLP mixer, forward and backward."""
    network = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4),
        EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=48, d=16),
        torch.nn.GELU(),
        EinMix("b t d -> b s d", weight_shape="t s", bias_shape="s", t=16, s=8),
        Reduce("b s d -> b d", "mean"),
    )
    fill(network)
    images = normal(2, 3, 16, 16).requires_grad_()
    out = network(images)
    out.square().sum().backward()
    return [out, images.grad, [p.grad for p in network.parameters()]]


@client.case
def packed():
    packed, shapes = einops.pack([normal(2, 3, 5), normal(2, 5), normal(2, 4, 2, 5)], "b * c")
    parts = einops.unpack(packed, shapes, "b * c")
    return [
        packed,
        parts,
        einops.einsum(packed, packed, "b i c, b j c -> i j"),
        einops.repeat(parts[1], "b c -> b r c", r=2),
    ]
