"""What `flambeau.multiprocessing` holds."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from . import queue, reductions
from ._contexts import JoinableQueue, Pipe, Queue, SimpleQueue, get_context  # type: ignore[assignment]
from ._names import get_all_sharing_strategies, get_sharing_strategy, set_sharing_strategy
from .pool import Pool
from .reductions import init_reductions
from .spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__,  # type: ignore[attr-defined]
    "JoinableQueue",
    "Pipe",
    "Pool",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "Queue",
    "SimpleQueue",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_context",
    "get_sharing_strategy",
    "init_reductions",
    "queue",
    "reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
