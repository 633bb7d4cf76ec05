"""flambeau's first format: a file of it is read whole, and damaged or hostile ones are refused."""

import io
import json
import random
import struct
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import pytest

import flambeau

SAMPLE = Path(__file__).parent.parent / "data" / "first_format.fl"


@pytest.mark.parametrize("mmap", [False, True])
def test_a_file_of_the_first_format(mmap):
    found = flambeau.load(SAMPLE, mmap=mmap)
    assert found["x"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["t"].stride() == (1, 3)
    found["row"][2] = 7
    assert found["x"][1, 2] == 7 and found["t"][2, 1] == 7
    assert type(found["p"]) is flambeau.nn.Parameter and found["p"].requires_grad
    assert type(found["frozen"]) is flambeau.nn.Parameter and not found["frozen"].requires_grad
    assert type(found["leaf"]) is flambeau.Tensor and found["leaf"].requires_grad
    assert found["bf"].dtype == flambeau.bfloat16 and found["bf"].tolist() == [1.5, 2.0]
    assert found["c"].tolist() == [1 + 2j] and found["b"].tolist() == [True, False]
    assert type(found["state"]) is OrderedDict and found["state"]._metadata == OrderedDict(
        [("", {"version": 1})]
    )
    assert found["plain"] == [
        *(None, True, -5, 2**70, 2.5, float("inf"), 3 - 4j, "é\ud800", b"\x00\xff", (1, (2,)), {1, "a"}),
        *(frozenset([2]), Counter("aab"), range(3, 9, 2), slice(None, -1, 2)),
    ]
    assert found["dtype"] == flambeau.float16 and found["device"] == flambeau.device("cpu")
    assert type(found["size"]) is flambeau.Size and found["size"] == (2, 3)
    assert found["meta"].is_meta and found["empty"].shape == (0, 3)


@pytest.mark.parametrize(
    "location", ["cpu", {"cuda:0": "cpu"}, lambda storage, name: storage, lambda storage, name: None]
)
def test_map_location(location):
    assert flambeau.load(SAMPLE, map_location=location)["x"].device.type == "cpu"
    assert flambeau.load(SAMPLE, map_location="meta")["x"].is_meta


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
    with pytest.raises(RuntimeError, match="overlaps"):
        flambeau.load(io.BytesIO(content[:entry] + bytes(forged_entry)))


def test_two_entries_of_one_name_are_refused():
    with pytest.warns(UserWarning, match="Duplicate"):
        file = forged(document({"tensor": 0}, [spec()], [16]), DATA * 2)
    with pytest.raises(RuntimeError, match="same name"):
        flambeau.load(file)


def sample():
    return bytearray(SAMPLE.read_bytes())


def test_every_flipped_bit_of_the_data_is_noticed():
    content = sample()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        info = archive.getinfo("storage/0")
    start = content.index(struct.pack("<6f", 0, 1, 2, 3, 4, 5))
    for i in range(info.file_size):
        content[start + i] ^= 4
        with pytest.raises(RuntimeError, match="CRC"):
            flambeau.load(io.BytesIO(content))
        content[start + i] ^= 4


@pytest.mark.parametrize("seed", range(100))
def test_random_damage_never_gives_another_error(seed):
    """Bytes changed, cut off or put in anywhere: RuntimeError, or the damage does not matter."""
    rng, content = random.Random(seed), sample()
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(4, len(content))
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
        assert "plain" in result
