"""Where the assembler of PTX stands."""

from __future__ import annotations

import importlib.metadata
import shutil


def ptxas() -> str | None:
    """The assembler of a CUDA toolkit, or the one that pip installs."""
    found = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    if found:
        return found
    try:
        files = importlib.metadata.files("nvidia-cuda-nvcc") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(f.locate()) for f in files if f.name == "ptxas"), None)
