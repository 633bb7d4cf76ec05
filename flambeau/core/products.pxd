"""Matrix products of tensors."""
from libc.stdint cimport int64_t
from .tensor cimport TensorBase

cdef enum:                    # how the last dimensions of a tensor are read as a matrix; the others count its matrices
    MATRIX = 0
    TRANSPOSED = 1
    ROW = 2                   # one dimension
    COLUMN = 3
    SCALAR = 4                # none: a 1 by 1 matrix

cdef struct Scale:            # a number that multiplies: for floating point, and for integer dtypes
    double real
    int64_t whole

# alpha * a @ b, on the tape, in a contiguous tensor of those sizes, read as `form` (not TRANSPOSED). Dimensions that count
# matrices are broadcast between a and b; where the result lacks one, or has size 1, it is summed over. The sizes and
# dtypes have been checked to fit.
cdef TensorBase contract(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                         const Scale* alpha)
