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
    """Largest element over `dim`."""
def amin(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Smallest element over `dim`."""
def argmax(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Where the largest element stands, along `dim` or in the flattened tensor; in the dtype of the input, as PyTorch has it."""
def argmin(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Where the smallest element stands, along `dim` or in the flattened tensor; in the dtype of the input, as PyTorch has it."""
def cumprod(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running product along `dim`, in the dtype of the input."""
def cumsum(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sum along `dim`, in the dtype of the input."""
def log_softmax(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of `softmax`."""
def logaddexp(input: Tensor, other: Tensor | _complex, *, dtype: _dtype | None = None, input_mask: _Any = None, other_mask: _Any = None) -> Tensor:
    """log(exp(input) + exp(other)), with a mask for each."""
def logsumexp(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """log Σ exp(input) over `dim`, without overflow; of integers cut to an integer, as PyTorch has it."""
def mean(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Mean over `dim`. ValueError unless the result's dtype is a floating-point or complex one."""
def median(input: Tensor, dim: _int | _Sequence[_int] | None = -1, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The median along `dim` (None: the first); NaN for a row without a true element."""
def norm(input: Tensor, ord: _float | _str | None = 2.0, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The norm of order `ord` over `dim`."""
def normalize(input: Tensor, ord: _float | _str | None, dim: _int | _Sequence[_int] | None, *, eps: _float | None = 1e-12, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """input / max(norm(input, ord, dim), eps)."""
def prod(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Product over `dim`."""
def softmax(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Exponentials divided by their sum along `dim`."""
def softmin(input: Tensor, dim: _int | _Sequence[_int] | None, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` of the negated input."""
def std(input: Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _Any = None, *, correction: _float | None = None, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Standard deviation over `dim`, the root of `var`."""
def sum(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Sum over `dim`."""
def var(input: Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _Any = None, *, correction: _float | None = None, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Variance over `dim`: squared deviations over n - correction (default 1)."""
