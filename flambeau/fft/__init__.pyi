# Written by `python tools/interface.py` from the registry.
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from builtins import tuple as _tuple
from collections.abc import Sequence as _Sequence
from flambeau import device as _device
from flambeau import dtype as _dtype
from flambeau import layout as _layout
from flambeau import Tensor as Tensor

def fft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), the discrete Fourier transform."""
def fft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), the discrete Fourier transform."""
def fftfreq(n: _int, d: _float = 1.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """[0, 1, …, -2, -1] / (n · d): the frequencies of `fft` for samples at distance d."""
def fftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), the discrete Fourier transform."""
def fftshift(input: Tensor, dim: _int | _Sequence[_int] | None = None) -> Tensor:
    """result[k] = input[(k - ⌊n/2⌋) mod n]: the frequency zero moved to the middle, along `dim`. By default that is all dimensions."""
def hfft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), real, of half of a Hermitian signal."""
def hfft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), real, of half of a Hermitian signal."""
def hfftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), real, of half of a Hermitian signal."""
def ifft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse Fourier transform."""
def ifft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse Fourier transform."""
def ifftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse Fourier transform."""
def ifftshift(input: Tensor, dim: _int | _Sequence[_int] | None = None) -> Tensor:
    """result[k] = input[(k + ⌊n/2⌋) mod n]: the inverse of `fftshift`."""
def ihfft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse of `hfft`."""
def ihfft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse of `hfft`."""
def ihfftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse of `hfft`."""
def irfft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse of `rfft`."""
def irfft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse of `rfft`."""
def irfftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """x[j] = Σ X[k] e^(2πi jk/n) / n, the inverse of `rfft`."""
def rfft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), k ≤ n/2, of real numbers."""
def rfft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), k ≤ n/2, of real numbers."""
def rfftfreq(n: _int, d: _float = 1.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """The frequencies of the n/2 + 1 values of `rfft` for samples at distance d; arguments and errors as of `fftfreq`."""
def rfftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X[k] = Σ x[j] e^(-2πi jk/n), k ≤ n/2, of real numbers."""
