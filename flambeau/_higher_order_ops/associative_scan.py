"""`associative_scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.places.join import stack
from ..operations.moving.joining import cat
from ._trees import along, check_callable, check_same, tree_flatten, tree_unflatten


def associative_scan(
    combine_fn: Callable, xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Prefixes along `dim` under an associative `combine_fn(a, b)` of two trees: the k-th is that of the first k + 1 slices.

    In the mode "pointwise" `combine_fn` works element by element and is called on many places at once, 2 log n times in all
    (Blelloch 1990); in the mode "generic" on two slices at a time. With `reverse`, suffixes. ValueError for another mode.

    >>> import flambeau
    >>> from flambeau._higher_order_ops import associative_scan
    >>> associative_scan(lambda a, b: a * b, flambeau.tensor([1.0, 2.0, 3.0, 4.0]), 0)
    tensor([ 1.,  2.,  6., 24.])
    """
    check_callable("associative_scan", combine_fn=combine_fn)
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"associative_scan(): combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}"
        )
    leaves, form, size = along("associative_scan", xs, dim)

    def combined(a: list[Any], b: list[Any]) -> list[Any]:
        given = tree_unflatten(a, form)
        result = combine_fn(given, tree_unflatten(b, form))
        check_same("associative_scan", "the value of combine_fn", given, result)
        return tree_flatten(result)[0]

    rows = [leaf.movedim(dim, 0) for leaf in leaves]
    rows = [row.flip(0) for row in rows] if reverse else rows
    if combine_mode == "pointwise":
        rows = _prefixes(combined, rows, size)
    else:
        slices = [[row[0] for row in rows]]
        for k in range(1, size):
            slices.append(combined(slices[k - 1], [row[k] for row in rows]))
        rows = [stack(parts) for parts in zip(*slices)]
    rows = [row.flip(0) for row in rows] if reverse else rows
    return tree_unflatten([row.movedim(0, dim) for row in rows], form)


def _prefixes(combined: Callable, rows: list[Any], n: int) -> list[Any]:
    """Prefixes along the first dimension: those of neighbours' pairs, and between them one element more."""
    if n == 1:
        return rows
    even, odd = [row[0 : n - 1 : 2] for row in rows], [row[1::2] for row in rows]
    pairs = _prefixes(combined, combined(even, odd), n // 2)  # prefixes that end at odd places
    rest = [row[2::2] for row in rows]
    between = combined([pair[: len(x)] for pair, x in zip(pairs, rest)], rest) if n > 2 else rest
    result = []
    for row, pair, x in zip(rows, pairs, between):
        inner = cat([row[:1], x])  # prefixes that end at even places
        woven = stack([inner[: n // 2], pair], 1).flatten(0, 1)
        result.append(cat([woven, inner[n // 2 :]]) if n % 2 else woven)
    return result
