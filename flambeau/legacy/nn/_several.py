"""Criterions that are sums of others."""

from __future__ import annotations

from typing import Any

from ._criterion import Criterion
from ._module import Factor
from ._recording import zeros_like
from .utils import recursiveAdd


class _Several(Criterion):
    criterions: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self.criterions = []
        self.weights = []

    def add(self, criterion: Any, weight: Factor = 1) -> Any:
        """Measure with one criterion more; returns this one."""
        self.criterions.append(criterion)
        self.weights.append(weight)
        return self

    def _parts(self, input: Any, target: Any) -> list[tuple[Any, Any]]:
        """Input and target of each criterion."""
        return [(input, target)] * len(self.criterions)

    def updateOutput(self, input: Any, target: Any) -> Any:
        parts = zip(self.weights, self.criterions, self._parts(input, target))
        self.output = sum(w * c.updateOutput(*p) for w, c, p in parts)
        return self.output

    def _gradients(self, input: Any, target: Any) -> list[Any]:
        """The weighted gradient of each criterion's input."""
        made = []
        for w, c, p in zip(self.weights, self.criterions, self._parts(input, target)):
            made.append(zeros_like(p[0]))
            recursiveAdd(made[-1], w, c.updateGradInput(*p))
        return made

    def _to_lua(self) -> dict[str, Any]:
        return super()._to_lua() | {"weights": list(self.weights)}


class MultiCriterion(_Several):
    """A weighted sum of criterions of the same input and target.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> c = nn.MultiCriterion().add(nn.MSECriterion(), 0.5).add(nn.AbsCriterion())
    >>> c.forward(flambeau.tensor([2.0]), flambeau.zeros(1)), c.backward(flambeau.tensor([2.0]), flambeau.zeros(1))
    (4.0, tensor([3.]))
    """

    def updateGradInput(self, input: Any, target: Any) -> Any:
        self.gradInput = zeros_like(input)
        for gradient in self._gradients(input, target):
            recursiveAdd(self.gradInput, gradient)
        return self.gradInput


class ParallelCriterion(_Several):
    """A weighted sum of criterions each of which measures its element of a list with its element of the target, a list, too;
    `repeatTarget`: with the same target.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> c = nn.ParallelCriterion().add(nn.MSECriterion(), 0.5).add(nn.AbsCriterion())
    >>> c.forward([flambeau.tensor([2.0]), flambeau.tensor([2.0])], [flambeau.zeros(1), flambeau.zeros(1)])
    4.0
    """

    repeatTarget = False

    def __init__(self, repeatTarget: bool = False) -> None:
        super().__init__()
        self.repeatTarget = repeatTarget

    def _parts(self, input: Any, target: Any) -> list[tuple[Any, Any]]:
        targets = [target] * len(input) if self.repeatTarget else target
        return list(zip(input, targets, strict=True))

    def updateGradInput(self, input: Any, target: Any) -> Any:
        self.gradInput = self._gradients(input, target)
        return self.gradInput
