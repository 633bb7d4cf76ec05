"""Leaves of a value that has a structure which is known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..utils._trees import LeafSpec, TreeSpec

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

_FLATTEN: dict[type, Callable[[Any, TreeSpec], list]] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: Callable[[Any, TreeSpec], list],
    flatten_fn_exact_match_spec: Callable[[Any, TreeSpec], bool] | None = None,
) -> None:
    """Let `flatten_fn_spec(value, spec)` list the members of values of a class.

    >>> from flambeau.fx._pytree import register_pytree_flatten_spec
    >>> class Pair:
    ...     first = second = None
    >>> register_pytree_flatten_spec(Pair, lambda p, spec: [p.first, p.second])
    """
    _FLATTEN[cls] = flatten_fn_spec


def tree_flatten_spec(pytree_: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of a value; ValueError where its structure is not `spec`.

    >>> from flambeau.utils import _pytree
    >>> from flambeau.fx._pytree import tree_flatten_spec
    >>> _, spec = _pytree.tree_flatten([1, {"a": 2}])
    >>> tree_flatten_spec([3, {"a": 4}], spec)
    [3, 4]
    """
    if spec.is_leaf():
        return [pytree_]
    if (own := _FLATTEN.get(type(pytree_))) is not None:
        members = own(pytree_, spec)
    elif spec.type in (list, tuple, dict) and not isinstance(pytree_, list | tuple | dict):
        keys = spec.context if spec.type is dict else range(spec.num_children)  # of a proxy
        members = [pytree_[key] for key in keys]
    else:
        members = TreeSpec(spec.type, spec.context, [LeafSpec()] * spec.num_children).flatten_up_to(pytree_)
    return [
        leaf
        for x, inner in zip(members, spec.children(), strict=True)
        for leaf in tree_flatten_spec(x, inner)
    ]
