"""What the others are told when a process dies, freezes, leaves, raises, or calls something else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from worlds import Ended, results, started, world

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed import DistBackendError

SEGMENTS = Path("/dev/shm")


def segments() -> set[str]:
    """Blocks of shared memory that an MPI library has named."""
    return {path.name for path in SEGMENTS.iterdir() if "mpi" in path.name.lower()}


def left_over(before: set[str]) -> set[str]:
    """Those that stay; worlds of other tests, which run meanwhile, have some while they start."""
    end = time.monotonic() + 30
    while (found := segments() - before) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def until_an_error(rank, size, victim, number, asynchronous):
    """What a survivor hears, when, and how a second call fails; the victim ends itself in the middle."""
    x = torch.ones(1 << 16)
    for k in range(100_000):
        if rank == victim and k == 5:
            os.kill(os.getpid(), number)
        try:
            work = dist.all_reduce(x.fill_(1.0), async_op=asynchronous)
            if asynchronous:
                work.wait()
        except DistBackendError as error:
            heard = time.time()
            with pytest.raises(DistBackendError, match="not usable any more"):
                dist.barrier()
            return str(error), heard
    return None


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_killed_process_is_named_by_the_others(victim, asynchronous):
    before = segments()
    with started(3, until_an_error, victim, signal.SIGKILL, asynchronous) as (processes, pipes):
        found = results(processes, pipes)
        assert isinstance(found[victim], Ended) and found[victim].code == -signal.SIGKILL
        for rank in {0, 1, 2} - {victim}:
            said, _ = found[rank]
            assert f"all_reduce on rank {rank}: rank {victim} died" in said
            processes[rank].join(20)
            assert processes[rank].exitcode == 0
    assert not left_over(before)


def test_a_process_that_is_killed_between_calls():
    with started(2, killed_while_idle) as (processes, pipes):
        assert "rank 1 died" in results(processes, pipes)[0]


def killed_while_idle(rank, size):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    world = dist.group.WORLD._world
    with world.gone.heard:
        assert world.gone.heard.wait_for(lambda: world.gone.dead, 60)
    with pytest.raises(DistBackendError) as caught:
        dist.all_reduce(torch.ones(1))
    return str(caught.value)


def test_a_frozen_process_is_a_timeout():
    with started(3, until_an_error, 1, signal.SIGSTOP, False, seconds=1.5) as (processes, pipes):
        for rank in (0, 2):
            assert pipes[rank].poll(60)
            fine, (said, _) = pipes[rank].recv()
            assert fine and f"all_reduce on rank {rank}: timed out after 1500ms" in said
            processes[rank].join(20)
            assert processes[rank].exitcode == 0


def ended_early(rank, size, how):
    x = torch.ones(100)
    dist.all_reduce(x)
    if rank == 1:
        if how == "raises":
            raise KeyError("rank 1's own")
        return "left"
    with pytest.raises(DistBackendError) as caught:
        dist.all_reduce(x)
    return str(caught.value)


def test_a_process_that_leaves_before_the_others():
    assert world(2, ended_early, "returns") == ["all_reduce on rank 0: rank 1 has left", "left"]


def test_a_process_that_raises():
    with started(2, ended_early, "raises") as (processes, pipes):
        assert pipes[1].recv()[0] is False
        assert pipes[0].recv() == (True, "all_reduce on rank 0: rank 1 has ended by an error")


def without_farewell(rank, size):
    y = torch.full((1 << 20,), float(rank))
    for _ in range(20):
        dist.all_reduce(y.fill_(1.0))
    return y[0].item()  # some processes are gone while others still test the last call


def test_an_end_without_destroy_does_not_hang():
    before = segments()
    for _ in range(3):
        assert world(4, without_farewell) == [4.0] * 4
    assert not left_over(before)


def differing(rank, size, case):
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    x = torch.ones(4)
    dist.all_reduce(x)  # alike
    with pytest.raises(RuntimeError) as caught:
        if case == "shape":
            dist.all_reduce(torch.ones(4 + rank))
        elif case == "dtype":
            dist.all_reduce(torch.ones(4, dtype=torch.float64 if rank else torch.float32))
        elif case == "op":
            dist.all_reduce(x, dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
        elif case == "root":
            dist.broadcast(x, src=rank)
        else:
            dist.barrier() if rank else dist.all_reduce(x)
    return str(caught.value)


@pytest.mark.parametrize(
    "case, here, there",
    [
        ("shape", "all_reduce(flambeau.float32[4], SUM)", "all_reduce(flambeau.float32[5], SUM)"),
        ("dtype", "all_reduce(flambeau.float32[4], SUM)", "all_reduce(flambeau.float64[4], SUM)"),
        ("op", "all_reduce(flambeau.float32[4], SUM)", "all_reduce(flambeau.float32[4], MAX)"),
        ("root", "broadcast(flambeau.float32[4], src=0)", "broadcast(flambeau.float32[4], src=1)"),
        ("order", "all_reduce(flambeau.float32[4], SUM)", "barrier()"),
    ],
)
def test_calls_that_differ_are_told_with_both_sides(case, here, there):
    said = world(2, differing, case)
    file = Path(__file__).name
    assert said[0].startswith(
        f"Detected mismatch between collectives on ranks. Rank 0 is running collective 2 of the group: {here} at {file}:"
    )
    assert f"but Rank 1 is running collective 2: {there} at {file}:" in said[0]
    assert (
        f"Rank 1 is running collective 2 of the group: {there}" in said[1]
        and f"but Rank 0 is running collective 2: {here}" in said[1]
    )


def monitored(rank, size, late):
    dist.monitored_barrier()
    if rank in late:
        return None
    if rank != 0:
        with pytest.raises(DistBackendError):
            dist.monitored_barrier(timeout=timedelta(seconds=20))
        return None
    with pytest.raises(RuntimeError) as caught:
        dist.monitored_barrier(timeout=timedelta(seconds=0.5), wait_all_ranks=True)
    return str(caught.value)


def test_a_monitored_barrier_names_who_has_not_come():
    with started(4, monitored, (2, 3), seconds=4) as (processes, pipes):
        assert "Ranks 2, 3 failed to pass monitoredBarrier in 500 ms" in results(processes, pipes)[0]


def not_waited_for(rank, size):
    if rank == 1:
        time.sleep(1.0)
        dist.all_reduce(torch.ones(1))
        return True
    work = dist.all_reduce(torch.ones(1), async_op=True)
    with pytest.raises(DistBackendError, match="all_reduce: not done after 0:00:00.050000"):
        work.wait(timedelta(seconds=0.05))
    assert not work.is_completed()
    return work.wait()


def test_a_wait_that_is_given_up_does_not_end_the_call():
    assert world(2, not_waited_for) == [True, True]


def forked(rank, size):
    x = torch.ones(1000)
    work = dist.all_reduce(x, async_op=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if not dist.is_initialized():
                dist.all_reduce(x)
        except ValueError as error:
            code = 0 if "Default process group has not been initialized" in str(error) else 2
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    work.wait()
    for _ in range(5):
        dist.all_reduce(x)
    dist.barrier()
    return code, x[0].item()


def test_a_forked_process_is_in_no_group():
    assert world(2, forked) == [(0, 64.0)] * 2


def workers(rank, size):
    data = torch.utils.data.TensorDataset(torch.arange(16.0).view(8, 2))
    dist.all_reduce(torch.ones(1))
    total = sum(batch[0].sum() for batch in torch.utils.data.DataLoader(data, batch_size=2, num_workers=2))
    dist.all_reduce(total)
    return total.item()


def test_workers_of_a_loader_beside_a_group():
    assert world(2, workers) == [240.0, 240.0]


CHILD = """
import sys, os, flambeau as torch, flambeau.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1: raise KeyError("mine")
dist.barrier()
"""


def test_under_mpiexec_an_error_ends_all(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CHILD)
    mpiexec = Path(sys.executable).parent / "mpiexec"
    before = segments()
    done = subprocess.run(
        [str(mpiexec), "-n", "2", sys.executable, str(program)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode != 0 and "KeyError: 'mine'" in done.stderr
    assert not left_over(before)
