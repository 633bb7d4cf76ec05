"""Convolutions and their gradients: which way is taken, and the ways."""

from ....core.base.lazily import waiting as _waiting

_waiting(__name__, "depthwise", "families", "grid", "half_families", "halves")  # for the first of their calls
