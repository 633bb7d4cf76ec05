"""Trees of Python's containers, under the name that PyTorch has them: `_trees`, and descriptions as text.

Libraries that walk trees themselves find the kinds of nodes in `SUPPORTED_NODES`, and how dictionaries, lists and tuples are taken
apart in functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _trees, _treespecs
from ._trees import *  # noqa: F403
from ._trees import (  # noqa: F401
    MappingKey,
    SequenceKey,
    _broadcast_to_and_flatten,
    _deregister_pytree_node,
    _register_namedtuple,
)
from ._treespecs import *  # noqa: F403

_register_pytree_node = _trees.register_pytree_node
_is_leaf = _trees.tree_is_leaf

__all__ = [*_trees.__all__, *_treespecs.__all__, "NodeDef", "SUPPORTED_NODES"]


class NodeDef(NamedTuple):
    """How nodes of one class are taken apart and made again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]]


class _Nodes(Mapping):
    """The registered kinds, as they are now."""

    def __getitem__(self, kind: Any) -> NodeDef:
        node = _trees._NODES[kind]

        def with_keys(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
            keys, children, context = node.flatten(x)
            return list(zip(keys, children)), context

        def flatten(x: Any) -> tuple[list[Any], Any]:
            _, children, context = node.flatten(x)
            return list(children), context

        return NodeDef(kind, flatten, node.unflatten, with_keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(_trees._NODES)

    def __len__(self) -> int:
        return len(_trees._NODES)


SUPPORTED_NODES = _Nodes()


def _get_node_type(tree: Any) -> Any:
    """The kind that a node is registered under; a leaf's own class."""
    kind = _trees._kind(tree)
    return type(tree) if kind is None else kind


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Any, context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _list_flatten(d: list[Any]) -> tuple[list[Any], None]:
    return d, None


def _list_flatten_with_keys(d: list[Any]) -> tuple[list[tuple[Any, Any]], None]:
    return [(SequenceKey(k), value) for k, value in enumerate(d)], None


def _list_unflatten(values: Any, context: Any) -> list[Any]:
    return list(values)


def _tuple_flatten(d: tuple) -> tuple[list[Any], None]:
    return list(d), None


def _tuple_flatten_with_keys(d: tuple) -> tuple[list[tuple[Any, Any]], None]:
    return [(SequenceKey(k), value) for k, value in enumerate(d)], None


def _tuple_unflatten(values: Any, context: Any) -> tuple:
    return tuple(values)
