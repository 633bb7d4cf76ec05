"""Triangular systems of one matrix, on the thread that calls."""
from libc.stdint cimport int64_t
from .jobs cimport Job

cdef struct Triangle:          # A, by rows or, `turned`, by columns
    const char* a
    int lead                   # from one row to the next, or one column
    bint turned, upper, unit

# X with A X = B in place of B, (n, columns), whose columns lie side by side and whose rows are `x_row` elements apart.
# Rows before `first` are neither read nor written: of a lower A, those of B are 0; of an upper one, those of X are not wanted.
cdef void solve_triangle(const Job* j, const Triangle* t, char* x, int x_row, int n, int columns, int first) noexcept nogil

# The transpose of a matrix of rows by columns, of real numbers.
cdef void transpose(const Job* j, char* to, int64_t to_row, const char* source, int64_t from_row, int64_t rows, int64_t columns) noexcept nogil

# The rows of x (n, columns), exchanged by the job's pivots, the last first.
cdef void exchange_back(const Job* j, char* x, int64_t row, int64_t columns) noexcept nogil
