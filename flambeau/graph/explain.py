"""A call run once and planned, to look at the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.base.tensor import TensorBase
from .lines import Lines
from .lower import plan
from .program import Program
from .record import Recording
from .report import Report
from .trace import graph_of, mapped


def report(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Run a call once, and say how it is planned, with the lines of the program.

    As `trace.record`: leaves of everything that the call does, as control flow went this time.

    >>> import flambeau as torch
    >>> from flambeau.graph.explain import report
    >>> report(lambda x: (x * 2).exp(), torch.zeros(3)).home
    {%1: float32[3] = mul(%0, 2): kernel 0, %2: float32[3] = exp(%1): kernel 0}
    """
    inputs: list[Any] = []
    mapped((args, kwargs), TensorBase, inputs.append)
    with Recording() as recording, Lines(recording) as lines:
        result = function(*args, **kwargs)
    made: Report = plan(Program(graph_of(recording, inputs, result))).report
    made.lines = lines.of_calls()
    return made
