"""What `cuda`, `opencl` and the other modules of devices offer of their default generators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..core.base import device as _devices
from ..core.base.dtypes import device as Device
from ..core.base.tensor import TensorBase
from ..core.make.random import Generator, default_of_device, seed_devices


def current(type: str) -> Generator:
    """The default generator of the current device, which need not have been used yet, nor be there."""
    return default_of_device(Device(type, _devices.current_device(type)))


def of(type: str, index: int | None) -> Generator:
    """The default generator of a device; RuntimeError where there is none."""
    return default_of_device(_devices.find_device(type, index).place)


def reseed(type: str) -> None:
    """Give all devices of the type one seed that nobody can foresee."""
    seed_devices(Generator().seed(), type)


def states(type: str) -> list[TensorBase]:
    """The states of the generators of all devices of the type."""
    return [of(type, k).get_state() for k in range(_devices.device_count(type))]


def set_states(type: str, new_states: Iterable[TensorBase]) -> None:
    """Let the devices' generators continue from the states, in order.  RuntimeError for more states than devices."""
    for k, state in enumerate(new_states):
        of(type, k).set_state(state)


class Defaults(Sequence[Generator]):
    """The default generators of all devices of a type, by their indices; empty without a driver."""

    def __init__(self, type: str) -> None:
        self._type = type

    def __len__(self) -> int:
        return _devices.device_count(self._type)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # an int, or a slice
        return self._all()[index]

    def __iter__(self) -> Iterator[Generator]:
        return iter(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> tuple[Generator, ...]:
        return tuple(default_of_device(Device(self._type, k)) for k in range(len(self)))
