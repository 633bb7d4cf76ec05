# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Reading and writing at places that index tensors name.

Index tensors become a list of places in the storage, computed and checked before anything is read or written.  Threads share what is
read, and the places that are written to; each of those is written in the order of the elements, so that equal indices always give the
same bits.
"""
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from ..base.dtypes cimport BOOL, I64, F16, BF16, F32, CATEGORY, dtype_of, is_stored, size_from
from ..base.tensor cimport MAX_DIMS, TensorBase, bump_version, new_tensor, pointer
from ..call.destination cimport check_written
from ..tape.modes cimport grad_enabled, set_grad, wants_grad
from ..call.pointwise cimport sum_to, wider
from ..base.memory cimport scratch
from ..base.parallel cimport num_threads, parallel_for
from ..base.callbacks import callbacks
from ..views.strided cimport compact, expanded, is_tracked, reshaped
from ..call.copies import clone, copy_, to_dtype
from ..call.overlap cimport each_apart
from .lines cimport ADD, SET, read_line, write_line
from ..tape.formulas import record

cdef enum:
    PARALLEL_FROM = 1 << 16    # elements from which threads share the work, or do something else meanwhile
    LEAST_BLOCK = 8            # elements at a place from which threads share the places


cdef TensorBase as_index(TensorBase t):
    return t if t.code == I64 else <TensorBase>to_dtype(t.detach(), dtype_of(I64))


# --- places ------------------------------------------------------------------------------------------------------------------------
cdef struct Places:
    int before                # dimensions in front of the indexed ones
    int64_t before_sizes[MAX_DIMS]
    int64_t before_strides[MAX_DIMS]
    int after                 # dimensions behind them
    int64_t after_sizes[MAX_DIMS]
    int64_t after_strides[MAX_DIMS]
    int64_t outer             # elements of the dimensions in front
    int64_t count             # index positions
    int64_t block             # elements of the dimensions behind
    bint solid                # those lie without gaps
    int64_t* places           # for each index position, its offset in elements
    int rank                  # of the result
    int64_t sizes[MAX_DIMS]
    int width
    char* data                # the indexed tensor's
    char* rows                # the other side's: contiguous but for the dimensions in front
    int64_t row_strides[MAX_DIMS]
    int code                  # what is written: the dtype, and SET or ADD
    int how
    int64_t shares            # into how many the places are shared out


cdef int find_places(Places* p, TensorBase v, list indices, object error, bint negative) except -1:
    """Read the index tensors: shape of the result, and where each index position lies in v.

    `error` is raised where an index is out of bounds; negative ones count from the end if `negative`.
    """
    cdef int64_t shape[MAX_DIMS]
    cdef int rank = 0, d, k, first = -1, last = -1, result = 0
    cdef TensorBase index
    cdef bint adjacent
    for d in range(len(indices)):
        if indices[d] is None:
            continue
        if first < 0:
            first = d
        last = d
        result += 1
        index = <TensorBase>indices[d]
        rank = widen(shape, rank, index, indices)
    adjacent = last - first + 1 == result
    p.before = p.after = 0
    p.outer = p.count = p.block = 1
    for d in range(v.rank):
        if d < len(indices) and indices[d] is not None:
            continue
        if adjacent and d < first:
            p.before_sizes[p.before], p.before_strides[p.before] = v.sizes[d], v.strides[d]
            p.outer *= v.sizes[d]
            p.before += 1
        else:
            p.after_sizes[p.after], p.after_strides[p.after] = v.sizes[d], v.strides[d]
            p.block *= v.sizes[d]
            p.after += 1
    p.solid, p.rank = True, 0
    cdef int64_t step = 1
    for k in range(p.after - 1, -1, -1):
        if p.after_sizes[k] != 1:
            p.solid = p.solid and p.after_strides[k] == step
            step *= p.after_sizes[k]
    if p.before + rank + p.after > MAX_DIMS:
        raise IndexError(f"the indexing result would have more than {MAX_DIMS} dimensions")
    for k in range(p.before):
        p.sizes[k] = p.before_sizes[k]
    for k in range(rank):
        p.sizes[p.before + k] = shape[k]
        p.count *= shape[k]
    for k in range(p.after):
        p.sizes[p.before + rank + k] = p.after_sizes[k]
    p.rank = p.before + rank + p.after
    p.width, p.data = v.width, pointer(v)
    p.places = <int64_t*>scratch(p.count, sizeof(int64_t))
    memset(p.places, 0, p.count * sizeof(int64_t))
    try:
        if p.count:
            for d in range(len(indices)):
                if indices[d] is not None:
                    add_index(p.places, rank, shape, <TensorBase>indices[d], v, d, error, negative)
    except BaseException:
        free(p.places)
        raise
    return 0


cdef int widen(int64_t* shape, int rank, TensorBase index, list indices) except -1:
    """Broadcast the index shape so far with one more index tensor's."""
    cdef int larger = max(rank, index.rank), k
    cdef int64_t a, b
    cdef int64_t merged[MAX_DIMS]
    for k in range(larger):
        a = shape[rank - 1 - k] if k < rank else 1
        b = index.sizes[index.rank - 1 - k] if k < index.rank else 1
        if a != b and a != 1 and b != 1:
            shapes = ", ".join([str(list(i.shape)) for i in indices if i is not None])
            raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")
        merged[larger - 1 - k] = b if a == 1 else a
    memcpy(shape, merged, larger * sizeof(int64_t))
    return larger


cdef int add_index(int64_t* places, int rank, const int64_t* shape, TensorBase index, TensorBase v, int dim, object error,
                   bint negative) except -1:
    """Add an index tensor's part to each place."""
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t place[MAX_DIMS]
    cdef int64_t size = v.sizes[dim], step = v.strides[dim], i, k, bad = 0, low = -size if negative else 0
    cdef int64_t inner = shape[rank - 1] if rank else 1, inner_step, rows = 1
    cdef const int64_t* p = <const int64_t*>pointer(index)
    cdef int d, e
    cdef bint failed = False
    for d in range(rank):
        e = d - (rank - index.rank)
        strides[d] = index.strides[e] if e >= 0 and index.sizes[e] != 1 else 0
        place[d] = 0
        if d < rank - 1:
            rows *= shape[d]
    inner_step = strides[rank - 1] if rank else 0
    with nogil:
        for k in range(rows):
            for i in range(inner):
                bad = p[i * inner_step]
                if bad < low or bad >= size:
                    failed = True
                    break
                places[i] += (bad + size if bad < 0 else bad) * step
            if failed:
                break
            places += inner
            d = rank - 2
            while d >= 0:
                place[d] += 1
                p += strides[d]
                if place[d] < shape[d]:
                    break
                p -= strides[d] * place[d]
                place[d] = 0
                d -= 1
    if failed:
        raise error(f"index {bad} is out of bounds for dimension {dim} with size {size}: index out of range in self")
    return 0


cdef inline int64_t outer_offset(const Places* p, int64_t row, const int64_t* strides) noexcept nogil:
    """Offset of one position of the dimensions in front, on the side that has these strides."""
    cdef int64_t offset = 0
    cdef int d
    for d in range(p.before - 1, -1, -1):
        offset += row % p.before_sizes[d] * strides[d]
        row //= p.before_sizes[d]
    return offset


cdef inline int64_t line_offset(Places* p, int64_t line) noexcept nogil:
    """Offset of a line of a block: of one position of the dimensions behind but the last."""
    cdef int64_t offset = 0
    cdef int d
    for d in range(p.after - 2, -1, -1):
        offset += line % p.after_sizes[d] * p.after_strides[d]
        line //= p.after_sizes[d]
    return offset


cdef void get_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows [begin, end) of the result; there are outer × count of them."""
    cdef Places* p = <Places*>context
    cdef int64_t row = begin, position, n, i, k, lines, length, step
    cdef const char* source
    cdef char* to = p.rows + begin * p.block * p.width
    block_lines(p, &lines, &length, &step)
    while row < end:
        position = row % p.count
        n = min(p.count - position, end - row)
        source = p.data + outer_offset(p, row // p.count, p.before_strides) * p.width
        if p.block == 1:
            read_line(p.width, to, 1, source, 0, p.places + position, 1, 1, INT64_MAX, n)
            to += n * p.width
        else:
            for i in range(position, position + n):
                for k in range(lines):
                    read_line(p.width, to, 1, source + line_offset(p, k) * p.width, step, p.places + i, 0, 1, INT64_MAX, length)
                    to += length * p.width
        row += n


cdef void block_lines(Places* p, int64_t* lines, int64_t* length, int64_t* step) noexcept nogil:
    """How many lines a block is walked by, how long they are, and how far apart their elements lie."""
    lines[0], length[0], step[0] = 1, p.block, 1
    if not p.solid:
        length[0], step[0] = p.after_sizes[p.after - 1], p.after_strides[p.after - 1]
        lines[0] = p.block // length[0]


cdef inline int64_t share_of(int64_t place, int64_t shares) noexcept nogil:
    """The share that a place belongs to; neighbours are spread over all of them (D. Knuth's multiplicative hash)."""
    return <int64_t>(((<uint64_t>place * <uint64_t>0x9E3779B97F4A7C15) >> 32) * <uint64_t>shares >> 32)


cdef void put_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """The other way: rows to their places, in order, so that the last of equal indices wins, and sums have always the same bits.
    A unit is one position of the dimensions in front, and there one share of the places.
    """
    cdef Places* p = <Places*>context
    cdef int64_t unit, share, i, k, lines, length, step
    cdef char* to
    cdef const char* rows
    cdef const char* source
    block_lines(p, &lines, &length, &step)
    for unit in range(begin, end):
        share = unit % p.shares
        to = p.data + outer_offset(p, unit // p.shares, p.before_strides) * p.width
        rows = p.rows + outer_offset(p, unit // p.shares, p.row_strides) * p.width
        if p.block == 1:
            write_line(p.code, p.width, p.how, to, 0, rows, 1, p.places, 1, 1, p.count)
            continue
        for i in range(p.count):
            if p.shares > 1 and share_of(p.places[i], p.shares) != share:
                continue
            source = rows + i * p.block * p.width
            for k in range(lines):
                write_line(p.code, p.width, p.how, to + line_offset(p, k) * p.width, step, source, 1, p.places + i, 0, 1, length)
                source += length * p.width


cdef void put_rows(Places* p, int code, int how, bint serial) noexcept nogil:
    """`serial`: elements may lie in one place, so that one thread writes them all."""
    cdef int64_t each, threads = num_threads()
    p.code, p.how, p.shares = code, how, 1
    if serial or threads == 1:
        put_range(p, 0, p.outer)
        return
    if p.block >= LEAST_BLOCK and p.outer < 4 * threads:   # each share reads all places
        p.shares = threads
    each = p.count * p.block // p.shares + 1
    parallel_for(put_range, p, p.outer * p.shares, max(PARALLEL_FROM // each, <int64_t>1))


# --- reading and writing at places -----------------------------------------------------------------------------------------------
cdef TensorBase get(TensorBase v, list indices, str label):
    return get_checked(v, indices, label, IndexError, True)


cdef TensorBase get_checked(TensorBase v, list indices, str label, object error, bint negative):
    """The elements at the index positions, in a new tensor."""
    cdef Places p
    cdef TensorBase out
    cdef int64_t grain
    if v.storage.on is not None:
        out = <TensorBase>callbacks["device.index"](v, indices, negative)
        if is_tracked(v):
            record_get(v, indices, out, label)
        return out
    find_places(&p, v, indices, error, negative)
    try:
        out = new_tensor(p.rank, p.sizes, v.code)
        p.rows = out.storage.data
        if out.count:
            if out.count < PARALLEL_FROM:
                get_range(&p, 0, p.outer * p.count)
            else:
                grain = PARALLEL_FROM // p.block
                with nogil:
                    parallel_for(get_range, &p, p.outer * p.count, grain if grain > 0 else 1)
    finally:
        free(p.places)
    if is_tracked(v):
        record_get(v, indices, out, label)
    return out


cdef int record_get(TensorBase v, list indices, TensorBase out, str label) except -1:
    dims = tuple([i is not None for i in indices])
    record(label, scatter_backward, (v,), out, tuple([i for i in indices if i is not None]), ((dims, v.shape),))
    return 0


cdef list with_gaps(tuple tensors, tuple dims):
    """Index tensors (the first of `tensors`) at the dimensions marked, None at the others."""
    result = iter(tensors)
    return [next(result) if used else None for used in dims]


def scatter_backward(grad, *saved):
    """Derivative of reading: the gradient added up at the places read, among zeros."""
    dims, shape = saved[len(saved) - 1]
    return scatter_gradient(<TensorBase>grad, with_gaps(saved, dims), shape)


cdef TensorBase scatter_gradient(TensorBase grad, list indices, object shape):
    """Zeros of that shape with the gradient's elements added at the index positions."""
    cdef TensorBase out
    cdef bint before = grad_enabled()
    cdef bint half = grad.code == F16 or grad.code == BF16 or is_stored(grad.code)
    set_grad(False)
    try:
        out = <TensorBase>(<object>grad).new_zeros(shape, dtype=dtype_of(wider(grad.code) if half else grad.code))
        put_into(out, indices, <TensorBase>to_dtype(grad, dtype_of(out.code)) if half else grad, True, "index")
        if half:
            out = <TensorBase>to_dtype(out, dtype_of(grad.code))
    finally:
        set_grad(before)
    if is_tracked(grad):
        dims = tuple([i is not None for i in indices])
        record("IndexPutBackward0", get_back, (grad,), out, tuple([i for i in indices if i is not None]), (dims,))
    return out


def get_back(grad, *saved):
    """Derivative of spreading: the elements at the places."""
    return get(<TensorBase>grad, with_gaps(saved, saved[len(saved) - 1]), "IndexBackward0")


cdef int put_into(TensorBase v, list indices, TensorBase values, bint accumulate, str who, bint repeated=False) except -1:
    return put_checked(v, indices, values, accumulate, who, IndexError, True, repeated)


cdef int put_checked(TensorBase v, list indices, TensorBase values, bint accumulate, str who, object error,
                     bint negative, bint repeated=False) except -1:
    """v[indices] = values, or += with `accumulate`; values broadcast, and have v's dtype; `repeated`: each place as often as it is named,
    also where several of v's elements lie in one place.
    """
    cdef Places p
    cdef TensorBase rows
    cdef bint before = grad_enabled()
    cdef bint recorded = before and (wants_grad(v) or wants_grad(values)) and CATEGORY[v.code] >= 2, apart = each_apart(v)
    check_written(who, v, repeated)
    if accumulate and (v.code == BOOL or v.code == F16 or v.code == BF16 or is_stored(v.code)):
        accumulate_wide(v, indices, values, who, error, negative)
    elif v.storage.on is not None:
        callbacks["device.index_put"](v, indices, clone(values) if values.storage is v.storage else values, accumulate, negative)
    else:
        find_places(&p, v, indices, error, negative)
        set_grad(False)
        try:
            rows = values_as_rows(&p, values)
            if rows.storage is v.storage:
                rows = <TensorBase>clone(rows)
            p.rows = pointer(rows)
            memcpy(p.row_strides, rows.strides, p.before * sizeof(int64_t))
            if rows.count >= PARALLEL_FROM:
                with nogil:
                    put_rows(&p, v.code, ADD if accumulate else SET, not apart)
            elif rows.count:
                put_rows(&p, v.code, ADD if accumulate else SET, not apart)
        finally:
            set_grad(before)
            free(p.places)
        bump_version(v)
    if recorded:
        dims = tuple([i is not None for i in indices])
        record("IndexPutBackward0", put_back, (v, values), v, tuple([i for i in indices if i is not None]),
               ((dims, accumulate, values.shape, wants_grad(values)),), v)
    return 0


cdef TensorBase values_as_rows(Places* p, TensorBase values):
    """The values broadcast to the shape of the indexing result, contiguous but for the dimensions in front."""
    cdef int d = 0, k
    cdef bint same = values.rank == p.rank
    while values.rank - d > p.rank and values.sizes[d] == 1:
        d += 1
    for k in range(p.rank):
        same = same and values.sizes[k] == p.sizes[k]
    if same:
        return values if gapless(p, values) else compact(values)
    if not broadcasts(p, values, d):
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
                           f"shape {list(size_from(p.rank, p.sizes))}")
    if d:
        values = reshaped(values, values.rank - d, values.sizes + d)
    return compact(expanded(values, p.rank, p.sizes))


cdef bint gapless(Places* p, TensorBase values) noexcept:
    """Whether each position of the dimensions in front has its elements one after another."""
    cdef int64_t step = 1
    cdef int k
    for k in range(p.rank - 1, p.before - 1, -1):
        if p.sizes[k] != 1:
            if values.strides[k] != step:
                return False
            step *= p.sizes[k]
    return True


cdef bint broadcasts(Places* p, TensorBase values, int skip) noexcept:
    cdef int k, rank = values.rank - skip
    if rank > p.rank:
        return False
    for k in range(rank):
        if values.sizes[skip + k] != 1 and values.sizes[skip + k] != p.sizes[p.rank - rank + k]:
            return False
    return True


cdef int accumulate_wide(TensorBase v, list indices, TensorBase values, str who, object error, bint negative) except -1:
    """Sums of halves are made in float32 and rounded once; bools add up as numbers do, and stay true."""
    cdef object wide = dtype_of(I64 if v.code == BOOL else wider(v.code))
    cdef bint before = grad_enabled()
    cdef TensorBase sums
    set_grad(False)
    try:
        sums = <TensorBase>to_dtype(v, wide)
        put_checked(sums, indices, <TensorBase>to_dtype(values, wide), True, who, error, negative)
        copy_(v, sums)
    finally:
        set_grad(before)
    return 0


def put_back(grad, *saved):
    """Derivative of writing at places: zeros there for the overwritten tensor, the elements there for the values."""
    cdef TensorBase of_values = None, zero
    cdef list indices
    dims, accumulate, shape, wanted = saved[len(saved) - 1]
    indices = with_gaps(saved, dims)
    if wanted:
        of_values = get(<TensorBase>grad, indices, "IndexBackward0")
        of_values = <TensorBase>sum_to(of_values, shape)
    if accumulate:
        return grad, of_values
    zero = <TensorBase>grad.new_zeros(())
    kept = clone(grad)
    put_into(<TensorBase>kept, indices, zero, False, "index_put_", True)
    return kept, of_values
