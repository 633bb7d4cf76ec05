"""The accelerator of the tests beside this module: OpenCL's first, or FLAMBEAU_TEST_DEVICE's."""

from __future__ import annotations

import os

import numpy as np
import pytest
from flambeau.core.base.device import find_device

import flambeau

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
if not getattr(flambeau, TYPE).is_available():
    pytest.skip(
        f"no {TYPE} device; `pip install intel-opencl-rt intel-cmplr-lib-rt` makes one for OpenCL",
        allow_module_level=True,
    )
DEVICE = flambeau.device(TYPE, 0)


def driver():
    """The device, which counts what leaves it."""
    flambeau.ones(1, device=DEVICE)
    return find_device(TYPE, 0)


def array(t: flambeau.Tensor) -> np.ndarray:
    """The elements of a tensor of any device, half types as float32."""
    t = t.detach().cpu().resolve_conj()
    return (t.float() if t.dtype in (flambeau.float16, flambeau.bfloat16) else t).numpy()


def same(actual, expected) -> None:
    """The same shapes, dtypes and bits (any NaN for a NaN), of a tensor or several: on the device, and on the CPU."""
    several = lambda r: r if isinstance(r, (tuple, list)) else (r,)
    for a, b in zip(several(actual), several(expected), strict=True):
        assert a.device == DEVICE and b.is_cpu
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(array(a), array(b))
