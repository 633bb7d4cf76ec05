"""Models that are read: names, gradients, training, compiling, copies, files, and what is a parameter."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import flambeau as torch
from flambeau import nn
from flambeau.onnx import OnnxFormatError


class Net(nn.Module):
    """A convolution, running statistics, a recurrent layer, and two results."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.rnn, self.last = nn.LSTM(8, 6, batch_first=True, bidirectional=True), nn.Linear(12, 5)

    def forward(self, x):
        y = self.norm(self.conv(x)).relu().mean(2).transpose(1, 2)
        rows, _ = self.rnn(torch.cat([y, y * y], 2))
        return self.last(rows).softmax(-1), rows.amax(1)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    made = Net()
    made.norm.running_mean.uniform_(-1, 1)
    return made.eval()


@pytest.fixture(scope="module")
def x():
    torch.manual_seed(1)
    return torch.randn(2, 3, 4, 6)


@pytest.fixture(scope="module")
def data(net, x):
    return torch.onnx.export(net, (x,)).model_proto.SerializeToString()


def close(actual, expected):
    return all(torch.allclose(a, b, atol=1e-5) for a, b in zip(actual, expected, strict=True))


def test_values_and_names(net, x, data):
    read = torch.onnx.load_model(data)
    assert close(read(x), net(x))
    known = {n: p.shape for n, p in net.named_parameters()}
    assert {n: p.shape for n, p in read.named_parameters() if n in known} == known
    assert {"norm.running_mean", "norm.running_var"} <= {n for n, _ in read.named_buffers()}
    assert torch.equal(read.conv.weight, net.conv.weight)


def test_gradients(net, x, data):
    read, one, other = torch.onnx.load_model(data), x.clone().requires_grad_(), x.clone().requires_grad_()
    read(one)[0].log().sum().backward()
    net.zero_grad()
    net(other)[0].log().sum().backward()
    assert torch.allclose(one.grad, other.grad, atol=1e-4)
    for name, p in net.named_parameters():
        assert torch.allclose(read.get_parameter(name).grad, p.grad, atol=1e-3), name


def test_training(x, data):
    read = torch.onnx.load_model(data)
    optimizer = torch.optim.Adam(read.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = -read(x)[0][..., 0].log().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1


def test_compiled(net, x, data):
    read = torch.onnx.load_model(data)
    fast = torch.compile(read)
    for given in (x, -x, x):
        assert close(fast(given), read(given))


@pytest.mark.parametrize("way", ["save", "pickle", "deepcopy", "state_dict"])
def test_copies(x, data, way):
    read = torch.onnx.load_model(data)
    with torch.no_grad():
        read.last.weight.mul_(2)
    if way == "save":
        file = io.BytesIO()
        torch.save(read, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(read))
    elif way == "deepcopy":
        other = copy.deepcopy(read)
    else:
        other = torch.onnx.load_model(data)
        other.load_state_dict(read.state_dict())
    assert close(other(x), read(x)) and other.code == read.code
    assert list(other.state_dict()) == list(read.state_dict())
    with torch.no_grad():
        other.last.bias.add_(1)
    assert not torch.equal(other.last.bias, read.last.bias)


def test_paths_files_and_bytes(tmp_path, net, x, data):
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    with open(path, "rb") as file:
        for source in (path, str(path), file, io.BytesIO(data), bytearray(data), memoryview(data)):
            assert close(torch.onnx.load_model(source)(x), net(x))
    with open(path, "w") as file, pytest.raises((TypeError, io.UnsupportedOperation)):
        torch.onnx.load_model(file)
    with pytest.raises(TypeError, match="StringIO|gives str"):
        torch.onnx.load_model(io.StringIO("x"))
    with pytest.raises(TypeError, match="got int"):
        torch.onnx.load_model(3)
    with pytest.raises(FileNotFoundError):
        torch.onnx.load_model(tmp_path / "nothing.onnx")
    path.write_bytes(b"")
    with pytest.raises(OnnxFormatError, match="is empty"):
        torch.onnx.load_model(path)


def test_weights_in_a_file_of_their_own(tmp_path, net, x):
    torch.onnx.export(net, (x,)).save(tmp_path / "net.onnx", external_data=True)
    assert close(torch.onnx.load_model(tmp_path / "net.onnx")(x), net(x))


def test_what_is_a_parameter():
    names = ["scale", "row", "count"]
    held = [
        numpy_helper.from_array(a, n)
        for n, a in zip(names, (np.array(2, "f4"), np.ones(3, "f4"), np.arange(3)))
    ]
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["a"]),
        helper.make_node("Add", ["a", "row"], ["b"]),
        helper.make_node("Gather", ["b", "count"], ["c"]),
        helper.make_node("Constant", [], ["d"], value_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Add", ["c", "d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [3])],
        [helper.make_tensor_value_info("y", 1, None)],
        held,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    read = torch.onnx.load_model(made)
    assert [n for n, _ in read.named_parameters()] == ["row"]
    assert sorted(read.state_dict()) == ["count", "row", "scale"]  # what a node holds is no state
    assert read(torch.zeros(3)).tolist() == [2.0, 3.0, 4.0]
    other = torch.onnx.load_model(made, parameters=["scale"])
    assert [n for n, _ in other.named_parameters()] == ["scale"]


def test_functions_of_the_model_and_their_attributes():
    scaled = helper.make_function(
        "own",
        "Scaled",
        ["a"],
        ["b"],
        [
            helper.make_node("Elu", ["a"], ["c"], alpha=1.0),
            helper.make_node("Softmax", ["c"], ["b"]),
        ],
        [helper.make_opsetid("", 18)],
        ["alpha", "axis"],
    )
    for node, name in zip(scaled.node, ("alpha", "axis")):
        del node.attribute[:]
        kind = onnx.AttributeProto.FLOAT if name == "alpha" else onnx.AttributeProto.INT
        node.attribute.add(name=name, ref_attr_name=name, type=kind)
    nodes = [
        helper.make_node("Scaled", ["x"], ["a"], domain="own", alpha=2.0, axis=0),
        helper.make_node("Scaled", ["x"], ["b"], domain="own"),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, None)],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    made = helper.make_model(graph, opset_imports=imports, functions=[scaled])
    x = torch.randn(3, 4)
    expected = nn.functional.elu(x, 2.0).softmax(0) - nn.functional.elu(x).softmax(-1)
    assert torch.allclose(torch.onnx.load_model(made.SerializeToString())(x), expected, atol=1e-6)


@pytest.mark.parametrize(
    "kind",
    [
        "float16",
        "bfloat16",
        "float64",
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "bool",
        "complex64",
        "uint64",
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_dtypes_of_constants(kind, raw):
    numbers = [1, 0, 3, 2] if kind != "bool" else [True, False, True, True]
    number = getattr(TensorProto, {"float64": "DOUBLE", "float32": "FLOAT"}.get(kind, kind.upper()))
    if raw:
        t = torch.tensor(numbers, dtype=getattr(torch, kind))
        bits = t.view(torch.uint8).numpy().tobytes() if kind != "bool" else bytes(t.tolist())
        held = TensorProto(name="w", data_type=number, dims=[2, 2], raw_data=bits)
    else:
        held = helper.make_tensor("w", number, [2, 2], numbers)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", number, None)],
        [held],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    result = torch.onnx.load_model(made)()
    assert (
        result.dtype == getattr(torch, kind)
        and result.tolist() == torch.tensor(numbers, dtype=result.dtype).reshape(2, 2).tolist()
    )


def test_sizes_that_vary(net):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(2), nn.LayerNorm(9)).eval()
    x = torch.randn(2, 1, 5, 5)
    program = torch.onnx.export(
        lambda x: model(x).reshape(x.shape[0], -1), (x,), dynamic_axes={"x": {0: "n"}}
    )
    read = torch.onnx.load_model(program.model_proto.SerializeToString())
    for n in (1, 2, 9):
        x = torch.randn(n, 1, 5, 5)
        assert torch.allclose(read(x), model(x).reshape(n, -1), atol=1e-6)


def test_values_within_and_names_of_sizes(net, x):
    program = torch.onnx.export(net, (x,), input_names=["x"], dynamic_axes=None)
    assert close(program.call_reference(x), net(x))
    conv = program.model_proto.graph.node[0].output[0]
    assert close(program.compute_values([conv, "x"], (x,)), (net.conv(x), x))
    with pytest.raises(torch.onnx.OnnxLoadError, match="nothing makes the output 'no'"):
        program.compute_values(["no"], (x,))
    with pytest.raises(ValueError, match="1 tensors expected, got 2"):
        program.call_reference(x, x)


def test_optimized(x):
    def function(x):
        return x * torch.arange(6).float().exp().cumsum(0).reshape(1, 6) + torch.ones(6).sum()

    program = torch.onnx.export(function, (x,))
    before = len(program.model_proto.graph.node)
    program.optimize()
    assert [n.op_type for n in program.model_proto.graph.node] == ["Mul", "Add"] and before > 2
    assert torch.allclose(program(x)[0], function(x), rtol=1e-5)


def test_options_of_other_exporters(x):
    for name in ("report", "profile", "dump_exported_program", "export_modules_as_functions"):
        with pytest.raises(NotImplementedError, match=name):
            torch.onnx.export(nn.ReLU(), (x,), **{name: True})
    with pytest.raises(NotImplementedError, match="custom_translation_table"):
        torch.onnx.export(nn.ReLU(), (x,), custom_translation_table={torch.relu: print})


def test_sizes_that_the_graph_computes_are_read_as_ints():
    """No tensor is looked at, so that a compiled model is one graph for any size."""
    layer = nn.Linear(6, 4)

    def function(x):
        y = layer(x).reshape(x.shape[0], -1, 2).transpose(0, 1)
        return y.reshape(-1, x.shape[0] * 2)[:, : x.shape[0]] + torch.zeros(x.shape[0])

    x = torch.randn(3, 6)
    program = torch.onnx.export(function, (x,), dynamic_axes={"x": {0: "n"}})
    read = torch.onnx.load_model(program.model_proto.SerializeToString())
    assert torch._dynamo.explain(read)(x).graph_break_count == 0
    fast = torch.compile(read)
    for n in (3, 5, 1, 8, 3):
        x = torch.randn(n, 6)
        assert torch.allclose(read(x), function(x), atol=1e-6) and torch.allclose(
            fast(x), function(x), atol=1e-6
        )


SHAPES = {
    "taken apart and joined": [
        ("Shape", ["x"], "s"),
        ("Gather", ["s", "one"], "a"),
        ("Unsqueeze", ["a", "zeros"], "b"),
        ("Concat", ["b", "minus"], "y", {"axis": 0}),
    ],
    "computed with": [
        ("Shape", ["x"], "s", {"start": 1}),
        ("Mul", ["s", "two"], "m"),
        ("Add", ["m", "two"], "p"),
        ("Div", ["p", "two"], "q"),
        ("Sub", ["q", "ones"], "y"),
    ],
    "backwards": [("Shape", ["x"], "s"), ("Slice", ["s", "minus", "far", "zeros", "minus"], "y")],
    "cut": [
        ("Shape", ["x"], "s"),
        ("Slice", ["s", "ones", "two"], "t"),
        ("Squeeze", ["t"], "u"),
        ("Reshape", ["u", "ones"], "y"),
    ],
    "of two dimensions": [
        ("Shape", ["x"], "s"),
        ("Unsqueeze", ["s", "ones"], "t"),
        ("Concat", ["t", "t"], "v", {"axis": 1}),
        ("Reshape", ["v", "four"], "y"),
    ],
}


@pytest.mark.parametrize("name", SHAPES)
def test_arithmetic_of_sizes(name):
    """What is read as ints is what the tensors would be."""
    numbers = {"one": 1, "zeros": [0], "ones": [1], "two": [2], "minus": [-1], "far": [-99], "four": [4]}
    held = [numpy_helper.from_array(np.array(v), n) for n, v in numbers.items()]
    nodes = [helper.make_node(k, i, [o], **(more[0] if more else {})) for k, i, o, *more in SHAPES[name]]
    whole = ("Reshape", ["x", "y"]) if name == "taken apart and joined" else ("ConstantOfShape", ["y"])
    nodes.append(helper.make_node(*whole, ["w"]))
    outs = ["y", "w"]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3])],
        [helper.make_empty_tensor_value_info(o) for o in outs],
        held,
    )
    data = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    ).SerializeToString()
    x = np.ones((2, 3), "f4")
    expected = onnxruntime.InferenceSession(data).run(outs, {"x": x})
    actual = torch.onnx.load_model(data)(torch.from_numpy(x))
    for t, y in zip(actual, expected, strict=True):
        assert tuple(t.shape) == y.shape and np.array_equal(t.numpy(), y)
