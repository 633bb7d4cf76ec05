"""Adafactor."""

from __future__ import annotations

from ..core.base.typeinfo import finfo
from ..operations.rows.norms import norm2
from ._declared import Declared, Option, like, scalar
from ._functional import function_of
from ._functions import maximum, sqrt
from ._kernel import kernel


def _rows(p):
    return p.new_zeros((*p.shape[:-1], 1)) if p.dim() > 1 else None


def _columns(p):
    return p.new_zeros((*p.shape[:-2], 1, p.shape[-1])) if p.dim() > 1 else None


def _whole(p):
    return p.new_zeros(p.shape) if p.dim() < 2 else None


class Adafactor(Declared):
    """Adafactor: keeps of the mean squares of a matrix those of its rows and columns alone (Shazeer and Stern, 2018).

    At the parameter's step t, with w = t^`beta2_decay`: r ← r + w·(mean of g² along rows - r), the same for the
    columns' c, and v = r·c / mean(r), at least eps₁²; for vectors v ← v + w·(g² - v).  Then u = g / √v and
    p ← p·(1 - lr·`weight_decay`) - max(eps₂, RMS(p))·min(lr, 1/√t) · u / max(1, RMS(u)/`d`), where RMS is the root
    of the mean square.  lr is thus the largest relative step.  As in PyTorch, eps₁ bounds v where the paper adds it
    to g².  `eps` are (eps₁, eps₂); eps₁ = None is the epsilon of the dtype.  The last two dimensions of a parameter
    are its rows and columns.

    `state[p]` has `step` and `row_var` (r) and `col_var` (c), or, for vectors and numbers, `variance` (v).
    Parameters are floating-point tensors of any shape.  The options that all optimisers share are explained in
    `Optimizer`.

    Raises ValueError for negative lr, eps or weight_decay, `beta2_decay` above 0, and `d` below 1; RuntimeError in
    `step` for complex parameters.

    >>> import flambeau
    >>> w = flambeau.tensor([[1.0, -2.0], [2.0, -4.0]], requires_grad=True)
    >>> optimizer = flambeau.optim.Adafactor([w], lr=0.25)
    >>> (w * w).sum().backward(), optimizer.step(), w
    (None, None, tensor([[ 0.3750, -1.3750],
            [ 1.3750, -3.3750]], requires_grad=True))
    """

    options = dict(
        lr=Option(1e-2, lambda x: bool(0.0 <= x), "a number >= 0", "Learning rate should be >= 0 but is: {}"),
        beta2_decay=Option(-0.8, lambda x: x <= 0, "a number <= 0", "beta2_decay should be <= 0 but is: {}"),
        eps=Option(
            (None, 1e-3),
            lambda e: (e[0] is None or e[0] >= 0) and e[1] >= 0,
            "two numbers >= 0, of which the first may be None",
            "epsilon1 should be >= 0 but is: {0[0]}, epsilon2 should be >= 0 but is: {0[1]}",
        ),
        d=Option(1.0, lambda x: x >= 1, "a number >= 1", "Clipping threshold d should be >= 1 but is: {}"),
        weight_decay=Option(
            0.0, lambda x: bool(x >= 0), "a number >= 0", "weight_decay should be >= 0 but is: {}"
        ),
    )
    flags = "*, foreach, maximize"
    entries = dict(step=scalar(), row_var=like(_rows), col_var=like(_columns), variance=like(_whole))
    elementwise = False
    takes_complex = False

    @staticmethod
    def rule(p, g, row_var, col_var, variance, *, step, lr, beta2_decay, eps, d, weight_decay):
        least, least_scale = finfo(p.dtype).eps if eps[0] is None else eps[0], eps[1]
        weight = step**beta2_decay
        size = max(least_scale, _root_mean_square(p)) * min(lr, step**-0.5)
        if variance is None:
            row_var = _mixed(
                row_var, norm2.over((g,), -1, True), weight=weight, count=max(g.shape[-1], 1), out=row_var
            )
            col_var = _mixed(
                col_var, norm2.over((g,), -2, True), weight=weight, count=max(g.shape[-2], 1), out=col_var
            )
            row = _share(row_var, row_var.mean(-2, True), least=least)
            update = _by_factors(g, row, col_var, least=least * least)
        else:
            variance = _mixed(variance, g, weight=weight, count=1, out=variance)
            update = _by_root(g, variance, least=least * least)
        size /= max(1.0, _root_mean_square(update) / d)
        return _moved(p, update, kept=1 - lr * weight_decay, size=size, out=p), row_var, col_var, variance


adafactor = function_of(
    Adafactor, row_vars="row_var", col_vars="col_var", variances="variance", state_steps="step"
)


def _root_mean_square(x):
    return norm2(x).item() / max(x.numel(), 1) ** 0.5


@kernel
def _mixed(mean, norm, *, weight, count):
    return mean + weight * (norm * norm / count - mean)


@kernel
def _share(row, mean, *, least):
    return row / maximum(mean, least)


@kernel
def _by_factors(g, row, column, *, least):
    return g / sqrt(maximum(row * column, least))


@kernel
def _by_root(g, variance, *, least):
    return g / sqrt(maximum(variance, least))


@kernel
def _moved(p, update, *, kept, size):
    return p * kept - size * update
