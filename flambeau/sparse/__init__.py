"""Sparse tensors: those that are mostly zero, as a list of the others.

The class itself is imported with the first sparse tensor.  From then on every operation asks whether one is among its
arguments (see `flambeau.overrides`), which costs other tensors some 50 ns a call.
"""

from typing import Any as _Any

from ..core.base import formats as _formats
from ..core.base.callbacks import set_callback as _provide
from ..core.base.lazily import lazily as _lazily
from ..core.base.tensor import TensorBase as _TensorBase
from ..core.call.function import BuiltIn as _BuiltIn

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "from_scipy",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]

_METHODS = ("SparseTensor", *(name for name in __all__ if name != "check_sparse_tensor_invariants"))
_CLASSES = tuple(f"{kind}Tensor" for kind in "Double Float Half BFloat16 Byte Char Short Int Long".split())
__getattr__, __dir__ = _lazily(
    __name__,
    (),
    {
        **dict.fromkeys(_METHODS, ".methods"),
        **dict.fromkeys(_CLASSES, "._typed"),
        "check_sparse_tensor_invariants": ".invariants",
    },
)


# --- made of parts ------------------------------
@_BuiltIn
def sparse_coo_tensor(
    indices: _Any = None,
    values: _Any = None,
    size: _Any = None,
    *,
    dtype: _Any = None,
    device: _Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> _TensorBase:
    """A sparse tensor in coordinates: `values` (nnz, …) at `indices` (sparse dimensions, nnz), zeros elsewhere.

    Values at the same place add up.  `size` is the whole shape: sparse dimensions, then those that a value has; by
    default the smallest that holds all indices.  `sparse_coo_tensor(size)` alone has no values.  `dtype` and `device`
    are those of the values, whose memory is shared where they fit.  `is_coalesced` says that indices are sorted and
    differ.  Indices are compared with the size unless `check_invariants` is False.

    RuntimeError for indices that are no matrix or outside `size`, and for values that do not fit them.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 2, 2]], [3.0, 4.0, 5.0], (4,))
    >>> x
    tensor(indices=tensor([[0, 2, 2]]),
           values=tensor([3., 4., 5.]),
           size=(4,), nnz=3, layout=flambeau.sparse_coo)
    >>> x.to_dense()
    tensor([3., 0., 9., 0.])
    """
    from .methods import in_coordinates

    return in_coordinates(indices, values, size, dtype, device, requires_grad, check_invariants, is_coalesced)


@_BuiltIn
def sparse_compressed_tensor(
    compressed_indices: _Any,
    plain_indices: _Any,
    values: _Any,
    size: _Any = None,
    *,
    dtype: _Any = None,
    layout: _Any = None,
    device: _Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> _TensorBase:
    """A sparse tensor in one of the compressed `layout`s: `sparse_csr`, `sparse_csc`, `sparse_bsr`, `sparse_bsc`.

    `compressed_indices` (batch …, n + 1) say where each of n rows (columns) begins among `plain_indices` (batch …, nnz), the
    columns (rows) of `values` (batch …, nnz, block …, dense …).  Indices are int32 or int64.  `size` is (batch …, rows,
    columns, dense …), by default the smallest.  RuntimeError names the rule that parts break, and where; the indices are not
    looked at where `check_invariants` is False, and whether those of a row are sorted and distinct only where it is True.

    >>> import flambeau
    >>> flambeau.sparse_compressed_tensor([0, 1, 2], [1, 0], [5.0, 6.0], layout=flambeau.sparse_csr).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    from .methods import compressed

    parts = compressed_indices, plain_indices, values, size
    return compressed(
        "sparse_compressed_tensor", layout, *parts, dtype, device, requires_grad, check_invariants
    )


@_BuiltIn
def sparse_csr_tensor(
    crow_indices: _Any,
    col_indices: _Any,
    values: _Any,
    size: _Any = None,
    *,
    dtype: _Any = None,
    device: _Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> _TensorBase:
    """A sparse tensor whose elements are listed row by row; see `sparse_compressed_tensor`.

    RuntimeError names the rule that the parts break, and where.

    Shape:
        crow_indices: (rows + 1,); col_indices: (nnz,); values: (nnz, *dense dimensions); all may have those
            of a batch before

    >>> import flambeau
    >>> flambeau.sparse_csr_tensor([0, 1, 2], [1, 0], [5.0, 6.0]).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    from .methods import compressed

    parts = crow_indices, col_indices, values, size
    options = dtype, device, requires_grad, check_invariants
    return compressed("sparse_csr_tensor", _formats.sparse_csr, *parts, *options)


@_BuiltIn
def sparse_csc_tensor(
    ccol_indices: _Any,
    row_indices: _Any,
    values: _Any,
    size: _Any = None,
    *,
    dtype: _Any = None,
    device: _Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> _TensorBase:
    """A sparse tensor whose elements are listed column by column; see `sparse_compressed_tensor`.

    RuntimeError names the rule that the parts break, and where.

    Shape:
        ccol_indices: (columns + 1,); row_indices: (nnz,); values: (nnz, *dense dimensions); all may have
            those of a batch before

    >>> import flambeau
    >>> flambeau.sparse_csc_tensor([0, 1, 2], [1, 0], [5.0, 6.0]).to_dense()
    tensor([[0., 6.],
            [5., 0.]])
    """
    from .methods import compressed

    parts = ccol_indices, row_indices, values, size
    options = dtype, device, requires_grad, check_invariants
    return compressed("sparse_csc_tensor", _formats.sparse_csc, *parts, *options)


@_BuiltIn
def sparse_bsr_tensor(
    crow_indices: _Any,
    col_indices: _Any,
    values: _Any,
    size: _Any = None,
    *,
    dtype: _Any = None,
    device: _Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> _TensorBase:
    """A sparse tensor whose elements (nnz, high, wide) are listed in blocks, row by row; see `sparse_compressed_tensor`.

    RuntimeError names the rule that the parts break, and where.

    >>> import flambeau
    >>> flambeau.sparse_bsr_tensor([0, 1], [1], [[[5.0], [6.0]]]).to_dense()
    tensor([[0., 5.],
            [0., 6.]])
    """
    from .methods import compressed

    parts = crow_indices, col_indices, values, size
    options = dtype, device, requires_grad, check_invariants
    return compressed("sparse_bsr_tensor", _formats.sparse_bsr, *parts, *options)


@_BuiltIn
def sparse_bsc_tensor(
    ccol_indices: _Any,
    row_indices: _Any,
    values: _Any,
    size: _Any = None,
    *,
    dtype: _Any = None,
    device: _Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> _TensorBase:
    """A sparse tensor whose elements (nnz, high, wide) are listed in blocks, column by column; see `sparse_compressed_tensor`.

    RuntimeError names the rule that the parts break, and where.

    >>> import flambeau
    >>> flambeau.sparse_bsc_tensor([0, 0, 1], [0], [[[5.0], [6.0]]]).to_dense()
    tensor([[0., 5.],
            [0., 6.]])
    """
    from .methods import compressed

    parts = ccol_indices, row_indices, values, size
    options = dtype, device, requires_grad, check_invariants
    return compressed("sparse_bsc_tensor", _formats.sparse_bsc, *parts, *options)


def _of_gradient(indices: _TensorBase, values: _TensorBase, size: _Any) -> _TensorBase:
    """A sparse tensor of parts that fit."""
    from .methods import of_gradient

    return of_gradient(indices, values, size)


# --- methods of all tensors ------------------------------
def to_dense(self: _TensorBase, dtype: _Any = None, *, masked_grad: bool | None = None) -> _TensorBase:
    """The same elements with all zeros; of a dense tensor itself.  `dtype` is the result's.

    The gradient of a sparse tensor lists what it lists, or with `masked_grad=False` every element that is not zero.

    Shape:
        self: any; the result has the same

    Raises:
        RuntimeError: `dtype` is a text that names no device

    >>> import flambeau
    >>> flambeau.eye(2).to_sparse().to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """
    return self if dtype is None else self.to(dtype)


def _lazy(home: str, name: str, text: str) -> _Any:
    """A method of all tensors that stands in a module which is imported with the first call."""

    def method(self: _TensorBase, *args: _Any, **kwargs: _Any) -> _Any:
        from importlib import import_module

        import_module(".methods", __package__)
        return getattr(import_module(home, __package__), name)(self, *args, **kwargs)

    return _named(method, name, text)


def _named(method: _Any, name: str, text: str) -> _Any:
    """A method as it is found by name, with its docstring."""
    method.__doc__ = text
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__module__ = __name__.partition(".")[0]
    return method


def _not_dense(name: str, kind: str, text: str, shape: str, shown: str) -> _Any:
    """A method that tensors of another layout have."""

    def method(self: _TensorBase, *args: _Any) -> _Any:
        raise RuntimeError(f"{name} expected sparse {kind}tensor layout but got Strided")

    makes = _MAKES.get(name, "to_sparse()")
    description = f"""{text}.

    Shape:
        self: {_taken(kind)}; the result: {shape}

    Raises:
        RuntimeError: the tensor is not of a sparse {kind}layout

    >>> import flambeau
    >>> flambeau.eye(2).{makes}.{name}()
    {shown}
    """
    return _named(method, name, description)


def _taken(kind: str) -> str:
    """The shapes of tensors of a layout."""
    return "(*, rows, columns)" if "compressed" in kind else "any"


def _copied(name: str) -> _Any:
    """What a method of a sparse tensor returns, in memory of its own."""

    def copied(self: _TensorBase) -> _TensorBase:
        return getattr(self, name)().clone()

    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    kind, _, shape, _ = _KINDS[name]
    copied.__doc__ = f"""`x.{name}()` in memory of its own.

    Shape:
        self: {_taken(kind)}; the result: {shape}

    Raises:
        RuntimeError: the tensor is not of a sparse {kind}layout

    >>> import flambeau
    >>> x = flambeau.eye(2).{_MAKES[name]}
    >>> flambeau.{name}_copy(x).data_ptr() == x.{name}().data_ptr()
    False
    """
    return copied


def _converted(text: str, layout: str, wanted: str, refused: str, arguments: str = "") -> tuple[str, str]:
    """The docstring of a conversion."""
    return (
        f"""The same elements {text}.

    Shape:
        self: {wanted}; the result has the same

    Raises:
        {refused}

    >>> import flambeau
    >>> flambeau.eye(2).""",
        f"""({arguments}).layout
    flambeau.{layout}
    """,
    )


_MATRIX = "a matrix or a batch of them, and `dense_dim` dimensions"
_FEW, _BLOCK = (
    "RuntimeError: there are less than two dimensions besides `dense_dim`",
    "RuntimeError: `blocksize` is not two numbers that divide the matrix",
)
_LISTED = "as a list by compressed {}, without the zeros"
_CONVERSIONS = {
    name: name.join(_converted(*arguments))
    for name, arguments in {
        "to_sparse": (
            "without the zeros, in coordinates or in the `layout` given",
            *(
                "sparse_coo",
                "any",
                "RuntimeError: `sparse_dim` is not between 0 and the number of dimensions, or `layout` is not sparse",
            ),
        ),
        "to_sparse_coo": (
            "without the zeros, each with its coordinates",
            "sparse_coo",
            "any",
            "the tensor is nested",
        ),
        "to_sparse_csr": (_LISTED.format("rows"), "sparse_csr", _MATRIX, _FEW),
        "to_sparse_csc": (_LISTED.format("columns"), "sparse_csc", _MATRIX, _FEW),
        "to_sparse_bsr": (_LISTED.format("rows of blocks"), "sparse_bsr", _MATRIX, _BLOCK, "(1, 1)"),
        "to_sparse_bsc": (_LISTED.format("columns of blocks"), "sparse_bsc", _MATRIX, _BLOCK, "(1, 1)"),
    }.items()
}
_PAIRS = "tensor([[0, 1],\n            [0, 1]])"
_SORTED = """tensor(indices=tensor([[0, 1],
                           [0, 1]]),
           values=tensor([1., 1.]),
           size=(2, 2), nnz=2, layout=flambeau.sparse_coo)"""
_COORDINATE, _ROWS, _COLUMNS = "coordinate ", "row compressed ", "column compressed "
_BATCH = "behind those of a batch"
# The layout that a message names, what the method gives, the shape of that, and what an identity matrix of two rows shows.
_KINDS = {
    "indices": (
        _COORDINATE,
        "Where the values of a sparse tensor stand, sorted and without doubles",
        *("(sparse dimensions, values)", _PAIRS),
    ),
    "coalesce": (
        _COORDINATE,
        "The same sparse tensor with sorted coordinates, where values at the same place are added",
        *("the same", _SORTED),
    ),
    "is_coalesced": (_COORDINATE, "Whether the coordinates are sorted and differ", "none, a bool", "True"),
    "_indices": (
        _COORDINATE,
        "The coordinates as they are, perhaps with doubles",
        *("(sparse dimensions, values)", _PAIRS),
    ),
    "crow_indices": (
        _ROWS,
        "Where each row begins among the values",
        *(f"(rows + 1,), {_BATCH}", "tensor([0, 1, 2])"),
    ),
    "col_indices": (_ROWS, "The column of each value", f"(values,), {_BATCH}", "tensor([0, 1])"),
    "ccol_indices": (
        _COLUMNS,
        "Where each column begins among the values",
        *(f"(columns + 1,), {_BATCH}", "tensor([0, 1, 2])"),
    ),
    "row_indices": (_COLUMNS, "The row of each value", f"(values,), {_BATCH}", "tensor([0, 1])"),
    "values": (
        "",
        "The values that a sparse tensor lists",
        *(f"(values, *dense dimensions), {_BATCH}", "tensor([1., 1.])"),
    ),
    "_values": (
        "",
        "The values as they are, of coordinates perhaps with doubles",
        *(f"(values, *dense dimensions), {_BATCH}", "tensor([1., 1.])"),
    ),
    "_nnz": ("", "How many values a sparse tensor lists", "none, an int", "2"),
}
_MAKES = {
    **dict.fromkeys(("indices", "values"), "to_sparse()"),
    **dict.fromkeys(("crow_indices", "col_indices"), "to_sparse_csr()"),
    **dict.fromkeys(("ccol_indices", "row_indices"), "to_sparse_csc()"),
}
METHODS: dict[str, _Any] = {
    "to_dense": to_dense,
    "sparse_mask": _lazy(
        ".masks",
        "sparse_mask",
        """The elements at the places that a sparse tensor lists, as such a tensor.

    Shape:
        self, mask: any, the same; so is the result's

    Raises:
        TypeError: `mask` is no Tensor
        NotImplementedError: `mask` is not sparse
        RuntimeError: `mask` is of another size

    >>> import flambeau
    >>> flambeau.ones(2, 2).sparse_mask(flambeau.eye(2).to_sparse()).to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """,
    ),
    "to_scipy": _lazy(
        ".exchange",
        "to_scipy",
        """The sparse matrix as SciPy's, of the same layout, in common memory.

    Shape:
        self: (rows, columns); in coordinates any without dense dimensions

    Raises:
        RuntimeError: the tensor is dense, or SciPy has no such layout or shape
        TypeError: NumPy has no such dtype

    >>> import flambeau
    >>> flambeau.eye(2).to_sparse_csr().to_scipy().toarray()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """,
    ),
    **{name: _lazy(".conversion", name, text) for name, text in _CONVERSIONS.items()},
    **{name: _not_dense(name, *arguments) for name, arguments in _KINDS.items()},
    "sparse_dim": _named(
        lambda self: 0,
        "sparse_dim",
        """How many dimensions are listed by coordinates; 0 of a dense tensor.

    Raises:
        TypeError: there is an argument

    >>> import flambeau
    >>> flambeau.eye(2).sparse_dim(), flambeau.eye(2).to_sparse().sparse_dim()
    (0, 2)
    """,
    ),
    "dense_dim": _named(
        lambda self: self.ndim,
        "dense_dim",
        """How many dimensions each listed value has; all of a dense tensor's.

    Raises:
        TypeError: there is an argument

    >>> import flambeau
    >>> flambeau.eye(2).dense_dim(), flambeau.eye(2).to_sparse().dense_dim()
    (2, 0)
    """,
    ),
    "is_sparse_csr": property(lambda self: False, doc="Whether it is a matrix by compressed rows."),
}
COPIES: dict[str, _Any] = {f"{name}_copy": _BuiltIn(_copied(name)) for name in _MAKES}
globals().update(COPIES)


# --- functions of the flat namespace ------------------------------
@_BuiltIn
def smm(input: _TensorBase, mat: _TensorBase) -> _TensorBase:
    """A sparse matrix in coordinates times a dense one, in coordinates.

    Shape:
        input: (n, k); mat: (k, m); the result: (n, m)

    Raises:
        RuntimeError: `input` is not sparse, in coordinates, or the sizes or dtypes do not fit

    >>> import flambeau
    >>> flambeau.smm(flambeau.eye(2).to_sparse(), flambeau.ones(2, 2))._nnz()
    4
    """
    from .methods import products

    return products.smm(input, mat)  # type: ignore[arg-type]


@_BuiltIn
def sspaddmm(
    input: _TensorBase, mat1: _TensorBase, mat2: _TensorBase, *, beta: _Any = 1, alpha: _Any = 1
) -> _TensorBase:
    """beta * input + alpha * (mat1 @ mat2), where `input`, `mat1` and the result are sparse, in coordinates, and `mat2` is dense.

    Shape:
        input: (n, m); mat1: (n, k); mat2: (k, m); the result: (n, m)

    Raises:
        RuntimeError: `input` or `mat1` is not sparse, in coordinates, or the sizes do not fit

    >>> import flambeau
    >>> eye = flambeau.eye(2).to_sparse()
    >>> flambeau.sspaddmm(eye, eye, flambeau.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    from .methods import products

    return products.sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)  # type: ignore[arg-type]


sspaddmm.orders = (("beta", "input", "alpha", "mat1", "mat2"), ("beta", "input", "mat1", "mat2"))


@_BuiltIn
def hspmm(mat1: _TensorBase, mat2: _TensorBase) -> _TensorBase:
    """A sparse matrix in coordinates times a dense one, as the rows of the product that are not all zero: sparse_dim is 1.

    Shape:
        mat1: (n, k); mat2: (k, m); the result: (n, m)

    Raises:
        RuntimeError: `mat1` is not sparse, in coordinates, or the sizes do not fit

    >>> import flambeau
    >>> flambeau.hspmm(flambeau.tensor([[0.0, 0.0], [2.0, 0.0]]).to_sparse(), flambeau.ones(2, 3)).values()
    tensor([[2., 2., 2.]])
    """
    from .methods import products

    return products.hspmm(mat1, mat2)  # type: ignore[arg-type]


@_BuiltIn
def native_norm(input: _TensorBase, p: _Any = 2) -> _TensorBase:
    """The p-norm of all elements of a sparse tensor.

    Shape:
        input: any that is sparse; the result: ()

    Raises:
        TypeError: `input` is no Tensor
        NotImplementedError: `input` is not sparse
        RuntimeError: `p` is no norm of vectors

    >>> import flambeau
    >>> flambeau.native_norm(flambeau.sparse_coo_tensor([[0, 2]], [3.0, 4.0]))
    tensor(5.)
    """
    from .methods import reductions

    return reductions.native_norm(input, p)  # type: ignore[arg-type]


@_BuiltIn
def resize_as_sparse_(input: _TensorBase, the_template: _TensorBase) -> _TensorBase:
    """Give a tensor in coordinates the size and kinds of dimensions of another.

    Raises:
        TypeError: an argument is no Tensor
        RuntimeError: one is not sparse, or the dimensions are other ones, and the tensor lists something

    >>> import flambeau
    >>> flambeau.resize_as_sparse_(flambeau.sparse_coo_tensor((2,)), flambeau.eye(3).to_sparse()).shape
    flambeau.Size([3, 3])
    """
    from .methods import masks

    return masks.resize_as_sparse_(input, the_template)  # type: ignore[arg-type]


def _of_gathered(grad: _TensorBase, index: _TensorBase, dim: int, size: _Any) -> _TensorBase:
    """The gradient of what was gathered along a dimension, at the places read."""
    from .methods import of_gathered

    return of_gathered(grad, index, dim, size)


_provide("sparse_coo", _of_gradient)
_provide("sparse_coo_gathered", _of_gathered)
