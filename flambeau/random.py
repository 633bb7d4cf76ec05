"""The default generators of random numbers, one of the host and one of each device: seeds, states, and `fork_rng`, which
leaves them as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .accelerator import get_device_module
from .core.make.random import (
    Generator,
    default_generator,
    device_states,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_device_states,
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
    "thread_safe_generator",
]


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str | None = None
) -> Iterator[None]:
    """A context, or decorator, after which the default generators continue where they stood before: the host's, and those of
    the devices of `device_type` whose indices `devices` lists (NVIDIA's, where no type is said).

    Without `devices` it is those of all devices of the type, or of all there are.  With `enabled=False` it does nothing.
    RuntimeError for a type without a module, and for a device that is not there.

    >>> import flambeau
    >>> _ = flambeau.manual_seed(0)
    >>> with flambeau.random.fork_rng():
    ...     inside = flambeau.rand(3)
    >>> bool((flambeau.rand(3) == inside).all())
    True
    """
    if device_type == "meta" or not enabled:
        yield
        return
    module = get_device_module(device_type or "cuda")
    listed = None if devices is None else list(devices)
    before = get_rng_state()
    theirs = None if listed is None else [module.get_rng_state(d) for d in listed]
    everywhere = device_states(device_type) if theirs is None else {}
    try:
        yield
    finally:
        set_rng_state(before)
        if theirs is None:
            set_device_states(everywhere, device_type)
        else:
            for d, state in zip(listed or (), theirs, strict=True):
                module.set_rng_state(state, d)


def thread_safe_generator() -> Generator | None:
    """In a DataLoader's worker that is a thread, its own generator; elsewhere None, which means the default one.

    >>> import flambeau
    >>> flambeau.randint(10, (2,), generator=flambeau.random.thread_safe_generator()).shape
    flambeau.Size([2])
    """
    from .utils.data._utils.worker import get_worker_info

    info = get_worker_info()
    return None if info is None or info.rng is None else info.rng.torch_generator
