# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Reductions and row programs: which loops, in what order, in how many stages.

Dimensions fall into two groups, those that are reduced ("the row") and those that are kept.  Within each
group, dimensions that lie one after another in memory merge.  Vector lanes run along the row where it is
contiguous, else along the kept dimension that is.  A long row is cut into blocks of fixed length whose
partial states a second kernel combines: the cut depends on shapes alone, so a result has the same bits for
any number of threads, and its rounding error grows with the logarithm of the length.
"""
from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from cpython.object cimport PyObject
cimport cython
from ..base.dtypes cimport C32, C64, F16, F32, NO_CODE, dtype, as_dtype, dtype_of, is_stored, CATEGORY, ITEMSIZE, size_from
from ..base.tensor cimport TensorBase, MAX_DIMS, new_object, set_rank, new_tensor_on, new_strided_on, data_address, parse_dims, wrap_dim, as_int, bump_version, runtime
from ..base.device cimport Device
from ..base.sizes cimport row_major
from ..tape.nodes cimport Node
from ..tape.formulas cimport FormulaNode
from ..tape.saved cimport Slot, save_tensor
from ..tape.modes cimport grad_enabled, wants_grad
from ..tape.history cimport attach
from ..call.operation cimport Op, make_callable, prepare_op
from ..call.kernels cimport (
    ON_DEVICE, BROADCAST, CONTIGUOUS, MAX_ALL, MAX_OPERANDS, MAX_OUTPUTS, MAX_PARAMS, STRIDED, Kernel, Operand, Table, access_of, device_launcher,
    insert, insert_family, kernel_t, look_up, one_device,
)
from ..call.operands cimport common_code
from ..call.pointwise cimport copied, not_implemented, wider
from ..call.destination cimport GIVEN, KIND, apart_from, check_destination
from ..call.destination import check_out, set_decomposition
from ..call.layout cimport align, broadcast
from ..call.function import FunctionOp
from ..call.signature cimport BOOL, DTYPE, MAX_BOUND, NOTHING, TENSOR, Signature
from ..base.parallel cimport parallel_interruptible, num_threads
from ..base.labels import SECOND_WITH_DIM, backward_name, saved_name
from libc.stdlib cimport calloc, free, malloc

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    bint PyBool_Check(object o)

cdef extern from "alloca.h" nogil:
    void* alloca(size_t n)

cdef enum:
    PARALLEL_FROM = 32768
    BLOCK = 16384                # elements of a contiguous row that one state set takes in
    COLUMN_BLOCK = 65536         # elements of a block of rows, where lanes run across
    SHORT = 16                   # elements of a contiguous row from which on lanes run along it
    MANY_ROWS = 32               # rows from which on they run across shorter ones
    DEVICE_BLOCK = 4096          # the same, either way, where there are thousands of threads to keep busy
    LEAST_PIECE = 64             # elements of a piece that is worth a state of its own there
    WHOLE = 0
    PARTIAL = 1
    FINAL = 2
    FAR = 2048                   # bytes from row to row from which on columns are far apart
    CACHED = 1 << 20             # bytes that a second-level cache holds,
    SETS = 1024                  # in so many sets
    WAYS = 16                    # of lines
    PANEL = 1 << 18              # bytes of an operand's panel
    LEAST_PANEL = 32             # columns
    MOST_PANEL = 512
    APART = 16                   # elements between a panel's rows, so that they do not meet in a cache

cdef struct Group:               # dimensions after merging, the innermost first
    int rank, pitch
    int64_t* size
    int64_t* stride              # of operand k along dimension d: [k * pitch + d]


# --- the arrays of a launch ------------------------------
cdef void attach_buffers(Rows* rows, RowBuffers* buffers, int pitch) noexcept nogil:
    """Arrays that stand elsewhere, for `pitch` outer loops at most."""
    rows.data, rows.width, rows.strides, rows.outer_size = buffers.data, buffers.width, buffers.strides, buffers.outer_size
    rows.outer_stride, rows.pitch = buffers.outer_stride, pitch


cdef Rows* new_rows(int operands, int outer) except NULL:
    """A launch with arrays for so many operands and outer loops, in one piece of memory for `free`."""
    cdef size_t whole = sizeof(Rows) + operands * sizeof(char*) + (3 * operands + outer + operands * outer) * sizeof(int64_t)
    cdef Rows* rows = <Rows*>calloc(1, whole + operands * sizeof(int))
    if rows == NULL:
        raise MemoryError
    rows.operands, rows.pitch = operands, outer
    rows.data = <char**>(rows + 1)
    rows.strides = <int64_t*>(rows.data + operands)
    rows.outer_size = rows.strides + 3 * operands
    rows.outer_stride = rows.outer_size + outer
    rows.width = <int*>(rows.outer_stride + operands * outer)
    return rows


# --- launches ------------------------------
cdef void rows_once(const Rows* rows, char** data, int64_t begin, int64_t end) noexcept nogil:
    cdef int n = rows.operands, i
    cdef int64_t* geometry = <int64_t*>alloca((6 + 3 * n) * sizeof(int64_t))
    cdef char** shifted = <char**>alloca(n * sizeof(char*))
    geometry[0], geometry[1], geometry[2], geometry[3] = end - begin, rows.r1, rows.r0, rows.total
    geometry[4], geometry[5] = rows.index_first + begin * rows.index_step, rows.index_step
    for i in range(n):
        shifted[i] = data[i] + begin * rows.strides[3 * i] * rows.width[i]
    for i in range(3 * n):
        geometry[6 + i] = rows.strides[i]
    rows.run(shifted, geometry, rows.scalars)


cdef inline bint in_panel(const Rows* rows, int i) noexcept nogil:
    """Whether an operand's columns lie side by side, and its rows apart."""
    return rows.strides[3 * i] == 1 and rows.strides[3 * i + 2] * rows.width[i] >= FAR


cdef void rows_in_panels(const Rows* rows, char** data, int64_t begin, int64_t end) noexcept nogil:
    """The same, some columns at a time: rows that are a power of two apart meet in few sets of a cache, so that a program that
    walks over its rows more than once would read them from memory each time.
    """
    cdef Rows own = rows[0]
    cdef int n = rows.operands, i, width
    cdef char** places = <char**>alloca(n * sizeof(char*))
    cdef char* memory
    cdef int64_t pitch = rows.panel + APART, r, k, columns, bytes = 0, apart
    for i in range(n):
        if in_panel(rows, i):
            bytes += rows.r0 * pitch * rows.width[i] + 64
    memory = <char*>malloc(bytes)
    if memory == NULL:
        rows_once(&own, data, begin, end)
        return
    own.strides = <int64_t*>alloca(3 * n * sizeof(int64_t))
    memcpy(own.strides, rows.strides, 3 * n * sizeof(int64_t))
    k = begin
    while k < end:
        columns = min(rows.panel, end - k)
        bytes = 0
        for i in range(n):
            width = rows.width[i]
            places[i] = data[i] + k * rows.strides[3 * i] * width
            if in_panel(rows, i):
                apart = rows.strides[3 * i + 2] * width
                own.strides[3 * i + 2] = pitch
                if i >= rows.outputs:
                    for r in range(rows.r0):
                        memcpy(memory + bytes + r * pitch * width, places[i] + r * apart, columns * width)
                places[i] = memory + bytes
                bytes += rows.r0 * pitch * width + 64
        own.index_first = rows.index_first + k * rows.index_step
        rows_once(&own, places, 0, columns)
        for i in range(rows.outputs):
            if in_panel(rows, i):
                width = rows.width[i]
                for r in range(rows.r0):
                    memcpy(data[i] + (k + r * rows.strides[3 * i + 2]) * width, places[i] + r * pitch * width, columns * width)
        k += rows.panel
    free(memory)


cdef void rows_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Part of the k loop for all outer places, or all of it for some of them."""
    cdef Rows* rows = <Rows*>context
    cdef int64_t place, rest, first_k, last_k, first = 0 if rows.cut_k else begin, last = rows.outer_total if rows.cut_k else end
    cdef char** data = <char**>alloca(rows.operands * sizeof(char*))
    cdef int d, i
    for place in range(first, last):
        memcpy(data, rows.data, rows.operands * sizeof(char*))
        rest = place
        for d in range(rows.outer):
            for i in range(rows.operands):
                data[i] += (rest % rows.outer_size[d]) * rows.outer_stride[i * rows.pitch + d] * rows.width[i]
            rest //= rows.outer_size[d]
        first_k, last_k = begin if rows.cut_k else 0, end if rows.cut_k else rows.k
        if rows.panel:
            rows_in_panels(rows, data, first_k, last_k)
        else:
            rows_once(rows, data, first_k, last_k)


cdef int64_t work_of(const Rows* rows) noexcept nogil:
    """Elements that a launch walks over, at least one a row."""
    cdef int64_t work = rows.k * max(rows.r0 * rows.r1, <int64_t>1)
    cdef int d
    for d in range(rows.outer):
        work *= rows.outer_size[d]
    return work


cdef int launch(Rows* rows) except -1 nogil:
    """On the pool where there is work enough, or on the launch's device."""
    cdef int64_t work = work_of(rows), n, grain, parts
    cdef int d
    if rows.device != NULL:
        with gil:
            return device_launcher.rows(rows)
    rows.outer_total = 1
    for d in range(rows.outer):
        rows.outer_total *= rows.outer_size[d]
    if work == 0:
        return 0
    if work < PARALLEL_FROM:
        if rows.outer or rows.panel:
            rows.cut_k = True
            rows_range(rows, 0, rows.k)
        else:
            rows_once(rows, rows.data, 0, rows.k)
        return 0
    parts = rows.k if rows.along else (rows.k + 63) // 64
    rows.cut_k = rows.outer_total < 4 * max(2, num_threads()) and rows.outer_total < parts
    n = rows.k if rows.cut_k else rows.outer_total
    grain = PARALLEL_FROM * n // work
    if grain < 1:
        grain = 1
    if rows.cut_k and not rows.along:
        grain = (grain + 63) // 64 * 64
    return parallel_interruptible(rows_range, rows, n, grain, <double>work / n)


# --- loops ------------------------------
cdef inline bint farther(int64_t a, int64_t b) noexcept nogil:
    """Whether stride a belongs outside of stride b."""
    return a == 0 and b != 0 or a > b and b != 0


cdef void gather_group(Group* group, const bint* chosen, bint wanted, int rank, const int64_t* sizes, const int64_t* strides, int n,
                       int guide, bint logical) noexcept nogil:
    """The dimensions of which `chosen` is as wanted, ordered by the guide's strides, those it is broadcast along last (or as they
    stand), merged where all operands allow it.
    """
    cdef int order[MAX_DIMS]
    cdef int used = 0, d, i, k
    cdef bint merge
    for d in range(rank - 1, -1, -1):
        if chosen[d] != wanted or sizes[d] == 1:
            continue
        i = used
        if not logical:
            while i > 0 and farther(strides[guide * rank + order[i - 1]], strides[guide * rank + d]):
                order[i] = order[i - 1]
                i -= 1
        order[i] = d
        used += 1
    group.rank = 0
    for i in range(used):
        d = order[i]
        merge = group.rank > 0
        if merge:
            for k in range(n):
                if strides[k * rank + d] != group.stride[k * group.pitch + group.rank - 1] * group.size[group.rank - 1]:
                    merge = False
                    break
        if merge:
            group.size[group.rank - 1] *= sizes[d]
        else:
            group.size[group.rank] = sizes[d]
            for k in range(n):
                group.stride[k * group.pitch + group.rank] = strides[k * rank + d]
            group.rank += 1


cdef bint any_moves(const int* access, int n) noexcept nogil:
    cdef int k
    for k in range(n):
        if access[k] != BROADCAST:
            return True
    return False


cdef int walk(Rows* rows, int* access, int rank, const int64_t* sizes, const int64_t* strides, const bint* reduced, const bint* full,
              int outputs, int inputs, int guide, bint ordered, bint on_host) noexcept nogil:
    """The loops over operands with `rank` strides each: which of them lie in a row is `reduced`, which outputs are as long as the row
    `full`; the order goes by the strides of operand `guide`, in `ordered` rows by that of the dimensions.  Returns in how many
    pieces a row lies; a kernel walks over two at most.
    """
    cdef int n = outputs + inputs, k, d, i, lane = 0
    cdef Group row, keeps
    cdef bint whole
    row.pitch = keeps.pitch = max(rank, 1)
    row.size = <int64_t*>alloca(2 * (n + 1) * row.pitch * sizeof(int64_t))
    keeps.size = row.size + row.pitch
    row.stride = keeps.size + row.pitch
    keeps.stride = row.stride + n * row.pitch
    gather_group(&row, reduced, True, rank, sizes, strides, n, guide, ordered)
    gather_group(&keeps, reduced, False, rank, sizes, strides, n, guide, False)
    if row.rank > 2:
        return row.rank
    rows.along, rows.panel, rows.outputs, rows.operands = True, 0, outputs, n
    if row.rank and keeps.rank:
        for k in range(n):
            if (k >= outputs or full[k]) and row.stride[k * row.pitch] > 1:
                rows.along = False
        if not rows.along:
            lane = -1
            for i in range(keeps.rank):
                if keeps.stride[guide * keeps.pitch + i] == 1:
                    lane = i
            if lane < 0:
                rows.along, lane = True, 0
        elif on_host and row.rank == 1 and row.size[0] < SHORT and keeps.size[0] >= MANY_ROWS:
            rows.along, lane = False, 0  # one row would leave most of the lanes idle
    rows.r0, rows.r1 = (row.size[0] if row.rank > 0 else 1), (row.size[1] if row.rank > 1 else 1)
    rows.k = keeps.size[lane] if keeps.rank else 1
    for d in range(rank):
        if sizes[d] == 0:
            if reduced[d]:
                rows.r0 = 0
            else:
                rows.k = 0
    rows.total = rows.r0 * rows.r1
    rows.index_first = rows.index_step = rows.outer_step = 0
    rows.outer = 0
    for i in range(keeps.rank):
        if i != lane:
            rows.outer_size[rows.outer] = keeps.size[i]
            for k in range(n):
                rows.outer_stride[k * rows.pitch + rows.outer] = keeps.stride[k * keeps.pitch + i]
            rows.outer += 1
    for k in range(n):
        whole = k >= outputs or full[k]
        rows.strides[3 * k] = keeps.stride[k * keeps.pitch + lane] if keeps.rank else 0
        rows.strides[3 * k + 1] = row.stride[k * row.pitch + 1] if row.rank > 1 else 0
        rows.strides[3 * k + 2] = row.stride[k * row.pitch] if row.rank > 0 else (1 if whole and not keeps.rank else 0)
        access[k] = access_of(rows.strides[3 * k + 2] if rows.along else rows.strides[3 * k])
        if rows.along and access[k] == BROADCAST and rows.strides[3 * k + 1]:
            access[k] = STRIDED  # a broadcast operand is one element for the whole row
        if rows.along and not whole:
            access[k] = BROADCAST
        elif not rows.along and k < outputs and access[k] == BROADCAST:
            access[k] = STRIDED
    return row.rank


cdef Kernel* kernel_for(RowOp op, bint on_host, int stage, bint along, const int* access, const int* codes, int inputs,
                        int outputs, int common, int wanted) except NULL:
    """The kernel for these dtypes and ways of walking; asks the compiler when it is new."""
    cdef uint64_t key0 = 0 if on_host else ON_DEVICE >> 6 * inputs, key1 = common
    cdef uintptr_t address
    cdef int k
    cdef Kernel* kernel
    for k in range(inputs):
        key0 = key0 << 6 | (codes[k] << 2) | access[outputs + k]
    for k in range(outputs):
        key1 = key1 << 2 | access[k]
    key1 = ((key1 << 4 | wanted) << 2 | stage) << 1 | along
    key1 = key1 << 4 | outputs
    kernel = look_up(&op.table, key0, key1)
    if kernel != NULL:
        return kernel
    wished = (stage, along, [(codes[k], access[outputs + k]) for k in range(inputs)], [access[k] for k in range(outputs)], common,
              wanted)
    if not on_host:
        program, result = op.declaration.program_for(*wished)
        return insert_family(&op.table, key0, key1, program, result)
    address, result = op.declaration.kernel(*wished)
    return insert(&op.table, key0, key1, <kernel_t><void*>address, result)


cdef int plan_rows(RowOp op, RowPlan* plan, PyObject** tensors, const int* dims, int ndims, bint keepdim, int wanted,
                   Device device) except -1:
    """How to walk over inputs of these shapes, strides and dtypes; `dims` are the row, `wanted` is the dtype requested or NO_CODE."""
    cdef Operand operands[MAX_OPERANDS]
    cdef int64_t strides[MAX_ALL * MAX_DIMS]      # of every operand along the dimensions of the input
    cdef bint reduced[MAX_DIMS]
    cdef bint full[MAX_OUTPUTS]
    cdef Rows* rows = &plan.rows
    cdef TensorBase t
    cdef int k, d, n = op.inputs, m = op.outputs, rank = 0, pieces
    cdef int64_t step
    for k in range(n):
        operands[k].tensor = tensors[k]
        broadcast(op.name, plan.sizes, &rank, <TensorBase>tensors[k], ())
    plan.rank, plan.result_rank, plan.outputs, plan.wanted, plan.on_host = rank, 0, m, wanted, device is None
    plan.common = common_code(operands, n, op.raw)
    for d in range(rank):
        reduced[d] = False
    for k in range(ndims):
        if rank:
            reduced[dims[k]] = True
    for d in range(rank):
        if not reduced[d] or keepdim:
            plan.result_sizes[plan.result_rank] = 1 if reduced[d] else plan.sizes[d]
            plan.result_rank += 1
        if reduced[d] and plan.sizes[d] == 0 and op.reduces:
            op.declaration.check_empty(False)
    row_major(rank, plan.sizes, plan.full_strides)    # as PyTorch's, whatever the operands' layout: `view` may rely on it
    for k in range(m):
        full[k] = op.full >> k & 1
        if full[k]:
            memcpy(&strides[k * rank], plan.full_strides, rank * sizeof(int64_t))
        else:
            step = 1
            for d in range(rank - 1, -1, -1):
                strides[k * rank + d] = 0 if reduced[d] else step
                if not reduced[d]:
                    step *= plan.sizes[d]
    attach_buffers(rows, &plan.buffers, max(rank, 1))
    for k in range(n):
        t = <TensorBase>tensors[k]
        plan.codes[k], rows.width[m + k] = t.code, t.width
        align(&strides[(m + k) * rank], t, rank)
    if op.from_origin:  # the first input once more, standing still along the row
        plan.codes[n], rows.width[m + n] = plan.codes[0], rows.width[m]
        for d in range(rank):
            strides[(m + n) * rank + d] = 0 if reduced[d] else strides[m * rank + d]
        n += 1
    plan.inputs = n
    pieces = walk(rows, plan.access, rank, plan.sizes, strides, reduced, full, m, n, m, op.ordered, plan.on_host)
    plan.scattered = pieces > 2 or (pieces == 2 and op.full)
    if plan.scattered:
        return 0
    if rows.along and op.full and n and not any_moves(plan.access + m, n):
        plan.access[m] = STRIDED  # the row's elements are all one, but a result as long as the row is written in full
    if op.from_origin and rows.r0 == 0:  # there is no first element: anything that may be read
        rows.strides[3 * (m + n - 1)] = 0
        for d in range(rows.outer):
            rows.outer_stride[(m + n - 1) * rows.pitch + d] = 0
    return plan_kernel(op, plan, pieces)


cdef bint in_stages(const Rows* rows, int pieces, bint on_host) noexcept nogil:
    """Whether rows of a reduction whose folds are independent are cut into blocks: on a device also rows of two pieces, each of the
    first of which is a block.
    """
    if rows.k == 0 or pieces == 0:
        return False
    if pieces == 2:
        return not on_host and rows.r0 >= LEAST_PIECE and rows.r1 * rows.r0 >= 2 * DEVICE_BLOCK
    if rows.along:
        return rows.r0 >= 2 * (BLOCK if on_host else DEVICE_BLOCK)
    return rows.r0 >= 64 and rows.r0 * rows.k >= 4 * (COLUMN_BLOCK if on_host else DEVICE_BLOCK)


cdef int plan_kernel(RowOp op, RowPlan* plan, int pieces) except -1:
    """In how many stages, by which kernel, and the results' dtypes."""
    cdef Rows* rows = &plan.rows
    cdef Kernel* kernel
    cdef int k
    plan.two = op.splits and in_stages(rows, pieces, plan.on_host)
    if plan.two:
        codes = op.declaration.two_stage_codes(plan.common, plan.wanted)[0]
        for k in range(plan.outputs):
            plan.result_codes[k] = codes[k]
    else:
        kernel = kernel_for(op, plan.on_host, WHOLE, rows.along, plan.access, plan.codes, plan.inputs, plan.outputs, plan.common,
                            plan.wanted)
        rows.run = kernel.run
        for k in range(plan.outputs):
            plan.result_codes[k] = kernel.codes[k]
    for k in range(plan.outputs):
        rows.width[k] = ITEMSIZE[plan.result_codes[k]]
    if not plan.two and op.full and plan.on_host and not rows.along and rows.r1 == 1:
        rows.panel = panel_of(rows)
    return 0


cdef int launch_rows(RowOp op, RowPlan* plan, PyObject** results, PyObject** inputs, const double* params, Device device) except -1:
    """Compute as planned: tensors of the planned geometry, and results as `new_result` makes them."""
    cdef Rows* rows = &plan.rows
    cdef uint64_t scalars[MAX_PARAMS]
    cdef int k
    rows.device = <PyObject*>device if device is not None else NULL
    memcpy(scalars, params, op.params * sizeof(double))
    rows.scalars = scalars
    for k in range(plan.outputs):
        rows.data[k] = data_address(<TensorBase>results[k])
    for k in range(op.inputs):
        rows.data[plan.outputs + k] = data_address(<TensorBase>inputs[k])
    if op.from_origin:
        rows.data[plan.outputs + op.inputs] = rows.data[0 if rows.r0 == 0 else plan.outputs]
    if plan.two:
        return run_stages(op, plan)
    if rows.device != NULL or work_of(rows) < PARALLEL_FROM:
        return launch(rows)
    with nogil:
        launch(rows)
    return 0


cdef TensorBase new_result(RowOp op, const RowPlan* plan, int k, Device device):
    """A tensor for a result, as the plan has it."""
    if op.full >> k & 1:
        return new_strided_on(device, plan.rank, <int64_t*>plan.sizes, <int64_t*>plan.full_strides, plan.result_codes[k])
    return new_tensor_on(device, plan.result_rank, <int64_t*>plan.result_sizes, plan.result_codes[k])


cdef bint direct(const RowPlan* plan, int k, tuple given, PyObject** inputs, int n):
    """Whether result k can be computed where it was requested: in a tensor as the plan has it, below no input and no other result."""
    cdef TensorBase out = <TensorBase>given[k]
    cdef int j
    if out.code != plan.result_codes[k] or not out.contiguous:
        return False
    for j in range(n):
        if not apart_from(out, <TensorBase>inputs[j]):
            return False
    for j in range(plan.outputs):
        if j != k and not apart_from(out, <TensorBase>given[j]):
            return False
    return True


cdef object run_rows(RowOp op, tuple tensors, int* dims, int ndims, bint keepdim, int wanted, double* params, tuple given):
    """Compute: `tensors` broadcast to one shape, `dims` are the row, `wanted` is the dtype requested or
    NO_CODE; `given` holds results to write to, or is None.
    """
    cdef RowPlan plan
    cdef PyObject* inputs[MAX_OPERANDS]
    cdef PyObject* made[MAX_OUTPUTS]
    cdef PyObject* present[MAX_ALL]
    cdef TensorBase t
    cdef int k, n = op.inputs, m = op.outputs, seen = wanted
    cdef bint is_tracked = False
    cdef Device device
    cdef list results = []
    for k in range(n):
        t = <TensorBase?>tensors[k]
        inputs[k] = present[k] = <PyObject*>t
        seen |= t.code
        if grad_enabled() and wants_grad(t):
            is_tracked = True
    if given is not None:
        for k in range(m):
            check_out(op.name, given[k], tensors)
        if op.of_out and wanted == NO_CODE:
            wanted = (<TensorBase>given[0]).code
            seen |= wanted
    if seen > NO_CODE:
        return run_stored(op, tensors, dims, ndims, keepdim, wanted, params, given)
    if is_tracked and wanted != NO_CODE and any([(<TensorBase>t).code != wanted for t in tensors]):
        # the conversion is an operation of its own on the tape, which brings gradients back to the input's dtype
        return run_rows(op, tuple([(<object>t).to(dtype_of(wanted)) for t in tensors]), dims, ndims, keepdim, NO_CODE, params,
                        given)
    if given is not None:
        for k in range(m):
            present[n + k] = <PyObject*><TensorBase>given[k]
    device = one_device(op.name, present, n + m if given is not None else n)
    plan_rows(op, &plan, inputs, dims, ndims, keepdim, wanted, device)
    if plan.scattered:
        return rearranged(op, tensors, size_from(plan.rank, plan.sizes), dims, ndims, plan.rank, keepdim, wanted, params, given)
    if given is not None:
        for k in range(m):
            if op.full >> k & 1:
                check_destination(op.name, <TensorBase>given[k], GIVEN, KIND, plan.result_codes[k], plan.rank, plan.sizes, is_tracked)
            else:
                check_destination(op.name, <TensorBase>given[k], GIVEN, KIND, plan.result_codes[k], plan.result_rank, plan.result_sizes,
                                  is_tracked)
    for k in range(m):
        t = <TensorBase>given[k] if given is not None and direct(&plan, k, given, inputs, n) else new_result(op, &plan, k, device)
        results.append(t)
        made[k] = <PyObject*>t
    launch_rows(op, &plan, made, inputs, params, device)
    if given is not None:
        for k in range(m):
            if results[k] is given[k]:
                bump_version(<TensorBase>given[k])
            else:
                results[k] = given[k].copy_(results[k])
    elif is_tracked:
        record_rows(op, tensors, results, dims, ndims, keepdim, params, size_from(plan.rank, plan.sizes))
    if m == 1:
        return results[0]
    return op.names(*results) if op.names is not None else tuple(results)


cdef int64_t panel_of(const Rows* rows) noexcept nogil:
    """How many columns at a time, where that pays: where a vector's rows meet in so few sets of a cache that they do not fit."""
    cdef int64_t widest = 0, bytes = 0, lines, sets = SETS
    cdef int i, count = 0
    for i in range(rows.operands):
        if in_panel(rows, i):
            widest = max(widest, rows.width[i])
            bytes += rows.r0 * rows.k * rows.width[i]
            count += 1
            lines = rows.strides[3 * i + 2] * rows.width[i] // 64
            sets = min(sets, SETS // (lines & -lines) if lines & (SETS - 1) else 1)
    if bytes < CACHED or sets * WAYS >= 2 * count * rows.r0:
        return 0
    return max(<int64_t>LEAST_PANEL, min(<int64_t>MOST_PANEL, PANEL // (rows.r0 * widest) // LEAST_PANEL * LEAST_PANEL))


cdef object run_stored(RowOp op, tuple tensors, int* dims, int ndims, bint keepdim, int wanted, double* params, tuple given):
    """The same with dtypes that no kernel sees: complex32 is computed in complex64 and rounded, float8 in what was requested."""
    cdef Operand operands[MAX_OPERANDS]
    cdef list read = [], results = []
    cdef TensorBase t
    cdef int k, working
    for k in range(op.inputs):
        operands[k].tensor = <PyObject*><TensorBase>tensors[k]
    working = common_code(operands, op.inputs, op.raw) if wanted == NO_CODE else wanted
    cdef bint halved = working == C32
    if is_stored(working):
        if not (op.declaration.takes("complex64") if halved else wanted == NO_CODE and op.name in ("any", "all")):
            raise not_implemented(op.name, working)
        working = wider(working)
    for k in range(op.inputs):
        t = <TensorBase>tensors[k]
        if is_stored(t.code):
            if op.raw >> k & 1:
                raise not_implemented(op.name, t.code)
            t = copied(t, working, False)
        read.append(t)
    if given is not None:
        for out in given:
            if isinstance(out, TensorBase) and is_stored((<TensorBase>out).code):
                raise not_implemented(op.name, (<TensorBase>out).code)
    result = run_rows(op, tuple(read), dims, ndims, keepdim, NO_CODE if wanted == NO_CODE else working, params, given)
    if not halved or given is not None:
        return result
    for value in (result,) if op.outputs == 1 else <tuple>result:
        t = <TensorBase>value
        if t.code == C64 or t.code == F32:
            t = copied(t, C32 if t.code == C64 else F16, False)
        results.append(t)
    return results[0] if op.outputs == 1 else tuple(results)


cdef int plan_stages(Stages* stages, const Rows* rows, int states, const int* widths, bint on_host, bint ordered) except -1:
    """The row in blocks: a kernel that leaves the states of each block, of those widths, then one that combines them.  The launches
    are new, for `free`; their kernels are the caller's to enter.
    """
    cdef int m = rows.outputs, n = rows.operands - m, k, d, pitch = rows.outer + 1
    cdef Rows* part = new_rows(states + n, pitch)
    cdef Rows* last
    cdef const int64_t* own
    cdef int64_t blocks, step, past
    cdef bint pieces = rows.r1 != 1
    stages.part, stages.states = part, states
    stages.last = last = new_rows(m + states, pitch)
    stages.in_turn = on_host and ordered and not rows.along
    if pieces:
        stages.block = rows.r0
    elif rows.along:
        stages.block = BLOCK if on_host else DEVICE_BLOCK
    else:
        stages.block = max((COLUMN_BLOCK if on_host else DEVICE_BLOCK) // rows.k, <int64_t>16)
    stages.whole, stages.tail = rows.total // stages.block, rows.total % stages.block
    blocks = stages.whole + (stages.tail > 0)
    if not on_host:              # whose kernels leave out what lies beyond the end
        stages.whole, stages.tail = blocks, 0
    stages.count = blocks * rows.k
    for d in range(rows.outer):
        stages.count *= rows.outer_size[d]
    # stage one: the blocks are one more loop, k where lanes run along the row
    part.outputs, part.along, part.total, part.r1, part.r0 = states, rows.along, rows.total, 1, stages.block
    part.k, part.outer = rows.k, 0
    if rows.along:
        part.k, part.index_step = stages.whole, stages.block
    if not rows.along or rows.k > 1:
        part.outer_size[0], part.outer = rows.k if rows.along else stages.whole, 1
    if not (on_host or rows.along):
        part.outer_step = stages.block
    for k in range(states + n):
        own = rows.strides + 3 * (m + k - states)     # of an input
        part.width[k] = widths[k] if k < states else rows.width[m + k - states]
        part.strides[3 * k + 2] = 0 if k < states else own[2]
        past = 0 if k < states else own[1] if pieces else own[2] * stages.block
        if rows.along:
            part.strides[3 * k] = 1 if k < states else past
            part.outer_stride[k * pitch] = blocks if k < states else own[0]
        else:
            part.strides[3 * k] = 1 if k < states else own[0]
            part.outer_stride[k * pitch] = rows.k if k < states else past
    step = blocks * rows.k
    for d in range(rows.outer):
        part.outer_size[part.outer] = rows.outer_size[d]
        for k in range(states + n):
            part.outer_stride[k * pitch + part.outer] = step if k < states else rows.outer_stride[(m + k - states) * rows.pitch + d]
        step *= rows.outer_size[d]
        part.outer += 1
    # stage two: a row is the states of its blocks
    last.outputs, last.along, last.total, last.r1, last.r0, last.k = m, rows.along, rows.total, 1, blocks, rows.k
    for k in range(m):
        last.width[k], last.strides[3 * k] = rows.width[k], rows.strides[3 * k]
    for k in range(m, m + states):
        last.width[k] = widths[k - m]
        last.strides[3 * k], last.strides[3 * k + 2] = blocks if rows.along else 1, 1 if rows.along else rows.k
    step = blocks * rows.k
    last.outer = rows.outer
    for d in range(rows.outer):
        last.outer_size[d] = rows.outer_size[d]
        for k in range(m):
            last.outer_stride[k * pitch + d] = rows.outer_stride[k * rows.pitch + d]
        for k in range(m, m + states):
            last.outer_stride[k * pitch + d] = step
        step *= rows.outer_size[d]
    return 0


cdef int launch_stages(const Stages* stages, char** data, char** states, const uint64_t* scalars, PyObject* device) except -1 nogil:
    """Results and inputs stand at `data`, room for the states at `states`."""
    cdef Rows part = stages.part[0], last = stages.last[0]
    cdef int m = last.outputs, n = part.operands - stages.states, k
    cdef int64_t block, past
    part.device, last.device, part.scalars, last.scalars = device, device, scalars, scalars
    part.data, last.data = <char**>alloca(part.operands * sizeof(char*)), <char**>alloca(last.operands * sizeof(char*))
    part.outer_size = <int64_t*>alloca(part.pitch * sizeof(int64_t))
    memcpy(part.outer_size, stages.part.outer_size, part.pitch * sizeof(int64_t))
    memcpy(part.data, states, stages.states * sizeof(char*))
    memcpy(part.data + stages.states, data + m, n * sizeof(char*))
    memcpy(last.data, data, m * sizeof(char*))
    memcpy(last.data + m, states, stages.states * sizeof(char*))
    if stages.in_turn:
        part.outer_size[0] = 1
        for block in range(stages.whole):
            part.index_first = block * stages.block
            launch(&part)
            for k in range(part.operands):
                part.data[k] += part.outer_stride[k * part.pitch] * part.width[k]
    else:
        launch(&part)
        for k in range(part.operands):
            past = part.strides[3 * k] if part.along else part.outer_stride[k * part.pitch]
            part.data[k] += stages.whole * past * part.width[k]
    if stages.tail:
        part.r0, part.index_first = stages.tail, stages.whole * stages.block
        if part.along:
            part.k = 1
        else:
            part.outer_size[0] = 1
        launch(&part)
    return launch(&last)


cdef int stage_kernels(RowOp op, const RowPlan* plan, const Stages* stages, const int* state_codes) except -1:
    """The kernels of a reduction's two stages."""
    cdef int access[MAX_ALL]
    cdef int n = plan.inputs, m = plan.outputs, k
    cdef bint along = plan.rows.along
    for k in range(stages.states):
        access[k] = BROADCAST if along else CONTIGUOUS
    memcpy(access + stages.states, plan.access + m, n * sizeof(int))
    stages.part.run = kernel_for(op, plan.on_host, PARTIAL, along, access, plan.codes, n, stages.states, plan.common, plan.wanted).run
    memcpy(access, plan.access, m * sizeof(int))
    for k in range(stages.states):
        access[m + k] = CONTIGUOUS
    stages.last.run = kernel_for(op, plan.on_host, FINAL, along, access, state_codes, stages.states, m, plan.common, plan.wanted).run
    return 0


cdef int run_stages(RowOp op, RowPlan* plan) except -1:
    """Compute a long row in blocks, as planned, with room for the states of its own."""
    cdef Rows* rows = &plan.rows
    cdef Stages stages
    cdef int codes[MAX_OPERANDS]
    cdef int widths[MAX_OPERANDS]
    cdef char* places[MAX_OPERANDS]
    cdef int k
    cdef TensorBase t
    cdef list held = []
    cdef tuple states = op.declaration.two_stage_codes(plan.common, plan.wanted)[1]
    for k in range(len(states)):
        codes[k] = states[k]
        widths[k] = ITEMSIZE[codes[k]]
    stages.part = stages.last = NULL
    try:
        plan_stages(&stages, rows, <int>len(states), widths, plan.on_host, op.ordered)
        stage_kernels(op, plan, &stages, codes)
        for k in range(stages.states):
            t = new_tensor_on(<Device>rows.device if rows.device != NULL else None, 1, &stages.count, codes[k])
            held.append(t)
            places[k] = data_address(t)
        with nogil:
            launch_stages(&stages, rows.data, places, rows.scalars, rows.device)
    finally:
        free(stages.part)
        free(stages.last)
    return 0


cdef object rearranged(RowOp op, tuple tensors, shape, int* dims, int ndims, int rank, bint keepdim, int wanted, double* params,
                       tuple given):
    """Rows that lie scattered in memory: gather them into contiguous copies first."""
    cdef list order = [], moved = []
    cdef set chosen = {dims[k] for k in range(ndims)}
    cdef int d, k
    order = [d for d in range(rank) if d not in chosen] + sorted(chosen)
    for t in tensors:
        moved.append(t.expand(shape).permute(order).contiguous() if t.ndim else t)
    unpack_tensor = rank - len(chosen)
    flat = [t.reshape([t.shape[i] for i in range(unpack_tensor)] + [-1 if t.numel() else count_of(t, unpack_tensor)]) if t.ndim else t for t in moved]
    cdef int one[1]
    one[0] = unpack_tensor
    results = run_rows(op, tuple(flat), one, 1, False, wanted, params, None)
    results = results if op.outputs > 1 else (results,)
    result = []
    for k in range(op.outputs):
        r = results[k]
        if op.full >> k & 1:
            back = [0] * rank
            for i, d in enumerate(order):
                back[d] = i
            r = r.reshape([shape[d] for d in order]).permute(back).contiguous()
        elif keepdim:
            r = r.reshape([1 if d in chosen else shape[d] for d in range(rank)])
        if given is not None:
            r = set_decomposition(op.name, given[k], r)
        result.append(r)
    if op.outputs == 1:
        return result[0]
    return op.names(*result) if op.names is not None else tuple(result)


cdef int64_t count_of(t, int unpack_tensor):
    cdef int64_t n = 1
    for size in t.shape[unpack_tensor:]:
        n *= size
    return n


cdef object underived(str name):
    """What stands for a derivative that nobody declared: backward raises instead of leaving out a gradient."""
    def formula(*arrived):
        raise NotImplementedError(f"the derivative for '{name}' is not implemented: declare it with @{name}.derivative, or call "
                                  f"{name} under no_grad")
    return formula


cdef int record_rows(RowOp op, tuple tensors, list results, int* dims, int ndims, bint keepdim, double* params, object sizes) except -1:
    """`formula(grad, *saved, sizes, dims, keepdim, *params)` gives the inputs' gradients."""
    cdef FormulaNode node = FormulaNode.__new__(FormulaNode)
    cdef int k, number, kind
    cdef TensorBase t
    cdef bint any_float = False
    for k in range(op.outputs):
        any_float = any_float or CATEGORY[(<TensorBase>results[k]).code] >= 2
    if not any_float:
        return 0
    node.label = op.label or backward_name(op.name, not keepdim and (sizes is None or ndims == len(sizes)))
    node.formula = op.formula if op.formula is not None else underived(op.name)
    node.extra = (sizes, tuple([dims[k] for k in range(ndims)]), keepdim) + tuple([params[k] for k in range(op.params)])
    node.operation, node.outputs, node.declared = op, op.outputs, True
    node.set_edges(op.inputs)
    for k in range(op.inputs):
        node.connect(k, <TensorBase>tensors[k])
    if op.saved:
        node.slot = <Slot*>calloc(len(op.saved), sizeof(Slot))
        for kind, number in op.saved:
            t = <TensorBase>(tensors[number] if kind == 1 else results[number])
            save_tensor(&node.slot[node.slots], t, -1 if kind == 1 else number)
            node.slots += 1
    for k in range(op.outputs):
        if CATEGORY[(<TensorBase>results[k]).code] >= 2:
            attach(<TensorBase>results[k], node, k)
    return 0


# --- calls ------------------------------
cdef int all_dims(int rank, int* dims) noexcept:
    cdef int d
    for d in range(rank):
        dims[d] = d
    return rank


cdef int read_dims(RowOp op, object dim, TensorBase t, int* dims) except -1:
    if dim is None or (isinstance(dim, (tuple, list)) and len(dim) == 0 and not op.literal):
        return all_dims(t.rank, dims)
    return parse_dims(dim, t.rank, dims, op.name)


@cython.binding(False)
cdef class RowOp(Op):
    """n tensors, m results along a row or one a row; see `operations/declare/rows.py`."""

    def __cinit__(self, str name, int inputs, int outputs, tuple full, tuple defaults, declaration, bint reduces, bint ordered,
                  bint splits, tuple saved=(), formula=None, names=None, unsigned int raw=0, bint literal=False,
                  bint from_origin=False, bint listed=False):
        cdef int k
        if inputs + from_origin > MAX_OPERANDS or outputs > MAX_OUTPUTS or len(defaults) > MAX_PARAMS:
            raise ValueError(f"{name}: too many operands, results or parameters")
        prepare_op(self, name, call_rows)
        self.inputs, self.outputs, self.params = inputs, outputs, len(defaults)
        for k in range(len(defaults)):
            self.defaults[k] = defaults[k]
        for k in range(outputs):
            self.full |= bool(full[k]) << k
        self.declaration, self.reduces, self.ordered, self.splits = declaration, reduces, ordered, splits
        self.literal, self.listed = literal, listed
        self.from_origin = from_origin
        self.saved, self.formula, self.names, self.raw = saved, formula, names, raw
        if reduces:
            self.signature = Signature(("input", "dim", "keepdim", "dtype", "out"), 3, 1,
                                       (TENSOR, 0, BOOL, DTYPE | NOTHING, 0), defaults={"keepdim": False})
        else:
            self.signature = Signature(("input", "dim", "dtype", "out"), 3, 2, (TENSOR, 0, DTYPE | NOTHING, 0))

    def set_formula(self, tuple saved, formula):
        """How gradients are computed, and what they read."""
        self.saved, self.formula = saved, formula

    @property
    def one_dim(self) -> bool:
        """Whether it goes along one dimension alone, which a node that is asked for it tells as a number."""
        return not self.reduces or self.names is not None

    def saved_names(self, str label) -> list:
        """What a node of that label calls what it has saved, in order; None for what the formula does not read."""
        cdef list result = []
        reads = self.reads if hasattr(self, "reads") else ()
        whole = self.name in SECOND_WITH_DIM and label == backward_name(self.name)
        for kind, number in self.saved:
            if kind == 1:
                result.append(saved_name(self.declaration.inputs[number], number == 0))
            else:
                result.append("result" if self.outputs == 1 else self.names._fields[number] if self.names is not None else f"result{number}")
        result.append("self_sym_sizes" if "sizes" in reads else None)
        result += [n if given in reads and not whole else None for given, n in (("dims", "dim"), ("keepdim", "keepdim"))]
        return result + [n if n in reads else None for n in self.declaration.params]

    def over(self, tuple tensors, dim=None, keepdim=False, dtype=None, params=(), out=None):
        """The operation on tensors that broadcast to one shape, along `dim` (None: all dimensions)."""
        if len(tensors) != self.inputs:
            raise TypeError(f"{self.name}.over(): {self.inputs} tensors expected, got {len(tensors)}")
        if not runtime.observers:
            return self.along(tensors, dim, keepdim, dtype, params, out)
        if self.dispatched_op is None:
            self.dispatched_op = FunctionOp(self.along, self.name, owns=False)
        return self.dispatched_op(tensors, dim, keepdim, dtype, params, out)

    def along(self, tuple tensors, dim, keepdim, dtype, params, out):
        """`over` the operation itself, behind dispatch."""
        cdef int dims[MAX_DIMS]
        cdef double values[MAX_PARAMS]
        cdef int n, k
        cdef TensorBase first = <TensorBase?>tensors[0]
        n = read_dims(self, dim, first, dims)
        for k in range(self.params):
            values[k] = params[k] if k < len(params) else self.defaults[k]
        return run_rows(self, tensors, dims, n, keepdim, NO_CODE if dtype is None else as_dtype(dtype, self.name).code, values,
                        None if out is None else out if isinstance(out, tuple) else (out,))


cdef object call_rows(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    """(input, dim=None, keepdim=False, *, dtype=None, out=None), or (input, dim, *, dtype=None) for row
    functions.
    """
    cdef RowOp op = <RowOp>callable
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged)
    cdef int dims[MAX_DIMS]
    cdef int n, k, wanted = NO_CODE
    cdef PyObject* bound[MAX_BOUND]
    cdef object x, dim = None, keepdim = False, d = None, out = None
    if op.inputs != 1:
        raise TypeError(f"{op.name}() takes {op.inputs} tensors: call it through over((…), dim)")
    if names == NULL and 1 <= nargs <= 2 and isinstance(<object>args[0], TensorBase):
        x = <object>args[0]   # the most frequent calls need no binding
        if nargs == 2:
            dim = <object>args[1]
    elif op.listed and nargs > 2 and not PyBool_Check(<object>args[2]):
        dim = tuple([<object>args[k] for k in range(1, nargs)])
        bound[0], bound[1] = args[0], <PyObject*>dim
        for k in range(0 if names == NULL else <int>min(len(<tuple>names), MAX_BOUND - 2)):
            bound[2 + k] = args[nargs + k]
        return call_rows(callable, bound, 2, names)
    else:
        op.signature.bind(op.name, args, nargs, names, bound)
        x = <object>bound[0]
        if bound[1] != NULL:
            dim = <object>bound[1]
        if op.reduces and bound[2] != NULL:
            keepdim = <object>bound[2]
        if bound[2 + op.reduces] != NULL:
            d = <object>bound[2 + op.reduces]
        if bound[3 + op.reduces] != NULL:
            out = <object>bound[3 + op.reduces]
    if isinstance(dim, dtype):
        raise TypeError(f"{op.name}(): argument 'dim' must be int, not dtype")
    if not op.reduces:
        if dim is None:
            raise TypeError(f'{op.name}() missing 1 required positional arguments: "dim"')
        dims[0] = wrap_dim(as_int(dim, op.name, "dim"), (<TensorBase>x).rank, op.name)
        n = 1
    else:
        if op.ordered and isinstance(dim, (tuple, list)):
            raise TypeError(f"{op.name}(): argument 'dim' must be int, not {type(dim).__name__}")
        if dim is None and (<TensorBase>x).count == 0 and not op.ordered:
            op.declaration.check_empty(True)
        n = read_dims(op, dim, <TensorBase>x, dims)
    if d is not None:
        wanted = as_dtype(d, op.name).code
    return run_rows(op, (x,), dims, n, bool(keepdim), wanted, op.defaults, None if out is None else (out,))


make_callable(RowOp, RowOp("", 1, 1, (False,), (), None, True, False, False))
