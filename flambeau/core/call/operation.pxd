"""Operations as objects, and the door that every call goes through."""
from cpython.object cimport PyObject
from .signature cimport Signature

ctypedef object (*vectorcall_t)(PyObject* callable, PyObject** args, size_t nargs, PyObject* names)
ctypedef object (*record_t)(PyObject* recording, PyObject* callable, PyObject** args, size_t nargs, PyObject* names)
ctypedef PyObject* (*raw_t)(PyObject* callable, PyObject** args, size_t nargs, PyObject* names) noexcept   # the same, its errors left alone

cdef enum:                    # what autocast does with an operation (core/call/casting.pyx)
    WHOLE                     # nothing; what it is made of is not cast either
    PARTS                     # nothing; what it is made of may be cast, as if the program had called it
    LOWER                     # computes in the lower type
    SINGLE                    # computes in float32
    SINGLE_UNLESS_TOLD        # computes in float32 where no dtype is given
    WIDEST                    # computes in the widest of its operands' types
    REFUSED
    CHOSEN                    # what a function of the arguments says
    TOLD                      # what its `casts` say of a type of device: a dtype, or a function in its place

cdef class Op:
    """What every operation has: a name, a signature, a compiled call."""
    cdef vectorcall_t call    # what CPython calls: the door
    cdef vectorcall_t run     # past the door
    cdef readonly str name
    cdef readonly Signature signature
    cdef public object declaration
    cdef public object entry  # what the registry knows of it; None for what is in no list
    cdef public object composite  # the function whose calls modes of the lower level see in its place; None for a leaf
    cdef public bint writes  # to its first argument, which it returns
    cdef public object label  # the name of its node on the tape; None for the one that follows from its own
    cdef public object method # the form that is a method of Tensor, which operators show
    cdef public unsigned char on_host     # what autocast does with it on the CPU
    cdef public unsigned char elsewhere   # and on accelerators
    cdef dict __dict__        # __doc__, __module__, public_name
    cdef object __weakref__

cdef class Form(Op):
    """An operation under a public name that a class binds."""
    cdef readonly Op op
    cdef readonly str place   # the dotted public name

cdef struct Door:
    vectorcall_t watch        # the way in while somebody watches, which `watching` supplies
    vectorcall_t cast         # the way on where autocast is on, which `casting` supplies
    vectorcall_t past         # the way on from there: modes of the lower level, then the operation
    record_t record           # a leaf of a thread that records, which `graph/record` supplies
    vectorcall_t after        # the way after an error

cdef Door door

cdef void prepare_op(Op op, str name, vectorcall_t run)
cdef void make_callable(type cls, Op example) noexcept
