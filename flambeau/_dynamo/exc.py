"""Errors of `compile`."""

from __future__ import annotations

from .._compat.absent import refusing
from ..graph.errors import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    RecompileError,
    TorchDynamoException,
    Unsupported,
)

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "RecompileError",
    "TorchDynamoException",
    "Unsupported",
]

__getattr__ = refusing("_dynamo.exc")
