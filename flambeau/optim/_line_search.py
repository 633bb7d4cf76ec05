"""A search along a line for a point that meets the strong Wolfe conditions (Nocedal and Wright, 2006, chapter 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ._functions import sqrt

Evaluate = Callable[[Any], tuple[float, Any]]


class Point(NamedTuple):
    """A step along the direction, the loss and the gradient there, and the slope along the direction."""

    step: Any
    loss: float
    gradient: Any
    slope: Any


def strong_wolfe(
    evaluate: Evaluate,
    direction: Any,
    step: Any,
    start: Point,
    *,
    most: int,
    tolerance: float = 1e-9,
    decrease: float = 1e-4,
    curvature: float = 0.9,
) -> tuple[Point, int]:
    """The best point found along `direction` from `start`, with `step` tried first, and how often the loss was requested.

    `evaluate(step)` gives the loss and the flat gradient.  A point is good where the loss is at most
    start.loss + `decrease`·step·start.slope, and the slope at most `curvature` times as steep as at the start.
    """
    evaluations = 0

    def point(step: Any) -> Point:
        nonlocal evaluations
        evaluations += 1
        loss, gradient = evaluate(step)
        return Point(step, loss, gradient, gradient.dot(direction))

    def too_high(at: Point) -> Any:
        return at.loss > start.loss + decrease * at.step * start.slope

    def flat(at: Point) -> Any:
        return abs(at.slope) <= -curvature * start.slope

    # Go on until two points have a good one between them.
    before, now, searched = start, point(step), 0
    while searched < most:
        if too_high(now) or (searched > 1 and now.loss >= before.loss):
            break
        if flat(now):
            return now, evaluations
        if now.slope >= 0:
            break
        bounds = (now.step + 0.01 * (now.step - before.step), now.step * 10)
        before, now = now, point(cubic_minimum(before, now, bounds))
        searched += 1
    if searched == most:
        before = start

    # Narrow them.
    ends = [before, now]
    low = 0 if before.loss <= now.loss else 1
    largest, stuck = direction.abs().max(), False
    while searched < most and not abs(ends[1].step - ends[0].step) * largest < tolerance:
        step = cubic_minimum(ends[0], ends[1])
        least, most_step = sorted(end.step for end in ends)
        margin = 0.1 * (most_step - least)
        if min(most_step - step, step - least) < margin:  # too near an end: a second time, keep away from it
            if stuck or step >= most_step or step <= least:
                step = most_step - margin if abs(step - most_step) < abs(step - least) else least + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = point(step)
        searched += 1
        if too_high(now) or now.loss >= ends[low].loss:
            ends[1 - low] = now
            low = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        good = flat(now)
        if not good and now.slope * (ends[1 - low].step - ends[low].step) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = now
        if good:
            break
    return ends[low], evaluations


def cubic_minimum(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through both points with their slopes is least, within `bounds` (or the points themselves)."""
    least, most = bounds if bounds is not None else sorted((a.step, b.step))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2.0
    d2 = sqrt(square)
    first, second = (a, b) if a.step <= b.step else (b, a)
    width = second.step - first.step
    place = second.step - width * ((second.slope + d2 - d1) / (second.slope - first.slope + 2 * d2))
    return min(max(place, least), most)
