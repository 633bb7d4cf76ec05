"""What a report says is true, whatever the other programs on the machine do."""

from __future__ import annotations

import os
import subprocess
import sys

import flambeau
from flambeau.utils import collect_env


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_what_it_says_is_what_the_library_says():
    from flambeau.core.lib.products import blas

    told = collect_env.get_env_info()
    assert told.torch_version == flambeau.__version__ and told.is_debug_build == flambeau.version.debug
    assert told.num_threads == flambeau.get_num_threads()
    assert told.blas.startswith(blas.provider()[0]) and blas.provider()[1] in told.blas
    assert told.is_cuda_available == flambeau.cuda.is_available()
    assert told.cuda_driver_api == flambeau.version.cuda
    assert len(told.opencl_devices) == flambeau.opencl.device_count()
    assert told.python_version.startswith(sys.version.split()[0])
    import llvmlite
    import numpy

    assert llvmlite.__version__ in told.llvm
    assert f"numpy=={numpy.__version__}" in told.pip_packages


def test_it_is_a_program(tmp_path):
    environment = os.environ | {"FLAMBEAU_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "flambeau.utils.collect_env"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f"flambeau version: {flambeau.__version__}" in done.stdout
    assert f"Kernels on disk: {tmp_path}" in done.stdout and f"FLAMBEAU_CACHE_DIR={tmp_path}" in done.stdout


def test_programs_that_fail_write_rubbish_or_do_not_end(tmp_path):
    assert collect_env.run(["no program of this name"])[0] == 127
    code, out, said = collect_env.run([program(tmp_path, "slow", "sleep 60 & sleep 60")], 0.2)
    assert (code, out) == (124, "") and "took longer than 0.2 s" in said
    assert collect_env.run([program(tmp_path, "failing", "echo said; exit 3")]) == (3, "said", "")
    code, out, _ = collect_env.run([program(tmp_path, "rubbish", r"printf '\377\376ok'")])
    assert code == 0 and out.endswith("ok")
    assert collect_env.run([str(tmp_path)])[0] == 127  # a folder
    asking = program(tmp_path, "asking", 'read answer; echo "<$answer>"')
    assert collect_env.run([asking]) == (0, "<>", "")


def test_nothing_else_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CONDA_EXE", raising=False)
    told = collect_env.get_env_info()
    assert (told.gcc_version, told.cmake_version, told.nvidia_gpu_models, told.conda_packages) == (None,) * 4
    assert "GCC version: Could not collect" in collect_env.pretty_str(told)


def test_other_programs_are_asked(monkeypatch, tmp_path):
    program(tmp_path, "gcc", "echo 'gcc (Some) 99.1'")
    program(tmp_path, "conda", "echo '# packages'; echo 'numpy 1.0 py_0 channel'; echo 'zlib 2 x y'")
    gpu = "echo 'GPU 0: Some GPU (UUID: GPU-1234)'"
    program(tmp_path, "nvidia-smi", f'if [ "$1" = -L ]; then {gpu}; else echo 555.1; fi')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CONDA_EXE", raising=False)
    told = collect_env.get_env_info()
    assert told.gcc_version == "(Some) 99.1" and told.conda_packages == ["numpy=1.0"]
    assert (told.nvidia_driver_version, told.nvidia_gpu_models) == ("555.1", "GPU 0: Some GPU")


def test_the_text_has_every_field():
    told = collect_env.get_env_info()
    for field in told._fields:
        assert "a mark of this test" in collect_env.pretty_str(
            told._replace(**{field: "a mark of this test"})
        )
        assert "Could not collect" in collect_env.pretty_str(told._replace(**{field: None}))
