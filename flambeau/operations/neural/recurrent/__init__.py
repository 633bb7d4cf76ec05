"""Recurrent layers and cells."""

from ....core.base.lazily import waiting as _waiting

_waiting(__name__, "steps", "tiles")  # for the first of their calls
