# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Matrix products by a BLAS library that is opened at the first use.

The library is MKL where the user has installed it, else the OpenBLAS of the wheel scipy-openblas32; the
environment's FLAMBEAU_BLAS, `mkl` or `openblas`, chooses one. It runs on one thread: large products are cut
into blocks for the project's own thread pool. The cut depends on the sizes and layouts alone, since BLAS
kernels round differently for blocks of different sizes; so a product has the same bits for any number of
threads.

The Fortran entry points are used: they take scalars by address, so one function serves all four element
types. They are column-major, and see a row-major matrix as its transpose: C' = B' A'.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT,
    PyBUF_STRIDED_RO,
    PyBUF_WRITABLE,
    Py_buffer,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport INT32_MAX, int64_t
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlerror, dlopen, dlsym

from flambeau.core.base.parallel cimport try_interruptible

import os
import site
import sys

from ...base import forks, settings

ctypedef void (*gemm_t)(
    const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
    const void* alpha, const void* a, const int* lda, const void* b, const int* ldb,
    const void* beta, void* c, const int* ldc,
) noexcept nogil
ctypedef void (*gemv_t)(
    const char* transpose, const int* m, const int* n, const void* alpha, const void* a, const int* lda,
    const void* x, const int* incx, const void* beta, void* y, const int* incy) noexcept nogil
ctypedef void (*set_int_t)(int) noexcept nogil
ctypedef int (*set_layer_t)(int) noexcept nogil
ctypedef char* (*get_text_t)() noexcept nogil
ctypedef void (*fill_text_t)(char* text, int length) noexcept nogil


cdef struct Routines:
    gemm_t gemm
    gemv_t gemv
    int64_t itemsize


# ---- the library ----

cdef Routines f32, f64, c64, c128
cdef bint opened = False
cdef void* opened_library = NULL
cdef bytes prefix_of_names = b""
_wanted = settings.choice("FLAMBEAU_BLAS", ("mkl", "openblas"))
_provider: tuple[str, str, str] | None = None


cdef int ensure() except -1:
    if not opened:
        _open()
    return 0


def provider() -> tuple[str, str, str]:
    """Returns the name of the BLAS library ('mkl' or 'openblas'), its path, and what it says of itself.

    >>> from flambeau.core.lib.products import blas
    >>> blas.provider()[0] in ("mkl", "openblas")
    True
    """
    ensure()
    return _provider


def _files(folder: str, start: str, end: str) -> list[str]:
    """Returns the paths of the files there whose names begin and end so."""
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(start) and name.endswith(end)]


def _find_mkl() -> str | None:
    """Returns the path of libmkl_rt, which the wheel `mkl` puts into the environment's lib."""
    for prefix in filter(None, (sys.prefix, site.getuserbase(), sys.base_prefix)):
        for start, end in (("libmkl_rt.so", ""), ("libmkl_rt", ".dylib")):
            if result := _files(os.path.join(prefix, "lib"), start, end):
                return max(result)
    return None


def _find_openblas() -> str | None:
    """Returns the path of the library in the wheel `scipy-openblas32`, without importing the package."""
    from importlib.util import find_spec

    spec = find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    return min(_files(os.path.join(os.path.dirname(spec.origin), "lib"), "libscipy_openblas", ""), default=None)


def _choose(wanted: str) -> tuple[str, str]:
    """Returns the name and path of the library to open; wanted is FLAMBEAU_BLAS, or empty for either."""
    if wanted != "openblas" and (path := _find_mkl()):
        return "mkl", path
    if wanted != "mkl" and (path := _find_openblas()):
        return "openblas", path
    package = "mkl" if wanted == "mkl" else "scipy-openblas32"
    raise ImportError(f"matrix products need a BLAS library, and none was found: pip install {package}")


def _open() -> None:
    """Opens the library, takes its routines and sets it to one thread; does nothing where that is done."""
    forks.making.acquire()
    try:
        if not opened:
            _open_now()
    finally:
        forks.making.release()


cdef int _open_now() except -1:
    global opened, opened_library, prefix_of_names, _provider
    cdef void* library
    name, path = _choose(_wanted)
    # OpenBLAS starts its threads as it is loaded, unless told here that it needs none.
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        library = dlopen(os.fsencode(path), RTLD_NOW | RTLD_LOCAL)
    finally:
        if before is None:
            del os.environ["OPENBLAS_NUM_THREADS"]
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = before
    if library == NULL:
        raise ImportError(f"cannot open the BLAS library {path}: {dlerror().decode()}")
    _provider = (name, path, _set_up_mkl(library) if name == "mkl" else _set_up_openblas(library))
    prefix = b"" if name == "mkl" else b"scipy_"
    _take(&f32, library, prefix + b"s", sizeof(float))
    _take(&f64, library, prefix + b"d", sizeof(double))
    _take(&c64, library, prefix + b"c", sizeof(float complex))
    _take(&c128, library, prefix + b"z", sizeof(double complex))
    opened_library, prefix_of_names = library, prefix
    opened = True
    return 0


cdef void* routine(str name) except NULL:
    return _symbol(opened_library, prefix_of_names + name.encode())


cdef void* _symbol(void* library, bytes name) except NULL:
    cdef void* symbol = dlsym(library, name)
    if symbol == NULL:
        raise ImportError(f"the BLAS library lacks the function {name.decode()}")
    return symbol


cdef _take(Routines* routines, void* library, bytes prefix, int64_t itemsize):
    routines.gemm = <gemm_t>_symbol(library, prefix + b"gemm_")
    routines.gemv = <gemv_t>_symbol(library, prefix + b"gemv_")
    routines.itemsize = itemsize


cdef str _set_up_openblas(void* library):
    (<set_int_t>_symbol(library, b"scipy_openblas_set_num_threads"))(1)
    config = (<get_text_t>_symbol(library, b"scipy_openblas_get_config"))()
    core = (<get_text_t>_symbol(library, b"scipy_openblas_get_corename"))()
    return f"{config.decode().strip()}, running as {core.decode()}"


cdef str _set_up_mkl(void* library):
    cdef char version[256]
    # Both layers are fixed by the first call: 32-bit integers, and no OpenMP runtime.
    layer = (<set_layer_t>_symbol(library, b"MKL_Set_Interface_Layer"))(0)  # LP64; 2 is the same for gfortran
    if layer not in (0, 2):
        raise ImportError("MKL is in use with 64-bit integers in this process: set FLAMBEAU_BLAS=openblas")
    (<set_layer_t>_symbol(library, b"MKL_Set_Threading_Layer"))(1)  # sequential
    # Another user of the library may have chosen the layers before.
    (<set_int_t>_symbol(library, b"MKL_Set_Num_Threads"))(1)
    (<fill_text_t>_symbol(library, b"MKL_Get_Version_String"))(version, sizeof(version))
    return version.decode().strip()


# ---- one product, or a batch of them, as blocks ----

cdef struct Layout:
    char transpose  # b"N" for a matrix that is row-major, column-major to the library's eyes; else b"T"
    int leading     # the leading dimension, or the stride of a vector


# The operands as the library sees them. The operation is a matrix-vector product where C has one column.
cdef struct Product:
    Routines* routines
    const void* alpha
    const void* beta
    const char* a
    const char* b
    char* c
    int64_t a_batch, b_batch, c_batch  # steps in bytes: to the next product,
    int64_t a_row, b_column, c_row     # row of A and C, column of B
    int64_t rows, columns              # of C
    int64_t block_rows, block_columns, column_blocks, blocks
    int k
    Layout a_layout, b_layout
    int c_leading


cdef int _layout(int64_t rows, int64_t columns, int64_t row, int64_t column, Layout* layout) noexcept nogil:
    """Finds how the library can read a matrix with these strides; returns OK, COPY_FIRST or TOO_LARGE."""
    cdef int64_t leading
    if column == 1 or columns <= 1:
        leading = row if rows > 1 else max(columns, 1)
        if leading >= max(columns, 1):
            layout[0] = Layout(b"N", <int>leading)
            return OK if leading <= INT32_MAX else TOO_LARGE
    if row == 1 or rows <= 1:
        leading = column if columns > 1 else max(rows, 1)
        if leading >= max(rows, 1):
            layout[0] = Layout(b"T", <int>leading)
            return OK if leading <= INT32_MAX else TOO_LARGE
    return COPY_FIRST


cdef int _vector(int64_t length, int64_t stride, Layout* layout) noexcept nogil:
    if length <= 1:
        stride = 1
    layout[0] = Layout(b"N", <int>stride)
    return COPY_FIRST if stride < 1 else OK if stride <= INT32_MAX else TOO_LARGE


cdef inline int64_t _half(int64_t length) noexcept nogil:
    return (length // 2 + 15) & ~15  # a multiple of what the kernels take at once


cdef void _cut(Product* product) noexcept nogil:
    """Sets the size of the blocks that C is cut into, by the sizes and layouts alone."""
    cdef double k = product.k, whole
    cdef int64_t rows = product.rows, columns = product.columns, narrowest, new_rows, new_columns
    product.blocks = product.column_blocks = 1
    product.block_rows = rows
    product.block_columns = columns
    if columns == 1:
        # The kernel for a transposed matrix reads along its rows, and is slow where they are short pieces.
        narrowest = 64 if product.a_layout.transpose == b"N" else 512
        while rows * k >= 1 << 18 and _half(rows) >= narrowest:
            rows = _half(rows)
    elif rows * columns * k >= 1 << 21:
        # A block of r rows and c columns packs r + c elements at each step along k, each as slow as some 15
        # multiplications, so cutting costs (1/r + 1/c) of the work: paid up to 4 blocks; above, while low.
        whole = 1.0 / rows + 1.0 / columns
        while rows * columns * k >= 1 << 21 and (rows > 64 or columns > 64):
            new_rows = _half(rows) if rows >= columns else rows
            new_columns = columns if rows >= columns else _half(columns)
            if product.blocks >= 4 and 1.0 / new_rows + 1.0 / new_columns - whole > 1.0 / 160:
                break
            rows = new_rows
            columns = new_columns
            product.blocks *= 2
    else:
        return
    product.block_rows = rows
    product.block_columns = columns
    product.column_blocks = (product.columns - 1) // columns + 1
    product.blocks = product.column_blocks * ((product.rows - 1) // rows + 1)


cdef inline void _multiply_block(
    const Product* p, const char* a, const char* b, char* c, int64_t row, int64_t column) noexcept nogil:
    cdef int rows = <int>min(p.block_rows, p.rows - row)
    cdef int columns = <int>min(p.block_columns, p.columns - column)
    a += row * p.a_row
    b += column * p.b_column
    c += row * p.c_row + column * p.routines.itemsize
    if p.columns > 1 or p.k == 0:
        p.routines.gemm(
            &p.b_layout.transpose, &p.a_layout.transpose, &columns, &rows, &p.k, p.alpha,
            b, &p.b_layout.leading, a, &p.a_layout.leading, p.beta, c, &p.c_leading)
    elif p.a_layout.transpose == b"N":
        p.routines.gemv(
            b"T", &p.k, &rows, p.alpha, a, &p.a_layout.leading,
            b, &p.b_layout.leading, p.beta, c, &p.c_leading)
    else:
        p.routines.gemv(
            b"N", &rows, &p.k, p.alpha, a, &p.a_layout.leading,
            b, &p.b_layout.leading, p.beta, c, &p.c_leading)


cdef void _multiply_blocks(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef const Product* p = <const Product*>context
    cdef int64_t index, batch, block
    for index in range(begin, end):
        batch = index // p.blocks
        block = index % p.blocks
        _multiply_block(
            p, p.a + batch * p.a_batch, p.b + batch * p.b_batch, p.c + batch * p.c_batch,
            block // p.column_blocks * p.block_rows, block % p.column_blocks * p.block_columns)


cdef int _multiply(
    Routines* routines, int64_t batch, int64_t m, int64_t n, int64_t k,
    const void* alpha, const void* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const void* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    const void* beta, void* c, int64_t c_batch, int64_t ldc) noexcept nogil:
    cdef Product p
    cdef int64_t size = routines.itemsize, a_step, c_step
    cdef int status
    cdef double work
    if batch <= 0 or m <= 0 or n <= 0:
        return OK
    if k <= 0:  # nothing is read, so any strides will do; the library scales C
        k = 0
        a_row = a_col = b_col = 1
        b_row = n
    if batch > 1 and b_batch == 0:
        # Rows of A at one distance all through the batch make one tall matrix.
        a_step = a_batch if m == 1 else a_row
        c_step = c_batch if m == 1 else ldc
        if a_batch == m * a_step and c_batch == m * c_step and c_step >= n and (
            _layout(batch * m, k, a_step, a_col, &p.a_layout) == OK
        ):
            m *= batch
            a_row = a_step
            ldc = c_step
            batch = 1
    if m == 1 and n > 1 and k > 0:  # a row is computed as a column: C' = B' A'
        return _multiply(
            routines, batch, n, 1, k, alpha, b, b_batch, b_col, b_row,
            a, a_batch, a_col, a_row, beta, c, c_batch, 1)

    if m == 1:
        ldc = n
    if ldc < n:
        return COPY_FIRST
    if k > INT32_MAX or ldc > INT32_MAX:
        return TOO_LARGE
    status = _layout(m, k, a_row, a_col, &p.a_layout)
    if status == OK:
        if n == 1 and k > 0:
            status = _vector(k, b_row, &p.b_layout)
        else:
            status = _layout(k, n, b_row, b_col, &p.b_layout)
    if status != OK:
        return status

    p.routines = routines
    p.alpha = alpha
    p.beta = beta
    p.a = <const char*>a
    p.b = <const char*>b
    p.c = <char*>c
    p.a_batch = a_batch * size
    p.b_batch = b_batch * size
    p.c_batch = c_batch * size
    p.a_row = a_row * size
    p.b_column = b_col * size
    p.c_row = ldc * size
    p.c_leading = <int>ldc
    p.rows = m
    p.columns = n
    p.k = <int>k
    _cut(&p)
    if p.block_rows > INT32_MAX or p.block_columns > INT32_MAX:
        return TOO_LARGE
    if batch * p.blocks == 1:
        _multiply_block(&p, p.a, p.b, p.c, 0, 0)
    else:
        # A call takes about as long as 1500 multiplications; a thread should get no less than 2**18.
        work = <double>p.block_rows * p.block_columns * k + 1500
        if try_interruptible(
                _multiply_blocks, &p, batch * p.blocks, 1 + <int64_t>((1 << 18) / work), work * size / 64):
            return INTERRUPTED
    return OK


cdef int gemm_f32(
    int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t a_row, int64_t a_col,
    const float* b, int64_t b_row, int64_t b_col, float beta, float* c, int64_t ldc) noexcept nogil:
    return _multiply(&f32, 1, m, n, k, &alpha, a, 0, a_row, a_col, b, 0, b_row, b_col, &beta, c, 0, ldc)


cdef int gemm_f64(
    int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t a_row, int64_t a_col,
    const double* b, int64_t b_row, int64_t b_col, double beta, double* c, int64_t ldc) noexcept nogil:
    return _multiply(&f64, 1, m, n, k, &alpha, a, 0, a_row, a_col, b, 0, b_row, b_col, &beta, c, 0, ldc)


cdef int gemm_c64(
    int64_t m, int64_t n, int64_t k,
    float complex alpha, const float complex* a, int64_t a_row, int64_t a_col,
    const float complex* b, int64_t b_row, int64_t b_col,
    float complex beta, float complex* c, int64_t ldc) noexcept nogil:
    return _multiply(&c64, 1, m, n, k, &alpha, a, 0, a_row, a_col, b, 0, b_row, b_col, &beta, c, 0, ldc)


cdef int gemm_c128(
    int64_t m, int64_t n, int64_t k,
    double complex alpha, const double complex* a, int64_t a_row, int64_t a_col,
    const double complex* b, int64_t b_row, int64_t b_col,
    double complex beta, double complex* c, int64_t ldc) noexcept nogil:
    return _multiply(&c128, 1, m, n, k, &alpha, a, 0, a_row, a_col, b, 0, b_row, b_col, &beta, c, 0, ldc)


cdef int batched_gemm_f32(
    int64_t batch, int64_t m, int64_t n, int64_t k,
    float alpha, const float* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const float* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    float beta, float* c, int64_t c_batch, int64_t ldc) noexcept nogil:
    return _multiply(
        &f32, batch, m, n, k, &alpha, a, a_batch, a_row, a_col,
        b, b_batch, b_row, b_col, &beta, c, c_batch, ldc)


cdef int batched_gemm_f64(
    int64_t batch, int64_t m, int64_t n, int64_t k,
    double alpha, const double* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const double* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    double beta, double* c, int64_t c_batch, int64_t ldc) noexcept nogil:
    return _multiply(
        &f64, batch, m, n, k, &alpha, a, a_batch, a_row, a_col,
        b, b_batch, b_row, b_col, &beta, c, c_batch, ldc)


cdef int batched_gemm_c64(
    int64_t batch, int64_t m, int64_t n, int64_t k,
    float complex alpha, const float complex* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const float complex* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    float complex beta, float complex* c, int64_t c_batch, int64_t ldc) noexcept nogil:
    return _multiply(
        &c64, batch, m, n, k, &alpha, a, a_batch, a_row, a_col,
        b, b_batch, b_row, b_col, &beta, c, c_batch, ldc)


cdef int batched_gemm_c128(
    int64_t batch, int64_t m, int64_t n, int64_t k,
    double complex alpha, const double complex* a, int64_t a_batch, int64_t a_row, int64_t a_col,
    const double complex* b, int64_t b_batch, int64_t b_row, int64_t b_col,
    double complex beta, double complex* c, int64_t c_batch, int64_t ldc) noexcept nogil:
    return _multiply(
        &c128, batch, m, n, k, &alpha, a, a_batch, a_row, a_col,
        b, b_batch, b_row, b_col, &beta, c, c_batch, ldc)


# ---- the same for Python buffers ----

def matmul(a, b, out, alpha: complex = 1, beta: complex = 0) -> None:
    """Writes alpha a @ b + beta out to out: buffers of one type ('f', 'd', 'Zf' or 'Zd') with 2 or 3 dims.

    With 3 dims it is one product for each index of the first. Raises TypeError for other types, ValueError
    where shapes do not fit, or strides are not such as a BLAS library can use.

    >>> import array
    >>> from flambeau.core.lib.products import blas
    >>> a = memoryview(array.array("d", [1, 2, 3, 4])).cast("B").cast("d", (2, 2))
    >>> out = memoryview(array.array("d", [0, 0, 0, 0])).cast("B").cast("d", (2, 2))
    >>> blas.matmul(a, a, out)
    >>> out.tolist()
    [[7.0, 10.0], [15.0, 22.0]]
    """
    cdef Py_buffer left, right, result
    PyObject_GetBuffer(a, &left, PyBUF_STRIDED_RO | PyBUF_FORMAT)
    try:
        PyObject_GetBuffer(b, &right, PyBUF_STRIDED_RO | PyBUF_FORMAT)
        try:
            PyObject_GetBuffer(out, &result, PyBUF_STRIDED_RO | PyBUF_FORMAT | PyBUF_WRITABLE)
            try:
                _matmul(&left, &right, &result, alpha, beta)
            finally:
                PyBuffer_Release(&result)
        finally:
            PyBuffer_Release(&right)
    finally:
        PyBuffer_Release(&left)


cdef tuple _shape(Py_buffer* view):
    """Returns the shape, with a leading 1 where there are 2 dims."""
    if view.ndim not in (2, 3):
        raise ValueError(f"matmul(): a, b and out must have 2 or 3 dims, but one has {view.ndim}")
    return (1,) * (3 - view.ndim) + tuple([view.shape[i] for i in range(view.ndim)])


cdef tuple _steps(Py_buffer* view):
    """Returns the strides in elements, with a leading 0 where there are 2 dims."""
    if any([view.strides[i] % view.itemsize for i in range(view.ndim)]):
        raise ValueError("matmul(): strides must be multiples of the size of an element")
    return (0,) * (3 - view.ndim) + tuple([view.strides[i] // view.itemsize for i in range(view.ndim)])


cdef int raise_what_is_set() except -1:
    return -1


cdef _matmul(Py_buffer* a, Py_buffer* b, Py_buffer* c, double complex alpha, double complex beta):
    cdef int64_t batch, m, n, k, a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row, c_col
    cdef float complex narrow_alpha = <float complex>alpha, narrow_beta = <float complex>beta
    cdef Routines* routines
    cdef int status
    cdef bytes format = a.format
    if format != b.format or format != c.format or format not in (b"f", b"d", b"Zf", b"Zd"):
        raise TypeError(
            f"matmul(): a, b and out must be of one type of 'f', 'd', 'Zf' and 'Zd', but are "
            f"{a.format.decode()!r}, {b.format.decode()!r} and {c.format.decode()!r}"
        )
    batch, m, k = _shape(a)
    n = _shape(b)[2]
    if _shape(b) != (batch, k, n) or _shape(c) != (batch, m, n):
        raise ValueError(
            f"matmul(): shapes {_shape(a)} @ {_shape(b)} do not give the shape of out, {_shape(c)}"
        )
    a_batch, a_row, a_col = _steps(a)
    b_batch, b_row, b_col = _steps(b)
    c_batch, c_row, c_col = _steps(c)
    if c_col != 1 and n > 1:
        raise ValueError("matmul(): the rows of out must be contiguous")
    ensure()
    if format == b"f":
        routines = &f32
    elif format == b"d":
        routines = &f64
    else:
        routines = &c64 if format == b"Zf" else &c128
    cdef bint narrow = format in (b"f", b"Zf")
    # A complex number begins with its real part, so its address serves for a real one too.
    cdef void* alpha_at = <void*>&narrow_alpha if narrow else <void*>&alpha
    cdef void* beta_at = <void*>&narrow_beta if narrow else <void*>&beta
    with nogil:
        status = _multiply(
            routines, batch, m, n, k, alpha_at, a.buf, a_batch, a_row, a_col,
            b.buf, b_batch, b_row, b_col, beta_at, c.buf, c_batch, c_row)
    if status == INTERRUPTED:
        raise_what_is_set()
    if status != OK:
        raise ValueError(
            f"matmul(): strides {_steps(a)} @ {_steps(b)} -> {_steps(c)} are not of a form a BLAS library "
            "can use: copy first"
        )
