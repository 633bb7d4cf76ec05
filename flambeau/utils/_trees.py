"""Trees of Python's containers: taken apart into a list of leaves and a description, and put together again.

A tree is a list, tuple, Size, dict, namedtuple, OrderedDict, defaultdict, deque, named result of an operation, or an object of a
registered class, whose parts are trees; everything else, None too, is a leaf.

>>> from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten
>>> leaves, spec = tree_flatten({"a": 1, "b": [2, (3,)]})
>>> leaves, spec.num_leaves
([1, 2, 3], 3)
>>> tree_unflatten([10, 20, 30], spec)
{'a': 10, 'b': [20, (30,)]}
>>> tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
[11, (22,)]
"""

from __future__ import annotations

import dataclasses
import types
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from ..core.base.dtypes import Size

PyTree: TypeAlias = Any
Context: TypeAlias = Any
IsLeaf: TypeAlias = Callable[[Any], bool] | None

FlattenFn: TypeAlias = Callable[[Any], tuple[Iterable[Any], Context]]
UnflattenFn: TypeAlias = Callable[[Iterable[Any], Context], Any]
DumpableContext: TypeAlias = Any  # what JSON holds
ToDumpableContextFn: TypeAlias = Callable[[Context], DumpableContext]
FromDumpableContextFn: TypeAlias = Callable[[DumpableContext], Context]
KeyPath: TypeAlias = tuple[Any, ...]

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "GetAttrKey",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "arg_tree_leaves",
    "is_constant_class",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "map_only",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dict",
    "treespec_leaf",
    "treespec_tuple",
]


# --- places in a tree ---------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """An element of a sequence.

    Raises:
        IndexError: `get` is called of a shorter sequence

    >>> import flambeau
    >>> from flambeau.utils.pytree import SequenceKey, keystr
    >>> keystr((SequenceKey(0),))
    '[0]'
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, of: Any) -> Any:
        """The part of `of` that stands there."""
        return of[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A value of a mapping.

    Raises:
        KeyError: `get` is called of a mapping without the key

    >>> import flambeau
    >>> from flambeau.utils.pytree import MappingKey, keystr
    >>> keystr((MappingKey("a"),))
    "['a']"
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, of: Any) -> Any:
        """The part of `of` that stands there."""
        return of[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """An attribute.

    Raises:
        AttributeError: `get` is called of an object without the attribute

    >>> import flambeau
    >>> from flambeau.utils.pytree import GetAttrKey, key_get, keystr
    >>> keystr((GetAttrKey("real"),)), key_get(3 + 4j, (GetAttrKey("real"),))
    ('.real', 3.0)
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, of: Any) -> Any:
        """The part of `of` that stands there."""
        return getattr(of, self.name)


def keystr(kp: Iterable[Any]) -> str:
    """A path as Python would write it: "['layers'][0].weight".

    Raises:
        TypeError: the argument cannot be iterated over

    >>> import flambeau
    >>> from flambeau.utils.pytree import MappingKey, SequenceKey, keystr
    >>> keystr((MappingKey("a"), SequenceKey(1)))
    "['a'][1]"
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """What stands at a path.

    Raises:
        KeyError: a dict has no such key
        IndexError: a sequence is shorter
        AttributeError: an object has no such attribute

    >>> import flambeau
    >>> from flambeau.utils.pytree import MappingKey, SequenceKey, key_get
    >>> key_get({"a": [5, 6]}, (MappingKey("a"), SequenceKey(1)))
    6
    """
    for key in kp:
        obj = key.get(obj)
    return obj


# --- kinds of nodes -----------------------------------------------------------
class NodeDef(NamedTuple):
    """How nodes of one class are taken apart and made again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None


class _Node(NamedTuple):
    """How nodes of one class are taken apart: `flatten` gives (keys, children, context)."""

    flatten: Callable[[Any], tuple[Iterable[Any], Iterable[Any], Context]]
    unflatten: Callable[[Iterable[Any], Context], Any]
    name: str | None = None  # in files of descriptions
    dump: ToDumpableContextFn | None = None  # a context as what JSON holds; None for text in JSON
    load: FromDumpableContextFn | None = None
    keyed: Callable[[Any], tuple[Iterable[Any], Iterable[Any], Context]] | None = (
        None  # with keys that are no numbers
    )
    definition: NodeDef | None = None  # as it was registered


def _of_sequence(x: Any) -> tuple[Iterable[Any], Iterable[Any], Context]:
    return map(SequenceKey, range(len(x))), x, None


def _of_mapping(x: Any) -> tuple[Iterable[Any], Iterable[Any], Context]:
    return map(MappingKey, x), x.values(), list(x)


def _of_namedtuple(x: Any) -> tuple[Iterable[Any], Iterable[Any], Context]:
    return map(GetAttrKey, type(x)._fields), x, type(x)


# Classes of namedtuples share one way; this stands for them.
NAMEDTUPLE = type("namedtuple", (), {})
_NODES: dict[Any, _Node] = {
    list: _Node(_of_sequence, lambda children, _: list(children), "builtins.list"),
    tuple: _Node(_of_sequence, lambda children, _: tuple(children), "builtins.tuple"),
    dict: _Node(_of_mapping, lambda children, keys: dict(zip(keys, children)), "builtins.dict"),
    OrderedDict: _Node(
        _of_mapping, lambda children, keys: OrderedDict(zip(keys, children)), "collections.OrderedDict"
    ),
    defaultdict: _Node(
        lambda x: (map(MappingKey, x), x.values(), [x.default_factory, list(x)]),
        lambda children, context: defaultdict(context[0], zip(context[1], children)),
        "collections.defaultdict",
    ),
    deque: _Node(
        lambda x: (map(SequenceKey, range(len(x))), x, x.maxlen),
        lambda children, maxlen: deque(children, maxlen=maxlen),
        "collections.deque",
    ),
    NAMEDTUPLE: _Node(
        _of_namedtuple,
        lambda children, cls: cls(*children),
        "collections.namedtuple",
    ),
    Size: _Node(_of_sequence, lambda children, _: Size(children), "torch.Size"),
}
# Classes by their names in files: of two that gave the same, the later one has it.
_BY_NAME: dict[str, Any] = {node.name: kind for kind, node in _NODES.items() if node.name is not None}
_CONSTANTS: set[type] = set()
_NAMED_TUPLES: dict[type, str] = {}  # their names in files
_DICTS = (dict, OrderedDict, defaultdict)


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class made by `namedtuple`, or derived from one.

    Raises nothing.

    >>> import flambeau
    >>> from collections import namedtuple
    >>> flambeau.utils.pytree.is_namedtuple_class(namedtuple("Point", "x y")), flambeau.utils.pytree.is_namedtuple_class(tuple)
    (True, False)
    """
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(isinstance(field, str) for field in fields)
        and callable(getattr(cls, "_make", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether it is a namedtuple.

    Raises nothing.

    >>> import flambeau
    >>> from collections import namedtuple
    >>> flambeau.utils.pytree.is_namedtuple_instance(namedtuple("Point", "x y")(1, 2))
    True
    """
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    """Whether it is a namedtuple or the class of one.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.utils.pytree.is_namedtuple(flambeau.tensor([1, 2]).max(0)), flambeau.utils.pytree.is_namedtuple((1, 2))
    (True, False)
    """
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether it is a class of tuples with names made in C, as `time.struct_time`.

    Raises nothing.

    >>> import flambeau
    >>> import time
    >>> flambeau.utils.pytree.is_structseq_class(time.struct_time)
    True
    """
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(
            isinstance(getattr(cls, n, None), int)
            for n in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
        )
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether it is an object of such a class.

    Raises nothing.

    >>> import flambeau
    >>> import time
    >>> flambeau.utils.pytree.is_structseq_instance(time.gmtime(0))
    True
    """
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    """Whether it is one of those, or their class.

    Raises nothing.

    >>> import flambeau
    >>> import time
    >>> flambeau.utils.pytree.is_structseq(time.gmtime(0)), flambeau.utils.pytree.is_structseq((1, 2))
    (True, False)
    """
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _kind(tree: Any) -> Any:
    """The kind of a node; None for a leaf."""
    cls = type(tree)
    if cls in _NODES:
        return cls
    return NAMEDTUPLE if is_namedtuple_class(cls) else None


def _deregister_pytree_node(cls: type) -> None:
    """Makes objects of a class leaves again.  KeyError for one that is not registered."""
    entry = _NODES.pop(cls, None)
    name = _NAMED_TUPLES.pop(cls, None) if entry is None else entry.name
    if entry is None and name is None:
        raise KeyError(cls)
    if name is not None and _BY_NAME.get(name) is cls:
        del _BY_NAME[name]
    _CONSTANTS.discard(cls)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Gives a class of namedtuples, which are nodes without that, a name in files of descriptions."""
    _NAMED_TUPLES[cls] = serialized_type_name
    _BY_NAME[serialized_type_name] = cls


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]],
    unflatten_fn: Callable[[Iterable[Any], Context], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Context]] | None = None,
) -> None:
    """Makes objects of a class nodes of trees; those of derived classes stay leaves.

    `flatten_fn(x)` gives the children and a context, which `unflatten_fn(children, context)` makes an object of again;
    contexts are compared by ==.  `flatten_with_keys_fn` gives pairs of a key and a child; else children are numbered.
    `serialized_type_name` is its name in files of descriptions (`treespec_dumps`), for which contexts are written as JSON, or as
    `to_dumpable_context` and `from_dumpable_context` say.  Where another class has given the same name, the later one is made of
    such files, as in PyTorch.

    Raises ValueError for a class that is registered already, or one of those functions without the other.

    >>> from flambeau.utils._pytree import register_pytree_node, tree_map
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda children, _: Pair(*children))
    >>> tree_map(lambda x: x + 1, Pair(1, [2])).b
    [3]
    """
    if cls in _NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    definition = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    _enter(definition, serialized_type_name, to_dumpable_context, from_dumpable_context)


def _enter(
    definition: NodeDef,
    name: str | None = None,
    dump: ToDumpableContextFn | None = None,
    load: FromDumpableContextFn | None = None,
) -> None:
    """Makes objects of a class nodes, in place of what was said of it before."""
    cls, flatten_fn, unflatten_fn, flatten_with_keys_fn = definition

    def flatten(x: Any) -> tuple[Iterable[Any], Iterable[Any], Context]:
        children, context = flatten_fn(x)
        children = list(children)
        return map(SequenceKey, range(len(children))), children, context

    def keyed(x: Any) -> tuple[Iterable[Any], Iterable[Any], Context]:
        pairs, context = flatten_with_keys_fn(x)  # type: ignore[misc]
        pairs = list(pairs)
        return [key for key, _ in pairs], [child for _, child in pairs], context

    with_keys = None if flatten_with_keys_fn is None else keyed
    _NODES[cls] = _Node(flatten, unflatten_fn, name, dump, load, with_keys, definition)
    if name is not None:
        _BY_NAME[name] = cls


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes objects of a dataclass nodes, whose children are its fields that `__init__` takes and that are not None.

    `field_names` says which, and `drop_field_names` which fields of a dataclass these may leave out; a class that is no dataclass
    is made with them as keywords.  A class that is registered already is registered anew, with a UserWarning.

    Raises ValueError for a class that is no dataclass without `field_names`, and for names that are not those of its fields.

    >>> import dataclasses
    >>> from flambeau.utils._pytree import register_dataclass, tree_leaves
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> register_dataclass(Point)
    >>> tree_leaves([Point(1.0, 2.0)])
    [1.0, 2.0]
    """
    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass."
            )
    elif field_names is None:
        field_names = [field.name for field in dataclasses.fields(cls) if field.init]
    else:
        fields = {field.name for field in dataclasses.fields(cls) if field.init} - set(drop_field_names or ())
        if fields != set(field_names):
            raise ValueError(
                f"field_names does not include all dataclass fields: {cls.__name__} is made of {sorted(fields)}, and "
                f"field_names are {sorted(field_names)}; what is left out belongs to drop_field_names"
            )
    names = list(field_names)

    def flatten(x: Any) -> tuple[list[tuple[Any, Any]], Context]:
        values = [(name, getattr(x, name)) for name in names]
        present = [(GetAttrKey(name), value) for name, value in values if value is not None]
        context = [
            [name for name, value in values if value is not None],
            [name for name, value in values if value is None],
        ]
        return present, context

    def without_keys(x: Any) -> tuple[list[Any], Context]:
        present, context = flatten(x)
        return [child for _, child in present], context

    def unflatten(children: Iterable[Any], context: Context) -> Any:
        present, absent = context
        return cls(**dict(zip(present, children, strict=True)), **dict.fromkeys(absent))

    if cls in _NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=2,
        )
    _enter(NodeDef(cls, without_keys, unflatten, flatten), serialized_type_name)


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """What the description of a constant keeps of it."""

    value: Any


def register_constant(cls: type) -> None:
    """Makes objects of a class part of a tree's description instead of leaves; they are compared by == and hashed.

    Raises TypeError for a class that keeps object's own == or has no hash.

    >>> from flambeau.utils import pytree
    >>> class Setting:
    ...     def __eq__(self, other):
    ...         return type(other) is Setting
    ...     def __hash__(self):
    ...         return 1
    >>> pytree.register_constant(Setting)
    >>> pytree.tree_leaves([1, Setting()])
    [1]
    """
    if cls.__eq__ is object.__eq__:  # type: ignore[comparison-overlap]
        raise TypeError(
            f"register_constant(cls) expects `cls` to have a non-default `__eq__` implementation, got {cls}"
        )
    if cls.__hash__ is None:
        raise TypeError(f"register_constant(cls) expects `cls` to have a `__hash__`, got {cls}")

    def flatten(x: Any) -> tuple[list[Any], Context]:
        return [], ConstantNode(x)

    register_pytree_node(cls, flatten, lambda children, held: held.value, flatten_with_keys_fn=flatten)
    _CONSTANTS.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether `register_constant` was called with it.

    Raises nothing.

    >>> from flambeau.utils import pytree
    >>> pytree.is_constant_class(int)
    False
    """
    return isinstance(cls, type) and cls in _CONSTANTS


def _is_constant_holder(spec: TreeSpec) -> bool:
    """Whether a description is that of a constant."""
    return isinstance(spec.context, ConstantNode)


def _retrieve_constant(spec: TreeSpec) -> Any:
    """The constant that a description holds.  AssertionError for another description."""
    if not _is_constant_holder(spec):
        raise AssertionError("spec does not correspond to a registered constant pytree")
    return spec.unflatten([])


# --- descriptions -------------------------------------------------------------
class TreeSpec:
    """What a tree is without its leaves: a node's kind, its context and its children's descriptions.

    Raises:
        TypeError: an argument is missing
        ValueError: `unflatten` is given another number of leaves

    >>> from flambeau.utils import pytree
    >>> spec = pytree.tree_structure({"a": 1, "b": [2, 3]})
    >>> spec.num_leaves, spec.unflatten([4, 5, 6])
    (3, {'a': 4, 'b': [5, 6]})
    """

    __slots__ = ("type", "context", "_children", "num_nodes", "num_leaves")

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self._children = type, context, tuple(children_specs)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves: int = 1 if type is None else sum(child.num_leaves for child in self._children)

    @property
    def num_children(self) -> int:
        """How many parts the node has."""
        return len(self._children)

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The descriptions of the parts."""
        return list(self._children)

    def is_leaf(self) -> bool:
        """Whether it describes a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The descriptions of the parts."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """That of one part."""
        return self._children[index]

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree with these leaves.  ValueError unless there are `num_leaves`."""
        result = list(leaves)
        if len(result) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(result)} but the spec refers to a pytree "
                f"that holds {self.num_leaves} items ({self})."
            )
        return self._made_of(iter(result))

    def _made_of(self, leaves: Iterator[Any]) -> PyTree:
        if self.type is None:
            return next(leaves)
        return _NODES[self.type].unflatten([child._made_of(leaves) for child in self._children], self.context)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The parts of another tree that stand where this one has leaves.  ValueError where it has no such place."""
        result: list[PyTree] = []
        self._take_from(tree, (), result)
        return result

    def _take_from(self, tree: PyTree, path: tuple, result: list[PyTree]) -> None:
        if self.type is None:
            result.append(tree)
            return
        kind, at = _kind(tree), f" at {keystr(path)}" if path else ""
        both = kind in _DICTS and self.type in _DICTS
        if kind is not self.type and not both:
            raise ValueError(
                f"Type mismatch{at}: expected {self._type_name()}, but got {type(tree).__name__}."
            )
        node = _NODES[kind]
        keys, children, context = map(_listed, (node.keyed or node.flatten)(tree))
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch{at}: expected {self.num_children}, but got {len(children)}."
            )
        if both:  # dictionaries agree where their keys do, in whichever order
            wanted = _keys_of(self.type, self.context)
            missing, extra = [k for k in wanted if k not in tree], [k for k in tree if k not in set(wanted)]
            if missing or extra:
                raise ValueError(
                    f"Node keys mismatch{at}: "
                    + "; ".join(
                        f"{what} key(s): {names}"
                        for what, names in (("missing", missing), ("additional", extra))
                        if names
                    )
                )
            keys, children = [MappingKey(k) for k in wanted], [tree[k] for k in wanted]
        elif context != self.context:
            raise ValueError(f"Node context mismatch{at}: expected {self.context!r}, but got {context!r}.")
        for spec, key, child in zip(self._children, keys, children):
            spec._take_from(child, (*path, key), result)

    def _type_name(self) -> str:
        return self.type.__name__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        if self is other:
            return True
        if self.type is not other.type or self.num_children != other.num_children:
            return False
        return self.context == other.context and self._children == other._children

    def __hash__(self) -> int:
        context = tuple(_keys_of(self.type, self.context)) if self.type in _DICTS else self.context
        return hash((self.type, context, self._children))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        inside = ",\n".join(repr(child) for child in self._children).replace("\n", "\n  ")
        return f"TreeSpec({self._type_name()}, {self.context!r}, [{inside}])"


def _listed(x: Any) -> Any:
    return x if isinstance(x, (list, type(None))) or not isinstance(x, Iterable) else list(x)


def _keys_of(kind: Any, context: Context) -> list[Any]:
    return context[1] if kind is defaultdict else context


class LeafSpec(TreeSpec):
    """The description of a leaf.

    >>> from flambeau.utils import pytree
    >>> pytree.tree_structure(1) == pytree.LeafSpec()
    True
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


LEAF = LeafSpec()
PyTreeSpec = TreeSpec


def treespec_leaf() -> TreeSpec:
    """The description of a leaf.

    >>> import flambeau
    >>> flambeau.utils.pytree.treespec_leaf() == flambeau.utils.pytree.tree_structure(5)
    True
    """
    return LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The description of a tuple of parts that these describe.

    Raises:
        ValueError: a member is no TreeSpec

    >>> from flambeau.utils._pytree import treespec_leaf, treespec_tuple
    >>> treespec_tuple([treespec_leaf()]).unflatten([3])
    (3,)
    """
    return TreeSpec(tuple, None, _specs(iterable, "treespec_tuple"))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The description of a dictionary of parts that these describe.

    Raises:
        ValueError: a value is no TreeSpec

    >>> from flambeau.utils._pytree import treespec_dict, treespec_leaf
    >>> treespec_dict(a=treespec_leaf()).unflatten([3])
    {'a': 3}
    """
    parts = dict(mapping, **kwargs)
    return TreeSpec(dict, list(parts), _specs(parts.values(), "treespec_dict"))


def _specs(values: Iterable[Any], who: str) -> list[TreeSpec]:
    result = list(values)
    for value in result:
        if not isinstance(value, TreeSpec):
            raise ValueError(f"{who}(): TreeSpecs expected, got {value!r}")
    return result


def _spec(value: Any, who: str) -> TreeSpec:
    if not isinstance(value, TreeSpec):
        raise TypeError(f"{who}(): a TreeSpec expected, got {type(value).__name__}")
    return value


# --- taking apart, putting together -------------------------------------------
def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is one leaf: of no registered class, or one that `is_leaf` says is.

    Raises:
        TypeError: `is_leaf` cannot be called

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_is_leaf(5), flambeau.utils.pytree.tree_is_leaf([5])
    (True, False)
    """
    return (is_leaf is not None and bool(is_leaf(tree))) or _kind(tree) is None


def _walk(tree: PyTree, is_leaf: IsLeaf, leaves: list[Any]) -> TreeSpec:
    """Append the leaves; returns the description."""
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return LEAF
    kind = _kind(tree)
    _, children, context = _NODES[kind].flatten(tree)
    return TreeSpec(kind, context, [_walk(child, is_leaf, leaves) for child in children])


def _paths(tree: PyTree, is_leaf: IsLeaf, path: tuple) -> Iterator[tuple]:
    """The paths of the leaves."""
    if tree_is_leaf(tree, is_leaf):
        yield path
        return
    node = _NODES[_kind(tree)]
    keys, children, _ = (node.keyed or node.flatten)(tree)
    for key, child in zip(keys, children):
        yield from _paths(child, is_leaf, (*path, key))


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[tuple, Any]], TreeSpec]:
    """Pairs of a path and a leaf, and the description of the tree.

    Raises:
        TypeError: `is_leaf` cannot be called

    >>> from flambeau.utils._pytree import keystr, tree_flatten_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"a": [1, 2]})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return list(zip(_paths(tree, is_leaf, ()), leaves)), spec


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves from left to right (dictionaries in their order), and the description of the tree.

    `is_leaf(x)` may say of any part that it is not taken apart.

    Raises:
        TypeError: `is_leaf` cannot be called

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_flatten({"a": 1, "b": [2, 3]})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    spec = _walk(tree, is_leaf, leaves)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of that description with these leaves.  TypeError for no TreeSpec, ValueError for another number of leaves.

    >>> import flambeau
    >>> from flambeau.utils.pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": 1, "b": [2, 3]})
    >>> tree_unflatten([10 * x for x in leaves], spec)
    {'a': 10, 'b': [20, 30]}
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten(): treespec must be a TreeSpec, got {type(treespec).__name__}")
    return treespec.unflatten(leaves)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[tuple, Any]]:
    """Pairs of a path and a leaf.

    Raises:
        TypeError: `is_leaf` cannot be called

    >>> import flambeau
    >>> from flambeau.utils.pytree import keystr, tree_leaves_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": 1, "b": [2, 3]})]
    [("['a']", 1), ("['b'][0]", 2), ("['b'][1]", 3)]
    """
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves from left to right.

    Raises:
        TypeError: `is_leaf` cannot be called

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_leaves({"a": 1, "b": [2, 3]})
    [1, 2, 3]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves, one by one.

    Raises:
        TypeError: `is_leaf` cannot be called, at the first step

    >>> import flambeau
    >>> list(flambeau.utils.pytree.tree_iter({"a": 1, "b": [2, 3]}))
    [1, 2, 3]
    """
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in _NODES[_kind(tree)].flatten(tree)[1]:
        yield from tree_iter(child, is_leaf)


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The description of a tree.

    Raises:
        TypeError: `is_leaf` cannot be called

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_structure([1, 2]) == flambeau.utils.pytree.tree_structure([5, 6])
    True
    """
    return tree_flatten(tree, is_leaf)[1]


# --- functions of leaves ------------------------------------------------------
def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """A tree of the function's results at each leaf; of `rests`, whose structure begins as the tree's, the parts there.

    Raises:
        ValueError: a tree of `rests` is not built as the first
        TypeError: `func` cannot be called

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_map(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, {"a": 10, "b": [20, 30]})
    {'a': 11, 'b': [22, 33]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` of a function that gets the path first.

    Raises:
        ValueError: a tree of `rests` is not built as the first
        TypeError: `func` cannot be called

    >>> import flambeau
    >>> from flambeau.utils.pytree import keystr, tree_map_with_path
    >>> tree_map_with_path(lambda path, x: f"{keystr(path)}={x}", {"a": 1})
    {'a': "['a']=1"}
    """
    result, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in result], [leaf for _, leaf in result]
    return spec.unflatten(map(func, paths, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call the function at each leaf for its effects; returns the tree as it is.

    Raises:
        ValueError: a tree of `rests` is not built as the first
        TypeError: `func` cannot be called

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_map_(print, [1, [2]])
    1
    2
    [1, [2]]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    for arguments in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*arguments)
    return tree


def _wanted(filter: Any) -> Callable[[Any], bool]:
    """A test of leaves from a class, several, a union, or a function."""
    if isinstance(filter, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, filter)
    if callable(filter):
        return filter
    raise TypeError(f"expected a class, a tuple or union of classes, or a function, got {filter!r}")


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Makes a function leave alone what is not of some classes, or of which a function does not say so.

    Raises:
        TypeError: the argument is neither a class, nor a tuple or union of classes, nor a function

    >>> from flambeau.utils._pytree import map_only
    >>> @map_only(int)
    ... def double(x):
    ...     return 2 * x
    >>> double(3), double("a")
    (6, 'a')
    """
    wanted = _wanted(type_or_types_or_pred)
    return lambda func: lambda x: func(x) if wanted(x) else x


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` over the leaves of some classes, or of which a function says so; others stay.

    Raises:
        TypeError: the first argument is neither a class, nor a tuple or union of classes, nor a function

    >>> from flambeau.utils._pytree import tree_map_only
    >>> tree_map_only(int, lambda x: -x, [1, "a", (2,)])
    [-1, 'a', (-2,)]
    """
    wanted = _wanted(type_or_types_or_pred)
    return tree_map(lambda x: func(x) if wanted(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map_` over those leaves.

    Raises:
        TypeError: the first argument is neither a class, nor a tuple or union of classes, nor a function

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_map_only_(int, print, [1, "text"])
    1
    [1, 'text']
    """
    wanted = _wanted(type_or_types_or_pred)
    return tree_map_(lambda x: func(x) if wanted(x) else x, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether it holds for every leaf.

    Raises:
        TypeError: `pred` cannot be called

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_all(lambda x: x > 0, {"a": 1, "b": [2, 3]})
    True
    """
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether it holds for a leaf.

    Raises:
        TypeError: `pred` cannot be called

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_any(lambda x: x > 2, {"a": 1, "b": [2, 3]})
    True
    """
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether it holds for every leaf of those classes.

    Raises:
        TypeError: the first argument is neither a class, nor a tuple or union of classes, nor a function

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_all_only(int, lambda x: x > 0, [1, "text"])
    True
    """
    wanted = _wanted(type_or_types)
    return all(pred(x) for x in tree_iter(tree, is_leaf) if wanted(x))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether it holds for a leaf of those classes.

    Raises:
        TypeError: the first argument is neither a class, nor a tuple or union of classes, nor a function

    >>> import flambeau
    >>> flambeau.utils.pytree.tree_any_only(int, lambda x: x > 2, [1, "text"])
    False
    """
    wanted = _wanted(type_or_types)
    return any(pred(x) for x in tree_iter(tree, is_leaf) if wanted(x))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of what a function was given.

    Raises nothing.

    >>> from flambeau.utils._pytree import arg_tree_leaves
    >>> arg_tree_leaves(1, [2], x=(3,))
    [1, 2, 3]
    """
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_iter(tree)]


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """The leaves of a tree that begins as the one described, each as often as leaves stand there; None where it does not."""
    result: list[Any] = []
    try:
        parts = tree_structure(tree, is_leaf).flatten_up_to(treespec.unflatten([0] * treespec.num_leaves))
    except ValueError:
        return None
    for leaf, part in zip(tree_leaves(tree, is_leaf), parts):
        result.extend([leaf] * tree_structure(part, is_leaf).num_leaves)
    return result
