"""Guards: what they find, when they fail, and what they say then."""

from __future__ import annotations

import collections
import gc
import math
import weakref

import numpy as np
import pytest
from flambeau.graph.guards import Guards

import flambeau as torch
from flambeau.graph.sources import (
    Arguments,
    Attribute,
    ClassIs,
    Contents,
    Equals,
    Is,
    Item,
    Keys,
    Keywords,
    Lacks,
    Length,
    Namespace,
    Object,
    Same,
    TensorLike,
)

ARGS, KWARGS = Arguments(), Keywords()
FIRST, SECOND = Item(ARGS, 0), Item(ARGS, 1)


class Base:
    shade = 1


class Box(Base):
    def __init__(self, **values):
        self.__dict__.update(values)

    @property
    def half(self):
        return self.whole / 2


VALUES = (
    None, True, False, 0, 1, 2**70, 0.0, -0.0, 1.0, math.nan, 1j, complex(0.0, -0.0), "a", b"a", (), (1, "a"), (1.0, "a"), (math.nan,),
    slice(1, 2), slice(1.0, 2), torch.float32, torch.float64, torch.device("cpu"), torch.Size([1, 2]), (1, 2), ...,
)  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_equals_itself_and_no_other(value):
    guards = Guards([Equals(FIRST, value)])
    for other in VALUES:
        assert (guards.check((other,), {}) == []) is (other is value), other
    made = float(repr(value)) if type(value) is float else value
    assert guards.check((made,), {}) == []
    assert guards.explain((Box(),), {}) == f"args[0]: a Box, captured with {value!r}"


def test_where_values_are_found():
    cell = (lambda: cell).__closure__[0]
    box = Box(whole=4, items=[1, {"k": (5, 6)}])
    space = Namespace(Object(box))
    wanted = [
        (Item(Item(Item(Item(space, "items"), 1), "k"), 1), 6),
        (Attribute(Object(box), "half"), 2.0),
        (Item(KWARGS, "k"), 3),
        (Item(ARGS, 1), 9),
    ]
    guards = Guards([*(Equals(source, value) for source, value in wanted), Is(Contents(Object(cell)), cell)])
    assert guards.check((0, 9), {"j": 1, "k": 3}) == []
    assert guards.explain((0,), {"k": 3}) == "args[1]: is not there any more"
    assert guards.explain((0, 9), {"j": 3}) == "kwargs['k']: is not there any more"
    box.whole = 6
    assert guards.explain((0, 9), {"k": 3}) == "Box.half: 3.0, captured with 2.0".replace(
        "Box", repr(Object(box))
    )
    del box.whole
    assert "is not there any more" in guards.explain((0, 9), {"k": 3})
    box.items.clear()
    assert "is not there any more" in guards.explain((0, 9), {"k": 3})


@pytest.mark.parametrize(
    "guard, holds, fails, words",
    [
        (Is(FIRST, len), len, max, "another object (max), captured with len"),
        (ClassIs(FIRST, Box), Box(), Base(), "of class Base, captured with Box"),
        (ClassIs(FIRST, dict), {}, collections.OrderedDict(), "of class OrderedDict, captured with dict"),
        (Length(FIRST, 2), [1, 2], (1,), "1 items, captured with 2"),
        (Length(FIRST, 2), (1, 2), {1: 2, 3: 4}, "of class dict, captured with a list or tuple"),
        (Keys(FIRST, ("a", 1)), {"a": 0, 1: 0}, {1: 0, "a": 0}, "keys [1, 'a'], captured with keys ['a', 1]"),
        (Keys(FIRST, ("a", 1)), {"a": 0, 1: 0}, {"a": 0}, "keys ['a'], captured with keys ['a', 1]"),
        (Keys(FIRST, ()), {}, [], "list, captured with keys []"),
        (Lacks(FIRST, "a"), {"b": 1}, {"a": 1}, "has 'a', captured without"),
    ],
)
def test_each_kind(guard, holds, fails, words):
    guards = Guards([guard])
    assert guards.check((holds,), {}) == [] and guards.explain((holds,), {}) is None
    assert guards.check((fails,), {}) is None and guards.explain((fails,), {}) == f"args[0]: {words}"


def test_arguments_are_counted_and_named():
    guards = Guards([Length(ARGS, 1), Keys(KWARGS, ("a", "b"))])
    assert guards.check((1,), {"a": 1, "b": 2}) == []
    assert guards.explain((1, 2), {"a": 1, "b": 2}) == "2 positional arguments, captured with 1"
    assert guards.explain((1,), {"b": 1, "a": 2}) == "keyword arguments ['b', 'a'], captured with ['a', 'b']"
    assert Guards([Lacks(KWARGS, "a")]).explain((), {"a": 1}) == "keyword argument 'a', captured without"
    with pytest.raises(ValueError, match="items of args"):
        Guards([Is(Attribute(ARGS, "x"), 1)])


def test_the_same_object_at_two_places():
    guards = Guards([Same(SECOND, FIRST)])
    x = [1]
    assert guards.check((x, x), {}) == []
    assert guards.explain((x, [1]), {}) == "args[1]: another object than args[0], captured with one"


def test_a_class_that_is_changed_is_another():
    class Own(Base):
        pass

    for change in (lambda: setattr(Own, "a", 1), lambda: setattr(Own, "a", 2), lambda: delattr(Own, "a")):
        guards = Guards([ClassIs(FIRST, Own)])
        assert guards.check((Own(),), {}) == []
        change()
        assert guards.explain((Own(),), {}) == f"args[0]: class {Own.__qualname__} has been changed"
    guards, before = Guards([ClassIs(FIRST, Own)]), Base.shade
    try:
        Base.shade = 2
        assert guards.check((Own(),), {}) is None
    finally:
        Base.shade = before


def leaf(*shape, **options):
    return torch.ones(*shape, **options)


def read_only():
    array = np.ones((2, 4), np.float32)
    array.flags.writeable = False
    return torch.from_numpy(array)


def in_inference_mode():
    with torch.inference_mode():
        return leaf(2, 4)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize(
    "other, words",
    [
        (lambda: leaf(3, 4), "shape [3, 4], captured with [2, 4]"),
        (lambda: leaf(2, 4, 1), "shape [2, 4, 1], captured with [2, 4]"),
        (lambda: leaf(2, 4, dtype=torch.float64), "flambeau.float64, captured with flambeau.float32"),
        (lambda: leaf(4, 2).t(), "strides [1, 2], captured with [4, 1]"),
        (lambda: leaf(2, 4, requires_grad=True), "requires gradients, captured with one that does not"),
        (lambda: leaf(2, 4, device="meta"), "on meta, captured on cpu"),
        (lambda: torch.nn.Parameter(leaf(2, 4)), "of class Parameter, captured with Tensor"),
        (lambda: 3, "of class int, captured with Tensor"),
        (lambda: leaf(2, 4).data, "made by .data, captured otherwise"),
        (read_only, "memory that may not be written to, captured otherwise"),
        (in_inference_mode, "made in inference mode, captured otherwise"),
    ],
)
def test_tensors(other, words):
    guards = Guards([TensorLike(FIRST, leaf(2, 4), 0)])
    x = leaf(2, 4)
    assert guards.check((x,), {})[0] is x
    assert guards.explain((other(),), {}) == f"args[0]: {words}"


def test_results_of_the_tape_are_no_leaves():
    x = leaf(2, requires_grad=True)
    guards = Guards([TensorLike(FIRST, x, 0)])
    assert guards.explain((x * 1,), {}) == "args[0]: a result of the tape, captured with a leaf"
    assert (
        Guards([TensorLike(FIRST, x * 1, 0)]).explain((x,), {})
        == "args[0]: a leaf of the tape, captured with a result"
    )


def test_a_view_that_was_put_on_the_tape_after_it_was_made():
    base = leaf(4)
    view = base[:2]
    guards = Guards([TensorLike(FIRST, view, 0)])
    base.mul_(leaf(4, requires_grad=True))
    assert guards.explain((view,), {}).startswith("args[0]: requires gradients")


def test_a_storage_that_has_been_shrunk():
    x = leaf(2, 4)
    guards = Guards([TensorLike(FIRST, x, 0)])
    x.untyped_storage().resize_(8)
    assert guards.explain((x,), {}) == "args[0]: its storage has become too small for it"


def test_memory_that_inputs_share():
    x, y = leaf(6), leaf(6)
    apart = Guards([TensorLike(FIRST, x, 0), TensorLike(SECOND, y, 1)])
    for _ in range(3):
        assert apart.check((x, y), {}) and apart.check((y, x), {})
        assert apart.check((x, x), {}) is None
        assert "shares memory" in apart.explain((x, x.view(6)), {})
    halves = Guards([TensorLike(FIRST, x[:3], 0), TensorLike(SECOND, x[3:], 1)])
    assert halves.check((y[:3], y[3:]), {})
    for pair in ((y[:3], x[3:]), (y[:3], y[2:5]), (y[3:], y[:3])):
        assert "args[1]: shares memory" in halves.explain(pair, {})


def test_what_was_captured_with_is_not_kept():
    x = leaf(1000)
    seen = weakref.ref(x)
    guards = Guards([TensorLike(FIRST, x, 0)])
    del x
    gc.collect()
    assert seen() is None and guards.check((leaf(1000),), {})


def test_attributes_are_given_back():
    class Owner:
        @property
        def made(self):
            x = leaf(3)
            seen.append(weakref.ref(x))
            return x

    seen = []
    guards = Guards([TensorLike(Attribute(Object(Owner()), "made"), leaf(3), 0)])
    for _ in range(3):
        assert guards.check((), {})
    assert len(seen) == 3 and [ref() for ref in seen] == [None] * 3


def test_inputs_are_numbered_in_order():
    with pytest.raises(ValueError, match="wanted 0, got 1"):
        Guards([TensorLike(FIRST, leaf(1), 1)])
