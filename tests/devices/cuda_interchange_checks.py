"""Memory of a device shared with other libraries, on the fake driver: what `test_cuda_host.py` runs in a process of its own."""

from __future__ import annotations

import gc

import fake_cuda
import numpy as np
import pytest

import flambeau
from flambeau.utils.dlpack import DLDeviceType

fake = fake_cuda.install()
cuda = flambeau.cuda
CUDA = (DLDeviceType.kDLCUDA, 0)


class Foreign:
    """Another library's array over a tensor's memory, with one of the two protocols."""

    def __init__(self, tensor, interface=None):
        self.tensor, self.streams = tensor, []
        if interface is not None:
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__ | interface

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class Exporting(Foreign):
    def __dlpack__(self, *, stream=None, **options):
        self.streams.append(stream)
        return self.tensor.__dlpack__(stream=stream, **options)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_dlpack_shares_memory_of_a_device(version):
    x = flambeau.arange(6.0, device="cuda").reshape(2, 3)[:, 1:]
    assert x.__dlpack_device__() == CUDA
    y = flambeau.from_dlpack(x.__dlpack__(max_version=version))
    assert y.data_ptr() == x.data_ptr() and y.device == x.device and y.stride() == x.stride()
    y.add_(1)
    assert x.tolist() == [[2, 3], [5, 6]]
    place = x.data_ptr()
    del x
    gc.collect()
    z = flambeau.empty(6, device="cuda")  # not from the memory that y is over
    assert z.data_ptr() + 4 != place and y.tolist() == [[2, 3], [5, 6]]


def test_streams_of_consumers():
    x = flambeau.ones(4, device="cuda")
    other = cuda.Stream()
    for stream in (None, -1, 1, other.cuda_stream):
        events = fake.events
        x.__dlpack__(stream=stream)
        assert fake.events == events  # none is left behind
    with cuda.stream(other):
        y = x + 1
        y.__dlpack__(stream=1)
        y.__dlpack__()
        producer = Exporting(y)
        flambeau.from_dlpack(producer)
        assert producer.streams == [other.cuda_stream]
    producer = Exporting(x)
    flambeau.from_dlpack(producer)
    assert producer.streams == [1]  # the default stream goes by that number
    with pytest.raises(BufferError, match="per-thread"):
        x.__dlpack__(stream=2)
    for wrong in (0, -2):
        with pytest.raises(AssertionError, match="stream"):
            x.__dlpack__(stream=wrong)
    with pytest.raises(TypeError, match="stream"):
        x.__dlpack__(stream=other)


def test_dlpack_between_devices():
    x, there = flambeau.arange(4), flambeau.arange(4, device="cuda")
    assert flambeau.from_dlpack(there.__dlpack__(dl_device=(1, 0))).device.type == "cpu"
    assert flambeau.from_dlpack(x.__dlpack__(dl_device=CUDA)).device == there.device
    assert np.from_dlpack(there, device="cpu").tolist() == [0, 1, 2, 3]
    for source, device in ((x, "cuda"), (there, "cpu")):
        moved = flambeau.from_dlpack(source, device=device)
        assert moved.device.type == device and moved.tolist() == [0, 1, 2, 3]
        for kind in (ValueError, BufferError):
            with pytest.raises(kind, match="without copying"):
                flambeau.from_dlpack(source, device=device, copy=False)
    copied = flambeau.from_dlpack(there, copy=True)
    assert copied.data_ptr() != there.data_ptr() and copied.equal(there)
    assert flambeau.from_dlpack(there, device="cuda", copy=False).data_ptr() == there.data_ptr()
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(there, copy=False)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "complex64", "bfloat16"])
def test_array_interface(dtype):
    x = flambeau.ones(3, 4, dtype=getattr(flambeau, dtype), device="cuda")
    told = x.__cuda_array_interface__
    assert told["shape"] == (3, 4) and told["strides"] is None and told["data"] == (x.data_ptr(), False)
    assert x.t().__cuda_array_interface__["strides"] == (x.itemsize, 4 * x.itemsize)
    for take in (flambeau.as_tensor, flambeau.asarray):
        y = take(Foreign(x.t(), {"version": 3, "stream": 1}))
        assert (
            y.data_ptr() == x.data_ptr()
            and y.dtype is x.dtype
            and y.stride() == (1, 4)
            and y.device == x.device
        )
    assert flambeau.tensor(Foreign(x, {})).data_ptr() != x.data_ptr()
    array = Foreign(x, {})
    y = flambeau.as_tensor(array)
    place = x.data_ptr()
    del x, array
    gc.collect()
    assert flambeau.empty(3, 4, dtype=y.dtype, device="cuda").data_ptr() != place  # y keeps its owner


def test_array_interface_refuses():
    x = flambeau.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="requires grad"):
        x.clone().requires_grad_().__cuda_array_interface__  # noqa: B018
    with pytest.raises(AttributeError, match="float8"):
        x.to(flambeau.float8_e5m2).__cuda_array_interface__  # noqa: B018
    assert x[:0].__cuda_array_interface__["data"] == (0, False)
    y = flambeau.as_tensor(Foreign(x, {"data": (x.data_ptr(), True)}))
    with pytest.raises(RuntimeError, match="read-only"):
        y.add_(1)
    assert flambeau.as_tensor(Foreign(x[:0], {})).shape == (0,)
    for refused, error in ((x, BufferError),):
        with pytest.raises(error, match="cuda"):
            memoryview(refused)
        with pytest.raises(error, match="cuda"):
            refused.__arrow_c_array__()
