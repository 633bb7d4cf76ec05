"""Archives that PyTorch's `export.save` wrote (`tools/exported_of_torch.py`): what PyTorch computes, and every way back."""

from __future__ import annotations

import copy
import io
import itertools
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import export

FOLDER = Path(__file__).resolve().parents[1] / "data" / "torch" / "export"
ARCHIVES = sorted(FOLDER.glob("*.pt2"))
HALF = ("half", "bfloat16")


def given(shape: Any, arrays: Any, k: int, numbers: Any) -> Any:
    """Arguments as the file beside an archive describes them."""
    if shape == "tensor":
        return flambeau.from_numpy(arrays[f"in{k}.{next(numbers)}"].copy())
    if isinstance(shape, dict):
        return {name: given(v, arrays, k, numbers) for name, v in shape.items()}
    return tuple(given(v, arrays, k, numbers) for v in shape) if isinstance(shape, list) else shape


def leaves(value: Any, tensors: list[Any]) -> Any:
    """A result as JSON has it, and its tensors."""
    if isinstance(value, flambeau.Tensor):
        tensors.append(value)
        return "tensor"
    if isinstance(value, dict):
        return {k: leaves(v, tensors) for k, v in value.items()}
    return [leaves(v, tensors) for v in value] if isinstance(value, (list, tuple)) else value


class Expected:
    """A program, arguments, and what PyTorch made of them."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / f"{name}.pt2"
        self.program = export.load(self.path)
        with np.load(self.path.with_suffix(".npz")) as result:
            self.arrays = dict(result)
        self.tolerance = 2e-2 if name in HALF else 1e-4
        self.calls = sum(key.startswith("given") for key in self.arrays)

    def arguments(self, k: int) -> tuple[tuple, dict[str, Any]]:
        args, kwargs = json.loads(str(self.arrays[f"given{k}"]))
        numbers = itertools.count()
        return given(args, self.arrays, k, numbers), given(kwargs, self.arrays, k, numbers)

    def check(self, call: Any, state: Any = None) -> None:
        """Compare the results of all calls, and what buffers hold then."""
        for k in range(self.calls):
            args, kwargs = self.arguments(k)
            tensors: list[Any] = []
            assert leaves(call(*args, **kwargs), tensors) == json.loads(str(self.arrays[f"rest{k}"]))
            for i, t in enumerate(tensors):
                self.compare(t, self.arrays[f"out{k}.{i}"])
        for name, buffer in dict(state or ()).items():
            self.compare(buffer, self.arrays[f"state.{name}"])

    def compare(self, t: Any, wanted: Any) -> None:
        actual = t.numpy(force=True)
        assert actual.dtype == wanted.dtype and actual.shape == wanted.shape
        np.testing.assert_allclose(actual, wanted, rtol=self.tolerance, atol=1e-5)


@pytest.fixture(params=[p.stem for p in ARCHIVES])
def expected(request):
    return Expected(request.param)


def saved(program: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    export.save(program, file, **options)
    file.seek(0)
    return file


def test_there_are_enough():
    assert len(ARCHIVES) >= 20 and all(p.with_suffix(".npz").exists() for p in ARCHIVES)


def test_values_and_buffers(expected):
    module = expected.program.module()
    names = {key.removeprefix("state.") for key in expected.arrays if key.startswith("state.")}
    assert {name for name, _ in module.named_buffers()} == names
    expected.check(module, module.named_buffers())


def test_a_graph_that_is_called_with_all_its_inputs(expected):
    """The graph by itself: its inputs are state and leaves, its outputs what is written back and leaves."""
    program = expected.program
    args, kwargs = expected.arguments(0)
    outputs = program.graph_module(*program._graph_module_flat_inputs(args, kwargs))
    kinds = [s.kind.name for s in program.graph_signature.output_specs]
    assert len(outputs) == len(kinds)
    given_out = [x for x, kind in zip(outputs, kinds) if kind == "USER_OUTPUT"]
    tensors = [x for x in given_out if isinstance(x, flambeau.Tensor)]
    for i, t in enumerate(tensors):
        expected.compare(t, expected.arrays[f"out0.{i}"])


def test_saved_again(expected):
    again = export.load(saved(expected.program))
    program = expected.program
    assert list(again.state_dict) == list(program.state_dict)
    assert all(flambeau.equal(v, program.state_dict[k]) for k, v in again.state_dict.items())
    assert str(again.graph_signature) == str(program.graph_signature)
    assert again.range_constraints == program.range_constraints
    assert [n.name for n in again.graph.nodes] == [n.name for n in program.graph.nodes]
    assert [str(n.meta.get("val")) for n in again.graph.nodes] == [
        str(n.meta.get("val")) for n in program.graph.nodes
    ]
    module = again.module()
    expected.check(module, module.named_buffers())


def test_the_programs_own_arguments_are_kept(expected):
    args, kwargs = expected.program.example_inputs
    wanted_args, wanted_kwargs = expected.arguments(0)
    actual, wanted = [], []
    assert leaves((args, kwargs), actual) == leaves((wanted_args, wanted_kwargs), wanted)
    for t, other in zip(actual, wanted):
        assert flambeau.equal(t, other) or expected.path.stem == "mutating"


def test_what_is_known_of_values_is_true(expected):
    """Shapes and dtypes of `meta["val"]`, against a run of the graph node by node, with the numbers of its symbols."""
    program = expected.program
    args, kwargs = expected.arguments(0)
    flat = program._graph_module_flat_inputs(args, kwargs)
    sizes = dict(program._hints)

    class Compared(flambeau.fx.Interpreter):
        count = 0

        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            known = n.meta.get("val")
            if isinstance(value, flambeau.Tensor) and n.op == "call_function" and n.users:
                numbers = [d if isinstance(d, int) else d.value(sizes) for d in known.shape if not unknown(d)]
                results = [d for d, k in zip(value.shape, known.shape) if not unknown(k)]
                assert (numbers, known.dtype, len(known.shape)) == (results, value.dtype, value.dim()), n.name
                Compared.count += 1
            return value

    def unknown(size: Any) -> bool:
        return not isinstance(size, int) and not set(size.symbols()) <= set(sizes)

    Compared(program.graph_module).run(*flat)
    assert Compared.count > 0


def test_printed(expected):
    text = str(expected.program)
    assert text.startswith("ExportedProgram:\n    class GraphModule(flambeau.nn.Module):")
    assert "Graph signature:" in text and "Range constraints:" in text
    assert len([line for line in text.split("\n") if "placeholder" in line or " = " in line]) >= 1


# --- single programs ------------------------------
def test_gradients_reach_parameters():
    known = Expected("mlp")
    module = known.program.module()
    args, _ = known.arguments(0)
    module(*args).sum().backward()
    w1, b1, w2, b2 = (
        known.program.state_dict[f"layers.{k}"].detach().numpy()
        for k in ("0.weight", "0.bias", "2.weight", "2.bias")
    )
    x = args[0].numpy()
    hidden = np.maximum(x @ w1.T + b1, 0)
    outer = 1 - np.tanh(hidden @ w2.T + b2) ** 2
    wanted = {"layers.2.bias": outer.sum(0), "layers.2.weight": outer.T @ hidden}
    inner = (outer @ w2) * (hidden > 0)
    wanted |= {"layers.0.bias": inner.sum(0), "layers.0.weight": inner.T @ x}
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), wanted[name], rtol=1e-4, atol=1e-6)


def test_weights_that_are_tied_stay_one():
    program = Expected("tied").program
    assert program.state_dict["encode.weight"] is program.state_dict["decode.weight"]
    again = export.load(saved(program))
    assert again.state_dict["encode.weight"] is again.state_dict["decode.weight"]
    with zipfile.ZipFile(saved(program)) as archive:
        weights = [n for n in archive.namelist() if "/weight_" in n]
    assert len(weights) == 3  # one for both, and the biases


def test_tensors_that_share_memory_share_it_again():
    program = Expected("views").program
    state = program.state_dict
    assert state["weight"].untyped_storage().data_ptr() == state["turned"].untyped_storage().data_ptr()
    again = export.load(saved(program)).state_dict
    again["turned"][0, 1] = 77.0
    assert again["weight"][0, 0].item() == 77.0
    assert again["turned"].stride() == (1, 4)


def test_buffers_are_written_at_every_call():
    program = Expected("counting").program
    module = program.module()
    x = flambeau.ones(4, 2)
    for _ in range(3):
        _, steps = module(x)
    assert steps.item() == 3 and module.steps.item() == 3 and "steps" in module.state_dict()
    assert program.module().steps.item() == 3  # modules of a program share its state


def test_sizes_that_vary_are_checked():
    module = Expected("batched").program.module()
    assert module(flambeau.ones(5, 4), flambeau.ones(2, 1))[0].shape[0] == 18
    for x, y, what in (
        (flambeau.ones(3, 4), flambeau.ones(2, 1), r"x\.size\(\)\[0\] >= 4.*>= 4, but got 3"),
        (flambeau.ones(65, 4), flambeau.ones(2, 1), r"x\.size\(\)\[0\] <= 64.*<= 64, but got 65"),
        (flambeau.ones(5, 3), flambeau.ones(2, 1), r"x\.size\(\)\[1\] == 4.*equal to 4, but got 3"),
        (flambeau.ones(5, 4), flambeau.ones(2), r"y\.dim\(\) == 2"),
        (flambeau.ones(5, 4).double(), flambeau.ones(2, 1), "x.dtype == flambeau.float32"),
        (flambeau.ones(5, 4), 3, "isinstance"),
    ):
        with pytest.raises(AssertionError, match=what):
            module(x, y)
        with pytest.raises(RuntimeError, match="input at [xy]"):
            Expected("batched").program.module(check_guards=False)(x, y)


def test_sizes_that_follow_from_others_are_checked():
    module = Expected("derived").program.module()
    assert module(flambeau.ones(9, 2), flambeau.ones(10, 2))[2] == 20
    with pytest.raises(AssertionError, match=r"y\.size\(\)\[0\] == .* \+ 1.*equal to 10, but got 9"):
        module(flambeau.ones(9, 2), flambeau.ones(9, 2))


def test_structures_and_constants_are_checked():
    module = Expected("trees").program.module()
    x = flambeau.ones(2)
    rest, scale = {"a": x, "b": (x, x)}, {"by": flambeau.ones(1)}
    assert module(x, rest, scale=scale)["parts"][1][1] == 2
    assert module(x, dict(reversed(rest.items())), scale=scale)["none"] is None
    for args, kwargs, what in (
        ((x, rest), {}, "kwarg keyword mismatch"),
        ((x, rest), {"other": scale}, "kwarg keyword mismatch"),
        ((x,), {"scale": scale}, "input tree spec"),
        ((x, {"a": x, "b": [x, x]}), {"scale": scale}, "input tree spec"),
        ((x, {"a": x, "c": (x, x)}), {"scale": scale}, "input tree spec"),
    ):
        with pytest.raises(ValueError, match=what):
            module(*args, **kwargs)
    numbers = Expected("numbers").program.module()
    with pytest.raises(AssertionError, match="n == 3 .*but got 4"):
        numbers(flambeau.ones(3), 4, "times")
    with pytest.raises(AssertionError, match="s == 'times'"):
        numbers(flambeau.ones(3), 3, "other")
    with pytest.raises(AssertionError, match="n == 3"):
        numbers(flambeau.ones(3), 3.0, "times")


def test_errors_come_before_anything_is_written():
    program = Expected("mutating").program
    out = flambeau.zeros(3)
    with pytest.raises(AssertionError):
        program.module()(flambeau.ones(4), out)
    assert out.sum().item() == 0
    program.module()(flambeau.ones(3), out)
    assert out.tolist() == [1.0, 1.0, 1.0]


def test_a_module_of_a_program():
    module = Expected("cnn").program.module()
    for name, call in (("train", module.train), ("eval", module.eval)):
        with pytest.raises(NotImplementedError, match=f"Calling {name}\\(\\)"):
            call()
    with pytest.raises(RuntimeError, match=r"use `exported_program\.module\(\)`"):
        Expected("cnn").program(flambeau.ones(2, 1, 4, 4))
    known = Expected("cnn")
    known.check(copy.deepcopy(module))
    state = {k: flambeau.zeros_like(v) for k, v in module.state_dict().items()}
    module.load_state_dict(state)
    assert module(flambeau.ones(2, 1, 4, 4)).exp().sum(1).sub(1).abs().max().item() < 1e-5


def test_a_program_is_compiled():
    known = Expected("transformer")
    module = known.program.module()
    compiled = flambeau.compile(module.forward)
    known.check(compiled)
    known.check(compiled)


def test_branches_are_graphs():
    program = Expected("branches").program
    assert isinstance(program.graph_module.true_graph_0, flambeau.fx.GraphModule)
    module = program.module()
    x = flambeau.ones(2, 3)
    np.testing.assert_allclose(module(-x).detach().numpy(), np.sin(-x.numpy()) - 1, rtol=1e-5)
    line = program.state_dict
    wanted = x.numpy() @ line["line.weight"].detach().numpy().T + line["line.bias"].detach().numpy()
    np.testing.assert_allclose(module(x).detach().numpy(), wanted, rtol=1e-5)


def test_targets_are_those_of_aten():
    graph = Expected("mlp").program.graph
    called = [n for n in graph.nodes if n.op == "call_function"]
    assert [str(n.target) for n in called] == [
        "aten.linear.default",
        "aten.relu.default",
        "aten.linear.default",
        "aten.tanh.default",
    ]
    assert called[1].target == flambeau.ops.aten.relu.default
    assert called[0].meta["nn_module_stack"]["L__self__layers.0"] == (
        "layers.0",
        "torch.nn.modules.linear.Linear",
    )


# --- files ------------------------------
def test_paths_and_extra_files(tmp_path):
    program = Expected("mlp").program
    path = tmp_path / "mlp.pt2"
    export.save(program, path, extra_files={"note.txt": "one", "other": "two"})
    results = {"note.txt": "", "absent": "as it was"}
    export.load(path, extra_files=results)
    assert results == {"note.txt": "one", "absent": "as it was"}
    with zipfile.ZipFile(path) as archive:
        assert archive.read("mlp/archive_format") == b"pt2" and archive.read("mlp/archive_version") == b"0"
        told = json.loads(archive.read("mlp/models/model.json"))
    assert told["schema_version"] == {"major": 8, "minor": 20}
    before = path.read_bytes()
    program.constants["odd"] = object()
    with pytest.raises(RuntimeError, match="odd is a object"):
        export.save(program, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_saved():
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram', got 'Linear'"):
        export.save(flambeau.nn.Linear(1, 1), io.BytesIO())
    program = Expected("mlp").program
    with pytest.raises(TypeError, match="extra_files"):
        export.save(program, io.BytesIO(), extra_files={"a": 3})
    with pytest.raises(ValueError, match="other versions"):
        export.save(program, io.BytesIO(), opset_version={"aten": 9})
    node = next(n for n in program.graph.nodes if n.name == "relu")
    node.target = print
    with pytest.raises(RuntimeError, match=r"export\.save: relu: .*no operation that archives know"):
        export.save(program, io.BytesIO())


def test_operations_of_a_pass_are_written_as_atens():
    """A pass puts this library's own functions into the graph."""
    known = Expected("mlp")
    program = known.program
    for node in program.graph.nodes:
        if node.name == "relu":
            node.target = flambeau.nn.functional.leaky_relu
            node.args = (*node.args, 0.0)
    again = export.load(saved(program))
    assert "aten.leaky_relu.default" in [str(n.target) for n in again.graph.nodes]
    known.check(again.module())


def test_operations_of_a_library(tmp_path):
    lib = flambeau.library.Library("pt2_archives", "DEF")
    lib.define("twice(Tensor x, *, float by=2.0) -> Tensor")
    lib.impl("twice", lambda x, by=2.0: x * by, "CPU")
    program = Expected("mlp").program
    for node in program.graph.nodes:
        if node.name == "relu":
            node.target = flambeau.ops.pt2_archives.twice.default
            node.kwargs = {"by": 3.0}
    file = saved(program)
    again = export.load(file)
    x = flambeau.ones(2, 3)
    assert flambeau.equal(again.module()(x), program.module()(x))
    lib._destroy()
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"node 'relu': 'torch\.ops\.pt2_archives\.twice\.default'"):
        export.load(file)


def test_sample_inputs_of_unknown_classes_are_left_out():
    entries = {}
    with zipfile.ZipFile(FOLDER / "mlp.pt2") as archive:
        entries = {n: archive.read(n) for n in archive.namelist()}
    inner = io.BytesIO()
    flambeau.save((flambeau.nn.Linear(1, 1),), inner)
    entries["mlp/data/sample_inputs/model.pt"] = inner.getvalue()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    file.seek(0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        program = export.load(file)
    assert program.example_inputs is None and "sample inputs are left out" in str(seen[0].message)
    Expected("mlp").check(program.module())


class Named(flambeau.nn.Module):
    """Modules under names that are no identifiers, and operators of bits."""

    def __init__(self):
        super().__init__()
        self.add_module("block-0", flambeau.nn.Linear(3, 3))
        self.add_module("self", flambeau.nn.Linear(3, 3))

    def forward(self, x, mask):
        y = self.get_submodule("self")(self.get_submodule("block-0")(x))
        return y.masked_fill(mask & (x > 0), 0.0)


def test_names_and_operators_of_programs_of_ours():
    net = Named()
    x, mask = flambeau.randn(4, 3), flambeau.randn(4, 3) > 0
    program = export.load(saved(export.export(net, (x, mask))))
    assert set(program.state_dict) == set(net.state_dict())
    module = program.module()
    assert flambeau.equal(module(x, mask), net(x, mask))
    assert flambeau.equal(copy.deepcopy(module)(x, mask), net(x, mask))
