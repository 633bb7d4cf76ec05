"""Versions of other modules, compared."""

from __future__ import annotations

import warnings
from typing import Any


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple, error_if_malformed: bool = True
) -> bool:
    """Whether `module.__version__` is at least `req_version_tuple`, whose types say how its parts are read.

    A version that cannot be read so is a RuntimeError, or, without `error_if_malformed`, a warning and True.

    >>> import flambeau, numpy
    >>> flambeau.serialization.check_module_version_greater_or_equal(numpy, (1, 20))
    True
    """
    try:
        parts = module.__version__.split(".")
        version = tuple(type(wanted)(parts[i]) for i, wanted in enumerate(req_version_tuple))
        return version >= req_version_tuple
    except Exception as error:  # whatever a stranger's version is made of
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with "
            f"tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(f"{message}, but continuing assuming that requirement is met", stacklevel=2)
        return True
