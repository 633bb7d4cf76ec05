"""Graphs: recorded at the dispatcher, optimised, run."""

from ..core.base.lazily import waiting as _waiting

_waiting(__name__, "backends")  # what compiles is imported with the first use
