"""Training a model: the loop, checkpoints that resume exactly, metrics, and plug-ins."""

from __future__ import annotations

from ._loop import Trainer
from .metrics import Accuracy, Mean, Metric
from .plugins import (
    AccuracyMonitor,
    Curves,
    EarlyStopping,
    Logger,
    LossMonitor,
    Monitor,
    Plugin,
    ProgressBar,
    ProgressMonitor,
    TensorBoard,
    TimeMonitor,
)

__all__ = [
    "Accuracy",
    "AccuracyMonitor",
    "Curves",
    "EarlyStopping",
    "Logger",
    "LossMonitor",
    "Mean",
    "Metric",
    "Monitor",
    "Plugin",
    "ProgressBar",
    "ProgressMonitor",
    "TensorBoard",
    "TimeMonitor",
    "Trainer",
]
