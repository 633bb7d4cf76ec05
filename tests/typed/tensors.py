"""Tensors: making, shapes, arithmetic, indices, conversions."""

from __future__ import annotations

import math

import numpy as np

import flambeau as torch
from flambeau import Tensor


def made() -> list[Tensor]:
    shape = (2, 3)
    return [
        torch.zeros(2, 3),
        torch.zeros((2, 3)),
        torch.zeros([2, 3], dtype=torch.float64),
        torch.zeros(shape, device="cpu", requires_grad=True),
        torch.ones(*shape),
        torch.ones(size=(2, 3)),
        torch.empty(2, 3, dtype=torch.int32),
        torch.full((2, 3), 1.5),
        torch.full(size=(2, 3), fill_value=7, dtype=torch.long),
        torch.rand(2, 3, generator=torch.Generator().manual_seed(1)),
        torch.randn((2, 3), dtype=torch.float64),
        torch.randint(10, (2, 3)),
        torch.randint(low=0, high=10, size=(2, 3)),
        torch.randperm(6).view(2, 3),
        torch.arange(6).reshape(2, 3),
        torch.arange(0, 6, 1, dtype=torch.float32).reshape(2, -1),
        torch.arange(0.0, 0.6, 0.1).reshape((2, 3)),
        torch.linspace(0, 1, steps=6).view(2, 3),
        torch.tensor([[1, 2, 3], [4, 5, 6]]),
        torch.tensor(np.ones((2, 3)), dtype=torch.float32),
        torch.as_tensor([[1.0, 2.0, 3.0]] * 2, device=torch.device("cpu")),
        torch.from_numpy(np.ones((2, 3), dtype=np.float32)),
        torch.zeros_like(torch.ones(2, 3), dtype=torch.float64),
        torch.ones(2, 3).new_zeros(2, 3),
        torch.ones(2, 3).new_tensor([[1, 2, 3]] * 2),
        torch.ones(2, 3).new_full((2, 3), 3.0),
        torch.eye(2, 3),
        torch.empty(2, 3).uniform_(-1, 1).normal_(0, 1).fill_(2.0),
        torch.stack([torch.ones(3), torch.zeros(3)], dim=0),
        torch.cat((torch.ones(1, 3), torch.zeros(1, 3))),
    ]


def shapes(x: Tensor) -> int:
    rows, columns = x.shape
    first: int = x.shape[0]
    size: torch.Size = x.shape[1:]
    again: torch.Size = x.size()
    width: int = x.size(-1)
    strides: tuple[int, ...] = x.stride()
    step: int = x.stride(0)
    assert x.ndim == x.dim() == len(x.shape) == 2 and x.numel() == x.shape.numel()
    y = x.view(rows, -1).unsqueeze(0).expand(4, -1, -1).permute(0, 2, 1).contiguous().flatten(1)
    z = x.reshape(-1, *x.shape[1:]).squeeze().transpose(0, 1).T.repeat(2, 1)
    pieces = x.split(1, dim=0) + x.chunk(2, dim=1) + torch.split(x, [1, 2], dim=1)
    one: Tensor = pieces[0]
    assert one.shape[0] == 1 and y.shape[0] == 4 and z.shape[0] == 2 * rows
    return rows + columns + first + size[0] + again[0] + width + strides[0] + step


def arithmetic(x: Tensor, y: Tensor) -> Tensor:
    z: Tensor = 1 - x
    z = 2.0 * x / 3 + x**2 - 2**x + -x
    z = x @ y.mT + (x > 0).sum() + (x == y).to(x.dtype).mean() + (1 < x).float().sum()
    z = z + abs(x).sum() + (x // 2 + x % 2).sum() + (1 / (x + 2)).sum()
    z += 1
    z *= z
    z -= z.mean()
    z /= math.pi
    b = (x > 0) & ~(y < 0) | (x != 1) ^ (y >= 0)
    assert b.dtype == torch.bool and b.any() and bool(b.all() or True)
    if (x == y).all():
        return x
    w = torch.where(x > 0, x, 0.0) + torch.where(x > 0, 1.0, y)
    w = w.clamp(min=0).clamp(0, 1).clamp_(max=x).pow(2).div(2).add(y, alpha=2).sub(1).mul(2)
    w = (
        torch.clamp(w, min=0.0)
        + torch.maximum(x, y)
        + torch.pow(2, x)
        + torch.div(x, 2, rounding_mode="floor")
    )
    c = torch.complex(x, y).abs() + torch.einsum("ij,ij->", x, y) + torch.matmul(x, y.mT).sum()
    return z.sum() + w + c


def indices(x: Tensor) -> Tensor:
    a = x[0] + x[..., 0, None] + x[:, 0].sum() + x[None, 0, 1:].sum() + x[-1, ::2].sum()
    rows = torch.tensor([0, 1])
    a = (
        a.sum()
        + x[rows].sum()
        + x[[0, 1]].sum()
        + x[rows, [1, 2]].sum()
        + x[x > 0].sum()
        + x[np.array([0])].sum()
    )
    x = x.clone()
    x[0] = 1
    x[:, 1] = torch.zeros(2)
    x[x > 0] = 0.5
    x[..., -1] += 1
    x[rows, 0] = x.new_ones(2)
    x[0, 0] *= 2
    x[1, 1:] = x[0, 1:]
    for row in x:
        a = a + row.sum()
    picked = x.gather(1, torch.zeros(2, 1, dtype=torch.long)) + x.index_select(1, rows).sum(1, keepdim=True)
    places = torch.nonzero(x)
    where: tuple[Tensor, ...] = torch.where(x > 0)
    assert places.shape[1] == len(where) and len(x) == 2
    x.scatter_(1, torch.zeros(2, 1, dtype=torch.long), 5.0).index_fill_(0, rows, 1.0).masked_fill_(x > 3, 0)
    return a + picked.sum() + torch.take_along_dim(x, x.argsort(1), dim=1).sum()


def conversions(x: Tensor) -> float:
    y = x.to(torch.float64).to("cpu").to(device="cpu", dtype=torch.float32, non_blocking=True).to(x)
    y = y.to("cpu", torch.float32).to(x.device).double().float().half().type(torch.float32).cpu().detach()
    kind: torch.dtype = y.dtype
    place: torch.device = y.device
    layout: torch.layout = y.layout
    assert kind.is_floating_point and place.type == "cpu" and place.index is None and layout == torch.strided
    array = y.numpy()
    assert array.shape == y.shape and np.asarray(y).sum() == array.sum()
    nested = y.tolist()
    assert nested[0]
    number = y.sum().item()
    whole = int(y.sum()) + round(float(y.mean())) + len(nested)
    text: str = repr(y) + f"{y.sum():.3f}" + str(y.shape)
    assert text and y.is_contiguous() and not y.requires_grad and y.grad is None
    return number + whole + math.sqrt(y.abs().sum())


def main() -> None:
    for x in made():
        assert shapes(x) > 0
    x, y = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, 2.0]]), torch.ones(2, 3)
    leaf = torch.rand(2, 2).requires_grad_()
    arithmetic(leaf, y[:, :2]).sum().backward()
    assert leaf.grad is not None and leaf.grad.shape == (2, 2) and leaf.is_leaf
    square = torch.rand(3, 3) + 0.1
    assert arithmetic(square, square + 1).shape == (3, 3)
    assert indices(x).dim() >= 0 and conversions(x) != 0


main()
