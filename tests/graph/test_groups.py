"""Which calls become one kernel."""

from __future__ import annotations

import flambeau
from flambeau.graph.groups import groups_of
from flambeau.graph.program import Program
from flambeau.graph.trace import record


def groups(function, *tensors, fused=True):
    return [[c.name for c in g.calls] for g in groups_of(Program(record(function, *tensors)[0]), fused)]


def test_chains_are_one_group_and_branches_meet():
    x = flambeau.ones(3, 4)
    assert groups(lambda x: (x + 1).exp() * 2, x) == [["add", "exp", "mul"]]
    assert groups(lambda x: x.sin() * x.cos() + x.sin(), x) == [["sin", "cos", "mul", "sin", "add"]]
    assert groups(lambda x: (x + 1).exp(), x, fused=False) == [["add"], ["exp"]]


def test_folds_and_what_follows_from_a_row_are_one_group():
    def normalised(x):
        centred = x - x.mean(-1, keepdim=True)
        return centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    assert len(groups(normalised, flambeau.ones(3, 4))) == 1


def test_rows_of_a_square_without_their_dimension_are_not_read_in_place():
    assert len(groups(lambda x: x - x.sum(-1), flambeau.ones(4, 4))) == 2
    assert len(groups(lambda x: x - x.sum(), flambeau.ones(4, 4))) == 1


def test_rows_along_other_dimensions_are_apart():
    assert len(groups(lambda x: x.softmax(0).softmax(1), flambeau.ones(4, 4))) == 2


def test_what_another_call_stands_between_is_apart():
    def body(x):
        y = x + 1
        return y * (y @ y)

    assert groups(body, flambeau.ones(4, 4)) == [["add"], ["matmul"], ["mul"]]


def test_a_view_of_what_a_group_makes_is_read_from_memory():
    assert groups(lambda x: (x + 1).T * 2, flambeau.ones(4, 4)) == [["add"], ["mul"]]


def test_a_write_between_keeps_readers_apart():
    def body(x):
        y = x + 1
        z = y * 2
        y.mul_(3)
        return z + y.T

    assert groups(body, flambeau.ones(4, 4)) == [["add", "mul", "mul_"], ["add"]]


def test_writes_over_one_place_are_part_of_a_kernel():
    def body(x, y):
        x.mul_(0.9).add_(y * 2)
        return x.exp()

    assert groups(body, flambeau.ones(4), flambeau.ones(4)) == [["mul_", "mul", "add_", "exp"]]


def test_a_view_that_is_read_beside_a_write_keeps_it_apart():
    assert groups(lambda x: x.add_(x.T * 2), flambeau.ones(4, 4)) == [["mul"], ["add_"]]
    assert groups(lambda x, y: x[1:].copy_(y).neg() + x[:3], flambeau.ones(4), flambeau.ones(3)) == [
        ["copy_", "neg"],
        ["add"],
    ]


def test_rows_write_to_new_memory_alone():
    assert groups(lambda x: x.sub_(x.mean(-1, keepdim=True)), flambeau.ones(3, 4)) == [["mean"], ["sub_"]]


def test_groups_do_not_wait_for_each_other_in_a_circle():
    def body(x):
        a = x + 1
        b = a @ a
        c = b * 2
        d = c @ a
        return (a + d) * c + b.sum()

    found = groups(body, flambeau.ones(4, 4))
    assert sum(map(len, found)) == 8


def test_a_copy_in_another_order_is_a_step_of_its_own():
    """By tiles: a long kernel would gather its elements one by one."""

    def step(p, grad, state):
        g = grad.contiguous()
        state = state * 0.9 + g
        return p - 0.1 * (state * 0.9 + g).tanh(), state

    p, state = flambeau.randn(128, 128), flambeau.randn(128, 128)
    grad = flambeau.randn(128, 128).mT
    groups = groups_of(Program(record(step, p, grad, state)[0]))
    assert [group.name for group in groups][0] == "contiguous" and len(groups) == 2
    few = groups_of(Program(record(step, p[:4, :4], grad[:4, :4], state[:4, :4])[0]))
    assert len(few) == 1
