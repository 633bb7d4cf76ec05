"""Optimisers that take many steps in each call, along directions that remember earlier gradients."""

from __future__ import annotations

from math import isfinite, nan, sqrt
from typing import Any

from ..._tensor import Tensor
from ...autograd import no_grad
from ._steps import Function, _settings


def _root(x: float) -> float:
    return sqrt(x) if x >= 0 else nan


def _quotient(a: float, b: float) -> float:
    return a / b if b else nan


class _Line:
    """The function along a line: where one stands on it, the value there, the gradient and the slope."""

    def __init__(self, opfunc: Function, x: Tensor) -> None:
        self.opfunc, self.x = opfunc, x
        self.evaluations = 0

    def evaluate(self) -> None:
        value, gradient = self.opfunc(self.x)
        self.value, self.gradient = float(value), gradient.clone()
        self.evaluations += 1

    def move(self, step: float, direction: Tensor) -> float:
        """The slope after a step."""
        self.x.add_(direction, alpha=step)
        self.evaluate()
        return self.gradient.dot(direction).item()


@no_grad()
def cg(
    opfunc: Function, x: Tensor, config: dict, state: dict | None = None
) -> tuple[Tensor, list[float], int]:
    """Conjugate gradients (Polak and Ribière) with a line search by cubic and quadratic interpolation under the conditions of
    Wolfe and Powell, as in Rasmussen's `minimize.m`.

    Args:
        opfunc: takes x, returns the value there and the gradient.
        x: where to start; it is changed in place.
        config: `maxIter` (20), `maxEval` (1.25 · maxIter), `rho` (0.01), `sig` (0.5), `int` (0.1), `ext` (3), `ratio` (100).
        state: taken for the sake of other optimisers; nothing is kept.

    Returns:
        x, the values (the first before any step, the last at x), and the number of evaluations.

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x, values, _ = optim.cg(lambda x: ((x * x).sum().item(), 2 * x), flambeau.tensor([3.0, -4.0]), {})
    >>> values[0], values[-1] < 1e-6
    (25.0, True)
    """
    config, _ = _settings("cg", config, state)
    rho, sig = config.get("rho", 0.01), config.get("sig", 0.5)
    inside, beyond = config.get("int", 0.1), config.get("ext", 3.0)
    longest = config.get("maxIter", 20)
    most = abs(config.get("maxEval", longest * 1.25))

    line = _Line(opfunc, x)
    line.evaluate()
    f1, df1 = line.value, line.gradient
    values = [f1]
    s = -df1
    d1 = -s.dot(s).item()
    z1 = 1 / (1 - d1)  # the first step
    failed = False
    while line.evaluations < most:
        start = x.clone(), f1, df1
        d2 = line.move(z1, s)
        f3, d3, z3 = f1, d1, -z1  # the point behind
        left = min(longest, most - line.evaluations)
        limit, success = -1.0, False
        while True:
            while (line.value > f1 + z1 * rho * d1 or d2 > -sig * d1) and left > 0:
                limit = z1  # too far: nearer, by interpolation
                if line.value > f1:
                    z2 = z3 - _quotient(0.5 * d3 * z3 * z3, d3 * z3 + line.value - f3)
                else:
                    a = 6 * (line.value - f3) / z3 + 3 * (d2 + d3)
                    b = 3 * (f3 - line.value) - z3 * (d3 + 2 * d2)
                    z2 = _quotient(_root(b * b - a * d2 * z3 * z3) - b, a)
                z2 = z2 if isfinite(z2) else z3 / 2
                z2 = max(min(z2, inside * z3), (1 - inside) * z3)
                z1 += z2
                d2 = line.move(z2, s)
                left -= 1
                z3 -= z2
            if line.value > f1 + z1 * rho * d1 or d2 > -sig * d1:
                break
            if d2 > sig * d1:
                success = True
                break
            if left <= 0:
                break
            a = 6 * (line.value - f3) / z3 + 3 * (d2 + d3)  # further, by extrapolation
            b = 3 * (f3 - line.value) - z3 * (d3 + 2 * d2)
            z2 = _quotient(-d2 * z3 * z3, b + _root(b * b - a * d2 * z3 * z3))
            bounded = limit > -0.5
            if not isfinite(z2) or z2 < 0:
                z2 = (limit - z1) / 2 if bounded else z1 * (beyond - 1)
            elif bounded and z2 + z1 > limit:
                z2 = (limit - z1) / 2
            elif not bounded and z2 + z1 > z1 * beyond:
                z2 = z1 * (beyond - 1)
            elif z2 < -z3 * inside:
                z2 = -z3 * inside
            elif bounded and z2 < (limit - z1) * (1 - inside):
                z2 = (limit - z1) * (1 - inside)
            f3, d3, z3 = line.value, d2, -z2
            z1 += z2
            d2 = line.move(z2, s)
            left -= 1
        if success:
            f1, df2 = line.value, line.gradient
            values.append(f1)
            s = s * _quotient((df2.dot(df2) - df2.dot(df1)).item(), df1.dot(df1).item()) - df2
            df1 = df2
            d2 = df1.dot(s).item()
            if not d2 <= 0:  # no way down: begin again
                s = -df1
                d2 = -s.dot(s).item()
            if d2 == 0:
                break
            z1 *= min(config.get("ratio", 100), d1 / d2)
            d1 = d2
            failed = False
        else:
            x.copy_(start[0])
            f1, df1 = start[1:]
            if failed or line.evaluations > most:
                break
            s = -df1
            d1 = -s.dot(s).item()
            z1 = 1 / (1 - d1)
            failed = True
    return x, values, line.evaluations


def _direction(g: Tensor, pairs: list[tuple[Tensor, Tensor]], scale: float) -> Tensor:
    """-H · g for the inverse Hessian H that L-BFGS makes of steps and changes of the gradient (Nocedal 1980)."""
    q = -g
    rest = []
    for s, y in reversed(pairs):
        alpha = s.dot(q) / y.dot(s)
        q = q - alpha * y
        rest.append(alpha)
    q = q * scale
    for (s, y), alpha in zip(pairs, reversed(rest)):
        q = q + s * (alpha - y.dot(q) / y.dot(s))
    return q


@no_grad()
def lbfgs(
    opfunc: Function, x: Tensor, config: dict, state: dict | None = None
) -> tuple[Tensor, list[Any], int]:
    """L-BFGS with fixed steps, or with a line search of one's own.

    Args:
        opfunc: takes x, returns the value there and the gradient.
        x: where to start; it is changed in place.
        config: `maxIter` (20), `maxEval` (1.25 · maxIter), `tolFun` (1e-5, of the sum of |gradient|), `tolX` (1e-9, of a step
            and of a change of the value), `nCorrection` (100, how many steps are remembered), `learningRate` (1, the step's
            length), `lineSearch` (a function of opfunc, x, step, direction, value, gradient, slope and `lineSearchOptions`
            that returns value, gradient, x, step and the number of evaluations), `verbose`.
        state: what is kept from call to call; by default `config`.

    Returns:
        x, the values (the first before any step), and the number of evaluations.

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x, values, _ = optim.lbfgs(lambda x: ((x * x).sum().item(), 2 * x), flambeau.tensor([3.0, -4.0]), {})
    >>> values[0], values[-1] < 1e-6
    (25.0, True)
    """
    config, state = _settings("lbfgs", config, state)
    most_steps = config.get("maxIter", 20)
    most = config.get("maxEval", most_steps * 1.25)
    rate, search = config.get("learningRate", 1), config.get("lineSearch")
    tol, tol_x = config.get("tolFun", 1e-5), config.get("tolX", 1e-9)
    memory = config.get("nCorrection", 100)

    def end(why: str) -> tuple[Tensor, list[Any], int]:
        if config.get("verbose", False):
            print(f"<optim.lbfgs> {why}")
        return x, values, count

    f, g = opfunc(x)
    g = g.clone()
    values, count = [f], 1
    state["funcEval"] = state.get("funcEval", 0) + 1
    if g.abs().sum() <= tol:
        return end("optimality condition below tolFun")
    for step in range(1, most_steps + 1):
        state["nIter"] = state.get("nIter", 0) + 1
        if "d" not in state:
            d, pairs, scale = -g, [], 1.0
        else:
            pairs, scale = state["pairs"], state["Hdiag"]
            y, s = g - state["g_old"], state["d"] * state["t"]
            ys = y.dot(s).item()
            if ys > 1e-10:
                pairs = [*pairs, (s, y)][-memory:]
                scale = ys / y.dot(y).item()
            d = _direction(g, pairs, scale)
        slope = g.dot(d).item()
        t = min(1, 1 / g.abs().sum().item()) * rate if state["nIter"] == 1 else rate
        before = f
        state.update(d=d, pairs=pairs, Hdiag=scale, g_old=g, f_old=before, t=t)
        if search is not None:
            f, g, moved, t, evaluations = search(
                opfunc, x, t, d, f, g, slope, config.get("lineSearchOptions")
            )
            if moved is not x:
                x.copy_(moved)
            state["t"] = t
        else:
            x.add_(d, alpha=t)
            if step == most_steps:  # what comes out here is not needed any more
                return end("reached max number of iterations")
            f, g = opfunc(x)
            evaluations = 1
        g = g.clone()
        values.append(f)
        count += evaluations
        state["funcEval"] += evaluations
        if step == most_steps:
            return end("reached max number of iterations")
        if count >= most:
            return end("max nb of function evals")
        if g.abs().sum() <= tol:
            return end("optimality condition below tolFun")
        if slope > -tol_x:
            return end("no progress along the direction")
        if (d * t).abs().sum() <= tol_x:
            return end("step size below tolX")
        if abs(f - before) < tol_x:
            return end("function value changing less than tolX")
    return end("no iterations")
