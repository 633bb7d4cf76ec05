"""Profiles of programs on a device: what kernels and copies took there, and whose they are."""

from __future__ import annotations

import pytest

import flambeau
from flambeau.profiler import ProfilerActivity, profile

if not flambeau.opencl.is_available():
    pytest.skip("no OpenCL device", allow_module_level=True)


def program():
    x = flambeau.ones(100, 100, device="opencl", requires_grad=True)
    (x * 2).sum().backward()
    (x.detach() @ x.detach()).cpu()
    return flambeau.ones(3).to("opencl")


@pytest.fixture(scope="module")
def recorded():
    program()
    with profile(profile_memory=True) as prof:
        program()
    return prof


def on_device(prof):
    return [e for e in prof.events() if e.device_type.name == "OPENCL"]


def test_kernels_and_copies_have_events_on_the_device(recorded):
    told = [e.name for e in on_device(recorded)]
    assert {"mul", "sum", "matmul", "Memcpy DtoH", "Memcpy HtoD"} <= set(told)
    assert "gemm" not in told  # this device has no library for products
    assert all(e.device_time_total > 0 and e.cpu_time_total == 0 for e in on_device(recorded))


def test_kernels_belong_to_the_operation_that_launched_them(recorded):
    def kernels(name):
        result, inside = [], [e for e in recorded.events() if e.name == name]
        while inside:
            event = inside.pop()
            result += [k.name for k in event.kernels]
            inside += event.cpu_children
        return result

    assert kernels("aten::mul") == ["mul"]
    assert "matmul" in kernels("aten::matmul")
    assert kernels("aten::cpu") == ["Memcpy DtoH"] and kernels("aten::to") == ["Memcpy HtoD"]
    whole = sum(e.self_device_time_total for e in recorded.events() if e.device_type.name == "CPU")
    assert whole == pytest.approx(sum(e.device_time_total for e in on_device(recorded)))


def test_columns_of_the_device(recorded):
    table = recorded.key_averages().table(sort_by="self_device_time_total")
    assert "Self OPENCL %" in table and "OPENCL Mem" in table and "Self OPENCL time total" in table
    (made,) = [e for e in recorded.events() if e.name == "aten::mul"]
    assert made.device_memory_usage >= 40000


def test_the_host_alone_may_be_recorded():
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        program()
    assert on_device(prof) == [] and all(not e.kernels for e in prof.events())
    with profile(activities=[ProfilerActivity.OPENCL]) as prof:
        program()
    assert on_device(prof) == prof.events()
    with profile() as prof:
        prof.toggle_collection_dynamic(False, [ProfilerActivity.OPENCL])
        program()
    assert on_device(prof) == []
