"""Launchers that restart workers, which are absent."""

from ..._compat.absent import refusing as _refusing

__getattr__ = _refusing("distributed.elastic")
