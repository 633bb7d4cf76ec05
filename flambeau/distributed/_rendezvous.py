"""How processes that only know an address, a file or a store find each other: a store, a rank and a number of processes."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from urllib.parse import parse_qs, unquote, urlsplit

from ._file_store import FileStore
from ._stores import PrefixStore, Store, TCPStore

_LOOPBACK = "127.0.0.1"


def rendezvous(
    url: str, rank: int | None, size: int | None, timeout: timedelta
) -> tuple[Store, int, int, str]:
    """The store that `url` names, this process's rank, the number of processes, and where this process may listen.

    Raises:
        ValueError: the URL, or the environment that it refers to, does not tell the rank, the number or the address
        RuntimeError: no such way of finding each other
    """
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    rank = int(query["rank"]) if rank is None and "rank" in query else rank
    size = int(query["world_size"]) if size is None and "world_size" in query else size
    match parts.scheme:
        case "env":
            rank = _from_environment("env://", "RANK") if rank is None else rank
            size = _from_environment("env://", "WORLD_SIZE") if size is None else size
            for name in ("MASTER_ADDR", "MASTER_PORT"):
                if name not in os.environ:
                    raise ValueError(_missing("env://", f"environment variable {name} expected, but not set"))
            return _by_tcp(
                os.environ["MASTER_ADDR"], _from_environment("env://", "MASTER_PORT"), rank, size, timeout
            )
        case "tcp":
            if parts.port is None or not parts.hostname:
                raise ValueError(
                    _missing("tcp://", "port number missing" if parts.hostname else "host missing")
                )
            rank, size = _both("tcp://", rank, size)
            return _by_tcp(parts.hostname, parts.port, rank, size, timeout)
        case "file":
            path = unquote(parts.netloc + parts.path)
            if not path:
                raise ValueError(_missing("file://", "path missing"))
            rank, size = _both("file://", rank, size)
            store = FileStore(path, size)
            store.set_timeout(timeout)
            return store, rank, size, _LOOPBACK
        case _:
            raise RuntimeError(
                f"No rendezvous handler for {parts.scheme}:// (init_method={url!r}); there are env://, tcp:// and file://"
            )


def _both(scheme: str, rank: int | None, size: int | None) -> tuple[int, int]:
    if rank is None:
        raise ValueError(_missing(scheme, "rank parameter missing"))
    if size is None:
        raise ValueError(_missing(scheme, "world size parameter missing"))
    return rank, size


def _from_environment(scheme: str, name: str) -> int:
    text = os.environ.get(name)
    if text is None:
        raise ValueError(_missing(scheme, f"environment variable {name} expected, but not set"))
    try:
        return int(text)
    except ValueError:
        raise ValueError(_missing(scheme, f"environment variable {name} is no number: {text!r}")) from None


def _missing(scheme: str, what: str) -> str:
    return f"Error initializing torch.distributed using {scheme} rendezvous: {what}"


def check_rank(rank: int, size: int) -> None:
    """ValueError for a rank that is not one of `size`."""
    if size < 1:
        raise ValueError(f"init_process_group(): world_size must be at least 1, got {size}")
    if not 0 <= rank < size:
        raise ValueError(
            f"init_process_group(): Invalid rank {rank}, rank should be in the interval [0, {size - 1}]"
        )


def _by_tcp(host: str, port: int, rank: int, size: int, timeout: timedelta) -> tuple[Store, int, int, str]:
    check_rank(rank, size)
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # by the launcher
    store = TCPStore(host, port, is_master=rank == 0 and not served, timeout=timeout)
    own: Store = store
    if served:  # the store outlives processes that are started anew
        own = PrefixStore(f"/worker/attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    return own, rank, size, _own_address(store)


def _own_address(store: TCPStore) -> str:
    """Where others reach this process: the address from which it reaches the store."""
    return store._connection.getsockname()[0]


def free_port(host: str = _LOOPBACK) -> int:
    """A port at which nobody listens now."""
    with socket.create_server((host, 0)) as result:
        return result.getsockname()[1]
