"""Modules whose activations are computed again in backward, or kept on the host."""

from ...._compat.absent import refusing as _refusing

__getattr__ = _refusing("distributed.algorithms._checkpoint")
