"""The logger of graphs, `flambeau.graph`, and the environment's switch for it.

`FLAMBEAU_LOG=graph` prints what was captured, refused and captured anew; `FLAMBEAU_LOG=+graph` also each plan: what runs together, what
does not and why, the size of the arena.  Programs reach the same through Python's `logging`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from logging import DEBUG

log = logging.getLogger("flambeau.graph")


def level_of(environment: Mapping[str, str]) -> int | None:
    """The level that the environment wants; None where it says nothing of graphs.

    >>> from flambeau.graph.logs import level_of
    >>> level_of({"FLAMBEAU_LOG": "graph"}), level_of({"FLAMBEAU_LOG": "+graph"}), level_of({})
    (20, 10, None)
    """
    wanted = [word.strip() for word in environment.get("FLAMBEAU_LOG", "").split(",")]
    if "+graph" in wanted:
        return DEBUG
    return logging.INFO if "graph" in wanted else None


def switch_on(level: int) -> None:
    """Print what is logged at this level or above to standard error, unless the program handles it itself."""
    log.setLevel(level)
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        log.addHandler(handler)


if (_wanted := level_of(os.environ)) is not None:
    switch_on(_wanted)
