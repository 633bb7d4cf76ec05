"""Traced values that outlive the call of their function: every kind of kernel refuses those of another one, and of an earlier call."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import kernels
from flambeau.nn.attention.flex_attention import flex_attention

KINDS = {  # how a body of one operand is declared, and called
    "pointwise": (lambda body: kernels.pointwise(lambda x: body(x)), lambda op, x: op(x)),
    "row": (lambda body: kernels.row(lambda x: body(x) + 0 * kernels.sum(x)), lambda op, x: op(x, 0)),
    "reduction": (lambda body: kernels.reduction(lambda x: kernels.sum(body(x))), lambda op, x: op(x, 0)),
    "scan": (lambda body: kernels.scan(lambda x: kernels.running_sum(body(x))), lambda op, x: op(x, 0)),
    "indexed": (lambda body: kernels.indexed(lambda at, x: body(x[at])), lambda op, x: op(x)),
}


def escaped(kind):
    """What a body of that kind is given."""
    saved = []

    def body(x):
        saved.append(x)
        return x * 2

    declare, call = KINDS[kind]
    call(declare(body), flambeau.ones(3))
    assert saved
    return saved[-1]


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_a_value_of_another_kernel(first, second):
    stray = escaped(first)
    declare, call = KINDS[second]
    with pytest.raises(TypeError, match="uses a traced value of .* make it an operand"):
        call(declare(lambda x: x + stray), flambeau.ones(3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_an_earlier_call(kind):
    saved = []

    def body(x):
        saved.append(x)
        return x * saved[0]

    declare, call = KINDS[kind]
    with pytest.raises(TypeError, match="an earlier call of it"):
        op = declare(body)
        for strides in (1, 2):  # a kernel of its own each
            call(op, flambeau.ones(3 * strides)[::strides])


def test_numbers_coordinates_rules_of_folds_and_derivatives():
    saved = []

    @kernels.pointwise
    def scaled(x, *, by=2.0):
        saved.append(by)
        return x * by

    with pytest.raises(TypeError, match="uses a traced value of the pointwise kernel scaled"):
        kernels.pointwise(lambda x: x * saved[0])
    with pytest.raises(TypeError, match="uses a traced value of the pointwise kernel scaled"):
        kernels.reduction(lambda x: kernels.fold(lambda a, b: a + b * saved[0], (0.0,), x)[0])

    @scaled.derivative
    def _(grad, x):
        return grad * saved[0]

    with pytest.raises(TypeError, match="an earlier call of it"):
        scaled(flambeau.ones(2, requires_grad=True)).sum().backward()

    @kernels.indexed
    def places(at, x):
        saved[:] = [at[0]]
        return x[at]

    places(flambeau.ones(3))
    with pytest.raises(TypeError, match="uses a traced value of the indexed kernel places"):
        kernels.indexed(lambda at, x: x[saved[0]])(flambeau.ones(3))


def test_kernels_inside_kernels_still_compose():
    @kernels.pointwise
    def twice(x, *, by=2.0):
        return x * by

    @kernels.pointwise
    def outer(x, y):
        return twice(twice(x, by=3.0) + y) * flambeau.sigmoid(x)

    @kernels.row
    def centred(x, *, by=0.5):
        return twice(x) - kernels.fold(lambda a, b: a + b, (0.0,), x * by)[0]

    x = flambeau.randn(2, 3, dtype=flambeau.float64, requires_grad=True)
    y = flambeau.randn(2, 3, dtype=flambeau.float64, requires_grad=True)
    want = (x * 3 + y) * 2 * x.sigmoid()
    flambeau.testing.assert_close(outer(x, y), want)
    assert flambeau.autograd.gradcheck(outer, (x, y))
    flambeau.testing.assert_close(centred(x, 1, by=2.0), 2 * x - 2 * x.sum(1, True))
    assert flambeau.autograd.gradcheck(lambda x: centred(x, 1), (x,))


def test_scores_of_another_call():
    q = flambeau.randn(1, 1, 4, 8)
    saved = []

    def first(score, b, h, q_idx, kv_idx):
        saved.append(score)
        return score + kv_idx

    flex_attention(q, q, q, first)
    with pytest.raises(RuntimeError, match="traced value of another call"):
        flex_attention(q, q, q, lambda score, b, h, q_idx, kv_idx: score + saved[0])
    with pytest.raises(RuntimeError, match="traced value of another call"):
        flex_attention(q, q, q, lambda score, b, h, q_idx, kv_idx: saved[0])
