"""Operators that draw random numbers: from the library's generator, or with `seed` from one of their own."""

from __future__ import annotations

import struct
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .declare import DType, fl, operator


def _generator(seed: float | None) -> Any:
    """One that begins at the bits of the seed; None for the library's own."""
    if seed is None:
        return None
    return fl.Generator().manual_seed(struct.unpack("<Q", struct.pack("<d", seed))[0])


def _uniform(shape: Any, dtype: Any, low: float, high: float, seed: float | None) -> Tensor:
    kind = by_name["float32"] if dtype is None else dtype
    return low + (high - low) * fl.rand(list(shape), dtype=kind, generator=_generator(seed))


def _normal(shape: Any, dtype: Any, mean: float, scale: float, seed: float | None) -> Tensor:
    kind = by_name["float32"] if dtype is None else dtype
    return mean + scale * fl.randn(list(shape), dtype=kind, generator=_generator(seed))


@operator("RandomUniform")
def random_uniform(
    *, dtype: DType = None, high: float = 1.0, low: float = 0.0, seed: float | None = None, shape: list[int]
) -> Tensor:
    return _uniform(shape, dtype, low, high, seed)


@operator("RandomNormal")
def random_normal(
    *, dtype: DType = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, shape: list[int]
) -> Tensor:
    return _normal(shape, dtype, mean, scale, seed)


@operator("RandomUniformLike")
def random_uniform_like(
    input: Tensor, *, dtype: DType = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    return _uniform(input.shape, dtype or input.dtype, low, high, seed)


@operator("RandomNormalLike")
def random_normal_like(
    input: Tensor, *, dtype: DType = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return _normal(input.shape, dtype or input.dtype, mean, scale, seed)


@operator("Bernoulli")
def bernoulli(input: Tensor, *, dtype: DType = None, seed: float | None = None) -> Tensor:
    return fl.bernoulli(input, generator=_generator(seed)).to(dtype or input.dtype)


@operator("Multinomial")
def multinomial(
    input: Tensor, *, dtype: DType = None, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Classes drawn by the logarithms of their probabilities."""
    shares = fl.softmax(input.float(), -1)
    result = fl.multinomial(shares, sample_size, True, generator=_generator(seed))
    return result.to(dtype or by_name["int32"])


@operator("Dropout", since=12)
def dropout(
    data: Tensor,
    ratio: Tensor | None = None,
    training_mode: Tensor | None = None,
    *,
    seed: int | None = None,
    outputs: int = 1,
) -> tuple[Tensor, Tensor]:
    """In training mode elements are 0 with that probability, and others larger for it; beside them which ones stay."""
    share = 0.5 if ratio is None else float(ratio)
    if training_mode is None or not bool(training_mode) or share == 0:
        return data, fl.ones_like(data, dtype=by_name["bool"])
    drawn = fl.rand(list(data.shape), generator=None if seed is None else fl.Generator().manual_seed(seed))
    mask = drawn >= share
    return fl.where(mask, data / (1 - share), fl.zeros_like(data)), mask
