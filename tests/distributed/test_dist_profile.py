"""What a profile shows of collectives: one event a call, bytes, waiting, overlap with what is computed, who is who."""

from __future__ import annotations

import json

from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.profiler import profile


def profiled(rank, size, folder):
    x, half = torch.ones(1000), torch.ones(10, dtype=torch.float16)
    gathered = [torch.zeros(6) for _ in range(size)]
    dist.all_reduce(x)  # before the recording
    with profile(record_shapes=True) as prof:
        for _ in range(3):
            dist.all_reduce(x)
        dist.all_gather(gathered, torch.ones(6))
        dist.all_reduce(half, async_op=True).wait()
        if rank == 0:
            dist.send(torch.ones(4, dtype=torch.int64), dst=1)
        else:
            dist.recv(torch.ones(4, dtype=torch.int64), src=0)
        dist.barrier()
    dist.barrier()  # after it
    path = f"{folder}/{rank}.json"
    prof.export_chrome_trace(path)
    averages = {a.key: a for a in prof.key_averages()}
    counts = {key: a.count for key, a in averages.items() if key.startswith("gloo:")}
    ours = {c.name: (c.calls, c.bytes_in, c.bytes_out) for c in prof.collectives()}
    sane = all(
        0 <= c.waiting <= c.time * 1.01 and 0 <= c.overlapped <= c.time * 1.01 for c in prof.collectives()
    )
    waits = {c.name: c.waiting > 0 for c in prof.collectives()}
    assert averages["gloo:all_reduce"].self_cpu_time_total == 0  # it is not what a thread of the program ran
    return counts, ours, sane, waits


def test_each_call_is_an_event_with_its_bytes(tmp_path):
    for rank, (counts, ours, sane, waits) in enumerate(world(2, profiled, str(tmp_path))):
        message = "gloo:recv" if rank else "gloo:send"
        assert counts == {"gloo:all_reduce": 4, "gloo:all_gather": 1, message: 1, "gloo:barrier": 1}
        assert ours["gloo:all_reduce"] == (4, 3 * 4000 + 20, 3 * 4000 + 20)
        assert ours["gloo:all_gather"] == (1, 24, 48)
        assert ours[message] == (1, 32, 32) and ours["gloo:barrier"] == (1, 0, 0)
        assert sane and waits["gloo:all_reduce"] and waits["gloo:barrier"]
        trace = json.loads((tmp_path / f"{rank}.json").read_text())
        assert trace["distributedInfo"] == {
            "backend": "gloo",
            "rank": rank,
            "world_size": 2,
            "pg_count": 1,
            "pg_config": [
                {
                    "pg_name": "0",
                    "pg_desc": "default_pg",
                    "backend_config": "cpu:gloo",
                    "pg_size": 2,
                    "ranks": [0, 1],
                }
            ],
        }
        events = [e for e in trace["traceEvents"] if e.get("name") == "gloo:all_reduce"]
        args = events[0]["args"]
        assert args["Collective name"] == "all_reduce" and args["dtype"] == "Float"
        assert args["In msg nelems"] == args["Out msg nelems"] == 1000 and args["Group size"] == 2
        assert args["Process Group Ranks"] == "[0, 1]" and args["Rank"] == rank
        assert [e["args"]["Seq"] for e in events] == [2, 3, 4, 6]
        row = {e["tid"] for e in events}
        titles = [
            e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name" and e["tid"] in row
        ]
        assert len(titles) == 1 and "collectives of group 0" in titles[0]


def buckets(rank, size):
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    parallel = DistributedDataParallel(net, bucket_cap_mb=1)
    x = torch.randn(64, 512)
    parallel(x).sum().backward()
    with profile() as prof:
        for _ in range(3):
            parallel(x).sum().backward()
    (sums,) = [c for c in prof.collectives() if c.name == "gloo:all_reduce"]
    return sums.calls, sums.bytes_in, len(parallel.reducer.buckets), sums.overlapped > 0, sums.overlap <= 1


def test_buckets_of_a_module_overlap_with_backward():
    for count, size, number, overlapped, fraction in world(2, buckets):
        assert count == 3 * number and number >= 4
        assert size == 3 * 4 * (512 * 512 + 512) * 4
        assert overlapped and fraction
