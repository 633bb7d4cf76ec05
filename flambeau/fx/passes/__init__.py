"""Passes over graphs: shapes, splitting, drawing, matching."""

from ..._compat.absent import refusing as _refusing

__getattr__ = _refusing("fx.passes")
