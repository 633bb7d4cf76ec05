"""What the namespace can do, and its defaults."""

from __future__ import annotations

from typing import Any

from .. import cuda
from ..core.base.device import get_default_device
from ..core.base.dtypes import by_name, device, get_default_dtype
from ._dtypes import KINDS, default_complex

__all__ = ["__array_namespace_info__"]


class __array_namespace_info__:
    """The inspection functions of the standard.

    >>> import flambeau
    >>> info = flambeau.ones(1).__array_namespace__().__array_namespace_info__()
    >>> info.capabilities()
    {'boolean indexing': True, 'data-dependent shapes': True, 'max dimensions': 64}
    >>> info.dtypes(kind="real floating")
    {'float32': flambeau.float32, 'float64': flambeau.float64}
    """

    def capabilities(self) -> dict[str, Any]:
        """Whether masks index, whether shapes may depend on values, and how many dimensions an array has at most."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> device:
        """Where arrays are made unless a device is given."""
        return get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of Python's numbers and of indices."""
        int64 = by_name["int64"]
        return {
            "real floating": get_default_dtype(),
            "complex floating": default_complex(),
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes by name: all of them, or those of a kind or of a tuple of kinds.  ValueError for an unknown kind."""
        if kind is None:
            kind = ("bool", "numeric")
        if isinstance(kind, tuple):
            return {name: result for k in kind for name, result in self.dtypes(kind=k).items()}
        if kind not in KINDS:
            raise ValueError(f"dtypes(): unrecognized kind {kind!r}; the kinds are {', '.join(KINDS)}")
        return {name: by_name[name] for name in KINDS[kind]}

    def devices(self) -> list[device]:
        """The devices on which arrays can be made."""
        cards = cuda.device_count() if cuda.is_available() else 0
        return [device("cpu"), *(device("cuda", k) for k in range(cards))]
