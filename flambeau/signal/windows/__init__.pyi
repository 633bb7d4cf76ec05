# Written by `python tools/interface.py` from the registry.
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence as _Sequence
from flambeau import device as _device
from flambeau import dtype as _dtype
from flambeau import layout as _layout
from typing import Any as _Any
from flambeau import Tensor as Tensor

def bartlett(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """1 - |2k/n - 1|, a triangle: M values, symmetric, or `sym=False` a period of length M."""
def blackman(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """0.42 - 0.5 cos(2πk/n) + 0.08 cos(4πk/n): M values, symmetric, or `sym=False` a period of length M."""
def cosine(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """sin(π (k + 1/2) / (n + 1)), half a period of the sine: M values, symmetric, or `sym=False` a period of length M."""
def exponential(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """exp(-|k - center| / tau): M values, symmetric, or `sym=False` a period of length M."""
def gaussian(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """exp(-((k - n/2) / std)² / 2): M values, symmetric, or `sym=False` a period of length M."""
def general_cosine(M: _int, *, a: _Sequence[_float], sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Σ (-1)^j a_j cos(2πjk/n). TypeError unless `a` is a sequence, ValueError where it is empty."""
def general_hamming(M: _int, *, alpha: _float = 0.54, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """alpha - (1 - alpha) cos(2πk/n)."""
def hamming(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """0.54 - 0.46 cos(2πk/n): M values, symmetric, or `sym=False` a period of length M."""
def hann(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """0.5 - 0.5 cos(2πk/n): M values, symmetric, or `sym=False` a period of length M."""
def kaiser(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """I₀(beta · √(1 - (2k/n - 1)²)) / I₀(beta): M values, symmetric, or `sym=False` a period of length M."""
def nuttall(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **options: _Any) -> Tensor:
    """Σ (-1)^j a_j cos(2πjk/n), Nuttall's window with continuous first derivative: M values, symmetric, or `sym=False` a period of length M."""
