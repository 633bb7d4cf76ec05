"""Reductions and row programs: which loops, in what order, in how many stages."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..call.operation cimport Op
from ..call.kernels cimport Table, kernel_t, MAX_OPERANDS, MAX_OUTPUTS, MAX_PARAMS
from ..base.tensor cimport MAX_DIMS

cdef enum:
    MAX_ALL = MAX_OPERANDS + MAX_OUTPUTS

cdef struct Rows:                # one launch; operands are outputs, then inputs
    kernel_t run
    PyObject* device             # borrowed; NULL for the host
    const uint64_t* scalars
    int operands
    int outputs                  # how many of them, the first, are results
    bint along                   # lanes run along the row
    bint scans                   # a scan, on a device: one thread a row, or a whole block
    char* data[MAX_ALL]
    int width[MAX_ALL]
    int64_t k, r1, r0, total, index_first, index_step
    int64_t k_stride[MAX_ALL]
    int64_t r1_stride[MAX_ALL]
    int64_t r0_stride[MAX_ALL]
    int outer
    int64_t outer_total
    int64_t outer_size[MAX_DIMS]
    int64_t outer_stride[MAX_ALL][MAX_DIMS]
    bint cut_k                   # threads share the k loop, else the outer ones
    int64_t panel                # columns that are copied next to each other at a time; 0: they are read where they lie

cdef struct RowPlan:             # how an operation walks over inputs of some geometry: all that is known without their elements
    Rows rows                    # without places, scalars and device
    int inputs, outputs          # of the kernel
    int rank, kept_rank
    int64_t sizes[MAX_DIMS]      # that inputs broadcast to, and results as long as the row have
    int64_t full_strides[MAX_DIMS]
    int64_t kept_sizes[MAX_DIMS] # of the other results
    int codes[MAX_OPERANDS]      # dtypes of inputs
    int access[MAX_ALL]
    int common, wanted
    signed char result_codes[MAX_OUTPUTS]
    bint on_host
    bint scattered               # rows lie in more pieces than a kernel walks over: they are copied first
    bint two                     # in blocks, whose states a second kernel combines

cdef class RowOp(Op):
    cdef int inputs, outputs, params
    cdef unsigned int full          # bit k: result k is as long as the row
    cdef unsigned int raw           # inputs that keep their own dtype: a target, a mask
    cdef bint ordered               # reads where an element stands: the row keeps its logical order
    cdef bint splits                # can run in two stages
    cdef bint literal               # an empty list of dimensions means none, where it means all of other reductions
    cdef bint listed                # dimensions may be given one by one
    cdef bint from_origin           # the kernel also reads the row's first element, as one input more
    cdef bint reduces               # called with (input, dim=None, keepdim=False), else (input, dim)
    cdef double defaults[MAX_PARAMS]
    cdef Table table
    cdef tuple saved                # what the derivative reads: (1, input) or (2, output)
    cdef readonly object formula
    cdef object shown               # `over` as an operation of its own, for those who watch
    cdef object names               # a namedtuple for several results
