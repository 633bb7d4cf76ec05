"""Compile every C file of the library with other compilers and for other systems, without linking or running anything.

python tools/compilers.py BUILD [--target aarch64-macos ...] [--cc clang-16 ...]

BUILD is a build folder, where Cython's C lies (`make compilers` knows it).  Each `--target` is compiled by zig's Clang, which the package
`ziglang` brings with the C libraries of all systems; each `--cc` is a compiler on the PATH.  What GCC 14 and Clang 16 refuse
by default is an error with all of them.  Exits with 1 if a file fails.

Headers of Python are this machine's; the systems named have the same sizes of C types (LP64).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFUSED = [
    f"-Werror={name}"
    for name in ("implicit-function-declaration", "incompatible-pointer-types", "int-conversion")
]


def sources(build: Path) -> list[Path]:
    """Cython's C and our own."""
    generated = sorted(build.rglob("*.c"))
    if not generated:
        raise SystemExit(f"{build}: no C file here; build first")
    return generated + sorted((ROOT / "flambeau").rglob("*.c"))


def failure(compiler: list[str], source: Path, folder: Path) -> str | None:
    """What the compiler says of a file that it refuses."""
    headers = [
        sysconfig.get_paths()["include"],
        *(ROOT / "flambeau/core" / part for part in ("base", "make", "lib")),
    ]
    includes = [f"-I{header}" for header in headers]
    # zig would add checks and debugging information, which are half of the work
    options = ["-std=gnu11", "-O0", "-g0", "-fno-sanitize=undefined", *REFUSED]
    command = [*compiler, *options, *includes, "-c", str(source)]
    done = subprocess.run([*command, "-o", str(folder / f"{source.stem}.o")], capture_output=True, text=True)
    return None if done.returncode == 0 else f"{' '.join(compiler)} {source.name}:\n{done.stderr}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path)
    parser.add_argument("--target", action="append", default=[], help="a system, compiled for by zig")
    parser.add_argument("--cc", action="append", default=[], help="a compiler")
    options = parser.parse_args()
    compilers = [[sys.executable, "-m", "ziglang", "cc", "-target", target] for target in options.target]
    compilers += [[compiler] for compiler in options.cc]
    files = sources(options.build)
    failed = 0
    for compiler in compilers:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(failure, [compiler] * len(files), files, [Path(folder)] * len(files))
            failures = [text for text in results if text]
        print(*failures, f"{compiler[-1]}: {len(files) - len(failures)} of {len(files)} files", sep="\n")
        failed += len(failures)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
