# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Shapes and strides of results, and the order in which a kernel walks over its operands."""
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..base.dtypes cimport size_from
from ..base.parallel cimport num_threads, parallel_for
from ..base.tensor cimport MAX_DIMS, TensorBase
from .kernels cimport Launch, Operand, PARALLEL_FROM, Plan

cdef extern from "alloca.h" nogil:
    void* alloca(size_t n)


# --- iteration plans ------------------------------
cdef int broadcast(str who, int64_t* sizes, int* rank, TensorBase t, tuple names) except -1:
    """Widen the shape so far by t's; RuntimeError where a size is neither equal nor 1."""
    cdef int d, k, larger = t.rank if t.rank > rank[0] else rank[0]
    cdef int64_t a, b
    for k in range(larger):
        d = larger - 1 - k
        a = sizes[rank[0] - 1 - k] if k < rank[0] else 1
        b = t.sizes[t.rank - 1 - k] if k < t.rank else 1
        if a != b and a != 1 and b != 1:
            raise RuntimeError(f"{who}(): The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton "
                               f"dimension {d}: got shapes {list(size_from(rank[0], sizes))} and {list(t.shape)}")
    cdef int64_t merged[MAX_DIMS]
    for k in range(larger):
        a = sizes[rank[0] - 1 - k] if k < rank[0] else 1
        b = t.sizes[t.rank - 1 - k] if k < t.rank else 1
        merged[larger - 1 - k] = b if a == 1 else a
    memcpy(sizes, merged, larger * sizeof(int64_t))
    rank[0] = larger
    return 0


cdef void make_plan(Plan* plan, int rank, const int64_t* sizes, const int64_t* strides, int n) noexcept nogil:
    """Order the dimensions by the first of n operands' strides, innermost first, and merge those that lie one after another.
    `strides` holds `rank` of each operand; those of the plan, which has room for as many, follow.
    """
    cdef int order[MAX_DIMS]
    cdef int used = 0, d, k, i, out = 0
    plan.count, plan.operands, plan.pitch = 1, n, max(rank, 1)
    for d in range(rank - 1, -1, -1):
        plan.count *= sizes[d]
        if sizes[d] == 1:
            continue
        i = used
        while i > 0 and strides[order[i - 1]] > strides[d]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = d
        used += 1
    for i in range(used):
        d = order[i]
        plan.sizes[out] = sizes[d]
        for k in range(n):
            plan.strides[k * plan.pitch + out] = strides[k * rank + d]
        if out > 0 and mergeable(plan, out):
            plan.sizes[out - 1] *= sizes[d]
        else:
            out += 1
    if out == 0:
        plan.sizes[0] = 1
        for k in range(n):
            plan.strides[k * plan.pitch] = 1
        out = 1
    plan.rank = out
    if out > 2:
        turn_beside(plan)


cdef void turn_beside(Plan* plan) noexcept nogil:
    """Where an input is strided along the innermost dimension, move the one along which it is contiguous next to
    that: kernels turn tiles of those two in registers.
    """
    cdef int k, d, i
    cdef int64_t* strides
    for k in range(1, plan.operands):
        strides = plan.strides + k * plan.pitch
        if strides[0] <= 1:
            continue
        for d in range(2, plan.rank):
            if strides[d] == 1:
                plan.sizes[1], plan.sizes[d] = plan.sizes[d], plan.sizes[1]
                for i in range(plan.operands):
                    strides = plan.strides + i * plan.pitch
                    strides[1], strides[d] = strides[d], strides[1]
                return


cdef inline bint mergeable(const Plan* plan, int d) noexcept nogil:
    cdef int k
    cdef const int64_t* strides
    for k in range(plan.operands):
        strides = plan.strides + k * plan.pitch
        if strides[d] != strides[d - 1] * plan.sizes[d - 1]:
            return False
    return True


cdef void launch_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Run the plan with its outermost dimension restricted to [begin, end)."""
    cdef Launch* launch = <Launch*>context
    cdef const Plan* plan = launch.plan
    cdef int n = plan.operands, last = plan.rank - 1, k, d
    cdef int64_t* geometry = <int64_t*>alloca((HEAD + 2 * n) * sizeof(int64_t))
    cdef int64_t place[MAX_DIMS]
    cdef char** data = <char**>alloca(n * sizeof(char*))
    cdef int64_t inner = 1
    for d in range(last):
        inner *= plan.sizes[d]
    for k in range(n):
        data[k] = launch.data[k] + begin * plan.strides[k * plan.pitch + last] * launch.width[k]
        geometry[HEAD + k] = plan.strides[k * plan.pitch]
        geometry[HEAD + n + k] = plan.strides[k * plan.pitch + 1] if last >= 1 else 0
    geometry[0] = plan.sizes[0] if last > 0 else end - begin
    geometry[1] = 1 if last == 0 else plan.sizes[1] if last > 1 else end - begin
    geometry[2], geometry[3] = begin * inner, plan.count
    if last < 2:
        launch.run(data, geometry, launch.scalars)
        return
    for d in range(2, plan.rank):
        place[d] = 0
    while True:
        launch.run(data, geometry, launch.scalars)
        geometry[2] += geometry[0] * geometry[1]
        d = 2
        while d <= last:  # an odometer over the outer dimensions
            place[d] += 1
            for k in range(n):
                data[k] += plan.strides[k * plan.pitch + d] * launch.width[k]
            if place[d] < (plan.sizes[d] if d < last else end - begin):
                break
            for k in range(n):
                data[k] -= plan.strides[k * plan.pitch + d] * launch.width[k] * place[d]
            place[d] = 0
            d += 1
        if d > last:
            return


cdef void launch_lines(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Run the plan for the lines [begin, end) of all dimensions but the innermost, of which there are two more at least."""
    cdef Launch* launch = <Launch*>context
    cdef const Plan* plan = launch.plan
    cdef int n = plan.operands, k, d
    cdef int64_t* geometry = <int64_t*>alloca((HEAD + 2 * n) * sizeof(int64_t))
    cdef char** data = <char**>alloca(n * sizeof(char*))
    cdef int64_t rest, at
    for k in range(n):
        geometry[HEAD + k], geometry[HEAD + n + k] = plan.strides[k * plan.pitch], plan.strides[k * plan.pitch + 1]
    while begin < end:
        memcpy(data, launch.data, n * sizeof(char*))
        rest = begin
        for d in range(1, plan.rank):
            at = rest % plan.sizes[d]
            rest //= plan.sizes[d]
            for k in range(n):
                data[k] += at * plan.strides[k * plan.pitch + d] * launch.width[k]
        geometry[0], geometry[1], geometry[2] = plan.sizes[0], plan.sizes[1] - begin % plan.sizes[1], begin * plan.sizes[0]
        geometry[3] = plan.count
        if geometry[1] > end - begin:
            geometry[1] = end - begin
        launch.run(data, geometry, launch.scalars)
        begin += geometry[1]


cdef enum:
    WIDE = 512               # elements that a repeated row has at most
    MANY = 2048              # elements from which repeating it costs less than short rows do


cdef bint launch_widened(Launch* launch) noexcept nogil:
    """Where many rows of contiguous operands meet one short row of others, which would leave lanes and loops of a kernel idle:
    repeat that row, and walk as over long ones.  Whether it was done.
    """
    cdef const Plan* plan = launch.plan
    cdef Plan wide
    cdef Launch part = launch[0]
    cdef int64_t row = plan.sizes[0], rows = plan.sizes[1], times = WIDE // row, left = rows % times, size, filled
    cdef const int64_t* strides
    cdef int k, n = plan.operands
    cdef size_t needed = 0
    cdef char* buffer
    cdef char* at
    for k in range(n):
        strides = plan.strides + k * plan.pitch
        if strides[1] == 0 and strides[0] == 1:
            needed += row * times * launch.width[k]
        elif not (strides[0] == 1 and strides[1] == row) and (strides[0] != 0 or strides[1] != 0):
            return False
    if needed == 0:
        return False
    at = buffer = <char*>malloc(needed)
    if buffer == NULL:
        return False         # as it would be without
    part.data = <char**>alloca(n * sizeof(char*))
    memcpy(part.data, launch.data, n * sizeof(char*))
    wide.strides, wide.pitch = <int64_t*>alloca(2 * n * sizeof(int64_t)), 2
    wide.rank, wide.operands, wide.count = 2, n, row * (rows - left)
    wide.sizes[0], wide.sizes[1] = row * times, rows // times
    for k in range(n):
        strides = plan.strides + k * plan.pitch
        wide.strides[2 * k], wide.strides[2 * k + 1] = strides[0], strides[1] * times
        if strides[1] == 0 and strides[0] == 1:
            size, filled = row * times * launch.width[k], row * launch.width[k]
            memcpy(at, launch.data[k], filled)
            while filled < size:
                memcpy(at + filled, at, min(filled, size - filled))
                filled = min(2 * filled, size)
            part.data[k] = at
            at += size
    part.plan = &wide
    launch_plan(&part)
    if left:
        for k in range(n):
            part.data[k] += wide.strides[2 * k + 1] * wide.sizes[1] * launch.width[k]
        launch_rest(&part, row * left, row * (rows - left))
    free(buffer)
    return True


cdef void launch_rest(Launch* launch, int64_t count, int64_t first) noexcept nogil:
    """Run the kernel once, over `count` elements of a row, the first of which is number `first` of all."""
    cdef const Plan* plan = launch.plan
    cdef int n = plan.operands, k
    cdef int64_t* geometry = <int64_t*>alloca((HEAD + 2 * n) * sizeof(int64_t))
    geometry[0], geometry[1], geometry[2], geometry[3] = count, 1, first, plan.count
    for k in range(n):
        geometry[HEAD + k] = plan.strides[k * plan.pitch]
        geometry[HEAD + n + k] = 0
    launch.run(launch.data, geometry, launch.scalars)


cdef bint in_one_call(const Plan* plan, int outputs, int64_t* geometry) noexcept nogil:
    """Whether one call of a kernel on this thread does all that `launch_plan` would, and then the geometry of that call."""
    cdef int n = plan.operands, k
    if plan.rank > 2 or plan.count == 0 or plan.count >= PARALLEL_FROM // outputs:
        return False
    if plan.rank == 2 and plan.sizes[0] < WIDE // 8 and plan.count >= MANY:
        return False         # it might be widened
    geometry[0], geometry[1], geometry[2], geometry[3] = plan.sizes[0], plan.sizes[1] if plan.rank == 2 else 1, 0, plan.count
    for k in range(n):
        geometry[HEAD + k] = plan.strides[k * plan.pitch]
        geometry[HEAD + n + k] = plan.strides[k * plan.pitch + 1] if plan.rank == 2 else 0
    return True


cdef void launch_plan(Launch* launch) noexcept nogil:
    """On the pool where there is work enough."""
    cdef const Plan* plan = launch.plan
    cdef int64_t outer = plan.sizes[plan.rank - 1], least = PARALLEL_FROM // launch.outputs, grain, lines
    cdef int threads
    if plan.count == 0:
        return
    if plan.rank == 2 and plan.sizes[0] < WIDE // 8 and plan.count >= MANY and launch_widened(launch):
        return
    if plan.count < least:
        launch_range(launch, 0, outer)
        return
    threads = num_threads()
    if threads > 1 and plan.rank > 2 and outer < 4 * threads:  # too few to be shared evenly
        lines = plan.count // plan.sizes[0]
        grain = max(least // plan.sizes[0], 1)
        if lines >= 64 * threads:
            grain = (grain + 15) // 16 * 16  # whole tiles
        parallel_for(launch_lines, launch, lines, grain)
        return
    grain = least * outer // plan.count
    if plan.rank == 1:
        grain = (grain + 1023) // 1024 * 1024
    elif plan.rank == 2:
        grain = (grain + 15) // 16 * 16  # whole tiles
    elif grain < 1:
        grain = 1
    parallel_for(launch_range, launch, outer, grain)


cdef bint dense(TensorBase t) noexcept nogil:
    """Whether the elements fill their stretch of memory without gaps, each once, in any order of dimensions."""
    cdef int64_t step = 1
    cdef int d, result, left = 0
    cdef uint64_t used = 0
    if t.contiguous or t.count == 0:
        return True
    for d in range(t.rank):
        left += t.sizes[d] > 1
    while left:
        result = -1
        for d in range(t.rank):
            if t.sizes[d] > 1 and t.strides[d] == step and not used >> d & 1:
                result = d
        if result < 0:
            return False
        used |= <uint64_t>1 << result
        step *= t.sizes[result]
        left -= 1
    return True


cdef bint channels_last(int rank, const int64_t* sizes, int64_t* strides, bint given) noexcept nogil:
    """Whether the strides given are those of the channels_last format (of images, or volumes); else fill them in."""
    cdef int64_t step = 1
    cdef int i, d
    for i in range(rank):
        d = 1 if i == 0 else 0 if i == rank - 1 else rank - i
        if not given:
            strides[d] = step
        elif sizes[d] != 1 and strides[d] != step:
            return False
        step *= sizes[d]
    return True


cdef bint one_layout(int rank, const int64_t* sizes, Operand* operands, int n) noexcept:
    """Whether all operands have the result's shape and the same dense strides."""
    cdef TensorBase first = None, t
    cdef int k
    for k in range(n):
        if operands[k].tensor == NULL:
            return False
        t = <TensorBase>operands[k].tensor
        if not fits(t, rank, sizes) or not dense(t):
            return False
        if first is None:
            first = t
        elif memcmp(t.strides, first.strides, rank * sizeof(int64_t)) != 0:
            return False
    return first is not None


cdef inline int64_t stride_at(TensorBase t, int d, int rank, const int64_t* sizes) noexcept nogil:
    d -= rank - t.rank
    return 0 if d < 0 or (t.sizes[d] == 1 and sizes[d + rank - t.rank] != 1) else t.strides[d]


cdef int outer_first(int a, int b, int rank, const int64_t* sizes, Operand* operands, int n) noexcept:
    """Which of two dimensions lies further out: 1 for a, -1 for b, by the first operand that tells; 0 where none does."""
    cdef int64_t at_a, at_b
    cdef int k
    for k in range(n):
        if operands[k].tensor == NULL:
            continue
        at_a = stride_at(<TensorBase>operands[k].tensor, a, rank, sizes)
        at_b = stride_at(<TensorBase>operands[k].tensor, b, rank, sizes)
        if at_a == 0 or at_b == 0:
            continue
        if at_a != at_b:
            return 1 if at_a > at_b else -1
        if sizes[a] > sizes[b]:
            return 1
    return 0


cdef void layout(int64_t* strides, int rank, const int64_t* sizes, Operand* operands, int n) noexcept:
    """Strides of a new result, as PyTorch chooses them: the operands' own where they agree, else dense, with the
    dimensions in the order in which the operands hold them.
    """
    cdef int order[MAX_DIMS]
    cdef int d, i, at, sign
    cdef int64_t step = 1
    if n and one_layout(rank, sizes, operands, n):
        if (<TensorBase>operands[0].tensor).contiguous:  # row-major, whatever stride a dimension of size 1 has
            for d in range(rank - 1, -1, -1):
                strides[d] = step
                step *= sizes[d] if sizes[d] > 1 else 1
            return
        memcpy(strides, (<TensorBase>operands[0].tensor).strides, rank * sizeof(int64_t))
        if (rank == 4 or rank == 5) and channels_last(rank, sizes, strides, True):
            channels_last(rank, sizes, strides, False)  # dimensions of size 1 get the format's strides, too
        return
    for i in range(rank):
        order[i] = rank - 1 - i       # innermost first
    for i in range(1, rank):
        at = i
        for d in range(i - 1, -1, -1):
            sign = outer_first(order[d], order[at], rank, sizes, operands, n)
            if sign < 0:
                break
            if sign > 0:
                order[d], order[at] = order[at], order[d]
                at = d
    for i in range(rank):
        strides[order[i]] = step
        if sizes[order[i]] > 1:
            step *= sizes[order[i]]


cdef bint fits(TensorBase t, int rank, const int64_t* sizes) noexcept nogil:
    cdef int d
    if t.rank != rank:
        return False
    for d in range(rank):
        if t.sizes[d] != sizes[d]:
            return False
    return True
