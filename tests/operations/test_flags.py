"""Parameters that are True or False refuse numbers, as PyTorch's parser does: an int there is a dimension in the wrong place."""

from __future__ import annotations

import inspect

import pytest
from flambeau.core.call.operation import Op

import flambeau
from flambeau.operations.declare.registry import REGISTRY

# What PyTorch's functions in Python ask with `if`, so that any object will do.
LOOSE = {"inplace", "return_indices", "return_scalar"}
LOOSE_OPERATIONS = {"gaussian_nll_loss", "triplet_margin_with_distance_loss"}
LOOSE_FAMILIES = ("masked.", "window.")
INTERNAL = {("expand", "implicit")}  # no program gives it


def flags():
    for name, entry in sorted(REGISTRY.items()):
        if not isinstance(entry.function, Op) or name in LOOSE_OPERATIONS or name.startswith(LOOSE_FAMILIES):
            continue
        for p in inspect.signature(entry.function).parameters.values():
            if isinstance(p.default, bool) and p.name not in LOOSE and (name, p.name) not in INTERNAL:
                yield name, p


def test_flags_are_declared_as_such():
    found = list(flags())
    assert len(found) > 100
    loose = [
        f"{name}({p.name})"
        for name, p in found
        if p.annotation is not bool and "bool" not in str(p.annotation)
    ]
    assert not loose


@pytest.mark.parametrize("given", [0, 1, None, "yes"])
@pytest.mark.parametrize(
    "call",
    [
        "logsumexp(0, FLAG)",
        "prod(0, FLAG)",
        "max(0, FLAG)",
        "min(0, keepdim=FLAG)",
        "nansum(0, FLAG)",
        "norm(2, 0, FLAG)",
        "std(0, keepdim=FLAG)",
        "nonzero(as_tuple=FLAG)",
        "isclose(x, equal_nan=FLAG)",
        "numpy(force=FLAG)",
        "copy_(x, non_blocking=FLAG)",
        "put(index, x[0, :1], FLAG)",
        "index_put((index,), x[0], FLAG)",
    ],
)
def test_numbers_are_no_flags(call, given):
    x, index = flambeau.ones(2, 3), flambeau.tensor([0])
    before = x.clone()
    with pytest.raises(TypeError, match=rf"argument '\w+' .*must be bool.*, not {type(given).__name__}"):
        eval("x." + call.replace("FLAG", repr(given)), {"x": x, "index": index})
    assert x.equal(before)


def test_dimensions_one_by_one():
    x = flambeau.tensor([[1.0, 0, 2], [0, 0, 3]])
    assert x.count_nonzero(0, 1).item() == x.count_nonzero((1, 0)).item() == 3
    assert x[None].count_nonzero(0, 1).tolist() == [1, 0, 2]
    for wrong, error in (((0, 0), RuntimeError), ((0, 2), IndexError), ((0, 0.5), TypeError)):
        with pytest.raises(error, match="count_nonzero"):
            x.count_nonzero(*wrong)


def test_what_functions_in_python_take():
    x, image = flambeau.ones(3), flambeau.rand(1, 1, 4, 4)
    F = flambeau.nn.functional
    assert F.relu(x, inplace=1) is x
    assert F.dropout(x, 0.5, False, 1) is x
    assert len(F.max_pool2d(image, 2, return_indices=1)) == 2
    assert flambeau.masked.sum(image, dim=0, keepdim=1).shape == (1, 1, 4, 4)
