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
