# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernels on devices: how a plan made in `call` or `rows` becomes threads; fills; copies between devices.

A kernel is compiled for a device and a form (dimensions, threads a row, width of offsets; see
`codegen/schedule_gpu.py`).  The operation's table finds its `Family`, which knows the kernel and, by form,
what has been loaded.
"""
from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from cpython.object cimport PyObject
from ..base.device cimport Device, Arguments, Grid, MAX_ARGUMENTS, device_for, is_forked
from ..base.device import accelerator_type
from ..base.dtypes cimport dtype_of
from ..base.memory import storage_from_address
from ..base.callbacks import callbacks
from ..base.profiling cimport mark, note_work, profiling
from ..base.sizes cimport mul_overflow
from ..base.tensor cimport storage_error, TensorBase, MAX_DIMS, alias, find_contiguous, new_strided_on, data_address, bump_version
from ..call.kernels cimport Plan, Launch, Family, Operand, device_launcher, one_device
from ..call.pointwise cimport copied, preserve_strides
from ..call.layout cimport layout
from .rows cimport Rows
from ..tape.modes cimport grad_enabled, wants_grad
from ..tape.formulas import record

cdef enum:
    BLOCK = 256               # schedule_gpu_threads.BLOCK: threads a block
    SHORT = 1 << 31           # offsets and counts below are computed in 32 bits
    BUSY = 1 << 15            # threads of rows that keep a device busy


# --- the arguments of a launch ------------------------------
cdef inline int put(Arguments* a, uint64_t value, int size) except -1:
    if a.count == MAX_ARGUMENTS:
        raise NotImplementedError(f"a kernel on this device takes at most {MAX_ARGUMENTS} arguments: too many operands of too "
                                  "many dimensions that cannot be merged; make them contiguous first")
    a.values[a.count], a.sizes[a.count] = value, size
    a.count += 1
    return 0


cdef int put_scalars(Arguments* a, Family family, const uint64_t* scalars) except -1:
    """Doubles become floats where the kernel computes in those."""
    cdef double wide
    cdef float narrow
    cdef uint64_t bits
    cdef Py_ssize_t k
    for k in range(len(family.narrow)):
        bits = scalars[k]
        if family.narrow[k]:
            memcpy(&wide, &bits, 8)
            narrow = <float>wide
            bits = 0
            memcpy(&bits, &narrow, 4)
        put(a, bits, 4 if family.narrow[k] else 8)
    return 0


cdef inline int64_t magnitude(int64_t x) noexcept nogil:
    return -x if x < 0 else x


cdef inline int64_t blocks(Device device, int64_t count, int width) noexcept:
    """How many blocks to launch for `count` elements, or rows of `width` threads."""
    cdef int64_t wanted = (count * width + BLOCK - 1) // BLOCK, most = 8 * device.processors
    return max(min(wanted, most), <int64_t>1)


cdef uint64_t handle_for(Family family, Device device, int dims, int folded, int width, bint wide, int held=0) except 0:
    """The loaded kernel in that form, made when it is new."""
    cdef uint64_t handle
    cdef object key = (<uintptr_t><void*>device, (dims << 24) | (folded << 16) | (held << 10) | (width << 1) | wide)
    result = family.loaded.get(key)
    if result is not None:
        return result
    images = callbacks["images"]()
    image, digest, native = images.find(family.kernel, (dims, folded, width, wide, held), device.target, device.processor,
                                        device.fingerprint)
    handle = device.load(image, images.SYMBOL)
    if not native:
        images.keep(digest, image, device.native())
    family.loaded[key] = handle
    return handle


cdef int launch_threads(Device device, Family family, uint64_t handle, int64_t groups, Arguments* a) except -1:
    """Launch a kernel whose threads go on until no element is left: for it a grid beyond the device's limit is folded."""
    cdef Grid grid
    grid.blocks[:] = [min(groups, <int64_t>device.limits.blocks[0]), 1, 1]
    grid.threads[:] = [BLOCK, 1, 1]
    grid.shared = 0
    return launch_profiled(device, family, handle, &grid, a)


cdef int launch_profiled(Device device, Family family, uint64_t handle, const Grid* grid, Arguments* a) except -1:
    """Launch a kernel, between two marks where a profiler measures it."""
    cdef uint64_t first
    device.check_grid(grid)
    if not (profiling.on and profiling.devices):
        return device.launch(handle, grid, a)
    first = mark(device)
    device.launch(handle, grid, a)
    return note_work(device, family.kernel.name, first, mark(device))


# --- pointwise ------------------------------
cdef int run_pointwise(Device device, Family family, Launch* launch) except -1:
    cdef const Plan* plan = launch.plan
    cdef Arguments a
    cdef int64_t reach, groups
    cdef bint wide = plan.count >= SHORT
    cdef int k, d, n = plan.operands
    cdef uint64_t handle
    if plan.count == 0 or device.blank:
        return 0
    for k in range(n):
        reach = 0
        for d in range(plan.rank):
            reach += (plan.sizes[d] - 1) * magnitude(plan.strides[k * plan.pitch + d])
        wide = wide or reach >= SHORT
    handle = handle_for(family, device, plan.rank, 1, 1, wide)
    a.count = 0
    for k in range(n):
        put(&a, <uintptr_t>launch.data[k], 0)
        put(&a, 0, 8)
    for d in range(plan.rank - 1, -1, -1):
        put(&a, plan.sizes[d], 8)
    put(&a, 0, 8)
    for k in range(n):
        for d in range(plan.rank - 1, -1, -1):
            put(&a, plan.strides[k * plan.pitch + d], 8)
    put_scalars(&a, family, launch.scalars)
    groups = blocks(device, plan.count, 1)
    return launch_threads(device, family, handle, groups, &a)


device_launcher.pointwise = run_pointwise


# --- rows ------------------------------
cpdef (int, int) row_form(int64_t length, int64_t rows, bint along, int lanes, int most):
    """How many threads share a row of `length` elements where there are `rows` of them, and how many elements each of them holds in
    registers: 0 where the row is read once for each pass over it.

    `along`: neighbouring threads read neighbouring elements of a row, `lanes` threads together; else they are on neighbouring rows.
    `most`: how many elements a thread may hold (`schedule_gpu_rows.most_held`), 0 where that saves nothing.
    """
    cdef int held, width = 1
    cdef int usual = min(most, 16)    # more only where a whole block could not hold the row
    cdef int64_t least = 0 if most == 0 else (length + usual - 1) // usual
    if along:  # those that read together, more where the device would be idle, or could not hold the row
        while width < BLOCK and (width < 8 or width < least or width * 4 < length and (width < lanes or rows * width < BUSY)):
            width *= 2
    else:  # 32 neighbouring rows at least
        while width < BLOCK // 32 and 2 * width * 4 <= length and (rows * width < BUSY or width < least <= BLOCK // 32):
            width *= 2
    for held in (min(most, 4), usual, most):
        if 0 < length <= width * held:
            return width, held
    return width, 0


cdef (int, int) scan_form(int64_t length, bint along, int most) noexcept:
    """The same for a scan: one thread a row, or a block, whose threads take some elements each at a time."""
    if not along or length < 64:
        return 1, 0
    if length <= BLOCK:
        return BLOCK, 1
    return BLOCK, min(most, 4) if length <= 4 * BLOCK else most


cdef int64_t* row_strides(Rows* rows, int k, int64_t* to) noexcept:
    """Operand k's strides: of the outer loops from the outermost on, of the lanes' loop, then of the row."""
    cdef int d
    for d in range(rows.outer):
        to[d] = rows.outer_stride[k * rows.pitch + rows.outer - 1 - d]
    memcpy(to + rows.outer, rows.strides + 3 * k, 3 * sizeof(int64_t))
    return to


cdef int run_rows(void* given) except -1:
    cdef Rows* rows = <Rows*>given
    cdef Device device = <Device>rows.device
    cdef Family family = <Family><object><void*>rows.run
    cdef Arguments a
    cdef int64_t strides[MAX_DIMS + 3]
    cdef int64_t reach, count = rows.k, length = rows.r0 * rows.r1, groups
    cdef bint wide
    cdef int k, d, width, held, lanes, most, dims = rows.outer + 1, folded = 2 if rows.r1 != 1 else 1
    cdef uint64_t handle
    if device.blank:
        return 0
    for d in range(rows.outer):
        count *= rows.outer_size[d]
    if count == 0:
        return 0
    wide = count * max(length, <int64_t>1) >= SHORT
    for k in range(rows.operands):
        row_strides(rows, k, strides)
        reach = (rows.k - 1) * magnitude(strides[rows.outer])
        reach += max(rows.r1 - 1, <int64_t>0) * magnitude(strides[rows.outer + 1])
        reach += max(rows.r0 - 1, <int64_t>0) * magnitude(strides[rows.outer + 2])
        for d in range(rows.outer):
            reach += (rows.outer_size[rows.outer - 1 - d] - 1) * magnitude(strides[d])
        wide = wide or reach >= SHORT
    limits = family.loaded.get(device.target)
    if limits is None:
        limits = family.loaded[device.target] = callbacks["images"]().row_limits(family.kernel, device.target)
    lanes, most, scans = limits
    width, held = scan_form(length, rows.along, most) if scans else row_form(length, count, rows.along, lanes, most)
    handle = handle_for(family, device, dims, folded, width, wide, held)
    a.count = 0
    for k in range(rows.operands):
        put(&a, <uintptr_t>rows.data[k], 0)
        put(&a, 0, 8)
    for d in range(rows.outer):
        put(&a, rows.outer_size[rows.outer - 1 - d], 8)
    put(&a, rows.k, 8)
    if folded == 2:
        put(&a, rows.r1, 8)
    put(&a, rows.r0, 8)
    put(&a, rows.total, 8)
    put(&a, rows.index_first, 8)
    for d in range(rows.outer - 1, -1, -1):
        put(&a, rows.outer_step if d == 0 else 0, 8)
    put(&a, rows.index_step, 8)
    for k in range(rows.operands):
        row_strides(rows, k, strides)
        for d in range(rows.outer + 1):
            put(&a, strides[d], 8)
        if folded == 2:
            put(&a, strides[rows.outer + 1], 8)
        put(&a, strides[rows.outer + 2], 8)
    put_scalars(&a, family, rows.scalars)
    groups = blocks(device, count, width)
    return launch_threads(device, family, handle, groups, &a)


device_launcher.rows = run_rows


# --- indexed kernels ------------------------------
cdef int run_indexed(Family family, tuple operands, int outputs, tuple axes, int serial, list scalars, str name) except -1:
    """Run a kernel (see `codegen/indexed.py`) over all places of `axes`, as `indexed.launch` does on the host; the
    operands are on one device, which reports an index out of bounds when the host next waits for it.
    """
    cdef Arguments a
    cdef PyObject* tensors[64]
    cdef Device device
    cdef TensorBase t
    cdef double real
    cdef uint64_t bits
    cdef int64_t count = 1
    cdef int k, d
    for k in range(len(operands)):
        tensors[k] = <PyObject*>operands[k]
    device = one_device(name, tensors, <int>len(operands))
    for k in range(len(axes)):
        if axes[k] == 0:
            return 0
        count *= <int64_t>(axes[k] if k < len(axes) - serial else 1)
    if device.blank:
        for k in range(outputs):
            bump_version(<TensorBase>operands[k])
        return 0
    a.count = 0
    for x in operands:
        put(&a, <uintptr_t>data_address(<TensorBase>x), 0)
        put(&a, 0, 8)
    put(&a, device.fault_place(name if family.checks else None), 0)
    for x in axes:
        put(&a, <uint64_t><int64_t>x, 8)
    for x in operands:
        t = <TensorBase>x
        for d in range(t.rank):
            put(&a, t.sizes[d], 8)
        for d in range(t.rank):
            put(&a, t.strides[d], 8)
    for x in scalars:
        if isinstance(x, float):
            real = x
            memcpy(&bits, &real, 8)
        else:
            bits = <uint64_t><int64_t>x
        put(&a, bits, 8)
    launch_threads(device, family, handle_for(family, device, 0, 0, 0, False), blocks(device, count, 1), &a)
    for k in range(outputs):
        bump_version(<TensorBase>operands[k])
    return 0


# --- kernels of blocks ------------------------------
cdef dict block_families = {}    # kernel, and the device by type and index -> Family


def run_blocks(object kernel, tuple tensors not None, tuple numbers not None, tuple scalars not None) -> None:
    """Launch a kernel that says itself what a block computes, such as `codegen/schedule_gpu_products.py`: its parameters are where the
    tensors' elements begin, 64-bit numbers, and scalars, floats or ints.  `kernel.fitted(vector, processor)` is the kernel for a device
    whose threads have such vectors and that has such a processor, and `blocks(target, numbers)` of that a `Blocks` of `codegen/schedule_gpu_threads.py`.
    """
    cdef Arguments a
    cdef PyObject* given[8]
    cdef Device device
    cdef double real
    cdef uint64_t bits
    cdef Grid grid
    cdef uint64_t handle
    cdef int k
    if len(tensors) > 8:
        raise ValueError("run_blocks: at most 8 tensors")
    for k in range(len(tensors)):
        given[k] = <PyObject*>tensors[k]
    device = one_device(kernel.name, given, <int>len(tensors))
    if device.blank:
        return
    place = (kernel, device.type, device.index)
    family = block_families.get(place)
    if family is None:
        vector = device.properties().get("native_vector_width_float", 1)
        family = block_families[place] = Family(kernel.fitted(vector, device.processor))
    blocks = (<Family>family).kernel.blocks(device.target, numbers)
    if 0 in blocks.blocks:
        return
    a.count = 0
    for t in tensors:
        put(&a, <uintptr_t>data_address(<TensorBase?>t), 0)
    for n in numbers:
        put(&a, <uint64_t><int64_t>n, 8)
    for x in scalars:
        if isinstance(x, float):
            real = x
            memcpy(&bits, &real, 8)
        else:
            bits = <uint64_t><int64_t>x
        put(&a, bits, 8)
    handle = handle_for(<Family>family, device, 0, 0, 0, False)
    for k in range(3):
        grid.blocks[k], grid.threads[k] = blocks.blocks[k], blocks.threads[k]
    grid.shared = blocks.shared
    launch_profiled(device, <Family>family, handle, &grid, &a)


# --- copies between devices ------------------------------
cdef int refuse_in_capture(TensorBase source, Device device, bint wait) except -1:
    """RuntimeError for a copy between memories that a graph which is being captured cannot hold: one the host waits for."""
    cdef bint pinned_source = isinstance(source.storage.owner, Pinned)
    if source.storage.on is not None and source.storage.on.capturing():
        raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing: a copy from {source.device} to "
                           f"{'cpu' if device is None else device.place}, for which the host waits")
    if source.storage.on is None and device.capturing() and not pinned_source:
        raise RuntimeError("Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
                           "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.")
    return 0


cdef TensorBase moved(TensorBase source, Device device, bint wait=True):
    """The same elements in another memory, not recorded: one copy of all bytes, so a source with gaps or repeats is
    packed where it is first.  Without `wait`, a copy out of pinned memory runs beside the host's work.
    """
    cdef TensorBase dense = source, out
    cdef int64_t strides[MAX_DIMS]
    cdef Operand operand
    cdef size_t nbytes = source.count * source.width
    operand.tensor = <PyObject*>source
    layout(strides, source.rank, source.sizes, &operand, 1)
    preserve_strides(strides, source)
    if source.storage.on is not None and source.storage.on.blank:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if device is not None and device.blank:
        return new_strided_on(device, source.rank, source.sizes, strides, source.code)
    for d in range(source.rank):
        if source.sizes[d] > 1 and source.strides[d] != strides[d]:
            dense = copied(source.detach(), source.code, False)
            break
    out = new_strided_on(device, source.rank, source.sizes, strides, source.code)
    if nbytes == 0:
        return out
    if not (device is not None and device is dense.storage.on):
        refuse_in_capture(dense, device, wait)
    cdef Device queue = dense.storage.on if device is None else device
    cdef bint direct = dense.storage.on is None or device is None or device is dense.storage.on
    cdef uint64_t first = mark(queue) if profiling.on and profiling.devices and direct else 0
    if dense.storage.on is None:
        device.copy_in(<uintptr_t>data_address(out), data_address(dense), nbytes,
                       wait or not isinstance(dense.storage.owner, Pinned))
    elif device is None:
        dense.storage.on.copy_out(data_address(out), <uintptr_t>data_address(dense), nbytes, True)
        dense.storage.on.check_fault()
    elif device is dense.storage.on:
        device.copy_within(<uintptr_t>data_address(out), <uintptr_t>data_address(dense), nbytes)
    elif not device.copy_from(dense.storage.on, <uintptr_t>data_address(out), <uintptr_t>data_address(dense), nbytes):
        out = moved(moved(dense, None), device)  # by way of the host; each of them tells the profiler
    if first:
        note_work(queue, f"Memcpy {'HtoD' if dense.storage.on is None else 'DtoH' if device is None else 'DtoD'}", first, mark(queue))
    return out


def _back(grad, place):
    return (grad.to(place),)


cdef TensorBase moved_tracked(TensorBase source, Device device, bint wait=True):
    cdef TensorBase out
    if source.storage.on is device:
        return source
    out = moved(source, device, wait)
    if grad_enabled() and wants_grad(source) and dtype_of(source.code).category >= 2:
        record("ToCopyBackward0", _back, (source,), out, (), (source.device,))
    return out


cdef TensorBase moved_synchronously(TensorBase source, Device device):
    return moved_tracked(source, device)


device_launcher.moved = moved_synchronously


cdef class Pinned:
    """Page-locked memory of the host, given back when no tensor uses it."""

    cdef Device device
    cdef void* memory

    def __dealloc__(self):
        if self.memory != NULL and not is_forked():
            self.device.free_host(self.memory)


cdef TensorBase pinned(TensorBase source, Device device):
    """A copy of a tensor of the host in page-locked memory."""
    cdef Pinned block = Pinned()
    cdef TensorBase out
    cdef int64_t nbytes
    if mul_overflow(max(source.count, 1), source.width, &nbytes):
        raise storage_error("the CPU", source.rank, source.sizes, NULL, source.code)
    block.device, block.memory = device, device.allocate_host(nbytes)
    out = alias(source, source.rank, source.sizes, source.strides, 0)
    layout_of(out, source)
    out.storage = storage_from_address(<uintptr_t>block.memory, nbytes, block)
    find_contiguous(out)
    device_launcher.copy(out, source)
    return out


cdef int layout_of(TensorBase out, TensorBase source) except -1:
    """Strides without gaps, in the source's order of dimensions."""
    cdef Operand operand
    operand.tensor = <PyObject*>source
    layout(out.strides, source.rank, source.sizes, &operand, 1)
    return 0


def pin_memory(TensorBase input not None, device=None) -> TensorBase:
    """The tensor in page-locked memory of the host, from where `to(device, non_blocking=True)` copies beside the host's work;
    itself where it is there already.

    RuntimeError for a tensor on a device, and where there is no accelerator; a device that is the processor itself, as OpenCL's may
    be, has to be named.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.ones(2).pin_memory().is_pinned()
    """
    cdef Device result
    if input.storage.on is not None:
        raise RuntimeError(f"pin_memory(): cannot pin memory of {input.device}: only tensors on the CPU can be pinned")
    if isinstance(input.storage.owner, Pinned):
        return input
    if device is None:
        device = accelerator_type()
        if device is None:
            raise RuntimeError("pin_memory(): Cannot access accelerator device when none is available.")
    result = device_for(device, "pin_memory")
    if result is None:
        raise RuntimeError("pin_memory(): memory is pinned for an accelerator, not for the CPU")
    if wants_grad(input):
        input = <TensorBase>(<object>input).detach()
    return pinned(input, result)


cdef TensorBase pinned_for_first(TensorBase source):
    return <TensorBase>pin_memory(source)


device_launcher.pinned = pinned_for_first


def record_stream(TensorBase tensor not None, uint64_t stream) -> None:
    """Keep the tensor's memory, once freed, until work that `stream` holds by then has run.  RuntimeError for a tensor that
    is not on a device with several streams.
    """
    if tensor.storage.on is None or not tensor.storage.on.several_streams():
        raise RuntimeError(f"record_stream(): argument 'self' must be on a cuda device, got {tensor.storage.device}")
    if stream != tensor.storage.stream:
        if tensor.storage.owner is None:
            tensor.storage.owner = set()
        tensor.storage.owner.add(stream)


def is_pinned(TensorBase input not None, device=None) -> bool:
    """Whether the memory is page-locked for an accelerator.

    Shape:
        input: any

    Raises:
        TypeError: `input` is no Tensor

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).is_pinned()
    False
    """
    return isinstance(input.storage.owner, Pinned)


cdef int fill_pattern(TensorBase t, const char* pattern) except -1:
    """Every element becomes the bytes at `pattern`."""
    cdef TensorBase one
    cdef int64_t n = 1
    cdef int k
    cdef bint same = True
    if t.count == 0 or t.storage.on.blank:
        return 0
    for k in range(1, t.width):
        same = same and pattern[k] == pattern[0]
    if same and t.contiguous:
        return t.storage.on.fill(<uintptr_t>data_address(t), <unsigned char>pattern[0], t.count * t.width)
    one = new_strided_on(t.storage.on, 0, NULL, NULL, t.code)
    t.storage.on.copy_in(<uintptr_t>data_address(one), pattern, t.width, True)
    return device_launcher.copy(t, one)


device_launcher.fill = fill_pattern


def to_device(TensorBase input not None, place, str who, bint copy=False, bint non_blocking=False) -> TensorBase:
    """The tensor on that device (itself where it is there and no copy is requested), on the tape."""
    cdef Device device = device_for(place, who)
    if input.storage.on is device:
        return copied(input, input.code, False) if copy else input
    return moved_tracked(input, device, not non_blocking)
