"""NCCL's host code: what is there without the library, and process groups on a fake one with the fake driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "devices"))

import fake_cuda  # noqa: E402


def run(program: list[str], environment: dict[str, str]) -> str:
    """Run Python, which must succeed; what it printed."""
    done = subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, made: Path) -> str:
    command = ["cc", "-O1", "-shared", "-fPIC", "-pthread", "-o", str(made), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return str(made)


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    if fake_cuda.compiler() is None:
        pytest.skip("there is no C compiler to build the fake libraries with")
    folder = tmp_path_factory.mktemp("nccl")
    library = build(HERE / "fake_libnccl.c", folder / "fake_libnccl.so")
    return fake_cuda.environment(folder) | {"FLAMBEAU_LIBNCCL": library, "FAKE_NCCL_FOLDER": str(folder)}


WITHOUT = """
import flambeau, flambeau.distributed as dist
assert not dist.is_nccl_available() and not dist.is_backend_available("nccl")
assert not flambeau.cuda.nccl.is_available([])
for use in (flambeau.cuda.nccl.version, lambda: dist.init_process_group("nccl")):
    try:
        use()
    except RuntimeError as error:
        assert "doesn't have NCCL built in: `pip install nvidia-nccl-cu12`" in str(error), error
        print(str(error))
    else:
        raise AssertionError(use)
assert not dist.is_initialized()
"""


def test_without_the_library(tmp_path):
    assert "no_libnccl.so" in run(
        ["-c", WITHOUT], os.environ | {"FLAMBEAU_LIBNCCL": str(tmp_path / "no_libnccl.so")}
    )


def test_a_library_that_is_none_or_too_old(tmp_path, environment):
    source = tmp_path / "none.c"
    source.write_text("int ncclGetVersion(int *v) { return *v = 22703, 0; }\n")
    library = build(source, tmp_path / "libnone.so")
    assert "libnone.so has no ncclGetUniqueId" in run(
        ["-c", WITHOUT], environment | {"FLAMBEAU_LIBNCCL": library}
    )
    assert "is NCCL 2.8.4: 2.11.4 or later" in run(
        ["-c", WITHOUT], environment | {"FAKE_NCCL_VERSION": "2804"}
    )


def test_where_the_library_is_looked_for(tmp_path):
    (tmp_path / "nvidia" / "nccl" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2").write_text("")
    program = "from flambeau.devices import nccl; print(nccl.candidates())"
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    without = {name: value for name, value in os.environ.items() if name != "FLAMBEAU_LIBNCCL"}
    result = run(["-c", program], without | {"PYTHONPATH": paths})
    assert result.startswith("['libnccl.so.2'") and str(tmp_path / "nvidia/nccl/lib/libnccl.so.2") in result


FIND = """
import flambeau, flambeau.distributed as dist
assert dist.is_nccl_available() and dist.is_backend_available("nccl") and dist.is_available()
nccl = flambeau.cuda.nccl
x = flambeau.ones(2, 3).to("cuda")
assert nccl.is_available([x, x.to("cuda:1")]) and not nccl.is_available([x, x]) and not nccl.is_available([x.t()])
assert not nccl.is_available([x.cpu()])
print(nccl.version())
"""


def test_the_library_is_found(environment):
    assert run(["-c", FIND], environment) == "(2, 27, 3)\n"
    assert run(["-c", FIND], environment | {"FAKE_NCCL_VERSION": "21104"}) == "(2, 11, 4)\n"


UNDER_MPIEXEC = """
import sys
sys.path.insert(0, sys.argv[1])
import fake_cuda
import flambeau, flambeau.distributed as dist
fake_cuda.install()
for backend in ("nccl", "cpu:gloo,cuda:nccl"):
    dist.init_process_group(backend)
    x = flambeau.tensor([dist.get_rank() + 1.0]).to("cuda")
    dist.all_reduce(x)
    assert x.item() == 3.0, x
    dist.destroy_process_group()
dist.init_process_group("gloo")
group = dist.new_group(backend="nccl")
dist.all_reduce(x, group=group)
assert x.item() == 6.0, x
dist.barrier()
"""


def test_under_mpiexec(environment):
    """Where no store is named, one is made: processes of mpiexec meet by MPI."""
    pytest.importorskip("mpi4py")
    from flambeau.distributed import _mpiexec

    program = [sys.executable, "-c", UNDER_MPIEXEC, str(HERE.parent / "devices")]
    command = [_mpiexec.mpiexec(), "-n", "2", *program]
    done = subprocess.run(
        command, env=_mpiexec.environment(environment), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["22703", "21104"])
def test_groups_on_the_fakes(environment, version):
    """With the older version communicators are made in a way that blocks, and eight-bit floats are moved only."""
    some = [] if version == "22703" else ["-k", "late or copies-2 or reductions-2"]
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", *some, str(HERE / "nccl_checks.py")]
    assert " passed" in run(["-m", "pytest", *options], environment | {"FAKE_NCCL_VERSION": version})
