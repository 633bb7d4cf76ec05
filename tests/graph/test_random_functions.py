"""Random functions of Python give, compiled, what they give eagerly; `random_functions.py` tries more of them."""

from __future__ import annotations

import pytest
from random_functions import difference

import flambeau


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 12, 4))
def test_compiled_functions_do_what_eager_ones_do(first):
    assert [d for seed in range(first, first + 4) if (d := difference(seed))] == []


def test_a_function_that_differs_is_found():
    def wrong(function):
        return lambda *args, **kwargs: flambeau.utils._pytree.tree_map(
            lambda t: t + 1 if isinstance(t, flambeau.Tensor) else t, function(*args, **kwargs)
        )

    assert all("not" in difference(seed, wrong) for seed in range(3))
