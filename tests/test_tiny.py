"""The whole library in one page; read this first.

Each test is one idea, and `ARCHITECTURE.md` says where it lives.
"""

from __future__ import annotations

import numpy as np

import flambeau as torch
from flambeau import nn
from flambeau.operations.declare.registry import REGISTRY

A = np.arange(6.0).reshape(2, 3)


def test_a_tensor_is_a_view_of_storage():  # core/base, core/views
    x = torch.tensor(A)
    row = x[1]
    row[0] = 7
    assert x[1, 0] == 7 and x.shape == (2, 3) and x.t().stride() == (1, 3) and row.storage_offset() == 3


def test_an_operation_promotes_broadcasts_and_runs_one_kernel():  # core/call, codegen
    x = torch.tensor(A)
    found = torch.exp(-x) + torch.arange(3) / 2
    np.testing.assert_allclose(found.numpy(), np.exp(-A) + np.arange(3) / 2)


def test_every_operation_is_declared_once():  # operations
    assert torch.softmax is REGISTRY["softmax"].function and torch.Tensor.softmax.op is torch.softmax
    e = np.exp(A - A.max(1, keepdims=True))
    np.testing.assert_allclose(torch.tensor(A).softmax(1).numpy(), e / e.sum(1, keepdims=True))


def test_the_tape_gives_gradients_of_gradients():  # core/tape, autograd
    x = torch.tensor(2.0, requires_grad=True)
    (slope,) = torch.autograd.grad(x**3, x, create_graph=True)
    slope.backward()
    assert slope.item() == 12 and x.grad.item() == 12


def test_functions_of_functions():  # func
    jacobian = torch.func.jacrev(lambda v: v * v)(torch.tensor([1.0, 2.0]))
    assert jacobian.tolist() == [[2, 0], [0, 4]]


def test_a_network_learns_is_saved_and_loaded(tmp_path):  # nn, optim, _serialization
    torch.manual_seed(0)
    x = torch.rand(64, 2)
    target = (x[:, 0] > x[:, 1]).long()
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(x), target)
        loss.backward()
        optimiser.step()
    assert (net(x).argmax(1) == target).float().mean() > 0.95

    torch.save(net.state_dict(), tmp_path / "net.pt")
    again = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    again.load_state_dict(torch.load(tmp_path / "net.pt"))
    assert torch.equal(again(x), net(x))
