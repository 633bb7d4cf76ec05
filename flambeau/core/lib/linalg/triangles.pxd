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
