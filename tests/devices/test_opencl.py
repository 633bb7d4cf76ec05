"""Every operation of the registry on an OpenCL device: the same values and gradients as on the CPU, whose own are tested
against independent references.  FLAMBEAU_TEST_DEVICE=cuda runs the same on another kind of device.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import flambeau
from flambeau.ops.registry import REGISTRY

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
if not getattr(flambeau, TYPE).is_available():
    pytest.skip(
        f"no {TYPE} device; `pip install intel-opencl-rt intel-cmplr-lib-rt` makes one for OpenCL",
        allow_module_level=True,
    )

DEVICE = flambeau.device(TYPE, 0)
POINTWISE = [e for e in REGISTRY.values() if e.kind == "pointwise" and e.places]
REDUCTIONS = [e for e in REGISTRY.values() if e.kind in ("reduction", "row") and e.places]
name_of = lambda entry: entry.name


def several(results):
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def assert_equal(found, expected):
    """The same bits (any NaN for a NaN), on the device and on the CPU."""
    for a, b in zip(several(found), several(expected), strict=True):
        assert a.device == DEVICE and b.is_cpu
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        a, b = (x.detach().cpu().contiguous() for x in (a, b))
        if a.dtype == flambeau.bfloat16:
            a, b = a.float(), b.float()
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def assert_close(found, expected, tolerance=1e-5, atol=None):
    for a, b in zip(several(found), several(expected), strict=True):
        assert a.device == DEVICE and b.is_cpu
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = (x.detach().cpu() for x in (a, b))
        if a.dtype in (flambeau.bfloat16, flambeau.float16):
            a, b, tolerance = a.float(), b.float(), 2e-2
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=atol or tolerance)


def sample(entry, shape, dtype):
    """Operands of that shape on the CPU: random numbers from the operation's domain; conditions and masks are bool."""
    rng = np.random.default_rng(5)
    low, high = entry.domain
    found = []
    for operand in entry.details["operands"]:
        if operand in ("condition", "mask"):
            found.append(flambeau.from_numpy(np.asarray(rng.random(shape) < 0.5)))
        else:
            values = flambeau.from_numpy(np.asarray(rng.uniform(low, high, shape)))
            found.append(values.to(getattr(flambeau, dtype)))
    return found


def params(entry):
    """Values for scalar parameters that have no default."""
    names = entry.function.__signature__.parameters.items()
    return {n: 0.5 for n, p in names if p.default is p.empty and n not in entry.details["operands"]}


def supported(entry, dtypes):
    return [d for d in dtypes if d in entry.details["dtypes"]]


@pytest.mark.parametrize("entry", POINTWISE, ids=name_of)
def test_pointwise(entry):
    """Contiguous, strided, transposed and expanded operands, for every dtype: the bits of the CPU."""
    for dtype in supported(
        entry, ("float32", "float64", "int64", "uint8", "bool", "bfloat16", "float16", "complex64")
    ):
        operands = sample(entry, (5, 37), dtype)
        moved = [x.to(DEVICE) for x in operands]
        assert_equal(entry.function(*moved, **params(entry)), entry.function(*operands, **params(entry)))
        for view in (lambda x: x[::2, 1::3], lambda x: x.t(), lambda x: x[:1, :].expand(4, 37)):
            expected = entry.function(*map(view, operands), **params(entry))
            assert_equal(entry.function(*map(view, moved), **params(entry)), expected)


@pytest.mark.parametrize("entry", [e for e in POINTWISE if e.differentiable], ids=name_of)
def test_gradients_of_pointwise(entry):
    for dtype in supported(entry, ("float32", "float64")):
        gradients = []
        for place in ("cpu", DEVICE):
            operands = [x.to(place) for x in sample(entry, (4, 9), dtype)]
            wanted = [x.requires_grad_() for x in operands if x.is_floating_point()]
            results = several(entry.function(*operands, **params(entry)))
            total = sum((r * 0.5).sum() for r in results if r.requires_grad)
            if not isinstance(total, flambeau.Tensor):
                assert not any(r.requires_grad for r in results)
                break
            gradients.append(
                [g for g in flambeau.autograd.grad(total, wanted, allow_unused=True) if g is not None]
            )
        else:
            assert_equal(gradients[1], gradients[0])


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 700), (50000, 3), (3, 70000)])
def test_reductions_and_rows(entry, shape):
    x = flambeau.from_numpy(np.random.default_rng(1).standard_normal(shape))
    rounding = 1e-8 * x.numel()  # of sums, which group their terms in another way
    for dtype in supported(entry, ("float32", "int64", "bool", "bfloat16")):
        operand = (x * 3).to(getattr(flambeau, dtype))
        for view in (lambda x: x, lambda x: x.transpose(0, -1), lambda x: x[::2]):
            for dim in (0, -1):
                expected = entry.function(view(operand), dim)
                assert_close(entry.function(view(operand.to(DEVICE)), dim), expected, atol=rounding)
        if entry.kind == "reduction":
            assert_close(entry.function(operand.to(DEVICE)), entry.function(operand), atol=rounding)
