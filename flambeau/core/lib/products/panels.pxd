"""Products of matrices by generated register tiles (codegen/tiles): c = epilogue(a @ b, operands).

To multiply by a matrix of float32 or float64 that is laid out once:

    cdef Panels p
    clear(&p, F32, tiles_of(F32, epilogue))                 # what is done to the sums; NULL: nothing
    p.m, p.n, p.k = rows, columns, terms                    # m: the most that will come; others need another `ready`
    ready(&p)                                               # compiles what is missing; needs the GIL
    buffer = new_tensor(1, &size, U8)                       # of packed_size(&p) bytes, kept as long as b is used
    lay_right(&p, pointer(buffer), b, b_row, b_col, 0, panels_of(&p))  # from here on nogil
    p.b = pointer(buffer)
    add_operand(&p, bias, 0, p.size)                        # one element a column
    p.a, p.a_row, p.a_col, p.c, p.c_row = a, a_row, a_col, c, c_row
    multiply_rows(&p, 0, p.m, 0, panels_of(&p))

The sums of an element are taken in one order that depends on k alone; so rows and panels may be shared out over threads in any
way.  But tiles are compiled for what `ready` saw: rows from 0 to m, or bands that `band_of` (panels.pyx) gives.
"""
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from ..tiles cimport MOST_OPERANDS, Operand, tile_t

cdef enum:
    MOST_VECTORS = 4
    MOST_ROWS = 14
    FEW_ROWS = 6              # of a tile that reads both operands along their terms
    MOST_COLUMNS = 8
    MASKED = 1
    LAYS = 2
    DOTTED = 32               # rows up to which laying the right operand out for tiles takes longer than it saves

ctypedef void (*layer_t)(char* to, int64_t to_step, const char* source, int64_t step, int64_t terms, int64_t columns) noexcept nogil

cdef struct Tiles:            # what is compiled of one epilogue for one size of elements; kept as long as the process
    PyObject* epilogue        # of codegen/tiles/epilogues.py, or None
    Tiles* continued          # of sums to which those of the terms before are added; NULL before it is needed
    tile_t tiles[4][MOST_VECTORS + 1][MOST_ROWS + 1]            # by whether b is masked and laid out (MASKED, LAYS), vectors, rows
    tile_t dots[FEW_ROWS + 1][MOST_COLUMNS + 1]                 # by rows and columns

cdef struct Layers:           # what lays right operands of one dtype out
    layer_t copies[MOST_VECTORS + 1]    # columns lie side by side; by the vectors of a panel
    layer_t turns                       # terms do

cdef struct Family:           # what is compiled for one size of elements
    int64_t lanes             # of a vector; 0 before anything is known
    int64_t vectors           # of a whole panel
    int64_t tallest[MOST_VECTORS + 1]
    int64_t few               # rows of the tallest tile of dot products
    int64_t columns[FEW_ROWS + 1]    # of a tile of dot products by its rows
    int64_t depth, deepest, band, far  # codegen/tiles/panels.py
    Tiles* plain              # which store the sums
    layer_t crosses[MOST_VECTORS + 1]
    Layers layers

cdef struct Panels:           # all steps are bytes
    Family* family
    int64_t size              # of an element
    const Layers* layers      # for a right operand whose elements are of `read` bytes
    int64_t read
    Tiles* tiles
    int64_t m, n, k
    const char* a
    int64_t a_row, a_col
    const char* b             # panels that `lay_right` has laid, or a matrix whose columns lie side by side
    int64_t b_row             # of such a matrix; 0: panels
    bint lays                 # the first tile of a band lays such a matrix out for the others
    char* c
    int64_t c_row             # columns lie side by side
    int operands              # of the epilogue; they may be c itself
    Operand operand[MOST_OPERANDS]
    double numbers[MOST_OPERANDS]

# The tiles of an epilogue, or None, for a dtype.
cdef Tiles* tiles_of(int code, object epilogue) except NULL
# Everything 0 but the family; 0 where tiles are not for this processor or dtype.
cdef bint clear(Panels* p, int code, Tiles* tiles) except -1
cdef inline void add_operand(Panels* p, const char* data, int64_t row, int64_t column) noexcept nogil:
    p.operand[p.operands].data, p.operand[p.operands].row, p.operand[p.operands].column = data, row, column
    p.operands += 1
# Those of float32 that read float16 or bfloat16 (code); compiled here, with the GIL.
cdef const Layers* layers_of_halves(int code) except NULL
# Compile the tiles that m, n, k, the epilogue and b_row ask for.
cdef int ready(Panels* p) except -1
cdef int64_t panels_of(const Panels* p) noexcept nogil
# Bytes of a right operand that is laid out.
cdef int64_t packed_size(const Panels* p) noexcept nogil
cdef void lay_right(const Panels* p, char* workspace, const char* b, int64_t b_row, int64_t b_col, int64_t begin, int64_t end) noexcept nogil
# Rows, at most a band, by panels of c.
cdef void multiply_rows(const Panels* p, int64_t from_row, int64_t to_row, int64_t from_panel, int64_t to_panel) noexcept nogil

cdef struct Products:         # `batch` products
    Panels one
    int64_t batch, a_batch, b_batch, c_batch
    int64_t operand_batch[MOST_OPERANDS]
    const char* b
    int64_t b_row, b_col
    bint crossed              # complex numbers, as a real product of twice the columns and terms
    bint laid                 # the right operand is: b is what `lay_right` has written
    bint lays_right, lays_left, dots
    char* workspace           # of `bytes`: `size` for each of `slots` products that are under way
    int64_t bytes, size, slots
    bint apart                # many that need little: each thread has room on its stack
    int64_t right             # bytes of the right operand in it
    int64_t first             # of those that are under way

# How the operands are laid out, and how much room that takes; compiles what is missing.
cdef int prepare(Products* all) except -1
# OK, or INTERRUPTED with the exception set.
cdef int multiply_products(Products* all) noexcept nogil
