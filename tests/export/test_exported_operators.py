"""Python's operators in programs that are exported, saved and loaded: ATen's own where it has them, and the eager program's bits."""

from __future__ import annotations

import io
import operator

import pytest

import flambeau
from flambeau import export

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
IN_PLACE = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]
FLOATS = flambeau.tensor([1.5, 2.25, 3.0]), flambeau.tensor([0.5, 1.25, 2.0])
INTEGERS = flambeau.tensor([7, -7, 5]), flambeau.tensor([3, 2, 1])
# A number divided by a tensor: ATen has it of tensors alone.
OWN = {("truediv", "reflected"), ("floordiv", "reflected")}


class Program(flambeau.nn.Module):
    def __init__(self, function, way):
        super().__init__()
        self.function, self.way = function, way

    def forward(self, x, y):
        if self.way == "reflected":
            return self.function(3, y)
        x = x * 1
        return self.function(x, 2 if self.way == "number" else y)


@pytest.mark.parametrize(
    ("function", "way"),
    [(f, w) for f in BINARY for w in ("tensors", "number", "reflected")]
    + [(f, w) for f in IN_PLACE for w in ("tensors", "number")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_operators(function, way):
    for given in (FLOATS, INTEGERS):
        if given is INTEGERS and function is operator.itruediv:
            continue  # does not fit
        model = Program(function, way)
        expected = model(*given)
        program = export.export(model, given)
        targets = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
        assert (function.__name__, way) in OWN or all(t.startswith("aten.") for t in targets), targets
        file = io.BytesIO()
        export.save(program, file)
        file.seek(0)
        for each in (program, export.load(file)):
            result = each.module()(*given)
            assert result.dtype == expected.dtype and flambeau.equal(result, expected)
