"""`elastic_launch`: call a function, or run a program, in several processes that form one world, and start them anew when some fail."""

from __future__ import annotations

import multiprocessing
import multiprocessing.spawn
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ..._compat.absent import refusing
from .._launch import LAST_CALL, MEETING, Plan, launch

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """How many machines and processes, where they meet, and how often they are started anew; see `distributed.run`.

    `rdzv_configs` may say `timeout` and `last_call_timeout` (seconds to wait for machines, and for more of them when there are enough)
    and `rank` (this machine's number).

    With `rdzv_backend="ray"` the machines are nodes of the Ray cluster at `rdzv_endpoint`; where that is empty, of the one that this
    process is in or Ray finds.

    Whatever `start_method` says, processes start anew, and a function and its arguments are pickled.

    Raises:
        ValueError: numbers that do not go together, `logs_specs` or a prefix of printed lines, or another `rdzv_backend` than "c10d",
            "static" and "ray"

    >>> from flambeau.distributed.launcher.api import LaunchConfig
    >>> LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2).max_restarts
    3
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    local_addr: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.min_nodes <= self.max_nodes or self.nproc_per_node < 1:
            raise ValueError(
                f"LaunchConfig(): at least one process, and 1 <= min_nodes <= max_nodes, not {self.min_nodes}, {self.max_nodes} "
                f"and {self.nproc_per_node} processes"
            )
        if self.rdzv_backend not in ("c10d", "static", "ray"):
            raise ValueError(
                f"LaunchConfig(): rdzv_backend is c10d, static or ray here, not {self.rdzv_backend!r}"
            )
        if self.logs_specs is not None or self.log_line_prefix_template is not None:
            raise ValueError("LaunchConfig(): logs_specs and log_line_prefix_template are not here")
        if self.start_method not in ("spawn", "fork", "forkserver"):
            raise ValueError(
                f"LaunchConfig(): start_method is spawn, fork or forkserver, not {self.start_method!r}"
            )
        if self.max_nodes > 1 and not self.rdzv_endpoint and self.rdzv_backend != "ray":
            raise ValueError("LaunchConfig(): several machines need rdzv_endpoint, HOST:PORT")


def _plan(config: LaunchConfig, command: list[str]) -> Plan:
    endpoint = "" if config.rdzv_backend == "ray" else config.rdzv_endpoint
    host, _, port = endpoint.rpartition(":")
    if endpoint and not host:
        host, port = endpoint, ""
    conf = config.rdzv_configs
    timeout = conf.get("timeout", config.rdzv_timeout)
    made = Plan(
        command,
        config.min_nodes,
        config.max_nodes,
        config.nproc_per_node,
        int(conf["rank"]) if "rank" in conf else None,
        host or "127.0.0.1",
        int(port or 0),
        timedelta(seconds=float(timeout)) if float(timeout) > 0 else MEETING,
        float(conf.get("last_call_timeout", LAST_CALL)),
        config.max_restarts,
        config.monitor_interval,
        config.role,
    )
    made.run_id = config.run_id or made.run_id
    return made


class elastic_launch:
    """`elastic_launch(config, entrypoint)(*args)`: what a function returned in each process of this machine, by rank.

    entrypoint: a function that can be pickled, or the name of a program, whose arguments are texts.

    Raises:
        ChildFailedError: processes failed, more often than they are started anew

    >>> import math
    >>> from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch
    >>> elastic_launch(LaunchConfig(1, 1, 2, max_restarts=0), math.sqrt)(4.0)
    {0: 2.0, 1: 2.0}
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(
    config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]
) -> dict[int, Any]:
    """What `elastic_launch(config, entrypoint)(*args)` does.

    Raises:
        ChildFailedError: processes failed, more often than they are started anew
        ValueError: there is nothing to start
        ImportError: rdzv_backend is "ray", and Ray is not installed
        RuntimeError: rdzv_backend is "ray", and MPI is Open MPI

    >>> from flambeau.distributed.launcher.api import LaunchConfig, launch_agent
    >>> launch_agent(LaunchConfig(1, 1, 1), "true", [])
    {}
    """
    if entrypoint is None:
        raise ValueError("launch_agent(): entrypoint is a function or a program, not None")
    on_ray = config.rdzv_backend == "ray"
    if isinstance(entrypoint, str):
        plan = _plan(config, [entrypoint, *map(str, args)])
        if on_ray:
            _on_ray(config, plan, None)
        else:
            launch(plan)
        return {}
    preparation = multiprocessing.spawn.get_preparation_data("worker")
    preparation["authkey"] = bytes(preparation["authkey"])
    call, command = (
        pickle.dumps(preparation) + pickle.dumps((entrypoint, args)),
        [sys.executable, "-m", f"{__package__}._entry"],
    )
    if on_ray:  # each worker has a folder on its node
        pickled = _on_ray(config, _plan(config, command), call)
        return {rank: pickle.loads(result) for rank, result in pickled.items()}
    with tempfile.TemporaryDirectory(prefix="torchelastic_") as folder:
        with open(os.path.join(folder, "call"), "wb") as file:
            file.write(call)
        launch(_plan(config, [*command, folder]))
        result = {}
        for name in os.listdir(folder):
            if name.startswith("result_"):
                with open(os.path.join(folder, name), "rb") as file:
                    result[int(name.removeprefix("result_"))] = pickle.load(file)
        return dict(sorted(result.items()))


def _on_ray(config: LaunchConfig, plan: Plan, call: bytes | None) -> dict[int, bytes]:
    from .._ray import launch_on_ray  # it imports Ray

    return launch_on_ray(plan, config.rdzv_endpoint, call)


__getattr__ = refusing("distributed.launcher.api")
