"""Tensors on an OpenCL device: where they are, copies, errors, memory, events, processes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import flambeau

if not flambeau.opencl.is_available():
    pytest.skip(
        "no OpenCL device; `pip install intel-opencl-rt intel-cmplr-lib-rt` makes one",
        allow_module_level=True,
    )

DEVICE = flambeau.device("opencl", 0)


def test_where_a_tensor_is():
    x = flambeau.ones(2, 3, device="opencl")
    assert x.device == DEVICE and str(x.device) == "opencl:0" and x.get_device() == 0
    assert x.is_opencl and not x.is_cpu and not x.is_cuda
    assert repr(x) == "tensor([[1., 1., 1.],\n        [1., 1., 1.]], device='opencl:0')"
    assert x.to("opencl") is x and x.to(DEVICE, flambeau.int64).dtype == flambeau.int64
    assert x.cpu().is_cpu and x.cpu().opencl().device == DEVICE
    assert x.tolist() == [[1.0] * 3] * 2 and x.sum().item() == 6.0 and bool(x[0, 0] == 1)
    assert flambeau.zeros_like(x).device == DEVICE and x.new_ones(2).device == DEVICE
    assert flambeau.tensor([1, 2], device=DEVICE).device == DEVICE
    assert flambeau.arange(3, device=DEVICE).tolist() == [0, 1, 2]
    assert flambeau.full((2,), 2.5, device=DEVICE).tolist() == [2.5, 2.5]
    assert x.untyped_storage().device == DEVICE and x.data_ptr() != 0


def test_views_share_the_memory():
    x = flambeau.zeros(4, 5, device=DEVICE)
    x.t()[2:4, ::2] = 1
    x.view(-1)[0].add_(3)
    expected = np.zeros((4, 5))
    expected[::2, 2:4] = 1
    expected[0, 0] = 3
    np.testing.assert_array_equal(x.cpu().numpy(), expected)
    assert x._version == 2


def test_copies_between_devices():
    source = flambeau.arange(12.0).reshape(3, 4)
    for x in (source, source.t(), source[:, 1::2], source[0].expand(5, 4)):
        there = x.to(DEVICE)
        assert there.shape == x.shape
        np.testing.assert_array_equal(there.cpu().numpy(), x.numpy())
    assert source.t().to(DEVICE).stride() == (1, 4)  # the order of dimensions is kept
    x = flambeau.zeros(3, 4, dtype=flambeau.int32, device=DEVICE)
    x.copy_(source + 0.5)
    assert x.tolist() == source.int().tolist()
    assert flambeau.zeros(3, 4).copy_(x).tolist() == source.tolist()
    leaf = source.clone().requires_grad_()
    (leaf.to(DEVICE) * 2).sum().backward()
    assert leaf.grad.is_cpu and leaf.grad.tolist() == [[2.0] * 4] * 3


def test_pinned_memory():
    x = flambeau.arange(6.0).pin_memory("opencl")
    assert x.is_pinned() and x.pin_memory() is x and not flambeau.ones(2).is_pinned()
    if flambeau.opencl.get_device_properties(0).is_graphics_processor:
        assert flambeau.zeros(2, pin_memory=True).is_pinned() and flambeau.ones(2).pin_memory().is_pinned()
    assert x.to(DEVICE, non_blocking=True).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="only tensors on the CPU can be pinned"):
        x.to(DEVICE).pin_memory()


def test_a_number_on_the_cpu_may_be_mixed_in():
    x, two = flambeau.ones(3, device=DEVICE), flambeau.tensor(2.0, requires_grad=True)
    result = x * two
    assert result.tolist() == [2.0] * 3 and result.device == DEVICE
    result.sum().backward()
    assert two.grad.is_cpu and two.grad.item() == 3.0


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: x @ y.t(),
        lambda x, y: flambeau.cat([x, y]),
        lambda x, y: flambeau.add(x, x, out=y),
        lambda x, y: flambeau.where(x > 0, x, y),
        lambda x, y: x.gather(0, y.long()),
    ],
)
def test_devices_do_not_mix(call):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device.*opencl:0 and cpu"):
        call(flambeau.ones(2, 2, device=DEVICE), flambeau.ones(2, 2))


def test_numpy_takes_tensors_of_the_cpu():
    x = flambeau.ones(2, device=DEVICE)
    for call in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(
            TypeError, match="can't convert opencl:0 device type tensor to numpy. Use Tensor.cpu"
        ):
            call()
    assert x.numpy(force=True).tolist() == [1.0, 1.0]
    with pytest.raises(BufferError, match="opencl:0"):
        memoryview(x.untyped_storage())
    with pytest.raises(BufferError, match="opencl:0"):
        x.__dlpack__()


def test_devices_that_are_not_there():
    with pytest.raises(RuntimeError, match="ones.*opencl:99' is not available"):
        flambeau.ones(1, device="opencl:99")
    with pytest.raises(
        RuntimeError, match="Expected one of cpu, .* device type at start of device string: nowhere"
    ):
        flambeau.ones(1, device="nowhere")


def test_an_index_out_of_bounds_is_reported_when_the_host_waits():
    x = flambeau.arange(4.0, device=DEVICE)
    result = x[flambeau.tensor([1, 4], device=DEVICE)]
    with pytest.raises(IndexError, match="out of bounds on opencl:0: in index"):
        result.cpu()
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]  # reported once
    x[flambeau.tensor([-5], device=DEVICE)] = 7.0
    with pytest.raises(IndexError):
        flambeau.opencl.synchronize()
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_empty_tensors():
    x = flambeau.zeros(0, 3, device=DEVICE)
    assert (x + 1).shape == (0, 3) and x.cpu().shape == (0, 3)
    assert x.sum(0).tolist() == [0.0] * 3 and (x.t() @ x).tolist() == [[0.0] * 3] * 3


def test_pickles_and_copies_keep_the_device():
    x = flambeau.arange(4.0, device=DEVICE)
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone()):
        assert made.device == DEVICE and made.tolist() == x.tolist()
        assert made.data_ptr() != x.data_ptr()


def test_memory_is_counted_and_reused():
    flambeau.opencl.empty_cache()
    before = flambeau.opencl.memory_allocated()
    x = flambeau.zeros(1 << 20, device=DEVICE)
    assert flambeau.opencl.memory_allocated() - before == 1 << 22
    address, calls = x.data_ptr(), flambeau.opencl.memory_stats()["system_allocations"]
    del x
    assert flambeau.opencl.memory_allocated() == before
    assert flambeau.opencl.max_memory_allocated() >= before + (1 << 22)
    x = flambeau.zeros(1 << 20, device=DEVICE)
    assert x.data_ptr() == address and flambeau.opencl.memory_stats()["system_allocations"] == calls
    del x
    flambeau.opencl.empty_cache()
    assert flambeau.opencl.memory_reserved() == flambeau.opencl.memory_allocated()
    flambeau.opencl.reset_peak_memory_stats()
    assert flambeau.opencl.max_memory_allocated() == flambeau.opencl.memory_allocated()
    with pytest.raises(flambeau.OutOfMemoryError, match="cannot allocate [0-9]+ bytes on opencl:0"):
        flambeau.empty(1 << 50, device=DEVICE)


def test_events():
    start, end = flambeau.opencl.Event(enable_timing=True), flambeau.opencl.Event(enable_timing=True)
    assert start.query()
    with pytest.raises(RuntimeError, match="both events must be recorded"):
        start.elapsed_time(end)
    start.record()
    x = flambeau.ones(1000, 1000, device=DEVICE)
    (x @ x).sum()
    end.record()
    end.wait()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0


def test_the_module():
    assert flambeau.opencl.device_count() >= 1 and flambeau.opencl.is_initialized()
    assert flambeau.opencl.get_device_name() == flambeau.opencl.get_device_properties(0).name
    assert flambeau.opencl.current_device() == 0
    flambeau.opencl.set_device("opencl:0")
    with pytest.raises(ValueError, match="expected an opencl device"):
        flambeau.opencl.get_device_name("cpu")


FORKED = """
import os, sys, flambeau
x = flambeau.ones(3, device="opencl")
child = os.fork()
if child == 0:
    for call in (lambda: x + 1, lambda: flambeau.ones(1, device="opencl"), x.cpu):
        try:
            call()
        except RuntimeError as e:
            assert "forked subprocess" in str(e)
        else:
            os._exit(1)
    del x
    assert (flambeau.ones(2) + 1).tolist() == [2.0, 2.0]
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_gets_an_error():
    assert subprocess.run([sys.executable, "-c", FORKED], timeout=120).returncode == 0


def test_without_a_driver_there_is_no_device():
    """Nothing breaks at import, and asking for the device says what is missing."""
    script = """
import flambeau
assert not flambeau.opencl.is_available() and flambeau.opencl.device_count() == 0
try:
    flambeau.ones(1, device="opencl")
except RuntimeError as e:
    assert "not available: 0 OpenCL devices" in str(e)
else:
    raise SystemExit(1)
"""
    environment = os.environ | {"FLAMBEAU_OPENCL_LIBRARY": "/nowhere/libOpenCL.so"}
    assert subprocess.run([sys.executable, "-c", script], env=environment, timeout=120).returncode == 0
