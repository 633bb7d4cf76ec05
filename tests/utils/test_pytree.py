"""Trees of containers: random ones are taken apart and put together again; errors name the place."""

from __future__ import annotations

import random
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import flambeau
from flambeau.utils import _pytree as pytree
from flambeau.utils._pytree import (
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

Pair = namedtuple("Pair", "left right")


def draw(rng: random.Random, depth: int):
    """A random tree, and its leaves in order."""
    if depth == 0 or rng.random() < 0.2:
        leaf = rng.choice([None, 1, "text", 2.5, object()])
        return leaf, [leaf]
    kind = rng.choice([list, tuple, dict, OrderedDict, defaultdict, deque, Pair])
    parts = [draw(rng, depth - 1) for _ in range(2 if kind is Pair else rng.randrange(4))]
    trees, leaves = [t for t, _ in parts], [leaf for _, found in parts for leaf in found]
    if kind is Pair:
        return Pair(*trees), leaves
    if kind in (dict, OrderedDict):
        return kind((f"k{i}", t) for i, t in enumerate(trees)), leaves
    if kind is defaultdict:
        return defaultdict(list, {i: t for i, t in enumerate(trees)}), leaves
    return (deque(trees, maxlen=5) if kind is deque else kind(trees)), leaves


@pytest.mark.parametrize("seed", range(40))
def test_random_trees_come_back(seed):
    tree, leaves = draw(random.Random(seed), 4)
    found, spec = tree_flatten(tree)
    assert len(found) == len(leaves) == spec.num_leaves
    assert all(a is b for a, b in zip(found, leaves))
    again = tree_unflatten(found, spec)
    assert again == tree and type(again) is type(tree)
    assert tree_structure(again) == spec and hash(tree_structure(again)) == hash(spec)
    assert list(pytree.tree_iter(tree)) == found
    for path, leaf in tree_flatten_with_path(tree)[0]:
        assert pytree.key_get(tree, path) is leaf
    numbered = tree_unflatten(range(len(found)), spec)
    assert tree_map(lambda a, b: (a, b), numbered, tree) == tree_unflatten(
        zip(range(len(found)), found), spec
    )


def test_kinds_are_told_apart():
    specs = [tree_structure(t) for t in ([1], (1,), {"a": 1}, {"b": 1}, deque([1]), deque([1], 2), 1, [1, 2])]
    assert all((a == b) == (i == j) for i, a in enumerate(specs) for j, b in enumerate(specs))
    kept = tree_map(str, defaultdict(set, a=1))
    assert kept == {"a": "1"} and kept["new"] == set()
    assert tree_map(str, deque([1, 2], maxlen=2)).maxlen == 2


def test_named_results_and_struct_sequences_are_nodes():
    found = flambeau.tensor([3.0, 1.0]).sort()
    doubled = tree_map(lambda x: x * 2, found)
    assert type(doubled) is type(found) and doubled.values.tolist() == [2.0, 6.0]
    now = time.gmtime(0)
    assert tree_map(lambda x: x, now) == now and tree_leaves(now) == list(now)
    assert tree_leaves(flambeau.Size((2, 3))) == [flambeau.Size((2, 3))]  # a subclass of tuple is a leaf


def test_dictionaries_agree_by_their_keys():
    assert tree_map(lambda a, b: a + b, {"a": 1, "b": 2}, {"b": 20, "a": 10}) == {"a": 11, "b": 22}
    assert tree_map(lambda a, b: a + b, {"a": 1}, OrderedDict(a=10)) == {"a": 11}
    with pytest.raises(ValueError, match=r"missing key\(s\): \['b'\]; additional key\(s\): \['c'\]"):
        tree_map(lambda a, b: a, {"a": 1, "b": 2}, {"a": 1, "c": 2})


def test_errors_name_the_place():
    with pytest.raises(ValueError, match=r"Node arity mismatch at \['x'\]\[1\]: expected 2, but got 1"):
        tree_map(lambda a, b: a, {"x": [1, (2, 3)]}, {"x": [1, (2,)]})
    with pytest.raises(ValueError, match="Type mismatch: expected list, but got tuple"):
        tree_map(lambda a, b: a, [1], (1,))
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds 2 items"):
        tree_unflatten([1], tree_structure([1, 2]))
    with pytest.raises(TypeError, match="must be a TreeSpec, got list"):
        tree_unflatten([1], [1])
    with pytest.raises(TypeError, match="expected a class"):
        pytree.tree_map_only(3, str, [1])


def test_parts_below_leaves_are_handed_whole():
    assert tree_map(lambda a, b: b, [1, 2], [[3, 4], {"a": 5}]) == [[3, 4], {"a": 5}]
    stop = lambda x: isinstance(x, tuple)
    assert tree_leaves([(1, 2), [3]], is_leaf=stop) == [(1, 2), 3]
    assert pytree.tree_is_leaf((1,), stop) and not pytree.tree_is_leaf((1,))


def test_tests_of_leaves():
    tree = [1, {"a": "x", "b": 3}]
    assert pytree.tree_any(lambda x: x == "x", tree) and not pytree.tree_all(lambda x: x == "x", tree)
    assert pytree.tree_all_only(int, lambda x: x > 0, tree) and not pytree.tree_any_only(
        int, lambda x: x > 3, tree
    )
    assert pytree.tree_map_only((int,), lambda x: -x, tree) == [-1, {"a": "x", "b": -3}]
    assert pytree.tree_map_only(lambda x: x == 3, lambda x: 0, tree) == [1, {"a": "x", "b": 0}]
    seen = []
    assert pytree.tree_map_(seen.append, tree) is tree and seen == [1, "x", 3]
    named = pytree.tree_map_with_path(lambda path, x: keystr(path), [1, Pair(2, {"k": 3})])
    assert named == ["[0]", Pair("[1].left", {"k": "[1].right['k']"})]


def test_classes_are_registered_once():
    class Box:
        def __init__(self, inside):
            self.inside = inside

    class Sub(Box):
        pass

    pytree.register_pytree_node(Box, lambda b: ([b.inside], "context"), lambda parts, _: Box(*parts))
    assert tree_map(lambda x: x + 1, [Box(1)])[0].inside == 2
    sub = Sub(1)
    assert tree_leaves([sub]) == [sub]
    with pytest.raises(ValueError, match="already registered as pytree node"):
        pytree.register_pytree_node(Box, None, None)


def test_constants_are_part_of_the_description():
    class Mode:
        def __init__(self, name):
            self.name = name

        def __eq__(self, other):
            return self.name == other.name

        def __hash__(self):
            return hash(self.name)

    pytree.register_constant(Mode)
    assert pytree.is_constant_class(Mode) and tree_leaves([Mode("a"), 1]) == [1]
    assert tree_structure(Mode("a")) == tree_structure(Mode("a")) != tree_structure(Mode("b"))

    class Plain:
        pass

    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(Plain)
    with pytest.raises(ValueError, match="no dataclass"):
        pytree.register_dataclass(Plain)


# --- descriptions as text, and further names ------------------------------------------------------
MIXED = {
    "a": [1, (2,)],
    3: OrderedDict(x=1),
    "d": defaultdict(int, {"k": 1}),
    "q": deque([1], maxlen=3),
    "N": None,
}
# What PyTorch 2.13 writes of that.
LEAF_TEXT = '{"type": null, "context": null, "children_spec": []}'
MIXED_TEXT = (
    '[1, {"type": "builtins.dict", "context": "[\\"a\\", 3, \\"d\\", \\"q\\", \\"N\\"]", "children_spec": ['
    '{"type": "builtins.list", "context": "null", "children_spec": [L, '
    '{"type": "builtins.tuple", "context": "null", "children_spec": [L]}]}, '
    '{"type": "collections.OrderedDict", "context": "[\\"x\\"]", "children_spec": [L]}, '
    '{"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", '
    '"default_factory_name": "int", "dict_context": ["k"]}, "children_spec": [L]}, '
    '{"type": "collections.deque", "context": "3", "children_spec": [L]}, L]}]'
).replace("L", LEAF_TEXT)


def test_descriptions_are_written_and_read_as_pytorch_does():
    spec = tree_structure(MIXED)
    assert pytree.treespec_dumps(spec) == MIXED_TEXT
    assert pytree.treespec_loads(MIXED_TEXT) == spec
    assert pytree.treespec_loads(MIXED_TEXT).unflatten(tree_leaves(MIXED)) == MIXED
    assert pytree.treespec_pprint(tree_structure({"a": [1, (2,)]})) == "{'a': [*, (*,)]}"


def test_classes_have_names_in_texts():
    class Box:
        def __init__(self, inside, label):
            self.inside, self.label = inside, label

    Point = namedtuple("Point", "x y")
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        pytree.treespec_dumps(tree_structure(Point(1, 2)))
    pytree._register_namedtuple(Point, serialized_type_name="tests.Point")
    pytree.register_pytree_node(
        Box,
        lambda b: ([b.inside], b.label),
        lambda children, label: Box(*children, label),
        serialized_type_name="tests.Box",
        to_dumpable_context=lambda label: label.decode(),
        from_dumpable_context=lambda text: text.encode(),
    )
    try:
        spec = tree_structure([Box(Point(1, 2), b"here")])
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
        with pytest.raises(ValueError, match="is taken"):
            pytree._register_namedtuple(Pair, serialized_type_name="tests.Box")
    finally:
        pytree._deregister_pytree_node(Box)
    box = Box(1, b"")
    assert tree_leaves(box) == [box]
    with pytest.raises(ValueError, match="Both to_dumpable_context and from_dumpable_context"):
        pytree.register_pytree_node(Box, list, list, to_dumpable_context=str)
    with pytest.raises(NotImplementedError, match="tests.Box"):
        pytree.treespec_loads('[1, {"type": "tests.Box", "context": "", "children_spec": []}]')


def test_hostile_and_broken_texts(tmp_path, monkeypatch):
    (tmp_path / "evil_factory.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    factory = (
        '[1, {{"type": "collections.defaultdict", "context": {{"default_factory_module": "{}", '
        '"default_factory_name": "{}", "dict_context": []}}, "children_spec": []}}]'
    )
    for module, name in (("evil_factory", "x"), ("os", "system"), ("builtins", "eval")):
        with pytest.raises(NotImplementedError, match="no class in an imported module"):
            pytree.treespec_loads(factory.format(module, name))
    for text in (
        "{}",
        "[2, {}]",
        "[1, {}]",
        "[1]",
        "nonsense",
        '[1, {"type": null, "context": null, "children_spec": [' + LEAF_TEXT + "]}]",
        '[1, {"type": "builtins.dict", "context": "[1, 2]", "children_spec": []}]',
        '[1, {"type": "builtins.dict", "context": "3", "children_spec": []}]',
    ):
        with pytest.raises(ValueError):
            pytree.treespec_loads(text)
    with pytest.raises(ValueError, match="Unknown protocol 2"):
        pytree.treespec_dumps(tree_structure(1), protocol=2)
    for function in (pytree.treespec_dumps, pytree.treespec_pprint):
        with pytest.raises(TypeError, match="a TreeSpec expected"):
            function([1])
    with pytest.raises(TypeError, match="Unable to serialize context"):
        pytree.treespec_dumps(tree_structure({object(): 1}))


def test_descriptions_made_by_hand():
    leaf = pytree.treespec_leaf()
    assert pytree.treespec_tuple([leaf, leaf]) == tree_structure((1, 2))
    assert pytree.treespec_dict({"a": leaf}, b=leaf) == tree_structure({"a": 1, "b": 2})
    with pytest.raises(TypeError, match="treespec_tuple"):
        pytree.treespec_tuple([1])


def test_beginnings_of_trees_are_spread():
    spec = tree_structure([1, [2, 3]])
    spread = pytree._broadcast_to_and_flatten
    assert spread(1, spec) == [1, 1, 1]
    assert spread([1, 2], spec) == [1, 2, 2]
    assert spread([1, 2, 3], spec) is None and spread({"a": 1}, spec) is None
    assert pytree.arg_tree_leaves(1, [2], x={"y": 3}) == [1, 2, 3]
    assert pytree.map_only((int, str))(lambda x: x * 2)("a") == "aa"
    assert pytree.map_only(int)(lambda x: x * 2)("a") == "a"


def test_the_public_name():
    from flambeau.utils import pytree as public

    assert public.tree_map is pytree.tree_map and set(public.__all__) == set(pytree.__all__)
