# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The operations that are matrix products: matmul, linear, addmm and their kin.

Here their arguments are read and checked; the work is the contraction's (core/lib/products/contraction.pyx).
"""
from libc.string cimport memcpy
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from .contraction cimport computed, node_for, size_at
from .contraction import name_operands
from .matrices cimport COLUMN, MATRIX, ROW, SCALAR, TRANSPOSED, Scale
from ...base.dtypes cimport BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128, CATEGORY, dtype_of, size_from
from ...call.signature cimport MAX_BOUND, TENSOR, Signature
from ...call.operation cimport Op, make_callable, prepare_op
from ...call.kernels cimport Operand, one_device
from ...call.destination cimport GIVEN, OVER, SAME, check_destination
from ...call.destination import cpp_name
from ...call.layout cimport fits
from ...call.operands cimport read_operand, too_large
from ...base.labels import backward_name
from ...tape.nodes cimport Node
from ...tape.modes cimport grad_enabled, wants_grad
from ...base.tensor cimport MAX_DIMS, OP_ADD, OP_MUL, TensorBase, operator_for, runtime

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)

cdef Scale ONE
ONE.real, ONE.imag, ONE.whole = 1.0, 0.0, 1

cdef dict SCALAR_NAMES = {F16: "Half", BF16: "BFloat16", F32: "Float", F64: "Double", BOOL: "Bool",
                          U8: "Byte", I8: "Char", I16: "Short", I32: "Int", I64: "Long",
                          C64: "ComplexFloat", C128: "ComplexDouble"}


# --- operations ------------------------------
cdef enum: MAX_ARGUMENTS = 6

ctypedef object (*handler_t)(ProductOp op, PyObject** bound)


cdef class ProductOp(Op):
    """A matrix product as a function, and a method: tensors by position or name, then beta, alpha and out by name."""

    cdef handler_t handle
    cdef bint scaled           # takes beta and alpha
    cdef bint in_place

    def by_summands(self, *args, **named):
        """The result of the operations that it calls, whatever intercepts this one."""
        cdef PyObject* given[MAX_BOUND]
        cdef list values = [*args, *named.values()]
        cdef tuple names = tuple(named)
        cdef Py_ssize_t k
        if len(values) > MAX_BOUND:
            raise TypeError(f"{self.name}() takes at most {self.signature.total} arguments ({len(values)} given)")
        for k in range(len(values)):
            given[k] = <PyObject*>values[k]
        return call_product(<PyObject*>self, given, len(args), <PyObject*>names if names else NULL)


cdef object call_product(PyObject* callable, PyObject** args, size_t flagged, PyObject* keywords):
    cdef ProductOp op = <ProductOp>callable
    cdef PyObject* bound[MAX_BOUND]
    cdef int k
    op.signature.bind(op.name, args, PyVectorcall_NARGS(flagged), keywords, bound)
    for k in range(op.signature.total, MAX_ARGUMENTS):
        bound[k] = NULL
    return op.handle(op, bound)


cdef int read_scale(ProductOp op, int place, PyObject* given, Scale* s, int code) except -1:
    cdef Operand o
    if given == NULL:
        s[0] = ONE
        return 0
    value = <object>given
    if isinstance(value, TensorBase):
        value = value.item()
    if not read_operand(value, &o):
        raise TypeError(f"{op.name}(): argument '{op.signature.names[place]}' must be Number, not {type(value).__name__}")
    if o.category == 3 and o.imag != 0 and CATEGORY[code] != 3:
        raise RuntimeError(f"{op.name}(): argument '{op.signature.names[place]}' is {value}, which {dtype_of(code)} does not hold")
    if o.category == 1 and o.whole < 0 < o.real:
        raise too_large()
    s.real, s.imag = o.real, o.imag if o.category == 3 else 0.0
    s.whole = <int64_t>o.real if o.category >= 2 else o.whole
    return 0


cdef TensorBase check_out(ProductOp op, PyObject* given, TensorBase a, TensorBase b, TensorBase addend, int code,
                          int rank, const int64_t* sizes):
    """The tensor to write to, with the result's shape; None where none is given."""
    cdef TensorBase out
    cdef PyObject* tensors[2]
    if given == NULL or <object>given is None:
        return None
    if not isinstance(<object>given, TensorBase):
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(<object>given).__name__}")
    out = <TensorBase>given
    tensors[0], tensors[1] = <PyObject*>out, <PyObject*>a
    one_device(op.name, tensors, 2)
    check_destination(op.name, out, GIVEN, SAME, code, rank, sizes,
                      wants_grad(a) or wants_grad(b) or (addend is not None and wants_grad(addend)))
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


cdef object perform(ProductOp op, PyObject** bound, str label, TensorBase a, int a_form, TensorBase b, int b_form,
                    int rank, const int64_t* sizes, int form, TensorBase addend):
    """Checked operands to the result: scales, out= and in-place forms, the tape."""
    cdef Scale alpha = ONE, beta = ONE
    cdef TensorBase into = None
    cdef Node node
    cdef int last = op.signature.positional
    check_not_bool(op, a)
    if addend is not None:
        check_addend(op, addend, rank, sizes)
    if op.scaled:
        read_scale(op, last, bound[last], &beta, a.code)
        read_scale(op, last + 1, bound[last + 1], &alpha, a.code)
        last += 2
    if op.in_place:
        into = addend
        check_destination(op.name, into, OVER, SAME, a.code, rank, sizes, False)
    elif bound[last] != NULL:
        into = check_out(op, bound[last], a, b, addend, a.code, rank, sizes)
    node = node_for(label, a, a_form, b, b_form, form, &alpha, addend, &beta)
    return computed(node, a, a_form, b, b_form, rank, sizes, form, &alpha, addend, &beta, into)


cdef object put_out(ProductOp op, PyObject* given, TensorBase result, TensorBase a, TensorBase b, TensorBase addend):
    """The result of other operations, or `out` with the result in it."""
    cdef TensorBase out = check_out(op, given, a, b, addend, result.code, result.rank, result.sizes)
    return result if out is None else (<object>out).copy_(result)


# --- checks ------------------------------
cdef int check_not_bool(ProductOp op, TensorBase a) except -1:
    if a.code == BOOL:
        raise NotImplementedError(f'{op.name}(): "{op.name}" not implemented for \'Bool\'')
    return 0


cdef int check_kinds(ProductOp op, TensorBase a, TensorBase b) except -1:
    if a.code != b.code:
        raise RuntimeError(f"{op.name}(): expected m1 and m2 to have the same dtype, but got: "
                           f"{cpp_name(dtype_of(a.code))} != {cpp_name(dtype_of(b.code))}")
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
        raise RuntimeError(f"{op.name}(): {op.signature.names[place]} must be a matrix, got {t.rank}-D tensor")
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
cdef object do_matmul(ProductOp op, PyObject** bound):
    cdef TensorBase a = <TensorBase>bound[0], b = <TensorBase>bound[1]
    cdef int64_t sizes[MAX_DIMS]
    cdef int a_form = MATRIX, b_form = MATRIX, form = MATRIX, rank = 0, d
    cdef int64_t k, size, other
    cdef str label = "MmBackward0"
    if a.rank == 0 or b.rank == 0:
        raise RuntimeError(f"{op.name}(): both arguments to matmul need to be at least 1D, but they are {a.rank}D and {b.rank}D")
    if a.rank == 1:
        if b.rank == 1:
            check_dot(op, a, b)
            return perform(op, bound, "DotBackward0", a, ROW, b, COLUMN, 0, sizes, SCALAR, None)
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
    return perform(op, bound, label, a, a_form, b, b_form, rank, sizes, form, None)


cdef object do_mm(ProductOp op, PyObject** bound):
    cdef TensorBase a = <TensorBase>bound[0], b = <TensorBase>bound[1]
    cdef int64_t sizes[2]
    if a.rank != 2:
        raise RuntimeError(f"{op.name}(): self must be a matrix, got {a.rank}-D tensor")
    check_matrix(op, b, 1)
    if a.sizes[1] != b.sizes[0]:
        bad_shapes(op, a.sizes[0], a.sizes[1], b.sizes[0], b.sizes[1])
    check_kinds(op, a, b)
    sizes[0], sizes[1] = a.sizes[0], b.sizes[1]
    return perform(op, bound, "MmBackward0", a, MATRIX, b, MATRIX, 2, sizes, MATRIX, None)


cdef object do_bmm(ProductOp op, PyObject** bound):
    cdef TensorBase a = <TensorBase>bound[0], b = <TensorBase>bound[1]
    cdef int64_t sizes[3]
    check_batches(op, a, b)
    check_kinds(op, a, b)
    sizes[0], sizes[1], sizes[2] = a.sizes[0], a.sizes[1], b.sizes[2]
    return perform(op, bound, "BmmBackward0", a, MATRIX, b, MATRIX, 3, sizes, MATRIX, None)


cdef object do_mv(ProductOp op, PyObject** bound):
    cdef TensorBase a = <TensorBase>bound[0], b = <TensorBase>bound[1]
    if a.rank != 2 or b.rank != 1:
        raise RuntimeError(f"{op.name}(): vector + matrix @ vector expected, got 1, {a.rank}, {b.rank}")
    check_vector(op, a, b)
    check_kinds(op, a, b)
    return perform(op, bound, "MvBackward0", a, MATRIX, b, COLUMN, 1, a.sizes, COLUMN, None)


cdef object do_dot(ProductOp op, PyObject** bound):
    cdef TensorBase a = <TensorBase>bound[0], b = <TensorBase>bound[1]
    check_dot(op, a, b)
    return perform(op, bound, "DotBackward0", a, ROW, b, COLUMN, 0, NULL, SCALAR, None)


cdef object do_vdot(ProductOp op, PyObject** bound):
    cdef TensorBase a = <TensorBase>bound[0], b = <TensorBase>bound[1]
    check_dot(op, a, b)
    if CATEGORY[a.code] == 3:
        a = <TensorBase?>(<object>a).conj()
    return perform(op, bound, "VdotBackward0", a, ROW, b, COLUMN, 0, NULL, SCALAR, None)


cdef object do_linear(ProductOp op, PyObject** bound):
    cdef TensorBase x = <TensorBase>bound[0], weight = <TensorBase>bound[1], bias = None
    cdef int64_t sizes[MAX_DIMS]
    cdef int form, rank, weight_form = TRANSPOSED
    if bound[2] != NULL and <object>bound[2] is not None:
        if not isinstance(<object>bound[2], TensorBase):
            raise TypeError(f"{op.name}(): argument 'bias' must be Tensor, not {type(<object>bound[2]).__name__}")
        bias = <TensorBase>bound[2]
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
    return perform(op, bound, "AddmmBackward0" if bias is not None else "MmBackward0", x, MATRIX if x.rank > 1 else ROW,
                   weight, weight_form, rank, sizes, form, bias)


cdef object do_addmm(ProductOp op, PyObject** bound):
    cdef TensorBase c = <TensorBase>bound[0], a = <TensorBase>bound[1], b = <TensorBase>bound[2]
    cdef int64_t sizes[2]
    check_matrix(op, a, 1)
    check_matrix(op, b, 2)
    if a.sizes[1] != b.sizes[0]:
        bad_shapes(op, a.sizes[0], a.sizes[1], b.sizes[0], b.sizes[1])
    check_addend_kind(op, c, a, b)
    sizes[0], sizes[1] = a.sizes[0], b.sizes[1]
    return perform(op, bound, "AddmmBackward0", a, MATRIX, b, MATRIX, 2, sizes, MATRIX, c)


cdef object do_addmv(ProductOp op, PyObject** bound):
    cdef TensorBase c = <TensorBase>bound[0], a = <TensorBase>bound[1], b = <TensorBase>bound[2]
    if a.rank != 2 or b.rank != 1 or c.rank > 1:
        raise RuntimeError(f"{op.name}(): vector + matrix @ vector expected, got {c.rank}, {a.rank}, {b.rank}")
    if a.sizes[1] != b.sizes[0] or (c.rank and c.sizes[0] != a.sizes[0] and c.sizes[0] != 1):
        raise RuntimeError(f"{op.name}(): size mismatch, got input ({c.sizes[0] if c.rank else 1}), mat "
                           f"({a.sizes[0]}x{a.sizes[1]}), vec ({b.sizes[0]})")
    check_addend_kind(op, c, a, b)
    return perform(op, bound, "AddmvBackward0", a, MATRIX, b, COLUMN, 1, a.sizes, COLUMN, c)


cdef object do_baddbmm(ProductOp op, PyObject** bound):
    cdef TensorBase c = <TensorBase>bound[0], a = <TensorBase>bound[1], b = <TensorBase>bound[2]
    cdef int64_t sizes[3]
    check_batches(op, a, b)
    check_addend_kind(op, c, a, b)
    sizes[0], sizes[1], sizes[2] = a.sizes[0], a.sizes[1], b.sizes[2]
    return perform(op, bound, "BaddbmmBackward0", a, MATRIX, b, MATRIX, 3, sizes, MATRIX, c)


cdef object do_addbmm(ProductOp op, PyObject** bound):
    cdef TensorBase c = <TensorBase>bound[0], a = <TensorBase>bound[1], b = <TensorBase>bound[2]
    cdef int64_t sizes[2]
    check_batches(op, a, b)
    check_addend_kind(op, c, a, b)
    sizes[0], sizes[1] = a.sizes[1], b.sizes[2]
    return perform(op, bound, "AddbmmBackward0", a, MATRIX, b, MATRIX, 2, sizes, MATRIX, c)


cdef object do_inner(ProductOp op, PyObject** bound):
    """Over the last dimension of both: b's other dimensions become the columns, and are unfolded again."""
    cdef TensorBase a = <TensorBase>bound[0], b = <TensorBase>bound[1]
    cdef object result
    if a.rank == 0 or b.rank == 0:
        return put_out(op, bound[2], runtime.binary(operator_for(OP_MUL), a, b), a, b, None)
    if a.sizes[a.rank - 1] != b.sizes[b.rank - 1]:
        raise RuntimeError(f"{op.name}() the last dimension must match on both input tensors but got shapes {list(a.shape)} and "
                           f"{list(b.shape)}")
    check_kinds(op, a, b)
    check_not_bool(op, a)
    if a.rank + b.rank - 2 > MAX_DIMS:
        raise RuntimeError(f"{op.name}(): a tensor has at most {MAX_DIMS} dimensions, the result would have {a.rank + b.rank - 2}")
    if b.rank == 1:
        result = matmul(a, b)
    elif b.rank == 2:
        result = matmul(a, (<object>b).mT)
    else:
        result = matmul(a, (<object>b).reshape((flat_rows(b), b.sizes[b.rank - 1])).mT)
        result = result.reshape((*size_from(a.rank - 1, a.sizes), *size_from(b.rank - 1, b.sizes)))
    return put_out(op, bound[2], result, a, b, None)


cdef TensorBase outer_of(ProductOp op, TensorBase a, TensorBase b, str first):
    if a.rank != 1:
        raise RuntimeError(f"{op.name}(): Expected 1-D argument {first}, but got {a.rank}-D")
    if b.rank != 1:
        raise RuntimeError(f"{op.name}(): Expected 1-D argument vec2, but got {b.rank}-D")
    return <TensorBase?>runtime.binary(operator_for(OP_MUL), (<object>a).unsqueeze(1), b)


cdef object do_outer(ProductOp op, PyObject** bound):
    cdef TensorBase a = <TensorBase>bound[0], b = <TensorBase>bound[1]
    return put_out(op, bound[2], outer_of(op, a, b, "self"), a, b, None)


cdef object do_addr(ProductOp op, PyObject** bound):
    """By multiplications and additions, with their promotion of dtypes; half types are rounded once, at the end, and bools
    stay bools whatever the scales."""
    cdef TensorBase input = <TensorBase>bound[0], c = input, a = <TensorBase>bound[1], b = <TensorBase>bound[2]
    cdef Scale alpha, beta
    cdef object result
    cdef bint half = (c.code == F16 or c.code == BF16) and c.code == a.code == b.code
    cdef bint logical = c.code == BOOL and a.code == BOOL and b.code == BOOL
    if half:
        c, a, b = (<object>c).float(), (<object>a).float(), (<object>b).float()
    read_scale(op, 3, bound[3], &beta, C128)
    read_scale(op, 4, bound[4], &alpha, C128)
    result = outer_of(op, a, b, "vec1")
    check_addend(op, c, 2, (<TensorBase>result).sizes)
    if bound[4] != NULL and (alpha.real != 1 or alpha.imag != 0):
        result = runtime.binary(operator_for(OP_MUL), result, alpha.real != 0 if logical else <object>bound[4])
    if beta.real != 0 or beta.imag != 0:
        scaled = c if logical or beta.real == 1 and beta.imag == 0 else runtime.binary(operator_for(OP_MUL), c, <object>bound[3])
        result = runtime.binary(operator_for(OP_ADD), scaled, result)
    elif grad_enabled() and wants_grad(c):  # whose gradient is 0, whatever it holds
        nothing = (<object>c).masked_fill((<object>c).detach().new_ones((), dtype=dtype_of(BOOL)), 0)
        result = runtime.binary(operator_for(OP_ADD), nothing, result)
    if half:
        result = result.to(dtype_of(input.code))
    if op.in_place:
        return (<object>input).copy_(result)
    return put_out(op, bound[5], <TensorBase>result, a, b, c)


cdef ProductOp made(str name, handler_t handle, tuple names, int tensors, str doc, bint scaled=False, bint in_place=False,
                    bint composed=False):
    cdef ProductOp op = ProductOp.__new__(ProductOp)
    prepare_op(op, name, call_product)
    op.handle, op.scaled, op.in_place = handle, scaled, in_place
    if composed:                                            # it calls operations and nothing else
        op.composite = op.by_summands
    op.signature = Signature(names + (("beta", "alpha") if scaled else ()) + (() if in_place or name == "linear" else ("out",)),
                             <int>len(names), tensors, (TENSOR,) * tensors, defaults={"beta": 1, "alpha": 1})
    setattr(op, "__doc__", doc)
    name_operands(backward_name(name), names)
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
vdot = made("vdot", do_vdot, ("input", "other"), 2, """vdot(input, other, *, out=None) -> Tensor

    The sum of products of two vectors of one length, the first conjugated: for real dtypes the same as `dot`.

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
    """, False, False, True)
outer = made("outer", do_outer, ("input", "vec2"), 2, """outer(input, vec2, *, out=None) -> Tensor

    All products of the elements of two vectors, as a matrix; dtypes are promoted.  RuntimeError unless both are 1-D.

    >>> import flambeau
    >>> flambeau.outer(flambeau.tensor([1, 2]), flambeau.tensor([1, 10]))
    tensor([[ 1, 10],
            [ 2, 20]])
    """, False, False, True)
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


cdef tuple both(str name, handler_t handle, tuple names, bint composed=False):
    """An operation and its in-place form, which overwrites `input`."""
    doc = f"{name}_({', '.join(names)}, *, beta=1, alpha=1) -> input\n\n    `{name}` with its result written to input, which " \
        "must have the result's shape."
    cdef tuple ops = (made(name, handle, names, 3, name + ADDED[name], True, False, composed),
                      made(name + "_", handle, names, 3, doc, True, True, composed))
    for op in ops:
        (<Op>op).signature.old = (("beta", "input", "alpha") + names[1:], ("beta",) + names)
    return ops


addmm, addmm_ = both("addmm", do_addmm, ("input", "mat1", "mat2"))
addmv, addmv_ = both("addmv", do_addmv, ("input", "mat", "vec"))
baddbmm, baddbmm_ = both("baddbmm", do_baddbmm, ("input", "batch1", "batch2"))
addbmm, addbmm_ = both("addbmm", do_addbmm, ("input", "batch1", "batch2"))
addr, addr_ = both("addr", do_addr, ("input", "vec1", "vec2"), True)
make_callable(ProductOp, mm)
