"""Functions that run in other processes: remote calls, and references to values that live there.

Processes become the workers of a world by `init_rpc`, and then call each other:

    rpc.init_rpc("worker0", rank=0, world_size=2)
    rpc.rpc_sync("worker1", torch.add, args=(torch.ones(2), 3))
    rpc.shutdown()

`docs/rpc.md` has a program that runs.  Calls travel over TCP connections as pickles and the bytes of their tensors.

>>> from flambeau.distributed import rpc
>>> rpc.is_available()
True
"""

from __future__ import annotations

from ..._compat.absent import refusing
from . import constants, functions, options
from ._agent import WorkerInfo
from ._calls import _all_gather as _all_gather
from ._calls import _barrier as _barrier
from ._calls import _get_debug_info as _get_debug_info
from ._calls import _set_rpc_timeout as _set_rpc_timeout
from ._calls import _wait_all as _wait_all
from ._calls import (
    get_rpc_timeout,
    get_worker_info,
    init_rpc,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from ._current import current as _get_current_rpc_agent  # noqa: F401
from ._current import is_set as _is_current_rpc_agent_set  # noqa: F401
from ._references import RRef
from .options import BackendType, RpcBackendOptions, TensorPipeRpcBackendOptions

PyRRef = RRef


def is_available() -> bool:
    """Whether functions can be called in other processes: True.

    >>> from flambeau.distributed import rpc
    >>> rpc.is_available()
    True
    """
    return True


__all__ = [
    "BackendType",
    "PyRRef",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "constants",
    "functions",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "options",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]
__getattr__ = refusing("distributed.rpc")
