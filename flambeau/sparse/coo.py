"""Sparse tensors in coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import promote_types
from ..core.base.formats import sparse_coo
from ..core.base.tensor import TensorBase
from ..core.make.create import empty, zeros
from ..operations.declare.registry import published

_operations = published("")
_cat = _operations["cat"]


class SparseTensor(Tensor):
    """A tensor whose elements are zero but at the places it lists.

    Made by `sparse_coo_tensor`.  It is a tensor of its shape on `meta`, so that no operation finds elements where there
    are none, with `_indices()` (sparse dimensions, nnz) and `_values()` (nnz, dense dimensions …); an operation takes it
    where it stands in `ANSWERS`, and is refused by NotImplementedError, which names the operation, elsewhere.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 2]], [3.0, 4.0], (4,))
    >>> (2 * x).to_dense()
    tensor([6., 0., 8., 0.])
    >>> x.exp()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotImplementedError: exp(): not available for tensors of layout flambeau.sparse_coo; ...
    """

    _at: Any
    _held: Any
    _is_coalesced: bool

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        answer = ANSWERS.get(func.__name__)
        if answer is None:
            raise NotImplementedError(
                f"{func.__name__}(): not available for tensors of layout {sparse_coo}; make them dense with to_dense()"
            )
        return answer(*args, **(kwargs or {}))

    # --- what it is made of ---
    def _indices(self) -> TensorBase:
        return self._at

    def _values(self) -> TensorBase:
        return self._held

    def _nnz(self) -> int:
        return self._held.shape[0]

    def indices(self) -> TensorBase:
        """The places, sorted and each once: (sparse dimensions, nnz); RuntimeError unless coalesced."""
        self._need_coalesced("indices")
        return self._at

    def values(self) -> TensorBase:
        """The elements at the places: (nnz, dense dimensions …); RuntimeError unless coalesced."""
        self._need_coalesced("values")
        return self._held

    def _need_coalesced(self, what: str) -> None:
        if not self._is_coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def is_coalesced(self) -> bool:
        """Whether the places are sorted and differ."""
        return self._is_coalesced

    def sparse_dim(self) -> int:
        """How many dimensions are listed by index."""
        return self._at.shape[0]

    def dense_dim(self) -> int:
        """How many dimensions each listed value has."""
        return self.ndim - self._at.shape[0]

    @property
    def layout(self) -> Any:  # type: ignore[override]
        """`flambeau.sparse_coo`."""
        return sparse_coo

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return True

    @property
    def device(self) -> Any:  # type: ignore[override]
        return self._held.device

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return self._held.is_cpu

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return self._held.is_cuda

    @property
    def is_opencl(self) -> bool:  # type: ignore[override]
        return self._held.is_opencl

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        return self._held.is_meta

    # --- other forms ---
    def coalesce(self) -> SparseTensor:
        """The same tensor with sorted places, each once: values at the same place are added."""
        if self._is_coalesced:
            return self
        keys, places = self._keys().unique(return_inverse=True)
        values = self._held.new_zeros([keys.shape[0], *self._held.shape[1:]]).index_add(0, places, self._held)
        rest, rows = keys, []
        for length in reversed(self.shape[1 : self.sparse_dim()]):
            rows.append(rest % length)
            rest = rest // length
        at = (
            _operations["stack"]([rest, *reversed(rows)])
            if self.sparse_dim()
            else self._at[:, : keys.shape[0]]
        )
        return coo(at, values, self.shape, True)

    def _keys(self) -> TensorBase:
        """The places as single numbers, row by row."""
        keys = self._at.new_zeros([self._nnz()])
        for row, length in zip(self._at, self.shape):
            keys = keys * length + row
        return keys

    def to_dense(self) -> TensorBase:  # type: ignore[override]
        """The same elements with all zeros."""
        n = self.sparse_dim()
        flat = self._held.new_zeros([math.prod(self.shape[:n]), *self.shape[n:]])
        return flat.index_add(0, self._keys(), self._held).reshape(self.shape)

    def to_sparse(self, sparse_dim: int | None = None) -> SparseTensor:  # type: ignore[override]
        """Itself; RuntimeError where `sparse_dim` is another number than its own."""
        if sparse_dim not in (None, self.sparse_dim()):
            raise RuntimeError(
                f"to_sparse(): got sparse_dim={sparse_dim} for a tensor of {self.sparse_dim()}"
            )
        return self

    def untyped_storage(self) -> Any:
        """NotImplementedError: it has no storage of its own."""
        raise NotImplementedError("Cannot access storage of a sparse tensor; see _indices() and _values()")

    def data_ptr(self) -> int:
        """NotImplementedError: it has no memory of its own."""
        raise NotImplementedError("Cannot access the memory of a sparse tensor; see _indices() and _values()")

    def stride(self, dim: Any = None) -> Any:
        """NotImplementedError: its elements have no strides."""
        raise NotImplementedError("Sparse tensors do not have strides")

    @property
    def data(self) -> Any:  # type: ignore[override]
        """The tensor as a constant."""
        return self._as(self._held.data)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        lines = [
            f"{name}=" + repr(x).replace("\n", "\n" + " " * (len(name) + 8))
            for name, x in (("indices", self._at), ("values", self._held.detach()))
        ]
        lines.append(f"size={tuple(self.shape)}, nnz={self._nnz()}, layout={sparse_coo}")
        return f"tensor({(',' + chr(10) + ' ' * 7).join(lines)})"

    def __deepcopy__(self, memo: dict) -> SparseTensor:  # type: ignore[override]
        if id(self) not in memo:
            memo[id(self)] = self._as(self._held.detach().clone(), self._at.clone())
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return coo, (self._at, self._held.detach(), tuple(self.shape), self._is_coalesced)

    def _as(self, values: TensorBase, at: TensorBase | None = None) -> SparseTensor:
        """Other values at the same places."""
        return coo(self._at if at is None else at, values, self.shape, self._is_coalesced)

    def _become(self, other: SparseTensor) -> SparseTensor:
        """Write in place: the places and values of another."""
        if other._held.dtype != self.dtype:
            other = other._as(other._held.to(self.dtype))
        self._at, self._held, self._is_coalesced = other._at, other._held, other._is_coalesced
        return self


def coo(indices: TensorBase, values: TensorBase, size: Any, coalesced: bool) -> SparseTensor:
    """A sparse tensor of parts that fit.

    `indices` is (sparse dimensions, nnz), `values` (nnz, dense dimensions …); nothing is checked.

    >>> import flambeau
    >>> from flambeau.sparse.coo import coo
    >>> coo(flambeau.tensor([[0, 2]]), flambeau.tensor([3.0, 4.0]), (4,), True).to_dense()
    tensor([3., 0., 4., 0.])
    """
    shape = empty(tuple(size), dtype=values.dtype, device="meta")
    made = SparseTensor._make_subclass(SparseTensor, shape)
    made._at, made._held = indices.detach(), values
    made._is_coalesced = coalesced or values.shape[0] < 2
    return made


def checked(indices: TensorBase, values: TensorBase, size: Any) -> tuple[int, ...]:
    """The size of a sparse tensor of these parts; RuntimeError where they do not fit.

    `size` None is the smallest that holds all indices.

    >>> import flambeau
    >>> from flambeau.sparse.coo import checked
    >>> checked(flambeau.tensor([[0, 2], [1, 0]]), flambeau.ones(2, 5), None)
    (3, 2, 5)
    >>> checked(flambeau.tensor([[0, 2]]), flambeau.ones(2), (2,))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: sparse_coo_tensor(): size is inconsistent with indices: ...
    """
    who = "sparse_coo_tensor"
    if indices.ndim != 2:
        raise RuntimeError(
            f"{who}(): indices must have sparse_dim-by-nnz elements, a matrix, got the shape {tuple(indices.shape)}"
        )
    sparse_dim, nnz = indices.shape
    if values.ndim < 1 or values.shape[0] != nnz:
        raise RuntimeError(
            f"{who}(): indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: "
            f"{values.shape[0] if values.ndim else 'none (a number)'}"
        )
    known = nnz > 0 and not indices.is_meta
    least = indices.amin(1).tolist() if known else [0] * sparse_dim
    most = indices.amax(1).tolist() if known else [-1] * sparse_dim
    if min(least, default=0) < 0:
        raise RuntimeError(f"{who}(): found negative index {min(least)} for dim {least.index(min(least))}")
    if size is None:
        return (*(m + 1 for m in most), *values.shape[1:])
    size = tuple(size)
    if len(size) != sparse_dim + values.ndim - 1:
        raise RuntimeError(
            f"{who}(): number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({values.ndim - 1}), "
            f"but got {len(size)}"
        )
    for dim, (length, m) in enumerate(zip(size, most)):
        if m >= length:
            raise RuntimeError(
                f"{who}(): size is inconsistent with indices: for dim {dim}, size is {length} but found index {m}"
            )
    if size[sparse_dim:] != tuple(values.shape[1:]):
        raise RuntimeError(
            f"{who}(): values has incorrect size, expected {[nnz, *size[sparse_dim:]]}, got {list(values.shape)}"
        )
    return size


def from_dense(x: TensorBase, sparse_dim: int) -> SparseTensor:
    """The elements that are not zero; those of the dimensions after the first `sparse_dim` together.

    Raises RuntimeError when `sparse_dim` is not in [0, x.ndim].

    >>> import flambeau
    >>> from flambeau.sparse.coo import from_dense
    >>> x = from_dense(flambeau.tensor([[0.0, 0.0], [0.0, 2.0]]), 1)
    >>> x.indices(), x.values()
    (tensor([[1]]), tensor([[0., 2.]]))
    """
    if not 0 <= sparse_dim <= x.ndim:
        raise RuntimeError(f"to_sparse(): sparse_dim must be in [0, {x.ndim}], got {sparse_dim}")
    some = x != 0
    for _ in range(x.ndim - sparse_dim):
        some = some.any(-1)
    at = some.nonzero().T.contiguous()
    return coo(at, x[tuple(at)] if sparse_dim else x.unsqueeze(0), x.shape, True)


# --- operations ------------------------------
def _is_number(x: Any) -> bool:
    return not isinstance(x, SparseTensor) and (not isinstance(x, TensorBase) or x.ndim == 0)


def _refused(name: str, a: Any, b: Any) -> NotImplementedError:
    kinds = [
        "sparse" if isinstance(x, SparseTensor) else "dense" if isinstance(x, TensorBase) else "a number"
        for x in (a, b)
    ]
    return NotImplementedError(
        f"{name}(): not available for {kinds[0]} and {kinds[1]}; make them dense with to_dense()"
    )


def _same_size(name: str, a: TensorBase, b: TensorBase) -> None:
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}(): expected tensors of the same size where one is sparse, got {tuple(a.shape)} and {tuple(b.shape)}"
        )


def _add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Of two sparse tensors a sparse one with the places of both, of a sparse and a dense one a dense one."""
    if not isinstance(input, TensorBase) or not isinstance(other, TensorBase):
        raise _refused("add", input, other)
    _same_size("add", input, other)
    if isinstance(input, SparseTensor) and isinstance(other, SparseTensor):
        if input.sparse_dim() != other.sparse_dim():
            raise RuntimeError(
                f"add(): expected sparse tensors of the same sparse_dim, got {input.sparse_dim()} and {other.sparse_dim()}"
            )
        values = other._held if alpha == 1 else other._held * alpha
        return coo(_cat([input._at, other._at], 1), _cat([input._held, values]), input.shape, False)
    if isinstance(input, SparseTensor):
        return _add_into((other if alpha == 1 else other * alpha).clone(), input, 1)
    return _add_into(input.to(promote_types(input.dtype, other.dtype), copy=True), other, alpha)


def _add_into(dense: TensorBase, other: SparseTensor, alpha: Any) -> TensorBase:
    values = (other._held if alpha == 1 else other._held * alpha).to(dense.dtype)
    if other.sparse_dim():
        return dense.index_put_(tuple(other._at), values, accumulate=True)
    return dense.add_(values.sum(0))


def _add_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """In place; where a dense tensor is added to a sparse one, another, dense one: a sparse one cannot hold it."""
    _same_size("add_", input, other)
    if isinstance(input, SparseTensor):
        found = _add(input, other, alpha=alpha)
        return input._become(found) if isinstance(found, SparseTensor) else found
    return _add_into(input, other, alpha)


def _sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _add(input, other, alpha=-alpha)


def _sub_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _add_(input, other, alpha=-alpha)


def _mul(input: Any, other: Any) -> Any:
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if not _is_number(other):
        raise _refused("mul", input, other)
    return input._as(input._held * other)


def _div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if not isinstance(input, SparseTensor) or not _is_number(other) or rounding_mode is not None:
        raise _refused("div", input, other)
    return input._as(input._held / other)


def _in_place(answer: Callable[..., Any]) -> Callable[..., Any]:
    return lambda input, *args, **kwargs: input._become(answer(input, *args, **kwargs))


def _of_values(name: str) -> Callable[..., Any]:
    """An operation on each listed value, whatever its place."""

    def answer(input: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        return input._as(getattr(input._held, name)(*args, **kwargs))

    return answer


def _moved(name: str) -> Callable[..., Any]:
    """A conversion of values and, where the device changes, places."""

    def answer(input: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        values = getattr(input._held, name)(*args, **kwargs)
        return input if values is input._held else input._as(values, input._at.to(values.device))

    return answer


def _clone(input: SparseTensor, *, memory_format: Any = None) -> SparseTensor:
    return input._as(input._held.clone(), input._at.clone())


def _zero_(input: SparseTensor) -> SparseTensor:
    none = input._at.new_zeros([input.sparse_dim(), 0])
    return input._become(coo(none, input._held.new_zeros([0, *input._held.shape[1:]]), input.shape, True))


def _copy_(input: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(input, SparseTensor):
        return input.copy_(src.to_dense())
    if not isinstance(src, SparseTensor):
        raise _refused("copy_", input, src)
    _same_size("copy_", input, src)
    return input._become(_clone(src))


def _like(name: str) -> Callable[..., Any]:
    """A dense tensor on the sparse one's device and, unless told otherwise, of its dtype."""

    def answer(input: SparseTensor, *args: Any, **kwargs: Any) -> TensorBase:
        return getattr(zeros((), dtype=input.dtype, device=input.device), name)(*args, **kwargs)

    return answer


ANSWERS: dict[str, Callable[..., Any]] = {
    "add": _add,
    "add_": _add_,
    "sub": _sub,
    "sub_": _sub_,
    "mul": _mul,
    "mul_": _in_place(_mul),
    "div": _div,
    "div_": _in_place(_div),
    "clone": _clone,
    "zero_": _zero_,
    "copy_": _copy_,
    "detach_": lambda input: input._become(input._as(input._held.detach())),
    **{name: _of_values(name) for name in ("detach", "neg", "abs", "sqrt", "sign")},
    "neg_": _in_place(_of_values("neg")),
    **{name: _moved(name) for name in ("to", "float", "double", "half", "bfloat16", "cpu", "cuda")},
    **{name: _like(name) for name in ("new_zeros", "new_empty", "new_ones", "new_full", "new_tensor")},
}
