"""The steps of a plan as steps of a library, each with a generated kernel; or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...codegen.irtext import Function
from ...codegen.irtext import Value as Word
from ...core.loops.plans import LoopPlan, RowLoopPlan
from ..convolutions import Convolution
from ..products import Product
from ..program import Call, Value
from ..report import why_called
from .errors import Ungenerated
from .indexed import IndexedStep
from .loops import launch_elements, launch_in_stages, launch_rows, rows_of, states_sizes
from .moving import CopyStep, JoinStep, PadStep, PickStep
from .parts import Parts
from .products import ConvolutionStep, Known, ProductStep, of_call, of_images, with_vectors
from .resampling import TapsStep

Find = Callable[[Value], "np.ndarray | None"]
"""The elements of a value that the library keeps; None for one that is computed."""


class LoopStep:
    """A kernel over elements or along rows."""

    known: Known | None = None

    def __init__(self, plan: LoopPlan, kernels: tuple[Any, ...]) -> None:
        self.plan, self.kernels = plan, kernels
        self.workspace = sum(states_sizes(plan, kernels))

    def emit(self, parts: Parts, f: Function, data: Sequence[Word], memory: Word, fault: Word) -> None:
        """`data`: results, then inputs."""
        plan = self.plan
        if not isinstance(plan, RowLoopPlan):
            launch_elements(parts, f, plan, self.kernels[0], data)
        elif len(self.kernels) > 1:
            launch_in_stages(parts, f, plan, self.kernels, data, memory)
        else:
            launch_rows(parts, f, parts.kernel(self.kernels[0]), rows_of(plan), data)


Step = (
    LoopStep
    | ProductStep
    | ConvolutionStep
    | CopyStep
    | JoinStep
    | PadStep
    | PickStep
    | TapsStep
    | IndexedStep
)

SAID: dict[str, type[JoinStep] | type[PadStep] | type[PickStep] | type[TapsStep]] = {
    "along": JoinStep,
    "picks": PickStep,
    "within": PadStep,
    "taps": TapsStep,
}
"""What a declaration says that a call does, in a step's arguments."""


def step_of(
    number: int, step: Any, values: list[Value], kernels: dict[LoopPlan, tuple[Any, ...]], known: Find
) -> Step:
    """A step of a library; Ungenerated where nothing generated computes it."""
    if isinstance(step, LoopPlan):
        return LoopStep(step, kernels[step])
    if isinstance(step, Product):
        return ProductStep(number, step, known)
    if isinstance(step, Convolution):
        return of_images(number, step, known)
    assert isinstance(step, Call)
    product, images = with_vectors(step), of_call(number, step, known)
    if images is not None:
        return images
    if product is not None:
        return ProductStep(number, product, known)
    entry = getattr(step.operation, "entry", None)
    arguments = step.arguments()
    if (
        entry is not None
        and entry.kind == "view"
        and len(step.results) == 1 == len(arguments)
        and not step.written
    ):
        return CopyStep(step.results[0], arguments[0])
    if step.written or any(v.reads is not None for v in arguments):
        raise Ungenerated(why_called(step))
    for said, kind in SAID.items():
        if entry is not None and said in entry.details:
            return kind(step, *entry.details[said](*step.args, **step.kwargs))
    return IndexedStep(step)


def is_of_shapes(step: Any) -> bool:
    """Whether a step is a call that computes shapes alone, which are known."""
    return (
        isinstance(step, Call)
        and getattr(getattr(step.operation, "entry", None), "kind", "") == "shape"
        and not step.results
    )


def operands_of(step: Any, values: list[Value]) -> list[Value]:
    """The values that a step is given the addresses of, results first."""
    if isinstance(step, Call):  # whose arguments are in the order of those of products and convolutions
        return [*step.results, *step.arguments()]
    return values
