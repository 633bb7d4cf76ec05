"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: who holds the device's memory, pools, and none left."""

from __future__ import annotations

import gc
import pickle
import threading

import fake_cuda
import pytest

import flambeau

fake = fake_cuda.install()
cuda = flambeau.cuda
memory = cuda.memory
MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def _settled():
    cuda.synchronize()
    cuda.empty_cache()
    yield
    memory._record_memory_history(None)
    fake.set("delay", 0)
    fake.set("limit", 0)
    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    assert fake.live_bytes == cuda.memory_reserved() == sum(s["total_size"] for s in cuda.memory_snapshot())
    assert cuda.memory_stats()["active_bytes.all.current"] == cuda.memory_allocated()


def taken(nbytes):
    return flambeau.empty(nbytes, dtype=flambeau.uint8, device="cuda")


def segment_of(tensor):
    (result,) = [s for s in cuda.memory_snapshot() if s["address"] == tensor.data_ptr()]
    return result


def test_a_snapshot_says_what_is_held_and_what_is_free():
    x, y = taken(3 * MEGABYTE), taken(1000)
    small, large = segment_of(y), segment_of(x)
    assert (large["device"], large["stream"], large["segment_pool_id"]) == (0, 0, (0, 0))
    assert (small["segment_type"], large["segment_type"]) == ("small", "large")
    assert large["total_size"] == large["allocated_size"] == large["active_size"] >= 3 * MEGABYTE
    (block,) = large["blocks"]
    assert (block["address"], block["size"], block["state"]) == (
        x.data_ptr(),
        large["total_size"],
        "active_allocated",
    )
    assert sum(s["total_size"] for s in cuda.memory_snapshot()) == cuda.memory_reserved()
    place = x.data_ptr()
    del x
    (free,) = [s for s in cuda.memory_snapshot() if s["address"] == place]
    assert free["blocks"][0]["state"] == "inactive" and free["allocated_size"] == free["active_size"] == 0
    cuda.empty_cache()
    assert place not in [s["address"] for s in cuda.memory_snapshot()]
    del y


def test_blocks_that_streams_still_use():
    side = cuda.Stream()
    x = taken(MEGABYTE)
    place = x.data_ptr()
    x.record_stream(side)
    fake.set("delay", -1)
    with cuda.stream(side):
        y = x + 1
    del x
    (waiting,) = [s for s in cuda.memory_snapshot() if s["address"] == place]
    assert waiting["blocks"][0]["state"] == "active_awaiting_free"
    assert waiting["active_size"] == waiting["total_size"] and waiting["allocated_size"] == 0
    stats = cuda.memory_stats()
    assert stats["active_bytes.all.current"] == stats["allocated_bytes.all.current"] + waiting["total_size"]
    assert stats["active.all.current"] == stats["allocation.all.current"] + 1
    fake.set("delay", 0)
    cuda.synchronize()
    del y


def test_the_history_of_memory():
    memory._record_memory_history(max_entries=1000)
    x = taken(5000)
    place, size = x.data_ptr(), segment_of(x)["total_size"]
    frames = memory._allocation_traceback(place)
    mine = [f for f in frames if f["name"] == "test_the_history_of_memory"]
    assert mine and mine[0]["filename"] == __file__ and isinstance(mine[0]["line"], int)
    block = segment_of(x)["blocks"][0]
    assert block["requested_size"] == 5000 and block["frames"] == frames
    del x
    cuda.empty_cache()
    result = memory._snapshot()
    assert len(result["device_traces"]) == 2
    own = [(e["action"], e["size"]) for e in result["device_traces"][0] if e.get("addr") == place]
    assert own == [
        ("segment_alloc", size),
        ("alloc", size),
        ("free_requested", size),
        ("free_completed", size),
        ("segment_free", size),
    ]
    assert result["device_traces"][0][-1]["action"] == "snapshot"
    times = [e["time_us"] for e in result["device_traces"][0]]
    assert times == sorted(times) and all(e["frames"] for e in result["device_traces"][0][:-1])
    assert memory._allocation_traceback(place) is None
    memory._record_memory_history(None)
    y = taken(10)
    assert memory._allocation_traceback(y.data_ptr()) is None and memory._snapshot()["device_traces"] == [
        [],
        [],
    ]
    del y


def test_what_is_recorded():
    actions = lambda: [e["action"] for e in memory._snapshot()["device_traces"][0]]
    memory._record_memory_history("state")
    x = taken(100)
    assert memory._allocation_traceback(x.data_ptr()) and actions() == []
    memory._record_memory_history(context="alloc", skip_actions=["free_completed", "snapshot"])
    assert memory._allocation_traceback(x.data_ptr())  # what is held stays known
    del x
    y = taken(100)
    recorded = memory._snapshot()["device_traces"][0]
    assert [(e["action"], bool(e["frames"])) for e in recorded] == [
        ("free_requested", False),
        ("alloc", True),
    ]
    memory._record_memory_history(max_entries=1, context=None, clear_history=True)
    assert memory._allocation_traceback(y.data_ptr()) is None
    del y
    assert actions() == ["snapshot"]
    memory._record_memory_history(True, trace_alloc_max_entries=10, trace_alloc_record_context=True)
    z = taken(100)
    assert memory._allocation_traceback(z.data_ptr()) and actions()[-2:] == ["alloc", "snapshot"]
    memory._record_memory_history(False)
    for wrong in ({"enabled": "some"}, {"context": "none"}, {"stacks": "cpp"}, {"skip_actions": ["free"]}):
        with pytest.raises(RuntimeError, match=f"expected {next(iter(wrong))} to be one of"):
            memory._record_memory_history(**wrong)
    with pytest.raises(TypeError):
        memory._record_memory_history(entries=3)
    with pytest.raises(NotImplementedError, match="augment_with_fx_traces"):
        memory._snapshot(augment_with_fx_traces=True)
    del z


def test_a_snapshot_on_disk(tmp_path):
    memory._record_memory_history()
    x = taken(5000)
    memory._dump_snapshot(str(tmp_path / "some.pickle"))
    read = pickle.loads((tmp_path / "some.pickle").read_bytes())  # of Python's own types alone
    assert x.data_ptr() in [s["address"] for s in read["segments"]]
    assert {"alloc", "segment_alloc"} <= {e["action"] for e in read["device_traces"][0]}
    with pytest.raises(OSError):
        memory._dump_snapshot(str(tmp_path))
    del x


def test_no_memory_left_says_who_holds_it():
    fake.set("limit", 32 * MEGABYTE)
    big, small = taken(16 * MEGABYTE), [taken(2 * MEGABYTE) for _ in range(3)]
    free = taken(4 * MEGABYTE)
    del free  # given back, and not enough
    before = cuda.memory_stats()["num_alloc_retries"], cuda.memory_stats()["num_ooms"]
    with pytest.raises(cuda.OutOfMemoryError) as caught:
        taken(20 * MEGABYTE)
    text = str(caught.value)
    assert text.startswith(
        "CUDA out of memory. Tried to allocate 20.00 MiB: cannot allocate 20971520 bytes on cuda:0. "
    )
    assert "GPU 0 has a total capacity of 32.00 MiB of which 10.00 MiB is free." in text
    assert "22.00 MiB is allocated by flambeau, with 0 bytes allocated in private pools" in text
    assert "0 bytes is reserved by flambeau but unallocated" in text
    assert (
        "The most is held by 1 blocks of 16.00 MiB, 16.00 MiB in all; 3 blocks of 2.00 MiB, 6.00 MiB in all"
        in text
    )
    after = cuda.memory_stats()["num_alloc_retries"], cuda.memory_stats()["num_ooms"]
    assert after == (before[0] + 1, before[1] + 1)
    memory._record_memory_history()
    again = taken(8 * MEGABYTE)
    with pytest.raises(
        cuda.OutOfMemoryError, match=rf"allocated at {__file__}:\d+ \(taken\), 8.00 MiB in all"
    ):
        taken(20 * MEGABYTE)
    oom = [e for e in memory._snapshot()["device_traces"][0] if e["action"] == "oom"]
    assert [(e["size"], e["device_free"], bool(e["frames"])) for e in oom] == [
        (20 * MEGABYTE, 2 * MEGABYTE, True)
    ]
    del big, small, again
    assert taken(20 * MEGABYTE).numel() == 20 * MEGABYTE


def test_no_more_than_was_allowed():
    cuda.set_per_process_memory_fraction(2.0**-9)  # of 8 GiB
    try:
        with pytest.raises(cuda.OutOfMemoryError, match=r"16.00 MiB allowed; "):
            taken(17 * MEGABYTE)
        pool = cuda.MemPool()
        with cuda.use_mem_pool(pool), pytest.raises(cuda.OutOfMemoryError, match="16.00 MiB allowed; "):
            taken(17 * MEGABYTE)
        del pool
    finally:
        cuda.set_per_process_memory_fraction(1.0)


def test_all_that_is_counted():
    cuda.reset_accumulated_memory_stats()
    cuda.reset_peak_memory_stats()
    start = cuda.memory_stats()
    x = taken(MEGABYTE)
    del x
    cuda.empty_cache()
    stats = cuda.memory_stats()
    for what, n in (("segment", 1), ("reserved_bytes", MEGABYTE), ("active", 1), ("active_bytes", MEGABYTE)):
        assert stats[f"{what}.all.current"] == start[f"{what}.all.current"]
        for which in ("peak", "allocated", "freed"):
            assert stats[f"{what}.all.{which}"] - start[f"{what}.all.{which}"] == n, (what, which)
    assert stats["inactive_split.all.current"] == 0 and stats["num_device_free"] == 1
    summary = cuda.memory_summary()
    assert "Active memory" in summary and "GPU reserved segments" in summary


# --- pools ------------------------------
def test_a_pool_gives_to_its_own_tensors_alone():
    pool = cuda.MemPool()
    before = taken(MEGABYTE)
    with cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        x, y = taken(MEGABYTE), taken(MEGABYTE)
        place = y.data_ptr()
        del y
        assert taken(MEGABYTE).data_ptr() == place
    assert pool.use_count() == 1 and pool.device == flambeau.device("cuda:0")
    result = pool.snapshot()
    assert {s["address"] for s in result} == {x.data_ptr(), place} and {
        s["segment_pool_id"] for s in result
    } == {pool.id}
    assert sorted(s["blocks"][0]["state"] for s in result) == ["active_allocated", "inactive"]
    assert result == cuda.memory_snapshot(pool.id)
    others = [taken(MEGABYTE) for _ in range(3)]
    assert place not in [o.data_ptr() for o in others]
    cuda.empty_cache()
    assert len(pool.snapshot()) == 2  # it is used still
    with cuda.use_mem_pool(pool):
        assert taken(MEGABYTE).data_ptr() == place
    identity = pool.id
    del pool
    cuda.empty_cache()
    assert [s["address"] for s in cuda.memory_snapshot(identity)] == [x.data_ptr()]
    del x, before
    cuda.empty_cache()
    assert cuda.memory_snapshot(identity) == []


def test_pools_belong_to_the_thread_and_nest():
    outer, inner, result = cuda.MemPool(), cuda.MemPool(), []
    with cuda.use_mem_pool(outer):
        with cuda.use_mem_pool(inner):
            x = taken(MEGABYTE)
            thread = threading.Thread(target=lambda: result.append(taken(MEGABYTE)))
            thread.start()
            thread.join()
        y = taken(MEGABYTE)
    z = taken(MEGABYTE)
    pools = [segment_of(t)["segment_pool_id"] for t in (x, y, z, result[0])]
    assert pools == [inner.id, outer.id, (0, 0), (0, 0)]
    with pytest.raises(KeyError), cuda.use_mem_pool(inner):
        raise KeyError
    assert inner.use_count() == 1
    result.clear()


def test_a_pool_under_pressure():
    fake.set("limit", 8 * MEGABYTE)
    own, spare = cuda.MemPool(), cuda.MemPool(use_on_oom=True, no_split=True)
    for pool in (own, spare):
        with cuda.use_mem_pool(pool):
            x = taken(2 * MEGABYTE)
            del x
    cached = taken(2 * MEGABYTE)
    del cached
    with cuda.use_mem_pool(own):
        x = taken(5 * MEGABYTE)  # the cache and the spare pool are given back for it
    assert spare.snapshot() == [] and len(own.snapshot()) == 2
    with pytest.raises(cuda.OutOfMemoryError, match="5.00 MiB allocated in private pools"):
        taken(2 * MEGABYTE)
    del x


def test_a_graph_in_a_pool():
    pool = cuda.MemPool()
    x = flambeau.ones(1 << 12, device="cuda")
    made = cuda.CUDAGraph()
    with cuda.graph(made, pool=pool.id):
        y = x + 1
    assert made.pool() == pool.id and pool.use_count() == 2
    assert segment_of(y)["segment_pool_id"] == pool.id
    made.replay()
    assert set(y.tolist()) == {2.0}
    del made
    assert pool.use_count() == 1
    del y


def test_wrong_pools():
    with pytest.raises(
        TypeError, match=r"MemPool\(\): allocator must be what CUDAPluggableAllocator.allocator\(\) returns"
    ):
        cuda.MemPool(allocator=object())
    with pytest.raises(TypeError, match="must be a MemPool, not int"), cuda.use_mem_pool(3):
        pass
    with (
        pytest.raises(RuntimeError, match="one of cuda:0, not of cuda:1"),
        cuda.use_mem_pool(cuda.MemPool(), "cuda:1"),
    ):
        pass
