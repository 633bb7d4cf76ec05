"""A batch as microbatches, and microbatches as a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from ...core.base.tensor import TensorBase
from ...core.places.join import cat
from ...core.views.views import tensor_split
from ...nn.attention._block_mask import BlockMask
from ...utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """The dimension along which a tensor is split into microbatches.

    Raises nothing.

    >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec
    >>> print(TensorChunkSpec(1))
    TensorChunkSpec(1)
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({self.split_dim})"

    def __str__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> Any:
        """One for each of several dimensions.

        >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec
        >>> [spec.split_dim for spec in TensorChunkSpec.from_tuple((0, 1))]
        [0, 1]
        """
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> Any:
        """The same for arguments by name.

        >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec
        >>> TensorChunkSpec.from_dict({"mask": 1})["mask"].split_dim
        1
        """
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """Every microbatch has the whole value."""


class _CustomReducer:
    """How the results of microbatches become one: `reduce_fn` from `init_value` on."""

    def __init__(self, init_value: Any, reduce_fn: Callable[[Any, Any], Any]) -> None:
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    """The same for losses."""


def _is_mask(value: Any) -> bool:
    return isinstance(value, BlockMask)


def _is_replicated(spec: Any) -> bool:
    return spec is _Replicate or isinstance(spec, _Replicate)


def _default_spec(value: Any) -> Any:
    return TensorChunkSpec(0) if isinstance(value, (TensorBase, BlockMask)) else _Replicate()


def _split_tensor(tensor: Tensor, spec: TensorChunkSpec, chunks: int) -> Sequence[Tensor]:
    """`chunks` parts of a tensor along the dimension of `spec`; AssertionError where that has fewer places."""
    if tensor.size(spec.split_dim) < chunks:
        raise AssertionError(
            f"a tensor of size {tensor.size(spec.split_dim)} along dimension {spec.split_dim} cannot be split into {chunks} chunks"
        )
    parts = tensor_split(tensor, chunks, spec.split_dim)
    if tensor.requires_grad and tensor.is_leaf:
        for part in parts:
            part.retain_grad()
    return parts


def _split_mask(mask: BlockMask, chunks: int) -> list[BlockMask]:
    """A mask for each part of the batch, which counts its own sequences from 0; one of batch 1 is for all."""
    rows = mask.kv_num_blocks.size(0)
    if rows == 1:
        return [mask] * chunks
    lists = (mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices)
    parts = [[None] * chunks if t is None else tensor_split(t, chunks) for t in lists]
    made, begin = [], 0
    for counts, indices, full_counts, full_indices in zip(*parts):
        made.append(
            BlockMask.from_kv_blocks(
                counts,
                indices,
                full_counts,
                full_indices,
                BLOCK_SIZE=mask.BLOCK_SIZE,
                mask_mod=_shifted(mask.mask_mod, begin),
                seq_lengths=mask.seq_lengths,
            )
        )
        begin += counts.size(0)
    return made


def _shifted(mask_mod: Callable, begin: int) -> Callable:
    def shifted(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return mask_mod(b + begin, h, q_idx, kv_idx)

    return shifted


def _rows(value: Any, spec: Any) -> int | None:
    """How many parts a value can be split into; None for one that is not split."""
    if _is_replicated(spec):
        return None
    if not isinstance(value, (TensorBase, BlockMask)):
        raise ValueError(f"Unsupported chunk spec: {spec} and value: {value} combination.")
    if not isinstance(spec, TensorChunkSpec):
        raise AssertionError(f"Expected TensorChunkSpec, got {type(spec)}")
    if isinstance(value, TensorBase):
        return value.size(spec.split_dim)
    if spec.split_dim != 0:
        raise AssertionError("BlockMask only supports split_dim=0")
    rows = value.kv_num_blocks.size(0)
    return None if rows == 1 else rows


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[Any, ...] | None = None,
    kwargs_chunk_spec: dict[str, Any] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """The arguments of each of `chunks` microbatches; fewer, where a tensor has fewer places.

    Tensors are split along dimension 0, or that of their `TensorChunkSpec`, into parts that differ by one place at most; other values are
    the same in all.  Parts are views.

    Raises:
        AssertionError: specs have another structure than arguments
        ValueError: a spec is for a value that is no tensor

    >>> import flambeau
    >>> from flambeau.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
    >>> split_args_kwargs_into_chunks((flambeau.arange(4),), {"scale": 2}, 2)
    ([(tensor([0, 1]),), (tensor([2, 3]),)], [{'scale': 2}, {'scale': 2}])
    """
    kwargs = kwargs or {}
    if args_chunk_spec is None:
        args_chunk_spec = tree_map(_default_spec, args, is_leaf=_is_mask)
    if kwargs_chunk_spec is None:
        kwargs_chunk_spec = tree_map(_default_spec, kwargs, is_leaf=_is_mask)
    if len(args) != len(args_chunk_spec) or len(kwargs) != len(kwargs_chunk_spec):
        raise AssertionError(
            f"chunk specs for {len(args_chunk_spec)} positional arguments and {sorted(kwargs_chunk_spec)}, but there are {len(args)} and "
            f"{sorted(kwargs)}"
        )
    ordered = {name: kwargs_chunk_spec[name] for name in kwargs}
    values, tree = tree_flatten((tuple(args), kwargs), is_leaf=_is_mask)
    specs, _ = tree_flatten((tuple(args_chunk_spec), ordered), is_leaf=_is_mask)
    if len(values) != len(specs):
        raise AssertionError(f"chunk specs for {len(specs)} values, but arguments hold {len(values)}")
    rows = [n for n in map(_rows, values, specs) if n is not None]
    count = min([chunks, *rows])
    parts: list[Sequence[Any]] = []
    for value, spec in zip(values, specs):
        if _is_replicated(spec):
            parts.append([value] * count)
        elif isinstance(value, BlockMask):
            parts.append(_split_mask(value, count))
        else:
            parts.append(_split_tensor(value, spec, count))
    split = [tree_unflatten(list(chunk), tree) for chunk in zip(*parts)] if values else [((), {})] * count
    return [chunk[0] for chunk in split], [chunk[1] for chunk in split]


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """The results of microbatches as one: tensors joined along dimension 0, or that of their `TensorChunkSpec` in `chunk_spec`.

    A value without such a spec is to be the same in all microbatches.

    Raises:
        ValueError: a microbatch has another structure than the spec
        AssertionError: a value that is to be the same is not

    >>> import flambeau
    >>> from flambeau.distributed.pipelining.microbatch import merge_chunks
    >>> merge_chunks([flambeau.zeros(1), flambeau.ones(2)], None)
    tensor([0., 1., 1.])
    """
    flat = [tree_flatten(chunk)[0] for chunk in chunks]
    if chunk_spec is None:
        _, tree = tree_flatten(chunks[0])
        specs: list[Any] = [TensorChunkSpec(0)] * len(flat[0])
    else:
        specs, tree = tree_flatten(chunk_spec)
    for chunk, values in zip(chunks, flat):
        if len(values) != len(specs):
            raise ValueError(f"Chunk {chunk} did not match chunk spec {chunk_spec}")
    merged = []
    for spec, column in zip(specs, zip(*flat)):
        if isinstance(spec, TensorChunkSpec):
            merged.append(cat(list(column), dim=spec.split_dim))
        elif isinstance(spec, _CustomReducer):
            merged_value = spec.init_value
            for value in column:
                merged_value = spec.reduce_fn(merged_value, value)
            merged.append(merged_value)
        else:
            if any(value != column[0] for value in column):
                raise AssertionError(f"Expected {column[0]} from every microbatch, got {list(column)}")
            merged.append(column[0])
    return tree_unflatten(merged, tree)
