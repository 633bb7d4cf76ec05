"""Random numbers of NVIDIA devices: each device has a default generator of its own, which draws where no other is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.base.tensor import TensorBase
from ..core.make.random import seed_devices
from ..devices import generators as _generators
from ._find import index_of as _index_of

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

default_generators = _generators.Defaults("cuda")


def manual_seed(seed: int) -> None:
    """Start the stream of that seed on the current device; nothing is opened for it, and without a driver nothing comes of it.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.cuda.manual_seed(1)
    """
    _generators.current("cuda").manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Start the stream of that seed on every device, also on those that are first used later.

    Raises:
        TypeError: the seed is no number

    >>> import flambeau
    >>> flambeau.cuda.manual_seed_all(1)
    >>> all(generator.initial_seed() == 1 for generator in flambeau.cuda.default_generators)
    True
    """
    seed_devices(int(seed), "cuda")


def seed() -> None:
    """Give the current device a seed that nobody can foresee.

    >>> import flambeau
    >>> flambeau.cuda.seed()
    """
    _generators.current("cuda").seed()


def seed_all() -> None:
    """Give all devices one seed that nobody can foresee.

    >>> import flambeau
    >>> flambeau.cuda.seed_all()
    """
    _generators.reseed("cuda")


def initial_seed() -> int:
    """The seed of the current device.  RuntimeError without one.

    >>> import flambeau
    >>> flambeau.cuda.manual_seed_all(2)
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.initial_seed() == 2
    """
    return _generators.of("cuda", None).initial_seed()


def get_rng_state(device: Any = "cuda") -> TensorBase:
    """The state of a device's generator: 16 bytes on the host.  RuntimeError where there is no such device.

    Shape:
        a state: (16,)

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.get_rng_state().shape == (16,)
    """
    return _generators.of("cuda", _index_of(device)).get_state()


def get_rng_state_all() -> list[TensorBase]:
    """The states of all devices' generators.

    Shape:
        a state: (16,)

    >>> import flambeau
    >>> len(flambeau.cuda.get_rng_state_all()) == flambeau.cuda.device_count()
    True
    """
    return _generators.states("cuda")


def set_rng_state(new_state: TensorBase, device: Any = "cuda") -> None:
    """Let a device's generator continue from a state.  RuntimeError where there is no such device.

    Shape:
        a state: (16,)

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.set_rng_state(flambeau.cuda.get_rng_state())
    """
    _generators.of("cuda", _index_of(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[TensorBase]) -> None:
    """Let all devices' generators continue from their states.  RuntimeError for more states than devices.

    Shape:
        a state: (16,)

    >>> import flambeau
    >>> flambeau.cuda.set_rng_state_all(flambeau.cuda.get_rng_state_all())
    """
    _generators.set_states("cuda", new_states)
