"""What a DataLoader is made of, at the paths that programs write (`_utils.collate.default_collate`)."""

from __future__ import annotations

from importlib.util import find_spec

from . import collate, errors, fetch, pin_memory, signal_handling, worker
from .errors import ExceptionWrapper

__all__ = ["ExceptionWrapper", "collate", "errors", "fetch", "pin_memory", "signal_handling", "worker"]

MP_STATUS_CHECK_INTERVAL = (
    5.0  # seconds between two looks at whether workers live, in loaders that libraries write
)
HAS_NUMPY = find_spec("numpy") is not None
