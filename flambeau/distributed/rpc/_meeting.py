"""How the workers of a world find each other, meet, and part."""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from datetime import timedelta
from typing import Any

from ...futures import Future
from .._rendezvous import rendezvous
from .._stores import DistError, DistStoreError, PrefixStore, Store, _family
from ._agent import Agent, WorkerInfo
from ._connection import SECRET
from ._current import current
from .functions import Later
from .options import TensorPipeRpcBackendOptions

_FOR_OTHERS = 5.0  # seconds to hear why there is no world, or no meeting
_FOREVER = timedelta(days=365)


def join(
    name: str, rank: int, size: int | None, options: TensorPipeRpcBackendOptions, time_formed: int
) -> tuple[Agent, Store]:
    """An agent that knows where all workers listen, and the store by which they have met.

    Raises:
        ValueError: the address does not say the rank or the number of workers
        RuntimeError: workers disagree on how many they are, two have one rank or one name, or one does not come
    """
    patience = timedelta(seconds=options.rpc_timeout) if options.rpc_timeout else _FOREVER
    requested_rank = rank if rank >= 0 else None
    base_store, rank, size, host = rendezvous(options.init_method, requested_rank, size, patience)
    store = PrefixStore(f"rpc_prefix_{time_formed}", base_store)
    store.set_timeout(patience)
    listening = socket.create_server((host, 0), family=_family(host), backlog=max(size, 16))
    try:
        secret, workers = _exchange(store, name, rank, size, listening.getsockname()[:2])
    except BaseException:
        listening.close()
        if rank == 0:
            _linger(store, size)
        raise
    return Agent(WorkerInfo(name, rank), workers, options, secret, listening), base_store


def _exchange(
    store: Store, name: str, rank: int, size: int, address: tuple[str, int]
) -> tuple[bytes, list[tuple[WorkerInfo, tuple[str, int]]]]:
    """The secret of the world, and all workers with their addresses."""
    try:
        if store.add(f"taken/{rank}", 1) > 1:
            raise RuntimeError(f"init_rpc(): rank {rank} is taken by another process")
        if rank == 0:
            store.set("secret", secrets.token_bytes(SECRET))
        card = {"name": name, "size": size, "host": address[0], "port": address[1]}
        store.set(f"worker/{rank}", json.dumps(card))
        cards = []
        for k in range(size):
            cards.append(_card(store, k))
            if cards[k]["size"] != size:
                raise RuntimeError(
                    f"init_rpc(): world_size is {size} on rank {rank} ({name!r}), and {cards[k]['size']} on rank {k} ({cards[k]['name']!r})"
                )
        secret = store.get("secret")
    finally:
        store.add("read", 1)
    names = [card["name"] for card in cards]
    for k, each in enumerate(names):
        if each in names[:k]:
            raise RuntimeError(
                f"init_rpc(): ranks {names.index(each)} and {k} have the same name {each!r}; a worker's name is its own"
            )
    return secret, [
        (WorkerInfo(card["name"], k), (card["host"], card["port"])) for k, card in enumerate(cards)
    ]


def _card(store: Store, rank: int) -> dict[str, Any]:
    try:
        return json.loads(store.get(f"worker/{rank}"))
    except DistStoreError:
        raise RuntimeError(
            f"init_rpc(): rank {rank} did not come within {store.timeout.total_seconds():.0f} s"
        ) from None


def _linger(store: Store, size: int) -> None:
    """Keep the store until the others have read what is wrong, too."""
    end = time.monotonic() + _FOR_OTHERS
    try:
        while store.add("read", 0) < size and time.monotonic() < end:
            time.sleep(0.01)
    except DistError:
        return


# all workers at once -----------------------------------------------------------------------------------------------------------
class _Meetings:
    """What workers have brought to the one of the smallest rank."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[tuple, tuple[dict[int, Any], Future]] = {}

    def brought(self, key: tuple, ranks: tuple[int, ...], rank: int, value: Any, timeout: float) -> Future:
        agent = current()
        with self.lock:
            if key not in self.open:
                self.open[key] = {}, agent.future()
                if timeout:
                    agent.timer.at(time.monotonic() + timeout, lambda: self.late(key, ranks, timeout))
            values, result = self.open[key]
            values[rank] = value
            complete = len(values) == len(ranks)
            if complete:
                del self.open[key]
        gone = [k for k in ranks if k in agent.dead and k not in values]
        if complete:
            result.set_result(values)
        elif gone:
            self.died(gone[0], agent.dead[gone[0]])
        return result

    def late(self, key: tuple, ranks: tuple[int, ...], timeout: float) -> None:
        """The time of a meeting is over."""
        with self.lock:
            if key not in self.open:
                return
            values, future = self.open.pop(key)
        agent = current()
        absent = ", ".join(agent.infos[rank].name for rank in ranks if rank not in values)
        text = f"{absent} did not come within {timeout:.3g} s"
        agent.pool.submit(future.set_exception, RuntimeError(text))

    def died(self, rank: int, why: str) -> None:
        """Nobody waits for a worker that is gone."""
        with self.lock:
            lacking = [key for key, (values, _) in self.open.items() if rank not in values and rank in key[0]]
            futures = [self.open.pop(key)[1] for key in lacking]
        for future in futures:
            current().pool.submit(future.set_exception, RuntimeError(why))


_meetings = _Meetings()
_counts: dict[tuple[int, ...], int] = {}


def _brought(key: tuple, ranks: tuple[int, ...], rank: int, value: Any, timeout: float) -> Later:
    return Later(_meetings.brought(key, ranks, rank, value, timeout))


def begin(agent: Agent) -> None:
    """Meetings of a new world."""
    global _meetings
    _meetings = _Meetings()
    _counts.clear()
    agent.on_death.append(_meetings.died)


def gather(value: Any, ranks: tuple[int, ...] | None = None, timeout: float = 0) -> dict[int, Any]:
    """What each of these workers (by default all) brings, by rank; waits for them, `timeout` seconds at most (0: any time).

    Raises:
        RuntimeError: a worker is gone, or does not come in time
    """
    agent = current()
    ranks = tuple(range(len(agent.infos))) if ranks is None else tuple(sorted(ranks))
    count = _counts[ranks] = _counts.get(ranks, 0) + 1
    args = ((ranks, count), ranks, agent.rank, value, timeout)
    patience = timeout + _FOR_OTHERS if timeout else 0.0  # the first of them says who is absent
    return agent.call(ranks[0], _brought, args, timeout=patience, counted=False).wait()


def part(timeout: float = 0) -> None:
    """Wait until all workers are here, and no call is underway anywhere: as many were run as were sent, two times in a row.

    Raises:
        RuntimeError: a worker is gone, or does not come in time
    """
    agent = current()
    end = time.monotonic() + timeout if timeout else None
    before, now = None, None
    while now is None or now != before or now[0] != now[1]:
        left = 0.0 if end is None else max(end - time.monotonic(), 0.001)
        agent.wait_idle(end)
        counts = gather((agent.sent, agent.served), timeout=left)
        before, now = now, tuple(sum(column) for column in zip(*counts.values()))
