# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Prepacked weights: layouts of a weight that its storage keeps, so that inference makes them once.

A layout holds while the storage's counter of writes stands where it stood when the weight was read, and nobody else knows the
memory's address (`is_counted`).  It is made at the second use at one count: a weight that each step of training writes to costs a look-up.  A layout is a function
of the weight's bytes, and the caller computes from it what it computes from one made in the call: results have the same bits.

A storage's layouts die with it, with the first use after a write, or when the limit of bytes is lowered.  They refer to nothing.
"""
from cpython.object cimport PyObject_RichCompareBool, Py_EQ
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memcpy
from .memory cimport Storage, is_counted
from .settings import number_of_bytes
from .tensor cimport TensorBase
from . import display
cimport cython

cdef enum:
    MOST_RANK = 5
    MOST_LAYOUTS = 32          # of one storage: a program that slices a weight anew in every call would fill it

cdef int64_t limit = number_of_bytes("FLAMBEAU_PREPACK_LIMIT", 256 << 20)
cdef int64_t held = 0          # bytes, of all storages
cdef int plans = 0             # of compiled functions, under way in any thread


cdef void enter_plan() noexcept:
    global plans
    plans += 1


cdef void leave_plan() noexcept:
    global plans
    plans -= 1


@cython.no_gc
cdef class Layout:
    """A layout of one view of a storage; `made` is None after its first use."""

    cdef int code, rank
    cdef int64_t geometry[1 + 2 * MOST_RANK]
    cdef object layout
    cdef object made


@cython.no_gc
cdef class Layouts:
    """What was made of a storage at one count of its writes."""

    cdef uint64_t writes
    cdef list entries
    cdef int64_t nbytes

    def __dealloc__(self):
        global held
        held -= self.nbytes


cdef Layout entry_for(Layouts layouts, TensorBase weight, object layout):
    """The entry of this view and layout; a new one, which is not yet among `layouts`, where there is none."""
    cdef int64_t geometry[1 + 2 * MOST_RANK]
    cdef int count = 1 + 2 * weight.rank
    cdef Layout entry
    geometry[0] = weight.offset
    memcpy(geometry + 1, weight.sizes, weight.rank * sizeof(int64_t))
    memcpy(geometry + 1 + weight.rank, weight.strides, weight.rank * sizeof(int64_t))
    for entry in layouts.entries:
        if (entry.code == weight.code and entry.rank == weight.rank
                and memcmp(entry.geometry, geometry, count * sizeof(int64_t)) == 0
                and PyObject_RichCompareBool(entry.layout, layout, Py_EQ)):
            return entry
    entry = Layout.__new__(Layout)
    entry.code, entry.rank, entry.layout = weight.code, weight.rank, layout
    memcpy(entry.geometry, geometry, count * sizeof(int64_t))
    return entry


cdef int64_t bytes_of(object made, Storage weight) except -2:
    """Of all its tensors; -1 where one of them is the weight itself."""
    cdef TensorBase t
    cdef int64_t nbytes = 0
    for t in made if isinstance(made, tuple) else (made,):
        if t.storage is weight:
            return -1
        nbytes += t.count * t.width
    return nbytes


cdef object prepacked(TensorBase weight, object layout, object make):
    global held
    cdef Storage s = weight.storage
    cdef Layouts layouts
    cdef Layout entry
    cdef uint64_t writes = s.writes
    cdef int64_t nbytes
    if plans:
        return None
    if limit == 0 or held > limit or weight.rank > MOST_RANK or not is_counted(s):
        s.prepacked = None
        return None
    layouts = <Layouts>s.prepacked
    if layouts is None or layouts.writes != writes or len(layouts.entries) >= MOST_LAYOUTS:
        layouts = Layouts.__new__(Layouts)
        layouts.writes, layouts.entries = writes, []
        s.prepacked = layouts
    entry = entry_for(layouts, weight, layout)
    if entry.made is not None:
        return entry.made
    if entry not in layouts.entries:
        layouts.entries.append(entry)
        return None
    made = make(weight)
    nbytes = bytes_of(made, s)
    if nbytes < 0 or held + nbytes > limit or s.writes != writes or entry.made is not None or not is_counted(s):
        return made            # another thread wrote, or was quicker
    entry.made = made
    layouts.nbytes += nbytes
    held += nbytes
    return made


def prepack(TensorBase weight not None, layout, make):
    """`make(weight)`, kept for the next use of the same bytes; None at the first use, and where the weight cannot be trusted to stay
    as it is without our knowledge: the caller then reads it as it would without this.

    `layout`: equal for what makes equal tensors of this weight.  `make` returns a tensor or a tuple of tensors, which nobody writes to.
    """
    return prepacked(weight, layout, make)


def set_limit(nbytes) -> None:
    """Most bytes that are kept together; 0 keeps none.  Where a lower limit is passed, each layout goes at its next use."""
    global limit
    if isinstance(nbytes, bool) or not isinstance(nbytes, int) or not 0 <= nbytes < 1 << 63:
        raise RuntimeError(f"{display.NAME}.backends.cpu.prepack_limit must be a number of bytes, not {nbytes!r}")
    limit = nbytes


def get_limit() -> int:
    return limit


def bytes_held() -> int:
    """Bytes of all layouts that are kept."""
    return held


def writes_of(TensorBase t not None):
    """The storage's counter of writes, None where it does not tell of all: for tests."""
    return t.storage.writes if is_counted(t.storage) else None
