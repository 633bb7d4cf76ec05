"""Which groups of processes there are, and what can be asked of them; `_group_making.py` makes them and gives them up."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta
from typing import Any

from ..core.base import display
from ..core.base.callbacks import set_callback
from . import _mpi
from ._process_group import ProcessGroup
from ._stores import Store

NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."
OVER_MPI = ("mpi", "gloo")  # gloo is PyTorch's name for what the CPU has


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

    def clear(self) -> None:
        """Leave all of them, as a forked process does."""
        self.store, self.all, self.made = None, {}, 0
        self.set_default(None)

    def set_default(self, default: ProcessGroup | None) -> None:
        self.default = default
        GroupMember.WORLD = group.WORLD = default


groups = _Groups()
os.register_at_fork(after_in_child=groups.clear)


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
    return groups.default is not None


def is_backend_available(backend: str) -> bool:
    """Whether `init_process_group` takes a backend.

    Raises nothing.

    >>> import flambeau.distributed as dist
    >>> dist.is_backend_available("fake"), dist.is_backend_available("ucc")
    (True, False)
    """
    if backend == "nccl":
        return is_nccl_available()
    return backend == "fake" or (backend in OVER_MPI and _mpi.installed())


def default_group(name: str = "") -> ProcessGroup:
    """The group of all processes; ValueError without one."""
    if groups.default is None:
        raise ValueError(NO_GROUP)
    return groups.default


def rank_not_in_group(group: Any) -> bool:
    """Whether this process is not in the group that an argument means."""
    return group is GroupMember.NON_GROUP_MEMBER


def set_timeout(timeout: timedelta, group: Any = None) -> None:
    """How long calls of a group wait from now on: PyTorch's `_set_pg_timeout`.

    Raises:
        TypeError: `timeout` is not a timedelta
        ValueError: there is no group, or this process is not in it
    """
    if not isinstance(timeout, timedelta):
        raise TypeError(f"timeout must be a datetime.timedelta, not {type(timeout).__name__}")
    which = resolve(group)
    if which is None:
        raise ValueError("Invalid process group specified: this process is not in it")
    which.set_timeout(timeout)


def every() -> list[ProcessGroup]:
    """The groups that this process is in."""
    return list(groups.all.values())


def named(name: str) -> ProcessGroup:
    """The group of a name; ValueError where this process is in none of it."""
    if name not in groups.all:
        raise ValueError(f"this process is in no group named {name!r}")
    return groups.all[name]


def resolve(group: Any) -> ProcessGroup | None:
    """The group that an argument means: by default that of all; None for a group that this process is not in."""
    if group is None:
        return default_group()
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup or None, not {type(group).__name__}")
    if groups.all.get(group.group_name) is not group:
        raise ValueError("Invalid process group specified: it was destroyed, or is of another process")
    return group


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
    resolved = resolve(group)
    return -1 if resolved is None else resolved._rank


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
    resolved = resolve(group)
    return -1 if resolved is None else resolved._size


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
    resolved = resolve(group)
    if resolved is None:
        raise ValueError("Invalid process group specified")
    return resolved._backend


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
    resolved = resolve(group)
    if resolved is None:
        raise ValueError("Invalid process group specified")
    return list(resolved._ranks)


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
    resolved = resolve(group)
    if resolved is None or global_rank not in resolved._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return resolved._ranks.index(global_rank)


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
    resolved = resolve(group)
    if resolved is None or not 0 <= group_rank < resolved._size:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return resolved._ranks[group_rank]


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


def get_default_store() -> Store:
    """The store through which all processes met; RuntimeError under mpiexec, where they need none."""
    default_group()
    if groups.store is None:
        raise RuntimeError("there is no store: mpiexec has brought the processes together")
    return groups.store


def warn_not_in_group(name: str) -> None:
    """Warn that a call of a process that is not in the group does nothing."""
    rank = "" if groups.default is None else f"global rank {groups.default._world.rank}, which"
    warnings.warn(f"Running {name} on {rank} does not belong to the given group.", stacklevel=4)


def _of_processes() -> tuple[int, int]:
    world = default_group()
    return world._rank, world._size


def _information() -> dict[str, Any] | None:
    """What a trace says of the groups; nothing where there are none."""
    if groups.default is None:
        return None
    return {
        "backend": groups.default._backend,
        "rank": groups.default._rank,
        "world_size": groups.default._size,
        "pg_count": len(groups.all),
        "pg_config": [
            {
                "pg_name": each.group_name,
                "pg_desc": each.group_desc,
                "backend_config": _config_of(each._backend),
                "pg_size": each._size,
                "ranks": list(each._ranks),
            }
            for each in groups.all.values()
        ],
    }


set_callback("rank and number of processes", _of_processes)
set_callback("groups of processes", _information)
for _class in (GroupMember, group):
    _class.__module__ = display.public("distributed")
