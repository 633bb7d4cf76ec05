# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Running maxima and minima along rows, by vectors (`codegen/tiles/extremes.py`)."""
from libc.stdint cimport int64_t, uintptr_t
from ...base.dtypes cimport I64, dtype_of
from ...base.parallel cimport parallel_interruptible
from ...base.callbacks import callbacks
from ...base.tensor cimport TensorBase, new_tensor, pointer
from ...views.strided cimport compact

ctypedef void (*extreme_t)(char* values, int64_t* indices, const char* source, int64_t count, int64_t length) noexcept nogil

cdef enum:
    PARALLEL_FROM = 1 << 15   # elements from which threads pay off
    FEW = 8                   # rows: fewer long ones are cut into blocks elsewhere
    LONG = 1 << 15

cdef struct Work:
    extreme_t run
    char* values
    int64_t* indices
    const char* source
    int64_t length
    int width

cdef dict functions = {}


cdef void run_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int64_t at = begin * w.length
    w.run(w.values + at * w.width, w.indices + at, w.source + at * w.width, end - begin, w.length)


def running(TensorBase input not None, int dim, bint smallest) -> tuple | None:
    """The extremes so far along `dim` and where each last stood; None where another way has to be taken.  Not recorded."""
    cdef TensorBase x, values, indices
    cdef Work w
    cdef int64_t rows
    if input.storage.on is not None or input.rank == 0 or dim != input.rank - 1 or input.count == 0:
        return None
    key = (input.code, smallest)
    result = functions.get(key)
    if result is None:
        result = functions[key] = callbacks["extremes.address"](dtype_of(input.code).name, smallest)
    rows = input.count // input.sizes[dim]
    if result == 0 or (rows < FEW and input.sizes[dim] >= LONG):
        return None
    x = compact(input)
    values, indices = new_tensor(x.rank, x.sizes, x.code), new_tensor(x.rank, x.sizes, I64)
    w.run, w.values, w.source, w.indices = <extreme_t><void*><uintptr_t>result, pointer(values), pointer(x), <int64_t*>pointer(indices)
    w.length, w.width = x.sizes[dim], x.width
    if x.count < PARALLEL_FROM:
        run_range(&w, 0, rows)
    else:
        with nogil:
            parallel_interruptible(run_range, &w, rows, max(PARALLEL_FROM // w.length, 1), <double>w.length)
    return values, indices
