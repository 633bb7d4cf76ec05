"""Groups of processes are made (`init_process_group`, `new_group` and what stands on them) and given up (`destroy_process_group`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from zlib import crc32

from . import _world
from ._group_fake import FakeGroup, FakeWorld
from ._group_mpi import MPIGroup
from ._groups import OVER_MPI, GroupMember, default_group, every, groups, resolve
from ._process_group import ProcessGroup
from ._rendezvous import check_rank, rendezvous
from ._stores import PrefixStore, Store, TCPStore
from .constants import default_pg_timeout

_formed = 0  # how often init_process_group was called: each time has keys of its own in a store


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
    if groups.default is not None:
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
        groups.set_default(
            FakeGroup(FakeWorld(max(rank, 0), size), range(size), "0", wait.total_seconds(), "default_pg")
        )
    else:
        _init_processes(
            name, init_method, wait, None if world_size < 0 else world_size, None if rank < 0 else rank, store
        )
    assert groups.default is not None
    groups.default._bind(device_id)
    groups.all["0"] = groups.default


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
        group_info = (
            (store, rank, size, os.environ.get("FLAMBEAU_DISTRIBUTED_HOST", "127.0.0.1"))
            if store is not None
            else rendezvous(init_method or "env://", rank, size, timeout)
        )
        groups.store = PrefixStore(f"default_pg/{number}", group_info[0])
        check_rank(group_info[1], group_info[2])  # type: ignore[arg-type]
        return groups.store, *group_info[1:]  # type: ignore[return-value]

    by_nccl = "nccl" in name
    if by_nccl and not (_world.is_managed() and store is None and init_method is None):
        met = meet()  # also by processes that have a world: communicators of NCCL are made through the store
        world = _world.join(met[1], met[2], lambda: met, seconds, by_mpi=name != "nccl")
    else:
        world = _world.join(rank, size, meet, seconds)
    if groups.store is None and store is not None:
        groups.store = store
    if by_nccl:
        _make_store(world, seconds)
    default = _group_of(world, range(world.size), "0", seconds, "default_pg", groups.made, name)
    groups.set_default(default)


def _make_store(world: Any, seconds: float) -> None:
    """Under mpiexec, where processes meet without a store: one that rank 0 serves.  All processes call this."""
    if groups.store is not None:
        return
    host = os.environ.get("FLAMBEAU_DISTRIBUTED_HOST", "127.0.0.1")
    wait, served = timedelta(seconds=seconds), None
    if world.rank == 0:
        served = TCPStore(host, 0, is_master=True, timeout=wait, wait_for_workers=False)
    address = world.communicator.bcast(None if served is None else (host, served.port))
    made = TCPStore(address[0], address[1], timeout=wait) if served is None else served
    groups.store = PrefixStore(f"default_pg/{_formed}", made)


def _world_by_mpi(world: Any, seconds: float) -> Any:
    """The world that talks by MPI, of the processes that have met for NCCL alone.  All of them call this."""
    store = groups.store
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
        if kind in ("", "cpu") and (named in OVER_MPI or named == "fake"):
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
    resolved = resolve(group)
    assert resolved is not None
    if resolved is not groups.default:
        del groups.all[resolved.group_name]
        resolved._close()
        return
    made = groups.made
    for each in every():
        each._close()
    groups.clear()
    groups.made = made + 1


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
    parent = default_group()
    world = parent._world
    members = list(parent._ranks) if ranks is None else [int(rank) for rank in ranks]
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
    groups.made += 1
    name, seconds = str(groups.made), (parent._seconds if timeout is None else timeout.total_seconds())
    named = parent._backend if backend is None or isinstance(parent, FakeGroup) else _backend_of(backend)
    if not isinstance(parent, FakeGroup):  # all processes, before some of them go
        if "nccl" in named:
            _make_store(world, seconds)
        if named != "nccl":
            world = _world_by_mpi(world, seconds)
    if world.rank not in members:
        return GroupMember.NON_GROUP_MEMBER
    made = _group_of(world, members, name, seconds, group_desc or "", groups.made % (1 << 20), named)
    made._bind(parent._bound if device_id is None else device_id)
    groups.all[name] = made
    return made


def twin(group: Any) -> ProcessGroup:
    """A group of the same processes, whose calls do not meet those of `group`; one for each group.

    Its processes alone call it, the first time as a collective.  It is for threads, whose calls have no order with those of the program.
    """
    name = f"{group.group_name}/twin"
    made = groups.all.get(name)
    if made is None:
        about = (group._world, group._ranks, name, group._seconds, f"twin of {group.group_desc}")
        tag = (1 << 20) + crc32(name.encode()) % (1 << 20)  # none that new_group takes
        made = groups.all[name] = _group_of(*about, tag, group._backend)
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
    parent = resolve(group)
    if parent is None:
        raise ValueError("new_subgroups(): this process is not in the group")
    size = int(os.environ.get("LOCAL_WORLD_SIZE", parent._size)) if group_size is None else group_size
    if size < 1 or size > parent._size:
        raise ValueError(f"The arg 'group_size' ({size}) must not exceed the world size ({parent._size})")
    if parent._size % size != 0:
        raise ValueError(f"The world size ({parent._size}) must be divisible by 'group_size={size}'")
    parts = [list(parent._ranks[k : k + size]) for k in range(0, parent._size, size)]
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
    if old is not groups.default:
        tag = crc32(f"{old.group_name} {stay}".encode()) % (1 << 20)
        named = f"{old.group_name}-{tag}"
        part = _group_of(old._world, stay, named, seconds, old.group_desc, tag, name)
        part._bind(old._bound)
        groups.all[named] = part
        return part
    world = old._world.without([old._ranks[k] for k in ranks_to_exclude], seconds)
    if not isinstance(world, FakeWorld):
        _world.replace(world)
    store = groups.store
    for each in every():
        each._close()
    groups.clear()
    groups.store = store
    new = groups.all["0"] = _group_of(world, range(world.size), "0", seconds, "default_pg", 0, name)
    new._bind(old._bound)
    groups.set_default(new)
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

    assert groups.store is not None
    on_devices = NCCLGroup(world, ranks, name, seconds, desc, groups.store)
    if backend == "nccl":
        return on_devices
    host = backend.removeprefix("cpu:").removesuffix(",cuda:nccl")
    return GroupOfDevices(MPIGroup(world, ranks, name, seconds, desc, tag, host), on_devices)
