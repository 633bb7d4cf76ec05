"""Tensors under another class and from legacy constructors: other names of the same elements, with gradients of their own tensor."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import flambeau
from flambeau import autograd


class Named(flambeau.Tensor):
    pass


class Made(flambeau.Tensor):
    """As libraries write it, with arguments of its own."""

    def __new__(cls, x, **options):
        made = x.as_subclass(cls)
        made.options = options
        return made


WAYS = {
    "as_subclass": lambda x: x.as_subclass(Named),
    "constructor": Named,
    "own constructor": lambda x: Made(x, unit="m"),
    "Tensor": flambeau.Tensor,
    "new": lambda x: x.new(x),
    "twice": lambda x: Made(x.as_subclass(Named)),
}
TENSORS = {
    "numbers": lambda: flambeau.tensor([1.0, 2.0, 3.0]),
    "one": lambda: flambeau.tensor(2.0),
    "none": lambda: flambeau.empty(0, 3),
    "turned": lambda: flambeau.arange(6.0).reshape(2, 3).t(),
    "gaps": lambda: flambeau.arange(8.0)[::2],
    "expanded": lambda: flambeau.tensor([1.0, 2.0]).expand(3, 2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", TENSORS)
def test_gradients_arrive_at_the_tensor(way, kind):
    for leaf in (True, False):
        x = TENSORS[kind]().requires_grad_()
        inner = x if leaf else x * 1
        y = WAYS[way](inner)
        assert (
            y.requires_grad and not y.is_leaf and y.grad_fn is not None and y.data_ptr() == inner.data_ptr()
        )
        assert y.shape == x.shape and y.stride() == inner.stride()
        (y * y).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), 2 * x.detach().numpy())
        assert x.grad.shape == x.shape and (way in ("Tensor", "new") or isinstance(y, Named | Made))


@pytest.mark.parametrize("way", WAYS)
def test_names_of_a_leaf(way):
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = WAYS[way](x)
    assert y.grad_fn.name() == "AliasBackward0" and y._is_view() and y._base is x
    with pytest.raises(RuntimeError, match="leaf"):
        y.mul_(2)
    with flambeau.no_grad():
        z = WAYS[way](x)
        assert z.grad_fn is None and z._is_view() and z.requires_grad  # as any view that is made there
        z.mul_(2)
    assert x.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w = WAYS[way](x * 1)
        out = (w * w).sum()
        w.mul_(3)
        out.backward()
    plain = WAYS[way](flambeau.ones(2))
    assert plain.is_leaf and not plain.requires_grad and plain.requires_grad_().requires_grad


@pytest.mark.parametrize("way", WAYS)
def test_derivatives_of_every_kind(way):
    def f(x):
        return (WAYS[way](x) ** 3).sum()

    x = flambeau.tensor([1.0, -2.0], requires_grad=True)
    (once,) = autograd.grad(f(x), x, create_graph=True)
    assert once.tolist() == [3.0, 12.0]
    (twice,) = autograd.grad(once.sum(), x)
    assert twice.tolist() == [6.0, -12.0]
    with autograd.forward_ad.dual_level():
        dual = autograd.forward_ad.make_dual(x.detach(), flambeau.ones(2))
        assert autograd.forward_ad.unpack_dual(f(dual)).tangent.item() == 15.0


def test_parameters_and_hooks():
    """What a module trains is reached through its other names, and hooks of either are called."""
    layer = flambeau.nn.Linear(2, 1, bias=False)
    seen = []
    layer.weight.register_hook(lambda grad: seen.append("leaf"))
    name = layer.weight.as_subclass(Named)
    name.register_hook(lambda grad: seen.append("name"))
    name.retain_grad()
    (name.sum() + layer(flambeau.ones(1, 2)).sum()).backward()
    assert (
        seen == ["name", "leaf"]
        and layer.weight.grad.tolist() == [[2.0, 2.0]]
        and name.grad.tolist() == [[1.0, 1.0]]
    )


def test_another_librarys_function_is_called_once():
    """It looks at `__torch_function__` of its arguments by itself, whether overrides are disabled here or not."""
    calls = []

    def foreign(x, times):
        calls.append(times)
        result = type(x).__torch_function__(foreign, (type(x),), (x, times), {})
        return "refused" if result is NotImplemented else result

    class Plain(flambeau.Tensor):
        pass

    for x in (flambeau.ones(2), flambeau.ones(2).as_subclass(Plain)):
        calls.clear()
        assert foreign(x, 3) == "refused" and calls == [3, 3]
        assert foreign(x, 4) == "refused" and (x + x).tolist() == [2, 2]  # nothing is left of the call before


# --- operators ------------------------------
BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
IN_PLACE = [f"i{name}" for name in BINARY if name != "matmul"]
COMPARED = {
    "eq": "eq",
    "ne": "ne",
    "lt": "gt",
    "le": "ge",
    "gt": "lt",
    "ge": "le",
}  # and what Python asks of the right
UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.invert}
LOOKED_AT = {
    "getitem": lambda x: x[0], "setitem": lambda x: operator.setitem(x, 0, 1), "len": len, "iter": iter, "bool": bool, "int": int,
    "float": float, "complex": complex, "index": operator.index, "hash": hash,
}  # fmt: skip
NUMBERS = {
    "int": 7,
    "float": 7.0,
    "complex": 7j,
    "index": 7,
    "hash": 7,
    "bool": True,
    "len": 7,
    "iter": iter(()),
}


def call_of(name):
    """What calls `__name__` of a tensor."""
    if name in UNARY or name in LOOKED_AT:
        return UNARY.get(name) or LOOKED_AT[name]
    if name in COMPARED:
        return lambda x: getattr(operator, name)(x, 2)
    if name.startswith("r") and name[1:] in BINARY:
        return lambda x: getattr(operator, name[1:] + "_" * (name[1:] in ("and", "or")))(2, x)
    return lambda x: getattr(operator, name + "_" * (name in ("and", "or")))(x, 2)


@pytest.mark.parametrize("way", ["own", "inherited", "twice inherited", "mixed in"])
@pytest.mark.parametrize(
    "name", [*BINARY, *(f"r{n}" for n in BINARY), *IN_PLACE, *COMPARED, *UNARY, *LOOKED_AT]
)
def test_operators_of_classes_are_called(name, way):
    """Wherever in the class's bases one is defined."""
    called = []

    def own(self, *args):
        called.append(args)
        return NUMBERS.get(name, self)

    members = {f"__{name}__": own, **({"__hash__": None} if name == "eq" else {})}
    if way == "mixed in":
        cls = type("Sub", (type("Mixin", (), members), flambeau.Tensor), {})
    else:
        cls = type("Sub", (flambeau.Tensor,), members)
        for _ in range(("own", "inherited", "twice inherited").index(way)):
            cls = type("Sub", (cls,), {})
    call_of(name)(flambeau.tensor(1).as_subclass(cls))
    assert len(called) == 1


@pytest.mark.parametrize("override", ["getitem", "len", "eq", "add", "rmul", "neg"])
@pytest.mark.parametrize("name", [*BINARY, *COMPARED])
def test_operators_see_operands_in_their_order(name, override):
    """A tensor on the left and one of a class on the right: what sees all calls of the class sees the operator itself, whatever
    else the class overrides.
    """
    seen = []

    def overridden(cls, func, types, args=(), kwargs=None):
        seen.append((func.__name__, *(type(a).__name__ for a in args)))
        return flambeau.tensor(True)

    act = getattr(operator, name + "_" * (name in ("and", "or")))
    members = {"__torch_function__": classmethod(overridden)}
    others = {f"__{override}__": lambda self, *args: None, "__hash__": None}
    left, found = flambeau.ones(2, 2).long(), []
    for cls in (type("Sub", (flambeau.Tensor,), members), type("Sub", (flambeau.Tensor,), members | others)):
        right = left.clone().as_subclass(cls)
        seen.clear()
        act(left, right)
        found.append(list(seen))
    if name in BINARY:
        assert [call[1:] for call in found[0]] == [("Tensor", "Sub")]
    if override not in (name, f"r{name}"):
        assert found[0] == found[1] != []
