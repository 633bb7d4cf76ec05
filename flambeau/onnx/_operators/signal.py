"""Transforms of signals, and windows for them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.make.literal import from_numpy
from ...operations.declare.registry import published
from .declare import DType, Ints, dtype_of, fl, ints, operator

fft = SimpleNamespace(**published("fft"))


def _transformed(x: Tensor, length: int | None, axis: int, inverse: int, onesided: int) -> Tensor:
    """A discrete Fourier transform; numbers are the elements of the last dimension, one or two."""
    dim = axis % x.ndim
    if inverse and onesided:
        n = length if length is not None else 2 * (x.shape[dim] - 1)
        return fl.unsqueeze(fft.irfft(fl.view_as_complex(x.contiguous()), n, dim), -1)
    is_real = x.shape[-1] == 1
    signal = fl.squeeze(x, -1) if is_real else fl.view_as_complex(x.contiguous())
    n = signal.shape[dim] if length is None else length
    if inverse:
        return fl.view_as_real(fft.ifft(signal, n, dim))
    result = fft.fft(signal, n, dim)
    return fl.view_as_real(result.narrow(dim, 0, n // 2 + 1) if onesided else result)


@operator("DFT", since=17)
def dft_17(
    input: Tensor, dft_length: Ints | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    length = None if dft_length is None else ints(dft_length)[0]
    return _transformed(input, length, axis, inverse, onesided)


@operator("DFT", since=20)
def dft(
    input: Tensor,
    dft_length: Ints | None = None,
    axis: Ints | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    length = None if dft_length is None else ints(dft_length)[0]
    return _transformed(input, length, -2 if axis is None else ints(axis)[0], inverse, onesided)


@operator("STFT", since=17)
def stft(
    signal: Tensor,
    frame_step: Ints,
    window: Tensor | None = None,
    frame_length: Ints | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Transforms of frames, (batch, frames, frequencies, 2)."""
    if frame_length is None and window is None:
        raise ValueError("STFT: it has neither a window nor a frame_length")
    length = window.shape[0] if frame_length is None and window is not None else ints(frame_length)[0]  # type: ignore[arg-type]
    frames = signal.unfold(1, length, ints(frame_step)[0]).movedim(-1, 2)
    if window is not None:
        frames = frames * window[:, None]
    return _transformed(frames, length, 2, 0, onesided)


def _angles(size: Ints, periodic: int) -> Tensor:
    n = ints(size)[0]
    return fl.arange(n).double() * (2 * math.pi / max(n if periodic else n - 1, 1))


@operator("HannWindow")
def hann_window(size: Ints, *, output_datatype: DType = None, periodic: int = 1) -> Tensor:
    return (0.5 - 0.5 * fl.cos(_angles(size, periodic))).to(output_datatype or dtype_of(1))


@operator("HammingWindow")
def hamming_window(size: Ints, *, output_datatype: DType = None, periodic: int = 1) -> Tensor:
    return (25 / 46 - 21 / 46 * fl.cos(_angles(size, periodic))).to(output_datatype or dtype_of(1))


@operator("BlackmanWindow")
def blackman_window(size: Ints, *, output_datatype: DType = None, periodic: int = 1) -> Tensor:
    at = _angles(size, periodic)
    return (0.42 - 0.5 * fl.cos(at) + 0.08 * fl.cos(2 * at)).to(output_datatype or dtype_of(1))


@operator("MelWeightMatrix")
def mel_weight_matrix(
    num_mel_bins: Ints,
    dft_length: Ints,
    sample_rate: Ints,
    lower_edge_hertz: Tensor,
    upper_edge_hertz: Tensor,
    *,
    output_datatype: DType = None,
) -> Tensor:
    """Triangles over frequencies, evenly spaced on the mel scale, (frequencies, triangles)."""
    count, length, rate = (ints(n)[0] for n in (num_mel_bins, dft_length, sample_rate))
    low, high = (2595 * math.log10(1 + float(x) / 700) for x in (lower_edge_hertz, upper_edge_hertz))
    mels = np.arange(count + 2) * ((high - low) / (count + 2)) + low
    bins = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(np.int64)
    result = np.zeros((length // 2 + 1, count))
    for k in range(count):
        begin, middle, end = bins[k : k + 3]
        if middle == begin:
            result[middle, k] = 1
        for j in range(begin, middle + 1) if middle > begin else ():
            result[j, k] = (j - begin) / (middle - begin)
        for j in range(middle, end):
            result[j, k] = (end - j) / (end - middle)
    return from_numpy(result).to(output_datatype or by_name["float32"])
