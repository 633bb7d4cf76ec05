"""The arguments of a register tile (codegen/tiles/register.py), words of eight bytes in this order; all steps are bytes."""
from libc.stdint cimport int64_t

cdef enum:
    MOST_OPERANDS = 8           # of an epilogue (codegen/tiles/epilogues.py), and as many numbers

cdef struct Operand:            # of an epilogue: its element for the first row and column
    const char* data
    int64_t row                 # from row to row; 0 where it has one element a column
    int64_t column              # from column to column; 0 where it has one element a row

cdef struct Tile:
    const char* a               # the left operand's first row and term, before the taps' offsets
    int64_t row                 # from row to row
    int64_t step                # from term to term
    const int64_t* offsets      # of the left operand, one for each tap
    int64_t terms               # of each tap
    const char* b               # the right operand's first vector of columns
    int64_t b_tap               # from tap to tap
    int64_t b_step              # from term to term
    int64_t b_vector            # from vector to vector
    char* c
    int64_t c_row               # from row to row; where c is written turned, rows lie side by side
    int64_t c_column            # from column to column where c is written turned; else they lie side by side
    int64_t columns             # how many exist: the others are neither read in c nor written
    int64_t taps[3]             # of each cut
    double numbers[MOST_OPERANDS]
    Operand operands[MOST_OPERANDS]   # side by side in columns, or, where c is written turned, in rows
    char* laid                  # where a tile that lays its right operand out writes it

ctypedef void (*tile_t)(const Tile* t) noexcept nogil
