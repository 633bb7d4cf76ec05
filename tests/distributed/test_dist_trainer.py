"""The Trainer on several processes: the same figures as in one, checkpoints, early stop, losses that are not numbers, bad input."""

from __future__ import annotations

import os
import signal

import pytest
from worlds import world

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.utils.trainer import Accuracy, EarlyStopping, Metric, Plugin, Trainer


def data(n, seed):
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, (x[:, 0] > 0).long())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2)])
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def made(size=1, strategy=None, folder=None, batch=12, **options):
    torch.manual_seed(1)
    model = Net()
    return Trainer(
        model,
        nn.CrossEntropyLoss(),
        torch.optim.Adam(model.parameters(), lr=0.05),
        DataLoader(data(48, 0), batch // size),
        validation=DataLoader(data(13, 1), 3),
        metrics={"accuracy": Accuracy()},
        clip_norm=0.5,
        accumulate=2,
        folder=folder,
        strategy=strategy,
        **options,
    )


class Stops(Plugin):
    """Asks one process to end, as its scheduler would."""

    def __init__(self, epoch):
        super().__init__([(1, "iteration")])
        self.at = epoch

    def iteration(self, count, *_):
        if count == self.at and self.trainer.strategy.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)


class Sum(Metric):
    def reset(self):
        self.value = 0.0

    def update(self, output, target):
        self.value += float(target.sum())

    def compute(self):
        return self.value


def trained(rank, size, strategy, folder):
    signal.signal(signal.SIGTERM, lambda *_: None)
    whole = made(size, strategy).run(4)
    stopped = made(size, strategy, f"{folder}/{strategy}")
    stopped.register_plugin(Stops(6))
    stopped.run(4)
    assert stopped.iterations == 6 and os.path.exists(f"{folder}/{strategy}/last.pt")
    resumed = made(size, strategy, f"{folder}/{strategy}")
    assert resumed.run(4, resume=True) == whole
    early = made(size, strategy, monitor="val_accuracy", mode="max")
    early.register_plugin(EarlyStopping(1))
    early.run(30)
    states = resumed.strategy.model_state(resumed.module)
    return (
        whole,
        (len(early.history), early.stopped),
        {n: t.tolist() for n, t in states.items()} if rank == 0 else None,
    )


@pytest.mark.parametrize("strategy, size", [("ddp", 2), ("ddp", 4), ("fsdp", 2)])
def test_the_run_is_that_of_one_process(strategy, size, tmp_path):
    result = world(size, trained, strategy, str(tmp_path))
    alone = made()
    history = alone.run(4)
    for whole, early, _ in result:
        assert (
            whole == result[0][0] and early == result[0][1] and early[0] < 30 and "val_accuracy" in early[1]
        )
        for ours, figures in zip(whole, history, strict=True):
            assert ours == pytest.approx(figures, rel=2e-4)
    for name, tensor in alone.module.state_dict().items():
        torch.testing.assert_close(torch.tensor(result[0][2][name]), tensor.detach(), rtol=1e-3, atol=1e-4)
    saved = torch.load(tmp_path / strategy / "last.pt")
    assert len(saved["others"]) == size - 1 and saved["model"].keys() == alone.module.state_dict().keys()
    plain = Net()
    plain.load_state_dict(saved["model"])  # whole, whatever the strategy


def refused(rank, size):
    bad = data(16, 0)
    bad.tensors[0][5] = float("nan")  # of rank 1
    for on_nan in ("raise", "skip"):
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = Trainer(
            model, nn.CrossEntropyLoss(), sgd, DataLoader(bad, 4), strategy="ddp", on_nan=on_nan
        )
        if on_nan == "skip":
            assert trainer.run(1)[0]["loss"] > 0 and trainer.module.weight.isfinite().all()
            continue
        with pytest.raises(FloatingPointError, match="item 2 of the input" if rank else "in another process"):
            trainer.run(1)
    with pytest.raises(ValueError, match="metric 'sum': Sum does not define merge"):
        Trainer(model, nn.CrossEntropyLoss(), sgd, DataLoader(bad, 4), metrics={"sum": Sum()}, strategy="ddp")
    weighted = torch.utils.data.WeightedRandomSampler(torch.ones(16), 16)
    with pytest.raises(ValueError, match="dataset has a sampler of class WeightedRandomSampler"):
        Trainer(model, nn.CrossEntropyLoss(), sgd, DataLoader(bad, 4, sampler=weighted), strategy="ddp")
    with pytest.raises(ValueError, match="validation has 1 samples, fewer than there are processes"):
        few = DataLoader(data(1, 0), 1)
        Trainer(model, nn.CrossEntropyLoss(), sgd, DataLoader(bad, 4), validation=few, strategy="ddp")
    return True


def test_bad_input_is_seen_by_all():
    assert world(2, refused) == [True, True]


def test_without_a_launcher_it_is_one_process(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert made(strategy="ddp").run(2) == made().run(2)
    with pytest.raises(ValueError, match="strategy must be one of ddp, fsdp, got 'tpu'"):
        made(strategy="tpu")
