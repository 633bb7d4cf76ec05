"""What is recorded in this thread: for backward, and in forward mode."""
from ..base.tensor cimport TensorBase

cdef enum:                    # what grad_enabled() tells
    REVERSE = 1               # operations are recorded for backward
    FORWARD = 2               # a forward level is open: operations on dual tensors compute tangents

cdef bint grad_enabled() noexcept nogil
cdef void set_grad(bint enabled) noexcept nogil

cdef inline bint wants_grad(TensorBase t) except -1:
    """Whether an operation on t is recorded (in grad mode)."""
    if not t.requires and t.base is not None and t.fn_version != t.storage.version and not t.silent:
        t.grad_fn_now()
    return t.requires
