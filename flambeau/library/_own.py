"""`ops.flambeau.name(…)` in archives: operations of this library that ATen has not, or not with these arguments.

Their arguments stand as the program gave them.  What the dialect has no words for is a call, too: `ops.flambeau.dtype("float32")`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import enable_grad, no_grad
from ..core.base import formats
from ..core.base.dtypes import Size, by_name
from ..core.call.operation import Op, behind
from ..futures import Future
from ..operations.declare.registry import REGISTRY

OWN = "flambeau"
FORMATS = {
    str(getattr(formats, n)).rpartition(".")[2]: getattr(formats, n)
    for n in (
        "strided",
        "sparse_coo",
        "sparse_csr",
        "contiguous_format",
        "preserve_format",
        "channels_last",
        "channels_last_3d",
    )
}


def _format(name: str) -> Any:
    if name not in FORMATS:
        raise RuntimeError(f"there is no format {name!r}")
    return FORMATS[name]


def _dtype(name: str) -> Any:
    if name not in by_name:
        raise RuntimeError(f"there is no dtype {name!r}")
    return by_name[name]


def _future(value: Any) -> Future[Any]:
    """What `fork` gives: the call has been made."""
    made: Future[Any] = Future()
    made.set_result(value)
    return made


# What makes values that the dialect has no words for.
VALUES: dict[str, Callable[..., Any]] = {
    "value_dtype": _dtype,
    "value_format": _format,
    "value_slice": slice,
    "value_ellipsis": lambda: ...,
    "value_size": Size,
    "value_future": _future,
}
CONTEXTS: dict[str, Callable[[], Any]] = {
    "value_no_grad": no_grad,
    "value_enable_grad": enable_grad,
}  # of `with`


@functools.cache
def _table() -> dict[str, Op]:
    """The operations by their names in archives."""
    result: dict[str, Op] = {}
    for name, entry in REGISTRY.items():
        written = name.replace(".", "__")
        if isinstance(entry.function, Op):
            result[written] = entry.function
        if isinstance(entry.in_place, Op):
            result.setdefault(written + "_", entry.in_place)
    return result


@functools.cache
def _names() -> dict[Op, str]:
    return {op: name for name, op in reversed(_table().items())}


def own_name(op: Any) -> str | None:
    """What archives call an operation of ours; None for one that stands in no list."""
    return _names().get(behind(op))


def own_call(name: str) -> Callable[..., Any] | None:
    """What `ops.flambeau.name` calls."""
    return VALUES.get(name) or _table().get(name)


def run_own(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call of `ops.flambeau.name`."""
    function = own_call(name)
    assert function is not None  # checked before
    return function(*args, **kwargs)


def parameters(op: Op) -> inspect.Signature | None:
    """The signature of an operation, where it tells one."""
    try:
        return inspect.signature(op)
    except (TypeError, ValueError):
        return None
