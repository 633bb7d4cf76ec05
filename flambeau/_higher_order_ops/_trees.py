"""Operands and results as trees (`utils._pytree`) whose leaves are tensors, and the checks that all of these functions make."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..core.places.join import stack


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """`utils._pytree.tree_flatten`, which is imported when a program has trees."""
    from ..utils import _pytree

    return _pytree.tree_flatten(tree)


def tree_unflatten(leaves: list[Any], form: Any) -> Any:
    from ..utils import _pytree

    return _pytree.tree_unflatten(leaves, form)


def truth(name: str, what: str, value: Any) -> bool:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise RuntimeError(f"{name}(): expected {what} with one element, got shape {list(value.shape)}")
        return bool(value)
    if not isinstance(value, (bool, int, float)):
        raise RuntimeError(f"{name}(): expected {what} to be a bool or a tensor, got {type(value).__name__}")
    return bool(value)


def check_callable(name: str, **functions: Any) -> None:
    for what, function in functions.items():
        if not callable(function):
            raise RuntimeError(f"{name}(): expected {what} to be callable, got {type(function).__name__}")


def operands_of(name: str, what: str, operands: Any, also: tuple = ()) -> list[Any]:
    """The leaves of a tree, tensors or of the classes `also`."""
    leaves = tree_flatten(operands)[0]
    for leaf in leaves:
        if not isinstance(leaf, (Tensor, *also)):
            raise RuntimeError(
                f"{name}(): expected {what} to be a tree of tensors, but a leaf is {type(leaf).__name__}"
            )
    return leaves


def check_same(name: str, what: str, before: Any, after: Any) -> None:
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


def along(name: str, xs: Any, dim: int) -> tuple[list[Any], Any, int]:
    """The tensors of a tree, its form, and their common size along `dim`."""
    operands_of(name, "xs", xs)
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


def stacked(results: list[Any], dim: int = 0) -> Any:
    """One tree of tensors from a list of trees, along a new dimension."""
    form = tree_flatten(results[0])[1]
    return tree_unflatten([stack(parts, dim) for parts in zip(*(tree_flatten(r)[0] for r in results))], form)
