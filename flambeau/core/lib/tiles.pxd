"""The arguments of a register tile (codegen/tiles/register.py), words of eight bytes in this order; all steps are bytes."""
from libc.stdint cimport int64_t

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
    double alpha                # of a scaled epilogue
    double beta
    const char* bias            # one element a column, or a row
    const char* other           # read as c is written, with steps of its own
    int64_t other_row
    int64_t other_column
    int64_t taps[3]             # of each cut

ctypedef void (*tile_t)(const Tile* t) noexcept nogil
