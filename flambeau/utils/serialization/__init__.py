"""Settings of `flambeau.save` and `flambeau.load`."""

from __future__ import annotations

from . import config

__all__ = ["config"]
