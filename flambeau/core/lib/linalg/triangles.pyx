# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Triangular systems of one matrix: by recursion and products (`blocks.c`), or, of few right sides, by the library."""
from libc.stdint cimport int64_t
from .jobs cimport Job, unit_of

cdef enum:
    FEW = 8                    # right sides that the library takes at once


cdef void solve_triangle(const Job* j, const Triangle* t, char* x, int x_row, int n, int columns, int first) noexcept nogil:
    cdef double[2] one
    cdef char side = b"U" if t.upper == t.turned else b"L", trans = b"T" if t.turned else b"N", unit = b"U" if t.unit else b"N"
    cdef int rest = n - first
    cdef const char* a = t.a + <int64_t>first * (t.lead + 1) * j.size
    x += <int64_t>first * x_row * j.size
    if columns >= FEW:
        j.blocks.solve(a, 1 if t.turned else t.lead, t.lead if t.turned else 1, x, x_row, rest, columns, t.upper, t.unit)
        return
    unit_of(j, one)            # the library sees the transposes
    j.routines.trsm(b"R", &side, &trans, &unit, &columns, &rest, one, a, &t.lead, x, &x_row, 1, 1, 1, 1)
