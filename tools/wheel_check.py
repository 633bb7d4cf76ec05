"""Install the wheels of a folder where there is no compiler, try them, and print what they weigh.

python tools/wheel_check.py dist          # `make wheel` ends with it

The wheels are installed into a new environment whose PATH holds nothing but itself, dependencies from wheels only. The
smoke test is tests/test_tiny.py, the library under the name of torch without the drop-in, and the drop-in.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTORCH = 754  # MiB: `du -sm` of the folder torch of PyTorch 2.13.0 for the CPU, without its dependencies
UNDER_TORCH = ["-m", "flambeau.torch", "-c", "import torch; print(torch.ones(2))"]
DROP_IN = """
import importlib.metadata, torch, flambeau
assert torch is flambeau and torch.nn.Linear is flambeau.nn.Linear, torch
assert importlib.metadata.version("torch") == torch.__version__.partition("+")[0]
print(torch.__version__, torch.nn.Linear(2, 1)(torch.ones(2)).shape)
"""


def wheels(folder: Path) -> tuple[Path, Path]:
    """The newest wheel of the library for this interpreter, and that of the drop-in."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    chosen = []
    for pattern in (f"flambeau-*-{tag}-{tag}-*.whl", "torch-*-py3-none-any.whl"):
        matches = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
        if not matches:
            raise SystemExit(f"{folder} has no {pattern}: run `make wheel`")
        chosen.append(matches[-1].resolve())
    return chosen[0], chosen[1]


def mebibytes(path: Path) -> float:
    """What a file or folder takes on disk, as `du` counts."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(file.lstat().st_blocks * 512 for file in files) / 2**20


def sizes(packages: Path) -> dict[str, float]:
    """MiB of each installed distribution's folders, without pip and setuptools, largest first."""
    totals: dict[str, float] = {}
    for entry in packages.iterdir():
        name = entry.name.partition("-")[0].removesuffix(".libs")
        if name not in ("pip", "setuptools", "_distutils_hack", "distutils", "pkg_resources", "__pycache__"):
            totals[name] = totals.get(name, 0.0) + mebibytes(entry)
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def main() -> None:
    """Install, weigh, try; the exit status tells whether all went well."""
    library, drop_in = wheels(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment = inherited | {"PATH": str(venv / "bin"), "CC": "/bin/false", "PYTHONSAFEPATH": "1"}
        environment["FLAMBEAU_CACHE_DIR"] = str(Path(folder) / "kernels")  # compiled here, not found

        def run(*words: str) -> None:
            subprocess.run([str(venv / "bin/python"), *words], cwd=folder, env=environment, check=True)

        run("-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(library))
        installed = sizes(next(venv.glob("lib/python*/site-packages")))
        run(*UNDER_TORCH)
        run("-m", "pip", "install", "--quiet", "--no-index", str(drop_in))
        run("-c", DROP_IN)
        run("-m", "pip", "install", "--quiet", "--only-binary", ":all:", "pytest")
        run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests" / "test_tiny.py"))
    print(f"{library.name}: {mebibytes(library):.1f} MiB")
    for name, size in installed.items():
        print(f"{size:8.1f} MiB  {name}")
    total = sum(installed.values())
    print(f"{total:8.1f} MiB  with all dependencies: {total / PYTORCH:.2f} of PyTorch's {PYTORCH} MiB")


if __name__ == "__main__":
    main()
