"""Control flow as functions: `cond`, `while_loop`, `map`, `scan`, `associative_scan`, which PyTorch has for programs that are
compiled or exported.

Here they run as the Python they stand for, so gradients and modes see the operations inside. Operands and results are trees
(`utils._pytree`) whose leaves are tensors; what carries a state from step to step is held to its shape and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._tensor import Tensor
from .core.places.join import stack
from .operations.moving.joining import cat

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """`utils._pytree.tree_flatten`, which is imported when a program has trees."""
    from .utils import _pytree

    return _pytree.tree_flatten(tree)


def tree_unflatten(leaves: list[Any], form: Any) -> Any:
    from .utils import _pytree

    return _pytree.tree_unflatten(leaves, form)


def _truth(name: str, what: str, value: Any) -> bool:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise RuntimeError(f"{name}(): expected {what} with one element, got shape {list(value.shape)}")
        return bool(value)
    if not isinstance(value, (bool, int, float)):
        raise RuntimeError(f"{name}(): expected {what} to be a bool or a tensor, got {type(value).__name__}")
    return bool(value)


def _callable(name: str, **functions: Any) -> None:
    for what, function in functions.items():
        if not callable(function):
            raise RuntimeError(f"{name}(): expected {what} to be callable, got {type(function).__name__}")


def _operands(name: str, what: str, operands: Any, also: tuple = ()) -> list[Any]:
    """The leaves of a tree, tensors or of the classes `also`."""
    leaves = tree_flatten(operands)[0]
    for leaf in leaves:
        if not isinstance(leaf, (Tensor, *also)):
            raise RuntimeError(
                f"{name}(): expected {what} to be a tree of tensors, but a leaf is {type(leaf).__name__}"
            )
    return leaves


def _same(name: str, what: str, before: Any, after: Any) -> None:
    """RuntimeError unless two trees have one structure, and tensors of the same shapes and dtypes."""
    (old, old_form), (new, new_form) = tree_flatten(before), tree_flatten(after)
    if old_form != new_form:
        raise RuntimeError(f"{name}(): expected {what} to have the structure {old_form}, got {new_form}")
    for a, b in zip(old, new, strict=True):
        if isinstance(a, Tensor) != isinstance(b, Tensor):
            raise RuntimeError(f"{name}(): {what} has {type(b).__name__} where {type(a).__name__} was given")
        if isinstance(a, Tensor) and (a.shape != b.shape or a.dtype != b.dtype):
            raise RuntimeError(
                f"{name}(): expected {what} to keep shape {list(a.shape)} and dtype {a.dtype}, got {list(b.shape)} and {b.dtype}"
            )


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
    chosen = _truth("cond", "pred", pred)
    _callable("cond", true_fn=true_fn, false_fn=false_fn)
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond(): expected operands to be a tuple or list, got {type(operands).__name__}")
    _operands("cond", "operands", operands, (bool, int, float))
    return (true_fn if chosen else false_fn)(*operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any]) -> Any:
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)` is true; what is carried in the end.

    Raises:
        RuntimeError: `cond_fn` gives neither a bool nor a tensor of one element, or `body_fn` changes the number, a shape or
            a dtype of what is carried.

    >>> import flambeau
    >>> from flambeau._higher_order_ops import while_loop
    >>> while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (flambeau.tensor(0), flambeau.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    _callable("while_loop", cond_fn=cond_fn, body_fn=body_fn)
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"while_loop(): expected carried_inputs to be a tuple or list, got {type(carried_inputs).__name__}"
        )
    carried = tuple(carried_inputs)
    _operands("while_loop", "carried_inputs", carried, (bool, int, float))
    while _truth("while_loop", "the value of cond_fn", cond_fn(*carried)):
        after = body_fn(*carried)
        after = tuple(after) if isinstance(after, (tuple, list)) else (after,)
        _same("while_loop", "the value of body_fn", carried, after)
        carried = after
    return carried


def _along(name: str, xs: Any, dim: int) -> tuple[list[Any], Any, int]:
    """The tensors of a tree, its form, and their common size along `dim`."""
    _operands(name, "xs", xs)
    leaves, form = tree_flatten(xs)
    if not leaves:
        raise RuntimeError(f"{name}(): expected at least one tensor in xs")
    for leaf in leaves:
        if not -leaf.ndim <= dim < leaf.ndim:
            raise RuntimeError(
                f"{name}(): dimension {dim} is out of range for a tensor of shape {list(leaf.shape)} in xs"
            )
    sizes = {leaf.shape[dim] for leaf in leaves}
    if len(sizes) > 1:
        raise RuntimeError(
            f"{name}(): all tensors of xs must have one size along dimension {dim}, got {sorted(sizes)}"
        )
    if sizes == {0}:
        raise RuntimeError(f"{name}(): expected xs to have at least one element along dimension {dim}")
    return leaves, form, leaves[0].shape[dim]


def _stacked(results: list[Any], dim: int = 0) -> Any:
    """One tree of tensors from a list of trees, along a new dimension."""
    form = tree_flatten(results[0])[1]
    return tree_unflatten([stack(parts, dim) for parts in zip(*(tree_flatten(r)[0] for r in results))], form)


def map(f: Callable, xs: Any, *args: Any) -> Any:  # noqa: A001
    """`f(x, *args)` for each slice x along the first dimension of the tensors in `xs`; the results stacked.

    RuntimeError for an empty first dimension, or several sizes of it.

    >>> import flambeau
    >>> from flambeau import _higher_order_ops
    >>> _higher_order_ops.map(lambda x, y: x.sum() * y, flambeau.ones(3, 2), flambeau.tensor(2.0))
    tensor([4., 4., 4.])
    """
    _callable("map", f=f)
    leaves, form, size = _along("map", xs, 0)
    results = [f(tree_unflatten([leaf[k] for leaf in leaves], form), *args) for k in range(size)]
    for other in results[1:]:
        _same("map", "the value of f", results[0], other)
    return _stacked(results)


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
    _callable("scan", combine_fn=combine_fn)
    _operands("scan", "init", init)
    leaves, form, size = _along("scan", xs, dim)
    carry, found = init, []
    for k in reversed(range(size)) if reverse else range(size):
        pair = combine_fn(carry, tree_unflatten([leaf.select(dim, k) for leaf in leaves], form))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise RuntimeError("scan(): expected combine_fn to give a pair (carry, y)")
        after, y = pair
        _same("scan", "the carry of combine_fn", carry, after)
        carry = after
        found.append(y)
    return carry, _stacked(found[::-1] if reverse else found)


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
    _callable("associative_scan", combine_fn=combine_fn)
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"associative_scan(): combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}"
        )
    leaves, form, size = _along("associative_scan", xs, dim)

    def combined(a: list[Any], b: list[Any]) -> list[Any]:
        given = tree_unflatten(a, form)
        result = combine_fn(given, tree_unflatten(b, form))
        _same("associative_scan", "the value of combine_fn", given, result)
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
    found = []
    for row, pair, x in zip(rows, pairs, between):
        inner = cat([row[:1], x])  # prefixes that end at even places
        woven = stack([inner[: n // 2], pair], 1).flatten(0, 1)
        found.append(cat([woven, inner[n // 2 :]]) if n % 2 else woven)
    return found
