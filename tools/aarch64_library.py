"""The whole library for Linux on ARM, and its tests under emulation.

python tools/aarch64_library.py BUILD ROOT [PYTEST ARGUMENT...]

BUILD is a finished build folder of meson; every module in it is compiled and linked again, with the same options, by
Debian's cross compiler.  ROOT is a Debian for arm64 with Python of the version that BUILD is for, which this makes if it is not
there.  Dependencies are the wheels for aarch64.  The tests run by `chroot` under qemu, so as root, with binfmt_misc:

    apt-get install debootstrap qemu-user-static binfmt-support gcc-aarch64-linux-gnu libc6-dev-arm64-cross
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
COMPILER = "aarch64-linux-gnu-gcc"
SUFFIX = "aarch64-linux-gnu"
PLATFORMS = (
    "manylinux2014_aarch64",
    "manylinux_2_17_aarch64",
    "manylinux_2_27_aarch64",
    "manylinux_2_28_aarch64",
)
MIRROR = "http://deb.debian.org/debian"
SUITES = {"3.11": "bookworm", "3.13": "trixie"}  # Debian's releases by the Python that they have


def make_root(root: Path, version: str) -> None:
    """A Debian of the foreign architecture, in two stages, the second of which runs under emulation."""
    options = ["--arch=arm64", "--variant=minbase", f"--include=python3,python3-venv,libpython{version}"]
    subprocess.run(["debootstrap", *options, "--foreign", SUITES[version], root, MIRROR], check=True)
    shutil.copy("/usr/bin/qemu-aarch64-static", root / "usr/bin")
    subprocess.run(["chroot", root, "/debootstrap/debootstrap", "--second-stage"], check=True)


def install_dependencies(site: Path, version: str) -> None:
    """The wheels that flambeau and its tests need, for aarch64."""
    wanted = subprocess.run(
        [sys.executable, PROJECT / "tools/requirements.py"], capture_output=True, text=True, check=True
    )
    names = [
        *wanted.stdout.split("\n"),
        "pytest",
        "pytest-xdist",
        "mpmath",
        "cffi",
        "setuptools",
        "safetensors",
    ]
    platforms = [f"--platform={name}" for name in PLATFORMS]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", f"--target={site}"]
    command += [*platforms, f"--python-version={version}", *filter(None, names)]
    subprocess.run(command, check=True)


def compiled(target: dict, build: Path, package: Path) -> str | None:
    """One extension module, compiled and linked as `build` says; what the compiler says if it fails."""
    name = target["install_filename"][0].partition("/site-packages/")[2]
    where = package / name.replace(f"{os.uname().machine}-linux-gnu", SUFFIX)
    where.parent.mkdir(parents=True, exist_ok=True)
    compiler, linker = target["target_sources"]
    files = compiler["sources"] + compiler["generated_sources"]
    flags = [*compiler["parameters"], *linker["parameters"]]
    done = subprocess.run([COMPILER, *flags, *files, "-o", where], capture_output=True, text=True, cwd=build)
    return f"{name}:\n{done.stderr}" if done.returncode else None


def build_library(build: Path, package: Path) -> None:
    """All modules beside the library's Python files."""
    shutil.copytree(
        PROJECT / "flambeau", package / "flambeau", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    described = subprocess.run(
        ["meson", "introspect", "--targets", build], capture_output=True, text=True, check=True
    )
    targets = [target for target in json.loads(described.stdout) if target["type"] == "shared module"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [
            text for text in pool.map(lambda target: compiled(target, build, package), targets) if text
        ]
    if failures:
        raise SystemExit("\n".join(failures))
    print(f"{len(targets)} modules for {SUFFIX}")


def main(build: str, root: str, *arguments: str) -> None:
    """Make what is missing in the root, build the library anew, run the tests."""
    version, place = sysconfig.get_python_version(), Path(root).resolve()
    if not (place / "usr/bin/python3").exists():
        make_root(place, version)
    site, home = place / "opt/site", place / "opt/flambeau"
    if not site.exists():
        install_dependencies(site, version)
    shutil.rmtree(home, ignore_errors=True)
    build_library(Path(build).resolve(), home / "installed")
    for name in ("tests", "examples", "pyproject.toml", "README.md"):
        source = PROJECT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, home / name)
    # Not qemu's own processor, which has SME: OpenBLAS 0.3.34 multiplies wrongly on it.
    settings = [
        "QEMU_CPU=neoverse-n1",
        "PYTHONPATH=/opt/flambeau/installed:/opt/site",
        "PYTHONSAFEPATH=1",
        "HOME=/root",
    ]
    for name in ("proc", "sys", "dev"):
        if not os.path.ismount(place / name):
            subprocess.run(["mount", "--bind", f"/{name}", place / name], check=True)
    test = f"cd /opt/flambeau && exec python3 -m pytest {' '.join(arguments)}"
    sys.exit(subprocess.run(["chroot", place, "/usr/bin/env", *settings, "/bin/sh", "-c", test]).returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
