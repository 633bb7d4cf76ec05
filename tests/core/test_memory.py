"""The allocator: what it counts, its limits, and that blocks come back."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import cpu


def test_what_tensors_hold_is_counted_and_comes_back():
    before = cpu.memory_allocated()
    x = flambeau.zeros(100_000)
    assert 400_000 <= cpu.memory_allocated() - before <= 500_000
    view = x[10:]
    del x
    assert cpu.memory_allocated() - before >= 400_000
    del view
    assert cpu.memory_allocated() == before


def test_the_peak():
    cpu.reset_peak_memory_stats()
    start = cpu.max_memory_allocated()
    assert start == cpu.memory_allocated()
    del_me = flambeau.zeros(50_000)
    del del_me
    assert cpu.max_memory_allocated() - start >= 200_000


def test_a_block_is_used_again_without_asking_the_system():
    x = flambeau.empty(12_345)
    place = x.data_ptr()
    del x
    calls = cpu.memory_stats()["system_allocations"]
    assert flambeau.empty(12_345).data_ptr() == place
    assert cpu.memory_stats()["system_allocations"] == calls


def test_an_emptied_cache_holds_nothing():
    del_me = flambeau.empty(1 << 20)
    del del_me
    assert cpu.memory_stats()["cached_bytes"] > 0
    cpu.empty_cache()
    assert cpu.memory_stats()["cached_bytes"] == 0


def test_the_limit_of_the_cache():
    cpu.empty_cache()
    try:
        cpu.set_cache_limit(1 << 16)
        del_me = flambeau.empty(1 << 20)
        del del_me
        assert cpu.memory_stats()["cached_bytes"] <= 1 << 16
    finally:
        cpu.set_cache_limit(4 << 30)
    with pytest.raises(ValueError, match="nbytes must be at least 0, got -1"):
        cpu.set_cache_limit(-1)


def test_the_limit_of_memory():
    """Cached blocks are given back before an allocation is refused."""
    cpu.empty_cache()
    held = cpu.memory_allocated()
    try:
        cpu.set_memory_limit(held + (10 << 20))
        kept = flambeau.empty(1 << 20)  # 4 MiB
        cached = flambeau.empty(1 << 20)
        del cached
        larger = flambeau.empty(5 << 18)  # 5 MiB: fits once the cached block is gone
        with pytest.raises(flambeau.OutOfMemoryError, match="the limit is"):
            flambeau.empty(1 << 20)
        assert kept.numel() + larger.numel() > 0
    finally:
        cpu.set_memory_limit(None)
    assert flambeau.empty(16 << 20).numel() == 16 << 20


def test_an_allocation_that_no_machine_has():
    with pytest.raises(RuntimeError, match="cannot allocate"):
        flambeau.empty(1 << 50)


def test_a_block_of_any_size_waits_for_the_next_result():
    """The second large result meets no page for the first time."""
    import resource

    faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    elements = (96 << 20) // 4
    x = flambeau.empty(elements).fill_(1.0)
    x = None
    calls, before = cpu.memory_stats()["system_allocations"], faults()
    x = flambeau.empty(elements).fill_(2.0)
    assert cpu.memory_stats()["system_allocations"] == calls
    assert faults() - before < 1000 and x is not None  # 96 MiB are 24,576 pages, or 48 huge ones


def test_blocks_of_another_time_go_where_new_ones_would_not_wait():
    cpu.empty_cache()
    try:
        cpu.set_cache_limit(6 << 20)
        for count in (
            1 << 20,
            5 << 18,
            3 << 19,
        ):  # of 4, 5 and 6 MiB: each as large as what may wait, or nearly so
            x = flambeau.empty(count)
            place = x.data_ptr()
            x = None
            assert 0 < cpu.memory_stats()["cached_bytes"] <= 6 << 20
            x = flambeau.empty(count)
            assert x.data_ptr() == place
            x = None
    finally:
        cpu.set_cache_limit(4 << 30)
        cpu.empty_cache()
