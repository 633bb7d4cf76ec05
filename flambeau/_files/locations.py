"""Where storages go that are read, and what the places are called in files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..core.base import display
from ..core.base.dtypes import by_name
from ..core.base.dtypes import device as Device
from ..core.base.memory import Storage
from ..core.make.create import empty as new_empty

# (priority, storage -> its place or None, (storage, place) -> storage there or None), lowest first
_packages: list[tuple[int, Callable[[Any], str | None], Callable[[Any, str], Any]]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Have `save` and `load` ask two functions about storages; those of the lowest `priority` first.

    Args:
        priority: that of the CPU is 10, those of other devices 20 and more.
        tagger: what `save` writes as a storage's place, or None to leave it to the next one.
        deserializer: the storage, brought to the place of that name, or None.

    Raises:
        TypeError: an argument is missing

    >>> import flambeau
    >>> from flambeau.serialization import register_package
    >>> register_package(99, lambda storage: None, lambda storage, location: None)
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """What files call the place of a storage: `"cpu"`, `"cuda:0"` …; RuntimeError where no one knows.

    >>> import flambeau
    >>> flambeau.serialization.location_tag(flambeau.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag:
            return tag
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage, brought to the place that files call `location`; RuntimeError where no one knows how.

    >>> import flambeau
    >>> from flambeau.serialization import default_restore_location
    >>> storage = flambeau.ones(2).untyped_storage()
    >>> default_restore_location(storage, "cpu") is storage
    True
    """
    for _, _, deserializer in _packages:
        restored = deserializer(storage, location)
        if restored is not None:
            return restored
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with {location})"
    )


def restorer(map_location: Any) -> Callable[[Any, str], Any]:
    """What `map_location` says as a function of a storage on the CPU and of its place in the file."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        table = {_place(key): _place(value) for key, value in map_location.items()}
        return lambda storage, location: default_restore_location(storage, table.get(location, location))
    if isinstance(map_location, (str, bytes, Device)):
        place = _place(map_location)
        return lambda storage, location: default_restore_location(storage, place)
    if not callable(map_location):
        raise TypeError(
            f"{display.NAME}.load: map_location must be None, a device, a dict or a function, got "
            f"{type(map_location).__name__}"
        )

    def ask(storage: Any, location: str) -> Any:
        placed = map_location(storage, location)
        if placed is None:
            return default_restore_location(storage, location)
        placed = getattr(placed, "_untyped_storage", placed)
        if not isinstance(placed, Storage):
            raise TypeError(
                f"{display.NAME}.load: map_location must return a storage or None, got {type(placed).__name__}"
            )
        return placed

    return ask


def is_meta(map_location: Any) -> bool:
    """Whether nothing of the data is wanted."""
    return isinstance(map_location, (str, Device)) and Device(map_location).type == "meta"


def moved(storage: Any, target: Any) -> Any:
    """A storage, or its copy on another device."""
    source, target = storage.device, Device(target)
    if source == target:
        return storage
    return as_bytes(storage).to(target).untyped_storage()


def as_bytes(storage: Any) -> Any:
    """The tensor of a storage's bytes."""
    flat = new_empty(0, dtype=by_name["uint8"], device=storage.device)
    return flat.set_(storage, 0, (storage.nbytes(),), (1,))


def _place(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _cpu_tag(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def _cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _device_tag(storage: Any) -> str | None:
    return None if storage.device.type == "cpu" else str(storage.device)


def _blank(storage: Any, location: str) -> Any:
    if location != "meta":
        return None
    return new_empty(storage.nbytes(), dtype=by_name["uint8"], device="meta").untyped_storage()


def _on_device(storage: Any, location: str) -> Any:
    if re.fullmatch("(cuda|opencl)(:[0-9]{1,4})?", location) is None:
        return None
    kind = location.partition(":")[0]
    try:
        return moved(storage, location)
    except (RuntimeError, AssertionError, OSError) as error:
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device ({location}), which cannot be used here: {error}. "
            f"If you are running on a CPU-only machine, please use {display.NAME}.load with "
            f"map_location={display.NAME}.device('cpu') to map your storages to the CPU."
        ) from error


register_package(10, _cpu_tag, _cpu)
register_package(20, _device_tag, _on_device)
register_package(22, lambda storage: None, _blank)
