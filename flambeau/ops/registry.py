"""Every operation there is, once: what the public namespace, the Tensor class, tests and documentation are
drawn from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An operation and what can be derived from its declaration."""

    name: str
    kind: str  # pointwise, reduction, row, view, library, composite …
    function: Callable  # what users call
    places: tuple[str, ...]  # dotted public names, "Tensor.exp" for methods
    in_place: Callable | None
    body: Callable | None  # the declared scalar function
    reference: str | None  # an independent implementation, as "numpy.exp"
    domain: tuple[float, float]  # where random test inputs are drawn from
    differentiable: bool
    details: dict[str, Any]


REGISTRY: dict[str, Entry] = {}


def register(
    name: str,
    kind: str,
    function: Callable,
    *,
    places: tuple[str, ...] | None = None,
    in_place: Callable | None = None,
    body: Callable | None = None,
    reference: str | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    differentiable: bool = True,
    **details: Any,
) -> Callable:
    """Enter an operation; `places` defaults to the flat namespace and a method of Tensor."""
    if name in REGISTRY:
        raise ValueError(f"the operation {name} is declared twice")
    if places is None:
        places = (name, f"Tensor.{name}")
    REGISTRY[name] = Entry(
        name, kind, function, places, in_place, body, reference, domain, differentiable, details
    )
    return function


def library(kind: str, *places: str, **details: Any) -> Callable[[Callable], Callable]:
    """Enter a Python function as an operation at those dotted names (by default its own name and the method)."""

    def enter(function: Callable) -> Callable:
        name = details.pop("name", function.__name__)
        register(name, kind, function, places=places or None, **details)
        return function

    return enter


def published(prefix: str) -> dict[str, Callable]:
    """The operations public at `prefix` ("" the flat namespace, "Tensor.", "nn.functional."), in-place forms
    included.
    """
    found: dict[str, Callable] = {}
    for entry in REGISTRY.values():
        for place in entry.places:
            head, _, name = place.rpartition(".")
            if head != prefix.rstrip(".") or (name.startswith("_") and not name.startswith("__")):
                continue
            found[name] = entry.function
            if entry.in_place is not None and prefix in ("", "Tensor.", "nn.functional."):
                found[name + "_"] = entry.in_place
    return found
