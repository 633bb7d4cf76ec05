"""Fourier transforms of an accelerator against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from accelerator import DEVICE, array

import flambeau

fft = flambeau.fft
LENGTHS = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    12,
    17,
    30,
    64,
    67,
    97,
    134,
    1000,
)  # from 67 on with prime factors that are convolutions


def signal(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def moved(a: np.ndarray) -> flambeau.Tensor:
    return flambeau.from_numpy(np.ascontiguousarray(a)).to(DEVICE)


def close(actual: flambeau.Tensor, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    assert actual.device == DEVICE and actual.shape == expected.shape
    error = np.abs(array(actual) - expected).max(initial=0.0)
    assert error <= tolerance * np.abs(expected).max(initial=1.0)


@pytest.mark.parametrize("n", LENGTHS)
def test_one_dimension(n):
    z = signal(3, n)
    close(fft.fft(moved(z)), np.fft.fft(z))
    close(fft.ifft(moved(z)), np.fft.ifft(z))
    close(fft.fft(moved(z), dim=0, norm="ortho"), np.fft.fft(z, axis=0, norm="ortho"))
    close(fft.fft(moved(z.real)), np.fft.fft(z.real))
    close(fft.rfft(moved(z.real)), np.fft.rfft(z.real))
    half = np.fft.rfft(z.real)
    close(fft.irfft(moved(half), n), np.fft.irfft(half, n))
    close(fft.hfft(moved(half), n), np.fft.hfft(half, n))
    close(fft.fft(moved(z.astype("complex64"))), np.fft.fft(z), 1e-5)
    assert fft.fft(moved(z.astype("complex64"))).dtype == flambeau.complex64


def test_several_dimensions_and_layouts():
    z = signal(4, 6, 9)
    close(fft.fftn(moved(z)), np.fft.fftn(z))
    close(fft.ifftn(moved(z), dim=(0, 2)), np.fft.ifftn(z, axes=(0, 2)))
    close(fft.rfftn(moved(z.real)), np.fft.rfftn(z.real))
    close(fft.irfftn(moved(np.fft.rfftn(z.real)), s=z.shape), z.real)
    close(fft.fft(moved(z).transpose(0, 2)), np.fft.fft(z.transpose(2, 1, 0)))
    close(fft.fft(moved(z)[:, ::2, 1::3]), np.fft.fft(z[:, ::2, 1::3]))
    close(fft.fft(moved(z).conj()), np.fft.fft(z.conj()))
    close(fft.fft(moved(z), n=16), np.fft.fft(z, n=16))
    close(fft.fft(moved(z[:0])), z[:0])
    long = signal(1 << 15)  # whose indices take 64 bits on the way
    close(fft.fft(moved(long)), np.fft.fft(long))


def test_frequencies_are_made_there():
    assert fft.fftfreq(5, device=DEVICE).device == DEVICE
    np.testing.assert_allclose(array(fft.rfftfreq(6, 0.5, device=DEVICE)), np.fft.rfftfreq(6, 0.5))


def test_gradients():
    z = signal(5, 6)
    for function in (fft.fft, fft.ifft2, lambda t: fft.rfft(t.real), lambda t: fft.irfft(t, 9)):
        gradients = []
        for place in ("cpu", DEVICE):
            x = flambeau.from_numpy(z).to(place).requires_grad_()
            function(x).abs().square().sum().backward()
            gradients.append(array(x.grad))
        np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-10, atol=1e-10)
