"""`fx.Graph` and `fx.Node`: building, editing, checking, printing."""

from __future__ import annotations

import copy
import operator
import random

import pytest

import flambeau as torch
from flambeau import fx


@pytest.fixture
def graph():
    """relu(x + y) with an output."""
    g = fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y")
    g.output(g.call_function(torch.relu, (g.call_function(operator.add, (x, y)),)))
    return g


def named(g):
    return {n.name: n for n in g.nodes}


def test_nodes_stand_in_their_order_forwards_and_backwards(graph):
    assert [n.op for n in graph.nodes] == [
        "placeholder",
        "placeholder",
        "call_function",
        "call_function",
        "output",
    ]
    assert [n.name for n in reversed(graph.nodes)] == ["output", "relu", "add", "y", "x"]
    assert len(graph.nodes) == 5 and graph.output_node().prev.name == "relu"


def test_users_follow_the_arguments(graph):
    n = named(graph)
    assert list(n["x"].users) == [n["add"]] and n["add"].all_input_nodes == [n["x"], n["y"]]
    n["add"].args = (n["x"], n["x"])
    assert not n["y"].users and n["add"].all_input_nodes == [n["x"]]
    n["add"].update_arg(1, n["y"])
    n["relu"].update_kwarg("input", n["x"])
    assert list(n["x"].users) == [n["add"], n["relu"]]
    n["add"].insert_arg(0, n["y"])
    assert n["add"].args == (n["y"], n["x"], n["y"])
    n["add"].replace_input_with(n["y"], n["x"])
    assert n["add"].args == (n["x"],) * 3 and not n["y"].users


def test_arguments_cannot_be_changed_in_place():
    g = fx.Graph()
    x = g.placeholder("x")
    cat = g.call_function(torch.cat, ([x, x],), {"out": {"k": [x]}})
    for change in (
        lambda: cat.args[0].append(x),
        lambda: cat.args[0].__setitem__(0, 1),
        lambda: cat.kwargs.update(dim=1),
        lambda: cat.kwargs["out"].pop("k"),
        lambda: cat.kwargs["out"]["k"].clear(),
    ):
        with pytest.raises(TypeError, match="does not support mutation"):
            change()
    assert cat.args == ([x, x],) and list(x.users) == [cat]
    assert copy.deepcopy(fx.immutable_collections.immutable_list([1])) == [1]


@pytest.mark.parametrize(
    "wished, given",
    [("relu", "relu"), ("class", "class_1"), ("max", "max_1"), ("a.b-c", "a_b_c"), ("3x", "_3x"), ("torch", "torch_1"),
     ("", "relu"), ("inf", "inf_1"), ("é", "_")],
)  # fmt: skip
def test_names_are_identifiers_that_mean_nothing_else(wished, given):
    g = fx.Graph()
    node = g.create_node("call_function", torch.relu, (), {}, name=wished or None)
    assert node.name == given
    again = g.create_node("call_function", torch.relu, (), {}, name=wished or None)
    assert again.name != given and again.name.isidentifier()


def test_a_name_is_given_once():
    g = fx.Graph()
    results = [g.create_node("get_attr", "w", name=n).name for n in ("x", "x_1", "x", "x", "x_1")]
    assert results == ["x", "x_1", "x_2", "x_3", "x_4"]


def test_replacing_and_erasing(graph):
    n = named(graph)
    with pytest.raises(RuntimeError, match="Tried to erase Node add but it still had 1 users"):
        graph.erase_node(n["add"])
    assert n["add"].replace_all_uses_with(n["x"]) == [n["relu"]]
    graph.erase_node(n["add"])
    assert [m.name for m in graph.nodes] == ["x", "y", "relu", "output"] and not n["y"].users
    with pytest.warns(UserWarning, match="already erased"):
        graph.erase_node(n["add"])
    with pytest.raises(RuntimeError, match="wrong graph"):
        fx.Graph().erase_node(n["y"])
    assert n["x"].replace_all_uses_with(n["y"], lambda user: False) == []


def test_nodes_may_be_erased_and_inserted_while_they_are_gone_through(graph):
    seen = []
    for node in graph.nodes:
        seen.append(node.name)
        if node.name == "add":
            with graph.inserting_after(node):
                new = graph.call_function(torch.neg, (node,))
            node.replace_all_uses_with(new, lambda user: user.name != "neg")
        if node.name == "neg":
            node.replace_all_uses_with(named(graph)["add"])
            graph.erase_node(node)
    assert seen == ["x", "y", "add", "neg", "relu", "output"]
    graph.lint()


def test_where_nodes_are_inserted(graph):
    n = named(graph)
    with graph.inserting_before(n["relu"]):
        graph.get_attr("a")
        with graph.inserting_after(n["x"]):
            graph.get_attr("b")
            graph.get_attr("c")
        graph.get_attr("d")
    with graph.inserting_before():
        graph.get_attr("e")
    graph.get_attr("f")
    assert [m.name for m in graph.nodes] == ["e", "x", "c", "b", "y", "add", "a", "d", "relu", "output", "f"]
    with pytest.raises(AssertionError, match="not in graph"):
        fx.Graph().inserting_before(n["x"])


def test_moving_nodes_and_comparing_places(graph):
    n = named(graph)
    assert n["x"] < n["relu"] and n["relu"] >= n["add"] and max(n.values()) is n["output"]
    n["x"].prepend(n["y"])
    assert n["y"] < n["x"] and [m.name for m in graph.nodes][:2] == ["y", "x"]
    n["y"].append(n["add"])
    assert n["add"] < n["x"]
    n["x"].append(n["x"])
    n["x"].prepend(n["x"])
    assert len(list(graph.nodes)) == 5
    with pytest.raises(AssertionError, match="another Graph"):
        n["x"].prepend(fx.Graph().placeholder("z"))


def test_random_edits_leave_a_graph():
    """Insertions, moves, replacements and erasures in any order: links, users and numbers agree."""
    chance = random.Random(0)
    for _ in range(20):
        g = fx.Graph()
        nodes = [g.placeholder(f"p{k}") for k in range(3)]
        for _ in range(60):
            at = chance.choice(nodes)
            before = [n for n in g.nodes if n <= at]
            with g.inserting_after(at):
                nodes.append(g.call_function(operator.add, tuple(chance.choices(before, k=2))))
            if chance.random() < 0.3:
                old, new = sorted(chance.sample(nodes, 2), reverse=True)
                old.replace_all_uses_with(new)
            if chance.random() < 0.3:
                free = [n for n in nodes if not n.users and n.op != "placeholder"]
                if free:
                    gone = chance.choice(free)
                    g.erase_node(gone)
                    nodes.remove(gone)
        g.lint()
        order = list(g.nodes)
        assert order == list(reversed(list(reversed(g.nodes)))) == sorted(nodes) and len(g.nodes) == len(
            nodes
        )


def broken(change):
    g = fx.Graph()
    x = g.placeholder("x")
    y = g.call_function(torch.relu, (x,))
    z = g.call_function(torch.neg, (y,))
    g.output(z)
    change(g, x, y, z)
    return g


@pytest.mark.parametrize(
    "change, told",
    [
        (
            lambda g, x, y, z: y.prepend(z),
            "Argument 'relu' of Node 'neg' was used before it has been defined",
        ),
        (
            lambda g, x, y, z: z.update_arg(0, fx.Graph().placeholder("w")),
            "Argument 'w' of Node 'neg' does not belong",
        ),
        (lambda g, x, y, z: setattr(z, "name", "relu"), "Node redefined name 'relu'"),
        (lambda g, x, y, z: setattr(z, "op", "call"), "Node 'neg' had unknown opcode call"),
        (
            lambda g, x, y, z: setattr(z, "target", "neg"),
            "Node 'neg' target 'neg' has type str but a Callable",
        ),
        (lambda g, x, y, z: setattr(z, "op", "call_method"), "Node 'neg' target .* but a str is expected"),
        (lambda g, x, y, z: y.users.clear(), "Node 'neg' uses 'relu', among whose users it is not"),
        (lambda g, x, y, z: y.users.update({x: None}), "Node 'relu' has the user 'x', which does not use it"),
        (lambda g, x, y, z: g.call_function(torch.relu, (x,)), "Node 'relu_1' comes after the output"),
    ],
)
def test_lint_names_the_node_at_fault(change, told):
    with pytest.raises(RuntimeError, match=told):
        broken(change).lint()


def test_lint_looks_for_what_nodes_name():
    module = fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    module.graph.lint()
    called = next(n for n in module.graph.nodes if n.op == "call_module")
    called.target = "nowhere.0"
    with pytest.raises(
        RuntimeError, match="Node _0 target nowhere.0 references nonexistent attribute nowhere of Sequential"
    ):
        module.graph.lint()
    with pytest.raises(AttributeError, match="no submodule `nothing`"):
        module.graph.call_module("nothing")
    with pytest.warns(UserWarning, match="no attribute 'nothing'"):
        module.graph.get_attr("nothing")


def test_what_nodes_are_made_of_is_checked():
    g = fx.Graph()
    with pytest.raises(AssertionError, match="'call' is not in _legal_ops"):
        g.create_node("call", "x")
    with pytest.raises(ValueError, match="target 'relu' of a call_function has type str but a Callable"):
        g.call_function("relu")
    with pytest.raises(ValueError, match="call_method has type .* but a str"):
        g.call_method(torch.relu)
    assert not len(g.nodes)


def test_dead_code_goes_and_effects_stay():
    g = fx.Graph()
    x = g.placeholder("x")
    g.call_function(torch.neg, (g.call_function(torch.relu, (x,)),))
    g.call_method("add_", (x, 1))
    g.call_function(torch.relu_, (x,))
    g.call_function(operator.setitem, (x, 0, 1))
    g.call_function(torch._assert, (x, "positive"))
    g.call_function(torch.add, (x, 1), {"out": x})
    g.output(x)
    assert g.eliminate_dead_code() and not g.eliminate_dead_code()
    assert [n.name for n in g.nodes] == ["x", "add_", "relu_", "setitem", "_assert", "add", "output"]
    assert g.eliminate_dead_code(lambda n: n.op in ("placeholder", "output")) and len(g.nodes) == 2


def test_copies_of_graphs_are_their_own(graph):
    graph.output_node().meta["k"] = 1
    made = copy.deepcopy(graph)
    assert str(made) == str(graph) and not set(made.nodes) & set(graph.nodes)
    assert made.output_node().meta == {"k": 1}
    new, values = fx.Graph(), {}
    z = new.placeholder("z")
    values[named(graph)["x"]] = z
    result = new.graph_copy(graph, values)
    assert result.name == "relu" and [n.name for n in new.nodes] == ["z", "y", "add", "relu"]
    assert values[named(graph)["add"]].args[0] is z
    with pytest.raises(TypeError, match="node_copy"):
        copy.copy(z)


def test_text_of_graphs_and_nodes(graph, capsys):
    assert str(graph) == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %y : [num_users=1] = placeholder[target=y]\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%x, %y), kwargs = {})\n"
        "    %relu : [num_users=1] = call_function[target=flambeau.relu](args = (%add,), kwargs = {})\n"
        "    return relu"
    )
    graph.print_tabular()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert len(shown) == 7 and shown[2].startswith("placeholder") and "(x, y)" in shown[4]


def test_finding_nodes(graph):
    n = named(graph)
    assert graph.find_nodes(op="call_function", target=torch.relu) == [n["relu"]]
    assert graph.find_nodes(op="placeholder") == [n["x"], n["y"]] and graph.find_nodes(op="call_module") == []
    with pytest.raises(AssertionError, match="no output"):
        fx.Graph().output_node()


def test_meta_travels_with_uses(graph):
    n = named(graph)
    n["add"].meta["k"] = 1
    with graph.inserting_after(n["add"]):
        new = graph.call_function(torch.add, n["add"].args)
    n["add"].replace_all_uses_with(new, propagate_meta=True)
    assert new.meta == {"k": 1}
    with pytest.raises(AssertionError, match="already has .meta"):
        n["x"].replace_all_uses_with(new, propagate_meta=True)


def test_structures_are_gone_through():
    x = fx.Graph().placeholder("x")
    pair = torch.return_types.max(1, 2)
    assert fx.map_arg({"a": [x, (1, slice(x, None))]}, lambda n: n.name) == {
        "a": ["x", (1, slice("x", None))]
    }
    assert fx.node.map_aggregate(pair, lambda v: v + 1) == (2, 3)
    with pytest.raises(AssertionError, match="must be a function"):
        fx.map_arg([x], 3)
