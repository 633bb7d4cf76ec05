"""Sizes while a program is traced: numbers that know the call that gave them.

`x.shape[0]` is one, and what is computed of it is a call of the program, too.  Whoever needs a plain number of it (a loop's count, a
branch, a key) gets one, and the program a check that the number is the same: other sizes are then an error in place of a wrong result.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._tensor import Tensor
from ..core.base.dtypes import Size, by_name
from ..core.base.tensor import TensorBase
from ..nn.modules import rnn
from ..nn.modules.rnn import RNNBase
from ..operations.declare.registry import REGISTRY
from ..operations.neural.recurrent.sequences import EVEN
from ._state import TRACING

if TYPE_CHECKING:
    from ._trace import Tracer


class TracedNumber:
    """An int or a float that a traced program computes of sizes; `value` is that of the example."""

    __slots__ = ("name", "tracer", "value")
    stands_for: type = float

    def __init__(self, tracer: Tracer, name: str, value: Any) -> None:
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
        return self.tracer.require(("ne", operator.ne), self, 0)

    # --- what needs none ---
    def __neg__(self) -> Any:
        return self.tracer.computed("neg", operator.neg, self)

    def __pos__(self) -> TracedNumber:
        return self

    def __abs__(self) -> Any:
        return self if self.tracer.require(("ge", operator.ge), self, 0) else -self

    def __pow__(self, other: Any) -> Any:
        return self._fixed() ** plain(other)

    def __rpow__(self, other: Any) -> Any:
        return other ** self._fixed()

    def __divmod__(self, other: Any) -> Any:
        return operator.floordiv(self, other), operator.mod(self, other)

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, form: str) -> str:
        return format(self.value, form)

    def __deepcopy__(self, memo: Any) -> TracedNumber:
        return self


class TracedInt(TracedNumber):
    """An int that a traced program computes of sizes."""

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


class TracedFloat(TracedNumber):
    """A float that a traced program computes of sizes."""

    __slots__ = ()

    def is_integer(self) -> bool:
        """Whether it is one."""
        return bool(self._fixed().is_integer())


def plain(x: Any) -> Any:
    """The number of the example, of what stands for one."""
    return x.value if isinstance(x, TracedNumber) else x


def _arithmetic(name: str, called: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    function = getattr(operator, name)

    def forward(self: TracedNumber, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return function(_full_like(other, self), other)
        if not isinstance(other, (int, float, TracedNumber)):
            return NotImplemented
        return self.tracer.computed(called, function, self, other)

    def backward(self: TracedNumber, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return getattr(other, _METHODS.get(name, name))(self)
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.tracer.computed(called, function, other, self)

    return forward, backward


def _full_like(tensor: Any, number: TracedNumber) -> Any:
    """A number as a tensor like another, for operations that take numbers behind tensors alone."""
    whole = isinstance(number, TracedFloat) and not (tensor.is_floating_point() or tensor.is_complex())
    return REGISTRY["full_like"].function(
        tensor, float(number) if whole else number, **_FLOAT if whole else {}
    )


_FLOAT = {"dtype": by_name["float32"]}
_METHODS = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder"}  # of tensors


def _comparison(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def compare(self: TracedNumber, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return getattr(other, {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(name, name))(self)
        if not isinstance(other, (int, float, TracedNumber)):
            return NotImplemented
        return self.tracer.require((name, function), self, other)

    return compare


for _name, _called in (
    ("add", "add"),
    ("sub", "sub"),
    ("mul", "mul"),
    ("truediv", "div"),
    ("floordiv", "floordiv"),
    ("mod", "remainder"),
):
    _forward, _backward = _arithmetic(_name, _called)
    setattr(TracedNumber, f"__{_name}__", _forward)
    setattr(TracedNumber, f"__r{_name}__", _backward)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(TracedNumber, f"__{_name}__", _comparison(_name))


class TracedSize(Size):
    """The shape of a tensor while a program is traced."""

    def __new__(cls, items: Any = ()) -> TracedSize:
        return tuple.__new__(cls, items)

    def numel(self) -> Any:
        """The product of the sizes."""
        count: Any = 1
        for n in self:
            count = n * count
        return count

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return TracedSize(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Any:
        return TracedSize((*self, *other))

    def __radd__(self, other: Any) -> Any:
        return TracedSize((*other, *self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, list)) or len(self) != len(other):
            return False
        return all([a is b or bool(a == b) for a, b in zip(self, other)])

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple([plain(n) for n in self if int(n) >= 0]))


# --- what a tensor says of its sizes while its thread traces ------------------------------
def _tracer_of(t: Any) -> Tracer | None:
    tracer = TRACING.tracer
    return tracer if tracer is not None and not tracer.suspended and tracer.knows(t) else None


def _shape(t: Any) -> Any:
    tracer = _tracer_of(t)
    found = TensorBase.shape.__get__(t)
    return (
        found if tracer is None else TracedSize([tracer.asked("size", t, d, n) for d, n in enumerate(found)])
    )


def _size(t: Any, dim: Any = None) -> Any:
    if dim is None:
        return t.shape
    tracer = _tracer_of(t)
    found = TensorBase.size(t, dim)
    return found if tracer is None else tracer.asked("size", t, dim, found)


def _stride(t: Any, dim: Any = None) -> Any:
    tracer = _tracer_of(t)
    found: Any = TensorBase.stride(t) if dim is None else TensorBase.stride(t, dim)
    if tracer is None:
        return found
    if dim is not None:
        return tracer.asked("stride", t, dim, found)
    return tuple([tracer.asked("stride", t, d, n) for d, n in enumerate(found)])


def _numel(t: Any) -> Any:
    tracer = _tracer_of(t)
    found = TensorBase.numel(t)
    return found if tracer is None else tracer.asked("numel", t, None, found)


def _storage_offset(t: Any) -> Any:
    tracer = _tracer_of(t)
    found = TensorBase.storage_offset(t)
    return found if tracer is None else tracer.asked("storage_offset", t, None, found)


def _len(t: Any) -> int:
    if _tracer_of(t) is None or t.dim() == 0:
        return TensorBase.__len__(t)
    return int(t.shape[0])


def _nbytes(t: Any) -> Any:
    return t.numel() * t.itemsize if _tracer_of(t) is not None else TensorBase.nbytes.__get__(t)


_PATCHES = {
    "shape": property(_shape),
    "size": _size,
    "stride": _stride,
    "numel": _numel,
    "nelement": _numel,
    "storage_offset": _storage_offset,
    "__len__": _len,
    "nbytes": property(_nbytes),
}


def _recurrent_layers(module: Any, sequence: Any, layout: Any, state: Any) -> Any:
    """The layers of a recurrent module as the one call that ATen has; as ever for packed batches."""
    if TRACING.tracer is None or layout is not EVEN:
        return _LAYERS(module, sequence, layout, state)
    op = REGISTRY["flat_" + module.mode.lower()].function
    weights = [getattr(module, name) for names in module._all_weights for name in names]
    hx = list(state) if len(state) > 1 else state[0]
    options = (module.bias, module.num_layers, module.dropout, module.training, module.bidirectional, False)
    output, *found = op(sequence, hx, weights, *options)
    return output, tuple(found)


def _recurrent_step(mode: str, x: Any, state: Any, weights: Any) -> Any:
    """A step of a recurrent cell as the one call that ATen has."""
    if TRACING.tracer is None or not TRACING.tracer.is_on():
        return _STEP(mode, x, state, weights)
    op = REGISTRY[f"flat_{mode.lower()}_cell"].function
    found = op(x, list(state) if len(state) > 1 else state[0], *weights[:4])
    return found if isinstance(found, tuple) else (found,)


_LAYERS, _STEP = RNNBase._layers, rnn.step_once
_lock = threading.Lock()
_traces = 0


def watch_sizes() -> None:
    """Let tensors ask the thread's tracer; until as many `unwatch_sizes` follow."""
    global _traces
    with _lock:
        _traces += 1
        if _traces == 1:
            for name, value in _PATCHES.items():
                setattr(Tensor, name, value)
            RNNBase._layers = _recurrent_layers  # type: ignore[method-assign,assignment]
            rnn.step_once = _recurrent_step


def unwatch_sizes() -> None:
    """End what `watch_sizes` began."""
    global _traces
    with _lock:
        _traces -= 1
        if _traces == 0:
            for name in _PATCHES:
                delattr(Tensor, name)
            RNNBase._layers = _LAYERS  # type: ignore[method-assign]
            rnn.step_once = _STEP
