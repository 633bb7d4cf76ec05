"""What `flambeau.sparse` has beside methods: products with reductions, sampled products, solutions, diagonals."""

from __future__ import annotations

from typing import Any

from ..core import tape
from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.make.create import arange
from ..core.make.literal import as_tensor
from ..operations.declare.registry import published
from .conversion import to_compressed
from .exchange import to_scipy
from .patterns import COMPRESSED, Coordinates
from .products import _matrix, by_dense, by_sparse, inner
from .tensors import SparseTensor, sparse, values_of
from .unary import once

_operations = published("")
_stack, _cat = _operations["stack"], _operations["cat"]
REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "amax", "max": "amax", "amin": "amin", "min": "amin"}


def mm(mat1: SparseTensor, mat2: TensorBase, reduce: str = "sum") -> TensorBase:
    """The product of a sparse matrix and a dense or sparse one; with `reduce` the mean, largest or least of each sum's terms.

    `mat1` is (n, m), `mat2` (m, p); of two sparse ones the result is sparse.  `reduce`: "sum", or for a CSR `mat1` "mean",
    "amax" or "max", "amin" or "min" (over what a row lists; 0 where it lists nothing).  Gradients of `mat1` list what it lists.
    RuntimeError for shapes and dtypes that do not fit.

    >>> import flambeau
    >>> a = flambeau.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]]).to_sparse_csr()
    >>> b = flambeau.tensor([[1.0], [5.0], [3.0]])
    >>> flambeau.sparse.mm(a, b).tolist(), flambeau.sparse.mm(a, b, "mean").tolist()
    ([[7.0], [0.0]], [[3.5], [0.0]])
    """
    if reduce not in REDUCTIONS:
        raise ValueError(f"sparse.mm(): argument 'reduce' must be one of {tuple(REDUCTIONS)}, got {reduce!r}")
    if not isinstance(mat1, SparseTensor):
        if not isinstance(mat2, SparseTensor):
            raise RuntimeError(
                f"sparse.mm(): expected a sparse tensor, got the layouts {mat1.layout} and {mat2.layout}"
            )
        return mat1 @ mat2
    if reduce != "sum":
        return _reduced(mat1, mat2, REDUCTIONS[reduce])
    if isinstance(mat2, SparseTensor):
        return by_sparse("mm", mat1, mat2)
    if mat2.ndim != 2:
        raise RuntimeError(f"mm(): mat2 must be a matrix, got a tensor of the shape {list(mat2.shape)}")
    return by_dense("mm", mat1, mat2)


def _reduced(mat1: SparseTensor, mat2: TensorBase, reduce: str) -> TensorBase:
    if mat1.layout is not formats.sparse_csr or isinstance(mat2, SparseTensor):
        raise RuntimeError(
            f"sparse.mm(): reduce={reduce!r} is for a sparse_csr and a dense matrix, got the layouts {mat1.layout} and "
            f"{mat2.layout}"
        )
    if reduce == "mean":
        starts = mat1.crow_indices()
        counts = (starts[1:] - starts[:-1]).clamp(min=1).to(mat2.dtype).unsqueeze(1)
        return by_dense("mm", mat1, mat2) / counts
    rows, values = _matrix("mm", mat1)
    if mat1.shape[1] != mat2.shape[0] or mat1.dtype != mat2.dtype:
        by_dense("mm", mat1, mat2)  # which tells what does not fit
    terms = mat2.index_select(0, rows.columns.long()) * values.unsqueeze(1)
    index = rows.numbers().long().unsqueeze(1).expand(terms.shape)
    result = terms.new_zeros([rows.count, mat2.shape[1]])
    return result.scatter_reduce(0, index, terms, reduce, include_self=False)


def addmm(
    mat: TensorBase, mat1: TensorBase, mat2: TensorBase, *, beta: Any = 1.0, alpha: Any = 1.0
) -> TensorBase:
    """beta * mat + alpha * (mat1 @ mat2), where `mat1` or `mat2` is sparse; a dense `mat` gives a dense result.

    Shape:
        mat: (n, m) or what broadcasts to it; mat1: (n, k); mat2: (k, m); the result: (n, m)

    Raises:
        RuntimeError: the sizes do not fit

    >>> import flambeau
    >>> flambeau.sparse.addmm(flambeau.ones(2, 2), flambeau.eye(2).to_sparse(), flambeau.ones(2, 2), beta=2)
    tensor([[3., 3.],
            [3., 3.]])
    """
    return _operations["addmm"](mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: SparseTensor, mat1: TensorBase, mat2: TensorBase, *, beta: Any = 1.0, alpha: Any = 1.0
) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2) at the places that `input` (CSR) lists, and there alone.

    `input` is (n, m), `mat1` (n, k), `mat2` (k, m), dense.  Gradients go to all three.  RuntimeError for shapes, layouts and
    dtypes that do not fit.

    >>> import flambeau
    >>> flambeau.sparse.sampled_addmm(flambeau.eye(2).to_sparse_csr(), flambeau.ones(2, 3), flambeau.ones(3, 2)).to_dense()
    tensor([[4., 0.],
            [0., 4.]])
    """
    if not isinstance(input, SparseTensor) or input.layout is not formats.sparse_csr:
        raise RuntimeError(
            f"sampled_addmm(): Expected self to be in the layout sparse_csr but got layout {input.layout}"
        )
    for name, x in (("mat1", mat1), ("mat2", mat2)):
        if isinstance(x, SparseTensor):
            raise RuntimeError(f"sampled_addmm(): Expected {name} to have strided layout but got {x.layout}")
        if x.dtype != input.dtype:
            raise RuntimeError(
                f"sampled_addmm(): Expected {name} and self to have the same dtype, got {x.dtype} and {input.dtype}"
            )
    if input.ndim != 2 or mat1.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(
            f"sampled_addmm(): matrices expected, got {list(input.shape)}, {list(mat1.shape)} and {list(mat2.shape)}"
        )
    if (mat1.shape[0], mat2.shape[1]) != tuple(input.shape) or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sampled_addmm(): self of {list(input.shape)} does not fit mat1 @ mat2 of {list(mat1.shape)} and {list(mat2.shape)}"
        )
    rows, values = _matrix("sampled_addmm", input)
    result = inner(rows, mat1, mat2.t())
    result = result if alpha == 1 else result * alpha
    if beta != 0:
        result = result + (values if beta == 1 else values * beta)
    return sparse(input._pattern, result)


def spsolve(input: SparseTensor, other: TensorBase, *, left: bool = True) -> TensorBase:
    """x with input @ x = other (x @ input = other where `left` is False), for a square CSR matrix; computed by SciPy.

    `other` is (n,) or (n, k).  Gradients go to both; that of `input` lists what it lists.  RuntimeError for other layouts,
    shapes and dtypes than float32, float64 and complex ones, and where the matrix is singular.

    >>> import flambeau
    >>> a = flambeau.tensor([[2.0, 0.0], [1.0, 1.0]]).to_sparse_csr()
    >>> flambeau.sparse.spsolve(a, flambeau.tensor([2.0, 3.0]))
    tensor([1., 2.])
    """
    if not left:
        return spsolve(
            to_compressed(input.t(), formats.sparse_csr, None), other.t() if other.ndim > 1 else other
        ).t()
    if not isinstance(input, SparseTensor) or input.layout is not formats.sparse_csr:
        raise RuntimeError(f"spsolve(): expected a matrix in the layout sparse_csr, got {input.layout}")
    if (
        input.ndim != 2
        or input.shape[0] != input.shape[1]
        or other.shape[0] != input.shape[0]
        or other.ndim > 2
    ):
        raise RuntimeError(
            f"spsolve(): a square matrix and as many rows on the right expected, got {list(input.shape)} and {list(other.shape)}"
        )
    if input.dtype != other.dtype or input.dtype.name not in (
        "float32",
        "float64",
        "complex64",
        "complex128",
    ):
        raise RuntimeError(
            f"spsolve(): one dtype of float32, float64, complex64, complex128 expected, got {input.dtype} and {other.dtype}"
        )
    result = _solved(input, other)
    if tape.tracked(input) or tape.tracked(other):
        values = values_of(input)
        # `tape.record`: an operand is a pattern of places, which is no argument that modes could be shown
        tape.record(
            "SpsolveBackward",
            _solution_gradients,
            (values, other),
            result,
            (values, result),
            (input._pattern,),
        )
    return result


def _solved(input: SparseTensor, other: TensorBase) -> TensorBase:
    import warnings

    from scipy.sparse import linalg

    matrix = to_scipy(input.detach().cpu()).tocsc()
    with warnings.catch_warnings():
        warnings.simplefilter("error", linalg.MatrixRankWarning)
        try:
            result = linalg.spsolve(matrix, other.detach().cpu().numpy())
        except linalg.MatrixRankWarning:
            raise RuntimeError("spsolve(): the matrix is singular") from None
    return as_tensor(result).to(other.device).to(other.dtype).reshape(other.shape)


def _solution_gradients(grad: TensorBase, values: TensorBase, result: TensorBase, pattern: Any) -> tuple:
    matrix = sparse(pattern, values)
    turned = to_compressed(matrix.conj().t() if values.is_complex() else matrix.t(), formats.sparse_csr, None)
    of_other = spsolve(turned, grad)
    rows, order = pattern.rows()
    flat = (of_other.unsqueeze(1), result.unsqueeze(1)) if result.ndim == 1 else (of_other, result)
    if values.is_complex():
        flat = flat[0], flat[1].conj()
    return -inner(rows, *flat), of_other


def spdiags(
    diagonals: TensorBase, offsets: TensorBase, shape: tuple[int, int], layout: Any = None
) -> SparseTensor:
    """A matrix of diagonals: row i of `diagonals` (k, n) lies on the diagonal `offsets[i]` (0 the main one, above it positive).

    Element (i, j) of `diagonals` stands in column j.  `layout` is `sparse_coo` (None), `sparse_csr` or `sparse_csc`; the
    gradient goes to `diagonals`.  RuntimeError for offsets that are not different integers, and other shapes and layouts.

    >>> import flambeau
    >>> flambeau.sparse.spdiags(flambeau.arange(1.0, 4.0).reshape(1, 3), flambeau.tensor([1]), (3, 3)).to_dense()
    tensor([[0., 2., 0.],
            [0., 0., 3.],
            [0., 0., 0.]])
    """
    diagonals = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    offsets = offsets.reshape(-1)
    if layout not in (None, formats.sparse_coo, formats.sparse_csr, formats.sparse_csc):
        raise RuntimeError(
            f"spdiags(): Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}"
        )
    if len(shape) != 2 or diagonals.ndim != 2 or offsets.dtype.name != "int64":
        raise RuntimeError(
            f"spdiags(): diagonals of two dimensions, offsets of int64 and a shape of two numbers expected, got "
            f"{list(diagonals.shape)}, {offsets.dtype} and {tuple(shape)}"
        )
    if diagonals.shape[0] != offsets.shape[0]:
        raise RuntimeError(
            f"spdiags(): Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets ({offsets.shape[0]})"
        )
    if offsets.unique().shape[0] != offsets.shape[0]:
        raise RuntimeError("spdiags(): Offset tensor contains duplicate values")
    rows, columns, parts = [], [], []
    for k, offset in enumerate(offsets.tolist()):
        first, last = max(offset, 0), min(shape[1], shape[0] + offset, diagonals.shape[1])
        column = arange(first, max(first, last), device=diagonals.device)
        columns.append(column)
        rows.append(column - offset)
        parts.append(diagonals[k].index_select(0, column))
    at = _stack([_cat(rows), _cat(columns)]) if rows else offsets.new_zeros([2, 0])
    values = _cat(parts) if parts else diagonals.reshape(-1)
    made = sparse(Coordinates(at, shape, False), values)
    return to_compressed(made, layout, None) if layout in COMPRESSED else made


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """`gradcheck` for functions with sparse arguments: they are checked by the values that they list.

    Raises:
        TypeError: the argument cannot be called, as soon as the result is

    >>> import flambeau
    >>> check = flambeau.sparse.as_sparse_gradcheck(flambeau.autograd.gradcheck)
    >>> x = flambeau.eye(2, dtype=flambeau.float64).to_sparse_csr().requires_grad_()
    >>> check(lambda x: x.to_dense(), x)
    True
    """

    def checked(func: Any, inputs: Any, masked: bool = True, **options: Any) -> Any:
        operands = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        patterns = [x._pattern if isinstance(x, SparseTensor) else None for x in operands]
        flat = [
            x if p is None else x._held.clone().requires_grad_(x.requires_grad)
            for x, p in zip(operands, patterns)
        ]

        def of_values(*values: Any) -> Any:
            result = func(*(v if p is None else sparse(p, v) for v, p in zip(values, patterns)))
            several = result if isinstance(result, (tuple, list)) else (result,)
            dense = tuple(values_of(once(y)) if isinstance(y, SparseTensor) else y for y in several)
            return dense if isinstance(result, (tuple, list)) else dense[0]

        return gradcheck(of_values, tuple(flat), **options)

    return checked
