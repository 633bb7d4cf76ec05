"""Numbers that a call reads of tensors (`item`), and goes on with: they are found again in each run.

Such a number is an object of its own, as those are that vary from call to call (`Reads.numbers`).  What makes it is a step of the plan: the
number lies in a tensor without dimensions, float64 or int64, in memory of its own, so that nobody writes over it.  Pointwise operations
take it from there as a number, and a result is made a number of Python's again.  Whoever looks at it otherwise refuses the capture.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.make.create import scalar_tensor
from .record import Place, place
from .sources import Computed, ItemOf, Object, Source

# Functions of numbers that give a float, and whose class does not depend on the numbers, where one is a float.
EXACT = frozenset(
    (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.pos,
     operator.iadd, operator.isub, operator.imul, operator.itruediv, float, abs,
     math.sqrt, math.exp, math.expm1, math.log, math.log1p, math.log2, math.log10, math.sin, math.cos, math.tan, math.tanh,
     math.atan, math.fabs, math.pow)
)  # fmt: skip


def is_exact(function: Callable[..., Any], args: tuple[float, ...]) -> bool:
    """Whether a function may be called in each run, with the numbers that are found there.

    >>> from flambeau.graph.measured import is_exact
    >>> is_exact(max, (1.0, 2.0)), is_exact(max, (1.0, 2)), is_exact(float, (1,)), is_exact(round, (1.0,))
    (True, False, True, False)
    """
    return function in EXACT or (function in (max, min) and all(type(x) is float for x in args))


def number_tensor(value: float) -> TensorBase:
    """A number in a tensor without dimensions.

    >>> from flambeau.graph.measured import number_tensor
    >>> number_tensor(3)
    tensor(3)
    """
    return scalar_tensor(value, dtype=by_name["float64" if type(value) is float else "int64"], device="cpu")


def read_number(t: TensorBase) -> TensorBase:
    """What `item` reads of a tensor.

    >>> import flambeau as torch
    >>> from flambeau.graph.measured import read_number
    >>> read_number(torch.ones(1))
    tensor(1., dtype=flambeau.float64)
    """
    return number_tensor(t.item())


def compute_number(function: Callable[..., float], *numbers: float) -> TensorBase:
    """What Python computes of numbers.

    >>> import operator
    >>> from flambeau.graph.measured import compute_number
    >>> compute_number(operator.add, 1.0, 2)
    tensor(3., dtype=flambeau.float64)
    """
    return number_tensor(function(*numbers))


class Measured:
    """The numbers of one recording, and where each will lie."""

    def __init__(self) -> None:
        self.read: dict[int, Place] = {}  # by the number of the call that reads it
        self.computed: dict[Place, tuple[Callable[..., float], tuple[Any, ...]]] = {}
        self.objects: dict[int, tuple[float, Place]] = {}  # by identity
        self._places: dict[Source, Place] = {}

    def item(self, call: int, value: float) -> ItemOf:
        """The source of a number that a call has read."""
        source = ItemOf(call)
        self.read[call] = self._places[source] = place(number_tensor(value))
        return source

    def place_of(self, source: Source) -> Place:
        """Where the number of a source lies, which is made of such as were found."""
        if source not in self._places:
            assert isinstance(source, Computed)
            operands = tuple(x.value if isinstance(x, Object) else self.place_of(x) for x in source.of)
            self._places[source] = at = place(number_tensor(0.0))
            self.computed[at] = source.function, operands
        return self._places[source]

    def take(self, value: float, source: Source) -> None:
        """An operation takes the number."""
        self.objects[id(value)] = value, self.place_of(source)
