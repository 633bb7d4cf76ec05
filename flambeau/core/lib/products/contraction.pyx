# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The contraction that all matrix products are: `alpha * A @ B + beta * C` over stacks of matrices.

A, B and C are tensors read as a matrix, a transposed one, a row, a column or a number.  Stacks broadcast, and are summed
over where the result has none.  The gradients of such a contraction are such contractions again, so one kind of node
serves, to any order.

How products are computed, and computing them, is `matrices.pyx`'s.
"""
from libc.stdlib cimport malloc, free
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from .blas cimport INTERRUPTED, OK
from .matrices cimport (
    COPY_LEFT, COPY_RIGHT, ELSEWHERE, MATRIX, TRANSPOSED, Layout, Places, Product, Scale, flipped, launch_product, lay_out, plan_product,
    read_matrix, stack, usable, used_dims,
)
from ...base.dtypes cimport U8, F16, BF16, F32, F64, CATEGORY, is_stored, size_from
from ...base.device cimport Device, Product as DeviceProduct
from ...call.function import FunctionOp
from ...call.kernels cimport device_launcher, one_device
from ...call.pointwise cimport copied, sum_to, wider
from ...call.layout cimport fits
from ...base.parallel cimport parallel_for
from ...base.callbacks import callbacks
from ...base.labels import saved_name
from ...base.profiling cimport mark, note_work, profiling
from ...tape.modes cimport grad_enabled, set_grad, wants_grad
from ...tape.nodes cimport NOT_SAVED, Node
from ...tape.history cimport attach
from ...tape.saved cimport Slot, clear_slot, save_tensor, unpack_tensor
from ...tape.inplace cimport rebase
from ...base.tensor cimport MAX_DIMS, OP_MUL, TensorBase, bump_version, data_address, new_tensor, new_tensor_on, operator_for, pointer, runtime
from ...views.geometry cimport copy_strided
from ...views.views cimport compact
from cpython.object cimport PyObject
cimport cython

cdef enum:
    INLINE_SIZES = 8           # a node's shapes up to this many numbers need no memory of their own
    INLINE_BYTES = 1 << 14     # bytes up to which what a launch needs is on the stack
    FEW_ELEMENTS = 1 << 10     # of a result that starts from a row, up to which it is copied at once
    WIDTH = 128                # columns that are summed at once
    TRIALS = 4                 # runs of a product that are measured on a device
    HEIGHT = 16                # rows that are summed in the element's own precision

cdef double GIL_FROM = 1e5     # multiplications from which giving up the GIL pays off


cdef inline bint read_in_place(TensorBase t, int form) noexcept nogil:
    """Whether BLAS can read it where it lies."""
    cdef Layout layout
    if t.contiguous:
        return True
    lay_out(&layout, t, form)
    return usable(&layout)


cdef int multiply(TensorBase c, int form, TensorBase a, int a_form, TensorBase b, int b_form,
                  const Scale* alpha, const Scale* beta, TensorBase addend) except -1:
    """c = alpha * a @ b + beta * addend; c is contiguous.  Without an addend it is c itself, which is not read where beta is 0.

    1 where nothing is done: for bfloat16, sums of several products, which are to be rounded once, and processors without the
    instruction.
    """
    cdef Product p
    cdef Layout left, right, result, added
    cdef Places at
    cdef TensorBase own
    cdef int needs, status
    cdef char workspace[INLINE_BYTES + 64]
    if c.count == 0:
        return 0
    lay_out(&result, c, form)
    if addend is not None:
        lay_out(&added, addend, MATRIX)
    while True:
        lay_out(&left, a, a_form)
        lay_out(&right, b, b_form)
        needs = plan_product(&p, c.code, &left, &right, &result, alpha, beta, NULL if addend is None else &added, NULL)
        if needs == 0:
            break
        if needs == ELSEWHERE:
            return 1
        if needs & COPY_LEFT:
            a = compact(a)
        if needs & COPY_RIGHT:
            b = compact(b)
    if p.starts:
        start_from(c, addend)
    at.a, at.b, at.c = pointer(a), pointer(b), pointer(c)
    at.operands[0] = NULL if addend is None else pointer(addend)
    at.workspace = <char*>(<uintptr_t>(workspace + 63) & ~<uintptr_t>63)  # vectors must not straddle cache lines
    if p.workspace > INLINE_BYTES:
        own = new_tensor(1, &p.workspace, U8)
        at.workspace = pointer(own)
    if p.work > GIL_FROM:
        with nogil:
            status = launch_product(&p, &p.tiled, &at)
    else:
        status = launch_product(&p, &p.tiled, &at)
    if status == INTERRUPTED:
        bump_version(c)
        return -1
    if status != OK:
        raise RuntimeError(f"matrix product: a dimension or stride of shapes {list(a.shape)} and {list(b.shape)} does not fit "
                           "into the 32 bits that the BLAS library counts with")
    return 0


cdef int start_from(TensorBase out, TensorBase addend) except -1:
    """Write the addend, broadcast to its shape, to a contiguous tensor."""
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t row, at, n
    cdef int d, missing = out.rank - addend.rank
    if addend.rank and addend.contiguous and out.count <= FEW_ELEMENTS and addend.count == addend.sizes[addend.rank - 1] == (
            out.sizes[out.rank - 1]):     # a bias: planning a copy takes longer than copying
        row, at, n = addend.count * addend.width, 0, out.count * out.width
        while at < n:
            memcpy(pointer(out) + at, pointer(addend), row)
            at += row
        return 0
    for d in range(out.rank):
        strides[d] = 0 if d < missing or addend.sizes[d - missing] == 1 else addend.strides[d - missing]
    copy_strided(pointer(out), out.strides, pointer(addend), strides, out.rank, out.sizes, out.width)
    return 0


cdef TensorBase multiplied_on_device(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                                const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    """`multiplied` on a device other than the host: by its own library, else by a kernel of ours."""
    cdef TensorBase out = into
    cdef PyObject* tensors[4]
    tensors[0], tensors[1] = <PyObject*>a, <PyObject*>b
    tensors[2] = NULL if addend is None else <PyObject*>addend
    tensors[3] = NULL if into is None else <PyObject*>into
    one_device("matmul", tensors, 4)
    if alpha.imag != 0 or (addend is not None and beta.imag != 0):
        raise NotImplementedError("a matrix product on a device: alpha and beta must be real numbers")
    if into is None or not into.contiguous or into.storage is a.storage or into.storage is b.storage or (
            addend is not None and addend is not into and addend.storage is into.storage):
        out = new_tensor_on(a.storage.on, rank, sizes, a.code)
    if out.count and not library_product(out, form, a, a_form, b, b_form, alpha, addend, beta):
        by_kernel(out, form, a, a_form, b, b_form, alpha, addend, beta)
    if into is not None:
        if out is not into:
            device_launcher.copy(into, out)
        bump_version(into)
        return into
    return out


cdef struct DeviceWork:   # one product, to be computed in one way or another
    PyObject* c
    PyObject* a
    PyObject* b
    PyObject* addend
    int form, a_form, b_form
    bint biased                  # the addend is a row that is added to every row
    const Scale* alpha
    const Scale* beta
    DeviceProduct* wanted
    int way


cdef set with_ways = set()   # types of devices that have several


def add_ways(str type) -> None:
    """Ask devices of that type in which way a product is computed: `choose_way(product, biased, measurable)` answers for a place of the
    host where a Product is (`core/base/device.pxd`), whose result a row is added to where it is `biased`; UNMEASURED only where it is
    `measurable`, and then `keep_way(product, biased, way)` tells them what was the fastest.  `add_epilogue(product, bias)` computes BY_EPILOGUE,
    with the row at that address (0: none), False where that is not possible.
    """
    with_ways.add(type)


def has_library(Device device not None) -> bool:
    """Whether a device computes products by a library of its own, which it then opens."""
    cdef DeviceProduct wanted
    memset(&wanted, 0, sizeof(DeviceProduct))
    return device.product(&wanted)


cdef int by_kernel(TensorBase c, int form, TensorBase a, int a_form, TensorBase b, int b_form, const Scale* alpha, TensorBase addend,
                   const Scale* beta) except -1:
    """Let a kernel of ours compute it."""
    cdef bint floating = CATEGORY[c.code] >= 2
    before = alpha.real if floating else alpha.whole
    after = 0 if addend is None else beta.real if floating else beta.whole
    callbacks["device.multiply"](c, form, a, a_form, b, b_form, before, addend, after)
    return 0


cdef bint library_product(TensorBase c, int form, TensorBase a, int a_form, TensorBase b, int b_form, const Scale* alpha,
                          TensorBase addend, const Scale* beta) except -1:
    """Let the device's library compute it; False where it has none, or the stacks are too involved for one call."""
    cdef Product p
    cdef Layout left, right, result
    cdef DeviceProduct wanted
    cdef int64_t rows
    cdef uint64_t first
    cdef bint done
    if not read_in_place(a, a_form):
        a = compact(a)
    if not read_in_place(b, b_form):
        b = compact(b)
    lay_out(&left, a, a_form)
    lay_out(&right, b, b_form)
    lay_out(&result, c, form)
    read_matrix(&left, &wanted.m, &wanted.k, &wanted.a_row, &wanted.a_column)
    read_matrix(&right, &rows, &wanted.n, &wanted.b_row, &wanted.b_column)
    wanted.code, wanted.c_row, wanted.c_column = c.code, wanted.n, 1
    wanted.a, wanted.b, wanted.c = <uintptr_t>data_address(a), <uintptr_t>data_address(b), <uintptr_t>data_address(c)
    wanted.batch, wanted.a_batch, wanted.b_batch, wanted.c_batch = 1, 0, 0, 0
    wanted.alpha, wanted.beta = alpha.real, 0.0 if addend is None else beta.real
    p.rank = 0
    if a.rank + b.rank + c.rank > used_dims(a_form) + used_dims(b_form) + used_dims(form):
        p.m, p.n, p.k = wanted.m, wanted.n, wanted.k
        p.a_row, p.a_col, p.b_row, p.b_col = wanted.a_row, wanted.a_column, wanted.b_row, wanted.b_column
        stack(&p, &left, &right, &result)
        wanted.m, wanted.n, wanted.k = p.m, p.n, p.k
        wanted.a_row, wanted.a_column, wanted.b_row, wanted.b_column = p.a_row, p.a_col, p.b_row, p.b_col
    if p.rank > 1 or (p.rank == 1 and p.c_step[0] == 0):
        return False
    if p.rank == 1:
        wanted.batch, wanted.a_batch, wanted.b_batch, wanted.c_batch = p.sizes[0], p.a_step[0], p.b_step[0], p.c_step[0]
    if CATEGORY[c.code] < 2:
        return False
    cdef bint biased = addend is not None and addend is not c and beta.real == 1 and form == MATRIX and addend.rank == 1 and (
        addend.sizes[0] == wanted.n and addend.strides[0] == 1 and addend.code == c.code)
    cdef DeviceWork work
    work.c, work.form, work.a_form, work.b_form, work.biased = <PyObject*>c, form, a_form, b_form, biased
    work.a, work.b, work.addend = <PyObject*>a, <PyObject*>b, NULL if addend is None else <PyObject*>addend
    work.alpha, work.beta, work.wanted, work.way = alpha, beta, &wanted, BY_LIBRARY
    if c.storage.on.type in with_ways:
        work.way = (<object>c.storage.on).choose_way(<uintptr_t>&wanted, biased, addend is not c and not profiling.on)
        if work.way == UNMEASURED:
            work.way = fastest(&work)
            (<object>c.storage.on).keep_way(<uintptr_t>&wanted, biased, work.way)
    if not (profiling.on and profiling.devices):
        return run_by_way(&work)
    first = mark(c.storage.on)
    done = run_by_way(&work)
    if done:
        note_work(c.storage.on, "gemm", first, mark(c.storage.on))
    else:
        c.storage.on.free_event(first)
    return done


cdef bint run_by_way(DeviceWork* work) except -1:
    """Compute it in the way that `work` says; False where that way does not take it."""
    cdef DeviceProduct wanted = work.wanted[0]
    cdef TensorBase c = <TensorBase>work.c, addend = None if work.addend == NULL else <TensorBase>work.addend
    if work.way == BY_KERNEL:
        by_kernel(c, work.form, <TensorBase>work.a, work.a_form, <TensorBase>work.b, work.b_form, work.alpha, addend, work.beta)
        return True
    if work.way == BY_EPILOGUE and (addend is None or work.biased):
        wanted.beta = 0.0
        if (<object>c.storage.on).add_epilogue(<uintptr_t>&wanted, <uintptr_t>data_address(addend) if work.biased else 0):
            return True
        wanted.beta = work.wanted.beta
    if addend is not None and addend is not c:      # a library adds to c; where there is none, c need not hold the addend
        wanted.c = 0
        if not c.storage.on.product(&wanted):
            return False
        wanted.c = work.wanted.c
        device_launcher.copy(c, addend)
    return c.storage.on.product(&wanted)


cdef int fastest(DeviceWork* work) except -2:
    """The fastest way to compute it, by running each; the first run of each is not measured, as it may load or make something."""
    cdef Device on = (<TensorBase>work.c).storage.on
    cdef int best = BY_LIBRARY
    cdef int ways[3]
    cdef double least = -1, spent
    cdef uint64_t start = on.new_event(True), end = on.new_event(True)
    ways[0], ways[1], ways[2] = BY_LIBRARY, BY_EPILOGUE, BY_KERNEL
    try:
        for k in range(3):
            work.way = ways[k]
            if not run_by_way(work):
                continue
            on.record_event(start)
            for _ in range(TRIALS):
                run_by_way(work)
            on.record_event(end)
            on.finish_event(end)
            spent = on.elapsed(start, end)
            if least < 0 or spent < least:
                least, best = spent, ways[k]
    finally:
        on.free_event(start)
        on.free_event(end)
    return best


cdef inline bint writes_there(TensorBase into, TensorBase a, TensorBase b, TensorBase addend) noexcept:
    """Whether a product is written where the program wants it: it reads nothing there but the elements it adds to."""
    return into is not None and into.contiguous and into.storage is not a.storage and into.storage is not b.storage and (
        addend is None or addend is into or addend.storage is not into.storage)


cdef object multiplied_halves(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                              const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    """A product of halves by generated tiles, or None."""
    cdef TensorBase out = into if writes_there(into, a, b, addend) else new_tensor(rank, sizes, a.code)
    cdef Scale nothing
    nothing.real, nothing.imag, nothing.whole = 0.0, 0.0, 0
    return None if multiply(out, form, a, a_form, b, b_form, alpha, beta if addend is not None else &nothing,
                            addend if addend is not out else None) else out


cdef TensorBase written(TensorBase into, TensorBase result):
    """The result in the tensor that the program gave."""
    copy_strided(pointer(into), into.strides, pointer(result), result.strides, result.rank, result.sizes, result.width)
    bump_version(into)
    return into


cdef TensorBase multiplied(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                           const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    cdef TensorBase out = into
    cdef Scale nothing
    cdef int code = a.code, wide
    cdef bint adds = addend is not None and ((beta.real if CATEGORY[code] >= 2 else <double>beta.whole) != 0 or beta.imag != 0)
    if a.storage.on is not None:
        return multiplied_on_device(a, a_form, b, b_form, rank, sizes, form, alpha, addend if adds else None, beta, into)
    if code == BF16 or code == F16:
        result = multiplied_halves(a, a_form, b, b_form, rank, sizes, form, alpha, addend if adds else None, beta, into)
        if result is not None:
            out = <TensorBase>result
            if out is into:
                bump_version(into)
            return out if into is None or out is into else written(into, out)
    if code == F16 or code == BF16 or is_stored(code):
        wide = wider(code)
        a, b = copied(a, wide, False), copied(b, wide, False)
        if adds:
            addend = copied(addend, wide, False)
        out = copied(multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, None), code, True)
    else:
        nothing.real, nothing.imag, nothing.whole = 0.0, 0.0, 0
        if not writes_there(into, a, b, addend):
            out = new_tensor(rank, sizes, code)
        multiply(out, form, a, a_form, b, b_form, alpha, beta if adds else &nothing, addend if adds and addend is not out else None)
    if into is not None:
        if out is not into:
            return written(into, out)
        bump_version(into)
        return into
    return out


# --- the tape ------------------------------
cdef dict operands_of = {}        # a node's label -> names of the operands, by which it tells what it has saved


def name_operands(str label, tuple names) -> None:
    """Say what the operands of the operation are called whose nodes have that label."""
    operands_of[label] = names


cdef object number_of(const Scale* s):
    return complex(s.real, s.imag) if s.imag else s.whole if s.real == s.whole else s.real


cdef inline TensorBase conjugate(TensorBase t):
    return t if CATEGORY[t.code] != 3 else <TensorBase?>(<object>t).conj()


@cython.no_gc
@cython.binding(False)
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
        cdef list result = [None] * self.edges
        cdef int64_t* a_sizes = self.sizes + self.addend_rank
        cdef int64_t* b_sizes = a_sizes + self.a_rank
        cdef Scale alpha = self.alpha
        alpha.imag = -alpha.imag  # of complex operands, gradients take the conjugates
        if g is None:
            return result
        if left and self.targets[0] != NULL:
            result[0] = self.addend_gradient(g)
        if not runtime.interceptors and not read_in_place(g, self.form):  # once for both; interceptors see g itself
            g = compact(g)
        if self.targets[left] != NULL:
            b = conjugate(unpack_tensor(&self.b, self))
            if self.a_form == TRANSPOSED:
                result[left] = contract(b, self.b_form, g, flipped(self.form), self.a_rank, a_sizes, MATRIX, &alpha)
            else:
                result[left] = contract(g, self.form, b, flipped(self.b_form), self.a_rank, a_sizes, self.a_form, &alpha)
        if self.targets[left + 1] != NULL:
            a = conjugate(unpack_tensor(&self.a, self))
            if self.b_form == TRANSPOSED:
                result[left + 1] = contract(g, flipped(self.form), a, self.a_form, self.b_rank, b_sizes, MATRIX, &alpha)
            else:
                result[left + 1] = contract(a, flipped(self.a_form), g, self.form, self.b_rank, b_sizes, self.b_form, &alpha)
        return result

    cdef object addend_gradient(self, TensorBase g):
        cdef object result = g
        if not fits(g, self.addend_rank, self.sizes):
            if self.addend_rank == 1 and g.sizes[g.rank - 1] == self.sizes[0] and F32 <= g.code <= F64 and (
                    not grad_enabled() and g.storage.on is None):
                result = column_sums_op(g) if runtime.observers else column_sums(compact(g))
            else:
                result = sum_to(g, size_from(self.addend_rank, self.sizes))
        if self.beta.imag != 0:
            result = runtime.binary(operator_for(OP_MUL), result, complex(self.beta.real, -self.beta.imag))
        elif self.beta.real != 1:
            result = runtime.binary(operator_for(OP_MUL), result, self.beta.real)
        return result

    cdef void drop(self):
        clear_slot(&self.a)
        clear_slot(&self.b)

    cdef dict saved_places(self):
        cdef int left = self.edges - 2
        names = operands_of.get(self.label)
        if names is None:
            return {}
        result = {saved_name(names[left], left == 0): 0 if self.targets[left + 1] != NULL else NOT_SAVED,
                  names[left + 1]: 1 if self.targets[left] != NULL else NOT_SAVED}
        return {**result, "alpha": 2, "beta": 3} if left else result

    cdef object saved_value(self, str name, int place):
        if place < 2:
            return unpack_tensor(&self.b if place else &self.a, self)
        return number_of(&self.alpha if place == 2 else &self.beta)

    cdef void* saved_slot(self, int place):
        return NULL if place > 1 else &self.b if place else &self.a

    def __dealloc__(self):
        clear_slot(&self.a)
        clear_slot(&self.b)
        if self.sizes != self.few:
            free(self.sizes)


cdef Node node_for(str label, TensorBase a, int a_form, TensorBase b, int b_form, int form, const Scale* alpha,
                          TensorBase addend, const Scale* beta):
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
        save_tensor(&node.b, b, -1)
    if node.targets[left + 1] != NULL:
        save_tensor(&node.a, a, -1)
    return node


def product_as(TensorBase a, int a_form, TensorBase b, int b_form, tuple sizes, int form, tuple alpha) -> TensorBase:
    """alpha · a @ b, their last dimensions read as matrices by their forms; the gradient of a product."""
    cdef int64_t shape[MAX_DIMS]
    cdef Scale scale
    cdef int d
    for d in range(len(sizes)):
        shape[d] = sizes[d]
    scale.real, scale.imag, scale.whole = alpha
    return contracted(a if read_in_place(a, a_form) else compact(a), a_form, b if read_in_place(b, b_form) else compact(b), b_form, <int>len(sizes),
                      shape, form, &scale)


def columns_summed(TensorBase input) -> TensorBase:
    """The sum over all dimensions but the last."""
    if input.storage.on is not None and input.storage.on.blank:
        return new_tensor_on(input.storage.on, 1, &input.sizes[input.rank - 1], input.code)
    return column_sums(compact(input))


product_op = FunctionOp(product_as, owns=False)
column_sums_op = FunctionOp(columns_summed, owns=False)


cdef TensorBase contract(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                         const Scale* alpha):
    if runtime.observers:
        return product_op(a, a_form, b, b_form, tuple(size_from(rank, sizes)), form, (alpha.real, alpha.imag, alpha.whole))
    return contracted(a, a_form, b, b_form, rank, sizes, form, alpha)


cdef TensorBase contracted(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                           const Scale* alpha):
    cdef Node node = node_for("BmmBackward0", a, a_form, b, b_form, form, alpha, None, NULL)
    return computed(node, a, a_form, b, b_form, rank, sizes, form, alpha, None, NULL, None)


cdef TensorBase computed(Node node, TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                         const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    cdef TensorBase out
    cdef bint before = grad_enabled()
    if node is None:
        return multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, into)
    set_grad(False)  # copies and conversions on the way stay off the tape
    try:
        out = multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, into)
    finally:
        set_grad(before)
    if into is None:
        attach(out, node, 0)
    else:
        rebase(out, node, 0)
    return out


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
    """WIDTH columns from `first`, in blocks of HEIGHT rows whatever the threads, so always the same bits; four rows at a time,
    in pairs, so that the sums are read and written a quarter as often.
    """
    cdef double totals[WIDTH]
    cdef Real part[WIDTH]
    cdef const Real* row
    cdef int64_t i, j, end, top = 0, width = min(WIDTH, columns - first)
    for j in range(width):
        totals[j] = 0
    while top < rows:
        for j in range(width):
            part[j] = 0
        end, i = min(top + HEIGHT, rows), top
        while i + 4 <= end:
            row = source + i * columns + first
            for j in range(width):
                part[j] += (row[j] + row[columns + j]) + (row[2 * columns + j] + row[3 * columns + j])
            i += 4
        for i in range(i, end):
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
