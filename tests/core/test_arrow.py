"""Arrow arrays and tensors over one memory; the other side is written here with ctypes, as pyarrow is no dependency."""

from __future__ import annotations

import ctypes
import gc
import sys

import pytest

import flambeau
from flambeau.core.base import memory

DTYPES = (
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
)
FORMATS = dict(zip(DTYPES, "CSILcsilefg", strict=True)) | {"bool": "b"}


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private", ctypes.c_void_p),
]


def opened(capsules) -> tuple[Schema, Array]:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return (
        Schema.from_address(get(capsules[0], b"arrow_schema")),
        Array.from_address(get(capsules[1], b"arrow_array")),
    )


class Foreign:
    """An array of another library: a tensor's capsules, with what `change` does to them."""

    def __init__(self, tensor, change=None):
        self.tensor, self.change = tensor, change

    def __arrow_c_array__(self, requested_schema=None):
        capsules = self.tensor.__arrow_c_array__()
        if self.change is not None:
            self.change(*opened(capsules))
        return capsules


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_there_and_back(dtype):
    x = flambeau.tensor([1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1], dtype=getattr(flambeau, dtype))
    capsules = x.__arrow_c_array__()
    schema, array = opened(capsules)
    assert schema.format == FORMATS[dtype].encode()
    assert (array.length, array.null_count, array.offset, array.n_buffers) == (11, 0, 0, 2)
    for take in (flambeau.asarray, flambeau.as_tensor, flambeau.tensor):
        y = take(Foreign(x))
        assert y.dtype is x.dtype and y.tolist() == x.tolist()
        assert (y.data_ptr() == x.data_ptr()) is (take is not flambeau.tensor and dtype != "bool")
    part = flambeau.asarray(Foreign(x, lambda s, a: (setattr(a, "offset", 3), setattr(a, "length", 5))))
    assert part.tolist() == x[3:8].tolist()


@pytest.mark.parametrize("dtype", ["int16", "float64", "bool"])
def test_lists_of_fixed_size(dtype):
    for shape in ((2, 3), (2, 3, 4), (0, 3), (3, 0), (5, 1, 2)):
        x = (flambeau.arange(flambeau.Size(shape).numel()) % 3).reshape(shape).to(getattr(flambeau, dtype))
        capsules = x.__arrow_c_array__()
        schema, array = opened(capsules)
        assert schema.format == f"+w:{shape[1]}".encode() and array.length == shape[0]
        y = flambeau.asarray(Foreign(x))
        assert y.shape == x.shape and y.dtype is x.dtype and y.equal(x)
    x = flambeau.arange(24).reshape(4, 3, 2)

    def cut(schema, array):
        array.offset, array.length = 1, 2

    assert flambeau.asarray(Foreign(x, cut)).tolist() == x[1:3].tolist()
    assert flambeau.asarray(Foreign(x.permute(2, 1, 0))).equal(x.permute(2, 1, 0))


def test_another_type_of_numbers():
    x = flambeau.tensor([[1.0, 2.5], [-3.0, 4.0]])
    for other, wanted in (
        (flambeau.ones(1, dtype=flambeau.float64), b"g"),
        (flambeau.ones(1, 1, dtype=flambeau.int8), b"c"),
    ):
        schema, _ = other.__arrow_c_array__()
        capsules = x.__arrow_c_array__(schema)
        assert opened(capsules)[0].children[0].contents.format == wanted
    capsules = x.__arrow_c_array__(requested_schema=x.__arrow_c_array__()[0])
    assert opened(capsules)[1].children[0].contents.buffers[1] == x.data_ptr()
    with pytest.raises(TypeError, match="requested_schema"):
        x.__arrow_c_array__(3)


def test_arrow_arrays_are_not_written_to():
    y = flambeau.asarray(Foreign(flambeau.ones(3)))
    with pytest.raises(RuntimeError, match="read-only"):
        y.add_(1)


def test_arrow_refuses():
    with pytest.raises(BufferError, match="gradient"):
        flambeau.ones(2, requires_grad=True).__arrow_c_array__()
    with pytest.raises(BufferError, match="meta"):
        flambeau.ones(2, device="meta").__arrow_c_array__()
    for dtype in ("complex64", "bfloat16", "float8_e5m2"):
        with pytest.raises(TypeError, match=dtype):
            flambeau.empty(2, dtype=getattr(flambeau, dtype)).__arrow_c_array__()
    with pytest.raises(ValueError, match="without dimensions"):
        flambeau.tensor(1).__arrow_c_array__()


def test_foreign_arrays_that_no_tensor_can_be():
    x = flambeau.arange(8)
    bits = (ctypes.c_uint8 * 1)(0b11101111)

    def missing(schema, array):
        array.buffers[0], array.null_count = ctypes.addressof(bits), -1

    with pytest.raises(ValueError, match="missing"):
        flambeau.asarray(Foreign(x, missing))

    def spared(schema, array):
        missing(schema, array)
        array.offset, array.length = 5, 3

    assert flambeau.asarray(Foreign(x, spared)).tolist() == [5, 6, 7]
    for change in (
        lambda s, a: setattr(s, "format", b"u"),
        lambda s, a: setattr(s, "format", None),
        lambda s, a: setattr(s, "format", b"+s"),
        lambda s, a: setattr(s, "format", b"tsn:"),
        lambda s, a: setattr(s, "dictionary", 1),
    ):
        with pytest.raises(TypeError, match="no dtype"):
            flambeau.asarray(Foreign(x, change))
    for change in (
        lambda s, a: setattr(a, "n_buffers", 1),
        lambda s, a: a.buffers.__setitem__(1, None),
        lambda s, a: setattr(a, "offset", -1),
    ):
        with pytest.raises(ValueError, match="damaged"):
            flambeau.asarray(Foreign(x, change))
    table = flambeau.arange(8).reshape(4, 2)
    with pytest.raises((ValueError, RuntimeError)):
        flambeau.asarray(Foreign(table, lambda s, a: setattr(a, "length", 5)))
    with pytest.raises((ValueError, RuntimeError)):
        flambeau.asarray(Foreign(table, lambda s, a: setattr(a, "length", -1)))

    class Again:
        capsules = x.__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema=None):
            return self.capsules

    first = flambeau.asarray(Again())
    with pytest.raises(ValueError, match="used before"):
        flambeau.asarray(Again())
    assert first.tolist() == x.tolist()

    class Wrong:
        def __arrow_c_array__(self, requested_schema=None):
            return 3, 4

    with pytest.raises(TypeError, match="capsules"):
        flambeau.asarray(Wrong())


def test_arrow_leaks_nothing():
    x, table = flambeau.ones(1000), flambeau.ones(10, 20, 3)
    storage = x.untyped_storage()
    before = sys.getrefcount(storage), memory.memory_stats()["allocated_bytes"]
    for _ in range(50):
        x.__arrow_c_array__()
        table.__arrow_c_array__()
        flambeau.asarray(Foreign(x))
        flambeau.asarray(Foreign(table))
        flambeau.asarray(Foreign(table.bool()))
        with pytest.raises(TypeError):
            flambeau.asarray(Foreign(x, lambda s, a: setattr(s, "format", b"u")))
    assert (sys.getrefcount(storage), memory.memory_stats()["allocated_bytes"]) == before
    y = flambeau.asarray(Foreign(x))
    del x, storage
    gc.collect()
    assert y.sum() == 1000
