"""Processes of a run on a cluster, which one driver places and starts: which ranks are where, and what becomes of failures.

A run goes in rounds, as those of `_launch`.  Here one process, the driver, knows all nodes and serves the store; a `Cluster` places
workers, one a rank, each of which runs the program in a process of its own.  When a process, a worker or a node is lost, or a node
comes that the run has room for, all processes end, and the next round begins on the nodes that are there then.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._launch import BETWEEN, Plan, facts, listed, say, stop_signals
from ._segments import remove_segments
from ._stores import DistStoreError, TCPStore
from .elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

_LOOK = 0.5  # seconds between looks at the nodes
_GATHER = 3.0  # seconds for the failures of a round to arrive, so that the error has the first of them
_SIGKILL = 9


@dataclass
class Job:
    """What a worker runs: a command, what its environment has beside that of its node, and what its folder has in the file `call`."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: str | None = None  # a folder on its node
    call: bytes | None = None


@dataclass
class Ended:
    """How a worker's program has ended: its exit code, the text of its error file, and what its function has returned, pickled.

    lost: why nothing is known of it, where its worker has died.
    """

    pid: int
    code: int
    error: str = ""
    result: bytes | None = None
    lost: str = ""


class Unplaced(Exception):
    """Workers did not start on these nodes."""

    def __init__(self, nodes: Sequence[str], why: str) -> None:
        super().__init__(why)
        self.nodes = set(nodes)


class Cluster(Protocol):
    """What a cluster does for a run."""

    host: str  # the driver's address, which all nodes reach

    def nodes(self, workers: int) -> list[str]:
        """The living nodes that are large enough for so many workers, in an order that stays, the driver's own first."""

    def place(self, nodes: Sequence[str]) -> list[Any]:
        """A worker on each of these nodes (of which some are the same).  Unplaced where some do not start; then none stays."""

    def begin(self, workers: Sequence[Any], jobs: Sequence[Job]) -> None:
        """Let each worker start its program.  One that is lost says so in `poll`."""

    def poll(self, workers: Sequence[Any]) -> list[Ended | None]:
        """How each has ended; None for those that run."""

    def stop(self, workers: Sequence[Any]) -> None:
        """End the programs and the workers; none is left when this returns."""


@dataclass
class _Run:
    plan: Plan
    cluster: Cluster
    store: TCPStore
    call: bytes | None
    refused: set[str] = field(default_factory=set)  # nodes where workers did not start

    def nodes(self) -> list[str]:
        there = self.cluster.nodes(self.plan.per_node)
        return [node for node in there if node not in self.refused][: self.plan.most]

    def placed(self, stopped: list[int]) -> tuple[list[str], list[Any]]:
        """The nodes of a round, and the workers on them in the order of ranks."""
        plan, begun = self.plan, time.monotonic()
        end, call, why = begun + plan.timeout.total_seconds(), begun + plan.last_call, ""
        while not stopped:
            nodes, now = self.nodes(), time.monotonic()
            if len(nodes) == plan.most or (len(nodes) >= plan.least and now > call):
                try:
                    return nodes, self.cluster.place([node for node in nodes for _ in range(plan.per_node)])
                except Unplaced as missing:
                    self.refused |= missing.nodes
                    why = f"; {missing}"
            elif now > end:
                raise DistStoreError(
                    f"within {plan.timeout} the cluster had {len(nodes)} nodes for {plan.per_node} workers each, and nnodes wants "
                    f"{plan.least}{why}"
                )
            elif len(nodes) < plan.least and now > call:
                self.refused.clear()  # some may have room by now
            time.sleep(BETWEEN)
        raise SystemExit(128 + stopped[0])

    def jobs(self, number: int, nodes: Sequence[str]) -> list[Job]:
        """What each rank runs in a round."""
        plan, result = self.plan, []
        for node in range(len(nodes)):
            common = facts(plan, self.cluster.host, self.store.port, number, node, len(nodes))
            if plan.log_dir is not None:
                common_log = os.path.join(plan.log_dir, plan.run_id, f"attempt_{number}")
            for local in range(plan.per_node):
                rank = str(node * plan.per_node + local)
                own = dict(RANK=rank, LOCAL_RANK=str(local), ROLE_RANK=rank)
                log = None if plan.log_dir is None else os.path.join(common_log, rank)
                result.append(Job(plan.command, {**common, **own}, log, self.call))
        return result

    def watched(
        self, nodes: Sequence[str], workers: Sequence[Any], stopped: list[int]
    ) -> dict[int, bytes] | None:
        """What the functions of a round have returned, when all programs are through; None where another round is to begin."""
        plan, looked = self.plan, time.monotonic()
        while not stopped:
            ended = self.cluster.poll(workers)
            if any(one is not None and one.code for one in ended):
                raise self.failure(workers)
            if None not in ended:
                return {rank: one.result for rank, one in enumerate(ended) if one and one.result is not None}
            if len(nodes) < plan.most and time.monotonic() - looked > _LOOK:
                looked = time.monotonic()
                if len(self.nodes()) > len(nodes):
                    return None
            time.sleep(plan.interval)
        raise SystemExit(128 + stopped[0])

    def failure(self, workers: Sequence[Any]) -> ChildFailedError:
        """The failures of a round.  One that was killed comes first: others fail for it, and its loss may be noticed after theirs."""
        end = time.monotonic() + _GATHER
        while None in (ended := self.cluster.poll(workers)) and time.monotonic() < end:
            time.sleep(BETWEEN)
        failures = {}
        with tempfile.TemporaryDirectory(prefix="torchelastic_") as folder:
            for rank, one in enumerate(ended):
                if one is None or one.code == 0:
                    continue
                path = os.path.join(folder, f"{rank}.json")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(_lost(one.lost) if one.lost else one.error)
                failures[rank] = ProcessFailure(rank % self.plan.per_node, one.pid, one.code, path)
        first = min(failure.timestamp for failure in failures.values())
        for failure in failures.values():
            if failure.exitcode == -_SIGKILL:
                failure.timestamp = first - 1
        return ChildFailedError(self.plan.role, failures)


def _lost(why: str) -> str:
    more = {"py_callstack": why, "timestamp": str(int(time.time()))}
    return json.dumps({"message": {"message": why, "extraInfo": more}})


def launch(plan: Plan, cluster: Cluster, call: bytes | None = None) -> dict[int, bytes]:
    """Run a program on a cluster to its end, and return what its functions have returned, pickled, by rank.

    Raises:
        ChildFailedError: processes failed, more often than they are started anew
        SystemExit: this process was ended by a signal
        DistError: too few nodes came
    """
    store = TCPStore(cluster.host, plan.port, is_master=True, timeout=plan.timeout)
    run, begun, failed, number = _Run(plan, cluster, store, call), time.time(), 0, 0
    while True:
        with stop_signals() as stopped:
            nodes, workers = run.placed(stopped)
            try:
                cluster.begin(workers, run.jobs(number, nodes))
                result = run.watched(nodes, workers, stopped)
                if result is not None:
                    return result
                say(f"the nodes of the run have changed; round {number + 2} begins")
            except ChildFailedError as failure:
                say(f"{listed(failure)}; the others are ended")
                failed += 1
                if failed > plan.max_restarts:
                    raise
                say(f"restart {failed} of {plan.max_restarts}")
            finally:
                cluster.stop(workers)
                remove_segments(begun)
        number += 1
