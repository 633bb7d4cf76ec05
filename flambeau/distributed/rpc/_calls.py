"""Calls as users make them."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...core.base import display
from ...futures import Future, wait_all
from . import _meeting
from ._agent import WorkerInfo
from ._current import current, is_set, set_current
from ._references import RRef
from .constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT
from .options import BackendType, RpcBackendOptions, TensorPipeRpcBackendOptions

_NAME = re.compile(r"[A-Za-z0-9_:-]{1,127}")
_formed = 0  # how often init_rpc was called: each time has keys of its own in a store
_stores: list[Any] = []  # the store of the world: one process has its server


class _Here(threading.local):
    futures: list[Future] | None = None  # of `_wait_all`


_here = _Here()


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Make this process a worker of a world, whose workers call each other's functions.

    Returns when all workers are there. name: the worker's own: letters, digits, underscores, colons and dashes, 127 at most.
    backend: TENSORPIPE, which means TCP. rank, world_size: this worker's number, and how many there are; where they are not
    given, `init_method` says them. rpc_backend_options: see TensorPipeRpcBackendOptions; by default the workers meet by `env://`.

    A worker listens at the address from which it reaches the store of `init_method`, and at no other.  Calls arrive as pickles,
    which run what they like: the workers trust each other, and whoever can read the store can become one.

    Raises:
        TypeError: `backend` or the options are of another class
        ValueError: the name is no name; the rank or the number of workers is not known
        RuntimeError: this process is a worker; workers disagree on their number, two have one rank or one name, or one does not come

    >>> from flambeau.distributed import rpc
    >>> rpc.init_rpc("worker 0", rank=0, world_size=1)
    Traceback (most recent call last):
        ...
    ValueError: init_rpc(): name may have letters, digits, underscores, colons and dashes, 1 to 127 of them, got 'worker 0'
    """
    global _formed
    if backend is not None and not isinstance(backend, BackendType):
        raise TypeError("Argument backend must be a member of BackendType")
    if rpc_backend_options is not None and not isinstance(rpc_backend_options, RpcBackendOptions):
        raise TypeError("Argument rpc_backend_options must be an instance of RpcBackendOptions")
    if not isinstance(name, str):
        raise TypeError(f"init_rpc(): name must be a str, not {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"init_rpc(): name may have letters, digits, underscores, colons and dashes, 1 to 127 of them, got {name!r}"
        )
    if is_set():
        raise RuntimeError("RPC is already initialized")
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    if not isinstance(options, TensorPipeRpcBackendOptions):
        options = TensorPipeRpcBackendOptions(
            rpc_timeout=options.rpc_timeout, init_method=options.init_method
        )
    agent, store = _meeting.join(name, rank, world_size or None, options, _formed)
    _formed += 1
    _stores[:] = [store]
    set_current(agent)
    _meeting.begin(agent)
    agent.accept()
    try:
        _meeting.gather(None, timeout=options.rpc_timeout)
    except BaseException:
        _end(False)
        raise


def shutdown(graceful: bool = True, timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Leave the world: no thread and no connection of it is left.

    Where `graceful`, wait first until all workers have called this and no call is underway between any of them, `timeout` seconds at most
    (0: any time).  References to values are of no use afterwards.

    Raises:
        RuntimeError: this process is no worker; a worker is gone or does not come in time, after which this one has left all the same

    >>> from flambeau.distributed import rpc
    >>> rpc.shutdown()
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """
    current()
    try:
        if graceful:
            _meeting.part(timeout)
    except BaseException:
        graceful = False
        raise
    finally:
        _end(graceful)


def _end(graceful: bool) -> None:
    agent = current()
    try:
        agent.close(graceful)
    finally:
        set_current(None)
        _stores.clear()


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """The worker with this name, by default this process.

    Raises:
        RuntimeError: this process is no worker, or there is none with this name

    >>> from flambeau.distributed import rpc
    >>> rpc.get_worker_info()
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """
    agent = current()
    return agent.me if worker_name is None else agent.find(worker_name)


def _invoke(
    call: Callable[..., Any],
    to: Any,
    func: Callable[..., Any],
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    timeout: float,
) -> Any:
    if not callable(func):
        raise TypeError("function should be callable.")
    if timeout != UNSET_RPC_TIMEOUT and not timeout >= 0:
        raise ValueError(f"timeout must not be negative, got {timeout}")
    return call(current().find(to).id, func, tuple(args or ()), dict(kwargs or {}), timeout)


def rpc_async(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Future:
    """Run `func(*args, **kwargs)` in worker `to` (its name, rank or WorkerInfo); a Future of what it returns.

    Functions travel by reference: `to` imports them. Tensors travel as their bytes, and arrive as tensors of their own; they must not be
    written to until the Future is done. timeout: seconds that it may take, 0 for any time, by default what `init_rpc` was given.

    Errors of the function are raised by the Future's `wait`, of their class, with the traceback of the worker in the text.

    Raises:
        TypeError: `func` cannot be called
        ValueError: `to` is no name, rank or WorkerInfo
        RuntimeError: this process is no worker; there is no worker `to`, or it is gone
        pickle.PicklingError, AttributeError: something cannot be pickled, as a lambda

    >>> from flambeau.distributed import rpc
    >>> rpc.rpc_async("worker1", max, args=(1, 2))
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """
    future = _invoke(current().call, to, func, args, kwargs, timeout)
    if _here.futures is not None:
        _here.futures.append(future)
    return future


def rpc_sync(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:
    """Run `func(*args, **kwargs)` in worker `to`, and return what it returns; see `rpc_async`.

    Raises:
        RuntimeError: the worker has died, or the time is over; errors of the function are raised of their class

    >>> from flambeau.distributed import rpc
    >>> rpc.rpc_sync("worker1", max, args=(1, 2))
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """
    return _invoke(current().call, to, func, args, kwargs, timeout).wait()


def remote(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> RRef:
    """Run `func(*args, **kwargs)` in worker `to`, which keeps what it returns; a RRef to that, at once.

    See `rpc_async`; an error of the function is raised when the RRef is used.

    Raises:
        RuntimeError: this process is no worker; there is no worker `to`, or it is gone

    >>> from flambeau.distributed import rpc
    >>> rpc.remote("worker1", list)
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """
    return _invoke(current().remote, to, func, args, kwargs, timeout)


def get_rpc_timeout() -> float:
    """Seconds that a call may take where it does not say so itself, 0 for any time.

    Raises:
        RuntimeError: this process is no worker

    >>> from flambeau.distributed import rpc
    >>> rpc.get_rpc_timeout()
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """
    return current().timeout


def _set_rpc_timeout(rpcTimeoutSeconds: float) -> None:
    current().timeout = float(rpcTimeoutSeconds)


def _get_debug_info() -> dict[str, str]:
    """Counts of what this worker holds and does, as texts."""
    return current().get_debug_info()


@contextlib.contextmanager
def _wait_all() -> Iterator[None]:
    """At the end, wait for all that `rpc_async` has returned to this thread inside."""
    _here.futures = []
    try:
        yield
    finally:
        futures, _here.futures = _here.futures, None
        wait_all(futures)


def _all_gather(
    obj: Any, worker_names: set[str] | None = None, timeout: float = UNSET_RPC_TIMEOUT
) -> dict[str, Any]:
    """What each of these workers (by default all) brings, by name; waits for them."""
    agent = current()
    ranks = None if worker_names is None else tuple(agent.find(name).id for name in worker_names)
    values = _meeting.gather(obj, ranks, 0 if timeout == UNSET_RPC_TIMEOUT else timeout)
    return {agent.infos[rank].name: value for rank, value in values.items()}


def _barrier(worker_names: set[str]) -> None:
    """Wait until all of these workers are here."""
    _all_gather(None, set(worker_names))


for _function in (
    init_rpc,
    shutdown,
    get_worker_info,
    rpc_async,
    rpc_sync,
    remote,
    get_rpc_timeout,
):
    _function.__module__ = display.public("distributed.rpc")
