"""The processes that this one talks to: how they meet, what is known of who died, how one leaves.

There is one world of MPI in the life of a process; groups are made inside it.  It is the one of `mpiexec`, where that has started the
process, else one that the processes form among themselves: they meet at a store, and rank 0 serves as MPICH's process manager.
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
from collections.abc import Callable, Collection
from multiprocessing.util import Finalize
from typing import Any

from ._mpi import Library, library
from ._pmi import Server
from ._stores import DistError, DistStoreError, Store

_LEAVING = 2.0  # seconds in which what a process sent before it left arrives
_SAID = 0.3  # seconds for mpiexec to pass on what this process has written, which it forgets when the world is aborted
_FINALIZING = 30.0  # seconds that a process under mpiexec waits for the others at its end
_SIOCGIFADDR = 0x8915
_ENDS = {"dead": "died", "failed": "has ended by an error"}
_OURS = "PMI_PORT PMI_ID PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS".split()


class DistBackendError(DistError):
    """Processes could not do together what they were asked to: one is gone, late, or does something else.

    >>> from flambeau.distributed import DistBackendError, DistError
    >>> issubclass(DistBackendError, (DistError, RuntimeError))
    True
    """


class World:
    """All processes: this one's `rank`, their number `size`, and which of them have died or left."""

    def __init__(self, mpi: Library, managed: bool) -> None:
        self.mpi, self.managed = mpi, managed  # `managed` by an mpiexec
        self.communicator = mpi.api.COMM_WORLD
        self.rank, self.size = self.communicator.Get_rank(), self.communicator.Get_size()
        self.pid = os.getpid()
        self.gone = _Gone()
        self.server: Server | None = None
        self.failed = False  # after a fault nobody waits for the others at the end
        self.raised = False  # the program has ended by an error
        self.ended = False

    def lost(self, ranks: Collection[int]) -> str | None:
        """Why a call of these ranks cannot end: the first that has died, or left some time ago; None as long as it can."""
        return self.gone.among(ranks)


class _Gone:
    """Who has died or left, heard from the watch connection in a thread."""

    def __init__(self) -> None:
        self.dead: dict[int, str] = {}  # how
        self.left: dict[int, float] = {}  # when
        self.heard = threading.Condition()
        self._connection: socket.socket | None = None
        self._rank = -1

    def among(self, ranks: Collection[int]) -> str | None:
        for rank, how in list(self.dead.items()):  # the first that died, not those who ended for it
            if rank in ranks:
                return f"rank {rank} {how}"
        if self.left:
            for rank in ranks:
                if time.monotonic() - self.left.get(rank, float("inf")) > _LEAVING:
                    return f"rank {rank} has left"
        return None

    def listen(self, address: str, rank: int, seconds: float) -> None:
        """Connect to the watch; returns when the server knows us."""
        host, _, port = address.rpartition(":")
        self._connection, self._rank = socket.create_connection((host, int(port)), seconds), rank
        self._connection.sendall(b"cmd=watch rank=%d\n" % rank)
        file = self._connection.makefile("r", encoding="latin-1")
        if file.readline() != f"here {rank}\n":
            raise DistBackendError(f"init_process_group(): the process manager at {address} is gone")
        self._connection.settimeout(None)
        threading.Thread(target=self._hear, args=(file,), daemon=True, name="watch").start()

    def _hear(self, file: Any) -> None:
        try:
            for line in file:
                what, _, rank = line.partition(" ")
                with self.heard:
                    if what == "left":
                        self.left[int(rank)] = time.monotonic()
                    elif what in _ENDS:
                        self.dead[int(rank)] = _ENDS[what]
                    self.heard.notify_all()
        except OSError:
            pass  # the server's process is gone, as when the file ends
        with self.heard:
            if 0 not in self.left and self._rank not in self.left:
                self.dead.setdefault(0, _ENDS["dead"])
            self.heard.notify_all()

    def leave(self, failed: bool) -> None:
        """Tell the server that this process ends, by an error or as it should, and wait until the others are told."""
        if self._connection is None:
            return
        try:
            self._connection.sendall(b"failed\n" if failed else b"left\n")
        except OSError:
            return  # nobody to tell
        with self.heard:
            self.heard.wait_for(
                lambda: self._rank in self.left or self._rank in self.dead or 0 in self.dead, 1.0
            )


_world: World | None = None


def current() -> World | None:
    """The world of this process, if it has one."""
    return _world


def join(
    rank: int | None, size: int | None, meet: Callable[[], tuple[Store, int, int, str]], seconds: float
) -> World:
    """Be in a world with these processes, or in the one that there is.

    meet: gives the store, the rank, the number of processes, and the address at which this process may listen.

    Raises:
        RuntimeError: there is a world of other processes already, or no MPI
        DistBackendError: not all processes came in time
    """
    global _world
    mpi = library()
    if _world is None:
        _world = _managed(mpi) if is_managed() else _formed(mpi, *meet(), seconds)
        atexit.register(_leave, _world)
        Finalize(None, _leave, (_world,), exitpriority=100)  # processes of multiprocessing end without atexit
        _note_errors(_world)
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
    return api is not None and api.Is_initialized() and api.COMM_WORLD.Get_size() > 1


def _managed(mpi: Library) -> World:
    mpi.start()
    world = World(mpi, managed=True)
    world.communicator.Barrier()
    _unlink_segments()
    api = mpi.api
    local = world.communicator.Split_type(api.COMM_TYPE_SHARED)
    told = dict(RANK=world.rank, WORLD_SIZE=world.size, LOCAL_RANK=local.Get_rank())
    for name, value in dict(told, LOCAL_WORLD_SIZE=local.Get_size()).items():
        os.environ.setdefault(name, str(value))
    local.Free()
    return world


def _formed(mpi: Library, store: Store, rank: int, size: int, host: str, seconds: float) -> World:
    """Meet at the store, and start MPI with rank 0 as its process manager."""
    if mpi.api.Is_initialized():
        raise RuntimeError(
            "init_process_group(): MPI was initialised before, for this process alone; import mpi4py.MPI after init_process_group()"
        )
    if size > 1 and not mpi.is_mpich:
        raise RuntimeError(
            "init_process_group(): Open MPI makes no world of processes that mpiexec did not start: use `mpiexec -n`, or install mpich"
        )
    end = time.monotonic() + seconds
    gone, server, hosts = _Gone(), None, []
    if size > 1:
        store.set(f"world/host/{rank}", _machine())
        hosts = [_of_rank(store, other, end) for other in range(size)]
        if rank == 0:
            server = Server(host, hosts)
            store.set("world/server", server.address)
        address = store.get("world/server").decode()
        gone.listen(address, rank, max(end - time.monotonic(), 1.0))
        mine = [r for r in range(size) if hosts[r] == hosts[rank]]
        told = (address, rank, rank, size, mine.index(rank), len(mine))
        os.environ.update(zip(_OURS, map(str, told)))
    _restrict("127.0.0.1" if size == 1 or len(set(hosts)) == 1 else host)
    try:
        bounded(mpi.start, "init_process_group()", end, lambda: gone.among(range(size)))
    finally:
        for name in _OURS:  # not for processes that this one starts
            os.environ.pop(name, None)
    world = World(mpi, managed=False)
    world.gone, world.server = gone, server
    bounded(world.communicator.Barrier, "init_process_group()", end, lambda: gone.among(range(size)))
    _unlink_segments()
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
                found = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # without an address
            if socket.inet_ntoa(found[20:24]) == address:
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


def _unlink_segments() -> None:
    """Take the names of MPICH's shared memory away, now that all processes have it: so none is left, however they end."""
    try:
        with open("/proc/self/maps") as file:
            paths = {line.split(None, 5)[5].strip() for line in file if "/dev/shm/mpich_" in line}
    except OSError:
        return
    for path in paths:
        if "(deleted)" not in path:
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue  # another process of this machine was first


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
    found, error = results[0]
    if error is not None:
        raise error
    return found


# The end --------------------------------------------------------------------------------------------------------------------
def _leave(world: World) -> None:
    """Leave without waiting for ever: a world of our own needs no farewell, mpiexec takes a process without one for a fault."""
    if os.getpid() != world.pid or world.ended:
        return
    world.ended, error = True, sys.exc_info()[1]
    if error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0)):
        world.raised = True
    if not world.managed:
        world.gone.leave(world.raised)
        return
    if world.mpi.api.Is_finalized():
        return
    if not world.failed and not world.raised:
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


def _note_errors(world: World) -> None:
    """A program that ends by an error must not wait for the others, nor they for it."""
    before = sys.excepthook

    def hook(*error: Any) -> None:
        before(*error)
        world.raised = True

    sys.excepthook = hook


def _forget() -> None:
    """A forked process is in no world: what it does must not reach the connections of its parent."""
    global _world
    _world = None


os.register_at_fork(after_in_child=_forget)
