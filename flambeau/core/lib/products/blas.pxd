from libc.stdint cimport int64_t

# Matrix products of row-major or transposed operands: C = alpha A B + beta C, A (m, k), B (k, n), C (m, n).
#
# Call ensure() once, with the GIL, before the first product. The products need no GIL; they share large work
# over the thread pool, and give the same bits for any number of threads.
#
# Strides and leading dimensions count elements. A and B need a unit stride along one axis, and the other
# stride at least as long as that axis; an axis of length 1 may have any stride, and a vector (m or n is 1)
# any positive one.
# C has unit stride along its rows. Where beta is 0, C is written and never read.
#
# The result is OK, or, with nothing done:
#   COPY_FIRST   an operand's strides are not of this form;
#   TOO_LARGE    a dimension or stride does not fit into the library's 32 bits;
# or, with an exception set and C written in part:
#   INTERRUPTED  a signal's handler raised the exception.
cdef enum:
    OK = 0
    COPY_FIRST = 1
    TOO_LARGE = 2
    INTERRUPTED = 3

# Opens the library. Raises ImportError naming what to install where there is none.
cdef int ensure() except -1

# Another function of the library (LAPACK's, too) by its name in Fortran, after ensure(). ImportError where it has none.
cdef void* routine(str name) except NULL

cdef int gemm_f32(
    int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t a_row, int64_t a_col,
    const float* b, int64_t b_row, int64_t b_col, float beta, float* c, int64_t ldc) noexcept nogil
cdef int gemm_f64(
    int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t a_row, int64_t a_col,
    const double* b, int64_t b_row, int64_t b_col, double beta, double* c, int64_t ldc) noexcept nogil
cdef int gemm_c64(
    int64_t m, int64_t n, int64_t k,
    float complex alpha, const float complex* a, int64_t a_row, int64_t a_col,
    const float complex* b, int64_t b_row, int64_t b_col,
    float complex beta, float complex* c, int64_t ldc) noexcept nogil
cdef int gemm_c128(
    int64_t m, int64_t n, int64_t k,
    double complex alpha, const double complex* a, int64_t a_row, int64_t a_col,
    const double complex* b, int64_t b_row, int64_t b_col,
    double complex beta, double complex* c, int64_t ldc) noexcept nogil

# The same for each of `batch` products; *_batch are the strides from one to the next, 0 for a shared operand.
cdef int batched_gemm_f32(
    int64_t batch, int64_t m, int64_t n, int64_t k,
    float alpha, const float* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const float* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    float beta, float* c, int64_t c_batch, int64_t ldc) noexcept nogil
cdef int batched_gemm_f64(
    int64_t batch, int64_t m, int64_t n, int64_t k,
    double alpha, const double* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const double* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    double beta, double* c, int64_t c_batch, int64_t ldc) noexcept nogil
cdef int batched_gemm_c64(
    int64_t batch, int64_t m, int64_t n, int64_t k,
    float complex alpha, const float complex* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const float complex* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    float complex beta, float complex* c, int64_t c_batch, int64_t ldc) noexcept nogil
cdef int batched_gemm_c128(
    int64_t batch, int64_t m, int64_t n, int64_t k,
    double complex alpha, const double complex* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const double complex* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    double complex beta, double complex* c, int64_t c_batch, int64_t ldc) noexcept nogil
