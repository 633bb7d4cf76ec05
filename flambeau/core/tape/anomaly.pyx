# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Anomaly mode: nodes remember where they were recorded, and backward looks at what they return."""
from ..base.tensor cimport TensorBase
from .modes cimport grad_enabled, set_grad
from .nodes cimport Node, record_places
import threading


cdef bint anomaly_enabled = False
cdef bint nan_checked = False
cdef object place_recorder = None, error_reporter = None
_running = threading.local()  # .node: whose derivative is being computed in this thread


def switch_anomaly(bint enabled, bint check_nan=True) -> tuple:
    """Let nodes remember where they were recorded and backward look at what they return; returns the mode before."""
    global anomaly_enabled, nan_checked
    before = anomaly_enabled, nan_checked
    anomaly_enabled, nan_checked = enabled, check_nan
    record_places(remember_place if enabled else None)
    return before


def set_anomaly_recorders(recorder, reporter) -> None:
    """`recorder(node, parent)` sees each node made in anomaly mode, `reporter(node, error)` each that fails."""
    global place_recorder, error_reporter
    place_recorder, error_reporter = recorder, reporter


def is_anomaly_on(check_nan: bool = False) -> bool:
    """Whether anomaly mode is on (and, with `check_nan`, looks for NaN)."""
    return anomaly_enabled and (nan_checked or not check_nan)


def remember_place(node) -> None:
    """Tell the recorder of a node that was just made."""
    place_recorder(node, getattr(_running, "node", None))


cdef list checked(Node node, list grads):
    """node.run, its results checked."""
    cdef int k
    outer = getattr(_running, "node", None)
    _running.node = node
    try:
        results = node.run(grads)
        if nan_checked:
            for k in range(len(results)):
                if results[k] is not None and has_nan(<TensorBase>results[k]):
                    raise RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output.")
        return results
    except Exception as error:
        error_reporter(node, error)
        raise
    finally:
        _running.node = outer


cdef bint has_nan(TensorBase t):
    cdef bint before = grad_enabled()
    set_grad(False)
    try:
        return bool((t != t).any())
    finally:
        set_grad(before)
