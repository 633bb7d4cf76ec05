"""`while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._trees import check_callable, check_same, operands_of, truth
from ._watch import watcher


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any]) -> Any:
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)` is true; what is carried in the end.

    Raises:
        RuntimeError: `cond_fn` gives neither a bool nor a tensor of one element, or `body_fn` changes the number, a shape or
            a dtype of what is carried.

    >>> import flambeau
    >>> from flambeau._higher_order_ops import while_loop
    >>> while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (flambeau.tensor(0), flambeau.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    check_callable("while_loop", cond_fn=cond_fn, body_fn=body_fn)
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"while_loop(): expected carried_inputs to be a tuple or list, got {type(carried_inputs).__name__}"
        )
    carried = tuple(carried_inputs)
    operands_of("while_loop", "carried_inputs", carried, (bool, int, float))
    if (watch := watcher()) is not None:
        return watch(while_loop, (cond_fn, body_fn, carried), {})
    while truth("while_loop", "the value of cond_fn", cond_fn(*carried)):
        after = body_fn(*carried)
        after = tuple(after) if isinstance(after, (tuple, list)) else (after,)
        check_same("while_loop", "the value of body_fn", carried, after)
        carried = after
    return carried
