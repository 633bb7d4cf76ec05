"""A small run for the tests of the Trainer."""

from __future__ import annotations

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.utils.trainer import Plugin, Trainer


def data(n=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=generator)
    return TensorDataset(x, (x[:, 0] > 0).long())


def net(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def make(folder=None, loader=None, model=None, criterion=None, **options):
    model = net() if model is None else model
    optimizer = options.pop("optimizer", None) or torch.optim.Adam(model.parameters(), lr=0.05)
    loader = DataLoader(data(), 3) if loader is None else loader
    return Trainer(model, criterion or nn.CrossEntropyLoss(), optimizer, loader, folder=folder, **options)


def weights(model):
    return [p.detach().numpy().copy() for p in model.parameters()]


class Record(Plugin):
    def __init__(self, interval, log):
        super().__init__(interval)
        self.log = log

    def start(self):
        self.log.append("start")

    def finish(self):
        self.log.append("finish")

    def batch(self, count, input, target):
        self.log.append(("batch", count, tuple(input.shape), tuple(target.shape)))

    def iteration(self, count, input, target, output, loss):
        self.log.append(("iteration", count, tuple(output.shape), loss.item() > 0))

    def update(self, count, model):
        self.log.append(("update", count, model is self.trainer.model))

    def epoch(self, count):
        self.log.append(("epoch", count, len(self.trainer.history)))
