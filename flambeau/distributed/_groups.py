"""Which groups there are: made by `init_process_group` and `new_group`, given up by `destroy_process_group`."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from zlib import crc32

from ..core.base import display
from ..core.base.callbacks import set_callback
from . import _mpi, _world
from ._group_fake import FakeGroup, FakeWorld
from ._group_mpi import MPIGroup
from ._process_group import ProcessGroup
from ._rendezvous import check_rank, rendezvous
from ._stores import PrefixStore, Store, TCPStore
from .constants import default_pg_timeout

NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."
_OVER_MPI = ("mpi", "gloo")  # gloo is PyTorch's name for what the CPU has


class GroupMember:
    """What `new_group` returns to a process that is not in the group.

    >>> import flambeau.distributed as dist
    >>> dist.GroupMember.WORLD is None
    True
    """

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class group:
    """Where the group of all processes stands: `group.WORLD`, None before `init_process_group`.

    Raises nothing.

    >>> import flambeau.distributed as dist
    >>> dist.group.WORLD is None
    True
    """

    WORLD: ProcessGroup | None = None


class _Groups:
    """The groups of this process."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.store: Store | None = None
        self.all: dict[str, ProcessGroup] = {}
        self.made = 0  # on every process the same, so that they agree on names and tags

    def set_default(self, default: ProcessGroup | None) -> None:
        self.default = default
        GroupMember.WORLD = group.WORLD = default


_groups = _Groups()
_formed = 0  # how often init_process_group was called: each time has keys of its own in a store


def _forget() -> None:
    """A forked process is in no group."""
    global _groups
    _groups = _Groups()
    _groups.set_default(None)


os.register_at_fork(after_in_child=_forget)


# Questions ---------------------------------------------------------------------------------------------------------------------
def is_available() -> bool:
    """Whether processes can form groups: where mpi4py is installed (`pip install "flambeau[mpi]"`), or NCCL.

    >>> import flambeau.distributed as dist
    >>> dist.is_available() == (dist.is_mpi_available() or dist.is_nccl_available())
    True
    """
    return _mpi.installed() or is_nccl_available()


def is_mpi_available() -> bool:
    """Whether groups can talk by MPI: where mpi4py is installed.

    >>> import importlib.util
    >>> import flambeau.distributed as dist
    >>> dist.is_mpi_available() == (importlib.util.find_spec("mpi4py") is not None)
    True
    """
    return _mpi.installed()


def is_gloo_available() -> bool:
    """Whether "gloo" is a backend: it means MPI here, so where mpi4py is installed.

    >>> import flambeau.distributed as dist
    >>> dist.is_gloo_available() == dist.is_mpi_available()
    True
    """
    return _mpi.installed()


def is_nccl_available() -> bool:
    """Whether groups can talk by NCCL: where its library opens (`pip install nvidia-nccl-cu12`).

    Raises nothing.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.is_nccl_available() == flambeau.cuda.nccl.is_available([])
    True
    """
    from ..devices import nccl

    return nccl.is_available()


def is_initialized() -> bool:
    """Whether this process is in a group of all processes.

    >>> import flambeau.distributed as dist
    >>> dist.is_initialized()
    False
    """
    return _groups.default is not None


def is_backend_available(backend: str) -> bool:
    """Whether `init_process_group` takes a backend.

    Raises nothing.

    >>> import flambeau.distributed as dist
    >>> dist.is_backend_available("fake"), dist.is_backend_available("ucc")
    (True, False)
    """
    if backend == "nccl":
        return is_nccl_available()
    return backend == "fake" or (backend in _OVER_MPI and _mpi.installed())


def default_group(name: str = "") -> ProcessGroup:
    """The group of all processes; ValueError without one."""
    if _groups.default is None:
        raise ValueError(NO_GROUP)
    return _groups.default


def rank_not_in_group(given: Any) -> bool:
    """Whether this process is not in the group that an argument means."""
    return given is GroupMember.NON_GROUP_MEMBER


def every() -> list[ProcessGroup]:
    """The groups that this process is in."""
    return list(_groups.all.values())


def named(name: str) -> ProcessGroup:
    """The group of a name; ValueError where this process is in none of it."""
    if name not in _groups.all:
        raise ValueError(f"this process is in no group named {name!r}")
    return _groups.all[name]


def resolve(given: Any) -> ProcessGroup | None:
    """The group that an argument means: by default that of all; None for a group that this process is not in."""
    if given is None:
        return default_group()
    if given is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup or None, not {type(given).__name__}")
    if _groups.all.get(given.group_name) is not given:
        raise ValueError("Invalid process group specified: it was destroyed, or is of another process")
    return given


def get_rank(group: Any = None) -> int:
    """This process's rank in a group; -1 where it is not in it.

    Raises:
        ValueError: there is no group

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> dist.get_rank(), dist.get_world_size(), dist.get_backend()
    (2, 4, 'fake')
    >>> dist.destroy_process_group()
    """
    found = resolve(group)
    return -1 if found is None else found._rank


def get_world_size(group: Any = None) -> int:
    """How many processes a group has; -1 where this one is not in it.

    Raises:
        ValueError: there is no group

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.get_world_size()
    2
    >>> dist.destroy_process_group()
    """
    found = resolve(group)
    return -1 if found is None else found._size


def get_backend(group: Any = None) -> str:
    """The backend of a group, such as "mpi"; "gloo" where it was made under this name.

    Raises:
        ValueError: there is no group, or this process is not in it

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.get_backend()
    'fake'
    >>> dist.destroy_process_group()
    """
    found = resolve(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return found._backend


def get_backend_config(group: Any = None) -> str:
    """The backend of each type of device, as text.

    Raises:
        ValueError: there is no group, or this process is not in it

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.get_backend_config()
    'cpu:fake'
    >>> dist.destroy_process_group()
    """
    return _config_of(get_backend(group))


def _config_of(backend: str) -> str:
    return backend if ":" in backend else f"{'cuda' if backend == 'nccl' else 'cpu'}:{backend}"


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of a group's processes among all.

    Raises:
        ValueError: there is no group, or this process is not in it

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.get_process_group_ranks()
    [0, 1]
    >>> dist.destroy_process_group()
    """
    found = resolve(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return list(found._ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of the process that has `global_rank` among all.

    Raises:
        ValueError: it is not in the group

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=1, world_size=4)
    >>> pair = dist.new_group([1, 3])
    >>> dist.get_group_rank(pair, 3), dist.get_global_rank(pair, 1)
    (1, 3)
    >>> dist.destroy_process_group()
    """
    found = resolve(group)
    if found is None or global_rank not in found._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return found._ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank among all of the process that has `group_rank` in a group.

    Raises:
        ValueError: the group has no such rank

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.get_global_rank(dist.new_group([0, 1]), 1)
    1
    >>> dist.destroy_process_group()
    """
    found = resolve(group)
    if found is None or not 0 <= group_rank < found._size:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return found._ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank among the processes of this machine, which the launcher says in LOCAL_RANK.

    Raises:
        RuntimeError: it does not, and there is no `fallback_rank`

    >>> import flambeau.distributed as dist
    >>> dist.get_node_local_rank(fallback_rank=0)
    0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, assuming you are "
        "not running in a multi-device context and want the code to run locally instead."
    )


# Making and giving up --------------------------------------------------------------------------------------------------------------
def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Form the group of all processes.

    Args:
        backend: "mpi", by default; "gloo" means the same; "nccl" for CUDA tensors; "cpu:gloo,cuda:nccl" for both; "fake" for one
            process that plays any rank.
        init_method: how processes find each other: "env://" (the default: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT in the environment),
            "tcp://host:port" or "file:///path". Under mpiexec none is needed.
        timeout: how long calls wait for other processes, 30 minutes by default.
        store: where they find each other, in place of `init_method`.
        device_id: the CUDA device of this process, for barriers and collectives of objects by NCCL; the current one by default.

    Raises:
        ValueError: there is a group already, or rank, number or address are not given
        RuntimeError: there is no such backend, or MPI, or NCCL, is not installed
        DistBackendError: not all processes came in time

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=8)
    >>> dist.is_initialized(), dist.get_world_size()
    (True, 8)
    >>> dist.destroy_process_group()
    """
    if _groups.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got timeout={timeout!r} of {type(timeout)}"
        )
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None and (world_size < 1 or rank < 0):
        raise AssertionError("world_size must be positive and rank non-negative if using store")
    name = _backend_of(backend)
    wait = default_pg_timeout if timeout is None else timeout
    if name == "fake":
        size = 1 if world_size < 0 else world_size
        check_rank(max(rank, 0), size)
        _groups.set_default(
            FakeGroup(FakeWorld(max(rank, 0), size), range(size), "0", wait.total_seconds(), "default_pg")
        )
    else:
        _init_processes(
            name, init_method, wait, None if world_size < 0 else world_size, None if rank < 0 else rank, store
        )
    assert _groups.default is not None
    _groups.default._bind(device_id)
    _groups.all["0"] = _groups.default


def _init_processes(
    name: str,
    init_method: str | None,
    timeout: timedelta,
    size: int | None,
    rank: int | None,
    store: Store | None,
) -> None:
    global _formed
    if rank is not None and size is not None:
        check_rank(rank, size)
    _formed += 1
    number, seconds = _formed, timeout.total_seconds()

    def meet() -> tuple[Store, int, int, str]:
        found = (
            (store, rank, size, os.environ.get("FLAMBEAU_DISTRIBUTED_HOST", "127.0.0.1"))
            if store is not None
            else rendezvous(init_method or "env://", rank, size, timeout)
        )
        _groups.store = PrefixStore(f"default_pg/{number}", found[0])
        check_rank(found[1], found[2])  # type: ignore[arg-type]
        return _groups.store, *found[1:]  # type: ignore[return-value]

    by_nccl = "nccl" in name
    if by_nccl and not (_world.is_managed() and store is None and init_method is None):
        met = meet()  # also by processes that have a world: communicators of NCCL are made through the store
        world = _world.join(met[1], met[2], lambda: met, seconds, by_mpi=name != "nccl")
    else:
        world = _world.join(rank, size, meet, seconds)
    if _groups.store is None and store is not None:
        _groups.store = store
    if by_nccl:
        _make_store(world, seconds)
    default = _group_of(world, range(world.size), "0", seconds, "default_pg", _groups.made, name)
    _groups.set_default(default)


def _make_store(world: Any, seconds: float) -> None:
    """Under mpiexec, where processes meet without a store: one that rank 0 serves.  All processes call this."""
    if _groups.store is not None:
        return
    host = os.environ.get("FLAMBEAU_DISTRIBUTED_HOST", "127.0.0.1")
    wait, served = timedelta(seconds=seconds), None
    if world.rank == 0:
        served = TCPStore(host, 0, is_master=True, timeout=wait, wait_for_workers=False)
    address = world.communicator.bcast(None if served is None else (host, served.port))
    made = TCPStore(address[0], address[1], timeout=wait) if served is None else served
    _groups.store = PrefixStore(f"default_pg/{_formed}", made)


def _world_by_mpi(world: Any, seconds: float) -> Any:
    """The world that talks by MPI, of the processes that have met for NCCL alone.  All of them call this."""
    store = _groups.store
    if isinstance(world, _world.World) or store is None:
        return world
    host = (
        os.environ.get("FLAMBEAU_DISTRIBUTED_HOST", "127.0.0.1") if world.watch is None else world.watch.host
    )
    origins = "-".join(map(str, world.origins))
    met = (PrefixStore(f"mpi/{crc32(origins.encode())}", store), world.rank, world.size, host)
    return _world.join(world.rank, world.size, lambda: met, seconds)


def _backend_of(backend: str | None) -> str:
    """The backend that an argument names, also as "cpu:gloo,cuda:nccl"; RuntimeError for one that is not here."""
    if backend is None or str(backend) == "undefined":
        return "mpi"
    host, by_nccl = None, False
    for part in str(backend).lower().split(","):
        kind, _, named = part.rpartition(":")
        if kind in ("", "cpu") and (named in _OVER_MPI or named == "fake"):
            host = host or named
        by_nccl |= kind in ("", "cuda") and named == "nccl"
    if host is not None:
        return f"cpu:{host},cuda:nccl" if by_nccl and host != "fake" else host
    if by_nccl:
        from ..devices import nccl

        nccl.library()  # says what to install
        return "nccl"
    there_are = "there are mpi, gloo (which means MPI on the CPU), nccl (for CUDA tensors) and fake"
    if str(backend).lower() in ("ucc", "xccl", "cpu:nccl"):
        raise RuntimeError(f"Distributed package doesn't have {str(backend).upper()} built in; {there_are}")
    raise ValueError(f"Invalid backend: '{backend}'; {there_are}")


def destroy_process_group(group: Any = None) -> None:
    """Give a group up; without an argument, or for that of all processes, every group.

    It waits for no other process, but for what this one has queued on devices.  A process stays in its MPI world, so the same processes
    may form a group anew.

    Raises:
        ValueError: there is no group, or it was given up before

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.destroy_process_group()
    >>> dist.is_initialized()
    False
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    found = resolve(group)
    assert found is not None
    if found is not _groups.default:
        del _groups.all[found.group_name]
        found._close()
        return
    made = _groups.made
    for each in every():
        each._close()
    _forget()
    _groups.made = made + 1


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some processes, by default of all.  Every process calls it, in the same order, also those that will not be in it.

    Returns:
        The group; `GroupMember.NON_GROUP_MEMBER` for a process that is not in it.

    Raises:
        ValueError: there is no group of all; a rank comes twice or is none of theirs
        RuntimeError: there are more ranks than processes

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=4)
    >>> dist.new_group([0, 2]).size(), dist.new_group([1, 3]) == dist.GroupMember.NON_GROUP_MEMBER
    (2, True)
    >>> dist.destroy_process_group()
    """
    whole = default_group()
    world = whole._world
    members = list(whole._ranks) if ranks is None else [int(rank) for rank in ranks]
    if sort_ranks:
        members.sort()
    if len(members) > world.size:
        raise RuntimeError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    if len(set(members)) != len(members):
        raise ValueError(f"new_group(): a rank comes twice in {members}")
    for member in members:
        if not 0 <= member < world.size:
            raise ValueError("The new group's rank should be within the world_size set by init_process_group")
    _groups.made += 1
    name, seconds = str(_groups.made), (whole._seconds if timeout is None else timeout.total_seconds())
    named = whole._backend if backend is None or isinstance(whole, FakeGroup) else _backend_of(backend)
    if not isinstance(whole, FakeGroup):  # all processes, before some of them go
        if "nccl" in named:
            _make_store(world, seconds)
        if named != "nccl":
            world = _world_by_mpi(world, seconds)
    if world.rank not in members:
        return GroupMember.NON_GROUP_MEMBER
    made = _group_of(world, members, name, seconds, group_desc or "", _groups.made % (1 << 20), named)
    made._bind(whole._bound if device_id is None else device_id)
    _groups.all[name] = made
    return made


def twin(group: Any) -> ProcessGroup:
    """A group of the same processes, whose calls do not meet those of `group`; one for each group.

    Its processes alone call it, the first time as a collective.  It is for threads, whose calls have no order with those of the program.
    """
    name = f"{group.group_name}/twin"
    made = _groups.all.get(name)
    if made is None:
        about = (group._world, group._ranks, name, group._seconds, f"twin of {group.group_desc}")
        tag = (1 << 20) + crc32(name.encode()) % (1 << 20)  # none that new_group takes
        made = _groups.all[name] = _group_of(*about, tag, group._backend)
        made._bind(group._bound)
    return made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` processes that follow each other; this process's, and all of them.

    `group_size` is that of a machine's processes (LOCAL_WORLD_SIZE) by default.

    Raises:
        ValueError: the size is larger than the number of processes, or does not divide it

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=3, world_size=4)
    >>> mine, groups = dist.new_subgroups(2)
    >>> dist.get_process_group_ranks(mine), len(groups)
    ([2, 3], 2)
    >>> dist.destroy_process_group()
    """
    whole = resolve(group)
    if whole is None:
        raise ValueError("new_subgroups(): this process is not in the group")
    size = int(os.environ.get("LOCAL_WORLD_SIZE", whole._size)) if group_size is None else group_size
    if size < 1 or size > whole._size:
        raise ValueError(f"The arg 'group_size' ({size}) must not exceed the world size ({whole._size})")
    if whole._size % size != 0:
        raise ValueError(f"The world size ({whole._size}) must be divisible by 'group_size={size}'")
    parts = [list(whole._ranks[k : k + size]) for k in range(0, whole._size, size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """A group for each list of ranks; this process's (None, if it is in no list), and all of them.

    Raises:
        ValueError: a rank stands in two lists

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=3, world_size=4)
    >>> mine, groups = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    >>> dist.get_process_group_ranks(mine)
    [0, 3]
    >>> dist.destroy_process_group()
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        if again := seen.intersection(ranks):
            raise ValueError(f"Rank {min(again)} has appeared in two subgroups")
        seen.update(ranks)
    made = [
        new_group(ranks, timeout, backend, pg_options, False, group_desc) for ranks in ranks_per_subgroup_list
    ]
    mine = [each for each in made if each is not GroupMember.NON_GROUP_MEMBER]
    return (mine[0] if mine else None), made


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """Cut a group into several, by lists of ranks in it; this process's part, None where it is in none.

    Raises:
        ValueError: there are no lists, or a rank stands in two of them

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=3, world_size=4)
    >>> dist.split_group(split_ranks=[[0, 1], [2, 3]]).rank()
    1
    >>> dist.destroy_process_group()
    """
    parent = resolve(parent_pg)
    if parent is None:
        raise ValueError("split_group(): this process is not in the group")
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    lists = [[parent._ranks[rank] for rank in ranks] for ranks in split_ranks]
    return new_subgroups_by_enumeration(lists, timeout, None, pg_options, group_desc)[0]


SHRINK_DEFAULT, SHRINK_ABORT = 0, 1


def shrink_group(
    ranks_to_exclude: list[int],
    group: Any = None,
    shrink_flags: int = SHRINK_DEFAULT,
    pg_options: Any = None,
) -> ProcessGroup:
    """Form a group of those that are left, after a fault or by agreement.  All ranks but the excluded ones call it.

    In the new group ranks count from 0.  Where `group` is that of all processes, which it is by default, the new one takes its place,
    ranks among all are those in it, and all other groups are given up.  What was sent in the old group is abandoned, with either of
    the flags.  `DistBackendError.lost_ranks` says whom to exclude after a fault.

    Args:
        ranks_to_exclude: ranks in `group`.
        shrink_flags: `SHRINK_DEFAULT` or `SHRINK_ABORT`.

    Raises:
        TypeError: no list of integers
        ValueError: no rank, one that is not in the group or comes twice, or all of them; another flag
        RuntimeError: this process is one of the excluded
        DistBackendError: one of those that are left is gone, too; call it again with its rank

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> dist.shrink_group([1]).size(), dist.get_rank()
    (3, 1)
    >>> dist.destroy_process_group()
    """
    if not isinstance(ranks_to_exclude, list):
        raise TypeError(f"ranks_to_exclude must be a list, but got {type(ranks_to_exclude).__name__}")
    if shrink_flags not in (SHRINK_DEFAULT, SHRINK_ABORT):
        raise ValueError(
            f"Invalid shrink_flags value: {shrink_flags}; there are SHRINK_DEFAULT and SHRINK_ABORT"
        )
    old = resolve(group)
    if old is None:
        raise RuntimeError("shrink_group(): this process is not in the group")
    _check_excluded(ranks_to_exclude, old)
    seconds, name = old._seconds, old._backend
    stay = [rank for k, rank in enumerate(old._ranks) if k not in ranks_to_exclude]
    if old is not _groups.default:
        tag = zlib.crc32(f"{old.group_name} {stay}".encode()) % (1 << 20)
        named = f"{old.group_name}-{tag}"
        part = _group_of(old._world, stay, named, seconds, old.group_desc, tag, name)
        part._bind(old._bound)
        _groups.all[named] = part
        return part
    world = old._world.without([old._ranks[k] for k in ranks_to_exclude], seconds)
    if not isinstance(world, FakeWorld):
        _world.replace(world)
    store = _groups.store
    for each in every():
        each._close()
    _forget()
    _groups.store = store
    new = _groups.all["0"] = _group_of(world, range(world.size), "0", seconds, "default_pg", 0, name)
    new._bind(old._bound)
    _groups.set_default(new)
    return new


def _check_excluded(ranks: list[Any], old: ProcessGroup) -> None:
    if not ranks:
        raise ValueError("ranks_to_exclude cannot be empty: say at least one rank")
    for k, rank in enumerate(ranks):
        if not isinstance(rank, int):
            raise TypeError(f"All elements in ranks_to_exclude must be integers, got {rank!r} at index {k}")
        if not 0 <= rank < old._size:
            raise ValueError(f"Rank {rank} at index {k} is out of bounds for group size {old._size}")
        if rank in ranks[:k]:
            raise ValueError(f"Duplicate rank {rank} found in ranks_to_exclude at index {k}")
    if len(ranks) == old._size:
        raise ValueError(f"Cannot exclude all {old._size} ranks from process group: one must remain")
    if old._rank in ranks:
        raise RuntimeError(
            f"Current rank {old._rank} is in the exclusion list and should not call shrink_group()"
        )


def _group_of(
    world: Any, ranks: Sequence[int], name: str, seconds: float, desc: str, tag: int, backend: str
) -> ProcessGroup:
    """A group of a backend."""
    if isinstance(world, FakeWorld):
        return FakeGroup(world, ranks, name, seconds, desc)
    if "nccl" not in backend:
        return MPIGroup(world, ranks, name, seconds, desc, tag, backend)
    from ._group_nccl import GroupOfDevices, NCCLGroup

    assert _groups.store is not None
    on_devices = NCCLGroup(world, ranks, name, seconds, desc, _groups.store)
    if backend == "nccl":
        return on_devices
    host = backend.removeprefix("cpu:").removesuffix(",cuda:nccl")
    return GroupOfDevices(MPIGroup(world, ranks, name, seconds, desc, tag, host), on_devices)


def get_default_store() -> Store:
    """The store through which all processes met; RuntimeError under mpiexec, where they need none."""
    default_group()
    if _groups.store is None:
        raise RuntimeError("there is no store: mpiexec has brought the processes together")
    return _groups.store


def warn_not_in_group(name: str) -> None:
    """Warn that a call of a process that is not in the group does nothing."""
    rank = "" if _groups.default is None else f"global rank {_groups.default._world.rank}, which"
    warnings.warn(f"Running {name} on {rank} does not belong to the given group.", stacklevel=4)


def _of_processes() -> tuple[int, int]:
    whole = default_group()
    return whole._rank, whole._size


def _information() -> dict[str, Any] | None:
    """What a trace says of the groups; nothing where there are none."""
    if _groups.default is None:
        return None
    return {
        "backend": _groups.default._backend,
        "rank": _groups.default._rank,
        "world_size": _groups.default._size,
        "pg_count": len(_groups.all),
        "pg_config": [
            {
                "pg_name": each.group_name,
                "pg_desc": each.group_desc,
                "backend_config": _config_of(each._backend),
                "pg_size": each._size,
                "ranks": list(each._ranks),
            }
            for each in _groups.all.values()
        ],
    }


set_callback("rank and number of processes", _of_processes)
set_callback("groups of processes", _information)
for _class in (GroupMember, group):
    _class.__module__ = display.public("distributed")
