"""Numbers that a recorded program computes of sizes: `SymInt` and its kin, and `sym_max`, `sym_not` … on them and on Python's own.

`x.shape[0]` is one while a program is traced or exported, and what is computed of it is a step of the program, too.  Whoever needs a plain
number of it (a loop's count, a key) gets that of the example, and the recorder is notified: it holds the number, or refuses.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..operations.declare.registry import REGISTRY

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]


class Recorder(Protocol):
    """Records a program, and is notified of what it does with sizes."""

    def computed(self, called: str, function: Callable[..., Any], *operands: Any) -> Any:
        """The number that a function gives of numbers: one of the operator module, or `sym_max` and its kin, by name."""

    def compared(self, called: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
        """The outcome of a comparison: a bool, or a `SymBool`."""

    def decided(self, outcome: SymBool) -> bool:
        """The bool of one, which the program's way depends on from here."""

    def demanded(self, outcome: SymBool, message: str | None) -> None:
        """The program demands it: what is exported holds for such sizes alone."""

    def require_equal(self, number: SymNumber) -> None:
        """The program takes a number as that of the example."""

    def shown(self, number: SymNumber) -> str:
        """Its text."""


class SymNumber:
    """A number that a recorded program computes of sizes; `value` is that of the example, `name` the recorder's own."""

    __slots__ = ("name", "tracer", "value")
    stands_for: type = float

    def __init__(self, tracer: Recorder, name: Any, value: Any) -> None:
        self.tracer, self.name, self.value = tracer, name, value

    # --- where a plain number is needed ---
    def _fixed(self) -> Any:
        self.tracer.require_equal(self)
        return self.value

    def __int__(self) -> int:
        return int(self._fixed())

    def __float__(self) -> float:
        return float(self._fixed())

    def __complex__(self) -> complex:
        return complex(self._fixed())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._fixed(), digits)

    def __floor__(self) -> int:
        return math.floor(self._fixed())

    def __ceil__(self) -> int:
        return math.ceil(self._fixed())

    def __trunc__(self) -> int:
        return math.trunc(self._fixed())

    def __hash__(self) -> int:
        return hash(self._fixed())

    def __bool__(self) -> bool:
        return bool(self.tracer.compared("ne", operator.ne, self, 0))

    # --- what needs none ---
    def __neg__(self) -> Any:
        return self.tracer.computed("neg", operator.neg, self)

    def __pos__(self) -> SymNumber:
        return self

    def __abs__(self) -> Any:
        return self if self.tracer.compared("ge", operator.ge, self, 0) else -self

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 < other <= 8:
            result: Any = self
            for _ in range(other - 1):
                result = result * self
            return result
        return self._fixed() ** plain(other)

    def __rpow__(self, other: Any) -> Any:
        return other ** self._fixed()

    def __divmod__(self, other: Any) -> Any:
        return operator.floordiv(self, other), operator.mod(self, other)

    def __repr__(self) -> str:
        return self.tracer.shown(self)

    def __format__(self, form: str) -> str:
        return format(self.value, form) if form else self.tracer.shown(self)

    def __deepcopy__(self, memo: Any) -> SymNumber:
        return self


class SymInt(SymNumber):
    """An int that a recorded program computes of sizes: what `x.shape[0]` is while a dimension that may vary is exported.

    Arithmetic and comparisons give others; `int(n)`, `range(n)` and the like fix it, as they do in PyTorch.

    Raises:
        TypeError: one is made by a program; recorders make them

    >>> import flambeau as torch
    >>> class Doubled(torch.nn.Module):
    ...     def forward(self, x):
    ...         assert isinstance(x.shape[0], torch.SymInt)
    ...         return x.new_ones(x.shape[0] * 2)
    >>> program = torch.export.export(Doubled(), (torch.ones(3),), dynamic_shapes=({0: torch.export.Dim("n")},))
    >>> program.module()(torch.ones(4)).shape
    flambeau.Size([8])
    """

    __slots__ = ()
    stands_for = int

    def __index__(self) -> int:
        return int(self._fixed())

    def bit_length(self) -> int:
        """As of an int."""
        return int(self._fixed()).bit_length()

    def is_integer(self) -> bool:
        """True."""
        return True

    @property
    def node(self) -> Any:
        """What the recorder holds of it."""
        return self.name


class SymFloat(SymNumber):
    """A float that a recorded program computes of sizes, such as `x.shape[0] / 2`.

    Raises:
        TypeError: one is made by a program; recorders make them

    >>> import flambeau as torch
    >>> isinstance(2.0, torch.SymFloat)
    False
    """

    __slots__ = ()

    def is_integer(self) -> bool:
        """Whether it is one."""
        return bool(self._fixed().is_integer())


class SymBool(SymNumber):
    """The outcome of a comparison of sizes, before a program's way depends on it.

    `bool(b)` decides: what is exported then holds for the sizes of that outcome alone.  `flambeau._check(b)` demands it.

    Raises:
        TypeError: one is made by a program; recorders make them

    >>> import flambeau as torch
    >>> isinstance(True, torch.SymBool)
    False
    """

    __slots__ = ()
    stands_for = bool

    def _fixed(self) -> Any:
        return self.tracer.decided(self)

    def __bool__(self) -> bool:
        return self.tracer.decided(self)

    def __and__(self, other: Any) -> Any:
        return self.tracer.computed("and_", operator.and_, self, other)

    def __or__(self, other: Any) -> Any:
        return self.tracer.computed("or_", operator.or_, self, other)

    def __invert__(self) -> Any:
        return self.tracer.computed("sym_not", operator.not_, self)

    __rand__, __ror__ = __and__, __or__


def plain(x: Any) -> Any:
    """The number of the example, of what stands for one."""
    return x.value if isinstance(x, SymNumber) else x


# --- arithmetic ------------------------------
def _arithmetic(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    function = getattr(operator, name)

    def forward(self: SymNumber, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return function(_full_like(other, self), other)
        if not isinstance(other, (int, float, SymNumber)):
            return NotImplemented
        return self.tracer.computed(name, function, self, other)

    def backward(self: SymNumber, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return getattr(other, _METHODS.get(name, name))(self)
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.tracer.computed(name, function, other, self)

    return forward, backward


def _full_like(tensor: Any, number: SymNumber) -> Any:
    """A number as a tensor like another, for operations that take numbers behind tensors alone."""
    whole = isinstance(number, SymFloat) and not (tensor.is_floating_point() or tensor.is_complex())
    return REGISTRY["full_like"].function(
        tensor, float(number) if whole else number, **_FLOAT if whole else {}
    )


_FLOAT = {"dtype": by_name["float32"]}
_METHODS = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder"}  # of tensors
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _comparison(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def compare(self: SymNumber, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return getattr(other, _TURNED.get(name, name))(self)
        if not isinstance(other, (int, float, SymNumber)):
            return NotImplemented
        return self.tracer.compared(name, function, self, other)

    return compare


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    _forward, _backward = _arithmetic(_name)
    setattr(SymNumber, f"__{_name}__", _forward)
    setattr(SymNumber, f"__r{_name}__", _backward)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymNumber, f"__{_name}__", _comparison(_name))


# --- functions ------------------------------
def _recorder(*given: Any) -> Recorder | None:
    return next((x.tracer for x in given if isinstance(x, SymNumber)), None)


def sym_int(a: Any) -> Any:
    """`int(a)`; a `SymInt` stays one.

    Raises:
        ValueError: the argument is NaN, or a text that is no integer
        TypeError: it is no number
        OverflowError: it is infinite

    >>> sym_int(2.7)
    2
    """
    if isinstance(a, SymInt):
        return a
    return a.tracer.computed("sym_int", int, a) if isinstance(a, SymFloat) else int(a)


def sym_float(a: Any) -> Any:
    """`float(a)`; a `SymInt` becomes a `SymFloat`.

    Raises:
        ValueError: the argument is a text that is no number
        TypeError: it is no number

    >>> sym_float(2)
    2.0
    """
    if isinstance(a, SymFloat):
        return a
    return a.tracer.computed("sym_float", float, a) if isinstance(a, SymInt) else float(a)


def sym_not(a: Any) -> Any:
    """`not a`; of a `SymBool` another, of which nothing is decided.

    Raises:
        RuntimeError: the argument is a tensor of several elements

    >>> sym_not(False)
    True
    """
    return ~a if isinstance(a, SymBool) else not a


def _numbers(name: str, *given: Any) -> bool:
    """Whether one of them is a float; TypeError unless all are numbers."""
    for a in given:
        if not isinstance(a, (int, float, SymNumber)):
            raise TypeError(f"{name}(): expected int or float, got {type(a).__name__}")
    return any(isinstance(a, (float, SymFloat)) for a in given)


def _extreme(name: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
    real, recorder = _numbers(name, a, b), _recorder(a, b)

    def chosen(a: Any, b: Any) -> Any:
        return float(function(a, b)) if real else function(a, b)

    return chosen(a, b) if recorder is None else recorder.computed(name, chosen, a, b)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers, sizes among them; a float if one of them is, whichever is larger.

    Raises:
        TypeError: an argument is neither int nor float

    >>> sym_max(3, 2.0)
    3.0
    """
    return _extreme("sym_max", max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers, sizes among them; a float if one of them is, whichever is smaller.

    Raises:
        TypeError: an argument is neither int nor float

    >>> sym_min(2, 3.0)
    2.0
    """
    return _extreme("sym_min", min, a, b)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` if `b` else `f`, which must be of one type; TypeError otherwise.

    >>> sym_ite(True, 1, 2)
    1
    """
    kinds = [getattr(x, "stands_for", type(x)) for x in (t, f)]
    if not isinstance(b, (bool, SymBool)) or kinds[0] is not kinds[1]:
        raise TypeError(
            f"sym_ite(): expected a bool and two values of one type, got {type(b).__name__}, {type(t).__name__}, {type(f).__name__}"
        )
    if isinstance(b, SymBool):
        return b.tracer.computed("sym_ite", lambda b, t, f: t if b else f, b, t, f)
    return t if b else f


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, given apart or as one sequence.

    Raises:
        TypeError: an argument cannot be added to a number

    >>> sym_sum(1, 2, 3), sym_sum([1, 2, 3])
    (6, 6)
    """
    if len(args) == 1 and isinstance(args[0], Sequence):
        return sum(args[0])
    return sum(args)


def sym_sqrt(a: Any) -> Any:
    """The square root of a number; of a size one that is computed at each call.

    Raises:
        ValueError: the number is negative
        TypeError: the argument is no number

    >>> sym_sqrt(9)
    3.0
    """
    return a.tracer.computed("sym_sqrt", math.sqrt, a) if isinstance(a, SymNumber) else math.sqrt(a)
