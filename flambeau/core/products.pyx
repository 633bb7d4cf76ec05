# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Matrix products: matmul, linear, addmm and their kin, all by one contraction.

Each of them is `alpha * A @ B + beta * C` over stacks of matrices, whose operands are tensors read as a matrix, a
transposed one, a row, a column or a number.  Stacks broadcast, and are summed over where the result has none.  The
gradients of such a contraction are such contractions again, so one kind of node serves, to any order.

Nothing is copied on the way to BLAS unless an operand has unit stride along neither axis.
"""
from libc.stdlib cimport malloc, free
from libc.string cimport memcpy
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from cpython.object cimport PyObject
from .blas cimport (
    OK, ensure, batched_gemm_f32, batched_gemm_f64, gemm_f32, gemm_f64,
)
from .dtypes cimport BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64, CATEGORY, dtype_of, size_from
from .dispatch cimport Op, Operand, copied, fits, make_callable, prepare_op, read_operand, sum_to
from .parallel cimport parallel_for
from .tape cimport (
    Node, Slot, attach, check_in_place, clear_slot, grad_enabled, keep, kept, rebase, set_grad, wants_grad,
)
from .tensor cimport (
    MAX_DIMS, OP_ADD, OP_MUL, TensorBase, late, new_tensor, operator_for, pointer, same_shape, wrote,
)
from .views cimport compact, copy_strided, cut, reshaped, unsqueeze_cut
cimport cython

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)

cdef extern from *:
    """
    #include <stdint.h>
    typedef float flambeau_four __attribute__((vector_size(16), aligned(4)));
    #define FLAMBEAU_MIX(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)

    /* to (cols, rows) = the transpose of from (rows, cols), whose rows are `step` apart: by squares of 4 by 4 */
    static void flambeau_transpose(float* to, const float* from, int64_t rows, int64_t cols, int64_t step) {
        int64_t i, j, k;
        for (i = 0; i + 4 <= rows; i += 4) {
            for (j = 0; j + 4 <= cols; j += 4) {
                const float* p = from + i * step + j;
                float* q = to + j * rows + i;
                flambeau_four a = *(flambeau_four*)p, b = *(flambeau_four*)(p + step);
                flambeau_four c = *(flambeau_four*)(p + 2 * step), d = *(flambeau_four*)(p + 3 * step);
                flambeau_four ab = FLAMBEAU_MIX(a, b, 0, 4, 1, 5), cd = FLAMBEAU_MIX(c, d, 0, 4, 1, 5);
                *(flambeau_four*)q = FLAMBEAU_MIX(ab, cd, 0, 1, 4, 5);
                *(flambeau_four*)(q + rows) = FLAMBEAU_MIX(ab, cd, 2, 3, 6, 7);
                ab = FLAMBEAU_MIX(a, b, 2, 6, 3, 7), cd = FLAMBEAU_MIX(c, d, 2, 6, 3, 7);
                *(flambeau_four*)(q + 2 * rows) = FLAMBEAU_MIX(ab, cd, 0, 1, 4, 5);
                *(flambeau_four*)(q + 3 * rows) = FLAMBEAU_MIX(ab, cd, 2, 3, 6, 7);
            }
            for (; j < cols; j++)
                for (k = i; k < i + 4; k++) to[j * rows + k] = from[k * step + j];
        }
        for (; i < rows; i++)
            for (j = 0; j < cols; j++) to[j * rows + i] = from[i * step + j];
    }
    """
    void flambeau_transpose(float* to, const float* source, int64_t rows, int64_t cols, int64_t step) noexcept nogil

cdef enum:
    SMALL = 4096               # elements up to which a transposed right operand is turned first
    INLINE_SIZES = 8           # a node's shapes up to this many numbers need no memory of their own
    WIDTH = 128                # columns that are summed at once
    HEIGHT = 64                # rows that are summed in the element's own precision

cdef double GIL_FROM = 1e5     # multiplications from which giving up the GIL pays off
cdef Scale ONE
ONE.real, ONE.whole = 1.0, 1

cdef dict CPP_NAMES = {F16: "c10::Half", BF16: "c10::BFloat16", F32: "float", F64: "double", BOOL: "bool",
                       U8: "unsigned char", I8: "signed char", I16: "short int", I32: "int", I64: "long int"}
cdef dict SCALAR_NAMES = {F16: "Half", BF16: "BFloat16", F32: "Float", F64: "Double", BOOL: "Bool",
                          U8: "Byte", I8: "Char", I16: "Short", I32: "Int", I64: "Long"}


# --- stacks of matrices ------------------------------
cdef struct Product:
    int code
    int64_t m, n, k
    const char* a
    const char* b
    char* c
    int64_t a_row, a_col, b_row, b_col, c_row   # strides; those of C's columns are 1
    Scale alpha, beta
    int rank                                    # of the stack
    int64_t sizes[MAX_DIMS]
    int64_t a_step[MAX_DIMS]                    # 0 where A is broadcast
    int64_t b_step[MAX_DIMS]
    int64_t c_step[MAX_DIMS]                    # 0 where the products are summed


cdef inline int flipped(int form) noexcept nogil:
    """The form in which the transpose is read."""
    return form if form == SCALAR else form ^ 1


cdef inline int used_dims(int form) noexcept nogil:
    return 2 if form <= TRANSPOSED else 1 if form <= COLUMN else 0


cdef inline void read_matrix(TensorBase t, int form, int64_t* rows, int64_t* cols, int64_t* row, int64_t* col) noexcept nogil:
    cdef int last = t.rank - 1
    rows[0] = cols[0] = row[0] = col[0] = 1
    if form == MATRIX:
        rows[0], row[0] = t.sizes[last - 1], t.strides[last - 1]
        cols[0], col[0] = t.sizes[last], t.strides[last]
    elif form == TRANSPOSED:
        rows[0], row[0] = t.sizes[last], t.strides[last]
        cols[0], col[0] = t.sizes[last - 1], t.strides[last - 1]
    elif form == ROW:
        cols[0], col[0] = t.sizes[last], t.strides[last]
    elif form == COLUMN:
        rows[0], row[0] = t.sizes[last], t.strides[last]


cdef inline bint readable(int64_t rows, int64_t cols, int64_t row, int64_t col) noexcept nogil:
    """Whether BLAS can read a matrix with these strides (blas.pxd has the conditions)."""
    return ((col == 1 or cols <= 1) and (rows <= 1 or row >= max(cols, 1))) or (
        (row == 1 or rows <= 1) and (cols <= 1 or col >= max(rows, 1)))


cdef inline bint usable(TensorBase t, int form) noexcept nogil:
    cdef int64_t rows, cols, row, col
    if t.contiguous:
        return True
    read_matrix(t, form, &rows, &cols, &row, &col)
    return readable(rows, cols, row, col)


cdef inline int64_t size_at(TensorBase t, int dims, int from_right) noexcept nogil:
    """Size of a dimension of the stack, 1 where there is none."""
    cdef int d = t.rank - dims - 1 - from_right
    return t.sizes[d] if d >= 0 else 1


cdef inline int64_t step_at(TensorBase t, int dims, int from_right) noexcept nogil:
    cdef int d = t.rank - dims - 1 - from_right
    return t.strides[d] if d >= 0 and t.sizes[d] != 1 else 0


cdef void stack(Product* p, TensorBase a, int a_dims, TensorBase b, int b_dims, TensorBase c, int c_dims) noexcept nogil:
    """The dimensions that count matrices, outermost first, without those of size 1, and merged where possible."""
    cdef int rank = max(a.rank - a_dims, max(b.rank - b_dims, c.rank - c_dims)), d, k, last
    cdef int64_t size, c_size, a_step, b_step, c_step, longer
    cdef int64_t c_steps[MAX_DIMS]
    size = p.m * p.n
    for d in range(c.rank - c_dims):  # C is contiguous; a dimension of size 1 may still say any stride
        c_steps[d] = size
        size *= size_at(c, c_dims, d)
    p.rank = 0
    for d in range(rank - 1, -1, -1):
        size = size_at(a, a_dims, d)
        if size == 1:
            size = size_at(b, b_dims, d)
        c_size = size_at(c, c_dims, d)
        if size == 1:
            size = c_size
        if size == 1:
            continue
        if size == 0:  # a sum of no products: C is not empty
            p.k = 0
            continue
        a_step, b_step, c_step = step_at(a, a_dims, d), step_at(b, b_dims, d), c_steps[d] if c_size != 1 else 0
        last = p.rank - 1
        if last >= 0 and p.a_step[last] == a_step * size and p.b_step[last] == b_step * size and (
                p.c_step[last] == c_step * size):
            size *= p.sizes[last]
        else:
            last += 1
            p.rank += 1
        p.sizes[last], p.a_step[last], p.b_step[last], p.c_step[last] = size, a_step, b_step, c_step
    for d in range(p.rank - 1, -1, -1):  # a sum over products of neighbouring matrices is one longer product
        longer = p.k * p.sizes[d]
        if p.c_step[d] == 0 and p.a_step[d] == p.k * p.a_col and p.b_step[d] == p.k * p.b_row and (
                readable(p.m, longer, p.a_row, p.a_col) and readable(longer, p.n, p.b_row, p.b_col)):
            p.k = longer
            p.rank -= 1
            for k in range(d, p.rank):
                p.sizes[k], p.a_step[k] = p.sizes[k + 1], p.a_step[k + 1]
                p.b_step[k], p.c_step[k] = p.b_step[k + 1], p.c_step[k + 1]


ctypedef fused Integer:
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t


cdef void multiply_integers(Integer* c, const Integer* a, const Integer* b, Product* p, int64_t beta) noexcept nogil:
    """Sums of products modulo 2**64, of which the result keeps the low bits."""
    cdef uint64_t sums[WIDTH]
    cdef uint64_t factor
    cdef int64_t i, j, s, first = 0, width
    while first < p.n:
        width = min(WIDTH, p.n - first)
        for i in range(p.m):
            for j in range(width):
                sums[j] = 0
            for s in range(p.k):
                factor = <uint64_t>a[i * p.a_row + s * p.a_col]
                if p.b_col == 1:
                    for j in range(width):
                        sums[j] += factor * <uint64_t>b[s * p.b_row + first + j]
                else:
                    for j in range(width):
                        sums[j] += factor * <uint64_t>b[s * p.b_row + (first + j) * p.b_col]
            for j in range(width):
                factor = <uint64_t>p.alpha.whole * sums[j]
                if beta:
                    factor += <uint64_t>beta * <uint64_t>c[i * p.c_row + first + j]
                c[i * p.c_row + first + j] = <Integer>factor
        first += WIDTH


cdef int multiply_some(Product* p, int64_t batch, const char* a, int64_t a_step, const char* b, int64_t b_step,
                       char* c, int64_t c_step, const Scale* beta) noexcept nogil:
    """`batch` products; the status is BLAS's."""
    cdef int64_t k
    if p.code == F32:
        if batch == 1:
            return gemm_f32(p.m, p.n, p.k, <float>p.alpha.real, <const float*>a, p.a_row, p.a_col,
                            <const float*>b, p.b_row, p.b_col, <float>beta.real, <float*>c, p.c_row)
        return batched_gemm_f32(
            batch, p.m, p.n, p.k, <float>p.alpha.real, <const float*>a, a_step, p.a_row, p.a_col,
            <const float*>b, b_step, p.b_row, p.b_col, <float>beta.real, <float*>c, c_step, p.c_row)
    if p.code == F64:
        if batch == 1:
            return gemm_f64(p.m, p.n, p.k, p.alpha.real, <const double*>a, p.a_row, p.a_col,
                            <const double*>b, p.b_row, p.b_col, beta.real, <double*>c, p.c_row)
        return batched_gemm_f64(
            batch, p.m, p.n, p.k, p.alpha.real, <const double*>a, a_step, p.a_row, p.a_col,
            <const double*>b, b_step, p.b_row, p.b_col, beta.real, <double*>c, c_step, p.c_row)
    for k in range(batch):
        if p.code == U8:
            multiply_integers(<uint8_t*>c + k * c_step, <const uint8_t*>a + k * a_step, <const uint8_t*>b + k * b_step,
                              p, beta.whole)
        elif p.code == I8:
            multiply_integers(<int8_t*>c + k * c_step, <const int8_t*>a + k * a_step, <const int8_t*>b + k * b_step,
                              p, beta.whole)
        elif p.code == I16:
            multiply_integers(<int16_t*>c + k * c_step, <const int16_t*>a + k * a_step, <const int16_t*>b + k * b_step,
                              p, beta.whole)
        elif p.code == I32:
            multiply_integers(<int32_t*>c + k * c_step, <const int32_t*>a + k * a_step, <const int32_t*>b + k * b_step,
                              p, beta.whole)
        else:
            multiply_integers(<int64_t*>c + k * c_step, <const int64_t*>a + k * a_step, <const int64_t*>b + k * b_step,
                              p, beta.whole)
    return OK


cdef int multiply_all(Product* p, int width) noexcept nogil:
    """All products of the stack: the innermost dimension that is not summed over is one call, the others are walked."""
    cdef int inner = p.rank - 1, d, status
    cdef int64_t place[MAX_DIMS]
    cdef int64_t batch = 1, a_step = 0, b_step = 0, c_step = 0, a_at = 0, b_at = 0, c_at = 0
    cdef Scale beta
    cdef bint first
    while inner >= 0 and p.c_step[inner] == 0:
        inner -= 1
    if inner >= 0:
        batch, a_step, b_step, c_step = p.sizes[inner], p.a_step[inner], p.b_step[inner], p.c_step[inner]
    for d in range(p.rank):
        place[d] = 0
    while True:
        first = True
        for d in range(p.rank):
            if p.c_step[d] == 0 and place[d]:
                first = False
        beta = p.beta if first else ONE
        status = multiply_some(p, batch, p.a + a_at * width, a_step, p.b + b_at * width, b_step, p.c + c_at * width, c_step,
                               &beta)
        if status != OK:
            return status
        d = p.rank - 1
        while d >= 0:
            if d != inner:
                place[d] += 1
                a_at += p.a_step[d]
                b_at += p.b_step[d]
                c_at += p.c_step[d]
                if place[d] < p.sizes[d]:
                    break
                a_at -= p.a_step[d] * place[d]
                b_at -= p.b_step[d] * place[d]
                c_at -= p.c_step[d] * place[d]
                place[d] = 0
            d -= 1
        if d < 0:
            return OK


cdef int multiply(TensorBase c, int form, TensorBase a, int a_form, TensorBase b, int b_form,
                  const Scale* alpha, const Scale* beta) except -1:
    """c = alpha * a @ b + beta * c; c is contiguous, and is not read where beta is 0."""
    cdef Product p
    cdef int64_t rows
    cdef int status, d
    cdef double work
    cdef float room[SMALL + 16]
    cdef float* turned = <float*>(<uintptr_t>(room + 15) & ~<uintptr_t>63)  # vectors must not straddle cache lines
    cdef bint shared = True    # one right operand for all
    if c.count == 0:
        return 0
    if not usable(a, a_form):
        a = compact(a)
    if not usable(b, b_form):
        b = compact(b)
    p.code = c.code
    p.alpha, p.beta = alpha[0], beta[0]
    read_matrix(a, a_form, &p.m, &p.k, &p.a_row, &p.a_col)
    read_matrix(b, b_form, &rows, &p.n, &p.b_row, &p.b_col)
    p.c_row = p.n
    p.a, p.b, p.c = pointer(a), pointer(b), pointer(c)
    p.rank = 0
    if a.rank + b.rank + c.rank > used_dims(a_form) + used_dims(b_form) + used_dims(form):
        stack(&p, a, used_dims(a_form), b, used_dims(b_form), c, used_dims(form))
    ensure()
    work = <double>p.m * p.n * p.k
    for d in range(p.rank):
        work *= p.sizes[d]
        shared = shared and p.b_step[d] == 0
    if p.code == F32 and shared and p.b_row == 1 and p.b_col > 1 and p.n * p.k <= SMALL and p.m > 1:
        # OpenBLAS takes up to twice as long for x @ W.T of small matrices as for x @ W, far longer than it takes to turn W.
        flambeau_transpose(turned, <const float*>p.b, p.n, p.k, p.b_col)
        p.b, p.b_row, p.b_col = <const char*>turned, p.n, 1
    if work > GIL_FROM:
        with nogil:
            status = multiply_all(&p, c.width)
    elif p.rank:
        status = multiply_all(&p, c.width)
    else:
        status = multiply_some(&p, 1, p.a, 0, p.b, 0, p.c, 0, beta)
    if status != OK:
        raise RuntimeError(f"matrix product: a dimension or stride of shapes {list(a.shape)} and {list(b.shape)} does not fit "
                           "into the 32 bits that the BLAS library counts with")
    return 0


cdef void start_from(TensorBase out, TensorBase addend) noexcept:
    """Write the addend, broadcast to its shape, to a contiguous tensor."""
    cdef int64_t strides[MAX_DIMS]
    cdef int d, missing = out.rank - addend.rank
    for d in range(out.rank):
        strides[d] = 0 if d < missing or addend.sizes[d - missing] == 1 else addend.strides[d - missing]
    copy_strided(pointer(out), out.strides, pointer(addend), strides, out.rank, out.sizes, out.width)


cdef TensorBase multiplied(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                           const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    """The contraction, not recorded: in a new tensor, or in `into`, which has the shape and dtype."""
    cdef TensorBase out = into
    cdef Scale nothing
    cdef int code = a.code
    cdef bint adds = addend is not None and (beta.real if CATEGORY[code] >= 2 else <double>beta.whole) != 0
    if code == F16 or code == BF16:
        a, b = copied(a, F32, False), copied(b, F32, False)
        if adds:
            addend = copied(addend, F32, False)
        out = copied(multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, None), code, True)
    else:
        nothing.real, nothing.whole = 0.0, 0
        if into is None or not into.contiguous or into.storage is a.storage or into.storage is b.storage or (
                addend is not None and addend is not into and addend.storage is into.storage):
            out = new_tensor(rank, sizes, code)
        if adds and addend is not out:
            start_from(out, addend)
        multiply(out, form, a, a_form, b, b_form, alpha, beta if adds else &nothing)
    if into is not None:
        if out is not into:
            copy_strided(pointer(into), into.strides, pointer(out), out.strides, rank, sizes, out.width)
        wrote(into)
        return into
    return out


# --- the tape ------------------------------
@cython.no_gc
cdef class ProductNode(Node):
    """A recorded `alpha * a @ b + beta * addend`; its edges are [addend,] a, b."""

    cdef str label
    cdef Slot a, b                    # each kept only where the other's gradient is wanted
    cdef int a_form, b_form, form
    cdef int addend_rank, a_rank, b_rank
    cdef Scale alpha, beta
    cdef int64_t few[INLINE_SIZES]
    cdef int64_t* sizes               # of the addend, then a's, then b's

    def name(self) -> str:
        return self.label

    cdef list run(self, list grads):
        cdef TensorBase g = <TensorBase>grads[0], a, b
        cdef int left = self.edges - 2
        cdef list found = [None] * self.edges
        cdef int64_t* a_sizes = self.sizes + self.addend_rank
        cdef int64_t* b_sizes = a_sizes + self.a_rank
        if g is None:
            return found
        if left and self.targets[0] != NULL:
            found[0] = self.addend_gradient(g)
        if not usable(g, self.form):
            g = compact(g)
        if self.targets[left] != NULL:
            b = kept(&self.b, self)
            if self.a_form == TRANSPOSED:
                found[left] = contract(b, self.b_form, g, flipped(self.form), self.a_rank, a_sizes, MATRIX, &self.alpha)
            else:
                found[left] = contract(g, self.form, b, flipped(self.b_form), self.a_rank, a_sizes, self.a_form, &self.alpha)
        if self.targets[left + 1] != NULL:
            a = kept(&self.a, self)
            if self.b_form == TRANSPOSED:
                found[left + 1] = contract(g, flipped(self.form), a, self.a_form, self.b_rank, b_sizes, MATRIX, &self.alpha)
            else:
                found[left + 1] = contract(a, flipped(self.a_form), g, self.form, self.b_rank, b_sizes, self.b_form, &self.alpha)
        return found

    cdef object addend_gradient(self, TensorBase g):
        cdef object found = g
        if not fits(g, self.addend_rank, self.sizes):
            if self.addend_rank == 1 and g.sizes[g.rank - 1] == self.sizes[0] and g.code >= F32 and not grad_enabled():
                found = column_sums(compact(g))
            else:
                found = sum_to(g, size_from(self.addend_rank, self.sizes))
        if self.beta.real != 1:
            found = late.binary(operator_for(OP_MUL), found, self.beta.real)
        return found

    cdef void drop(self):
        clear_slot(&self.a)
        clear_slot(&self.b)

    def __dealloc__(self):
        clear_slot(&self.a)
        clear_slot(&self.b)
        if self.sizes != self.few:
            free(self.sizes)


cdef ProductNode node_for(str label, TensorBase a, int a_form, TensorBase b, int b_form, int form, const Scale* alpha,
                          TensorBase addend, const Scale* beta):
    """The node of a contraction, or None where no gradient is wanted."""
    cdef ProductNode node
    cdef int left = 0 if addend is None else 1
    cdef int total
    if not grad_enabled() or CATEGORY[a.code] < 2:
        return None
    if not wants_grad(a) and not wants_grad(b) and (addend is None or not wants_grad(addend)):
        return None
    node = ProductNode.__new__(ProductNode)
    node.label, node.a_form, node.b_form, node.form = label, a_form, b_form, form
    node.alpha, node.a_rank, node.b_rank = alpha[0], a.rank, b.rank
    if addend is not None:
        node.beta, node.addend_rank = beta[0], addend.rank
    total = node.addend_rank + a.rank + b.rank
    node.sizes = node.few
    if total > INLINE_SIZES:
        node.sizes = <int64_t*>malloc(total * sizeof(int64_t))
        if node.sizes == NULL:
            raise MemoryError
    node.set_edges(left + 2)
    if addend is not None:
        memcpy(node.sizes, addend.sizes, addend.rank * sizeof(int64_t))
        node.connect(0, addend)
    memcpy(node.sizes + node.addend_rank, a.sizes, a.rank * sizeof(int64_t))
    memcpy(node.sizes + node.addend_rank + a.rank, b.sizes, b.rank * sizeof(int64_t))
    node.connect(left, a)
    node.connect(left + 1, b)
    if node.targets[left] != NULL:
        keep(&node.b, b, -1)
    if node.targets[left + 1] != NULL:
        keep(&node.a, a, -1)
    return node


cdef TensorBase contract(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                         const Scale* alpha):
    cdef ProductNode node = node_for("BmmBackward0", a, a_form, b, b_form, form, alpha, None, NULL)
    cdef TensorBase out = unrecorded(a, a_form, b, b_form, rank, sizes, form, alpha, None, NULL, None)
    if node is not None:
        attach(out, node, 0)
    return out


cdef TensorBase unrecorded(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                           const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    """`multiplied`, with copies and conversions on the way kept off the tape."""
    cdef bint before = grad_enabled()
    if not before:
        return multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, into)
    set_grad(False)
    try:
        return multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, into)
    finally:
        set_grad(True)


# --- sums of columns ------------------------------
cdef struct Columns:
    const char* source
    char* sums
    int64_t rows, columns
    int code


ctypedef fused Real:
    float
    double


cdef void sum_columns(const Real* source, Real* sums, int64_t rows, int64_t columns, int64_t first) noexcept nogil:
    """WIDTH columns from `first`, in blocks of HEIGHT rows whatever the threads, so always the same bits."""
    cdef double totals[WIDTH]
    cdef Real part[WIDTH]
    cdef int64_t i, j, top = 0, width = min(WIDTH, columns - first)
    for j in range(width):
        totals[j] = 0
    while top < rows:
        for j in range(width):
            part[j] = 0
        for i in range(top, min(top + HEIGHT, rows)):
            for j in range(width):
                part[j] += source[i * columns + first + j]
        for j in range(width):
            totals[j] += part[j]
        top += HEIGHT
    for j in range(width):
        sums[first + j] = <Real>totals[j]


cdef void sum_column_blocks(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Columns* c = <Columns*>context
    cdef int64_t block
    for block in range(begin, end):
        if c.code == F32:
            sum_columns(<const float*>c.source, <float*>c.sums, c.rows, c.columns, block * WIDTH)
        else:
            sum_columns(<const double*>c.source, <double*>c.sums, c.rows, c.columns, block * WIDTH)


cdef TensorBase column_sums(TensorBase t):
    """Sum over all dimensions but the last of a contiguous tensor of float32 or float64."""
    cdef Columns c
    cdef TensorBase out = new_tensor(1, &t.sizes[t.rank - 1], t.code)
    cdef int64_t blocks
    if out.count == 0:
        return out
    c.source, c.sums, c.code = pointer(t), pointer(out), t.code
    c.columns, c.rows = out.count, t.count // out.count
    blocks = (c.columns + WIDTH - 1) // WIDTH
    if t.count < GIL_FROM:
        sum_column_blocks(&c, 0, blocks)
    else:
        with nogil:
            parallel_for(sum_column_blocks, &c, blocks, 1)
    return out


# --- operations ------------------------------
cdef enum: MAX_ARGUMENTS = 6

ctypedef object (*handler_t)(ProductOp op, PyObject** found)


cdef class ProductOp(Op):
    """A matrix product as a function, and a method: tensors by position or name, then beta, alpha and out by name."""

    cdef handler_t handle
    cdef readonly tuple names
    cdef int tensors           # so many arguments must be tensors
    cdef int positional        # so many can be given by position
    cdef bint scaled           # takes beta and alpha
    cdef bint in_place


cdef object call_product(PyObject* callable, PyObject** args, size_t flagged, PyObject* keywords):
    cdef ProductOp op = <ProductOp>callable
    cdef PyObject* found[MAX_ARGUMENTS]
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged), k
    if nargs > op.positional:
        raise TypeError(f"{op.name}() takes at most {op.positional} positional arguments but {nargs} were given")
    for k in range(MAX_ARGUMENTS):
        found[k] = args[k] if k < nargs else NULL
    if keywords != NULL:
        for k in range(len(<tuple>keywords)):
            key = (<tuple>keywords)[k]
            if key not in op.names:
                raise TypeError(f"{op.name}() got an unexpected keyword argument '{key}'")
            place = op.names.index(key)
            if found[place] != NULL:
                raise TypeError(f"{op.name}() got multiple values for argument '{key}'")
            found[place] = args[nargs + k]
    for k in range(op.tensors):
        if found[k] == NULL:
            raise TypeError(f'{op.name}() missing 1 required positional argument: "{op.names[k]}"')
        if not isinstance(<object>found[k], TensorBase):
            raise TypeError(f"{op.name}(): argument '{op.names[k]}' (position {k + 1}) must be Tensor, not "
                            f"{type(<object>found[k]).__name__}")
    return op.handle(op, found)


cdef int read_scale(ProductOp op, int place, PyObject* given, Scale* s) except -1:
    cdef Operand o
    if given == NULL:
        s[0] = ONE
        return 0
    value = <object>given
    if isinstance(value, TensorBase):
        value = value.item()
    if not read_operand(value, &o) or o.category == 3:
        raise TypeError(f"{op.name}(): argument '{op.names[place]}' must be Number, not {type(value).__name__}")
    s.real = o.real
    s.whole = <int64_t>o.real if o.category == 2 else o.whole
    return 0


cdef TensorBase check_out(ProductOp op, PyObject* given, TensorBase a, TensorBase b, TensorBase addend, int code,
                          int rank, const int64_t* sizes):
    """The tensor to write to, with the result's shape; None where none is given."""
    cdef TensorBase out
    if given == NULL or <object>given is None:
        return None
    if not isinstance(<object>given, TensorBase):
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(<object>given).__name__}")
    out = <TensorBase>given
    if out.code != code:
        raise RuntimeError(f"{op.name}(): Expected out tensor to have dtype {CPP_NAMES[code]}, but got "
                           f"{CPP_NAMES.get(out.code, dtype_of(out.code))} instead")
    if grad_enabled() and (wants_grad(out) or wants_grad(a) or wants_grad(b) or (addend is not None and wants_grad(addend))):
        raise RuntimeError(f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of "
                           "the arguments requires grad.")
    if not fits(out, rank, sizes):
        (<object>out).resize_(size_from(rank, sizes))
    return check_writable(op, out)


cdef TensorBase check_writable(ProductOp op, TensorBase out):
    cdef int d
    if not out.storage.writable:
        raise RuntimeError(f"{op.name}(): the memory written to is read-only")
    for d in range(out.rank):
        if out.sizes[d] > 1 and out.strides[d] == 0:
            raise RuntimeError(f"{op.name}(): unsupported operation: more than one element of the written-to tensor refers to a "
                               "single memory location. Please clone() the tensor before performing the operation.")
    return out


cdef int check_addend(ProductOp op, TensorBase addend, int rank, const int64_t* sizes) except -1:
    """The addend must broadcast to the result's shape, and have it where it is written to."""
    cdef int d, missing = rank - addend.rank
    if op.in_place and not fits(addend, rank, sizes):
        raise RuntimeError(f"{op.name}(): Bad in-place call: input tensor size {list(addend.shape)} and output tensor size "
                           f"{list(size_from(rank, sizes))} should match")
    if missing < 0:
        raise RuntimeError(f"{op.name}(): expand: the number of sizes provided ({rank}) must be greater or equal to the number "
                           f"of dimensions in the tensor ({addend.rank})")
    for d in range(addend.rank):
        if addend.sizes[d] != 1 and addend.sizes[d] != sizes[missing + d]:
            raise RuntimeError(
                f"{op.name}(): The expanded size of the tensor ({sizes[missing + d]}) must match the existing size "
                f"({addend.sizes[d]}) at non-singleton dimension {missing + d}.  Target sizes: {list(size_from(rank, sizes))}.  "
                f"Tensor sizes: {list(addend.shape)}")
    return 0


cdef object perform(ProductOp op, PyObject** found, str label, TensorBase a, int a_form, TensorBase b, int b_form,
                    int rank, const int64_t* sizes, int form, TensorBase addend):
    """Checked operands to the result: scales, out= and in-place forms, the tape."""
    cdef Scale alpha = ONE, beta = ONE
    cdef TensorBase into = None, out
    cdef ProductNode node
    cdef int last = op.positional
    if a.code == BOOL or CATEGORY[a.code] == 3:
        raise NotImplementedError(f'{op.name}(): "{op.name}" not implemented for \'{SCALAR_NAMES.get(a.code, dtype_of(a.code))}\'')
    if addend is not None:
        check_addend(op, addend, rank, sizes)
    if op.scaled:
        read_scale(op, last, found[last], &beta)
        read_scale(op, last + 1, found[last + 1], &alpha)
        last += 2
    if op.in_place:
        into = check_writable(op, addend)
        if grad_enabled():
            check_in_place(into, op.name)
    elif found[last] != NULL:
        into = check_out(op, found[last], a, b, addend, a.code, rank, sizes)
    node = node_for(label, a, a_form, b, b_form, form, &alpha, addend, &beta)
    if node is None:
        return multiplied(a, a_form, b, b_form, rank, sizes, form, &alpha, addend, &beta, into)
    out = unrecorded(a, a_form, b, b_form, rank, sizes, form, &alpha, addend, &beta, into)
    if into is None:
        attach(out, node, 0)
    else:
        rebase(out, node, 0)
    return out


cdef object put_out(ProductOp op, PyObject* given, TensorBase result, TensorBase a, TensorBase b, TensorBase addend):
    """The result of other operations, or `out` with the result in it."""
    cdef TensorBase out = check_out(op, given, a, b, addend, result.code, result.rank, result.sizes)
    return result if out is None else (<object>out).copy_(result)


# --- checks ------------------------------
cdef int check_kinds(ProductOp op, TensorBase a, TensorBase b) except -1:
    if a.code != b.code:
        raise RuntimeError(f"{op.name}(): expected m1 and m2 to have the same dtype, but got: "
                           f"{CPP_NAMES.get(a.code, dtype_of(a.code))} != {CPP_NAMES.get(b.code, dtype_of(b.code))}")
    return 0


cdef int check_addend_kind(ProductOp op, TensorBase addend, TensorBase a, TensorBase b) except -1:
    if addend.code != b.code:
        raise RuntimeError(f"{op.name}(): self and mat2 must have the same dtype, but got "
                           f"{SCALAR_NAMES.get(addend.code, dtype_of(addend.code))} and "
                           f"{SCALAR_NAMES.get(b.code, dtype_of(b.code))}")
    return check_kinds(op, a, b)


cdef int bad_shapes(ProductOp op, int64_t m, int64_t k, int64_t rows, int64_t n) except -1:
    raise RuntimeError(f"{op.name}(): mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {rows}x{n})")


cdef int64_t flat_rows(TensorBase t) noexcept:
    """Rows of a tensor whose last dimension is kept and whose others are flattened into one."""
    cdef int64_t rows = 1
    cdef int d
    for d in range(t.rank - 1):
        rows *= t.sizes[d]
    return rows


cdef int check_vector(ProductOp op, TensorBase mat, TensorBase vec) except -1:
    if mat.sizes[mat.rank - 1] != vec.sizes[0]:
        raise RuntimeError(f"{op.name}(): size mismatch, got input ({flat_rows(mat)}), mat "
                           f"({flat_rows(mat)}x{mat.sizes[mat.rank - 1]}), vec ({vec.sizes[0]})")
    return 0


cdef int check_dot(ProductOp op, TensorBase a, TensorBase b) except -1:
    if a.rank != 1 or b.rank != 1:
        raise RuntimeError(f"{op.name}(): 1D tensors expected, but got {a.rank}D and {b.rank}D tensors")
    if a.sizes[0] != b.sizes[0]:
        raise RuntimeError(f"{op.name}(): inconsistent tensor size, expected tensor [{a.sizes[0]}] and src [{b.sizes[0]}] to have "
                           f"the same number of elements, but got {a.sizes[0]} and {b.sizes[0]} elements respectively")
    if a.code != b.code:
        raise RuntimeError(f"{op.name}(): dot : expected both vectors to have same dtype, but found "
                           f"{SCALAR_NAMES.get(a.code, dtype_of(a.code))} and {SCALAR_NAMES.get(b.code, dtype_of(b.code))}")
    return 0


cdef int check_matrix(ProductOp op, TensorBase t, int place) except -1:
    if t.rank != 2:
        raise RuntimeError(f"{op.name}(): {op.names[place]} must be a matrix, got {t.rank}-D tensor")
    return 0


cdef int check_batches(ProductOp op, TensorBase a, TensorBase b) except -1:
    if a.rank != 3:
        raise RuntimeError(f"{op.name}(): batch1 must be a 3D tensor, got {a.rank}D")
    if b.rank != 3:
        raise RuntimeError(f"{op.name}(): batch2 must be a 3D tensor, got {b.rank}D")
    if a.sizes[0] != b.sizes[0] or a.sizes[2] != b.sizes[1]:
        raise RuntimeError(f"{op.name}(): Expected size for first two dimensions of batch2 tensor to be: [{a.sizes[0]}, "
                           f"{a.sizes[2]}] but got: [{b.sizes[0]}, {b.sizes[1]}].")
    return 0


# --- each operation's arguments ------------------------------
cdef object do_matmul(ProductOp op, PyObject** found):
    cdef TensorBase a = <TensorBase>found[0], b = <TensorBase>found[1]
    cdef int64_t sizes[MAX_DIMS]
    cdef int a_form = MATRIX, b_form = MATRIX, form = MATRIX, rank = 0, d
    cdef int64_t k, size, other
    cdef str label = "MmBackward0"
    if a.rank == 0 or b.rank == 0:
        raise RuntimeError(f"{op.name}(): both arguments to matmul need to be at least 1D, but they are {a.rank}D and {b.rank}D")
    if a.rank == 1:
        if b.rank == 1:
            check_dot(op, a, b)
            return perform(op, found, "DotBackward0", a, ROW, b, COLUMN, 0, sizes, SCALAR, None)
        a_form = form = ROW
    k = a.sizes[a.rank - 1]
    if b.rank == 1:
        check_vector(op, a, b)
        b_form = form = COLUMN
        label = "MvBackward0"
    elif k != b.sizes[b.rank - 2]:
        bad_shapes(op, flat_rows(a), k, b.sizes[b.rank - 2], b.sizes[b.rank - 1])
    check_kinds(op, a, b)
    if a.rank > 2 or b.rank > 2:
        label = "BmmBackward0"
        rank = max(a.rank, b.rank) - 2
        for d in range(rank):
            size, other = size_at(a, 2, rank - 1 - d), size_at(b, 2, rank - 1 - d)
            if size != other and size != 1 and other != 1:
                raise RuntimeError(
                    f"{op.name}(): The size of tensor a ({size}) must match the size of tensor b ({other}) at non-singleton "
                    f"dimension {d}: got shapes {list(a.shape)} and {list(b.shape)}")
            sizes[d] = other if size == 1 else size
    if a.rank > 1:
        sizes[rank] = a.sizes[a.rank - 2]
        rank += 1
    if b.rank > 1:
        sizes[rank] = b.sizes[b.rank - 1]
        rank += 1
    return perform(op, found, label, a, a_form, b, b_form, rank, sizes, form, None)


cdef object do_mm(ProductOp op, PyObject** found):
    cdef TensorBase a = <TensorBase>found[0], b = <TensorBase>found[1]
    cdef int64_t sizes[2]
    if a.rank != 2:
        raise RuntimeError(f"{op.name}(): self must be a matrix, got {a.rank}-D tensor")
    check_matrix(op, b, 1)
    if a.sizes[1] != b.sizes[0]:
        bad_shapes(op, a.sizes[0], a.sizes[1], b.sizes[0], b.sizes[1])
    check_kinds(op, a, b)
    sizes[0], sizes[1] = a.sizes[0], b.sizes[1]
    return perform(op, found, "MmBackward0", a, MATRIX, b, MATRIX, 2, sizes, MATRIX, None)


cdef object do_bmm(ProductOp op, PyObject** found):
    cdef TensorBase a = <TensorBase>found[0], b = <TensorBase>found[1]
    cdef int64_t sizes[3]
    check_batches(op, a, b)
    check_kinds(op, a, b)
    sizes[0], sizes[1], sizes[2] = a.sizes[0], a.sizes[1], b.sizes[2]
    return perform(op, found, "BmmBackward0", a, MATRIX, b, MATRIX, 3, sizes, MATRIX, None)


cdef object do_mv(ProductOp op, PyObject** found):
    cdef TensorBase a = <TensorBase>found[0], b = <TensorBase>found[1]
    if a.rank != 2 or b.rank != 1:
        raise RuntimeError(f"{op.name}(): vector + matrix @ vector expected, got 1, {a.rank}, {b.rank}")
    check_vector(op, a, b)
    check_kinds(op, a, b)
    return perform(op, found, "MvBackward0", a, MATRIX, b, COLUMN, 1, a.sizes, COLUMN, None)


cdef object do_dot(ProductOp op, PyObject** found):
    cdef TensorBase a = <TensorBase>found[0], b = <TensorBase>found[1]
    check_dot(op, a, b)
    return perform(op, found, "DotBackward0", a, ROW, b, COLUMN, 0, NULL, SCALAR, None)


cdef object do_linear(ProductOp op, PyObject** found):
    cdef TensorBase x = <TensorBase>found[0], weight = <TensorBase>found[1], bias = None
    cdef int64_t sizes[MAX_DIMS]
    cdef int form, rank, weight_form = TRANSPOSED
    if found[2] != NULL and <object>found[2] is not None:
        if not isinstance(<object>found[2], TensorBase):
            raise TypeError(f"{op.name}(): argument 'bias' must be Tensor, not {type(<object>found[2]).__name__}")
        bias = <TensorBase>found[2]
    if weight.rank != 2 and weight.rank != 1:
        raise RuntimeError(f"{op.name}(): weight must have 1 or 2 dimensions, got {weight.rank}")
    if x.rank == 0:
        raise RuntimeError(f"{op.name}(): both arguments to linear need to be at least 1D, but they are 0D and {weight.rank}D")
    rank = x.rank - 1
    memcpy(sizes, x.sizes, rank * sizeof(int64_t))
    form = MATRIX if x.rank > 1 else ROW
    if weight.rank == 1:
        check_vector(op, x, weight)
        weight_form = COLUMN
        form = COLUMN if x.rank > 1 else SCALAR
    else:
        if x.sizes[rank] != weight.sizes[1]:
            bad_shapes(op, flat_rows(x), x.sizes[rank], weight.sizes[1], weight.sizes[0])
        sizes[rank] = weight.sizes[0]
        rank += 1
    if bias is not None:
        check_addend_kind(op, bias, x, weight)
    else:
        check_kinds(op, x, weight)
    return perform(op, found, "AddmmBackward0" if bias is not None else "MmBackward0", x, MATRIX if x.rank > 1 else ROW,
                   weight, weight_form, rank, sizes, form, bias)


cdef object do_addmm(ProductOp op, PyObject** found):
    cdef TensorBase c = <TensorBase>found[0], a = <TensorBase>found[1], b = <TensorBase>found[2]
    cdef int64_t sizes[2]
    check_matrix(op, a, 1)
    check_matrix(op, b, 2)
    if a.sizes[1] != b.sizes[0]:
        bad_shapes(op, a.sizes[0], a.sizes[1], b.sizes[0], b.sizes[1])
    check_addend_kind(op, c, a, b)
    sizes[0], sizes[1] = a.sizes[0], b.sizes[1]
    return perform(op, found, "AddmmBackward0", a, MATRIX, b, MATRIX, 2, sizes, MATRIX, c)


cdef object do_addmv(ProductOp op, PyObject** found):
    cdef TensorBase c = <TensorBase>found[0], a = <TensorBase>found[1], b = <TensorBase>found[2]
    if a.rank != 2 or b.rank != 1 or c.rank > 1:
        raise RuntimeError(f"{op.name}(): vector + matrix @ vector expected, got {c.rank}, {a.rank}, {b.rank}")
    if a.sizes[1] != b.sizes[0] or (c.rank and c.sizes[0] != a.sizes[0] and c.sizes[0] != 1):
        raise RuntimeError(f"{op.name}(): size mismatch, got input ({c.sizes[0] if c.rank else 1}), mat "
                           f"({a.sizes[0]}x{a.sizes[1]}), vec ({b.sizes[0]})")
    check_addend_kind(op, c, a, b)
    return perform(op, found, "AddmvBackward0", a, MATRIX, b, COLUMN, 1, a.sizes, COLUMN, c)


cdef object do_baddbmm(ProductOp op, PyObject** found):
    cdef TensorBase c = <TensorBase>found[0], a = <TensorBase>found[1], b = <TensorBase>found[2]
    cdef int64_t sizes[3]
    check_batches(op, a, b)
    check_addend_kind(op, c, a, b)
    sizes[0], sizes[1], sizes[2] = a.sizes[0], a.sizes[1], b.sizes[2]
    return perform(op, found, "BaddbmmBackward0", a, MATRIX, b, MATRIX, 3, sizes, MATRIX, c)


cdef object do_addbmm(ProductOp op, PyObject** found):
    cdef TensorBase c = <TensorBase>found[0], a = <TensorBase>found[1], b = <TensorBase>found[2]
    cdef int64_t sizes[2]
    check_batches(op, a, b)
    check_addend_kind(op, c, a, b)
    sizes[0], sizes[1] = a.sizes[1], b.sizes[2]
    return perform(op, found, "AddbmmBackward0", a, MATRIX, b, MATRIX, 2, sizes, MATRIX, c)


cdef object do_inner(ProductOp op, PyObject** found):
    """Over the last dimension of both: b's other dimensions become the columns, and are unfolded again."""
    cdef TensorBase a = <TensorBase>found[0], b = <TensorBase>found[1], flat = b, out
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t flat_sizes[2]
    cdef int rank
    if a.rank == 0 or b.rank == 0:
        return put_out(op, found[2], late.binary(operator_for(OP_MUL), a, b), a, b, None)
    if a.sizes[a.rank - 1] != b.sizes[b.rank - 1]:
        raise RuntimeError(f"{op.name}() the last dimension must match on both input tensors but got shapes {list(a.shape)} and "
                           f"{list(b.shape)}")
    check_kinds(op, a, b)
    rank = a.rank + b.rank - 2
    if rank > MAX_DIMS:
        raise RuntimeError(f"{op.name}(): a tensor has at most {MAX_DIMS} dimensions, the result would have {rank}")
    memcpy(sizes, a.sizes, (a.rank - 1) * sizeof(int64_t))
    if b.rank == 1:
        return perform(op, found, "DotBackward0" if a.rank == 1 else "MvBackward0", a, ROW if a.rank == 1 else MATRIX, b, COLUMN,
                       rank, sizes, SCALAR if a.rank == 1 else COLUMN, None)
    if b.rank > 2:
        flat_sizes[0], flat_sizes[1] = flat_rows(b), b.sizes[b.rank - 1]
        flat = reshaped(b, 2, flat_sizes)
    if b.rank == 2:
        sizes[rank - 1] = b.sizes[0]
        return perform(op, found, "MmBackward0", a, ROW if a.rank == 1 else MATRIX, flat, TRANSPOSED, rank, sizes,
                       ROW if a.rank == 1 else MATRIX, None)
    sizes[a.rank - 1] = flat.sizes[0]
    if a.code == BOOL:
        raise NotImplementedError(f"{op.name}(): \"{op.name}\" not implemented for 'Bool'")
    out = contract(a, ROW if a.rank == 1 else MATRIX, flat, TRANSPOSED, a.rank, sizes, ROW if a.rank == 1 else MATRIX, &ONE)
    memcpy(sizes + a.rank - 1, b.sizes, (b.rank - 1) * sizeof(int64_t))
    return put_out(op, found[2], reshaped(out, rank, sizes), a, b, None)


cdef TensorBase outer_of(ProductOp op, TensorBase a, TensorBase b, str first):
    cdef int64_t dim = 1
    if a.rank != 1:
        raise RuntimeError(f"{op.name}(): Expected 1-D argument {first}, but got {a.rank}-D")
    if b.rank != 1:
        raise RuntimeError(f"{op.name}(): Expected 1-D argument vec2, but got {b.rank}-D")
    return <TensorBase?>late.binary(operator_for(OP_MUL), cut(a, unsqueeze_cut, &dim, "UnsqueezeBackward0"), b)


cdef object do_outer(ProductOp op, PyObject** found):
    cdef TensorBase a = <TensorBase>found[0], b = <TensorBase>found[1]
    return put_out(op, found[2], outer_of(op, a, b, "self"), a, b, None)


cdef object do_addr(ProductOp op, PyObject** found):
    """By multiplications and additions, with their promotion of dtypes; half types are rounded once, at the end."""
    cdef TensorBase input = <TensorBase>found[0], c = input, a = <TensorBase>found[1], b = <TensorBase>found[2]
    cdef Scale alpha, beta
    cdef object result
    cdef bint half = (c.code == F16 or c.code == BF16) and c.code == a.code == b.code
    if half:
        c, a, b = copied(c, F32, False), copied(a, F32, False), copied(b, F32, False)
    read_scale(op, 3, found[3], &beta)
    read_scale(op, 4, found[4], &alpha)
    result = outer_of(op, a, b, "vec1")
    check_addend(op, c, 2, (<TensorBase>result).sizes)
    if found[4] != NULL and alpha.real != 1:
        result = late.binary(operator_for(OP_MUL), result, <object>found[4])
    if beta.real != 0:
        scaled = c if beta.real == 1 else late.binary(operator_for(OP_MUL), c, <object>found[3])
        result = late.binary(operator_for(OP_ADD), scaled, result)
    if half:
        result = copied(<TensorBase>result, input.code, False)
    if op.in_place:
        return (<object>input).copy_(result)
    return put_out(op, found[5], <TensorBase>result, a, b, c)


cdef ProductOp made(str name, handler_t handle, tuple names, int tensors, str doc, bint scaled=False, bint in_place=False):
    cdef ProductOp op = ProductOp.__new__(ProductOp)
    prepare_op(op, name, call_product)
    op.handle, op.tensors, op.positional, op.scaled, op.in_place = handle, tensors, len(names), scaled, in_place
    op.names = names + (("beta", "alpha") if scaled else ()) + (() if in_place or name == "linear" else ("out",))
    setattr(op, "__doc__", doc)
    return op


matmul = made("matmul", do_matmul, ("input", "other"), 2, """matmul(input, other, *, out=None) -> Tensor

    The matrix product `input @ other`.  Two vectors give their dot product, a 0-dim tensor; a vector beside a matrix counts
    as a row on the left and as a column on the right, and its dimension does not appear in the result; dimensions before
    the last two count matrices and broadcast.

    RuntimeError where the sizes do not fit, the dtypes differ or an argument is 0-dim; NotImplementedError for bool.

    >>> import flambeau
    >>> flambeau.matmul(flambeau.tensor([[1., 2.], [3., 4.]]), flambeau.tensor([1., 10.]))
    tensor([21., 43.])
    >>> flambeau.matmul(flambeau.ones(5, 1, 2, 3), flambeau.ones(4, 3, 2)).shape
    flambeau.Size([5, 4, 2, 2])
    """)
mm = made("mm", do_mm, ("input", "mat2"), 2, """mm(input, mat2, *, out=None) -> Tensor

    The product of an (n, k) and a (k, m) matrix.  RuntimeError for other shapes or different dtypes.

    >>> import flambeau
    >>> flambeau.mm(flambeau.tensor([[1, 2], [3, 4]]), flambeau.tensor([[0, 1], [1, 0]]))
    tensor([[2, 1],
            [4, 3]])
    """)
bmm = made("bmm", do_bmm, ("input", "mat2"), 2, """bmm(input, mat2, *, out=None) -> Tensor

    The products of b matrices each: (b, n, k) and (b, k, m) give (b, n, m).  RuntimeError for other shapes (nothing
    broadcasts) or different dtypes.

    >>> import flambeau
    >>> flambeau.bmm(flambeau.ones(2, 1, 3), flambeau.ones(2, 3, 1)).flatten()
    tensor([3., 3.])
    """)
mv = made("mv", do_mv, ("input", "vec"), 2, """mv(input, vec, *, out=None) -> Tensor

    The product of an (n, k) matrix and a vector of k elements: n elements.  RuntimeError for other shapes or different
    dtypes.

    >>> import flambeau
    >>> flambeau.mv(flambeau.tensor([[1., 2.], [3., 4.]]), flambeau.tensor([1., 1.]))
    tensor([3., 7.])
    """)
dot = made("dot", do_dot, ("input", "tensor"), 2, """dot(input, tensor, *, out=None) -> Tensor

    The sum of products of two vectors of one length, 0-dim.  RuntimeError for other shapes or different dtypes.

    >>> import flambeau
    >>> flambeau.dot(flambeau.tensor([1., 2.]), flambeau.tensor([3., 4.]))
    tensor(11.)
    """)
vdot = made("vdot", do_dot, ("input", "other"), 2, """vdot(input, other, *, out=None) -> Tensor

    The sum of products of two vectors of one length, for real dtypes the same as `dot`.

    >>> import flambeau
    >>> flambeau.vdot(flambeau.tensor([1., 2.]), flambeau.tensor([3., 4.]))
    tensor(11.)
    """)
inner = made("inner", do_inner, ("input", "other"), 2, """inner(input, other, *, out=None) -> Tensor

    Sums of products over the last dimension of both; the shape is input's other dimensions, then other's.  With a 0-dim
    tensor it is the product of all elements with it.  RuntimeError where the last sizes or the dtypes differ.

    >>> import flambeau
    >>> flambeau.inner(flambeau.tensor([[1., 2.], [3., 4.]]), flambeau.tensor([1., 10.]))
    tensor([21., 43.])
    """)
outer = made("outer", do_outer, ("input", "vec2"), 2, """outer(input, vec2, *, out=None) -> Tensor

    All products of the elements of two vectors, as a matrix; dtypes are promoted.  RuntimeError unless both are 1-D.

    >>> import flambeau
    >>> flambeau.outer(flambeau.tensor([1, 2]), flambeau.tensor([1, 10]))
    tensor([[ 1, 10],
            [ 2, 20]])
    """)
linear = made("linear", do_linear, ("input", "weight", "bias"), 2, """linear(input, weight, bias=None) -> Tensor

    `input @ weight.T + bias`: input (..., k), weight (n, k), bias (n) give (..., n).  A weight with one dimension gives
    (...).  RuntimeError where the shapes do not fit or the dtypes differ.

    >>> import flambeau
    >>> from flambeau.nn.functional import linear
    >>> linear(flambeau.tensor([1., 2.]), flambeau.tensor([[1., 0.], [0., 1.], [1., 1.]]), flambeau.tensor([0., 0., 10.]))
    tensor([ 1.,  2., 13.])
    """)

cdef dict ADDED = {
    "addmm": """(input, mat1, mat2, *, beta=1, alpha=1, out=None) -> Tensor

    `beta * input + alpha * mat1 @ mat2` of matrices (n, k) and (k, m); input broadcasts to (n, m), and is not read where
    beta is 0.  RuntimeError where the shapes do not fit or the dtypes differ.

    >>> import flambeau
    >>> flambeau.addmm(flambeau.tensor([1., 2.]), flambeau.ones(2, 3), flambeau.ones(3, 2), alpha=10)
    tensor([[31., 32.],
            [31., 32.]])
    """,
    "addmv": """(input, mat, vec, *, beta=1, alpha=1, out=None) -> Tensor

    `beta * input + alpha * mat @ vec` of a matrix (n, k) and a vector (k); input broadcasts to (n), and is not read where
    beta is 0.  RuntimeError where the shapes do not fit or the dtypes differ.

    >>> import flambeau
    >>> flambeau.addmv(flambeau.tensor([1., 2.]), flambeau.ones(2, 3), flambeau.ones(3))
    tensor([4., 5.])
    """,
    "baddbmm": """(input, batch1, batch2, *, beta=1, alpha=1, out=None) -> Tensor

    `beta * input + alpha * batch1 @ batch2` of b matrices each, (b, n, k) and (b, k, m); input broadcasts to (b, n, m), and
    is not read where beta is 0.  RuntimeError where the shapes do not fit or the dtypes differ.

    >>> import flambeau
    >>> flambeau.baddbmm(flambeau.ones(1), flambeau.ones(2, 1, 3), flambeau.ones(2, 3, 1)).flatten()
    tensor([4., 4.])
    """,
    "addbmm": """(input, batch1, batch2, *, beta=1, alpha=1, out=None) -> Tensor

    `beta * input + alpha * (batch1 @ batch2).sum(0)` of b matrices each, (b, n, k) and (b, k, m); input broadcasts to
    (n, m), and is not read where beta is 0.  RuntimeError where the shapes do not fit or the dtypes differ.

    >>> import flambeau
    >>> flambeau.addbmm(flambeau.ones(1, 1), flambeau.ones(2, 1, 3), flambeau.ones(2, 3, 1))
    tensor([[7.]])
    """,
    "addr": """(input, vec1, vec2, *, beta=1, alpha=1, out=None) -> Tensor

    `beta * input + alpha * outer(vec1, vec2)`; input broadcasts to (n, m), and is not read where beta is 0; dtypes are
    promoted.  RuntimeError where the shapes do not fit.

    >>> import flambeau
    >>> flambeau.addr(flambeau.ones(1, 2), flambeau.tensor([1., 2.]), flambeau.tensor([1., 10.]))
    tensor([[ 2., 11.],
            [ 3., 21.]])
    """,
}


cdef tuple both(str name, handler_t handle, tuple names):
    """An operation and its in-place form, which overwrites `input`."""
    doc = f"{name}_({', '.join(names)}, *, beta=1, alpha=1) -> input\n\n    `{name}` with its result written to input, which " \
        "must have the result's shape."
    return made(name, handle, names, 3, name + ADDED[name], True), made(name + "_", handle, names, 3, doc, True, True)


addmm, addmm_ = both("addmm", do_addmm, ("input", "mat1", "mat2"))
addmv, addmv_ = both("addmv", do_addmv, ("input", "mat", "vec"))
baddbmm, baddbmm_ = both("baddbmm", do_baddbmm, ("input", "batch1", "batch2"))
addbmm, addbmm_ = both("addbmm", do_addbmm, ("input", "batch1", "batch2"))
addr, addr_ = both("addr", do_addr, ("input", "vec1", "vec2"))
make_callable(ProductOp, mm)
