"""What the others are told when a process dies, freezes, leaves, raises, or calls something else."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from worlds import Ended, results, started, world

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed import DistBackendError, DistNetworkError, _mpiexec
from flambeau.distributed._mpi import library

SEGMENTS = Path("/dev/shm")
MPICH = dist.is_mpi_available() and library().is_mpich  # else Open MPI, whose mpiexec alone knows exit codes

ONLY_MPICH = pytest.mark.skipif(not MPICH, reason="a world without mpiexec, which Open MPI does not make")


def segments() -> set[str]:
    """Blocks of shared memory that an MPI library has named."""
    return {path.name for path in SEGMENTS.iterdir() if "mpi" in path.name.lower()}


def left_over(before: set[str]) -> set[str]:
    """Those that stay; worlds of other tests, which run meanwhile, have some while they start."""
    end = time.monotonic() + 30
    while (result := segments() - before) and time.monotonic() < end:
        time.sleep(0.1)
    return result


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
        result = results(processes, pipes)
        assert isinstance(result[victim], Ended)
        assert result[victim].code == (-signal.SIGKILL if MPICH else 0)
        for rank in {0, 1, 2} - {victim}:
            said, _ = result[rank]
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
    with world.watch.heard:
        assert world.watch.heard.wait_for(lambda: world.watch.dead, 60)
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
        assert pipes[0].recv() == (
            True,
            """all_reduce on rank 0: rank 1 has ended by an error: KeyError: "rank 1's own\"""",
        )


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
        [str(mpiexec), "-n", "2", sys.executable, str(program)],
        env=_mpiexec.environment(os.environ),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode != 0 and "KeyError: 'mine'" in done.stderr
    assert not left_over(before)


# Whoever dies, whenever -----------------------------------------------------------------------------------------------------
KILLS = int(os.environ.get("FLAMBEAU_TEST_KILLS", "4"))  # worlds in which a process is killed at any moment


def goes_on(rank, size, victim, seed):
    """Calls until the victim is dead, then among those that are left."""
    chance = random.Random(seed)
    n = chance.choice([100, 1 << 16, 3 << 20])  # the last goes in pieces
    if rank == victim:
        threading.Timer(chance.random() * 0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
    x = torch.ones(n)
    try:
        while True:
            dist.all_reduce(x.fill_(1.0))
            dist.all_reduce(x.fill_(1.0), async_op=True).wait()
    except DistBackendError as error:
        heard, said, lost = time.time(), str(error), error.lost_ranks
    old = dist.group.WORLD
    small = dist.shrink_group([victim])
    assert small is dist.group.WORLD is not old
    y = torch.full((1000,), float(dist.get_rank() + 1))
    dist.all_reduce(y)
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        dist.all_reduce(torch.ones(1), group=pair)
    with pytest.raises(ValueError, match="destroyed"):
        dist.all_reduce(y, group=old)
    return said, heard, lost, dist.get_rank(), dist.get_world_size(), y[-1].item()


@pytest.mark.parametrize("seed", range(KILLS))
def test_others_go_on_without_a_process_that_is_killed(seed):
    before = segments()
    size = 3 + seed % 2
    victim = seed % size
    with started(size, goes_on, victim, seed) as (processes, pipes):
        processes[victim].join(60)
        dead = time.time()
        result = results(processes, pipes)
        left = [rank for rank in range(size) if rank != victim]
        assert isinstance(result[victim], Ended)
        for new, rank in enumerate(left):
            said, heard, lost, *rest = result[rank]
            assert f"all_reduce on rank {rank}: rank {victim} died" in said and lost == [victim]
            assert heard - dead < 30  # measured: milliseconds
            assert rest == [new, size - 1, float(sum(range(1, size)))]
            processes[rank].join(20)
            assert processes[rank].exitcode == 0
    assert not left_over(before)


def one_after_the_other(rank, size):
    """Rank 0 dies, then rank 1: the second death is heard of, too."""
    heard = []
    for victim in (0, 1):
        dist.barrier()
        if rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(DistBackendError) as caught:
            while True:
                dist.barrier()
        heard.append(str(caught.value))
        dist.shrink_group([0])  # ranks count from 0 again
    return heard, dist.get_rank(), dist.get_world_size()


@ONLY_MPICH
def test_the_watch_outlives_who_has_served_the_start():
    result = world_of(4, one_after_the_other)
    for new, rank in enumerate((2, 3)):
        heard, own, size = result[rank]
        assert "rank 0 died" in heard[0] and "rank 0 died" in heard[1]  # the second had been rank 1
        assert (own, size) == (new, 2)


def world_of(size, fn):
    with started(size, fn) as (processes, pipes):
        return results(processes, pipes)


def idle(rank, size):
    dist.all_reduce(torch.ones(1))
    return True


@ONLY_MPICH
def test_a_process_that_is_killed_while_the_world_starts():
    before = segments()
    for number in range(2):
        with started(3, idle, starting=3.0) as (processes, pipes):
            time.sleep(0.15)
            processes[number].kill()
            for rank in {0, 1, 2} - {number}:
                assert pipes[rank].poll(60)
                try:
                    fine, said = pipes[rank].recv()
                except EOFError:  # MPICH itself has ended a process in the middle of MPI_Init
                    continue
                words = ("died", "did not come", "has ended by an error")
                assert fine or (f"rank {number}" in said and any(word in said for word in words)), said
                processes[rank].join(20)
    assert not left_over(before)


def strangers(rank, size):
    place, key = dist.group.WORLD._world.watch.address.split()
    host, _, port = place.rpartition(":")
    lines = [
        b"\x00\xff\n" * 50,
        b"watch wrong 1\n",
        f"watch {key} 9\n".encode(),
        f"ask {key} not json\n".encode(),
    ]
    lines += [
        f"ask {key} ".encode() + b"{}\n",
        b"dead 1\n",
        b"x" * 100_000,
        f"watch {key} {rank}x\n".encode(),
    ]
    for line in lines:
        with socket.create_connection((host, int(port)), 10) as connection:
            try:
                connection.sendall(line)
                connection.settimeout(10)
                assert connection.recv(100) == b""
            except ConnectionError:
                continue  # refused in the middle of a line
    dist.barrier()
    x = torch.ones(1)
    dist.all_reduce(x)
    lost = dist.group.WORLD._world.lost_ranks()
    dist.barrier()
    return x.item(), lost


def test_strangers_at_the_watch_change_nothing():
    assert world(2, strangers) == [(2.0, []), (2.0, [])]


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DistNetworkError, match=f"127.0.0.1.*{port}.*in use"):
            dist.TCPStore("127.0.0.1", port, is_master=True)
        with pytest.raises(DistNetworkError, match=f"127.0.0.1.*{port}.*in use"):
            dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=2)


def test_a_server_that_speaks_nonsense_is_named():
    def serve():
        connection, _ = listening.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        store = dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=5))
        with pytest.raises(DistNetworkError, match=f"127.0.0.1:{port}.*no store"):
            store.set("a", "1")
        thread.join(10)


def too_many(rank, size):
    folder = os.environ["FLAMBEAU_TEST_STORE"]
    with pytest.raises(DistBackendError, match="rank 2 did not come"):
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}", rank=rank, world_size=3, timeout=timedelta(seconds=1)
        )
    return True


@ONLY_MPICH
def test_a_world_of_the_wrong_size_says_who_did_not_come(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_TEST_STORE", str(tmp_path / "store"))
    assert world(2, too_many, form=False) == [True, True]


@pytest.mark.parametrize(
    "ranks, error, said",
    [
        ((1,), TypeError, "must be a list, but got tuple"),
        ([], ValueError, "cannot be empty"),
        (["1"], TypeError, "must be integers, got '1' at index 0"),
        ([4], ValueError, "Rank 4 at index 0 is out of bounds for group size 4"),
        ([-1], ValueError, "Rank -1 at index 0 is out of bounds"),
        ([1, 1], ValueError, "Duplicate rank 1 found in ranks_to_exclude at index 1"),
        ([0, 1, 2, 3], ValueError, "Cannot exclude all 4 ranks"),
        ([1, 2], RuntimeError, "Current rank 2 is in the exclusion list"),
    ],
)
def test_ranks_that_cannot_be_excluded(ranks, error, said):
    dist.init_process_group("fake", rank=2, world_size=4)
    try:
        with pytest.raises(error, match=said):
            dist.shrink_group(ranks)
        with pytest.raises(ValueError, match="Invalid shrink_flags value: 7"):
            dist.shrink_group([0], shrink_flags=7)
        part = dist.shrink_group([0], dist.new_group([1, 2, 3]))
        assert dist.get_process_group_ranks(part) == [2, 3] and dist.get_world_size() == 4
    finally:
        dist.destroy_process_group()
