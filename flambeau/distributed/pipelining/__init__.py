"""Pipelines: a model in stages on several processes, through which a batch goes in microbatches.

`docs/pipelines.md` has one model over four processes, the schedules and what they cost.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ..._compat.absent import refusing as _refusing
from . import microbatch as microbatch
from . import schedules as schedules
from . import stage as stage
from .schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    _ScheduleForwardOnly,  # noqa: F401
)
from .stage import PipelineStage, build_stage

if _TYPE_CHECKING:
    from ._pipe import Pipe, SplitPoint, pipe_split, pipeline

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "SplitPoint",
    "build_stage",
    "pipe_split",
    "pipeline",
]
_FROM_GRAPHS = ("Pipe", "SplitPoint", "pipe_split", "pipeline")  # whose module imports `export`
_absent_name = _refusing("distributed.pipelining")


def __getattr__(name: str) -> _Any:
    if name not in _FROM_GRAPHS:
        return _absent_name(name)
    value = globals()[name] = getattr(_import_module(f"{__name__}._pipe"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
