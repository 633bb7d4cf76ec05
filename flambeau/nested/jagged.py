"""Nested tensors of layout `jagged`: sequences of different lengths one after another."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .._wrapper.wrapper_tensor import Overrides, WrapperTensor
from ..core.base.formats import jagged as jagged_layout
from ..core.base.tensor import TensorBase
from ..core.make.create import empty
from ..operations.declare.registry import published
from .raggedness import NestedInt, NestedSize, Raggedness, raggedness

methods, functional = SimpleNamespace(**published("Tensor.")), SimpleNamespace(**published("nn.functional."))
overrides = Overrides()  # filled by the modules beside this
_blank: dict[tuple, TensorBase] = {}  # on `meta`, by dimensions and dtype


class NestedTensor(WrapperTensor):
    """A batch of tensors that differ in one size, the ragged one: (B, *, D …) or (B, D …, *, E …).

    `values()` has the elements with the sequences one after another, in one dimension less; `offsets()` (B + 1,) and, where there
    are gaps, `lengths()` (B,) tell where they lie.  Made by the functions of `flambeau.nested`.  Operations work on the values, or
    on each sequence, where they stand in `_overrides`, and are refused by NotImplementedError elsewhere.

    >>> import flambeau
    >>> x = flambeau.nested.nested_tensor([[1., 2.], [3.]], layout=flambeau.jagged)
    >>> (2 * x).values(), x.offsets(), x.sum(1)
    (tensor([2., 4., 6.]), tensor([0, 2, 3]), tensor([3., 3.]))
    >>> flambeau.fft.fft(x)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotImplementedError: fft(): not available for nested tensors of layout flambeau.jagged; ...
    """

    _overrides = overrides
    to_padded_tensor: Callable[..., TensorBase]  # `padding.padded`
    _is = "a nested tensor of layout jagged"
    is_nested = True
    ragged: Raggedness
    _ragged_idx: int

    @classmethod
    def _refusal(cls, name: str) -> NotImplementedError:
        return NotImplementedError(
            f"{name}(): not available for nested tensors of layout {jagged_layout}; apply it to values(), to the parts that unbind() "
            "gives, or to to_padded_tensor(padding)"
        )

    def _with(self, elements: Any) -> NestedTensor:
        return jagged(elements, self.ragged, self._ragged_idx)

    # --- what it is made of ---
    def values(self) -> TensorBase:
        """The elements, sequences one after another along dimension `_ragged_idx - 1`; writes to them are writes to the whole."""
        return self._elements

    def offsets(self) -> TensorBase:
        """Where sequences begin, and where the last ends: (B + 1,)."""
        return self.ragged.offsets

    def lengths(self) -> TensorBase | None:
        """How long sequences are, (B,), where they need not reach to the next; else None."""
        return self.ragged.lengths

    def _get_max_seqlen(self) -> int:
        return self.ragged.longest

    def _get_min_seqlen(self) -> int:
        return self.ragged.shortest

    _max_seqlen = _maybe_max_seqlen = property(_get_max_seqlen)
    _min_seqlen = _maybe_min_seqlen = property(_get_min_seqlen)

    # --- geometry ---
    @property
    def shape(self) -> Any:  # type: ignore[override]
        """Its sizes, that of the ragged dimension a symbol."""
        sizes, r = self._elements.shape, self._ragged_idx
        return NestedSize((self.ragged.batch, *sizes[: r - 1], self.ragged.size, *sizes[r:]))

    def size(self, dim: Any = None) -> Any:
        """All sizes, or one."""
        return self.shape if dim is None else self.shape[self._dim("size", dim)]

    def _dim(self, name: str, dim: int) -> int:
        """A dimension counted from the front; IndexError where there is none."""
        n = self._elements.ndim + 1
        if not -n <= dim < n:
            raise IndexError(
                f"{name}(): Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
            )
        return dim % n

    def dim(self) -> int:
        """How many dimensions it has, that of the batch among them."""
        return self._elements.ndim + 1

    ndimension = dim
    ndim = property(dim)  # type: ignore[assignment]

    def numel(self) -> int:
        """How many elements its sequences have."""
        sizes, r = self._elements.shape, self._ragged_idx
        return self.ragged.rows * math.prod((*sizes[: r - 1], *sizes[r:]))

    nelement = numel

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of its elements."""
        return self.numel() * self._elements.itemsize

    @property
    def layout(self) -> Any:  # type: ignore[override]
        """`flambeau.jagged`."""
        return jagged_layout

    def stride(self, dim: Any = None) -> Any:
        """Strides of the values behind that of the batch, which is a symbol times a number."""
        strides = self._elements.stride()
        all_strides = (NestedInt(self.ragged, strides[self._ragged_idx - 1]), *strides)
        return all_strides if dim is None else all_strides[self._dim("stride", dim)]

    def __len__(self) -> int:
        return self.ragged.batch

    def __iter__(self) -> Any:
        return iter(self.unbind())

    # --- other forms ---
    def to_dense(self, *args: Any, **kwargs: Any) -> Any:
        """NotImplementedError: see `to_padded_tensor`."""
        raise self._refusal("to_dense")

    def to_sparse(self, *args: Any, **kwargs: Any) -> Any:
        """NotImplementedError: see `to_padded_tensor`."""
        raise self._refusal("to_sparse")

    # --- Python ---
    def __repr__(self, *, tensor_contents: Any = None) -> str:
        tape = ""
        if self.grad_fn is not None:
            tape = f", grad_fn={self.grad_fn}"
        elif self.requires_grad:
            tape = ", requires_grad=True"
        return f"NestedTensor(size={tuple(self.shape)}, offsets={self.ragged.offsets}{tape}, contiguous={self.is_contiguous()})"

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            copied = super().__deepcopy__(memo)
            r = self.ragged
            lengths = None if r.lengths is None else r.lengths.__deepcopy__(memo)
            copied.ragged = raggedness(r.offsets.__deepcopy__(memo), lengths, None)
            memo[id(self)] = copied
        return memo[id(self)]


def jagged(values: TensorBase, ragged: Raggedness, dim: int) -> NestedTensor:
    """A nested tensor over values that fit; `dim` is its ragged dimension.

    >>> import flambeau
    >>> from flambeau.nested.jagged import jagged
    >>> from flambeau.nested.raggedness import raggedness
    >>> jagged(flambeau.ones(3, 2), raggedness(flambeau.tensor([0, 1, 3]), None, 3), 1).numel()
    6
    """
    key = values.ndim, values.dtype
    blank = _blank.get(key)
    if blank is None:
        blank = _blank[key] = empty((0,) * (values.ndim + 1), dtype=values.dtype, device="meta")
    made = NestedTensor._make_subclass(NestedTensor, blank)
    made._elements, made._ragged_idx = values, dim
    made.ragged = ragged if ragged.offsets.device == values.device else ragged.on(values.device)
    return made
