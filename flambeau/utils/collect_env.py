"""What a report of a fault should say: versions, the processor, devices, libraries, settings.

`python -m flambeau.utils.collect_env` prints it.  What other programs tell (compilers, drivers) is waited for ten seconds at most,
and is None where they are not there or do not answer; nothing here fails.
"""

from __future__ import annotations

import locale
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from .. import cuda, opencl
from .._compat.absent import refusing
from ..codegen.cache import folder as kernel_folder
from ..core.base.display import NAME
from ..core.base.parallel import get_num_threads
from ..core.lib.products.blas import provider
from ..version import __version__
from ..version import debug as is_debug

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main", "pretty_str", "run"]

SECONDS = 10.0  # for one other program
# Distributions that say something about what is computed here.
_PACKAGES = re.compile(
    rf"{NAME}|numpy|scipy|scipy-openblas\d+|llvmlite|mkl|torch|triton|cython|safetensors|tensorboard|mypy|opt[-_]einsum|intel-.*|"
    "nvidia-.*|pyopencl",
    re.IGNORECASE,
)

Run = Callable[[list[str]], tuple[int, str, str]]


class SystemEnv(NamedTuple):
    """What `get_env_info` finds; None stands for what is not there or unknown.

    >>> import flambeau
    >>> "torch_version" in flambeau.utils.collect_env.SystemEnv._fields
    True
    """

    torch_version: str
    is_debug_build: bool
    os: str
    libc_version: str | None
    python_version: str
    python_platform: str
    gcc_version: str | None
    clang_version: str | None
    cmake_version: str | None
    cpu_info: str | None
    num_threads: int
    blas: str
    llvm: str
    kernel_cache: str
    settings: dict[str, str]
    is_cuda_available: bool
    cuda_driver_api: str | None
    nvidia_driver_version: str | None
    nvidia_gpu_models: str | None
    opencl_devices: list[str]
    pip_packages: list[str]
    conda_packages: list[str] | None


def run(command: list[str], seconds: float = SECONDS) -> tuple[int, str, str]:
    """A program's exit code and what it wrote to its two outputs; 127 where it is not there, 124 where it takes too long.

    Raises:
        TypeError: the argument is no list

    >>> import flambeau
    >>> flambeau.utils.collect_env.run(["no program of this name"])[0]
    127
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            env=os.environ | {"LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"{command[0]} took longer than {seconds} s"
    except OSError as error:
        return 127, "", str(error)
    coding = locale.getpreferredencoding(False)
    out, said = (text.decode(coding, "replace").strip() for text in (done.stdout, done.stderr))
    return done.returncode, out, said


def _said(run: Run, *command: str) -> str | None:
    """What a program wrote; None where it failed or wrote nothing."""
    code, out, _ = run(list(command))
    return out if code == 0 and out else None


def _first(run: Run, pattern: str, *command: str) -> str | None:
    result = re.search(pattern, _said(run, *command) or "")
    return result[1] if result else None


def _os(run: Run) -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]} ({platform.machine()})"
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        name = None
    return f"{name or platform.system()} ({platform.machine()})"


def _cpu(run: Run) -> str | None:
    if sys.platform == "darwin":
        return _said(run, "sysctl", "-n", "machdep.cpu.brand_string")
    return _said(run, "lscpu") or platform.processor() or None


def _pip_packages() -> list[str]:
    from importlib.metadata import distributions

    result = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
    return sorted(f"{name}=={version}" for name, version in result.items() if _PACKAGES.fullmatch(name))


def _conda_packages(run: Run) -> list[str] | None:
    program = os.environ.get("CONDA_EXE") or shutil.which("conda")
    properties = program and _said(run, program, "list")
    if not properties:
        return None
    rows = (line.split() for line in properties.splitlines() if line and not line.startswith("#"))
    return sorted(f"{row[0]}={row[1]}" for row in rows if len(row) > 1 and _PACKAGES.fullmatch(row[0]))


def _cuda_spoken() -> str | None:
    from .. import version

    return version.cuda


def _opencl_devices() -> list[str]:
    result = []
    for k in range(opencl.device_count()):
        properties = opencl.get_device_properties(k)
        result.append(f"{properties.name} ({properties.driver_version})")
    return result


def get_env_info() -> SystemEnv:
    """All of it.  No NVIDIA device is opened for that; OpenCL devices are.

    >>> import flambeau
    >>> flambeau.utils.collect_env.get_env_info().torch_version == flambeau.__version__
    True
    """
    import llvmlite

    name, path, properties = provider()
    llvm = ".".join(map(str, _llvm_version()))
    return SystemEnv(
        torch_version=__version__,
        is_debug_build=is_debug,
        os=_os(run),
        libc_version="-".join(platform.libc_ver()).strip("-") or None,
        python_version=f"{sys.version.split()[0]} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=platform.platform(),
        gcc_version=_first(run, r"gcc (.*)", "gcc", "--version"),
        clang_version=_first(run, r"clang version (.*)", "clang", "--version"),
        cmake_version=_first(run, r"cmake version (.*)", "cmake", "--version"),
        cpu_info=_cpu(run),
        num_threads=get_num_threads(),
        blas=f"{name} ({properties}), {path}",
        llvm=f"LLVM {llvm} (llvmlite {llvmlite.__version__})",
        kernel_cache=str(kernel_folder()),
        settings={
            k: v
            for k, v in sorted(os.environ.items())
            if k.startswith((f"{NAME.upper()}_", "OMP_", "OPENBLAS_", "MKL_", "CUDA_"))
        },
        is_cuda_available=cuda.is_available(),
        cuda_driver_api=_cuda_spoken(),
        nvidia_driver_version=_first(
            run, r"(.+)", "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
        ),
        nvidia_gpu_models=_without_ids(_said(run, "nvidia-smi", "-L")),
        opencl_devices=_opencl_devices(),
        pip_packages=_pip_packages(),
        conda_packages=_conda_packages(run),
    )


def _llvm_version() -> tuple[int, ...]:
    from ..codegen.target import llvm

    return llvm().llvm_version_info


def _without_ids(text: str | None) -> str | None:
    """A list of devices without the numbers that tell one machine from another."""
    return None if text is None else re.sub(r" \(.*?\)", "", text)


_LINES = {
    "torch_version": f"{NAME} version",
    "is_debug_build": "Is debug build",
    "os": "OS",
    "gcc_version": "GCC version",
    "clang_version": "Clang version",
    "cmake_version": "CMake version",
    "libc_version": "Libc version",
    "python_version": "Python version",
    "python_platform": "Python platform",
    "num_threads": "Threads",
    "blas": "BLAS",
    "llvm": "Code generator",
    "kernel_cache": "Kernels on disk",
    "is_cuda_available": "Is CUDA available",
    "cuda_driver_api": "CUDA of the driver",
    "nvidia_driver_version": "Nvidia driver version",
    "nvidia_gpu_models": "GPU models and configuration",
    "opencl_devices": "OpenCL devices",
    "settings": "Settings in the environment",
    "cpu_info": "CPU",
    "pip_packages": "Versions of relevant libraries [pip]",
    "conda_packages": "Versions of relevant libraries [conda]",
}


def pretty_str(envinfo: SystemEnv) -> str:
    """The same as text, a line for each.

    Raises:
        AttributeError: the argument is no SystemEnv

    >>> import flambeau
    >>> from flambeau.utils.collect_env import get_env_info, pretty_str
    >>> pretty_str(get_env_info()).splitlines()[0] == f"flambeau version: {flambeau.__version__}"
    True
    """
    lines = []
    for field, title in _LINES.items():
        value = getattr(envinfo, field)
        if isinstance(value, dict):
            value = [f"{k}={v}" for k, v in value.items()]
        if isinstance(value, list):
            value = "\n".join(value)
        text = "Could not collect" if value is None or value == "" else str(value)
        lines.append(f"{title}:\n{text}\n" if "\n" in text else f"{title}: {text}")
    return "\n".join(lines)


def get_pretty_env_info() -> str:
    """`get_env_info` as text.

    >>> import flambeau
    >>> "Python version: " in flambeau.utils.collect_env.get_pretty_env_info()
    True
    """
    return pretty_str(get_env_info())


def main() -> None:
    """Print it.

    >>> import flambeau
    >>> flambeau.utils.collect_env.main()  # doctest: +ELLIPSIS
    Collecting environment information...
    flambeau version: ...
    """
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()


__getattr__ = refusing("utils.collect_env")
