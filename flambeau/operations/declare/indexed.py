"""The declaration of operations whose elements come from, or go to, computed places.

    @indexed(static=("dim",), moves=("src",))
    def gather(at, src, index, *, dim):
        "out[i][j] = src[index[i][j]][j] along dimension 0, and so on."
        return src[*at[:dim], at.checked(index[at], src.size(dim)), *at[dim + 1 :]]

    out = gather(index.shape, src, index, dim=0)

    @scatter(static=("dim",))
    def scatter_add(at, out, index, src, *, dim):
        place = (*at[:dim], at.checked(index[at], out.size(dim)), *at[dim + 1 :])
        return out.store(place, src[at], "add")

`at` holds the coordinates of the place that is computed.  Keyword-only arguments are static (part of the kernel) or
run-time numbers; an int is as wide as coordinates are, a float is a float64.  Half types are loaded as float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...codegen import expr as ex
from ...codegen import indexed as ix
from ...codegen.expr import Expr
from ...core.base.dtypes import by_name
from ...core.base.parameters import parameters
from ...core.base.tensor import TensorBase
from ...core.call.function import FunctionOp
from ...core.call.interceptors import has_interceptors
from ...core.loops import indexed as core
from ...core.make.create import empty
from . import machine
from .pointwise import CODE_NAMES, compute_dtype

CARRIERS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "uint128"}
WIDTHS = {name: dtype.itemsize for name, dtype in by_name.items()}


class At(tuple):
    """The coordinates of a place, and what a body builds coordinates with."""

    integer: str

    def checked(self, i: Expr, size: Expr, negative: bool = False) -> Expr:
        """An index from memory; the operation fails where it is out of bounds."""
        return ix.checked(i, size, self.integer, negative)

    def sum(self, extents: Sequence, element: Callable) -> Expr:
        """Sum of `element(i, j, …)` over the loops."""
        return ix.sum_over(extents, self.integer, element)

    def fold(self, extents: Sequence, element: Callable, combine: Callable, init: Sequence[Expr]):
        """`state = combine(state, element(i, j, …))` over the loops, in order."""
        return ix.fold_over(extents, self.integer, element, combine, init)

    def repeat(self, state: Sequence[Expr], holds: Callable, step: Callable) -> tuple[Expr, ...]:
        """`while holds(*state): state = step(*state)`; of devices alone."""
        return ix.repeat(state, holds, step)

    def size(self, d: int) -> Expr:
        """How many places there are along a dimension."""
        return ex.make("extent", (), self.integer, d)

    def number(self, value: int) -> Expr:
        return ex.const(value, self.integer)


class Operand(ix.Array):
    """An operand in a body; elements of half types are float32 there."""

    def load(self, at, valid=None) -> Expr:
        result = super().load(at, valid)
        return ex.cast(result, compute_dtype(self.dtype))

    def store(self, at: Sequence[Expr], value: Expr, how: str = "set") -> ix.Store:
        """What a scatter does at a place."""
        return ix.Store(ex.cast(value, self.dtype), tuple(ex.cast(i, self.integer) for i in at), how)


class Indexed:
    """A declared body; calling it makes the results, `into` writes to a tensor that exists."""

    def __init__(
        self,
        body: Callable,
        static: Sequence[str],
        moves: Sequence[str],
        dtypes: Sequence,
        effort: int,
        writes: bool,
    ):
        self.body, self.name, self.__doc__ = body, body.__name__, body.__doc__
        self.operands = parameters(body)[0][1:]
        self.static, self.dtypes, self.writes = frozenset(static), tuple(dtypes), writes
        self.moved = [n in moves or (k == 0 and writes and bool(moves)) for k, n in enumerate(self.operands)]
        self.launcher = core.Launcher(self, self.static, effort)
        # what interceptors see
        self.making, self.writing = (FunctionOp(f, self.name, owns=False) for f in (self.made, self.written))

    def __call__(self, shape: Sequence[int], *inputs: TensorBase, most: int = 0, **params: Any) -> Any:
        """The results, each of that shape: a tensor, or a tuple of them.

        `most`: the largest number that the body computes on the way to a place, where that is more than an argument
        times a size.
        """
        return (self.making if has_interceptors() else self.made)(shape, *inputs, most=most, **params)

    def made(self, shape: Sequence[int], *inputs: TensorBase, most: int = 0, **params: Any) -> Any:
        """A call without dispatch."""
        first, shape = inputs[0], tuple(shape)
        outs = tuple([empty(shape, dtype=d or first.dtype, device=first.device) for d in self.dtypes])
        self.run(outs, inputs, shape, 0, True, params, most)
        return outs[0] if len(outs) == 1 else outs

    def into(
        self,
        out: TensorBase,
        axes: Sequence[int],
        *inputs: TensorBase,
        serial: int = 0,
        lanes: bool = False,
        **params: Any,
    ) -> TensorBase:
        """Write to `out`, going over `axes`, the last `serial` of them in order.

        `lanes`: neighbours along the last axis that is not serial are neighbours in memory.
        """
        write = self.writing if has_interceptors() else self.written
        return write(out, axes, *inputs, serial=serial, lanes=lanes, **params)

    def written(
        self,
        out: TensorBase,
        axes: Sequence[int],
        *inputs: TensorBase,
        serial: int,
        lanes: bool,
        **params: Any,
    ) -> TensorBase:
        """`into` without dispatch."""
        self.run((out,), inputs, tuple(axes), serial, lanes, params)
        return out

    def run(
        self,
        outs: tuple,
        inputs: tuple,
        axes: tuple,
        serial: int,
        lanes: bool,
        params: dict[str, Any],
        most: int = 0,
    ) -> None:
        if not self.launcher.run(outs + inputs, len(outs), axes, serial, lanes, params, most):
            raise IndexError(f"{self.name}(): an index is out of bounds")

    def address(self, *wanted: Any) -> int:
        return machine.address(self.kernel(*wanted))

    def kernel(
        self, signature, short: bool, params: dict, outputs: int, axes: int, serial: int, vector: bool
    ) -> ix.Indexed:
        """The traced body for such operands; see `core.indexed.Launcher.run`."""
        integer = "int32" if short else "int64"
        first = 0 if self.writes else outputs
        memory = []
        for k, s in enumerate(signature):
            name = CODE_NAMES[s & 31]
            moved = self.moved[k - first] if k >= first else any(self.moved)
            if not moved and name not in ex.BITS:  # a dtype that is stored, and computed in others
                raise NotImplementedError(f"{self.name}(): \"{self.name}\" not implemented for '{name}'")
            memory.append(ix.Memory(CARRIERS[WIDTHS[name]] if moved else name, s >> 6, bool(s >> 5 & 1)))
        ix.begin_trace()
        at = At(ix.coordinates(axes, integer))
        at.integer = integer
        arrays = [Operand(k, m.dtype, m.rank, integer) for k, m in enumerate(memory)]
        scalars, kinds = dict(params), []
        for name, value in params.items():
            if name not in self.static:
                kind = integer if isinstance(value, int) else "float64"
                scalars[name] = ex.param(len(kinds), kind)
                kinds.append(kind)
        result = self.body(at, *arrays[first:], **scalars)
        result = (
            result if isinstance(result, (tuple, list)) and not isinstance(result, ix.Store) else (result,)
        )
        if not self.writes:
            result = [a.store(at, v) for a, v in zip(arrays, result)]
        return ix.Indexed(
            self.name, axes, serial, tuple(result), tuple(memory), tuple(kinds), integer, vector
        )


def indexed(
    *, static: Sequence[str] = (), moves: Sequence[str] = (), dtypes: Sequence = (None,), effort: int = 1
) -> Callable[[Callable], Indexed]:
    """Declare what an element of each result is.

    `static`: arguments that the kernel is made for.  `moves`: operands whose elements are only moved, so that one
    kernel serves all dtypes of a width.  `dtypes`: of the results, None for the first operand's.  `effort`: how many
    steps an element is.
    """
    return lambda body: Indexed(body, static, moves, dtypes, effort, False)


def scatter(
    *, static: Sequence[str] = (), moves: Sequence[str] = (), effort: int = 1
) -> Callable[[Callable], Indexed]:
    """Declare what goes where: the body's first operand is written, and it returns `out.store(place, value, how)`."""
    return lambda body: Indexed(body, static, moves, (None,), effort, True)
