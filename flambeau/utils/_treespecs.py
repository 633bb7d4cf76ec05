"""Descriptions of trees as text, in the format that PyTorch writes."""

from __future__ import annotations

import sys
from collections import defaultdict
from enum import Enum
from typing import Any

from ._trees import _BY_NAME, _DICTS, _NAMED_TUPLES, _NODES, LEAF, NAMEDTUPLE, Context, TreeSpec, _spec

__all__ = ["treespec_dumps", "treespec_loads", "treespec_pprint"]


class _Star:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The tree with a star for each leaf.

    Raises:
        TypeError: the argument is no TreeSpec

    >>> from flambeau.utils._pytree import tree_structure, treespec_pprint
    >>> treespec_pprint(tree_structure({"a": [1, 2]}))
    "{'a': [*, *]}"
    """
    return repr(_spec(treespec, "treespec_pprint").unflatten([_Star()] * treespec.num_leaves))


PROTOCOL = 1


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A description as JSON, as PyTorch writes it.

    NotImplementedError for classes without a `serialized_type_name`, TypeError for a context that JSON does not hold, ValueError
    for a protocol but 1.

    >>> from flambeau.utils._pytree import tree_structure, treespec_dumps
    >>> treespec_dumps(tree_structure([1]))
    '[1, {"type": "builtins.list", "context": "null", "children_spec": [{"type": null, "context": null, "children_spec": []}]}]'
    """
    import json

    if protocol not in (None, PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")

    def dumped(spec: TreeSpec) -> dict[str, Any]:
        if spec.is_leaf():
            return {"type": None, "context": None, "children_spec": []}
        node = _NODES[spec.type]
        if node.name is None:
            raise NotImplementedError(
                f"No registered serialization name for {spec.type} found. Please give register_pytree_node a "
                "`serialized_type_name`."
            )
        try:
            context = (
                json.dumps(spec.context, default=_enum) if node.dump is None else node.dump(spec.context)
            )
        except TypeError as error:
            raise TypeError(
                f"Unable to serialize context {spec.context!r} of {spec.type}. Give register_pytree_node a "
                "`to_dumpable_context`."
            ) from error
        return {"type": node.name, "context": context, "children_spec": [dumped(c) for c in spec.children()]}

    return json.dumps([PROTOCOL, dumped(_spec(treespec, "treespec_dumps"))])


def treespec_loads(serialized: str) -> TreeSpec:
    """The description that a text of `treespec_dumps`, here or in PyTorch, tells of.

    ValueError for another text, NotImplementedError for a class that nobody has registered under that name.  Nothing is imported.

    >>> from flambeau.utils._pytree import tree_structure, treespec_dumps, treespec_loads
    >>> spec = tree_structure({"a": (1, 2)})
    >>> treespec_loads(treespec_dumps(spec)) == spec
    True
    """
    import json

    result = json.loads(serialized)
    if not isinstance(result, list) or len(result) != 2:
        raise ValueError("treespec_loads(): a pair of a protocol and a description expected")
    if result[0] != PROTOCOL:
        raise ValueError(f"Unknown protocol {result[0]}. Available protocols: [{PROTOCOL}]")

    def loaded(entry: Any) -> TreeSpec:
        if not isinstance(entry, dict) or set(entry) != {"type", "context", "children_spec"}:
            raise ValueError(f"treespec_loads(): a type, a context and children_spec expected, got {entry!r}")
        children = [loaded(child) for child in entry["children_spec"]]
        if entry["type"] is None:
            if children or entry["context"] is not None:
                raise ValueError(f"treespec_loads(): a leaf has no context and no children, got {entry!r}")
            return LEAF
        kind = _BY_NAME.get(entry["type"])
        if kind not in _NODES:
            raise NotImplementedError(f"Deserializing {entry['type']} in pytree is not registered.")
        node = _NODES[kind]
        if node.load is None:
            context = json.loads(entry["context"], object_hook=enum_object_hook)
        else:
            context = node.load(entry["context"])
        keys = context[1] if kind is defaultdict else context
        if kind in _DICTS and (not isinstance(keys, list) or len(keys) != len(children)):
            raise ValueError(f"treespec_loads(): {len(children)} children of the keys {keys!r}")
        return TreeSpec(kind, context, children)

    return loaded(result[1])


def _enum(x: Any) -> dict[str, Any]:
    """A member of an enumeration as JSON, which holds others as they are."""
    if not isinstance(x, Enum):
        raise TypeError(f"Object of type {type(x).__name__} is not JSON serializable")
    return {"__enum__": True, "fqn": f"{type(x).__module__}:{type(x).__qualname__}", "name": x.name}


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """The member of an enumeration that a text names, in a module that the program has imported; other dictionaries as they are."""
    if "__enum__" not in obj:
        return obj
    module, _, path = str(obj.get("fqn")).partition(":")
    result: Any = sys.modules.get(module)
    for name in path.split("."):
        result = None if result is None else vars(result).get(name)
    if not (isinstance(result, type) and issubclass(result, Enum)):
        raise NotImplementedError(
            f"Deserializing {obj.get('fqn')!r}, which is no enumeration in an imported module"
        )
    return result[str(obj.get("name"))]


def _dumped_namedtuple(cls: type) -> str:
    if cls not in _NAMED_TUPLES:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return _NAMED_TUPLES[cls]


def _loaded_namedtuple(name: Any) -> type:
    for cls, other in _NAMED_TUPLES.items():
        if other == name:
            return cls
    raise NotImplementedError(
        f"Can't deserialize TreeSpec of namedtuple class {name} because we couldn't find a serializated name."
    )


def _dumped_defaultdict(context: Context) -> dict[str, Any]:
    factory, keys = context
    if not isinstance(factory, type):
        raise TypeError(
            f"the default factory of a defaultdict must be a class to be written, got {factory!r}"
        )
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _loaded_defaultdict(declared: Any) -> Context:
    """Of the factories that a text may name, only classes in modules that the program has imported."""
    if not isinstance(declared, dict) or set(declared) != {
        "default_factory_module",
        "default_factory_name",
        "dict_context",
    }:
        raise ValueError(f"treespec_loads(): no context of a defaultdict: {declared!r}")
    module = sys.modules.get(declared["default_factory_module"])
    factory = vars(module).get(declared["default_factory_name"]) if module is not None else None
    if not isinstance(factory, type):
        raise NotImplementedError(
            f"Deserializing a defaultdict of {declared['default_factory_module']}.{declared['default_factory_name']}, which is no class "
            "in an imported module"
        )
    return [factory, declared["dict_context"]]


_NODES[NAMEDTUPLE] = _NODES[NAMEDTUPLE]._replace(dump=_dumped_namedtuple, load=_loaded_namedtuple)
_NODES[defaultdict] = _NODES[defaultdict]._replace(dump=_dumped_defaultdict, load=_loaded_defaultdict)
