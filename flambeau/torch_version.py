"""Versions that compare as versions, not as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .version import __version__ as _own

__all__ = ["TorchVersion"]


def _parsed(version: Any) -> Any:
    """A version that `packaging` understands, from one, from text, or from parts such as (2, 1)."""
    from packaging.version import Version

    if isinstance(version, Version):
        return version
    return Version(version if isinstance(version, str) else ".".join(str(part) for part in version))


class TorchVersion(str):
    """Text that compares as a version with text, with `packaging`'s versions and with tuples of parts.

    What is no version is compared as text.

    Raises:
        TypeError: it is compared with what is no version

    >>> from flambeau.torch_version import TorchVersion
    >>> version = TorchVersion("2.13.0")
    >>> version > "2.4", version >= (2, 13), version == "2.13", version < "2.13.0.dev1"
    (True, True, True, False)
    """

    def _compare(self, other: Any, how: str) -> bool:
        from packaging.version import InvalidVersion

        try:
            return bool(getattr(_parsed(str(self)), how)(_parsed(other)))
        except InvalidVersion:
            text = (
                other
                if isinstance(other, str)
                else ".".join(map(str, other))
                if isinstance(other, Iterable)
                else other
            )
            return bool(getattr(str(self), how)(text))

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> bool:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, "__ge__")

    def __eq__(self, other: object) -> bool:
        return self._compare(other, "__eq__")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()


__version__ = TorchVersion(_own)
