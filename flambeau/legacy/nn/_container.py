"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.make.create import empty
from ...core.places.join import cat
from ...nn import functional as F
from ._module import Factor, Module
from ._recording import Recording, detached, zeros_like
from .utils import recursiveAdd


class Container(Module):
    """The base of modules that hold others, in the list `modules`: queries of parameters go to them.

    >>> from flambeau.legacy import nn
    >>> net = nn.Sequential().add(nn.Linear(2, 3)).add(nn.Tanh())
    >>> net.size(), net.get(1), len(net.parameters()[0])
    (2, nn.Tanh, 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self.modules: list[Any] = []

    def add(self, module: Any) -> Any:
        """Hold one module more; returns the container."""
        self.modules.append(module)
        return self

    def get(self, index: int) -> Any:
        """The module at a place."""
        return self.modules[index]

    def size(self) -> int:
        """The number of modules."""
        return len(self.modules)

    def applyToModules(self, func: Callable[[Any], Any]) -> None:
        """Call a function with each module that is held here, not with those that they hold."""
        for module in self.modules:
            func(module)

    def zeroGradParameters(self) -> None:
        self.applyToModules(lambda m: m.zeroGradParameters())

    def updateParameters(self, learningRate: Factor) -> None:
        self.applyToModules(lambda m: m.updateParameters(learningRate))

    def training(self) -> None:
        self.applyToModules(lambda m: m.training())
        super().training()

    def evaluate(self) -> None:
        self.applyToModules(lambda m: m.evaluate())
        super().evaluate()

    def share(self, mlp: Any, *names: str) -> Any:
        for mine, other in zip(self.modules, mlp.modules, strict=True):
            mine.share(other, *names)
        return self

    def reset(self, stdv: Factor | None = None) -> Any:
        self.applyToModules(lambda m: m.reset(stdv))
        return self

    def parameters(self) -> Any:
        result = [p for p in (m.parameters() for m in self.modules) if p is not None]
        if not result:
            return None
        return [p for ps, _ in result for p in ps], [g for _, gs in result for g in gs]

    def clearState(self) -> Any:
        self.applyToModules(lambda m: m.clearState())
        return super().clearState()

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        super()._from_lua({"modules": [], **attributes}, version)
        if not isinstance(self.modules, list):
            raise TypeError(f"its modules are a {type(self.modules).__name__}")

    def _lines(self, first: str, between: str, last: str) -> str:
        held = [f"({i}): {m!r}".replace("\n", f"\n  {between}") for i, m in enumerate(self.modules)]
        inside = "".join(f"\n  {first}{line}" for line in held)
        return f"nn.{self.__class__.__name__} {{\n  {last}{inside}\n}}"


class Sequential(Container):
    """Modules one after another: each takes what the one before gives.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.Sequential().add(nn.MulConstant(3)).add(nn.Square())
    >>> net
    nn.Sequential {
      [input -> (0) -> (1) -> output]
      (0): nn.MulConstant
      (1): nn.Square
    }
    >>> x = flambeau.tensor([2.0])
    >>> net.forward(x), net.backward(x, flambeau.ones(1))
    (tensor([36.]), tensor([36.]))
    """

    def __len__(self) -> int:
        return len(self.modules)

    def insert(self, module: Any, index: int) -> Any:
        """Put a module before the one at a place; returns the container."""
        self.modules.insert(index, module)
        return self

    def remove(self, index: int = -1) -> Any:
        """Take the module at a place out; returns the container."""
        del self.modules[index]
        return self

    def updateOutput(self, input: Any) -> Any:
        for module in self.modules:
            input = module.updateOutput(input)
        self.output = input
        return input

    def _backwards(self, input: Any, gradOutput: Any, step: Callable[[Any, Any, Any], Any]) -> Any:
        """`step(module, its input, gradient of its output)` from the last module to the first."""
        inputs = [input, *(m.output for m in self.modules[:-1])]
        for module, x in zip(reversed(self.modules), reversed(inputs)):
            step(module, x, gradOutput)
            gradOutput = module.gradInput
        return gradOutput

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self.gradInput = self._backwards(input, gradOutput, lambda m, x, g: m.updateGradInput(x, g))
        return self.gradInput

    def accGradParameters(self, input: Any, gradOutput: Any, scale: Factor = 1) -> None:
        self._backwards(input, gradOutput, lambda m, x, g: m.accGradParameters(x, g, scale))

    def accUpdateGradParameters(self, input: Any, gradOutput: Any, lr: Factor) -> None:
        self._backwards(input, gradOutput, lambda m, x, g: m.accUpdateGradParameters(x, g, lr))

    def backward(self, input: Any, gradOutput: Any, scale: Factor = 1) -> Any:
        self.gradInput = self._backwards(input, gradOutput, lambda m, x, g: m.backward(x, g, scale))
        return self.gradInput

    def __repr__(self) -> str:
        way = " -> ".join(["input", *(f"({i})" for i in range(len(self.modules))), "output"])
        return self._lines("", "", f"[{way}]")


class Branches(Container):
    """Modules side by side: what each gets of the input is `_scatter`, what is made of their outputs `_gather`. Both are
    formulas, whose gradients come from the tape."""

    def _scatter(self, input: Any) -> list[Any]:
        """The input of each module; the same one by default."""
        return [input] * len(self.modules)

    def _gather(self, outputs: list[Any]) -> Any:
        """The output, made of the modules'; by default the list of them."""
        return outputs

    def updateOutput(self, input: Any) -> Any:
        outputs = [m.updateOutput(x) for m, x in zip(self.modules, self._inputs(input), strict=True)]
        self.output = detached(self._gather(outputs))
        return self.output

    def _inputs(self, input: Any) -> list[Any]:
        return self._scatter(input)

    def _backwards(self, input: Any, gradOutput: Any, step: Callable[[Any, Any, Any], Any]) -> None:
        """`step(module, its input, gradient of its output)` for each module."""
        gathering = Recording(self._gather, [m.output for m in self.modules], ())
        gradients = gathering.gradients_of_input(gradOutput)
        for module, x, g in zip(self.modules, self._inputs(input), gradients, strict=True):
            step(module, x, g)

    def _joined(self, input: Any) -> Any:
        """The gradient of the input, of those that the modules have."""
        total: Any = None
        for module in self.modules:
            total = zeros_like(input) if total is None else total
            recursiveAdd(total, module.gradInput)
        return total

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self._backwards(input, gradOutput, lambda m, x, g: m.updateGradInput(x, g))
        self.gradInput = self._joined(input)
        return self.gradInput

    def accGradParameters(self, input: Any, gradOutput: Any, scale: Factor = 1) -> None:
        self._backwards(input, gradOutput, lambda m, x, g: m.accGradParameters(x, g, scale))

    def accUpdateGradParameters(self, input: Any, gradOutput: Any, lr: Factor) -> None:
        self._backwards(input, gradOutput, lambda m, x, g: m.accUpdateGradParameters(x, g, lr))

    def backward(self, input: Any, gradOutput: Any, scale: Factor = 1) -> Any:
        self._backwards(input, gradOutput, lambda m, x, g: m.backward(x, g, scale))
        self.gradInput = self._joined(input)
        return self.gradInput

    def __repr__(self) -> str:
        return self._lines("|`-> ", "|    ", "input")


class Concat(Branches):
    """Modules that take the same input; their outputs are joined along a dimension.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.Concat(0).add(nn.Identity()).add(nn.MulConstant(2))
    >>> net.forward(flambeau.tensor([1.0, 2.0]))
    tensor([1., 2., 2., 4.])
    """

    _from_one = ("dimension",)

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def _gather(self, outputs: list[Any]) -> Any:
        return cat(outputs, self.dimension)


class DepthConcat(Concat):
    """The same where outputs differ in the other dimensions, too: smaller ones lie in the middle of zeros.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.DepthConcat(0).add(nn.Identity()).add(nn.Narrow(1, 0, 1))
    >>> net.forward(flambeau.ones(1, 3))
    tensor([[1., 1., 1.],
            [0., 1., 0.]])
    """

    def _gather(self, outputs: list[Any]) -> Any:
        size = [max(x.shape[d] for x in outputs) for d in range(outputs[0].dim())]
        return super()._gather([self._padded(x, size) for x in outputs])

    def _padded(self, x: Any, size: list[int]) -> Any:
        pads: list[int] = []
        for d in reversed(range(x.dim())):
            missing = 0 if d == self.dimension % x.dim() else size[d] - x.shape[d]
            pads += [missing // 2, missing - missing // 2]
        return F.pad(x, pads)


class ConcatTable(Branches):
    """Modules that take the same input; the output is the list of theirs.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.ConcatTable().add(nn.Identity()).add(nn.MulConstant(2))
    >>> x = flambeau.tensor([1.0])
    >>> net.forward(x), net.backward(x, [flambeau.ones(1), flambeau.ones(1)])
    ([tensor([1.]), tensor([2.])], tensor([3.]))
    """

    _lists = ("output",)


class ParallelTable(Branches):
    """Modules each of which takes its element of the input, a list; the output is the list of theirs.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.ParallelTable().add(nn.Identity()).add(nn.MulConstant(2))
    >>> net.forward([flambeau.tensor([1.0]), flambeau.tensor([5.0])])
    [tensor([1.]), tensor([10.])]
    """

    _lists = ("gradInput", "output")

    def _scatter(self, input: Any) -> list[Any]:
        return list(input)

    def _joined(self, input: Any) -> Any:
        return [m.gradInput for m in self.modules]


class Parallel(Branches):
    """Modules each of which takes its slice of the input along `inputDimension`; their outputs are joined along
    `outputDimension`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.Parallel(0, 0).add(nn.Identity()).add(nn.MulConstant(2))
    >>> net.forward(flambeau.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 2., 6., 8.])
    """

    _from_one = ("inputDimension", "outputDimension")

    def __init__(self, inputDimension: int, outputDimension: int) -> None:
        super().__init__()
        self.inputDimension = inputDimension
        self.outputDimension = outputDimension

    _slices: tuple[Any, list[Any]] | None = None

    def _scatter(self, input: Any) -> list[Any]:
        return list(input.unbind(self.inputDimension))

    def _inputs(self, input: Any) -> list[Any]:
        """The slices, the same objects for `forward` and `backward`, so that modules know them again."""
        if self._slices is None or self._slices[0] is not input:
            self._slices = input, self._scatter(input)
        return self._slices[1]

    def _gather(self, outputs: list[Any]) -> Any:
        return cat(outputs, self.outputDimension)

    def _joined(self, input: Any) -> Any:
        return Recording(self._scatter, input, ()).gradients_of_input([m.gradInput for m in self.modules])

    def clearState(self) -> Any:
        self._slices = None
        return super().clearState()


class MapTable(Container):
    """One module for each element of the input, a list: copies of it that share its parameters.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MapTable(nn.MulConstant(2)).forward([flambeau.tensor([1.0]), flambeau.tensor([5.0])])
    [tensor([2.]), tensor([10.])]
    """

    _lists = ("gradInput", "output")

    def __init__(self, module: Any = None) -> None:
        super().__init__()
        if module is not None:
            self.add(module)

    def add(self, module: Any) -> Any:
        """Set the module; returns the container."""
        self.modules = [module]
        return self

    def _side_by_side(self, n: int) -> ParallelTable:
        first = self.modules[0]
        while len(self.modules) < n:
            self.modules.append(first.clone())
        for twin in self.modules[1:n]:
            _tie(twin, first)
        table = ParallelTable()
        table.modules = self.modules[:n]
        return table

    def updateOutput(self, input: Any) -> Any:
        self.output = self._side_by_side(len(input)).updateOutput(input)
        return self.output

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self.gradInput = self._side_by_side(len(input)).updateGradInput(input, gradOutput)
        return self.gradInput

    def accGradParameters(self, input: Any, gradOutput: Any, scale: Factor = 1) -> None:
        self._side_by_side(len(input)).accGradParameters(input, gradOutput, scale)

    def accUpdateGradParameters(self, input: Any, gradOutput: Any, lr: Factor) -> None:
        self._side_by_side(len(input)).accUpdateGradParameters(input, gradOutput, lr)

    def parameters(self) -> Any:
        return self.modules[0].parameters() if self.modules else None

    def zeroGradParameters(self) -> None:
        self.modules[0].zeroGradParameters()

    def updateParameters(self, learningRate: Factor) -> None:
        self.modules[0].updateParameters(learningRate)

    def clearState(self) -> Any:
        del self.modules[1:]
        return super().clearState()


def _tie(twin: Any, module: Any) -> None:
    """Let a copy's parameters lie in the memory of the module's, which may have moved."""
    for mine, theirs in zip(twin.parameters() or (), module.parameters() or ()):
        for a, b in zip(mine, theirs):
            if a.data_ptr() != b.data_ptr():
                a.set_(b.untyped_storage(), b.storage_offset(), b.shape, b.stride())


class CriterionTable(Module):
    """A criterion as a module that takes the list `[input, target]`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CriterionTable(nn.MSECriterion()).forward([flambeau.zeros(2), flambeau.ones(2)])
    1.0
    """

    def __init__(self, criterion: Any) -> None:
        super().__init__()
        self.criterion = criterion
        self.gradInput = [empty(0)]

    def updateOutput(self, input: Any) -> Any:
        self.output = self.criterion.updateOutput(*input)
        return self.output

    def updateGradInput(self, input: Any, gradOutput: Any = None) -> Any:
        self.gradInput = [self.criterion.updateGradInput(*input)]
        return self.gradInput
