"""Processes of one machine in a run that may have several, and what becomes of it when some of them fail.

A run goes in rounds.  In each, the launchers meet at a store, which one of them serves; they number themselves, and start their
processes, which form a world.  When a process fails, or a launcher comes or goes, all processes end and the next round begins with the
launchers that are there then.  What is to survive a round stands in the program's checkpoints.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType

from . import _mpiexec
from ._mpi import installed, library
from ._segments import remove_segments
from ._stores import DistError, DistNetworkError, DistStoreError, TCPStore
from .elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

_PR_SET_PDEATHSIG = 1
BETWEEN = 0.05  # seconds between looks at the processes
_ROUND = 0.5  # seconds between looks at the round
_PATIENCE = 15.0  # seconds between SIGTERM and SIGKILL
_PATIENCE_OF_MPIEXEC = 3.0  # which waits for the dead; its processes end with it
MEETING = timedelta(minutes=15)
LAST_CALL = 30.0  # seconds for more machines to come once there are enough


@dataclass
class Plan:
    """What to start, and where."""

    command: Sequence[str]
    least: int = 1  # machines
    most: int = 1
    per_node: int = 1
    node: int | None = None  # this machine's number, where it is fixed
    host: str = "127.0.0.1"  # of the store
    port: int = 0
    timeout: timedelta = MEETING
    last_call: float = LAST_CALL
    max_restarts: int = 0
    interval: float = BETWEEN
    role: str = "default"
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    log_dir: str | None = None


def launch(plan: Plan) -> None:
    """Run the processes of this machine to their end.

    Raises:
        ChildFailedError: processes failed, more often than they are started anew
        SystemExit: this process was ended by a signal
        DistError: too few machines came, or the one with the store is gone
    """
    store, serves = _store(plan)
    rounds = _Rounds(plan, store, serves)
    begun = time.time()
    while True:
        number, node, nodes = rounds.join()
        with tempfile.TemporaryDirectory(prefix="torchelastic_") as errors:
            try:
                if _run(plan, rounds, number, node, nodes, errors) and rounds.finish(number, nodes):
                    return
            except ChildFailedError as failure:
                remove_segments(begun)
                say(f"{listed(failure)}; the others are ended")
                if (failed := rounds.fail(number)) > plan.max_restarts:
                    raise
                say(f"restart {failed} of {plan.max_restarts}")
            else:
                say(f"the machines of the run have changed; round {number + 2} begins")


def say(text: str) -> None:
    print(f"torchrun: {text}", file=sys.stderr, flush=True)


def listed(error: ChildFailedError) -> str:
    return ", ".join(failure.said(rank) for rank, failure in error.failures.items())


# Rounds -------------------------------------------------------------------------------------------------------------------------
class _Rounds:
    """The rounds of a run, as its store has them."""

    def __init__(self, plan: Plan, store: TCPStore, serves: bool) -> None:
        self.plan, self.store, self.serves = plan, store, serves

    def now(self) -> int:
        """The round that is on."""
        return self.store.add("run/round", 0)

    def join(self) -> tuple[int, int, int]:
        """The round, this machine's number in it, and how many machines it has."""
        plan, end = self.plan, time.monotonic() + self.plan.timeout.total_seconds()
        while True:
            number = self.now()
            if plan.node is not None or plan.most == 1:
                return number, plan.node or 0, plan.most
            place = self.store.add(f"run/{number}/joined", 1) - 1
            if place == 0:
                self._close(number, end)
            size = int(self.store.get(f"run/{number}/size"))
            if place < size:
                return number, place, size
            if size < plan.most:  # there is room for this machine in the next one
                self._begin(number + 1)
            while self.now() == number:
                if time.monotonic() > end:
                    raise DistStoreError(
                        f"this machine is one too many for --nnodes {plan.least}:{plan.most}"
                    )
                time.sleep(_ROUND)

    def _close(self, number: int, end: float) -> None:
        """Wait for machines, and say how many there are."""
        plan, call = self.plan, time.monotonic() + self.plan.last_call
        while True:
            joined, now = self.store.add(f"run/{number}/joined", 0), time.monotonic()
            if joined >= plan.most or (joined >= plan.least and now > call):
                self.store.set(f"run/{number}/size", str(min(joined, plan.most)))
                return
            if now > end:
                raise DistStoreError(
                    f"{joined} machines came within {plan.timeout}, and --nnodes wants {plan.least}"
                )
            time.sleep(BETWEEN)

    def _begin(self, number: int) -> None:
        self.store.compare_set("run/round", str(number - 1), str(number))

    def fail(self, number: int) -> int:
        """Processes of a round have failed: how many rounds have."""
        first = self.store.add(f"run/{number}/failed", 1) == 1
        failed = self.store.add("run/failures", int(first))
        if failed <= self.plan.max_restarts:
            self._begin(number + 1)
        return failed

    def finish(self, number: int, nodes: int) -> bool:
        """All processes of this machine are through; False where another round begins.  Who serves the store stays until all are."""
        done = self.store.add(f"run/{number}/done", 1)
        while self.serves and done < nodes:
            if self.now() != number:
                return False
            time.sleep(BETWEEN)
            done = self.store.add(f"run/{number}/done", 0)
        return True


def _store(plan: Plan) -> tuple[TCPStore, bool]:
    """The store of the run, and whether it is served here: by the machine that has the address, unless another process there does."""
    if plan.most == 1:
        return TCPStore(plan.host, plan.port, is_master=True, timeout=plan.timeout), True
    if plan.node == 0 or (plan.node is None and _is_here(plan.host)):
        try:
            return TCPStore(plan.host, plan.port, is_master=True, timeout=plan.timeout), True
        except DistNetworkError:
            if plan.node == 0:
                raise
    return TCPStore(plan.host, plan.port, timeout=plan.timeout), False


def _is_here(host: str) -> bool:
    try:
        with socket.create_server((host, 0)):
            return True
    except OSError:
        return False


# Processes ----------------------------------------------------------------------------------------------------------------------
def _run(plan: Plan, rounds: _Rounds, number: int, node: int, nodes: int, errors: str) -> bool:
    """Run the processes of a round: True when all are through, False where another round begins before."""
    common, size = _environment(plan, rounds.store.port, number, node, nodes), plan.per_node
    first = node * plan.per_node
    processes: list[subprocess.Popen] = []
    by_mpiexec = size > 1 and installed() and not library().is_mpich
    with stop_signals() as stopped:
        try:
            if by_mpiexec:
                processes.append(_started_by_mpiexec(plan, common, first, number, errors))
            else:
                for local in range(size):
                    processes.append(_started(plan, common, first, local, number, errors))
            looked, running = time.monotonic(), True
            while running and not stopped:
                codes = [process.poll() for process in processes]
                running = None in codes
                ended = {
                    k: (p.pid, code) for k, (p, code) in enumerate(zip(processes, codes)) if code is not None
                }
                if by_mpiexec:
                    ended = _ended_of_mpiexec(processes[0], errors, size)
                failures = {
                    first + k: ProcessFailure(k, pid, code, _error_file(errors, k))
                    for k, (pid, code) in ended.items()
                    if code
                }
                if failures:
                    raise ChildFailedError(plan.role, failures)
                if plan.most > 1 and time.monotonic() - looked > _ROUND:
                    looked = time.monotonic()
                    if rounds.now() != number:
                        return False
                time.sleep(plan.interval if running else 0)
        finally:
            end_all(processes, _PATIENCE_OF_MPIEXEC if by_mpiexec else _PATIENCE)
    if stopped:
        raise SystemExit(128 + stopped[0])
    return True


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """The signals that end this process, which are written down meanwhile (in the main thread)."""
    stopped: list[int] = []

    def stop(signaled: int, frame: FrameType | None) -> None:
        stopped.append(signaled)

    handled = threading.current_thread() is threading.main_thread()
    before = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGINT)} if handled else {}
    try:
        yield stopped
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _environment(plan: Plan, port: int, number: int, node: int, nodes: int) -> dict[str, str]:
    """The environment that processes of a round have in common."""
    ours = ("PMI_", "OMPI_COMM_WORLD_", "MPI_LOCAL", "PMIX_", "PRTE_")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    if plan.per_node > 1:
        inherited.setdefault("OMP_NUM_THREADS", "1")
    return {**inherited, **facts(plan, plan.host, port, number, node, nodes)}


def facts(plan: Plan, host: str, port: int, number: int, node: int, nodes: int) -> dict[str, str]:
    """What all processes of a machine get about their round, and of the store at which they meet."""
    size = nodes * plan.per_node
    environment = dict(
        WORLD_SIZE=size,
        LOCAL_WORLD_SIZE=plan.per_node,
        GROUP_RANK=node,
        GROUP_WORLD_SIZE=nodes,
        ROLE_NAME=plan.role,
        ROLE_WORLD_SIZE=size,
        MASTER_ADDR=host,
        MASTER_PORT=port,
        TORCHELASTIC_RESTART_COUNT=number,
        TORCHELASTIC_MAX_RESTARTS=plan.max_restarts,
        TORCHELASTIC_RUN_ID=plan.run_id,
        TORCHELASTIC_USE_AGENT_STORE="True",
    )
    return {k: str(v) for k, v in environment.items()}


def _error_file(errors: str, local: int) -> str:
    return os.path.join(errors, f"{local}.json")


def _started(
    plan: Plan, common: dict[str, str], first: int, local: int, number: int, errors: str
) -> subprocess.Popen:
    rank = str(first + local)
    own = dict(
        RANK=rank, LOCAL_RANK=str(local), ROLE_RANK=rank, TORCHELASTIC_ERROR_FILE=_error_file(errors, local)
    )
    output = None
    if plan.log_dir is not None:
        folder = os.path.join(plan.log_dir, plan.run_id, f"attempt_{number}", rank)
        os.makedirs(folder, exist_ok=True)
        output = open(os.path.join(folder, "output.log"), "wb")  # the process's own from now on
    try:
        return subprocess.Popen(
            list(plan.command),
            env={**common, **own},
            stdout=output,
            stderr=output,
            preexec_fn=_die_with_parent,
        )
    finally:
        if output is not None:
            output.close()


def _started_by_mpiexec(
    plan: Plan, common: dict[str, str], first: int, number: int, errors: str
) -> subprocess.Popen:
    """Open MPI's processes, which its mpiexec starts."""
    if plan.most > 1:
        raise ValueError(
            "several machines: Open MPI's processes are started by its own mpiexec, not from here"
        )
    environment = {"FLAMBEAU_FIRST_RANK": str(first), "FLAMBEAU_EXIT_CODES": errors}
    if plan.log_dir is not None:
        environment["FLAMBEAU_LOGS"] = os.path.join(plan.log_dir, plan.run_id, f"attempt_{number}")
    program = _mpiexec.command(plan.per_node, _mpiexec.named(plan.command))
    return subprocess.Popen(
        program, env=_mpiexec.environment({**common, **environment}), preexec_fn=_die_with_parent
    )


def _ended_of_mpiexec(process: subprocess.Popen, errors: str, size: int) -> dict[int, tuple[int, int]]:
    """Which programs have ended, and how; where mpiexec has ended before some of them, it has ended these."""
    over = process.poll()
    ended = _mpiexec.exit_codes(errors)
    if over is not None and len(ended) < size and not any(code for _, code in ended.values()):
        missing = next(k for k in range(size) if k not in ended)
        ended[missing] = process.pid, over or 1
    return ended


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def end_all(processes: list[subprocess.Popen], patience: float) -> None:
    """No process outlives the run."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
            process.send_signal(signal.SIGCONT)  # a stopped one has to run to end
    end = time.monotonic() + patience
    for process in processes:
        try:
            process.wait(max(end - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


__all__ = ["BETWEEN", "DistError", "LAST_CALL", "MEETING", "Plan", "launch"]
