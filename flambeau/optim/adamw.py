"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from ._functional import function_of
from .adam import Adam

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam that shrinks the parameters by lr·`weight_decay` apart from the gradient (Loshchilov and Hutter,
    2019).

    All else is as in `Adam`.

    Raises:
        ValueError: an option is out of its bounds, or there are no parameters
        TypeError: `params` is one tensor, or a member of it is none

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.AdamW([w], lr=0.5, weight_decay=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.4500, -1.4000], requires_grad=True)
    """

    options = {**Adam.options, "weight_decay": 1e-2}
    flags = "*, maximize, foreach, capturable, differentiable, fused"
    fixed = {"decoupled_weight_decay": True}


adamw = function_of(
    AdamW, exp_avgs="exp_avg", exp_avg_sqs="exp_avg_sq", max_exp_avg_sqs="max_exp_avg_sq", state_steps="step"
)
