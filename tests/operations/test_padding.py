"""Padding against NumPy, for all modes; negative amounts, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn.functional import pad

NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
rng = np.random.default_rng(8)


def in_numpy(a, amounts, mode, **given):
    pairs = [(0, 0)] * (a.ndim - len(amounts) // 2)
    pairs += [(amounts[k], amounts[k + 1]) for k in range(len(amounts) - 2, -1, -2)]
    return np.pad(a, pairs, mode, **given)


@pytest.mark.parametrize("amounts", [(1, 2), (2, 1, 0, 3), (0, 2, 1, 1, 2, 0)])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_modes(amounts, mode):
    a = rng.standard_normal((2, 3, 4, 5, 4)[: len(amounts) // 2 + 2])
    got = pad(flambeau.from_numpy(a), amounts, mode)
    np.testing.assert_array_equal(got.numpy(), in_numpy(a, amounts, NUMPY_MODES[mode]))


@pytest.mark.parametrize("amounts", [(), (1, 2), (0, 0, 2, 1), (1, 0, 0, 1, 3, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_constant(amounts, dtype):
    a = rng.integers(0, 2, (2, 3, 4)).astype(dtype)
    np.testing.assert_array_equal(
        pad(flambeau.from_numpy(a), amounts).numpy(), in_numpy(a, amounts, "constant")
    )
    got = pad(flambeau.from_numpy(a), amounts, value=1).numpy()
    np.testing.assert_array_equal(got, in_numpy(a, amounts, "constant", constant_values=1))


def test_negative_amounts_take_off():
    x = flambeau.arange(12).reshape(3, 4)
    assert pad(x, (-1, 1)).tolist() == [[1, 2, 3, 0], [5, 6, 7, 0], [9, 10, 11, 0]]
    assert pad(x, (-1, -2, 0, -2)).tolist() == [[1]]
    assert pad(x.reshape(1, 3, 4), (1, -2), "replicate").tolist() == [[[0, 0, 1], [4, 4, 5], [8, 8, 9]]]
    assert pad(x.reshape(1, 3, 4), (-1, 1), "circular")[0, 0].tolist() == [1, 2, 3, 1]


def test_the_result_is_a_copy():
    x = flambeau.ones(2, 3, 4)
    for mode in ("constant", "reflect", "replicate", "circular"):
        assert pad(x, (0, 0), mode).data_ptr() != x.data_ptr()


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("amounts", [(1, 2), (2, -1), (1, 1, 2, 0)])
def test_gradients(mode, amounts):
    x = flambeau.from_numpy(rng.standard_normal((2, 3, 4))).requires_grad_()
    assert gradcheck(lambda t: pad(t, amounts, mode), (x,))
    assert gradgradcheck(lambda t: pad(t, amounts, mode), (x,))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: pad(flambeau.ones(2, 3), (1,)), RuntimeError, "divisible by 2"),
        (lambda: pad(flambeau.ones(3), (1, 1, 1, 1)), RuntimeError, "two times the input dimension"),
        (lambda: pad(flambeau.ones(2, 3), (-4, 0)), RuntimeError, "negative output size"),
        (
            lambda: pad(flambeau.ones(2, 3), (3, 0), "reflect"),
            RuntimeError,
            "less than the corresponding input dimension",
        ),
        (
            lambda: pad(flambeau.ones(2, 3), (4, 0), "circular"),
            RuntimeError,
            "wrapping around more than once",
        ),
        (
            lambda: pad(flambeau.ones(2, 3), (1, 1), "mirror"),
            NotImplementedError,
            "Unrecognised padding mode mirror",
        ),
        (
            lambda: pad(flambeau.ones(2, 3), (1, 1, 1, 1), "reflect"),
            NotImplementedError,
            "Only 2D, 3D, 4D, 5D",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    "mode, numpy_mode", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_padding_of_complex_numbers(mode, numpy_mode):
    a = np.random.default_rng(0).standard_normal((2, 5)) + 1j
    parts = flambeau.tensor(np.stack([a.real, a.imag], -1), requires_grad=True)

    def padded(p):
        return flambeau.view_as_real(
            flambeau.nn.functional.pad(flambeau.view_as_complex(p), (2, 1), mode=mode)
        )

    found = flambeau.view_as_complex(padded(parts).detach())
    np.testing.assert_array_equal(found.numpy(), np.pad(a, [(0, 0), (2, 1)], mode=numpy_mode))
    assert flambeau.autograd.gradcheck(padded, [parts])
