"""No result depends on what lay in memory before: every sample call, and each with dimensions of its operands made empty."""

from __future__ import annotations

import pytest
from samples import ALL, Operands, run
from test_determinism import with_gradients

import flambeau

BLOCKS = range(64, 2049, 64)  # bytes
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)


class Emptied(Operands):
    """Operands that have no elements along a dimension: all dimensions of a size, or one of one operand."""

    def __init__(self, empty: int | tuple[str, int] | None) -> None:
        super().__init__(grad=True)
        self.empty, self.choices = empty, {}

    def make(self, name: str) -> flambeau.Tensor:
        found = super().make(name)
        for d, size in enumerate(found.shape):
            self.choices[size] = self.choices[name, d] = None
            if self.empty in (size, (name, d)):
                found = found.narrow(d, 0, 0)
        return found


def fill_freed_memory(byte: int) -> None:
    """The blocks that the next tensors get are full of that byte."""
    blocks = [flambeau.full((n,), byte, dtype=flambeau.uint8) for n in BLOCKS for _ in range(6)]
    del blocks


def outcomes(function, empty) -> tuple[list, list]:
    """What a function of operands gives over different memory, or that it refuses; and which dimensions can be empty."""
    found = []
    for byte in (0x41, 0xC3):  # 12.08 and -390.5, as float32
        operands = Emptied(empty)
        fill_freed_memory(byte)
        try:
            found.append(with_gradients(function(operands), operands.leaves))
        except REFUSALS as error:
            found.append([type(error)])
    return found, list(operands.choices)


def differing(function) -> list:
    """The dimensions without which a function's results are those of the memory; None for the operands as they are."""
    found, choices = outcomes(function, None)
    wrong = [] if found[0] == found[1] else [None]
    return wrong + [c for c in choices if len(set(map(repr, outcomes(function, c)[0]))) > 1]


@pytest.mark.parametrize(("entry", "text"), ALL, ids=lambda x: getattr(x, "name", None))
def test_every_operation(entry, text):
    assert differing(lambda operands: run(entry, text, operands)) == []


def test_memory_that_is_read_is_seen():
    assert differing(lambda operands: [flambeau.empty(operands["x"].shape)]) == [None]


def test_memory_of_an_empty_operand_is_seen():
    def careless(operands):
        x = operands["x"]
        return [x.mT @ x if x.numel() else flambeau.empty(x.shape[1], x.shape[1])]

    assert differing(careless) == [3, ("x", 0)]
