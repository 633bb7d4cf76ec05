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
from ..base.tensor cimport TensorBase, MAX_DIMS, bare, set_rank, new_tensor_on, new_strided_on, place_of, parse_dims, wrap_dim, as_int, wrote, late
from ..base.device cimport Device
from ..base.sizes cimport row_major
from ..tape.nodes cimport Node
from ..tape.formulas cimport FormulaNode
from ..tape.saved cimport Slot, keep
from ..tape.modes cimport grad_enabled, wants_grad
from ..tape.history cimport attach
from ..call.operation cimport Op, make_callable, prepare_op
from ..call.kernels cimport Operand, Kernel, Table, kernel_t, look_up, insert, away, one_device, insert_family, AWAY, MAX_OPERANDS, MAX_OUTPUTS, MAX_PARAMS, CONTIGUOUS, BROADCAST, STRIDED
from ..call.operands cimport common_code
from ..call.pointwise cimport copied, not_implemented, wider
from ..call.layout cimport broadcast, fits, fit_out
from ..call.function import FunctionOp
from ..call.signature cimport BOOL, DTYPE, MAX_BOUND, NOTHING, TENSOR, Signature
from ..base.parallel cimport parallel_in_parts, num_threads
from ..base.labels import backward_name
from libc.stdlib cimport calloc, free, malloc

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    bint PyBool_Check(object o)

cdef enum:
    PARALLEL_FROM = 32768
    BLOCK = 16384                # elements of a contiguous row that one state set takes in
    COLUMN_BLOCK = 65536         # elements of a block of rows, where lanes run across
    SHORT = 16                   # elements of a contiguous row from which on lanes run along it
    MANY_ROWS = 32               # rows from which on they run across shorter ones
    DEVICE_BLOCK = 4096          # the same, either way, where there are thousands of threads to keep busy
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
    int rank
    int64_t size[MAX_DIMS]
    int64_t stride[MAX_ALL][MAX_DIMS]


cdef void rows_once(Rows* rows, char** data, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t geometry[6 + 3 * MAX_ALL]
    cdef char* shifted[MAX_ALL]
    cdef int i
    geometry[0], geometry[1], geometry[2], geometry[3] = end - begin, rows.r1, rows.r0, rows.total
    geometry[4], geometry[5] = rows.index_first + begin * rows.index_step, rows.index_step
    for i in range(rows.operands):
        shifted[i] = data[i] + begin * rows.k_stride[i] * rows.width[i]
        geometry[6 + 3 * i], geometry[7 + 3 * i], geometry[8 + 3 * i] = rows.k_stride[i], rows.r1_stride[i], rows.r0_stride[i]
    rows.run(shifted, geometry, rows.scalars)


cdef inline bint in_panel(const Rows* rows, int i) noexcept nogil:
    """Whether an operand's columns lie side by side, and its rows apart."""
    return rows.k_stride[i] == 1 and rows.r0_stride[i] * rows.width[i] >= FAR


cdef void rows_in_panels(const Rows* rows, char** data, int64_t begin, int64_t end) noexcept nogil:
    """The same, some columns at a time: rows that are a power of two apart meet in few sets of a cache, so that a program that
    walks over its rows more than once would read them from memory each time.
    """
    cdef Rows own = rows[0]
    cdef char* places[MAX_ALL]
    cdef char* memory
    cdef int64_t pitch = rows.panel + APART, r, k, columns, bytes = 0
    cdef int i
    for i in range(rows.operands):
        if in_panel(rows, i):
            bytes += rows.r0 * pitch * rows.width[i] + 64
    memory = <char*>malloc(bytes)
    if memory == NULL:
        rows_once(&own, data, begin, end)
        return
    k = begin
    while k < end:
        columns = min(rows.panel, end - k)
        bytes = 0
        for i in range(rows.operands):
            places[i] = data[i] + k * rows.k_stride[i] * rows.width[i]
            if in_panel(rows, i):
                own.r0_stride[i] = pitch
                if i >= rows.outputs:
                    for r in range(rows.r0):
                        memcpy(memory + bytes + r * pitch * rows.width[i], places[i] + r * rows.r0_stride[i] * rows.width[i], columns * rows.width[i])
                places[i] = memory + bytes
                bytes += rows.r0 * pitch * rows.width[i] + 64
        own.index_first = rows.index_first + k * rows.index_step
        rows_once(&own, places, 0, columns)
        for i in range(rows.outputs):
            if in_panel(rows, i):
                for r in range(rows.r0):
                    memcpy(data[i] + (k + r * rows.r0_stride[i]) * rows.width[i], places[i] + r * pitch * rows.width[i], columns * rows.width[i])
        k += rows.panel
    free(memory)


cdef void rows_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Part of the k loop for all outer places, or all of it for some of them."""
    cdef Rows* rows = <Rows*>context
    cdef int64_t place, rest, first_k, last_k, first = 0 if rows.cut_k else begin, last = rows.outer_total if rows.cut_k else end
    cdef char* data[MAX_ALL]
    cdef int d, i
    for place in range(first, last):
        memcpy(data, rows.data, rows.operands * sizeof(char*))
        rest = place
        for d in range(rows.outer):
            for i in range(rows.operands):
                data[i] += (rest % rows.outer_size[d]) * rows.outer_stride[i][d] * rows.width[i]
            rest //= rows.outer_size[d]
        first_k, last_k = begin if rows.cut_k else 0, end if rows.cut_k else rows.k
        if rows.panel:
            rows_in_panels(rows, data, first_k, last_k)
        else:
            rows_once(rows, data, first_k, last_k)


cdef int launch(Rows* rows) except -1:
    cdef int64_t work, n, grain, parts
    cdef int d
    if rows.device != NULL:
        return away.rows(rows)
    rows.outer_total = 1
    for d in range(rows.outer):
        rows.outer_total *= rows.outer_size[d]
    work = rows.outer_total * rows.k * (rows.r0 * rows.r1 if rows.r0 * rows.r1 > 0 else 1)
    if rows.outer_total == 0 or rows.k == 0:
        return 0
    parts = rows.k if rows.along else (rows.k + 63) // 64
    rows.cut_k = rows.outer_total < 4 * max(2, num_threads()) and rows.outer_total < parts
    n = rows.k if rows.cut_k else rows.outer_total
    if work < PARALLEL_FROM:
        rows_range(rows, 0, n)
        return 0
    grain = PARALLEL_FROM * n // work
    if grain < 1:
        grain = 1
    if rows.cut_k and not rows.along:
        grain = (grain + 63) // 64 * 64
    with nogil:
        parallel_in_parts(rows_range, rows, n, grain, <double>work / n)
    return 0


# --- loops ------------------------------
cdef inline bint farther(int64_t a, int64_t b) noexcept nogil:
    """Whether stride a belongs outside of stride b."""
    return a == 0 and b != 0 or a > b and b != 0


cdef void gather_group(Group* group, const bint* chosen, int rank, const int64_t* sizes, int64_t[MAX_DIMS]* strides, int n,
                       int guide, bint logical) noexcept nogil:
    """The chosen dimensions ordered by the guide's strides, those it is broadcast along last (or as they stand), merged where
    all operands allow it.
    """
    cdef int order[MAX_DIMS]
    cdef int used = 0, d, i, k
    cdef bint merge
    for d in range(rank - 1, -1, -1):
        if not chosen[d] or sizes[d] == 1:
            continue
        i = used
        if not logical:
            while i > 0 and farther(strides[guide][order[i - 1]], strides[guide][d]):
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
                if strides[k][d] != group.stride[k][group.rank - 1] * group.size[group.rank - 1]:
                    merge = False
                    break
        if merge:
            group.size[group.rank - 1] *= sizes[d]
        else:
            group.size[group.rank] = sizes[d]
            for k in range(n):
                group.stride[k][group.rank] = strides[k][d]
            group.rank += 1


cdef inline int access_of(int64_t stride) noexcept nogil:
    return CONTIGUOUS if stride == 1 else BROADCAST if stride == 0 else STRIDED


cdef bint any_moves(const int* access, int n) noexcept nogil:
    cdef int k
    for k in range(n):
        if access[k] != BROADCAST:
            return True
    return False


cdef Kernel* kernel_for(RowOp op, bint on_host, int stage, bint along, int* access, int* codes, int inputs, int outputs, int common, int wanted) except NULL:
    """The kernel for these dtypes and ways of walking; asks the compiler when it is new."""
    cdef uint64_t key0 = 0 if on_host else AWAY >> 6 * inputs, key1 = common
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
    """How to walk over inputs of these shapes, strides and dtypes; `dims` are the row, `wanted` is the dtype asked for or NO_CODE."""
    cdef Operand operands[MAX_OPERANDS]
    cdef int64_t strides[MAX_ALL][MAX_DIMS]
    cdef bint reduced[MAX_DIMS]
    cdef bint kept[MAX_DIMS]
    cdef Group row, keeps
    cdef TensorBase t
    cdef int k, d, i, n = op.inputs, m = op.outputs, rank = 0
    cdef int64_t step
    for k in range(n):
        operands[k].tensor = tensors[k]
        broadcast(op.name, plan.sizes, &rank, <TensorBase>tensors[k], ())
    plan.rank, plan.kept_rank, plan.outputs, plan.wanted, plan.on_host = rank, 0, m, wanted, device is None
    plan.common = common_code(operands, n, op.raw)
    for d in range(rank):
        reduced[d] = False
    for k in range(ndims):
        if rank:
            reduced[dims[k]] = True
    for d in range(rank):
        kept[d] = not reduced[d]
        if kept[d] or keepdim:
            plan.kept_sizes[plan.kept_rank] = plan.sizes[d] if kept[d] else 1
            plan.kept_rank += 1
        if reduced[d] and plan.sizes[d] == 0 and op.reduces:
            op.declaration.check_empty(False)
    # strides of every operand along the dimensions of the input
    row_major(rank, plan.sizes, plan.full_strides)    # as PyTorch's, whatever the operands' layout: `view` may rely on it
    for k in range(m):
        if op.full >> k & 1:
            memcpy(strides[k], plan.full_strides, rank * sizeof(int64_t))
        else:
            step = 1
            for d in range(rank - 1, -1, -1):
                strides[k][d] = 0
                if kept[d]:
                    strides[k][d] = step
                    step *= plan.sizes[d]
    for k in range(n):
        t = <TensorBase>tensors[k]
        plan.codes[k], plan.rows.width[m + k] = t.code, t.width
        for d in range(rank):
            i = d - (rank - t.rank)
            strides[m + k][d] = t.strides[i] if i >= 0 and t.sizes[i] != 1 else 0
    if op.from_origin:  # the first input once more, standing still along the row
        plan.codes[n], plan.rows.width[m + n] = plan.codes[0], plan.rows.width[m]
        for d in range(rank):
            strides[m + n][d] = strides[m][d] if kept[d] else 0
        n += 1
    plan.inputs = n
    gather_group(&row, reduced, rank, plan.sizes, strides, m + n, m, op.ordered)
    gather_group(&keeps, kept, rank, plan.sizes, strides, m + n, m, False)
    plan.scattered = row.rank > 2 or (row.rank == 2 and op.full)
    if plan.scattered:
        return 0
    plan_loops(op, plan, &row, &keeps, reduced)
    return plan_kernel(op, plan, row.rank)


cdef void plan_loops(RowOp op, RowPlan* plan, const Group* row, const Group* keeps, const bint* reduced) noexcept:
    """Where the lanes run, and how operands move with them, with the row and with the other loops."""
    cdef Rows* rows = &plan.rows
    cdef int k, d, i, n = plan.inputs, m = plan.outputs, lane = 0
    rows.along, rows.scans, rows.panel, rows.outputs = True, False, 0, m
    if row.rank and keeps.rank:
        for k in range(m + n):
            if (k >= m or op.full >> k & 1) and row.stride[k][0] > 1:
                rows.along = False
        if not rows.along:
            lane = -1
            for i in range(keeps.rank):
                if keeps.stride[m][i] == 1:
                    lane = i
            if lane < 0:
                rows.along, lane = True, 0
        elif plan.on_host and row.rank == 1 and row.size[0] < SHORT and keeps.size[0] >= MANY_ROWS:
            rows.along, lane = False, 0  # one row would leave most of the lanes idle
    rows.operands = m + n
    rows.r0, rows.r1 = (row.size[0] if row.rank > 0 else 1), (row.size[1] if row.rank > 1 else 1)
    rows.k = keeps.size[lane] if keeps.rank else 1
    for d in range(plan.rank):
        if plan.sizes[d] == 0:
            if reduced[d]:
                rows.r0 = 0
            else:
                rows.k = 0
    rows.total = rows.r0 * rows.r1
    rows.index_first = rows.index_step = 0
    rows.outer = 0
    for i in range(keeps.rank):
        if i != lane:
            rows.outer_size[rows.outer] = keeps.size[i]
            for k in range(m + n):
                rows.outer_stride[k][rows.outer] = keeps.stride[k][i]
            rows.outer += 1
    for k in range(m + n):
        rows.k_stride[k] = keeps.stride[k][lane] if keeps.rank else 0
        rows.r0_stride[k] = row.stride[k][0] if row.rank > 0 else (1 if (k >= m or op.full >> k & 1) and not keeps.rank else 0)
        rows.r1_stride[k] = row.stride[k][1] if row.rank > 1 else 0
        plan.access[k] = access_of(rows.r0_stride[k] if rows.along else rows.k_stride[k])
        if rows.along and plan.access[k] == BROADCAST and rows.r1_stride[k]:
            plan.access[k] = STRIDED  # a broadcast operand is one element for the whole row
        if rows.along and k < m and not op.full >> k & 1:
            plan.access[k] = BROADCAST
        elif not rows.along and k < m and plan.access[k] == BROADCAST:
            plan.access[k] = STRIDED
    if rows.along and op.full and n and not any_moves(plan.access + m, n):
        plan.access[m] = STRIDED  # the row's elements are all one, but a result as long as the row is written in full
    if op.from_origin and rows.r0 == 0:  # there is no first element: anything that may be read
        rows.k_stride[m + n - 1] = 0
        for d in range(rows.outer):
            rows.outer_stride[m + n - 1][d] = 0


cdef int plan_kernel(RowOp op, RowPlan* plan, int row_rank) except -1:
    """In how many stages, by which kernel, and the results' dtypes."""
    cdef Rows* rows = &plan.rows
    cdef Kernel* kernel
    cdef int k
    plan.two = op.splits and row_rank == 1 and (
        rows.r0 >= 2 * (BLOCK if plan.on_host else DEVICE_BLOCK) if rows.along else
        rows.r0 >= 64 and rows.r0 * rows.k >= 4 * (COLUMN_BLOCK if plan.on_host else DEVICE_BLOCK))
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
        rows.data[k] = place_of(<TensorBase>results[k])
    for k in range(op.inputs):
        rows.data[plan.outputs + k] = place_of(<TensorBase>inputs[k])
    if op.from_origin:
        rows.data[plan.outputs + op.inputs] = rows.data[0 if rows.r0 == 0 else plan.outputs]
    if plan.two:
        return run_stages(op, rows, plan.access, plan.codes, plan.common, plan.wanted,
                          op.declaration.two_stage_codes(plan.common, plan.wanted)[1])
    return launch(rows)


cdef TensorBase new_result(RowOp op, const RowPlan* plan, int k, Device device):
    """A tensor for a result, as the plan has it."""
    if op.full >> k & 1:
        return new_strided_on(device, plan.rank, <int64_t*>plan.sizes, <int64_t*>plan.full_strides, plan.result_codes[k])
    return new_tensor_on(device, plan.kept_rank, <int64_t*>plan.kept_sizes, plan.result_codes[k])


cdef object run_rows(RowOp op, tuple tensors, int* dims, int ndims, bint keepdim, int wanted, double* params, tuple given):
    """Compute: `tensors` broadcast to one shape, `dims` are the row, `wanted` is the dtype asked for or
    NO_CODE; `given` holds results to write to, or is None.
    """
    cdef RowPlan plan
    cdef PyObject* inputs[MAX_OPERANDS]
    cdef PyObject* made[MAX_OUTPUTS]
    cdef PyObject* present[MAX_ALL]
    cdef TensorBase t
    cdef int k, n = op.inputs, m = op.outputs, seen = wanted
    cdef bint taped = False
    cdef Device device
    cdef list results = []
    for k in range(n):
        t = <TensorBase?>tensors[k]
        inputs[k] = present[k] = <PyObject*>t
        seen |= t.code
        if grad_enabled() and wants_grad(t):
            taped = True
    if seen > NO_CODE:
        return run_stored(op, tensors, dims, ndims, keepdim, wanted, params, given)
    if taped and wanted != NO_CODE and any([(<TensorBase>t).code != wanted for t in tensors]):
        # the conversion is an operation of its own on the tape, which brings gradients back to the input's dtype
        return run_rows(op, tuple([(<object>t).to(dtype_of(wanted)) for t in tensors]), dims, ndims, keepdim, NO_CODE, params,
                        given)
    device = one_device(op.name, present, n)
    if device is not None and given is not None:
        for k in range(m):
            present[n + k] = <PyObject*><TensorBase?>given[k]
        one_device(op.name, present, n + m)
    plan_rows(op, &plan, inputs, dims, ndims, keepdim, wanted, device)
    if plan.scattered:
        return rearranged(op, tensors, size_from(plan.rank, plan.sizes), dims, ndims, plan.rank, keepdim, wanted, params, given)
    if given is not None:
        for k in range(m):
            check_out(op, <TensorBase>given[k], plan.result_codes[k], taped)
            if op.full >> k & 1:
                fit_out(op.name, <TensorBase>given[k], plan.rank, plan.sizes)
            else:
                fit_out(op.name, <TensorBase>given[k], plan.kept_rank, plan.kept_sizes)
    for k in range(m):
        t = new_result(op, &plan, k, device)
        results.append(t)
        made[k] = <PyObject*>t
    launch_rows(op, &plan, made, inputs, params, device)
    if given is not None:
        results = [given[k].copy_(results[k]) for k in range(m)]
    elif taped:
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
            lines = rows.r0_stride[i] * rows.width[i] // 64
            sets = min(sets, SETS // (lines & -lines) if lines & (SETS - 1) else 1)
    if bytes < CACHED or sets * WAYS >= 2 * count * rows.r0:
        return 0
    return max(<int64_t>LEAST_PANEL, min(<int64_t>MOST_PANEL, PANEL // (rows.r0 * widest) // LEAST_PANEL * LEAST_PANEL))


cdef object run_stored(RowOp op, tuple tensors, int* dims, int ndims, bint keepdim, int wanted, double* params, tuple given):
    """The same with dtypes that no kernel sees: complex32 is computed in complex64 and rounded, float8 in what was asked for."""
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
    found = run_rows(op, tuple(read), dims, ndims, keepdim, NO_CODE if wanted == NO_CODE else working, params, given)
    if not halved or given is not None:
        return found
    for value in (found,) if op.outputs == 1 else <tuple>found:
        t = <TensorBase>value
        if t.code == C64 or t.code == F32:
            t = copied(t, C32 if t.code == C64 else F16, False)
        results.append(t)
    return results[0] if op.outputs == 1 else tuple(results)


cdef int check_out(RowOp op, TensorBase out, int code, bint taped) except -1:
    """RuntimeError for an `out=` of a lower category (but for sums and products, which are then of its dtype), or on the tape."""
    if CATEGORY[code] > CATEGORY[out.code] and op.name != "sum" and op.name != "product":
        raise RuntimeError(f"{op.name}(): result type {dtype_of(code)} can't be cast to the desired output type {dtype_of(out.code)}")
    if grad_enabled() and (taped or wants_grad(out)):
        raise RuntimeError(f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                           "arguments requires grad.")
    return 0


cdef int run_stages(RowOp op, Rows* rows, int* access, int* codes, int common, int wanted, tuple codes_of_states) except -1:
    """The row in blocks: a kernel that leaves the state of each block, then one that combines them."""
    cdef Rows part
    cdef Rows last
    cdef int partial_access[MAX_ALL]
    cdef int state_codes[MAX_OPERANDS]
    cdef int final_access[MAX_ALL]
    cdef int n = op.inputs + op.from_origin, m = op.outputs, k, d, states
    cdef int64_t block, blocks, whole, tail, count, step
    cdef Kernel* kernel
    cdef list held = []
    cdef TensorBase t
    if rows.along:
        block = BLOCK if rows.device == NULL else DEVICE_BLOCK
    else:
        block = (COLUMN_BLOCK if rows.device == NULL else DEVICE_BLOCK) // rows.k
        if block < 16:
            block = 16
    whole, tail = rows.r0 // block, rows.r0 % block
    blocks = whole + (tail > 0)
    states = len(codes_of_states)
    count = blocks * rows.k
    for d in range(rows.outer):
        count *= rows.outer_size[d]
    for k in range(states):
        state_codes[k] = codes_of_states[k]
        held.append(new_tensor_on(<Device>rows.device if rows.device != NULL else None, 1, &count, state_codes[k]))
    # stage one: the blocks are one more loop; operands are the states, then the inputs
    part.device = last.device = rows.device
    part.scans = last.scans = False
    part.panel = last.panel = 0
    part.operands, part.along, part.scalars, part.total = states + n, rows.along, rows.scalars, rows.total
    part.r1, part.index_first, part.index_step = 1, 0, 0
    for k in range(states):
        partial_access[k] = BROADCAST if rows.along else CONTIGUOUS
    for k in range(n):
        partial_access[states + k] = access[m + k]
    kernel = kernel_for(op, rows.device == NULL, PARTIAL, rows.along, partial_access, codes, n, states, common, wanted)
    part.run = kernel.run
    # loops besides the lanes': the old ones, and the blocks (as k where lanes run along the row)
    for k in range(states + n):
        t = None
        part.r1_stride[k] = 0
        if k < states:
            t = <TensorBase>held[k]
            part.data[k], part.width[k], part.r0_stride[k] = place_of(t), t.width, 0
        else:
            part.data[k], part.width[k] = rows.data[m + k - states], rows.width[m + k - states]
            part.r0_stride[k] = rows.r0_stride[m + k - states]
    part.outer = 0
    step = blocks * rows.k
    if rows.along:
        part.k, part.index_step = whole, block
        if rows.k > 1:
            part.outer_size[0], part.outer = rows.k, 1
        for k in range(states + n):
            part.k_stride[k] = 1 if k < states else rows.r0_stride[m + k - states] * block
            part.outer_stride[k][0] = blocks if k < states else rows.k_stride[m + k - states]
    else:
        part.k = rows.k
        part.outer_size[0], part.outer = whole, 1
        for k in range(states + n):
            part.k_stride[k] = 1 if k < states else rows.k_stride[m + k - states]
            part.outer_stride[k][0] = rows.k if k < states else rows.r0_stride[m + k - states] * block
    for d in range(rows.outer):
        part.outer_size[part.outer] = rows.outer_size[d]
        for k in range(states + n):
            part.outer_stride[k][part.outer] = step if k < states else rows.outer_stride[m + k - states][d]
        step *= rows.outer_size[d]
        part.outer += 1
    part.r0 = block
    if not rows.along and op.ordered:
        launch_ordered(&part, whole, block)
    else:
        launch(&part)
    if tail:
        part.r0, part.index_first = tail, whole * block
        for k in range(states + n):
            if rows.along:
                part.data[k] += whole * part.k_stride[k] * part.width[k]
            else:
                part.data[k] += whole * part.outer_stride[k][0] * part.width[k]
        if rows.along:
            part.k = 1
        else:
            part.outer_size[0] = 1
        launch(&part)
    # stage two: a row is the states of its blocks
    last.operands, last.along, last.scalars, last.total = m + states, rows.along, rows.scalars, rows.total
    last.r1, last.r0, last.index_first, last.index_step, last.k = 1, blocks, 0, 0, rows.k
    for k in range(m):
        final_access[k] = access[k]
        last.data[k], last.width[k], last.k_stride[k] = rows.data[k], rows.width[k], rows.k_stride[k]
        last.r0_stride[k] = last.r1_stride[k] = 0
    for k in range(states):
        final_access[m + k] = CONTIGUOUS
        t = <TensorBase>held[k]
        last.data[m + k], last.width[m + k] = place_of(t), t.width
        last.k_stride[m + k] = blocks if rows.along else 1
        last.r0_stride[m + k] = 1 if rows.along else rows.k
        last.r1_stride[m + k] = 0
    step = blocks * rows.k
    last.outer = rows.outer
    for d in range(rows.outer):
        last.outer_size[d] = rows.outer_size[d]
        for k in range(m):
            last.outer_stride[k][d] = rows.outer_stride[k][d]
        for k in range(states):
            last.outer_stride[m + k][d] = step
        step *= rows.outer_size[d]
    kernel = kernel_for(op, rows.device == NULL, FINAL, rows.along, final_access, state_codes, states, m, common, wanted)
    last.run = kernel.run
    launch(&last)
    return 0


cdef int launch_ordered(Rows* part, int64_t whole, int64_t block) except -1:
    """Block by block, where elements need to know how far along the row their block starts."""
    cdef int64_t b
    cdef int k
    part.outer_size[0] = 1
    for b in range(whole):
        part.index_first = b * block
        launch(part)
        for k in range(part.operands):
            part.data[k] += part.outer_stride[k][0] * part.width[k]
    for k in range(part.operands):
        part.data[k] -= whole * part.outer_stride[k][0] * part.width[k]
    part.outer_size[0] = whole
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
    kept = rank - len(chosen)
    flat = [t.reshape([t.shape[i] for i in range(kept)] + [-1 if t.numel() else count_of(t, kept)]) if t.ndim else t for t in moved]
    cdef int one[1]
    one[0] = kept
    results = run_rows(op, tuple(flat), one, 1, False, wanted, params, None)
    results = results if op.outputs > 1 else (results,)
    found = []
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
            given[k].resize_(r.shape)
            r = given[k].copy_(r)
        found.append(r)
    if op.outputs == 1:
        return found[0]
    return op.names(*found) if op.names is not None else tuple(found)


cdef int64_t count_of(t, int kept):
    cdef int64_t n = 1
    for size in t.shape[kept:]:
        n *= size
    return n


cdef object underived(str name):
    """What stands for a derivative that nobody declared: backward is told, not left without a gradient."""
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
    node.outputs, node.declared = op.outputs, True
    node.set_edges(op.inputs)
    for k in range(op.inputs):
        node.connect(k, <TensorBase>tensors[k])
    if op.saved:
        node.slot = <Slot*>calloc(len(op.saved), sizeof(Slot))
        for kind, number in op.saved:
            t = <TensorBase>(tensors[number] if kind == 1 else results[number])
            keep(&node.slot[node.slots], t, -1 if kind == 1 else number)
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
    """n tensors, m results along a row or one a row; see `ops/rows.py`."""

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

    def over(self, tuple tensors, dim=None, keepdim=False, dtype=None, params=(), out=None):
        """The operation on tensors that broadcast to one shape, along `dim` (None: all dimensions)."""
        if len(tensors) != self.inputs:
            raise TypeError(f"{self.name}.over(): {self.inputs} tensors expected, got {len(tensors)}")
        if not late.attended:
            return self.along(tensors, dim, keepdim, dtype, params, out)
        if self.shown is None:
            self.shown = FunctionOp(self.along, self.name, owns=False)
        return self.shown(tensors, dim, keepdim, dtype, params, out)

    def along(self, tuple tensors, dim, keepdim, dtype, params, out):
        """`over` past the door."""
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
    cdef PyObject* found[MAX_BOUND]
    cdef object x, dim = None, keepdim = False, d = None, out = None
    if op.inputs != 1:
        raise TypeError(f"{op.name}() takes {op.inputs} tensors: call it through over((…), dim)")
    if names == NULL and 1 <= nargs <= 2 and isinstance(<object>args[0], TensorBase):
        x = <object>args[0]   # the most frequent calls need no binding
        if nargs == 2:
            dim = <object>args[1]
    elif op.listed and nargs > 2 and not PyBool_Check(<object>args[2]):
        dim = tuple([<object>args[k] for k in range(1, nargs)])
        found[0], found[1] = args[0], <PyObject*>dim
        for k in range(0 if names == NULL else <int>min(len(<tuple>names), MAX_BOUND - 2)):
            found[2 + k] = args[nargs + k]
        return call_rows(callable, found, 2, names)
    else:
        op.signature.bind(op.name, args, nargs, names, found)
        x = <object>found[0]
        if found[1] != NULL:
            dim = <object>found[1]
        if op.reduces and found[2] != NULL:
            keepdim = <object>found[2]
        if found[2 + op.reduces] != NULL:
            d = <object>found[2 + op.reduces]
        if found[3 + op.reduces] != NULL:
            out = <object>found[3 + op.reduces]
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
