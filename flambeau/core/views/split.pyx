# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A tensor taken apart along a dimension: split, chunk, unbind and their kin.

The pieces share one node of the tape, which puts their gradients together in one pass.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from ..base.memory cimport scratch
from ..base.tensor cimport MAX_DIMS, TensorBase, as_int, new_tensor_on, parse_sizes
from ..base.dtypes cimport size_from, I64
from ..tape.history cimport attach
from .geometry cimport Shape, load, load_compact, select_cut, slice_cut
from .strided cimport GeometryNode, clear, cut, is_tracked, put, read_dim, view_of
from ..tape.formulas import record
cimport cython

cdef extern from "Python.h":
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)


cdef enum:
    MANY_PARTS = 1 << 16          # from which room is looked for before they are made
    BYTES_A_PART = 256            # a tensor, and its place in a list and in a tuple
    MOST_PARTS = 0x7fffffff


# --- several parts at once ------------------------------
@cython.no_gc
@cython.binding(False)
cdef class SplitNode(GeometryNode):
    """A tensor taken apart along a dimension; the pieces' gradients are put together in one pass."""

    cdef str label
    cdef int dim, code
    cdef bint drop_dim
    cdef object sizes
    cdef list lengths

    def name(self) -> str:
        return self.label

    cdef list through(self, list grads):
        for g in grads:
            if g is not None:
                return [joined(grads, self)]
        return [None]

    cdef dict saved_places(self):
        return {"dim": 0, "self_sym_sizes": 1}

    cdef object saved_value(self, str name, int place):
        return tuple(self.sizes) if place else self.dim

    def described(self) -> tuple:
        """"split", whether the dimension is dropped, the dimension, the lengths along it, and the sizes of the whole."""
        return "split", self.drop_dim, self.dim, self.lengths, tuple(self.sizes)


cdef TensorBase joined(list grads, SplitNode node):
    cdef int64_t sizes[MAX_DIMS]
    cdef int rank = parse_sizes(node.sizes, sizes, "split"), k
    cdef TensorBase out, g
    cdef Shape s
    cdef int64_t a[4]
    cdef bint recorded = False
    for g in grads:
        if g is not None:
            out = new_tensor_on(g.storage.on, rank, sizes, node.code)
            break
    if None in grads:
        clear(out)
    a[0], a[1], a[2] = node.dim, 0, 1
    for k in range(len(grads)):
        a[3] = node.lengths[k]
        g = <TensorBase>grads[k]
        if g is not None:
            recorded = recorded or is_tracked(g)
            load_compact(&s, out)
            if node.drop_dim:
                select_cut(&s, a)
            else:
                slice_cut(&s, a)
            put(out, s.offset, s.strides, g)
        a[1] += a[3]
    if recorded:
        back = unbind_back if node.drop_dim else split_back
        record("CatBackward0", back, tuple(grads), out, (), (node.lengths, node.dim))
    return out


def split_back(grad, list lengths, int dim):
    """Derivative of joining pieces: the pieces of the gradient."""
    return split_with_sizes(grad, lengths, dim)


def unbind_back(grad, list lengths, int dim):
    return unbind(grad, dim)


cdef tuple split_at(TensorBase t, int dim, list lengths, bint drop_dim, str label):
    """Pieces of these lengths one after another; with drop_dim all have length 1 and lose the dimension."""
    cdef Shape s
    cdef int64_t a[4]
    cdef list pieces = []
    cdef TensorBase piece
    cdef SplitNode node
    cdef int k
    a[0], a[1], a[2] = dim, 0, 1
    for k in range(len(lengths)):
        a[3] = lengths[k]
        load(&s, t)
        if drop_dim:
            select_cut(&s, a)
        else:
            slice_cut(&s, a)
        pieces.append(view_of(t, &s))
        a[1] += a[3]
    if pieces and is_tracked(t):
        node = SplitNode.__new__(SplitNode)
        node.label, node.dim, node.drop_dim, node.lengths = label, dim, drop_dim, lengths
        node.sizes, node.code, node.outputs = size_from(t.rank, t.sizes), t.code, len(pieces)
        node.set_edges(1)
        node.connect(0, t)
        for k in range(len(pieces)):
            attach(<TensorBase>pieces[k], node, k)
    return tuple(pieces)


def split(TensorBase tensor not None, split_size_or_sections=None, dim=0, *, split_size=None):
    """Pieces of `split_size_or_sections` elements (the last may be shorter), or of the lengths in that list.

    Shape:
        tensor: (*, n, *); results: (*, split_size, *), the last may be shorter, or (*, sections[k], *)

    Raises:
        IndexError: `dim` is out of range
        RuntimeError: the lengths do not add up to the size of the dimension

    >>> import flambeau
    >>> flambeau.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> flambeau.arange(5).split([1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    cdef object wanted = split_size if split_size_or_sections is None else split_size_or_sections
    cdef int64_t size, length
    cdef int d
    if PyTuple_Check(wanted) or PyList_Check(wanted):
        return split_with_sizes(tensor, wanted, dim)
    size = as_int(wanted, "split", "split_size")
    if tensor.rank == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    d = read_dim(dim, tensor.rank, "split")
    length = tensor.sizes[d]
    if size == 0 and length > 0:
        raise RuntimeError(f"split(): split_size can only be 0 if dimension size is 0, but got dimension size of {length}")
    if length == 0:
        return split_at(tensor, d, [0], False, "SplitBackward0")
    check_parts((length - 1) // size + 1, "split")
    return split_at(tensor, d, [min(size, length - k) for k in range(0, length, size)], False, "SplitBackward0")


def split_with_sizes(TensorBase input not None, split_sizes, dim=0):
    """Pieces of the given lengths, whose sum is the size of the dimension.

    Shape:
        input: (*, n, *); results: (*, split_sizes[k], *)

    Raises:
        RuntimeError: the lengths do not add up to the size of the dimension

    >>> import flambeau
    >>> flambeau.split_with_sizes(flambeau.tensor([1, 2, 3]), [1, 2])
    (tensor([1]), tensor([2, 3]))
    """
    cdef int d
    cdef list lengths = [as_int(n, "split_with_sizes", "split_sizes") for n in split_sizes]
    if input.rank == 0:
        raise RuntimeError("split_with_sizes(): split expects at least a 1-dimensional tensor")
    d = read_dim(dim, input.rank, "split_with_sizes")
    for n in lengths:
        if n < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got "
                               f"split_sizes={lengths}")
    if sum(lengths) != input.sizes[d]:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {input.sizes[d]} (input tensor's size at "
                           f"dimension {d}), but got split_sizes={lengths}")
    return split_at(input, d, lengths, False, "SplitWithSizesBackward0")


cdef int check_parts(int64_t n, str who) except -1:
    """OutOfMemoryError for more parts than memory has room for, before a list of them is begun."""
    if n >= MANY_PARTS:
        free(scratch(n, BYTES_A_PART))
    if n > MOST_PARTS:
        raise RuntimeError(f"{who}(): {n} parts are too many")
    return 0


def chunk(TensorBase input not None, chunks, dim=0):
    """At most `chunks` pieces of equal length; the last may be shorter.

    Shape:
        input: (*, n, *); results: (*, ⌈n / chunks⌉, *), the last may be shorter

    Raises:
        RuntimeError: `chunks` is not above 0

    >>> import flambeau
    >>> flambeau.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    cdef int64_t n = as_int(chunks, "chunk", "chunks"), size
    cdef int d
    if input.rank == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if n <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {n}")
    d = read_dim(dim, input.rank, "chunk")
    if input.sizes[d] == 0:
        check_parts(n, "chunk")
        return split_at(input, d, [0] * n, False, "SplitBackward0")
    return split(input, (input.sizes[d] - 1) // n + 1, d)


def tensor_split(TensorBase input not None, indices_or_sections=None, dim=0, *, sections=None, indices=None):
    """That many pieces of nearly equal length, or the pieces between the given positions.

    Shape:
        input: (*, n, *); results: (*, ⌈n / sections⌉ or ⌊n / sections⌋, *)

    Raises:
        RuntimeError: the number of sections is not above 0
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.arange(5).tensor_split(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> flambeau.arange(5).tensor_split((1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    cdef object wanted = indices_or_sections
    cdef int64_t n, length, start, stop
    cdef int d
    cdef list lengths = []
    if wanted is None:
        wanted = sections if indices is None else indices
    if input.rank == 0:
        raise RuntimeError("tensor_split(): expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = read_dim(dim, input.rank, "tensor_split")
    length = input.sizes[d]
    if isinstance(wanted, TensorBase):
        if (<TensorBase>wanted).code != I64 or (<TensorBase>wanted).rank > 1:
            raise RuntimeError("tensor_split(): expected 'tensor_indices_or_sections' to be a 0- or 1-dimensional tensor of int64, "
                               f"got shape {list(wanted.shape)} of {wanted.dtype}")
        wanted = (<TensorBase>wanted).tolist()
    if PyTuple_Check(wanted) or PyList_Check(wanted):
        return pieces_between(input, d, [as_int(i, "tensor_split", "indices") for i in wanted])
    n = as_int(wanted, "tensor_split", "sections")
    if n <= 0:
        raise RuntimeError(f"tensor_split(): number of sections must be larger than 0, got {n}")
    check_parts(n, "tensor_split")
    return split_at(input, d, [length // n + (k < length % n) for k in range(n)], False, "SplitBackward0")


cdef tuple pieces_between(TensorBase t, int dim, list places):
    """Slices [0, places[0]), [places[0], places[1]) …, as Python's slices read them; they may overlap."""
    cdef int64_t a[4]
    cdef list result = []
    before = 0
    for place in places + [None]:
        start, stop, _ = slice(before, place).indices(t.sizes[dim])
        a[0], a[1], a[2], a[3] = dim, start, 1, max(stop - start, 0)
        result.append(cut(t, slice_cut, a, "SliceBackward0"))
        before = place
    return tuple(result)


def unbind(TensorBase input not None, dim=0):
    """The parts along a dimension, each without it.

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).unbind(1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    cdef int d
    if input.rank == 0:
        raise IndexError(f"unbind(): Dimension specified as {dim} but tensor has no dimensions")
    d = read_dim(dim, input.rank, "unbind")
    check_parts(input.sizes[d], "unbind")
    return split_at(input, d, [1] * input.sizes[d], True, "UnbindBackward0")


cdef tuple split_along(TensorBase t, object wanted, int dim, str who):
    """`tensor_split` that insists on pieces of equal length."""
    if not (PyTuple_Check(wanted) or PyList_Check(wanted)):
        n = as_int(wanted, who, "sections")
        if n <= 0 or t.sizes[dim] % n:
            raise RuntimeError(f"{who}(): attempted to split along dimension {dim}, but the size of the dimension {t.sizes[dim]} is "
                               f"not divisible by the split_size {n}!")
    return tensor_split(t, wanted, dim)


def hsplit(TensorBase input not None, indices_or_sections):
    """`tensor_split` along columns: dimension 1, or 0 of a vector; sections must be of equal length.

    Raises:
        RuntimeError: the size is no multiple of the number of sections

    >>> import flambeau
    >>> flambeau.arange(4).hsplit(2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    if input.rank < 1:
        raise RuntimeError("hsplit(): requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!")
    return split_along(input, indices_or_sections, 0 if input.rank == 1 else 1, "hsplit")


def vsplit(TensorBase input not None, indices_or_sections):
    """`tensor_split` along rows, dimension 0 of at least 2; sections must be of equal length.

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> [part.shape for part in flambeau.zeros(4, 2).vsplit(2)]
    [flambeau.Size([2, 2]), flambeau.Size([2, 2])]
    """
    if input.rank < 2:
        raise RuntimeError(f"vsplit(): requires a tensor with at least 2 dimension, but got a tensor with {input.rank} dimensions!")
    return split_along(input, indices_or_sections, 0, "vsplit")


def dsplit(TensorBase input not None, indices_or_sections):
    """`tensor_split` along depth, dimension 2 of at least 3; sections must be of equal length.

    Raises:
        RuntimeError: there are fewer than three dimensions

    >>> import flambeau
    >>> [part.shape for part in flambeau.zeros(1, 1, 4).dsplit(2)]
    [flambeau.Size([1, 1, 2]), flambeau.Size([1, 1, 2])]
    """
    if input.rank < 3:
        raise RuntimeError(f"dsplit(): requires a tensor with at least 3 dimension, but got a tensor with {input.rank} dimensions!")
    return split_along(input, indices_or_sections, 2, "dsplit")
