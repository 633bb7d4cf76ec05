"""Random numbers that backward draws again: of checkpointed regions, whose numbers are not kept, but where the generator stood."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.make.create import zeros
from ..core.make.random import Generator, get_rng_state, set_rng_state
from .program import draws
from .record import Place, place

STATE = 8192  # bytes, of which a state of either stream takes a part
AHEAD = 8  # bytes that say how large a part


def state_before() -> TensorBase:
    """Where the default generator of the host stands: bytes as many for either stream of random numbers.

    >>> from flambeau.graph.drawing import state_before
    >>> state_before().shape
    flambeau.Size([8192])
    """
    state = get_rng_state()
    result = zeros(STATE, dtype=by_name["uint8"], device="cpu")
    result[:AHEAD].view(by_name["int64"]).fill_(len(state))
    result[AHEAD : AHEAD + len(state)].copy_(state)
    return result


vars(state_before)["_draws"] = True  # it stands right before a call that does


def drawn_again(state: TensorBase, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call gave when the generator stood there; the generator stays where it is.

    >>> import flambeau as torch
    >>> from flambeau.graph.drawing import drawn_again, state_before
    >>> state = state_before()
    >>> x = torch.rand(3)
    >>> torch.equal(drawn_again(state, torch.rand, 3), x)
    True
    """
    now = get_rng_state()
    length = int(state[:AHEAD].view(by_name["int64"]).item())
    set_rng_state(state[AHEAD : AHEAD + length])
    try:
        return operation(*args, **kwargs)
    finally:
        set_rng_state(now)


def may_draw_again(operation: Any, places: Iterable[Place], objects: Iterable[Any]) -> bool:
    """Whether a call takes random numbers of the host's default generator alone; `objects` are its arguments that are no tensors."""
    return (
        draws(operation)
        and not getattr(operation, "writes", False)
        and all(p.device is None for p in places)
        and not any(isinstance(x, Generator) for x in objects)
    )


def new_state() -> Place:
    """A place for a state, where nothing else lies."""
    return place(state_before())
