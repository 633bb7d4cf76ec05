"""Files that are damaged or meant to harm: each is a module, or an OnnxLoadError before anything large is made or anything is run."""

from __future__ import annotations

import os
import random
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import flambeau as torch
from flambeau.onnx import OnnxFormatError, OnnxLoadError, _reading

MOST = 8 << 20  # bytes that reading such a file may take


def model(nodes, inputs=("x",), outputs=("y",), initializers=(), functions=(), opset=18):
    """The bytes of a model, which onnx does not check."""
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in inputs]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    graph = helper.make_graph(list(nodes), "g", given, made, list(initializers))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    whole = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    return whole.SerializeToString()


def weight(dims=(2,), data=b"\0" * 8, **fields):
    """An initializer with any sizes beside any bytes."""
    return TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=data, **fields)


def with_weight(tensor):
    return model([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[tensor])


def refused(data, says, error=OnnxLoadError):
    """Assert that reading raises that error, which says so, and takes little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=says):
            torch.onnx.load_model(data)
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


BASES = {
    "weights": with_weight(weight()),
    "branches": model(
        [
            helper.make_node(
                "If",
                ["x"],
                ["y"],
                then_branch=helper.make_graph(
                    [helper.make_node("Neg", ["x"], ["a"])],
                    "then",
                    [],
                    [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)],
                ),
                else_branch=helper.make_graph(
                    [helper.make_node("Abs", ["x"], ["b"])],
                    "else",
                    [],
                    [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
                ),
            )
        ]
    ),
    "functions": model(
        [helper.make_node("Twice", ["x"], ["y"], domain="own")],
        functions=[
            helper.make_function(
                "own",
                "Twice",
                ["a"],
                ["b"],
                [helper.make_node("Add", ["a", "a"], ["b"])],
                [helper.make_opsetid("", 18)],
            )
        ],
    ),
    "network": torch.onnx.export(
        torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU()).eval(),
        (torch.ones(1, 1, 5, 5),),
    ).model_proto.SerializeToString(),
}


def mutated(data, chosen):
    """The bytes with a few changed, cut off, put in or taken out."""
    data, way = bytearray(data), chosen.randrange(5)
    at = chosen.randrange(len(data))
    if way == 0:
        del data[at:]
    elif way == 1:
        for _ in range(chosen.randrange(1, 6)):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
    elif way == 2:
        data[at:at] = chosen.randbytes(chosen.randrange(1, 9))
    elif way == 3:
        del data[at : at + chosen.randrange(1, 9)]
    else:
        data[at] ^= 1 << chosen.randrange(8)
    return bytes(data)


@pytest.mark.parametrize("name", BASES)
def test_mutations(name):
    chosen, outcomes = random.Random(0), {"read": 0, "refused": 0}
    assert callable(torch.onnx.load_model(BASES[name]))
    tracemalloc.start()
    for _ in range(400):
        try:
            torch.onnx.load_model(mutated(BASES[name], chosen))
            outcomes["read"] += 1
        except OnnxLoadError as error:
            assert str(error).startswith("load_model(): ")
            outcomes["refused"] += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcomes["read"] > 0 and outcomes["refused"] > 100 and peak < MOST


# --- sizes ------------------------------
@pytest.mark.parametrize(
    "dims, says",
    [
        ((1 << 40,), "bytes"),
        ((1 << 31, 1 << 31, 1 << 31), "too large"),
        ((-1,), "negative"),
        ((-2, -1), "negative"),
        ((1,) * 65, "dimensions"),
        ((3,), "12 bytes"),
        ((0,), "0 bytes"),
    ],
)
def test_sizes_of_tensors(dims, says):
    refused(with_weight(weight(dims)), says, OnnxFormatError)


def test_sizes_beside_no_bytes_at_all():
    refused(
        with_weight(TensorProto(name="w", data_type=1, dims=[1 << 40])), "takes? .*numbers", OnnxFormatError
    )


def test_a_sparse_tensor_that_would_be_huge():
    values = TensorProto(name="w", data_type=1, dims=[1], float_data=[1.0])
    places = TensorProto(name="i", data_type=7, dims=[1], int64_data=[3])
    whole = onnx.ModelProto.FromString(model([helper.make_node("Add", ["x", "w"], ["y"])]))
    whole.graph.sparse_initializer.add(values=values, indices=places, dims=[1 << 20, 1 << 20])
    refused(whole.SerializeToString(), "too large")
    del whole.graph.sparse_initializer[0].dims[:]
    whole.graph.sparse_initializer[0].dims.extend([2])
    refused(whole.SerializeToString(), "no places", OnnxFormatError)


def test_sizes_that_nodes_ask_for_are_not_made_when_the_model_is_read():
    shape = TensorProto(name="w", data_type=7, dims=[2], int64_data=[1 << 30, 1 << 30])
    data = model([helper.make_node("ConstantOfShape", ["w"], ["y"])], initializers=[shape])
    tracemalloc.start()
    read = torch.onnx.load_model(data)
    assert tracemalloc.get_traced_memory()[1] < MOST
    tracemalloc.stop()
    with pytest.raises((RuntimeError, MemoryError)):
        read(torch.ones(1))


# --- graphs ------------------------------
def test_circles():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    refused(model(nodes, outputs=["b"]), "reads 'b', which nothing before it makes", OnnxFormatError)
    refused(model([helper.make_node("Neg", ["y"], ["y"])]), "reads 'y'", OnnxFormatError)


def test_names_that_are_made_twice():
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]
    refused(model(nodes), "'y' is made twice", OnnxFormatError)
    refused(model([helper.make_node("Neg", ["x"], ["x"])]), "'x' is made twice", OnnxFormatError)
    refused(model([helper.make_node("Neg", ["x"], ["y"])], inputs=["x", "x"]), "two inputs", OnnxFormatError)


def test_outputs_that_nothing_makes():
    refused(model([], outputs=["y"]), "nothing makes the output 'y'", OnnxFormatError)
    refused(model([helper.make_node("Neg", ["x"], ["y"])], outputs=[]), "no outputs", OnnxFormatError)


def own(name, nodes):
    return helper.make_function(
        "own", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    )


def test_functions_that_call_themselves():
    first = own("F", [helper.make_node("G", ["a"], ["b"], domain="own")])
    second = own("G", [helper.make_node("F", ["a"], ["b"], domain="own")])
    data = model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[first, second])
    refused(data, "the function F calls itself", OnnxFormatError)


def test_functions_that_multiply(monkeypatch):
    """Each calls the next twice: forty of them would be 2⁴⁰ nodes."""
    monkeypatch.setattr(_reading, "MOST_NODES", 1000)
    functions = [own("F0", [helper.make_node("Neg", ["a"], ["b"])])]
    for k in range(1, 41):
        calls = [
            helper.make_node(f"F{k - 1}", ["a"], ["c"], domain="own"),
            helper.make_node(f"F{k - 1}", ["c"], ["b"], domain="own"),
        ]
        functions.append(own(f"F{k}", calls))
    data = model([helper.make_node("F40", ["x"], ["y"], domain="own")], functions=functions)
    refused(data, "more than 1000 nodes")


def field(number, wire, payload):
    """A field of a message: its tag, and for wire type 2 the length of what follows."""
    return varint(number << 3 | wire) + (varint(len(payload)) if wire == 2 else b"") + payload


def varint(n):
    result = bytearray()
    while n > 0x7F:
        result.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*result, n])


def test_graphs_that_lie_deep_in_each_other():
    inner = b""
    for _ in range(2000):  # a graph in an attribute of a node of a graph
        inner = field(1, 2, field(5, 2, field(6, 2, inner)))
    refused(field(7, 2, inner), "deep in each other", OnnxFormatError)
    kind = b""
    for _ in range(3000):  # a sequence of sequences of …
        kind = field(4, 2, field(1, 2, kind))
    refused(field(7, 2, field(11, 2, field(2, 2, kind))), "deep in each other", OnnxFormatError)


@pytest.mark.parametrize(
    "data, says",
    [
        (b"\x08\x80", "ends within a number"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "more than 10 bytes"),
        (b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "bytes, and 0 are left"),
        (b"\x3a\x7fabc", "takes 127 bytes, and 3 are left"),
        (b"\x3b", "wire type 3"),
        (b"\x02\x00", "the number 0"),
        (b"\x38\x01", "wire type 0, not 2"),
        (field(7, 2, field(2, 2, b"\xff\xfe")), "UTF-8"),
        (field(7, 2, field(5, 2, field(4, 2, b"abc"))), "numbers of 4 bytes"),
        (b"", "no graph"),
        (b"PK\x03\x04" + b"\0" * 30, "the number|no graph|wire type"),
    ],
)
def test_bytes_that_are_no_messages(data, says):
    refused(data, says, OnnxFormatError)


# --- names, and code ------------------------------
NAMES = """
    __class__ forward _parameters training graph code 1.x self class flambeau torch getattr slice inf nan device None . π x/y x:0
""".split()
NAMES += ['"); import os; os._exit(1) #', "a b"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_never_code(name):
    other = TensorProto(name=f"{name}.w", data_type=1, dims=[2], float_data=[1.0, 2.0])
    held = TensorProto(name=name, data_type=1, dims=[2], float_data=[3.0, 4.0])
    nodes = [
        helper.make_node("Add", ["x", name], [f"{name}/out"], name=name),
        helper.make_node("Mul", [f"{name}/out", f"{name}.w"], ["y"]),
    ]
    read = torch.onnx.load_model(model(nodes, initializers=[held, other]))
    assert read(torch.ones(2)).tolist() == [4.0, 10.0]
    assert read.training is True and len(list(read.parameters())) == 2
    given = torch.onnx.load_model(model([helper.make_node("Neg", [name], ["y"])], inputs=[name]))
    assert given(torch.ones(1)).tolist() == [-1.0]


# --- attributes ------------------------------
def test_attributes():
    refused(
        model([helper.make_node("Softmax", ["x"], ["y"], axis=1.5)]),
        "must be of the kind int, and is float",
        OnnxFormatError,
    )
    refused(model([helper.make_node("Softmax", ["x"], ["y"], other=1)]), "the attribute 'other' is not known")
    refused(model([helper.make_node("Cast", ["x"], ["y"])]), "the attribute 'to' is missing", OnnxFormatError)
    refused(model([helper.make_node("Cast", ["x"], ["y"], to=8)]), "strings.* has no dtype")
    refused(model([helper.make_node("Cast", ["x"], ["y"], to=77)]), "unknown.* has no dtype")
    refused(
        model([helper.make_node("Softmax", ["x", "x"], ["y"])]), "takes 1 inputs, and has 2", OnnxFormatError
    )
    refused(model([helper.make_node("MatMul", ["x"], ["y"])]), "is missing", OnnxFormatError)
    refused(model([helper.make_node("Relu", ["x"], ["y", "z"])]), "gives one result", OnnxFormatError)


def test_operators_that_are_not_there():
    refused(model([helper.make_node("Nothing", ["x"], ["y"])]), "Nothing is no operator")
    refused(model([helper.make_node("StringConcat", ["x", "x"], ["y"])], opset=20), "no tensors of strings")
    refused(model([helper.make_node("F", ["x"], ["y"], domain="own")]), "own::F is no operator")
    refused(model([helper.make_node("F", ["x"], ["y"], domain="else")]), "which version", OnnxFormatError)
    refused(model([helper.make_node("Softmax", ["x"], ["y"])], opset=11), "opset 11 has another meaning")
    refused(model([helper.make_node("Relu", ["x"], ["y"])], opset=99), "opset 99 is not read")


# --- files beside the model ------------------------------
def beside(location, offset=None, length=None, dims=(2,)):
    """A model whose weight lies in another file."""
    tensor = TensorProto(name="w", data_type=1, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return with_weight(tensor)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.bin").write_bytes(np.ones(2, "f4").tobytes())
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "data.bin").write_bytes(np.arange(4, dtype="f4").tobytes())
    return inner


def read_from(folder, data):
    path = folder / "model.onnx"
    path.write_bytes(data)
    return torch.onnx.load_model(path)


def test_data_in_the_folder(folder):
    assert read_from(folder, beside("data.bin", 8, 8))(torch.zeros(2)).tolist() == [2.0, 3.0]
    (folder / "deep").mkdir()
    os.rename(folder / "data.bin", folder / "deep" / "data.bin")
    assert read_from(folder, beside("deep/data.bin"))(torch.zeros(2)).tolist() == [0.0, 1.0]


def test_data_outside_of_the_folder(folder):
    os.symlink(folder.parent / "secret.bin", folder / "link.bin")
    os.symlink(folder.parent, folder / "up")
    outside = str(folder.parent / "secret.bin")
    places = ["../secret.bin", outside, "link.bin", "up/secret.bin", "a/../../secret.bin"]
    places += ["..\\secret.bin", "C:secret.bin", "", "x\0y"]
    for location in places:
        with pytest.raises(OnnxLoadError, match="folder"):
            read_from(folder, beside(location))


def test_data_that_is_not_there(folder):
    os.mkfifo(folder / "pipe")
    for location in ("nothing.bin", "pipe", "."):
        with pytest.raises(OnnxLoadError, match="there is no file"):
            read_from(folder, beside(location))
    wrong = [
        (12, 8, "ends at byte 20"),
        (-4, 8, "no number"),
        ("0x8", 8, "no number"),
        (0, 4, "take 8 bytes"),
    ]
    for offset, length, says in [*wrong, ("9" * 40, 8, "no number")]:
        with pytest.raises(OnnxFormatError, match=says):
            read_from(folder, beside("data.bin", offset, length))
    with pytest.raises(OnnxFormatError, match="ends at byte"):
        read_from(folder, beside("data.bin", dims=(1 << 40,)))
    with pytest.raises(OnnxLoadError, match="give load_model the model's path"):
        torch.onnx.load_model(beside("data.bin"))
