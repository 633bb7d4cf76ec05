"""What a DataLoader is made of, at the paths that programs write (`_utils.collate.default_collate`)."""

from __future__ import annotations

from . import collate, errors, fetch, pin_memory, worker
from .errors import ExceptionWrapper

__all__ = ["ExceptionWrapper", "collate", "errors", "fetch", "pin_memory", "worker"]
