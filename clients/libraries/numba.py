"""Numba: a layer whose loops are Numba's, over the memory of tensors."""

import numba
import numpy as np
import torch
from harness import Client, fill, normal

client = Client("numba")


@numba.njit(nogil=True)
def _leaky(x, out, rate):
    for i in range(x.shape[0]):
        last = 0.0
        for t in range(x.shape[1]):
            last = x[i, t] + rate * last
            out[i, t] = last


class Leaky(torch.autograd.Function):
    """out[i, t] = x[i, t] + rate · out[i, t - 1]."""

    @staticmethod
    def forward(ctx, x, rate):
        ctx.rate, out = rate, torch.empty_like(x)
        _leaky(x.detach().numpy(), out.numpy(), rate)
        return out

    @staticmethod
    def backward(ctx, grad):
        back = torch.empty_like(grad)
        _leaky(grad.flip(1).contiguous().numpy(), back.numpy(), ctx.rate)
        return back.flip(1), None


@client.case
def layer():
    network = fill(torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh()))
    x = normal(3, 4).requires_grad_()
    out = Leaky.apply(network(x), 0.5)
    out.square().sum().backward()
    return [out, x.grad, [p.grad for p in network.parameters()]]


@client.case
def gradients():
    x = normal(2, 5).double().requires_grad_()
    return torch.autograd.gradcheck(lambda x: Leaky.apply(x, 0.5), (x,))


@client.case
def shared_memory():
    x = normal(2, 3)
    before = x.clone()
    _leaky(x.numpy(), x.numpy(), 0.0)
    double = numba.vectorize(lambda a: 2 * a)
    double(x.numpy(), out=x.numpy())
    return [torch.equal(x, 2 * before), np.shares_memory(x.numpy(), x.t().numpy())]
