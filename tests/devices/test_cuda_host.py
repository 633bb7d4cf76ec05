"""The host's side of CUDA and of HIP: without a driver, and on a fake one of each."""

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


@pytest.fixture(params=["cuda", "hip"])
def kind(request) -> str:
    """Whose driver it is: "cuda" is NVIDIA's, "hip" AMD's."""
    return request.param


def only(kind: str, library: Path) -> dict[str, str]:
    """For a process that is to open that library as a driver, and no other."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLAMBEAU_LIB")}
    return environment | {f"FLAMBEAU_LIB{kind.upper()}": str(library)}


def test_without_a_driver(tmp_path, kind):
    program = """
import flambeau
from flambeau import cuda
assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
assert cuda.memory_allocated() == 0 and not cuda.is_bf16_supported()
cuda.empty_cache()
assert flambeau.version.cuda is None and flambeau.version.hip is None
for use in (cuda.init, cuda.synchronize, cuda.Stream, cuda.current_device, cuda.get_device_name):
    try:
        use()
    except RuntimeError as error:
        assert WORDS in str(error) and "no_driver.so cannot be opened" in str(error), error
    else:
        raise AssertionError(use)
"""
    words = {"cuda": "Found no NVIDIA driver on your system", "hip": "No HIP GPUs are available"}[kind]
    run(["-c", program.replace("WORDS", repr(words))], only(kind, tmp_path / "no_driver.so"))


def test_a_machine_with_neither_driver(tmp_path):
    program = """
import ctypes
from flambeau import cuda
for name in ("libcuda.so.1", "libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7"):
    try:
        ctypes.CDLL(name)
    except OSError:
        continue
    print("SKIP")
    raise SystemExit
assert not cuda.is_available()
try:
    cuda.init()
except RuntimeError as error:
    print(error)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLAMBEAU_LIB")}
    told = run(["-c", program], environment | {"ROCM_PATH": str(tmp_path)})
    if told == "SKIP\n":
        pytest.skip("there is a driver")
    assert "libcuda.so.1 cannot be opened; libamdhip64.so.7 cannot be opened" in told


def test_a_library_that_is_no_driver(tmp_path, kind):
    if fake_cuda.compiler() is None:
        pytest.skip("there is no C compiler to build a library with")
    source = tmp_path / "none.c"
    source.write_text("int cuInit(unsigned flags) { return 0; }\nint hipInit(unsigned flags) { return 0; }\n")
    library = tmp_path / "libnone.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    program = "from flambeau import cuda; assert not cuda.is_available(); cuda.init()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=only(kind, library),
        capture_output=True,
        text=True,
    )
    name, version = ("cuDriverGetVersion", "CUDA 12") if kind == "cuda" else ("hipDriverGetVersion", "ROCm 6")
    assert f"libnone.so has no {name}: the driver is too old, {version} or later is wanted" in done.stderr


@pytest.fixture(scope="module")
def fake_folder(tmp_path_factory) -> Path:
    if fake_cuda.compiler() is None:
        pytest.skip("there is no C compiler to build the fake driver with")
    return tmp_path_factory.mktemp("fake")


@pytest.fixture
def fake_environment(fake_folder) -> dict[str, str]:
    return fake_cuda.environment(fake_folder)


@pytest.fixture
def each_environment(fake_folder, kind) -> dict[str, str]:
    return fake_cuda.environment(fake_folder, kind)


def test_a_driver_without_devices(each_environment):
    program = "from flambeau import cuda; print(cuda.is_available(), cuda.device_count())"
    assert run(["-c", program], each_environment | {"FAKE_CUDA_NO_DEVICE": "1"}) == "False 0\n"


def test_whose_driver_it_is(each_environment, kind):
    program = "import flambeau; print(flambeau.version.cuda, flambeau.version.hip)"
    assert run(["-c", program], each_environment) == ("13.0 None\n" if kind == "cuda" else "None 6.3.42131\n")


def test_amds_driver_where_nvidias_finds_no_device(fake_folder, tmp_path):
    """Both are on the linker's path, as where both are installed."""
    both = tmp_path / "lib"
    both.mkdir()
    (both / "libcuda.so.1").symlink_to(fake_cuda.environment(fake_folder)["FLAMBEAU_LIBCUDA"])
    (both / "libamdhip64.so.7").symlink_to(fake_cuda.environment(fake_folder, "hip")["FLAMBEAU_LIBHIP"])
    program = "import flambeau; print(flambeau.version.cuda, flambeau.version.hip)"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FLAMBEAU_LIB")}
    environment = inherited | {"LD_LIBRARY_PATH": str(both)}
    assert run(["-c", program], environment) == "13.0 None\n"
    (both / "libcuda.so.1").unlink()
    assert run(["-c", program], environment) == "None 6.3.42131\n"


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
        "cuda_compiled_checks.py",
        "cuda_process_checks.py",
        "cuda_sharing_checks.py",
        "cuda_amp_checks.py",
        "cuda_documented_checks.py",
    ],
)
def test_on_the_fake_driver(each_environment, checks):
    run(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(HERE / checks)],
        each_environment,
    )


@pytest.mark.parametrize("checks", ["cuda_product_checks.py", "cuda_solver_checks.py"])
def test_nvidias_libraries_on_the_fake_driver(fake_environment, checks):
    run(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(HERE / checks)],
        fake_environment,
    )


@pytest.mark.parametrize(
    ("kind", "card", "processor"),
    [
        ("cuda", "70", "sm_70"),
        ("cuda", "87", "sm_86"),
        ("cuda", "90", "sm_90a"),
        ("cuda", "120", "sm_100"),
        ("hip", "gfx90a:sramecc+:xnack-", "gfx90a"),
        ("hip", "gfx942:sramecc+:xnack+", "gfx942"),
        ("hip", "gfx1100", "gfx1100"),
    ],
)
def test_kernels_are_made_for_the_card(fake_folder, kind, card, processor):
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
print(find_device("cuda", 0).processor, set(made) <= {(TARGET, find_device("cuda", 0).processor)})
"""
    program = program.replace("TARGET", repr("nvptx" if kind == "cuda" else "amdgcn"))
    environment = fake_cuda.environment(fake_folder, kind) | {
        "FAKE_CUDA_CAPABILITY" if kind == "cuda" else "FAKE_HIP_ARCHITECTURE": card,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    assert run(["-c", program], environment) == f"{processor} True\n"


def test_a_card_that_is_too_old(fake_environment, fake_folder):
    program = """
from flambeau import cuda
try:
    cuda.init()
except RuntimeError as error:
    print(error)
"""
    told = run(["-c", program], fake_environment | {"FAKE_CUDA_CAPABILITY": "61"})
    assert told.startswith("cuda:0 (Fake 0) has capability 6.1: kernels are made for sm_70, ")
    amd = fake_cuda.environment(fake_folder, "hip") | {"FAKE_HIP_ARCHITECTURE": "gfx803"}
    assert (
        run(["-c", program], amd)
        == "cuda:0 (Fake 0) is gfx803: kernels are made for gfx90a, gfx942, gfx1100\n"
    )


def test_grids_on_the_fake_driver(each_environment):
    options = ["-p", "fake_cuda", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = each_environment | {
        "FLAMBEAU_TEST_DEVICE": "cuda",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
    }
    assert " passed" in run(["-m", "pytest", *options, str(HERE / "test_device_grids.py")], environment)


def test_the_registry_on_the_fake_driver(each_environment):
    """Some of it; a real device is to run all, by FLAMBEAU_TEST_DEVICE=cuda."""
    some = "where_of or gelu_erf or shape1-argmax or shape1-softmax"
    options = ["-p", "fake_cuda", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", some]
    environment = each_environment | {
        "FLAMBEAU_TEST_DEVICE": "cuda",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
    }
    assert " passed" in run(["-m", "pytest", *options, str(HERE / "test_opencl.py")], environment)
