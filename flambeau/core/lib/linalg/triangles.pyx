# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Triangular systems of one matrix."""
from libc.stdint cimport int64_t
from .jobs cimport Job


cdef void solve_triangle(const Job* j, const Triangle* t, char* x, int x_row, int n, int columns, int first) noexcept nogil:
    j.blocks.solve(t.a + <int64_t>first * (t.lead + 1) * j.size, 1 if t.turned else t.lead, t.lead if t.turned else 1,
                   x + <int64_t>first * x_row * j.size, x_row, n - first, columns, t.upper, t.unit)
