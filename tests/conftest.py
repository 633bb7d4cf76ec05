"""What tests of several folders share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own handler of SIGINT, for tests that send it to this process or to one that they start.

    Whoever runs the tests in the background (`nohup pytest &`) has the signal ignored, which child processes would inherit.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
