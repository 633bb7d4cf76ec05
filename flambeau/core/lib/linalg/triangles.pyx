# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Triangular systems of one matrix: blocks of the diagonal by substitution, all else by products.

Of real numbers, blocks are substituted by our own loops (`substitution.c`): the library's copy small triangles, and take up to four times
as long.  Complex ones, and few right sides, are the library's.
"""
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from .jobs cimport Job, minus_of, unit_of

cdef extern from "linalg/substitution.h" nogil:
    enum: FLAMBEAU_LARGEST_TRIANGLE
    void flambeau_substitute_f32(const float* a, int64_t a_row, int64_t a_col, float* x, int64_t x_row, int64_t n, int64_t columns,
                                 int upper, int unit)
    void flambeau_substitute_f64(const double* a, int64_t a_row, int64_t a_col, double* x, int64_t x_row, int64_t n, int64_t columns,
                                 int upper, int unit)
    void flambeau_transpose_f32(float* to, int64_t to_row, const float* source, int64_t from_row, int64_t rows, int64_t columns)
    void flambeau_transpose_f64(double* to, int64_t to_row, const double* source, int64_t from_row, int64_t rows, int64_t columns)

cdef enum:
    BLOCK = FLAMBEAU_LARGEST_TRIANGLE
    FEW = 8                    # right sides that the library takes at once


cdef inline const char* at(const Job* j, const Triangle* t, int64_t row, int64_t column) noexcept nogil:
    return t.a + ((column * t.lead + row) if t.turned else (row * t.lead + column)) * j.size


cdef void substitute(const Job* j, const Triangle* t, int row, int rows, char* x, int x_row, int columns) noexcept nogil:
    cdef int64_t a_row = 1 if t.turned else t.lead, a_col = t.lead if t.turned else 1
    if j.kind % 2:
        flambeau_substitute_f64(<const double*>at(j, t, row, row), a_row, a_col, <double*>x, x_row, rows, columns, t.upper, t.unit)
    else:
        flambeau_substitute_f32(<const float*>at(j, t, row, row), a_row, a_col, <float*>x, x_row, rows, columns, t.upper, t.unit)


cdef void solve_triangle(const Job* j, const Triangle* t, char* x, int x_row, int n, int columns, int first) noexcept nogil:
    cdef double[2] one
    cdef double[2] minus
    cdef char side = b"U" if t.upper == t.turned else b"L", trans = b"T" if t.turned else b"N", unit = b"U" if t.unit else b"N"
    cdef int block, rows, solved, step, blocks, rest = n - first
    cdef int64_t column
    cdef char* to
    unit_of(j, one)
    if j.kind > 1 or columns < FEW:      # the library sees the transposes
        j.routines.trsm(b"R", &side, &trans, &unit, &columns, &rest, one, at(j, t, first, first), &t.lead,
                        x + <int64_t>first * x_row * j.size, &x_row, 1, 1, 1, 1)
        return
    minus_of(j, minus)
    blocks = (rest + BLOCK - 1) // BLOCK
    for step in range(blocks):
        block = first + (blocks - 1 - step if t.upper else step) * BLOCK
        rows = min(n - block, <int>BLOCK)
        solved = n - block - rows if t.upper else block - first
        to = x + <int64_t>block * x_row * j.size
        if solved:
            column = block + rows if t.upper else first
            j.routines.gemm(b"N", &trans, &columns, &rows, &solved, minus, x + column * x_row * j.size, &x_row,
                            at(j, t, block, column), &t.lead, one, to, &x_row, 1, 1)
        substitute(j, t, block, rows, to, x_row, columns)


cdef void transpose(const Job* j, char* to, int64_t to_row, const char* source, int64_t from_row, int64_t rows, int64_t columns) noexcept nogil:
    if j.kind % 2:
        flambeau_transpose_f64(<double*>to, to_row, <const double*>source, from_row, rows, columns)
    else:
        flambeau_transpose_f32(<float*>to, to_row, <const float*>source, from_row, rows, columns)


cdef void exchange_back(const Job* j, char* x, int64_t row, int64_t columns) noexcept nogil:
    cdef char[1024] spare
    cdef int64_t at, length
    cdef int i, other
    for i in range(j.n - 1, -1, -1):
        other = j.pivots[i] - 1
        if other != i:
            at = 0
            while at < columns * j.size:
                length = min(columns * j.size - at, <int64_t>sizeof(spare))
                memcpy(spare, x + i * row + at, length)
                memcpy(x + i * row + at, x + other * row + at, length)
                memcpy(x + other * row + at, spare, length)
                at += length
