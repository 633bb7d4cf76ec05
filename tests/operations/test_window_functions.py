"""Window functions against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal.windows as reference

import flambeau
from flambeau.signal import windows

CASES = {
    "bartlett": {},
    "blackman": {},
    "cosine": {},
    "exponential": {"tau": 2.0},
    "gaussian": {"std": 1.5},
    "general_cosine": {"a": [0.4, 0.5, 0.1]},
    "general_hamming": {"alpha": 0.6},
    "hamming": {},
    "hann": {},
    "kaiser": {"beta": 5.0},
    "nuttall": {},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8])
def test_windows(name, sym, size):
    found = getattr(windows, name)(size, sym=sym, dtype=flambeau.float64, **CASES[name])
    if size == 0:
        assert found.shape == (0,)
        return
    expected = getattr(reference, name)(size, sym=sym, **CASES[name])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-15)
    assert getattr(windows, name)(size, **CASES[name]).dtype == flambeau.float32


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_older_names(name):
    options = {"beta": 12.0} if name == "kaiser" else {}
    for periodic in (True, False):
        found = getattr(flambeau, f"{name}_window")(9, periodic, dtype=flambeau.float64)
        expected = getattr(reference, name)(9, sym=not periodic, **options)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        flambeau.kaiser_window(5, False, 3.0).numpy(), reference.kaiser(5, 3.0), rtol=1e-6
    )


def test_errors():
    with pytest.raises(ValueError):
        windows.hann(-1)
    with pytest.raises(ValueError):
        windows.hann(3, dtype=flambeau.int64)
    with pytest.raises(ValueError):
        windows.gaussian(3, std=0.0)
    with pytest.raises(TypeError):
        windows.hann(3, tau=1.0)
    with pytest.raises(RuntimeError):
        flambeau.hann_window(-2)
    assert windows.cosine(3, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    "made",
    [
        lambda **place: flambeau.hann_window(4, **place),
        lambda **place: flambeau.signal.windows.kaiser(4, **place),
        lambda **place: flambeau.signal.windows.general_hamming(4, **place),
        lambda **place: flambeau.fft.fftfreq(4, **place),
        lambda **place: flambeau.fft.rfftfreq(4, **place),
        lambda **place: flambeau.range(0, 4, **place),
    ],
)
def test_the_place_asked_for_is_not_ignored(made):
    assert made(device="cpu", layout=flambeau.strided).device.type == "cpu"
    with pytest.raises(RuntimeError, match="nowhere"):
        made(device="nowhere")
    with pytest.raises(TypeError, match="layout"):
        made(layout=3)


@pytest.mark.parametrize(
    ("name", "given"), [("hann", {}), ("kaiser", {}), ("general_cosine", {"a": [0.5, 0.5]})]
)
def test_windows_are_strided(name, given):
    make = getattr(flambeau.signal.windows, name)
    assert make(3, **given, layout=flambeau.strided).shape == (3,)
    with pytest.raises(ValueError, match="strided tensors only"):
        make(3, **given, layout=flambeau.sparse_coo)
