"""The Trainer: the loop that people write by hand, with what they would rather not write."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...nn.utils.clip_grad import clip_grad_norm_
from ...optim.lr_scheduler import ReduceLROnPlateau
from ..data import DataLoader, Dataset
from . import _checkpoint as checkpoint
from ._finite import find_nonfinite, first_nonfinite
from ._position import Position
from ._strategy import strategy_named
from .metrics import Meter, Metric, as_number, named
from .plugins import UNITS, Plugin


class Trainer:
    """Trains `model` on the batches of `dataset` until `criterion(model(input), target)` is small.

    `dataset` is a DataLoader, or another iterable of batches that can be iterated again, `(input, target)` each; so is
    `validation`, over which the same figures are computed after each epoch.  Where batches are something else,
    override `unpack` and `forward`, which is all that knows of them.

    `metrics`: by their names, functions of (output, target) that give the mean over a batch, or `Metric`s.
    `scheduler`: sets learning rates, after every `scheduler_unit`, "epoch" or "update"; ReduceLROnPlateau gets the
    monitored figure after each epoch.
    `accumulate`: how many batches one update is made of; each counts alike.  The last update of an epoch is made of
    those that are left.
    `clip_norm`: the gradients' largest norm, all parameters taken together.
    `scaler`: an object with `scale(loss)`, `unscale_(optimizer)`, `step(optimizer)`, `update()`, and a state.
    `device`: where batches are moved to.
    `folder`: where checkpoints are kept: `last.pt`, written at the start, every `save_every` = (n, unit) with a unit
    "iteration" (a batch), "update" or "epoch", and at the end; and `best.pt`, of the epoch with the best `monitor`.
    `monitor`: the figure by which epochs are compared, `mode` "min" or "max"; by default "val_loss", or "loss" without
    validation.
    `on_nan`: what happens when a loss, or with `clip_norm` the gradients' norm, is NaN or infinite: "raise" a
    FloatingPointError that says where it comes from, "skip" the batch, or "stop".
    `strategy`: "ddp" or "fsdp" where several processes train the model; each holds all of it (DistributedDataParallel), or a
    share of every parameter (`fully_shard`, by the layers of each ModuleList).  A launcher starts them (`flambeau-run`, `mpiexec`), and
    started alone the program trains in one process.  `batch_size` is that of one process: DataLoaders are shared out.  Figures are those
    of all samples (a `Metric` of one's own needs `merge`), all processes end together, and process 0 writes checkpoints and what plug-ins
    write.  A run resumes on as many processes as before.
    `extras`: other objects whose state belongs to the run, by their names: with `state_dict()` and
    `load_state_dict()`, or generators.

    What there is to read: `epoch`, `iterations` and `updates` are how many of each are done, `history` is a list of one
    dict of figures an epoch, `best` that of the best epoch, `stopped` the reason why training ended early, or None.

    A run can be interrupted at any moment: `run(…, resume=True)` goes on from `last.pt`, and ends with the same
    parameters, optimizer and history to the last bit as one that was not.  At SIGINT and SIGTERM the batch is finished
    and a checkpoint is written first.  What the Trainer cannot know of is not kept: a random state in a dataset of one's
    own (give it as one of `extras`), attributes of the model that are not in its `state_dict()`, and what
    threads as workers draw at random from generators that they share.

    Raises TypeError or ValueError for arguments of the wrong kind or out of range.

    >>> import flambeau as torch
    >>> from flambeau.utils.data import DataLoader, TensorDataset
    >>> from flambeau.utils.trainer import Trainer
    >>> x = torch.linspace(-1, 1, 64).reshape(64, 1)
    >>> loader = DataLoader(TensorDataset(x, 3 * x + 1), batch_size=8, shuffle=True)
    >>> model = torch.nn.Linear(1, 1)
    >>> trainer = Trainer(model, torch.nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.3), loader)
    >>> history = trainer.run(epochs=10)
    >>> history[-1]["epoch"], history[-1]["loss"] < 1e-3
    (10, True)
    """

    def __init__(
        self,
        model: Any,
        criterion: Callable[[Any, Any], Any],
        optimizer: Any,
        dataset: Iterable[Any],
        *,
        validation: Iterable[Any] | None = None,
        metrics: Mapping[str, Callable[[Any, Any], Any] | Metric] | None = None,
        scheduler: Any = None,
        scheduler_unit: str = "epoch",
        accumulate: int = 1,
        clip_norm: float | None = None,
        scaler: Any = None,
        device: Any = None,
        folder: str | os.PathLike[str] | None = None,
        save_every: tuple[int, str] = (1, "epoch"),
        monitor: str | None = None,
        mode: str = "min",
        on_nan: str = "raise",
        strategy: str | None = None,
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        _check_loader("dataset", dataset)
        if validation is not None:
            _check_loader("validation", validation)
        _check_count("accumulate", accumulate)
        _check_count("save_every[0]", save_every[0])
        _check_choice("save_every[1]", save_every[1], ("iteration", "update", "epoch"))
        _check_choice("scheduler_unit", scheduler_unit, ("epoch", "update"))
        _check_choice("mode", mode, ("min", "max"))
        _check_choice("on_nan", on_nan, ("raise", "skip", "stop"))
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"Trainer: clip_norm must be above 0, got {clip_norm}")
        if folder is not None and isinstance(dataset, DataLoader):
            if dataset.num_workers and not dataset.in_order:
                raise ValueError(
                    "Trainer: batches in any order (in_order=False) leave no place to go on from"
                )
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise ValueError(
                f"Trainer: {type(optimizer).__name__}.step wants a closure, which this loop does not have"
            )
        if scheduler_unit == "update" and isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError("Trainer: ReduceLROnPlateau looks at epochs: scheduler_unit must be 'epoch'")
        self.model, self.criterion, self.optimizer, self.dataset = model, criterion, optimizer, dataset
        self.validation = validation
        self.meter = Meter(metrics or {})
        self.scheduler, self.scheduler_unit = scheduler, scheduler_unit
        self.accumulate, self.clip_norm, self.scaler, self.device = accumulate, clip_norm, scaler, device
        self.folder = None if folder is None else checkpoint.Folder(folder)
        self.save_every = save_every
        self.monitor = monitor or ("loss" if validation is None else "val_loss")
        names = ["loss", *self.meter.metrics]
        names += [f"val_{name}" for name in names] if validation is not None else []
        _check_choice("monitor", self.monitor, tuple(names))
        self.mode, self.on_nan = mode, on_nan
        self.extras = dict(extras or {})

        self.epoch = self.iterations = self.updates = 0  # how many are done
        self.epochs = 0  # how many the run is for
        self.stopped: str | None = None
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self.stats: dict[str, dict[str, Any]] = {}  # what monitors say
        self.plugins: list[Plugin] = []

        self.strategy = strategy_named(strategy)
        self.strategy.prepare(self)
        self.position = Position(self.dataset)
        self.gathered = 0  # batches whose gradients await the next update
        self._between_steps = True  # whether nothing is half done
        self._folder_is_ours = False  # whether its last checkpoint is of this run
        self._interrupts = checkpoint.Interrupts()
        self._interrupts.active = folder is not None

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self, epochs: int = 1, *, resume: bool = False) -> list[dict[str, Any]]:
        """Trains until `epochs` epochs are done, those before included; returns the history.

        `resume=True` goes on from the checkpoint in the folder, if there is one.

        Raises FileExistsError when there is one and `resume` is False; ValueError when it is of another run (another
        length of the dataset, another model, optimizer, batch size, …), RuntimeError when it is damaged; OSError when
        the folder cannot be written; ValueError for a loader without batches; FloatingPointError for a loss that is NaN
        or infinite; TypeError for a loss or a metric that is no number.  What a plug-in, a metric or the criterion
        raises has a note that names it.
        """
        _check_count("epochs", epochs)
        self.epochs = epochs
        self._prepare(resume)
        with self._interrupts, self._plugins_at_work():
            while self.epoch < epochs and not self._ends():
                self._train_epoch()
                if not self._ends():
                    self._end_epoch()
            if self.folder is not None and self._between_steps:
                self._write(self.state_dict(), self.folder.last)
        return self.history

    @property
    def module(self) -> Any:
        """The model as it was given; `model` is what is called, a DistributedDataParallel with `strategy="ddp"`."""
        return self.strategy.module(self.model)

    def _train_epoch(self) -> None:
        """The batches of this epoch that are not done."""
        self.model.train()
        for batch in self.position.batches(self.epoch):
            self._between_steps = False
            input, target = self.unpack(batch)
            self._tell("batch", self.iterations + 1, input, target)
            window = self._window()
            if self.gathered == 0:
                self.optimizer.zero_grad()
            output, loss = self.forward(input, target)
            value = self._read_loss(loss)
            if not self.strategy.any(not math.isfinite(value)):
                self.backward(loss if window == 1 else loss / window)
                self.meter.update(value, input, target, output)
            else:
                self._skip_batch(value, input, target, output)
            self.gathered += 1
            self.iterations += 1
            updated = self.gathered == window
            if updated:
                self._update()
            self._tell("iteration", self.iterations, input, target, output, loss)
            if updated:
                self._tell("update", self.updates, self.model)
            self._finish("iteration", *(["update"] if updated else []))
            if self._ends():
                return
        if self.position.done == 0:
            raise ValueError("Trainer: dataset gave no batches: there is nothing to train on")
        if self.gathered:  # the loader has no length, or ended before it
            self._between_steps = False
            self._update()
            self._tell("update", self.updates, self.model)
            self._finish("update")

    def _update(self) -> None:
        """One step of the optimizer, with the gradients of the batches since the last one."""
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.clip_norm is not None:
            norm = as_number(
                _full_tensor(clip_grad_norm_(self.model.parameters(), self.clip_norm)),
                "the norm of the gradients",
            )
            if self.scaler is None and not math.isfinite(norm):
                self._skip_update(norm)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.scheduler is not None and self.scheduler_unit == "update":
            self.scheduler.step()
        self.gathered = 0
        self.updates += 1

    def _end_epoch(self) -> None:
        """Figures, validation, the learning rate, and whether this epoch is the best."""
        self._between_steps = False
        figures = {"epoch": self.epoch + 1, **self.strategy.figures(self.meter)}
        if self.validation is not None:
            before = self.state_dict() if self.folder is not None else {}
            measured = self._measure(self.validation)
            interrupted = self.strategy.any(self._interrupts.received is not None)
            if self.folder is not None and interrupted:  # validation will be done again
                self._write(before, self.folder.last)
                return
            figures.update({f"val_{name}": value for name, value in measured.items()})
        figures["lr"] = as_number(self.optimizer.param_groups[0]["lr"], "the optimizer's lr")
        self.history.append(figures)
        self.epoch += 1
        self.position.begin_epoch()
        self.meter.reset()
        if self.best is None or self.is_better(figures[self.monitor], self.best[self.monitor]):
            self.best = figures
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(figures[self.monitor])
        elif self.scheduler is not None and self.scheduler_unit == "epoch":
            self.scheduler.step()
        self._tell("epoch", self.epoch)
        if self.folder is not None and self.best is figures:
            self._write(self.state_dict(), self.folder.best)
        self._finish("epoch")

    def _ends(self) -> bool:
        """Whether training is to end before its last epoch, in one process or another."""
        ends = self.strategy.any(self.stopped is not None or self._interrupts.received is not None)
        if ends and self.strategy.size > 1:
            self.stopped = next((reason for reason in self.strategy.gather(self.stopped) if reason), None)
        return ends

    # --- what a subclass may say otherwise ------------------------------------------------------------------------

    def unpack(self, batch: Any) -> tuple[Any, Any]:
        """The input and the target of a batch, on the device."""
        if not (isinstance(batch, (tuple, list)) and len(batch) == 2):
            what = f"{len(batch)} entries" if isinstance(batch, (tuple, list)) else type(batch).__name__
            raise TypeError(
                f"Trainer.unpack: a batch must be a pair (input, target), got {what}: override `unpack`"
            )
        input, target = batch
        return (input, target) if self.device is None else _moved((input, target), self.device)

    def forward(self, input: Any, target: Any) -> tuple[Any, Any]:
        """What the model gives, and the loss: a tensor of one element."""
        output = self.model(input)
        with named("criterion"):
            return output, self.criterion(output, target)

    def backward(self, loss: Any) -> None:
        """Adds the gradients of `loss` to those of the parameters."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    # --- figures --------------------------------------------------------------------------------------------------

    def validate(self, loader: Iterable[Any] | None = None) -> dict[str, float]:
        """The loss and the metrics over `loader`, by default the validation's, with the model in evaluation mode."""
        loader = self.validation if loader is None else loader
        if loader is None:
            raise ValueError("Trainer.validate: there is no loader: give one, here or as `validation`")
        training_state = self.meter.state_dict()
        try:
            return self._measure(loader)
        finally:
            self.meter.load_state_dict(training_state)

    @no_grad()
    def _measure(self, loader: Iterable[Any]) -> dict[str, float]:
        """The figures of a loader's batches; of those until then, when a signal comes."""
        training, trained = self.model.training, self.model
        self.model.eval()
        self.meter.reset()
        self.model = self.strategy.before_validation(trained)
        last: tuple[Any, Any] = (None, None)
        try:
            for batch in self.strategy.in_step(loader):
                if batch is None:  # another process has one more, for which this one's parameters are wanted
                    self.forward(*last)
                    continue
                last = input, target = self.unpack(batch)
                output, loss = self.forward(input, target)
                self.meter.update(self._read_loss(loss), input, target, output)
                if self._interrupts.received is not None and self.strategy.size == 1:
                    break
        finally:
            self.model = trained
        self.model.train(training)
        if self.meter.loss.count == 0:
            raise ValueError("Trainer: validation gave no batches: there is nothing to measure")
        return self.strategy.figures(self.meter)

    def _read_loss(self, loss: Any) -> float:
        if not isinstance(loss, Tensor):
            raise TypeError(f"Trainer: criterion must give a tensor, got {type(loss).__name__}")
        if loss.numel() != 1:
            raise ValueError(
                f"Trainer: criterion must give a scalar, got a tensor of shape {tuple(loss.shape)}"
            )
        return as_number(loss, "criterion")

    def is_better(self, value: float, than: float) -> bool:
        """Whether a monitored figure is better than another; any number is better than NaN."""
        if math.isnan(than):
            return not math.isnan(value)
        return value < than if self.mode == "min" else value > than

    def number_of_batches(self) -> int | None:
        """How many batches an epoch has; None where the loader does not tell."""
        return checkpoint.length(self.dataset)

    def _window(self) -> int:
        """How many batches the update is made of that the last batch given belongs to."""
        if self.accumulate == 1:
            return 1
        batches = self.number_of_batches()
        if batches is None:
            return self.accumulate
        first = (self.position.done - 1) // self.accumulate * self.accumulate
        return min(self.accumulate, max(batches - first, 1))

    # --- what is not finite ---------------------------------------------------------------------------------------

    def _skip_batch(self, loss: float, input: Any, target: Any, output: Any) -> None:
        if math.isfinite(loss):  # it is not in another process, which says where
            self._refuse("the loss is not finite in another process", "here it is")
            return
        self._refuse(f"the loss is {loss}", find_nonfinite(self.module, input, target, output))
        buffer = first_nonfinite(self.module.named_buffers())
        if buffer is not None:
            raise FloatingPointError(
                f"Trainer: the batch at {self._place()} cannot be skipped: its values have reached the buffer {buffer!r}"
            )

    def _skip_update(self, norm: float) -> None:
        name = first_nonfinite((name, p.grad) for name, p in self.module.named_parameters())
        where = "each is finite" if name is None else f"that of {name!r} is not finite"
        self._refuse(f"the norm of the gradients is {norm}", where)
        self.optimizer.zero_grad()

    def _refuse(self, what: str, where: str) -> None:
        message = f"Trainer: {what} at {self._place()}: {where}"
        if self.on_nan == "raise":
            raise FloatingPointError(message)
        if self.on_nan == "stop":
            self.stop(message)

    def _place(self) -> str:
        return f"epoch {self.epoch + 1}, step {self.iterations + 1} (batch {self.position.done} of the epoch)"

    def stop(self, reason: str) -> None:
        """Ends the run after this batch, or after this epoch where it is called at its end."""
        self.stopped = reason

    # --- plug-ins -------------------------------------------------------------------------------------------------

    def register_plugin(self, plugin: Plugin) -> None:
        """Calls the plug-in's methods at its intervals; those of several, in the order of registration.

        Raises TypeError when it is no Plugin, ValueError for an interval that is no (n, unit).
        """
        if not isinstance(plugin, Plugin):
            raise TypeError(f"Trainer.register_plugin: wanted a Plugin, got {type(plugin).__name__}")
        name = type(plugin).__name__
        for n, unit in plugin.trigger_interval:
            _check_count(f"the interval of {name}", n)
            _check_choice(f"the unit of {name}", unit, UNITS)
        plugin.register(self)
        self.plugins.append(plugin)

    def _tell(self, unit: str, count: int, *args: Any) -> None:
        for plugin in self._plugins_here():
            if any(unit == u and count % n == 0 for n, u in plugin.trigger_interval):
                with named(f"plug-in {type(plugin).__name__}, {unit} {count}"):
                    getattr(plugin, unit)(count, *args)

    def _plugins_here(self) -> list[Plugin]:
        """Those of this process: what is written is written once."""
        return [plugin for plugin in self.plugins if self.strategy.rank == 0 or not plugin.writes]

    @contextmanager
    def _plugins_at_work(self) -> Iterator[None]:
        begun: list[Plugin] = []
        try:
            for plugin in self._plugins_here():
                with named(f"plug-in {type(plugin).__name__}, start"):
                    plugin.start()
                begun.append(plugin)
            yield
        finally:
            for plugin in begun:
                with named(f"plug-in {type(plugin).__name__}, finish"):
                    plugin.finish()

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def _prepare(self, resume: bool) -> None:
        if self.folder is None:
            if resume:
                raise ValueError("Trainer.run: resume=True needs a folder")
            return
        if not self._between_steps and not resume:
            raise RuntimeError(
                "Trainer.run: the last run was interrupted in the middle of a batch: resume=True goes on from its checkpoint"
            )
        self.strategy.first_does(self.folder.prepare)
        if self.strategy.share(os.path.exists(self.folder.last)):
            if resume:
                self.load(self.folder.last)
            elif not self._folder_is_ours:
                raise FileExistsError(
                    f"Trainer.run: there is a checkpoint {self.folder.last!r}: resume=True goes on from it; a new run "
                    "needs another folder"
                )
        self._write(self.state_dict(), self.folder.last)
        self._folder_is_ours = True

    def _finish(self, *units: str) -> None:
        """A batch, an update or an epoch is done: nothing is half done, so it is the time for a checkpoint."""
        self._between_steps = True
        counts = {"iteration": self.iterations, "update": self.updates, "epoch": self.epoch}
        n, unit = self.save_every
        if self.folder is not None and unit in units and counts[unit] % n == 0:
            self._write(self.state_dict(), self.folder.last)

    def _write(self, state: dict[str, Any], path: str) -> None:
        folder = self.folder
        assert folder is not None
        self.strategy.first_does(lambda: folder.write(state, path))

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on; tensors are the run's own, not copies."""
        return checkpoint.gather(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a `state_dict()`.

        Raises ValueError, before anything is changed, when it is of another run, and names the difference.
        """
        checkpoint.restore(self, state_dict)
        self._between_steps = True

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a checkpoint.  RuntimeError when it is damaged, and as `load_state_dict`."""
        self.load_state_dict(checkpoint.read(path))


def _full_tensor(value: Any) -> Any:
    """A tensor of which each process has a part, whole."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def _moved(data: Any, device: Any) -> Any:
    """The tensors of nested containers on a device."""
    if isinstance(data, Tensor):
        return data.to(device, non_blocking=True)
    if isinstance(data, dict):
        return {key: _moved(value, device) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_moved(item, device) for item in data))
    if isinstance(data, (list, tuple)):
        return type(data)(_moved(item, device) for item in data)
    return data


def _check_loader(name: str, loader: Any) -> None:
    if isinstance(loader, Dataset) or not hasattr(loader, "__iter__"):
        raise TypeError(
            f"Trainer: {name} must be an iterable of batches, as a DataLoader, got {type(loader).__name__}"
        )
    if isinstance(loader, Iterator):
        raise TypeError(f"Trainer: {name} must be iterable again and again, got the iterator {loader!r}")
    if checkpoint.length(loader) == 0:
        raise ValueError(f"Trainer: {name} is empty: it has no batches")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"Trainer: {name} must be an integer of at least 1, got {value!r}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"Trainer: {name} must be one of {', '.join(choices)}, got {value!r}")
