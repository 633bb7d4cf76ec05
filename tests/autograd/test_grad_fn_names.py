"""Nodes of the tape are called as PyTorch's: what programs match on (`grad_fn.name()`)."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import flambeau

sys.path.insert(0, str(Path(__file__).parent.parent / "operations"))

from samples import ALL, Operands, run

TABLE = dict(
    line.rstrip("\n").split(" | ")
    for line in Path(__file__).with_name("grad_fn_names.txt").read_text().splitlines()
)


def test_all_calls_whose_names_agreed():
    """The table is PyTorch's answer, written by tools/grad_fn_names.py."""
    found = {}
    for entry, text in ALL:
        for place in entry.places:
            call = f"{place}({text})"
            if call in TABLE:
                results = run(entry, text, Operands(grad=True))
                found[call] = " ".join(t.grad_fn.name() if t.grad_fn is not None else "" for t in results)
    assert found.keys() == TABLE.keys()
    assert {call: name for call, name in found.items() if name != TABLE[call]} == {}


NAMES = {
    "MulBackward0": lambda x: x * x,
    "AddBackward0": lambda x: x + 1,
    "SubBackward0": lambda x: x - 1,
    "DivBackward0": lambda x: x / 2,
    "NegBackward0": lambda x: -x,
    "PowBackward0": lambda x: x**2,
    "CloneBackward0": lambda x: x.clone(),
    "SumBackward0": lambda x: x.sum(),
    "SumBackward1": lambda x: x.sum(1),
    "MeanBackward0": lambda x: x.mean(),
    "MeanBackward1": lambda x: x.mean(0, keepdim=True),
    "Log1PBackward0": lambda x: x.log1p(),
    "GeluBackward0": flambeau.nn.functional.gelu,
    "EluBackward0": flambeau.nn.functional.selu,
    "LogSigmoidBackward0": flambeau.nn.functional.logsigmoid,
    "MmBackward0": lambda x: x @ x.t(),
    "TBackward0": lambda x: x.t(),
    "ViewBackward0": lambda x: x.reshape(-1),
    "SpecialI1EBackward0": flambeau.special.i1e,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_common_operations(name):
    assert NAMES[name](flambeau.ones(2, 3, requires_grad=True)).grad_fn.name() == name


@pytest.mark.parametrize("name", sorted(NAMES))
def test_classes_of_nodes_are_called_as_their_names(name):
    x = flambeau.tensor([[2.0, 3.0], [4.0, 5.0]], requires_grad=True)
    node = NAMES[name](x).grad_fn
    assert type(node).__name__ == type(node).__qualname__ == node.name() == name
    assert isinstance(node, flambeau.autograd.graph.Node) and repr(node).startswith(f"<{name} object at 0x")
    assert type(NAMES[name](x).grad_fn) is type(node)


def test_classes_of_nodes_before_and_of_functions():
    class Twice(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = flambeau.ones(2, requires_grad=True)
    y = Twice.apply(x.exp()).sum()
    seen, node = [], y.grad_fn
    while node is not None:
        seen.append(type(node).__name__)
        node = node.next_functions[0][0] if node.next_functions else None
    assert seen == ["SumBackward0", "TwiceBackward", "ExpBackward0", "AccumulateGrad"]
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([1.0, 1.0]), rtol=1e-6)


def test_nodes_that_were_looked_at_are_freed():
    x = flambeau.ones(2, requires_grad=True)
    refs = []
    for _ in range(3):
        y = (x * 2).exp()
        refs += [weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.next_functions[0][0])]
        y.sum().backward()
    del y
    assert [r() for r in refs] == [None] * 6
    references = sys.getrefcount(type((x * 2).grad_fn))
    for _ in range(100):
        assert (x * 2).grad_fn is not None
    assert sys.getrefcount(type((x * 2).grad_fn)) < references + 50
