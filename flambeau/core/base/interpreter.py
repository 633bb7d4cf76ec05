"""flambeau works in the main interpreter of a process alone: compiled modules and kernels are one for the process.

Imported before those modules, so that an attempt in another interpreter does not take them from the main one.
"""

from __future__ import annotations

import os
import sys


def require_main() -> None:
    """ImportError in a second interpreter, as servers make them (mod_wsgi), or `_interpreters.create()`."""
    try:
        import _interpreters as interpreters
    except ImportError:  # before Python 3.13
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:  # a Python that has one interpreter
            return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "flambeau can be imported in the main interpreter of a process only, and this is a subinterpreter: "
            "use a process of its own (under mod_wsgi, `WSGIApplicationGroup %{GLOBAL}`)"
        )


def not_built(error: ImportError) -> ImportError:
    """The error of an import whose first compiled module is missing: that of a source folder, or of another Python."""
    folder = os.path.dirname(os.path.abspath(sys.modules[__name__.partition(".")[0]].__file__ or ""))
    return ImportError(
        f"flambeau has no modules compiled for this Python ({sys.implementation.cache_tag}) in {folder} ({error}): "
        "in its source folder, run from another folder so that the installed package is imported, or build in place "
        "with `python tools/develop.py`",
        name="flambeau",
    )


require_main()
