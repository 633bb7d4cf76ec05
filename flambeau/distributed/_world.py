"""The processes that this one talks to: how they meet, what is known of who died, how one leaves.

There is one world of MPI in the life of a process; groups are made inside it.  It is the one of `mpiexec`, where that has started the
process, else one that the processes form among themselves: they meet at a store, and rank 0 serves as MPICH's process manager while
they start.  A fault makes it smaller: `World.without` is what is left, with ranks of its own.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Collection, Sequence
from multiprocessing.util import Finalize
from typing import Any

from ._flight import describe
from ._mpi import Library, library
from ._pmi import Server
from ._segments import remove_after_fault, unlink_own_segments
from ._stores import DistError, DistStoreError, Store
from ._watch import Watch

_SAID = 0.3  # seconds for mpiexec to pass on what this process has written, which it forgets when the world is aborted
_FINALIZING = 30.0  # seconds that a process under mpiexec waits for the others at its end
_SIOCGIFADDR = 0x8915
_SHRUNK = 1 << 20  # the first of as many tags by which what is left of a world is formed
_OURS = "PMI_PORT PMI_ID PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS".split()


class DistBackendError(DistError):
    """Processes could not do together what they were to do: one is gone, late, or does something else.

    `lost_ranks` lists the ranks that are known to have died or left, by which `shrink_group` can go on without them.

    >>> from flambeau.distributed import DistBackendError, DistError
    >>> issubclass(DistBackendError, (DistError, RuntimeError))
    True
    """

    def __init__(self, message: str = "", lost_ranks: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.lost_ranks = list(lost_ranks)


class Peers:
    """All processes: this one's `rank`, their number `size`, and which of them have died or left.

    origins: the rank at the start of each process, which the watch and MPI's first communicator know it by.
    """

    managed = False  # by an mpiexec

    def __init__(self, rank: int, watch: Watch | None, origins: Sequence[int]) -> None:
        self.watch, self.origins = watch, tuple(origins)
        self.rank, self.size = rank, len(self.origins)
        self.pid = os.getpid()
        self.server: Server | None = None
        self.failed = False  # after a fault nobody waits for the others at the end
        self.raised: str | None = None  # the error by which the program has ended
        self.ended = False

    def lost(self, ranks: Collection[int]) -> str | None:
        """Why a call of these ranks cannot end: the first that has died, or left some time ago; None as long as it can."""
        watch = self.watch
        if watch is None or not (watch.dead or watch.left):
            return None
        if (why := watch.among([self.origins[rank] for rank in ranks])) is None:
            return None
        origin, how = why
        return f"rank {self.origins.index(origin)} {how}"

    def lost_ranks(self) -> list[int]:
        """The ranks that have died or left, the dead first, in the order in which this was heard."""
        watch = self.watch
        return [] if watch is None else [self.origins.index(r) for r in watch.lost() if r in self.origins]

    def ask(self, ranks: Sequence[int], question: dict[str, Any], seconds: float) -> dict[int, Any]:
        """What other processes answer; None for one that does not."""
        if self.watch is None:
            return dict.fromkeys(ranks)
        answers = self.watch.ask([self.origins[rank] for rank in ranks], question, seconds)
        return {rank: answers[self.origins[rank]] for rank in ranks}

    def without(self, ranks: Collection[int], seconds: float) -> Peers:
        """The world of all but these ranks: each of the others calls this, and none of these has to."""
        stay = [rank for rank in range(self.size) if rank not in ranks]
        return Peers(stay.index(self.rank), self.watch, [self.origins[rank] for rank in stay])


class World(Peers):
    """Processes that talk by MPI, on one communicator."""

    def __init__(
        self, mpi: Library, managed: bool, communicator: Any, watch: Watch | None, origins: Sequence[int]
    ) -> None:
        super().__init__(communicator.Get_rank(), watch, origins)
        self.mpi, self.managed, self.communicator = mpi, managed, communicator

    def without(self, ranks: Collection[int], seconds: float) -> World:
        """The world of all but these ranks, which the others form.

        Raises:
            DistBackendError: a process of those that stay is gone, too, or does not come in time
        """
        stay = [rank for rank in range(self.size) if rank not in ranks]
        origins = [self.origins[rank] for rank in stay]

        def make() -> Any:
            old, members = self.communicator, self.communicator.Get_group().Incl(stay)
            if not self.mpi.is_mpich and set(ranks) & set(self.lost_ranks()):
                old = old.Shrink()  # Open MPI makes no communicator out of one that has dead processes
                old.Set_errhandler(self.mpi.api.ERRORS_RETURN)
            tag = _SHRUNK + zlib.crc32(repr(origins).encode()) % _SHRUNK
            result = old if old.Get_size() == len(stay) else old.Create_group(members, tag=tag)
            result.Set_errhandler(self.mpi.api.ERRORS_RETURN)
            return result

        communicator = bounded(make, "shrink_group()", time.monotonic() + seconds, lambda: self.lost(stay))
        small = World(self.mpi, self.managed, communicator, self.watch, origins)
        small.server = self.server
        return small


_world: Peers | None = None


def current() -> Peers | None:
    """The world of this process, if it has one."""
    return _world


def join(
    rank: int | None,
    size: int | None,
    meet: Callable[[], tuple[Store, int, int, str]],
    seconds: float,
    by_mpi: bool = True,
) -> Any:
    """Be in a world with these processes, or in the one that there is: a `World` by MPI, else any `Peers`.

    meet: gives the store, the rank, the number of processes, and the address at which this process may listen.

    Raises:
        RuntimeError: there is a world of other processes already, or no MPI
        DistBackendError: not all processes came in time
    """
    global _world
    if _world is None or (by_mpi and not isinstance(_world, World)):
        is_first = _world is None
        if not by_mpi:
            _world = _met(*meet(), seconds)
        else:
            mpi = library()
            _world = _managed(mpi) if is_managed() else _formed(mpi, *meet(), seconds)
        if is_first:
            atexit.register(_leave)
            Finalize(None, _leave, exitpriority=100)  # processes of multiprocessing end without atexit
            _note_errors()
    elif not by_mpi and not isinstance(_world, World) and (rank, size) != (_world.rank, _world.size):
        _world = _met(*meet(), seconds)  # one that is met at a store costs nothing to leave
    for name, got, here in (("rank", rank, _world.rank), ("world_size", size, _world.size)):
        if got is not None and got != here:
            raise RuntimeError(
                f"init_process_group(): got {name}={got}, but this process has {name} {here} in its MPI world, and a process has one "
                "such world in its life; use new_group() for parts of it"
            )
    return _world


def is_managed() -> bool:
    """Whether an mpiexec has started this process (or its MPI is up already, with other processes)."""
    if "OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ:
        return True
    api = sys.modules.get("mpi4py.MPI")
    if api is None or not api.Is_initialized() or api.Is_finalized():
        return False
    return api.COMM_WORLD.Get_size() > 1


def _managed(mpi: Library) -> World:
    api, communicator = mpi.api, mpi.start()
    communicator.Barrier()
    unlink_own_segments()
    local = communicator.Split_type(api.COMM_TYPE_SHARED)
    rank, size = communicator.Get_rank(), communicator.Get_size()
    host = "127.0.0.1" if local.Get_size() == size else os.environ.get("FLAMBEAU_DISTRIBUTED_HOST")
    watch = None
    if all(communicator.allgather(host is not None)) and size > 1:
        assert host is not None
        watch = Watch(host, describe)
        watch.join(rank, communicator.allgather(watch.address))
    world = World(mpi, True, communicator, watch, range(size))
    variables = dict(
        RANK=rank, WORLD_SIZE=size, LOCAL_RANK=local.Get_rank(), LOCAL_WORLD_SIZE=local.Get_size()
    )
    for name, value in variables.items():
        os.environ.setdefault(name, str(value))
    local.Free()
    return world


def _met(store: Store, rank: int, size: int, host: str, seconds: float) -> Peers:
    """Meet at the store; nothing but the watch is started."""
    watch, *_ = _watched(store, rank, size, host, time.monotonic() + seconds)
    return Peers(rank, watch, range(size))


def _watched(
    store: Store, rank: int, size: int, host: str, end: float, alone: bool = False
) -> tuple[Watch | None, list[str], bool]:
    """A watch over all processes, the machine of each, and whether any says that its MPI runs for it `alone`; no watch for a process
    that is the only one.
    """
    if size == 1:
        return None, [], alone
    watch = Watch(host, describe)
    store.set(f"world/host/{rank}", f"{_machine()} {int(alone)} {watch.address}")
    others = [_of_rank(store, other, end).split(" ", 2) for other in range(size)]
    watch.join(rank, [address for _, _, address in others])
    return watch, [machine for machine, _, _ in others], any(int(other) for _, other, _ in others)


def _formed(mpi: Library, store: Store, rank: int, size: int, host: str, seconds: float) -> World:
    """Meet at the store, and start MPI with rank 0 as its process manager."""
    if size > 1 and not mpi.is_mpich:
        raise RuntimeError(
            "init_process_group(): Open MPI makes no world of processes that mpiexec did not start: use `mpiexec -n`, or install mpich"
        )
    end, begun = time.monotonic() + seconds, time.time()
    watch: Watch | None = None
    server: Server | None = None
    hosts: list[str] = []
    alone = mpi.is_alone() and (size > 1 or mpi.api.Is_finalized())
    if alone and (not mpi.is_mpich or mpi.api.Get_version() < (4, 0)):
        raise RuntimeError(
            "init_process_group(): MPI was initialised before, for this process alone, and an MPI without sessions starts once; import "
            "mpi4py.MPI after init_process_group(), or start the program by torchrun or mpiexec, or install mpich 4.1 or later"
        )

    def lost() -> str | None:
        why = None if watch is None else watch.among(range(size))
        return None if why is None else f"rank {why[0]} {why[1]}"

    try:
        if size > 1:
            watch, hosts, alone = _watched(store, rank, size, host, end, alone)  # one way for all
            if rank == 0:
                server = Server(host, hosts)
                store.set("world/server", server.address)
            address = bounded(lambda: store.get("world/server").decode(), "init_process_group()", end, lost)
            mine = [r for r in range(size) if hosts[r] == hosts[rank]]
            pmi = (address, rank, rank, size, mine.index(rank), len(mine))
            os.environ.update(zip(_OURS, map(str, pmi)))
        _restrict("127.0.0.1" if size == 1 or len(set(hosts)) == 1 else host)
        communicator = bounded(mpi.start_again if alone else mpi.start, "init_process_group()", end, lost)
        bounded(communicator.Barrier, "init_process_group()", end, lost)
    except DistError:
        remove_after_fault(begun)
        raise
    finally:
        for name in _OURS:  # not for processes that this one starts
            os.environ.pop(name, None)
    unlink_own_segments()
    world = World(mpi, False, communicator, watch, range(size))
    world.server = server
    return world


def _restrict(address: str) -> None:
    """Let MPI's transports open the interface with an address alone, unless the environment says which."""
    name = _interface(address)
    if name is not None:
        os.environ.setdefault("UCX_NET_DEVICES", name)
        os.environ.setdefault("FI_TCP_IFACE", name)


def _interface(address: str) -> str | None:
    """The name of the interface with an address; None for one that is not IPv4, or of another machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                result = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # without an address
            if socket.inet_ntoa(result[20:24]) == address:
                return name
    return None


def _of_rank(store: Store, rank: int, end: float) -> str:
    from datetime import timedelta

    try:
        store.wait([f"world/host/{rank}"], timedelta(seconds=max(end - time.monotonic(), 0.001)))
    except DistStoreError as error:
        raise DistBackendError(f"init_process_group(): rank {rank} did not come: {error}") from None
    return store.get(f"world/host/{rank}").decode()


def _machine() -> str:
    """A text that processes which can share memory have in common."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{boot}/{os.stat('/dev/shm').st_dev}"
    except OSError:
        return socket.gethostname()


def bounded(call: Callable[[], Any], name: str, end: float, lost: Callable[[], str | None]) -> Any:
    """What a call that may wait for other processes for ever returns, in a thread of its own.

    DistBackendError where it takes longer than until `end`, or `lost` says that somebody is gone.
    """
    results: list[Any] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append((call(), None))
        except BaseException as error:
            results.append((None, error))
        done.set()

    threading.Thread(target=run, daemon=True, name=name).start()
    while not done.wait(0.02):
        if (why := lost()) is not None:
            raise DistBackendError(f"{name}: {why}")
        if time.monotonic() > end:
            raise DistBackendError(f"{name}: not all processes came in time")
    result, error = results[0]
    if error is not None:
        raise error
    return result


# The end --------------------------------------------------------------------------------------------------------------------
def replace(world: Peers) -> None:
    """Be in this world from now on: what is left of the one before."""
    global _world
    _world = world


def _leave() -> None:
    """Leave without waiting for ever: a world of our own needs no farewell, mpiexec takes a process without one for a fault."""
    world: Any = _world
    if world is None or os.getpid() != world.pid or world.ended:
        return
    world.ended, error = True, sys.exc_info()[1]
    if error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0)):
        world.raised = world.raised or _said(error)
    if world.watch is not None:
        world.watch.leave(world.raised)
    if not world.managed or world.mpi.api.Is_finalized():
        return
    if not world.failed and world.raised is None:
        try:
            bounded(
                world.mpi.api.Finalize,
                "exit",
                time.monotonic() + _FINALIZING,
                lambda: world.lost(range(world.size)),
            )
            return
        except DistError as error:
            print(f"rank {world.rank} ends without the others: {error}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(_SAID)
    world.communicator.Abort(1)


def _said(error: BaseException) -> str:
    if isinstance(error, SystemExit) and error.__context__ is not None:
        error = error.__context__  # for which the process exits
    return f"{type(error).__name__}: {error}"


def _note_errors() -> None:
    """A program that ends by an error must not wait for the others, nor they for it."""
    before = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        before(kind, error, trace)
        if _world is not None:
            _world.raised = _said(error)

    sys.excepthook = hook


def _forget() -> None:
    """A forked process is in no world: what it does must not reach the connections of its parent."""
    global _world
    _world = None


os.register_at_fork(after_in_child=_forget)
