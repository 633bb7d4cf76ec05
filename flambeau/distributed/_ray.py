"""A cluster that Ray has: one actor a rank, which runs the program in a process of its own.

The process is the actor's child and dies with it, and an actor dies with its node's raylet or with the driver; so nothing outlives a
loss.  MPI starts in the process, not in the actor, for an actor is a process that Ray has begun and threads of its own run in.
"""

from __future__ import annotations

import ctypes
import fcntl
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ._cluster import Ended, Job, Unplaced, launch
from ._launch import Plan, end_all
from ._mpi import installed, library
from ._segments import remove_segments

_PR_SET_PDEATHSIG = 1
_STARTING = 60.0  # seconds for workers to start; Ray starts an interpreter for each
_ANSWER = 0.5  # seconds to wait for answers of workers; what is late is read the next time
_STOPPING = 10.0  # seconds between SIGTERM and SIGKILL
_KILLED = -signal.SIGKILL
_PREFIX = "torchelastic_ray_"


def imported() -> ModuleType:
    """Ray.

    Raises:
        ImportError: it is not installed
        RuntimeError: this environment's MPI is Open MPI
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            'rdzv_backend "ray" places workers by Ray, which is not installed: pip install "flambeau[ray]"'
        ) from error
    if installed() and not library().is_mpich:
        raise RuntimeError(
            'rdzv_backend "ray": Open MPI makes no world of processes that its mpiexec did not start; install mpich in its place'
        )
    return ray


class Worker:
    """The actor of a rank."""

    def __init__(self) -> None:
        _remove_left()
        self._folder, self._lock = _own_folder()
        self._process: subprocess.Popen | None = None
        self._begun = time.time()

    def up(self) -> None:
        """Answer."""

    def begin(self, job: Job, python: str, directory: str | None) -> None:
        """Start the program, with this node's Python in the place of the driver's."""
        self._error = os.path.join(self._folder, "error.json")
        self._result = os.path.join(self._folder, f"result_{job.environment['RANK']}")
        command = [sys.executable if word == python else word for word in job.command]
        if job.call is not None:
            with open(os.path.join(self._folder, "call"), "wb") as file:
                file.write(job.call)
            command.append(self._folder)
        output = None
        if job.log is not None:
            os.makedirs(job.log, exist_ok=True)
            output = open(os.path.join(job.log, "output.log"), "wb")
        try:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **job.environment, "TORCHELASTIC_ERROR_FILE": self._error},
                cwd=directory if directory and os.path.isdir(directory) else None,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_actor,
            )
        finally:
            if output is not None:
                output.close()

    def poll(self) -> Ended | None:
        """How the program has ended."""
        process = self._process
        if process is None or (code := process.poll()) is None:
            return None
        return Ended(process.pid, code, _read(self._error).decode(), _read(self._result) or None)

    def pid(self) -> int:
        """The number of the program's process."""
        return self._process.pid if self._process else 0

    def stop(self) -> None:
        """End the program, and remove what it has left."""
        if self._process is not None:
            end_all([self._process], _STOPPING)
            remove_segments(self._begun)
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


def _own_folder() -> tuple[str, int]:
    """A folder, and the open file by whose lock others see that its worker lives."""
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    part = os.path.join(folder, "lock.part")
    lock = os.open(part, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(part, os.path.join(folder, "lock"))  # nobody sees it unlocked
    return folder, lock


def _remove_left() -> None:
    """Remove the folders of workers that were killed."""
    for path in glob.glob(os.path.join(tempfile.gettempdir(), f"{_PREFIX}*", "lock")):
        try:
            lock = os.open(path, os.O_RDWR)
        except OSError:  # another user's, or just removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
        except BlockingIOError:
            continue  # its worker lives
        finally:
            os.close(lock)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _die_with_actor() -> None:
    """Ray's threads block signals, and a process inherits that."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class _Placed:
    """A worker, the question that it has not answered yet, and how it has ended."""

    actor: Any
    node: str
    pid: int = 0
    pending: Any = None
    ended: Ended | None = field(default=None)


class RayCluster:
    """The Ray cluster at an address ("" for the one that Ray finds, or else one of this machine alone), until `close`."""

    def __init__(self, address: str = "") -> None:
        self._ray = ray = imported()
        self._ours = not ray.is_initialized()
        if self._ours:
            ray.init(address=address or None, logging_level="warning")
        self.host = ray.util.get_node_ip_address()
        self._own = ray.get_runtime_context().get_node_id()
        carried = ray.get_runtime_context().runtime_env.get("working_dir")
        self._directory = None if carried else os.getcwd()  # Ray's workers are in their copy of it already

    def close(self) -> None:
        """Leave the cluster, where it was joined here."""
        if self._ours:
            self._ray.shutdown()

    def nodes(self, workers: int) -> list[str]:
        addresses = [
            node["NodeID"]
            for node in self._ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= workers
        ]
        return sorted(addresses, key=lambda node: (node != self._own, node))

    def place(self, nodes: Sequence[str]) -> list[_Placed]:
        ray = self._ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = ray.remote(num_cpus=1, max_restarts=0)(Worker)
        workers = []
        for node in nodes:
            where = NodeAffinitySchedulingStrategy(node, soft=False)
            workers.append(_Placed(actor.options(scheduling_strategy=where).remote(), node))
        answers = [worker.actor.up.remote() for worker in workers]
        end, late, why = time.monotonic() + _STARTING, [], ""
        for worker, answer in zip(workers, answers):
            try:
                ray.get(answer, timeout=max(end - time.monotonic(), 0.01))
            except (ray.exceptions.RayError, TimeoutError) as error:
                late.append(worker.node)
                why = f"workers do not start on node {worker.node}: {type(error).__name__}, {error}"
        if late:
            self.stop(workers)
            raise Unplaced(late, why)
        return workers

    def begin(self, workers: Sequence[_Placed], jobs: Sequence[Job]) -> None:
        answers = [
            worker.actor.begin.remote(job, sys.executable, self._directory)
            for worker, job in zip(workers, jobs)
        ]
        for worker, answer in zip(workers, answers):
            try:
                self._ray.get(answer)
                worker.pid = self._ray.get(worker.actor.pid.remote())
            except self._ray.exceptions.RayActorError as error:
                worker.ended = self._lost(worker, error)
            except self._ray.exceptions.RayTaskError as error:  # no such program, or folder
                worker.ended = Ended(0, 1, lost=str(error))

    def poll(self, workers: Sequence[_Placed]) -> list[Ended | None]:
        ray, running = self._ray, [worker for worker in workers if worker.ended is None]
        for worker in running:
            if worker.pending is None:
                worker.pending = worker.actor.poll.remote()
        ready: set[Any] = set()
        if running:
            pending = [worker.pending for worker in running]
            ready.update(ray.wait(pending, num_returns=len(pending), timeout=_ANSWER)[0])
        for worker in running:
            if worker.pending in ready:
                try:
                    worker.ended = ray.get(worker.pending)
                except ray.exceptions.RayActorError as error:
                    worker.ended = self._lost(worker, error)
                worker.pending = None
        return [worker.ended for worker in workers]

    def _lost(self, worker: _Placed, error: Exception) -> Ended:
        first = " ".join(str(error).split())
        return Ended(worker.pid, _KILLED, lost=f"its actor on node {worker.node} is gone: {first}")

    def stop(self, workers: Sequence[_Placed]) -> None:
        stopping = [
            worker.actor.stop.remote() for worker in workers if not (worker.ended and worker.ended.lost)
        ]
        if stopping:
            self._ray.wait(stopping, num_returns=len(stopping), timeout=_STOPPING + 5)
        for worker in workers:
            self._ray.kill(worker.actor)


def launch_on_ray(plan: Plan, address: str, call: bytes | None = None) -> dict[int, bytes]:
    """Run a program on the nodes of a Ray cluster; see `_cluster.launch`."""
    cluster = RayCluster(address)
    try:
        return launch(plan, cluster, call)
    finally:
        cluster.close()
