# Written by `python tools/interface.py` from the registry.
from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence as _Sequence
from flambeau import dtype as _dtype
from typing import Any as _Any
from flambeau import Tensor as Tensor

from flambeau.masked.maskedtensor import MaskedTensor as MaskedTensor
from flambeau.masked.maskedtensor import as_masked_tensor as as_masked_tensor
from flambeau.masked.maskedtensor import is_masked_tensor as is_masked_tensor
from flambeau.masked.maskedtensor import masked_tensor as masked_tensor
def amax(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """max(input) over `dim`, of the elements where `mask` is true."""
def amin(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """min(input) over `dim`, of the elements where `mask` is true."""
def argmax(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """argmax(input) of the elements where `mask` is true, along `dim` or in the flattened tensor. It is in the dtype of the input, as PyTorch has it."""
def argmin(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """argmin(input) of the elements where `mask` is true, along `dim` or in the flattened tensor. It is in the dtype of the input, as PyTorch has it."""
def cumprod(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Π input up to each place along `dim`, of the elements where `mask` is true. It is in the dtype of the input."""
def cumsum(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Σ input up to each place along `dim`, of the elements where `mask` is true. It is in the dtype of the input."""
def log_softmax(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """input - log Σ exp(input) along `dim`, of the elements where `mask` is true; -inf elsewhere."""
def logaddexp(input: Tensor, other: Tensor | _complex, *, dtype: _dtype | None = None, input_mask: _Any = None, other_mask: _Any = None) -> Tensor:
    """log(exp(input) + exp(other)), with a mask for each."""
def logsumexp(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """log Σ exp(input) over `dim`, without overflow; of integers cut to an integer, as PyTorch has it."""
def mean(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Σ input / n over `dim`, of the n elements where `mask` is true. ValueError unless the result's dtype is a floating-point or complex one."""
def median(input: Tensor, dim: _int | _Sequence[_int] | None = -1, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The median along `dim` (None: the first), element ⌊(n - 1) / 2⌋ of the n true ones in order; NaN for a row without a true element."""
def norm(input: Tensor, ord: _float | _str | None = 2.0, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """(Σ |input|^ord)^(1/ord) over `dim`, of the elements where `mask` is true."""
def normalize(input: Tensor, ord: _float | _str | None, dim: _int | _Sequence[_int] | None, *, eps: _float | None = 1e-12, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """input / max(norm(input, ord, dim), eps)."""
def prod(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Π input over `dim`, of the elements where `mask` is true."""
def softmax(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """exp(input) / Σ exp(input) along `dim`, of the elements where `mask` is true; 0 elsewhere."""
def softmin(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """exp(-input) / Σ exp(-input) along `dim`, of the elements where `mask` is true; 0 elsewhere."""
def std(input: Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _Any = None, *, correction: _float | None = None, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """√(Σ (input - mean)² / (n - correction)) over `dim`, the root of `var`."""
def sum(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Σ input over `dim`, of the elements where `mask` is true."""
def var(input: Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _Any = None, *, correction: _float | None = None, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Σ (input - mean)² / (n - correction) over `dim`, of the n elements where `mask` is true. The correction is 1 by default."""
