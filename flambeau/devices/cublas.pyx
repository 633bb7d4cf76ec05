# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Products of matrices by cuBLAS, or by rocBLAS on AMD's devices, which is opened at the first product on a device.

FLAMBEAU_LIBCUBLAS names the library; else it is the system's, else that of the wheel nvidia-cublas.  FLAMBEAU_LIBROCBLAS names AMD's;
else it is the system's, or ROCm's.  Where there is none, flambeau's own kernels do the work.

cuBLAS is column-major: a matrix whose rows are contiguous is to it one that is transposed.
"""
from libc.stdint cimport INT32_MAX, int64_t, uint64_t, uintptr_t
from .cuda_driver cimport hip, open_library
from .cuda_driver import library_files, speaks
from ..core.base.device cimport Product
from ..core.base.dtypes cimport BF16, C128, C64, F16, F32, F64, ITEMSIZE

cdef enum:  # from cublas_api.h and library_types.h
    REAL_32 = 0
    REAL_64 = 1
    REAL_16 = 2
    COMPLEX_32 = 4
    COMPLEX_64 = 5
    BRAIN_16 = 14
    COMPUTE_32 = 68  # sums in float32, also those of halves; no rounding to TF32
    COMPUTE_64 = 70
    DEFAULT_ALGORITHM = -1
    AS_STORED = 0
    TRANSPOSED = 1
    NO_REDUCED_PRECISION = 16

cdef struct Routines:  # in the order of NAMES
    int (*create)(void**) noexcept nogil
    int (*set_stream)(void*, void*) noexcept nogil
    int (*set_math)(void*, int) noexcept nogil
    int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                const void*, void*, int, int, int, int) noexcept nogil
    int (*batched)(void*, int, int, int, int, int, const void*, const void*, int, int, long long,
                   const void*, int, int, long long, const void*, void*, int, int, long long, int, int,
                   int) noexcept nogil
    const char* (*status)(int) noexcept nogil

NAMES = (
    "cublasCreate_v2", "cublasSetStream_v2", "cublasSetMathMode", "cublasGemmEx", "cublasGemmStridedBatchedEx",
    "cublasGetStatusString",
)

cdef Routines blas
cdef bint opened = False


def candidates() -> list[str]:
    """Where the library may be, best first."""
    return library_files("FLAMBEAU_LIBCUBLAS", ["libcublas.so.13", "libcublas.so.12"])


cdef bint open_blas() except -1:
    """Whether the library is there, with all routines."""
    global opened
    if hip:
        opened = open_library(rocblas_candidates(), ROC_NAMES, <void**>&roc, "rocBLAS 4 or later")
        blas.create, blas.set_stream, blas.status = roc.create, roc.set_stream, roc.status
        blas.set_math, blas.gemm, blas.batched = keep_math, roc_gemm, roc_batched
    else:
        opened = open_library(candidates(), NAMES, <void**>&blas, "cuBLAS 12 or 13")
    return opened


def find_library() -> Library | None:
    """A handle of the library for the current device, None where it is not installed."""
    cdef Library made
    if not opened and not open_blas():
        return None
    made = Library.__new__(Library)
    check(blas.create(&made.handle), "cublasCreate")
    check(blas.set_math(made.handle, NO_REDUCED_PRECISION), "cublasSetMathMode")
    return made


cdef int check(int status, str call) except -1:
    if status:
        raise RuntimeError(f"{speaks()} error: {ROCBLAS[call] if hip else call}: {blas.status(status).decode()} ({status})")
    return 0


cdef bint describe(uint64_t address, int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t batch,
                   Matrix* out) noexcept:
    """Whether the strides are such as cuBLAS takes: one of them 1, and the other no shorter than a column.  Those
    of a dimension of one element do not matter.
    """
    cdef int64_t leading
    out.data, out.batch = <const void*><uintptr_t>address, batch
    if (row == 1 or rows == 1) and (columns == 1 or column >= rows):
        out.operation = AS_STORED
        leading = rows if columns == 1 else column
    elif (column == 1 or columns == 1) and (rows == 1 or row >= columns):
        out.operation = TRANSPOSED
        leading = columns if rows == 1 else row
    else:
        return False
    out.leading = <int>leading
    return leading <= INT32_MAX


cdef bint arrange(Product* p, Gemm* g) except -1:
    """The product as the library takes it; False for a dtype or strides that it does not take."""
    g.m, g.n, g.compute = p.m, p.n, COMPUTE_32
    if p.k <= 0 or max(p.m, p.n, p.k, p.batch) > INT32_MAX:
        return False
    if p.code == F32:
        g.kind = REAL_32
    elif p.code == F16:
        g.kind = REAL_16
    elif p.code == BF16:
        g.kind = BRAIN_16
    elif p.code == C64:
        g.kind = COMPLEX_32
    elif p.code == F64 or p.code == C128:
        g.kind, g.compute = REAL_64 if p.code == F64 else COMPLEX_64, COMPUTE_64
    else:
        return False
    g.turned = not (p.c_row == 1 or p.m == 1 and p.c_column >= 1)
    if not g.turned:  # C's columns are contiguous
        return (describe(p.c, p.m, p.n, p.c_row, p.c_column, p.c_batch, &g.c) and g.c.operation == AS_STORED
                and describe(p.a, p.m, p.k, p.a_row, p.a_column, p.a_batch, &g.a)
                and describe(p.b, p.k, p.n, p.b_row, p.b_column, p.b_batch, &g.b))
    g.m, g.n = p.n, p.m  # C' = B' A'
    return (describe(p.c, p.n, p.m, p.c_column, p.c_row, p.c_batch, &g.c) and g.c.operation == AS_STORED
            and describe(p.b, p.n, p.k, p.b_column, p.b_row, p.b_batch, &g.a)
            and describe(p.a, p.k, p.m, p.a_column, p.a_row, p.a_batch, &g.b))


cdef class Library:
    """cuBLAS on one device."""

    cdef bint product(self, Product* p, void* stream) except -1:
        """Queue it; False for a dtype or strides that cuBLAS does not take."""
        cdef Gemm g
        cdef int status
        cdef double alpha[2]
        cdef double beta[2]
        if p.m <= 0 or p.n <= 0 or p.batch <= 0:
            return True
        if not arrange(p, &g):
            return False
        scale(p.alpha, g.compute, alpha)
        scale(p.beta, g.compute, beta)
        if stream != self.stream:
            check(blas.set_stream(self.handle, stream), "cublasSetStream")
            self.stream = stream
        if p.batch == 1:
            status = blas.gemm(self.handle, g.a.operation, g.b.operation, <int>g.m, <int>g.n, <int>p.k, alpha,
                               g.a.data, g.kind, g.a.leading, g.b.data, g.kind, g.b.leading, beta,
                               <void*>g.c.data, g.kind, g.c.leading, g.compute, DEFAULT_ALGORITHM)
        else:
            status = blas.batched(self.handle, g.a.operation, g.b.operation, <int>g.m, <int>g.n, <int>p.k, alpha,
                                  g.a.data, g.kind, g.a.leading, g.a.batch, g.b.data, g.kind, g.b.leading, g.b.batch, beta,
                                  <void*>g.c.data, g.kind, g.c.leading, g.c.batch, <int>p.batch, g.compute, DEFAULT_ALGORITHM)
        check(status, "cublasGemmEx")
        return True


cdef void scale(double value, int compute, double* out) noexcept:
    """A factor as the library reads it: a real number of the sums' width, or the first half of a complex one."""
    if compute == COMPUTE_64:
        out[0], out[1] = value, 0
    else:
        (<float*>out)[0], (<float*>out)[1] = <float>value, 0


# rocBLAS, under the names and numbers of cuBLAS
cdef enum:  # from rocblas-types.h
    ROC_AS_STORED = 111
    ROC_REAL_16 = 150
    ROC_REAL_32 = 151
    ROC_REAL_64 = 152
    ROC_COMPLEX_32 = 154
    ROC_COMPLEX_64 = 155
    ROC_BRAIN_16 = 168
    ROC_STANDARD = 0

cdef struct RocRoutines:  # in the order of ROC_NAMES
    int (*create)(void**) noexcept nogil
    int (*set_stream)(void*, void*) noexcept nogil
    const char* (*status)(int) noexcept nogil
    int (*batched)(void*, int, int, int, int, int, const void*, const void*, int, int, int64_t, const void*, int, int, int64_t,
                   const void*, const void*, int, int, int64_t, void*, int, int, int64_t, int, int, int, int, unsigned int) noexcept nogil

ROC_NAMES = ("rocblas_create_handle", "rocblas_set_stream", "rocblas_status_to_string", "rocblas_gemm_strided_batched_ex")
ROCBLAS = {  # what an error names
    "cublasCreate": "rocblas_create_handle", "cublasSetStream": "rocblas_set_stream",
    "cublasGemmEx": "rocblas_gemm_strided_batched_ex",
}

cdef RocRoutines roc


def rocblas_candidates() -> list[str]:
    """Where AMD's library may be, best first."""
    return library_files("FLAMBEAU_LIBROCBLAS", ["librocblas.so.5", "librocblas.so.4", "librocblas.so"], amd=True)


cdef int keep_math(void* handle, int mode) noexcept nogil:
    """rocBLAS sums halves in float32, as it is called here, and has no mode that would not."""
    return 0


cdef int roc_kind(int kind) noexcept nogil:
    if kind == REAL_32:
        return ROC_REAL_32
    if kind == REAL_64:
        return ROC_REAL_64
    if kind == REAL_16:
        return ROC_REAL_16
    if kind == BRAIN_16:
        return ROC_BRAIN_16
    return ROC_COMPLEX_32 if kind == COMPLEX_32 else ROC_COMPLEX_64


cdef int roc_gemm(void* handle, int a_operation, int b_operation, int m, int n, int k, const void* alpha, const void* a, int a_kind,
                  int a_leading, const void* b, int b_kind, int b_leading, const void* beta, void* c, int c_kind, int c_leading,
                  int compute, int algorithm) noexcept nogil:
    return roc_batched(handle, a_operation, b_operation, m, n, k, alpha, a, a_kind, a_leading, 0, b, b_kind, b_leading, 0, beta,
                       c, c_kind, c_leading, 0, 1, compute, algorithm)


cdef int roc_batched(void* handle, int a_operation, int b_operation, int m, int n, int k, const void* alpha, const void* a, int a_kind,
                     int a_leading, long long a_batch, const void* b, int b_kind, int b_leading, long long b_batch, const void* beta,
                     void* c, int c_kind, int c_leading, long long c_batch, int batch, int compute, int algorithm) noexcept nogil:
    """Sums are of the operands' type, those of halves of float32."""
    cdef int kind = roc_kind(c_kind)
    cdef int sums = ROC_REAL_32 if kind == ROC_REAL_16 or kind == ROC_BRAIN_16 else kind
    return roc.batched(handle, ROC_AS_STORED + a_operation, ROC_AS_STORED + b_operation, m, n, k, alpha, a, roc_kind(a_kind), a_leading,
                       a_batch, b, roc_kind(b_kind), b_leading, b_batch, beta, c, kind, c_leading, c_batch, c, kind, c_leading, c_batch,
                       batch, sums, ROC_STANDARD, 0, 0)
