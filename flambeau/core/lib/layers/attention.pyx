# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Attention in tiles: which queries and keys meet when, and in which buffers.

A task takes queries of one head of keys.  It lays the keys out once, turned, in panels as wide as a register tile, so that the
product with some queries reads both operands in order; then for `QUERIES` queries at a time it goes along the keys, `KEYS` at a
time: scores by one product, weights by a pass over them (`codegen/tiles/attention.py`), and a second product that adds weights
times values to what the keys before have given.  Scores never leave the cache.  Backward makes the same tiles again from the
logarithms of the sums, and has five products for each.

Halves are converted to float32 as they are laid out, and the results are rounded as they are written; those that the processor
multiplies have tiles of their own (`half_attention.pyx`).

Keys that the diagonal hides from all queries of a tile are left out, from the others' tiles by rows.  Which terms are added in
which order depends on shapes alone; in backward the queries are cut into `chunks`, whose gradients of keys and values the caller adds up.
"""
from libc.math cimport INFINITY, log
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from ...base.parallel cimport num_threads, parallel_interruptible
from ...base.callbacks import callbacks
from ...base.tensor cimport TensorBase, pointer
from ..tiles cimport Tile, tile_t

cdef enum:
    DRAWN = 64                # columns that 16 counters serve

EVERYTHING = <int64_t>1 << 62

cdef struct Buffers:          # of one thread
    char* memory
    char* keys                # turned, in panels
    char* values              # forward: in rows; backward: turned, in panels
    char* key_rows            # backward
    char* some                # halves: as many rows of keys or values as are turned together
    char* query               # some queries, scaled
    char* grad
    char* scores
    char* arriving
    char* out                 # of some queries: the output, or the queries' gradient
    char* kept
    char* top
    char* sum
    char* to_key
    char* to_value


# --- laying out ------------------------------
cdef void turned(const Call* c, const Buffers* b, const char* source, int64_t row, int64_t rows, int64_t width, char* to) noexcept nogil:
    """Rows of `width` elements as panels of (width, panel): column j of a panel is a row.  What there is not is 0."""
    cdef int64_t panel = 0, square, i, e, first, last, squares = width // c.lanes
    cdef int64_t line = c.panel * c.size, from_row = row if c.widen == NULL else width * c.size
    cdef char* at
    cdef const char* first_row
    while panel < rows:
        at = to + panel * width * c.size
        square = panel
        while square < panel + c.panel:
            first_row = source + square * row
            if c.widen != NULL:
                first_row = b.some
                for i in range(min(c.lanes, rows - square)):
                    c.widen(source + (square + i) * row, b.some + i * from_row, width, 1.0)
            if square + c.lanes <= rows:
                c.turn(first_row, from_row, at + (square - panel) * c.size, line, squares)
                first, last = squares * c.lanes, square + c.lanes
            else:
                first, last = 0, rows
            for e in range(first, width):
                for i in range(square, square + c.lanes):
                    if i >= last:
                        memset(at + e * line + (i - panel) * c.size, 0, c.size)
                    else:
                        memcpy(at + e * line + (i - panel) * c.size, first_row + (i - square) * from_row + e * c.size, c.size)
            square += c.lanes
        panel += c.panel


cdef void padded(const Call* c, const char* source, int64_t row, int64_t rows, int64_t width, char* to, int64_t pitch) noexcept nogil:
    """Rows with zeros behind them."""
    cdef int64_t i
    for i in range(rows):
        if c.widen != NULL:
            c.widen(source + i * row, to + i * pitch, width, 1.0)
        else:
            memcpy(to + i * pitch, source + i * row, width * c.size)
        memset(to + i * pitch + width * c.size, 0, pitch - width * c.size)


cdef void scaled(const Call* c, const char* source, int64_t row, int64_t rows, int64_t width, char* to, int64_t pitch, double factor) noexcept nogil:
    """Rows times a number, with zeros behind them."""
    cdef int64_t i, e
    cdef float single = <float>factor
    cdef float* singles
    cdef double* doubles
    for i in range(rows):
        if c.widen != NULL:
            c.widen(source + i * row, to + i * pitch, width, single)
        elif c.size == 4:
            singles = <float*>(to + i * pitch)
            for e in range(width):
                singles[e] = (<const float*>(source + i * row))[e] * single
        else:
            doubles = <double*>(to + i * pitch)
            for e in range(width):
                doubles[e] = (<const double*>(source + i * row))[e] * factor
        memset(to + i * pitch + width * c.size, 0, pitch - width * c.size)


# --- products ------------------------------
cdef int64_t nowhere[1]      # the offset of a product's one tap
nowhere[0] = 0


cdef void product(const Call* c, bint adds, const char* a, int64_t row, int64_t step, const char* b, int64_t b_step, int64_t b_panel,
                  char* to, int64_t pitch, int64_t rows, int64_t columns, int64_t terms, int64_t limit) noexcept nogil:
    """to = (or +=) a · b in whole tiles: there is room for them.  Where `limit` is no end, row i has limit + i terms."""
    cdef Tile p
    cdef tile_t run = c.add if adds else c.put
    cdef int64_t i, j = 0
    memset(&p, 0, sizeof(p))
    p.row, p.step, p.offsets, p.b_step, p.b_vector = row, step, nowhere, b_step, c.lanes * c.size
    p.c_row = p.operands[0].row = pitch
    p.columns, p.taps[0] = c.panel, 1
    while j < columns:
        p.b = b + j // c.panel * b_panel
        i = 0
        while i < rows:
            p.terms = max(0, min(terms, limit + i + c.rows - 1))
            p.a = a + i * row
            p.c = to + i * pitch + j * c.size
            p.operands[0].data = p.c
            run(&p)
            i += c.rows
        j += c.panel


# --- buffers ------------------------------
cdef int64_t pitch_of(const Call* c) noexcept nogil:
    """Bytes from row to row of scores."""
    return (KEYS + LINE // c.size) * c.size


cdef int64_t laid(const Call* c, Buffers* b, char* memory, bint backward) noexcept nogil:
    """The buffers of a thread in one piece of memory; how long it is."""
    cdef char* at = memory
    cdef int64_t keys = whole(c.keys, c.panel), queries = min(<int64_t>QUERIES, whole(c.queries, c.rows)) + c.rows
    b.keys = cut(&at, keys * c.width * c.size)
    b.some = cut(&at, c.lanes * max(c.width, c.depth) * c.size) if c.widen != NULL else NULL
    b.query = cut(&at, queries * c.wide * c.size)
    b.scores = cut(&at, queries * pitch_of(c))
    b.kept = cut(&at, queries * pitch_of(c)) if c.draw != NULL else NULL
    b.out = cut(&at, queries * max(c.wide, c.deep) * c.size)
    b.top = cut(&at, queries * c.size)
    b.sum = cut(&at, queries * c.size)
    if backward:
        b.values = cut(&at, keys * c.depth * c.size)
        b.key_rows = cut(&at, c.keys * c.wide * c.size)
        b.grad = cut(&at, queries * c.deep * c.size)
        b.arriving = cut(&at, queries * pitch_of(c))
        b.to_key = cut(&at, (keys + c.rows + KEYS) * c.wide * c.size)
        b.to_value = cut(&at, (keys + c.rows + KEYS) * c.deep * c.size)
    else:
        b.values = cut(&at, c.keys * c.deep * c.size)
    return at - memory + LINE


cdef bint begun(Call* c, Buffers* b, bint backward) noexcept nogil:
    cdef int64_t bytes = laid(c, b, NULL, backward)
    b.memory = <char*>malloc(bytes)
    if b.memory == NULL:
        c.failed = True
        return False
    laid(c, b, <char*>whole(<int64_t><uintptr_t>b.memory, LINE), backward)
    return True


cdef void draw(const Call* c, char* to, int64_t batch, int64_t head, int64_t query, int64_t key, int64_t rows, int64_t columns,
               int64_t pitch) noexcept nogil:
    """The factors of a tile of weights, which depend on their places alone."""
    cdef int64_t blocks = whole(c.keys, DRAWN) // DRAWN
    cdef int64_t row = (batch * c.heads * c.groups + head) * c.queries + query
    c.draw(to, pitch, rows, columns, c.key_, c.counter + (row * blocks + key // DRAWN) * (DRAWN // 4), blocks * (DRAWN // 4), c.limit, c.factor)


# --- forward ------------------------------
cdef void forward_tiles(const Call* c, const Buffers* b, const char* values, int64_t value_row, int64_t batch, int64_t head, int64_t q0,
                        int64_t rows) noexcept nogil:
    """The output of some queries of one head."""
    cdef Softening s
    cdef int64_t n, k0, columns, limit, i, pitch = pitch_of(c), tall = whole(rows, c.rows), last = seen(c, q0 + rows - 1)
    cdef int64_t out_pitch = c.deep * c.size
    cdef double total, inverse
    scaled(c, spot(&c.query, batch, head, q0), c.query.row, rows, c.width, b.query, c.wide * c.size, c.scale)
    memset(&s, 0, sizeof(s))
    s.scores, s.pitch, s.rows, s.top, s.sum, s.out, s.out_pitch, s.out_columns = b.scores, pitch, rows, b.top, b.sum, b.out, out_pitch, c.deep
    s.kept = b.kept
    for i in range(rows):
        put_number(c, b.top + i * c.size, -INFINITY)
        put_number(c, b.sum + i * c.size, 0.0)
    if last == 0:
        memset(b.out, 0, tall * out_pitch)
    for n in range((last + KEYS - 1) // KEYS):
        k0 = n * KEYS
        columns = min(<int64_t>KEYS, last - k0)
        limit = limit_of(c, q0, k0)
        product(c, False, b.query, c.wide * c.size, c.size, b.keys + k0 * c.width * c.size, c.panel * c.size, c.panel * c.width * c.size,
                b.scores, pitch, tall, columns, c.width, EVERYTHING)
        s.columns, s.limit, s.first = columns, limit, k0 == 0
        if c.masked:
            s.mask, s.mask_row = spot(&c.mask, batch, head, q0) + k0 * c.mask_size, c.mask.row
        if c.draw != NULL:
            draw(c, b.kept, batch, head, q0, k0, rows, columns, pitch)
        c.soften(&s)
        product(c, k0 > 0, b.scores, pitch, c.size, values + k0 * value_row, value_row, c.panel * c.size, b.out, out_pitch, tall, c.deep, columns, limit)
    for i in range(rows):
        total = number(c, b.sum + i * c.size)
        inverse = 1.0 / total if total != 0.0 else 0.0
        if c.lse.data != NULL:
            put_number(c, <char*>spot(&c.lse, batch, head, q0 + i), number(c, b.top + i * c.size) + log(total))
        written(c, b.out + i * out_pitch, <char*>spot(&c.out, batch, head, q0 + i), c.depth, inverse)


cdef void forward_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Call* c = <Call*>context
    cdef Buffers b
    cdef int64_t task, batch, kv, j, n, q0, first, last, laid_out = -1, value_row
    cdef const char* values
    cdef bint lays = c.widen != NULL or c.value.row != c.deep * c.size
    if not begun(c, &b, False):
        return
    for task in range(begin, end):
        batch, kv = task // c.chunks // c.heads, task // c.chunks % c.heads
        values, value_row = spot(&c.value, batch, kv, 0), c.value.row
        if laid_out != task // c.chunks:
            turned(c, &b, spot(&c.key, batch, kv, 0), c.key.row, c.keys, c.width, b.keys)
            if lays:
                padded(c, values, value_row, c.keys, c.depth, b.values, c.deep * c.size)
            laid_out = task // c.chunks
        if lays:
            values, value_row = b.values, c.deep * c.size
        first = task % c.chunks * c.chunk
        last = min(first + c.chunk, c.queries)
        for j in range(c.groups):
            for n in range((last - first + QUERIES - 1) // QUERIES):
                q0 = first + n * QUERIES
                forward_tiles(c, &b, values, value_row, batch, kv * c.groups + j, q0, min(<int64_t>QUERIES, last - q0))
    free(b.memory)


# --- backward ------------------------------
cdef void backward_tiles(const Call* c, const Buffers* b, const char* keys, int64_t key_row, int64_t batch, int64_t head, int64_t q0,
                         int64_t rows) noexcept nogil:
    """What some queries of one head give to all three gradients."""
    cdef Softening s
    cdef int64_t n, k0, columns, tall = whole(rows, c.rows), tall_keys, limit, i, pitch = pitch_of(c), last = seen(c, q0 + rows - 1)
    cdef int64_t wide = c.wide * c.size, deep = c.deep * c.size
    cdef double logs
    scaled(c, spot(&c.query, batch, head, q0), c.query.row, rows, c.width, b.query, wide, c.scale)
    padded(c, spot(&c.grad, batch, head, q0), c.grad.row, rows, c.depth, b.grad, deep)
    memset(&s, 0, sizeof(s))
    s.scores, s.arriving, s.pitch, s.rows, s.shift, s.delta = b.scores, b.arriving, pitch, rows, b.top, b.sum
    s.kept = b.kept
    for i in range(rows):
        logs = number(c, spot(&c.lse, batch, head, q0 + i))
        put_number(c, b.top + i * c.size, INFINITY if logs == -INFINITY else logs)  # all weights are 0
        put_number(c, b.sum + i * c.size, number(c, spot(&c.delta, batch, head, q0 + i)))
    if last == 0:
        memset(b.out, 0, tall * wide)
    for n in range((last + KEYS - 1) // KEYS):
        k0 = n * KEYS
        columns = min(<int64_t>KEYS, last - k0)
        tall_keys = whole(columns, c.rows)
        limit = limit_of(c, q0, k0)
        product(c, False, b.query, wide, c.size, b.keys + k0 * c.width * c.size, c.panel * c.size, c.panel * c.width * c.size,
                b.scores, pitch, tall, columns, c.width, EVERYTHING)
        product(c, False, b.grad, deep, c.size, b.values + k0 * c.depth * c.size, c.panel * c.size, c.panel * c.depth * c.size,
                b.arriving, pitch, tall, columns, c.depth, EVERYTHING)
        s.columns, s.limit = columns, limit
        if c.masked:
            s.mask, s.mask_row = spot(&c.mask, batch, head, q0) + k0 * c.mask_size, c.mask.row
        if c.draw != NULL:
            draw(c, b.kept, batch, head, q0, k0, rows, columns, pitch)
        c.revert(&s)
        product(c, True, b.scores, c.size, pitch, b.grad, deep, c.panel * c.size, b.to_value + k0 * deep, deep, tall_keys, c.deep, rows,
                EVERYTHING)
        product(c, True, b.arriving, c.size, pitch, b.query, wide, c.panel * c.size, b.to_key + k0 * wide, wide, tall_keys, c.wide, rows,
                EVERYTHING)
        product(c, k0 > 0, b.arriving, pitch, c.size, keys + k0 * key_row, key_row, c.panel * c.size, b.out, wide, tall, c.wide, columns, limit)
    for i in range(rows):
        written(c, b.out + i * wide, <char*>spot(&c.to_query, batch, head, q0 + i), c.width, c.scale)


cdef void backward_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Call* c = <Call*>context
    cdef Buffers b
    cdef int64_t task, batch, kv, j, i, n, q0, first, last, key_row
    cdef const char* keys
    cdef char* to_key
    cdef char* to_value
    if not begun(c, &b, True):
        return
    for task in range(begin, end):
        batch, kv = task // c.chunks // c.heads, task // c.chunks % c.heads
        keys, key_row = spot(&c.key, batch, kv, 0), c.key.row
        turned(c, &b, keys, key_row, c.keys, c.width, b.keys)
        turned(c, &b, spot(&c.value, batch, kv, 0), c.value.row, c.keys, c.depth, b.values)
        if c.widen != NULL or key_row != c.wide * c.size:
            padded(c, keys, key_row, c.keys, c.width, b.key_rows, c.wide * c.size)
            keys, key_row = b.key_rows, c.wide * c.size
        memset(b.to_key, 0, c.keys * c.wide * c.size)
        memset(b.to_value, 0, c.keys * c.deep * c.size)
        first = task % c.chunks * c.chunk
        last = min(first + c.chunk, c.queries)
        for j in range(c.groups):
            for n in range((last - first + QUERIES - 1) // QUERIES):
                q0 = first + n * QUERIES
                backward_tiles(c, &b, keys, key_row, batch, kv * c.groups + j, q0, min(<int64_t>QUERIES, last - q0))
        for i in range(c.keys):
            to_key = <char*>spot(&c.to_key, batch, kv, i) + task % c.chunks * c.to_key_chunk
            to_value = <char*>spot(&c.to_value, batch, kv, i) + task % c.chunks * c.to_value_chunk
            if c.rounds:
                c.narrow(b.to_key + i * c.wide * c.size, to_key, c.width, 1.0)
                c.narrow(b.to_value + i * c.deep * c.size, to_value, c.depth, 1.0)
            else:
                memcpy(to_key, b.to_key + i * c.wide * c.size, c.width * c.size)
                memcpy(to_value, b.to_value + i * c.deep * c.size, c.depth * c.size)
    free(b.memory)


# --- calls ------------------------------
cdef int read_operand(Operand* to, TensorBase t, int first) except -1:
    """The three steps before the last dimension, from dimension `first` on."""
    to.data = pointer(t)
    to.batch = t.strides[first] * t.width if t.sizes[first] > 1 else 0
    to.head = t.strides[first + 1] * t.width if t.sizes[first + 1] > 1 else 0
    to.row = t.strides[first + 2] * t.width if t.sizes[first + 2] > 1 else 0
    return 0


cdef int read_dropping(Call* c, dict result, tuple dropping) except -1:
    """(seed, first counter, chance to be dropped), or None."""
    cdef double p
    c.draw = NULL
    if dropping is not None:
        c.draw = <draw_t><uintptr_t>result["draw"]
        c.key_, c.counter, p = dropping
        c.limit, c.factor = <int64_t>((1.0 - p) * 4294967296.0 + 0.5), 1.0 / (1.0 - p) if p < 1.0 else 0.0
    return 0


cdef dict functions_of(TensorBase query, mask, tuple dropping):
    return callbacks["attention.functions"](query.dtype.name, "" if mask is None else mask.dtype.name, dropping is not None)


cdef int read_call(Call* c, dict result, TensorBase query, TensorBase key, TensorBase value, mask, diagonal, double scale,
                   tuple dropping) except -1:
    read_dropping(c, result, dropping)
    c.rows, c.panel, c.lanes, c.size = result["rows"], result["panel"], result["lanes"], result["size"]
    c.widen, c.narrow = <convert_t><uintptr_t>result["widen"], <convert_t><uintptr_t>result["narrow"]
    c.put, c.add = <tile_t><uintptr_t>result["set"], <tile_t><uintptr_t>result["add"]
    c.soften, c.revert = <pass_t><uintptr_t>result["soften"], <pass_t><uintptr_t>result["revert"]
    c.turn = <turn_t><uintptr_t>result["turn"]
    c.batches, c.heads, c.groups = key.sizes[0], key.sizes[1], query.sizes[1] // key.sizes[1]
    c.queries, c.keys, c.width, c.depth = query.sizes[2], key.sizes[2], query.sizes[3], value.sizes[3]
    c.wide, c.deep = whole(c.width, c.panel), whole(c.depth, c.panel)
    c.causal, c.diagonal, c.scale = diagonal is not None, 0 if diagonal is None else diagonal, scale
    c.masked, c.mask_size, c.failed = mask is not None, 0 if mask is None else (<TensorBase>mask).width, False
    read_operand(&c.query, query, 0)
    read_operand(&c.key, key, 0)
    read_operand(&c.value, value, 0)
    if mask is not None:
        read_operand(&c.mask, mask, 0)
    return 0


cdef double nanoseconds(const Call* c, int products) noexcept nogil:
    """About how long a task takes."""
    return 0.02 * products * c.groups * c.chunk * c.keys * (c.width + c.depth)


def forward(TensorBase query, TensorBase key, TensorBase value, mask, diagonal, double scale, dropping, TensorBase out, lse):
    """Fill the output (B, heads, L, Ev) and, if given, the logarithms of the sums (B, heads, L, 1) of checked operands: four dimensions, of one
    dtype, the last dimension's elements side by side; a mask has the sizes of the scores or 1, but for the last.
    """
    cdef Call c
    cdef int64_t tasks
    read_call(&c, functions_of(query, mask, dropping), query, key, value, mask, diagonal, scale, dropping)
    read_operand(&c.out, out, 0)
    c.lse.data = NULL
    if lse is not None:
        read_operand(&c.lse, lse, 0)
    tasks = max(1, TASKS * num_threads() // (c.batches * c.heads))
    c.chunk = whole(max(<int64_t>LEAST_QUERIES, (c.queries + tasks - 1) // tasks), QUERIES)
    c.chunks = (c.queries + c.chunk - 1) // c.chunk
    with nogil:
        parallel_interruptible(forward_range, &c, c.batches * c.heads * c.chunks, 1, nanoseconds(&c, 1))
    if c.failed:
        raise MemoryError("scaled_dot_product_attention(): no memory for the keys of one head")


def backward(TensorBase query, TensorBase key, TensorBase value, mask, diagonal, double scale, dropping, TensorBase lse,
             TensorBase grad, TensorBase delta, TensorBase to_query, TensorBase to_key, TensorBase to_value):
    """Fill the gradients; those of key and value are (chunks, B, heads, S, …), to be added up over the chunks of queries."""
    cdef Call c
    read_call(&c, functions_of(query, mask, dropping), query, key, value, mask, diagonal, scale, dropping)
    read_operand(&c.lse, lse, 0)
    read_operand(&c.grad, grad, 0)
    read_operand(&c.delta, delta, 0)
    read_operand(&c.to_query, to_query, 0)
    read_operand(&c.to_key, to_key, 1)
    read_operand(&c.to_value, to_value, 1)
    c.rounds = to_key.width != c.size
    c.to_key_chunk, c.to_value_chunk = to_key.strides[0] * to_key.width, to_value.strides[0] * to_value.width
    c.chunks = to_key.sizes[0]
    c.chunk = whole((c.queries + c.chunks - 1) // c.chunks, QUERIES)
    with nogil:
        parallel_interruptible(backward_range, &c, c.batches * c.heads * c.chunks, 1, nanoseconds(&c, 2))
    if c.failed:
        raise MemoryError("scaled_dot_product_attention(): no memory for the gradients of one head")


def counters_of(int64_t rows, int64_t keys) -> int:
    """How many counters a call with so many rows of weights takes."""
    return rows * (whole(keys, DRAWN) // DRAWN) * (DRAWN // 4)


def factors(TensorBase to, tuple dropping):
    """Write what a call multiplies its weights by: all of (B, heads, L, S), each row of which has room for whole blocks."""
    cdef Call c
    cdef int64_t batch, head
    read_dropping(&c, callbacks["attention.functions"](to.dtype.name, "", True), dropping)
    c.heads, c.groups, c.queries, c.keys = to.sizes[1], 1, to.sizes[2], to.sizes[3]
    for batch in range(to.sizes[0]):
        for head in range(to.sizes[1]):
            draw(&c, pointer(to) + (batch * to.strides[0] + head * to.strides[1]) * to.width, batch, head, 0, 0, c.queries, c.keys,
                 to.strides[2] * to.width)


def chunks_of(int64_t heads, int64_t queries) -> int:
    """Into how many parts the queries of each of `heads` heads are cut in backward: enough for many threads."""
    cdef int64_t most = max(1, queries // (4 * QUERIES)), wanted = max(1, 32 // max(heads, 1)), length
    length = whole((queries + min(most, wanted) - 1) // min(most, wanted), QUERIES)
    return max(1, (queries + length - 1) // length)
