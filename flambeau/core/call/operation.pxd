"""Operations as objects, and the table through which every call is dispatched."""
from cpython.object cimport PyObject
from .signature cimport Signature

ctypedef object (*vectorcall_t)(PyObject* callable, PyObject** args, size_t nargs, PyObject* names)
ctypedef object (*record_t)(PyObject* recording, PyObject* callable, PyObject** args, size_t nargs, PyObject* names)
ctypedef PyObject* (*raw_t)(PyObject* callable, PyObject** args, size_t nargs, PyObject* names) noexcept   # the same, its errors left alone
ctypedef PyObject* (*raw_record_t)(PyObject* recording, PyObject* callable, PyObject** args, size_t nargs, PyObject* names) noexcept

cdef enum:                    # what autocast does with an operation (core/call/casting.pyx)
    FALLTHROUGH               # nothing; what it is made of is not cast either
    COMPOSITE                 # nothing; what it is made of may be cast, as if the program had called it
    LOWER                     # computes in the lower type
    FLOAT32                   # computes in float32
    FLOAT32_UNLESS_DTYPE      # computes in float32 where no dtype is given
    PROMOTE                   # computes in the widest of its operands' types
    BANNED
    BY_ARGUMENTS              # what a function of the arguments says
    BY_DEVICE                 # what its `casts` say of a type of device: a dtype, or a function in its place

cdef class Op:
    """What every operation has: a name, a signature, a compiled call."""
    cdef vectorcall_t call    # what CPython calls: dispatch
    cdef vectorcall_t run     # the operation itself, behind dispatch
    cdef readonly str name
    cdef readonly Signature signature
    cdef public object declaration
    cdef public object entry  # what the registry knows of it; None for what is in no list
    cdef public object composite  # the function whose calls modes of the lower level see in its place; None for a leaf
    cdef public bint writes  # to its first argument, which it returns
    cdef public object label  # the name of its node on the tape; None for the one that follows from its own
    cdef public object method # the form that is a method of Tensor, which operators show
    cdef unsigned char deferral  # how a thread whose calls wait calls it (graph/segment.pyx); 0 until requested
    cdef public unsigned char on_host     # what autocast does with it on the CPU
    cdef public unsigned char elsewhere   # and on accelerators
    cdef dict __dict__        # __doc__, __module__, public_name
    cdef object __weakref__

cdef class Form(Op):
    """An operation under a public name that a class binds."""
    cdef readonly Op op
    cdef readonly str place   # the dotted public name

cdef struct DispatchTable:
    vectorcall_t from_upper   # from the upper level on, where there are observers; `interceptors` supplies it
    vectorcall_t cast         # from autocast on, where it is on; `casting` supplies it
    vectorcall_t from_lower   # from the lower level on, then the operation
    record_t record           # a leaf of a thread that records, which `graph/record` supplies
    PyObject* recording       # the class of recordings that write leaves down as they run, and of no other
    bint (*begin_leaf)(PyObject* recording, PyObject* callable, PyObject** args, size_t nargs) noexcept   # its `record` in two halves,
    PyObject* (*end_leaf)(PyObject* recording, PyObject* result) noexcept                                 # for who runs it by itself
    bint (*rests)(PyObject* recording) except -1   # whether a recording lets leaves run that it does not see; it runs its own first
    vectorcall_t on_error     # after an error of the operation

cdef DispatchTable dispatch

cdef void prepare_op(Op op, str name, vectorcall_t run)
cdef void make_callable(type cls, Op example) noexcept
