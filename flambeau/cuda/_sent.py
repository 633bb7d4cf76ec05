"""Memory that other processes have been given, and which is kept until they let go of it."""

from __future__ import annotations

from typing import Any

from ..core.base.memory import Storage

HELD, RELEASED = 1, 0
sent: list[tuple[Storage, Storage, Any]] = []  # what was sent, its ticket (HELD or RELEASED), and the event


def collect() -> None:
    """Let go of what no receiver holds any more."""
    sent[:] = [entry for entry in sent if entry[1][0] == HELD]
