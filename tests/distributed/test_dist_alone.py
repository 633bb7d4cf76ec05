"""A world of processes in which MPI was up before, for each alone: as a program leaves it that looks for mpiexec by mpi4py.MPI."""

import json
import os
import socket
import subprocess
import sys

import pytest

from flambeau.distributed._mpi import library

PROGRAM = """
import datetime, json, os, subprocess, sys
rank, size, early = int(os.environ.get("LOCAL_RANK", 0)), int(sys.argv[1]), json.loads(sys.argv[2])
if rank in early:
    from mpi4py import MPI
    assert MPI.COMM_WORLD.Get_size() == 1
    if "finalize" in sys.argv:
        MPI.Finalize()
others = []
if rank == 0:  # starts the others itself, as lightning does
    for other in range(1, size):
        environment = {**os.environ, "LOCAL_RANK": str(other)}
        others.append(subprocess.Popen([sys.executable, *sys.orig_argv[1:]], env=environment, stdout=subprocess.PIPE, text=True))
os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
import flambeau as torch
import flambeau.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
summed, large = torch.tensor([rank + 1.0]), torch.ones(1 << 20)
dist.all_reduce(summed)
dist.all_reduce(large)
gathered = [None] * size
dist.all_gather_object(gathered, f"of {rank}")
half = dist.new_group(list(range(size - 1)))
part = torch.tensor([rank + 1])
if rank < size - 1:
    dist.all_reduce(part, group=half)
if rank == 0:
    dist.send(torch.arange(5), size - 1)
got = torch.zeros(5, dtype=torch.int64)
if rank == size - 1:
    dist.recv(got, 0)
from mpi4py import MPI
seen = [MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.allreduce(rank), MPI.COMM_SELF.Get_size()]
if "die" in sys.argv and rank == size - 1:
    os.kill(os.getpid(), 9)
error = None
try:
    dist.barrier()
except RuntimeError as raised:
    error = str(raised)
said = [rank, summed.tolist(), large.unique().tolist(), gathered, part.tolist(), got.tolist(), seen, error]
results = [said] + [json.loads(text) for text in (other.communicate()[0] for other in others) if text]
print(json.dumps(results if rank == 0 else said), flush=True)
dist.destroy_process_group()
sys.exit(any(other.returncode > 0 for other in others))
"""


def run(size: int, early: list[int], *words: str) -> list:
    with socket.create_server(("127.0.0.1", 0)) as result:
        port = str(result.getsockname()[1])
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-c", PROGRAM, str(size), json.dumps(early), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def expected(rank: int, size: int) -> list:
    everyone = [f"of {other}" for other in range(size)]
    part = sum(range(1, size)) if rank < size - 1 else size
    got = list(range(5)) if rank == size - 1 else [0] * 5
    return [rank, [sum(range(1, size + 1))], [size], everyone, [part], got]


needs_mpich = pytest.mark.skipif(not library().is_mpich, reason="Open MPI's worlds are mpiexec's")


@needs_mpich
@pytest.mark.parametrize("size, early", [(2, [0, 1]), (3, [1])])
def test_a_world_is_formed_after_mpi_was_initialised_alone(size: int, early: list[int]) -> None:
    results = run(size, early)
    for rank, (*values, seen, error) in enumerate(results):
        assert values == expected(rank, size)
        assert seen == [1, rank, 1]  # mpi4py's world is what the program has seen before
        assert error is None


@needs_mpich
def test_a_world_is_formed_after_mpi_was_finalized() -> None:
    assert [result[:6] for result in run(2, [0], "finalize")] == [expected(rank, 2) for rank in range(2)]


@needs_mpich
def test_a_death_is_named_there_too() -> None:
    results = run(3, [0, 1, 2], "die")
    assert len(results) == 2 and all("rank 2 died" in result[-1] for result in results)
