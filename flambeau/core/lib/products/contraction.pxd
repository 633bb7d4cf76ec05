"""Matrix products of stacks of matrices, and their place on the tape."""
from libc.stdint cimport int64_t
from .matrices cimport Scale
from ...tape.nodes cimport Node
from ...base.tensor cimport TensorBase

cdef enum:                    # how a device computes a product
    UNMEASURED = -1           # nobody knows yet which is the fastest
    BY_LIBRARY = 0            # by its library
    BY_EPILOGUE = 1           # by the library that adds a bias as it writes
    BY_KERNEL = 2             # by a kernel of our own


cdef inline int64_t size_at(TensorBase t, int dims, int from_right) noexcept nogil:
    """Size of a dimension of the stack before the last `dims` dimensions, 1 where there is none."""
    cdef int d = t.rank - dims - 1 - from_right
    return t.sizes[d] if d >= 0 else 1

# In all of these the sizes and dtypes have been checked to fit. `sizes` are those of the result, which is contiguous and
# read as `form` (not TRANSPOSED). Dimensions that count matrices are broadcast between a and b; where the result lacks
# one, or has size 1, it is summed over.

# alpha * a @ b, on the tape.
cdef TensorBase contract(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                         const Scale* alpha)

# The node of alpha * a @ b + beta * addend, or None where no gradient is wanted; made before anything is written.
cdef Node node_for(str label, TensorBase a, int a_form, TensorBase b, int b_form, int form, const Scale* alpha,
                   TensorBase addend, const Scale* beta)

# The result that the node belongs to: a new tensor, or `into`, which has the shape and dtype. The addend may be None, or
# `into` itself, and is not read where beta is 0.
cdef TensorBase computed(Node node, TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                         const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into)
