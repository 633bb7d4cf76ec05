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


VIEWS = {  # a copy, and the view that it is one of
    "alias_copy": (lambda x: flambeau.alias_copy(x), lambda x: x),
    "as_strided_copy": (
        lambda x: flambeau.as_strided_copy(x, (2, 2), (1, 2), 3),
        lambda x: x.as_strided((2, 2), (1, 2), 3),
    ),
    "diagonal_copy": (lambda x: flambeau.diagonal_copy(x, 1), lambda x: x.diagonal(1)),
    "expand_copy": (lambda x: flambeau.expand_copy(x, (2, 3, 4)), lambda x: x.expand(2, 3, 4)),
    "permute_copy": (lambda x: flambeau.permute_copy(x, (1, 0)), lambda x: x.permute(1, 0)),
    "select_copy": (lambda x: flambeau.select_copy(x, 1, -1), lambda x: x.select(1, -1)),
    "slice_copy": (lambda x: flambeau.slice_copy(x, -1, -3, None, 2), lambda x: x[:, -3::2]),
    "split_copy": (lambda x: flambeau.split_copy(x, 3, 1), lambda x: x.split(3, 1)),
    "split_with_sizes_copy": (
        lambda x: flambeau.split_with_sizes_copy(x, (1, 0, 2)),
        lambda x: x.split_with_sizes((1, 0, 2)),
    ),
    "squeeze_copy": (lambda x: flambeau.squeeze_copy(x[None], 0), lambda x: x),
    "t_copy": (lambda x: flambeau.t_copy(x), lambda x: x.t()),
    "transpose_copy": (lambda x: flambeau.transpose_copy(x, 0, 1), lambda x: x.mT),
    "unbind_copy": (lambda x: flambeau.unbind_copy(x, 1), lambda x: x.unbind(1)),
    "unfold_copy": (lambda x: flambeau.unfold_copy(x, 1, 2, 1), lambda x: x.unfold(1, 2, 1)),
    "unsqueeze_copy": (lambda x: flambeau.unsqueeze_copy(x, 1), lambda x: x.unsqueeze(1)),
    "view_copy": (lambda x: flambeau.view_copy(x, (2, 6)), lambda x: x.view(2, 6)),
    "view_copy of a dtype": (
        lambda x: flambeau.view_copy(x, flambeau.int64),
        lambda x: x.view(flambeau.int64),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_copies_of_views_show_what_the_view_shows_in_memory_of_their_own(name):
    copy, view = VIEWS[name]
    x = flambeau.arange(12.0, dtype=flambeau.float64).reshape(3, 4)
    made, expected = copy(x), view(x)
    parts = zip(made, expected, strict=True) if isinstance(made, tuple) else [(made, expected)]
    for ours, theirs in parts:
        assert ours.shape == theirs.shape and ours.is_contiguous()
        assert ours.tolist() == theirs.tolist()
        assert ours.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_errors_of_copies_of_views_are_the_views():
    x = flambeau.ones(2, 3)
    for error, call in (
        (IndexError, lambda: flambeau.select_copy(x, 5, 0)),
        (IndexError, lambda: flambeau.transpose_copy(x, 0, 2)),
        (RuntimeError, lambda: flambeau.view_copy(x, (4, 4))),
        (RuntimeError, lambda: flambeau.slice_copy(x, 0, 0, 2, -1)),
        (RuntimeError, lambda: flambeau.as_strided_copy(x, (2**62,), (1,))),
    ):
        with pytest.raises(error, match="_copy"):
            call()
