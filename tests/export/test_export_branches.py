"""Control flow that depends on values: steps with graphs of their own, against the same functions run eagerly."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn
from flambeau._higher_order_ops import cond, map, scan, while_loop  # noqa: A004
from flambeau.export import Dim, export
from flambeau.export.errors import UserError

AUTO = Dim.AUTO


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        outside = x * 3
        return (
            cond(x.sum() > 0, lambda x: self.one(x) + outside, lambda x: self.other(x) + x.shape[0], (x,)) * 2
        )


def test_cond_runs_one_of_two_graphs():
    made = Chosen()
    program = export(made, (flambeau.rand(5, 4),), dynamic_shapes=({0: AUTO},))
    step = next(n for n in program.graph.nodes if n.name == "cond")
    assert step.target is flambeau.ops.higher_order.cond and len(step.args[3]) == 6
    assert str(step.users.copy().popitem()[0].meta["val"]) == "f32[s0, 4]"
    run = program.module()
    for rows in (5, 2, 9):
        for sign in (1, -1):
            x = sign * flambeau.rand(rows, 4)
            assert flambeau.equal(run(x), made(x))
    x = flambeau.rand(3, 4, requires_grad=True)
    run(x).sum().backward()
    assert made.one.weight.grad is not None and made.other.weight.grad is None and x.grad is not None


def test_cond_of_a_size_is_decided_when_the_program_is_exported_or_run():
    class Sized(nn.Module):
        def forward(self, x):
            return cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,))

    run = export(Sized(), (flambeau.ones(6),), dynamic_shapes=({0: Dim("n")},)).module()
    assert flambeau.equal(run(flambeau.ones(9)), flambeau.full((9,), 2.0))
    assert flambeau.equal(run(flambeau.ones(3)), flambeau.zeros(3))
    fixed = export(Sized(), (flambeau.ones(6),))
    assert [n.name for n in fixed.graph.nodes] == ["x", "add", "output"]


class Repeated(nn.Module):
    def forward(self, x):
        count, y = while_loop(lambda n, y: n < 4, lambda n, y: (n + 1, y * 2 + x), (flambeau.tensor(0), x))
        rows = map(lambda row, w: (row * w).sum(), x, x[0])
        carry, seen = scan(lambda c, row: (c + row, c * row), x[0] * 0, x, reverse=True)
        return count, y, rows, carry, seen


def test_loops_are_steps():
    made = Repeated()
    program = export(made, (flambeau.rand(5, 4),), dynamic_shapes=({0: AUTO},))
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert {"while_loop", "map_impl", "scan"} <= set(names)
    run = program.module()
    for rows in (5, 3, 8):
        x = flambeau.rand(rows, 4)
        for a, b in zip(run(x), made(x), strict=True):
            assert flambeau.equal(a, b)


def test_branches_within_branches():
    class Nested(nn.Module):
        def forward(self, x):
            def inner(x):
                return cond(x.max() > 2, lambda x: x * 10, lambda x: x * 100, (x,))

            return cond(x.sum() > 0, inner, lambda x: x.neg(), (x,))

    made = Nested()
    run = export(made, (flambeau.ones(3),), dynamic_shapes=({0: AUTO},)).module()
    for x in (flambeau.ones(4), flambeau.full((2,), 3.0), -flambeau.ones(5)):
        assert flambeau.equal(run(x), made(x))


@pytest.mark.parametrize(
    "other, told",
    [
        (lambda x: x.sum(), r"same shapes and dtypes, result 0 is f32\[s0\] and f32\[\]"),
        (lambda x: x.double(), "f64"),
        (lambda x: (x, x), "same structure"),
    ],
)
def test_branches_that_differ(other, told):
    class Different(nn.Module):
        def forward(self, x):
            return cond(x.sum() > 0, lambda x: x + 1, other, (x,))

    with pytest.raises(UserError, match=told) as caught:
        export(Different(), (flambeau.ones(3),), dynamic_shapes=({0: AUTO},))
    assert "test_export_branches.py, line" in str(caught.value)


def test_eager_calls_are_what_they_were():
    x = flambeau.ones(3)
    assert flambeau.equal(
        flambeau.cond(x.sum() > 0, lambda x: x + 1, lambda x: x, (x,)), flambeau.full((3,), 2.0)
    )
