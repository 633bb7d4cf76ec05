"""`scan`: what every element becomes from those up to it along a dimension."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..codegen import differentiate
from ..codegen import expr as ex
from ..codegen import kernels as kn
from ..codegen.expr import Expr
from ..core.base.dtypes import dtype, get_default_dtype
from ..core.base.tensor import TensorBase
from ..core.call.copies import to_dtype
from ..core.tape.contexts import unrecorded
from ..operations.declare.pointwise import FLOATING, Pointwise
from ..operations.declare.scan import Scan
from ..operations.declare.shapes import wrapped
from ..operations.rows.scans import cumsum
from ._bodies import Body
from ._functions import Derivative, called, mapped_rows
from ._kinds import declares
from ._pointwise import names_of, publish


class _Sums:
    """The gradient of a scan whose prefixes are sums: what reaches a sum reaches every element that it holds."""

    def __init__(self, body: Body, dtypes: frozenset[str]):
        self.body, self.dtypes = body, dtypes
        x = ex.input(0, "float32")
        result = self.sums(x)
        self.results, self.count = len(body(x)), len(result)
        if any(_is_no_sum(p) for p in result):
            raise TypeError("no rule differentiates a prefix that is no sum")
        self.elements = self.made("elements", ["x"], self.elements_of, len(result))
        grads, sums = [f"grad{k}" for k in range(self.results)], [f"sum{k}" for k in range(len(result))]
        self.parts = self.made("parts", [*grads, "x", *sums], self.parts_of, 1 + len(result))
        self.through = self.made(
            "through", ["x", *(f"later{k}" for k in range(len(result)))], self.through_of, 1
        )

    def made(self, what: str, names: Sequence[str], function: Callable, results: int) -> Any:
        declared = Pointwise(f"{self.body.name}_{what}", function, names, results=results, dtypes=self.dtypes)
        return declared.make_op()

    def sums(self, x: Expr) -> list[Expr]:
        """The prefixes that the body reads."""
        return [members[0] for members in kn.prefixes(self.body(x))]

    def elements_of(self, x: Expr) -> list[Expr]:
        """What the sums are sums of."""
        return [ex.cast(p.args[0], x.dtype) for p in self.sums(x)]

    def parts_of(self, *exprs: Expr) -> list[Expr]:
        """What reaches the element itself, and each of the sums."""
        grads, x, values = exprs[: self.results], exprs[self.results], exprs[self.results + 1 :]
        results, sums = self.body(x), self.sums(x)
        leaves = [ex.cast(v, p.dtype) for v, p in zip(values, sums)]
        results = ex.substitute(list(results), dict(zip(sums, leaves)))  # type: ignore[assignment]
        result = differentiate.gradients(results, grads, [x, *leaves])
        return [ex.like(x, 0.0) if g is None else ex.cast(g, x.dtype) for g in result]

    def through_of(self, x: Expr, *later: Expr) -> Expr:
        """What reaches the element by the sums that hold it."""
        result = differentiate.gradients([ex.cast(p.args[0], x.dtype) for p in self.sums(x)], later, [x])[0]
        return ex.like(x, 0.0) if result is None else result

    def gradient(self, grads: Sequence[TensorBase], x: TensorBase, dim: int) -> TensorBase:
        """Σ over the later elements: over tensors, so that it has derivatives itself."""
        elements = self.elements(x)
        sums = [cumsum(e, dim) for e in (elements if isinstance(elements, tuple) else (elements,))]
        direct, *arrived = self.parts(*grads, x, *sums)
        later = [cumsum(a.flip(dim), dim).flip(dim) for a in arrived]
        return direct + self.through(x, *later)


def _is_no_sum(p: Expr) -> bool:
    combined = p.value.combine
    return (
        len(combined) != 1
        or combined[0] is not ex.add(kn.state(0, combined[0].dtype), kn.state(1, combined[0].dtype))
        or any(e.op == "prefix" for e in ex.walk(p.args))
    )


@declares
def scan(
    function: Callable | None = None,
    *,
    name: str | None = None,
    dtypes: Iterable[dtype | str] | None = None,
) -> Any:
    """An operation from a function of one element and of prefixes: the folds of an element and those before it.

    The function takes one traced value.  Prefixes are `running_sum`, `running_prod`, `running_max_index`,
    `running_min_index`, and `prefix`, which combines as you say.  Long rows are cut into blocks that run in parallel, with
    the same bits for any number of threads.  Gradients of any order follow where all prefixes are sums; `op.derivative`
    declares others, as a function of the tensors `grad`, the operand, `out`, and the number `dim`.

    Returns:
        an operation, called as `op(input, dim, *, out=None)`.

    Raises:
        TypeError: the function takes or returns what a kernel cannot; the message has its file and line.

    >>> import flambeau
    >>> from flambeau import kernels
    >>> @kernels.scan
    ... def running_norm(x):
    ...     return kernels.sqrt(kernels.running_sum(x * x))
    >>> x = flambeau.tensor([3.0, 4.0, 12.0], requires_grad=True)
    >>> running_norm(x, 0)
    tensor([ 3.,  5., 13.], grad_fn=<RunningNormBackward0>)
    >>> running_norm(x, 0).sum().backward(); x.grad
    tensor([1.8308, 1.1077, 0.9231])
    """
    if function is None:
        return functools.partial(scan, name=name, dtypes=dtypes)
    body = Body("scan", function, name)
    (operand, *more), numbers, _ = body.parameters
    if more or numbers:
        raise TypeError(
            f"{body.where} takes {(*more, *numbers)[0]!r}: a scan takes one operand and no numbers"
        )
    taken = names_of(dtypes, body)
    declared = Scan(body, taken)  # type: ignore[arg-type]
    example = "float32" if "float32" in taken else min(taken)
    results, _ = declared.program(example, example)
    if not kn.prefixes(results):
        raise TypeError(f"{body.where} reads no prefix: declare it with `pointwise`")
    derivative = Derivative(body.where, body.name, (operand,), ("dim",), len(results))
    cached: list[_Sums] = []

    def summed(grads: Sequence[TensorBase], saved: Sequence[TensorBase], values: Any) -> list[TensorBase]:
        if not cached:
            try:
                cached.append(_Sums(body, taken))
            except TypeError as error:
                raise TypeError(
                    f"{body.where}: {error}; declare its derivative with @{body.name}.derivative"
                ) from None
        return [cached[0].gradient(grads, saved[0], values["dim"])]

    def run(x: Any, dim: int) -> Any:
        if not isinstance(x, TensorBase):
            raise TypeError(f"{body.name}(): argument '{operand}' must be Tensor, not {type(x).__name__}")
        if taken <= FLOATING and not x.is_floating_point():
            x = to_dtype(x, get_default_dtype())
        dim = wrapped(dim, x, body.name)
        with unrecorded():
            result = declared(x, dim)
        derivative.record((x,), result if isinstance(result, tuple) else (result,), {"dim": dim})
        return result

    if FLOATING & taken:
        derivative.automatic = summed
    op = called(body.name, len(results), f"{operand}, dim", f"{operand}, dim", run)
    op.derivative, op.mapped = derivative.declare, mapped_rows((operand,))
    return publish(op, function, body)
