"""`onnx.export`: names, files, options, and what is said of bad input."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import exported
import numpy as np
import onnx
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.onnx.errors import OnnxExporterError, UnsupportedOperatorError


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()


class Nested(nn.Module):
    def forward(self, pair, *rest, scale, options=None):
        result = pair[0] * scale + pair[1]["a"]
        return {"sum": result, "more": [r + 1 for r in rest], "none": None}


def nested():
    pair = (torch.ones(2), {"a": torch.zeros(2)})
    return (pair, torch.ones(3), torch.ones(4)), {"scale": torch.tensor(2.0), "options": "text"}


def test_names_follow_from_parameters_and_weights():
    args, kwargs = nested()
    program = torch.onnx.export(Nested(), args, kwargs=kwargs)
    graph = program.model_proto.graph
    assert [i.name for i in graph.input] == ["pair_0", "pair_1_a", "rest_0", "rest_1", "scale"]
    assert [o.name for o in graph.output] == ["output_0", "output_1", "output_2"]
    exported.agree(
        [t.numpy() for t in program(*args, **{"scale": torch.tensor(3.0)})],
        Nested()(*args, scale=torch.tensor(3.0)),
    )
    weights = torch.onnx.export(model(), (torch.ones(1, 3),), input_names=["x"], output_names=["y"])
    graph = weights.model_proto.graph
    assert [i.name for i in graph.initializer] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert (graph.input[0].name, graph.output[0].name) == ("x", "y")


def test_both_ways_of_asking_give_the_same_file(tmp_path):
    x, files = torch.ones(1, 3), []
    for dynamo in (False, True):
        path = tmp_path / f"{dynamo}.onnx"
        torch.onnx.export(model(), x, str(path), dynamo=dynamo)
        files.append(path.read_bytes())
    assert files[0] == files[1]


def test_keywords_as_the_older_way_takes_them():
    program = torch.onnx.export(lambda x, y: x - y, (torch.ones(2), {"y": torch.zeros(2)}), dynamo=False)
    assert [i.name for i in program.model_proto.graph.input] == ["x", "y"]


def test_a_result_that_is_an_input_or_a_weight():
    layer = nn.Linear(2, 2)
    program = torch.onnx.export(lambda x: (x, x, layer.weight, x + 0), (torch.ones(2),))
    exported.agree(
        exported.run(program, [torch.ones(2)]), (torch.ones(2), torch.ones(2), layer.weight, torch.ones(2))
    )


def test_inputs_that_nothing_reads_stay():
    program = torch.onnx.export(lambda x, y: x.size(0) + y, (torch.ones(2), torch.ones(3)))
    assert [i.name for i in program.model_proto.graph.input] == ["x", "y"]
    exported.agree(exported.run(program, [torch.ones(2), torch.ones(3)]), torch.full((3,), 3.0))


def test_weights_as_inputs(tmp_path):
    path = tmp_path / "model.onnx"
    torch.onnx.export(model(), (torch.ones(1, 3),), path, export_params=False)
    graph = onnx.load(path).graph
    assert not [i for i in graph.initializer if "weight" in i.name]
    assert {"0.weight", "2.bias"} < {i.name for i in graph.input}
    torch.onnx.export(model(), (torch.ones(1, 3),), path, keep_initializers_as_inputs=True)
    graph = onnx.load(path).graph
    assert {"0.weight", "2.bias"} < {i.name for i in graph.input} & {i.name for i in graph.initializer}


def test_weights_in_a_file_of_their_own(tmp_path):
    torch.manual_seed(0)
    large, x = nn.Linear(64, 64).eval(), torch.randn(2, 64)
    path = tmp_path / "large.onnx"
    torch.onnx.export(large, (x,)).save(path, external_data=True)
    assert (tmp_path / "large.onnx.data").stat().st_size >= 64 * 64 * 4 > path.stat().st_size
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    exported.agree(session.run(None, {"input": x.numpy()}), large(x))


def test_a_program_keeps_its_own_weights():
    layer, x = model(), torch.ones(1, 3)
    program, before = torch.onnx.export(layer, (x,)), layer(x).detach().clone()
    with torch.no_grad():
        for p in layer.parameters():
            p.zero_()
    exported.agree(exported.run(program, [x]), before)


def test_other_weights():
    program, other = torch.onnx.export(model(), (torch.ones(1, 3),)), model()
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(2)
    program.apply_weights(other.state_dict())
    exported.agree(exported.run(program, [torch.ones(1, 3)]), other(torch.ones(1, 3)))
    with pytest.raises(ValueError, match="has shape"):
        program.apply_weights({"0.weight": torch.ones(2)})


def test_dtypes_beside_float32():
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.float64):
        exported.check(lambda x: (x.exp() + 1).sum(0) * 2, torch.randn(3, 4).to(dtype))
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        x = torch.tensor([1, 5, 7], dtype=dtype)
        exported.check(
            lambda x: (x * 3, x // 2, x % 3, x > 4, x.sum(), x / 2, x.clamp(2, 6), (x > 4) & (x < 7)), x
        )
    x = torch.randn(3, 4).bfloat16()
    program = torch.onnx.export(lambda x: (x * 2 + 1).float(), (x.float(),))
    exported.agree(exported.run(program, [x.float()]), x.float() * 2 + 1)
    exported.check(lambda x: x.bfloat16().mul(3).float(), torch.randn(3))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_empty_tensors(shape):
    x = torch.ones(shape)
    exported.check(lambda x: (x * 2, x.sum(), x.sum(-1), torch.cat([x, x]), x.reshape(-1), x.exp().mean()), x)


def test_nan_and_infinity():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -2.5])
    functions = "abs neg exp relu sigmoid tanh floor ceil round sign sqrt log log1p expm1 erf isnan isinf isfinite trunc frac".split()
    exported.check(lambda x: [getattr(torch, f)(x) for f in functions], x)
    exported.check(
        lambda x: (x.clamp(-1, 1), x.nan_to_num(), x.maximum(x.flip(0)), x.fmax(x.flip(0)), x > 0, x == x), x
    )
    exported.check(
        lambda x: (x.signbit(), x.reciprocal(), torch.atan2(x, x.flip(0)), torch.hypot(x, x.flip(0))), x
    )


# --- operations of programs ------------------------------
@torch.library.custom_op("onnxtests::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * np.float32(by))


def test_operations_of_programs():
    register, forget = torch.onnx.register_custom_op_symbolic, torch.onnx.unregister_custom_op_symbolic
    function = lambda x: scaled(x + 1, 3.0).relu()
    with pytest.raises(UnsupportedOperatorError, match="scaled"):
        torch.onnx.export(function, (torch.ones(2),))
    register("onnxtests::scaled", lambda g, x, by: g.op("Mul", x, by), 18)
    register("onnxtests::scaled", lambda g, x, by: g.op("mine::Scaled", x, by_f=by), 21)
    try:
        exported.check(function, torch.randn(4))
        model = torch.onnx.export(function, (torch.ones(2),), opset_version=21).model_proto
        assert [(n.domain, n.op_type) for n in model.graph.node] == [
            ("", "Add"),
            ("mine", "Scaled"),
            ("", "Relu"),
        ]
        assert model.graph.node[1].attribute[0].f == 3.0
        assert [(i.domain, i.version) for i in model.opset_import] == [("", 21), ("mine", 1)]
    finally:
        forget("onnxtests::scaled", 18)
        forget("onnxtests::scaled", 21)


# --- bad input ------------------------------
@pytest.mark.parametrize("opset", [7, 17, 24, 99])
def test_versions_that_are_not_written(opset):
    with pytest.raises(ValueError, match=f"18 to 23, got {opset}"):
        torch.onnx.export(model(), (torch.ones(1, 3),), opset_version=opset)


def test_an_operation_without_form_says_which_and_where():
    def vectors(x):
        return torch.linalg.svd(x)[0]

    with pytest.raises(
        UnsupportedOperatorError, match=r"linalg_svd\(\) at .*test_onnx_export.py:\d+ has no form"
    ):
        torch.onnx.export(vectors, (torch.ones(4, 4),))
    exported.check(lambda x: x + 1, torch.ones(4))  # and the next one is exported


def branches(x):
    return x + 1 if x.sum() > 0 else x


@pytest.mark.parametrize(
    "function",
    [branches, lambda x: x * x.sum().item(), lambda x: x * len(x.tolist()), lambda x: x + x.numpy()[0]],
)
def test_a_program_that_looks_at_values(function):
    with pytest.raises(OnnxExporterError, match=r"looks at a value of a tensor .*test_onnx_export.py:\d+"):
        torch.onnx.export(function, (torch.ones(4),))
    assert not torch.onnx.is_in_onnx_export()


def test_the_library_says_where_it_looks_at_values():
    scores, classes = torch.randn(6, 1, 4).log_softmax(-1), torch.tensor([[1, 2]])

    def loss(x, lengths):
        return torch.nn.functional.ctc_loss(x, classes, lengths, torch.tensor([2]))

    with pytest.warns(
        torch.onnx.errors.OnnxExporterWarning, match=r"tolist\(\) at .*test_onnx_export.py.* looks at values"
    ):
        torch.onnx.export(loss, (scores, torch.tensor([6])))


def test_results_and_arguments_that_are_no_tensors():
    with pytest.raises(OnnxExporterError, match="returns a int"):
        torch.onnx.export(lambda x: (x, 3), (torch.ones(2),))
    with pytest.raises(OnnxExporterError, match="returns no tensor"):
        torch.onnx.export(lambda x: None, (torch.ones(2),))
    with pytest.raises(TypeError, match="args must be a tuple"):
        torch.onnx.export(model(), "text")
    with pytest.raises(OnnxExporterError, match="complex64"):
        torch.onnx.export(lambda x: x, (torch.ones(2, dtype=torch.complex64),))
    with pytest.raises(OnnxExporterError, match="result 0 is complex64.*view_as_real"):
        torch.onnx.export(torch.fft.fft, (torch.ones(2),))


def test_names_that_do_not_fit():
    x = torch.ones(1, 3)
    with pytest.raises(ValueError, match="2 input_names for 1"):
        torch.onnx.export(model(), (x,), input_names=["a", "b"])
    with pytest.raises(ValueError, match="2 output_names for 1"):
        torch.onnx.export(model(), (x,), output_names=["a", "b"])
    with pytest.raises(ValueError, match="several inputs or outputs"):
        torch.onnx.export(model(), (x,), input_names=["a"], output_names=["a"])
    with pytest.warns(UserWarning, match="no input or output"):
        torch.onnx.export(model(), (x,), dynamic_axes={"nothing": {0: "n"}})
    with pytest.raises(ValueError, match="no dimension 5"):
        torch.onnx.export(model(), (x,), input_names=["x"], dynamic_axes={"x": {5: "n"}})


def test_sizes_that_cannot_vary():
    loops = lambda x: torch.stack([row * 2 for row in x])
    with pytest.raises(OnnxExporterError, match="the graph is another one where 'n' is"):
        torch.onnx.export(loops, (torch.ones(3, 2),), dynamic_axes={"x": {0: "n"}})
    with pytest.raises(OnnxExporterError, match="does not run with another size 'n'"):
        torch.onnx.export(model(), (torch.ones(1, 3),), dynamic_axes={"input": {1: "n"}})
    with pytest.raises(ValueError, match="size 'n' is 2 and"):
        torch.onnx.export(
            lambda x, y: x, (torch.ones(2), torch.ones(3)), dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}
        )


class Dim:
    """As PyTorch's: a name and bounds."""

    def __init__(self, name, min=None, max=None):
        self.__name__, self.min, self.max = name, min, max


@pytest.mark.parametrize(
    "shapes",
    [{"x": {0: "n"}, "y": {0: "n"}}, ({0: Dim("n", 2, 9)}, {0: Dim("n")}), [["n", None], ("n", None)]],
)
def test_dynamic_shapes(shapes):
    function = lambda x, y: (x + y).sum(0)
    program = torch.onnx.export(function, (torch.ones(3, 2), torch.ones(3, 2)), dynamic_shapes=shapes)
    given = torch.randn(5, 2), torch.randn(5, 2)
    exported.agree(exported.run(program, given), function(*given))
    assert program.model_proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param == "n"


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        torch.onnx.export(model(), (torch.ones(1, 3),), tmp_path / "nowhere" / "model.onnx")
    taken = tmp_path / "folder.onnx"
    taken.mkdir()
    with pytest.raises(OSError):
        torch.onnx.export(model(), (torch.ones(1, 3),), taken)
    assert os.listdir(tmp_path) == ["folder.onnx"] and not os.listdir(taken)
    path = tmp_path / "kept.onnx"
    path.write_bytes(b"before")
    with pytest.raises(UnsupportedOperatorError):
        torch.onnx.export(lambda x: torch.linalg.svd(x)[0], (torch.ones(4, 4),), path)
    assert path.read_bytes() == b"before"


def test_writing_to_parameters_is_refused():
    layer = nn.Linear(2, 2)

    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            self.layer.bias.add_(1)
            return self.layer(x)

    with pytest.raises(OnnxExporterError, match="writes to its parameter 'layer.bias'"):
        torch.onnx.export(Writes(), (torch.ones(1, 2),))


def test_without_the_packages():
    """The package is imported without them; the errors name what to install."""
    code = """
    import sys
    sys.modules["onnx"] = None
    import flambeau
    try:
        flambeau.onnx.export(flambeau.nn.ReLU(), (flambeau.ones(1),))
    except ImportError as error:
        print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert "pip install 'flambeau[onnx]'" in done.stdout


def test_verify_finds_what_is_not_the_same(monkeypatch):
    layer = model()
    torch.onnx.export(layer, (torch.ones(1, 3),), verify=True)
    monkeypatch.setattr(
        torch.onnx.ONNXProgram, "__call__", lambda self, *args, **kwargs: (torch.full((1, 2), 9.0),)
    )
    with pytest.raises(OnnxExporterError, match="result 0 of onnxruntime"):
        torch.onnx.export(layer, (torch.ones(1, 3),), verify=True)


def test_a_program_is_called_with_as_many_tensors_as_it_has_inputs():
    program = torch.onnx.export(model(), (torch.ones(1, 3),))
    np.testing.assert_allclose(
        program(torch.zeros(1, 3))[0].numpy(), model()(torch.zeros(1, 3)).detach().numpy(), rtol=1e-5
    )
    with pytest.raises(ValueError, match="1 tensors expected, got 0"):
        program()
    assert "Gemm" in repr(program)
