"""The class of sparse tensors, what they are made of, and how they stand on the tape.

A sparse tensor is a pattern (where elements are) and their values.  On the tape it is a tensor like others: `sparse` records
that it was made of values, `values_of` that its values were read.  Everything between is computed with values alone, so an
operation that is written for values has its gradient, which lists what the tensor lists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from .._tensor import Tensor
from ..core import tape
from ..core.base import formats
from ..core.base.device import OutOfMemoryError
from ..core.base.tensor import TensorBase
from ..core.call.interceptors import in_current_order
from ..core.call.operation import behind
from ..core.make.create import empty
from ..operations.declare.registry import published
from .patterns import BLOCK_LAYOUTS, COLUMN_LAYOUTS, COMPRESSED, ROW_LAYOUTS, Compressed, Coordinates

_where = published("")["where"]

LAYOUTS = (formats.sparse_coo, *sorted(COMPRESSED, key=lambda layout: layout.value))
NAMES = {  # as messages name them
    formats.strided: "Strided",
    formats.sparse_coo: "Sparse",
    **{layout: "Sparse" + layout.name[-3:].capitalize() for layout in COMPRESSED},
}

Answer = Callable[..., Any]
EVERY = frozenset(LAYOUTS)
OVERRIDES: dict[str, tuple[frozenset, Answer]] = {}


def overrides(*names: str, layouts: Iterable[Any] = LAYOUTS) -> Callable[[Answer], Answer]:
    """Declare that a function is these operations where an argument is a sparse tensor of one of these layouts.

    >>> from flambeau.sparse.tensors import OVERRIDES, overrides
    >>> @overrides("shout")
    ... def shout(x): ...
    >>> OVERRIDES.pop("shout")[1] is shout
    True
    """

    def declare(function: Answer) -> Answer:
        for name in names:
            OVERRIDES[name] = EVERY if layouts is LAYOUTS else frozenset(layouts), function
        return function

    return declare


def _layouts_in(x: Any) -> list[Any]:
    if isinstance(x, SparseTensor):
        return [x._pattern.layout]
    if isinstance(x, (tuple, list)):
        return [layout for y in x if isinstance(y, SparseTensor) for layout in _layouts_in(y)]
    return []


def refusal(name: str, args: Iterable[Any]) -> NotImplementedError:
    """The error of an operation that sparse arguments like these have not.

    >>> import flambeau
    >>> from flambeau.sparse.tensors import refusal
    >>> print(refusal("exp", [flambeau.eye(2).to_sparse_csr()]))
    exp(): not available for tensors of layout flambeau.sparse_csr; make them dense with to_dense()
    """
    result = dict.fromkeys(layout for x in args for layout in _layouts_in(x))
    description = " and ".join(map(str, result))
    return NotImplementedError(
        f"{name}(): not available for tensors of layout {description}; make them dense with to_dense()"
    )


def need_tensor(who: str, label: str, place: int, value: Any) -> None:
    """TypeError where an argument is no tensor.

    >>> import flambeau
    >>> from flambeau.sparse.tensors import need_tensor
    >>> need_tensor("native_norm", "input", 1, flambeau.ones(1))
    """
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"{who}(): argument '{label}' (position {place}) must be Tensor, not {type(value).__name__}"
        )


class SparseTensor(Tensor):
    """A tensor whose elements are zero but at the places it lists.

    Made by `sparse_coo_tensor`, `sparse_csr_tensor` and their kin, or `to_sparse`.  It is a tensor of its shape on `meta`, so
    that no operation finds elements where there are none; an operation takes it where `OVERRIDES` has it for its layout, or where it
    works on each element and makes zero of zero, and is refused by NotImplementedError, which names operation and layout, elsewhere.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 2]], [3.0, 4.0], (4,))
    >>> (2 * x).to_dense()
    tensor([6., 0., 8., 0.])
    >>> x.exp()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotImplementedError: exp(): not available for tensors of layout flambeau.sparse_coo; ...
    """

    _pattern: Any
    _held: Any
    _of_each: Callable[..., Any]  # `unary.of_each`

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        func, (args, kwargs) = behind(func), in_current_order(func, args, kwargs or {})
        result = OVERRIDES.get(func.__name__)
        if func.__module__.endswith(".masked"):  # of the same names as others
            raise refusal(f"masked.{func.__name__}", (*args, *(kwargs or {}).values()))
        if result is None and getattr(func, "elementwise", False):
            result = EVERY, functools.partial(cls._of_each, func)
        if result is None:
            raise refusal(func.__name__, (*args, *(kwargs or {}).values()))
        layouts, answer = result
        if layouts is not EVERY:
            for x in args:
                if type(x) is SparseTensor and x._pattern.layout not in layouts:
                    raise refusal(func.__name__, (x,))
        if not kwargs:
            return answer(*args)
        out = kwargs.pop("out", None)
        result = answer(*args, **kwargs)
        return result if out is None else _into(out, result, func.__name__)

    def as_subclass(self, cls: type) -> Any:
        """TypeError: its elements are of no other class; itself where it is of that class."""
        if isinstance(self, cls):
            return self
        raise TypeError(f"as_subclass(): a tensor of layout {self.layout} cannot be a {cls.__name__}")

    # --- what it is made of ---
    def _indices(self) -> TensorBase:
        return self._expect("_indices", (formats.sparse_coo,), "coordinate").at

    def _values(self) -> TensorBase:
        return self._held

    def _nnz(self) -> int:
        return self._held.shape[self._pattern.batch if type(self._pattern) is Compressed else 0]

    def indices(self) -> TensorBase:
        """The places of a tensor in coordinates, sorted and each once: (sparse dimensions, nnz); RuntimeError unless coalesced."""
        pattern = self._expect("indices", (formats.sparse_coo,), "coordinate")
        self._need_coalesced("indices")
        return pattern.at

    def values(self) -> TensorBase:
        """The elements at the places: (batch …, nnz, block …, dense dimensions …); RuntimeError for coordinates that are not
        coalesced.
        """
        if type(self._pattern) is Coordinates:
            self._need_coalesced("values")
        return values_of(self)

    def crow_indices(self) -> TensorBase:
        """Where each row, or row of blocks, begins; RuntimeError for other layouts."""
        return self._expect("crow_indices", ROW_LAYOUTS, "row compressed").starts

    def col_indices(self) -> TensorBase:
        """The column of each element, or block; RuntimeError for other layouts."""
        return self._expect("col_indices", ROW_LAYOUTS, "row compressed").places

    def ccol_indices(self) -> TensorBase:
        """Where each column, or column of blocks, begins; RuntimeError for other layouts."""
        return self._expect("ccol_indices", COLUMN_LAYOUTS, "column compressed").starts

    def row_indices(self) -> TensorBase:
        """The row of each element, or block; RuntimeError for other layouts."""
        return self._expect("row_indices", COLUMN_LAYOUTS, "column compressed").places

    def _expect(self, what: str, layouts: Iterable[Any], kind: str) -> Any:
        if self._pattern.layout not in layouts:
            raise RuntimeError(
                f"{what} expected sparse {kind} tensor layout but got {NAMES[self._pattern.layout]}"
            )
        return self._pattern

    def _need_coalesced(self, what: str) -> None:
        if not self._pattern.coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def is_coalesced(self) -> bool:
        """Whether the places, in coordinates, are sorted and differ."""
        return self._expect("is_coalesced", (formats.sparse_coo,), "coordinate").coalesced

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        pattern = self._expect("_coalesced_", (formats.sparse_coo,), "coordinate")
        self._pattern = Coordinates(pattern.at, pattern.size, coalesced)
        return self

    def sparse_dim(self) -> int:
        """How many dimensions are listed by index."""
        return self._pattern.sparse_dim

    def dense_dim(self) -> int:
        """How many dimensions each listed value has."""
        return self._pattern.dense_dim

    @property
    def layout(self) -> Any:  # type: ignore[override]
        """`flambeau.sparse_coo`, `sparse_csr`, `sparse_csc`, `sparse_bsr` or `sparse_bsc`."""
        return self._pattern.layout

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self._pattern.layout is formats.sparse_coo

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the layout is `sparse_csr`."""
        return self._pattern.layout is formats.sparse_csr

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
        return sparse(self._pattern, self._held.data)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, SparseTensor):
            raise RuntimeError(f"data: a sparse tensor expected, got the layout {value.layout}")
        self._take(value)
        self._pattern, self._held = value._pattern, value._held

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from .printing import text

        return text(self)

    def __deepcopy__(self, memo: dict) -> SparseTensor:  # type: ignore[override]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol"
            )
        if id(self) not in memo:
            made = sparse(self._pattern.copied(), self._held.clone())
            made.requires_grad_(self.requires_grad)
            if self.grad is not None:
                made.grad = self.grad.__deepcopy__(memo)
            memo[id(self)] = made
        return memo[id(self)]

    def _as(self, values: TensorBase) -> SparseTensor:
        """Other values at the same places."""
        return sparse(self._pattern, values)

    def _become(self, other: SparseTensor, who: str) -> SparseTensor:
        """Write in place, as the operation of that name: the places and values of another, and its history."""
        tape._check_in_place(self, who)
        if other._held.dtype != self.dtype:
            raise RuntimeError(
                f"result type {other.dtype} can't be cast to the desired output type {self.dtype}"
            )
        tape.count_write(self)
        if tape.tracked(self) or tape.tracked(other):
            # `tape.record`: the node hangs on a wrapper, which operations see as the tensors that it holds
            tape.record("CopyBackwards", _dispatched, (other,), self, (), (), self)
        self._pattern, self._held = other._pattern, other._held
        return self


def _dispatched(grad: TensorBase) -> tuple:
    return (grad,)


def block_of(layout: Any, ndim: int, values: TensorBase) -> tuple[int, ...]:
    """The shape of the blocks that values hold, () where the layout has none; `ndim` is that of the indices.

    >>> import flambeau
    >>> from flambeau.sparse.tensors import block_of
    >>> block_of(flambeau.sparse_bsr, 1, flambeau.ones(5, 2, 3)), block_of(flambeau.sparse_csr, 1, flambeau.ones(5))
    ((2, 3), ())
    """
    return tuple(values.shape[ndim : ndim + 2]) if layout in BLOCK_LAYOUTS else ()


def _into(out: Any, result: Any, who: str) -> Any:
    """A result written to the tensor that was given for it."""
    if out.layout is not result.layout:
        raise RuntimeError(f"{who}(): expected out to have the layout {result.layout} but got {out.layout}")
    if out.requires_grad or result.requires_grad:
        raise RuntimeError(
            f"{who}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    if isinstance(out, SparseTensor):
        out._take(result.to(out.dtype))
        return out._become(result.to(out.dtype), who)
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


# --- on the tape ------------------------------
def sparse(pattern: Coordinates | Compressed, values: TensorBase) -> SparseTensor:
    """A sparse tensor of parts that fit; its gradient goes on to the values.

    >>> import flambeau
    >>> from flambeau.sparse.patterns import Coordinates
    >>> from flambeau.sparse.tensors import sparse
    >>> sparse(Coordinates(flambeau.tensor([[0, 2]]), (4,), True), flambeau.tensor([3.0, 4.0])).to_dense()
    tensor([3., 0., 4., 0.])
    """
    try:
        shape = empty(pattern.size, dtype=values.dtype, device="meta")
    except OutOfMemoryError:  # so many elements can be counted, but not their bytes
        shape = empty((), dtype=values.dtype, device="meta").expand(pattern.size)
    made = SparseTensor._make_subclass(SparseTensor, shape)
    made._pattern = pattern
    if values.requires_grad:
        made._held = values.detach()
        if tape.tracked(values):
            # `tape.record`: the node hangs on a wrapper, which operations see as the tensors that it holds
            tape.record("SparseBackward", _to_values, (values,), made, (), (pattern,))
    else:
        made._held = values
    return made


def values_of(x: SparseTensor) -> TensorBase:
    """The values of a sparse tensor, with their history: what is computed from them sends a sparse gradient back.

    >>> import flambeau
    >>> from flambeau.sparse.tensors import values_of
    >>> x = flambeau.eye(2).to_sparse().requires_grad_()
    >>> values_of(x).square().sum().backward()
    >>> x.grad.to_dense()
    tensor([[2., 0.],
            [0., 2.]])
    """
    if not tape.tracked(x):
        return x._held
    values = x._held.detach()
    # `tape.record`: the node hangs on a wrapper, which operations see as the tensors that it holds
    tape.record("ValuesBackward", _from_values, (x,), values, (), (x._pattern,))
    return values


def _to_values(grad: TensorBase, pattern: Any) -> tuple:
    return (values_at(grad, pattern),)


def _from_values(grad: TensorBase, pattern: Any) -> tuple:
    """A place that is listed twice has one gradient, which each of its values was given."""
    if type(pattern) is Coordinates and not pattern.coalesced:
        pattern, order, starts = pattern.sorted()
        if order is not None and starts is not None:
            grad = grad.index_select(0, order.index_select(0, starts[:-1]))
    return (sparse(pattern, grad),)


def values_at(x: TensorBase, pattern: Any) -> TensorBase:
    """The elements of a dense or sparse tensor at a pattern's places, as values: zeros where a sparse one lists none.

    >>> import flambeau
    >>> from flambeau.sparse.patterns import Coordinates
    >>> from flambeau.sparse.tensors import values_at
    >>> values_at(flambeau.arange(4), Coordinates(flambeau.tensor([[1, 3]]), (4,), True))
    tensor([1, 3])
    """
    if not isinstance(x, SparseTensor):
        if type(pattern) is Coordinates:
            if pattern.sparse_dim:
                return x[tuple(pattern.at)]
            return x.unsqueeze(0).expand([pattern.at.shape[1], *x.shape])
        result = tiles(x, pattern)[tuple(pattern.coordinates())]
        return result.reshape([*pattern.places.shape, *result.shape[1:]])
    if x._pattern is pattern:
        return values_of(x)
    if type(pattern) is not Coordinates:
        return values_at(x.to_dense(), pattern)
    source: Any = x if type(x._pattern) is Coordinates else x.to_sparse_coo()
    if source._pattern.sparse_dim != pattern.sparse_dim:
        return values_at(x.to_dense(), pattern)
    source = source.coalesce()
    if source._pattern is pattern.sorted()[0]:
        return values_of(source).index_select(0, pattern.group())
    values, keys, wanted = values_of(source), source._pattern.keys(), pattern.keys()
    if not source._nnz():
        return values.new_zeros([wanted.shape[0], *values.shape[1:]])
    place = published("")["searchsorted"](keys, wanted).clamp(max=keys.shape[0] - 1)
    there = (keys.index_select(0, place) == wanted).reshape([-1, *[1] * (values.ndim - 1)])
    result = values.index_select(0, place)
    return _where(there, result, result.new_zeros([]))


def tiles(x: TensorBase, pattern: Compressed) -> TensorBase:
    """A dense tensor (batch …, rows, columns, dense …) as (batch …, grid, block …, dense …).

    >>> import flambeau
    >>> from flambeau.sparse.tensors import tiles
    >>> pattern = flambeau.ones(2, 4).to_sparse_bsr((1, 2))._pattern
    >>> tiles(flambeau.arange(8).reshape(2, 4), pattern)[0]
    tensor([[[0, 1]],
    <BLANKLINE>
            [[2, 3]]])
    """
    if not pattern.block:
        return x
    n, (high, wide) = pattern.batch, pattern.block
    rows, columns = pattern.grid()
    apart = x.reshape([*x.shape[:n], rows, high, columns, wide, *x.shape[n + 2 :]])
    return apart.transpose(n + 1, n + 2)


@overrides("derivative", "decomposed_derivative")
def _derivative(label: str, formula: Answer, *arguments: Any) -> Any:
    """What a node computes from gradients: its formula, which knows of sparse ones, or calls operations that do."""
    return formula(*arguments)
