"""Which functions make tensors on the default device, as their declarations say."""

from __future__ import annotations

import flambeau
from flambeau.utils._device import _device_constructors


def test_what_takes_a_device_and_no_tensor_makes_one_on_the_default_device():
    result = _device_constructors()
    assert {flambeau.ones, flambeau.rand, flambeau.randperm, flambeau.hann_window, flambeau.range} <= result
    others = {flambeau.ones_like, flambeau.rand_like, flambeau.normal, flambeau.from_dlpack, flambeau.add}
    assert not result & others
