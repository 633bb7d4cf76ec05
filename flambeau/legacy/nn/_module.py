"""What all modules have: Lua Torch's `nn.Module`, and the base of those that are one formula."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

from ..._tensor import Tensor
from ...autograd import is_grad_enabled, no_grad
from ...core.base.dtypes import by_name
from ...core.make.create import empty, zeros
from ._recording import Recording, detached, each, tensors
from .utils import clear, recursiveType

Factor = float  # inside of a class that has a method `float`


class Module:
    """The base of all modules: `forward` gives and keeps `output`, `backward` gives and keeps `gradInput` and adds to the
    gradients of the parameters.

    Attributes:
        output, gradInput: of the last call; a tensor or, where a module takes or gives several, a list of them.
        weight, bias, gradWeight, gradBias: parameters and what `backward` has added up; None where there are none.
        train: whether `training` (as from the start) or `evaluate` was called last.

    A module of one's own has `updateOutput(input)`, which sets and returns `self.output`, `updateGradInput(input,
    gradOutput)`, which sets and returns `self.gradInput`, and with parameters `accGradParameters(input, gradOutput, scale)`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> class Double(nn.Module):
    ...     def updateOutput(self, input):
    ...         self.output = input * 2
    ...         return self.output
    ...     def updateGradInput(self, input, gradOutput):
    ...         self.gradInput = gradOutput * 2
    ...         return self.gradInput
    >>> x = flambeau.tensor([3.0])
    >>> net = nn.Sequential().add(Double()).add(nn.Square())
    >>> net.forward(x), net.backward(x, flambeau.ones(1))
    (tensor([36.]), tensor([24.]))
    """

    weight: Any = None
    bias: Any = None
    gradWeight: Any = None
    gradBias: Any = None
    train = True

    # parameters in their order; the gradient of `weight` is `gradWeight`
    _parameters: ClassVar[tuple[str, ...]] = ("weight", "bias")
    # what a file of Lua counts from 1, and what it calls otherwise
    _from_one: ClassVar[tuple[str, ...]] = ()
    _in_lua: ClassVar[dict[str, str]] = {}
    _not_in_lua: ClassVar[tuple[str, ...]] = ("_recording", "_slices")
    _lists: ClassVar[tuple[str, ...]] = ()  # what is a list of the attributes `gradInput` and `output`
    _version = 1  # of what a file has

    def __init__(self) -> None:
        self.gradInput: Any = [] if "gradInput" in self._lists else empty(0)
        self.output: Any = [] if "output" in self._lists else empty(0)
        self._type = empty(0).type()

    def __repr__(self) -> str:
        return f"nn.{self.__class__.__name__}{self._shown()}"

    def _shown(self) -> str:
        """What stands behind the name in the `repr`."""
        return ""

    # ---------------------------------------------------------------- computing

    def updateOutput(self, input: Any) -> Any:
        """Set and return `output`, what the module makes of the input."""
        return self.output

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        """Set and return `gradInput`, given the gradients of the output; `forward` was called with the same input before."""
        return self.gradInput

    def accGradParameters(self, input: Any, gradOutput: Any, scale: Factor = 1) -> None:
        """Add `scale` times the gradients of the parameters to `gradWeight`, `gradBias` …"""

    def forward(self, input: Any) -> Any:
        """What the module makes of the input: `updateOutput`."""
        return self.updateOutput(input)

    def backward(self, input: Any, gradOutput: Any, scale: Factor = 1) -> Any:
        """`updateGradInput` and `accGradParameters`; returns `gradInput`."""
        self.updateGradInput(input, gradOutput)
        self.accGradParameters(input, gradOutput, scale)
        return self.gradInput

    def backwardUpdate(self, input: Any, gradOutput: Any, lr: Factor) -> Any:
        """`updateGradInput` and `accUpdateGradParameters`; returns `gradInput`."""
        self.updateGradInput(input, gradOutput)
        self.accUpdateGradParameters(input, gradOutput, lr)
        return self.gradInput

    def accUpdateGradParameters(self, input: Any, gradOutput: Any, lr: Factor) -> None:
        """A step of `-lr` times their gradients for the parameters, which leaves `gradWeight` … as they are."""
        names = [n for n in self._parameters if getattr(self, n) is not None]
        gradients = {_gradient(n): getattr(self, _gradient(n)) for n in names}
        try:
            for name in names:
                setattr(self, _gradient(name), getattr(self, name))
            self.accGradParameters(input, gradOutput, -lr)
        finally:
            vars(self).update(gradients)

    def sharedAccUpdateGradParameters(self, input: Any, gradOutput: Any, lr: Factor) -> None:
        """The same for parameters that are shared with other modules: over `gradWeight` …, which are overwritten."""
        if self.parameters():
            self.zeroGradParameters()
            self.accGradParameters(input, gradOutput, 1)
            self.updateParameters(lr)

    # ---------------------------------------------------------------- parameters

    def parameters(self) -> tuple[list[Tensor], list[Tensor]] | None:
        """The parameters and their gradients, or None if there are none."""
        names = [n for n in self._parameters if getattr(self, n) is not None]
        if not names:
            return None
        return [getattr(self, n) for n in names], [getattr(self, _gradient(n)) for n in names]

    def zeroGradParameters(self) -> None:
        """Set the gradients of the parameters to 0."""
        for gradient in (self.parameters() or ((), ()))[1]:
            gradient.zero_()

    def updateParameters(self, learningRate: Factor) -> None:
        """A step of `-learningRate` times the gradients that were added up."""
        for p, g in zip(*(self.parameters() or ((), ()))):
            p.add_(g, alpha=-learningRate)

    def reset(self, stdv: Factor | None = None) -> Any:
        """Draw the parameters anew; by default uniformly, within ± 1 / √(number of inputs) mostly."""

    def _draw(self, stdv: Factor | None, fan: Factor) -> None:
        bound = fan**-0.5 if stdv is None else stdv * 3**0.5
        for name in self._parameters:
            if getattr(self, name) is not None:
                getattr(self, name).uniform_(-bound, bound)

    def flattenParameters(self) -> tuple[Tensor, Tensor] | None:
        """All parameters as one vector, and their gradients as another, in whose memory they lie from now on; None
        without parameters. Parameters that shared memory share it still, and stand there once.

        >>> import flambeau
        >>> from flambeau.legacy import nn
        >>> net = nn.Linear(2, 3)
        >>> x, g = net.flattenParameters()
        >>> x.zero_().shape, net.weight.sum().item()
        (flambeau.Size([9]), 0.0)
        """
        result = self.parameters()
        if result is None:
            return None
        flat, gradients = _flat(result[0]), _flat(result[1])
        if [p.storage_offset() for p in result[0]] != [g.storage_offset() for g in result[1]]:
            raise ValueError("the parameters and their gradients share memory in different ways")
        return flat, gradients

    getParameters = flattenParameters

    # ---------------------------------------------------------------- the whole module

    def training(self) -> None:
        """Compute as in training."""
        self.train = True

    def evaluate(self) -> None:
        """Compute as with new data: without noise, with the statistics gathered in training."""
        self.train = False

    def type(self, type: Any = None, tensorCache: dict | None = None) -> Any:
        """The type of the module's tensors, as a name; given one (or a dtype), convert them and return the module."""
        if type is None:
            return self._type
        cache: dict = {} if tensorCache is None else tensorCache
        for name, value in list(vars(self).items()):
            setattr(self, name, recursiveType(value, type, cache))
        self._type = empty(0).type(type).type()
        return self

    def float(self, *args: Any) -> Any:
        """The module in single precision."""
        return self.type("torch.FloatTensor", *args)

    def double(self, *args: Any) -> Any:
        """The module in double precision."""
        return self.type("torch.DoubleTensor", *args)

    def cuda(self, *args: Any) -> Any:
        """The module on the CUDA device."""
        return self.type("torch.cuda.FloatTensor", *args)

    def clone(self, *names: str) -> Any:
        """A copy; the attributes named (`"weight"`, `"bias"`, …) share their memory with this module's."""
        made = copy.deepcopy(self)
        made.share(self, *names)
        return made

    def share(self, mlp: Any, *names: str) -> Any:
        """Let the tensors named lie in the memory of another module's; containers do it for all they hold."""
        for name in names:
            mine, other = getattr(self, name, None), getattr(mlp, name, None)
            if isinstance(mine, Tensor) and isinstance(other, Tensor):
                mine.set_(other.untyped_storage(), other.storage_offset(), other.shape, other.stride())
        return self

    def clearState(self) -> Any:
        """Let go of what the last calls left, before a module is written to a file."""
        return clear(self, "output", "gradInput")

    def listModules(self) -> list[Any]:
        """The module and all it holds."""
        return [self, *(m for child in getattr(self, "modules", ()) for m in child.listModules())]

    def findModules(self, typename: Any, container: Any = None) -> tuple[list[Any], list[Any]]:
        """All modules of a class, given as such or as a name (`'nn.Linear'`), and for each the container that it is in."""
        named = isinstance(typename, str)
        mine = f"nn.{self.__class__.__name__}" == typename if named else isinstance(self, typename)
        result = [(self, container)] if mine else []
        nodes, holders = [n for n, _ in result], [c for _, c in result]
        for child in getattr(self, "modules", ()):
            below, around = child.findModules(typename, self)
            nodes += below
            holders += around
        return nodes, holders

    def apply(self, callback: Callable[[Any], Any]) -> None:
        """Call a function with the module and with all it holds."""
        for module in self.listModules():
            callback(module)

    def replace(self, callback: Callable[[Any], Any]) -> Any:
        """What the function makes of the module, and of all that is held by what it returns."""
        made = callback(self)
        if hasattr(made, "modules"):
            made.modules[:] = [m.replace(callback) for m in made.modules]
        return made

    # ---------------------------------------------------------------- files of Lua

    def write(self, file: Any) -> None:
        """Write the state into a file of Lua that is being written (`utils.serialization.T7Writer`)."""
        file.writeObject(self._to_lua())

    def read(self, file: Any, version: int | None = None) -> None:
        """Take the state from a file that is being read (`utils.serialization.T7Reader`)."""
        self._from_lua(file.readObject() or {}, self._version if version is None else version)

    def _to_lua(self) -> dict[str, Any]:
        """The attributes as a file of Lua has them."""
        made = {}
        for name, value in vars(self).items():
            if value is not None and name not in self._not_in_lua:
                value = counted(value, 1) if name in self._from_one else value
                made[self._in_lua.get(name, name)] = value
        return made | {"_type": f"torch.{self._type.rpartition('.')[2]}"}

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        """Take the attributes that a file of Lua has."""
        ours = {theirs: name for name, theirs in self._in_lua.items()}
        mine = vars(self)
        for theirs, value in attributes.items():
            name = ours.get(theirs, theirs)
            mine[name] = counted(value, -1) if name in self._from_one else value
        for name in ("output", "gradInput"):
            mine.setdefault(name, empty(0))
        mine["_type"] = type_of(mine.get("_type"), *(mine.get(name) for name in self._parameters))


class Computed(Module):
    """A module that is one formula: `compute(input, weight, bias)`, with the parameters that `_parameters` names.

    The formula uses today's operations, and its gradients come from the tape. It is computed once for `forward` and both
    gradients, or again if the input or the parameters were written to in between; so it must not change the module. What a
    call draws or counts (noise, running means) belongs into `prepare`, which `forward` calls once before.
    """

    _recording: Recording | None = None
    inplace = False  # modules that have it write the output over the input

    def compute(self, input: Any, *parameters: Any) -> Any:
        """What the module makes of the input."""
        raise NotImplementedError(f"{type(self).__name__} has no formula: define compute(self, input, …)")

    def prepare(self, input: Any) -> None:
        """What happens once in each `forward`, before the formula."""

    def _own_tensors(self) -> list[Any]:
        return [getattr(self, name) for name in self._parameters]

    def _record(self, input: Any) -> Recording:
        self._recording = Recording(self.compute, input, self._own_tensors())
        return self._recording

    def _recorded(self, input: Any) -> Recording:
        recording = self._recording
        return (
            recording
            if recording is not None and recording.is_of(input, self._own_tensors())
            else self._record(input)
        )

    def updateOutput(self, input: Any) -> Any:
        with no_grad():
            self.prepare(input)
        self._recording = None
        if self.inplace:
            return self._over(input)
        if is_grad_enabled():
            self.output = detached(self._record(input).output)
        else:
            self.output = detached(self.compute(input, *self._own_tensors()))
        return self.output

    def _over(self, input: Tensor) -> Tensor:
        """The output, written over the input; the tape keeps the elements that were there."""
        before = input.detach().clone()
        recording = self._record(before)
        with no_grad():
            input.copy_(recording.output)
        recording.inputs[0] = input
        recording.look()
        self.output = input
        return input

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self._gradients(input, gradOutput, True, None)
        return self.gradInput

    def accGradParameters(self, input: Any, gradOutput: Any, scale: Factor = 1) -> None:
        self._gradients(input, gradOutput, False, scale)

    def backward(self, input: Any, gradOutput: Any, scale: Factor = 1) -> Any:
        for name in ("updateGradInput", "accGradParameters"):
            if getattr(getattr(self, name), "__func__", None) is not vars(Computed)[name]:  # somebody's own
                return super().backward(input, gradOutput, scale)
        self._gradients(input, gradOutput, True, scale)  # both on one way back
        return self.gradInput

    def _gradients(self, input: Any, gradOutput: Any, of_input: bool, scale: Factor | None) -> None:
        """Set `gradInput`, and with a scale add to the parameters' gradients."""
        names = [n for n in self._parameters if getattr(self, n) is not None and scale is not None]
        if not of_input and not names:
            return
        recording = self._recorded(input)
        leaves = tensors(recording.input) if of_input else []
        parameters = [p for p in recording.parameters if p is not None] if names else []
        result = iter(recording.gradients([*leaves, *parameters], gradOutput))
        if of_input:
            self.gradInput = each(lambda x: next(result) if isinstance(x, Tensor) else 0, recording.input)
        for name in names:
            getattr(self, _gradient(name)).add_(next(result), alpha=scale)

    def type(self, type: Any = None, tensorCache: dict | None = None) -> Any:
        if type is not None:
            self._recording = None
        return super().type(type, tensorCache)

    def clearState(self) -> Any:
        self._recording = None
        return super().clearState()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_recording"}

    def _has(self, **sizes: Any) -> None:
        """Make parameters of these sizes, None for none, with gradients of 0."""
        for name, size in sizes.items():
            setattr(self, name, None if size is None else empty(size))
            setattr(self, _gradient(name), None if size is None else zeros(size))

    def noBias(self) -> Any:
        """The module without its bias."""
        self.bias = self.gradBias = None
        return self


def _gradient(name: str) -> str:
    return f"grad{name[0].upper()}{name[1:]}"


def counted(value: Any, by: int) -> Any:
    """A number, or numbers in lists and tensors, counted from one more or less; negative ones count from the end in both."""
    if isinstance(value, (list, tuple)):
        return [counted(v, by) for v in value]
    if isinstance(value, Tensor):
        return own(value) + by
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value + by if number and value >= 0 else value


def type_of(named: Any, *parameters: Any) -> str:
    """The type of a module in a file: that of its parameters, or the one that Lua names, or the default."""
    for p in parameters:
        if isinstance(p, Tensor):
            return p.type()
    word = named.rpartition(".")[2].removeprefix("Cuda") if isinstance(named, str) else ""
    return (
        empty(0)
        .type(f"torch.{word}" if word in ("DoubleTensor", "HalfTensor") else "torch.FloatTensor")
        .type()
    )


def own(x: Tensor) -> Tensor:
    """The tensor, if it has not more elements than its memory: one of a file, that is to be computed with."""
    if x.numel() * x.dtype.itemsize > x.untyped_storage().nbytes():
        raise ValueError(f"a tensor of shape {tuple(x.shape)} in less memory")
    return x


def _flat(parameters: list[Tensor]) -> Tensor:
    """One vector in whose memory the tensors lie afterwards, each element of memory that they had once."""
    starts: dict[tuple, int] = {}  # of what each storage holds
    used: dict[tuple, Tensor] = {}
    for p in parameters:
        if p.numel() and 1 + sum((n - 1) * s for n, s in zip(p.shape, p.stride())) != p.numel():
            raise ValueError(f"a parameter of shape {tuple(p.shape)} and strides {p.stride()} has holes")
        storage = p.untyped_storage()
        mask = used.setdefault(_place(p), zeros(storage.nbytes() // p.dtype.itemsize, dtype=by_name["bool"]))
        mask[p.storage_offset() : p.storage_offset() + p.numel()] = True
    total = 0
    for key, mask in used.items():
        starts[key] = total
        total += int(mask.sum())
    first = parameters[0]
    flat = empty(total, dtype=first.dtype, device=first.device)
    placed = []
    for p in parameters:
        at = starts[_place(p)] + int(used[_place(p)][: p.storage_offset()].sum())
        placed.append(at)
        flat.as_strided(p.shape, p.stride(), at).copy_(p)
    for p, at in zip(parameters, placed):
        p.set_(flat.untyped_storage(), at, p.shape, p.stride())
    return flat


def _place(p: Tensor) -> tuple:
    return (p.untyped_storage()._address(), p.untyped_storage().nbytes())
