"""What is done beside the loop: plug-ins, which the Trainer calls at their intervals.

A plug-in of one's own is a class with a method for each unit that it wants to be called at:

    class PrintNorm(Plugin):
        def __init__(self):
            super().__init__([(100, "update")])

        def update(self, count, model):
            print(count, sum(p.norm().item() ** 2 for p in model.parameters()) ** 0.5)
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from .._progress import progress
from .metrics import Accuracy, as_number

__all__ = [
    "AccuracyMonitor",
    "Curves",
    "EarlyStopping",
    "Logger",
    "LossMonitor",
    "Monitor",
    "Plugin",
    "ProgressBar",
    "ProgressMonitor",
    "TensorBoard",
    "TimeMonitor",
]

UNITS = ("batch", "iteration", "update", "epoch")


class Plugin:
    """Base class; `interval` is a list of (n, unit): the method of that name is called at every n-th

    - "batch": `batch(count, input, target)`, before the model sees the batch;
    - "iteration": `iteration(count, input, target, output, loss)`, when a batch is done;
    - "update": `update(count, model)`, when the optimizer has made a step;
    - "epoch": `epoch(count)`, after validation; the figures are `self.trainer.history[-1]`.

    Counts begin at 1 with the first run, and go on in a resumed one.  `register(trainer)` is called once, `start()` when
    a run begins and `finish()` when it ends, by an error, too.  What `state_dict()` returns is in the checkpoints.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.utils.trainer import Plugin, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1, bias=False), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))]
    >>> _ = flambeau.nn.init.ones_(model.weight)
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> class Show(Plugin):
    ...     def update(self, count, model):
    ...         print("update", count, model.weight.item())
    >>> trainer.register_plugin(Show([(2, "update")]))
    >>> history = trainer.run(epochs=4)
    update 2 0.5
    update 4 0.0
    """

    trainer: Any
    writes = False  # whether it writes to a screen or a file: of several processes only the first has it then

    def __init__(self, interval: Iterable[tuple[int, str]] = ()) -> None:
        self.trigger_interval = list(interval)

    def register(self, trainer: Any) -> None:
        """The trainer whose plug-in it is."""
        self.trainer = trainer

    def start(self) -> None:
        """Called when a run begins, after its checkpoint is read."""

    def finish(self) -> None:
        """Called when a run ends."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know, in types that `save` takes; empty by default."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict()` returned."""
        vars(self).update(state_dict)


class Monitor(Plugin):
    """Base class of what is watched in each iteration: `stats[stat_name]` of the trainer holds the `"last"` value, the
    `"running_avg"` of all, to which each new value contributes 1 - `smoothing`, and, once an epoch is done, its
    `"epoch_mean"`.

    A subclass has a `stat_name` and defines `_get_value(input, target, output, loss)`.

    Raises NotImplementedError in a run where `_get_value` is not defined.

    >>> import flambeau
    >>> from flambeau.utils.trainer import Monitor, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1, bias=False), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))] * 2
    >>> _ = flambeau.nn.init.ones_(model.weight)
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> class Largest(Monitor):
    ...     stat_name = "largest"
    ...     def _get_value(self, input, target, output, loss):
    ...         return output.abs().max()
    >>> trainer.register_plugin(Largest(smoothing=0.5))
    >>> history = trainer.run()
    >>> trainer.stats["largest"]
    {'last': 0.75, 'running_avg': 0.875, 'epoch_mean': 0.875}
    """

    stat_name: str

    def __init__(self, smoothing: float = 0.7) -> None:
        super().__init__([(1, "iteration"), (1, "epoch")])
        self.smoothing = smoothing
        self.stats: dict[str, Any] = {}
        self.total, self.count = 0.0, 0

    def register(self, trainer: Any) -> None:
        super().register(trainer)
        trainer.stats[self.stat_name] = self.stats

    def _get_value(self, input: Any, target: Any, output: Any, loss: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _get_value")

    def iteration(self, count: int, input: Any, target: Any, output: Any, loss: Any) -> None:
        value = as_number(self._get_value(input, target, output, loss), self.stat_name)
        average = self.stats.get("running_avg", value)
        self.stats["last"] = value
        self.stats["running_avg"] = self.smoothing * average + (1 - self.smoothing) * value
        self.total, self.count = self.total + value, self.count + 1

    def epoch(self, count: int) -> None:
        if self.count:
            self.stats["epoch_mean"] = self.total / self.count
        self.total, self.count = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        return {"stats": dict(self.stats), "total": self.total, "count": self.count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.total, self.count = state_dict["total"], state_dict["count"]
        self.stats.update(state_dict["stats"])


class LossMonitor(Monitor):
    """`stats["training_loss"]`: the loss of the batches.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.utils.trainer import LossMonitor, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1, bias=False), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))] * 2
    >>> _ = flambeau.nn.init.ones_(model.weight)
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> trainer.register_plugin(LossMonitor(smoothing=0.5))
    >>> history = trainer.run()
    >>> trainer.stats["training_loss"]
    {'last': 0.75, 'running_avg': 0.875, 'epoch_mean': 0.875}
    """

    stat_name = "training_loss"

    def _get_value(self, input: Any, target: Any, output: Any, loss: Any) -> Any:
        return loss


class AccuracyMonitor(Monitor):
    """`stats["accuracy"]`: the share of a batch's samples whose class has the largest output.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.utils.trainer import AccuracyMonitor, Trainer
    >>> model = flambeau.nn.Linear(2, 2)
    >>> batches = [(flambeau.ones(4, 2), flambeau.tensor([0, 1, 0, 1]))]
    >>> sgd = flambeau.optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = Trainer(model, flambeau.nn.CrossEntropyLoss(), sgd, batches)
    >>> trainer.register_plugin(AccuracyMonitor())
    >>> history = trainer.run()
    >>> trainer.stats["accuracy"]["last"]
    0.5
    """

    stat_name = "accuracy"

    def _get_value(self, input: Any, target: Any, output: Any, loss: Any) -> float:
        accuracy = Accuracy()
        accuracy.update(output, target)
        return accuracy.compute()


class TimeMonitor(Monitor):
    """`stats["time"]`: seconds from the end of one batch to the end of the next, loading included.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.utils.trainer import TimeMonitor, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))] * 2
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> trainer.register_plugin(TimeMonitor())
    >>> history = trainer.run()
    >>> list(trainer.stats["time"]), trainer.stats["time"]["last"] > 0
    (['last', 'running_avg', 'epoch_mean'], True)
    """

    stat_name = "time"

    def start(self) -> None:
        self._last = time.perf_counter()

    def _get_value(self, input: Any, target: Any, output: Any, loss: Any) -> float:
        last, self._last = self._last, time.perf_counter()
        return self._last - last

    def epoch(self, count: int) -> None:
        super().epoch(count)
        self._last = time.perf_counter()  # validation does not count


class ProgressMonitor(Plugin):
    """`stats["progress"]`: `"epoch"`, `"batch"`, `"batches"` in an epoch and `"percent"`.

    The last two are None where the loader has no length.

    >>> import flambeau
    >>> from flambeau.utils.trainer import ProgressMonitor, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))] * 2
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> trainer.register_plugin(ProgressMonitor())
    >>> history = trainer.run()
    >>> trainer.stats["progress"]
    {'epoch': 1, 'batch': 2, 'batches': 2, 'percent': 100.0}
    """

    def __init__(self) -> None:
        super().__init__([(1, "iteration")])

    def iteration(self, count: int, *_: Any) -> None:
        done, batches = self.trainer.position.done, self.trainer.number_of_batches()
        self.trainer.stats["progress"] = {
            "epoch": self.trainer.epoch + 1,
            "batch": done,
            "batches": batches,
            "percent": 100 * done / batches if batches else None,
        }


class Logger(Plugin):
    """Prints figures: at each epoch all of the history's, and at every `interval` the `fields` of `trainer.stats`.

    A field is a path as "training_loss.running_avg", or a statistic with all it has, as "training_loss".

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.utils.trainer import Logger, LossMonitor, Trainer
    >>> model = torch.nn.Linear(1, 1)
    >>> torch.nn.init.zeros_(model.weight), torch.nn.init.zeros_(model.bias)  # doctest: +ELLIPSIS
    (...)
    >>> batches = [(torch.ones(2, 1), torch.ones(2, 1))]
    >>> trainer = Trainer(model, torch.nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> trainer.register_plugin(LossMonitor())
    >>> trainer.register_plugin(Logger(["training_loss.last"]))
    >>> history = trainer.run(epochs=2)
    iteration 1: training_loss.last 1
    epoch 1: loss 1, lr 0.25
    iteration 2: training_loss.last 0
    epoch 2: loss 0, lr 0.25
    """

    writes = True

    def __init__(
        self,
        fields: Iterable[str] = (),
        interval: Iterable[tuple[int, str]] = ((1, "iteration"), (1, "epoch")),
    ) -> None:
        super().__init__(interval)
        self.fields = list(fields)

    def _log(self, unit: str, count: int) -> None:
        values = {}
        for field in self.fields:
            name, _, rest = field.partition(".")
            stat = self.trainer.stats[name]
            values.update({field: stat[rest]} if rest else {f"{name}.{key}": v for key, v in stat.items()})
        self._print(unit, count, values)

    def _print(self, unit: str, count: int, values: dict[str, Any]) -> None:
        if values:
            shown = ", ".join(
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items()
            )
            print(f"{unit} {count}: {shown}", flush=True)

    def iteration(self, count: int, *_: Any) -> None:
        self._log("iteration", count)

    def update(self, count: int, model: Any) -> None:
        self._log("update", count)

    def epoch(self, count: int) -> None:
        self._print("epoch", count, {k: v for k, v in self.trainer.history[-1].items() if k != "epoch"})


class EarlyStopping(Plugin):
    """Ends the run when the monitored figure has not got better, by more than `min_delta`, for `patience` epochs.

    Raises ValueError when `patience` is under 1 or `min_delta` negative.

    >>> import flambeau
    >>> from flambeau.utils.trainer import EarlyStopping, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1, bias=False), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))]
    >>> _ = flambeau.nn.init.ones_(model.weight)
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.0), batches)
    >>> trainer.register_plugin(EarlyStopping(patience=2))
    >>> history = trainer.run(epochs=100)
    >>> len(history), trainer.stopped
    (3, 'loss has not got better than 1 for 2 epochs')
    """

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        super().__init__([(1, "epoch")])
        if patience < 1 or not min_delta >= 0:
            raise ValueError(
                f"EarlyStopping: wanted patience >= 1 and min_delta >= 0, got {patience} and {min_delta}"
            )
        self.patience, self.min_delta = patience, min_delta
        self.best: float | None = None
        self.bad_epochs = 0

    def epoch(self, count: int) -> None:
        value = self.trainer.history[-1][self.trainer.monitor]
        margin = self.min_delta if self.trainer.mode == "min" else -self.min_delta
        if self.best is None or self.trainer.is_better(value + margin, self.best):
            self.best, self.bad_epochs = value, 0
            return
        self.bad_epochs += 1
        if self.bad_epochs >= self.patience:
            self.trainer.stop(
                f"{self.trainer.monitor} has not got better than {self.best:.6g} for {self.patience} epochs"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "bad_epochs": self.bad_epochs}


class ProgressBar(Plugin):
    """How far each epoch is, on stderr: tqdm's bar where tqdm is installed (the extra `progress`), else a line, which is rewritten on
    a terminal, and elsewhere written every ten seconds and at the epoch's end.

    `options` are tqdm's; `disable` (None: where there is no terminal), `file` and `mininterval` count without it, too.

    Raises nothing.

    >>> import io
    >>> import flambeau
    >>> from flambeau.utils.trainer import ProgressBar, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))] * 2
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> screen = io.StringIO()
    >>> trainer.register_plugin(ProgressBar(file=screen))
    >>> history = trainer.run()
    >>> "epoch 1/1: 100%" in screen.getvalue()
    True
    """

    writes = True

    def __init__(self, **options: Any) -> None:
        super().__init__([(1, "iteration"), (1, "epoch")])
        self.options = {"dynamic_ncols": True, **options}
        self.bar: Any = None

    def iteration(self, count: int, input: Any, target: Any, output: Any, loss: Any) -> None:
        trainer = self.trainer
        if self.bar is None:
            self.bar = progress(
                total=trainer.number_of_batches(),
                initial=trainer.position.done - 1,
                desc=f"epoch {trainer.epoch + 1}/{trainer.epochs}",
                **self.options,
            )
        self.bar.set_postfix_str(f"loss {trainer.meter.loss.compute():.4g}", refresh=False)
        self.bar.update()

    def epoch(self, count: int) -> None:
        if self.bar is not None:
            figures = self.trainer.history[-1].items()
            self.bar.set_postfix_str(", ".join(f"{k} {v:.4g}" for k, v in figures if k != "epoch"))
        self.finish()

    def finish(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class Curves(Plugin):
    """Draws the history into the picture `path` after each epoch, by matplotlib (the extra `plot`).

    Each figure has a panel, with that of training and that of validation in it.

    Raises ImportError when a run begins without matplotlib.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.trainer import Curves, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))]
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trainer.register_plugin(Curves(os.path.join(folder, "curves.png")))
    ...     history = trainer.run()
    ...     print(os.listdir(folder))
    ['curves.png']
    """

    writes = True

    def __init__(
        self, path: str | os.PathLike[str], interval: Iterable[tuple[int, str]] = ((1, "epoch"),)
    ) -> None:
        super().__init__(interval)
        self.path = os.fspath(path)

    def start(self) -> None:
        _needed("matplotlib", "plot")

    def epoch(self, count: int) -> None:
        from matplotlib.figure import Figure  # not pyplot, which chooses a window system

        history = self.trainer.history
        names = [name for name in history[0] if name != "epoch" and not name.startswith("val_")]
        figure = Figure(figsize=(4 * len(names), 3.2), layout="constrained")
        epochs = [figures["epoch"] for figures in history]
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False).flat, names):
            for key, label in ((name, "training"), (f"val_{name}", "validation")):
                if key in history[0]:
                    axes.plot(epochs, [figures[key] for figures in history], label=label)
            axes.set_title(name)
            axes.set_xlabel("epoch")
        figure.axes[0].legend()
        figure.savefig(self.path, dpi=100)


class TensorBoard(Plugin):
    """Writes the loss of every n-th iteration and the figures of each epoch for TensorBoard (the extra `tensorboard`).

    `log_dir` is by default a folder `events` in the trainer's folder, or what `SummaryWriter` takes without
    one.  All is over the number of iterations.  A resumed run takes back what was written after its
    checkpoint.  `self.writer` is there for more while a run goes on.

    Raises ImportError when a run begins without tensorboard.

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.utils.trainer import TensorBoard, Trainer
    >>> model, loss = flambeau.nn.Linear(1, 1), flambeau.nn.L1Loss()
    >>> batches = [(flambeau.ones(2, 1), flambeau.zeros(2, 1))]
    >>> trainer = Trainer(model, loss, flambeau.optim.SGD(model.parameters(), lr=0.25), batches)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trainer.register_plugin(TensorBoard(folder))
    ...     history = trainer.run()
    ...     print([name.split(".")[0] for name in os.listdir(folder)])
    ['events']
    """

    writes = True

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        interval: Iterable[tuple[int, str]] = ((1, "iteration"), (1, "epoch")),
    ) -> None:
        super().__init__(interval)
        self.log_dir = log_dir
        self.writer: Any = None

    def start(self) -> None:
        from ..tensorboard import SummaryWriter

        done, folder = self.trainer.iterations, self.trainer.folder
        log_dir = self.log_dir
        if log_dir is None and folder is not None:
            log_dir = os.path.join(folder.path, "events")
        self.writer = SummaryWriter(log_dir, purge_step=done + 1 if done else None)

    def iteration(self, count: int, input: Any, target: Any, output: Any, loss: Any) -> None:
        self.writer.add_scalar("loss", loss, count)
        for i, group in enumerate(self.trainer.optimizer.param_groups):
            self.writer.add_scalar(f"lr/{i}", group["lr"], count)

    def epoch(self, count: int) -> None:
        for name, value in self.trainer.history[-1].items():
            if name != "epoch":
                self.writer.add_scalar(f"epoch/{name}", value, self.trainer.iterations)
        self.writer.flush()

    def finish(self) -> None:
        self.writer.close()

    def state_dict(self) -> dict[str, Any]:
        """Nothing; but what is written by now is in the file before the checkpoint is, from which a resumed run goes on."""
        if self.writer is not None:
            self.writer.flush()
        return {}


def _needed(module: str, extra: str) -> Any:
    """A module that not everybody has."""
    import importlib

    from ...core.base import display

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} is not installed: pip install {module}, or {display.NAME} with the extra {extra!r}"
        ) from error
