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
from .rows cimport RowRoom, Rows, attach_room
from ..base.tensor cimport TensorBase, bump_version, data_address, new_tensor, new_tensor_on, pointer, wrap_dim
from ..views.views cimport compact

cdef enum:
    BLOCK = 1 << 14            # elements of a row that are scanned from nothing
    FEW = 8                    # rows: from here on they are work enough for the threads
    COLUMNS = 512              # columns that are scanned together
    FEWEST = 128               # the same, where more of them would leave threads without work
    PARALLEL_FROM = 1 << 15    # elements from which threads pay off
    MAX_ALL = 2 * MAX_OUTPUTS + 1
    HEAD = 6                   # of a row kernel's geometry; see codegen/schedule_cpu_rows.py

cdef enum:
    WHOLE, TOTALS, JOINED, CONTINUED

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
        results.append(scan_on_device(declaration, x, working, outer, length, inner))
        return results[0] if out is None else into(out, results)
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


cdef object scan_on_device(declaration, TensorBase x, dtype working, int64_t outer, int64_t length, int64_t inner):
    """The same on a device, in one launch: a block of threads goes along a row, or a thread along a column."""
    cdef Rows rows
    cdef RowRoom room
    cdef TensorBase t
    cdef bint along = inner == 1
    cdef tuple key = ("away", along, x.code, working.code)
    cdef dict known = declaration.kernels
    cdef list results = []
    cdef int k
    result = known.get(key)
    if result is None:
        kernel = declaration.kernel(WHOLE, along, x.code, working.code)
        result = known[key] = Family(kernel), declaration.result_codes(kernel)
    for code in result[1]:
        results.append(new_tensor_on(x.storage.on, x.rank, x.sizes, code))
    rows.run, rows.device, rows.scalars = <kernel_t><void*><PyObject*>result[0], <PyObject*>x.storage.on, NULL
    attach_room(&rows, &room, 1)
    rows.operands, rows.along, rows.scans = len(results) + 1, along, True
    rows.r1, rows.r0, rows.total, rows.index_first, rows.index_step = 1, length, length, 0, 0
    rows.k, rows.outer, rows.outer_size[0] = (outer if along else inner), (0 if along else 1), outer
    for k in range(rows.operands):
        t = x if k == len(results) else <TensorBase>results[k]
        rows.data[k], rows.width[k], rows.outer_stride[k] = data_address(t), t.width, length * inner
        rows.strides[3 * k], rows.strides[3 * k + 1], rows.strides[3 * k + 2] = length if along else 1, 0, 1 if along else inner
    if x.count:
        device_launcher.rows(&rows)
    return results[0] if len(results) == 1 else tuple(results)
