"""Switches of a program, what computes, and the default generator's fork."""

from __future__ import annotations

import pytest

import flambeau


@pytest.fixture(autouse=True)
def _as_before():
    yield
    flambeau.use_deterministic_algorithms(True)
    flambeau.set_float32_matmul_precision("highest")
    flambeau.set_num_interop_threads(1)


def test_deterministic_algorithms():
    assert flambeau.are_deterministic_algorithms_enabled()
    flambeau.use_deterministic_algorithms(True, warn_only=True)
    assert flambeau.get_deterministic_debug_mode() == 1
    assert flambeau.is_deterministic_algorithms_warn_only_enabled()
    for mode, number in (("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)):
        flambeau.set_deterministic_debug_mode(mode)
        assert flambeau.get_deterministic_debug_mode() == number
        assert flambeau.are_deterministic_algorithms_enabled() == (number > 0)
    for wrong in (3, "never"):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            flambeau.set_deterministic_debug_mode(wrong)
    with pytest.raises(TypeError, match="must be bool, not int"):
        flambeau.use_deterministic_algorithms(1)
    assert flambeau.get_deterministic_debug_mode() == 2


def test_precision_of_products():
    assert flambeau.get_float32_matmul_precision() == "highest"
    for word in ("medium", "high"):
        flambeau.set_float32_matmul_precision(word)
        assert flambeau.get_float32_matmul_precision() == word
    with pytest.warns(UserWarning, match="changes nothing"):
        flambeau.set_float32_matmul_precision("low")
    assert flambeau.get_float32_matmul_precision() == "high"
    with pytest.raises(RuntimeError, match="expects a str, but got int"):
        flambeau.set_float32_matmul_precision(1)


def test_interop_threads():
    flambeau.set_num_interop_threads(3)
    assert flambeau.get_num_interop_threads() == 3
    for wrong in (0, -1, True, 1.0):
        with pytest.raises(RuntimeError, match="positive integer"):
            flambeau.set_num_interop_threads(wrong)


def test_the_fork_of_random_numbers_leaves_no_trace():
    flambeau.manual_seed(3)
    expected = flambeau.rand(4)
    flambeau.manual_seed(3)
    with pytest.raises(KeyError), flambeau.random.fork_rng():
        flambeau.rand(100)
        raise KeyError

    @flambeau.random.fork_rng()
    def draws():
        flambeau.manual_seed(9)

    draws()
    flambeau.testing.assert_close(flambeau.rand(4), expected, rtol=0, atol=0)
    with flambeau.random.fork_rng(enabled=False):
        flambeau.manual_seed(3)
    flambeau.testing.assert_close(flambeau.rand(4), expected, rtol=0, atol=0)


def test_cudnn_flags_come_back_after_an_error():
    cudnn = flambeau.backends.cudnn
    cudnn.benchmark = True
    try:
        with pytest.raises(KeyError), cudnn.flags(enabled=False, deterministic=True):
            assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
            raise KeyError
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, True, False)
    finally:
        cudnn.benchmark = False


def test_what_computes_answers_truly():
    from flambeau.core.lib.products import blas

    assert flambeau.backends.mkl.is_available() == (blas.provider()[0] == "mkl")
    for name in ("cudnn", "mkldnn", "mps", "openmp"):
        assert getattr(flambeau.backends, name).is_available() is False
    assert set(flambeau.backends.__all__) <= set(dir(flambeau.backends))
    assert blas.provider()[0] in flambeau.__config__.show()


def test_without_an_accelerator(monkeypatch):
    monkeypatch.setattr(flambeau.cuda, "is_available", lambda: False)
    accelerator = flambeau.accelerator
    assert not accelerator.is_available()
    assert accelerator.current_accelerator() is None and accelerator.device_count() == 0
    for call in (accelerator.synchronize, accelerator.current_device_index, accelerator.memory_stats):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            call()


def test_what_few_programs_use_is_imported_when_first_named():
    import subprocess
    import sys

    heavy = [
        "multiprocessing",
        "numpy",
        "pickle",
        "zipfile",
        "flambeau._files.unpickling",
        "flambeau.multiprocessing._public",
        "flambeau.nn.attention",
        "flambeau.nn.parallel",
        "flambeau.sparse.tensors",
        "flambeau.testing._comparison",
        "flambeau.utils.trainer",
    ]
    check = (
        f"import sys, flambeau; found = [m for m in {heavy} if m in sys.modules]; assert not found, found; "
        "assert '__getattr__' not in vars(flambeau), 'look-ups in a module that has it are slower'; "
        "flambeau.multiprocessing.Queue, flambeau.testing.assert_close, flambeau.backends.mps, flambeau.nn.attention; "
        "assert '__getattr__' not in vars(flambeau.multiprocessing); "
        "from flambeau.multiprocessing import *; spawn; "
        "assert set(flambeau.multiprocessing.__all__) <= set(dir(flambeau.multiprocessing)); "
    )
    subprocess.run([sys.executable, "-c", check], check=True)
    for module in (flambeau, flambeau.multiprocessing, flambeau.testing, flambeau.backends):
        with pytest.raises(
            AttributeError, match=f"module '{module.__name__}' has no attribute 'no_such_name'"
        ):
            module.no_such_name  # noqa: B018
