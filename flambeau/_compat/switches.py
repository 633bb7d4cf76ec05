"""Switches that programs set for reproducible or faster results, and what each of them means here."""

from __future__ import annotations

import warnings

from ..core.call.function import BuiltIn
from ..core.lib.products.blas import _find_mkl, _wanted
from ..core.tape import is_anomaly_on, switch_anomaly

_deterministic = {"mode": True, "warn_only": False}
_precision = "highest"
_interop_threads = 1
_MODES = ("default", "warn", "error")
_PRECISIONS = ("highest", "high", "medium")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for operations that give the same bits on each run; they do so whatever is set, for any number of threads.

    There is one algorithm an operation, whose sums are grouped by the shapes alone, also where several sources meet in one
    place (`scatter_add`, `index_add`, `index_put` with accumulation, the gradients of embeddings): none raises in this mode.
    What is beyond our reach is cuBLAS, which promises the same bits for one version on one kind of device.

    Raises TypeError unless both are bools.

    >>> import flambeau
    >>> flambeau.use_deterministic_algorithms(True)
    >>> flambeau.are_deterministic_algorithms_enabled()
    True
    """
    for name, given in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(given, bool):
            raise TypeError(
                f"use_deterministic_algorithms(): argument '{name}' must be bool, not {type(given).__name__}"
            )
    _deterministic.update(mode=mode, warn_only=warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """True, unless a program has set the contrary, which changes no result.

    >>> import flambeau
    >>> flambeau.are_deterministic_algorithms_enabled()
    True
    """
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` set; there is nothing to warn of.

    >>> import flambeau
    >>> flambeau.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _deterministic["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error": `use_deterministic_algorithms` in one number.

    Raises TypeError for what is neither a str nor an int, RuntimeError for any other mode.

    >>> import flambeau
    >>> flambeau.set_deterministic_debug_mode("error")
    >>> flambeau.get_deterministic_debug_mode()
    2
    >>> flambeau.set_deterministic_debug_mode("default")
    """
    if not isinstance(debug_mode, (str, int)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0 after `use_deterministic_algorithms(False)`, 1 with `warn_only`, else 2.

    >>> import flambeau
    >>> flambeau.get_deterministic_debug_mode()
    2
    """
    return 0 if not _deterministic["mode"] else 1 if _deterministic["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Allows products of float32 to be computed from rounded operands: "highest" (not at all), "high", "medium".

    It is a permission, of which nothing here makes use: products of float32 are float32's on every device.

    Raises RuntimeError unless it is a str; any other word is a warning and changes nothing.

    >>> import flambeau
    >>> flambeau.set_float32_matmul_precision("highest")
    >>> flambeau.get_float32_matmul_precision()
    'highest'
    """
    global _precision
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision in _PRECISIONS:
        _precision = precision
    else:
        warnings.warn(
            f"set_float32_matmul_precision: {precision!r} is not one of 'highest', 'high' or 'medium' and changes nothing",
            stacklevel=2,
        )


def get_float32_matmul_precision() -> str:
    """What was last allowed; "highest" at first.

    >>> import flambeau
    >>> flambeau.get_float32_matmul_precision()
    'highest'
    """
    return _precision


@BuiltIn
def set_num_interop_threads(n: int) -> None:
    """How many operations may run beside each other where a program starts them itself; nothing here starts any.

    Raises RuntimeError unless it is a positive int.

    >>> import flambeau
    >>> flambeau.set_num_interop_threads(flambeau.get_num_interop_threads())
    """
    global _interop_threads
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, got {n!r}")
    _interop_threads = n


@BuiltIn
def get_num_interop_threads() -> int:
    """What was last set; 1 at first.

    >>> import flambeau
    >>> flambeau.get_num_interop_threads() >= 1
    True
    """
    return _interop_threads


@BuiltIn
def init_num_threads() -> None:
    """Nothing is left to set up: the pool of threads is the process's, and every thread shares its work over it.

    >>> import flambeau
    >>> flambeau.init_num_threads()
    """


# --- what is here ---
has_mkl = _wanted != "openblas" and _find_mkl() is not None  # whether products are MKL's
has_lapack = True  # SciPy's
has_spectral = True  # Fourier transforms
has_openmp = False  # threads are those of our own pool


@BuiltIn
def is_vulkan_available() -> bool:
    """False: there is no driver of Vulkan's here.

    >>> import flambeau
    >>> flambeau.is_vulkan_available()
    False
    """
    return False


# --- searching for errors in backward ---
@BuiltIn
def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Lets operations remember where they were called, as `autograd.set_detect_anomaly` does, or no longer.

    TypeError unless both are bools.

    >>> import flambeau
    >>> flambeau.set_anomaly_enabled(True, check_nan=False)
    >>> flambeau.is_anomaly_enabled(), flambeau.is_anomaly_check_nan_enabled()
    (True, False)
    >>> flambeau.set_anomaly_enabled(False)
    """
    for name, given in (("enabled", enabled), ("check_nan", check_nan)):
        if not isinstance(given, bool):
            raise TypeError(
                f"set_anomaly_enabled(): argument '{name}' must be bool, not {type(given).__name__}"
            )
    switch_anomaly(enabled, check_nan)


@BuiltIn
def is_anomaly_enabled() -> bool:
    """Whether operations remember where they were called; False at first.

    >>> import flambeau
    >>> with flambeau.autograd.detect_anomaly():
    ...     flambeau.is_anomaly_enabled()
    True
    """
    return is_anomaly_on()


@BuiltIn
def is_anomaly_check_nan_enabled() -> bool:
    """Whether backward looks for NaN in that mode.

    >>> import flambeau
    >>> with flambeau.autograd.detect_anomaly(check_nan=False):
    ...     flambeau.is_anomaly_check_nan_enabled()
    False
    """
    return is_anomaly_on(True)
