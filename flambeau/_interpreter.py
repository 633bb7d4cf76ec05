"""flambeau works in the main interpreter of a process alone: compiled modules and kernels are one for the process.

Imported before those modules, so that an attempt in another interpreter does not take them from the main one.
"""

from __future__ import annotations


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


require_main()
