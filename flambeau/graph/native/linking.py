"""Object code as a shared object, by the system's linker."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Library(NamedTuple):
    """The files of a library that has been made.

    `weights` is None where it reads none; `workspace` is what a call needs, in bytes.
    """

    library: Path
    header: Path
    weights: Path | None
    workspace: int


def driver(who: str) -> list[str]:
    """The command that links; RuntimeError where there is none."""
    if sys.platform == "win32":
        raise RuntimeError(
            f"{who}: libraries are made on POSIX systems; the weights are mapped by POSIX's mmap"
        )
    requested = shlex.split(os.environ.get("CC", ""))
    for command in ([requested] if requested else []) + [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    raise RuntimeError(
        f"{who}: no linker is found: install a C compiler (cc, gcc or clang), or name one in the environment variable CC"
    )


def link(who: str, code: bytes, to: Path) -> None:
    """Write the shared object; RuntimeError with what the linker says where it fails."""
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        source, made = Path(folder) / "code.o", Path(folder) / to.name
        source.write_bytes(code)
        named = [f"-Wl,-soname,{to.name}"] if sys.platform.startswith("linux") else []
        command = [*driver(who), "-shared", *named, "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{who}: {shlex.join(command)} failed: {done.stderr.strip()}")
        os.replace(made, to)


def replace(path: Path, data: bytes) -> None:
    """Write a file anew, in the place of the one that is there, which others may have mapped."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        made.write_bytes(data)
        os.replace(made, path)
