"""Batches in page-locked memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .collate import rebuilt

if TYPE_CHECKING:
    from concurrent.futures import Future


class Pinner:
    """A thread that pins batches, one after the other, while the program does something else."""

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._thread = ThreadPoolExecutor(1, "flambeau-data-pin")

    def begin(self, data: Any) -> Future[Any]:
        """What will be `data` in page-locked memory."""
        return self._thread.submit(pin_memory, data)

    def end(self) -> None:
        """Ends the thread; what has not begun is not done."""
        self._thread.shutdown(cancel_futures=True)


def pin_memory(data: Any, device: Any = None) -> Any:
    """`data` with its tensors in page-locked memory, and whatever else has a method `pin_memory` as this returns it.

    `device` is not read: there is one kind of accelerator at a time.
    """
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, Mapping):
        return rebuilt(data, {key: pin_memory(data[key]) for key in data})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        pinned = rebuilt(data, [pin_memory(item) for item in data])
        return tuple(pinned) if type(data) is tuple else pinned
    return data
