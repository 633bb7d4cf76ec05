"""Several processes that compute together: groups, collectives and messages between them, over MPI.

>>> import flambeau as torch
>>> import flambeau.distributed as dist
>>> dist.init_process_group("fake", rank=0, world_size=4)  # "mpi" where there are four processes
>>> gradient = torch.ones(3)
>>> dist.all_reduce(gradient)
>>> dist.get_rank(), dist.get_world_size()
(0, 4)
>>> dist.destroy_process_group()

`docs/distributed.md` leads from one process to four.  Groups talk by MPI (mpi4py), which `pip install "flambeau[mpi]"` brings; "gloo"
is another name for it.  Stores, through which processes tell each other texts, need nothing.
"""

from __future__ import annotations

import os as _os
from collections.abc import Callable as _Callable
from importlib import import_module as _import_module
from typing import Any as _Any

from .._compat.absent import refusing as _refusing
from ..core.base import display as _display
from ._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from ._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from ._file_store import FileStore
from ._group_making import (
    SHRINK_ABORT,
    SHRINK_DEFAULT,
    destroy_process_group,
    init_process_group,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    shrink_group,
    split_group,
)
from ._groups import (
    GroupMember,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
)
from ._groups import rank_not_in_group as _rank_not_in_group  # noqa: F401
from ._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from ._messages import _coalescing_manager as _coalescing_manager
from ._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from ._process_group import ProcessGroup
from ._reductions import ReduceOp
from ._reductions import premultiplied_sum as _make_nccl_premul_sum  # noqa: F401
from ._stores import DistError, DistNetworkError, DistStoreError, HashStore, PrefixStore, Store, TCPStore
from ._work import Work
from ._world import DistBackendError

_all_gather_base, _reduce_scatter_base = (
    all_gather_into_tensor,
    reduce_scatter_tensor,
)  # their names of long ago


class Backend(str):
    """The name of a backend, in small letters.  ValueError for what is no text.

    >>> import flambeau.distributed as dist
    >>> dist.Backend("MPI") == dist.Backend.MPI
    True
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined gloo nccl ucc mpi xccl fake".split()
    backend_list = [UNDEFINED, GLOO, NCCL, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}  # by the type of the device
    backend_capability = {  # the types of devices of each
        GLOO: ["cpu"],
        NCCL: ["cuda"],
        MPI: ["cpu"],
        FAKE: ["cpu", "cuda"],
    }

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {type(name).__name__}")
        return super().__new__(cls, name.lower())


def get_default_backend_for_device(device: _Any) -> str:
    """The backend of groups whose tensors are on a device: its type, such as "cpu", or a `device`.

    Raises:
        ValueError: there is none

    >>> import flambeau.distributed as dist
    >>> dist.get_default_backend_for_device("cpu")
    'gloo'
    """
    kind = device.type if hasattr(device, "type") else str(device).partition(":")[0]
    result = Backend.default_device_backend_map.get(kind)
    if result is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return result


def is_torchelastic_launched() -> bool:
    """Whether a launcher that restarts workers has started this process: it says so in `TORCHELASTIC_RUN_ID`.

    >>> is_torchelastic_launched()
    False
    """
    return _os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _engine(name: str) -> _Callable[[], bool]:
    def available() -> bool:
        return False

    available.__name__ = available.__qualname__ = name
    available.__module__ = _display.public("distributed")
    available.__doc__ = f"""Whether groups can talk through it: False.

    >>> import {_display.NAME}
    >>> {_display.public("distributed")}.{name}()
    False
    """
    return available


is_ucc_available, is_xccl_available = _engine("is_ucc_available"), _engine("is_xccl_available")
_absent_name = _refusing("distributed")
_SUBMODULES = (
    "_functional_collectives",
    "algorithms",
    "autograd",
    "checkpoint",
    "device_mesh",
    "distributed_c10d",
    "elastic",
    "flight_recorder",
    "fsdp",
    "launcher",
    "nn",
    "optim",
    "pipelining",
    "remote_device",
    "rpc",
    "run",
    "tensor",
    "utils",
)


def __getattr__(name: str) -> _Any:
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(_import_module(f"{__package__}.device_mesh"), name)
    return _import_module(f"{__package__}.{name}") if name in _SUBMODULES else _absent_name(name)


__all__ = [
    "Backend",
    "DebugLevel",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "ReduceOp",
    "SHRINK_ABORT",
    "SHRINK_DEFAULT",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "shrink_group",
    "split_group",
]
for _name in __all__:  # shown under the name that users know
    if getattr(globals()[_name], "__module__", "").startswith(__name__ + "._"):
        globals()[_name].__module__ = _display.public("distributed")
