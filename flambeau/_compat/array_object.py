"""What other libraries ask of a tensor beside PyTorch's methods: the array API standard, whose namespace (`_array_api`) comes with
the first question, and where CUDA memory is.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType
from typing import Any

from ..core.make import interchange

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def __array_namespace__(self: Any, /, *, api_version: str | None = None) -> ModuleType:
    """The namespace of the array API standard, 2024.12 (which earlier versions are part of).

    ValueError for other versions.

    >>> import flambeau
    >>> flambeau.ones(2).__array_namespace__().__array_api_version__
    '2024.12'
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"__array_namespace__(): version {api_version!r} of the array API is not there; {', '.join(VERSIONS)} are"
        )
    from .. import _array_api

    return _array_api


def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The tensor on another device, or itself: `to` by the name of the array API standard.

    `stream` is one of the device's, on which the copy runs.

    Raises:
        RuntimeError: there is no such device

    >>> import flambeau
    >>> x = flambeau.ones(2)
    >>> x.to_device("cpu") is x
    True
    """
    with nullcontext() if stream is None else stream:
        return self.to(device)


__cuda_array_interface__ = property(
    interchange.cuda_array_interface,
    doc="""Where and how the elements of a tensor on CUDA lie: a dict of `typestr`, `shape`, `strides` in bytes (None where it is
    contiguous), `data` and `version`, which numba and CuPy read.

    AttributeError for a tensor elsewhere, RuntimeError for one that requires a gradient.
    """,
)
