"""Complex numbers and their parts as views of each other."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck


def test_parts_are_views():
    a = np.array([[1 + 2j, 3 - 1j]])
    x = flambeau.tensor(a)
    np.testing.assert_array_equal(x.real.numpy(), a.real)
    np.testing.assert_array_equal(flambeau.imag(x).numpy(), a.imag)
    x.real = 5.0
    x.imag[0, 1] = 7.0
    assert x.tolist() == [[5 + 2j, 5 + 7j]]
    assert flambeau.view_as_real(x).tolist() == [[[5.0, 2.0], [5.0, 7.0]]]
    y = flambeau.tensor([1.0])
    assert y.real is y
    with pytest.raises(RuntimeError, match="non-complex"):
        flambeau.imag(y)


def test_gradients_of_parts():
    pairs = flambeau.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    assert gradcheck(lambda p: flambeau.view_as_complex(p).imag, [pairs])
    assert gradcheck(lambda p: flambeau.view_as_real(flambeau.view_as_complex(p)), [pairs])
