"""Exported programs, which are not kept yet: every name says that it is absent."""

from .._compat.absent import refusing as _refusing

__all__: list[str] = []
__getattr__ = _refusing("export")
