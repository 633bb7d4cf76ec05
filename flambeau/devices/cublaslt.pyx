# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Products of matrices by cuBLASLt, which adds a bias as it writes the result.

FLAMBEAU_LIBCUBLASLT names the library; else it is the system's, else that of the wheel nvidia-cublas.

A product of one description (sizes, strides, dtype, alignment) is planned once: the library is given the description and answers with an
algorithm.  Which of its algorithms that is does not change within a process.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from .cublas cimport Gemm, Matrix, arrange, scale
from .cuda_driver cimport open_library
from .cuda_driver import library_files
from ..core.base.device cimport Product
from ..core.base.dtypes cimport BF16, F16, F32

cdef enum:  # from cublasLt.h
    TRANSPOSE_A = 3            # of a product
    TRANSPOSE_B = 4
    EPILOGUE = 7
    BIAS_POINTER = 8
    ADD_BIAS = 4               # an epilogue
    BATCH_COUNT = 5            # of a matrix
    BATCH_STRIDE = 6
    MOST_WORKSPACE = 1         # of a preference
    ALIGNMENT_A = 5            # then those of b, c and d
    COMPUTE_64 = 70
    NOT_SUPPORTED = 15         # a status
    LARGEST_ALIGNMENT = 256
    MOST_PLANS = 4096

cdef struct Heuristic:             # cublasLtMatmulHeuristicResult_t
    uint64_t algorithm[8]
    size_t workspace
    int state
    float waves
    int reserved[4]

cdef struct Routines:          # in the order of NAMES
    size_t (*version)() noexcept nogil
    int (*create)(void**) noexcept nogil
    int (*make_product)(void**, int, int) noexcept nogil
    int (*set_product)(void*, int, const void*, size_t) noexcept nogil
    int (*free_product)(void*) noexcept nogil
    int (*make_matrix)(void**, int, uint64_t, uint64_t, int64_t) noexcept nogil
    int (*set_matrix)(void*, int, const void*, size_t) noexcept nogil
    int (*free_matrix)(void*) noexcept nogil
    int (*make_preference)(void**) noexcept nogil
    int (*set_preference)(void*, int, const void*, size_t) noexcept nogil
    int (*free_preference)(void*) noexcept nogil
    int (*choose)(void*, void*, void*, void*, void*, void*, void*, int, Heuristic*, int*) noexcept nogil
    int (*multiply)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*,
                    const void*, void*, size_t, void*) noexcept nogil
    const char* (*status)(int) noexcept nogil

NAMES = (
    "cublasLtGetVersion", "cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatmulDescDestroy",
    "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutSetAttribute", "cublasLtMatrixLayoutDestroy", "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulPreferenceDestroy", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul",
    "cublasLtGetStatusString",
)

cdef Routines lt
cdef bint opened = False


def candidates() -> list[str]:
    """Where the library may be, best first."""
    return library_files("FLAMBEAU_LIBCUBLASLT", ["libcublasLt.so.13", "libcublasLt.so.12"])


cdef bint open_lt() except -1:
    """Whether the library is there, with all routines."""
    global opened
    opened = open_library(candidates(), NAMES, <void**>&lt, "cuBLASLt 12 or 13")
    return opened


def find_library() -> Library | None:
    """A handle of the library for the current device, None where it is not installed."""
    cdef Library made
    if not opened and not open_lt():
        return None
    made = Library.__new__(Library)
    made.plans, made.version = {}, lt.version()
    check(lt.create(&made.handle), "cublasLtCreate")
    return made


cdef int check(int status, str call) except -1:
    if status:
        raise RuntimeError(f"CUDA error: {call}: {lt.status(status).decode()} ({status})")
    return 0


cdef class Plan:
    """What the library is told of products of one description, and its algorithm for them."""

    cdef void* product
    cdef void* a
    cdef void* b
    cdef void* c
    cdef Heuristic heuristic
    cdef bint possible

    def __dealloc__(self):
        if self.product != NULL:
            lt.free_product(self.product)
        for matrix in (<uintptr_t>self.a, <uintptr_t>self.b, <uintptr_t>self.c):
            if matrix:
                lt.free_matrix(<void*><uintptr_t>matrix)


cdef int describe(void** out, const Matrix* x, int64_t rows, int64_t columns, int kind, int64_t batch) except -1:
    """A stack of matrices as it is stored: of a transposed one rows and columns change places."""
    cdef int32_t count = <int32_t>batch
    if x.operation:
        rows, columns = columns, rows
    check(lt.make_matrix(out, kind, rows, columns, x.leading), "cublasLtMatrixLayoutCreate")
    if batch > 1:
        check(lt.set_matrix(out[0], BATCH_COUNT, &count, sizeof(count)), "cublasLtMatrixLayoutSetAttribute")
        check(lt.set_matrix(out[0], BATCH_STRIDE, &x.batch, sizeof(x.batch)), "cublasLtMatrixLayoutSetAttribute")
    return 0


cdef uint32_t alignment(const void* address) noexcept:
    """The largest power of two, up to 256, that divides an address."""
    cdef uint64_t at = <uintptr_t>address | LARGEST_ALIGNMENT
    return <uint32_t>(at & (~at + 1))


cdef Plan planned(void* handle, const Gemm* g, int64_t k, int64_t batch, bint biased, size_t workspace):
    cdef Plan plan = Plan()
    cdef void* preference = NULL
    cdef int32_t epilogue = ADD_BIAS
    cdef int32_t operation[2]
    cdef uint32_t least[4]
    cdef int count = 0, status
    check(lt.make_product(&plan.product, g.compute, g.kind if g.compute == COMPUTE_64 or g.kind == 4 else 0), "cublasLtMatmulDescCreate")
    operation[0], operation[1] = g.a.operation, g.b.operation
    check(lt.set_product(plan.product, TRANSPOSE_A, &operation[0], 4), "cublasLtMatmulDescSetAttribute")
    check(lt.set_product(plan.product, TRANSPOSE_B, &operation[1], 4), "cublasLtMatmulDescSetAttribute")
    if biased:
        check(lt.set_product(plan.product, EPILOGUE, &epilogue, 4), "cublasLtMatmulDescSetAttribute")
    describe(&plan.a, &g.a, g.m, k, g.kind, batch)
    describe(&plan.b, &g.b, k, g.n, g.kind, batch)
    describe(&plan.c, &g.c, g.m, g.n, g.kind, batch)
    check(lt.make_preference(&preference), "cublasLtMatmulPreferenceCreate")
    least[0], least[1], least[2] = alignment(g.a.data), alignment(g.b.data), alignment(g.c.data)
    least[3] = least[2]
    status = lt.set_preference(preference, MOST_WORKSPACE, &workspace, sizeof(workspace))
    for which in range(4):
        if not status:
            status = lt.set_preference(preference, ALIGNMENT_A + which, &least[which], 4)
    if not status:
        status = lt.choose(handle, plan.product, plan.a, plan.b, plan.c, plan.c, preference, 1, &plan.heuristic, &count)
    lt.free_preference(preference)
    if status != NOT_SUPPORTED:
        check(status, "cublasLtMatmulAlgoGetHeuristic")
    plan.possible = status == 0 and count > 0
    return plan


cdef class Library:
    """cuBLASLt on one device."""

    cdef bint product(self, Product* p, uint64_t bias, void* stream, uint64_t workspace, size_t workspace_bytes) except -1:
        """Queue it, with `n` elements from the address `bias` on (0: none) added to every row; False for a dtype, strides or sizes that are not taken."""
        cdef Gemm g
        cdef Plan plan
        cdef double alpha[2]
        cdef double beta[2]
        if p.m <= 0 or p.n <= 0 or p.batch <= 0:
            return True
        if not arrange(p, &g) or (bias and not (g.turned and (p.code == F32 or p.code == F16 or p.code == BF16))):
            return False
        key = (g.kind, p.batch, g.m, g.n, p.k, g.a.operation, g.a.leading, g.a.batch, g.b.operation, g.b.leading, g.b.batch, g.c.leading,
               g.c.batch, bias != 0, workspace_bytes, alignment(g.a.data), alignment(g.b.data), alignment(g.c.data))
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) == MOST_PLANS:
                self.plans.clear()
            plan = self.plans[key] = planned(self.handle, &g, p.k, p.batch, bias != 0, workspace_bytes)
        if not plan.possible:
            return False
        if bias:
            check(lt.set_product(plan.product, BIAS_POINTER, &bias, sizeof(bias)), "cublasLtMatmulDescSetAttribute")
        scale(p.alpha, g.compute, alpha)
        scale(p.beta, g.compute, beta)
        check(lt.multiply(self.handle, plan.product, alpha, g.a.data, plan.a, g.b.data, plan.b, beta, g.c.data, plan.c, <void*>g.c.data,
                          plan.c, plan.heuristic.algorithm, <void*><uintptr_t>workspace, workspace_bytes, stream), "cublasLtMatmul")
        return True
