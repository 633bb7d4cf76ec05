"""`export`: the graph, its signature, its state, and the module that runs, against the module's own calls."""

from __future__ import annotations

import copy
import dataclasses
import io
import operator

import pytest

import flambeau
from flambeau import nn
from flambeau.export import Dim, export
from flambeau.export.graph_signature import ConstantArgument, InputKind, OutputKind
from flambeau.utils import _pytree as pytree

F = nn.functional


def module(function, **tensors):
    """A module whose forward is a function of it and of its arguments."""

    made = type("Made", (nn.Module,), {"forward": function})()
    for name, t in tensors.items():
        if isinstance(t, nn.Module):
            made.add_module(name, t)
        else:
            setattr(made, name, t)
    return made


def agree(a, b):
    xs, ys = pytree.tree_leaves(a), pytree.tree_leaves(b)
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys):
        if isinstance(y, flambeau.Tensor):
            assert x.dtype == y.dtype and x.shape == y.shape and flambeau.equal(x, y)
        else:
            assert x == y


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("count", flambeau.zeros(()))
        self.register_buffer("shift", flambeau.ones(3), persistent=False)
        self.scale = flambeau.full((3,), 2.0)

    def forward(self, x):
        self.count.add_(1)
        return {
            "y": self.norm(self.layer(x)) * self.scale + self.shift + flambeau.tensor([1.0, 2.0, 3.0]),
            "n": self.count + 0,
        }


def test_the_signature_names_all_state():
    whole = Whole()
    program = export(whole, (flambeau.randn(5, 4),))
    signature = program.graph_signature
    assert [str(s) for s in signature.input_specs] == [
        "p_layer_weight: PARAMETER target='layer.weight'",
        "p_layer_bias: PARAMETER target='layer.bias'",
        "p_norm_weight: PARAMETER target='norm.weight'",
        "p_norm_bias: PARAMETER target='norm.bias'",
        "b_count: BUFFER target='count' persistent=True",
        "b_shift: BUFFER target='shift' persistent=False",
        "b_norm_running_mean: BUFFER target='norm.running_mean' persistent=True",
        "b_norm_running_var: BUFFER target='norm.running_var' persistent=True",
        "b_norm_num_batches_tracked: BUFFER target='norm.num_batches_tracked' persistent=True",
        "c_scale: CONSTANT_TENSOR target='scale'",
        "c_lifted_tensor_0: CONSTANT_TENSOR target='lifted_tensor_0'",
        "x: USER_INPUT",
    ]
    assert set(program.state_dict) == set(whole.state_dict())
    assert program.state_dict["layer.weight"] is whole.layer.weight
    assert set(program.constants) == {"scale", "lifted_tensor_0", "shift"}
    assert [n for n, _ in program.named_parameters()] == [n for n, _ in whole.named_parameters()]
    assert [e.fqn for e in program.module_call_graph] == ["", "layer", "norm"]
    assert all(s.kind is OutputKind.USER_OUTPUT for s in signature.output_specs)


def test_recording_leaves_the_module_as_it_is():
    whole = Whole()
    before = copy.deepcopy(whole.state_dict())
    buffers = {n: b for n, b in whole.named_buffers()}
    flambeau.manual_seed(1)
    export(nn.Sequential(whole.layer, nn.Dropout()), (flambeau.randn(5, 4),))
    export(whole, (flambeau.randn(5, 4),))
    drawn = flambeau.rand(2)
    agree(dict(whole.state_dict()), dict(before))
    assert all(b is buffers[n] for n, b in whole.named_buffers())
    flambeau.manual_seed(1)
    _ = flambeau.randn(5, 4), flambeau.randn(5, 4)
    agree(flambeau.rand(2), drawn)
    assert not whole._forward_hooks and not whole._forward_pre_hooks


def test_buffers_are_written_call_by_call():
    whole = Whole()
    program = export(whole, (flambeau.randn(5, 4),))
    eager, run = copy.deepcopy(whole), program.module()
    for _ in range(3):
        x = flambeau.randn(5, 4)
        agree(run(x), eager(x))
    agree(run.norm.running_mean, eager.norm.running_mean)
    agree(run.norm.num_batches_tracked, eager.norm.num_batches_tracked)


def test_targets_are_atens_overloads():
    program = export(Whole().eval(), (flambeau.randn(5, 4),))
    results = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert results == [
        "aten.add_.Tensor",
        "aten.linear.default",
        "aten.batch_norm.default",
        "aten.mul.Tensor",
        "aten.add.Tensor",
        "aten.lift_fresh_copy.default",
        "aten.add.Tensor",
        "aten.add.Tensor",
    ]
    linear = next(n for n in program.graph.nodes if n.name == "linear")
    assert linear.target == flambeau.ops.aten.linear.default
    assert [a.name for a in linear.args] == ["x", "p_layer_weight", "p_layer_bias"]
    assert str(linear.meta["val"]) == "f32[5, 3]"
    assert "return" not in linear.meta["stack_trace"] or "forward" in linear.meta["stack_trace"]
    assert list(linear.meta["nn_module_stack"].values())[-1][0] == "layer"


@pytest.mark.parametrize(
    "function, target",
    [
        (lambda m, x: x.sum(), "sum.default"),
        (lambda m, x: x.sum(1), "sum.dim_IntList"),
        (lambda m, x: x.mean(0, True), "mean.dim"),
        (lambda m, x: x + 1, "add.Tensor"),
        (lambda m, x: x > 1, "gt.Scalar"),
        (lambda m, x: x**3, "pow.Tensor_Scalar"),
        (lambda m, x: x.reshape(-1), "reshape.default"),
        (lambda m, x: x.transpose(0, 1), "transpose.int"),
        (lambda m, x: F.softmax(x, -1), "softmax.int"),
        (lambda m, x: x.to(flambeau.float64), "to.dtype"),
        (lambda m, x: flambeau.cat([x, x], 1), "cat.default"),
        (lambda m, x: x.split(2, 1), "split.Tensor"),
        (lambda m, x: flambeau.max(x, 1), "max.dim"),
        (lambda m, x: x.masked_fill(x > 0, 0.0), "masked_fill.Scalar"),
        (lambda m, x: F.layer_norm(x, (4,)), "layer_norm.default"),
        (lambda m, x: F.gelu(x, approximate="tanh"), "gelu.default"),
        (lambda m, x: flambeau.einsum("ij,kj->ik", x, x), "einsum.default"),
        (lambda m, x: x[:, 1:3], "slice.Tensor"),
        (lambda m, x: x[1], "select.int"),
        (lambda m, x: x[flambeau.tensor([0, 2])], "index.Tensor"),
    ],
)
def test_the_overload_that_stands_for_a_call(function, target):
    x = flambeau.randn(3, 4)
    program = export(module(function), (x,))
    assert f"aten.{target}" in [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    agree(program.module()(x), function(None, x))


def test_views_and_writes_are_what_they_were():
    def function(m, x):
        y = x.clone()
        y[:, 0] = 3.0
        y[1:].mul_(2)
        z = y.view(-1)
        z[flambeau.tensor([0, 5])] = flambeau.tensor([7.0, 8.0])
        y.T.add_(flambeau.arange(4.0)[:, None])
        return y, z.sum(), y[y.argmax(0)]

    x = flambeau.randn(3, 4)
    program = export(module(function), (x,), dynamic_shapes=({0: Dim.AUTO},))
    run = program.module()
    for rows in (3, 6, 2):
        x = flambeau.randn(rows, 4)
        agree(run(x), function(None, x))


def test_an_input_that_is_written_to_is_written_to_by_the_program_and_not_by_recording():
    x = flambeau.ones(3)
    program = export(module(lambda m, x: x.mul_(2) + 1), (x,))
    agree(x, flambeau.ones(3))
    agree(program.module()(x), flambeau.full((3,), 3.0))
    agree(x, flambeau.full((3,), 2.0))


def test_buffers_that_are_set_anew():
    made = module(lambda m, x: (setattr(m, "h", m.h + x), m.h * 2)[1])
    made.register_buffer("h", flambeau.zeros(3))
    program = export(made, (flambeau.ones(3),))
    assert [str(n.target) for n in program.graph.nodes][-2] == "aten.copy_.default"
    run = program.module()
    for k in (1, 2, 3):
        agree(run(flambeau.ones(3)), flambeau.full((3,), 2.0 * k))


def test_attributes_that_are_no_buffers_cannot_be_set():
    made = module(lambda m, x: (setattr(m, "k", m.k + x), m.k)[1], k=flambeau.zeros(3))
    with pytest.raises(ValueError, match=r"self\.k was assigned.*register_buffer"):
        export(made, (flambeau.ones(3),))
    agree(made.k, flambeau.zeros(3))


def test_tied_parameters_are_one_tensor():
    made = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    made[1].weight = made[0].weight
    program = export(made, (flambeau.randn(2, 3),))
    assert set(program.state_dict) == set(made.state_dict())
    run = program.module()
    run(flambeau.randn(2, 3)).sum().backward()
    x = flambeau.randn(2, 3)
    agree(run(x), made(x))
    assert made[0].weight.grad is not None


def test_gradients_come_as_from_the_module():
    made = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    other = copy.deepcopy(made)
    run = export(made, (flambeau.randn(3, 4),), dynamic_shapes=({0: Dim("n")},)).module()
    x = flambeau.randn(6, 4, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    run(x).square().sum().backward()
    other(y).square().sum().backward()
    agree(x.grad, y.grad)
    for p, q in zip(made.parameters(), other.parameters()):
        agree(p.grad, q.grad)


def _switched(x, w):
    flambeau.set_grad_enabled(False)
    y = x * w
    flambeau.set_grad_enabled(True)
    return y * x


@flambeau.no_grad()
def _decorated(x, w):
    return (x.exp() * w).sum(0)


def _written_within(x, w):
    y = x * w
    with flambeau.no_grad():
        y.mul_(x).view(-1)[:2] += w[0]
    return y * 2


def _in_block(function):
    def inner(x, w):
        with flambeau.no_grad():
            y = function(x, w)
        return y * x + w if isinstance(y, flambeau.Tensor) else y

    return inner


def _enabled_within(x, w):
    with flambeau.no_grad():
        with flambeau.enable_grad():
            y = x * w
        z = y + x
    return y + z


@pytest.mark.parametrize(
    "function",
    [
        _switched,
        lambda x, w: _decorated(x, w) + x,
        _enabled_within,
        _written_within,
        lambda x, w: flambeau.no_grad()(w.mul_)(2.0) * x,
        _in_block(lambda x, w: x * 2),
        _in_block(lambda x, w: x.view(-1)[:3] + w),
        _in_block(lambda x, w: flambeau.ones(3) * w),
        _in_block(lambda x, w: x.max(0).values),
        _in_block(lambda x, w: x.clone().mul_(w)),
        _in_block(lambda x, w: (x.detach() * w.detach()).sum()),
        _in_block(lambda x, w: (x > 0).sum()),
        lambda x, w: x.split(1)[0] * flambeau.no_grad()(lambda: x.split(1)[1] * w)(),
    ],
)
@pytest.mark.parametrize("required", [False, True])
def test_nothing_flows_through_what_is_computed_without_gradients(function, required):
    made = module(lambda m, x: function(x, m.w), w=nn.Parameter(flambeau.tensor([1.0, 2.0, 3.0])))
    program = export(made, (flambeau.randn(2, 3, requires_grad=required),))
    file = io.BytesIO()
    flambeau.export.save(program, file)
    file.seek(0)
    start = flambeau.randn(2, 3)
    wanted = None
    for run in (
        made,
        program.module(),
        program.run_decompositions().module(),
        flambeau.export.load(file).module(),
    ):
        x, w = start.clone().requires_grad_(), dict(run.named_parameters())["w"]
        w.grad, w.data = None, flambeau.tensor([1.0, 2.0, 3.0])
        result = run(x)
        if result.requires_grad:
            result.square().sum().backward()
        actual = result.requires_grad, *((g is not None, g) for g in (x.grad, w.grad))
        if wanted is None:
            wanted = actual
        assert actual[0] == wanted[0]
        for (there, g), (expected, e) in zip(actual[1:], wanted[1:]):
            assert there == expected
            agree(g, e) if there else None


def test_arguments_of_all_structures():
    def forward(self, x, d, *rest, flag=True, **named):
        y = x + d["l"][0] * (2 if flag else 3) + rest[0] - named["z"]
        return {"y": (y, d["k"]), "five": 5, "nothing": None, "text": "t"}

    made = module(forward)
    x = flambeau.ones(2, 3)
    args = x, {"l": [x * 2, x * 3], "k": x * 4}, x * 5
    kwargs = {"z": x * 6, "flag": False}
    program = export(made, args, kwargs)
    assert program.graph_signature.user_inputs == ("x", "d_l_0", "d_l_1", "d_k", "rest_0", "z", False)
    assert [s.arg for s in program.graph_signature.output_specs][2] == ConstantArgument("", 5)
    agree(program.module()(*args, **kwargs), made(*args, **kwargs))
    agree(program.module()(*args, flag=False, z=x), made(*args, flag=False, z=x))
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        program.module()(*args, z=x)
    with pytest.raises((AssertionError, RuntimeError), match="flag"):
        program.module()(*args, z=x, flag=True)


def test_the_input_checks_name_what_is_wrong():
    run = export(nn.Linear(4, 2), (flambeau.randn(3, 4),), dynamic_shapes=({0: Dim("n", max=8)},)).module()
    for bad, told in (
        (flambeau.randn(3, 5), r"\.shape\[1\] to be equal to 4, but got 5"),
        (flambeau.randn(9, 4), r"\.shape\[0\] to be <= 8, but got 9"),
        (flambeau.randn(3, 4).double(), "dtype flambeau.float32, but got flambeau.float64"),
        (flambeau.randn(4), "number of dimensions"),
    ):
        with pytest.raises(AssertionError, match=told):
            run(bad)
    with pytest.raises(ValueError, match="structure|tree spec"):
        run(flambeau.randn(3, 4), flambeau.ones(1))


def test_printing_is_as_pytorch_prints():
    text = str(export(nn.Linear(4, 2), (flambeau.randn(3, 4),), dynamic_shapes=({0: Dim("n")},)))
    assert 'linear: "f32[s0, 2]" = flambeau.ops.aten.linear.default(' in text
    assert "p_weight: PARAMETER target='weight'" in text and "Range constraints: {s0: VR[0, int_oo]}" in text


def test_what_cannot_be_exported():
    x = flambeau.ones(2)
    with pytest.raises(ValueError, match="instance of `torch.nn.Module`"):
        export(lambda x: x, (x,))
    with pytest.raises(RuntimeError, match="Expecting `args` to be a tuple"):
        export(nn.ReLU(), x)
    with pytest.raises(RuntimeError, match="does not take these arguments"):
        export(nn.ReLU(), (x, x))
    with pytest.raises(RuntimeError, match="Unsupported input type"):
        export(module(lambda m, x, y: x), (x, object()))
    with pytest.raises(RuntimeError, match="outputs with type"):
        export(module(lambda m, x: object()), (x,))
    with pytest.raises(ValueError, match="ScriptModule"):
        export(flambeau.jit.trace(nn.ReLU(), x), (x,))


def test_a_failing_program_leaves_nothing_behind():
    made = nn.BatchNorm1d(3)
    before = made.running_mean
    broken = module(lambda m, x: m.norm(x) + flambeau.ones(7), norm=made)
    with pytest.raises(RuntimeError):
        export(broken, (flambeau.randn(4, 3),))
    assert made.running_mean is before and not made._forward_hooks
    assert type(flambeau.ones(3).shape[0]) is int and isinstance(flambeau.ones(3).shape, flambeau.Size)
    agree(
        export(made.eval(), (flambeau.ones(4, 3),)).module()(flambeau.ones(4, 3)), made(flambeau.ones(4, 3))
    )


def test_numbers_that_leave_the_program():
    made = module(lambda m, x: (x.shape[0] * 2, x.numel(), x * x.shape[0]))
    run = export(made, (flambeau.ones(3, 4),), dynamic_shapes=({0: Dim("n")},)).module()
    agree(run(flambeau.ones(5, 4)), (10, 20, flambeau.full((5, 4), 5.0)))


def test_registered_classes_as_arguments():
    @dataclasses.dataclass
    class Pair:
        a: flambeau.Tensor
        b: flambeau.Tensor

    flambeau.export.register_dataclass(Pair)
    made = module(lambda m, p: Pair(p.a + p.b, p.a * p.b))
    result = export(made, (Pair(flambeau.ones(2), flambeau.ones(2)),)).module()(
        Pair(flambeau.ones(2), flambeau.full((2,), 3.0))
    )
    agree((result.a, result.b), (flambeau.full((2,), 4.0), flambeau.full((2,), 3.0)))


def test_kinds_of_steps_that_have_no_name_in_aten():
    made = module(lambda m, x: flambeau.nn.functional.lp_pool2d(x, 2.0, 2))
    program = export(made, (flambeau.rand(2, 1, 4, 4),), dynamic_shapes=({0: Dim("n")},))
    x = flambeau.rand(3, 1, 4, 4)
    agree(program.module()(x), made(x))


def test_the_graph_only_calls_functions():
    program = export(Whole(), (flambeau.randn(5, 4),))
    assert {n.op for n in program.graph.nodes} == {"placeholder", "call_function", "output"}
    kinds = [s.kind for s in program.graph_signature.input_specs]
    assert kinds == sorted(
        kinds,
        key=[InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.USER_INPUT].index,
    )
    assert all(n.target is not operator.setitem for n in program.graph.nodes)


def test_sizes_of_elements_are_symbols_whatever_is_drawn():
    """How many elements a mask has is no constant, however many the example's has."""

    class Chosen(nn.Module):
        def forward(self, x):
            result = x[x > 0]
            return result.shape[0], x.nonzero().shape[0], flambeau.bincount(x.relu().long()).shape[0]

    other = flambeau.tensor([5.0, -1.0, 3.0])
    for example in ([1.0, -1.0, 2.0], [1.0, 1.0, 1.0], [-1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [0.0, 0.0, 4.0]):
        for seed in range(4):
            flambeau.manual_seed(seed)
            program = flambeau.export.export(Chosen(), (flambeau.tensor(example),)).module()
            assert program(other) == (2, 3, 6), (example, seed)
