"""Depthwise convolutions of halves: the bits that float32 gives for the same numbers, rounded once."""

import pytest

import flambeau
from flambeau.codegen.tiles import register
from flambeau.nn import functional as F
from flambeau.operations.neural.convolution import depthwise
from flambeau.operations.neural.convolution.grid import Geometry

HALVES = (flambeau.bfloat16, flambeau.float16)
CASES = [  # images, channels, sizes, window, stride, padding, dilation
    (2, 5, (37, 50), (3, 3), 1, 1, 1),
    (1, 3, (40, 41), (3, 3), 2, 1, 1),
    (2, 4, (7, 7), (3, 3), 1, 1, 1),
    (1, 2, (30, 33), (5, 3), 1, (4, 2), 2),
    (1, 2, (19, 70), (7, 7), 2, 3, 1),
    (1, 1, (3, 9), (3, 4), 1, 0, 1),
    (3, 6, (67,), (5,), 1, 2, 1),
    (1, 4, (50,), (4,), 2, 1, 1),
]


def results(case, half, own, laid=lambda x: x):
    """Output and gradients of halves, computed as tensors of the dtype `own`."""
    images, channels, sizes, window, stride, padding, dilation = case
    flambeau.manual_seed(sum(sizes))
    x = laid(flambeau.randn(images, channels, *sizes).to(half)).to(own)
    w, b = flambeau.randn(channels, 1, *window).to(half).to(own), flambeau.randn(channels).to(half).to(own)
    inputs = [t.requires_grad_() for t in (x, w, b)]
    call = F.conv1d if len(sizes) == 1 else F.conv2d
    out = call(*inputs, stride=stride, padding=padding, dilation=dilation, groups=channels)
    g = flambeau.randn(out.shape).to(half).to(own)
    return [t.detach().to(half) for t in (out, *flambeau.autograd.grad(out, inputs, g))]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("case", CASES)
def test_the_bits_of_float32_rounded_once(case, half):
    for got, wanted in zip(results(case, half, half), results(case, half, flambeau.float32)):
        assert got.dtype == half and got.equal(wanted)


@pytest.mark.parametrize("half", HALVES)
def test_views_and_layouts(half):
    case = CASES[0]
    plain = results(case, half, half)
    for laid in (
        lambda x: x.to(memory_format=flambeau.channels_last),
        lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
        lambda x: F.pad(x, (3, 2, 1, 0))[:, :, 1:, 3:-2],
    ):
        assert all(a.equal(b) for a, b in zip(plain, results(case, half, half, laid)))


def test_numbers_that_are_none_or_endless_pass():
    x = flambeau.zeros(1, 1, 5, 40, dtype=flambeau.bfloat16)
    x[0, 0, 2, 3], x[0, 0, 2, 30] = float("nan"), float("inf")
    found = F.conv2d(x, flambeau.ones(1, 1, 1, 1, dtype=flambeau.bfloat16).repeat(1, 1, 3, 3), padding=1)
    assert found.isnan().sum() == 9 and found.isinf().sum() == 9 and (found == 0).sum() == 200 - 18


def test_bits_do_not_depend_on_the_threads():
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 3):
            flambeau.set_num_threads(threads)
            found.append(results((4, 24, (56, 56), (3, 3), 1, 1, 1), *HALVES[:1] * 2))
    finally:
        flambeau.set_num_threads(before)
    assert all(a.equal(b) for a, b in zip(*found))


@pytest.mark.skipif(
    register.width() != 64, reason="halves are read as they are where vectors of them can be masked"
)
def test_what_is_read_as_it_is():
    x, w = flambeau.ones(1, 4, 8, 8).bfloat16(), flambeau.ones(4, 1, 3, 3).bfloat16()
    plain = Geometry((1, 1), (1, 1), (1, 1), 4)
    assert depthwise.takes_halves(x, w.shape, plain, False) and depthwise.takes_halves(
        x, w.shape, plain, True
    )
    twice = flambeau.ones(8, 1, 3, 3).bfloat16()  # results of two filters, added up, would be rounded twice
    assert depthwise.takes_halves(x, twice.shape, plain, False) and not depthwise.takes_halves(
        x, twice.shape, plain, True
    )
    assert not depthwise.takes_halves(x, w.shape, plain._replace(stride=(3, 3)), False)
