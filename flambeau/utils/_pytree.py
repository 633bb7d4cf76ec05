"""Trees of Python's containers, under the name that PyTorch has them: `_trees`, and descriptions as text.

Libraries that walk trees themselves find the kinds of nodes in `SUPPORTED_NODES`, and how dictionaries, lists and tuples are taken
apart in functions of their own.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from . import _trees, _treespecs
from ._trees import *  # noqa: F403
from ._trees import (  # noqa: F401
    ConstantNode,
    MappingKey,
    NodeDef,
    SequenceKey,
    _broadcast_to_and_flatten,
    _deregister_pytree_node,
    _is_constant_holder,
    _register_namedtuple,
    _retrieve_constant,
)
from ._treespecs import *  # noqa: F403
from ._treespecs import enum_object_hook  # noqa: F401

_is_leaf = _trees.tree_is_leaf
_is_namedtuple_instance = _trees.is_namedtuple_instance
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = _treespecs.PROTOCOL
SERIALIZED_TYPE_TO_PYTHON_TYPE = _trees._BY_NAME
pytree_to_str, str_to_pytree = _treespecs.treespec_dumps, _treespecs.treespec_loads
# Names of annotations of some releases ago.
FlattenFunc, UnflattenFunc = _trees.FlattenFn, _trees.UnflattenFn
FlattenWithKeysFn = FlattenWithKeysFunc = Callable[[Any], tuple[list[tuple[Any, Any]], Any]]

__all__ = [*_trees.__all__, *_treespecs.__all__, "NodeDef", "SUPPORTED_NODES"]


class _Nodes(MutableMapping):
    """The registered kinds, as they are now; a `NodeDef` that is put in registers its class."""

    def __getitem__(self, kind: Any) -> NodeDef:
        node = _trees._NODES[_trees.NAMEDTUPLE if kind is namedtuple else kind]
        if node.definition is not None:
            return node.definition

        def with_keys(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
            keys, children, context = node.flatten(x)
            return list(zip(keys, children)), context

        def flatten(x: Any) -> tuple[list[Any], Any]:
            _, children, context = node.flatten(x)
            return list(children), context

        return NodeDef(kind, flatten, node.unflatten, with_keys)

    def __setitem__(self, kind: Any, node: NodeDef) -> None:
        entry = _trees._NODES.get(kind)
        _trees._enter(NodeDef(kind, *node[1:]), *(() if entry is None else entry[2:5]))

    def __delitem__(self, kind: Any) -> None:
        _deregister_pytree_node(kind)

    def __iter__(self) -> Iterator[Any]:
        return (namedtuple if kind is _trees.NAMEDTUPLE else kind for kind in _trees._NODES)

    def __len__(self) -> int:
        return len(_trees._NODES)


SUPPORTED_NODES = _Nodes()
CONSTANT_NODES = _trees._CONSTANTS
STANDARD_DICT_TYPES = frozenset(_trees._DICTS)
BUILTIN_TYPES = STANDARD_DICT_TYPES | {tuple, list, namedtuple, deque}


def _private_register_pytree_node(
    cls: Any,
    flatten_fn: Any,
    unflatten_fn: Any,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:
    """`register_pytree_node` that registers a class anew, with a UserWarning, where it is registered already."""
    if cls in _trees._NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=2,
        )
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    node = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    _trees._enter(node, serialized_type_name, to_dumpable_context, from_dumpable_context)


def _register_pytree_node(
    cls: Any,
    flatten_fn: Any,
    unflatten_fn: Any,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    **options: Any,
) -> None:
    """`register_pytree_node` under its old name, with which a class may be registered anew.  `to_str_fn` and `maybe_from_str_fn`
    are not called any more.
    """
    warnings.warn(
        "`utils._pytree._register_pytree_node` is deprecated. Please use `utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _get_node_type(tree: Any) -> Any:
    """The kind that a node is registered under; a leaf's own class."""
    kind = _trees._kind(tree)
    return type(tree) if kind is None else namedtuple if kind is _trees.NAMEDTUPLE else kind


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Any, context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _ordereddict_unflatten(values: Any, context: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values, strict=True))


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Any, context: Any) -> defaultdict[Any, Any]:
    return defaultdict(context[0], zip(context[1], values, strict=True))


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_unflatten(values: Any, context: Any) -> deque[Any]:
    return deque(values, maxlen=context)


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Any, context: Any) -> Any:
    return context(*values)


_ordereddict_flatten, _ordereddict_flatten_with_keys = _dict_flatten, _dict_flatten_with_keys
_odict_flatten, _odict_unflatten = _ordereddict_flatten, _ordereddict_unflatten


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
