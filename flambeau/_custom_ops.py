"""What is left under an older name of `library`."""

from __future__ import annotations

from .library._definitions import impl_abstract
from .library._fakes import get_ctx

__all__ = ["get_ctx", "impl_abstract"]
