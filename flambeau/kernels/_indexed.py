"""`indexed` and `scatter`: elements read, or written, at computed places."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..codegen import expr as ex
from ..codegen.expr import Expr
from ..core.base.dtypes import by_name, dtype
from ..core.base.tensor import TensorBase
from ..core.call.copies import to_dtype
from ..core.tape.contexts import unrecorded
from ..operations.declare.indexed import At, Indexed, Operand
from ..operations.declare.pointwise import compute_dtype
from ._bodies import Body
from ._functions import Derivative, called, numbers_of
from ._kinds import declares
from ._pointwise import publish
from ._sites import Sites
from ._traces import Trace


class Array:
    """An operand in a body: `x[i, j]` is an element, checked; `x.get(place, value)` reads `value` outside of the operand."""

    def __init__(self, at: At, operand: Operand):
        self._at, self._operand = at, operand
        self._trace = Trace(operand.dtype)

    def belongs_to(self, trace: Trace) -> Array:
        """The array as one trace of the body sees it."""
        self._trace = trace
        return self

    @property
    def ndim(self) -> int:
        return self._operand.rank

    def size(self, d: int) -> Expr:
        """How long a dimension is."""
        return self._trace.leaf_of(self._operand.size(d))

    def _place(self, place: Any) -> list[Expr]:
        """Coordinates that are known by what they stand for: one of the place itself needs no check."""
        place = tuple(place) if isinstance(place, (tuple, list)) else (place,)
        if len(place) != self.ndim:
            raise TypeError(f"{len(place)} coordinates for an operand of {self.ndim} dimensions")
        return [self._trace.resolve(i) if isinstance(i, Expr) else self._at.number(i) for i in place]

    def _read(self, element: Expr) -> Expr:
        return self._trace.leaf_of(self._trace.returned([element])[0])

    def _inside(self, place: Any) -> list[Expr]:
        return [self._at.checked(i, self._operand.size(d)) for d, i in enumerate(self._place(place))]

    def __getitem__(self, place: Any) -> Expr:
        return self._read(self._operand.load(self._inside(place)))

    def get(self, place: Sequence[Any], outside: Any) -> Expr:
        """The element, or `outside` where a coordinate is not within the bounds."""
        return self._read(self._operand.get(self._place(place), outside))

    def store(self, place: Sequence[Any], value: Any, how: str = "set") -> Any:
        """What a scatter does at a place: "set", "add", "mul", "min" or "max", checked."""
        if how not in ("set", "add", "mul", "min", "max"):
            raise ValueError(f"store: how must be set, add, mul, min or max, got {how!r}")
        value = value if isinstance(value, Expr) else ex.const(value, self._operand.dtype)
        return self._operand.store(self._inside(place), value, how)


class _Traced:
    """A body as `Indexed` calls it: with arrays whose places are checked."""

    def __init__(self, body: Body):
        self.body, self.__name__, self.__doc__ = body, body.name, body.function.__doc__
        self.__signature__ = inspect.signature(body.function)

    def __call__(self, at: At, *operands: Operand, **numbers: Any) -> Any:
        return self.body(at, *(Array(at, x) for x in operands), **numbers)


def _numbers(body: Body, values: dict[str, Any], static: frozenset[str]) -> dict[str, Any]:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            if name in static and (isinstance(value, bool) or _is_sizes(value)):
                continue
            kind = "an int, a float or a tuple of ints" if name in static else "an int or a float"
            raise TypeError(f"{body.name}(): argument '{name}' must be {kind}, not {type(value).__name__}")
    return values


def _is_sizes(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(n) is int for n in value)


def _check_tensors(body: Body, tensors: Sequence[Any]) -> None:
    for operand, t in zip(body.parameters.operands, tensors):
        if not isinstance(t, TensorBase):
            raise TypeError(f"{body.name}(): argument '{operand}' must be Tensor, not {type(t).__name__}")


def _static(body: Body, static: Iterable[str]) -> frozenset[str]:
    result = frozenset((static,) if isinstance(static, str) else static)
    for name in result - set(body.parameters.numbers):
        raise ValueError(f"{body.where}: static names '{name}', which is none of its parameters after `*`")
    return result


@declares
def indexed(
    function: Callable | None = None,
    *,
    shape: Callable | None = None,
    static: Iterable[str] = (),
    dtypes: Sequence[dtype | None] = (None,),
    effort: int = 8,
    name: str | None = None,
) -> Any:
    """An operation from a function of a place: an element is computed from elements at other, computed places.

    The function is called with `at`, the coordinates of the place of the result, with an array for each tensor, and with
    numbers.  `x[i, j]` is an element of an array: an IndexError where it lies outside; `x.get((i, j), value)` reads
    `value` there.  `x.size(d)` is a dimension's length, `at.sum((3, n), element)` the sum of `element(i, j)` over a window,
    `at.fold(extents, element, combine, init)` any fold in order.  Values of half types are float32.

    Args:
        function: the body; without it, a decorator is returned.
        shape: the results' shape, as a function of the call's arguments; by default that of the first tensor.
        static: numbers that a kernel is made for each value of: loops over windows up to 16 elements are written out, and
            `if` may look at them.  Other ints are as wide as coordinates are, floats are float64.
        dtypes: of the results, None for the first tensor's.
        effort: how many steps an element takes, which decides from when on threads help.
        name: what messages and nodes of the tape say.

    Returns:
        an operation, called as `op(*tensors, *, numbers…, out=None)`.  Its gradients are added where elements were read, one
        kernel for each place in the body that reads one; loops that are not written out, and second gradients, need
        `op.derivative`: a function of tensors that names what it reads of `grad`, the tensors, `out` and the numbers.

    Raises:
        TypeError: the function takes or returns what a kernel cannot; the message has its file and line.
        IndexError: at a call, for a place outside of a tensor; accelerators tell it later, when the host waits for them.

    >>> import flambeau
    >>> from flambeau import kernels
    >>> @kernels.indexed(static=("width",))
    ... def window_mean(at, x, *, width):
    ...     *row, i = at
    ...     return at.sum((width,), lambda k: x.get((*row, i + k - width // 2), 0)) / width
    >>> @window_mean.derivative
    ... def _(grad, width):
    ...     return window_mean(grad, width=width)
    >>> x = flambeau.tensor([3.0, 0.0, 0.0, 6.0], requires_grad=True)
    >>> window_mean(x, width=3)
    tensor([1., 1., 2., 2.], grad_fn=<WindowMeanBackward0>)
    """
    if function is None:
        return functools.partial(indexed, shape=shape, static=static, dtypes=dtypes, effort=effort, name=name)
    body = Body("indexed", function, name, ("at",), free=True)
    operands, numbers, _ = body.parameters
    fixed = _static(body, static)
    declared = Indexed(_Traced(body), sorted(fixed), (), tuple(dtypes), effort, False)
    derivative = Derivative(body.where, body.name, operands, numbers, len(declared.dtypes))

    def run(tensors: tuple, values: tuple) -> Any:
        _check_tensors(body, tensors)
        named = _numbers(body, dict(zip(numbers, values)), fixed)
        wanted = tensors[0].shape if shape is None else shape(*tensors, **named)
        if not isinstance(wanted, (tuple, list)) or any(type(n) is not int or n < 0 for n in wanted):
            raise RuntimeError(f"{body.where}: `shape` must return a tuple of sizes, and returned {wanted!r}")
        with unrecorded():
            result = declared(tuple(wanted), *tensors, **named)
        derivative.record(tensors, result if isinstance(result, tuple) else (result,), named)
        return result

    sites = Sites(_Traced(body), body.name, operands, numbers, fixed)

    def added(
        grads: Sequence[TensorBase], saved: Sequence[TensorBase], values: Any
    ) -> list[TensorBase | None]:
        try:
            result = sites.gradients(grads, saved, values)
        except TypeError as error:
            if "no rule differentiates" not in str(error):
                raise
            text = str(error).partition(";")[0]
            raise TypeError(
                f"{body.where}: {text}; declare its derivative with @{body.name}.derivative"
            ) from None
        second = Derivative(f"the gradient of {body.where}", body.name, (), (), 1)
        made = tuple(g for g in result if g is not None)
        second.record((*grads, *saved), made, {})
        return result

    derivative.automatic = added
    op = _op(body, len(declared.dtypes), run)
    op.derivative = derivative.declare
    return publish(op, function, body)


def _op(body: Body, results: int, run: Callable) -> Any:
    operands, numbers, defaults = body.parameters
    spelled, namespace = numbers_of(numbers, defaults)
    return called(
        body.name,
        results,
        f"{', '.join(operands)}{', *, ' + spelled if spelled else ''}",
        f"({', '.join(operands)},), ({''.join(n + ', ' for n in numbers)})",
        run,
        **namespace,
    )


@declares
def scatter(
    function: Callable | None = None,
    *,
    over: str | None = None,
    serial: int | None = None,
    static: Iterable[str] = (),
    effort: int = 8,
    name: str | None = None,
) -> Any:
    """An operation from a function of a place of a source: it says where in the first tensor a value is stored, and how.

    The function is called as that of `indexed`; its first array is the one written, and it returns
    `out.store(place, value, how)`, where `how` is "set", "add", "mul", "min" or "max".  The operation returns a new tensor: the first
    argument, with what was stored.  It is the means to write the derivative of an `indexed` kernel; its own gradients are
    declared with `op.derivative`.

    Args:
        over: the tensor whose places the function is called with; by default the second.
        serial: how many of the last dimensions are walked in order by one thread.  By default all: places may then
            meet.  Fewer run in parallel, and places from different threads must be different.
        static, effort, name: as in `indexed`.

    Raises:
        TypeError: the function has fewer than three parameters: `at`, what is written, and one that is read
        ValueError: `over` names no parameter

    >>> import flambeau
    >>> from flambeau import kernels
    >>> @kernels.scatter
    ... def add_at(at, out, index, values):
    ...     return out.store((index[at],), values[at], "add")
    >>> add_at(flambeau.zeros(3), flambeau.tensor([2, 0, 2]), flambeau.tensor([1.0, 2.0, 4.0]))
    tensor([2., 0., 5.])
    """
    if function is None:
        return functools.partial(scatter, over=over, serial=serial, static=static, effort=effort, name=name)
    body = Body("scatter", function, name, ("at",), free=True)
    operands, numbers, _ = body.parameters
    if len(operands) < 2:
        raise TypeError(f"{body.where} takes `at`, the tensor that is written, and at least one that is read")
    walked = operands[1] if over is None else over
    if walked not in operands[1:]:
        raise ValueError(f"{body.where}: over must name one of {', '.join(operands[1:])}, got {over!r}")
    fixed = _static(body, static)
    declared = Indexed(_Traced(body), sorted(fixed), (), (None,), effort, True)
    derivative = Derivative(body.where, body.name, operands, numbers, 1)

    def run(tensors: tuple, values: tuple) -> Any:
        _check_tensors(body, tensors)
        named = _numbers(body, dict(zip(numbers, values)), fixed)
        axes = tuple(tensors[operands.index(walked)].shape)
        with unrecorded():
            kind = tensors[0].dtype
            result = to_dtype(
                tensors[0].contiguous(), by_name[compute_dtype(kind.name)], True
            )  # sums are rounded once
            declared.into(result, axes, *tensors[1:], serial=len(axes) if serial is None else serial, **named)
            result = to_dtype(result, kind)
        derivative.record(tensors, (result,), named)
        return result

    op = _op(body, 1, run)
    op.derivative = derivative.declare
    return publish(op, function, body)
