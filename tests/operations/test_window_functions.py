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


# --- tensors for numbers ------------------------------
WINDOWS = flambeau.signal.windows
PARAMETERS = [
    *(("kaiser", "beta", 3.0), ("gaussian", "std", 1.5), ("exponential", "tau", 2.5)),
    *(("general_hamming", "alpha", 0.3), ("exponential", "center", 1.25)),
]
OLD = {"kaiser_window": ("beta", 3.0), "hamming_window": ("alpha", 0.3)}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
@pytest.mark.parametrize("name, parameter, value", PARAMETERS, ids=lambda x: str(x))
def test_a_parameter_may_be_a_tensor_of_one_element(name, parameter, value, dtype):
    given = flambeau.tensor(value).to(getattr(flambeau, dtype))
    make = getattr(WINDOWS, name)
    options = {"sym": parameter != "center", "dtype": flambeau.float64}
    if name == "exponential" and dtype == "int64":
        given = given.clamp(min=1)
    elif dtype == "int64" and name in ("gaussian", "kaiser"):
        given = given.clamp(min=1)
    wanted = make(7, **{parameter: given.item()}, **options)
    for leaf in (given, given.requires_grad_() if given.is_floating_point() else given):
        found = make(7, **{parameter: leaf}, **options)
        assert found.tolist() == wanted.tolist() and not found.requires_grad
    with pytest.raises((RuntimeError, TypeError), match=rf"{name}\(\): argument '{parameter}'"):
        make(7, **{parameter: flambeau.ones(2)}, **options)


@pytest.mark.parametrize(
    "name", [*sorted(set(WINDOWS.__all__)), *OLD, "hann_window", "bartlett_window", "blackman_window"]
)
def test_the_length_may_be_a_tensor_of_one_integer(name):
    make = getattr(WINDOWS, name, None) or getattr(flambeau, name)
    more = {"a": [0.5, 0.3]} if name == "general_cosine" else {}
    for n in (0, 1, 6):
        wanted = make(n, **more).tolist()
        for given in (flambeau.tensor(n), flambeau.tensor(n, dtype=flambeau.uint8), np.int64(n)):
            assert make(given, **more).tolist() == wanted
    wrong = (flambeau.tensor(6.0), flambeau.tensor([6]), 6.0, "6", None, flambeau.tensor(6 + 0j))
    for given in wrong:
        with pytest.raises(TypeError, match=rf"{name}\(\): argument '\w+' \(position 1\) must be int"):
            make(given, **more)


def test_weights_may_be_tensors():
    wanted = WINDOWS.general_cosine(6, a=[0.5, 0.25]).tolist()
    for a in (
        [flambeau.tensor(0.5), 0.25],
        (flambeau.tensor([0.5]), flambeau.tensor(0.25, requires_grad=True)),
    ):
        assert WINDOWS.general_cosine(6, a=a).tolist() == wanted
    with pytest.raises(TypeError, match="list/tuple"):
        WINDOWS.general_cosine(6, a=flambeau.tensor([0.5, 0.25]))


@pytest.mark.parametrize("name, parameter, value", PARAMETERS, ids=lambda x: str(x))
def test_what_is_no_number_is_named(name, parameter, value):
    for wrong in ("a", 1 + 2j, [value], flambeau.tensor(1j)):
        with pytest.raises(
            TypeError, match=rf"{name}\(\): argument '{parameter}' .*must be (a real number|float)"
        ):
            getattr(WINDOWS, name)(5, **{parameter: wrong}, sym=parameter != "center")


@pytest.mark.parametrize("name", OLD)
def test_the_older_windows_take_tensors(name):
    parameter, value = OLD[name]
    make, given = getattr(flambeau, name), flambeau.tensor(value, dtype=flambeau.float64)
    assert make(6, False, given).tolist() == make(6, False, value).tolist()
    assert make(6, **{parameter: given}).tolist() == make(6, True, value).tolist()
    with pytest.raises(TypeError, match=rf"{name}\(\): argument '{parameter}' must be a real number"):
        make(6, True, "a")
