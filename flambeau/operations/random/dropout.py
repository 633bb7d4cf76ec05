"""Dropout: elements or channels zeroed at random, the others scaled so that means stay."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...core.base.dtypes import get_default_dtype
from ...core.base.tensor import TensorBase
from ..declare import checks
from ..declare.dtype_groups import EVERY
from ..declare.registry import library, register
from .random import bernoulli_like


def _mask(name: str, input: TensorBase, p: float, lead: int | None, success: float = 1.0) -> TensorBase:
    """Zeros with chance p, else `success`: for each element, or for each slice that the first `lead` indices choose."""
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"{name}(): result type {get_default_dtype()} can't be cast to the desired output type {input.dtype}"
        )
    if lead is None:
        return bernoulli_like(input.detach(), 1.0 - p, success)  # laid out as the input is
    if input.ndim < lead:
        raise RuntimeError(
            f"{name}(): Feature dropout requires at least 2 dimensions in the input, got {input.ndim}"
        )
    slices = input.new_empty([s if d < lead else 1 for d, s in enumerate(input.shape)])
    return bernoulli_like(slices, 1.0 - p, success)


def _dropped(
    name: str, input: TensorBase, p: float, training: bool, inplace: bool, lead: int | None = None
) -> TensorBase:
    """Elements, or slices of them (see `_mask`), zeroed with chance p, the others scaled by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        checks.probability(name, "p", p, RuntimeError if p != p else ValueError)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    factor = 0.0 if p == 1.0 else _mask(name, input, p, lead, 1.0 / (1.0 - p))
    return input.mul_(factor) if inplace else input * factor


def dropout(input: TensorBase, p: float = 0.5, training: bool = True, inplace: Any = False) -> TensorBase:
    """Zero elements with chance p and scale the others by 1 / (1 - p) (Srivastava et al. 2014); identity unless training.

    Shape:
        input: any; the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> x = flambeau.nn.functional.dropout(flambeau.ones(1000), p=0.5)
    >>> x.unique()
    tensor([0., 2.])
    """
    return _dropped("dropout", input, p, training, inplace)


def _flat_dropout(input: TensorBase, p: float, train: bool) -> TensorBase:
    """`nn.functional.dropout`: elements zeroed with chance p, the others times 1 / (1 - p); the input
    itself unless `train`.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> flambeau.dropout(flambeau.ones(2), 0.5, False)
    tensor([1., 1.])
    """
    checks.probability("dropout", "p", p, RuntimeError)
    return dropout(input, p, train)


register(
    "dropout_function",
    "random",
    dropout,
    places=("nn.functional.dropout",),
    composite=True,
    elementwise=True,
    dtypes=EVERY,
)
register(
    "dropout", "random", _flat_dropout, places=("dropout",), composite=True, elementwise=True, dtypes=EVERY
)


@library("random", "nn.functional.dropout1d", composite=True, dtypes=EVERY)
def dropout1d(input: TensorBase, p: float = 0.5, training: bool = True, inplace: Any = False) -> TensorBase:
    """Zero whole channels of (N, C, L) or (C, L) with chance p and scale the others by 1 / (1 - p) (Tompson et al. 2014).

    Raises:
        ValueError: `p` lies outside [0, 1]
        RuntimeError: there are neither two nor three dimensions

    >>> import flambeau
    >>> x = flambeau.nn.functional.dropout1d(flambeau.ones(1, 4, 100), p=0.5)
    >>> bool((x == x[..., :1]).all())
    True
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d(): Expected 2D or 3D input, but received a {input.ndim}D input")
    return _dropped("dropout1d", input, p, training, inplace, lead=input.ndim - 1)


@library("random", "nn.functional.dropout2d", composite=True, dtypes=EVERY)
def dropout2d(input: TensorBase, p: float = 0.5, training: bool = True, inplace: Any = False) -> TensorBase:
    """Zero whole channels of (N, C, H, W) with chance p and scale the others by 1 / (1 - p) (Tompson et al. 2014).

    The channel is the second dimension of inputs of other ranks, too; these are a warning.

    Shape:
        input: (N, C, H, W); the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> x = flambeau.nn.functional.dropout2d(flambeau.ones(1, 4, 8, 8), p=0.5)
    >>> bool((x == x[..., :1, :1]).all())
    True
    """
    if input.ndim == 3:
        _warn("dropout2d", "a 3D input, read as (N, C, L); for that use dropout1d")
    elif input.ndim != 4:
        _warn("dropout2d", f"a {input.ndim}-D input, which is deprecated; for single elements use dropout")
    return _dropped("dropout2d", input, p, training, inplace, lead=2)


@library("random", "nn.functional.dropout3d", composite=True, dtypes=EVERY)
def dropout3d(input: TensorBase, p: float = 0.5, training: bool = True, inplace: Any = False) -> TensorBase:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with chance p and scale the others by 1 / (1 - p).

    The channel is the first dimension of inputs of other ranks, too; these are a warning.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> x = flambeau.nn.functional.dropout3d(flambeau.ones(1, 4, 2, 2, 2), p=0.5)
    >>> bool((x == x[..., :1, :1, :1]).all())
    True
    """
    if input.ndim not in (4, 5):
        _warn("dropout3d", f"a {input.ndim}-D input, which is deprecated; for single elements use dropout")
    return _dropped("dropout3d", input, p, training, inplace, lead=2 if input.ndim == 5 else 1)


def channels(input: TensorBase, p: float, training: bool, inplace: bool = False) -> TensorBase:
    """Zero whole channels, the second dimension, with chance p and scale the others by 1 / (1 - p)."""
    return _dropped("feature_dropout", input, p, training, inplace, lead=2)


def _warn(name: str, what: str) -> None:
    warnings.warn(f"{name}: Received {what}", stacklevel=3)


def _alpha(
    name: str, input: TensorBase, p: float, training: bool, inplace: bool, lead: int | None = None
) -> TensorBase:
    """Self-normalising dropout: dropped elements become -α'; mean and variance stay (Klambauer et al. 2017)."""
    if not 0.0 <= p <= 1.0:
        checks.probability(name, "p", p, RuntimeError if p != p else ValueError)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    alpha = 1.7580993408473766
    scale = 1.0 / math.sqrt((alpha * alpha * p + 1.0) * (1.0 - p))
    mask = _mask(name, input, p, lead)
    shift = (mask - 1.0).mul_(alpha * scale).add_(alpha * scale * p)
    if inplace:
        return input.mul_(mask.mul_(scale)).add_(shift)
    return input * (mask * scale) + shift


@library("random", "nn.functional.alpha_dropout", composite=True, elementwise=True, dtypes=EVERY)
def alpha_dropout(
    input: TensorBase, p: float = 0.5, training: bool = False, inplace: Any = False
) -> TensorBase:
    """a · (mask · x + (1 - mask) · α′) + b, which keeps the mean and the variance.
    It is the dropout of self-normalising networks (Klambauer et al. 2017).

    Shape:
        input: any; the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> flambeau.nn.functional.alpha_dropout(flambeau.ones(2))
    tensor([1., 1.])
    >>> flambeau.nn.functional.alpha_dropout(flambeau.ones(1000), training=True).unique().numel()
    2
    """
    return _alpha("alpha_dropout", input, p, training, inplace)


@library("random", "nn.functional.feature_alpha_dropout", composite=True, dtypes=EVERY)
def feature_alpha_dropout(
    input: TensorBase, p: float = 0.5, training: bool = False, inplace: Any = False
) -> TensorBase:
    """`alpha_dropout` of whole channels: a · (mask · x + (1 - mask) · α′) + b with one mask for each.

    Shape:
        input: (N, C, *); the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> x = flambeau.nn.functional.feature_alpha_dropout(flambeau.ones(1, 4, 8), training=True)
    >>> bool((x == x[..., :1]).all())
    True
    """
    return _alpha("feature_alpha_dropout", input, p, training, inplace, lead=2)
