"""Passes over graphs: shapes, splitting, drawing, matching."""

from ..._absent import refusing as _refusing

__getattr__ = _refusing("fx.passes")
