"""`ops.higher_order`: control flow as steps of graphs, whose arguments are graphs: `cond`, `while_loop`, `map_impl`, `scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._higher_order_ops.associative_scan import associative_scan
from ..amp.autocast_mode import autocast
from ..autograd.grad_mode import set_grad_enabled
from ..core.base import display
from ..core.places.join import stack
from ._packets import KINDS, OpNamespace


class HigherOrder:
    """A step that calls graphs; all it takes and gives beside them are flat tuples of tensors and numbers.

    >>> import flambeau as torch
    >>> torch.ops.higher_order.cond(True, lambda x: (x + 1,), lambda x: (x,), (torch.ones(2),))
    (tensor([2., 2.]),)
    """

    namespace = "higher_order"
    _overloadname = "default"

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__ = self.__qualname__ = self._opname = name
        self.__module__ = f"{display.NAME}.ops.higher_order"
        self.function = function

    @property
    def code_path(self) -> str:
        """Where the code of a graph finds it in the library."""
        return f"ops.higher_order.{self.__name__}"

    def name(self) -> str:
        """Its name."""
        return self.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __copy__(self) -> HigherOrder:
        return self

    def __deepcopy__(self, memo: Any) -> HigherOrder:
        return self

    def __reduce__(self) -> Any:
        return higher_order, (self.__name__,)

    def __str__(self) -> str:
        return self.__name__

    __repr__ = __str__


def _cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    return (true_fn if bool(pred) else false_fn)(*operands)


def _while_loop(
    cond_fn: Callable, body_fn: Callable, carried: Sequence[Any], more: Sequence[Any] = ()
) -> Any:
    state = tuple(carried)
    while bool(_one(cond_fn(*state, *more))):
        state = tuple(body_fn(*state, *more))
    return state


def _one(x: Any) -> Any:
    return x[0] if isinstance(x, (tuple, list)) else x


def _map(f: Callable, xs: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    result = [f(*(x[k] for x in xs), *more) for k in range(len(xs[0]))]
    return tuple(stack(parts) for parts in zip(*result))


def _scan(combine_fn: Callable, init: Sequence[Any], xs: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    carry, outputs = list(init), []
    for k in range(len(xs[0])):
        result = combine_fn(*carry, *(x[k] for x in xs), *more)
        carry, y = list(result[: len(carry)]), result[len(carry) :]
        outputs.append(y)
    return (*carry, *(stack(parts) for parts in zip(*outputs)))


def _associative_scan(combine_fn: Callable, xs: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    combined = lambda a, b: list(combine_fn(*a, *b, *more))
    return tuple(associative_scan(combined, list(xs), 0))


def _with_gradients(enabled: bool, wrapped: Callable, *args: Any) -> Any:
    with set_grad_enabled(enabled):
        return wrapped(*args)


def _with_autocast(
    device_type: str, dtype: Any, enabled: bool, cache_enabled: bool | None, wrapped: Callable, *args: Any
) -> Any:
    with autocast(device_type, dtype, enabled, cache_enabled):
        return wrapped(*args)


OPERATIONS = {
    name: HigherOrder(name, function)
    for name, function in (
        ("cond", _cond),
        ("while_loop", _while_loop),
        ("map_impl", _map),
        ("scan", _scan),
        ("associative_scan", _associative_scan),
        ("wrap_with_set_grad_enabled", _with_gradients),
        ("wrap_with_autocast", _with_autocast),
    )
}


def higher_order(name: str) -> HigherOrder:
    """The step of that name; AttributeError for none.

    >>> from flambeau.library._higher_order import higher_order
    >>> higher_order("cond")
    cond
    """
    if name not in OPERATIONS:
        raise AttributeError(
            f"there is no {display.NAME}.ops.higher_order.{name}: there are {', '.join(OPERATIONS)}"
        )
    return OPERATIONS[name]


class HigherOrderNamespace(OpNamespace):
    """The namespace `higher_order`."""

    def __getattr__(self, op_name: str) -> Any:
        if op_name.startswith("_"):
            raise AttributeError(op_name)
        return higher_order(op_name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *OPERATIONS]


KINDS["higher_order"] = HigherOrderNamespace
