# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Loops over lists of places: products with rows that list their elements, and putting places in order.

Rows come as `starts` (rows + 1) and `columns`, int32 or int64, places in coordinates as an int64 matrix (dimensions, places).
Numbers are float32 or float64; what else there is has operations of its own (flambeau/sparse).  Everything is on the host
and contiguous.  An index that is outside its bounds raises IndexError, and nothing is read there.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from ...base.dtypes cimport F32, F64, I32, I64, dtype_of
from ...base.memory cimport check_memory
from ...base.parallel cimport parallel_interruptible, task_t
from ...base.tensor cimport TensorBase, new_tensor, pointer
from ...views.views cimport compact
cdef extern from "sparse/sparse_loops.h" nogil:
    ctypedef struct Rows "flambeau_rows":
        const void* starts
        const void* columns
        const int64_t* order
        const void* values
        const void* left
        const void* right
        void* out
        int64_t listed
        int64_t bound
        int64_t width
        int64_t left_step
        int64_t right_step
        int bad

    void flambeau_product_f32_i32(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_product_f32_i64(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_product_f64_i32(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_product_f64_i64(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_inner_f32_i32(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_inner_f32_i64(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_inner_f64_i32(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_inner_f64_i64(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_runs_f32(void* rows, int64_t begin, int64_t end) noexcept
    void flambeau_runs_f64(void* rows, int64_t begin, int64_t end) noexcept

cdef enum:
    DIGIT = 11                 # bits that a pass of the sort looks at
    MOST_PASSES = 6
    GRAIN = 4096               # multiplications that are worth a part of their own

ctypedef fused Index:
    int32_t
    int64_t


cdef const void* numbers(TensorBase x, int code, str what) except? NULL:
    """A contiguous operand's elements; TypeError for another dtype."""
    if x.code != code or not x.contiguous:
        raise TypeError(f"{what}: a contiguous tensor of {dtype_of(code)} expected, got {dtype_of(x.code)}")
    return pointer(x) if x.count else <const void*>1


def writes(TensorBase x not None) -> int:
    """How often something was written to a tensor's memory, also to that of one made in inference mode."""
    return x.storage.version


cdef int outside(str who) except -1:
    raise IndexError(f"{who}(): the indices of a sparse tensor are outside of its size: they were changed after it was made")


cdef int run_rows(task_t task, Rows* r, int64_t rows, str who) except -1:
    """A task over all rows, shared by how much a row is on the average."""
    cdef int64_t each = (r.listed // (rows if rows else 1) + 1) * r.width
    cdef int64_t grain = GRAIN // each + 1
    r.bad = 0
    with nogil:
        parallel_interruptible(task, r, rows, grain, 0.5 * <double>each)
    if r.bad:
        outside(who)
    return 0


cdef int check_rows(TensorBase starts, TensorBase columns) except -1:
    if starts.rank != 1 or starts.count == 0 or columns.rank != 1:
        raise TypeError("rows are two vectors, the first of at least one element")
    return 0


cdef TensorBase in_rows(TensorBase x):
    """A vector, or matrix, whose rows have no gaps; those of one element follow one another."""
    cdef bint narrow = x.rank == 1 or x.sizes[1] == 1
    return x if (x.strides[0] == 1 if narrow else x.strides[1] == 1) else compact(x)


def product(TensorBase starts not None, TensorBase columns not None, TensorBase values not None,
            TensorBase right not None) -> TensorBase:
    """Rows times a matrix (columns, width) or a vector: out[i] = sum of values[k] * right[columns[k]].

    Operands may have any strides.
    """
    cdef Rows r
    cdef int64_t sizes[2]
    cdef int code = values.code
    cdef bint wide = starts.code == I64
    cdef task_t task
    check_rows(starts, columns)
    values = compact(values)
    r.starts = numbers(starts, starts.code, "starts")
    r.columns, r.values = numbers(columns, starts.code, "columns"), numbers(values, code, "values")
    r.listed, r.bound = columns.count, right.sizes[0]
    r.width = right.sizes[1] if right.rank == 2 else 1
    if right.code != code or values.count != columns.count or (starts.code != I32 and not wide) or right.rank > 2:
        raise TypeError("product(): operands that do not fit")
    right = in_rows(right)
    r.right, r.right_step = pointer(right) if right.count else NULL, right.strides[0]
    sizes[0], sizes[1] = starts.count - 1, r.width
    out = new_tensor(right.rank, sizes, code)
    if (<TensorBase>out).count == 0:
        return out
    r.out = (<TensorBase>out).storage.data
    if code == F32:
        task = flambeau_product_f32_i64 if wide else flambeau_product_f32_i32
    elif code == F64:
        task = flambeau_product_f64_i64 if wide else flambeau_product_f64_i32
    else:
        raise TypeError(f"product(): not for {dtype_of(code)}")
    run_rows(task, &r, sizes[0], "mm")
    return out


def inner(TensorBase starts not None, TensorBase columns not None, TensorBase left not None,
          TensorBase right not None) -> TensorBase:
    """Inner products at the places that rows list: out[k] = left[i] . right[columns[k]]; operands may have any strides."""
    cdef Rows r
    cdef int code = left.code
    cdef bint wide = starts.code == I64
    cdef task_t task
    check_rows(starts, columns)
    r.starts, r.columns = numbers(starts, starts.code, "starts"), numbers(columns, starts.code, "columns")
    r.listed, r.bound, r.width = columns.count, right.sizes[0], right.sizes[1]
    if right.code != code or left.rank != 2 or right.rank != 2 or left.sizes[1] != r.width or (starts.code != I32 and not wide) \
            or left.sizes[0] != starts.count - 1:
        raise TypeError("inner(): operands that do not fit")
    left, right = in_rows(left), in_rows(right)
    out = new_tensor(1, &r.listed, code)
    r.values = (<TensorBase>out).storage.data
    r.left, r.right = pointer(left) if left.count else NULL, pointer(right) if right.count else NULL
    r.left_step, r.right_step = left.strides[0], right.strides[0]
    if code == F32:
        task = flambeau_inner_f32_i64 if wide else flambeau_inner_f32_i32
    elif code == F64:
        task = flambeau_inner_f64_i64 if wide else flambeau_inner_f64_i32
    else:
        raise TypeError(f"inner(): not for {dtype_of(code)}")
    if r.listed:
        run_rows(task, &r, left.sizes[0], "inner")
    return out


def sum_runs(TensorBase order not None, TensorBase starts not None, TensorBase values not None) -> TensorBase:
    """Sums of the elements that runs of `order` name, as `coalesced` gives them: values (places, …) -> (runs, …)."""
    cdef Rows r
    cdef int64_t runs = starts.count - 1, k
    cdef int code = values.code
    r.starts, r.order = numbers(starts, I64, "starts"), <const int64_t*>numbers(order, I64, "order")
    r.right = numbers(values, code, "values")
    r.listed, r.bound = order.count, values.sizes[0]
    if r.bound != r.listed:
        raise TypeError(f"sum_runs(): {r.bound} values for {r.listed} places")
    r.width = values.count // r.bound if r.bound else 0
    shape = [runs, *values.shape[1:]]
    out = (<object>values).new_empty(shape)
    if (<TensorBase>out).count == 0:
        return out
    r.out = (<TensorBase>out).storage.data
    if code == F32:
        run_rows(flambeau_runs_f32, &r, runs, "coalesce")
    elif code == F64:
        run_rows(flambeau_runs_f64, &r, runs, "coalesce")
    else:
        raise TypeError(f"sum_runs(): not for {dtype_of(code)}")
    return out


# --- order ------------------------------
cdef int find_keys(const int64_t* indices, int64_t dims, int64_t n, const int64_t* sizes, int shift, uint64_t* keys) noexcept nogil:
    """The places as single numbers, row by row, each with its number behind it; 1 where they are in order and differ, 0 where
    they are not, -1 where an index is out of bounds.
    """
    cdef int64_t d, k, index
    cdef uint64_t last = 0
    cdef int ordered = 1
    cdef bint bad = False
    memset(keys, 0, n * sizeof(uint64_t))
    for d in range(dims):
        for k in range(n):
            index = indices[d * n + k]
            bad |= <uint64_t>index >= <uint64_t>sizes[d]
            keys[k] = keys[k] * <uint64_t>sizes[d] + <uint64_t>index
    if bad:
        return -1
    for k in range(n):
        if k and keys[k] <= last:
            ordered = 0
        last = keys[k]
        keys[k] = keys[k] << shift | <uint64_t>k
    return ordered


cdef uint64_t* in_order(uint64_t* keys, uint64_t* other, int64_t n, int low, int high, uint32_t* counts) noexcept nogil:
    """Sorted by the bits from `low` up to `high`, by so many at a time; the result is in one of the two."""
    cdef int passes = (high - low + DIGIT - 1) // DIGIT, p, shift
    cdef uint32_t* count
    cdef uint32_t sum, c
    cdef uint64_t key, mask = (<uint64_t>1 << DIGIT) - 1
    cdef uint64_t* swap
    cdef int64_t k
    memset(counts, 0, passes * (<size_t>1 << DIGIT) * sizeof(uint32_t))
    for k in range(n):
        key = keys[k] >> low
        for p in range(passes):
            counts[(p << DIGIT) + (key >> p * DIGIT & mask)] += 1
    for p in range(passes):
        count, shift, sum = counts + (<size_t>p << DIGIT), low + p * DIGIT, 0
        if count[keys[0] >> shift & mask] == n:      # all alike
            continue
        for k in range(<int64_t>1 << DIGIT):
            c = count[k]
            count[k] = sum
            sum += c
        for k in range(n):
            key = keys[k]
            c = count[key >> shift & mask]
            count[key >> shift & mask] = c + 1
            other[c] = key
        swap, keys, other = keys, other, keys
    return keys


cdef int bits_of(uint64_t most) noexcept nogil:
    cdef int bits = 0
    while most:
        bits, most = bits + 1, most >> 1
    return bits


def coalesced(TensorBase indices not None, sizes) -> tuple:
    """Sorted places, each once, and which of the given ones each stands for: indices, order and starts.

    Run i of `order` (int64), from starts[i] to starts[i + 1], names the places that became place i.  `order` is None where the
    places are in order and differ already.  Of `indices` (dimensions, places), int64, each is below its entry of `sizes`.

    RuntimeError where places and their number together have more than 2**64 values.
    """
    cdef const int64_t* source = <const int64_t*>numbers(indices, I64, "indices")
    cdef int64_t dims = indices.sizes[0], n = indices.sizes[1], k, d, runs = 0
    cdef int64_t[2] shape
    cdef int shift = bits_of(n - 1 if n else 0), bits, state
    cdef int64_t size[64]
    cdef uint64_t* workspace
    cdef uint64_t* keys
    cdef uint32_t* counts
    cdef uint64_t mask, key, last
    cdef TensorBase at, order, starts
    places = 1
    for d in range(dims):
        size[d] = sizes[d]
        places *= sizes[d]
    bits = (places - 1).bit_length() if places else 0
    if bits + shift > 64 or n >= <int64_t>1 << 32:
        raise RuntimeError(f"coalesce(): {n} places among {places} are more than 64 bits hold")
    check_memory(n * 16)
    workspace = <uint64_t*>malloc(n * 16 + 16)
    counts = <uint32_t*>malloc((MOST_PASSES << DIGIT) * sizeof(uint32_t))
    if workspace == NULL or counts == NULL:
        free(workspace)
        free(counts)
        raise MemoryError
    try:
        with nogil:
            state = find_keys(source, dims, n, size, shift, workspace)
        if state < 0:
            outside("coalesce")
        if state == 1:
            return indices, None, None
        order = new_tensor(1, &n, I64)
        to = <int64_t*>order.storage.data
        with nogil:
            keys = in_order(workspace, workspace + n, n, shift, shift + bits, counts)
            mask, last = (<uint64_t>1 << shift) - 1, 0
            for k in range(n):
                key = keys[k] >> shift
                to[k] = <int64_t>(keys[k] & mask)
                if k == 0 or key != last:
                    keys[runs] = <uint64_t>k       # the key there has been read
                    runs += 1
                last = key
        shape[0], shape[1] = runs + 1, 0
        starts = new_tensor(1, shape, I64)
        shape[0], shape[1] = dims, runs
        at = new_tensor(2, shape, I64)
        first, put = <int64_t*>starts.storage.data, <int64_t*>at.storage.data
        with nogil:
            for k in range(runs):
                first[k] = <int64_t>keys[k]
            first[runs] = n
            for d in range(dims):
                for k in range(runs):
                    put[d * runs + k] = source[d * n + to[first[k]]]
        return at, order, starts
    finally:
        free(workspace)
        free(counts)


cdef int count_rows(const Index* rows, int64_t n, int64_t bound, Index* starts) noexcept nogil:
    """Where each row begins; 0 where an index is out of bounds."""
    cdef int64_t k
    memset(starts, 0, (bound + 1) * sizeof(Index))
    for k in range(n):
        if <uint64_t>rows[k] >= <uint64_t>bound:
            return 0
        starts[rows[k] + 1] += 1
    for k in range(bound):
        starts[k + 1] += starts[k]
    return 1


cdef int turn(const Index* starts, const Index* columns, int64_t rows, int64_t n, int64_t bound, Index* starts2, Index* rows2,
              int64_t* order, Index* next) noexcept nogil:
    """The same places listed by columns; 0 where an index is out of bounds."""
    cdef int64_t i, k, to
    if not count_rows(columns, n, bound, starts2):
        return 0
    for k in range(bound):
        next[k] = starts2[k]
    for i in range(rows):
        if starts[i] < 0 or starts[i + 1] < starts[i] or starts[i + 1] > n:
            return 0
        for k in range(starts[i], starts[i + 1]):
            to = next[columns[k]]
            next[columns[k]] = <Index>(to + 1)
            if to >= n:
                return 0
            rows2[to], order[to] = <Index>i, k
    return 1


def turned(TensorBase starts not None, TensorBase columns not None, int64_t bound) -> tuple:
    """Rows as columns: where each of `bound` columns begins, the rows it lists, and which entry each was (int64)."""
    cdef int64_t rows = starts.count - 1, n = columns.count, begins = bound + 1
    cdef int code = starts.code, fits
    cdef const void* a = numbers(starts, code, "starts")
    cdef const void* b = numbers(columns, code, "columns")
    cdef TensorBase starts2 = new_tensor(1, &begins, code), rows2 = new_tensor(1, &n, code), order = new_tensor(1, &n, I64)
    cdef TensorBase next = new_tensor(1, &begins, code)
    check_rows(starts, columns)
    cdef void* c = <void*>starts2.storage.data
    cdef void* d = <void*>rows2.storage.data
    cdef void* e = <void*>next.storage.data
    cdef int64_t* f = <int64_t*>order.storage.data
    with nogil:
        if code == I32:
            fits = turn(<const int32_t*>a, <const int32_t*>b, rows, n, bound, <int32_t*>c, <int32_t*>d, f, <int32_t*>e)
        else:
            fits = turn(<const int64_t*>a, <const int64_t*>b, rows, n, bound, <int64_t*>c, <int64_t*>d, f, <int64_t*>e)
    if not fits:
        outside("transpose")
    return starts2, rows2, order


def by_rows(TensorBase rows not None, int64_t bound) -> tuple:
    """Where each of `bound` rows begins when places are listed by rows, and their order (int64), None where it is theirs."""
    cdef int64_t n = rows.count, begins = bound + 1, k
    cdef const int64_t* source = <const int64_t*>numbers(rows, I64, "rows")
    cdef TensorBase starts = new_tensor(1, &begins, I64), next, order
    cdef int64_t* first = <int64_t*>starts.storage.data
    cdef int64_t* to
    cdef int64_t* put
    cdef bint sorted = True, fits
    with nogil:
        fits = count_rows(source, n, bound, first)
        for k in range(1, n):
            sorted &= source[k] >= source[k - 1]
    if not fits:
        outside("mm")
    if sorted:
        return starts, None
    next, order = (<object>starts).clone(), new_tensor(1, &n, I64)
    put, to = <int64_t*>next.storage.data, <int64_t*>order.storage.data
    with nogil:
        for k in range(n):
            to[put[source[k]]] = k
            put[source[k]] += 1
    return starts, order


def row_numbers(TensorBase starts not None, int64_t n) -> TensorBase:
    """The row that each of `n` entries is in, as indices of the same width."""
    cdef TensorBase out = new_tensor(1, &n, starts.code)
    cdef const void* a = numbers(starts, starts.code, "starts")
    cdef void* to = <void*>out.storage.data
    cdef int64_t rows = starts.count - 1
    cdef bint fits
    with nogil:
        if starts.code == I32:
            fits = expand_starts(<const int32_t*>a, rows, n, <int32_t*>to)
        else:
            fits = expand_starts(<const int64_t*>a, rows, n, <int64_t*>to)
    if not fits:
        outside("row_indices")
    return out


cdef bint expand_starts(const Index* starts, int64_t rows, int64_t n, Index* to) noexcept nogil:
    cdef int64_t i, k
    if starts[0] != 0 or starts[rows] != n:
        return False
    for i in range(rows):
        if starts[i + 1] < starts[i] or starts[i + 1] > n:
            return False
        for k in range(starts[i], starts[i + 1]):
            to[k] = <Index>i
    return True


# --- invariants ------------------------------
cdef enum:
    FITS, FIRST, LAST, STEP, PLACE, SEQUENCE


cdef int look(const Index* starts, const Index* columns, int64_t batches, int64_t rows, int64_t bound, int64_t n,
              bint strictly, int64_t* where) noexcept nogil:
    """Which of the rules that rows follow is broken first, and where: batch, row, the number found; `strictly`, that columns of a row
    are sorted and distinct is one.
    """
    cdef int64_t b, i, k, begin, end
    cdef bint ordered
    for b in range(batches):
        where[0], where[1] = b, 0
        if starts[0] != 0:
            where[2] = starts[0]
            return FIRST
        if starts[rows] != n:
            where[2] = starts[rows]
            return LAST
        for i in range(rows):
            begin, end = starts[i], starts[i + 1]
            where[1] = i
            if end < begin or end > n or (strictly and end - begin > bound):
                where[2] = end - begin
                return STEP
            ordered = True
            for k in range(begin, end):
                if <uint64_t>columns[k] >= <uint64_t>bound:
                    where[2] = columns[k]
                    return PLACE
                ordered &= k == begin or columns[k] > columns[k - 1]
            if strictly and not ordered:
                return SEQUENCE
        starts += rows + 1
        columns += n
    return FITS


def broken_rule(TensorBase starts not None, TensorBase columns not None, int64_t rows, int64_t bound, bint strictly) -> tuple:
    """The rule that rows break, as a name, the batch, the row and the number found; the name is "" where they break none.

    `starts` is (…, rows + 1), `columns` (…, listed).  The names: "first", "last", "step", "place", and, where looked
    at `strictly`, "sequence".
    """
    cdef int code = starts.code, result
    cdef const void* a = numbers(starts, code, "starts")
    cdef const void* b = numbers(columns, code, "columns")
    cdef int64_t batches = starts.count // (rows + 1), n = columns.sizes[columns.rank - 1]
    cdef int64_t[3] where
    where[0] = where[1] = where[2] = 0
    with nogil:
        if code == I32:
            result = look(<const int32_t*>a, <const int32_t*>b, batches, rows, bound, n, strictly, where)
        else:
            result = look(<const int64_t*>a, <const int64_t*>b, batches, rows, bound, n, strictly, where)
    return ("", "first", "last", "step", "place", "sequence")[result], where[0], where[1], where[2]
