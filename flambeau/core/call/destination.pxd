"""Where a result goes, and what may be written there."""
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase
from .kernels cimport Operand

cdef enum Where:                    # a result goes
    NEW                             # into a tensor that is made for it
    GIVEN                           # into one that the caller gives (`out=`): it gets the result's shape
    OVER                            # over the first operand (in place), whose shape stays

cdef enum Cast:                     # what dtypes a result may be converted to as it is written
    SAME                            # its own alone
    KIND                            # those of its category, or a higher one
    ANY

cdef int check_cast(str who, TensorBase out, Where where, Cast cast, int code) except -1
cdef int check_memory(str who, TensorBase out) except -1
cdef int check_written(str who, TensorBase t, bint repeated=*) except -1
cdef object partly_below(str who)
cdef int check_unrecorded(str who, TensorBase out, bint is_tracked) except -1
cdef int fit(str who, TensorBase out, Where where, int rank, const int64_t* sizes) except -1
cdef int check_destination(str who, TensorBase out, Where where, Cast cast, int code, int rank, const int64_t* sizes,
                           bint is_tracked) except -1
cdef int check_overlap(str who, TensorBase out, Operand* operands, int n, bint casts) except -1
cdef bint apart_from(TensorBase out, TensorBase t) noexcept nogil
