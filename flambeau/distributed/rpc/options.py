"""How calls travel, and how long they may take."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.base import display
from .constants import DEFAULT_INIT_METHOD, DEFAULT_NUM_WORKER_THREADS, DEFAULT_RPC_TIMEOUT_SEC

__all__ = ["BackendType", "RpcBackendOptions", "TensorPipeRpcBackendOptions"]


class BackendType(enum.Enum):
    """What carries calls: TENSORPIPE is the only one, and means TCP connections between the processes.

    >>> from flambeau.distributed import rpc
    >>> rpc.BackendType.TENSORPIPE.name
    'TENSORPIPE'
    """

    TENSORPIPE = "tensorpipe"


class RpcBackendOptions:
    """What all backends take.

    rpc_timeout: seconds that a call may take, 0 for any time. init_method: where processes find each other, as for
    `init_process_group`.

    Raises:
        TypeError: a timeout that is no number, an address that is no text
        ValueError: a negative timeout

    >>> from flambeau.distributed import rpc
    >>> rpc.RpcBackendOptions(rpc_timeout=5).rpc_timeout
    5.0
    """

    def __init__(
        self, rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC, init_method: str = DEFAULT_INIT_METHOD
    ) -> None:
        if isinstance(rpc_timeout, bool) or not isinstance(rpc_timeout, (int, float)):
            raise TypeError(
                f"RpcBackendOptions(): rpc_timeout must be a number of seconds, not {type(rpc_timeout).__name__}"
            )
        if not rpc_timeout >= 0:
            raise ValueError(f"RpcBackendOptions(): rpc_timeout must not be negative, got {rpc_timeout}")
        if not isinstance(init_method, str):
            raise TypeError(
                f"RpcBackendOptions(): init_method must be a str, not {type(init_method).__name__}"
            )
        self.rpc_timeout, self.init_method = float(rpc_timeout), init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Options of `BackendType.TENSORPIPE`.

    num_worker_threads: threads that run calls of others; those that wait for a call of their own do not count. rpc_timeout,
    init_method: see RpcBackendOptions. device_maps, devices: how tensors go from GPU to GPU, which is not here: tensors travel
    from CPU to CPU.

    Raises:
        ValueError: no thread, a negative timeout
        NotImplementedError: maps of devices

    >>> from flambeau.distributed import rpc
    >>> options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4, init_method="tcp://127.0.0.1:29500")
    >>> options.num_worker_threads, options.rpc_timeout
    (4, 60.0)
    """

    def __init__(
        self,
        *,
        num_worker_threads: int = DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = DEFAULT_INIT_METHOD,
        device_maps: Mapping[str, Mapping[Any, Any]] | None = None,
        devices: Sequence[Any] | None = None,
        _transports: list | None = None,
        _channels: list | None = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        if isinstance(num_worker_threads, bool) or not isinstance(num_worker_threads, int):
            raise TypeError(
                "TensorPipeRpcBackendOptions(): num_worker_threads must be an int, not "
                f"{type(num_worker_threads).__name__}"
            )
        if num_worker_threads < 1:
            raise ValueError(
                f"TensorPipeRpcBackendOptions(): num_worker_threads must be at least 1, got {num_worker_threads}"
            )
        self.num_worker_threads = num_worker_threads
        self.device_maps: dict[str, dict[Any, Any]] = {}
        self.devices: list[Any] = []
        for to, device_map in (device_maps or {}).items():
            self.set_device_map(to, device_map)
        if devices:
            self.set_devices(devices)

    def set_device_map(self, to: str, device_map: Mapping[Any, Any]) -> None:
        """Refused, unless it maps nothing: tensors travel from CPU to CPU."""
        if device_map:
            raise NotImplementedError(
                f"set_device_map(): tensors travel from CPU to CPU, no device is mapped for {to}"
            )

    def set_devices(self, devices: Sequence[Any]) -> None:
        """Refused, unless there are none."""
        if devices:
            raise NotImplementedError("set_devices(): tensors travel from CPU to CPU")


for _class in (BackendType, RpcBackendOptions, TensorPipeRpcBackendOptions):
    _class.__module__ = display.public("distributed.rpc")
