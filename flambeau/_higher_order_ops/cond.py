"""`cond`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._symbols.numbers import SymBool, SymNumber
from .._tensor import Tensor
from ._trees import check_callable, operands_of, truth
from ._watch import watcher


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` if `pred`, a bool or a tensor of one element, is true, else `false_fn(*operands)`.

    Raises:
        RuntimeError: `pred` is neither, a function cannot be called, or `operands` is not a tuple or list whose leaves are
            tensors and numbers.

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, -2.0])
    >>> flambeau.cond(x.sum() > 0, lambda x: x.cos(), lambda x: x * 2, (x,))
    tensor([ 2., -4.])
    """
    check_callable("cond", true_fn=true_fn, false_fn=false_fn)
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond(): expected operands to be a tuple or list, got {type(operands).__name__}")
    operands_of("cond", "operands", operands, (bool, int, float, SymNumber))
    decided = isinstance(pred, Tensor) and pred.numel() == 1 or isinstance(pred, SymBool)  # by a value
    if decided and (watch := watcher()) is not None:
        return watch(cond, (pred, true_fn, false_fn, operands), {})
    return (true_fn if truth("cond", "pred", pred) else false_fn)(*operands)
