"""Dropout: elements or channels zeroed at random, the others scaled so that means stay."""

from __future__ import annotations

from ..core.tensor import TensorBase
from .registry import library, register


def _check(name: str, p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"{name}(): dropout probability has to be between 0 and 1, but got {p}")


def _dropped(input: TensorBase, p: float, training: bool, inplace: bool, shape=None) -> TensorBase:
    """Elements (or whole slices of `shape`) zeroed with chance p, the others scaled by 1 / (1 - p)."""
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        found = input * 0.0
    else:
        mask = input.new_empty(input.shape if shape is None else shape).bernoulli_(1.0 - p)
        found = input * mask.mul_(1.0 / (1.0 - p))
    return input.copy_(found) if inplace else found


def dropout(input: TensorBase, p: float = 0.5, training: bool = True, inplace: bool = False) -> TensorBase:
    """Zero elements with chance p and scale the others by 1 / (1 - p) (Srivastava et al. 2014); identity unless training."""
    _check("dropout", p)
    return _dropped(input, p, training, inplace)


def _flat_dropout(input: TensorBase, p: float, train: bool) -> TensorBase:
    """`flambeau.dropout(input, p, train)`."""
    return dropout(input, p, train)


register("dropout_function", "random", dropout, places=("nn.functional.dropout",))
register("dropout", "random", _flat_dropout, places=("dropout",))


def _channels(name: str, ranks: tuple[int, ...]):
    def function(
        input: TensorBase, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> TensorBase:
        _check(name, p)
        if input.ndim not in ranks:
            raise RuntimeError(f"{name}(): an input with {ranks} dimensions expected, got {input.ndim}")
        batched = input.ndim == ranks[-1]
        keep = 2 if batched else 1
        shape = [s if d < keep else 1 for d, s in enumerate(input.shape)]
        return _dropped(input, p, training, inplace, shape)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        "Zero whole channels with chance p and scale the others by 1 / (1 - p) (Tompson et al. 2014)."
    )
    register(name, "random", function, places=(f"nn.functional.{name}",))


_channels("dropout1d", (2, 3))
_channels("dropout2d", (3, 4))
_channels("dropout3d", (4, 5))


def _alpha(input: TensorBase, p: float, training: bool, inplace: bool, shape=None) -> TensorBase:
    """Self-normalising dropout: dropped elements become -α'; mean and variance stay (Klambauer et al. 2017)."""
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    low = -1.7580993408473766
    scale = (1.0 / ((1.0 - p) * (1.0 + p * low * low))) ** 0.5
    mask = input.new_empty(input.shape if shape is None else shape).bernoulli_(1.0 - p)
    found = input * (mask * scale) + ((1.0 - mask) * (low * scale) - scale * low * p)
    return input.copy_(found) if inplace else found


@library("random", "nn.functional.alpha_dropout")
def alpha_dropout(
    input: TensorBase, p: float = 0.5, training: bool = False, inplace: bool = False
) -> TensorBase:
    """Dropout that keeps mean and variance of self-normalising networks (Klambauer et al. 2017)."""
    _check("alpha_dropout", p)
    return _alpha(input, p, training, inplace)


@library("random", "nn.functional.feature_alpha_dropout")
def feature_alpha_dropout(
    input: TensorBase, p: float = 0.5, training: bool = False, inplace: bool = False
) -> TensorBase:
    """`alpha_dropout` of whole channels."""
    _check("feature_alpha_dropout", p)
    return _alpha(input, p, training, inplace, [s if d < 2 else 1 for d, s in enumerate(input.shape)])
