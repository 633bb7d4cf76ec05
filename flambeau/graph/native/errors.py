"""What is wrong with a program of which no library is made."""

from __future__ import annotations


class Ungenerated(Exception):
    """A step without a generated kernel, with the reason."""
