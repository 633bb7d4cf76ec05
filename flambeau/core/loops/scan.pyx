# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Scans: which loops over a tensor, in which blocks.

A contiguous tensor is `outer` times `length` times `inner` elements.  Where `inner` is 1 a kernel goes along rows, else
along columns that stand side by side.  A few long rows are cut into blocks of fixed length: the states of all blocks, the
prefixes of those, and each block from the states before it.  The cut depends on the shape alone, so results have the same
bits for any number of threads.
"""
from libc.stdint cimport int64_t, uintptr_t
from cpython.object cimport PyObject
from ..call.kernels cimport device_launcher, kernel_t, Family, MAX_OUTPUTS
from ..call.destination cimport apart_from
from ..call.pointwise cimport copied
from ..base.dtypes cimport as_dtype, dtype, is_stored
from ..base.parallel cimport num_threads, parallel_for
from .rows cimport RowBuffers, Rows, attach_buffers
from ..base.tensor cimport TensorBase, bump_version, data_address, new_tensor, new_tensor_on, pointer, wrap_dim
from ..views.views cimport compact

cdef enum:
    BLOCK = 1 << 14            # elements of a row that are scanned from nothing
    FEW = 8                    # rows: from here on they are work enough for the threads
    COLUMNS = 512              # columns that are scanned together
    FEWEST = 128               # the same, where more of them would leave threads without work
    PARALLEL_FROM = 1 << 15    # elements from which threads pay off
    MAX_ALL = 2 * MAX_OUTPUTS + 1
    DEVICE_BLOCK = 4096        # elements of a row that a block of threads scans there, and rows that keep it busy
    MANY_ROWS = 512
    SHORTEST = 64              # elements of a column that a thread scans there, and columns that keep it busy
    MANY_COLUMNS = 1 << 15
    HEAD = 6                   # of a row kernel's geometry; see codegen/schedule_cpu_rows.py

cdef enum:
    WHOLE, TOTALS, JOINED, CONTINUED, BEFORE   # as in operations/declare/scan.py

cdef struct Scan:              # one launch: tasks share `rows` rows of each of `outer` groups
    kernel_t run
    int operands               # results, then inputs
    char* data[MAX_ALL]
    int width[MAX_ALL]
    int64_t rows, length, first, step
    int64_t row_stride[MAX_ALL]
    int64_t stride[MAX_ALL]    # from element to element of a row
    int64_t group_stride       # from group to group, of all operands
    int64_t strip              # rows a task


cdef void scan_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Scan* s = <Scan*>context
    cdef int64_t geometry[HEAD + 3 * MAX_ALL]
    cdef char* data[MAX_ALL]
    cdef int64_t strips = (s.rows + s.strip - 1) // s.strip, task, group, row
    cdef int k
    geometry[1], geometry[2], geometry[3], geometry[5] = 1, s.length, s.length, s.step
    for task in range(begin, end):
        group, row = task // strips, task % strips * s.strip
        geometry[0], geometry[4] = min(s.strip, s.rows - row), s.first + row * s.step
        for k in range(s.operands):
            data[k] = s.data[k] + (group * s.group_stride + row * s.row_stride[k]) * s.width[k]
            geometry[HEAD + 3 * k], geometry[HEAD + 3 * k + 1] = s.row_stride[k], 0
            geometry[HEAD + 3 * k + 2] = s.stride[k]
        s.run(data, geometry, NULL)


cdef void launch(Scan* s, int64_t groups, int64_t strip):
    cdef int64_t tasks, each
    s.strip = strip
    tasks = groups * ((s.rows + strip - 1) // strip)
    each = min(strip, s.rows) * s.length
    if tasks * each < PARALLEL_FROM:
        scan_range(s, 0, tasks)
        return
    each = PARALLEL_FROM // (each if each > 0 else 1)
    with nogil:
        parallel_for(scan_range, s, tasks, each if each > 0 else 1)


cdef int place(Scan* s, int k, TensorBase t, int64_t row_stride, int64_t stride, int64_t from_element) except -1:
    s.data[k], s.width[k] = pointer(t) + from_element * t.width, t.width
    s.row_stride[k], s.stride[k] = row_stride, stride
    return 0


cdef tuple kernel_for(declaration, Scan* s, int stage, bint along, int memory, int working):
    """Sets the launch's kernel; the codes of its results."""
    cdef tuple key = (stage, along, memory, working)
    cdef dict known = declaration.kernels
    result = known.get(key)
    if result is None:
        result = known[key] = declaration.address(stage, along, memory, working)
    s.run = <kernel_t><void*><uintptr_t>result[0]
    return <tuple>result[1]


def scan(declaration, TensorBase input not None, dim, dtype working not None, TensorBase out=None):
    """The results of a declared scan (`operations/declare/scan.py`) along `dim`: a tensor, or a tuple of several.

    Its one result is written to `out`, where that is given: of the right dtype and shape, also the input itself.
    """
    cdef TensorBase x = compact(input), t
    cdef Scan s
    cdef int axis = wrap_dim(dim, input.rank, declaration.name), d, k
    cdef int64_t outer = 1, inner = 1, length = x.sizes[axis] if x.rank else 1, strip
    cdef bint along
    cdef list results = []
    as_dtype(working, declaration.name)
    if is_stored(x.code) and not is_stored(working.code):
        x = copied(x, working.code, True)
    for d in range(x.rank):
        if d < axis:
            outer *= x.sizes[d]
        elif d > axis:
            inner *= x.sizes[d]
    along = inner == 1
    if x.storage.on is not None:
        results = scan_on_device(declaration, x, working, outer, length, inner)
        return into(out, results)
    codes = kernel_for(declaration, &s, WHOLE, along, x.code, working.code)
    for code in codes:
        results.append(new_tensor(x.rank, x.sizes, code) if out is None or not written_to(out, x, code) else out)
    if x.count == 0:
        return into(out, results)
    s.operands, s.length, s.first, s.step = len(results) + 1, length, 0, 0
    s.rows, s.group_stride = (outer if along else inner), length * inner
    for k in range(s.operands):
        t = x if k == len(results) else <TensorBase>results[k]
        place(&s, k, t, length if along else 1, 1 if along else inner, 0)
    if along and length >= 2 * BLOCK and outer < FEW:
        for k in range(<int>outer):
            scan_blocks(declaration, x, results, working, k * length, length)
    elif along:
        launch(&s, 1, 1 + BLOCK // length)
    else:
        strip = COLUMNS
        while strip > FEWEST and outer * ((inner + strip - 1) // strip) < 2 * num_threads():
            strip //= 2
        launch(&s, outer, strip)
    return into(out, results)


cdef bint written_to(TensorBase out, TensorBase x, int code):
    """Whether a kernel may write to `out`: below the input it reads each element before it writes that one."""
    if out.code != code or not out.contiguous:
        return False
    return apart_from(out, x) or (out.offset == x.offset and out.code == x.code)


cdef object into(TensorBase out, list results):
    """The results, or `out` with the one in it."""
    if out is None:
        return results[0] if len(results) == 1 else tuple(results)
    if results[0] is out:
        bump_version(out)
        return out
    return (<object>out).copy_(results[0])


cdef int scan_blocks(declaration, TensorBase x, list results, dtype working, int64_t start, int64_t length) except -1:
    """One long row.  The first block starts from nothing, the others from the states of those before."""
    cdef Scan s
    cdef list totals = [], before = []
    cdef TensorBase t
    cdef int64_t blocks = (length + BLOCK - 1) // BLOCK, count = blocks - 1, whole = length // BLOCK
    cdef int k, n = len(results), m
    s.group_stride = s.first = s.step = 0
    # the states of every block but the last
    codes = kernel_for(declaration, &s, TOTALS, True, x.code, working.code)
    m = len(codes)
    for code in codes:
        totals.append(new_tensor(1, &count, code))
        before.append(new_tensor(1, &count, code))
    s.operands, s.rows, s.length, s.step = m + 1, count, BLOCK, BLOCK
    for k in range(m):
        place(&s, k, <TensorBase>totals[k], 1, 0, 0)
    place(&s, m, x, BLOCK, 1, start)
    launch(&s, 1, 1)
    # their prefixes
    kernel_for(declaration, &s, JOINED, True, x.code, working.code)
    s.operands, s.rows, s.length, s.step = 2 * m, 1, count, 0
    for k in range(m):
        place(&s, k, <TensorBase>before[k], 0, 1, 0)
        place(&s, m + k, <TensorBase>totals[k], 0, 1, 0)
    launch(&s, 1, 1)
    # the blocks
    kernel_for(declaration, &s, WHOLE, True, x.code, working.code)
    s.operands, s.rows, s.length = n + 1, 1, BLOCK
    for k in range(n + 1):
        place(&s, k, x if k == n else <TensorBase>results[k], BLOCK, 1, start)
    launch(&s, 1, 1)
    kernel_for(declaration, &s, CONTINUED, True, x.code, working.code)
    s.operands, s.rows, s.first, s.step = n + 1 + m, whole - 1, BLOCK, BLOCK
    for k in range(n + 1):
        place(&s, k, x if k == n else <TensorBase>results[k], BLOCK, 1, start + BLOCK)
    for k in range(m):
        place(&s, n + 1 + k, <TensorBase>before[k], 1, 0, 0)
    launch(&s, 1, 1)
    if blocks > whole:
        s.rows, s.length, s.first = 1, length - whole * BLOCK, whole * BLOCK
        for k in range(n + 1):
            place(&s, k, x if k == n else <TensorBase>results[k], BLOCK, 1, start + whole * BLOCK)
        for k in range(m):
            place(&s, n + 1 + k, <TensorBase>before[k], 1, 0, whole - 1)
        launch(&s, 1, 1)
    return 0


# --- on a device ------------------------------
cdef struct Cut:               # outer × length × inner elements, whose length lies in blocks
    bint along
    int64_t outer, length, inner, block, blocks


cdef Cut cut_for(int64_t outer, int64_t length, int64_t inner) noexcept:
    """In blocks where the rows alone would leave threads without work; else one block is the row."""
    cdef Cut c
    c.along, c.outer, c.length, c.inner, c.block = inner == 1, outer, length, inner, length
    if c.along and outer < MANY_ROWS and length >= 2 * DEVICE_BLOCK:
        c.block = DEVICE_BLOCK
    elif not c.along and outer * inner < MANY_COLUMNS and length >= 2 * SHORTEST:
        c.block = max(outer * inner * length // MANY_COLUMNS, <int64_t>SHORTEST)
    c.blocks = (length + c.block - 1) // c.block if c.block > 0 else 1
    return c


cdef int loops_of(Rows* rows, RowBuffers* buffers, const Cut* c, int64_t blocks, int64_t block, int64_t total) except -1:
    """Rows of `block` elements, `blocks` of each that the tensor has, of `total` elements, along which elements know their place."""
    attach_buffers(rows, buffers, 2)
    rows.operands, rows.along, rows.r1, rows.r0, rows.index_first = 0, c.along, 1, block, 0
    rows.total = total
    if c.along:
        rows.k, rows.index_step, rows.outer_step = blocks, block, 0
        rows.outer, rows.outer_size[0] = 1, c.outer
    else:
        rows.k, rows.index_step, rows.outer_step = c.inner, 0, block
        rows.outer, rows.outer_size[0], rows.outer_size[1] = 2, blocks, c.outer
    return 0


cdef int operand(Rows* rows, TensorBase t, int64_t first, int64_t step, int64_t block, int64_t whole) except -1:
    """One operand more: how far it is from element to element of a row, from block to block, and from row to row of the tensor."""
    cdef int k = rows.operands
    rows.data[k], rows.width[k] = data_address(t) + first * t.width, t.width
    rows.strides[3 * k], rows.strides[3 * k + 1], rows.strides[3 * k + 2] = block if rows.along else 1, 0, step
    rows.outer_stride[k * rows.pitch] = whole if rows.along else block
    rows.outer_stride[k * rows.pitch + 1] = whole
    rows.operands = k + 1
    return 0


cdef int run_on_device(declaration, Rows* rows, int stage, TensorBase x, int working) except -1:
    result = kernel_away(declaration, stage, rows.along, x.code, working)
    rows.run, rows.device, rows.scalars = <kernel_t><void*><PyObject*>result[0], <PyObject*>x.storage.on, NULL
    return device_launcher.rows(rows)


cdef tuple kernel_away(declaration, int stage, bint along, int memory, int working):
    """The kernel of a stage for devices, and the codes of its results."""
    cdef tuple key = ("away", stage, along, memory, working)
    cdef dict known = declaration.kernels
    result = known.get(key)
    if result is None:
        kernel = declaration.kernel(stage, along, memory, working)
        result = known[key] = Family(kernel), declaration.result_codes(kernel)
    return <tuple>result


cdef list scan_on_device(declaration, TensorBase x, dtype working, int64_t outer, int64_t length, int64_t inner):
    """The same on a device: a block of threads goes along a row, or a thread along a column.  Few long ones are cut into blocks, in three
    launches: the states of all blocks, the prefixes of those, and all blocks from the states before them.
    """
    cdef Cut c = cut_for(outer, length, inner)
    cdef Rows rows
    cdef RowBuffers buffers
    cdef TensorBase t
    cdef list results = [], totals = [], before = []
    cdef int64_t count
    for code in kernel_away(declaration, WHOLE, c.along, x.code, working.code)[1]:
        results.append(new_tensor_on(x.storage.on, x.rank, x.sizes, code))
    if x.count == 0:
        return results
    if c.blocks > 1:
        count = c.outer * c.blocks * c.inner
        for code in kernel_away(declaration, TOTALS, c.along, x.code, working.code)[1]:
            before.append(new_tensor_on(x.storage.on, 1, &count, code))
        count += c.outer * c.inner      # of each row, one that nobody writes in front of the others
        for t in before:
            totals.append(new_tensor_on(x.storage.on, 1, &count, t.code))
        loops_of(&rows, &buffers, &c, c.blocks, c.block, c.length)
        for t in totals:
            operand(&rows, t, c.inner, 0, c.inner, (c.blocks + 1) * c.inner)
        operand(&rows, x, 0, c.inner, c.block * c.inner, c.length * c.inner)
        run_on_device(declaration, &rows, TOTALS, x, working.code)
        loops_of(&rows, &buffers, &c, 1, c.blocks, c.blocks)
        for t in before:
            operand(&rows, t, 0, c.inner, 0, c.blocks * c.inner)
        for t in totals:
            operand(&rows, t, 0, c.inner, 0, (c.blocks + 1) * c.inner)
        run_on_device(declaration, &rows, BEFORE, x, working.code)
    loops_of(&rows, &buffers, &c, c.blocks, c.block, c.length)
    for t in results:
        operand(&rows, t, 0, c.inner, c.block * c.inner, c.length * c.inner)
    operand(&rows, x, 0, c.inner, c.block * c.inner, c.length * c.inner)
    for t in before:
        operand(&rows, t, 0, 0, c.inner, c.blocks * c.inner)
    run_on_device(declaration, &rows, CONTINUED if c.blocks > 1 else WHOLE, x, working.code)
    return results
