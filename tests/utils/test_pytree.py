"""Trees of containers: random ones are taken apart and put together again; errors name the place."""

from __future__ import annotations

import dataclasses
import enum
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
    trees, leaves = [t for t, _ in parts], [leaf for _, result in parts for leaf in result]
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
    result, spec = tree_flatten(tree)
    assert len(result) == len(leaves) == spec.num_leaves
    assert all(a is b for a, b in zip(result, leaves))
    again = tree_unflatten(result, spec)
    assert again == tree and type(again) is type(tree)
    assert tree_structure(again) == spec and hash(tree_structure(again)) == hash(spec)
    assert list(pytree.tree_iter(tree)) == result
    for path, leaf in tree_flatten_with_path(tree)[0]:
        assert pytree.key_get(tree, path) is leaf
    numbered = tree_unflatten(range(len(result)), spec)
    assert tree_map(lambda a, b: (a, b), numbered, tree) == tree_unflatten(
        zip(range(len(result)), result), spec
    )


def test_kinds_are_told_apart():
    specs = [tree_structure(t) for t in ([1], (1,), {"a": 1}, {"b": 1}, deque([1]), deque([1], 2), 1, [1, 2])]
    assert all((a == b) == (i == j) for i, a in enumerate(specs) for j, b in enumerate(specs))
    mapped = tree_map(str, defaultdict(set, a=1))
    assert mapped == {"a": "1"} and mapped["new"] == set()
    assert tree_map(str, deque([1, 2], maxlen=2)).maxlen == 2


def test_named_results_and_sizes_are_nodes():
    result = flambeau.tensor([3.0, 1.0]).sort()
    doubled = tree_map(lambda x: x * 2, result)
    assert type(doubled) is type(result) and doubled.values.tolist() == [2.0, 6.0]
    now = time.gmtime(0)
    assert tree_leaves(now) == [now]  # of Python's own, not of an operation
    size = flambeau.Size((2, 3))
    assert tree_leaves(size) == [2, 3] and type(tree_map(lambda x: 2 * x, size)) is flambeau.Size
    rest = type("Rest", (tuple,), {})((1, 2))
    assert tree_leaves(rest) == [rest]  # a subclass of tuple is a leaf


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
    with pytest.raises(ValueError, match="not a dataclass"):
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
    finally:
        pytree._deregister_pytree_node(Box)
    box = Box(1, b"")
    assert tree_leaves(box) == [box]
    with pytest.raises(ValueError, match="Both to_dumpable_context and from_dumpable_context"):
        pytree.register_pytree_node(Box, list, list, to_dumpable_context=str)
    with pytest.raises(NotImplementedError, match="tests.Box"):
        pytree.treespec_loads('[1, {"type": "tests.Box", "context": "", "children_spec": []}]')


class Colour(enum.Enum):
    RED = 1


def box_of(name, **options):
    class Box:
        def __init__(self, *inside):
            self.inside = inside

    pytree.register_pytree_node(
        Box,
        lambda b: (list(b.inside), None),
        lambda children, _: Box(*children),
        serialized_type_name=name,
        **options,
    )
    return Box


def test_of_two_classes_with_one_name_the_later_is_read():
    """As in PyTorch, builtins too; what is written does not change."""
    text = pytree.treespec_dumps(tree_structure([1, 2]))
    first = box_of("builtins.list")
    try:
        second = box_of("builtins.list")
        try:
            assert pytree.treespec_dumps(tree_structure(first(1, 2))) == text
            assert pytree.treespec_dumps(tree_structure([1, 2])) == text
            assert type(pytree.treespec_loads(text).unflatten([1, 2])) is second
        finally:
            pytree._deregister_pytree_node(second)
        with pytest.raises(
            NotImplementedError, match="Deserializing builtins.list in pytree is not registered"
        ):
            pytree.treespec_loads(text)
    finally:
        pytree._deregister_pytree_node(first)
        pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE["builtins.list"] = list
    assert pytree.treespec_loads(text).unflatten([1, 2]) == [1, 2]
    with pytest.raises(KeyError):
        pytree._deregister_pytree_node(second)


def test_members_of_enumerations_are_contexts():
    spec = tree_structure({Colour.RED: 1, "b": 2})
    text = pytree.treespec_dumps(spec)
    assert f'{{\\"__enum__\\": true, \\"fqn\\": \\"{__name__}:Colour\\", \\"name\\": \\"RED\\"}}' in text
    assert pytree.treespec_loads(text) == spec
    for named in ("os:system", "evil_factory:x", "builtins:int", f"{__name__}:flambeau"):
        with pytest.raises(NotImplementedError, match="no enumeration in an imported module"):
            pytree.treespec_loads(text.replace(f"{__name__}:Colour", named))


@dataclasses.dataclass
class Point:
    x: object
    y: object = None
    area: object = dataclasses.field(default=0, init=False)


def test_dataclasses():
    pytree.register_dataclass(Point)
    try:
        assert tree_leaves([Point(1, 2), Point(3)]) == [1, 2, 3]
        assert [keystr(path) for path, _ in tree_flatten_with_path(Point((1,), 2))[0]] == [".x[0]", ".y"]
        assert tree_map(lambda x: x + 1, Point(1)) == Point(2) and tree_structure(Point(1)) != tree_structure(
            Point(1, 1)
        )
        with pytest.warns(UserWarning, match="Overwriting the previous registration"):
            pytree.register_dataclass(
                Point, field_names=["x"], drop_field_names=["y"], serialized_type_name="tests.Point2"
            )
        spec = tree_structure(Point(1, 2))
        assert tree_leaves(Point(1, 2)) == [1] and pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
        assert spec.unflatten([5]) == Point(5)
        for names in (["x"], ["x", "y", "area"]):
            with pytest.raises(ValueError, match="does not include all dataclass fields"):
                pytree.register_dataclass(Point, field_names=names)
    finally:
        pytree._deregister_pytree_node(Point)


def test_constants_are_found_in_descriptions():
    constant = dataclasses.make_dataclass("Constant", ["n"], frozen=True)
    pytree.register_constant(constant)
    spec = tree_structure(constant(3))
    assert spec.context == pytree.ConstantNode(constant(3)) and spec.unflatten([]) == constant(3)
    assert pytree._is_constant_holder(spec) and pytree._retrieve_constant(spec) == constant(3)
    assert constant in pytree.CONSTANT_NODES and not pytree.is_constant_class("Constant")
    with pytest.raises(AssertionError, match="does not correspond"):
        pytree._retrieve_constant(tree_structure([1]))


def test_the_table_of_kinds_can_be_written():
    """As libraries of the time before `register_pytree_node` do."""

    class Box(list):
        pass

    node = pytree.NodeDef(
        Box, lambda b: (list(b), "made"), lambda children, context: Box([context, *children]), None
    )
    pytree.SUPPORTED_NODES[Box] = node
    assert pytree.SUPPORTED_NODES[Box] == node and tree_map(str, Box([1])) == ["made", "1"]
    assert pytree.SUPPORTED_NODES.pop(Box) == node and tree_leaves(Box([1])) == [[1]]
    assert set(pytree.BUILTIN_TYPES) <= set(pytree.SUPPORTED_NODES)
    with pytest.warns(FutureWarning, match="register_pytree_node"):
        pytree._register_pytree_node(Box, node.flatten_fn, node.unflatten_fn)
    assert tree_map(str, Box([1])) == ["made", "1"]
    pytree._deregister_pytree_node(Box)


def test_a_tree_is_flattened_by_the_function_for_that():
    """The one with keys is for paths alone, whatever it says."""
    calls = []

    def keyed(box):
        calls.append(box)
        return [(pytree.GetAttrKey("inside"), box.inside[0])], None

    Box = box_of(None, flatten_with_keys_fn=keyed)
    assert tree_leaves(Box(1)) == [1] and tree_map(str, Box(1)).inside == ("1",) and not calls
    assert [keystr(path) for path, _ in tree_flatten_with_path(Box(1))[0]] == [".inside"] and len(calls) == 1


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
    for wrong in (lambda: pytree.treespec_tuple([1]), lambda: pytree.treespec_dict(a=1)):
        with pytest.raises(ValueError, match="TreeSpecs expected, got 1"):
            wrong()
    assert isinstance(leaf, pytree.LeafSpec) and isinstance(tree_structure(3), pytree.LeafSpec)
    assert pytree.LeafSpec() == leaf and not isinstance(tree_structure([3]), pytree.LeafSpec)
    assert tree_structure([1, (2,)]).children_specs == [leaf, tree_structure((2,))]


def test_beginnings_of_trees_are_spread():
    spec = tree_structure([1, [2, 3]])
    broadcast = pytree._broadcast_to_and_flatten
    assert broadcast(1, spec) == [1, 1, 1]
    assert broadcast([1, 2], spec) == [1, 2, 2]
    assert broadcast([1, 2, 3], spec) is None and broadcast({"a": 1}, spec) is None
    assert pytree.arg_tree_leaves(1, [2], x={"y": 3}) == [1, 2, 3]
    assert pytree.map_only((int, str))(lambda x: x * 2)("a") == "aa"
    assert pytree.map_only(int)(lambda x: x * 2)("a") == "a"


def test_the_public_name():
    from flambeau.utils import pytree as public

    assert public.tree_map is pytree.tree_map and set(public.__all__) == set(pytree.__all__)
