"""What tiles of attention have in common, whatever multiplies them: a call, its operands, and what a pass over scores reads."""
from libc.stdint cimport int64_t, uint64_t
from ...base.tensor cimport TensorBase
from ..tiles cimport tile_t

cdef enum:
    QUERIES = 64              # of a tile
    KEYS = 128
    LEAST_QUERIES = 128       # of a task
    TASKS = 4                 # a thread, where there are queries for them
    LINE = 64                 # bytes

cdef struct Softening:        # what codegen/tiles/attention.py reads
    char* scores
    int64_t pitch, rows, columns, limit
    const char* mask
    int64_t mask_row
    char* top
    char* sum
    char* out
    int64_t out_pitch, out_columns, first
    char* arriving
    char* shift
    char* delta
    char* kept
    char* weights             # of halves, the gradients of scores, and the factor of scores
    char* changes
    int64_t weights_pitch
    double scale

ctypedef void (*turn_t)(const char* source, int64_t source_row, char* to, int64_t to_row, int64_t count) noexcept nogil

ctypedef void (*pass_t)(const Softening* s) noexcept nogil

ctypedef void (*convert_t)(const char* source, char* to, int64_t count, float factor) noexcept nogil

ctypedef void (*draw_t)(char* to, int64_t pitch, int64_t rows, int64_t columns, uint64_t key, uint64_t counter, int64_t step, int64_t limit,
                        double factor) noexcept nogil

cdef struct Operand:          # (batch, head, row, element), elements side by side; steps in bytes
    char* data
    int64_t batch, head, row

cdef struct Call:
    tile_t put, add
    pass_t soften, revert
    turn_t turn
    convert_t widen, narrow                   # NULL where operands are of the dtype that is computed in
    draw_t draw                               # NULL where no weights are dropped
    uint64_t key_, counter                    # of the first query and key
    int64_t limit                             # of 2^32 words, below which a weight is kept
    double factor                             # of those
    int64_t rows, panel, lanes, size          # of a tile, and bytes of an element that is computed with
    int64_t mask_size                         # bytes of an element
    int64_t batches, heads, groups, queries, keys, width, depth   # heads of keys; widths of keys and of values
    int64_t wide, deep                        # the same in whole panels
    int64_t chunks, chunk                     # of the queries of a task
    bint causal
    bint masked
    int64_t diagonal
    double scale
    Operand query, key, value, out, mask
    Operand lse                               # no data: nobody asks for them
    Operand grad, delta, to_query, to_key, to_value
    int64_t to_key_chunk, to_value_chunk
    bint rounds                               # whether gradients of keys and values are halves
    bint failed

cdef int64_t EVERYTHING       # more keys than there are
cdef void draw(const Call* c, char* to, int64_t batch, int64_t head, int64_t query, int64_t key, int64_t rows, int64_t columns,
               int64_t pitch) noexcept nogil
cdef int read_operand(Operand* to, TensorBase t, int first) except -1
cdef int read_call(Call* c, dict functions, TensorBase query, TensorBase key, TensorBase value, mask, diagonal, double scale,
                   tuple dropping) except -1
cdef double nanoseconds(const Call* c, int products) noexcept nogil


cdef inline int64_t whole(int64_t n, int64_t unit) noexcept nogil:
    return (n + unit - 1) // unit * unit


cdef inline double number(const Call* c, const char* at) noexcept nogil:
    return (<const float*>at)[0] if c.size == 4 else (<const double*>at)[0]


cdef inline void put_number(const Call* c, char* at, double value) noexcept nogil:
    if c.size == 4:
        (<float*>at)[0] = <float>value
    else:
        (<double*>at)[0] = value


cdef inline void written(const Call* c, const char* source, char* to, int64_t width, double factor) noexcept nogil:
    """A row of a result: what was computed, times a number."""
    cdef int64_t e
    cdef float single = <float>factor
    if c.narrow != NULL:
        c.narrow(source, to, width, single)
    elif c.size == 4:
        for e in range(width):
            (<float*>to)[e] = (<const float*>source)[e] * single
    else:
        for e in range(width):
            (<double*>to)[e] = (<const double*>source)[e] * factor


cdef inline char* cut(char** at, int64_t bytes) noexcept nogil:
    """A piece of the memory, which begins with a line of the cache, and not where the last one began in it."""
    cdef char* result = at[0]
    at[0] = result + whole(bytes, LINE) + LINE
    return result


cdef inline const char* spot(const Operand* x, int64_t batch, int64_t head, int64_t row) noexcept nogil:
    return x.data + batch * x.batch + head * x.head + row * x.row


cdef inline int64_t seen(const Call* c, int64_t query) noexcept nogil:
    """How many keys that query may see."""
    return max(0, min(c.keys, query + c.diagonal + 1)) if c.causal else c.keys


cdef inline int64_t limit_of(const Call* c, int64_t query, int64_t key) noexcept nogil:
    """How many of the keys from that one on that query may see; the next ones see one more each."""
    return query + c.diagonal + 1 - key if c.causal else EVERYTHING
