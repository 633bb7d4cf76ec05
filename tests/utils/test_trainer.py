"""The Trainer's loop beside one written by hand, its plug-ins, and what it says of bad input."""

from __future__ import annotations

import importlib.util
import math
import sys
import threading
from pathlib import Path

import numpy
import pytest
from training import Record, data, make, net, weights

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, IterableDataset
from flambeau.utils.trainer import (
    Accuracy,
    AccuracyMonitor,
    Curves,
    EarlyStopping,
    Logger,
    LossMonitor,
    Mean,
    Metric,
    Monitor,
    Plugin,
    ProgressBar,
    ProgressMonitor,
    TensorBoard,
    TimeMonitor,
    Trainer,
)

# --- the loop -----------------------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("clip", [None, 0.1])
def test_the_loop_is_the_one_written_by_hand(accumulate, clip):
    loader, held_out = DataLoader(data(), 3), DataLoader(data(7, 5), 4)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    expected = []
    for epoch in range(1, 4):
        model.train()
        losses = 0.0
        for k, (x, y) in enumerate(loader):
            if k % accumulate == 0:
                optimizer.zero_grad()
                together = min(accumulate, len(loader) - k)
            loss = nn.functional.cross_entropy(model(x), y)
            (loss / together).backward()
            losses += loss.item() * len(y)
            if (k + 1) % accumulate == 0 or k + 1 == len(loader):
                if clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
        with torch.no_grad():
            model.eval()
            x, y = held_out.dataset[:]
            output = model(x)
            figures = {
                "epoch": epoch,
                "loss": losses / 10,
                "val_loss": nn.functional.cross_entropy(output, y).item(),
                "val_accuracy": (output.argmax(1) == y).float().mean().item(),
                "lr": optimizer.param_groups[0]["lr"],
            }
        schedule.step()
        expected.append(figures)

    ours = net()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1, momentum=0.9)
    trainer = make(
        model=ours,
        optimizer=optimizer,
        loader=loader,
        validation=held_out,
        metrics={"accuracy": lambda output, target: (output.argmax(1) == target).float().mean()},
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
        accumulate=accumulate,
        clip_norm=clip,
    )
    history = trainer.run(3)
    assert all((a == b).all() for a, b in zip(weights(ours), weights(model)))
    assert history is trainer.history and len(history) == 3
    for ours, figures in zip(history, expected):
        assert set(ours) == {*figures, "accuracy"}
        assert all(math.isclose(ours[name], value, rel_tol=1e-6) for name, value in figures.items())
    assert (trainer.epoch, trainer.iterations, trainer.updates) == (3, 12, 12 if accumulate == 1 else 6)
    assert math.isclose(
        trainer.validate(DataLoader(data(), 4))["loss"], trainer.validate(loader)["loss"], rel_tol=1e-6
    )


class Stream(IterableDataset):
    def __iter__(self):
        yield from data()


@pytest.mark.parametrize("accumulate", [1, 3, 4, 9])
def test_a_loader_without_a_length(accumulate):
    trainer = make(loader=DataLoader(Stream(), 3), accumulate=accumulate)
    trainer.run(2)
    assert (trainer.iterations, trainer.updates) == (8, 2 * math.ceil(4 / accumulate))


def test_run_counts_epochs_of_before():
    trainer = make()
    trainer.run(2)
    trainer.run(2)
    assert trainer.epoch == 2
    trainer.run(3)
    straight = make()
    straight.run(3)
    assert trainer.history == straight.history


def test_other_batches_need_two_methods():
    class Autoencoder(Trainer):
        def unpack(self, batch):
            return batch["x"], None

        def forward(self, input, target):
            output = self.model(input)
            return output, self.criterion(output, input)

    model = nn.Linear(4, 4)
    batches = [{"x": torch.ones(3, 4)}, {"x": torch.zeros(1, 4)}]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Autoencoder(model, nn.MSELoss(), optimizer, batches)
    history = trainer.run(30)
    assert history[-1]["loss"] < 0.1 * history[0]["loss"]
    assert trainer.meter.loss.count == 0
    with pytest.raises(TypeError, match=r"must be a pair \(input, target\), got dict: override `unpack`"):
        make(loader=batches).run()


def test_batches_are_moved():
    place = "meta"
    model = nn.Linear(4, 2, device=place)
    trainer = make(model=model, device=place)
    input, target = trainer.unpack([{"a": torch.ones(2)}, (torch.ones(3), "text")])
    assert input["a"].device.type == place and target[0].device.type == place and target[1] == "text"


def test_set_epoch_is_called():
    epochs = []

    class Sampler:
        def set_epoch(self, epoch):
            epochs.append(epoch)

        def __iter__(self):
            return iter(range(10))

        def __len__(self):
            return 10

    make(loader=DataLoader(data(), 5, sampler=Sampler())).run(3)
    assert epochs == [0, 1, 2]


def test_another_thread_trains():
    """Signals are the main thread's; a run elsewhere leaves them alone."""
    results = []
    thread = threading.Thread(target=lambda: results.append(make().run(1)))
    thread.start()
    thread.join()
    assert len(results[0]) == 1


# --- metrics ------------------------------------------------------------------------------------


def test_metrics_of_several_batches():
    rng = numpy.random.default_rng(0)
    output, target = rng.normal(size=(9, 5)), rng.integers(0, 5, 9)
    for top in (1, 3):
        accuracy = Accuracy(top)
        assert math.isnan(accuracy.compute())
        for part in (slice(0, 4), slice(4, 9)):
            accuracy.update(torch.tensor(output[part]), torch.tensor(target[part]))
        expected = numpy.mean([t in numpy.argsort(o)[-top:] for o, t in zip(output, target)])
        assert math.isclose(accuracy.compute(), expected)
        accuracy.reset()
        assert math.isnan(accuracy.compute())
    binary = Accuracy()
    binary.update(torch.tensor([0.5, -1.0, 2.0]), torch.tensor([1, 0, 0]))
    assert math.isclose(binary.compute(), 2 / 3)


def test_a_metric_that_is_no_mean():
    class Largest(Metric):
        def __init__(self):
            self.reset()

        def reset(self):
            self.value = 0.0

        def update(self, output, target):
            self.value = max(self.value, output.abs().max().item())

        def compute(self):
            return self.value

    trainer = make(metrics={"largest": Largest(), "mean": Mean(lambda o, t: o.abs().mean())})
    figures = trainer.run(1)[0]
    assert figures["largest"] > figures["mean"] > 0
    for method, args in (("reset", ()), ("update", (1, 2)), ("compute", ())):
        with pytest.raises(NotImplementedError, match=f"Metric does not define {method}"):
            getattr(Metric(), method)(*args)


# --- plug-ins -----------------------------------------------------------------------------------


def test_when_plugins_are_called():
    log = []
    trainer = make(accumulate=2)
    trainer.register_plugin(Record([(1, "batch"), (1, "iteration"), (1, "update"), (1, "epoch")], log))
    trainer.run(1)
    expected = ["start"]
    for k, n in enumerate((3, 3, 3, 1), 1):
        expected += [("batch", k, (n, 4), (n,)), ("iteration", k, (n, 2), True)]
        expected += [("update", k // 2, True)] if k % 2 == 0 else []
    assert log == [*expected, ("epoch", 1, 1), "finish"]


def test_intervals():
    log = []
    trainer = make()
    trainer.register_plugin(Record([(5, "batch"), (2, "epoch")], log))
    trainer.run(5)
    assert [entry[:2] for entry in log[1:-1]] == [
        ("batch", 5),
        ("epoch", 2),
        ("batch", 10),
        ("batch", 15),
        ("epoch", 4),
        ("batch", 20),
    ]


def test_monitors():
    trainer = make(loader=DataLoader(data(), 5))
    losses = []

    class Keep(Plugin):
        def iteration(self, count, input, target, output, loss):
            losses.append(loss.item())

    for plugin in (LossMonitor(smoothing=0.5), AccuracyMonitor(), TimeMonitor(), ProgressMonitor()):
        trainer.register_plugin(plugin)
    trainer.register_plugin(Keep([(1, "iteration")]))
    trainer.run(2)
    a, b, c, d = losses
    stats = trainer.stats["training_loss"]
    assert stats["last"] == d and math.isclose(stats["epoch_mean"], (c + d) / 2)
    assert math.isclose(stats["running_avg"], (((a + b) / 2 + c) / 2 + d) / 2)
    assert 0 <= trainer.stats["accuracy"]["epoch_mean"] <= 1 and trainer.stats["time"]["last"] > 0
    assert trainer.stats["progress"] == {"epoch": 2, "batch": 2, "batches": 2, "percent": 100.0}
    with pytest.raises(NotImplementedError, match="Monitor does not define _get_value"):
        Monitor()._get_value(1, 2, 3, 4)


def test_logger(capsys):
    trainer = make(loader=DataLoader(data(), 5), validation=DataLoader(data(), 5))
    trainer.register_plugin(LossMonitor())
    trainer.register_plugin(
        Logger(["training_loss.last", "training_loss"], [(2, "iteration"), (1, "update"), (1, "epoch")])
    )
    trainer.run(1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["update 1", "iteration 2", "update 2", "epoch 1"]
    assert "training_loss.last 0." in lines[1] and "training_loss.running_avg 0." in lines[1]
    assert (
        lines[3]
        == f"epoch 1: loss {trainer.history[0]['loss']:.4g}, val_loss {trainer.history[0]['val_loss']:.4g}, lr 0.05"
    )


@pytest.mark.parametrize("mode", ["min", "max"])
def test_early_stopping(mode):
    """Figures that fall and then rise; in mode "max", the same upside down."""
    figures = [5.0, 3.0, 2.9, 2.95, 3.5, math.nan, 9.0]
    sign = 1 if mode == "min" else -1

    class Made(Metric):
        epochs = -1

        def reset(self):
            type(self).epochs += 1

        def update(self, output, target):
            assert len(output) == len(target)

        def compute(self):
            return sign * figures[self.epochs]

    for patience, delta, last in ((1, 0.0, 4), (2, 0.0, 5), (3, 0.0, 6), (2, 0.2, 4)):
        Made.epochs = 0
        trainer = make(metrics={"made": Made()}, monitor="made", mode=mode)
        trainer.register_plugin(EarlyStopping(patience, delta))
        trainer.run(7)
        assert (
            trainer.epoch == last
            and f"made has not got better than {sign * (3 if delta else 2.9):.6g}" in trainer.stopped
        )
        assert trainer.best["epoch"] == 3
        assert trainer.run(7) is trainer.history and trainer.epoch == last
    for wrong in ((0, 0.0), (1, -1.0), (1, math.nan)):
        with pytest.raises(ValueError, match="EarlyStopping: wanted patience >= 1"):
            EarlyStopping(*wrong)


def test_stop_in_an_epoch():
    class Enough(Plugin):
        def update(self, count, model):
            self.trainer.stop("enough")

    trainer = make()
    trainer.register_plugin(Enough([(6, "update")]))
    trainer.run(9)
    assert (trainer.iterations, trainer.epoch, trainer.stopped) == (6, 1, "enough")


def test_progress_bar(tmp_path):
    with open(tmp_path / "bar", "w+") as file:
        trainer = make()
        trainer.register_plugin(ProgressBar(file=file, mininterval=0))
        trainer.run(2)
        file.seek(0)
        text = file.read()
    assert "epoch 1/2" in text and "epoch 2/2: 100%" in text and "4/4" in text
    assert f"loss {trainer.history[1]['loss']:.4g}" in text


def test_progress_without_tqdm(capsys, monkeypatch):
    """A line an epoch where stderr is no terminal; nothing with `disable=None` there."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    trainer = make()
    trainer.register_plugin(ProgressBar())
    trainer.run(2)
    lines = capsys.readouterr().err.splitlines()
    assert [line[:18] for line in lines] == ["epoch 1/2: 100% 4/", "epoch 2/2: 100% 4/"]
    assert lines[1].endswith(f"loss {trainer.history[1]['loss']:.4g}, lr {trainer.history[1]['lr']:.4g}")
    trainer = make()
    trainer.register_plugin(ProgressBar(disable=None))
    trainer.run(1)
    assert capsys.readouterr().err == ""


def test_curves(tmp_path):
    from PIL import Image

    trainer = make(validation=DataLoader(data(), 5), metrics={"accuracy": Accuracy()})
    trainer.register_plugin(Curves(tmp_path / "curves.png"))
    trainer.run(2)
    picture = numpy.asarray(Image.open(tmp_path / "curves.png").convert("RGB"))
    assert picture.shape == (320, 1200, 3) and len(numpy.unique(picture.reshape(-1, 3), axis=0)) > 10


def test_tensorboard(tmp_path):
    """A run that was interrupted, and goes on, leaves the events of one that was not."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    class Bomb(Plugin):
        def batch(self, count, *_):
            raise KeyboardInterrupt

    results = []
    for folder in (tmp_path / "whole", tmp_path / "interrupted"):
        options = {"folder": folder, "save_every": (3, "iteration"), "validation": DataLoader(data(), 5)}
        trainer = make(**options)
        trainer.register_plugin(TensorBoard())
        if "interrupted" in str(folder):
            trainer.register_plugin(Bomb([(6, "batch")]))
            with pytest.raises(KeyboardInterrupt):
                trainer.run(3)
            trainer = make(**options)
            trainer.register_plugin(TensorBoard())
        trainer.run(3, resume=True)
        events = EventAccumulator(str(folder / "events"), size_guidance={"scalars": 0}).Reload()
        results.append(
            {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
        )
    assert results[0] == results[1]
    assert set(results[0]) == {"loss", "lr/0", "epoch/loss", "epoch/val_loss", "epoch/lr"}
    assert [step for step, _ in results[0]["loss"]] == list(range(1, 13))
    assert [step for step, _ in results[0]["epoch/loss"]] == [4, 8, 12]
    assert results[0]["epoch/loss"][2][1] == numpy.float32(trainer.history[2]["loss"])


@pytest.mark.parametrize(
    "plugin, module, extra",
    [
        (Curves("x.png"), "matplotlib", "plot"),
        (TensorBoard("x"), "tensorboard", "tensorboard"),
    ],
    ids=["matplotlib", "tensorboard"],
)
def test_what_is_not_installed_is_told_before_training(plugin, module, extra, monkeypatch):
    from flambeau.utils.tensorboard import summary

    summary.protos.cache_clear()
    for name in list(sys.modules):
        if name == module or name.startswith(module + "."):
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    trainer = make()
    trainer.register_plugin(plugin)
    with pytest.raises(ImportError, match=f"{module} is not installed.*the extra '{extra}'"):
        trainer.run()
    assert trainer.iterations == 0
    summary.protos.cache_clear()


def test_digits(tmp_path):
    """The example trains, draws and goes on from its checkpoint."""
    path = Path(__file__).parents[2] / "examples" / "digits" / "main.py"
    spec = importlib.util.spec_from_file_location("digits_example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.train(1, tmp_path / "run").history[0]["val_accuracy"] > 0.9
    trainer = example.train(1, tmp_path / "run")
    assert trainer.epoch == 1
    example.draw(tmp_path / "digits.png", trainer)
    assert (tmp_path / "digits.png").stat().st_size > 10_000
