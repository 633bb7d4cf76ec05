"""Reductions and row programs: which loops, in what order, in how many stages."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..call.operation cimport Op
from ..call.kernels cimport MAX_ALL, MAX_OPERANDS, MAX_OUTPUTS, MAX_PARAMS, Table, kernel_t
from ..base.device cimport Device
from ..base.tensor cimport MAX_DIMS, TensorBase

cdef struct Rows:                # one launch over any number of operands: outputs, then inputs
    kernel_t run
    PyObject* device             # borrowed; NULL for the host
    const uint64_t* scalars
    int operands
    int outputs                  # how many of them, the first, are results
    bint along                   # lanes run along the row
    char** data
    int* width
    int64_t k, r1, r0, total, index_first, index_step
    int64_t outer_step           # on a device: what one step along the innermost outer loop adds to the index
    int64_t* strides             # of operand i along k, r1 and r0, as in a kernel's geometry: [3 * i], [3 * i + 1], [3 * i + 2]
    int outer, pitch
    int64_t outer_total
    int64_t* outer_size
    int64_t* outer_stride        # of operand i along outer loop d: [i * pitch + d]
    bint cut_k                   # threads share the k loop, else the outer ones
    int64_t panel                # columns that are copied next to each other at a time; 0: they are read where they lie

cdef struct RowBuffers:          # the arrays of a launch over as many operands as an operation has
    char* data[MAX_ALL]
    int width[MAX_ALL]
    int64_t strides[3 * MAX_ALL]
    int64_t outer_size[MAX_DIMS]
    int64_t outer_stride[MAX_ALL * MAX_DIMS]

cdef struct RowPlan:             # how an operation walks over inputs of some geometry: all that is known without their elements
    Rows rows                    # without places, scalars and device; its arrays are in `buffers`
    RowBuffers buffers
    int inputs, outputs          # of the kernel
    int rank, result_rank
    int64_t sizes[MAX_DIMS]      # that inputs broadcast to, and results as long as the row have
    int64_t full_strides[MAX_DIMS]
    int64_t result_sizes[MAX_DIMS] # of the other results
    int codes[MAX_OPERANDS]      # dtypes of inputs
    int access[MAX_ALL]
    int common, wanted
    signed char result_codes[MAX_OUTPUTS]
    bint on_host
    bint scattered               # rows lie in more pieces than a kernel walks over: they are copied first
    bint two                     # in blocks, whose states a second kernel combines

cdef struct Stages:              # a long row in blocks: what each block leaves, its states, and what they make together
    Rows* part                   # operands are the states, then the inputs
    Rows* last                   # results, then states
    int states
    int64_t count                # elements of a state, of all rows and blocks
    int64_t block, whole, tail   # elements of a block, whole blocks, elements that are left
    bint in_turn                 # block by block: elements need to know how far along the row their block starts

cdef void attach_buffers(Rows* rows, RowBuffers* buffers, int pitch) noexcept nogil
cdef Rows* new_rows(int operands, int outer) except NULL
cdef int walk(Rows* rows, int* access, int rank, const int64_t* sizes, const int64_t* strides, const bint* reduced, const bint* full,
              int outputs, int inputs, int guide, bint ordered, bint on_host) noexcept nogil
cdef bint in_stages(const Rows* rows, int pieces, bint on_host) noexcept nogil
cdef int64_t panel_of(const Rows* rows) noexcept nogil
cdef int plan_stages(Stages* stages, const Rows* rows, int states, const int* widths, bint on_host, bint ordered) except -1
cdef int launch_stages(const Stages* stages, char** data, char** states, const uint64_t* scalars, PyObject* device) except -1 nogil
cdef int launch(Rows* rows) except -1 nogil
cdef int64_t work_of(const Rows* rows) noexcept nogil

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
    cdef public bint of_out         # without a dtype requested it computes in that of `out=`
    cdef double defaults[MAX_PARAMS]
    cdef Table table
    cdef tuple saved                # what the derivative reads: (1, input) or (2, output)
    cdef readonly object formula
    cdef object dispatched_op       # `over` as an operation of its own, for interceptors
    cdef object names               # a namedtuple for several results

cdef int plan_rows(RowOp op, RowPlan* plan, PyObject** tensors, const int* dims, int ndims, bint keepdim, int wanted,
                   Device device) except -1
cdef int stage_kernels(RowOp op, const RowPlan* plan, const Stages* stages, const int* state_codes) except -1
cdef int read_dims(RowOp op, object dim, TensorBase t, int* dims) except -1
