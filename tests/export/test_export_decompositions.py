"""`run_decompositions`: programs that write to none of their inputs give what the module gives, and write what it writes."""

from __future__ import annotations

import copy

import pytest

import flambeau
from flambeau import nn
from flambeau.export import Dim, default_decompositions, export
from flambeau.export.graph_signature import InputKind, OutputKind


class Writing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)
        self.register_buffer("count", flambeau.zeros(3))
        self.register_buffer("rows", flambeau.zeros(2, 3))

    def forward(self, x, y):
        self.count.add_(1)
        y.mul_(2)
        self.rows[0] = self.count
        self.rows.T.mul_(1.5)
        t = x.relu()
        t.add_(1)
        z = self.norm(self.layer(t)) + self.count
        v = z.view(-1)
        v[0] = 7.0
        return z, z[:, 1:].sum() + y.sum()


def states(module):
    return {k: v.clone() for k, v in module.state_dict().items()}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("table", [None, {}])
def test_what_is_written_are_outputs(training, table):
    made = Writing().train(training)
    given = flambeau.rand(5, 4), flambeau.ones(2)
    program = export(made, given, dynamic_shapes=({0: Dim("n")}, None))
    functional = program.run_decompositions(table)
    kinds = {str(s.target): s.kind for s in functional.graph_signature.output_specs if s.target}
    wanted = {"count", "rows", "y"} | (
        {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"} if training else set()
    )
    assert set(kinds) == wanted and kinds["y"] is OutputKind.USER_INPUT_MUTATION
    assert kinds["count"] is OutputKind.BUFFER_MUTATION
    assert functional.dialect == "ATEN" and functional.range_constraints == program.range_constraints

    inputs = {
        n.name
        for n, s in zip(functional._placeholders(), functional.graph_signature.input_specs)
        if s.kind is not None
    }
    for node in functional.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            assert node.args[0].name not in inputs

    run, eager = functional.module(), copy.deepcopy(made)
    for rows in (5, 3, 8):
        x, y, z = flambeau.rand(rows, 4), flambeau.ones(2), flambeau.ones(2)
        for a, b in zip(run(x, y), eager(x.clone(), z), strict=True):
            assert flambeau.allclose(a, b, atol=1e-6)
        assert flambeau.equal(y, z)
    for name, value in eager.state_dict().items():
        assert flambeau.allclose(made.state_dict()[name], value, atol=1e-6), name


def test_a_table_puts_functions_in_the_place_of_steps():
    made = nn.Sequential(nn.Linear(4, 3), nn.GELU())
    x = flambeau.rand(5, 4)
    program = export(made, (x,), dynamic_shapes=({0: Dim("n")},))

    def gelu(x, approximate="none"):
        return x * 0.5 * (1 + flambeau.erf(x * 0.7071067811865476))

    result = program.run_decompositions({flambeau.ops.aten.gelu.default: gelu})
    names = [str(n.target) for n in result.graph.nodes if n.op == "call_function"]
    assert "aten.gelu.default" not in names and "aten.erf.default" in names and "aten.linear.default" in names
    assert flambeau.allclose(result.module()(x), made(x), atol=1e-6)
    smaller = program.run_decompositions()
    assert "aten.addmm.default" in [str(n.target) for n in smaller.graph.nodes]
    assert flambeau.allclose(smaller.module()(flambeau.rand(9, 4) * 0), made(flambeau.zeros(9, 4)), atol=1e-6)


def test_the_table_can_be_changed():
    table = default_decompositions()
    del table[flambeau.ops.aten.linear.default]
    program = export(nn.Linear(4, 3), (flambeau.rand(2, 4),)).run_decompositions(table)
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == ["aten.linear.default"]
    assert [s.kind for s in program.graph_signature.input_specs] == [InputKind.PARAMETER] * 2 + [
        InputKind.USER_INPUT
    ]
