"""Measuring how long statements take, and comparing, as `torch.utils.benchmark`.

>>> from flambeau.utils.benchmark import Timer
>>> measured = Timer("x + 1", setup="x = torch.ones(3)", label="add").blocked_autorange(min_run_time=0.001)
>>> measured.median > 0, measured.title
(True, 'add')
"""

from .compare import Compare
from .fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from .measurement import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from .timer import Language, Timer, timer

__all__ = [
    "Compare",
    "FuzzedParameter",
    "FuzzedTensor",
    "Fuzzer",
    "Language",
    "Measurement",
    "ParameterAlias",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]
