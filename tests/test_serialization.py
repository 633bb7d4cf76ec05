"""Files of tensors and plain objects: what goes in comes out, and damaged or hostile files are refused."""

import io
import json
import math
import os
import random
import struct
import zipfile
from collections import Counter, OrderedDict

import pytest

import flambeau


def through(obj):
    file = io.BytesIO()
    flambeau.save(obj, file)
    file.seek(0)
    return flambeau.load(file)


def nested(depth):
    obj = []
    for _ in range(depth - 1):
        obj = [obj]
    return obj


@pytest.mark.parametrize(
    "obj",
    [
        *(None, True, False, 0, -5, 2**63 - 1, 2**63, -(2**63), 10**5000, 0.1, -0.0, 1e-320, float("inf")),
        *(
            -float("inf"),
            3 - 4j,
            "",
            "é \0 \ud800",
            b"",
            b"\x00\xff",
            [],
            [1, [2, [3]]],
            (),
            (1, "a", (None,)),
        ),
        *({}, {"a": 1, 2: "b", 2.5: None, None: 1, (1, (b"x",)): 2}, {1, "a", None}, frozenset([1, (2, 3)])),
        *(range(3, 10**20, 7), Counter("abca"), {"dict": [["a", 1]]}, {"tensor": 0}, nested(100)),
    ],
    ids=lambda obj: f"{type(obj).__name__}",
)
def test_plain_objects(obj):
    result = through(obj)
    assert result == obj
    assert type(result) is type(obj)
    if isinstance(obj, dict):
        assert list(result.items()) == list(obj.items())
    if isinstance(obj, float):
        assert struct.pack("<d", result) == struct.pack("<d", obj)


def test_types_that_equality_does_not_tell_apart():
    result = through(
        [1, 1.0, True, flambeau.Size([2, 3]), slice(None, -1, 2), math.nan, complex(math.nan, -0.0)]
    )
    assert [type(x) for x in result] == [int, float, bool, flambeau.Size, slice, float, complex]
    assert result[3] == flambeau.Size([2, 3]) and result[4] == slice(None, -1, 2)
    assert math.isnan(result[5]) and math.isnan(result[6].real) and math.copysign(1, result[6].imag) == -1
    ordered = through(OrderedDict([("b", 1), ("a", 2)]))
    assert type(ordered) is OrderedDict and list(ordered) == ["b", "a"]
    assert through(flambeau.float16) == flambeau.float16
    assert through(flambeau.device("cpu")) == flambeau.device("cpu")


@pytest.mark.parametrize("name", "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split())
def test_dtypes(name):
    t = flambeau.tensor([[0, 1, 1], [1, 0, 5]]).to(getattr(flambeau, name))
    result = through(t)
    assert result.dtype == t.dtype
    assert result.tolist() == t.tolist()


def test_layout_is_kept():
    x = flambeau.arange(24.0).reshape(4, 6)
    for t in (
        x.t(),
        x[1:3, ::2],
        x[2],
        x[3, 4],
        flambeau.empty(0, 3),
        x[:0],
        flambeau.ones(1).expand(50, 60),
    ):
        result = through(t)
        assert result.shape == t.shape
        assert result.stride() == t.stride()
        assert result.storage_offset() == t.storage_offset()
        assert result.tolist() == t.tolist()


def test_shared_memory_is_shared_again():
    x = flambeau.zeros(2, 3)
    result = through({"x": x, "row": x[1], "same": x, "other": flambeau.zeros(2, 3)})
    result["x"][1, 2] = 7
    assert result["row"].tolist() == [0, 0, 7]
    assert result["same"] is result["x"]
    assert result["other"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_parameters_and_gradients():
    weight = flambeau.nn.Parameter(flambeau.ones(3))
    frozen = flambeau.nn.Parameter(flambeau.ones(3), requires_grad=False)
    leaf = flambeau.ones(2, requires_grad=True)
    a, b, c, d = through([weight, frozen, leaf, leaf * 2])
    assert type(a) is flambeau.nn.Parameter and a.requires_grad
    assert type(b) is flambeau.nn.Parameter and not b.requires_grad
    assert type(c) is flambeau.Tensor and c.requires_grad and c.is_leaf
    assert d.is_leaf and d.requires_grad and d.tolist() == [2, 2]


def test_a_model_and_its_optimizer():
    state = OrderedDict(weight=flambeau.ones(2, 2), bias=flambeau.zeros(2))
    state._metadata = OrderedDict([("", {"version": 1})])
    result = through({"model": state, "epoch": 3})["model"]
    assert list(result) == ["weight", "bias"]
    assert result._metadata == state._metadata


class Opaque:
    pass


@pytest.mark.parametrize(
    "obj, place",
    [
        ({"model": [1, Opaque()]}, r"obj\['model'\]\[1\] is of type Opaque"),
        ({"f": len}, r"obj\['f'\]"),
        ({Opaque(): 1}, "a key of obj is of type Opaque"),
        ([OrderedDict(a=Opaque())], r"obj\[0\]\['a'\]"),
        (slice(0, "b"), r"obj\.stop"),
        ([flambeau.nn.Identity()], r"obj\[0\] is of type Identity.*state_dict"),
    ],
)
def test_other_objects_are_refused_by_name(obj, place):
    file = io.BytesIO()
    with pytest.raises(TypeError, match=place):
        flambeau.save(obj, file)
    assert file.getvalue() == b""


def test_cycles_and_depth_are_refused():
    cycle = {}
    cycle["a"] = [cycle]
    with pytest.raises(ValueError, match=r"obj\['a'\]\[0\] contains itself"):
        flambeau.save(cycle, io.BytesIO())
    with pytest.raises(ValueError, match="nested more than 100"):
        flambeau.save(nested(101), io.BytesIO())
    twice = [1]
    assert through([twice, twice]) == [[1], [1]]


# --- files ------------------------------


def test_paths(tmp_path):
    path = tmp_path / "a.fl"
    flambeau.save(flambeau.ones(3), path)
    assert flambeau.load(str(path)).tolist() == [1, 1, 1]
    flambeau.save([2], str(path))
    assert flambeau.load(path) == [2]
    with open(path, "rb") as file:
        assert flambeau.load(file) == [2]
    with pytest.raises(FileNotFoundError):
        flambeau.load(tmp_path / "b.fl")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.fl"
    flambeau.save([1], path)
    with pytest.raises(TypeError):
        flambeau.save(Opaque(), path)

    def full(self, *args, **kwargs):
        raise OSError("no space")

    monkeypatch.setattr(zipfile.ZipFile, "open", full)
    with pytest.raises(OSError, match="no space"):
        flambeau.save([2], path)
    monkeypatch.undo()
    assert flambeau.load(path) == [1]
    assert os.listdir(tmp_path) == ["a.fl"]


def test_data_is_aligned_and_stored(tmp_path):
    path = tmp_path / "a.fl"
    flambeau.save([flambeau.full((n,), n, dtype=flambeau.uint8) for n in (1, 63, 64, 100)], path)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        for n, info in zip((1, 63, 64, 100), archive.infolist()[1:], strict=True):
            name, extra = struct.unpack("<HH", content[info.header_offset + 26 : info.header_offset + 30])
            start = info.header_offset + 30 + name + extra
            assert start % 64 == 0
            assert content[start : start + n] == bytes([n]) * n
        assert archive.testzip() is None


def test_the_same_object_gives_the_same_bytes():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        flambeau.save({"a": flambeau.arange(5), "b": [1.5]}, file)
    assert files[0].getvalue() == files[1].getvalue()


def test_mmap(tmp_path):
    path = tmp_path / "a.fl"
    flambeau.save({"x": flambeau.arange(1000), "e": flambeau.empty(0)}, path)
    before = path.read_bytes()
    result = flambeau.load(path, mmap=True)
    assert result["x"].tolist() == list(range(1000))
    assert result["e"].shape == (0,)
    result["x"][0] = 5
    assert result["x"][0].item() == 5
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="mmap"):
        flambeau.load(io.BytesIO(before), mmap=True)


def test_map_location():
    file = io.BytesIO()
    flambeau.save(flambeau.ones(2), file)
    calls = []
    for location in (
        "cpu",
        flambeau.device("cpu"),
        {"cuda:0": "cpu"},
        lambda s, d: s,
        lambda s, d: calls.append(d),
    ):
        file.seek(0)
        assert flambeau.load(file, map_location=location).tolist() == [1, 1]
    assert calls == ["cpu"]
    with pytest.raises(TypeError, match="map_location"):
        flambeau.load(file, map_location=3)


# --- damaged and hostile files ------------------------------


def forged(structure, entries=(), compression=zipfile.ZIP_STORED):
    """A well-formed archive of any structure and entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("structure.json", structure if isinstance(structure, str) else json.dumps(structure))
        for name, data in entries:
            archive.writestr(name, data)
    file.seek(0)
    return file


def document(obj=None, tensors=(), storages=()):
    return {
        "format": "flambeau",
        "version": 1,
        "storages": list(storages),
        "tensors": list(tensors),
        "object": obj,
    }


def spec(**changes):
    return {
        "storage": 0,
        "dtype": "float32",
        "offset": 0,
        "size": [4],
        "stride": [1],
        "device": "cpu",
        "requires_grad": False,
        "parameter": False,
    } | changes


DATA = [("storage/0", bytes(16))]


def test_the_forgery_itself_is_sound():
    file = forged(document({"tensor": 0}, [spec()], [16]), DATA)
    assert flambeau.load(file).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "change",
    [
        dict(size=[5]),
        dict(offset=1),
        dict(offset=-1),
        dict(offset=2**70),
        dict(offset=1.0),
        dict(size=[2**62]),
        dict(size=[-1]),
        dict(size=[2, 2]),
        dict(stride=[2]),
        dict(stride=[-1]),
        dict(stride=[2**62]),
        dict(size=[2**40, 2**40], stride=[0, 0]),
        dict(size=[0, 2**62, 2**62], stride=[1, 1, 1]),
        dict(size=[1] * 65, stride=[0] * 65),
        dict(size=[True]),
        dict(size=4),
        dict(size=[0], offset=5),
        dict(storage=1),
        dict(storage=-1),
        dict(storage=False),
        dict(dtype="float64"),
        dict(dtype="Tensor"),
        dict(dtype="__class__"),
        dict(dtype=["float32"]),
        dict(device="nowhere"),
        dict(device=0),
        dict(requires_grad=1),
        dict(requires_grad=True, dtype="int32"),
        dict(parameter="yes"),
    ],
    ids=str,
)
def test_tensors_outside_their_storage_are_refused(change):
    with pytest.raises(RuntimeError, match="flambeau.load: "):
        flambeau.load(forged(document({"tensor": 0}, [spec(**change)], [16]), DATA))


@pytest.mark.parametrize("missing", sorted(spec()))
def test_incomplete_tensors_are_refused(missing):
    damaged = spec()
    del damaged[missing]
    with pytest.raises(RuntimeError, match=missing):
        flambeau.load(forged(document({"tensor": 0}, [damaged], [16]), DATA))


@pytest.mark.parametrize(
    "node",
    [
        {"tensor": 1},
        {"tensor": -1},
        {"tensor": "0"},
        {"tensor": True},
        {"unknown": []},
        {"__class__": []},
        {},
        {"tuple": [], "list": []},
        {"tuple": 3},
        {"dict": [1]},
        {"dict": [[1]]},
        {"dict": [[[], 1]]},
        {"dict": {"a": 1}},
        {"set": [[1]]},
        {"set": [{"dict": []}]},
        {"dict": [], "metadata": None},
        {"int": 5},
        {"int": "xyz"},
        {"float": "00"},
        {"float": None},
        {"complex": "00" * 8},
        {"bytes": "*"},
        {"dtype": "save"},
        {"device": "nowhere"},
        {"range": [0, 1]},
        {"range": [0, 1, 0]},
        {"range": ["a", 1, 1]},
        {"slice": [0, [], None]},
        {"Size": ["a"]},
        {"Size": [-1]},
    ],
    ids=str,
)
def test_wrong_values_are_refused(node):
    with pytest.raises(RuntimeError, match="flambeau.load: "):
        flambeau.load(forged(document([node], [spec()], [16]), DATA))


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "{", '{"format": "flambeau"}', "NaN", "\udc80"])
def test_wrong_documents_are_refused(text):
    with pytest.raises(RuntimeError, match="flambeau.load: "):
        flambeau.load(forged(text.encode("utf-8", "surrogateescape").decode("latin-1")))


def test_numbers_that_are_none_are_refused():
    for number in ("NaN", "Infinity", "9" * 5000):
        text = json.dumps(document("here")).replace('"here"', number)
        with pytest.raises(RuntimeError, match="flambeau.load: "):
            flambeau.load(forged(text))


def test_other_versions_are_refused():
    with pytest.raises(RuntimeError, match="version 2"):
        flambeau.load(forged(document() | {"version": 2}))


@pytest.mark.parametrize("depth", [150, 900, 100_000])
def test_deep_nesting_is_refused(depth):
    text = json.dumps(document("here")).replace('"here"', '{"tuple":[' * depth + "]}" * depth)
    with pytest.raises(RuntimeError, match="flambeau.load: "):
        flambeau.load(forged(text))


def test_storages_must_be_there_and_of_their_size():
    for entries, sizes in [
        ([], [16]),
        (DATA, [15]),
        (DATA, [2**60]),
        (DATA, ["16"]),
        (DATA, [-16]),
        (DATA, [16, 16]),
    ]:
        with pytest.raises(RuntimeError, match="flambeau.load: "):
            flambeau.load(forged(document({"tensor": 0}, [spec()], sizes), entries))


def test_compressed_entries_are_refused():
    bomb = [("storage/0", bytes(10**7))]
    file = forged(document({"tensor": 0}, [spec()], [10**7]), bomb, zipfile.ZIP_DEFLATED)
    assert len(file.getvalue()) < 20_000
    with pytest.raises(RuntimeError, match="compressed"):
        flambeau.load(file)


def test_entries_that_overlap_are_refused():
    """Many names for the same bytes: an archive that would grow by reading."""
    content = forged(
        document([], [], [5000] * 2), [("storage/0", bytes(5000)), ("storage/1", b"")]
    ).getvalue()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        first = archive.getinfo("storage/0").header_offset
    entry = content.rindex(b"PK\x01\x02")
    forged_entry = bytearray(content[entry:])
    forged_entry[16:28] = struct.pack("<LLL", zipfile.crc32(bytes(5000)), 5000, 5000)
    forged_entry[42:46] = struct.pack("<L", first)
    with pytest.raises(RuntimeError, match="larger than the file"):
        flambeau.load(io.BytesIO(content[:entry] + bytes(forged_entry)))


def test_two_entries_of_one_name_are_refused():
    with pytest.warns(UserWarning, match="Duplicate"):
        file = forged(document({"tensor": 0}, [spec()], [16]), DATA * 2)
    with pytest.raises(RuntimeError, match="same name"):
        flambeau.load(file)


def test_other_files_are_refused(tmp_path):
    pickled = io.BytesIO()
    with zipfile.ZipFile(pickled, "w") as archive:
        archive.writestr("archive/data.pkl", b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(RuntimeError, match="pickled Python code"):
        flambeau.load(pickled)
    for content in (b"", b"hello", b"PK\x05\x06" + bytes(18), bytes(1000)):
        with pytest.raises(RuntimeError, match="flambeau.load: "):
            flambeau.load(io.BytesIO(content))
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(RuntimeError, match="flambeau.load: "):
        flambeau.load(path, mmap=True)


def test_every_flipped_bit_of_the_data_is_noticed():
    file = io.BytesIO()
    flambeau.save(flambeau.arange(64, dtype=flambeau.uint8), file)
    content = bytearray(file.getvalue())
    start = content.index(bytes(range(64)))
    for i in (0, 31, 63):
        damaged = bytearray(content)
        damaged[start + i] ^= 4
        with pytest.raises(RuntimeError, match="CRC"):
            flambeau.load(io.BytesIO(damaged))


@pytest.mark.parametrize("seed", range(300))
def test_random_damage_never_gives_another_error(seed):
    """Bytes changed, cut off or put in anywhere: RuntimeError, or the damage does not matter."""
    rng = random.Random(seed)
    file = io.BytesIO()
    flambeau.save({"x": flambeau.arange(6.0).reshape(2, 3), "y": [1, (2.5, {"a": b"b"})]}, file)
    content = bytearray(file.getvalue())
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(len(content))
        kind = rng.randrange(4)
        if kind == 0:
            del content[i : i + rng.randint(1, 20)]
        elif kind == 1:
            content[i:i] = rng.randbytes(rng.randint(1, 20))
        else:
            content[i] = rng.choice([0, 255, rng.randrange(256)])
    try:
        result = flambeau.load(io.BytesIO(content))
    except RuntimeError as error:
        assert str(error).startswith("flambeau.load: ")
    else:
        assert set(result) == {"x", "y"}
