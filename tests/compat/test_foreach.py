"""`_foreach_…`: each is the operation it repeats, member by member, new and in place."""

import numpy as np
import pytest

import flambeau
from flambeau._compat.foreach import functions

NAMES = sorted(functions())
UNARY = [
    n
    for n in NAMES
    if not n.endswith("_")
    and hasattr(flambeau, n[9:])
    and flambeau._compat.foreach._lists(getattr(flambeau, n[9:])) == 0
    and n != "_foreach_norm"
]
BINARY = ["add", "sub", "mul", "div", "pow", "clamp_max", "clamp_min", "maximum", "minimum"]


def lists(seed=0):
    rng = np.random.default_rng(seed)
    return [flambeau.tensor(rng.uniform(0.1, 0.9, size=shape)) for shape in ((2, 3), (4,), ())]


def values(tensors):
    return [x.tolist() for x in tensors]


def test_there_are_all_of_them():
    assert len(NAMES) == 91 and all(getattr(flambeau, name).__name__ == name for name in NAMES)


@pytest.mark.parametrize("name", UNARY)
def test_of_one_list(name):
    operation = getattr(flambeau, name.removeprefix("_foreach_"))
    expected = [operation(x).tolist() for x in lists()]
    found = getattr(flambeau, name)(lists())
    assert isinstance(found, tuple) and values(found) == expected
    in_place = getattr(flambeau, f"{name}_", None)
    if in_place is not None:
        given = lists()
        assert in_place(given) is given and values(given) == expected
    else:
        assert name in ("_foreach_clone", "_foreach_max")


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", ["lists", "numbers", "a number"])
def test_of_two(name, kind):
    others = {"lists": lists(1), "numbers": [0.25, 0.5, 0.75], "a number": 0.5}[kind]
    each = others if isinstance(others, list) else [others] * 3
    numpy_name = {
        "clamp_max": "minimum",
        "clamp_min": "maximum",
        "sub": "subtract",
        "mul": "multiply",
        "div": "divide",
    }
    operation = getattr(np, numpy_name.get(name, {"add": "add", "pow": "power"}.get(name, name)))
    expected = [
        operation(x.numpy(), y.numpy() if isinstance(y, flambeau.Tensor) else y)
        for x, y in zip(lists(), each)
    ]
    found, given = getattr(flambeau, f"_foreach_{name}")(lists(), others), lists()
    assert all(np.allclose(a.numpy(), b, rtol=1e-15) for a, b in zip(found, expected))
    assert getattr(flambeau, f"_foreach_{name}_")(given, others) is given and values(given) == values(found)


def test_factors():
    a, b, c = lists(), lists(1), lists(2)
    for name, sign in (("addcmul", 1), ("addcdiv", -1)):
        function, in_place = (getattr(flambeau, f"_foreach_{name}{end}") for end in ("", "_"))
        for factors in ([0.5, 2.0, 3.0], flambeau.tensor([0.5, 2.0, 3.0])):
            found = function(a, b, c, factors)
            for k, x in enumerate(found):
                expected = a[k].numpy() + [0.5, 2.0, 3.0][k] * b[k].numpy() * c[k].numpy() ** sign
                assert np.allclose(x.numpy(), expected, rtol=1e-14)
        assert (
            values(function(a, b, c, value=2))
            == values(function(a, b, c, [2, 2, 2]))
            == values(in_place(lists(), b, c, 2))
        )
        with pytest.raises(RuntimeError, match="length 3"):
            function(a, b, c, flambeau.tensor([1.0]))
    weights = flambeau._foreach_lerp(a, b, [0.25, 0.5, 0.75])
    assert values(weights) == [x.lerp(y, w).tolist() for x, y, w in zip(a, b, [0.25, 0.5, 0.75])]
    assert values(flambeau._foreach_lerp_(lists(), b, weight=0.5)) == [
        x.lerp(y, 0.5).tolist() for x, y in zip(a, b)
    ]
    assert values(flambeau._foreach_add(a, b, alpha=2)) == [x.add(y, alpha=2).tolist() for x, y in zip(a, b)]


def test_others():
    a = lists()
    assert values(flambeau._foreach_norm(a)) == [x.norm().tolist() for x in a]
    assert values(flambeau._foreach_norm(a, ord=1)) == [x.norm(1).tolist() for x in a]
    assert np.allclose(
        [x.item() for x in flambeau._foreach_powsum(a, 3)], [(x.numpy() ** 3).sum() for x in a]
    )
    assert values(flambeau._foreach_pow(2.0, a)) == [(2.0**x).tolist() for x in a]
    b = lists(1)
    assert flambeau._foreach_copy_(b, a) is b and values(b) == values(a)
    assert values(flambeau._foreach_zero_(b)) == values(x * 0 for x in a)
    eye = flambeau.eye(2)
    assert flambeau._foreach_mm([eye, eye], [eye * 2, eye * 3])[1].tolist() == [[3, 0], [0, 3]]
    assert values(flambeau._foreach_mul(a, flambeau.tensor(2.0))) == [(x * 2).tolist() for x in a]


def test_gradients():
    leaves = [x.requires_grad_() for x in lists()]
    sum(x.sum() for x in flambeau._foreach_mul(leaves, leaves)).backward()
    assert values(x.grad for x in leaves) == values((x * 2).detach() for x in leaves)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_lists(name):
    function = getattr(flambeau, name)
    others = [lists()] * 2
    with pytest.raises(RuntimeError, match="at least one"):
        function([])
    with pytest.raises(TypeError, match=f"{name}.*not Tensor"):
        function(flambeau.ones(2))
    with pytest.raises(TypeError, match=f"{name}.*element 0.*int"):
        function([1])
    if name.strip("_").removeprefix("foreach_") in (*BINARY, "lerp", "mm", "copy"):
        with pytest.raises(RuntimeError, match="same number of tensors, got 3 and 1"):
            function(lists(), [1.0], *([0.5] if "lerp" in name else []))
    with pytest.raises(TypeError):
        function(lists(), *others, lists(), lists())
