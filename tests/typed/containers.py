"""Containers of modules and parameters, buffers, walks over modules."""

from __future__ import annotations

from collections import OrderedDict

import flambeau as torch
from flambeau import Tensor, nn


class Block(nn.Sequential):
    def __init__(self, features: int) -> None:
        super().__init__(nn.Linear(features, features), nn.ReLU())


class Mixture(nn.Module):
    mean: Tensor
    count: Tensor

    def __init__(self, features: int, experts: int) -> None:
        super().__init__()
        self.experts = nn.ModuleList(Block(features) for _ in range(experts))
        self.heads = nn.ModuleDict({"mean": nn.Linear(features, 1), "variance": nn.Linear(features, 1)})
        self.gates = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(experts)])
        self.shifts = nn.ParameterDict({"a": nn.Parameter(torch.zeros(features))})
        self.weight = nn.Parameter(torch.empty(features, features), requires_grad=True)
        self.norm: nn.BatchNorm1d | None = nn.BatchNorm1d(features)
        self.rnn = nn.LSTM(features, features, num_layers=1, batch_first=True)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("count", torch.tensor(0), persistent=False)
        nn.init.xavier_uniform_(self.weight)
        self.apply(self.reset)

    @staticmethod
    def reset(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        self.mean.lerp_(x.detach().mean(0), 0.1)
        self.count += 1
        mixed = torch.zeros_like(x)
        for k, (expert, gate) in enumerate(zip(self.experts, self.gates)):
            mixed = mixed + gate * expert(x) * (k + 1)
        if self.norm is not None:
            mixed = self.norm(mixed)
        steps, (hidden, _cell) = self.rnn(mixed[:, None])
        mixed = steps[:, 0] + hidden[0] + self.shifts["a"]
        return {name: head(mixed @ self.weight) for name, head in self.heads.items()}


def main() -> None:
    torch.manual_seed(0)
    net = Mixture(4, 2)
    found = net(torch.randn(3, 4))
    assert found["mean"].shape == (3, 1) and net.count.item() == 1
    assert len(net.experts) == 2 and "mean" in net.heads and len(net.gates) == 2
    net.experts.append(Block(4))
    net.experts.extend([Block(4)])
    last: nn.Module = net.experts[-1]
    some: nn.ModuleList = net.experts[1:]
    assert isinstance(last, Block) and len(some) == 3
    layers = nn.Sequential(OrderedDict([("first", nn.Linear(4, 4)), ("second", nn.ReLU())]))
    layers.append(nn.Linear(4, 1))
    front: nn.Sequential = layers[:2]
    linear = layers[0]
    assert isinstance(linear, nn.Linear) and linear.weight.shape == (4, 4)
    y: Tensor = layers(torch.ones(1, 4)) + front(torch.ones(1, 4)).sum()
    y.backward()
    assert linear.weight.grad is not None
    for layer in layers:
        layer.train(False)
    for name, module in net.named_modules():
        assert name == "" or isinstance(module, nn.Module)
    for parameter in net.heads.parameters():
        parameter.requires_grad_(False)
        parameter.data.zero_()
    buffers = dict(net.named_buffers())
    assert set(buffers) >= {"mean", "count"} and not net.eval().training
    weight: nn.Parameter = net.weight
    assert weight.requires_grad and isinstance(weight, Tensor)
    size = sum(p.numel() * p.element_size() for p in net.parameters())
    for child in net.children():
        size += len(list(child.parameters()))
    assert size > 0


main()
