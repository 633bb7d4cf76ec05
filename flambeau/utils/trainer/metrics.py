"""What is measured over an epoch: figures made of all its batches."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad

__all__ = ["Accuracy", "Mean", "Metric"]


class Metric:
    """Base class: `reset()` begins an epoch, `update(output, target)` takes one batch, `compute()` gives the figure.

    What a metric has gathered stands in attributes without a leading underscore, of types that `save` takes: they
    are in the checkpoints, so that a resumed epoch ends with the figure of all its batches.

    >>> from flambeau.utils.trainer import Metric
    >>> class Largest(Metric):
    ...     def reset(self):
    ...         self.value = 0.0
    ...     def update(self, output, target):
    ...         self.value = max(self.value, (output - target).abs().max().item())
    ...     def compute(self):
    ...         return self.value
    """

    def reset(self) -> None:
        """Forgets all batches."""
        raise NotImplementedError(f"{type(self).__name__} does not define reset")

    def update(self, output: Any, target: Any) -> None:
        """Takes what the model gave for one batch, and what it should have given."""
        raise NotImplementedError(f"{type(self).__name__} does not define update")

    def compute(self) -> Any:
        """The figure, a number; of no batches, NaN."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute")

    def merge(self, state_dict: dict[str, Any]) -> None:
        """Takes the batches of another process, of whose metric `state_dict` is the state; wanted where several train."""
        raise NotImplementedError(f"{type(self).__name__} does not define merge")

    def state_dict(self) -> dict[str, Any]:
        """A copy of what was gathered."""
        return {name: copy.deepcopy(v) for name, v in vars(self).items() if not name.startswith("_")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict()` gave."""
        vars(self).update(copy.deepcopy(state_dict))


class _Average(Metric):
    """A mean over samples."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, mean: float, count: int) -> None:
        """Takes `count` more samples, whose mean is `mean`."""
        self.total, self.count = self.total + mean * count, self.count + count

    def merge(self, state_dict: dict[str, Any]) -> None:
        self.total, self.count = self.total + state_dict["total"], self.count + state_dict["count"]

    def compute(self) -> float:
        return self.total / self.count if self.count else math.nan


class Mean(_Average):
    """The mean over samples of `function(output, target)`, which gives the mean of one batch, a number.

    Raises:
        TypeError: `function` cannot be called, at the first batch

    >>> import flambeau
    >>> error = flambeau.utils.trainer.Mean(lambda output, target: (output - target).abs().mean())
    >>> error.update(flambeau.tensor([1.0, 2.0]), flambeau.tensor([0.0, 0.0]))
    >>> error.update(flambeau.tensor([3.0]), flambeau.tensor([0.0]))
    >>> error.compute()
    2.0
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._function = function

    def update(self, output: Any, target: Any) -> None:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        mean = as_number(self._function(output, target), f"{name}(output, target)")
        self.add(mean, count_samples(target, output))


class Accuracy(_Average):
    """The share of samples whose class is among the `top` largest outputs.

    Outputs are (N, classes, …) and targets (N, …) of integers; for two classes outputs may have the targets' shape:
    those above 0 are class 1.

    Raises:
        RuntimeError: `top` is more than there are classes, at the first batch

    >>> import flambeau
    >>> accuracy = flambeau.utils.trainer.Accuracy()
    >>> accuracy.update(flambeau.tensor([[0.1, 0.9], [0.8, 0.2]]), flambeau.tensor([1, 1]))
    >>> accuracy.compute()
    0.5
    """

    def __init__(self, top: int = 1) -> None:
        super().__init__()
        self._top = top

    def update(self, output: Any, target: Any) -> None:
        if output.shape == target.shape:
            right = (output > 0) == (target > 0)
        elif self._top == 1:
            right = output.argmax(1) == target
        else:
            right = (output.topk(self._top, 1).indices == target.unsqueeze(1)).any(1)
        if right.numel():
            self.add(right.sum().item() / right.numel(), right.numel())


class Meter:
    """The loss and the metrics of an epoch, by their names."""

    def __init__(self, metrics: Mapping[str, Any]) -> None:
        self.loss = _Average()
        self.metrics = {
            name: metric if isinstance(metric, Metric) else Mean(metric) for name, metric in metrics.items()
        }
        for name in ("epoch", "loss", "lr"):
            if name in metrics:
                raise ValueError(f"Trainer: a metric cannot be named {name!r}: the history has that figure")

    def reset(self) -> None:
        for metric in (self.loss, *self.metrics.values()):
            metric.reset()

    def update(self, loss: float, input: Any, target: Any, output: Any) -> None:
        """Takes one batch."""
        self.loss.add(loss, count_samples(target, input))
        if self.metrics:
            with no_grad():
                for name, metric in self.metrics.items():
                    with named(f"metric {name!r}"):
                        metric.update(output, target)

    def compute(self) -> dict[str, float]:
        figures = {"loss": self.loss.compute()}
        for name, metric in self.metrics.items():
            with named(f"metric {name!r}"):
                figures[name] = as_number(metric.compute(), f"metric {name!r}")
        return figures

    def merge(self, state: dict[str, Any]) -> None:
        """Takes the batches of another process."""
        self.loss.merge(state["loss"])
        for name, metric in self.metrics.items():
            with named(f"metric {name!r}"):
                metric.merge(state["metrics"][name])

    def state_dict(self) -> dict[str, Any]:
        metrics = {name: metric.state_dict() for name, metric in self.metrics.items()}
        return {"loss": self.loss.state_dict(), "metrics": metrics}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loss.load_state_dict(state["loss"])
        for name, metric in self.metrics.items():
            metric.load_state_dict(state["metrics"][name])


class named:
    """Errors from inside have a note that says what was being called."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        """Nothing is known of what comes."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception):
            error.add_note(f"raised by the Trainer's {self.what}")


def as_number(value: Any, who: str) -> float:
    """A Python number of a number or of a tensor or array of one element.  TypeError for anything else."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise TypeError(f"{who} gave a tensor of shape {tuple(value.shape)}, wanted a number")
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{who} gave {value!r} of type {type(value).__name__}, wanted a number") from error


def count_samples(*data: Any) -> int:
    """How many samples a batch holds: the length of the first tensor found in `data`; 1 where there is none."""
    first = data[0] if isinstance(data[0], Tensor) else next(iter(tensors_in(data)), None)
    return 1 if first is None or first.dim() == 0 else first.size(0)


def tensors_in(data: Any) -> list[Tensor]:
    """The tensors of nested mappings and sequences."""
    if isinstance(data, Tensor):
        return [data]
    if isinstance(data, dict):
        data = list(data.values())
    if not isinstance(data, (list, tuple)):
        return []
    return [t for item in data for t in tensors_in(item)]
