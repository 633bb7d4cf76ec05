"""Rows, reductions and scans on the accelerator of the tests, against the CPU: lengths around warps, blocks and what threads hold."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from flambeau.core.loops.planning import row_plan

import flambeau
import flambeau.nn.functional as F
from flambeau.codegen import expr as ex
from flambeau.codegen import kernels as kn

sys.path.insert(0, str(Path(__file__).parent))

from accelerator import DEVICE, array, same  # noqa: E402

LENGTHS = (0, 1, 31, 33, 1023, 1025, 4097)
ROUNDING = {"float64": 1e-12, "float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2}
ROWS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]) if x.shape[-1] else x,
    "sum": lambda x: x.sum(-1),
    "norm": lambda x: x.norm(dim=-1),
    "var": lambda x: x.var(-1, correction=0) if x.shape[-1] else x,
    "logsumexp": lambda x: x.logsumexp(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
}
PLACES = {
    "argmax": lambda x: x.argmax(-1) if x.shape[-1] else x,
    "cummin": lambda x: x.cummin(-1),
    "min": lambda x: x.min(-1) if x.shape[-1] else x,
}


def values(shape, dtype="float32", seed=0):
    random = np.random.default_rng(seed)
    return flambeau.from_numpy(random.standard_normal(shape)).to(getattr(flambeau, dtype))


def close(actual, expected, dtype="float32"):
    rounding = ROUNDING[dtype]
    np.testing.assert_allclose(array(actual), array(expected), rtol=rounding, atol=rounding * 10)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("rows", [1, 5])
def test_lengths(rows, length):
    x = values((rows, length))
    there = x.to(DEVICE)
    for name, function in ROWS.items():
        actual, expected = function(there), function(x)
        assert actual.shape == expected.shape, name
        close(actual, expected)
    for function in PLACES.values():
        same(function(there), function(x))


def test_a_row_of_many_blocks():
    x = values((1, 100001))
    there = x.to(DEVICE)
    for name in ("softmax", "layer_norm", "sum", "logsumexp", "cumsum", "logcumsumexp"):
        close(ROWS[name](there), ROWS[name](x))
    for function in PLACES.values():
        same(function(there), function(x))
    columns = there.reshape(-1, 1).expand(-1, 3)
    same(columns.argmax(0), x.reshape(-1, 1).expand(-1, 3).argmax(0))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes(dtype):
    x = values((6, 300), dtype)
    there = x.to(DEVICE)
    for name, function in ROWS.items():
        if name != "logcumsumexp" or dtype == "float64":
            close(function(there), function(x), dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "bool"])
def test_integers(dtype):
    numbers = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 100, (3, 5000))
    x = flambeau.from_numpy(numbers).to(getattr(flambeau, dtype))
    there = x.to(DEVICE)
    same(there.sum(-1), x.sum(-1))
    same(there.sum(0), x.sum(0))
    same(there.cumsum(1), x.cumsum(1))
    same(there.amax(1), x.amax(1))
    same(there.cummax(1), x.cummax(1))


def test_gradients():
    for length in (33, 1025):
        for function in (ROWS["softmax"], ROWS["log_softmax"], ROWS["layer_norm"], ROWS["var"]):
            results = []
            for device in ("cpu", DEVICE):
                x = values((4, length)).to(device).requires_grad_()
                weight = values((4, length), seed=1).to(device)
                result = function(x)
                (result * weight[(slice(None), *([0] * (2 - result.ndim)))]).sum().backward()
                results.append(x.grad)
            close(results[1], results[0])


def test_nothing_is_lost_of_nan_and_views():
    x = values((12, 700))
    x[1, 699] = x[2, 0] = x[3, 256] = float("nan")
    x[4, 3], x[5, 1:3] = float("inf"), float("-inf")
    there = x.to(DEVICE)
    for form in (
        lambda t: t[:, ::2],
        lambda t: t.t(),
        lambda t: t[2:7, 5:],
        lambda t: t[:1].expand(4, 700),
        lambda t: t.flip(1),
    ):
        given, own = form(there), form(x)
        for name, function in ROWS.items():
            actual, expected = array(function(given)), array(function(own))
            np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected), err_msg=name)
            np.testing.assert_allclose(actual, expected, rtol=3e-5, atol=3e-4, err_msg=name)
        for function in PLACES.values():
            same(function(given), function(own))


@pytest.mark.parametrize("shape", [(100001, 3), (70, 700), (5000, 1), (2, 3000, 7)])
def test_columns(shape):
    """Dimension -2: threads are on neighbouring columns; few and long ones lie in blocks."""
    x = values(shape)
    there = x.to(DEVICE)
    close(there.sum(-2), x.sum(-2))
    close(there.cumsum(-2), x.cumsum(-2))
    close(there.softmax(-2), x.softmax(-2))
    for function in (lambda t: t.argmax(-2), lambda t: t.cummax(-2), lambda t: t.min(-2)):
        same(function(there), function(x))


def test_rows_of_two_pieces():
    """Channels of images: what a batch norm folds, a block for each image."""
    x = values((40, 3, 20, 25))
    there = x.to(DEVICE)
    close(there.sum((0, 2, 3)), x.sum((0, 2, 3)))
    close(there.amax((0, 2, 3)), x.amax((0, 2, 3)))
    close(there.var((0, 2, 3)), x.var((0, 2, 3)))
    channels = F.batch_norm(there, None, None, training=True), F.batch_norm(x, None, None, training=True)
    close(*channels)


@pytest.mark.parametrize("length", [30, 300, 3000])
def test_a_scan_among_the_kernels_of_a_program(length):
    """A plan of a kernel that holds prefixes, of whatever length."""
    x = values((3, length))
    kernel = kn.fused("total", [kn.running_sum(ex.input(0, "float32")) * 2.0]).kernel
    plan = row_plan(kernel, (3, length), 1, [x.to(DEVICE), x.to(DEVICE)])
    close(plan.launch([x.to(DEVICE)]), x.cumsum(1) * 2)


def test_results_have_the_same_bits_each_time():
    there = values((3, 40000)).to(DEVICE)
    for function in (lambda t: t.sum(), lambda t: t.cumsum(1), lambda t: t.softmax(1), lambda t: t.sum(0)):
        first = function(there).cpu()
        assert all(flambeau.equal(first, function(there).cpu()) for _ in range(3))
