"""The host's side of CUDA: without a driver, and on a fake one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # however pytest imports this file

import fake_cuda  # noqa: E402


def run(program: list[str], environment: dict[str, str]) -> str:
    """Run Python, which must succeed; what it printed."""
    done = subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_a_driver(tmp_path):
    program = """
import flambeau
from flambeau import cuda
assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
assert cuda.memory_allocated() == 0 and not cuda.is_bf16_supported()
cuda.empty_cache()
for use in (cuda.init, cuda.synchronize, cuda.Stream, cuda.current_device, cuda.get_device_name):
    try:
        use()
    except RuntimeError as error:
        assert "Found no NVIDIA driver on your system" in str(error), error
    else:
        raise AssertionError(use)
"""
    run(["-c", program], os.environ | {"FLAMBEAU_LIBCUDA": str(tmp_path / "no_libcuda.so")})


def test_a_library_that_is_no_driver(tmp_path):
    if fake_cuda.compiler() is None:
        pytest.skip("there is no C compiler to build a library with")
    source = tmp_path / "none.c"
    source.write_text("int cuInit(unsigned flags) { return 0; }\n")
    library = tmp_path / "libnone.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    program = "from flambeau import cuda; assert not cuda.is_available(); cuda.init()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"FLAMBEAU_LIBCUDA": str(library)},
        capture_output=True,
        text=True,
    )
    assert "libnone.so has no cuDriverGetVersion: the driver is too old" in done.stderr


@pytest.fixture(scope="module")
def fake_environment(tmp_path_factory) -> dict[str, str]:
    if fake_cuda.compiler() is None:
        pytest.skip("there is no C compiler to build the fake driver with")
    return fake_cuda.environment(tmp_path_factory.mktemp("fake"))


def test_a_driver_without_devices(fake_environment):
    program = "from flambeau import cuda; print(cuda.is_available(), cuda.device_count())"
    assert run(["-c", program], fake_environment | {"FAKE_CUDA_NO_DEVICE": "1"}) == "False 0\n"


@pytest.mark.parametrize(
    "checks",
    [
        "cuda_checks.py",
        "cuda_memory_checks.py",
        "cuda_sanitizer_checks.py",
        "cuda_allocator_checks.py",
        "cuda_tensor_checks.py",
        "cuda_interchange_checks.py",
        "cuda_graph_checks.py",
        "cuda_graph_draw_checks.py",
        "cuda_process_checks.py",
        "cuda_sharing_checks.py",
        "cuda_amp_checks.py",
        "cuda_documented_checks.py",
    ],
)
def test_on_the_fake_driver(fake_environment, checks):
    run(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(HERE / checks)],
        fake_environment,
    )


@pytest.mark.parametrize(
    ("capability", "processor"), [("70", "sm_70"), ("87", "sm_86"), ("90", "sm_90a"), ("120", "sm_100")]
)
def test_kernels_are_made_for_the_card(fake_environment, capability, processor):
    program = """
import fake_cuda
fake_cuda.install()
import flambeau
from flambeau.codegen import target
from flambeau.core.base.device import find_device
made, real = [], target.image
target.image = lambda text, name, processor: made.append((name, processor)) or real(text, name, processor)
x = flambeau.ones(3, device="cuda") * 3 + 1
assert x.tolist() == [4.0] * 3
print(find_device("cuda", 0).processor, set(made) <= {("nvptx", find_device("cuda", 0).processor)})
"""
    environment = fake_environment | {
        "FAKE_CUDA_CAPABILITY": capability,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    assert run(["-c", program], environment) == f"{processor} True\n"


def test_a_card_that_is_too_old(fake_environment):
    program = """
from flambeau import cuda
try:
    cuda.init()
except RuntimeError as error:
    print(error)
"""
    told = run(["-c", program], fake_environment | {"FAKE_CUDA_CAPABILITY": "61"})
    assert told.startswith("cuda:0 (Fake 0) has capability 6.1: kernels are made for sm_70, ")


def test_grids_on_the_fake_driver(fake_environment):
    options = ["-p", "fake_cuda", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = fake_environment | {
        "FLAMBEAU_TEST_DEVICE": "cuda",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
    }
    assert " passed" in run(["-m", "pytest", *options, str(HERE / "test_device_grids.py")], environment)


def test_the_registry_on_the_fake_driver(fake_environment):
    """Some of it; a real device is to run all, by FLAMBEAU_TEST_DEVICE=cuda."""
    some = "where_of or gelu_erf or shape1-argmax or shape1-softmax"
    options = ["-p", "fake_cuda", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", some]
    environment = fake_environment | {
        "FLAMBEAU_TEST_DEVICE": "cuda",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
    }
    assert " passed" in run(["-m", "pytest", *options, str(HERE / "test_opencl.py")], environment)
