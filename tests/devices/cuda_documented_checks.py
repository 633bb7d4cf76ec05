"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: the examples of `flambeau.cuda`, where there is a device."""

from __future__ import annotations

import doctest
import gc
import importlib
import pkgutil

import fake_cuda
import pytest

import flambeau

fake = fake_cuda.install()
cuda = flambeau.cuda
MODULES = sorted(m.name for m in pkgutil.walk_packages(cuda.__path__, "flambeau.cuda."))


@pytest.mark.parametrize("name", ["flambeau.cuda", *MODULES])
def test_examples(name):
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert results.failed == 0
    gc.collect()
    cuda.synchronize()
    assert cuda.current_device() == 0 and cuda.current_stream() == cuda.default_stream()


def test_that_there_are_examples():
    result = doctest.DocTestFinder().find(cuda.memory) + doctest.DocTestFinder().find(cuda)
    assert sum(len(f.examples) for f in result) > 50
