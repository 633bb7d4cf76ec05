"""The default generator of random numbers: its seed, its state, and `fork_rng`, which leaves it as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .core.make.random import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


@contextmanager
def fork_rng(devices: object = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """A context, or decorator, after which the default generator continues where it stood before.

    All devices draw from the one default generator, so `devices` and `device_type` choose nothing.  With `enabled=False` it
    does nothing.

    >>> import flambeau
    >>> _ = flambeau.manual_seed(0)
    >>> with flambeau.random.fork_rng():
    ...     inside = flambeau.rand(3)
    >>> bool((flambeau.rand(3) == inside).all())
    True
    """
    if not enabled:
        yield
        return
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)
