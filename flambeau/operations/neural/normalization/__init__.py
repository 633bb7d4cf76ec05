"""Normalisation over batches, layers, groups and rows."""

from ....core.base.lazily import waiting as _waiting

_waiting(__name__, "gradients")  # imported when it is first used
