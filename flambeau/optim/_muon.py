"""Muon."""

from __future__ import annotations

import math

from ._declared import Declared, Option, anything, like
from ._functional import function_of
from ._kernel import kernel


class Muon(Declared):
    """Muon: steps by the orthogonal matrix nearest to the momentum of a matrix (Jordan et al., 2024).

    m ← m + (1 - μ)·(g - m) with `momentum` μ; M = g + μ·(m - g) with `nesterov`, else m.  `ns_steps` Newton-Schulz
    iterations in bfloat16 make M's singular values all about 1: X = M / max(|M|, `eps`), then with (a, b, c) =
    `ns_coefficients` X ← a·X + (b·XXᵀ + c·(XXᵀ)²)·X.  p ← p·(1 - lr·`weight_decay`) - lr·s·X, where for a parameter
    of (A, B) elements s = √max(1, A/B) (`adjust_lr_fn="original"` or None), or 0.2·√max(A, B)
    ("match_rms_adamw": Liu et al., 2025).

    `state[p]["momentum_buffer"]` is m.  Parameters are floating-point matrices, such as the weights of hidden
    layers; others want another optimiser.  The options that all optimisers share are explained in `Optimizer`.

    Raises ValueError for negative lr, momentum or weight_decay, another `adjust_lr_fn`, and parameters of other than
    two dimensions; in `step` ValueError for 100 iterations and more, RuntimeError for complex parameters.

    >>> import flambeau
    >>> w = flambeau.tensor([[3.0, 0.0], [0.0, -4.0]], requires_grad=True)
    >>> optimizer = flambeau.optim.Muon([w], lr=0.1, weight_decay=0.0)
    >>> (w * w).sum().backward(), optimizer.step(), (w - flambeau.tensor([[3.0, 0.0], [0.0, -4.0]])).abs() < 0.13
    (None, None, tensor([[True, True],
            [True, True]]))
    """

    options = dict(
        lr=Option(1e-3, lambda x: bool(0.0 <= x), "a number >= 0", "Learning rate should be >= 0 but is: {}"),
        weight_decay=Option(
            0.1, lambda x: bool(x >= 0), "a number >= 0", "weight decay should be >= 0 but is: {}"
        ),
        momentum=Option(0.95, lambda x: x >= 0, "a number >= 0", "momentum should be >= 0 but is: {}"),
        nesterov=True,
        ns_coefficients=anything((3.4445, -4.7750, 2.0315)),
        eps=anything(1e-7),
        ns_steps=anything(5),
        adjust_lr_fn=Option(
            None,
            lambda name: name in (None, "original", "match_rms_adamw"),
            "'original', 'match_rms_adamw' or None",
            "Adjust learning rate function {} is not supported",
        ),
    )
    entries = dict(momentum_buffer=like())
    elementwise = False
    takes_complex = False

    def _refusal(self, p):
        if p.dim() == 2:
            return None
        return f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}"

    @staticmethod
    def rule(
        p,
        g,
        momentum_buffer,
        *,
        lr,
        weight_decay,
        momentum,
        nesterov,
        ns_coefficients,
        eps,
        ns_steps,
        adjust_lr_fn,
    ):
        mean = _mixed(momentum_buffer, g, weight=1 - momentum, out=momentum_buffer)
        update = _mixed(g, mean, weight=momentum) if nesterov else mean
        update = orthogonalised(update, ns_coefficients, ns_steps, eps)
        size = lr * _scale(adjust_lr_fn, *p.shape)
        return _moved(p, update, kept=1 - lr * weight_decay, size=size, out=p), mean


muon = function_of(Muon, muon_momentum_bufs="momentum_buffer")


def orthogonalised(matrix, coefficients, steps, eps):
    """The matrix with all singular values about 1, in bfloat16; zero where the matrix is zero."""
    if steps >= 100:
        raise ValueError(
            f"Muon.step: Number of steps must be less than 100 for computational efficiency, got {steps}"
        )
    if len(coefficients) != 3:
        raise ValueError(f"Muon.step: Coefficients must be a tuple of exactly 3 values, got {coefficients}")
    a, b, c = coefficients
    x = matrix.bfloat16()
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = x.addmm(gram.addmm(gram, gram, beta=b, alpha=c), x, beta=a)
    return x if wide else x.T


def _scale(name, rows, columns):
    if name == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / max(columns, 1)))


@kernel
def _mixed(a, b, *, weight):
    return a + weight * (b - a)


@kernel
def _moved(p, update, *, kept, size):
    return p * kept - size * update
