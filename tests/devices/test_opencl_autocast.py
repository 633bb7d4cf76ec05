"""Autocast and GradScaler on a second device, whose operations have the rules of accelerators."""

from __future__ import annotations

import flambeau
from flambeau import nn


def test_a_step_on_an_accelerator():
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)).to("opencl")
    x, wanted = flambeau.randn(3, 3, device="opencl"), flambeau.zeros(3, 2, device="opencl")
    optimiser, scaler = flambeau.optim.SGD(net.parameters(), lr=0.1), flambeau.GradScaler("opencl", 1024.0)
    with flambeau.autocast("opencl"):
        actual = net(x)
        loss = nn.functional.mse_loss(actual, wanted)
        single = x.half().exp()
        host = flambeau.ones(2, 2) @ flambeau.ones(2, 2)
    assert (actual.dtype, loss.dtype, single.dtype, host.dtype) == (
        flambeau.float16,
        *[flambeau.float32] * 3,
    )
    before = net[0].weight.detach().clone()
    scaler.scale(loss).backward()
    scaler.step(optimiser)
    scaler.update()
    assert net[0].weight.grad.dtype == flambeau.float32
    assert not flambeau.equal(before, net[0].weight.detach())
    optimiser.zero_grad()
    scaler.scale((net(x) * float("inf")).sum()).backward()
    before = net[0].weight.detach().clone()
    scaler.step(optimiser)
    scaler.update()
    assert flambeau.equal(before, net[0].weight.detach()) and scaler.get_scale() == 512.0
