# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Attention in bfloat16 by the processor's matrix unit, or by its instruction for pairs: the tiles of `attention.pyx`.

Every product of a tile has its left operand in rows whose terms lie side by side, and its right one in groups of 16 columns, in which
pairs of terms stand side by side (`products/halves.pyx`).  Scores are float32; the weights that meet the values, and the gradients of
the scores, are rounded to bfloat16, as PyTorch's are.  Sums of weights, and all sums of products, are float32.

Backward sums the gradients of keys and values turned, (element, key): their left operands are then queries and arriving gradients, which
are turned once for all keys, and their right ones the tile of weights, whose rows have only to be paired.
"""
from libc.math cimport INFINITY, log
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from .attention cimport (KEYS, LEAST_QUERIES, LINE, QUERIES, TASKS, Call, Softening, cut, draw, limit_of, nanoseconds, number, put_number,
                         read_call, read_operand, seen, spot, whole, written)
from ..products.halves cimport (Halves, blocks, give_back, has_unit, lay_right, ready, set_up, turn_t, turning, zipping)
from ..products.panels cimport layer_t
from ..tiles cimport Tile
from ...base.callbacks import callbacks
from ...base.parallel cimport num_threads, parallel_interruptible
from ...base.tensor cimport TensorBase

cdef enum:
    SIDE = 16                 # columns of a group, pairs of a step
    STEP = 64                 # bytes of a step of a row
    PITCH = 2 * KEYS + STEP   # bytes from row to row of weights
    SCORES = 4 * KEYS + STEP  # and of scores
    COLUMN = 2 * QUERIES      # and of what is turned, whose terms are queries

cdef struct Buffers:          # of one thread
    char* memory
    char* keys                # right operands: columns are keys
    char* values              # forward: terms are keys; backward: columns
    char* key_terms           # backward: terms are keys
    char* query
    char* grad
    char* query_turned
    char* grad_turned
    char* scores
    char* arriving
    char* kept
    char* weights             # rows are queries
    char* changes
    char* paired              # some terms, queries, by all columns
    char* out
    char* top
    char* sum
    char* to_key              # (element, key)
    char* to_value
    char* rows                # some rows of a result

cdef struct Sizes:            # of a call
    bint unit
    int64_t width, depth, keys                # pairs, in whole steps
    int64_t wide, deep, many                  # columns, in two whole groups
    int64_t key_pitch                         # bytes of a row of the gradients that are summed turned
    layer_t zip
    turn_t turn

cdef struct Task:
    Call c
    Sizes z


cdef int64_t laid(const Task* t, Buffers* r, char* memory, bint backward) noexcept nogil:
    """The buffers of a thread in one piece of memory; how long it is."""
    cdef const Sizes* z = &t.z
    cdef char* at = memory
    cdef int64_t most = max(z.wide, z.deep)
    r.keys = cut(&at, z.many * z.width * 4)
    r.query = cut(&at, QUERIES * z.width * 4)
    r.scores = cut(&at, QUERIES * SCORES)
    r.kept = cut(&at, QUERIES * SCORES) if t.c.draw != NULL else NULL
    r.weights = cut(&at, QUERIES * PITCH)
    r.out = cut(&at, QUERIES * most * 4)
    r.top = cut(&at, QUERIES * 4)
    r.sum = cut(&at, QUERIES * 4)
    if not backward:
        r.values = cut(&at, z.deep * z.keys * 4)
        return at - memory + LINE
    r.values = cut(&at, z.many * z.depth * 4)
    r.key_terms = cut(&at, z.wide * z.keys * 4)
    r.grad = cut(&at, QUERIES * z.depth * 4)
    r.query_turned = cut(&at, z.wide * COLUMN)
    r.grad_turned = cut(&at, z.deep * COLUMN)
    r.arriving = cut(&at, QUERIES * SCORES)
    r.changes = cut(&at, QUERIES * PITCH)
    r.paired = cut(&at, max(most, <int64_t>KEYS) * COLUMN)
    r.to_key = cut(&at, z.wide * z.key_pitch)
    r.to_value = cut(&at, z.deep * z.key_pitch)
    r.rows = cut(&at, SIDE * most * 4)
    return at - memory + LINE


cdef bint begun(Task* t, Buffers* r, bint backward) noexcept nogil:
    r.memory = <char*>malloc(laid(t, r, NULL, backward))
    if r.memory == NULL:
        t.c.failed = True
        return False
    laid(t, r, <char*>whole(<int64_t><uintptr_t>r.memory, LINE), backward)
    return True


# --- operands ------------------------------
cdef void rows_of(const char* source, int64_t row, int64_t rows, int64_t width, char* to, int64_t pitch) noexcept nogil:
    """Rows with zeros behind them, and rows of zeros up to as many as a tile has."""
    cdef int64_t i
    for i in range(rows):
        memcpy(to + i * pitch, source + i * row, 2 * width)
        memset(to + i * pitch + 2 * width, 0, pitch - 2 * width)
    memset(to + rows * pitch, 0, (QUERIES - rows) * pitch)


cdef void right(const char* source, int64_t row, int64_t rows, int64_t width, bint turned, int64_t columns, int64_t pairs, char* to) noexcept nogil:
    """Rows of `width` elements as the terms of a right operand or, `turned`, as its columns; zeros fill up columns and pairs."""
    cdef Halves h
    cdef int64_t groups
    h.b, h.n, h.k = source, (rows if turned else width), (width if turned else rows)
    h.b_row, h.b_col = (1 if turned else row // 2), (row // 2 if turned else 1)
    groups = (h.n + SIDE - 1) // SIDE
    lay_right(&h, to, pairs)
    memset(to + groups * pairs * STEP, 0, (columns // SIDE - groups) * pairs * STEP)


cdef void turned_rows(const Sizes* z, const char* source, int64_t pitch, int64_t columns, char* paired, char* to) noexcept nogil:
    """(column, query) of all rows of a tile."""
    cdef int64_t g
    z.zip(paired, QUERIES * 2 * SIDE, source, pitch, QUERIES // 2, columns // SIDE)
    for g in range(columns // SIDE):
        z.turn(paired + g * QUERIES * 2 * SIDE, STEP, QUERIES // 2, SIDE, to + g * SIDE * COLUMN, COLUMN)


# --- products ------------------------------
cdef int64_t nowhere[1]      # the offset of a product's one tap
nowhere[0] = 0


cdef void product(const Task* t, bint adds, const char* a, int64_t row, const char* b, int64_t group, char* to, int64_t pitch, int64_t rows,
                  int64_t columns, int64_t pairs) noexcept nogil:
    """to = (or +=) a · b of whole tiles: there is room for them."""
    cdef const Call* c = &t.c
    cdef Tile p
    cdef int64_t i, j = 0, wide
    if t.z.unit:
        while j < columns:
            wide = 2 if columns - j > SIDE else 1
            i = 0
            while i < rows:
                blocks[1 if rows - i > SIDE else 0][wide - 1](
                    a + i * row, row, STEP, b + j // SIDE * group, STEP, SIDE * STEP, group, nowhere, 1, (pairs + SIDE - 1) // SIDE,
                    <float*>(to + i * pitch + j * 4), pitch, 1 if adds else 0)
                i += 2 * SIDE
            j += 2 * SIDE
        return
    memset(&p, 0, sizeof(p))
    p.row, p.step, p.offsets, p.b_step, p.b_vector = row, 4, nowhere, STEP, group
    p.c_row = p.operands[0].row = pitch
    p.columns, p.taps[0], p.terms = c.panel, 1, pairs
    while j < columns:
        p.b = b + j // SIDE * group
        i = 0
        while i < rows:
            p.a = a + i * row
            p.c = to + i * pitch + j * 4
            p.operands[0].data = p.c
            (c.add if adds else c.put)(&p)
            i += c.rows
        j += c.panel


# --- forward ------------------------------
cdef void forward_tiles(const Task* t, const Buffers* r, int64_t batch, int64_t head, int64_t q0, int64_t rows) noexcept nogil:
    """The output of some queries of one head."""
    cdef const Call* c = &t.c
    cdef const Sizes* z = &t.z
    cdef Softening s
    cdef int64_t n, k0, columns, i, last = seen(c, q0 + rows - 1), out_pitch = z.deep * 4
    cdef double total, inverse
    rows_of(spot(&c.query, batch, head, q0), c.query.row, rows, c.width, r.query, z.width * 4)
    memset(&s, 0, sizeof(s))
    s.scores, s.pitch, s.rows, s.top, s.sum, s.out, s.out_pitch, s.out_columns = r.scores, SCORES, rows, r.top, r.sum, r.out, out_pitch, z.deep
    s.kept, s.weights, s.weights_pitch, s.scale = r.kept, r.weights, PITCH, c.scale
    for i in range(rows):
        put_number(c, r.top + i * 4, -INFINITY)
        put_number(c, r.sum + i * 4, 0.0)
    if last == 0:
        memset(r.out, 0, rows * out_pitch)
    for n in range((last + KEYS - 1) // KEYS):
        k0 = n * KEYS
        columns = min(<int64_t>KEYS, last - k0)
        product(t, False, r.query, z.width * 4, r.keys + k0 * z.width * 4, z.width * STEP, r.scores, SCORES, rows, columns, (c.width + 1) // 2)
        s.columns, s.limit, s.first = columns, limit_of(c, q0, k0), k0 == 0
        if c.masked:
            s.mask, s.mask_row = spot(&c.mask, batch, head, q0) + k0 * c.mask_size, c.mask.row
        if c.draw != NULL:
            draw(c, r.kept, batch, head, q0, k0, rows, columns, SCORES)
        c.soften(&s)
        product(t, k0 > 0, r.weights, PITCH, r.values + k0 // 2 * STEP, z.keys * STEP, r.out, out_pitch, rows, c.depth, (columns + 1) // 2)
    for i in range(rows):
        total = number(c, r.sum + i * 4)
        inverse = 1.0 / total if total != 0.0 else 0.0
        if c.lse.data != NULL:
            put_number(c, <char*>spot(&c.lse, batch, head, q0 + i), number(c, r.top + i * 4) + log(total))
        written(c, r.out + i * out_pitch, <char*>spot(&c.out, batch, head, q0 + i), c.depth, inverse)


cdef void forward_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Task* t = <Task*>context
    cdef Call* c = &t.c
    cdef Sizes* z = &t.z
    cdef Buffers r
    cdef int64_t task, batch, kv, j, n, q0, first, last, laid_out = -1
    if not begun(t, &r, False):
        return
    if z.unit:
        set_up(SIDE)
    for task in range(begin, end):
        batch, kv = task // c.chunks // c.heads, task // c.chunks % c.heads
        if laid_out != task // c.chunks:
            right(spot(&c.key, batch, kv, 0), c.key.row, c.keys, c.width, True, z.many, z.width, r.keys)
            right(spot(&c.value, batch, kv, 0), c.value.row, c.keys, c.depth, False, z.deep, z.keys, r.values)
            laid_out = task // c.chunks
        first = task % c.chunks * c.chunk
        last = min(first + c.chunk, c.queries)
        for j in range(c.groups):
            for n in range((last - first + QUERIES - 1) // QUERIES):
                q0 = first + n * QUERIES
                forward_tiles(t, &r, batch, kv * c.groups + j, q0, min(<int64_t>QUERIES, last - q0))
    if z.unit:
        give_back()
    free(r.memory)


# --- backward ------------------------------
cdef void backward_tiles(const Task* t, const Buffers* r, int64_t batch, int64_t head, int64_t q0, int64_t rows) noexcept nogil:
    """What some queries of one head give to all three gradients."""
    cdef const Call* c = &t.c
    cdef const Sizes* z = &t.z
    cdef Softening s
    cdef int64_t n, k0, columns, i, last = seen(c, q0 + rows - 1), wide = z.wide * 4
    cdef double logs
    rows_of(spot(&c.query, batch, head, q0), c.query.row, rows, c.width, r.query, z.width * 4)
    rows_of(spot(&c.grad, batch, head, q0), c.grad.row, rows, c.depth, r.grad, z.depth * 4)
    turned_rows(z, r.query, z.width * 4, z.wide, r.paired, r.query_turned)
    turned_rows(z, r.grad, z.depth * 4, z.deep, r.paired, r.grad_turned)
    memset(&s, 0, sizeof(s))
    s.scores, s.arriving, s.pitch, s.rows, s.shift, s.delta = r.scores, r.arriving, SCORES, rows, r.top, r.sum
    s.kept, s.weights, s.changes, s.weights_pitch, s.scale = r.kept, r.weights, r.changes, PITCH, c.scale
    for i in range(rows):
        logs = number(c, spot(&c.lse, batch, head, q0 + i))
        put_number(c, r.top + i * 4, INFINITY if logs == -INFINITY else logs)  # all weights are 0
        put_number(c, r.sum + i * 4, number(c, spot(&c.delta, batch, head, q0 + i)))
    memset(r.weights + rows * PITCH, 0, (QUERIES - rows) * PITCH)
    memset(r.changes + rows * PITCH, 0, (QUERIES - rows) * PITCH)
    if last == 0:
        memset(r.out, 0, rows * wide)
    for n in range((last + KEYS - 1) // KEYS):
        k0 = n * KEYS
        columns = min(<int64_t>KEYS, last - k0)
        product(t, False, r.query, z.width * 4, r.keys + k0 * z.width * 4, z.width * STEP, r.scores, SCORES, rows, columns, (c.width + 1) // 2)
        product(t, False, r.grad, z.depth * 4, r.values + k0 * z.depth * 4, z.depth * STEP, r.arriving, SCORES, rows, columns,
                (c.depth + 1) // 2)
        s.columns, s.limit = columns, limit_of(c, q0, k0)
        if c.masked:
            s.mask, s.mask_row = spot(&c.mask, batch, head, q0) + k0 * c.mask_size, c.mask.row
        if c.draw != NULL:
            draw(c, r.kept, batch, head, q0, k0, rows, columns, SCORES)
        c.revert(&s)
        summed(t, r.weights, r.paired, columns, r.grad_turned, c.depth, r.to_value + k0 * 4)
        summed(t, r.changes, r.paired, columns, r.query_turned, c.width, r.to_key + k0 * 4)
        product(t, k0 > 0, r.changes, PITCH, r.key_terms + k0 // 2 * STEP, z.keys * STEP, r.out, wide, rows, c.width, (columns + 1) // 2)
    for i in range(rows):
        written(c, r.out + i * wide, <char*>spot(&c.to_query, batch, head, q0 + i), c.width, c.scale)


cdef void summed(const Task* t, const char* tile, char* paired, int64_t columns, const char* left, int64_t rows, char* to) noexcept nogil:
    """Add rows that are turned, whose terms are queries, times a tile of weights to a gradient."""
    t.z.zip(paired, QUERIES * 2 * SIDE, tile, PITCH, QUERIES // 2, whole(columns, 2 * SIDE) // SIDE)
    product(t, True, left, COLUMN, paired, QUERIES * 2 * SIDE, to, t.z.key_pitch, rows, columns, QUERIES // 2)


cdef void turned_back(const Task* t, const Buffers* r, const char* source, int64_t width, char* to, int64_t row, double factor) noexcept nogil:
    """(element, key) as rows of elements, times a number."""
    cdef const Call* c = &t.c
    cdef int64_t k = 0, i, some, pitch = whole(width, 2 * SIDE) * 4
    cdef float single = <float>factor
    while k < c.keys:
        some = min(<int64_t>SIDE, c.keys - k)
        t.z.turn(source + k * 4, t.z.key_pitch, width, some, r.rows, pitch)
        for i in range(some):
            if c.rounds:
                c.narrow(r.rows + i * pitch, to + (k + i) * row, width, single)
            else:
                c.widen(r.rows + i * pitch, to + (k + i) * row, width, single)
        k += SIDE


cdef void backward_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Task* t = <Task*>context
    cdef Call* c = &t.c
    cdef Sizes* z = &t.z
    cdef Buffers r
    cdef int64_t task, batch, kv, j, n, q0, first, last
    if not begun(t, &r, True):
        return
    if z.unit:
        set_up(SIDE)
    for task in range(begin, end):
        batch, kv = task // c.chunks // c.heads, task // c.chunks % c.heads
        right(spot(&c.key, batch, kv, 0), c.key.row, c.keys, c.width, True, z.many, z.width, r.keys)
        right(spot(&c.key, batch, kv, 0), c.key.row, c.keys, c.width, False, z.wide, z.keys, r.key_terms)
        right(spot(&c.value, batch, kv, 0), c.value.row, c.keys, c.depth, True, z.many, z.depth, r.values)
        memset(r.to_key, 0, z.wide * z.key_pitch)
        memset(r.to_value, 0, z.deep * z.key_pitch)
        first = task % c.chunks * c.chunk
        last = min(first + c.chunk, c.queries)
        for j in range(c.groups):
            for n in range((last - first + QUERIES - 1) // QUERIES):
                q0 = first + n * QUERIES
                backward_tiles(t, &r, batch, kv * c.groups + j, q0, min(<int64_t>QUERIES, last - q0))
        turned_back(t, &r, r.to_key, c.width, <char*>spot(&c.to_key, batch, kv, 0) + task % c.chunks * c.to_key_chunk, c.to_key.row, c.scale)
        turned_back(t, &r, r.to_value, c.depth, <char*>spot(&c.to_value, batch, kv, 0) + task % c.chunks * c.to_value_chunk, c.to_value.row,
                    1.0)
    if z.unit:
        give_back()
    free(r.memory)


# --- calls ------------------------------
def possible() -> bool:
    """Whether the processor multiplies bfloat16."""
    return ready(0)


cdef int read(Task* t, TensorBase query, TensorBase key, TensorBase value, mask, diagonal, double scale, tuple dropping) except -1:
    cdef str masks = "" if mask is None else mask.dtype.name
    cdef dict result
    cdef Sizes* z = &t.z
    cdef Call* c = &t.c
    z.unit = has_unit()
    result = callbacks["attention.half_functions"](masks, dropping is not None)
    read_call(c, result, query, key, value, mask, diagonal, scale, dropping)
    z.zip, z.turn = zipping(), turning()
    z.width, z.depth, z.keys = whole((c.width + 1) // 2, SIDE), whole((c.depth + 1) // 2, SIDE), whole((c.keys + 1) // 2, SIDE)
    z.wide, z.deep, z.many = whole(c.width, 2 * SIDE), whole(c.depth, 2 * SIDE), whole(c.keys, 2 * SIDE)
    z.key_pitch = z.many * 4 + STEP
    return 0


def forward(TensorBase query, TensorBase key, TensorBase value, mask, diagonal, double scale, dropping, TensorBase out, lse):
    """`attention.forward` of bfloat16, where `possible`."""
    cdef Task t
    cdef Call* c = &t.c
    cdef int64_t tasks
    read(&t, query, key, value, mask, diagonal, scale, dropping)
    read_operand(&c.out, out, 0)
    c.lse.data = NULL
    if lse is not None:
        read_operand(&c.lse, lse, 0)
    tasks = max(1, TASKS * num_threads() // (c.batches * c.heads))
    c.chunk = whole(max(<int64_t>LEAST_QUERIES, (c.queries + tasks - 1) // tasks), QUERIES)
    c.chunks = (c.queries + c.chunk - 1) // c.chunk
    with nogil:
        parallel_interruptible(forward_range, &t, c.batches * c.heads * c.chunks, 1, nanoseconds(c, 1))
    if c.failed:
        raise MemoryError("scaled_dot_product_attention(): no memory for the keys of one head")


def backward(TensorBase query, TensorBase key, TensorBase value, mask, diagonal, double scale, dropping, TensorBase lse,
             TensorBase grad, TensorBase delta, TensorBase to_query, TensorBase to_key, TensorBase to_value):
    """`attention.backward` of bfloat16, where `possible`."""
    cdef Task t
    cdef Call* c = &t.c
    read(&t, query, key, value, mask, diagonal, scale, dropping)
    read_operand(&c.lse, lse, 0)
    read_operand(&c.grad, grad, 0)
    read_operand(&c.delta, delta, 0)
    read_operand(&c.to_query, to_query, 0)
    read_operand(&c.to_key, to_key, 1)
    read_operand(&c.to_value, to_value, 1)
    c.rounds = to_key.width != 4
    c.to_key_chunk, c.to_value_chunk = to_key.strides[0] * to_key.width, to_value.strides[0] * to_value.width
    c.chunks = to_key.sizes[0]
    c.chunk = whole((c.queries + c.chunks - 1) // c.chunks, QUERIES)
    with nogil:
        parallel_interruptible(backward_range, &t, c.batches * c.heads * c.chunks, 1, nanoseconds(c, 2))
    if c.failed:
        raise MemoryError("scaled_dot_product_attention(): no memory for the gradients of one head")
