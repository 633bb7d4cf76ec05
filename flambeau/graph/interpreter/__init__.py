"""A concrete interpreter of Python's bytecode: runs a call once and notes what it read from outside, and what must hold of that."""

from .machine import Machine
from .policy import Policy

__all__ = ["Machine", "Policy"]
