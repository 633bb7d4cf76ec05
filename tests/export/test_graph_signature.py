"""Signatures of exported graphs, programs that are put together by hand, and what a program must be."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import export, nn
from flambeau.export._verifier import SpecViolationError, Verifier
from flambeau.export.exported_program import ModuleCallEntry, ModuleCallSignature
from flambeau.export.graph_signature import (
    ConstantArgument,
    CustomObjArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
    TokenArgument,
)
from flambeau.utils._pytree import tree_structure


def signature() -> ExportGraphSignature:
    """One input and one output of every kind."""
    t = TensorArgument
    return ExportGraphSignature(
        [
            InputSpec(InputKind.TOKEN, TokenArgument("token"), None),
            InputSpec(InputKind.PARAMETER, t("p_w"), "net.w"),
            InputSpec(InputKind.BUFFER, t("b_n"), "n", True),
            InputSpec(InputKind.BUFFER, t("b_k"), "k", False),
            InputSpec(InputKind.CONSTANT_TENSOR, t("c_c"), "c"),
            InputSpec(InputKind.CUSTOM_OBJ, CustomObjArgument("obj", "a.Queue"), "queue"),
            InputSpec(InputKind.USER_INPUT, t("x"), None),
            InputSpec(InputKind.USER_INPUT, SymIntArgument("size"), None),
            InputSpec(InputKind.USER_INPUT, ConstantArgument("flag", True), None),
        ],
        [
            OutputSpec(OutputKind.TOKEN, TokenArgument("token_1"), None),
            OutputSpec(OutputKind.BUFFER_MUTATION, t("add"), "n"),
            OutputSpec(OutputKind.PARAMETER_MUTATION, t("sub"), "net.w"),
            OutputSpec(OutputKind.USER_INPUT_MUTATION, t("mul"), "x"),
            OutputSpec(OutputKind.LOSS_OUTPUT, t("loss"), None),
            OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", None), None),
            OutputSpec(OutputKind.GRADIENT_TO_PARAMETER, t("g_w"), "net.w"),
            OutputSpec(OutputKind.GRADIENT_TO_USER_INPUT, t("g_x"), "x"),
        ],
    )


def test_what_a_signature_tells():
    s = signature()
    assert (s.parameters, s.buffers, s.non_persistent_buffers) == (("net.w",), ("n", "k"), ("k",))
    assert (s.lifted_tensor_constants, s.lifted_custom_objs) == (("c",), ("queue",))
    assert s.user_inputs == ("x", "size", True) and s.user_outputs == ("loss", None)
    assert s.inputs_to_parameters == {"p_w": "net.w"} and s.inputs_to_buffers == {"b_n": "n", "b_k": "k"}
    assert s.inputs_to_lifted_tensor_constants == {"c_c": "c"}
    assert s.inputs_to_lifted_custom_objs == {"obj": "queue"}
    assert s.buffers_to_mutate == {"add": "n"} and s.parameters_to_mutate == {"sub": "net.w"}
    assert s.user_inputs_to_mutate == {"mul": "x"}
    assert (s.input_tokens, s.output_tokens, s.assertion_dep_token) == (("token",), ("token_1",), None)
    with pytest.raises(TypeError):
        s.buffers_to_mutate["add"] = "other"  # type: ignore[index]


def test_losses_and_gradients():
    s = signature()
    backward = s.backward_signature
    assert backward is not None and backward.loss_output == "loss"
    assert backward.gradients_to_parameters == {"g_w": "net.w"} and backward.gradients_to_user_inputs == {
        "g_x": "x"
    }
    s.output_specs = [o for o in s.output_specs if o.kind is not OutputKind.LOSS_OUTPUT]
    assert s.backward_signature is None
    s.output_specs += [OutputSpec(OutputKind.LOSS_OUTPUT, TensorArgument(n), None) for n in "ab"]
    with pytest.raises(AssertionError, match="one LOSS_OUTPUT, got 2"):
        s.backward_signature  # noqa: B018


def test_names_are_replaced():
    s = signature()
    s.replace_all_uses("x", "y")
    s.replace_all_uses("loss", "cost")
    assert s.user_inputs[0] == "y" and s.user_outputs[0] == "cost"
    with pytest.raises(AssertionError, match="expected two names"):
        s.replace_all_uses("x", 3)  # type: ignore[arg-type]

    class Named:
        def __init__(self, name, op):
            self.name, self.op = name, op

    hook = s.get_replace_hook(replace_inputs=True)
    hook(Named("cost", "call_function"), "sum", Named("out", "output"))
    hook(Named("y", "placeholder"), "z", Named("relu", "call_function"))
    assert s.user_inputs[0] == "z" and s.user_outputs[0] == "sum"


def test_printed():
    lines = str(signature()).strip().split("\n")
    assert lines[2:4] == ["p_w: PARAMETER target='net.w'", "b_n: BUFFER target='n' persistent=True"]
    assert "x: USER_INPUT" in lines and "add: BUFFER_MUTATION target='n'" in lines


def test_specs_that_are_none():
    with pytest.raises(AssertionError, match="`persistent`"):
        InputSpec(InputKind.BUFFER, TensorArgument("b"), "b")
    for spec in (InputSpec, OutputSpec):
        with pytest.raises(AssertionError, match="expected arg to be an ArgumentSpec"):
            spec(InputKind.USER_INPUT, "x", None)  # type: ignore[operator]


# --- programs ------------------------------
def program(change=None, **more):
    """x · w, with `n` counted: put together by hand, after `change` of its parts."""
    graph = flambeau.fx.Graph()
    w, n, x = graph.placeholder("p_w"), graph.placeholder("b_n"), graph.placeholder("x")
    product = graph.call_function(flambeau.mul, (x, w))
    count = graph.call_function(flambeau.add, (n, 1))
    graph.output((count, product))
    x.meta["val"] = flambeau.empty(2, device="meta")
    t = TensorArgument
    parts = {
        "root": nn.Module(),
        "graph": graph,
        "graph_signature": ExportGraphSignature(
            [
                InputSpec(InputKind.PARAMETER, t("p_w"), "w"),
                InputSpec(InputKind.BUFFER, t("b_n"), "n", True),
                InputSpec(InputKind.USER_INPUT, t("x"), None),
            ],
            [
                OutputSpec(OutputKind.BUFFER_MUTATION, t("add"), "n"),
                OutputSpec(OutputKind.USER_OUTPUT, t("mul"), None),
            ],
        ),
        "state_dict": {"w": nn.Parameter(flambeau.full((2,), 3.0)), "n": flambeau.zeros(1)},
        "range_constraints": {},
        "module_call_graph": [
            ModuleCallEntry(
                "", ModuleCallSignature([], [], tree_structure(((1,), {})), tree_structure(1), ["x"])
            )
        ],
        **more,
    }
    if change is not None:
        change(parts)
    return export.ExportedProgram(**parts)


def test_a_program():
    made = program()
    assert [n for n, _ in made.named_parameters()] == ["w"] and [n for n, _ in made.named_buffers()] == ["n"]
    assert (
        list(made.parameters())[0] is made.state_dict["w"] and list(made.buffers())[0] is made.state_dict["n"]
    )
    assert made.dialect == "TRAINING" and made.verifier is made.verifiers[0]
    assert made.call_spec.in_spec.num_leaves == 1
    module = made.module()
    assert module(flambeau.ones(2)).tolist() == [3.0, 3.0] and made.state_dict["n"].item() == 1
    assert [type(p) for p in module.parameters()] == [nn.Parameter]
    for name in (
        "graph_module",
        "graph",
        "graph_signature",
        "state_dict",
        "constants",
        "range_constraints",
        "call_spec",
    ):
        with pytest.raises(AttributeError):
            setattr(made, name, None)


def test_example_inputs_are_arguments_of_the_program():
    made = program()
    made.example_inputs = (flambeau.ones(2),), {}
    assert made.example_inputs[0][0].shape == (2,)
    made.example_inputs = None
    for wrong in ((flambeau.ones(2),), [(flambeau.ones(2),), {}], ((), {})):
        with pytest.raises(ValueError):
            made.example_inputs = wrong


def other_graph(parts):
    parts["graph"].output_node().args = ((parts["graph"].output_node().args[0][1],),)


CHANGES = {
    "state": (lambda p: p["state_dict"].pop("w"), "PARAMETER w is not in the state dict"),
    "kept_out": (
        lambda p: setattr(p["graph_signature"].input_specs[1], "persistent", False),
        "BUFFER n is not in the constants",
    ),
    "inputs": (lambda p: p["graph_signature"].input_specs.pop(), r"Number of graph inputs \(3\)"),
    "input_name": (
        lambda p: setattr(p["graph_signature"].input_specs[2].arg, "name", "y"),
        "Input spec name y does not match node name x",
    ),
    "outputs": (other_graph, "Number of output nodes 1"),
    "output_name": (
        lambda p: setattr(p["graph_signature"].output_specs[1].arg, "name", "y"),
        "Output spec name y does not match node name mul",
    ),
    "target": (
        lambda p: setattr(p["graph_signature"].output_specs[0], "target", "m"),
        "BUFFER_MUTATION output add has no target 'm'",
    ),
    "no_name": (
        lambda p: setattr(p["graph_signature"].input_specs[0], "target", None),
        "expected the name of a PARAMETER, got None",
    ),
    "constant_parameter": (
        lambda p: setattr(p["graph_signature"].input_specs[0], "arg", ConstantArgument("p_w", 3)),
        "PARAMETER p_w is not a tensor argument",
    ),
    "call": (
        lambda p: p["module_call_graph"][0].signature.inputs.append(TensorArgument("nothing")),
        "Input nothing does not exist in the graph",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_programs_that_do_not_fit(name):
    change, what = CHANGES[name]
    with pytest.raises(SpecViolationError, match=what):
        program(change)


def test_graphs_that_call_methods_or_hold_state():
    def method(parts):
        node = next(n for n in parts["graph"].nodes if n.name == "mul")
        node.op, node.target = "call_method", "mul"

    with pytest.raises(SpecViolationError, match="calls functions, got a call_method of 'mul'"):
        program(method)

    def attribute(parts):
        parts["root"].register_buffer("held", flambeau.ones(2))
        first = next(iter(parts["graph"].nodes))
        with parts["graph"].inserting_before(first):
            parts["graph"].get_attr("held")

    with pytest.raises(SpecViolationError, match="'held' to be the graph of a branch, got Tensor"):
        program(attribute)


def test_parts_that_are_wrong():
    with pytest.raises(AssertionError, match="module_call_graph must not be None"):
        program(module_call_graph=None)
    with pytest.raises(AssertionError, match="subclasses of Verifier"):
        program(verifiers=[int])
    assert program(verifiers=[Verifier]).dialect == "ATEN"
    with pytest.raises(AssertionError, match="first call to be the outermost"):
        program(module_call_graph=[ModuleCallEntry("a")]).module()
