"""Several processes, which do not form groups yet: what asks has a true answer, as in a PyTorch built without this room.

>>> import flambeau as torch
>>> torch.distributed.is_available(), torch.distributed.is_initialized()
(False, False)

Stores, through which processes tell each other texts, are whole. What would use a group is a ValueError, as in PyTorch before
`init_process_group`; every other name says that it is absent.
"""

import os as _os
from collections.abc import Callable as _Callable
from importlib import import_module as _import_module
from typing import Any as _Any

from .._compat.absent import NO_GROUP as _NO_GROUP
from .._compat.absent import message as _message
from .._compat.absent import refusing as _refusing
from .._compat.absent import unmakeable as _unmakeable
from ..core.base import display as _display
from ._reductions import ReduceOp  # noqa: F401

ProcessGroup, Work = _unmakeable("distributed.ProcessGroup"), _unmakeable("distributed.Work")


class group:
    """Where the group of all processes stands: None, as there is none.

    >>> group.WORLD is None
    True
    """

    WORLD = None


def is_available() -> bool:
    """Whether processes can form groups: False.

    >>> is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """Whether this process is in a group: False.

    >>> is_initialized()
    False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher that restarts workers has started this process: it says so in `TORCHELASTIC_RUN_ID`.

    >>> is_torchelastic_launched()
    False
    """
    return _os.environ.get("TORCHELASTIC_RUN_ID") is not None


def init_process_group(*args: _Any, **options: _Any) -> None:
    """Form a group: NotImplementedError, as there are none yet.

    >>> init_process_group("gloo")
    Traceback (most recent call last):
        ...
    NotImplementedError: flambeau.distributed.init_process_group is not here: there are no process groups yet (docs/coverage.md \
lists what is here)
    """
    raise NotImplementedError(_message("distributed.init_process_group"))


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


def _of_group(name: str) -> _Callable[..., _Any]:
    def refuse(*args: _Any, **options: _Any) -> _Any:
        raise ValueError(_NO_GROUP)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = _display.public("distributed")
    refuse.__doc__ = f"""ValueError: there is no group that it could use.

    >>> import {_display.NAME}
    >>> {_display.public("distributed")}.{name}()
    Traceback (most recent call last):
        ...
    ValueError: {_NO_GROUP}
    """
    return refuse


_ENGINES = "gloo mpi nccl ucc xccl"
_OF_GROUP = """
    all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier broadcast
    broadcast_object_list destroy_process_group gather gather_object get_backend get_rank get_world_size irecv isend
    monitored_barrier new_group recv reduce reduce_scatter reduce_scatter_tensor scatter scatter_object_list send
"""
globals().update({name: _engine(name) for name in (f"is_{engine}_available" for engine in _ENGINES.split())})
globals().update({name: _of_group(name) for name in _OF_GROUP.split()})
_absent_name = _refusing("distributed")
_STORES = "DistError DistNetworkError DistStoreError HashStore PrefixStore Store TCPStore".split()


def __getattr__(name: str) -> _Any:
    if name not in _STORES:
        return _absent_name(name)
    value = globals()[name] = getattr(_import_module("._stores", __package__), name)
    return value


__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in (
    "Any", "Callable", "NO_GROUP", "annotations", "display", "import_module", "message", "os", "refusing", "unmakeable"
))  # fmt: skip
__all__ += _STORES
