# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What makes plans: of kernels of any width (`codegen.kernels.fused`), and of operations with their arguments.

Loops and cuts are those of eager calls (`call/layout.pyx`, `rows.pyx`), which bind no number of operands.
"""
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free
from libc.string cimport memcpy
from cpython.object cimport PyObject
from ..base.device cimport Device
from ..base.dtypes cimport F16, NO_CODE, as_dtype, dtype_of, size_from
from ..base.dtypes import by_name
from ..base.callbacks import callbacks
from ..base.tensor cimport MAX_DIMS, TensorBase, as_int, parse_dims, parse_sizes
from ..call.kernels cimport (
    BROADCAST, CONTIGUOUS, MAX_OPERANDS, MAX_PARAMS, MAX_SLOTS, Family, Operand, PointwisePlan, kernel_t, one_device,
)
from ..call.layout cimport make_plan
from ..call.operands cimport common_code
from ..call.pointwise cimport PointwiseOp, device_of, fill_scalars, not_implemented, plan_pointwise, read_call
from ..call.signature cimport MAX_BOUND
from .plans cimport LoopPlan, RowLoopPlan, allocate
from .rows cimport RowOp, RowPlan, Rows, in_stages, new_rows, panel_of, plan_rows, read_dims, stage_kernels, walk

cdef extern from "alloca.h" nogil:
    void* alloca(size_t n)

cdef str LETTERS = "cbs"      # codegen.kernels.CONTIGUOUS, BROADCAST, STRIDED


# --- of kernels of any width ------------------------------
cdef int read_operands(LoopPlan plan, str who, object kernel, object operands, int rank, const int64_t* sizes, int64_t** aligned, Device device) except -1:
    """Enter operands (tensors, or `Geometry` on `device`) of the dtypes of the kernel, which broadcast to `sizes`; their strides along those."""
    cdef list given = list(operands), dtypes
    cdef int count = <int>len(given), outputs = <int>len(kernel.outputs), k, d, ahead, own, widest = 0
    cdef int64_t shape[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t offset
    cdef PyObject** tensors = <PyObject**>alloca(count * sizeof(PyObject*))
    cdef TensorBase t
    cdef Device on
    dtypes = [e.dtype for e in kernel.outputs] + [o.dtype for o in kernel.inputs]
    if count != len(dtypes):
        raise TypeError(f"{who}(): {kernel.name} has {outputs} results and {len(dtypes) - outputs} inputs, got {count} operands")
    for k in range(count):
        x = given[k]
        tensors[k] = <PyObject*>x if isinstance(x, TensorBase) else NULL
        widest = max(widest, <int>(<TensorBase>x).rank if isinstance(x, TensorBase) else <int>len(x.shape))
    if widest > rank:
        raise ValueError(f"{who}(): operands of at most {rank} dimensions expected, got one of {widest}")
    on = one_device(who, tensors, count)
    plan.reserve(kernel.name, count, outputs, rank, device if on is None else on)
    aligned[0] = <int64_t*>allocate(count * max(rank, 1), sizeof(int64_t))
    for k in range(count):
        offset = 0
        if tensors[k] != NULL:
            t = <TensorBase>tensors[k]
            plan.describe(k, t.code, t.rank, t.sizes, t.strides)
        else:
            element, own_shape, own_strides, at = given[k]
            own = parse_sizes(tuple(own_shape), shape, who)
            if len(own_strides) != own:
                raise ValueError(f"{who}(): operand {k} has {own} dimensions, got {len(own_strides)} strides")
            for d in range(own):
                if shape[d] < 0:
                    raise ValueError(f"{who}(): operand {k}: sizes of at least 0 expected, got {tuple(own_shape)}")
                strides[d] = as_int(own_strides[d], who, "strides")
            plan.describe(k, as_dtype(element, who).code, own, shape, strides)
            offset = as_int(at, who, "offset")
        if dtype_of(plan.codes[k]).name != dtypes[k]:
            raise TypeError(f"{who}(): operand {k} of {kernel.name} is {dtypes[k]}, got {dtype_of(plan.codes[k]).name}")
        if offset:
            if plan.offsets == NULL:
                plan.offsets = <int64_t*>allocate(count, sizeof(int64_t))
            plan.offsets[k] = offset * plan.width[k]
        ahead = rank - plan.ranks[k]
        for d in range(plan.ranks[k]):
            if plan.sizes[k * plan.pitch + d] != 1:
                if plan.sizes[k * plan.pitch + d] != sizes[ahead + d]:
                    raise ValueError(f"{who}(): operand {k} of shape {list(size_from(plan.ranks[k], plan.sizes + k * plan.pitch))} does not "
                                     f"broadcast to {list(size_from(rank, sizes))}")
                aligned[0][k * rank + ahead + d] = plan.strides[k * plan.pitch + d]
    return 0


cdef int read_shape(str who, object shape, int64_t* sizes) except -1:
    """The number of dimensions; RuntimeError for more elements than can be counted."""
    cdef int rank = parse_sizes(tuple(shape), sizes, who), d
    count = 1
    for d in range(rank):
        if sizes[d] < 0:
            raise ValueError(f"{who}(): sizes of at least 0 expected, got {tuple(shape)}")
        count *= max(sizes[d], 1)
    if count >= 1 << 62:
        raise RuntimeError(f"{who}(): {tuple(shape)} has more elements than can be counted")
    return rank


cdef int read_scalars(LoopPlan plan, str who, object kernel, object scalars) except -1:
    """A double or an integer of 8 bytes for each of the kernel's parameters."""
    cdef tuple values = tuple(scalars), dtypes = kernel.params
    cdef uint64_t* slots
    cdef double real
    cdef int k
    if len(values) != len(dtypes):
        raise TypeError(f"{who}(): {kernel.name} has {len(dtypes)} scalars, got {len(values)}")
    slots = plan.scalars = <uint64_t*>allocate(len(values), sizeof(uint64_t))
    for k in range(len(values)):
        if dtypes[k].startswith(("float", "bfloat")):
            real = values[k]
            memcpy(&slots[k], &real, 8)
        else:
            slots[k] = <uint64_t>(int(values[k]) & 0xFFFFFFFFFFFFFFFF)
    return <int>len(values)


cdef dict families = {}         # text of a kernel -> what a device has loaded of it: plans of one kernel share that


cdef object enter(LoopPlan plan, kernel_t* run, object kernel):
    """Set where a kernel's code stands, or what stands for it on a device; what tells it from others."""
    cdef str text
    if plan.device is None:
        address = callbacks["kernel_address"](kernel)
        run[0] = <kernel_t><void*><uintptr_t>address
        return address
    text = kernel.text()
    if text not in families:
        families[text] = Family(kernel)
    plan.family = <Family>families[text]
    run[0] = <kernel_t><void*><PyObject*>plan.family
    return text


def loop_plan(kernel, shape, operands, scalars=(), device=None) -> LoopPlan:
    """A plan for a kernel over `shape`: `operands` are tensors or `Geometry`, results first, which broadcast to it from the right.

    `kernel` is a `codegen.kernels.Pointwise` of any width; how it walks over operands (its accesses) follows from their geometry.
    Loops go by the first result's strides, and so do the numbers that a kernel sees of its elements.  TypeError for other
    dtypes or numbers of operands than the kernel's, ValueError for shapes that do not broadcast, or a result that does.
    `device`: the `Device` that operands given as `Geometry` lie on; None for the host.  NotImplementedError for more operands than one launch
    of it takes.

    >>> import flambeau
    >>> from flambeau.codegen import expr as ex
    >>> from flambeau.codegen.kernels import fused
    >>> from flambeau.core.loops.planning import loop_plan
    >>> x, row = ex.input(0, "float32"), ex.input(1, "float32")
    >>> a, b = flambeau.ones(2, 3), flambeau.arange(3.0)
    >>> plan = loop_plan(fused("scaled", [2 * x + row]).kernel, (2, 3), [a, a, b])
    >>> plan
    LoopPlan(scaled: loops 2 x 3; float32 (3, 1) c from float32 (3, 1) c, float32 (0, 1) c)
    >>> plan.launch([a, b])
    tensor([[2., 3., 4.],
            [2., 3., 4.]])
    """
    cdef LoopPlan plan = LoopPlan.__new__(LoopPlan)
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t* aligned = NULL
    cdef int rank = read_shape("loop_plan", shape, sizes), n, k, d
    try:
        read_operands(plan, "loop_plan", kernel, operands, rank, sizes, &aligned, device)
        for k in range(plan.outputs):
            for d in range(rank):
                if aligned[k * rank + d] == 0 and sizes[d] > 1:
                    raise ValueError(f"loop_plan(): result {k} of {kernel.name} would be written more than once along dimension {d}")
        plan.loops.strides = <int64_t*>allocate(plan.count * max(rank, 1), sizeof(int64_t))
        make_plan(&plan.loops, rank, sizes, aligned, plan.count)
    finally:
        free(aligned)
    n = read_scalars(plan, "loop_plan", kernel, scalars)
    key = enter(plan, &plan.run, kernel.walking(plan.accesses()))
    plan.prepare()
    plan.settle(key, n)
    return plan


def row_plan(kernel, shape, dim, operands, scalars=(), settle=None, device=None) -> RowLoopPlan:
    """A plan for a kernel along the rows of `shape` that `dim` (a dimension, or several) make up: `operands` are tensors or
    `Geometry`, results first, which broadcast to it from the right.

    `kernel` is a `codegen.kernels.Row` of any width.  A result with one value a row has size 1 in the row's dimensions, or strides
    of 0; one that is as long as the row has strides there.  Long rows of a reduction are cut into blocks as those of
    eager calls.  `device` is as in `loop_plan`.  NotImplementedError for rows in more than two pieces.

    `settle(plan, kernels)` sees how rows are walked over before anything is compiled: given the plan and the kernel (two kernels
    where rows are cut into blocks), it returns those that are compiled in their place, such as ones with other `lanes`.

    >>> import flambeau
    >>> from flambeau.codegen import expr as ex
    >>> from flambeau.codegen import kernels as kn
    >>> from flambeau.core.loops.planning import row_plan
    >>> x = ex.input(0, "float32")
    >>> centred = kn.fused("centred", [x - kn.mean(x), kn.max(x)]).kernel
    >>> a, most = flambeau.tensor([[1.0, 3.0], [2.0, 6.0]]), flambeau.empty(2, 1)
    >>> plan = row_plan(centred, (2, 2), 1, [a, most, a])
    >>> plan.launch([a])
    (tensor([[-1.,  1.],
            [-2.,  2.]]), tensor([[3.],
            [6.]]))
    """
    cdef RowLoopPlan plan = RowLoopPlan.__new__(RowLoopPlan)
    cdef int64_t sizes[MAX_DIMS]
    cdef int dims[MAX_DIMS]
    cdef bint reduced[MAX_DIMS]
    cdef int64_t* aligned = NULL
    cdef int rank = read_shape("row_plan", shape, sizes), n, k, d, ndims = parse_dims(dim, rank, dims, "row_plan"), guide, best = -1, own
    cdef int pieces, step
    cdef int64_t length = 1
    cdef bint* full
    cdef int* access
    cdef bint ordered = kernel.ordered()
    cdef Rows* rows
    for d in range(rank):
        reduced[d] = False
    for k in range(ndims):
        reduced[dims[k]] = True
        length *= sizes[dims[k]]
    try:
        read_operands(plan, "row_plan", kernel, operands, rank, sizes, &aligned, device)
        full, access = <bint*>alloca(plan.count * sizeof(bint)), <int*>alloca(plan.count * sizeof(int))
        rows = plan.rows = new_rows(plan.count, max(rank, 1))
        guide, moves = 0, []
        for k in range(plan.count):
            own, along, rows.width[k] = 0, 0, plan.width[k]
            for d in range(rank):
                own += aligned[k * rank + d] != 0
                step = d - rank + plan.ranks[k]     # its own dimension
                along += reduced[d] and (aligned[k * rank + d] != 0 or (step >= 0 and plan.sizes[k * plan.pitch + step] == 0))
                if k < plan.outputs and not reduced[d] and aligned[k * rank + d] == 0 and sizes[d] > 1:
                    raise ValueError(f"row_plan(): result {k} of {kernel.name} would be written more than once along dimension {d}")
            if k >= plan.outputs and own > best:
                guide, best = k, own
            moves.append(bool(along))
        for k in range(plan.outputs):
            full[k] = moves[k]
            for d in range(rank):
                if full[k] and reduced[d] and sizes[d] > 1 and aligned[k * rank + d] == 0:
                    raise ValueError(f"row_plan(): result {k} of {kernel.name} would be written more than once along dimension {d}")
        if length > 1:
            kernel = kernel.full(moves[plan.outputs:], moves[:plan.outputs])
        pieces = walk(rows, access, rank, sizes, aligned, reduced, full, plan.outputs, plan.count - plan.outputs, guide, ordered,
                      plan.device is None)
    finally:
        free(aligned)
    if pieces > 2:
        raise NotImplementedError(f"row_plan(): rows of {kernel.name} lie in {pieces} pieces, at most 2 are walked over: make them contiguous")
    if length == 0 and not rows.along:   # what has one value a row is then computed for each row all the same
        rows.along = True
        for k in range(plan.count):
            access[k] = CONTIGUOUS if moves[k] else BROADCAST
    n = read_scalars(plan, "row_plan", kernel, scalars)
    plan.access = tuple([LETTERS[access[k]] for k in range(plan.count)])
    kernel = kernel.walking(plan.access, "r" if rows.along else "k")
    stages = kernel.in_stages() if True not in moves[:plan.outputs] and in_stages(rows, pieces, plan.device is None) else None
    if stages is not None:
        plan.cut([as_dtype(by_name[e.dtype], "row_plan").code for e in stages[0].outputs], ordered)
    if settle is not None:
        made = settle(plan, (kernel,) if stages is None else stages)
        if stages is None:
            (kernel,) = made
        else:
            stages = made
    if stages is not None:
        first = enter(plan, &plan.stages.part.run, stages[0])
        held = plan.family
        key = first, enter(plan, &plan.stages.last.run, stages[1])
        plan.kept = held, plan.family
    else:
        key = enter(plan, &rows.run, kernel)
        if True in moves[:plan.outputs] and plan.device is None and not rows.along and rows.r1 == 1:
            rows.panel = panel_of(rows)
    plan.prepare()
    plan.settle(key, n)
    return plan


# --- of operations ------------------------------
def plan_of(op, /, *args, **params) -> LoopPlan:
    """The plan of a pointwise operation, or of a reduction or row function, for arguments of that geometry: its `launch` computes what
    the operation would of the tensors among them, in that order; numbers and parameters are the plan's.

    A pointwise operation is called as ever; a row operation as (tensor, or a tuple of several, dim=None, keepdim=False, dtype=None,
    params=()).  NotImplementedError for dtypes that are computed in others, and for rows that an eager call would
    gather into a copy first.

    >>> import flambeau
    >>> from flambeau.core.loops.planning import plan_of
    >>> x, y = flambeau.arange(6.0), flambeau.ones(6)
    >>> plan = plan_of(flambeau.add, x, 1.0)
    >>> plan.launch([y])
    tensor([2., 2., 2., 2., 2., 2.])
    >>> plan == plan_of(flambeau.add, y, 1.0), plan == plan_of(flambeau.add, y, 2.0)
    (True, False)
    """
    if isinstance(op, PointwiseOp):
        return plan_of_pointwise(<PointwiseOp>op, args, params)
    if isinstance(op, RowOp):
        return plan_of_rows(op, *args, **params)
    raise TypeError(f"plan_of(): a pointwise operation, a reduction or a row function expected, got {op!r}")


cdef LoopPlan plan_of_pointwise(PointwiseOp op, tuple args, dict named):
    cdef LoopPlan plan = LoopPlan.__new__(LoopPlan)
    cdef PointwisePlan result
    cdef Operand operands[MAX_OPERANDS]
    cdef double params[MAX_PARAMS]
    cdef PyObject* bound[MAX_BOUND]
    cdef PyObject** given = <PyObject**>alloca((len(args) + len(named) + 1) * sizeof(PyObject*))
    cdef uint64_t scalars[MAX_SLOTS]
    cdef tuple names = tuple(named), values = tuple(named.values())
    cdef TensorBase t
    cdef Device device
    cdef int k, n = op.operands, m = op.outputs, common, codes, place = m, used
    for k in range(len(args)):
        given[k] = <PyObject*>args[k]
    for k in range(len(values)):
        given[len(args) + k] = <PyObject*>values[k]
    read_call(op, given, len(args), <PyObject*>names if names else NULL, op.name, operands, params, bound)
    if bound[n + op.params] != NULL and <object>bound[n + op.params] is not None:
        raise TypeError(f"{op.name}(): a plan takes results when it is launched, not as out=")
    common = codes = common_code(operands, n, op.raw)
    for k in range(n):
        if operands[k].tensor != NULL:
            codes |= (<TensorBase>operands[k].tensor).code
            place += 1
    if place == m:
        raise TypeError(f"{op.name}(): argument '{op.names[0]}' (position 1) must be Tensor, not a number")
    if codes > NO_CODE or (op.pairs and common == F16):
        raise not_implemented(op.name, common)
    device = device_of(op, operands, NULL)
    plan_pointwise(op, &result, operands, common, NULL, device)
    plan.reserve(op.name, place, m, result.rank, device)
    for k in range(m):
        plan.describe(k, result.codes[k], result.rank, result.sizes, result.strides)
    place = m
    for k in range(n):
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            plan.describe(place, t.code, t.rank, t.sizes, t.strides)
            place += 1
    plan.loops = result.loops
    plan.loops.strides = <int64_t*>allocate(place * result.loops.pitch, sizeof(int64_t))
    memcpy(plan.loops.strides, result.stride_buffer, place * result.loops.pitch * sizeof(int64_t))
    used = fill_scalars(op, operands, params, common, scalars)
    plan.keep_scalars(scalars, used)
    plan.run = result.run
    if device is not None:
        plan.family = <Family><object><void*>result.run
    plan.prepare()
    plan.settle(<uintptr_t><void*>result.run, used)
    return plan


def plan_of_rows(RowOp op, tensors, dim=None, keepdim=False, dtype=None, params=()) -> RowLoopPlan:
    """`plan_of` for a reduction or row function."""
    cdef RowLoopPlan plan = RowLoopPlan.__new__(RowLoopPlan)
    cdef RowPlan result
    cdef tuple given = tensors if isinstance(tensors, tuple) else (tensors,)
    cdef PyObject* inputs[MAX_OPERANDS]
    cdef int64_t strides[MAX_DIMS]
    cdef double scalars[MAX_PARAMS]
    cdef int dims[MAX_DIMS]
    cdef int k, d, ndims, n = op.inputs, m = op.outputs, seen, wanted = NO_CODE if dtype is None else as_dtype(dtype, op.name).code
    cdef int64_t step
    cdef TensorBase t
    cdef Device device
    if len(given) != n:
        raise TypeError(f"{op.name}(): {n} tensors expected, got {len(given)}")
    seen = wanted
    for k in range(n):
        if not isinstance(given[k], TensorBase):
            raise TypeError(f"{op.name}(): Tensor expected for input {k}, not {type(given[k]).__name__}")
        inputs[k] = <PyObject*>given[k]
        seen |= (<TensorBase>given[k]).code
    if seen > NO_CODE:
        raise not_implemented(op.name, seen)
    ndims = read_dims(op, dim, <TensorBase>inputs[0], dims)
    device = one_device(op.name, inputs, n)
    plan_rows(op, &result, inputs, dims, ndims, bool(keepdim), wanted, device)
    if result.scattered:
        raise NotImplementedError(f"{op.name}(): rows lie scattered in memory; make the input contiguous")
    plan.reserve(op.name, m + n, m, result.rank, device)
    for k in range(m):
        if op.full >> k & 1:
            plan.describe(k, result.result_codes[k], result.rank, result.sizes, result.full_strides)
            continue
        step = 1
        for d in range(result.result_rank - 1, -1, -1):
            strides[d] = step
            step *= max(result.result_sizes[d], <int64_t>1)
        plan.describe(k, result.result_codes[k], result.result_rank, result.result_sizes, strides)
    for k in range(n):
        t = <TensorBase>inputs[k]
        plan.describe(m + k, t.code, t.rank, t.sizes, t.strides)
    for k in range(op.params):
        scalars[k] = params[k] if k < len(params) else op.defaults[k]
    plan.keep_scalars(<uint64_t*>scalars, op.params)
    plan.attach(&result.rows, result.rows.operands)
    plan.access = tuple([LETTERS[result.access[k]] for k in range(m + n)])
    if op.from_origin:   # the first element of each row, once more; any place where there is none
        plan.repeated = 0 if result.rows.r0 == 0 else m
    if result.two:
        plan.cut(list(op.declaration.two_stage_codes(result.common, result.wanted)[1]), op.ordered)
        stage_kernels(op, &result, &plan.stages, plan.state_codes)
        key = <uintptr_t><void*>plan.stages.part.run, <uintptr_t><void*>plan.stages.last.run
    else:
        key = <uintptr_t><void*>result.rows.run
    plan.prepare()
    plan.settle(key, op.params)
    return plan
