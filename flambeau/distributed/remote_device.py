"""Names of devices of other processes."""

from __future__ import annotations

from typing import Any

from ..core.base.dtypes import device as Device

__all__: list[str] = []


class _remote_device:
    """A device of a worker: "worker1/cpu", "rank:0/cpu", "worker1" (its CPU), or "cpu" (of this process).

    Raises:
        TypeError: neither a text nor a device
        ValueError: a text of another form

    >>> from flambeau.distributed.remote_device import _remote_device
    >>> place = _remote_device("rank:1/cpu")
    >>> place.rank(), place.worker_name(), place.device(), place
    (1, None, device(type='cpu'), rank:1/cpu)
    """

    def __init__(self, remote_device: Any) -> None:
        self._worker_name: str | None = None
        self._rank: int | None = None
        if isinstance(remote_device, Device):
            self._device = remote_device
            return
        if not isinstance(remote_device, str):
            raise TypeError(f"Invalid type for remote_device: {type(remote_device)}")
        wrong = (
            f"Could not parse remote_device: {remote_device}. The valid format is '<workername>/<device>' or "
            "'rank:<rank>/<device>' or '<device>'"
        )
        where, slash, device = remote_device.partition("/")
        if "/" in device or (slash and not where) or not remote_device:
            raise ValueError(wrong)
        if not slash and _is_device(where):
            where, device = "", where
        self._device = Device(device if device else "cpu")
        kind, colon, number = where.partition(":")
        if not colon:
            self._worker_name = where or None
        elif kind == "rank" and number.isdigit():
            self._rank = int(number)
        else:
            raise ValueError(wrong)

    def worker_name(self) -> str | None:
        """The worker's name, None where it is not named."""
        return self._worker_name

    def rank(self) -> int | None:
        """The worker's rank, None where it is not given."""
        return self._rank

    def device(self) -> Any:
        """The device there."""
        return self._device

    def __repr__(self) -> str:
        if self._worker_name is not None:
            return f"{self._worker_name}/{self._device}"
        return str(self._device) if self._rank is None else f"rank:{self._rank}/{self._device}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _is_device(text: str) -> bool:
    try:
        Device(text)
    except (RuntimeError, ValueError):
        return False
    return True
