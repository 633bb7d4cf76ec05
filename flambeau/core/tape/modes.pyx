# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What is recorded in this thread: for backward, and in forward mode; and where autocast is on."""
from ..base.tensor cimport TensorBase, runtime

cdef extern from *:
    """
    static __thread int flambeau_modes = 1;
    static __thread unsigned int flambeau_autocast = 0;
    static __thread unsigned int flambeau_casting = 0;
    """
    int flambeau_modes
    unsigned int flambeau_autocast
    unsigned int flambeau_casting


cdef bint grad_enabled() noexcept nogil:
    return flambeau_modes


cdef void set_grad(bint enabled) noexcept nogil:
    global flambeau_modes
    flambeau_modes = enabled


cdef unsigned int autocast_on() noexcept nogil:
    return flambeau_autocast


cdef unsigned int casting() noexcept nogil:
    return flambeau_casting


cdef void set_autocast_on(unsigned int types) noexcept nogil:
    global flambeau_autocast
    flambeau_autocast = types


cdef void set_casting(unsigned int types) noexcept nogil:
    global flambeau_casting
    flambeau_casting = types


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread.

    >>> import flambeau
    >>> with flambeau.no_grad():
    ...     print(flambeau.is_grad_enabled())
    False
    """
    return grad_enabled() & REVERSE


def _set_grad_enabled(bint enabled) -> bool:
    """Set the mode of this thread; returns what it was.  Forward mode stays as it is."""
    cdef bint before = grad_enabled()
    set_grad((REVERSE if enabled else 0) | (before & FORWARD))
    return before & REVERSE


def _set_tracking(int modes) -> int:
    """Set both modes of this thread; returns what they were."""
    cdef int before = grad_enabled()
    set_grad(modes)
    return before


def is_forward_open() -> bool:
    """Whether operations in this thread compute tangents."""
    return (grad_enabled() & FORWARD) != 0


def tracked(*tensors) -> bool:
    """Whether an operation on these is to be recorded."""
    if not grad_enabled():
        return False
    for t in tensors:
        if t is not None and isinstance(t, TensorBase) and wants_grad(<TensorBase>t):
            return True
    if runtime.interceptors:
        for t in tensors:
            if isinstance(t, TensorBase) and t._is_batched and tracked(t._elements):
                return True
    return False
