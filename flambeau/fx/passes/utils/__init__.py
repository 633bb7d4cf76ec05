"""What passes share: matching and cutting out subgraphs."""

from ...._compat.absent import refusing as _refusing

__getattr__ = _refusing("fx.passes.utils")
