"""Pointwise operations: from a call to a kernel."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase
from ..base.device cimport Device
from .destination cimport Where
from .kernels cimport MAX_PARAMS, Operand, PointwisePlan, Table
from .operation cimport Op

cdef class PointwiseOp(Op):
    cdef int operands, params, outputs
    cdef readonly tuple names       # of operands, then of params
    cdef public tuple old           # orders of before: see Signature
    cdef double defaults[MAX_PARAMS]
    cdef int required               # how many of names have no default
    cdef readonly bint differentiable
    cdef public bint casts          # copies: any dtype may go into any other, and results keep their shape
    cdef unsigned int strict        # operands that must be tensors
    cdef unsigned int raw           # operands that take no part in type promotion
    cdef Table table
    cdef dict derivations           # which inputs want a gradient -> Derivation
    cdef bint widens                # takes float8, which it computes in float32
    cdef bint pairs                 # makes complex32 of float16
    cdef object written_over        # the form in place, once it is made
    cdef int highest                # the largest code of a dtype that goes the straight way
    cdef int read_params(self, dict params, double* values) except -1

cdef struct TapeWriter:             # what `gradients` supplies
    int (*record)(PointwiseOp op, Operand* operands, double* params, object results, int common, TensorBase written,
                  TensorBase original) except -1
    TensorBase (*overwritten)(PointwiseOp op, Operand* operands, TensorBase out)

cdef TapeWriter tape_writer
cdef PointwiseOp identity           # the operation that copies

cdef object run(PointwiseOp op, Operand* operands, double* params, PyObject** given, Where where)
cdef object run_general(PointwiseOp op, Operand* operands, double* params, int common, PyObject** given)
cdef object run_into(PointwiseOp op, Operand* operands, double* params, PyObject** given, Where where, int common, bint is_tracked)
cdef object sum_to(TensorBase grad, object sizes)
cdef void preserve_strides(int64_t* strides, TensorBase source) noexcept
cdef TensorBase copied(TensorBase source, int code, bint row_major)
cdef TensorBase bits(TensorBase t)
cdef int convert(TensorBase out, TensorBase source) except -1
cdef int wider(int code) noexcept nogil
cdef object not_implemented(str who, int code)
cdef int refuse_stored(str who, PyObject** tensors, int n) except -1
cdef int read_call(PointwiseOp op, PyObject** args, Py_ssize_t nargs, PyObject* names, str who, Operand* operands, double* params,
                   PyObject** bound) except -1
cdef int plan_pointwise(PointwiseOp op, PointwisePlan* plan, Operand* operands, int common, PyObject** given, Device device) except -1
cdef int fill_scalars(PointwiseOp op, Operand* operands, double* params, int common, uint64_t* scalars) except -1
cdef Device device_of(PointwiseOp op, Operand* operands, PyObject** given)
