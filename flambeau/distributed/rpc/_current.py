"""The agent of this process, if it is a worker of some world."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...core.base import display

if TYPE_CHECKING:
    from ._agent import Agent


class _Here:
    agent: Agent | None = None


_here = _Here()


def is_set() -> bool:
    """Whether this process is a worker."""
    return _here.agent is not None


def current() -> Agent:
    """The agent of this process.

    Raises:
        RuntimeError: the process is no worker
    """
    if _here.agent is None:
        raise RuntimeError(
            f"RPC has not been initialized. Call {display.public('distributed.rpc.init_rpc')} first."
        )
    return _here.agent


def set_current(agent: Agent | None) -> None:
    _here.agent = agent


def _forget() -> None:
    """A forked process is in no world; the parent's connections end with the parent."""
    agent, _here.agent = _here.agent, None
    if agent is not None:
        agent.abandon()


os.register_at_fork(after_in_child=_forget)
