"""What this flambeau was made of and runs on, as text for reports."""

from __future__ import annotations

import os
import sys


def show() -> str:
    """The versions of flambeau, Python, the code generator and BLAS, and the processor.

    >>> import flambeau
    >>> flambeau.__config__.show().splitlines()[0]
    'flambeau built with:'
    """
    import llvmlite

    from .codegen.target import processor
    from .core.base.display import NAME
    from .core.lib.products.blas import provider
    from .version import __version__

    name, path, said = provider()
    lines = (
        f"{NAME} {__version__}",
        f"Python {sys.version.split()[0]}",
        f"llvmlite {llvmlite.__version__}, processor {processor()[0]}",
        f"BLAS {name} ({said})",
    )
    return f"{NAME} built with:\n" + "".join(f"  - {line}\n" for line in lines)


def parallel_info() -> str:
    """How many threads there are, and the variables that say so.

    >>> import flambeau
    >>> "get_num_threads" in flambeau.__config__.parallel_info()
    True
    """
    from .core.base.parallel import get_num_threads

    lines = [f"get_num_threads() : {get_num_threads()}", f"processors : {os.cpu_count()}"]
    for name in ("FLAMBEAU_NUM_THREADS", "OMP_NUM_THREADS"):
        lines.append(f"{name} : {os.environ.get(name, '[not set]')}")
    return "\n".join(lines) + "\n"
