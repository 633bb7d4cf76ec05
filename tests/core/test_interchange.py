"""DLPack and the buffer protocol, both ways, and what hostile partners do."""

from __future__ import annotations

import array
import ctypes
import gc
import hashlib
import io
import os
import sys
import weakref

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.core.base import memory
from flambeau.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

FORMATS = {
    "bool": "?",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "L",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "l",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "Zf",
    "complex128": "Zd",
}


def held() -> int:
    return memory.memory_stats()["allocated_bytes"]


class Producer:
    """A foreign array whose `__dlpack__` knows some of the protocol's arguments."""

    def __init__(self, t, known=("stream", "max_version", "dl_device", "copy"), device=(1, 0)):
        self.t, self.known, self.device, self.asked = t, known, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.asked.append(set(options))
        if not set(options) <= set(self.known):
            raise TypeError("unexpected keyword argument")
        return self.t.__dlpack__(**options)


# --- out ------------------------------
def test_versions_of_capsules():
    x = flambeau.ones(2)
    for version, name in (
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((2, 5), "dltensor_versioned"),
    ):
        assert f'"{name}"' in repr(x.__dlpack__(max_version=version))
    for wrong in (1, (1,), "ab", (1, 2, 3)):
        with pytest.raises((TypeError, ValueError)):
            x.__dlpack__(max_version=wrong)


def test_arguments_are_checked():
    x = flambeau.ones(2)
    for stream in (None, -1):
        x.__dlpack__(stream=stream)
    for stream in (0, 1, 2, 12345):
        with pytest.raises(AssertionError, match="stream should be None on cpu"):
            x.__dlpack__(stream=stream)
    for wrong in ({"stream": "1"}, {"stream": 1.0}, {"copy": 3}, {"dl_device": 5}):
        with pytest.raises(TypeError):
            x.__dlpack__(**wrong)
    with pytest.raises(TypeError):
        x.__dlpack__(None)
    with pytest.raises(BufferError, match="cannot be exported"):
        x.__dlpack__(dl_device=(2, 0)) if not flambeau.cuda.is_available() else x.__dlpack__(
            dl_device=(99, 0)
        )
    for kind in (ValueError, BufferError):  # the one by PyTorch, the other by the standard
        with pytest.raises(kind, match="without copying"):
            x.__dlpack__(dl_device=(2, 0), copy=False)
    with pytest.raises(BufferError, match="no kind"):
        x.__dlpack__(dl_device=(99, 0))


def test_what_cannot_be_shared():
    with pytest.raises(BufferError, match="require gradient"):
        flambeau.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="meta"):
        flambeau.ones(2, device="meta").__dlpack__()
    with pytest.raises(ValueError, match="meta"):
        flambeau.ones(2, device="meta").__dlpack_device__()
    assert from_dlpack(to_dlpack(flambeau.ones(2, requires_grad=True))).tolist() == [1, 1]
    assert flambeau.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


def test_copies():
    x = flambeau.zeros(3)
    shared, also, own = (np.from_dlpack(x, copy=copy) for copy in (None, False, True))
    x.fill_(1)
    assert shared.tolist() == also.tolist() == [1, 1, 1] and own.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32", "float4_e2m1fn_x2"]
)
def test_dtypes_without_arithmetic_travel(dtype):
    x = flambeau.empty(4, dtype=getattr(flambeau, dtype))
    y = flambeau.from_dlpack(x)
    assert y.dtype is x.dtype and y.data_ptr() == x.data_ptr() and y.shape == x.shape


def test_views_keep_their_geometry():
    x = flambeau.arange(24.0).reshape(2, 3, 4)
    for view in (x, x[1:], x[..., ::2], x.permute(2, 0, 1), x[:, :0], x[0, 0, 0], x[:1].expand(5, 3, 4)):
        for other in (np.from_dlpack(view), flambeau.from_dlpack(view).numpy()):
            np.testing.assert_array_equal(other, view.numpy())
        assert flambeau.from_dlpack(view).stride() == view.stride() or 0 in view.shape or 1 in view.shape


# --- in ------------------------------
def test_old_producers_are_asked_again():
    x = flambeau.ones(2)
    for known, wanted in (
        (("max_version", "copy"), 1),
        (("copy",), 2),
        ((), 3),
    ):
        producer = Producer(x, known)
        assert flambeau.from_dlpack(producer, copy=True).data_ptr() != x.data_ptr()
        assert len(producer.asked) == wanted
    assert flambeau.from_dlpack(Producer(x, ())).data_ptr() == x.data_ptr()
    producer = Producer(x)
    flambeau.from_dlpack(producer, device="cpu")
    assert producer.asked == [{"max_version", "dl_device"}]


def test_producers_that_fail():
    class Failing(Producer):
        def __dlpack__(self, **options):
            raise error

    for error in (RuntimeError("no"), TypeError("never"), KeyboardInterrupt(), MemoryError()):
        with pytest.raises(type(error)):
            flambeau.from_dlpack(Failing(None))

    class Giving:
        def __init__(self, given):
            self.given = given

        def __dlpack__(self, **options):
            return self.given

        def __dlpack_device__(self):
            return (1, 0)

    for given in (None, 3, object()):
        with pytest.raises(RuntimeError, match="invalid capsule"):
            flambeau.from_dlpack(Giving(given))
    for wrong in (3, None, "x", [1.0]):
        with pytest.raises(RuntimeError, match="invalid capsule"):
            flambeau.from_dlpack(wrong)


def test_other_devices():
    x = flambeau.ones(2)
    for kind in (ValueError, BufferError):
        with pytest.raises(kind, match="without copying"):
            flambeau.from_dlpack(Producer(x, device=(8, 0)), device="cpu", copy=False)
    with pytest.raises(BufferError, match="meta"):
        flambeau.from_dlpack(x, device="meta")
    with pytest.raises((RuntimeError, ValueError)):
        flambeau.from_dlpack(x, device="nowhere")
    assert flambeau.from_dlpack(x.__dlpack__(), device="cpu").data_ptr() == x.data_ptr()
    assert flambeau.from_dlpack(x.__dlpack__(), copy=True).data_ptr() != x.data_ptr()


class Managed(ctypes.Structure):
    """A managed tensor of DLPack 0.8, to be spoilt."""

    DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
    ]


def spoilt(shape, strides=None, /, **fields):
    """A capsule over eight floats with the given fields, and the list of what its deleter was called with."""
    freed: list = []
    memory = (ctypes.c_float * 8)(*range(8))
    longs = ctypes.c_int64 * len(shape)
    made = Managed(
        data=ctypes.addressof(memory), device_type=1, ndim=len(shape), kind=2, bits=32, lanes=1,
        shape=longs(*shape), strides=None if strides is None else longs(*strides), deleter=Managed.DELETER(freed.append),
    )  # fmt: skip
    for name, value in fields.items():
        setattr(made, name, value)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(ctypes.addressof(made), b"dltensor", None)
    kept.append((made, memory))
    return capsule, freed


kept: list = []


def test_sizes_that_are_no_sizes():
    for shape, strides, fields in (
        ((-1,), None, {}),
        ((2**40, 2**40), None, {}),
        ((2**62, 4), (1, 1), {}),
        ((2,), (-1,), {}),
        ((2,), None, {"ndim": -1}),
        ((2,), None, {"ndim": 65}),
        ((2,), None, {"shape": None}),
        ((2,), None, {"data": None}),
        ((2,), None, {"bits": 24}),
        ((2,), None, {"lanes": 4}),
        ((2,), None, {"kind": 77}),
        ((2,), None, {"device_type": 9}),
    ):
        capsule, freed = spoilt(shape, strides, **fields)
        with pytest.raises(BufferError):
            flambeau.from_dlpack(capsule)
        assert '"dltensor"' in repr(capsule) and not freed  # whoever made it still owns it
    for strides in ((2**61, 1), (2**63 - 1, 2**63 - 1)):
        capsule, freed = spoilt((4, 2), strides)
        with pytest.raises((BufferError, RuntimeError)):
            flambeau.from_dlpack(capsule)
        assert len(freed) <= 1


def test_odd_but_sound_capsules():
    capsule, freed = spoilt((2, 2), None, byte_offset=8)
    x = flambeau.from_dlpack(capsule)
    assert x.tolist() == [[2, 3], [4, 5]] and x.stride() == (2, 1)
    view = x[1]
    del x, capsule
    gc.collect()
    assert not freed and view.tolist() == [4, 5]
    del view
    assert len(freed) == 1
    empty, freed = spoilt((0, 3), (7, -9), data=None)
    x = flambeau.from_dlpack(empty)
    assert x.shape == (0, 3) and x.numpy().shape == (0, 3) and x.sum() == 0
    del x
    assert len(freed) == 1
    single, _ = spoilt((1, 2), (-5, 1))
    assert flambeau.from_dlpack(single).tolist() == [[0, 1]]


def test_nothing_is_leaked():
    x = flambeau.ones(1000)
    storage = x.untyped_storage()
    references, before = sys.getrefcount(storage), held()
    for _ in range(50):
        x.__dlpack__()
        x.__dlpack__(max_version=(1, 0), copy=True)
        flambeau.from_dlpack(x)
        np.from_dlpack(x)
        memoryview(x).release()
        np.asarray(x)
        with pytest.raises(BufferError):
            memoryview(x.bfloat16())
        with pytest.raises(RuntimeError):
            flambeau.from_dlpack(3)
    assert sys.getrefcount(storage) == references and held() == before


def test_memory_outlives_its_producer_across_a_fork():
    x = np.from_dlpack(flambeau.arange(5))
    y = flambeau.from_dlpack(np.arange(5) * 2)
    gc.collect()
    child = os.fork()
    if not child:
        right = x.tolist() == [0, 1, 2, 3, 4] and y.sum().item() == 20
        del y
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert x.tolist() == [0, 1, 2, 3, 4] and y.sum().item() == 20


# --- buffers ------------------------------
@pytest.mark.parametrize("dtype", FORMATS)
def test_buffers(dtype):
    x = flambeau.tensor([[1, 0, 1], [1, 1, 0]], dtype=getattr(flambeau, dtype))
    view = memoryview(x)
    assert (view.format, view.shape, view.itemsize, view.readonly) == (
        FORMATS[dtype],
        (2, 3),
        x.itemsize,
        False,
    )
    assert view.c_contiguous and view.strides == (3 * x.itemsize, x.itemsize) and view.nbytes == x.nbytes
    assert view.tobytes() == x.numpy().tobytes()
    shared = np.asarray(view)
    assert shared.dtype == dtype
    x.zero_()
    assert not shared.any()
    again = flambeau.frombuffer(x, dtype=x.dtype)
    assert again.data_ptr() == x.data_ptr()


def test_buffers_of_views():
    x = flambeau.arange(12).reshape(3, 4)
    turned = memoryview(x.T)
    assert turned.strides == (8, 32) and turned.f_contiguous and not turned.c_contiguous
    assert turned.tolist() == x.T.tolist()
    assert memoryview(x[::2, 1:3]).tolist() == [[1, 2], [9, 10]]
    assert memoryview(x[0, 0]).shape == () and memoryview(x[1:, :0]).nbytes == 0
    assert memoryview(x[1]).tobytes() == x[1].numpy().tobytes()
    with pytest.raises(BufferError, match="not contiguous"):
        io.BytesIO().write(x.T)
    np.testing.assert_array_equal(np.asarray(memoryview(flambeau.ones(2).expand(3, 2))), np.ones((3, 2)))


def test_what_reads_bytes_reads_tensors():
    x = flambeau.arange(6, dtype=flambeau.int32)
    raw = x.numpy().tobytes()
    file = io.BytesIO()
    file.write(x)
    assert file.getvalue() == raw and hashlib.sha256(x).digest() == hashlib.sha256(raw).digest()
    assert array.array("i", raw) == array.array("i", memoryview(x).tobytes())
    assert flambeau.frombuffer(array.array("i", [7, 8]), dtype=flambeau.int32).tolist() == [7, 8]
    io.BytesIO(bytes(24)).readinto(x)
    assert x.tolist() == [0] * 6
    file = io.BytesIO()
    file.write(flambeau.ones(2, dtype=flambeau.bfloat16))  # which needs no format
    assert file.getvalue() == b"\x80\x3f" * 2


def test_bytes_of_a_tensor_are_its_elements():
    """As in PyTorch, where a tensor is a sequence of ints to `bytes`."""
    for dtype in (flambeau.uint8, flambeau.int64):
        assert bytes(flambeau.tensor([104, 105], dtype=dtype)) == b"hi"
        assert bytes(flambeau.tensor([3], dtype=dtype)) == bytes(flambeau.tensor(3, dtype=dtype)) == b"\0\0\0"
    assert bytes(flambeau.tensor([], dtype=flambeau.int64)) == b""
    for wrong in (
        flambeau.tensor([1.5, 2.5]),
        flambeau.tensor(1.5),
        flambeau.ones(2, 2, dtype=flambeau.int64),
    ):
        with pytest.raises(TypeError):
            bytes(wrong)
    with pytest.raises(ValueError):
        bytes(flambeau.tensor([1, 256]))


def test_buffers_refuse():
    for wrong, message in (
        (flambeau.ones(2, requires_grad=True), "requires grad"),
        (nn.Parameter(flambeau.ones(2)), "requires grad"),
        (flambeau.ones(2, device="meta"), "meta"),
        (flambeau.ones(2, dtype=flambeau.bfloat16), "format"),
        (flambeau.eye(2).to_sparse(), "meta"),
    ):
        with pytest.raises(BufferError, match=message):
            memoryview(wrong)
    with flambeau.no_grad():
        assert memoryview(flambeau.ones(2, requires_grad=True)).tolist() == [1, 1]
    fixed = flambeau.from_dlpack(np.broadcast_to(np.ones(1), (2,)))
    assert memoryview(fixed).readonly
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(bytes(16)).readinto(fixed)


def test_an_open_buffer_keeps_the_memory_where_it_is():
    x = flambeau.ones(4)
    storage = weakref.ref(x.untyped_storage())
    view = memoryview(x)
    x.untyped_storage().resize_(10_000_000)  # to another place: the view keeps the former memory
    x.set_(flambeau.zeros(2).untyped_storage())  # another storage: the view keeps the old one
    del x
    gc.collect()
    assert view.tolist() == [1, 1, 1, 1] and storage() is not None
    view.release()
    assert storage() is None


def test_an_array_method_of_a_subclass_is_heard():
    class Doubled(flambeau.Tensor):
        def __array__(self, dtype=None, copy=None):
            return 2 * flambeau.Tensor.__array__(self, dtype)

    x = flambeau.ones(2).as_subclass(Doubled)
    assert np.asarray(x).tolist() == [2, 2]
    with pytest.raises(BufferError, match="__array__"):
        memoryview(x)

    class Plain(flambeau.Tensor):
        pass

    assert memoryview(flambeau.ones(2).as_subclass(Plain)).tolist() == [1, 1]


def test_numpy_reads_tensors_as_before():
    x = flambeau.ones(2, 3)
    made = np.asarray(x)
    made[0, 0] = 5
    assert x[0, 0] == 5 and made.dtype == np.float32
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(flambeau.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match="BFloat16"):
        np.asarray(flambeau.ones(2, dtype=flambeau.bfloat16))
    with flambeau.no_grad():
        assert flambeau.ones(2, requires_grad=True).numpy().tolist() == [1, 1]
    assert np.array([flambeau.tensor(1.5), flambeau.tensor(2.5)]).tolist() == [1.5, 2.5]


# --- __cuda_array_interface__, where there is no CUDA ------------------------------
def test_only_cuda_tensors_have_a_cuda_interface():
    for x in (flambeau.ones(2), flambeau.ones(2, device="meta"), flambeau.ones(2, requires_grad=True)):
        assert not hasattr(x, "__cuda_array_interface__")
        with pytest.raises(AttributeError, match="non-CUDA"):
            x.__cuda_array_interface__  # noqa: B018


class OfCuda:
    def __init__(self, **changed):
        self.__cuda_array_interface__ = {
            "shape": (2,),
            "typestr": "<f4",
            "data": (4096, False),
            "strides": None,
            "version": 3,
        } | changed


def test_interfaces_that_are_not_as_they_should_be():
    for changed in (
        {"shape": "ab"},
        {"shape": 3},
        {"data": 5},
        {"data": (0, False)},
        {"strides": (4, 4)},
        {"typestr": "<f3"},
        {"typestr": None},
        {"shape": (1,) * 65},
    ):
        for take in (flambeau.asarray, flambeau.as_tensor, flambeau.tensor):
            with pytest.raises(TypeError):
                take(OfCuda(**changed))
    broken = OfCuda()
    broken.__cuda_array_interface__ = {}
    with pytest.raises(TypeError, match="shape"):
        flambeau.as_tensor(broken)
    for changed, error in (
        ({"typestr": ">f4"}, ValueError),
        ({"strides": (3,)}, ValueError),
        ({"strides": (-4,)}, BufferError),
        ({"mask": object()}, BufferError),
        ({"shape": (2**40, 2**40)}, RuntimeError),
        ({"shape": (-1,)}, RuntimeError),
    ):
        with pytest.raises(error):
            flambeau.as_tensor(OfCuda(**changed))
