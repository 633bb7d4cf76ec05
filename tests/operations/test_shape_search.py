"""A slice of `shape_search.py`, and the shapes that it found wrong."""

from __future__ import annotations

import pytest
import shape_convolutions  # noqa: F401
import shape_pools  # noqa: F401
import shape_products  # noqa: F401
from shape_search import FAMILIES, search, tried

BY_NAME = {one.name: one for one in FAMILIES}
PLAIN = dict(layout="plain", second="plain", sent="plain")
IMAGE = dict(PLAIN, batch=2, bias=True, padding=(0, 0), dilation=(1, 1), same=False)
SCORES = dict(PLAIN, backend="tiles", batch=1, shared_heads=False, mask=None, scale=None, dtype="float32")
FOUND = [
    # windows of 1 x 1 whose stride passes over all pixels but one
    ("conv2d", dict(IMAGE, sizes=(2, 2), kernel=(1, 1), groups=(1, 4, 3), stride=(2, 2), dtype="float32")),
    # padding behind the image alone
    ("conv2d", dict(IMAGE, sizes=(4, 9), kernel=(2, 2), groups=(1, 1, 16), stride=(1, 1), same="same", dtype="float64")),
    # rows that are all one row, by a matrix that is the same for all
    ("matmul", dict(PLAIN, first=(1,), second_lead=(2,), m=1, k=16, n=3, second="expanded", dtype="float32")),
    # one query's gradient
    ("attention", dict(SCORES, heads=1, queries=1, keys=40, width=3, out=1)),
    # a summand that counts for nothing has a gradient of zeros
    ("addr", dict(PLAIN, size_m=3, size_n=4, beta=0, alpha=1, wide="whole", dtype="float32")),
]  # fmt: skip


@pytest.mark.parametrize("name, given", FOUND)
def test_what_was_wrong(name, given):
    assert tried(BY_NAME[name], given) == []


@pytest.mark.parametrize("name", BY_NAME)
def test_some_shapes(name):
    done, wrong = search(BY_NAME[name], 10, 0)
    assert done == 10
    assert not wrong


def test_a_wrong_result_is_seen():
    """The search itself: an operation that is off by a place, one whose gradient is, one that raises."""
    given = dict(PLAIN, size_m=3, size_k=4, size_n=5, dtype="float64")
    case = BY_NAME["mm"].build

    def broken(change):
        def build(**choices):
            made = case(**choices)
            return made._replace(call=lambda a, b: change(made.call, a, b))

        return tried(BY_NAME["mm"]._replace(build=build), given)

    assert broken(lambda call, a, b: call(a, b)) == []
    assert any("result is off" in w for w in broken(lambda call, a, b: call(a, b).roll(1, 0)))
    assert any("gradient 0 is missing" in w for w in broken(lambda call, a, b: call(a.detach(), b)))
    assert any("gradient 1 is off" in w for w in broken(lambda call, a, b: call(a, b.detach() * 2 - b)))
    assert any("RuntimeError" in w for w in broken(lambda call, a, b: call(b, a)))
