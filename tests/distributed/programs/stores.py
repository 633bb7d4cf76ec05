"""Stores: counters, keys that processes wait for, and groups that meet through them.

python stores.py N
"""

import os
import sys
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size, port, path):
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0, timedelta(seconds=60))
    store.set(f"name/{rank}", f"process {rank}")
    store.wait([f"name/{other}" for other in range(size)], timedelta(seconds=60))
    total = store.add("visits", rank + 1)
    store.add("through", 1)
    while int(store.add("through", 0)) < size:
        pass
    prefixed = dist.PrefixStore("of", store)
    prefixed.set("key", "value")
    files = dist.FileStore(os.path.join(path, "files"), size)
    files.set(str(rank), str(rank * rank))
    files.wait([str(other) for other in range(size)])
    squares = [int(files.get(str(other))) for other in range(size)]
    swapped = store.compare_set("once", "", "first")
    try:
        store.wait(["never"], timedelta(milliseconds=50))
        raise AssertionError("a key that nobody sets was there")
    except dist.DistStoreError:
        pass
    assert total >= rank + 1 and swapped == b"first"

    dist.init_process_group("gloo", store=dist.PrefixStore("world", store), rank=rank, world_size=size)
    x = torch.tensor([float(rank + 1)])
    dist.all_reduce(x)
    if rank == 0:
        names = [store.get(f"name/{other}").decode() for other in range(size)]
        print(names, int(store.get("visits")), squares, store.get("of/key").decode(), x.item(), flush=True)
        print("deleted", store.delete_key("of/key"), store.check(["of/key"]), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        port = int(os.environ.get("MASTER_PORT", "29514"))
        mp.spawn(work, args=(int(sys.argv[1]), port, folder), nprocs=int(sys.argv[1]))
