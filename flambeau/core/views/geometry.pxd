"""Ways of walking over a storage, what views make of them, and copies between them."""
from libc.stdint cimport int64_t
from ..base.tensor cimport TensorBase, MAX_DIMS

cdef struct Shape:            # a way of walking over a storage, in elements
    int rank
    int64_t offset
    int64_t sizes[MAX_DIMS]
    int64_t strides[MAX_DIMS]

# Changes a shape into that of a view of it; the arguments have been checked.
ctypedef void (*cut_t)(Shape* s, const int64_t* arguments) noexcept

cdef void select_cut(Shape* s, const int64_t* arguments) noexcept       # dim, index
cdef void slice_cut(Shape* s, const int64_t* arguments) noexcept        # dim, start, step, length
cdef void unsqueeze_cut(Shape* s, const int64_t* arguments) noexcept    # dim
cdef void diagonal_cut(Shape* s, const int64_t* arguments) noexcept     # offset, dim1, dim2, length
cdef void unfold_cut(Shape* s, const int64_t* arguments) noexcept       # dim, size, step

cdef void load(Shape* s, TensorBase t) noexcept
cdef void load_compact(Shape* s, TensorBase t) noexcept
cdef void compact_strides(int rank, const int64_t* sizes, int64_t* strides) noexcept nogil
cdef bint overlaps(Shape* s) noexcept
cdef int64_t reach_of(Shape* s) noexcept

# Every element of a layout to its place in another. Large copies are shared over the thread pool.
cdef void copy_strided(char* to, const int64_t* to_strides, const char* source, const int64_t* from_strides,
                       int rank, const int64_t* sizes, int width) noexcept nogil
