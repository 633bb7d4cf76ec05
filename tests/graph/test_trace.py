"""Recordings as graphs of fx."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.graph.trace import record


def same(a, b):
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_a_graph_runs_on_other_numbers():
    graph, result = record(lambda x: x.T.exp().sum(0) + 1, flambeau.zeros(2, 3))
    x = flambeau.arange(6.0).reshape(2, 3)
    same(graph(flambeau.zeros(2, 3)), result)
    same(graph(x), x.T.exp().sum(0) + 1)


def test_what_the_program_had_before_is_an_attribute():
    w = flambeau.arange(3.0)
    graph, _ = record(lambda x: x * w[1:], flambeau.zeros(2))
    assert [n.op for n in graph.graph.nodes].count("get_attr") == 1
    w.fill_(2.0)
    same(graph(flambeau.ones(2)), flambeau.full((2,), 2.0))


def test_several_results_are_items_and_structures_are_kept():
    graph, _ = record(lambda x: {"top": x.max(1), "views": [x[0], (x.T,)]}, flambeau.zeros(2, 3))
    x = flambeau.arange(6.0).reshape(2, 3)
    found = graph(x)
    same(found["top"][0], x.amax(1))
    same(found["views"][0], x[0])
    same(found["views"][1][0], x.T)


def test_writes_to_arguments_are_part_of_it():
    def program(x, y):
        x[1:].mul_(2)
        y.add_(x)

    graph, result = record(program, flambeau.ones(3), flambeau.ones(3))
    x, y = flambeau.ones(3), flambeau.zeros(3)
    assert result is None and graph(x, y) is None
    assert x.tolist() == [1, 2, 2] == y.tolist()


def test_a_training_step_is_a_graph():
    def made():
        flambeau.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 3))
        return net, flambeau.optim.AdamW(net.parameters(), lr=0.1)

    def step(net, optimiser, x):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(x), flambeau.tensor([0, 2]))
        loss.backward()
        optimiser.step()
        return loss

    (ours, optimiser), (others, second) = made(), made()
    x, y = flambeau.randn(2, 4), flambeau.randn(2, 4)
    graph, first = record(lambda x, *_: step(ours, optimiser, x), x, *ours.parameters())
    same(first, step(others, second, x))
    third, _ = made()
    copies = [p.detach() for p in third.parameters()]
    same(graph(x, *copies), first)
    for p, q in zip(copies, others.parameters(), strict=True):
        same(p, q)
    assert float(graph(y, *copies)) != float(first)


def test_a_function_that_raises_leaves_nothing_behind():
    with pytest.raises(ZeroDivisionError):
        record(lambda x: x / (1 // 0), flambeau.ones(2))
    graph, _ = record(lambda x: x + 1, flambeau.ones(2))
    assert graph(flambeau.zeros(2)).tolist() == [1, 1]


def test_arguments_may_share_memory():
    x = flambeau.arange(6.0)
    graph, _ = record(lambda a, b, c: a * 2 + b.mul_(c), x[1:4], x[2:5], flambeau.ones(3))
    y = flambeau.arange(6.0)
    expected = y[1:4] * 2 + y[2:5] * 3
    assert graph(y[1:4], y[2:5], flambeau.full((3,), 3.0)).tolist() == expected.tolist()
    twice, _ = record(lambda a, b: a + b, x, x)
    assert twice(y, y).tolist() == (y + y).tolist()
