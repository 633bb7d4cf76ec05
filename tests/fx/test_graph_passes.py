"""Passes over graphs: pattern rewriting, splitting, shapes, managers, `make_fx`."""

from __future__ import annotations

import importlib.util

import pytest

import flambeau as torch
from flambeau import fx, nn
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.fx.passes.graph_drawer import FxGraphDrawer
from flambeau.fx.passes.graph_manipulation import get_size_of_all_nodes
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
from flambeau.fx.passes.infra.pass_manager import PassManager, this_before_that_pass_constraint
from flambeau.fx.passes.shape_prop import ShapeProp
from flambeau.fx.passes.split_module import split_module
from flambeau.fx.passes.split_utils import split_by_tags
from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
from flambeau.fx.subgraph_rewriter import replace_pattern_with_filters


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)
        self.p = nn.Parameter(torch.ones(2))

    def forward(self, x, y):
        z = self.b(torch.relu(self.a(x))) + self.p
        return z.sum(dim=1) * y, z


@pytest.fixture
def traced():
    torch.manual_seed(0)
    return fx.symbolic_trace(Net())


def given():
    return torch.ones(5, 3), torch.ones(5)


def same(a, b):
    for one, other in zip(a(*given()), b(*given()), strict=True):
        assert torch.equal(one, other)


def test_each_place_of_a_pattern_is_replaced():
    module = fx.symbolic_trace(
        lambda x, v, w: x + torch.max(torch.cat([v, w]).sum()) + torch.max(torch.cat([v, w]).sum())
    )
    matches = fx.replace_pattern(
        module, lambda v, w: torch.cat([v, w]).sum(), lambda v, w: torch.stack([v, w])
    )
    module.graph.lint()
    assert len(matches) == 2 and [n.name for n in module.graph.nodes if n.target is torch.stack] == [
        "stack",
        "stack_1",
    ]
    assert module(1.0, torch.ones(2), torch.full((2,), 3.0)) == 7


@pytest.mark.parametrize(
    "f, pattern, replacement, count",
    [
        (
            lambda x: torch.add(torch.add(torch.add(x, 1), 1), 1),
            lambda x: torch.add(torch.add(x, 1), 1),
            lambda x: x + 2,
            1,
        ),
        (
            lambda x: (torch.relu(x), torch.neg(torch.relu(x))),
            lambda x: torch.neg(torch.relu(x)),
            lambda x: -x.clamp(min=0),
            1,
        ),
        (lambda x: x.relu() + 1, lambda x: x.relu(), lambda x: x, 1),
        (
            lambda x: torch.relu(torch.relu(torch.relu(x))),
            lambda x: torch.relu(x),
            lambda x: x.clamp(min=0),
            3,
        ),
        (lambda x: torch.sum(x, dim=0), lambda x: torch.sum(x, 0), lambda x: x.sum(0), 1),
        (lambda x: torch.add(x, 3), lambda x: torch.add(x, 1), lambda x: x + 9, 0),
    ],
)
def test_patterns(f, pattern, replacement, count):
    module = fx.symbolic_trace(f)
    x = torch.tensor([[1.0, 2.0]])
    want = f(x)
    assert len(fx.replace_pattern(module, pattern, replacement)) == count
    module.graph.lint()
    torch.testing.assert_close(module(x), want)


def test_what_is_used_elsewhere_is_no_match():
    def f(x):
        a = torch.relu(x)
        return a, torch.neg(a)

    pattern = fx.symbolic_trace(lambda x: torch.neg(torch.relu(x))).graph
    assert not SubgraphMatcher(pattern).match(fx.symbolic_trace(f).graph)


def test_filters_and_literals():
    def traced():
        return fx.symbolic_trace(lambda x: torch.add(x, 3) + torch.add(x, 4))

    module = traced()
    result = replace_pattern_with_filters(
        module, lambda x: torch.add(x, 1), lambda x: torch.mul(x, 9), ignore_literals=True
    )
    assert [r.replacements[0].name for r in result] == ["mul", "mul_1"] and module(torch.ones(1)) == 18
    result = replace_pattern_with_filters(
        traced(), lambda x: torch.add(x, 3), lambda x: x, [lambda match, graph, pattern: False]
    )
    assert not result
    with pytest.raises(ValueError, match="empty pattern"):
        SubgraphMatcher(fx.Graph())


def test_replacements_bring_their_weights(traced):
    class Old(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 4)

        def forward(self, x):
            return self.a(x)

    class New(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 4)

        def forward(self, x):
            return self.two(self.one(x))

    new = New()
    assert len(fx.replace_pattern(traced, Old(), new)) == 1
    assert [name for name, _ in traced.named_children()] == ["b", "one", "two"] and traced.one is not new.one
    traced.graph.lint()
    assert traced(*given())[1].shape == (5, 2)


def test_splits_compute_the_same(traced):
    names = {}
    split = split_module(traced, traced, lambda n: 0 if n.name in ("a", "relu") else 1, names)
    same(split, traced)
    assert [n.target for n in split.graph.nodes if n.op == "call_module"] == ["submod_0", "submod_1"]
    assert names == {"submod_0.a": "a", "submod_1.b": "b"} and split.submod_0.a is traced.a
    other = split_module(
        traced, traced, lambda n: {"a": 5, "relu": 5, "b": 2}.get(n.name, 1), keep_original_order=True, tuple_return=True,
        partition_affix="part", keep_original_input_name=False,
    )  # fmt: skip
    same(other, traced)
    assert [n.target for n in other.graph.nodes if n.op == "call_module"] == [
        "submod_part_5",
        "submod_part_2",
        "submod_part_1",
    ]
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(traced, traced, lambda n: {"relu": 1}.get(n.name, 0))


def test_splits_by_tags(traced):
    for node in traced.graph.nodes:
        node.tag = "one" if node.name in ("a", "relu") else "two"
    split, names = split_by_tags(traced, ["one", "two"], return_fqn_mapping=True)
    same(split, traced)
    assert names == {"one.a": "a", "two.b": "b", "two.p": "p"}
    with pytest.raises(AssertionError, match="come later"):
        split_by_tags(traced, ["two", "one"])
    with pytest.raises(AssertionError, match="has the tag 'two'"):
        split_by_tags(traced, ["one"])


def test_shapes_are_noted(traced):
    assert ShapeProp(traced).propagate(*given())[0].shape == (5,)
    meta = {n.name: n.meta["tensor_meta"] for n in traced.graph.nodes}
    assert (
        meta["a"].shape == (5, 4)
        and meta["a"].requires_grad
        and meta["x"].memory_format is torch.contiguous_format
    )
    assert [m.shape for m in meta["output"]] == [(5,), (5, 2)]
    get_size_of_all_nodes(traced)
    assert {n.name: n.size_bytes for n in traced.graph.nodes if n.op != "output"}["a"] == (80, 80 + 64)
    assert 'relu: "f32[5, 4]" = flambeau.relu(a)' in traced.print_readable(print_output=False)


class Swap(PassBase):
    def call(self, graph_module):
        result = graph_module.graph.find_nodes(op="call_function", target=torch.relu)
        for node in result:
            node.target = torch.tanh
        graph_module.recompile()
        return PassResult(graph_module, bool(result))


def test_managers_run_passes_until_nothing_changes(traced):
    seen = []

    def first(module):
        seen.append("first")
        return PassResult(module, False)

    swap = Swap()
    manager = PassManager([swap, first], [this_before_that_pass_constraint(first, swap)], steps=5)
    manager.add_checks(lambda module: module.graph.lint())
    with pytest.raises(RuntimeError, match="must not come before"):
        manager.validate_constraints()
    result = manager(traced)
    assert result.modified and "tanh" in result.graph_module.code and seen == ["first", "first"]
    circle = [this_before_that_pass_constraint(first, swap), this_before_that_pass_constraint(swap, first)]
    with pytest.raises(RuntimeError, match="Circular"):
        PassManager([swap, first], circle).solve_constraints()


@pytest.mark.skipif(importlib.util.find_spec("pydot") is not None, reason="pydot is here")
def test_drawing_names_the_package_that_it_needs(traced):
    with pytest.raises(RuntimeError, match="pip install pydot"):
        FxGraphDrawer(traced, "net")


def written(x):
    y = x.clone()
    y.add_(2)
    y[0].mul_(3)
    return y.max(dim=0)[0], x.view(-1)


@pytest.mark.parametrize(
    "f",
    [
        written,
        torch.func.grad(lambda x: (torch.tanh(x) * x.exp()).sum()),
        torch.func.vmap(lambda x: torch.relu(x - x.mean())),
        lambda x: torch.nn.functional.layer_norm(x, (3,)).softmax(-1),
    ],
)
def test_leaves_play_on_other_numbers(f):
    torch.manual_seed(0)
    module = make_fx(f)(torch.randn(2, 3))
    module.graph.lint()
    x = torch.randn(2, 3)
    want, got = f(x.clone()), module(x.clone())
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert not [n for n in module.graph.nodes if n.op == "call_module"]


def test_targets_are_operations_of_aten():
    module = make_fx(lambda x, d: torch.mm(x, d["k"]) + 1)(torch.ones(2, 2), {"k": torch.ones(2, 2)})
    assert [n.target for n in module.graph.nodes if n.op == "call_function"] == [
        torch.ops.aten.mm.default,
        torch.ops.aten.add.Tensor,
    ]
    assert module.graph.find_nodes(op="call_function")[0].meta["val"].shape == (2, 2)
    assert module(torch.eye(2), {"k": torch.eye(2)}).tolist() == [[2, 1], [1, 2]]


def test_decompositions_run_in_the_place_of_operations():
    table = {
        torch.ops.aten.silu.default: lambda x, *rest: x * torch.sigmoid(x),
        torch.ops.aten.tanh.default: lambda x: x.sin(),
    }
    module = make_fx(lambda x: torch.nn.functional.silu(x).tanh(), table)(torch.ones(2))
    assert [n.name for n in module.graph.nodes] == ["x_1", "sigmoid", "mul", "sin", "output"]


def test_modes_of_tracing_that_are_not_here():
    with pytest.raises(NotImplementedError, match="tracing_mode"):
        make_fx(torch.relu, tracing_mode="symbolic")
    with pytest.raises(NotImplementedError, match="pre_dispatch"):
        make_fx(torch.relu, pre_dispatch=True)
