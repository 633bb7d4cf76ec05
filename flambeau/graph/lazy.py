"""Lazy calls: operations wait until a result is looked at, and run as plans where a program repeats them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..core.base.tensor import TensorBase

__all__ = ["lazy"]

F = TypeVar("F", bound=Callable[..., Any])

_thread = threading.local()  # .on: the `Lazy` of this thread, while its calls wait


class lazy:  # noqa: N801  a context, as no_grad
    """Operations of this thread wait until a result is looked at; what waits then runs at once, fused where the same calls ran before.

    A context (`with lazy():`), a decorator (`@lazy()`), and a switch: `lazy.enable()`, `lazy.disable()`.  `lazy(False)` is a context
    in which calls run as they come.  Shapes, dtypes, and errors that follow from them are there at once.  Looking at elements (`item`,
    `print`, `numpy`, `if x > 0`) computes them, and so does the end of the context.  Errors that depend on elements, such as an index out
    of range, come then.  What draws random numbers, depends on values (`nonzero`), lies on other devices than the CPU or writes to `out=`
    runs at once, after what waits.  Backward passes wait, too; an optimiser's `step()` runs at once.

    NumPy arrays that share a tensor's memory must not be written to while calls that read it wait.

    Raises:
        RuntimeError: where a result is looked at whose computation failed before; the first to look gets the error itself

    >>> import flambeau as torch
    >>> with torch.lazy():
    ...     x = torch.linspace(0, 1, 5)
    ...     y = (x.exp() - 1).sum()     # nothing is computed yet
    ...     print(f"{y.item():.4f}")
    3.7680
    """

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._entered: list[Any] = []

    def __enter__(self) -> lazy:
        self._entered.append(getattr(_thread, "on", None))
        lazy.enable() if self.mode else lazy.disable()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._entered.pop() is None:
            lazy.disable()
        else:
            lazy.enable()

    def __call__(self, function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with lazy(self.mode):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    @staticmethod
    def enable() -> None:
        """Let operations of this thread wait from now on; nothing changes inside of a recording, such as a call that is compiled.

        >>> import flambeau as torch
        >>> torch.lazy.enable()
        >>> torch.lazy.is_enabled()
        True
        >>> torch.lazy.disable()
        """
        if getattr(_thread, "on", None) is None:
            made = _engine().Lazy()
            if made.start():
                _thread.on = made

    @staticmethod
    def disable() -> None:
        """Run what waits in this thread, and let operations run as they come.

        >>> import flambeau as torch
        >>> torch.lazy.disable()
        >>> torch.lazy.is_enabled()
        False
        """
        on, _thread.on = getattr(_thread, "on", None), None
        if on is not None:
            on.stop()

    @staticmethod
    def run() -> None:
        """Run what waits in this thread, as a training loop that looks at nothing does after each step.

        >>> import flambeau as torch
        >>> with torch.lazy():
        ...     x = torch.ones(3) + 1
        ...     torch.lazy.run()
        """
        on = getattr(_thread, "on", None)
        if on is not None:
            on.flush()

    @staticmethod
    def is_enabled() -> bool:
        """Whether operations of this thread wait.

        >>> import flambeau as torch
        >>> torch.lazy.is_enabled()
        False
        """
        return getattr(_thread, "on", None) is not None


def _engine() -> Any:
    from . import segment

    segment.set_planners(_plan, _each)
    return segment


def _plan(segment: Any, varying: list[float]) -> Any:
    """The Runner of a segment, whose last inputs are these floats; NotImplemented where one of them is not read as an operand.

    None where there is no plan, and the segment runs call by call.
    """
    from ..core.base.dtypes import by_name
    from .entries import log
    from .lower import plan
    from .program import Program
    from .record import Place
    from .trace import graph_of

    calls = segment.calls()
    if not all(_is_operand(x, calls) for x in varying):
        return NotImplemented
    given = segment.first_places()
    numbers = [(x, len(given) + k) for k, x in enumerate(varying)]
    given += [Place(-1 - k, 0, (), (), by_name["float64"], None) for k in range(len(varying))]
    try:
        graph = graph_of(segment, given, tuple(_made_places(calls)[k] for k in segment.live), numbers)
        return plan(Program(graph))
    except Exception as error:  # a mistake of this compiler costs speed, and no more
        log.warning("lazy(): not planned: %s: %s", type(error).__name__, error, exc_info=True)
        return None


def _is_operand(number: float, calls: list[Any]) -> bool:
    """Whether a float is an argument of pointwise calls alone, on dtypes that it does not widen."""
    from ..core.base.dtypes import by_name
    from ..core.call.pointwise import InPlaceOp, PointwiseOp
    from .record import Place
    from .trace import mapped

    for call in calls:
        result: list[Any] = []
        mapped((call.args, call.kwargs), (Place, float), result.append)
        if not any(x is number for x in result):
            continue
        direct = any(x is number for x in (*call.args, *call.kwargs.values()))
        wide = all(
            p.dtype.is_floating_point or p.dtype in (by_name["bool"], by_name["int64"])
            for p in result
            if isinstance(p, Place)
        )
        if not (direct and wide and isinstance(call.operation, (PointwiseOp, InPlaceOp))):
            return False
    return True


def _made_places(calls: list[Any]) -> dict[int, Any]:
    """The whole of each storage that a call makes."""
    from .record import Place
    from .trace import mapped

    places: dict[int, Any] = {}
    for call in calls:
        mapped(call.result, Place, lambda p: places.setdefault(p.storage, p))
    return places


def _each(segment: Any) -> list[TensorBase]:
    """Run a segment call by call; the tensors that somebody waits for."""
    from ..operations.declare.registry import REGISTRY
    from .record import Place, serial
    from .trace import mapped

    given = segment.first_places()
    known = {serial(t) for t in segment.inputs}
    first = {p.storage: (p, t) for p, t in zip(given, segment.inputs, strict=True)}

    def tensor(p: Place) -> TensorBase:
        return segment.tensor_at(p, first[p.storage][1])

    def enter(p: Place, t: TensorBase) -> None:
        if p.storage in first:
            return
        if (p.shape, p.stride, p.dtype, p.offset) != (
            tuple(t.shape),
            t.stride(),
            t.dtype,
            t.storage_offset(),
        ):
            if p.shape != tuple(t.shape) or p.dtype != t.dtype:
                raise RuntimeError(
                    f"lazy(): {p.dtype} of shape {list(p.shape)} was expected, got {t.dtype} of shape {list(t.shape)}"
                )
            laid = REGISTRY["empty_strided"].function(p.shape, p.stride, dtype=p.dtype)
            t = laid.copy_(t)
        elif serial(t) in known:  # of an operation that returns an argument
            t = t.clone()
        known.add(serial(t))
        first[p.storage] = (p, t)

    calls = segment.calls()
    for call in calls:
        args, kwargs = mapped((call.args, call.kwargs), Place, tensor)
        result: list[TensorBase] = []
        mapped(call.operation(*args, **kwargs), TensorBase, result.append)
        places: list[Place] = []
        mapped(call.result, Place, places.append)
        for p, t in zip(places, result, strict=True):
            enter(p, t)
    return [first[k][1] for k in segment.live]
