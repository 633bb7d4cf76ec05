"""Kernels and operations of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor, kernels, library
from flambeau.autograd import Function


@kernels.pointwise
def squareplus(x: Any, *, b: float = 4.0) -> Any:
    """(x + √(x² + b)) / 2."""
    return (x + kernels.sqrt(x * x + b)) * 0.5


@kernels.reduction
def sum_of_squares(x: Any) -> Any:
    return kernels.sum(x * x)


@kernels.row
def centred(x: Any) -> Any:
    return x - kernels.mean(x)


@library.custom_op("typed::scaled", mutates_args=())
def scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor


@scaled.register_fake
def _(x: Tensor, factor: float) -> Tensor:
    return torch.empty_like(x)


def keep(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
    ctx.factor = inputs[1]


def back(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    return grad * ctx.factor, None


scaled.register_autograd(back, setup_context=keep)


class Sine(Function):
    """Of NumPy."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * torch.cos(x)


def main() -> None:
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    y: Tensor = squareplus(x) + squareplus(x, b=1.0)
    rows: Tensor = centred(x[None], dim=-1)
    total: Tensor = sum_of_squares(x) + rows.sum()
    (y.sum() + total + scaled(x, 2.0).sum()).backward()
    sine: Tensor = Sine.apply(x)
    sine.sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()


main()
