# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations that change how a storage is read and nothing else: shapes, orders of dimensions, parts, repetition."""
from libc.string cimport memcpy
from libc.stdint cimport INT64_MAX, int64_t
from cpython.object cimport PyObject
from ..base.memory cimport Storage, new_storage_on
from ..base.dtypes cimport F16, F32, F64, C32, C64, C128, CATEGORY, as_dtype, dtype as DType, dtype_of, size_from
from ..base.tensor cimport (
    MAX_DIMS, ON_TAPE, TensorBase, alias, as_int, as_size, storage_error, find_contiguous, numel_error, new_tensor_on, parse_sizes, wrap_dim, bump_version, pointer,
)
from ..tape.nodes cimport Node
from ..tape.history cimport attach
from ..tape.inplace cimport check_in_place
from ..tape.gradients cimport fitted
from ..tape.modes cimport grad_enabled, wants_grad
from ..call.signature cimport signature_of
from ..call.operation cimport Op, make_callable, prepare_op
from ..base.sizes cimport add_overflow, mul_overflow, product_of, row_major, scaled, span_of
from .geometry cimport compact_strides, diagonal_cut, load, unfold_cut
from ..base import display
from ..base.callbacks import set_callback
from ..base.formats import channels_last_3d, contiguous_format, memory_format as Format, preserve_format
from .strided cimport GeometryNode, copy_as, is_tracked, permuted, read_dim, same_elements, strided, swapped, view_of
from ..tape.formulas import record
from ..tape.inplace import set_complex_views as _set_complex_views
from .split import chunk, dsplit, hsplit, split, split_with_sizes, tensor_split, unbind, vsplit
import warnings
cimport cython

cdef extern from "Python.h":
    bint PyLong_Check(object o)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    bint PyLong_CheckExact(object o)
    int64_t PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    object PyObject_Vectorcall(object callable, PyObject** args, size_t nargs, PyObject* names)


# --- arguments ------------------------------
cdef int read_sizes(tuple given, object named, int64_t* out, str who, str argument) except -1:
    """Sizes or dimensions given one by one, as one sequence, or by keyword; returns how many."""
    cdef int n = 0
    cdef object values = given
    if named is not None:
        if given:
            raise TypeError(f"{who}(): got '{argument}' by position and by keyword")
        values = named
    elif len(given) == 1 and not PyLong_Check(given[0]):
        values = given[0]
    elif not given:
        raise TypeError(f'{who}() missing 1 required positional argument: "{argument}"')
    if not (PyTuple_Check(values) or PyList_Check(values)):
        if hasattr(values, "__index__") and not hasattr(values, "__len__") or PyLong_Check(values) or is_scalar(values):
            out[0] = read_one(values, who, argument)
            return 1
        try:
            values = tuple(values)
        except TypeError:
            raise TypeError(f"{who}(): argument '{argument}' must be tuple of ints, not {type(values).__name__}") from None
    for value in values:
        if n == MAX_DIMS:
            raise RuntimeError(f"{who}(): a tensor has at most {MAX_DIMS} dimensions, got {len(values)}")
        out[n] = read_one(value, who, argument)
        n += 1
    return n


cdef inline int64_t read_one(object value, str who, str argument) except? -9223372036854775807:
    return as_int(value, who, argument) if argument[0] == "d" else as_size(value, who, argument)


cdef bint is_scalar(object value):
    return isinstance(value, TensorBase) and (<TensorBase>value).rank == 0


cdef int infer_size(TensorBase t, int rank, int64_t* sizes, str who) except -1:
    """Put a number for -1 and check the product."""
    cdef int d, unknown = -1
    cdef int64_t n = 1
    cdef bint wrong
    for d in range(rank):
        if sizes[d] == -1:
            if unknown >= 0:
                raise RuntimeError(f"{who}(): only one dimension can be inferred, got {list(size_from(rank, sizes))}")
            unknown = d
        elif sizes[d] < 0:
            raise RuntimeError(f"{who}(): invalid shape dimension {sizes[d]} at index {d} of shape "
                               f"{list(size_from(rank, sizes))}")
    if unknown >= 0:
        sizes[unknown] = 1
    wrong = product_of(rank, sizes, &n)
    if unknown >= 0:
        sizes[unknown] = -1
    if wrong or (unknown < 0 and n != t.count):
        raise RuntimeError(f"{who}(): shape '{list(size_from(rank, sizes))}' is invalid for input of size {t.count}")
    if unknown < 0:
        return 0
    if n == 0 and t.count == 0:
        raise RuntimeError(f"{who}(): cannot reshape tensor of 0 elements into shape {list(size_from(rank, sizes))} because "
                           f"the unspecified dimension size -1 can be any value and is ambiguous")
    if n == 0 or t.count % n:
        raise RuntimeError(f"{who}(): shape '{list(size_from(rank, sizes))}' is invalid for input of size {t.count}")
    sizes[unknown] = t.count // n
    return 0


# --- shapes ------------------------------
def view(TensorBase input not None, *shape, size=None, dtype=None):
    """The same elements with another shape (one size may be -1) or, given a dtype, their bytes read as that dtype.

    RuntimeError where the sizes do not fit, or the strides allow no view: `reshape` copies then.

    >>> import flambeau
    >>> flambeau.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    cdef int64_t sizes[MAX_DIMS]
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], DType)):
        return view_as_dtype(input, as_dtype(dtype if dtype is not None else shape[0], "view"))
    return view_checked(input, read_sizes(shape, size, sizes, "view", "size"), sizes)


cdef TensorBase view_checked(TensorBase input, int rank, int64_t* sizes):
    cdef TensorBase out
    infer_size(input, rank, sizes, "view")
    out = viewed(input, rank, sizes, "ViewBackward0")
    if out is None:
        raise RuntimeError(f"view(): view size is not compatible with input tensor's size and stride: shape "
                           f"{list(input.shape)} with strides {list(input.stride())} does not read as "
                           f"{list(size_from(rank, sizes))}. Use .reshape(...) instead.")
    return out


cdef TensorBase view_as_dtype(TensorBase t, DType wanted):
    """The bytes read as another dtype; the last dimension grows or shrinks with the size of an element."""
    cdef Shape s
    cdef int d, last = t.rank - 1
    cdef int64_t ratio
    if wanted.code == t.code:
        return viewed_as_itself(t)
    load(&s, t)
    if wanted.itemsize != t.width:
        if t.rank == 0:
            raise RuntimeError(f"view(): self.dim() cannot be 0 to view {dtype_of(t.code)} as {wanted} (different element sizes)")
        if t.strides[last] != 1:
            raise RuntimeError(f"view(): self.stride(-1) must be 1 to view {dtype_of(t.code)} as {wanted} (different element "
                               f"sizes), but got {t.strides[last]}")
    if wanted.itemsize < t.width:
        ratio = t.width // wanted.itemsize
        for d in range(last):
            s.strides[d] = scaled(s.strides[d], ratio)
        if mul_overflow(s.sizes[last], ratio, &s.sizes[last]):
            raise numel_error(t.rank, t.sizes)
        s.offset *= ratio
    elif wanted.itemsize > t.width:
        ratio = wanted.itemsize // t.width
        for d in range(-1, last):
            if (t.offset if d < 0 else t.strides[d]) % ratio:
                raise RuntimeError(f"view(): {'the storage offset' if d < 0 else 'self.stride(' + str(d) + ')'} must be divisible "
                                   f"by {ratio} to view {dtype_of(t.code)} as {wanted} (different element sizes), but got "
                                   f"{t.offset if d < 0 else t.strides[d]}")
        if t.sizes[last] % ratio:
            raise RuntimeError(f"view(): self.size(-1) must be divisible by {ratio} to view {dtype_of(t.code)} as {wanted} "
                               f"(different element sizes), but got {t.sizes[last]}")
        for d in range(last):
            s.strides[d] //= ratio
        s.sizes[last] //= ratio
        s.offset //= ratio
    return read_as(t, &s, wanted.code)


cdef TensorBase viewed_as_itself(TensorBase t):
    return viewed(t, t.rank, t.sizes, "ViewBackward0")


def view_as(TensorBase input not None, TensorBase other not None):
    """`input.view(other.size())`.

    Shape:
        input: as many elements as other; result: the shape of other

    Raises:
        RuntimeError: the numbers of elements differ, or the strides do not allow it

    >>> import flambeau
    >>> flambeau.arange(4).view_as(flambeau.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return view(input, size=other.shape)


def reshape(TensorBase input not None, *shape_, shape=None):
    """The elements in the same order with another shape: a view where the strides allow it, else a copy.

    One size may be -1.  RuntimeError where the sizes do not fit the number of elements.

    >>> import flambeau
    >>> flambeau.arange(6).reshape(3, 2).t().reshape(-1)
    tensor([0, 2, 4, 1, 3, 5])
    """
    cdef int64_t sizes[MAX_DIMS]
    return reshape_checked(input, read_sizes(shape_, shape, sizes, "reshape", "shape"), sizes)


cdef TensorBase reshape_checked(TensorBase input, int rank, int64_t* sizes):
    cdef TensorBase out
    infer_size(input, rank, sizes, "reshape")
    out = viewed(input, rank, sizes, "ViewBackward0")
    return out if out is not None else copy_as(input, rank, sizes, "UnsafeViewBackward0")


def reshape_as(TensorBase input not None, TensorBase other not None):
    """`input.reshape(other.size())`.

    Shape:
        input: as many elements as other; result: the shape of other

    Raises:
        RuntimeError: the numbers of elements differ

    >>> import flambeau
    >>> flambeau.arange(4).reshape_as(flambeau.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return reshape(input, shape=other.shape)


def flatten(TensorBase input not None, start_dim=0, end_dim=-1):
    """Dimensions start_dim … end_dim made one; a 0-dim tensor gets one dimension.

    Raises:
        RuntimeError: start_dim is behind end_dim
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.zeros(2, 3, 4).flatten(1).shape
    flambeau.Size([2, 12])
    """
    cdef int64_t sizes[MAX_DIMS]
    cdef int first = read_dim(start_dim, input.rank, "flatten", "start_dim"), last = read_dim(end_dim, input.rank, "flatten", "end_dim")
    cdef int d, rank = 0
    if first > last:
        raise RuntimeError(f"flatten() has invalid args: start_dim cannot come after end_dim, got {start_dim} and {end_dim}")
    if input.rank == 0:
        sizes[0] = 1
        return reshaped(input, 1, sizes)
    for d in range(input.rank):
        if first < d <= last:
            continue
        sizes[rank] = input.sizes[d]
        if d == first and product_of(last - first + 1, input.sizes + first, &sizes[rank]):
            raise numel_error(input.rank, input.sizes)
        rank += 1
    return reshaped(input, rank, sizes)


def ravel(TensorBase input not None):
    """One dimension: a view where the input is contiguous, else a copy.

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.eye(2).ravel()
    tensor([1., 0., 0., 1.])
    """
    cdef int64_t n = input.count
    return reshaped(input, 1, &n) if input.contiguous else copy_as(input, 1, &n, "ViewBackward0")


def unflatten(TensorBase input not None, dim, sizes):
    """Dimension `dim` split into `sizes`, whose product is its size; one may be -1.

    Raises:
        RuntimeError: the product of the sizes is not the size of the dimension

    >>> import flambeau
    >>> flambeau.zeros(2, 6).unflatten(1, (3, -1)).shape
    flambeau.Size([2, 3, 2])
    """
    cdef int64_t parts[MAX_DIMS]
    cdef int64_t shape[MAX_DIMS]
    cdef int d = read_dim(dim, input.rank, "unflatten"), k, n = parse_sizes(sizes, parts, "unflatten"), unknown = -1
    cdef int64_t product = 1
    cdef bint wrong
    if input.rank == 0:
        raise IndexError("unflatten(): the tensor has no dimensions")
    if n == 0:
        raise RuntimeError("unflatten(): sizes must be non-empty")
    for k in range(n):
        if parts[k] == -1 and unknown < 0:
            unknown, parts[k] = k, 1
    wrong = product_of(n, parts, &product)
    if unknown >= 0 and not wrong and product > 0 and input.sizes[d] % product == 0:
        parts[unknown] = input.sizes[d] // product
        product = input.sizes[d]
    if wrong or product != input.sizes[d]:
        raise RuntimeError(f"unflatten(): Provided sizes {list(sizes)} don't multiply up to the size of dim {d} "
                           f"({input.sizes[d]}) in the input tensor")
    if input.rank - 1 + n > MAX_DIMS:
        raise RuntimeError(f"unflatten(): a tensor has at most {MAX_DIMS} dimensions")
    for k in range(d):
        shape[k] = input.sizes[k]
    for k in range(n):
        shape[d + k] = parts[k]
    for k in range(d + 1, input.rank):
        shape[k + n - 1] = input.sizes[k]
    return viewed(input, input.rank - 1 + n, shape, "ViewBackward0")


def squeeze(TensorBase input not None, *dims, dim=None):
    """Without the dimensions of size 1: all of them, or those given.

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.zeros(1, 2, 1).squeeze().shape
    flambeau.Size([2])
    >>> flambeau.zeros(1, 2, 1).squeeze(0).shape
    flambeau.Size([2, 1])
    """
    cdef Shape s
    cdef int64_t given[MAX_DIMS]
    cdef bint drop[MAX_DIMS]
    cdef int d, k, n
    cdef bint every = dim is None and not dims
    for d in range(max(input.rank, 1)):
        drop[d] = every
    if not every:
        n = read_sizes(dims, dim, given, "squeeze", "dim")
        for k in range(n):
            d = wrap_dim(given[k], input.rank, "squeeze")
            if drop[d]:
                raise RuntimeError(f"squeeze(): dim {d} appears multiple times in the list of dims")
            drop[d] = True
    s.rank, s.offset = 0, input.offset
    for d in range(input.rank):
        if input.sizes[d] != 1 or not drop[d]:
            s.sizes[s.rank], s.strides[s.rank] = input.sizes[d], input.strides[d]
            s.rank += 1
    return same_elements(input, &s, "SqueezeBackward0" if every else "SqueezeBackward1")


def unsqueeze(TensorBase input not None, dim):
    """A new dimension of size 1 at `dim`.

    Raises:
        IndexError: the dimension is out of range

    >>> import flambeau
    >>> flambeau.zeros(2).unsqueeze(0).shape
    flambeau.Size([1, 2])
    """
    cdef Shape s
    cdef int64_t d = wrap_dim(as_int(dim, "unsqueeze", "dim"), input.rank + 1, "unsqueeze")
    if input.rank == MAX_DIMS:
        raise RuntimeError(f"unsqueeze(): a tensor has at most {MAX_DIMS} dimensions")
    load(&s, input)
    unsqueeze_cut(&s, &d)
    return same_elements(input, &s, "UnsqueezeBackward0")


# --- complex numbers as pairs --------------------------------------------------------------------------------------------------------------
def view_as_real(TensorBase input not None):
    """A complex tensor as a real one with a last dimension of size 2: the real part and the imaginary part.

    Shape:
        input: (*); result: (*, 2)

    Raises:
        RuntimeError: the tensor is not complex

    >>> import flambeau
    >>> flambeau.view_as_real(flambeau.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    cdef Shape s
    cdef TensorBase out
    cdef int d
    if CATEGORY[input.code] != 3:
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {dtype_of(input.code)}")
    if input.rank == MAX_DIMS:
        raise RuntimeError(f"view_as_real(): a tensor has at most {MAX_DIMS} dimensions")
    load(&s, input)
    for d in range(s.rank):
        s.strides[d] = scaled(s.strides[d], 2)
    s.sizes[s.rank], s.strides[s.rank] = 2, 1
    s.rank += 1
    s.offset *= 2
    out = read_as(input, &s, F32 if input.code == C64 else F64 if input.code == C128 else F16)
    if is_tracked(input):
        record("ViewAsRealBackward0", _as_complex, (input,), out)
    return out


def view_as_complex(TensorBase input not None):
    """A real tensor whose last dimension has size 2 as a complex one; the strides must allow it.

    Shape:
        input: (*, 2); result: (*)

    Raises:
        RuntimeError: the last size is not 2, or the strides do not allow it
        RuntimeError: the dtype is none of float16, float32 and float64

    >>> import flambeau
    >>> flambeau.view_as_complex(flambeau.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    cdef Shape s
    cdef TensorBase out
    cdef int d, last = input.rank - 1
    cdef bint even
    if input.code != F16 and input.code != F32 and input.code != F64:
        raise RuntimeError(f"view_as_complex is only supported for floating point tensors, got {dtype_of(input.code)}")
    if last < 0 or input.sizes[last] != 2:
        raise RuntimeError(f"view_as_complex(): Tensor must have a last dimension of size 2, got shape {list(input.shape)}")
    load(&s, input)
    even = s.offset % 2 == 0
    for d in range(last):
        even = even and s.strides[d] % 2 == 0
        s.strides[d] //= 2
    if s.strides[last] != 1 or not even:
        raise RuntimeError(f"view_as_complex(): Tensor must have a last dimension with stride 1, and all other strides and the storage "
                           f"offset must be divisible by 2, got strides {list(input.stride())} and offset {input.offset}")
    s.rank, s.offset = last, s.offset // 2
    out = read_as(input, &s, C64 if input.code == F32 else C128 if input.code == F64 else C32)
    if is_tracked(input):
        record("ViewAsComplexBackward0", view_as_real, (input,), out)
    return out


def _as_complex(grad):
    return view_as_complex(grad.contiguous())


_set_complex_views(view_as_real, view_as_complex)


cdef TensorBase read_as(TensorBase t, Shape* s, int code):
    """A view with another dtype, not recorded; the shape counts in elements of that dtype."""
    cdef TensorBase out = view_of(t, s)
    out.code, out.width = code, dtype_of(code).itemsize
    find_contiguous(out)
    return out


# --- order of dimensions ------------------------------
def transpose(TensorBase input not None, dim0, dim1):
    """Dimensions dim0 and dim1 exchanged.

    Shape:
        input: any; result: with the two sizes exchanged

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.zeros(2, 3, 4).transpose(0, 2).shape
    flambeau.Size([4, 3, 2])
    """
    cdef int a = read_dim(dim0, input.rank, "transpose", "dim0"), b = read_dim(dim1, input.rank, "transpose", "dim1")
    return swapped(input, a, b, "TransposeBackward0")


def swapaxes(TensorBase input not None, axis0, axis1):
    """`transpose` by NumPy's name.

    Shape:
        input: any; result: with the two sizes exchanged

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.swapaxes(flambeau.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return transpose(input, axis0, axis1)


def swapdims(TensorBase input not None, dim0, dim1):
    """Another name of `transpose`.

    Shape:
        input: any; result: with the two sizes exchanged

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.swapdims(flambeau.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return transpose(input, dim0, dim1)


def t(TensorBase input not None):
    """The transpose of a matrix; tensors of fewer dimensions are returned as they are, as a view.

    Raises:
        RuntimeError: there are more than two dimensions

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).t()
    tensor([[1, 3],
            [2, 4]])
    """
    if input.rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.rank}D")
    return swapped(input, 0, input.rank - 1 if input.rank else 0, "TBackward0")


def permute(TensorBase input not None, *dims_, dims=None):
    """Dimensions in another order: dimension k of the result is dimension dims[k] of the input.

    Raises:
        RuntimeError: `dims` are not as many as the input has, or one stands there twice
        IndexError: one is out of range
        TypeError: one is no int

    >>> import flambeau
    >>> flambeau.zeros(2, 3, 4).permute(2, 0, 1).shape
    flambeau.Size([4, 2, 3])
    """
    cdef int64_t order[MAX_DIMS]
    return permute_checked(input, read_sizes(dims_, dims, order, "permute", "dims"), order)


cdef TensorBase permute_checked(TensorBase input, int n, int64_t* order):
    cdef bint seen[MAX_DIMS]
    cdef int k
    if n != input.rank:
        raise RuntimeError(f"permute(): number of dimensions in the tensor input does not match the length of the desired "
                           f"ordering of dimensions i.e. input.dim() = {input.rank} is not equal to len(dims) = {n}")
    for k in range(n):
        seen[k] = False
    for k in range(n):
        order[k] = wrap_dim(order[k], n, "permute")
        if seen[order[k]]:
            raise RuntimeError(f"permute(): duplicate dims are not allowed, got {list(size_from(n, order))}")
        seen[order[k]] = True
    return permuted(input, order, "PermuteBackward0")


def movedim(TensorBase input not None, source, destination):
    """Dimensions `source` (an int or several) moved to `destination`; the others keep their order.

    Shape:
        input: any; result: with the sizes moved

    Raises:
        IndexError: a dimension is out of range
        RuntimeError: a dimension is given twice

    >>> import flambeau
    >>> flambeau.zeros(2, 3, 4).movedim(0, -1).shape
    flambeau.Size([3, 4, 2])
    """
    cdef int given[MAX_DIMS]
    cdef int goal[MAX_DIMS]
    cdef int64_t order[MAX_DIMS]
    cdef bint taken_[MAX_DIMS]
    cdef int n, m, k, d = 0
    n = read_moved(source, input.rank, given, "source")
    m = read_moved(destination, input.rank, goal, "destination")
    if n != m:
        raise RuntimeError(f"movedim(): Invalid source or destination dims: source ({source}) should contain the same number of "
                           f"dims as destination ({destination})")
    for k in range(input.rank):
        order[k], taken_[k] = -1, False
    if input.rank:
        for k in range(n):
            order[goal[k]], taken_[given[k]] = given[k], True
    for k in range(input.rank):
        if order[k] < 0:
            while taken_[d]:
                d += 1
            order[k] = d
            d += 1
    return permuted(input, order, "PermuteBackward0")


cdef int read_moved(object dims, int rank, int* out, str which) except -1:
    cdef int n = 0, k, d
    for given in (dims if PyTuple_Check(dims) or PyList_Check(dims) else (dims,)):
        d = read_dim(given, rank, "movedim", which)
        for k in range(n):
            if out[k] == d:
                raise RuntimeError(f"movedim(): repeated dim in `{which}` ({list(dims)})")
        out[n] = d
        n += 1
    return n


def moveaxis(TensorBase input not None, source, destination):
    """`movedim` by NumPy's name.

    Shape:
        input: any; result: with the sizes moved

    Raises:
        IndexError: a dimension is out of range
        RuntimeError: a dimension is given twice

    >>> import flambeau
    >>> flambeau.moveaxis(flambeau.zeros(2, 3, 4), 0, 2).shape
    flambeau.Size([3, 4, 2])
    """
    return movedim(input, source, destination)


def get_T(TensorBase input not None):
    """Dimensions in reverse order."""
    cdef int64_t dims[MAX_DIMS]
    cdef int d
    if input.rank != 2 and input.rank != 0:
        warnings.warn("the use of x.T on tensors of dimension other than 2 is deprecated: use x.mT for batches of matrices or "
                      "x.permute(*range(x.ndim - 1, -1, -1)) to reverse all dimensions", UserWarning, stacklevel=2)
    for d in range(input.rank):
        dims[d] = input.rank - 1 - d
    return permuted(input, dims, "PermuteBackward0")


def get_mT(TensorBase input not None):
    """The last two dimensions exchanged."""
    if input.rank == 0:
        return viewed_as_itself(input)
    if input.rank == 1:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {input.rank}-D tensor.")
    return swapped(input, input.rank - 2, input.rank - 1, "TransposeBackward0")


cdef object conjugated(TensorBase t):
    return (<object>t).conj() if CATEGORY[t.code] == 3 else t


def get_H(TensorBase input not None):
    """The conjugate transpose of a matrix."""
    if input.rank != 2 and input.rank != 0:
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {input.rank}-D tensor."
                           + (" For batches of matrices, consider using tensor.mH" if input.rank > 2 else ""))
    return conjugated(swapped(input, 0, 1 if input.rank else 0, "TransposeBackward0"))


def get_mH(TensorBase input not None):
    """The last two dimensions exchanged, and complex numbers conjugated."""
    if input.rank == 0:
        return conjugated(viewed_as_itself(input))
    if input.rank == 1:
        raise RuntimeError(f"tensor.mH is only supported on matrices or batches of matrices. Got {input.rank}-D tensor.")
    return conjugated(swapped(input, input.rank - 2, input.rank - 1, "TransposeBackward0"))


def adjoint(TensorBase input not None):
    """The last two dimensions exchanged, and complex numbers conjugated; RuntimeError for a vector.

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).adjoint()
    tensor([[1, 3],
            [2, 4]])
    """
    if input.rank < 2:
        raise RuntimeError(f"adjoint() is only supported on matrices or batches of matrices. Got {input.rank}-D tensor.")
    return get_mH(input)


# --- repetition ------------------------------
def expand(TensorBase input not None, *sizes, size=None, implicit=False):
    """Dimensions of size 1 repeated to the given sizes without a copy; -1 keeps a size, new dimensions come first.

    Raises:
        RuntimeError: a size is neither that of the input, whose own is not 1, nor -1; there are fewer sizes than dimensions; a
            new dimension has -1
        TypeError: a size is no int

    >>> import flambeau
    >>> flambeau.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    cdef int64_t wanted[MAX_DIMS]
    cdef int rank = read_sizes(sizes, size, wanted, "expand", "size")
    return expanded(input, rank, wanted)


def expand_as(TensorBase input not None, TensorBase other not None):
    """`input.expand(other.size())`.

    Shape:
        input: a shape that broadcasts to that of other; result: the shape of other

    Raises:
        RuntimeError: the shape does not broadcast to that of other

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).expand_as(flambeau.zeros(2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expanded(input, other.rank, other.sizes)


def broadcast_to(TensorBase input not None, *sizes, size=None):
    """`input.expand(size)`.

    Shape:
        input: a shape that broadcasts to `size`; result: `size`

    Raises:
        RuntimeError: the shape does not broadcast to `size`

    >>> import flambeau
    >>> flambeau.broadcast_to(flambeau.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    cdef int64_t wanted[MAX_DIMS]
    return expanded(input, read_sizes(sizes, size, wanted, "broadcast_to", "size"), wanted)


# --- parts ------------------------------
def select(TensorBase input not None, dim, index):
    """The part at position `index` of dimension `dim`, which the result lacks.

    Raises:
        IndexError: the index is out of range

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).select(1, 0)
    tensor([1, 3])
    """
    cdef int64_t a[2]
    if input.rank == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    a[0], a[1] = read_dim(dim, input.rank, "select"), as_int(index, "select", "index")
    if a[1] < -input.sizes[a[0]] or a[1] >= input.sizes[a[0]]:
        raise IndexError(f"select(): index {a[1]} out of range for tensor of size {list(input.shape)} at dimension {a[0]}")
    if a[1] < 0:
        a[1] += input.sizes[a[0]]
    return cut(input, select_cut, a, "SelectBackward0")


def narrow(TensorBase input not None, dim, start, length):
    """Positions start … start + length - 1 of dimension `dim`; a negative start counts from the end.

    Raises:
        RuntimeError: the positions lie outside of the dimension

    >>> import flambeau
    >>> flambeau.arange(5).narrow(0, 1, 3)
    tensor([1, 2, 3])
    """
    cdef int64_t a[4]
    cdef int64_t size
    if input.rank == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    a[3] = as_int(length, "narrow", "length")
    if a[3] < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {a[3]}")
    if isinstance(start, TensorBase):
        if (<TensorBase>start).rank or CATEGORY[(<TensorBase>start).code] != 1:
            raise RuntimeError("narrow(): start must be an int or a 0-dim integral Tensor, got a tensor of shape "
                               f"{list(start.shape)} and dtype {start.dtype}")
        start = start.item()
    a[0], a[1], a[2] = read_dim(dim, input.rank, "narrow"), as_int(start, "narrow", "start"), 1
    size = input.sizes[a[0]]
    if a[1] < -size or a[1] > size:
        raise IndexError(f"narrow(): start out of range (expected to be in range of [{-size}, {size}], but got {a[1]})")
    if a[1] < 0:
        a[1] += size
    if a[3] > size - a[1]:
        raise RuntimeError(f"narrow(): start ({a[1]}) + length ({a[3]}) exceeds dimension size ({size}).")
    return cut(input, slice_cut, a, "SliceBackward0")


def diagonal(TensorBase input not None, offset=0, dim1=0, dim2=1):
    """The diagonal of the matrices along dim1 and dim2, as a new last dimension; `offset` > 0 lies above the main one.

    Raises:
        RuntimeError: both dimensions are the same
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.arange(9).reshape(3, 3).diagonal(1)
    tensor([1, 5])
    """
    cdef int64_t a[4]
    cdef int64_t rows, columns
    a[0] = as_int(offset, "diagonal", "offset")
    a[1], a[2] = read_dim(dim1, input.rank, "diagonal", "dim1"), read_dim(dim2, input.rank, "diagonal", "dim2")
    if a[1] == a[2]:
        raise RuntimeError(f"diagonal(): diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = input.sizes[a[1]], input.sizes[a[2]]
    a[3] = max(min(rows, columns - a[0]) if a[0] >= 0 else min(rows + a[0], columns), 0)
    return cut(input, diagonal_cut, a, "DiagonalBackward0")


def unfold(TensorBase input not None, dimension, size, step):
    """Windows of `size` elements, `step` apart, along a dimension; the last dimension of the result runs inside a window.

    Raises:
        RuntimeError: a window is longer than the dimension, or the step not above 0

    >>> import flambeau
    >>> flambeau.arange(5).unfold(0, 3, 1)
    tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """
    cdef int64_t a[3]
    cdef int64_t length
    a[0] = read_dim(dimension, input.rank, "unfold", "dimension")
    a[1], a[2] = as_int(size, "unfold", "size"), as_int(step, "unfold", "step")
    length = input.sizes[a[0]] if input.rank else 1
    if a[1] < 0:
        raise RuntimeError(f"unfold(): size is {a[1]} but must be >= 0")
    if a[1] > length:
        raise RuntimeError(f"unfold(): maximum size for tensor at dimension {a[0]} is {length} but size is {a[1]}")
    if a[2] <= 0:
        raise RuntimeError(f"unfold(): step is {a[2]} but must be > 0")
    if input.rank == MAX_DIMS:
        raise RuntimeError(f"unfold(): a tensor has at most {MAX_DIMS} dimensions")
    if a[1] == 0 and a[2] == 1 and length == INT64_MAX:
        raise RuntimeError(f"unfold(): {length} windows and one are more than 64 bits count")
    return cut(input, unfold_cut, a, "UnfoldBackward0")


cdef int read_geometry(TensorBase t, object size, object stride, object offset, Shape* s, str who) except -1:
    """Sizes, strides and offset into t's storage, inside of it."""
    cdef int d
    s.rank = parse_sizes(size, s.sizes, who)
    if parse_sizes(stride, s.strides, who) != s.rank:
        raise RuntimeError(f"{who}(): mismatch in length of strides and shape: got {list(size)} and {list(stride)}")
    s.offset = t.offset if offset is None else as_int(offset, who, "storage_offset")
    for d in range(s.rank):
        if s.sizes[d] < 0:
            raise RuntimeError(f"{who}(): negative sizes are not allowed, got {list(size_from(s.rank, s.sizes))}")
        if s.strides[d] < 0:
            raise RuntimeError(f"{who}(): Negative strides are not supported at the moment, got strides: "
                               f"{list(size_from(s.rank, s.strides))}")
    if s.offset < 0:
        raise RuntimeError(f"{who}(): Tensor: invalid storage offset {s.offset}")
    if out_of_bounds(s, t.width, <int64_t>t.storage.length):
        raise RuntimeError(f"{who}(): setStorage: sizes {list(size_from(s.rank, s.sizes))}, strides "
                           f"{list(size_from(s.rank, s.strides))}, storage offset {s.offset}, and itemsize {t.width} are out of "
                           f"bounds for storage of size {t.storage.length}")
    return 0


cdef bint out_of_bounds(Shape* s, int64_t width, int64_t length) noexcept:
    """Whether an element lies behind the end of a storage of `length` bytes."""
    cdef int64_t span
    if span_of(s.rank, s.sizes, s.strides, &span):
        return True
    return span > 0 and (add_overflow(s.offset, span, &span) or mul_overflow(span, width, &span) or span > length)


def as_strided(TensorBase input not None, size, stride, storage_offset=None):
    """Any view of the storage: element `i` lies at storage_offset + i · stride, counted in elements.

    RuntimeError for negative sizes or strides and for places outside the storage.

    Shape:
        input: any; result: `size`

    >>> import flambeau
    >>> flambeau.arange(6).as_strided((2, 2), (1, 2))
    tensor([[0, 2],
            [1, 3]])
    """
    cdef Shape s
    read_geometry(input, size, stride, storage_offset, &s, "as_strided")
    return strided(input, &s)


def detach(TensorBase input not None):
    """The same elements without history; writes to it are seen by the tape as writes to the input.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.ones(1, requires_grad=True).detach().requires_grad
    False
    """
    return alias(input, input.rank, input.sizes, input.strides, input.offset)


def renamed(TensorBase input not None):
    """A view of the whole under another name, as legacy constructors give it."""
    return viewed(input, input.rank, input.sizes, "AliasBackward0")


def shared(TensorBase input not None):
    """What an instance of another class shares with it: its place on the tape; that of a view of it, where it is a leaf or none is made."""
    return input if input.fn is not None and grad_enabled() else renamed(input)


set_callback("shared", shared)
set_callback("alias", renamed)


# --- at least so many dimensions ---------------------------------------------------------------------------------------------------------------
cdef TensorBase padded_view(TensorBase t, int rank, int behind):
    """Dimensions of size 1 in front until there are `rank`, of which the last `behind` go to the end."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int d, new = rank - t.rank, front
    if new <= 0:
        return t
    front = new - min(new, behind)
    for d in range(rank):
        sizes[d] = t.sizes[d - front] if front <= d < front + t.rank else 1
    return viewed(t, rank, sizes, "ViewBackward0")


cdef object at_least(tuple tensors, int rank, int behind, str who):
    cdef list result = []
    cdef bint several = len(tensors) != 1 or PyTuple_Check(tensors[0]) or PyList_Check(tensors[0])
    for x in (tensors[0] if several and len(tensors) == 1 else tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(f"{who}(): argument 'tensors' must be Tensors, not {type(x).__name__}")
        result.append(padded_view(<TensorBase>x, rank, behind))
    return tuple(result) if several else result[0]


def atleast_1d(*tensors):
    """0-dim tensors as vectors of one element; several tensors give a tuple.

    Shape:
        tensors: any; results: the same, (1,) for ()

    Raises:
        TypeError: an argument is no Tensor

    >>> import flambeau
    >>> flambeau.atleast_1d(flambeau.tensor(5))
    tensor([5])
    """
    return at_least(tensors, 1, 0, "atleast_1d")


def atleast_2d(*tensors):
    """Tensors of fewer than two dimensions with new ones in front; several tensors give a tuple.

    Raises:
        TypeError: an argument is no Tensor

    >>> import flambeau
    >>> flambeau.atleast_2d(flambeau.tensor(1.0))
    tensor([[1.]])
    """
    return at_least(tensors, 2, 0, "atleast_2d")


def atleast_3d(*tensors):
    """Tensors of fewer than three dimensions with new ones: behind a matrix, on both sides of a vector.

    Shape:
        tensors: (), (n,), (m, n) or more; results: (1, 1, 1), (1, n, 1), (m, n, 1) or the same

    Raises:
        TypeError: an argument is no Tensor

    >>> import flambeau
    >>> flambeau.atleast_3d(flambeau.tensor([1, 2])).shape
    flambeau.Size([1, 2, 1])
    """
    return at_least(tensors, 3, 1, "atleast_3d")


# --- in place ------------------------------
cdef TensorBase become(TensorBase input, TensorBase made):
    """input takes over the geometry and the history of a view of it."""
    if not grad_enabled():
        keep_shape(input)
    (<object>input)._take(made)
    bump_version(input)
    if made.fn is not None:
        attach(input, <Node>made.fn, 0)
    return input


@cython.no_gc
@cython.binding(False)
cdef class FitNode(GeometryNode):
    """The history of a tensor that got another geometry unrecorded: gradients take the shape that its history is of."""

    cdef object sizes

    def name(self) -> str:
        return (<Node><object>self.targets[0]).name()

    cdef list through(self, list grads):
        return [None if grads[0] is None else fitted(<TensorBase>grads[0], self.sizes, self.name())]


cdef int keep_shape(TensorBase input) except -1:
    """Before a change of geometry that is not recorded."""
    cdef FitNode node
    if input.fn is None or input.base is not None:  # a view's history is made anew from its base
        return 0
    node = FitNode.__new__(FitNode)
    node.sizes = input.shape
    node.set_edges(1)
    node.connect(0, input)
    return attach(input, node, 0)


cdef int check(TensorBase t, str who) except -1:
    if grad_enabled():
        check_in_place(t, who)
    return 0


def squeeze_(TensorBase input not None, *dims, dim=None):
    """`squeeze` in place: the tensor itself gets the new shape.

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.tensor([[1, 2]]).squeeze_()
    tensor([1, 2])
    """
    check(input, "squeeze_")
    return become(input, squeeze(input, *dims, dim=dim))


def unsqueeze_(TensorBase input not None, dim):
    """`unsqueeze` in place: the tensor itself gets the new shape.

    Raises:
        IndexError: the dimension is out of range

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).unsqueeze_(0)
    tensor([[1, 2]])
    """
    check(input, "unsqueeze_")
    return become(input, unsqueeze(input, dim))


def t_(TensorBase input not None):
    """`t` in place: the tensor itself gets the new shape.

    Raises:
        RuntimeError: there are more than two dimensions

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).t_()
    tensor([[1, 3],
            [2, 4]])
    """
    check(input, "t_")
    return become(input, t(input))


def transpose_(TensorBase input not None, dim0, dim1):
    """`transpose` in place: the tensor itself gets the new shape.

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).transpose_(0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    check(input, "transpose_")
    return become(input, transpose(input, dim0, dim1))


def swapaxes_(TensorBase input not None, axis0, axis1):
    """`swapaxes` in place.

    Shape:
        input: any; its two sizes are exchanged

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).swapaxes_(0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return transpose_(input, axis0, axis1)


def swapdims_(TensorBase input not None, dim0, dim1):
    """`swapdims` in place.

    Shape:
        input: any; its two sizes are exchanged

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).swapdims_(0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return transpose_(input, dim0, dim1)


def as_strided_(TensorBase input not None, size, stride, storage_offset=None):
    """`as_strided` in place: the tensor itself gets the new shape.

    Raises:
        RuntimeError: an element lies outside of the storage

    >>> import flambeau
    >>> flambeau.arange(4).as_strided_((2, 2), (1, 1))
    tensor([[0, 1],
            [1, 2]])
    """
    check(input, "as_strided_")
    return become(input, as_strided(input, size, stride, storage_offset))


def detach_(TensorBase input not None):
    """Cut the tensor off from its history; RuntimeError for a view.

    Shape:
        input: any, which stays

    Raises:
        RuntimeError: the tensor is a view

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True) * 2
    >>> x.detach_().requires_grad
    False
    """
    if input.base is not None:
        raise RuntimeError("detach_(): Can't detach views in-place. Use detach() instead.")
    input.fn, input.requires, input.output_number = None, False, 0
    return input


def resize_(TensorBase input not None, *sizes, size=None, memory_format=None):
    """Give the tensor another shape, contiguous, over the memory it has or, where that is too small, over more of it.

    Elements keep their places; new ones are not set.  Where memory grows it is new memory: tensors that shared the old
    keep that.  RuntimeError for tensors that require a gradient and for negative sizes.

    >>> import flambeau
    >>> flambeau.arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    cdef Shape s
    cdef TensorBase made
    cdef Storage larger
    cdef int d
    cdef int64_t n, needed
    cdef bint wrong
    if wants_grad(input):
        raise RuntimeError("resize_(): cannot resize variables that require grad")
    s.rank = read_sizes(sizes, size, s.sizes, "resize_", "size") if sizes or size is not None else 0
    for d in range(s.rank):
        if s.sizes[d] < 0:
            raise RuntimeError(f"resize_(): negative sizes are not allowed, got {list(size_from(s.rank, s.sizes))}")
    if s.rank == input.rank and all([s.sizes[d] == input.sizes[d] for d in range(s.rank)]):
        return input
    s.offset = input.offset
    wrong = row_major(s.rank, s.sizes, s.strides) or product_of(s.rank, s.sizes, &n) or add_overflow(input.offset, n, &needed)
    if wrong or mul_overflow(needed, input.width, &needed):
        raise storage_error("the CPU" if input.storage.on is None else str(input.device), s.rank, s.sizes, NULL, input.code)
    if n and needed > <int64_t>input.storage.length:
        larger = new_storage_on(input.storage.on, <size_t>needed)
        if input.storage.on is None:
            memcpy(larger.data, pointer(input) - input.offset * input.width, input.storage.length)
        elif input.storage.length:
            input.storage.on.copy_within(larger.address, input.storage.address, input.storage.length)
        larger.version = input.storage.version
        input.storage = larger
    made = alias(input, s.rank, s.sizes, s.strides, s.offset)
    (<object>input)._take(made)
    return input


def resize_as_(TensorBase input not None, TensorBase the_template not None, *, memory_format=None):
    """`resize_` to the shape of another tensor.

    Raises:
        TypeError: the template is no Tensor

    >>> import flambeau
    >>> flambeau.tensor([1, 2, 3]).resize_as_(flambeau.zeros(1, 2))
    tensor([[1, 2]])
    """
    return resize_(input, size=the_template.shape)


def set_(TensorBase input not None, source=None, storage_offset=0, size=None, stride=None):
    """Let the tensor lie over another storage (or another tensor's); without arguments it becomes empty.

    RuntimeError where sizes and strides reach out of the storage, or the tensor requires a gradient.

    Shape:
        input: any; it becomes `size`, or that of the source

    >>> import flambeau
    >>> x = flambeau.tensor([1, 2])
    >>> x.set_(flambeau.tensor([3, 4, 5]))
    tensor([3, 4, 5])
    """
    cdef Shape s
    cdef TensorBase made
    cdef int64_t none = 0
    if grad_enabled():
        check_in_place(input, "set_")
    if isinstance(source, TensorBase) and size is None:
        made = <TensorBase>source
        if made.code != input.code:
            raise RuntimeError(f"set_(): the source must have dtype {dtype_of(input.code)}, got {dtype_of(made.code)}")
        return moved_to(input, made)
    made = new_tensor_on(input.storage.on, 1, &none, input.code)
    if source is not None:
        if isinstance(source, TensorBase):
            source = (<TensorBase>source).storage
        source = getattr(source, "_untyped_storage", source)    # of a TypedStorage
        if not isinstance(source, Storage):
            raise TypeError(f"set_(): argument 'source' must be Tensor or UntypedStorage, not {type(source).__name__}")
        made.storage = <Storage>source
        if size is None:
            size = (made.storage.length // input.width,)
        if stride is None:
            s.rank = parse_sizes(size, s.sizes, "set_")
            compact_strides(s.rank, s.sizes, s.strides)
            stride = tuple(size_from(s.rank, s.strides))
        read_geometry(made, size, stride, storage_offset, &s, "set_")
        made = alias(made, s.rank, s.sizes, s.strides, s.offset)
    return moved_to(input, made)


cdef TensorBase moved_to(TensorBase input, TensorBase made):
    """input over made's storage: no longer a view."""
    keep_shape(input)
    input.base, input.made = None, ON_TAPE
    return (<object>input)._take(made)


def is_contiguous(TensorBase input not None, memory_format=None) -> bool:
    """Whether the elements lie in row-major order without gaps; with `channels_last` (or `channels_last_3d`), whether they
    lie in the order batch, height, width, channel.

    Shape:
        input: any; False for `channels_last` unless there are 4 dimensions, for `channels_last_3d` unless there are 5

    Raises:
        TypeError: `memory_format` is none

    >>> import flambeau
    >>> flambeau.zeros(2, 3).t().is_contiguous()
    False
    """
    cdef int64_t n = 1
    cdef int k, d
    if memory_format is None or memory_format is contiguous_format or memory_format is preserve_format:
        return input.contiguous
    if not isinstance(memory_format, Format):
        raise TypeError(f"is_contiguous(): argument 'memory_format' must be {display.public('memory_format')}, not {type(memory_format).__name__}")
    if input.rank != (5 if memory_format is channels_last_3d else 4):
        return False
    for k in range(input.rank):  # channels, then the others from the last to the first
        d = 1 if k == 0 else input.rank - k if k < input.rank - 1 else 0
        if input.sizes[d] != 1:
            if input.strides[d] != n:
                return input.count == 0
            n *= input.sizes[d]
    return True


# --- sizes given one by one ----------------------------------------------------------------------------------------------------------------------
cdef class SizesOp(Op):
    """An operation on a tensor and some ints, which are read without making a tuple of them; every other way of calling it is
    left to the function that stands behind."""

    cdef object general
    cdef TensorBase (*quick)(TensorBase, int, int64_t*)

    @property
    def __signature__(self):
        """What `inspect.signature` and `help` show."""
        if self.signature is None:
            self.signature = signature_of(self.general)
        return self.signature.to_python()


cdef object call_sizes(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef SizesOp op = <SizesOp>callable
    cdef Py_ssize_t n = PyVectorcall_NARGS(flagged) - 1, k
    cdef int64_t sizes[MAX_DIMS]
    cdef int overflow = 0
    if names == NULL and 1 <= n <= MAX_DIMS and isinstance(<object>args[0], TensorBase):
        for k in range(n):
            if not PyLong_CheckExact(<object>args[k + 1]):
                break
            sizes[k] = PyLong_AsLongLongAndOverflow(<object>args[k + 1], &overflow)
            if overflow:
                as_size(<object>args[k + 1], op.name, "size")    # raises
        else:
            return op.quick(<TensorBase>args[0], <int>n, sizes)
    return PyObject_Vectorcall(op.general, args, flagged, names)


cdef TensorBase expand_checked(TensorBase input, int rank, int64_t* sizes):
    return expanded(input, rank, sizes)


cdef SizesOp sizes_op(object general, TensorBase (*quick)(TensorBase, int, int64_t*)):
    cdef SizesOp op = SizesOp.__new__(SizesOp)
    prepare_op(op, general.__name__, call_sizes)
    op.general, op.quick = general, quick
    setattr(op, "__doc__", general.__doc__)
    return op


view = sizes_op(view, view_checked)
reshape = sizes_op(reshape, reshape_checked)
permute = sizes_op(permute, permute_checked)
expand = sizes_op(expand, expand_checked)
make_callable(SizesOp, view)
