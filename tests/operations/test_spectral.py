"""Fourier transforms against NumPy's, their derivatives, and short-time transforms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import flambeau
from flambeau import fft
from flambeau.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((3, 4, 5))
COMPLEX = RNG.standard_normal((3, 4, 5)) + 1j * RNG.standard_normal((3, 4, 5))
NORMS = [None, "forward", "ortho"]
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
parts = flambeau.view_as_real


def given(name):
    return REAL if name in ("rfft", "ihfft") else COMPLEX


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 3, 8])
def test_one_dimension(name, norm, n):
    a = given(name)
    found = getattr(fft, name)(flambeau.tensor(a), n, 1, norm)
    np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(a, n, 1, norm), rtol=1e-10, atol=1e-12)
    if name in ("fft", "ifft"):
        np.testing.assert_allclose(
            getattr(fft, name)(flambeau.tensor(REAL), n, 1, norm).numpy(),
            getattr(np.fft, name)(REAL, n, 1, norm),
            rtol=1e-10,
            atol=1e-12,
        )


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s, dims", [(None, None), ((3, 6), None), (None, (0, 2)), ((4, 3), (2, 0))])
def test_several_dimensions(name, norm, s, dims):
    a = given(name)
    axes = dims if dims is not None else None if s is None else (-2, -1)
    expected = getattr(np.fft, f"{name}n")(a, s, axes, norm)
    found = getattr(fft, f"{name}n")(flambeau.tensor(a), s, dims, norm)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)
    if s is None and dims is None:
        two = getattr(fft, f"{name}2")(flambeau.tensor(a), norm=norm)
        np.testing.assert_allclose(
            two.numpy(), getattr(np.fft, f"{name}2")(a, norm=norm), rtol=1e-10, atol=1e-12
        )


def test_dtypes():
    x = flambeau.tensor(REAL)
    assert fft.fft(x.float()).dtype == flambeau.complex64 and fft.fft(x.long()).dtype == flambeau.complex64
    assert fft.irfft(fft.rfft(x.float())).dtype == flambeau.float32
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        fft.fft(x.bfloat16())
    with pytest.raises(RuntimeError, match="real input"):
        fft.rfft(flambeau.tensor(COMPLEX))


@pytest.mark.parametrize("n", [None, 3, 6])
def test_gradients(n):
    x = flambeau.tensor(REAL[0, :2], requires_grad=True)
    z = flambeau.tensor(np.stack([REAL[0, :2], REAL[1, :2]], -1), requires_grad=True)
    complex_of = flambeau.view_as_complex
    for function, at in (
        (lambda t: parts(fft.rfft(t, n)), x),
        (lambda t: parts(fft.fft(t, n)), x),
        (lambda t: parts(fft.ihfft(t, n)), x),
        (lambda t: parts(fft.ifft(complex_of(t), n, norm="ortho")), z),
        (lambda t: fft.irfft(complex_of(t), n), z),
        (lambda t: fft.hfft(complex_of(t), n, norm="forward"), z),
        (lambda t: parts(fft.fftn(complex_of(t))), z),
        (lambda t: fft.irfftn(complex_of(t), (3, 4)), z),
    ):
        assert gradcheck(function, [at])
        assert gradgradcheck(function, [at])


def test_errors():
    x = flambeau.tensor(REAL)
    with pytest.raises(RuntimeError, match="data points"):
        fft.fft(x, 0)
    with pytest.raises(IndexError):
        fft.fft(x, dim=3)
    with pytest.raises(RuntimeError, match="unique"):
        fft.fftn(x, dim=(0, 0))
    with pytest.raises(RuntimeError, match="same length"):
        fft.fftn(x, (2,), (0, 1))
    with pytest.raises(RuntimeError, match="normalization"):
        fft.fft(x, norm="half")
    with pytest.raises(TypeError):
        fft.fft([1.0])


def test_frequencies_and_shifts():
    for n in (4, 5):
        np.testing.assert_allclose(fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5))
        np.testing.assert_allclose(fft.rfftfreq(n, 0.5).numpy(), np.fft.rfftfreq(n, 0.5))
    x = flambeau.tensor(REAL)
    for dims in (None, 1, (0, 2)):
        np.testing.assert_array_equal(fft.fftshift(x, dims).numpy(), np.fft.fftshift(REAL, dims))
        np.testing.assert_array_equal(fft.ifftshift(x, dims).numpy(), np.fft.ifftshift(REAL, dims))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("size", [16, 12])
def test_short_time_transform(center, size):
    signal = RNG.standard_normal(100)
    window = flambeau.hann_window(size, dtype=flambeau.float64)
    options = {"hop_length": 4, "win_length": size, "window": window, "center": center}
    found = flambeau.stft(flambeau.tensor(signal), 16, **options, return_complex=True)
    left = (16 - size) // 2
    wide = np.pad(window.numpy(), (left, 16 - size - left))
    padded = np.pad(signal, 8, "reflect") if center else signal
    frames = np.stack([padded[k : k + 16] * wide for k in range(0, len(padded) - 15, 4)])
    np.testing.assert_allclose(found.numpy(), np.fft.rfft(frames).T, rtol=1e-10, atol=1e-12)
    if center:
        back = flambeau.istft(found, 16, **options, length=96)
        np.testing.assert_allclose(back.numpy(), signal[:96], rtol=1e-9, atol=1e-10)
    real = flambeau.stft(flambeau.tensor(signal), 16, **options, return_complex=False)
    assert real.shape == (*found.shape, 2)
    with pytest.raises(RuntimeError, match="return_complex"):
        flambeau.stft(flambeau.tensor(signal), 16)
    with pytest.raises(RuntimeError, match="complex-valued"):
        flambeau.istft(flambeau.tensor(signal), 16)


def test_windows_are_those_of_scipy():
    np.testing.assert_allclose(
        flambeau.hann_window(16).numpy(), scipy.signal.get_window("hann", 16), atol=1e-7
    )
