"""Operations as objects, and the door that every call goes through."""
from cpython.object cimport PyObject
from .signature cimport Signature

ctypedef object (*vectorcall_t)(PyObject* callable, PyObject** args, size_t nargs, PyObject* names)

cdef class Op:
    """What every operation has: a name, a signature, a compiled call."""
    cdef vectorcall_t call    # what CPython calls: the door
    cdef vectorcall_t run     # past the door
    cdef readonly str name
    cdef readonly Signature signature
    cdef public object declaration
    cdef dict __dict__        # __doc__, __module__, public_name
    cdef object __weakref__

cdef struct Door:
    int watched               # how many modes are on, in all threads, and classes of tensors that want to be asked
    vectorcall_t watch        # what `modes` supplies for that case

cdef Door door

cdef void prepare_op(Op op, str name, vectorcall_t run)
cdef void make_callable(type cls, Op example) noexcept
