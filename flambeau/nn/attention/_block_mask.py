"""Which blocks of keys each block of queries attends to: `BlockMask`, and the functions that make and join masks."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.make.create import arange, zeros
from ...operations.neural.attention.programs import block_mask_of, mask_of
from ._tracing import traced

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30
_TENSORS = (
    "kv_num_blocks",
    "kv_indices",
    "full_kv_num_blocks",
    "full_kv_indices",
    "q_num_blocks",
    "q_indices",
    "full_q_num_blocks",
    "full_q_indices",
)


# --- functions ------------------------------
def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask that allows everything.

    Shape:
        any that broadcast; the result has the shape of `batch`

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import noop_mask
    >>> zero = flambeau.tensor(0)
    >>> noop_mask(zero, zero, zero, zero)
    tensor(True)
    """
    return batch.new_ones((), dtype=by_name["bool"])


def _joined(mask_mods: tuple, empty: str, join: Callable) -> Callable:
    if not all(callable(arg) for arg in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def joined_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = getattr(b, empty)((), dtype=by_name["bool"])
        for mask in mask_mods:
            result = join(result, mask(b, h, q_idx, kv_idx))
        return result

    return joined_mask


def or_masks(*mask_mods: Callable) -> Callable:
    """The mask that allows what one of these allows.  RuntimeError for what is no function.

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import or_masks
    >>> mask = or_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: k == 1)
    >>> zero, one = flambeau.tensor(0), flambeau.tensor(1)
    >>> mask(zero, zero, zero, one), mask(zero, zero, one, zero)
    (tensor(True), tensor(True))
    """
    return _joined(mask_mods, "new_zeros", lambda a, b: a | b)


def and_masks(*mask_mods: Callable) -> Callable:
    """The mask that allows what all of these allow.  RuntimeError for what is no function.

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import and_masks
    >>> mask = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: k == 1)
    >>> zero, one = flambeau.tensor(0), flambeau.tensor(1)
    >>> mask(zero, zero, zero, one), mask(zero, zero, one, zero)
    (tensor(False), tensor(False))
    """
    return _joined(mask_mods, "new_ones", lambda a, b: a & b)


def _sliced_mask_mod_error(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """What stands in place of the function of a mask that was indexed: where its places begin is not known."""
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is reset. "
        "You must set it from the original BlockMask's mask_mod."
    )


def positional(function: Callable) -> int:
    """How many arguments a function has to be given."""
    if type(function) is FunctionType:
        return function.__code__.co_argcount - len(function.__defaults__ or ())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind in kinds for p in given)


def _is_score(name: str, function: Callable) -> bool:
    """Whether a function changes scores (5 arguments) or is a mask (4)."""
    if not callable(function):
        raise TypeError(
            f"{name}(): expected a function of 4 or 5 arguments, but got {type(function).__name__}"
        )
    count = positional(function)
    if count not in (4, 5):
        raise AssertionError(
            f"{name}(): Expected 4 or 5 positional args, got {count}: a mask_mod takes (b, h, q_idx, kv_idx), a score_mod "
            "(score, b, h, q_idx, kv_idx)"
        )
    return count == 5


def index_dtype(*sizes: int) -> str:
    """The dtype of places: 32 bits, as in PyTorch's kernels, where they hold them."""
    return "int32" if max((0, *sizes)) < 1 << 31 else "int64"


def create_mask(
    mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The bools (B, H, Q_LEN, KV_LEN) of a mask_mod, or where a score_mod leaves a score of 0 above -inf.

    AssertionError for a function of another number of arguments, RuntimeError for what cannot be traced.

    >>> from flambeau.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 3)
    tensor([[[[ True, False, False],
              [ True,  True, False]]]])
    """
    name, place = "create_mask", "cpu" if device is None else device
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    like = zeros((), device=place)
    score, mask = (mod_fn, None) if _is_score(name, mod_fn) else (None, mod_fn)
    program = traced(score, mask, "float32", index_dtype(*shape), like.device)
    return mask_of(name, program, shape, like.device)


def create_block_mask(
    mask_mod: Callable,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The `BlockMask` of `mask_mod(b, h, q_idx, kv_idx)`, of which the whole mask is never made.

    `B` and `H` None: the same for all batches, for all heads.  `separate_full_blocks`: blocks that are allowed whole are
    listed apart, and the mask is not evaluated for them.  AssertionError for a function of another number of arguments.

    >>> from flambeau.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
    >>> mask.kv_num_blocks, mask.full_kv_num_blocks
    (tensor([[[1, 1]]], dtype=flambeau.int32), tensor([[[0, 1]]], dtype=flambeau.int32))
    """
    name, place = "create_block_mask", "cpu" if device is None else device
    if _is_score(name, mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    if len(block) != 2 or min(block) < 1:
        raise ValueError(f"{name}(): BLOCK_SIZE must be one or two positive ints, got {BLOCK_SIZE}")
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    like = zeros((), device=place)
    program = traced(None, mask_mod, "float32", index_dtype(*shape), like.device)
    some, every = block_mask_of(name, program, shape, block, like.device)
    full_count = full = None
    if separate_full_blocks:
        some = some & ~every
        full_count, full = _listed(every)
    count, partial = _listed(some)
    return BlockMask.from_kv_blocks(
        count, partial, full_count, full, BLOCK_SIZE=block, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


# --- lists of blocks ------------------------------
def _listed(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks a row has, and their numbers, the others behind them."""
    dense = dense.to(by_name["int32"])
    order = dense.argsort(dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(by_name["int32"]), order.to(by_name["int32"])


def _dense(count: Tensor, numbers: Tensor, columns: int) -> Tensor:
    """1 where a row lists a block, int32."""
    result = zeros((*numbers.shape[:-1], columns + 1), dtype=by_name["int32"], device=numbers.device)
    listed = arange(numbers.shape[-1], device=numbers.device) < count.unsqueeze(-1)
    place = numbers.to(by_name["int64"]).masked_fill(
        ~listed, columns
    )  # what is not listed goes behind the last
    return result.scatter(-1, place, 1)[..., :columns].contiguous()


def _transposed(count: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    return _listed(_dense(count, numbers, numbers.shape[-1]).transpose(-2, -1))


def _cropped(count: Tensor, numbers: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """The lists of the first rows, without the blocks behind the first columns."""
    return _listed(_dense(count, numbers, numbers.shape[-1])[..., :rows, :columns])


class BlockMask:
    """Lists of the blocks of keys that each block of queries attends to.

    `kv_num_blocks` (B, H, rows) says how many blocks of keys a block of queries has that the mask must be evaluated for,
    `kv_indices` (B, H, rows, columns) which; `full_kv_num_blocks` and `full_kv_indices` list those that are allowed whole; `q_…` are
    the same lists for each block of keys.  All are int32; B and H may be 1.  `mask_mod(b, h, q_idx, kv_idx)` is the mask,
    `BLOCK_SIZE` (queries, keys) of a block, `seq_lengths` (queries, keys) in all.  `create_block_mask` makes one of a function.

    Raises:
        TypeError: an argument is missing; `from_kv_blocks` and `create_block_mask` make one of less

    >>> from flambeau.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device="cpu", BLOCK_SIZE=128)
    >>> mask.shape, mask.sparsity()
    ((1, 1, 256, 256), 25.0)
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: Callable = noop_mask,
    ):
        if kv_num_blocks is None or kv_indices is None:
            raise AssertionError("BlockMask(): kv_num_blocks and kv_indices must be provided")
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for one, other, label in (
            (full_kv_num_blocks, full_kv_indices, "full_kv"),
            (full_q_num_blocks, full_q_indices, "full_q"),
        ):
            if (one is None) != (other is None):
                raise AssertionError(
                    f"{label}_num_blocks and {label}_indices must be both provided or omitted"
                )
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Callable | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A mask of the lists for blocks of queries; those for blocks of keys are made of them.

        RuntimeError for lists of less than two dimensions, AssertionError where one of a pair is missing.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        q: tuple = (None, None)
        full_q: tuple = (None, None)
        if compute_q_blocks:
            q = _transposed(kv_num_blocks, kv_indices)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full_q = _transposed(full_kv_num_blocks, full_kv_indices)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * block[0], kv_indices.shape[-1] * block[1])
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            q[0],
            q[1],
            full_q[0],
            full_q[1],
            block,
            noop_mask if mask_mod is None else mask_mod,
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Lengths, lists, block sizes and the function; `flatten`: pairs of numbers as two.

        Four None stand where PyTorch keeps the order of writes of a kernel for CUDA.
        """
        lengths = tuple(self.seq_lengths) if flatten else (self.seq_lengths,)
        block = tuple(self.BLOCK_SIZE) if flatten else (self.BLOCK_SIZE,)
        lists = tuple(getattr(self, n) for n in _TENSORS)
        return (*lengths, *lists, None, None, None, None, *block, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many places there are, allowed or not."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """How many percent of the places lie in blocks that are left out."""
        listed = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            listed += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - listed * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """1 for each block that is listed, 0 for those left out: int32, (B, H, rows, columns)."""
        result = _dense(self.kv_num_blocks, self.kv_indices, self.kv_indices.shape[-1])
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            result = result | _dense(
                self.full_kv_num_blocks, self.full_kv_indices, self.full_kv_indices.shape[-1]
            )
        return result

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads and blocks of queries; its `mask_mod` must be set anew.

        Where an int stands, the dimension stays, of length 1.
        """
        index = index if isinstance(index, tuple) else (index,)
        index = (*index, slice(None), slice(None), slice(None))[:3]
        sizes = self.kv_num_blocks.shape[:3]
        index = tuple(
            (slice(i + n, i + n + 1) if -n <= i < 0 else slice(i, i + 1)) if isinstance(i, int) else i
            for i, n in zip(index, sizes)
        )
        full: tuple = (None, None)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            full = self.full_kv_num_blocks[index], self.full_kv_indices[index]
        return BlockMask.from_kv_blocks(
            self.kv_num_blocks[index],
            self.kv_indices[index],
            full[0],
            full[1],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=_sliced_mask_mod_error,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner, for shorter sequences."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        count, numbers = _cropped(self.kv_num_blocks, self.kv_indices, rows, columns)
        full: tuple = (None, None)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            full = _cropped(self.full_kv_num_blocks, self.full_kv_indices, rows, columns)
        return BlockMask.from_kv_blocks(
            count,
            numbers,
            full[0],
            full[1],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
            compute_q_blocks=self.q_indices is not None,
        )

    def to(self, device: Any) -> BlockMask:
        """The mask with its lists on another device."""
        moved: dict[str, Any] = {
            n: None if getattr(self, n) is None else getattr(self, n).to(device) for n in _TENSORS
        }
        return BlockMask(
            seq_lengths=self.seq_lengths, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod, **moved
        )

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks: █ where all of a cell are listed, ░ some, a blank none.

        `grid_size`: the most (rows, columns) of cells, -1 for all; `limit`: how many batches and heads are shown.
        """
        dense = self.to_dense()
        *batches, rows, columns = dense.shape
        most = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        most = (rows, columns) if grid_size == -1 else most
        high, wide = (max(1, -(-n // m)) for n, m in zip((rows, columns), most))
        result = []
        for number, at in enumerate(itertools.product(*map(range, batches))):
            if number == limit:
                result += [
                    "...",
                    "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or head",
                ]
                break
            lines = [f"{at}"]
            for r in range(0, rows, high):
                cells = [dense[at][r : r + high, c : c + wide] for c in range(0, columns, wide)]
                share = [cell.to(by_name["float64"]).mean().item() for cell in cells]
                lines.append("".join("██" if s == 1 else "  " if s == 0 else "░░" for s in share))
            result.append("\n".join(lines) + "\n")
        return "\n".join(result)

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"
        )

    def __repr__(self) -> str:
        lines = [f"    {n}={None if getattr(self, n) is None else getattr(self, n).shape}" for n in _TENSORS]
        named = getattr(self.mask_mod, "__name__", self.mask_mod)
        lines += [f"    BLOCK_SIZE={self.BLOCK_SIZE}", f"    shape={self.shape}"]
        lines += [f"    sparsity={self.sparsity():.2f}%", f"    mask_mod={named}"]
        return "BlockMask(\n" + ",\n".join(lines) + "\n)"
