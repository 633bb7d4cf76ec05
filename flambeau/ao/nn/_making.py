"""Classes that differ in their number of dimensions, or in the classes that they join, alone: each is written once and made for all."""

from __future__ import annotations

from typing import Any


def made(home: str, name: str, bases: tuple[Any, ...], text: str, **members: Any) -> Any:
    """A class of the module `home`, as a `class` statement there makes it.

    >>> from flambeau.ao.nn._making import made
    >>> kind = made("flambeau.ao.nn", "Conv2d", (object,), "A convolution.", dims=2)
    >>> kind, kind.__doc__, kind.dims
    (<class 'flambeau.ao.nn.Conv2d'>, 'A convolution.', 2)
    """
    return type(name, bases, {"__module__": home, "__qualname__": name, "__doc__": text, **members})


def sizes(dims: int, size: int) -> str:
    """The sizes of an example of so many dimensions, as its code and its answer write them.

    >>> from flambeau.ao.nn._making import sizes
    >>> sizes(3, 4)
    '4, 4, 4'
    """
    return ", ".join([str(size)] * dims)
