"""A plan run in compiled code; see runner.pyx."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..core.base.device cimport Device
from ..core.base.tensor cimport TensorBase
from ..core.call.kernels cimport kernel_t

cdef class PreparedStep:
    """A launch without Python: operand k lies `offsets[k]` bytes from where root `roots[k]` does."""

    cdef int count
    cdef int* roots
    cdef int64_t* offsets
    cdef readonly int64_t workspace   # bytes, from an address that 64 divides
    cdef double work              # about so many elementary operations

    # May raise; signals are looked at where it takes long.
    cdef int launch(self, char** data, char* workspace) except -1 nogil

cdef struct Operand:
    int root
    int64_t offset

cdef struct Launch:
    kernel_t kernel               # one call of it does everything; NULL: `step` knows how
    const int64_t* geometry
    const uint64_t* scalars
    PyObject* step                # borrowed from the runner's list
    Operand* operands
    int count
    double work

cdef struct Stretch:              # launches one after another, or a call
    int begin, end                # of the launches
    PyObject* call                # borrowed; NULL: launches
    int take_begin, take_end      # memories that it is the first to touch: of the runner's own k, of results -1 - k
    int drop_begin, drop_end      # roots whose tensors nobody reads any more
    int free_begin, free_end      # memories of the runner's own that nobody touches any more
    int64_t workspace             # bytes that are taken for it alone; 0: what lies behind the arena is enough
    double work                   # of its launches
    bint away                     # some are launches of a device, which need the GIL
    bint releases                 # enough work to give up the GIL

cdef struct Layout:               # of a new tensor, or of one that is given
    int root, rank, code
    bint dense
    bint unused           # by all steps
    bint donated                  # an argument that is given up
    int home                      # the root whose memory a placed one lies in; -1 - k: memory k of the runner's own, 0 the arena
    bint late                     # of a result: made when the first step writes to it
    int64_t at                    # there, in bytes
    PyObject* on                  # borrowed: the Device whose memory it is; None for the host
    int64_t* sizes                # strides follow

cdef struct Run:
    char** bases                  # where each root's memory is
    PyObject** known              # owned: a tensor over each root, where there is one
    PyObject** memories           # owned Storages: the arena (NULL where it is on the stack or empty), then those that steps begin and end

cdef class Runner:
    cdef readonly int roots
    cdef readonly int64_t nbytes, workspace     # of the arena, and behind it for the length of a step
    cdef readonly list steps
    cdef readonly object memory                 # `memory.Use`: what a run takes
    cdef readonly object report                 # `report.Report`: what the steps compute
    cdef list launch_names                      # as profiles show them
    cdef list places, held
    cdef object outputs
    cdef bint single, whole, complete
    cdef Layout* inputs
    cdef Layout* placed
    cdef Layout* made
    cdef int* place_of                          # of a root among those that are placed; -1: none
    cdef int given_count, placed_count, made_count, launch_count, stretch_count, widest, written_count, memory_count
    cdef int* written
    cdef int* drops
    cdef int* takes
    cdef int* frees
    cdef int64_t* sizes                         # of memories, the arena's first
    cdef Launch* launches
    cdef Operand* operands
    cdef Stretch* stretches
    cdef bint calls
    cdef int64_t late                           # bytes from which memory is taken for the steps that touch it; 0: none is
    cdef list constants, drop_lists, take_lists, free_lists, ends, written_roots, memory_sizes, memory_devices

    # What the steps compute of these tensors (borrowed, of the recorded geometry: TypeError for others).
    cdef object call(self, PyObject** tensors, Py_ssize_t n)
    cdef int check(self, PyObject** tensors, Py_ssize_t n) except -1
    # The same for tensors whose number and geometry the caller has checked; whoever calls holds them while it runs.
    cdef object run(self, PyObject** tensors, list consumed=*)

    cdef object execute(self, Run* r, PyObject** tensors, PyObject** storages, list consumed)
    cdef int make(self, Layout* own, Run* r) except -1
    cdef int take(self, int which, Run* r) except -1
    cdef int finish(self) except -1
    cdef bint is_late(self, int64_t nbytes) noexcept
    cdef int launch_all(self, const Stretch* s, char** bases, char* workspace) except -1 nogil
    cdef int launch_profiled(self, const Stretch* s, char** bases, char* workspace) except -1
    cdef int run_call(self, Stretch* s, Run* r) except -1
    cdef object fill(self, object x, Run* r)
    cdef TensorBase tensor(self, int root, Run* r)
    cdef object result(self, object x, Run* r)
