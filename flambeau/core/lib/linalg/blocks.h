#ifndef FLAMBEAU_BLOCKS_H
#define FLAMBEAU_BLOCKS_H

#include <stdint.h>

/* What dense factorisations are made of, on the thread that calls.  Matrices are complex or real, their steps count elements, and columns
   lie side by side unless there is a step for them. */
typedef struct {
    /* C (m, n) - A (m, k) B (k, n) in place of C, with the conjugate of A where asked for.  Rows r of C with r + below < column may be left
       as they are. */
    void (*subtract)(void *c, int64_t c_row, const void *a, int64_t a_row, int64_t a_col, const void *b, int64_t b_row, int64_t m, int64_t n,
                     int64_t k, int64_t below, int conjugate);
    /* X with A X = B in place of B (n, columns).  Of A the one triangle is read, or what is beyond its diagonal, which is then 1. */
    void (*solve)(const void *a, int64_t a_row, int64_t a_col, void *x, int64_t x_row, int64_t n, int64_t columns, int upper, int unit);
    /* L and U in place of A (m, n), rows exchanged for the largest pivots (|real| + |imaginary|), which count from 1; the first pivot that is
       0, or 0.  `work`: FLAMBEAU_LINE numbers for each row, and one row more. */
    int64_t (*lu)(void *a, int64_t a_row, int64_t m, int64_t n, int *pivots, void *work);
    /* L with A = L Lᴴ in place of the lower triangle of A (n, n); what is above is lost.  The first minor that is not positive, or 0.
       `work`: n n / 2 elements. */
    int64_t (*cholesky)(void *a, int64_t a_row, int64_t n, void *work);
    /* Rows i of A with rows pivots[i] - 1, for i from `first` to `last`. */
    void (*exchange)(void *a, int64_t a_row, int64_t columns, const int *pivots, int64_t first, int64_t last);
    /* The conjugate transpose of a matrix of rows by columns. */
    void (*adjoint)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows, int64_t columns);
    /* The lower triangle of A (n, n), negated, and above the diagonal its conjugate transpose. */
    void (*mirror)(void *a, int64_t a_row, int64_t n);
    /* Of real numbers: the whole of a symmetric matrix of which one triangle is given, in rows of whole vectors (FLAMBEAU_LINE numbers), 0 beyond
       the last column; the largest element's size, or NaN. */
    double (*symmetric)(void *to, int64_t to_row, const void *from, int64_t n, int lower);
    /* Of such a matrix, the tridiagonal form Qᵀ A Q: its diagonal, what is beside it, and the scales of the reflections, which are left in A, that
       of column k in row k, as LAPACK's sytrd leaves them in a lower triangle by columns.  `work`: 4 rows of A. */
    void (*tridiagonal)(void *a, int64_t a_row, int64_t n, void *diagonal, void *beside, void *scales, void *work);
    /* Of complex numbers: H (n, n), which is 0 below what is beside its diagonal, and triangular before row `begin` and from row `end` on, becomes
       triangular: Gᴴ H G; Z, (n, n) by columns, becomes Z G.  0, or the row that does not converge.  `work`: 3 n real numbers. */
    int64_t (*schur)(void *h, int64_t h_row, int64_t n, int64_t begin, int64_t end, void *z, int64_t z_row, void *work);
} flambeau_blocks;

enum { FLAMBEAU_LINE = 16 }; /* real numbers of the widest matrix that is factored a column at a time */

/* For numbers of a kind (float32, float64, complex64, complex128) and the processor's vectors; `narrow`: of 32 bytes at most. */
const flambeau_blocks *flambeau_blocks_of(int kind, int narrow);

#endif
