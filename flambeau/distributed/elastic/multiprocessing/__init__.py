"""Workers of a launcher that restarts them, which is absent."""

from ...._compat.absent import refusing as _refusing

__getattr__ = _refusing("distributed.elastic.multiprocessing")
