"""Control flow as exported graphs call it: branches are graphs, operands lists of tensors, results tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..amp.autocast_mode import autocast
from ..autograd.grad_mode import set_grad_enabled
from .associative_scan import associative_scan
from .cond import cond
from .map import map as map_slices
from .scan import scan
from .while_loop import while_loop


def _more(function: Callable[..., Any], more: Sequence[Any]) -> Callable[..., Any]:
    """A branch that takes what is the same in every step after its own operands."""
    return (lambda *args: function(*args, *more)) if more else function


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def cond_of_graphs(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    """`cond`."""
    return cond(pred, true_fn, false_fn, tuple(operands))


def while_loop_of_graphs(
    cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any], additional_inputs: Sequence[Any] = ()
) -> Any:
    """`while_loop`, whose graphs read tensors that no step changes."""
    condition, body = _more(cond_fn, additional_inputs), _more(body_fn, additional_inputs)
    return while_loop(condition, body, tuple(carried_inputs))


def map_of_graphs(f: Callable, xs: Sequence[Any], pos_args: Sequence[Any]) -> Any:
    """`map`, over slices of several tensors."""
    return map_slices(lambda x, *args: f(*x, *args), list(xs), *pos_args)


def scan_of_graphs(
    combine_fn: Callable, init: Sequence[Any], xs: Sequence[Any], additional_inputs: Sequence[Any] = ()
) -> Any:
    """`scan`: the last carry, then what the steps gave."""
    count = len(init)

    def step(carry: Any, x: Any) -> tuple[list[Any], list[Any]]:
        found = combine_fn(*carry, *x, *additional_inputs)
        return list(found[:count]), list(found[count:])

    carry, ys = scan(step, list(init), list(xs))
    return (*carry, *ys)


def associative_scan_of_graphs(
    combine_fn: Callable, xs: Sequence[Any], additional_inputs: Sequence[Any] = ()
) -> Any:
    """`associative_scan`."""
    combined = lambda a, b: list(combine_fn(*a, *b, *additional_inputs))
    return tuple(associative_scan(combined, list(xs), 0))


def wrap_with_set_grad_enabled(enabled: bool, wrapped: Callable, *args: Any) -> Any:
    """A graph with gradients on or off."""
    with set_grad_enabled(enabled):
        return wrapped(*args)


def wrap_with_autocast(
    device_type: str, dtype: Any, enabled: bool, cache_enabled: bool | None, wrapped: Callable, *args: Any
) -> Any:
    """A graph within `autocast`."""
    with autocast(device_type, dtype, enabled, cache_enabled):
        return wrapped(*args)


# By PyTorch's names of them.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cond": cond_of_graphs,
    "while_loop": while_loop_of_graphs,
    "map_impl": map_of_graphs,
    "scan": scan_of_graphs,
    "associative_scan": associative_scan_of_graphs,
    "wrap_with_set_grad_enabled": wrap_with_set_grad_enabled,
    "wrap_with_autocast": wrap_with_autocast,
}
