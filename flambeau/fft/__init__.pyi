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
    """Discrete Fourier transform, over `n` elements (cut or filled with zeros) along `dim`."""
def fft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Discrete Fourier transform, over the last two dimensions, or those in `dim`, with `s` elements."""
def fftfreq(n: _int, d: _float = 1.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """The frequencies of the n values of `fft` for samples at distance d: zero, positive, negative."""
def fftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Discrete Fourier transform, over all dimensions, or those in `dim`, with `s` elements."""
def fftshift(input: Tensor, dim: _int | _Sequence[_int] | None = None) -> Tensor:
    """The frequency zero moved to the middle, along `dim` (all by default)."""
def hfft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Discrete Fourier transform, real, of half of a Hermitian signal, over `n` elements (cut or filled with zeros) along `dim`."""
def hfft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Discrete Fourier transform, real, of half of a Hermitian signal, over the last two dimensions, or those in `dim`, with `s` elements."""
def hfftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Discrete Fourier transform, real, of half of a Hermitian signal, over all dimensions, or those in `dim`, with `s` elements."""
def ifft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse discrete Fourier transform, over `n` elements (cut or filled with zeros) along `dim`."""
def ifft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse discrete Fourier transform, over the last two dimensions, or those in `dim`, with `s` elements."""
def ifftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse discrete Fourier transform, over all dimensions, or those in `dim`, with `s` elements."""
def ifftshift(input: Tensor, dim: _int | _Sequence[_int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
def ihfft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse of `hfft`: half of the Hermitian signal, over `n` elements (cut or filled with zeros) along `dim`."""
def ihfft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse of `hfft`: half of the Hermitian signal, over the last two dimensions, or those in `dim`, with `s` elements."""
def ihfftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse of `hfft`: half of the Hermitian signal, over all dimensions, or those in `dim`, with `s` elements."""
def irfft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse of `rfft`: real numbers, n even unless it is given, over `n` elements (cut or filled with zeros) along `dim`."""
def irfft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse of `rfft`: real numbers, n even unless it is given, over the last two dimensions, or those in `dim`, with `s` elements."""
def irfftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Inverse of `rfft`: real numbers, n even unless it is given, over all dimensions, or those in `dim`, with `s` elements."""
def rfft(input: Tensor, n: Tensor | _int | None = None, dim: _int | _Sequence[_int] | None = -1, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Discrete Fourier transform of real numbers, the half that determines all, over `n` elements (cut or filled with zeros) along `dim`."""
def rfft2(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = (-2, -1), norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Discrete Fourier transform of real numbers, the half that determines all, over the last two dimensions, or those in `dim`, with `s` elements."""
def rfftfreq(n: _int, d: _float = 1.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """The frequencies of the n/2 + 1 values of `rfft` for samples at distance d; arguments and errors as of `fftfreq`."""
def rfftn(input: Tensor, s: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Discrete Fourier transform of real numbers, the half that determines all, over all dimensions, or those in `dim`, with `s` elements."""
