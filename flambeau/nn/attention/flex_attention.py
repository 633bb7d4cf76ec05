"""Attention with functions of scores and masks that become part of the kernels; as `torch.nn.attention.flex_attention`.

`flex_attention` computes softmax(score_mod(query · keyᵀ · scale)) · value without ever holding all scores: the functions are traced
into scalar expressions (`_tracing.py`) and compiled into the pass over a block of scores (`operations/neural/attention/blocked.py`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from ..._tensor import Tensor
from ...operations.declare import flops
from ...operations.declare.pointwise import compute_dtype
from ...operations.declare.registry import operation
from ...operations.neural.attention.blocked import Band, Blocks, call_of, runs_of
from ...operations.neural.attention.flash_attention import attend
from ._block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE,  # noqa: F401
    _LARGE_SPARSE_BLOCK_SIZE,
    BlockMask,
    _sliced_mask_mod_error,
    and_masks,
    create_block_mask,
    create_mask,
    index_dtype,
    noop_mask,
    or_masks,
    positional,
)
from ._tracing import traced

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What `flex_attention` is to return beside its output; `AuxOutput` says what the names mean.

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> x = flambeau.ones(1, 1, 2, 4)  # every score is 4 / √4
    >>> out, aux = flex_attention(x, x, x, return_aux=AuxRequest(max_scores=True))
    >>> aux.max_scores
    tensor([[[2., 2.]]])
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was requested: logarithms of sums of exponentials, largest scores, each (B, heads, L).

    What was not requested is None.

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> x = flambeau.ones(1, 1, 2, 4)
    >>> out, aux = flex_attention(x, x, x, return_aux=AuxRequest(lse=True))
    >>> aux
    AuxOutput(lse=tensor([[[2.6931, 2.6931]]]), max_scores=None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """What tunes PyTorch's kernels.

    They are read and checked; blocks here are cut by the size of caches alone. `flex_attention` raises
    AssertionError for another name (`fwd_` and `bwd_` may stand before one), ValueError for a BACKEND that
    PyTorch does not have, and RuntimeError for any but "AUTO".

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import FlexKernelOptions, flex_attention
    >>> x = flambeau.rand(1, 1, 2, 4)
    >>> options = FlexKernelOptions(BLOCK_M=64)
    >>> flambeau.equal(flex_attention(x, x, x, kernel_options=options), flex_attention(x, x, x))
    True
    """

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: str


_BACKENDS = ("AUTO", "TRITON", "FLASH", "TRITON_DECODE")


def _check_options(options: Any) -> None:
    options = options or {}
    backend = options.get("BACKEND", "AUTO")
    if "BACKEND" in options and options.get("FORCE_USE_FLEX_ATTENTION", False):
        raise RuntimeError("BACKEND cannot be combined with legacy FORCE_USE_FLEX_ATTENTION.")
    if backend not in _BACKENDS:
        raise ValueError(f"Invalid BACKEND value '{backend}'. Must be one of {_BACKENDS}")
    if backend != "AUTO":
        raise RuntimeError(f"flex_attention(): BACKEND='{backend}' is not available, only 'AUTO' is")
    for name in options:
        bare = name.removeprefix("fwd_").removeprefix("bwd_")
        if bare not in FlexKernelOptions.__annotations__:
            raise AssertionError(f"flex_attention(): {name} is no kernel option")


def _check_operands(query: Tensor, key: Tensor, value: Tensor, block_mask: Any, enable_gqa: bool) -> None:
    """ValueError for shapes, dtypes and devices that do not agree; NotImplementedError where not all are 4-dimensional."""
    named = (("query", query), ("key", key), ("value", value))
    if not query.dtype == key.dtype == value.dtype:
        result = ", ".join(f"{n}.dtype: {x.dtype}" for n, x in named)
        raise ValueError(f"Expected query, key, and value to have the same dtype, but got {result} instead.")
    if not query.is_floating_point():
        raise ValueError(f"flex_attention(): expected floating-point query, key and value, got {query.dtype}")
    if not query.device == key.device == value.device:
        result = ", ".join(f"{n}.device: {x.device}" for n, x in named)
        raise ValueError(
            f"Expected query, key, and value to have the same device type, but got {result} instead."
        )
    if min(x.dim() for _, x in named) < 2:
        result = ", ".join(f"{n}.dim: {x.dim()}" for n, x in named)
        raise ValueError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got {result} instead."
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.shape[-1]} and E={key.shape[-1]}."
        )
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(
            "Expect key and value to have the same batch size, heads and length, but got "
            f"{tuple(key.shape)} and {tuple(value.shape)}."
        )
    heads, shared = query.shape[1], key.shape[1]
    if not enable_gqa and heads != shared:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
            "Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and (heads % shared if shared else heads):
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={shared}."
        )
    if query.shape[0] != key.shape[0]:
        if block_mask is None:
            raise ValueError(
                "Expect query and key/value to have the same batch size, or non-none block_mask, but got block_mask=None, "
                f"Bq={query.shape[0]}, and Bkv={key.shape[0]}."
            )
        if block_mask.kv_num_blocks.shape[0] != query.shape[0]:
            raise ValueError(
                "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch size, "
                f"but got Bq={query.shape[0]}, Bkv={key.shape[0]}, B_block_mask={block_mask.kv_num_blocks.shape[0]}."
            )
        if key.shape[0] != 1:
            raise RuntimeError(f"Bq and Bkv must broadcast. Got Bq={query.shape[0]} and Bkv={key.shape[0]}")


def _check_mask(block_mask: Any, query: Tensor, key: Tensor) -> None:
    """ValueError where a mask is for other lengths, batches or heads."""
    if not isinstance(block_mask, BlockMask):
        raise TypeError(
            f"flex_attention(): argument 'block_mask' must be BlockMask, not {type(block_mask).__name__}"
        )
    if block_mask.mask_mod is _sliced_mask_mod_error:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    if query.device != block_mask.kv_num_blocks.device:
        raise RuntimeError(
            f"Expect q/k/v and block_mask to be on the same device but got {query.device} and "
            f"{block_mask.kv_num_blocks.device}."
        )
    if tuple(block_mask.BLOCK_SIZE) == (_LARGE_SPARSE_BLOCK_SIZE, _LARGE_SPARSE_BLOCK_SIZE):
        return
    lengths, wanted = (query.shape[-2], key.shape[-2]), block_mask.shape[-2:]
    message = (
        f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={lengths[0]} and "
        f"kv_len={lengths[1]}. As the block mask was created for a "
    )
    if lengths[0] > wanted[0] or lengths[1] > wanted[1]:
        raise ValueError(
            f"{message}smaller length than you're using it for, you likely need to create a new block mask."
        )
    if lengths != tuple(wanted):
        raise ValueError(
            f"{message}larger length than you're using it for, you can either 1. create a new block mask with the correct length, "
            "or 2. 'adjust' the existing block mask to the correct length by calling block_mask._adjust(q_len, kv_len). This "
            "essentially 'crops' the block mask to the upper left corner, which does not work for all mask_mods!"
        )
    if block_mask.kv_indices.dim() != 4:
        raise ValueError(
            f"flex_attention(): block_mask must be of shape (B, H, queries, keys), got {block_mask.shape}"
        )
    for label, result, there in zip(("batch size", "number of heads"), block_mask.shape, query.shape):
        if result not in (1, there):
            raise ValueError(
                f"flex_attention(): block_mask has the {label} {result}, expected 1 or the query's, {there}"
            )


def _blocks(block_mask: BlockMask, queries: int, keys: int) -> Blocks:
    """The lists of a mask as bands of queries, each with its runs of keys."""
    rows, width = block_mask.BLOCK_SIZE
    count, number = block_mask.kv_num_blocks.tolist(), block_mask.kv_indices.tolist()
    batches, heads = len(count), len(count[0]) if count else 0
    full_count: Any = None
    full: Any = None
    if block_mask.full_kv_num_blocks is not None and block_mask.full_kv_indices is not None:
        full_count, full = block_mask.full_kv_num_blocks.tolist(), block_mask.full_kv_indices.tolist()

    def band(b: int, h: int, r: int) -> Band:
        whole = () if full_count is None else full[b][h][r][: full_count[b][h][r]]
        runs = runs_of(number[b][h][r][: count[b][h][r]], whole, width, keys)
        return Band(r * rows, min((r + 1) * rows, queries), runs)

    def bands(b: int, h: int) -> list[Band]:
        return [band(b, h, r) for r in range(-(-queries // rows))]

    return Blocks(batches, heads, [[bands(b, h) for h in range(heads)] for b in range(batches)])


@operation(flops=flops.flex_attention)
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query · keyᵀ · scale)) · value: (B, Hq, L, E), (B, Hkv, S, E) and (B, Hkv, S, Ev) give (B, Hq, L, Ev).

    `score_mod(score, b, h, q_idx, kv_idx)` returns what a score becomes; all are 0-dim tensors, the score float32 (float64 where
    the query is), the places int32.  It is called once, and what it does becomes part of the kernel: any pointwise operation, and
    elements of tensors that it finds around it (`bias[h, q_idx - kv_idx]`), which get gradients, too.  `block_mask` says which
    keys a query attends to: blocks that it leaves out are never computed.  A query without keys gives 0.

    `scale` is 1 / √E by default.  `enable_gqa`: each head of keys serves Hq / Hkv heads of queries, one after another.
    `return_aux` asks for the logarithms of the sums of exponentials (`lse`) and the largest scores (`max_scores`), each (B, Hq, L),
    and the result is (output, `AuxOutput`); with `return_lse` it is (output, lse).  There are no second derivatives.

    ValueError for shapes, dtypes, devices, head counts and lengths of masks that do not agree; NotImplementedError for tensors that
    are not 4-dimensional; TypeError and AssertionError for functions of another number of arguments; IndexError for captured
    tensors that are too short; RuntimeError, naming the operation, where a function does what a kernel cannot.

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> slope = flambeau.tensor([0.5, 0.25], requires_grad=True)
    >>> def alibi(score, b, h, q, k):
    ...     return score - slope[h] * (q - k)
    >>> causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4)
    >>> q, k, v = (flambeau.ones(1, 2, 4, 8) for _ in range(3))
    >>> out = flex_attention(q, k, v, alibi, causal)
    >>> out.shape
    flambeau.Size([1, 2, 4, 8])
    >>> out.sum().backward()
    >>> slope.grad.shape
    flambeau.Size([2])
    """
    name = "flex_attention"
    _check_operands(query, key, value, block_mask, enable_gqa)
    if block_mask is not None:
        _check_mask(block_mask, query, key)
    _check_options(kernel_options)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        warnings.warn(
            "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
            stacklevel=2,
        )
    mask_mod = None if block_mask is None else block_mask.mask_mod
    for label, function, wanted in (("score_mod", score_mod, 5), ("mask_mod", mask_mod, 4)):
        if function is not None and not callable(function):
            raise TypeError(f"{name}(): argument '{label}' must be a function, not {type(function).__name__}")
        if function is not None and positional(function) != wanted:
            raise TypeError(
                f"{name}(): {label} must take {wanted} positional arguments, got a function of {positional(function)}"
            )
    batches = query.shape[0]
    if key.shape[0] != batches:
        key, value = (x.expand(batches, *x.shape[1:]) for x in (key, value))
    index = index_dtype(batches, query.shape[1], query.shape[2], key.shape[2])
    program = traced(score_mod, mask_mod, compute_dtype(query.dtype.name), index, query.device)
    for captured in program.captures:
        if captured.device != query.device:
            raise RuntimeError(
                f"{name}(): Expected all tensors to be on the same device, but a captured tensor is on {captured.device} and "
                f"query on {query.device}"
            )
    blocks = (
        None if block_mask is None or query.is_meta else _blocks(block_mask, query.shape[2], key.shape[2])
    )
    factor = 1.0 / math.sqrt(query.shape[-1] or 1) if scale is None else float(scale)
    out, lse, top = attend(*call_of(name, query, key, program, blocks, factor), query, key, value)
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, top if return_aux.max_scores else None)
    return (out, lse) if return_lse else out
