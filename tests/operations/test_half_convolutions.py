"""Convolutions of bfloat16 in two dimensions and their gradients, beside float64's: sums in float32, rounded once, whatever the threads.

On processors with a matrix unit (AMX) they are computed by it, elsewhere in float32: what is tested holds for both.
"""

from __future__ import annotations

import pytest
from flambeau.core.base.parallel import get_num_threads, set_num_threads

import flambeau
from flambeau.nn import functional as F
from flambeau.operations.neural.convolution import halves

BF16 = flambeau.bfloat16
# Input, filters with their window; stride, padding, dilation: few channels and many, edges of blocks of 16 and 32, phases no tap reads.
CASES = (
    ((2, 3, 19, 17), (33, 3, 3), 1, 1, 1),
    ((2, 64, 14, 14), (40, 3, 3), 1, 1, 1),
    ((1, 40, 15, 13), (70, 3, 3), 2, 1, 1),
    ((3, 1, 12, 12), (8, 3, 3), 1, 0, 1),
    ((2, 33, 9, 9), (31, 1, 1), 1, 0, 1),
    ((2, 33, 9, 9), (31, 1, 1), 2, 0, 1),
    ((2, 3, 32, 32), (64, 7, 7), 2, 3, 1),
    ((2, 48, 20, 21), (32, 3, 2), (2, 1), (2, 1), (2, 3)),
    ((1, 5, 30, 30), (17, 5, 5), 3, 2, 2),
    ((2, 16, 40, 40), (32, 16, 16), 16, 0, 1),
    ((1, 32, 9, 9), (16, 3, 3), 4, 5, 1),
    ((1, 32, 7, 70), (16, 1, 9), 1, (0, 4), 1),
    ((1, 32, 60, 200), (33, 3, 3), 1, 1, 1),
    # Fewer places than filters.
    ((4, 40, 4, 4), (190, 3, 3), 1, 1, 1),
    ((3, 24, 5, 6), (100, 3, 3), 2, 1, 1),
    ((2, 17, 6, 5), (96, 3, 2), (1, 2), (1, 0), (2, 1)),
    ((1, 33, 3, 3), (65, 1, 1), 2, 0, 1),
)


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch):
    monkeypatch.setattr(halves, "FEW_PRODUCTS", 0)


def gradients(x, w, b, grad, places):
    inputs = [t.detach().requires_grad_() for t in (x, w, b)]
    result = F.conv2d(*inputs, **places)
    return result.detach(), *flambeau.autograd.grad(result, inputs, grad)


@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels_last"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_beside_float64_and_threads(case, last):
    shape, (filters, *kernel), stride, padding, dilation = case
    places = {"stride": stride, "padding": padding, "dilation": dilation}
    flambeau.manual_seed(0)
    x = flambeau.randn(shape).to(BF16)
    if last:
        x = x.contiguous(memory_format=flambeau.channels_last)
    w, b = (flambeau.randn(filters, shape[1], *kernel) * 0.1).to(BF16), flambeau.randn(filters).to(BF16)
    exact = F.conv2d(x.double(), w.double(), b.double(), **places)
    grad = flambeau.randn(exact.shape).to(BF16)
    found = gradients(x, w, b, grad, places)
    wanted = gradients(x.double(), w.double(), b.double(), grad.double(), places)
    terms = F.conv2d(x.double().abs(), w.double().abs(), b.double().abs(), **places)
    assert found[0].stride() == F.conv2d(x.float(), w.float(), b.float(), **places).stride()
    assert ((found[0].double() - exact).abs() <= exact.abs() * 2.0**-8 + terms * 2.0**-16).all()
    for result, e in zip(found, wanted):
        assert result.dtype == BF16 and result.shape == e.shape
        assert ((result.double() - e).abs() <= e.abs() * 2.0**-7 + e.abs().max() * 2.0**-12).all()
    threads = get_num_threads()
    set_num_threads(1 if threads > 1 else 2)
    try:
        again = gradients(x, w, b, grad, places)
    finally:
        set_num_threads(threads)
    assert all(flambeau.equal(a, b) for a, b in zip(found, again))


def test_what_stands_beside_the_image_is_zero_not_read(monkeypatch):
    """An infinity spreads to the places whose window sees it, and to no other; by Winograd's it would, to those of its patch."""
    monkeypatch.setattr(flambeau.backends.cpu, "allow_winograd", False)
    x = flambeau.zeros(1, 32, 12, 12, dtype=BF16)
    x[0, 5, 11, 11] = float("inf")
    w = flambeau.ones(16, 32, 3, 3, dtype=BF16)
    seen = F.conv2d(x, w, padding=1)[0, 0].isinf()
    assert seen.nonzero().tolist() == [[10, 10], [10, 11], [11, 10], [11, 11]]


def test_largest_pool_adds_halves_in_float32():
    x = flambeau.zeros(1, 1, 3, 3, dtype=BF16)
    x[0, 0, 1, 1] = 1.0
    x.requires_grad_()
    grad = flambeau.tensor([[256.0, 1.0], [1.0, 1.0]], dtype=BF16).reshape(1, 1, 2, 2)
    F.max_pool2d(x, 2, 1).backward(grad)
    assert x.grad[0, 0, 1, 1] == flambeau.tensor(259.0).to(BF16)  # one by one, 256 + 1 would stay 256


@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels_last"])
@pytest.mark.parametrize("transposed", [False, True])
def test_some_images_at_a_time(last, transposed, monkeypatch):
    """float16, which no instruction multiplies: the images' copies in float32 take a part of the cache."""
    from flambeau.operations.neural.convolution import half_families

    flambeau.manual_seed(1)
    x, w = flambeau.randn(7, 16, 12, 11).half(), (flambeau.randn(16, 16, 3, 3) * 0.1).half()
    x = x.contiguous(memory_format=flambeau.channels_last) if last else x
    b = flambeau.randn(16).half()
    call = F.conv_transpose2d if transposed else F.conv2d
    exact = call(x.double(), w.double(), b.double(), padding=1)
    for cached in (1, 60_000, 1 << 30):  # an image at a time, three, all
        monkeypatch.setattr(half_families, "CACHED", cached)
        with flambeau.no_grad():
            results = [
                call(x, w, b, padding=1) for _ in range(3)
            ]  # the weight's copy is kept from the second on
        assert all(flambeau.equal(results[0], r) for r in results[1:])
        found = results[0]
        assert found.is_contiguous(memory_format=flambeau.channels_last) == last
        error = (found.double() - exact).abs()
        assert bool((error <= 2.0**-11 * exact.abs() + 1e-5).all())
    with flambeau.no_grad():
        w.mul_(2)  # the copy is made anew
        twice = call(x, w, b, padding=1)
    exact = call(x.double(), w.double(), b.double(), padding=1)
    assert bool(((twice.double() - exact).abs() <= 2.0**-11 * exact.abs() + 2e-5).all())
