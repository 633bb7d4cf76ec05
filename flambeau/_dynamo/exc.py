"""Errors of `compile`."""

from __future__ import annotations

from .._compat.absent import refusing
from ..graph.errors import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    InvalidBackend,
    RecompileError,
    TorchDynamoException,
    Unsupported,
    UserError,
)

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "InvalidBackend",
    "RecompileError",
    "TorchDynamoException",
    "Unsupported",
    "UserError",
]

__getattr__ = refusing("_dynamo.exc")
