"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import enable_grad, no_grad
from ..core.base.tensor import TensorBase
from ..core.views.views import view_as_real
from ..operations.declare.registry import published
from ._line_search import Point, cubic_minimum, strong_wolfe
from .optimizer import Optimizer, Params

__all__ = ["LBFGS"]

_cat = published("")["cat"]


class LBFGS(Optimizer):
    """L-BFGS: steps by the gradient times an inverse Hessian that is made of past steps and changes of the gradient
    (Liu and Nocedal, 1989).

    One `step(closure)` is up to `max_iter` iterations, within `max_eval` (default: 1.25·`max_iter`) calls of the
    closure.  It ends when no gradient is above `tolerance_grad`, or when the loss or all parameters change by less than
    `tolerance_change`.  `history_size` steps are remembered, each of twice the parameters' size.  The direction's
    length is `lr` times itself, or, with `line_search_fn="strong_wolfe"`, what meets the strong Wolfe conditions.

    `closure` clears the gradients, computes the loss, calls backward and returns the loss.  Where it raises, parameters
    and state are what they were before the step.

    All state is that of the first parameter: `func_evals`, `n_iter`, `d` (the direction), `t` (the step), `old_dirs`
    and `old_stps` (changes of gradient and parameters), `ro`, `H_diag`, `prev_flat_grad`, `prev_loss`, `al`.
    Parameters are floating-point or complex tensors of any shape on one device, in one group.

    Raises ValueError for a negative lr and for several groups, RuntimeError for another `line_search_fn`.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3) ** 4).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure), bool(((w - 3).abs() < 0.1).all())
    (tensor(641., grad_fn=<SumBackward0>), True)
    """

    def __init__(
        self,
        params: Params,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if isinstance(lr, TensorBase) and lr.numel() != 1:
            raise ValueError(f"LBFGS: Tensor lr must be 1-element, got one of {lr.numel()} elements")
        if not 0.0 <= lr:
            raise ValueError(f"LBFGS: Invalid learning rate: {lr}, wanted a number >= 0")
        super().__init__(
            params,
            dict(
                lr=lr,
                max_iter=max_iter,
                max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
                tolerance_grad=tolerance_grad,
                tolerance_change=tolerance_change,
                history_size=history_size,
                line_search_fn=line_search_fn,
            ),
        )

    @property
    def _params(self) -> list[Any]:
        return self.param_groups[0]["params"]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds the one group of parameters; ValueError where there is one."""
        if self.param_groups:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations.  Returns the closure's first loss."""
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError(
                f"LBFGS.step: only 'strong_wolfe' is supported as line_search_fn, got {group['line_search_fn']!r}"
            )
        with no_grad():
            start = [p.clone() for p in self._params]
            try:
                loss, state = self._minimise(enable_grad()(closure), group)
            except BaseException:
                self._place(start)
                raise
        self.state[self._params[0]] = state
        return loss

    def _minimise(self, closure: Callable[[], Any], group: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The closure's first loss, and the state after the iterations."""
        lr, max_iter, max_eval = group["lr"], group["max_iter"], group["max_eval"]
        lr = lr.squeeze() if isinstance(lr, TensorBase) else lr
        state = dict(self.state.get(self._params[0], {}))
        for name in ("old_dirs", "old_stps", "ro", "al"):
            if name in state:
                state[name] = list(state[name])
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = closure()
        loss, gradient = float(first_loss), self._flat_gradient()
        state["func_evals"] += 1
        evaluations = 1
        if bool(gradient.abs().max() <= group["tolerance_grad"]):
            return first_loss, state
        for iteration in range(1, max_iter + 1):
            state["n_iter"] += 1
            self._turn(state, gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
            d = state["d"]
            t = min(1.0, 1.0 / gradient.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = gradient.dot(d)
            state["t"] = t
            if slope > -group["tolerance_change"]:
                break
            more = 0
            if group["line_search_fn"] is not None:
                result, more = strong_wolfe(
                    self._along(closure, d),
                    d,
                    t,
                    Point(0, loss, gradient, slope),
                    most=max_eval - evaluations,
                )
                t, loss, gradient = result.step, result.loss, result.gradient
                state["t"] = t
                self._move(t, d)
            else:
                self._move(t, d)
                if iteration != max_iter:  # after the last iteration nobody asks for its loss
                    loss, gradient, more = float(closure()), self._flat_gradient(), 1
            evaluations += more
            state["func_evals"] += more
            if (
                iteration == max_iter
                or evaluations >= max_eval
                or gradient.abs().max() <= group["tolerance_grad"]
                or (d * t).abs().max() <= group["tolerance_change"]
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            ):
                break
        return first_loss, state

    @staticmethod
    def _turn(state: dict[str, Any], gradient: Any, history_size: int) -> None:
        """Remembers the last step, and makes the next direction (Nocedal, 1980: two loops)."""
        if state["n_iter"] == 1:
            state.update(d=gradient.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return
        changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(changes) == history_size:
                for past in (changes, steps, ro):
                    past.pop(0)
            changes.append(change)
            steps.append(step)
            ro.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        al = state.setdefault("al", [None] * history_size)
        direction = gradient.neg()
        for i in reversed(range(len(changes))):
            al[i] = steps[i].dot(direction) * ro[i]
            direction.add_(changes[i], alpha=-al[i])
        direction = direction * state["H_diag"]
        for i in range(len(changes)):
            direction.add_(steps[i], alpha=al[i] - changes[i].dot(direction) * ro[i])
        state["d"] = direction

    # --- all parameters as one vector ---
    def _flat_gradient(self) -> Any:
        flat = []
        for p in self._params:
            g = p.new_zeros(p.shape) if p.grad is None else p.grad
            g = g.to_dense() if g.is_sparse else g
            g = view_as_real(g) if g.is_complex() else g
            flat.append(g.reshape(-1))
        return _cat(flat)

    def _along(self, closure: Callable[[], Any], d: Any) -> Callable[[Any], tuple[float, Any]]:
        """A function of a step along `d` that gives loss and gradient there, and leaves the parameters where they are."""
        here = [p.clone() for p in self._params]

        def evaluate(step: Any) -> tuple[float, Any]:
            self._move(step, d)
            loss, gradient = float(closure()), self._flat_gradient()
            self._place(here)
            return loss, gradient

        return evaluate

    def _move(self, step: Any, d: Any) -> None:
        offset = 0
        for p in self._params:
            p = view_as_real(p) if p.is_complex() else p
            p.add_(d[offset : offset + p.numel()].view_as(p), alpha=step)
            offset += p.numel()

    def _place(self, values: list[Any]) -> None:
        for p, value in zip(self._params, values):
            p.copy_(value)


# PyTorch's names of the search, which libraries import
def _cubic_interpolate(x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: Any = None) -> Any:
    """Where the cubic with values f and slopes g at x1 and x2 is least."""
    return cubic_minimum(Point(x1, f1, None, g1), Point(x2, f2, None, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[[Any, Any, Any], tuple[float, Any]],
    x: Any,
    t: Any,
    d: Any,
    f: float,
    g: Any,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Any, Any, int]:
    """The loss and the gradient at a good step along `d`, the step, and how often `obj_func(x, step, d)` was called."""
    best, evaluations = strong_wolfe(
        lambda step: obj_func(x, step, d),
        d,
        t,
        Point(0, f, g, gtd),
        most=max_ls,
        tolerance=tolerance_change,
        decrease=c1,
        curvature=c2,
    )
    return best.loss, best.gradient, best.step, evaluations
