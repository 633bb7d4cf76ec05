"""Settings of the compiler of graphs that programs set before they use it; there is none, so nothing reads them."""

from __future__ import annotations

from .._compat.absent import refusing

cache_size_limit = recompile_limit = 8
capture_scalar_outputs = False
suppress_errors = False
verbose = False

__getattr__ = refusing("_dynamo.config")
