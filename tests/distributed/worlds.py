"""Real processes for tests: a function in each, its results and its errors."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import flambeau.distributed as dist

PATIENCE = 120.0  # seconds until a world counts as hung


class Ended:
    """A process that ended without a result: by a signal, or by its own `os._exit`."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def __repr__(self) -> str:
        return f"Ended({self.code})"


def _run(
    pipe: Any, fn: Callable, rank: int, size: int, path: str, seconds: float, form: bool, args: tuple
) -> None:
    try:
        if form:
            dist.init_process_group(
                "gloo",
                init_method=f"file://{path}",
                rank=rank,
                world_size=size,
                timeout=timedelta(seconds=seconds),
            )
        pipe.send((True, fn(rank, size, *args)))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
        sys.exit(1)


@contextlib.contextmanager
def started(
    size: int, fn: Callable, *args: Any, seconds: float = 60.0, form: bool = True
) -> Iterator[tuple[list[Any], list[Any]]]:
    """Processes that run `fn(rank, size, *args)` in a group of all, and the ends of their pipes; killed at the end."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        processes, pipes = [], []
        try:
            for rank in range(size):
                here, there = context.Pipe(duplex=False)
                process = context.Process(
                    target=_run, args=(there, fn, rank, size, path, seconds, form, args)
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


def results(processes: list[Any], pipes: list[Any]) -> list[Any]:
    """What each process returned, or `Ended`; AssertionError with the traceback of one that raised, or if one hangs."""
    end, found = time.monotonic() + PATIENCE, []
    for rank, (process, pipe) in enumerate(zip(processes, pipes)):
        assert pipe.poll(max(end - time.monotonic(), 0)), f"rank {rank} hangs"
        try:
            fine, value = pipe.recv()
        except EOFError:
            process.join(10)
            fine, value = True, Ended(process.exitcode)
        found.append((rank, fine, value))
    wrong = [f"rank {rank}:\n{value}" for rank, fine, value in found if not fine]
    assert not wrong, "\n".join(wrong)
    return [value for _, _, value in found]


def world(size: int, fn: Callable, *args: Any, seconds: float = 60.0, form: bool = True) -> list[Any]:
    """The results of `fn(rank, size, *args)` in each of `size` processes."""
    with started(size, fn, *args, seconds=seconds, form=form) as (processes, pipes):
        found = results(processes, pipes)
        for process in processes:
            process.join(20)
            assert process.exitcode is not None, "a process does not end"
        return found
