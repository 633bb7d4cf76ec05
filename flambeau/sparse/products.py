"""Products of sparse matrices with dense ones, and products sampled at a sparse matrix's places.

All layouts become rows of listed elements (`patterns.Rows`); two functions on them, each the other's derivative, are what
everything is made of: `times` (rows by a dense matrix) and `inner` (inner products at the places that rows list).
"""

from __future__ import annotations

from typing import Any

from ..core import tape
from ..core.base.tensor import TensorBase
from ..core.lib.sparse import sparse_rows
from ..core.make.create import arange
from ..operations.declare.registry import published
from .arithmetic import mixed
from .conversion import FAST
from .making import nothing_like
from .patterns import Coordinates, Rows
from .tensors import SparseTensor, overrides, refusal, sparse, values_of

_stack = published("")["stack"]

HALF = frozenset(("float16", "bfloat16"))


# --- rows ------------------------------
def times(rows: Rows, values: TensorBase, dense: TensorBase) -> TensorBase:
    """Rows with these values times a dense matrix or vector; gradients of any order for both.

    >>> import flambeau
    >>> from flambeau.sparse.patterns import Rows
    >>> from flambeau.sparse.products import times
    >>> rows = Rows(flambeau.tensor([0, 2, 3]), flambeau.tensor([0, 1, 1]), 2, 2)
    >>> times(rows, flambeau.tensor([1.0, 2.0, 3.0]), flambeau.ones(2))
    tensor([3., 3.])
    """
    kind = values.dtype.name
    if kind not in FAST or not values.is_cpu:
        if kind in HALF:
            return times(rows, values.float(), dense.float()).to(values.dtype)
        return _times_in_parts(rows, values, dense)
    result = sparse_rows.product(rows.starts, rows.columns, values, dense)
    if values.requires_grad or dense.requires_grad:
        left, right = tape.tracked(values), tape.tracked(dense)
        inputs = values if left else None, dense if right else None
        # `tape.record`: an operand is a pattern of places, which is no argument that modes could be shown
        tape.record(
            "SparseMmBackward", _times_gradients, inputs, result, (values, dense), (rows, left, right)
        )
    return result


def _times_in_parts(rows: Rows, values: TensorBase, dense: TensorBase) -> TensorBase:
    """For dtypes and devices that have no loop of their own."""
    result = dense.index_select(0, rows.columns.long()) * (values if dense.ndim == 1 else values.unsqueeze(1))
    return result.new_zeros([rows.count, *dense.shape[1:]]).index_add(0, rows.numbers().long(), result)


def _times_gradients(
    grad: TensorBase, values: TensorBase, dense: TensorBase, rows: Rows, left: bool, right: bool
) -> tuple:
    of_values = of_dense = None
    if left:
        flat = (grad.unsqueeze(1), dense.unsqueeze(1)) if grad.ndim == 1 else (grad, dense)
        of_values = inner(rows, *flat)
    if right:
        turned, order = rows.turned()
        of_dense = times(turned, values.index_select(0, order), grad)
    return of_values, of_dense


def inner(rows: Rows, left: TensorBase, right: TensorBase) -> TensorBase:
    """left[i] · right[column] for each place that rows list; gradients of any order for both matrices.

    >>> import flambeau
    >>> from flambeau.sparse.patterns import Rows
    >>> from flambeau.sparse.products import inner
    >>> rows = Rows(flambeau.tensor([0, 2, 3]), flambeau.tensor([0, 1, 1]), 2, 2)
    >>> inner(rows, flambeau.eye(2), flambeau.ones(2, 2))
    tensor([1., 1., 1.])
    """
    kind = left.dtype.name
    if kind in HALF:
        return inner(rows, left.float(), right.float()).to(left.dtype)
    if kind not in FAST or left.device.type != "cpu":
        a, b = (
            left.index_select(0, rows.numbers().long()),
            right.index_select(0, rows.columns.long()),
        )
        return (a * b).sum(1)
    result = sparse_rows.inner(rows.starts, rows.columns, left, right)
    first, second = tape.tracked(left), tape.tracked(right)
    if first or second:
        inputs = left if first else None, right if second else None
        # `tape.record`: an operand is a pattern of places, which is no argument that modes could be shown
        tape.record(
            "SparseInnerBackward", _inner_gradients, inputs, result, (left, right), (rows, first, second)
        )
    return result


def _inner_gradients(
    grad: TensorBase, left: TensorBase, right: TensorBase, rows: Rows, first: bool, second: bool
) -> tuple:
    of_left = times(rows, grad, right) if first else None
    if not second:
        return of_left, None
    turned, order = rows.turned()
    return of_left, times(turned, grad.index_select(0, order), left)


# --- matrices ------------------------------
def _matrix(name: str, x: SparseTensor) -> tuple[Rows, TensorBase]:
    """A sparse matrix as rows and their values."""
    pattern = x._pattern
    rows, order = pattern.rows()
    if rows is None:
        raise RuntimeError(
            f"{name}(): expected a sparse matrix (sparse_dim=2, dense_dim=0), got a tensor of the shape {list(x.shape)} "
            f"with sparse_dim={pattern.sparse_dim} and dense_dim={pattern.dense_dim}"
        )
    values = values_of(x) if x.requires_grad else x._held
    if order is None:
        return rows, values
    return rows, values.reshape(-1).index_select(0, order)


def _need_one_dtype(name: str, a: TensorBase, b: TensorBase) -> None:
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}(): expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}"
        )


def _need_shapes(name: str, a: TensorBase, b: TensorBase) -> None:
    if a.shape[-1] != b.shape[0 if b.ndim == 1 else -2]:
        if b.ndim == 1:
            raise RuntimeError(
                f"{name}(): size mismatch, got {a.shape[0]}, {a.shape[0]}x{a.shape[1]},{b.shape[0]}"
            )
        description = " and ".join("x".join(map(str, x.shape)) for x in (a, b))
        raise RuntimeError(f"{name}(): mat1 and mat2 shapes cannot be multiplied ({description})")


def by_dense(name: str, a: SparseTensor, dense: TensorBase) -> TensorBase:
    """A sparse matrix times a dense matrix or vector.

    >>> import flambeau
    >>> from flambeau.sparse.products import by_dense
    >>> by_dense("mv", flambeau.eye(2).to_sparse_csr(), flambeau.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    rows, values = _matrix(name, a)
    if values.dtype is not dense.dtype:
        _need_one_dtype(name, a, dense)
    shape = dense.shape
    if len(shape) not in (1, 2) or shape[0] != rows.bound:
        _need_shapes(name, a, dense)
        raise RuntimeError(f"{name}(): a matrix or vector expected, got a tensor of the shape {list(shape)}")
    return times(rows, values, dense)


def by_sparse(name: str, a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The product of two sparse matrices, in the layout of the first, or in CSR where that has blocks.

    >>> import flambeau
    >>> from flambeau.sparse.products import by_sparse
    >>> by_sparse("mm", flambeau.eye(2).to_sparse(), flambeau.eye(2).to_sparse()).to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """
    from .multiplied import multiply

    for x in (a, b):
        _matrix(name, x)
    _need_one_dtype(name, a, b)
    _need_shapes(name, a, b)
    if (type(a._pattern) is Coordinates) != (type(b._pattern) is Coordinates):
        raise mixed(name, a, b)
    return multiply(a, b)


def _product(name: str, a: Any, b: Any) -> Any:
    """A matrix by a matrix or vector, of which one or both are sparse."""
    if isinstance(a, SparseTensor):
        return by_sparse(name, a, b) if isinstance(b, SparseTensor) else by_dense(name, a, b)
    if a.ndim == 1:
        return by_dense(name, b.t(), a)
    if a.ndim == 2 and b.ndim == 2:
        _need_shapes(name, a, b)
    return by_dense(name, b.t(), a.t()).t()


@overrides("mm", "mv", "dsmm", "hsmm", "spmm")
def _mm(input: Any, mat2: Any = None, *, vec: Any = None) -> Any:
    other = vec if mat2 is None else mat2
    return _product("mv" if other.ndim == 1 else "mm", input, other)


@overrides("matmul")
def _matmul(input: Any, other: Any) -> Any:
    if input.ndim > 2 or other.ndim > 2:
        return _bmm(input, other, name="matmul")
    if isinstance(other, SparseTensor):
        return _product("matmul", input, other)
    return by_dense("matmul", input, other)


@overrides("bmm")
def _bmm(input: Any, mat2: Any, *, name: str = "bmm") -> TensorBase:
    """Sparse matrices in a batch are one matrix of blocks along its diagonal."""
    if not isinstance(input, SparseTensor) and isinstance(mat2, SparseTensor):
        if mat2.ndim != 3:
            raise refusal(name, (mat2,))
        return _bmm(mat2.transpose(1, 2), input.transpose(1, 2), name=name).transpose(1, 2)
    if isinstance(mat2, SparseTensor) or input.ndim != 3 or mat2.ndim != 3:
        raise refusal(name, (input, mat2))
    x = input.to_sparse_coo()
    if x.sparse_dim() != 3 or x.shape[0] != mat2.shape[0] or x.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"{name}(): expected matrices of the shapes (b, n, m) and (b, m, p), the first with sparse_dim=3, got "
            f"{list(input.shape)} and {list(mat2.shape)}"
        )
    _need_one_dtype(name, x, mat2)
    (batch, high, wide), at = x.shape, x._pattern.at
    together = _stack([at[0] * high + at[1], at[0] * wide + at[2]])
    block_diagonal = sparse(
        Coordinates(together, (batch * high, batch * wide), x._pattern.coalesced), values_of(x)
    )
    return by_dense(name, block_diagonal, mat2.reshape(batch * wide, -1)).reshape(batch, high, mat2.shape[2])


def _scaled(product: Any, input: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * product; `input` is not read where beta is 0."""
    product = product if alpha == 1 else product * alpha
    if beta == 0 and not isinstance(input, SparseTensor):
        return product
    if isinstance(product, SparseTensor) and not isinstance(input, SparseTensor):
        product = product.to_dense()
    input = input if beta == 1 else input * beta
    return input + product


@overrides("addmm", "saddmm")
def _addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _scaled(_product("addmm", mat1, mat2), input, beta, alpha)


@overrides("addmm_")
def _addmm_(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    result = _addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return input._become(result, "addmm_") if isinstance(input, SparseTensor) else input.copy_(result)


@overrides("addmv")
def _addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _scaled(_product("addmv", mat, vec), input, beta, alpha)


@overrides("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if isinstance(input, SparseTensor) and isinstance(weight, SparseTensor):
        raise refusal("linear", (input, weight))
    if not isinstance(input, SparseTensor) and input.ndim > 2:
        return _linear(input.reshape(-1, input.shape[-1]), weight, bias).reshape(
            *input.shape[:-1], weight.shape[0]
        )
    result = _product("linear", input, weight.t())
    return result if bias is None else result + bias


# --- functions of their own ------------------------------
def _check_coordinates(who: str, x: TensorBase) -> None:
    if not isinstance(x, SparseTensor) or type(x._pattern) is not Coordinates:
        raise RuntimeError(f"{who}(): expected a sparse tensor in coordinates, got the layout {x.layout}")


def smm(input: SparseTensor, mat: TensorBase) -> SparseTensor:
    """A sparse matrix times a dense one, in coordinates.

    >>> import flambeau
    >>> flambeau.smm(flambeau.eye(2).to_sparse(), flambeau.ones(2, 2))._nnz()
    4
    """
    _check_coordinates("smm", input)
    return sspaddmm(nothing_like(input, (input.shape[0], mat.shape[1])), input, mat)


def sspaddmm(
    input: SparseTensor, mat1: SparseTensor, mat2: TensorBase, *, beta: Any = 1, alpha: Any = 1
) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2), where all but `mat2` and the result are sparse, in coordinates.

    >>> import flambeau
    >>> eye = flambeau.eye(2).to_sparse()
    >>> flambeau.sspaddmm(eye, eye, flambeau.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    _check_coordinates("sspaddmm", input)
    _check_coordinates("sspaddmm", mat1)
    product = hspmm(mat1, mat2)
    pattern, wide = product._pattern, mat2.shape[1]
    columns = arange(wide, device=mat2.device)
    row = pattern.at[0].repeat_interleave(wide)
    at = _stack([row, columns.repeat(pattern.at.shape[1])])
    flat = sparse(Coordinates(at, product.shape, True), values_of(product).reshape(-1))
    return _scaled(flat, input, beta, alpha)


def hspmm(mat1: SparseTensor, mat2: TensorBase) -> SparseTensor:
    """A sparse matrix in coordinates times a dense one, as the rows of the product that are not all zero: sparse_dim is 1.

    >>> import flambeau
    >>> flambeau.hspmm(flambeau.tensor([[0.0, 0.0], [2.0, 0.0]]).to_sparse(), flambeau.ones(2, 3))
    tensor(indices=tensor([[1]]),
           values=tensor([[2., 2., 2.]]),
           size=(2, 3), nnz=1, layout=flambeau.sparse_coo)
    """
    _check_coordinates("hspmm", mat1)
    product = by_dense("hspmm", mat1, mat2)
    listed = mat1._pattern.at[0].unique()
    return sparse(Coordinates(listed.unsqueeze(0), product.shape, True), product.index_select(0, listed))
