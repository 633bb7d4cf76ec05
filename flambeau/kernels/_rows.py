"""`row` and `reduction`: maps and folds along one row, with their derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..codegen import expr as ex
from ..codegen import kernels as kn
from ..codegen.expr import Expr
from ..core.base.dtypes import dtype, get_default_dtype
from ..core.base.tensor import TensorBase
from ..core.call.copies import to_dtype
from ..core.loops.rows import RowOp
from ..core.tape.contexts import unrecorded
from ..operations.declare.pointwise import FLOATING
from ..operations.declare.rows import Rows, same
from ..operations.moving.shaping import broadcast_tensors
from ..operations.rows.reductions import restore, sum_to_size
from ._adjoint import adjoint
from ._bodies import Body
from ._functions import Derivative, called, mapped_rows, numbers_of
from ._kinds import declares
from ._pointwise import names_of, publish


class Program:
    """A body along rows, its operation, and the program of its gradients, which is made with the first gradient."""

    def __init__(
        self,
        body: Callable,
        who: str,
        name: str,
        inputs: Sequence[str],
        numbers: Sequence[str],
        dtypes: frozenset[str],
        reduces: bool,
        per_row: frozenset[str] = frozenset(),
    ):
        self.body, self.who, self.name, self.inputs, self.numbers = (
            body,
            who,
            name,
            tuple(inputs),
            tuple(numbers),
        )
        self.dtypes, self.per_row = dtypes, per_row
        declared = Rows(name, body, inputs, numbers, dtypes=dtypes, accumulate=same, empty=None)
        example = "float32" if "float32" in dtypes else min(dtypes)
        results, _ = declared.program(declared.example(example), example)
        varies = kn.varies(results, [n not in per_row for n in inputs])
        self.full = tuple(varies[id(r)] for r in results)
        declared.full, declared.per_row = self.full if any(self.full) else (), per_row
        ordered = any(e.op == "index" for e in ex.walk(results))
        splits = not any(self.full) and kn.stages(results) is not None
        zeros = (0.0,) * len(numbers)
        self.op = RowOp(name, len(inputs), len(results), self.full, zeros, declared, reduces, ordered, splits)
        self.op.set_formula(tuple((1, k) for k in range(len(inputs))), self.gradients)
        self.back: tuple[Program, tuple[int, ...]] | None = None

    def backward(self) -> tuple[Program, tuple[int, ...]]:
        """The program of the gradients, over what arrives at the results and the inputs, and the inputs that have one."""
        if self.back is None:
            m, grads = len(self.full), [f"grad{k}" for k in range(len(self.full))]
            names = (*grads, *self.inputs)
            per_row = self.per_row | {g for g, full in zip(grads, self.full) if not full}
            reached: list[int] = []

            def body(*args: Expr, **numbers: Expr) -> tuple[Expr, ...]:
                xs = args[m:]
                results = self.body(*xs, **numbers)
                varies = _Varying(args, [n not in per_row for n in names])
                result = adjoint(results, args[:m], xs, varies)
                reached[:] = [k for k, g in enumerate(result) if g is not None]
                return tuple(ex.cast(result[k], args[0].dtype) for k in reached)  # type: ignore[arg-type]

            try:
                made = Program(
                    body, self.who, f"{self.name}_backward", names, self.numbers, self.dtypes, False, per_row
                )
            except TypeError as error:
                raise TypeError(
                    f"{self.who}: {error}; declare its derivative with @{self.name}.derivative"
                ) from None
            self.back = made, tuple(reached)
        return self.back

    def gradients(self, grads: Any, *rest: Any) -> list[TensorBase | None]:
        """A gradient for each input: the formula of the tape's node."""
        n = len(self.inputs)
        xs, (sizes, dims, keepdim), numbers = rest[:n], rest[n : n + 3], rest[n + 3 :]
        made, reached = self.backward()
        arrived = []
        for g, full in zip(grads if isinstance(grads, tuple) else (grads,), self.full):
            if g is None:
                g = xs[0].new_zeros([n if full or d not in dims else 1 for d, n in enumerate(sizes)])
            arrived.append(g if full else restore(g, sizes, dims, keepdim))
        result = _over(made, (*arrived, *xs), sizes, dims, numbers)
        gradients: list[TensorBase | None] = [None] * n
        for k, g, full in zip(reached, result, made.full):
            if not full and self.inputs[k] not in self.per_row:  # the same for every element of a row
                g = g.expand(sizes)
            g = g if g.shape == xs[k].shape else sum_to_size(g, xs[k].shape)
            gradients[k] = to_dtype(g, xs[k].dtype)
        return gradients


def _over(
    made: Program, tensors: tuple, sizes: Sequence[int], dims: Sequence[int], numbers: tuple
) -> Sequence[TensorBase]:
    """The program's results along several dimensions, which are one row; those of one value a row keep the dimensions."""
    if len(dims) < 2:
        result = made.op.over(tensors, dims if sizes else None, True, None, numbers)
        return result if isinstance(result, tuple) else (result,)
    outer = [d for d in range(len(sizes)) if d not in dims]
    order = [*outer, *dims]
    back = [order.index(d) for d in range(len(sizes))]
    flat = []
    for name, t in zip(made.inputs, tensors):
        t = t if name in made.per_row else t.expand(sizes)
        flat.append(t.permute(order).flatten(len(outer)))
    result = made.op.over(tuple(flat), -1, True, None, numbers)
    shaped = []
    for g, full in zip(result if isinstance(result, tuple) else (result,), made.full):
        lengths = [sizes[d] if full or d in outer else 1 for d in order]
        shaped.append(g.reshape(lengths).permute(back))
    return shaped


class _Varying:
    """Whether an expression's value changes along the row: that of the given ones is known, others follow."""

    def __init__(self, leaves: Sequence[Expr], vary: Sequence[bool]):
        self.varies = {id(e): v for e, v in zip(leaves, vary)}
        self.alive: list[Expr] = []  # with their ids

    def __call__(self, e: Expr) -> bool:
        for node in ex.walk([e]):
            if id(node) not in self.varies:
                self.alive.append(node)
                self.varies[id(node)] = node.op in ("prefix", "index") or (
                    node.op != "fold" and any(self.varies[id(a)] for a in node.args)
                )
        return self.varies[id(e)]


@declares
def row(
    function: Callable | None = None,
    *,
    name: str | None = None,
    dtypes: Iterable[dtype | str] | None = None,
) -> Any:
    """An operation from a function of one element of a row and of folds over the row: a row gives a row.

    The function is called with traced values, as that of `pointwise`.  Folds (`sum`, `mean`, `max`, `min`, `any`, `all`,
    `max_index` …, see `vocabulary()`) take in the whole row.  Operands broadcast to one shape.  Gradients of any order
    follow where the folds are sums, means and extremes; `op.derivative` declares others, as a function of tensors.

    Args:
        function: the body; without it, a decorator is returned.
        name: what messages and nodes of the tape say; the function's own name by default.
        dtypes: of the operands, `FLOATING` by default; half types are computed in float32.

    Returns:
        an operation, called as `op(*operands, dim, *, numbers…, out=None)`: `dim` is the dimension that rows lie along.
        Results of one value a row have no such dimension.

    Raises:
        TypeError: the function takes or returns what a kernel cannot; the message has its file and line.

    >>> import flambeau
    >>> from flambeau import kernels
    >>> @kernels.row
    ... def rms_norm(x, weight, *, eps=1e-6):
    ...     return x * kernels.rsqrt(kernels.mean(x * x) + eps) * weight
    >>> x = flambeau.tensor([[3.0, 4.0], [1.0, 2.0]], requires_grad=True)
    >>> y = rms_norm(x, flambeau.ones(2), -1)
    >>> y
    tensor([[0.8485, 1.1314],
            [0.6325, 1.2649]], grad_fn=<RmsNormBackward0>)
    >>> y[:, 0].sum().backward(); x.grad
    tensor([[ 0.1810, -0.1358],
            [ 0.5060, -0.2530]])
    """
    if function is None:
        return functools.partial(row, name=name, dtypes=dtypes)
    return _declare("row", function, name, dtypes)


@declares
def reduction(
    function: Callable | None = None,
    *,
    name: str | None = None,
    dtypes: Iterable[dtype | str] | None = None,
) -> Any:
    """An operation from folds over a row: a row gives a number.

    As `row`, but called as `op(*operands, dim=None, keepdim=False, *, numbers…, out=None)`, where `dim` is one dimension,
    several, or all of them.  Long rows are cut into blocks that run in parallel, with the same bits for any number of
    threads.  A row without elements gives what the folds begin with: 0 for a sum, -inf for a maximum.

    Raises:
        TypeError: the body gives as many values as a row has, or an argument of a call is no Tensor

    >>> import flambeau
    >>> from flambeau import kernels
    >>> @kernels.reduction
    ... def relative_error(x, y):
    ...     return kernels.sqrt(kernels.sum((x - y) ** 2) / kernels.sum(y * y))
    >>> x = flambeau.tensor([1.0, 2.0, 2.0])
    >>> relative_error(x, flambeau.tensor([1.0, 2.0, 5.0]))
    tensor(0.5477)
    """
    if function is None:
        return functools.partial(reduction, name=name, dtypes=dtypes)
    return _declare("reduction", function, name, dtypes)


def _declare(kind: str, function: Callable, name: str | None, dtypes: Iterable[dtype | str] | None) -> Any:
    body = Body(kind, function, name)
    operands, numbers, defaults = body.parameters
    taken = names_of(dtypes, body)
    program = Program(body, body.where, body.name, operands, numbers, taken, kind == "reduction")
    if (kind == "row") != any(program.full):
        other = "reduction" if kind == "row" else "row"
        tells = "one value a row" if kind == "row" else "as many values as a row has"
        raise TypeError(f"{body.where} gives {tells}: declare it with `{other}`")
    to_float = taken <= FLOATING
    derivative = Derivative(body.where, body.name, operands, (*numbers, "dim", "keepdim"), len(program.full))

    def run(tensors: tuple, dim: Any, keepdim: bool, values: tuple) -> Any:
        for operand, t in zip(operands, tensors):
            if not isinstance(t, TensorBase):
                raise TypeError(f"{body.name}(): argument '{operand}' must be Tensor, not {type(t).__name__}")
        if kind == "row" and (dim is None or isinstance(dim, (tuple, list))):
            raise TypeError(f"{body.name}(): argument 'dim' must be int, not {type(dim).__name__}")
        if to_float and not any(t.is_floating_point() or t.is_complex() for t in tensors):
            tensors = tuple(to_dtype(t, get_default_dtype()) for t in tensors)
        if any(t.ndim > tensors[0].ndim for t in tensors):
            tensors = tuple(broadcast_tensors(*tensors))
        values = tuple(map(float, values))
        if derivative.formula is None:
            return program.op.over(tensors, dim, keepdim, None, values)
        with unrecorded():
            result = program.op.over(tensors, dim, keepdim, None, values)
        outs = result if isinstance(result, tuple) else (result,)
        derivative.record(tensors, outs, {**dict(zip(numbers, values)), "dim": dim, "keepdim": keepdim})
        return result

    spelled, namespace = numbers_of(numbers, [float(d) for d in defaults])
    along = "dim=None, keepdim=False" if kind == "reduction" else "dim"
    op = called(
        body.name,
        len(program.full),
        f"{', '.join(operands)}, {along}{', *, ' + spelled if spelled else ''}",
        f"({', '.join(operands)},), dim, {'keepdim' if kind == 'reduction' else 'False'}, ({''.join(n + ', ' for n in numbers)})",
        run,
        **namespace,
    )
    op.derivative, op.mapped = derivative.declare, mapped_rows(operands)
    return publish(op, function, body)
