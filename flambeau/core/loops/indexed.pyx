# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The launch of indexed kernels: which ranges of places, over which threads."""
from libc.string cimport memcpy
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t, uintptr_t
cimport cython
from ..base.device cimport Device
from ..call.kernels cimport Family
from .launch cimport run_indexed
from ..base.tensor cimport MAX_DIMS, TensorBase, bump_version, pointer
from ..base.parallel cimport parallel_interruptible
from ..base.sizes cimport mul_overflow

cdef extern from "Python.h":
    int64_t PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1

cdef enum:
    MAX_OPERANDS = 16
    MAX_SCALARS = 32
    MAX_GEOMETRY = 4 + MAX_DIMS + 2 * MAX_OPERANDS * MAX_DIMS
    PARALLEL_FROM = 32768     # steps from which a launch is shared over the threads
    FEW_ROWS = 8              # below as many rows, the threads share the last axis
    LEAST_LANES = 4           # places of the last axis that make vectors worth while

ctypedef void (*kernel_t)(char** data, const int64_t* geometry, const uint64_t* scalars) noexcept nogil

cdef struct Launch:
    kernel_t run
    char* data[MAX_OPERANDS + 1]
    uint64_t scalars[MAX_SCALARS]
    int64_t geometry[MAX_GEOMETRY]
    int64_t used
    int64_t rows
    int64_t length
    bint along                # threads share the last axis, else the rows


cdef void run_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Launch* launch = <Launch*>context
    cdef int64_t geometry[MAX_GEOMETRY]
    memcpy(geometry, launch.geometry, launch.used * sizeof(int64_t))
    if launch.along:
        geometry[0], geometry[1], geometry[2], geometry[3] = 0, launch.rows, begin, end
    else:
        geometry[0], geometry[1], geometry[2], geometry[3] = begin, end, 0, launch.length
    launch.run(launch.data, geometry, launch.scalars)


cdef bint run(kernel_t kernel, tuple operands, int outputs, tuple axes, int serial, list scalars, int64_t effort) except *:
    """Run a kernel (see `codegen/indexed.py`) over all places of `axes`; the first `outputs` operands are written.

    `effort`: about how many steps a place takes.  Returns whether an index was in bounds everywhere.
    """
    cdef Launch work
    cdef TensorBase t
    cdef int64_t fault = 0, places = 1, steps, grain, n
    cdef bint many = False
    cdef int k, d, count = len(operands), parallel = len(axes) - serial
    if count > MAX_OPERANDS or len(scalars) > MAX_SCALARS:
        raise ValueError(f"indexed kernel: {count} operands and {len(scalars)} scalars are too many")
    work.run, work.used, work.rows, work.length = kernel, 4, 1, 1
    for d in range(len(axes)):
        n = axes[d]
        work.geometry[work.used] = n
        work.used += 1
        many |= mul_overflow(places, n, &places)
        if d < parallel - 1:
            work.rows *= n
        elif d == parallel - 1:
            work.length = n
    for k in range(count):
        t = <TensorBase>operands[k]
        work.data[k] = pointer(t)
        memcpy(&work.geometry[work.used], t.sizes, t.rank * sizeof(int64_t))
        memcpy(&work.geometry[work.used + t.rank], t.strides, t.rank * sizeof(int64_t))
        work.used += 2 * t.rank
    work.data[count] = <char*>&fault
    for k in range(len(scalars)):
        if isinstance(scalars[k], float):
            (<double*>&work.scalars[k])[0] = scalars[k]
        else:
            (<int64_t*>&work.scalars[k])[0] = scalars[k]
    if work.rows == 0 or work.length == 0 or (places == 0 and not many):
        return True
    if mul_overflow(places, effort, &steps) or many:
        steps = INT64_MAX
    work.along = work.rows < FEW_ROWS
    n = work.length if work.along else work.rows
    if steps < PARALLEL_FROM:
        run_range(&work, 0, n)
    else:
        grain = max(n // (steps // PARALLEL_FROM), 1)
        grain = max((grain + 63) // 64 * 64 if work.along else grain, 1)
        try:
            with nogil:
                parallel_interruptible(run_range, &work, n, grain, <double>steps / n)
        except BaseException:  # of a signal's handler, in the middle
            for k in range(outputs):
                bump_version(<TensorBase>operands[k])
            raise
    for k in range(outputs):
        bump_version(<TensorBase>operands[k])
    return fault == 0


cdef int64_t larger(int64_t most, object value) except -1:
    """The larger magnitude of `most` and the ints in an argument; INT64_MAX for those beyond it."""
    cdef int64_t n
    cdef int overflow = 0
    if type(value) is int:
        n = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow or n == INT64_MIN:
            return INT64_MAX
        return max(most, n if n >= 0 else -n)
    if type(value) is tuple:
        for part in <tuple>value:
            most = larger(most, part)
    return most


cdef object observer = None      # called for every launch on the host


def observe(callback) -> None:
    """Let `callback(kernel, operands, outputs, axes, serial, scalars)` know of every launch on the host, on any thread; None: nobody."""
    global observer
    observer = callback


@cython.binding(False)
cdef class Launcher:
    """The kernels of one declared operation (`operations/declare/indexed.py`), by what they are specialised on."""
    cdef object declaration
    cdef frozenset static
    cdef int64_t effort
    cdef dict kernels

    def __init__(self, declaration, frozenset static, effort):
        self.declaration, self.static, self.effort, self.kernels = declaration, static, effort, {}

    def run(self, tuple operands, int outputs, tuple axes, int serial, bint lanes, dict params, object most=0) -> bool:
        """Whether all indices were in bounds; a device reports that later, when the host waits for it anyway.  `lanes`: the
        last parallel axis is the innermost in memory.

        The key of a kernel: for each operand its dtype code, whether its last stride is 1 (bit 5) and its rank (from
        bit 6); whether all places fit into 32 bits, and whatever is computed on the way to them: `most`, and the largest int
        among the arguments times the longest axis; the static arguments; the types of the others; how many axes are
        parallel and serial; whether lanes run along the last parallel axis.
        """
        cdef list key = [], given = [], scalars = []
        cdef TensorBase t
        cdef Device device = (<TensorBase?>operands[0]).storage.on
        cdef int64_t reach, longest = 1, largest = 0, product
        cdef bint short = most < 1 << 29, vector
        cdef int d, last = len(axes) - serial - 1
        for x in operands:
            t = <TensorBase?>x
            if t.storage.on is not device:
                raise RuntimeError(f"{self.declaration.name}(): Expected all tensors to be on the same device, but found at least "
                                   f"two devices, {operands[0].device} and {x.device}!")
            reach = 0
            for d in range(t.rank):
                reach += (t.sizes[d] - 1 if t.sizes[d] else 0) * t.strides[d]
                longest = max(longest, t.sizes[d])
            short = short and reach < 1 << 30 and t.count < 1 << 30
            key.append(t.code | (t.rank > 0 and t.strides[t.rank - 1] == 1) << 5 | t.rank << 6)
        t = <TensorBase>operands[0]
        vector = lanes and last >= 0 and <int64_t>axes[last] >= LEAST_LANES and t.width < 16
        signature = tuple(key)
        for d in range(len(axes)):
            longest = max(longest, <int64_t>axes[d])
        for name, value in params.items():
            largest = larger(largest, value)
            if name in self.static:
                given.append(value)
            else:
                scalars.append(value)
                given.append(type(value))
        short = short and not mul_overflow(longest, largest, &product) and product < 1 << 29
        wanted = (signature, short | vector << 1 | outputs << 2 | serial << 8 | len(axes) << 16, device, *given)
        result = self.kernels.get(wanted)
        if device is None:
            if result is None:
                result = self.declaration.address(signature, short, params, outputs, len(axes), serial, vector)
                self.kernels[wanted] = result
            if observer is not None:
                observer(self.declaration.kernel(signature, short, params, outputs, len(axes), serial, vector), operands, outputs, axes,
                         serial, scalars)
            return run(<kernel_t><void*><uintptr_t>result, operands, outputs, axes, serial, scalars, self.effort)
        if result is None:
            kernel = self.declaration.kernel(signature, short, params, outputs, len(axes), serial, False)
            result = self.kernels[wanted] = Family(kernel)
        run_indexed(<Family>result, operands, outputs, axes, serial, scalars, self.declaration.name)
        return True
