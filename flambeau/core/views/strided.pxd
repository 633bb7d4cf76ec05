"""Views on the tape."""
from libc.stdint cimport int64_t
from .geometry cimport Shape, cut_t
from ..tape.nodes cimport Node
from ..base.tensor cimport TensorBase, as_int, wrap_dim

cdef class GeometryNode(Node):
    """A node whose gradients follow from those that arrive and from shapes alone; it is shown as one operation."""
    cdef list through(self, list grads)

# Whether an operation on t is to be recorded now.
cdef bint is_tracked(TensorBase t)

# A view that is not recorded, and recorded ones: of a part, of all elements in their order, of the storage.
cdef TensorBase view_of(TensorBase source, Shape* s)
cdef int clear(TensorBase out) except -1
cdef int put(TensorBase out, int64_t offset, const int64_t* strides, TensorBase g) except -1
cdef TensorBase cut(TensorBase t, cut_t how, const int64_t* arguments, str label)
cdef TensorBase same_elements(TensorBase t, Shape* s, str label)
cdef TensorBase strided(TensorBase t, Shape* s)

cdef TensorBase viewed(TensorBase t, int rank, const int64_t* sizes, str label)     # None where strides forbid it
cdef TensorBase copy_as(TensorBase t, int rank, const int64_t* sizes, str label)    # contiguous
cdef TensorBase reshaped(TensorBase t, int rank, const int64_t* sizes)              # t itself, a view or a copy
cdef TensorBase compact(TensorBase t)                                               # t itself or a contiguous copy
cdef TensorBase permuted(TensorBase t, const int64_t* dims, str label)
cdef TensorBase swapped(TensorBase t, int a, int b, str label)
cdef TensorBase expanded(TensorBase t, int rank, const int64_t* sizes)              # -1 keeps a size

cdef inline int read_dim(object dim, int rank, str who, str argument="dim") except -1:
    return wrap_dim(as_int(dim, who, argument), rank, who)
