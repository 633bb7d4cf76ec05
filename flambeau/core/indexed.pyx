# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The launch of indexed kernels: which ranges of places, over which threads."""
from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from .device cimport Arguments, Device, MAX_ARGUMENTS
from .dtypes cimport I64
from .tensor cimport MAX_DIMS, TensorBase, new_tensor_on, place_of, pointer, wrote
from .parallel cimport parallel_for

cdef enum:
    MAX_OPERANDS = 16
    MAX_SCALARS = 32
    MAX_GEOMETRY = 4 + MAX_DIMS + 2 * MAX_OPERANDS * MAX_DIMS
    PARALLEL_FROM = 32768     # steps from which a launch is shared over the threads
    FEW_ROWS = 8              # below as many rows, the threads share the last axis
    BLOCK = 256               # schedule_gpu.BLOCK: threads a block
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
    """Run a kernel (see `compiler/indexed.py`) over all places of `axes`; the first `outputs` operands are written.

    `effort`: about how many steps a place takes.  Returns whether an index was in bounds everywhere.
    """
    cdef Launch work
    cdef TensorBase t
    cdef int64_t fault = 0, places = 1, grain, n
    cdef int k, d, count = len(operands), parallel = len(axes) - serial
    if count > MAX_OPERANDS or len(scalars) > MAX_SCALARS:
        raise ValueError(f"indexed kernel: {count} operands and {len(scalars)} scalars are too many")
    work.run, work.used, work.rows, work.length = kernel, 4, 1, 1
    for d in range(len(axes)):
        n = axes[d]
        work.geometry[work.used] = n
        work.used += 1
        places *= n
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
    if places == 0:
        return True
    work.along = work.rows < FEW_ROWS
    n = work.length if work.along else work.rows
    if places * effort < PARALLEL_FROM:
        run_range(&work, 0, n)
    else:
        grain = PARALLEL_FROM * n // (places * effort)
        grain = max((grain + 63) // 64 * 64 if work.along else grain, 1)
        with nogil:
            parallel_for(run_range, &work, n, grain)
    for k in range(outputs):
        wrote(<TensorBase>operands[k])
    return fault == 0


# --- devices --------------------------------------------------------------------------------------------------------------------
cdef inline int put(Arguments* a, uint64_t value, int size) except -1:
    if a.count == MAX_ARGUMENTS:
        raise NotImplementedError(f"a kernel on this device takes at most {MAX_ARGUMENTS} arguments: too many dimensions")
    a.values[a.count], a.sizes[a.count] = value, size
    a.count += 1
    return 0


cdef dict faults = {}             # device -> a tensor of one int64, 0 unless an index was out of bounds


cdef bint run_on(Device device, uint64_t kernel, bint checks, tuple operands, int outputs, tuple axes, int serial,
                 list scalars) except *:
    """`run` on a device, in the order of `schedule_gpu_indexed.parameters`.  Only kernels that check indices are waited for."""
    cdef Arguments a
    cdef TensorBase t, fault
    cdef int64_t places = 1, one = 1, found = 0
    cdef double number
    cdef uint64_t bits
    cdef int k, d
    for d in range(len(axes) - serial):
        places *= <int64_t>axes[d]
    if places == 0:
        return True
    if device not in faults:
        fault = faults[device] = new_tensor_on(device, 1, &one, I64)
        device.fill(<uintptr_t>place_of(fault), 0, 8)
    fault = <TensorBase>faults[device]
    a.count = 0
    for x in operands:
        put(&a, <uintptr_t>place_of(<TensorBase>x), 0)
        put(&a, 0, 8)
    put(&a, <uintptr_t>place_of(fault), 0)
    for n in axes:
        put(&a, <uint64_t><int64_t>n, 8)
    for x in operands:
        t = <TensorBase>x
        for d in range(t.rank):
            put(&a, t.sizes[d], 8)
        for d in range(t.rank):
            put(&a, t.strides[d], 8)
    for value in scalars:
        if isinstance(value, float):
            number = value
            memcpy(&bits, &number, 8)
        else:
            bits = <uint64_t><int64_t>value
        put(&a, bits, 8)
    device.launch(kernel, max(min((places + BLOCK - 1) // BLOCK, <int64_t>(8 * device.processors)), <int64_t>1), BLOCK, &a)
    for k in range(outputs):
        wrote(<TensorBase>operands[k])
    if checks:
        device.copy_out(&found, <uintptr_t>place_of(fault), 8, True)
        if found:
            device.fill(<uintptr_t>place_of(fault), 0, 8)
    return found == 0


cdef class Launcher:
    """The kernels of one declared operation (`ops/declare_indexed.py`), by what they are specialised on."""
    cdef object declaration
    cdef frozenset static
    cdef int64_t effort
    cdef dict kernels

    def __init__(self, declaration, frozenset static, effort):
        self.declaration, self.static, self.effort, self.kernels = declaration, static, effort, {}

    def run(self, tuple operands, int outputs, tuple axes, int serial, bint lanes, dict params) -> bool:
        """Whether all indices were in bounds.  `lanes`: the last parallel axis is the innermost in memory.

        A kernel is asked for by: for each operand its dtype code, whether its last stride is 1 (bit 4) and its rank (from
        bit 5); whether all offsets fit into 32 bits; the static arguments; the types of the others; how many axes are
        parallel and serial; whether lanes run along the last parallel axis.
        """
        cdef list key = [], given = [], scalars = []
        cdef TensorBase t
        cdef Device device = (<TensorBase?>operands[0]).storage.on
        cdef int64_t reach
        cdef bint short = True, vector
        cdef int d, last = len(axes) - serial - 1
        for x in operands:
            t = <TensorBase?>x
            if t.storage.on is not device:
                raise RuntimeError(f"{self.declaration.name}(): Expected all tensors to be on the same device, but found at least "
                                   f"two devices, {operands[0].device} and {x.device}!")
            reach = 0
            for d in range(t.rank):
                reach += (t.sizes[d] - 1 if t.sizes[d] else 0) * t.strides[d]
            short = short and reach < 1 << 30 and t.count < 1 << 30
            key.append(t.code | (t.rank > 0 and t.strides[t.rank - 1] == 1) << 4 | t.rank << 5)
        t = <TensorBase>operands[0]
        vector = lanes and last >= 0 and <int64_t>axes[last] >= LEAST_LANES and t.width < 16
        signature = tuple(key)
        for name, value in params.items():
            if name in self.static:
                given.append(value)
            else:
                scalars.append(value)
                given.append(type(value))
        wanted = (signature, short | vector << 1 | outputs << 2 | serial << 8 | len(axes) << 16, device, *given)
        found = self.kernels.get(wanted)
        if device is None:
            if found is None:
                found = self.declaration.address(signature, short, params, outputs, len(axes), serial, vector)
                self.kernels[wanted] = found
            return run(<kernel_t><void*><uintptr_t>found, operands, outputs, axes, serial, scalars, self.effort)
        if found is None:
            found = self.load(device, self.declaration.kernel(signature, short, params, outputs, len(axes), serial, False))
            self.kernels[wanted] = found
        return run_on(device, found[0], found[1], operands, outputs, axes, serial, scalars)

    cdef tuple load(self, Device device, kernel):
        """The kernel on a device, and whether it checks indices."""
        from ..devices import images

        image, digest, native = images.find(kernel, (), device.target, device.fingerprint)
        handle = device.load(image, images.SYMBOL)
        if not native:
            images.keep(digest, image, device.native())
        return handle, kernel.checks()
