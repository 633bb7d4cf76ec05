"""Branches and loops as ONNX's, run by onnxruntime and read again, on operands that take other ways than those that were exported."""

from __future__ import annotations

import exported
import pytest

import flambeau as torch
from flambeau import nn
from flambeau._higher_order_ops import map as mapping
from flambeau._higher_order_ops import scan, while_loop
from flambeau.onnx.errors import OnnxExporterError, UnsupportedOperatorError


def check(function, given, *others, **options):
    """Export a call, and compare what both readers of the model give for it and for other operands; the kinds of its nodes."""
    program = torch.onnx.export(function, given, **options)
    session = exported.session(program)
    names = [i.name for i in session.get_inputs()]
    module = torch.onnx.load_model(program.model_proto.SerializeToString())
    for tensors in (given, *others):
        with torch.no_grad():
            expected = function(*[t.clone() for t in tensors])
            actual = exported.leaves(module(*tensors))
        exported.agree(session.run(None, {n: t.numpy() for n, t in zip(names, tensors)}), expected)
        exported.agree([t.numpy() for t in actual], expected)
    return [node.op_type for node in program.model_proto.graph.node]


class Choosing(nn.Module):
    """Two layers, one of which is taken; both read a value from outside of the branch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        y = x * 2
        return torch.cond(
            x.sum() > 0, lambda x: self.first(x) + y, lambda x: self.second(x) - y[:, :1], (x,)
        ).relu()


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_branches(opset):
    torch.manual_seed(0)
    x = torch.rand(2, 3) + 0.1
    kinds = check(Choosing().eval(), (x,), (-x,), opset_version=opset)
    assert "If" in kinds and "Gemm" not in kinds  # both layers lie in the branches


def test_branches_of_varying_sizes():
    torch.manual_seed(0)
    x = torch.rand(2, 3) + 0.1
    check(
        Choosing().eval(),
        (x,),
        (-x,),
        (torch.rand(7, 3),),
        (-torch.rand(1, 3),),
        dynamic_axes={"x": {0: "n"}},
    )


def test_trees_and_numbers_as_operands():
    def function(p, x):
        made = torch.cond(
            p,
            lambda d, k: {"a": d["x"] * k, "b": d["x"].sum()},
            lambda d, k: {"a": d["x"] - k, "b": -d["x"].sum()},
            ({"x": x}, 3),
        )
        return made["a"], made["b"]

    x = torch.randn(2, 3)
    check(function, (torch.tensor(True), x), (torch.tensor(False), x))
    check(function, (torch.tensor([1]), x), (torch.tensor([0]), x))


def test_a_branch_that_gives_its_operand_or_a_value_from_outside():
    def function(x):
        y = x.exp()
        return torch.cond(x.sum() > 0, lambda x: x, lambda x: y, (x,)) + 1

    check(function, (torch.ones(3),), (-torch.ones(3),))


def test_a_condition_that_is_no_tensor_is_decided():
    kinds = check(
        lambda x: torch.cond(len(x) > 1, lambda x: x.exp(), lambda x: x.sin(), (x,)), (torch.ones(3),)
    )
    assert kinds == ["Exp"]


def test_loops():
    def function(x, times):
        return while_loop(
            lambda n, y: (n < times).all(),
            lambda n, y: (n + 1, y * 1.5 + x.mean()),
            (torch.zeros((), dtype=torch.int64), x),
        )

    x = torch.randn(4)
    kinds = check(function, (x, torch.tensor(3)), (x, torch.tensor(0)), (-x, torch.tensor(9)))
    assert "Loop" in kinds


def test_a_loop_within_a_branch_within_a_loop():
    def turn(n, y):
        inner = lambda y: while_loop(lambda z: z.amax() < 9, lambda z: (z * 2 + 1,), (y,))[0]  # noqa: E731
        return n + 1, torch.cond(y.sum() > 4, lambda y: y - 3, inner, (y,))

    def function(x):
        return while_loop(lambda n, y: n < 5, turn, (torch.zeros((), dtype=torch.int64), x))

    check(function, (torch.ones(2),), (torch.tensor([-0.5, 3.0]),))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(dim, reverse):
    layer = nn.Linear(3, 4)

    def function(h, xs):
        def step(carry, x):
            return (layer(x) + carry).tanh(), (carry * 2, x.sum())

        return scan(step, h, xs, dim=dim, reverse=reverse)

    shape = [3]
    shape.insert(dim % 2, 5)
    h, xs = torch.randn(4), torch.randn(shape)
    if dim % 2 == 0:
        assert "Scan" in check(function, (h, xs), (torch.ones(4), -xs))
    else:
        assert "Scan" in check(function, (h, xs), (torch.ones(4), -xs))


def test_scans_of_varying_length():
    def function(h, xs):
        return scan(lambda c, x: (c + x, c * x), h, xs)

    h = torch.zeros(3)
    check(
        function,
        (h, torch.randn(5, 3)),
        (h, torch.randn(1, 3)),
        (h, torch.randn(11, 3)),
        dynamic_axes={"xs": {0: "t"}},
    )


def test_maps():
    check(lambda xs, y: mapping(lambda x, y: x.sum() * y, xs, y), (torch.randn(5, 3), torch.randn(2)))


def test_what_is_refused():
    x = torch.ones(2)
    other = lambda x: x > 0  # noqa: E731
    with pytest.raises(UnsupportedOperatorError, match="else_branch gives"):
        torch.onnx.export(lambda x: torch.cond(x.sum() > 0, lambda x: x, other, (x,)), (x,))
    with pytest.raises(UnsupportedOperatorError, match="else_branch gives"):
        torch.onnx.export(lambda x: torch.cond(x.sum() > 0, lambda x: x, lambda x: x[:1], (x,)), (x,))
    with pytest.raises(UnsupportedOperatorError, match="return it as a result"):
        torch.onnx.export(lambda x: torch.cond(x.sum() > 0, lambda y: x.add_(y), lambda y: y, (x * 2,)), (x,))
    with pytest.raises(OnnxExporterError, match="give tensors alone, got int"):
        torch.onnx.export(lambda x: while_loop(lambda n, y: n < 2, lambda n, y: (n + 1, y), (0, x)), (x,))
    with pytest.raises(OnnxExporterError, match="looks at a value"):
        torch.onnx.export(
            lambda x: torch.cond(x.sum() > 0, lambda x: x * float(x[0]), lambda x: x, (x,)), (x,)
        )


def test_calls_are_handed_to_the_export_alone():
    seen = []

    def branch(x):
        seen.append(1)
        return x

    torch.onnx.export(lambda x: torch.cond(x.sum() > 0, branch, branch, (x,)), (torch.ones(2),))
    before = len(seen)
    torch.cond(torch.tensor(True), branch, branch, (torch.ones(2),))
    assert len(seen) == before + 1
