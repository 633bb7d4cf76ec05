"""The state of a run: in a file, and whether it is of the same run; and what happens when a run is to stop."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

from ..._files import load, save
from ._position import random_states, set_random_states, tells_place

# --- the state of a run ---------------------------------------------------------------------------


def gather(trainer: Any) -> dict[str, Any]:
    """Everything that the rest of the run depends on; tensors are the run's own, not copies."""
    strategy, module = trainer.strategy, trainer.module
    gradients = {}
    if trainer.gathered:
        gradients = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
    own = {  # each process has its own
        "gradients": gradients,
        "position": trainer.position.state_dict(),
        "validation": trainer.validation.state_dict() if tells_place(trainer.validation) else None,
        "random": random_states(),
        "meter": trainer.meter.state_dict(),
    }
    plugins = {name: plugin.state_dict() for name, plugin in _named_plugins(trainer)}
    return {
        "facts": describe(trainer),
        "model": strategy.model_state(module),
        "optimizer": strategy.optimizer_state(module, trainer.optimizer),
        "scheduler": _state(trainer.scheduler),
        "scaler": _state(trainer.scaler),
        "counts": [trainer.epoch, trainer.iterations, trainer.updates, trainer.gathered],
        **own,
        "others": strategy.gather(own)[1:] if strategy.size > 1 else [],
        "history": [dict(figures) for figures in trainer.history],
        "best": None if trainer.best is None else trainer.best["epoch"],
        "stopped": trainer.stopped,
        "plugins": {name: state for name, state in plugins.items() if state},
        "extras": {name: _state(extra) for name, extra in trainer.extras.items()},
    }


def restore(trainer: Any, state: dict[str, Any]) -> None:
    """Lets a run go on from `gather()`.  ValueError, before anything is changed, when it is of another run."""
    check_facts(state["facts"], describe(trainer))
    strategy, module = trainer.strategy, trainer.module
    if strategy.rank:
        state = {**state, **state["others"][strategy.rank - 1]}
    plugins = dict(_named_plugins(trainer))
    for name in state["plugins"]:
        if name not in plugins:
            raise ValueError(
                f"Trainer: the checkpoint has the state of the plug-in {name}: register it before the run resumes"
            )
    trainer.position.load_state_dict(state["position"])
    if tells_place(trainer.validation):
        trainer.validation.load_state_dict(state["validation"])
    strategy.load_model_state(module, state["model"])
    strategy.load_optimizer_state(module, trainer.optimizer, state["optimizer"])
    _set_state(trainer.scheduler, state["scheduler"])
    _set_state(trainer.scaler, state["scaler"])
    for name, p in module.named_parameters():
        gradient = state["gradients"].get(name)
        p.grad = None if gradient is None else gradient.to(p.device)
    trainer.epoch, trainer.iterations, trainer.updates, trainer.gathered = state["counts"]
    trainer.meter.load_state_dict(state["meter"])
    trainer.history = [dict(figures) for figures in state["history"]]
    trainer.best = None if state["best"] is None else trainer.history[state["best"] - 1]
    trainer.stopped = state["stopped"]
    for name, plugin_state in state["plugins"].items():
        plugins[name].load_state_dict(plugin_state)
    for name, extra in trainer.extras.items():
        _set_state(extra, state["extras"][name])
    set_random_states(state["random"])


def _named_plugins(trainer: Any) -> Iterator[tuple[str, Any]]:
    """The plug-ins by their class and how many of it there are until then."""
    numbers: dict[str, int] = {}
    for plugin in trainer.plugins:
        name = type(plugin).__name__
        numbers[name] = numbers.get(name, 0) + 1
        yield f"{name} {numbers[name]}", plugin


def _state(x: Any) -> Any:
    if x is None:
        return None
    return x.state_dict() if hasattr(x, "state_dict") else x.get_state()


def _set_state(x: Any, state: Any) -> None:
    if x is not None:
        (x.load_state_dict if hasattr(x, "load_state_dict") else x.set_state)(state)


# --- whether it is the same run -------------------------------------------------------------------


def describe(trainer: Any) -> dict[str, Any]:
    """What must be the same in a resumed run."""
    loader = trainer.dataset
    facts = {"processes": trainer.strategy.size} if trainer.strategy.size > 1 else {}
    return {
        **facts,
        "dataset length": length(getattr(loader, "dataset", None)),
        "batch size": getattr(loader, "batch_size", None),
        "number of batches": length(loader),
        "validation length": length(getattr(trainer.validation, "dataset", trainer.validation)),
        "accumulate": trainer.accumulate,
        "model": {name: [list(t.shape), str(t.dtype)] for name, t in trainer.module.state_dict().items()},
        "optimizer": type(trainer.optimizer).__name__,
        "parameters in the optimizer's groups": [len(g["params"]) for g in trainer.optimizer.param_groups],
        "scheduler": _class_of(trainer.scheduler),
        "scaler": _class_of(trainer.scaler),
        "monitor": [trainer.monitor, trainer.mode],
        "metrics": sorted(trainer.meter.metrics),
        "extras": sorted(trainer.extras),
    }


def check_facts(saved: dict[str, Any], present: dict[str, Any]) -> None:
    """ValueError that names the first fact of a checkpoint which is not so in this run."""
    for name, value in present.items():
        there = saved.get(name)
        if there == value:
            continue
        if name == "model":
            raise ValueError(f"Trainer: the checkpoint is of another model: {_compare(there or {}, value)}")
        hint = ""
        if name == "dataset length":
            hint = ".  To train on other data, load the checkpoint's 'model' into a new run"
        raise ValueError(f"Trainer: the checkpoint was made with {name} {there}, this run has {value}{hint}")


def _compare(there: dict[str, Any], here: dict[str, Any]) -> str:
    only_there = [name for name in there if name not in here]
    only_here = [name for name in here if name not in there]
    differ = [
        f"{n} is {_describe(there[n])} there and {_describe(here[n])} here"
        for n in here
        if n in there and there[n] != here[n]
    ]
    parts = [f"missing in it: {', '.join(only_here)}"] if only_here else []
    parts += [f"unexpected in it: {', '.join(only_there)}"] if only_there else []
    return "; ".join([*parts, *differ])


def _describe(fact: list[Any]) -> str:
    shape, dtype = fact
    return f"{tuple(shape)} of {dtype}"


def length(data: Any) -> int | None:
    """The length of what has one."""
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None


def _class_of(x: Any) -> str | None:
    return None if x is None else type(x).__name__


# --- files ----------------------------------------------------------------------------------------


class Folder:
    """The checkpoints of one run: `last.pt`, which a resumed run goes on from, and `best.pt`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.last = os.path.join(self.path, "last.pt")
        self.best = os.path.join(self.path, "best.pt")

    def prepare(self) -> None:
        """Makes the folder; OSError, which names it, where nothing can be written."""
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise _explained(error, f"cannot keep checkpoints in {self.path!r}") from error

    def write(self, state: dict[str, Any], path: str) -> None:
        """Replaces a checkpoint in one go."""
        try:
            save(state, path)
        except OSError as error:
            raise _explained(error, f"cannot write the checkpoint {path!r}") from error


def _explained(error: OSError, what: str) -> OSError:
    """An error of the same kind that says what could not be done."""
    return OSError(error.errno or errno.EIO, f"Trainer: {what}: {error.strerror or error}")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The state in a checkpoint.  RuntimeError where it is damaged, or none of a Trainer's."""
    try:
        state = load(path, map_location="cpu")
    except OSError:
        raise
    except Exception as error:  # of several classes, by what is damaged
        raise RuntimeError(f"Trainer: cannot resume from {os.fspath(path)!r}: {error}") from error
    if not isinstance(state, dict) or "facts" not in state:
        raise RuntimeError(f"Trainer: cannot resume from {os.fspath(path)!r}: it holds no state of a Trainer")
    return state


# --- signals --------------------------------------------------------------------------------------


class Interrupts:
    """While it is entered and `active`, SIGINT and SIGTERM are noted in `received`, and let through when it is left.

    A second signal is let through at once.  Only the main thread has them; elsewhere, nothing is noted.  Signals that
    are ignored or handled outside of Python stay so.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.active = False

    def __enter__(self) -> Interrupts:
        self.received = None
        self._pid = os.getpid()
        self._before: dict[int, Any] = {}
        if self.active and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before is not None and before is not signal.SIG_IGN:
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        child = os.getpid() != self._pid  # as a loader's worker is, which has inherited the handler
        if child or self.received is not None:
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
            return
        self.received = number
        text = f"{signal.Signals(number).name}: training stops with a checkpoint after this batch; again: at once"
        with suppress(OSError):  # a handler that runs anywhere does not use `sys.stderr`, which may be in use
            os.write(2, f"{text}\n".encode())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        received, self.received = self.received, None
        if received is not None and kind is None:
            signal.raise_signal(received)
