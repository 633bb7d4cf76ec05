"""Devices as values, whether they are here or not, and their generators where there is no driver."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau.core.base.dtypes import DEVICE_TYPES

ABSENT = [
    t
    for t in DEVICE_TYPES
    if t not in ("cpu", "meta") and not getattr(getattr(flambeau, t, None), "is_available", bool)()
]


@pytest.mark.parametrize("type", DEVICE_TYPES)
def test_every_type_can_be_named(type):
    plain, first = flambeau.device(type), flambeau.device(f"{type}:1")
    assert (plain.type, plain.index, first.index) == (type, None, 1)
    assert first == flambeau.device(type, 1) == flambeau.device(type=type, index=np.int64(1)) != plain
    assert len({plain, first, flambeau.device(type)}) == 2
    assert str(first) == f"{type}:1" and repr(first) == f"device(type='{type}', index=1)"
    for back in (pickle.loads(pickle.dumps(first)), copy.deepcopy(first), flambeau.device(first)):
        assert back == first


@pytest.mark.parametrize(
    "given", ["nowhere", "", "cuda:", "cuda:-1", "cuda:01", "cuda:²", "cuda:1x", "cuda:1:1", ":1", "cuda: 1"]
)
def test_what_is_no_device(given):
    with pytest.raises(RuntimeError, match="device"):
        flambeau.device(given)


def test_what_is_no_index():
    for index in (-1, 1 << 15, 1 << 70):
        with pytest.raises(RuntimeError, match="Device index must"):
            flambeau.device("cuda", index)
    with pytest.raises(RuntimeError, match="invalid device string"):
        flambeau.device("cuda:1", 1)
    for given in (("cuda", "1"), ("cuda", 1.0), (1.5,), (1, 1), ([],)):
        with pytest.raises(TypeError, match=r"device\(\): argument"):
            flambeau.device(*given)


MAKING = {
    "ones": lambda t: flambeau.ones(2, device=t),
    "tensor": lambda t: flambeau.tensor([1.0], device=t),
    "rand": lambda t: flambeau.rand(2, device=t),
    "to": lambda t: flambeau.ones(2).to(t),
    "Generator": lambda t: flambeau.Generator(t),
    "set_default_device": lambda t: flambeau.set_default_device(t),
    "Module.to": lambda t: flambeau.nn.Linear(1, 1).to(t),
}


@pytest.mark.parametrize("type", ABSENT)
@pytest.mark.parametrize("make", MAKING)
def test_making_a_tensor_where_no_device_is(type, make):
    kind = (
        AssertionError if type in ("xpu", "mtia") else RuntimeError if type == "cuda" else NotImplementedError
    )
    with pytest.raises(kind, match="driver" if type == "cuda" else f"device '{type}' is not available"):
        MAKING[make](type)
    assert flambeau.get_default_device() == flambeau.device("cpu")


def test_tensors_say_that_they_are_on_none_of_them():
    x = flambeau.ones(2)
    for type in ("hpu", "ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu"):
        assert getattr(x, f"is_{type}") is False
    assert flambeau.get_device(x) == -1 and not flambeau.is_vulkan_available()


@pytest.mark.parametrize("type", ["mps", "xpu", "mtia"])
def test_modules_of_devices_that_are_not_here(type):
    module = getattr(flambeau, type)
    assert not module.is_available() and module.device_count() == 0
    module.manual_seed(3)
    module.seed()
    error = RuntimeError if type == "mps" else AssertionError
    refused = 0
    for name in dir(module):
        value = getattr(module, name)
        if (
            getattr(value, "__doc__", None)
            and "there is no" in value.__doc__
            and value.__doc__.startswith("Raises")
        ):
            with pytest.raises(error, match=rf"{type}\.{name}\(\): device '{type}' is not available"):
                value()
            refused += 1
    assert refused > 10
    assert pickle.loads(pickle.dumps(module.synchronize)) is module.synchronize
    assert flambeau.get_device_module(type) is module


def test_the_module_of_a_device():
    assert flambeau.get_device_module(flambeau.device("cuda:1")) is flambeau.cuda
    assert flambeau.get_device_module() in (flambeau.cpu, flambeau.cuda)
    with pytest.raises(RuntimeError, match="'vulkan' does not have a corresponding module"):
        flambeau.get_device_module("vulkan")
    with pytest.raises(RuntimeError, match="Invalid value of device '3'"):
        flambeau.get_device_module(3)


def test_seeds_without_a_driver(tmp_path):
    """A seed counts for devices that are first used later; asking for states of devices that are not there is an error."""
    program = """
import flambeau
from flambeau import cuda
from flambeau.core.make.random import default_of_device
assert list(cuda.default_generators) == [] == cuda.get_rng_state_all() and len(cuda.default_generators) == 0
cuda.manual_seed(4); cuda.manual_seed_all(5); cuda.seed(); cuda.seed_all(); cuda.set_rng_state_all([])
flambeau.manual_seed(7)
assert default_of_device(flambeau.device("cuda:3")).initial_seed() == 7
cuda.manual_seed_all(8)
assert default_of_device(flambeau.device("cuda:5")).initial_seed() == 8
assert default_of_device(flambeau.device("cuda:3")).initial_seed() == 8
assert default_of_device(flambeau.device("mps:0")).initial_seed() == 7 == flambeau.initial_seed()
with flambeau.random.fork_rng():
    default_of_device(flambeau.device("cuda:3")).manual_seed(1)
assert default_of_device(flambeau.device("cuda:3")).initial_seed() == 8
for call in (cuda.initial_seed, cuda.get_rng_state, lambda: cuda.set_rng_state(flambeau.get_rng_state()),
             lambda: flambeau.random.fork_rng([0]).__enter__(), lambda: flambeau.Generator("cuda")):
    try:
        call()
    except RuntimeError as error:
        assert "Found no NVIDIA driver" in str(error), error
    else:
        raise AssertionError(call)
assert not cuda.is_initialized()
"""
    environment = os.environ | {"FLAMBEAU_LIBCUDA": str(tmp_path / "none.so")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_forks_of_types_without_a_module():
    with pytest.raises(RuntimeError, match="vulkan"), flambeau.random.fork_rng(device_type="vulkan"):
        pass
    with pytest.raises(RuntimeError, match="nowhere"), flambeau.random.fork_rng(device_type="nowhere"):
        pass
    with pytest.raises(RuntimeError, match="no numbers to draw"):
        flambeau.Generator("meta")


def test_a_worker_thread_has_a_generator_of_its_own():
    class Drawing(flambeau.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, k):
            generator = flambeau.random.thread_safe_generator()
            return flambeau.rand(1, generator=generator) if generator is not None else None

    assert flambeau.random.thread_safe_generator() is None
    loader = flambeau.utils.data.DataLoader(Drawing(), num_workers=2, worker_type="thread")
    assert all(x.shape == (1, 1) for x in loader)
