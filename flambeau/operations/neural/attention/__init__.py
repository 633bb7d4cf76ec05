"""Attention: its backends, in tiles and in blocks."""

from ....core.base.lazily import waiting as _waiting

_waiting(__name__, "scores")  # imported for the first call that makes all scores
