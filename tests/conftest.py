"""What tests of several folders share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

# Most of the time of a program for OpenCL would be the driver's passes: the tests run what flambeau has written, and
# `tests/devices/test_opencl.py` runs a sample of every kind of kernel as users have it.
os.environ.setdefault("FLAMBEAU_OPENCL_OPTIONS", "-cl-opt-disable")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collection has made lives to the end: no collection of garbage, of which tests of leaks make many, looks at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own handler of SIGINT, for tests that send it to this process or to one that they start.

    Whoever runs the tests in the background (`nohup pytest &`) has the signal ignored, which child processes would inherit.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
