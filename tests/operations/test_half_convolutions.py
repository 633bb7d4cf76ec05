"""Convolutions of halves in two dimensions and their gradients, beside float64's: sums in float32, rounded once, whatever the threads.

bfloat16 is multiplied by a matrix unit (AMX) or by vectors of pairs where the processor has these, else in float32, as float16 always is:
what is tested holds for all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


# How sums are made: as they are chosen, bfloat16 all by what multiplies it, none.
WAYS = {"chosen": BF16, "multiplied": BF16, "converted": BF16, "float16": flambeau.float16}


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch):
    monkeypatch.setattr(halves, "FEW_PRODUCTS", 0)


@pytest.fixture(params=WAYS)
def dtype(request, monkeypatch):
    if request.param != "chosen":
        for name in ("_less_work", "_weight_is_less_work"):
            monkeypatch.setattr(halves, name, lambda *key, by=request.param: by == "multiplied")
    return WAYS[request.param]


def gradients(x, w, b, grad, call=F.conv2d, **places):
    inputs = [t.detach().requires_grad_() for t in (x, w, b) if t is not None]
    result = call(*inputs, **places)
    return result.detach(), *flambeau.autograd.grad(result, inputs, grad)


def check(shape, filters, kernel, dtype, last=False, call=F.conv2d, biased=True, **places):
    flambeau.manual_seed(0)
    x = flambeau.randn(shape).to(dtype)
    if last:
        x = x.contiguous(memory_format=flambeau.channels_last)
    groups = places.get("groups", 1)
    both = (filters, shape[1] // groups) if call is F.conv2d else (shape[1], filters // groups)
    w = (flambeau.randn(*both, *kernel) * 0.1).to(dtype)
    b = flambeau.randn(filters).to(dtype) if biased else None
    given, ones = (x, w, b), flambeau.ones(filters) if biased else None
    exact = call(*(t if t is None else t.double() for t in given), **places)
    grad = flambeau.randn(exact.shape).to(dtype)
    found = gradients(*given, grad, call, **places)
    wanted = gradients(*(t if t is None else t.double() for t in given), grad.double(), call, **places)
    terms = call(*(t if t is None else t.double().abs() for t in given), **places)
    once = flambeau.finfo(dtype).eps / 2
    single = call(x.float(), w.float(), ones, **places)
    assert found[0].stride() == single.stride()
    assert (
        (found[0].double() - exact).abs() <= exact.abs() * once + terms * 2.0**-16 + once * 2.0**-13
    ).all()
    for result, e in zip(found, wanted):
        assert result.dtype == dtype and result.shape == e.shape
        assert ((result.double() - e).abs() <= e.abs() * 2 * once + e.abs().max() * 2.0**-12).all()
    threads = get_num_threads()
    set_num_threads(1 if threads > 1 else 2)
    try:
        again = gradients(*given, grad, call, **places)
    finally:
        set_num_threads(threads)
    assert all(flambeau.equal(a, b) for a, b in zip(found, again))


@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels_last"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_beside_float64_and_threads(case, last, dtype):
    shape, (filters, *kernel), stride, padding, dilation = case
    check(shape, filters, kernel, dtype, last, stride=stride, padding=padding, dilation=dilation)


# Input, filters with their window; stride, padding, groups: windows of one place over many pixels, few, one, and beside a bias; groups
# of many channels, of few, of one.
FURTHER = (
    ((3, 40, 16, 16), (64, 1, 1), 1, 0, 1),
    ((5, 40, 3, 3), (64, 1, 1), 1, 0, 1),
    ((2, 64, 1, 1), (32, 1, 1), 1, 0, 1),
    ((4, 33, 9, 7), (65, 1, 1), 2, 0, 1),
    ((1, 24, 15, 15), (48, 1, 1), 1, 0, 1),
    ((2, 24, 11, 12), (48, 3, 3), 1, 1, 3),
    ((2, 24, 11, 12), (48, 1, 1), 1, 0, 2),
    ((2, 32, 12, 13), (32, 3, 3), 2, 1, 32),
    ((2, 16, 12, 13), (32, 3, 3), 1, 1, 16),
    ((2, 40, 14, 14), (48, 3, 3), 1, 1, 1),
    ((8, 128, 7, 7), (96, 3, 3), 1, 1, 1),
)


@pytest.mark.parametrize("biased", [False, True], ids=["", "biased"])
@pytest.mark.parametrize("call", [F.conv2d, F.conv_transpose2d], ids=["", "transposed"])
@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels_last"])
@pytest.mark.parametrize("case", FURTHER, ids=str)
def test_windows_of_one_place_groups_and_adjoints(case, last, call, biased, dtype):
    shape, (filters, *kernel), stride, padding, groups = case
    check(shape, filters, kernel, dtype, last, call, biased, stride=stride, padding=padding, groups=groups)


def test_one_and_three_dimensions_and_nothing(dtype):
    for call, shape, weight in (
        (F.conv1d, (2, 32, 40), (48, 32, 3)),
        (F.conv_transpose1d, (2, 32, 40), (32, 48, 3)),
        (F.conv3d, (2, 16, 5, 6, 7), (32, 16, 3, 1, 2)),
    ):
        x, w = flambeau.randn(shape).to(dtype), (flambeau.randn(weight) * 0.1).to(dtype)
        exact = call(x.double(), w.double())
        grad = flambeau.randn(exact.shape).to(dtype)
        wanted = gradients(x.double(), w.double(), None, grad.double(), call)
        for found, e in zip(gradients(x, w, None, grad, call), wanted):
            bound = 2 * flambeau.finfo(dtype).eps
            assert ((found.double() - e).abs() <= e.abs() * bound + e.abs().max() * 2.0**-12).all()
    for shape in ((0, 32, 8, 8), (0, 32, 1, 1)):
        x, w = flambeau.zeros(shape, dtype=dtype), flambeau.ones(16, 32, 1, 1, dtype=dtype)
        result, of_x, of_w = gradients(x, w, None, flambeau.zeros(0, 16, *shape[2:], dtype=dtype))
        assert result.shape == (0, 16, *shape[2:]) and of_x.shape == shape and not of_w.any()


def test_with_vectors_of_32_bytes():
    program = """
import flambeau, sys
sys.path.insert(0, ".")
import test_half_convolutions as t
for dtype in (flambeau.float16, flambeau.bfloat16):
    for shape, (filters, *kernel), stride, padding, dilation in t.CASES[:6]:
        for last in (False, True):
            t.check(shape, filters, kernel, dtype, last, stride=stride, padding=padding, dilation=dilation)
    for shape, (filters, *kernel), stride, padding, groups in t.FURTHER:
        t.check(shape, filters, kernel, dtype, stride=stride, padding=padding, groups=groups)
print("checked")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env={**os.environ, "FLAMBEAU_CPU_CAPABILITY": "avx2"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.strip() == "checked", done.stderr


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
