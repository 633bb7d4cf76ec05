"""Tensors with a dimension that the program does not see, and what overrides the operations on them.

A `Batched` tensor has the shape of one slice; its elements lie in another tensor with the slices along the first dimension.
That one may be batched itself, by the `vmap` around: each level computes an operation by an operation on what is inside of
its own tensors, until there are none.  The tape, tangents and devices are those of the innermost elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from operator import index
from typing import Any, ClassVar

from .._tensor import Tensor
from .._wrapper.wrapper_tensor import WrapperTensor
from ..core.base.tensor import TensorBase
from ..core.call.interceptors import Mode, add_override_class, disable_overrides, in_current_order, modes_on
from ..core.call.operation import behind
from ..core.make.create import empty
from ..core.tape import current_pass, is_forward_open
from ..operations.declare.registry import REGISTRY
from ._refusals import NotForAllSlices

_numbers = count()
_blank: dict[Any, TensorBase] = {}  # tensors on `meta` that any geometry fits into, by dtype
_as_strided: Callable = REGISTRY["as_strided"].function.function


class Level:
    """One run of a mapped function: how many slices there are, and what random operations do.

    Its tensors hold it.  While it lives, the class of batched tensors overrides operations: no longer, for a class that
    overrides makes every small call dearer.
    """

    def __init__(self, size: int, randomness: str) -> None:
        self.size, self.randomness = size, randomness
        self.number = next(_numbers)  # inner levels come later
        self.open = True
        add_override_class(self)

    def tensor(self, elements: TensorBase) -> Batched:
        """The batched tensor over elements whose first dimension counts slices."""
        made = Batched._make_subclass(Batched, _outline(elements))
        made._elements, made._level = elements, self
        return made

    def wrapped(self, result: Any) -> Any:
        """A result over elements as one over slices."""
        if isinstance(result, TensorBase):
            return self.tensor(result)
        if isinstance(result, tuple):
            parts = [self.wrapped(x) for x in result]
            return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
        if type(result) is list:
            return [self.wrapped(x) for x in result]
        return result

    def inside(self, x: Any) -> Any:
        """The elements of a tensor of this level, None for anything else."""
        return x._elements if type(x) is Batched and x._level is self else None

    def broadcast(self, x: TensorBase) -> TensorBase:
        """The elements of a tensor, repeated without copying where it is not of this level."""
        result = self.inside(x)
        return x.expand(self.size, *x.shape) if result is None else result


def _outline(elements: TensorBase) -> TensorBase:
    """A tensor without data like one slice."""
    dtype = elements.dtype
    blank = _blank.get(dtype)
    if blank is None:
        disable_overrides(1)
        try:
            blank = _blank[dtype] = empty(1 << 57, dtype=dtype, device="meta")
        finally:
            disable_overrides(-1)
    return _as_strided(blank, elements.shape[1:], elements.stride()[1:])


class Batched(WrapperTensor):
    """A tensor inside of a mapped function: the shape of one slice, the elements of all."""

    _elements: Any
    _level: Level
    _is: ClassVar[str] = "a tensor inside of vmap"
    _is_batched = True
    _overrides_while_alive = True

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return dispatch_batched(func, args, kwargs or {}, None)

    @classmethod
    def _refusal(cls, name: str) -> NotImplementedError:
        return NotImplementedError(f"vmap: {name}() is not available inside of a function that is mapped")

    def _with(self, elements: Any) -> Batched:
        return self._level.tensor(elements)

    stride = Tensor.stride

    def storage_offset(self) -> int:
        """That of the first slice."""
        return self._elements.storage_offset()

    def to_dense(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Itself: it is no sparse tensor."""
        return self

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """RuntimeError: gradients of slices are taken by `func.grad`, or outside."""
        raise RuntimeError(
            "backward() called inside of a function that is mapped. This is not supported, please use func.grad or func.vjp "
            "instead or call backward() outside of vmap"
        )

    def _everywhere(self) -> bool:
        elements = self._elements
        return elements._everywhere() if elements._is_wrapper else elements.is_meta or bool(elements.all())

    def _reshaped(self) -> None:
        """Take the outline again, after the elements were given another shape in place."""
        self._take(_outline(self._elements))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        inside = repr(self._elements).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={depth(self)}, bdim=0, value=\n    {inside}\n)"

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __bool__(self) -> bool:
        if (same := in_all_slices(self)) is not None:
            return bool(same)
        raise NotForAllSlices(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that "
            "yet; write both branches and choose with `where`."
        )

    def _one(self, what: str) -> Any:
        same, convert = in_all_slices(self), _CONVERSIONS.get(what)
        return no_item() if same is None or convert is None else convert(same)

    def __reversed__(self) -> Any:
        return self.flip(0) if self.ndim else self


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "an int": int,
    "a float": float,
    "a complex": complex,
    "an index": index,
}


def in_all_slices(x: Any) -> Any:
    """What all slices hold inside of `jvp`, where they hold the same: as where tangents are mapped and primals are not.

    None where they differ, and outside of forward mode, where nothing is said of values.
    """
    if not is_forward_open() or not isinstance(x, Batched) or not x._elements.numel():
        return None
    elements = x._elements.detach()
    return elements[0] if bool((elements == elements[:1]).all()) else None


def no_item() -> None:
    """RuntimeError: a mapped tensor has many values."""
    raise NotForAllSlices(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please "
        "try to rewrite what you're doing with other operations."
    )


def depth(x: Any) -> int:
    """How many mapped functions a tensor is inside of."""
    return 1 + depth(x._elements) if type(x) is Batched else 0


def broadcast_over(x: TensorBase, levels: list[Level]) -> TensorBase:
    """A tensor as one of all those levels (the outermost first), repeated without copying where it is the same for all slices."""
    if not levels:
        return x
    *outer, level = levels
    inside = level.inside(x)
    if inside is not None:
        return level.tensor(broadcast_over(inside, outer))
    return level.tensor(level.broadcast(broadcast_over(x, outer)))


def running_levels() -> list[Level]:
    """Those of the mapped functions that run now, the outermost first."""
    return [mode.level for mode in modes_on(True) if isinstance(mode, Running)]


def innermost(values: Iterable) -> Level | None:
    """The level of the innermost of tensors in arguments."""
    result: Level | None = None
    for x in values:
        if type(x) is Batched:
            level: Level | None = x._level
        elif type(x) in (tuple, list):
            level = innermost(x)
        elif type(x) is dict:
            level = innermost(x.values())
        elif type(x) is slice:
            level = innermost((x.start, x.stop, x.step))
        else:
            continue
        if level is not None and (result is None or level.number > result.number):
            result = level
    return result


Rule = Callable[[Level, Any, list, dict, "Running | None"], Any]


def dispatch_batched(op: Any, args: tuple, kwargs: dict, running: Running | None) -> Any:
    """An operation with batched arguments, by the rule for it at the innermost of their levels."""
    op, (args, kwargs) = behind(op), in_current_order(op, args, kwargs)
    level = innermost(args)
    if kwargs:
        other = innermost(kwargs.values())
        if level is None or (other is not None and other.number > level.number):
            level = other
    if level is None:
        return op(*args, **kwargs)
    if not level.open and current_pass() is None:  # backward passes read what the function kept
        raise RuntimeError(
            f"{getattr(op, '__name__', op)}(): a tensor has escaped from inside of a function that was mapped; let the function "
            "return it"
        )
    return rules[op](level, op, list(args), kwargs, running)


class Rules(dict[Any, Rule]):
    """The rules that were requested, by operation."""

    find: Callable[[Any], Rule]  # set by `_rules`

    def __missing__(self, op: Any) -> Rule:
        result = self[op] = self.find(op)
        return result


rules = Rules()


class Running(Mode):
    """What is on while a mapped function runs: random operations come to it, whatever their arguments."""

    upper = True

    def __init__(self, level: Level, random: frozenset, draw: Callable) -> None:
        self.level, self.random, self.draw = level, random, draw

    def handle(self, operation: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        """An operation inside of the function."""
        operation = behind(operation)
        if operation in self.random:
            return self.draw(self, operation, args, kwargs)
        return dispatch_batched(operation, args, kwargs, self)
