"""`nn.grad`: the gradients of convolutions by name, against those that backward finds."""

from __future__ import annotations

import itertools
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn import functional as F

CASES = [  # stride, padding, dilation, groups, kernel
    (1, 0, 1, 1, 3),
    (2, 1, 1, 1, 3),
    (3, 2, 2, 2, 2),
    (1, 2, 3, 4, 1),
    (2, 0, 2, 2, 3),
]


def functions(n):
    return (
        getattr(F, f"conv{n}d"),
        getattr(nn.grad, f"conv{n}d_input"),
        getattr(nn.grad, f"conv{n}d_weight"),
    )


@pytest.mark.parametrize("n, case", itertools.product((1, 2, 3), CASES))
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16"])
def test_gradients(n, case, dtype):
    stride, padding, dilation, groups, kernel = case
    conv, of_input, of_weight = functions(n)
    dtype = getattr(flambeau, dtype)
    real = not dtype.is_complex
    x = flambeau.randn(2, 4, *[7] * n, dtype=dtype if real else flambeau.complex64).requires_grad_()
    w = flambeau.randn(8, 4 // groups, *[kernel] * n, dtype=dtype).requires_grad_()
    result = conv(x, w, None, stride, padding, dilation, groups)
    grad = flambeau.randn(result.shape, dtype=dtype)
    expected = flambeau.autograd.grad(result, (x, w), grad)
    # A gradient is of the conjugate.
    found = (
        of_input(x.shape, w.conj(), grad, stride, padding, dilation, groups),
        of_weight(x.conj(), w.shape, grad, stride, padding, dilation, groups),
    )
    tolerance = {"rtol": 2e-2, "atol": 0.1} if dtype is flambeau.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype is dtype and flambeau.allclose(a, b, **tolerance)


def test_they_are_differentiated_again():
    x = flambeau.randn(1, 2, 5, dtype=flambeau.float64, requires_grad=True)
    w = flambeau.randn(2, 2, 2, dtype=flambeau.float64, requires_grad=True)
    g = flambeau.randn(1, 2, 2, dtype=flambeau.float64, requires_grad=True)
    for function, arguments in (
        (lambda w, g: nn.grad.conv1d_input((1, 2, 5), w, g, 2), (w, g)),
        (lambda x, g: nn.grad.conv1d_weight(x, (2, 2, 2), g, 2), (x, g)),
    ):
        assert gradcheck(function, arguments) and gradgradcheck(function, arguments)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda x, w, g: nn.grad.conv1d_input((1, 3, 5), w, g),
            r"expected input\[1, 3, 5\] to have 2 channels, but got 3",
        ),
        (
            lambda x, w, g: nn.grad.conv1d_input((1, 2), w, g),
            r"expected input of 3 dimensions .* got size \[1, 2\]",
        ),
        (
            lambda x, w, g: nn.grad.conv1d_input((1, 2, 9), w, g),
            r"grad_output of size \[1, 2, 8\], got \[1, 2, 4\]",
        ),
        (
            lambda x, w, g: nn.grad.conv1d_weight(x, (2, 2, 7), g),
            "Kernel size can't be greater than actual input",
        ),
        (lambda x, w, g: nn.grad.conv1d_weight(x, (2, 2, 2), g, stride=0), "stride"),
        (
            lambda x, w, g: nn.grad.conv1d_weight(x, (2, 0, 2), g),
            r"expected weight of 3 dimensions with elements",
        ),
        (lambda x, w, g: nn.grad.conv1d_weight(x, (2, 2, 2), g.double()), "grad_output type .* input type"),
        (
            lambda x, w, g: nn.grad.conv2d_weight(x, (2, 2, 2, 2), g),
            "conv2d_weight.*expected input of 4 dimensions",
        ),
    ],
)
def test_sizes_that_do_not_fit(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(flambeau.ones(1, 2, 5), flambeau.ones(2, 2, 2), flambeau.ones(1, 2, 4))


def test_they_are_operations():
    assert pickle.loads(pickle.dumps(nn.grad.conv2d_weight)) is nn.grad.conv2d_weight
    seen = []

    class Names(flambeau.overrides.Mode):
        def handle(self, operation, types, args, kwargs):
            seen.append(operation.__name__)
            return operation(*args, **kwargs)

    x, w, g = flambeau.ones(1, 2, 5), flambeau.ones(2, 2, 2), flambeau.ones(1, 2, 4)
    with Names():
        nn.grad.conv1d_input(x.shape, w, g)
        nn.grad.conv1d_weight(x, w.shape, g)
    assert seen == ["conv1d_input", "conv1d_weight"]
    assert nn.grad.conv1d_input((1, 2, 5), w.to("meta"), g.to("meta")).shape == (1, 2, 5)
