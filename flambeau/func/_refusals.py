"""What a function can do with one slice only."""

from __future__ import annotations


class NotForAllSlices(RuntimeError):
    """Something that a function can do with one slice, and not with all of them at once."""
