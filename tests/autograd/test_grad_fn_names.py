"""Nodes of the tape are called as PyTorch's: what programs match on (`grad_fn.name()`)."""

from __future__ import annotations

import sys
from pathlib import Path

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
