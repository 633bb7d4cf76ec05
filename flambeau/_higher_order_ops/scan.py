"""`scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._trees import along, check_callable, check_same, operands_of, stacked, tree_unflatten
from ._watch import watcher


def scan(combine_fn: Callable, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for each slice x of `xs` along `dim`, from `init` on: the last carry, and the y stacked
    along a new first dimension.

    With `reverse` from the last slice to the first; the y stay in the order of their slices. RuntimeError where the carry
    changes its shapes or dtypes.

    >>> import flambeau
    >>> from flambeau._higher_order_ops import scan
    >>> scan(lambda c, x: (c + x, c * x), flambeau.tensor(0.0), flambeau.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    check_callable("scan", combine_fn=combine_fn)
    operands_of("scan", "init", init)
    if (watch := watcher()) is not None:
        return watch(scan, (combine_fn, init, xs), {"dim": dim, "reverse": reverse})
    leaves, form, size = along("scan", xs, dim)
    carry, result = init, []
    for k in reversed(range(size)) if reverse else range(size):
        pair = combine_fn(carry, tree_unflatten([leaf.select(dim, k) for leaf in leaves], form))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise RuntimeError("scan(): expected combine_fn to give a pair (carry, y)")
        after, y = pair
        check_same("scan", "the carry of combine_fn", carry, after)
        carry = after
        result.append(y)
    return carry, stacked(result[::-1] if reverse else result)
