"""Files of Lua Torch: made by hand and read, written and read by another reader, and damaged in every way."""

from __future__ import annotations

import copy
import io
import pickle
import random
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import torchfile

import flambeau as torch
from flambeau.legacy import nn
from flambeau.utils.serialization import (
    LuaFunction,
    T7Reader,
    T7ReaderException,
    T7Writer,
    Table,
    TorchObject,
    load_lua,
    save_lua,
)

sys.path.append(str(Path(__file__).parents[1] / "legacy"))
from lua_criterions import CRITERIONS  # noqa: E402
from lua_modules import MODULES  # noqa: E402

# ---------------------------------------------------------------- files by hand, as Lua's File.lua writes them


def i(*values):
    return struct.pack(f"<{len(values)}i", *values)


def q(*values):
    return struct.pack(f"<{len(values)}q", *values)


def number(x):
    return i(1) + struct.pack("<d", x)


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return i(len(s)) + s


def string(s):
    return i(2) + text(s)


def boolean(x):
    return i(5, int(x))


NIL = i(0)


def table(index, *pairs):
    return i(3, index, len(pairs)) + b"".join(k + v for k, v in pairs)


def array(index, *values):
    return table(index, *((number(k), v) for k, v in enumerate(values, 1)))


def thing(index, name, content, version="V 1"):
    return i(4, index) + (text(version) if version else b"") + text(name) + content


def storage(index, word, data):
    return thing(index, f"torch.{word}Storage", q(data.size) + data.tobytes())


def tensor(index, word, size, stride, offset, inside):
    return thing(index, f"torch.{word}Tensor", i(len(size)) + q(*size) + q(*stride) + q(offset) + inside)


def vector(index, *values):
    return tensor(
        index, "Double", (len(values),), (1,), 1, storage(index + 1, "Double", np.array(values, np.float64))
    )


def module(index, name, /, **attributes):
    pairs = [(string(k), v) for k, v in attributes.items()]
    return thing(index, f"nn.{name}", table(index + 1, *pairs))


def read(data, **options):
    return load_lua(io.BytesIO(data), **options)


def again(x, **options):
    file = io.BytesIO()
    save_lua(x, file, **options)
    options.pop("format", None)
    return read(file.getvalue(), **options)


def test_values():
    assert read(NIL) is None and read(number(2.5)) == 2.5 and read(string("wörd")) == "wörd"
    assert (
        read(string(b"\xff\0")) == b"\xff\0" and read(boolean(True)) is True and read(boolean(False)) is False
    )
    whole = read(number(3.0))
    assert whole == 3 and type(whole) is int
    assert type(T7Reader(io.BytesIO(number(3.0)), int_heuristic=False).read()) is float
    assert read(number(1e300)) == 1e300 and np.isnan(read(number(float("nan"))))


def test_tables():
    assert read(array(1, number(5), string("x"), NIL)) == [5, "x", None] and read(table(1)) == []
    mixed = read(table(1, (string("a"), number(1)), (number(1), boolean(True)), (boolean(False), NIL)))
    assert type(mixed) is Table and dict(mixed) == {"a": 1, 1: True, False: None}
    assert mixed.a == 1 and mixed.b is None and {mixed: 1}[mixed] == 1 and mixed != copy.copy(mixed)
    with_hole = read(table(1, (number(1), NIL), (number(3), NIL)))
    assert set(with_hole) == {1, 3}
    plain = T7Reader(io.BytesIO(array(1, number(5))), list_heuristic=False).read()
    assert dict(plain) == {1: 5}
    keyed = read(table(1, (array(2, number(5)), string("of a list"))))
    assert [dict(k) for k in keyed] == [{1: 5}]
    assert dict(pickle.loads(pickle.dumps(mixed))) == dict(mixed)


def test_what_is_one_object_is_one_object():
    inner = array(2, number(7))
    a, b = read(array(1, inner, i(3, 2)))
    assert a == [7] and a is b
    loop = read(array(1, i(3, 1), array(2, i(3, 1), i(3, 2))))
    assert loop[0] is loop and loop[1][0] is loop and loop[1][1] is loop[1]
    loop = read(table(1, (string("me"), i(3, 1)), (string("more"), array(2, i(3, 1)))))
    assert loop.me is loop and loop.more[0] is loop
    x = read(thing(1, "mine.Thing", table(2, (string("self"), i(4, 1)))), unknown_classes=True)
    assert x.self is x
    net = read(thing(1, "nn.Sequential", table(2, (string("modules"), array(3, i(4, 1))))))
    assert net.modules[0] is net
    up = read(array(1, module(2, "Identity", parents=i(3, 1))))
    assert up[0].parents is up


WORDS = {
    "Double": np.float64,
    "Float": np.float32,
    "Half": np.float16,
    "Long": np.int64,
    "Int": np.int32,
    "Short": np.int16,
    "Char": np.int8,
    "Byte": np.uint8,
}


@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("word", WORDS)
def test_tensors_and_storages(word, cuda):
    name = word if not cuda else "Cuda" + ("" if word == "Float" else word)
    data = np.arange(6).astype(WORDS[word])
    whole = tensor(1, name, (2, 3), (3, 1), 1, storage(2, name, data))
    turned = tensor(3, name, (2, 2), (1, 3), 2, i(4, 2))
    a, b, c = read(array(9, whole, turned, i(4, 2)))
    assert a.numpy().dtype == data.dtype and a.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert b.tolist() == [[1, 4], [2, 5]] and c.tolist() == data.tolist() and c.dtype == a.dtype
    a[0, 1] = 9
    assert b[0, 0] == 9 and c.tolist()[1] == 9
    assert read(tensor(1, name, (), (), 1, NIL)).shape == (0,)


def test_longs_of_four_bytes():
    data = np.array([1, -2, 3], np.int32)
    inside = thing(2, "torch.LongStorage", i(3) + data.tobytes())
    file = thing(1, "torch.LongTensor", i(1) + i(3) + i(1) + i(1) + inside)
    result = read(file, long_size=4)
    assert result.tolist() == [1, -2, 3] and result.dtype == torch.int64
    with pytest.raises(T7ReaderException):
        read(file)
    with pytest.raises(ValueError, match="long_size"):
        read(file, long_size=2)


ASCII = b"""3
1
4
2
1
a
1
0.10000000000000001
2
2
xs
4
2
3
V 1
18
torch.DoubleTensor
2
2 2
2 1
1
4
3
3
V 1
19
torch.DoubleStorage
4
1 -2.5 nan inf
2
1
s
4
4
3
V 1
17
torch.ByteStorage
3
\x0a1\x20
2
2
ok
5
1
"""


def test_files_in_ascii():
    result = read(ASCII)
    assert result.a == 0.1 and result.ok is True and result.s.tolist() == [10, 49, 32]
    np.testing.assert_array_equal(result.xs.numpy(), [[1, -2.5], [np.nan, np.inf]])
    value = {
        "a": [1.5, "x\ny", b"", True, None],
        "t": torch.tensor([[1.5, float("-inf")]]),
        "n": torch.arange(3),
    }
    value["b"], value["h"] = torch.tensor([7, 255], dtype=torch.uint8), torch.tensor([0.1]).half()
    result = again(value, format="ascii")
    assert result.a == [1.5, "x\ny", "", True] and result.t.tolist() == [[1.5, float("-inf")]]
    assert (
        result.n.tolist() == [0, 1, 2]
        and result.b.tolist() == [7, 255]
        and result.h.tolist() == value["h"].tolist()
    )
    for n in range(len(ASCII)):
        damaged(ASCII[:n])


def test_functions_are_kept_and_not_run():
    f = i(8, 1) + text(b"\x1bLua") + array(2, number(1))
    for kind in (6, 7, 8):
        result = read(i(kind) + f[4:])
        assert result == LuaFunction(4, b"\x1bLua", [1]) and not callable(result)
    assert again({"f": result, "g": result}).f == result


def test_classes_that_are_not_known():
    file = thing(1, "my.Net", table(2, (string("depth"), number(3))), "V 7")
    with pytest.raises(T7ReaderException, match=r"Lua class my\.Net.*unknown_classes=True"):
        read(file)
    result = read(file, unknown_classes=True)
    assert result.depth == 3 and result["depth"] == 3 and result.other is None
    assert (
        result.torch_typename() == "my.Net"
        and repr(result) == "TorchObject(my.Net)"
        and "depth" in dir(result)
    )
    file = io.BytesIO()
    save_lua(result, file)
    same = read(file.getvalue(), unknown_classes=True)
    assert same.depth == 3 and same._version == 7 and isinstance(copy.deepcopy(same), TorchObject)
    old = read(thing(1, "nn.Tanh", table(2), version=""))  # files of before versions
    assert isinstance(old, nn.Tanh)


def test_lists_and_dicts_of_tds():
    assert read(thing(1, "tds.Vec", q(2) + number(1) + string("b"))) == [1, "b"]
    assert dict(read(thing(1, "tds.Hash", q(1) + string("k") + number(2)))) == {"k": 2}
    with pytest.raises(T7ReaderException):
        read(thing(1, "tds.Vec", q(2**40)))


# ---------------------------------------------------------------- modules as Lua has them


def test_a_network_of_lua():
    weight = tensor(5, "Double", (2, 3), (3, 1), 1, storage(6, "Double", np.arange(6.0)))
    sizes = storage(30, "Long", np.array([-1, 2], np.int64))
    net = module(
        1,
        "Sequential",
        modules=array(
            3,
            module(10, "Linear", weight=weight, bias=vector(40, 1.0, 2.0)),
            module(12, "View", size=sizes, numElements=number(2)),
            module(14, "Select", dimension=number(2), index=number(-1)),
        ),
        train=boolean(False),
    )
    result = read(net)
    assert result.get(0).forward(torch.ones(1, 3).double()).tolist() == [[4, 14]]
    assert result.forward(torch.ones(1, 3).double()).tolist() == [14] and result.train is False
    assert (
        result.get(2).dimension == 1
        and result.get(2).index == -1
        and result.get(1).size == torch.Size([-1, 2])
    )
    assert result.get(0).gradWeight is None and result.type().endswith("FloatTensor")


def test_settings_that_lua_counts_or_calls_otherwise():
    t = read(module(1, "Transpose", permutations=array(3, array(4, number(1), number(2)))))
    assert t.forward(torch.ones(2, 3)).shape == (3, 2)
    assert read(module(1, "Threshold", threshold=number(0), val=number(7))).value == 7
    assert read(module(1, "SoftShrink", **{"lambda": number(2)})).lambd == 2
    assert read(module(1, "Unsqueeze", pos=number(2))).dim == 1
    assert read(module(1, "LookupTable", paddingValue=number(0))).paddingValue == -1
    pool = read(module(1, "SpatialAdaptiveMaxPooling", W=number(2), H=number(1)))
    assert pool.forward(torch.rand(1, 4, 4)).shape == (1, 1, 2)
    assert read(module(1, "JoinTable", dimension=number(1), nInputDims=number(1))).forward(
        [torch.ones(2, 3), torch.ones(2, 1)]
    ).shape == (2, 4)
    old = read(
        module(
            1, "BatchNormalization", running_mean=vector(3, 0.0), running_std=vector(5, 0.5), eps=number(0)
        )
    )
    assert old.running_var.tolist() == [4.0]
    matrix = tensor(3, "Double", (2, 12), (12, 1), 1, storage(4, "Double", np.arange(24.0)))
    sides = {
        n: number(v)
        for n, v in {"kW": 2, "kH": 2, "dW": 1, "dH": 1, "nInputPlane": 3, "nOutputPlane": 2}.items()
    }
    convolution = read(module(1, "SpatialConvolution", weight=matrix, **sides))
    assert convolution.weight.shape == (2, 3, 2, 2) and convolution.forward(
        torch.ones(3, 4, 4).double()
    ).shape == (2, 3, 3)
    rows = tensor(5, "Double", (4, 3), (3, 1), 1, storage(6, "Double", np.arange(12.0)))
    small = module(
        20, "Sequential", modules=array(22, module(23, "ParallelTable", modules=array(
            25, module(26, "Identity"), module(28, "LookupTable", weight=rows, gradWeight=i(4, 5), paddingValue=number(0)))))
    )  # fmt: skip
    partial = read(
        module(
            1, "PartialLinear", network=small, partition=vector(40, 1, 3), allcolumns=vector(42, 1, 2, 3, 4)
        )
    )
    assert partial.forward(torch.ones(1, 3).double()).tolist() == [[3, 21]]
    nll = module(10, "ClassNLLCriterion", weights=vector(50, 1.0, 3.0), sizeAverage=boolean(False))
    c = read(module(1, "CrossEntropyCriterion", lsm=module(60, "LogSoftMax"), nll=nll))
    assert c.forward(torch.zeros(1, 2).double(), torch.tensor([1])) == pytest.approx(3 * np.log(2))


def test_settings_that_old_files_lack():
    """Lua takes what is missing for what was so before there was the setting."""
    x = torch.ones(1, 2, 2)
    sides = {n: number(v) for n, v in {"kW": 2, "kH": 2, "dW": 1, "dH": 1, "padW": 0, "padH": 0}.items()}
    assert read(module(1, "SpatialAveragePooling", **sides)).forward(x).item() == 4
    assert again(nn.SpatialAveragePooling(2, 2)).forward(x).item() == 1
    old = read(module(1, "Dropout", p=number(0.25), train=boolean(False)))
    assert old.forward(torch.ones(2)).tolist() == [0.75, 0.75]
    old.training()
    assert set(old.forward(torch.ones(100)).tolist()) == {0.0, 1.0}
    size = storage(9, "Long", np.array([4], np.int64))
    either = read(module(1, "Reshape", size=size, nelement=number(4)))
    assert either.forward(torch.ones(2, 2)).shape == (4,) and either.forward(torch.ones(3, 4)).shape == (3, 4)
    assert either.forward(torch.ones(1, 4)).shape == (1, 4)
    assert again(nn.Reshape(4)).forward(torch.ones(4, 1, 4)).shape == (4, 4)


LUA_NEEDS = [  # what Lua's modules find there when they are used for the first time
    (nn.Dropout(), {"v2": True, "noise": np.ndarray}),
    (nn.RReLU(), {"noise": np.ndarray}),
    (nn.SpatialAveragePooling(2, 2), {"divide": True, "count_include_pad": True, "ceil_mode": False}),
    (nn.Reshape(4), {"batchMode": True, "batchsize": np.ndarray, "nelement": 4}),
    (nn.ConcatTable(), {"output": [], "modules": []}),
    (nn.ParallelTable(), {"output": [], "gradInput": []}),
    (nn.JoinTable(0), {"gradInput": [], "output": np.ndarray}),
    (nn.Linear(1, 1), {"gradInput": np.ndarray, "output": np.ndarray}),
    (nn.BatchNormalization(1), {"running_mean": np.ndarray, "running_var": np.ndarray, "affine": True}),
]


@pytest.mark.parametrize(("module_", "needs"), LUA_NEEDS, ids=lambda x: repr(x)[:20])
def test_what_lua_needs_is_written(module_, needs, tmp_path):
    result = theirs(module_, tmp_path)
    for name, value in needs.items():
        assert isinstance(result[name], value) if isinstance(value, type) else result[name] == value, name


def moved(case):
    torch.manual_seed(0)
    return case.make().double()


@pytest.mark.parametrize("case", MODULES, ids=repr)
def test_modules_come_back(case):
    one = moved(case)
    torch.manual_seed(1)
    expected = one.forward(case.input)
    one.backward(case.input, expected)
    two = again(one)
    assert type(two) is type(one) and repr(two) == repr(one) and two.type() == one.type()
    torch.manual_seed(1)
    actual = two.forward(case.input)
    flat = lambda y: [x for part in y for x in flat(part)] if isinstance(y, list) else [y]
    assert [x.tolist() for x in flat(actual)] == [x.tolist() for x in flat(expected)]
    for a, b in zip(*(m.parameters() or ([], []) for m in (one, two))):
        assert [x.tolist() for x in a] == [x.tolist() for x in b]


@pytest.mark.parametrize(("make", "x", "y", "loss"), CRITERIONS)
def test_criterions_come_back(make, x, y, loss):
    one = make().double()
    assert again(one).forward(x, y) == one.forward(x, y)


def test_shared_parameters_come_back_shared():
    one = nn.Linear(3, 3)
    net = nn.Sequential().add(one).add(one).add(one.clone("weight"))
    result = again(net)
    assert result.get(0) is result.get(1) and result.get(0).weight is not result.get(2).weight
    result.get(0).weight.fill_(5)
    assert (result.get(2).weight == 5).all() and result.get(0).bias.data_ptr() != result.get(
        2
    ).bias.data_ptr()


def test_a_module_writes_and_reads_itself():
    one, file = nn.Linear(2, 3), io.BytesIO()
    one.write(T7Writer(file))
    two = nn.Linear(1, 1)
    two.read(T7Reader(io.BytesIO(file.getvalue())))
    assert two.weight.tolist() == one.weight.tolist()


# ---------------------------------------------------------------- the other reader


def theirs(x, tmp_path, **options):
    save_lua(x, tmp_path / "x.t7", **options)
    return torchfile.load(tmp_path / "x.t7")


def test_torchfile_reads_values(tmp_path):
    both = [1, 2]
    result = theirs({"a": both, "b": both, "n": 1.5, "yes": True, "deep": [[["x"]]], "by": b"\xff"}, tmp_path)
    assert (
        result[b"a"] == [1, 2]
        and result[b"a"] is result[b"b"]
        and result[b"n"] == 1.5
        and result[b"yes"] is True
    )
    assert result[b"deep"] == [[[b"x"]]] and result[b"by"] == b"\xff"
    assert theirs([], tmp_path) == [] and theirs({}, tmp_path) == [] and theirs(None, tmp_path) is None
    assert theirs((1, (2,)), tmp_path) == [1, [2]]
    assert theirs(LuaFunction(3, b"abc", None), tmp_path).dumped == b"abc"


@pytest.mark.parametrize("word", [w for w in WORDS if w != "Half"])  # which it does not read
def test_torchfile_reads_tensors(word, tmp_path):
    x = torch.tensor(np.arange(24).reshape(2, 3, 4).astype(WORDS[word]))
    given = [x, x.transpose(0, 2)[1:, ::2], x[1, 2], x[1, 2, 3], x[:0]]
    result = theirs({str(n): x for n, x in enumerate(given)}, tmp_path)
    result = [result[str(n).encode()] for n in range(5)]
    for a, b in zip(result[:3], given):
        assert a.dtype == WORDS[word] and a.tolist() == b.tolist()
    assert result[3].tolist() == [23] and result[4].size == 0
    assert np.shares_memory(result[0], result[1]) and not np.shares_memory(result[0], result[4])
    assert theirs(x.untyped_storage(), tmp_path).tolist() == list(x.numpy().tobytes())
    assert theirs(torch.tensor([True, False]), tmp_path).tolist() == [1, 0]


COUNTED = [
    (nn.JoinTable(1), {"dimension": 2}),
    (nn.JoinTable(-1), {"dimension": -1}),
    (nn.Narrow(0, 2, 3), {"dimension": 1, "index": 3, "length": 3}),
    (nn.Unsqueeze(0), {"pos": 1}),
    (nn.Threshold(1, 2), {"threshold": 1, "val": 2}),
    (nn.HardShrink(2), {"lambda": 2}),
    (nn.Concat(1), {"dimension": 2, "modules": []}),
    (nn.Transpose((0, 1)), {"permutations": [[1, 2]]}),
    (nn.LookupTable(2, 2, 0), {"paddingValue": 1}),
    (nn.Max(), {"dimension": 1}),
]


@pytest.mark.parametrize(("module_", "attributes"), COUNTED, ids=lambda x: repr(x)[:20])
def test_torchfile_reads_modules(module_, attributes, tmp_path):
    result = theirs(module_, tmp_path)
    assert (
        result.torch_typename() == f"nn.{type(module_).__name__}".encode()
        and result._type == b"torch.FloatTensor"
    )
    for name, value in attributes.items():
        assert result[name] == value
    assert not any(key.startswith(b"_rec") for key in result._obj)


def test_torchfile_reads_networks(tmp_path):
    net = nn.Sequential().add(nn.Linear(3, 2)).add(nn.View(2, -1)).double()
    net.forward(torch.ones(4, 3).double())
    result = theirs({"model": net, "criterion": nn.CrossEntropyCriterion(torch.ones(2))}, tmp_path)
    first, second = result[b"model"].modules
    assert first.weight.tolist() == net.get(0).weight.tolist() and second.size.tolist() == [2, -1]
    assert result[b"criterion"].nll.weights.tolist() == [1, 1]
    assert theirs(nn.BatchNormalization(2), tmp_path)._version_number == 2


# ---------------------------------------------------------------- what cannot be written


@pytest.mark.parametrize(
    ("x", "error", "match"),
    [
        (len, TypeError, "like a function"),
        ({"f": lambda: 0}, TypeError, "like a function"),
        (object(), TypeError, "class object"),
        ([{1}], TypeError, "class set"),
        (1j, TypeError, "class complex"),
        (2**53 + 1, ValueError, "no number of Lua"),
        ({None: 1}, ValueError, "no key"),
        ({float("nan"): 1}, ValueError, "no key"),
        (torch.ones(1, dtype=torch.complex64), TypeError, "complex64"),
        (torch.ones(1, dtype=torch.bfloat16), TypeError, "bfloat16"),
        (torch.ones(1, device="meta"), TypeError, "meta"),
        (torch.eye(2).to_sparse(), TypeError, "sparse"),
    ],
)
def test_what_lua_has_not_is_refused(x, error, match, tmp_path):
    path = tmp_path / "x.t7"
    path.write_bytes(b"what was there")
    with pytest.raises(error, match=match):
        save_lua(x, path)
    assert path.read_bytes() == b"what was there" and len(list(tmp_path.iterdir())) == 1


def test_numbers_that_do_not_fit_four_bytes():
    assert again(torch.tensor([1, -5]), long_size=4).tolist() == [1, -5]
    with pytest.raises(ValueError, match="4 bytes"):
        again(torch.tensor([2**40]), long_size=4)
    for options in ({"long_size": 3}, {"format": "json"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            save_lua(1, io.BytesIO(), **options)


def test_depth_costs_no_stack():
    deep: list = []
    for _ in range(8_000):
        deep = [deep]
    result = again(deep)
    for _ in range(8_000):
        (result,) = result
    assert result == []
    with pytest.raises(T7ReaderException, match="inside of each other"):
        read(b"".join(i(3, n, 1) + number(1) for n in range(20_001)) + NIL)


# ---------------------------------------------------------------- damage


def damaged(data, **options):
    """An error of the reader's class, or some value; returns which."""
    try:
        read(data, **options)
    except T7ReaderException as error:
        assert len(str(error)) < 1000
        return "error"
    return "value"


def sample():
    file = io.BytesIO()
    net = (
        nn.Sequential()
        .add(nn.Linear(2, 2))
        .add(nn.View(-1, 2))
        .add(nn.Concat(1).add(nn.SelectTable(0)).add(nn.Transpose((0, 1))))
        .add(nn.BatchNormalization(2))
        .add(nn.SpatialConvolutionMap(nn.SpatialConvolutionMap.maps.oneToOne(1), 1, 1))
        .add(nn.PartialLinear(1, 2))
    )
    save_lua(
        {
            "net": net,
            "c": nn.CrossEntropyCriterion(),
            "list": [1, "x", True, net],
            "f": LuaFunction(1, b"x", [2]),
        },
        file,
    )
    return file.getvalue()


def test_every_truncation_is_an_error():
    data = sample()
    assert damaged(data) == "value"
    results = {damaged(data[:n]) for n in range(0, len(data), 23)}
    assert results == {"error"}


def test_every_byte_may_be_another():
    data = sample()
    drawn = random.Random(5)
    results = []
    for at in range(0, len(data), 13):
        changed = bytearray(data)
        changed[at] = drawn.choice([0, 1, 2, 3, 4, 8, 0x7F, 0x80, 0xFF, data[at] ^ (1 << drawn.randrange(8))])
        results.append(damaged(bytes(changed), unknown_classes=at % 2 == 0))
    assert results.count("error") > len(results) // 10 and results.count("value") > len(results) // 10


def test_noise():
    drawn = random.Random(7)
    for _ in range(2000):
        damaged(bytes(drawn.choice((0, 0, 0, 1, 2, 3, 4, 5, 8, 0xFF)) for _ in range(drawn.randrange(120))))
        damaged(bytes(drawn.choice(b"0123458-. \nVx") for _ in range(drawn.randrange(120))))


HUGE = [
    string("")[:4] + i(2**31 - 1),
    string("")[:4] + i(-1),
    i(3, 1, 2**31 - 1),
    i(3, 1, -1),
    i(8, 1, 2**31 - 1),
    thing(1, "torch.ByteStorage", q(2**62)),
    thing(1, "torch.DoubleStorage", q(2**61)),
    thing(1, "torch.DoubleStorage", q(-1)),
    thing(1, "torch.FloatTensor", i(2**31 - 1)),
    thing(1, "torch.FloatTensor", i(-1)),
    thing(1, "tds.Hash", q(2**62)),
    tensor(1, "Double", (2,), (1,), 2, storage(2, "Double", np.zeros(2))),
    tensor(1, "Double", (2,), (-1,), 2, storage(2, "Double", np.zeros(2))),
    tensor(1, "Double", (-2,), (1,), 1, storage(2, "Double", np.zeros(2))),
    tensor(1, "Double", (2**40, 2**40), (0, 0), 1, storage(2, "Double", np.zeros(2))),
    tensor(1, "Double", (2,), (2**62,), 1, storage(2, "Double", np.zeros(2))),
    tensor(1, "Double", (2,), (1,), 0, storage(2, "Double", np.zeros(2))),
    tensor(1, "Double", (2,), (1,), 1, storage(2, "Float", np.zeros(4, np.float32))),
    tensor(1, "Double", (2,), (1,), 1, string("no storage")),
    tensor(1, "Double", (2,), (1,), 1, i(4, 1)),
    thing(1, "nn.Linear", number(1)),
    thing(1, "nn.Linear", table(2, (number(5), NIL))),
    thing(1, "nn.View", table(2)),
    thing(1, "nn.Concat", table(2, (string("modules"), number(3)))),
    thing(1, "nn.PartialLinear", table(2, (string("network"), number(3)))),
    thing(1, "nn.Tanh", table(2), "V 99999999999999999999"),
    thing(1, "nn.Tanh", table(2), "V x"),
    thing(1, b"\xff\xfe", table(2)),
    table(1, (NIL, number(1))),
    table(1, (i(3, 1), number(1))),
    b"",
    b"9\n",
    b"4\n1\n3\nV 1\n17\ntorch.ByteStorage\n99999999\n",
    b"4\n1\n3\nV 1\n17\ntorch.LongStorage\n1\n1" + b"0" * 300,
    # tensors of a module that are larger than their memory, and are computed with
    module(
        1,
        "PartialLinear",
        partition=tensor(3, "Long", (2**40,), (0,), 1, storage(4, "Long", np.zeros(1, np.int64))),
    ),
    module(
        1,
        "BatchNormalization",
        running_std=tensor(3, "Double", (2**40,), (0,), 1, storage(4, "Double", np.zeros(1))),
    ),
]


@pytest.mark.parametrize("data", HUGE, ids=range(len(HUGE)))
def test_claims_are_checked_before_anything_is_made(data):
    assert damaged(data) == "error"


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "torch.load",
        "nn.utils",
        "nn.__class__",
        "nn.Module",
        "builtins.eval",
        "nn.maps",
        "torch.FloatTensor\0",
    ],
)
def test_names_lead_nowhere_else(name):
    file = thing(1, name, table(2, (string("__class__"), string("x")), (string("forward"), number(1))))
    if name == "nn.Module":
        assert type(read(file)) is nn.Module
    else:
        assert damaged(file) == "error" and type(read(file, unknown_classes=True)) is TorchObject


def test_attributes_of_any_name_are_data():
    names = ("__class__", "__dict__", "__getstate__", "compute", "_recording", "type", "updateOutput")
    result = read(module(1, "Tanh", **{name: string("x") for name in names}))
    assert type(result) is nn.Tanh and vars(result)["updateOutput"] == "x"


def test_files_that_are_paths_or_streams(tmp_path):
    class Pipe:
        def __init__(self, data):
            self.read = io.BytesIO(data).read

    assert load_lua(Pipe(number(3))) == 3
    save_lua([1], tmp_path / "x.t7")
    assert load_lua(tmp_path / "x.t7") == load_lua(str(tmp_path / "x.t7")) == [1]
    with pytest.raises(FileNotFoundError):
        load_lua(tmp_path / "none.t7")
    two = io.BytesIO(number(1) + string("next"))
    reader = T7Reader(two)
    assert reader.read() == 1 and reader.readObject() == "next"
