"""Masks for `scaled_dot_product_attention` that say what they allow, and are never made where scores are computed in blocks."""

from __future__ import annotations

import warnings
from enum import IntEnum
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.interceptors import _disabled_torch_function_impl
from ...core.make.create import empty, ones

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Where the diagonal of a causal mask begins: in the upper left corner, or so that it ends in the lower
    right one.

    >>> from flambeau.nn.attention.bias import CausalBias, CausalVariant
    >>> CausalBias(CausalVariant.UPPER_LEFT, 2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    >>> CausalBias(CausalVariant.LOWER_RIGHT, 2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """The mask (L, S) that allows query i the keys up to i (UPPER_LEFT), or up to i + S - L (LOWER_RIGHT).

    It is given to `scaled_dot_product_attention` as `attn_mask`; `_materialize()` is the mask as bools.  As a tensor it is empty.
    AssertionError for a variant that is none.

    >>> from flambeau.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    __torch_function__ = _disabled_torch_function_impl  # `scaled_dot_product_attention` knows it; no other mode or class is called

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        return empty(0).as_subclass(cls)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if variant is CausalVariant.LOWER_RIGHT and seq_len_q > seq_len_kv:
            warnings.warn(
                "Lower right causal bias leaves the first queries without keys when seq_len_q > seq_len_kv: their output is 0",
                stacklevel=3,
            )

    def diagonal_of(self, query: TensorBase, key: TensorBase) -> int:
        """Query i sees the keys up to i + this many.  RuntimeError where the lengths are not those of the mask."""
        lengths = query.shape[-2], key.shape[-2]
        if lengths != (self.seq_len_q, self.seq_len_kv):
            raise RuntimeError(
                f"scaled_dot_product_attention(): attn_mask is a CausalBias for lengths {(self.seq_len_q, self.seq_len_kv)}, "
                f"but query and key have lengths {lengths}"
            )
        return self._diagonal()

    def _diagonal(self) -> int:
        return 0 if self.variant is CausalVariant.UPPER_LEFT else self.seq_len_kv - self.seq_len_q

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as bools, on the CPU or on `device`."""
        kind = by_name["bool"]
        return ones(self.seq_len_q, self.seq_len_kv, dtype=kind, device=device or "cpu").tril(
            self._diagonal()
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self._materialize())

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return type(self), (self.variant, self.seq_len_q, self.seq_len_kv)

    def __deepcopy__(self, memo: dict) -> CausalBias:
        return type(self)(self.variant, self.seq_len_q, self.seq_len_kv)


def _sizes(name: str, size: tuple) -> tuple[int, int]:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return size


def causal_upper_left(*size: int) -> CausalBias:
    """The causal mask of sizes (L, S) whose diagonal begins in the upper left corner, as `is_causal=True`.

    Raises:
        AssertionError: there are not two sizes.

    >>> import flambeau
    >>> from flambeau.nn.attention.bias import causal_upper_left
    >>> q, k = flambeau.ones(1, 1, 2, 4), flambeau.ones(1, 1, 3, 4)
    >>> v = flambeau.arange(3.0).reshape(1, 1, 3, 1)
    >>> flambeau.nn.functional.scaled_dot_product_attention(q, k, v, causal_upper_left(2, 3)).flatten()
    tensor([0.0000, 0.5000])
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_sizes("causal_upper_left", size))


def causal_lower_right(*size: int) -> CausalBias:
    """The causal mask of sizes (L, S) whose diagonal ends in the lower right corner.

    The last query sees all keys. It warns where L > S: the first queries see no key, and their output is 0.

    Raises:
        AssertionError: there are not two sizes.

    >>> import flambeau
    >>> from flambeau.nn.attention.bias import causal_lower_right
    >>> q, k = flambeau.ones(1, 1, 2, 4), flambeau.ones(1, 1, 3, 4)
    >>> v = flambeau.arange(3.0).reshape(1, 1, 3, 1)
    >>> flambeau.nn.functional.scaled_dot_product_attention(q, k, v, causal_lower_right(2, 3)).flatten()
    tensor([0.5000, 1.0000])
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_sizes("causal_lower_right", size))
