"""Kernels as loops over vectors, for a CPU core.

Vectors are explicit: one loop over whole vectors and one masked step for the rest, so that ten elements cost
one vector instruction each way, and a sum groups its terms by the lane count alone, whatever the processor.
"""

from __future__ import annotations

from . import schedule_cpu_indexed
from .complex import written_out
from .indexed import Indexed
from .irtext import Module
from .kernels import Pointwise, Row
from .schedule_cpu_frame import Frame, kernel_of
from .schedule_cpu_pointwise import PointwiseSchedule
from .schedule_cpu_rows import RowSchedule


def module_for(kernel: Pointwise | Row | Indexed, triple: str) -> Module:
    if isinstance(kernel, Indexed):
        return schedule_cpu_indexed.module_for(kernel, triple)
    if not isinstance(kernel, (Pointwise, Row)):
        return kernel.module(triple)  # written for a CPU
    kernel = written_out(kernel)
    module = Module(triple)
    f = kernel_of(module)
    frame = Frame(f, kernel)
    (PointwiseSchedule if isinstance(kernel, Pointwise) else RowSchedule)(frame).emit()
    f.do("ret void")
    return module
