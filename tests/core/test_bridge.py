"""Memory shared with NumPy, buffers and DLPack."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import flambeau
from flambeau.core.make import bridge, interchange

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


class Exporter:
    """A tensor as a foreign array: DLPack is all that one can see of it."""

    def __init__(self, t):
        self.t = t

    def __dlpack__(self, **options):
        return interchange.__dlpack__(self.t, **options)

    def __dlpack_device__(self):
        return interchange.__dlpack_device__(self.t)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_and_back_share_memory(dtype):
    t = flambeau.ones(2, 3, dtype=getattr(flambeau, dtype))
    a = t.numpy()
    assert a.dtype == dtype and a.shape == (2, 3) and a.all()
    a[1, 2] = 0
    assert not t.tolist()[1][2]
    back = flambeau.from_numpy(a)
    assert back.dtype is t.dtype and back.data_ptr() == t.data_ptr()


def test_numpy_of_views():
    t = flambeau.arange(24).view(2, 3, 4)
    expected = np.arange(24).reshape(2, 3, 4)
    for view, twin in [
        (t.permute(2, 0, 1), expected.transpose(2, 0, 1)),
        (t.narrow(2, 1, 2), expected[:, :, 1:3]),
        (t.select(0, 1), expected[1]),
        (t.narrow(1, 3, 0), expected[:, 3:]),
        (flambeau.tensor(5).expand(3), np.full(3, 5)),
    ]:
        np.testing.assert_array_equal(view.numpy(), twin)
    a = t.permute(2, 0, 1).numpy()
    a[0, 0, 0] = 99
    assert t.numpy()[0, 0, 0] == 99


def test_the_array_outlives_the_tensor():
    a = flambeau.arange(1000).numpy()
    gc.collect()
    others = [flambeau.zeros(1000, dtype=flambeau.int64) for _ in range(20)]
    np.testing.assert_array_equal(a, np.arange(1000))
    assert len(others) == 20


def test_the_tensor_outlives_the_array():
    class Kept(np.ndarray):
        pass

    source = np.arange(5.0).view(Kept)
    alive = weakref.ref(source)
    t = flambeau.from_numpy(source)
    del source
    assert alive() is not None and t.tolist() == [0, 1, 2, 3, 4]
    del t
    gc.collect()
    assert alive() is None


def test_numpy_refuses():
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        flambeau.ones(2, requires_grad=True).numpy()
    assert flambeau.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        flambeau.ones(2, dtype=flambeau.bfloat16).numpy()


def test_where_nothing_is_recorded_a_leaf_is_an_array_too():
    leaf = flambeau.ones(2, requires_grad=True)
    with flambeau.no_grad():
        assert leaf.numpy().tolist() == [1.0, 1.0]

    class Doubled(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return flambeau.from_numpy(x.numpy() * 2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    Doubled.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == [2.0, 2.0]


def test_array_protocol():
    t = flambeau.arange(3)
    assert bridge.__array__(t).base is not None
    assert bridge.__array__(t, np.dtype("f8")).dtype == "f8"
    copy = bridge.__array__(t, copy=True)
    copy[0] = 9
    assert t.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="needs a copy"):
        bridge.__array__(t, np.dtype("f8"), copy=False)
    assert isinstance(bridge.__array_wrap__(t, np.arange(2)), flambeau.Tensor)


def test_from_numpy_refuses():
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        flambeau.from_numpy([1])
    with pytest.raises(TypeError, match=r"got numpy.float32"):
        flambeau.from_numpy(np.float32(1))
    with pytest.raises(ValueError, match="stride in the given numpy array is negative"):
        flambeau.from_numpy(np.arange(4)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        flambeau.from_numpy(np.arange(4).astype(">i4"))
    with pytest.raises(ValueError, match="not a multiple of the element byte size"):
        flambeau.from_numpy(np.ndarray((2,), "i4", bytearray(13), 1, (6,)))
    for strange in (
        np.array(["a"]),
        np.array([1], np.longdouble),
        np.array([1], "datetime64[s]"),
        np.array([None]),
    ):
        with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy"):
            flambeau.from_numpy(strange)


def test_from_numpy_of_odd_shapes():
    assert flambeau.from_numpy(np.array(5)).item() == 5
    assert flambeau.from_numpy(np.zeros((3, 0))).shape == (3, 0)
    assert flambeau.from_numpy(np.zeros((3, 0))[::-1]).shape == (3, 0)
    assert flambeau.from_numpy(np.arange(3)[1:2][::-1]).tolist() == [1]
    assert flambeau.from_numpy(np.arange(12).reshape(3, 4)[:, ::2]).stride() == (4, 2)
    assert flambeau.from_numpy(np.broadcast_to(np.arange(2), (3, 2)).copy()).shape == (3, 2)


def test_read_only_memory_is_not_written_to():
    source = np.arange(3)
    source.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        t = flambeau.from_numpy(source)
    with pytest.raises(RuntimeError, match="read-only"):
        t.fill_(1)
    assert source.tolist() == [0, 1, 2] and not t.numpy().flags.writeable
    with pytest.warns(UserWarning, match="not writable"):
        flambeau.frombuffer(b"1234", dtype=flambeau.uint8)


def test_frombuffer_shares():
    buffer = bytearray(12)
    t = flambeau.frombuffer(buffer, dtype=flambeau.int32, offset=4)
    assert t.shape == (2,)
    t.fill_(-1)
    assert buffer == b"\0" * 4 + b"\xff" * 8
    assert flambeau.frombuffer(buffer, dtype=flambeau.int16, count=2, offset=3).tolist() == [-256, -1]
    with pytest.raises(BufferError):
        buffer.append(1)  # the tensor's memory does not move
    assert flambeau.frombuffer(bytearray(8), dtype=flambeau.float32, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    ("size", "options", "message"),
    [
        (8, {"count": 3}, "must not be greater than actual buffer length"),
        (8, {"count": 0}, "must not be 0"),
        (0, {}, "must not be 0"),
        (8, {"offset": 8}, "must be non-negative and no greater"),
        (8, {"offset": -1}, "must be non-negative and no greater"),
        (8, {"offset": 3}, "multiple of element size"),
        (8, {"count": 2**62}, "must not be greater than actual buffer length"),
    ],
)
def test_frombuffer_refuses(size, options, message):
    with pytest.raises(ValueError, match=message):
        flambeau.frombuffer(bytearray(size), dtype=flambeau.float32, **options)


def test_frombuffer_needs_a_buffer():
    with pytest.raises(ValueError, match="does not implement Python buffer protocol"):
        flambeau.frombuffer(3, dtype=flambeau.float32)


# --- DLPack ------------------------------
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_both_ways(dtype):
    source = np.ones((2, 3), dtype).T
    t = flambeau.from_dlpack(source)
    assert t.dtype is getattr(flambeau, dtype) and t.shape == (3, 2) and t.stride() == (1, 3)
    t.zero_()
    assert not source.any()
    again = np.from_dlpack(Exporter(t))
    assert again.strides == source.strides and again.dtype == source.dtype
    assert np.shares_memory(again, source)


def test_dlpack_carries_bfloat16_between_tensors():
    t = flambeau.ones(2, dtype=flambeau.bfloat16)
    assert flambeau.from_dlpack(Exporter(t)).dtype is flambeau.bfloat16


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_is_used_once_and_frees_when_unused(version):
    class Kept(np.ndarray):
        pass

    source = np.arange(3).view(Kept)
    alive = weakref.ref(source)
    t = flambeau.from_numpy(source)
    del source
    unused = interchange.__dlpack__(t, max_version=version)
    capsule = interchange.__dlpack__(t, max_version=version)
    del t
    shared = flambeau.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="only once"):
        flambeau.from_dlpack(capsule)
    del capsule
    assert shared.tolist() == [0, 1, 2] and alive() is not None
    del shared
    assert alive() is not None  # the unused capsule holds it
    del unused
    gc.collect()
    assert alive() is None


def test_dlpack_flags():
    source = np.arange(3)
    source.flags.writeable = False
    t = flambeau.from_dlpack(source)
    with pytest.raises(RuntimeError, match="read-only"):
        t.fill_(1)
    with pytest.raises(BufferError, match="read-only"):
        interchange.__dlpack__(t)
    assert not np.from_dlpack(Exporter(t)).flags.writeable


class Strange:
    """Bytes that say they are integers of 4 bits."""

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        capsule = interchange.__dlpack__(flambeau.zeros(4, dtype=flambeau.uint8))
        name = ctypes.c_char_p(b"dltensor")
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        bits_at = get(capsule, name) + 8 + 8 + 4 + 1  # behind the address, the device, the rank and the kind
        ctypes.c_uint8.from_address(bits_at).value = 4
        return capsule


def test_dlpack_refuses():
    with pytest.raises(BufferError, match="require gradient"):
        interchange.__dlpack__(flambeau.ones(2, requires_grad=True))
    with pytest.raises(AssertionError, match="stream"):
        interchange.__dlpack__(flambeau.ones(2), stream=1)
    with pytest.raises(BufferError, match="negative strides"):
        flambeau.from_dlpack(np.arange(4)[::-1])
    with pytest.raises(BufferError, match="unsupported dtype"):
        flambeau.from_dlpack(Strange())
    with pytest.raises(RuntimeError, match="invalid capsule"):
        flambeau.from_dlpack(3)
    assert interchange.__dlpack_device__(flambeau.ones(1)) == (1, 0)


def test_numpy_is_imported_when_it_is_used():
    code = (
        "import sys, flambeau; t = flambeau.tensor([[1.0, 2.0]]); assert 'numpy' not in sys.modules; "
        "assert t.numpy().shape == (1, 2) and 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
