"""`map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._trees import along, check_callable, check_same, stacked, tree_unflatten
from ._watch import watcher


def map(f: Callable, xs: Any, *args: Any) -> Any:  # noqa: A001
    """`f(x, *args)` for each slice x along the first dimension of the tensors in `xs`; the results stacked.

    RuntimeError for an empty first dimension, or several sizes of it.

    >>> import flambeau
    >>> from flambeau import _higher_order_ops
    >>> _higher_order_ops.map(lambda x, y: x.sum() * y, flambeau.ones(3, 2), flambeau.tensor(2.0))
    tensor([4., 4., 4.])
    """
    check_callable("map", f=f)
    if (watch := watcher()) is not None:
        return watch(map, (f, xs, *args), {})
    leaves, form, size = along("map", xs, 0)
    results = [f(tree_unflatten([leaf[k] for leaf in leaves], form), *args) for k in range(size)]
    for other in results[1:]:
        check_same("map", "the value of f", results[0], other)
    return stacked(results)
