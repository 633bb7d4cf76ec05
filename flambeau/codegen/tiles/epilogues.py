"""What a register tile makes of a sum before it is stored: an expression of the sum, of operands and of numbers.

>>> from flambeau.codegen import functions as fn
>>> traced(lambda sum, bias, other: fn.tanh(sum + bias) + other, "float32", ("columns", "both"))
Epilogue(add(call:tanh(add(in0, in1)), in2), columns, both)
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .. import expr as ex
from ..expr import Expr
from ..lower import expanded

READS = ("columns", "rows", "both")  # one element a column, one a row, one for each place of the result
MOST = 8  # operands, and numbers, that a tile takes (core/lib/tiles.pxd)
SHORT = 12  # operations up to which an expression is written out for each vector of sums


class Epilogue:
    """`root` says what is stored: `input(0)` is the sum, `input(k)` operand k - 1, `param(k)` number k.

    `reads` says how each operand is read.  Two epilogues of one text are equal.
    """

    __slots__ = ("root", "reads", "numbers", "key")

    def __init__(self, root: Expr, reads: tuple[str, ...] = (), numbers: int = 0):
        for read in reads:
            if read not in READS:
                raise ValueError(f"an epilogue's operand is read by {', '.join(READS)}; got {read!r}")
        if len(reads) > MOST or numbers > MOST:
            raise ValueError(
                f"an epilogue takes {MOST} operands and {MOST} numbers; got {len(reads)} and {numbers}"
            )
        self.root, self.reads, self.numbers = root, reads, numbers
        for leaf in self.leaves():
            if leaf.op not in ("input", "param") or leaf.value >= self.count(leaf.op):
                raise ValueError(f"an epilogue of {len(reads)} operands and {numbers} numbers reads {leaf!r}")
        self.key = (ex.text([root]), reads, numbers)

    def count(self, op: str) -> int:
        return self.numbers if op == "param" else 1 + len(self.reads)

    def leaves(self) -> list[Expr]:
        return [e for e in ex.walk([self.root]) if not e.args and e.op != "const"]

    def long(self) -> bool:
        """Whether the expression is better written once, in a loop over rows."""
        return sum(1 for e in ex.walk(expanded([self.root])) if e.args) > SHORT

    def continued(self) -> Epilogue:
        """The same of a sum to which one more operand is added first: what has been summed before."""
        leaf = ex.input(len(self.reads) + 1, self.root.dtype)
        result = {e: e + leaf for e in self.leaves() if e.op == "input" and e.value == 0}
        return Epilogue(ex.substitute([self.root], result)[0], (*self.reads, "both"), self.numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Epilogue) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Epilogue({', '.join((repr(self.root), *self.reads))})"


def traced(body: Callable[..., Expr], dtype: str, reads: tuple[str, ...] = (), numbers: int = 0) -> Epilogue:
    """The epilogue that `body(sum, *operands, *numbers)` computes, a function of scalars as those of operations.

    Raises:
        ValueError: operands that are read in no known way, or too many
        TypeError: the body's value is of another dtype
    """
    leaves = [ex.input(k, dtype) for k in range(1 + len(reads))]
    result = ex.like(leaves[0], body(*leaves, *(ex.param(k, dtype) for k in range(numbers))))
    if result.dtype != dtype:
        raise TypeError(f"an epilogue of {dtype} gives {result.dtype}")
    return Epilogue(result, reads, numbers)


@functools.cache
def biased(dtype: str, read: str) -> Epilogue:
    """sum + bias."""
    return traced(lambda sum, bias: sum + bias, dtype, (read,))


@functools.cache
def added(dtype: str) -> Epilogue:
    """sum + other."""
    return biased(dtype, "both")


@functools.cache
def linear(dtype: str, scaled: bool, bias: bool, other: bool) -> Epilogue:
    """alpha · sum + bias + beta · other, without what is not there; the numbers are alpha and beta."""

    def body(sum: Expr, *given: Expr) -> Expr:
        operands = list(given[: bias + other])
        result = sum * given[-2] if scaled else sum
        if bias:
            result = result + operands.pop(0)
        if other:
            result = ex.fma(operands[0], given[-1], result) if scaled else result + operands[0]
        return result

    reads = ("columns",) * bias + ("both",) * other
    return traced(body, dtype, reads, 2 if scaled else 0)
