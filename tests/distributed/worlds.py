"""Real processes for tests: a function in each, its results and its errors.

With MPICH the processes are forked; Open MPI's are started by its mpiexec, and run this file.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import flambeau.distributed as dist
from flambeau.distributed import _mpiexec
from flambeau.distributed._mpi import library

PATIENCE = 120.0  # seconds until a world counts as hung


class Ended:
    """A process that ended without a result: by a signal, or by its own `os._exit`."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def __repr__(self) -> str:
        return f"Ended({self.code})"


def _run(
    pipe: Any,
    fn: Callable,
    rank: int,
    size: int,
    path: str,
    seconds: float,
    starting: float,
    form: bool,
    args: tuple,
) -> None:
    try:
        if form:
            dist.init_process_group(
                "gloo",
                init_method=f"file://{path}",
                rank=rank,
                world_size=size,
                timeout=timedelta(seconds=starting),
            )
            dist.group.WORLD.set_timeout(timedelta(seconds=seconds))
        pipe.send((True, fn(rank, size, *args)))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
        sys.exit(1)


@contextlib.contextmanager
def started(
    size: int, fn: Callable, *args: Any, seconds: float = 60.0, starting: float = 60.0, form: bool = True
) -> Iterator[tuple[list[Any], list[Any]]]:
    """Processes that run `fn(rank, size, *args)` in a group of all, and the ends of their pipes; killed at the end.

    `seconds`, `starting`: how long calls, and the start of the group, wait for others.
    """
    if form and not library().is_mpich:
        with by_mpiexec(size, fn, args, seconds) as result:
            yield result
        return
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        processes, pipes = [], []
        try:
            for rank in range(size):
                here, there = context.Pipe(duplex=False)
                process = context.Process(
                    target=_run, args=(there, fn, rank, size, path, seconds, starting, form, args)
                )
                process.start()
                there.close()
                processes.append(process)
                pipes.append(here)
            yield processes, pipes
        finally:
            for process in processes:
                process.kill()
                process.join()


class Remote:
    """A process of mpiexec, used as one of multiprocessing."""

    def __init__(self, pid: int, job: subprocess.Popen) -> None:
        self.pid, self.job = pid, job

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def join(self, seconds: float | None = None) -> None:
        end = time.monotonic() + (PATIENCE if seconds is None else seconds)
        while self.exitcode is None and time.monotonic() < end:
            time.sleep(0.01)

    @property
    def exitcode(self) -> int | None:
        """0 for one that is gone: mpiexec alone knows more."""
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                return 0 if file.read().rpartition(")")[2].split()[0] == "Z" else None
        except OSError:
            return 0


@contextlib.contextmanager
def by_mpiexec(size: int, fn: Callable, args: tuple, seconds: float) -> Iterator[tuple[list[Any], list[Any]]]:
    with tempfile.TemporaryDirectory() as folder, Listener(f"{folder}/results") as listener:
        name = fn.__module__, fn.__qualname__, os.path.dirname(sys.modules[fn.__module__].__file__ or "")
        with open(f"{folder}/call", "wb") as file:
            pickle.dump((name, size, args, seconds), file)
        job = subprocess.Popen(
            _mpiexec.command(size, [sys.executable, __file__, folder]),
            env=_mpiexec.environment(os.environ),
            start_new_session=True,
        )
        pipes: list[Any] = [None] * size
        processes: list[Any] = [None] * size
        try:
            for _ in range(size):
                connection: Connection = listener.accept()
                rank, pid = connection.recv()
                pipes[rank], processes[rank] = connection, Remote(pid, job)
            yield processes, pipes
            job.wait(PATIENCE)
        finally:
            for process in processes:
                if process is not None:
                    process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def _remote(folder: str) -> None:
    """What a process of mpiexec does."""
    with open(f"{folder}/call", "rb") as file:
        (module, name, place), size, args, seconds = pickle.load(file)
    sys.path.insert(0, place)
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    pipe = Client(f"{folder}/results")
    pipe.send((rank, os.getpid()))
    fn = getattr(importlib.import_module(module), name)
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=60))
        dist.group.WORLD.set_timeout(timedelta(seconds=seconds))
        pipe.send((True, fn(rank, size, *args)))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
        raise


def results(processes: list[Any], pipes: list[Any]) -> list[Any]:
    """What each process returned, or `Ended`; AssertionError with the traceback of one that raised, or if one hangs."""
    end, result = time.monotonic() + PATIENCE, []
    for rank, (process, pipe) in enumerate(zip(processes, pipes)):
        assert pipe.poll(max(end - time.monotonic(), 0)), f"rank {rank} hangs"
        try:
            fine, value = pipe.recv()
        except EOFError:
            process.join(10)
            fine, value = True, Ended(process.exitcode)
        result.append((rank, fine, value))
    wrong = [f"rank {rank}:\n{value}" for rank, fine, value in result if not fine]
    assert not wrong, "\n".join(wrong)
    return [value for _, _, value in result]


def world(size: int, fn: Callable, *args: Any, seconds: float = 60.0, form: bool = True) -> list[Any]:
    """The results of `fn(rank, size, *args)` in each of `size` processes."""
    with started(size, fn, *args, seconds=seconds, form=form) as (processes, pipes):
        result = results(processes, pipes)
        for process in processes:
            process.join(20)
            assert process.exitcode is not None, "a process does not end"
        return result


if __name__ == "__main__":
    _remote(sys.argv[1])
