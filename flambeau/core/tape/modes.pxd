"""What is recorded in this thread: for backward, and in forward mode; and where autocast is on."""
from ..base.tensor cimport TensorBase

cdef enum:                    # what grad_enabled() tells
    REVERSE = 1               # operations are recorded for backward
    FORWARD = 2               # a forward level is open: operations on dual tensors compute tangents

cdef bint grad_enabled() noexcept nogil
cdef void set_grad(bint enabled) noexcept nogil

cdef unsigned int autocast_on() noexcept nogil           # types of devices, as bits: where the program has switched autocast on
cdef unsigned int casting() noexcept nogil               # those whose operands are cast now: none inside an operation or a pass
cdef void set_autocast_on(unsigned int types) noexcept nogil
cdef void set_casting(unsigned int types) noexcept nogil

cdef inline bint wants_grad(TensorBase t) except -1:
    """Whether an operation on t is recorded (in grad mode)."""
    if not t.requires and t.base is not None and t.fn_version != t.storage.version and not t.silent:
        t.grad_fn_now()
    return t.requires
