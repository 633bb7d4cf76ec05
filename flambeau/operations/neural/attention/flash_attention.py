"""Attention that never holds all scores, as leaves: in tiles on the CPU (`tiled.py`), else in blocks of queries (`blocked.py`).

Both are imported when first called: an import of the library does without them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ....core.base.tensor import TensorBase
from ...declare.flops import Count, Shape, attention, attention_backward, flex_attention
from ...declare.pointwise import compute_dtype
from ...declare.registry import leaf
from ...declare.vjp import gradients
from . import scores as all_scores


def tiled(query: TensorBase, key: TensorBase, value: TensorBase) -> bool:
    """Whether blocks are tiles: on the CPU, where there is something."""
    return query.is_cpu and min(query.numel(), key.numel(), value.numel()) > 0


# --- in tiles ------------------------------
@leaf(
    "library",
    results=("out", "lse", "drawn"),
    inputs=("query", "key", "value", "mask"),
    label="ScaledDotProductFlashAttentionForCpuBackward0",
    flops=attention,
    sharding="attention",
)
def scaled_dot_product_flash_attention_for_cpu(
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    mask: TensorBase | None,
    diagonal: int | None,
    factor: float,
    dropout_p: float,
) -> tuple[TensorBase, TensorBase, TensorBase | None]:
    """The output of a checked call without empty dimensions, the logarithms of the sums of exponentials (B, heads, L, 1), and where in
    the generator's stream the numbers of its dropout stand.
    """
    from . import tiled as tiles

    drawn = tiles.drawn(query, key) if dropout_p else None
    return *tiles.forward(query, key, value, mask, diagonal, factor, drawn, dropout_p), drawn


@scaled_dot_product_flash_attention_for_cpu.derivative
def _tiled_gradients(
    grad, query, key, value, mask, out, lse, drawn, diagonal, factor, dropout_p, needs
) -> tuple:
    given = (grad, query, key, value, mask, out, lse, drawn, diagonal, factor, dropout_p, needs[3])
    return scaled_dot_product_flash_attention_for_cpu_backward(*given)


@leaf(
    "library",
    results=("to_query", "to_key", "to_value", "to_mask"),
    inputs=("grad_out", "query", "key", "value", "mask"),
    flops=attention_backward,
    sharding="attention",
)
def scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out: TensorBase,
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    mask: TensorBase | None,
    out: TensorBase,
    lse: TensorBase,
    drawn: TensorBase | None,
    diagonal: int | None,
    factor: float,
    dropout_p: float,
    of_mask: bool,
) -> tuple[TensorBase, TensorBase, TensorBase, TensorBase | None]:
    """The gradients; where the mask's is wanted, in blocks or, with dropout, from all scores."""
    from . import blocked
    from . import tiled as tiles

    if not of_mask:
        given = (grad_out, query, key, value, mask, out, lse, drawn, diagonal, factor, dropout_p)
        return *tiles.backward(*given), None
    if drawn is not None:
        return _of_all_scores(grad_out, query, key, value, mask, drawn, diagonal, factor, dropout_p)
    call, captures = blocked_call(query, key, mask, diagonal, factor)
    result = blocked.backward(
        call, (True,) * 4, (grad_out, None), query, key, value, out, lse.squeeze(-1), captures
    )
    return *result[:3], result[3].reshape(mask.shape)


@scaled_dot_product_flash_attention_for_cpu_backward.derivative
def _tiled_again(
    grads, grad_out, query, key, value, mask, drawn, diagonal, factor, dropout_p, of_mask, needs
) -> tuple:
    def first(grad_out, query, key, value, mask):
        return _of_all_scores(grad_out, query, key, value, mask, drawn, diagonal, factor, dropout_p, of_mask)

    return gradients(first, (grad_out, query, key, value, mask), grads, needs)


def _of_all_scores(
    grad_out, query, key, value, mask, drawn, diagonal, factor, dropout_p, of_mask=True
) -> tuple:
    """The same gradients out of operations."""
    from . import tiled as tiles

    kept = None if drawn is None else tiles.factors(query, key.shape[2], drawn, dropout_p)

    def attend(query, key, value, mask):
        return all_scores.attend(
            query, key, value, mask, 0.0, diagonal, factor, query.shape[1] != key.shape[1], kept
        )

    return gradients(attend, (query, key, value, mask), (grad_out,), (True, True, True, of_mask))


# --- in blocks ------------------------------
def blocked_call(
    query: TensorBase, key: TensorBase, mask: TensorBase | None, diagonal: int | None, factor: float
) -> tuple[Any, tuple[TensorBase, ...]]:
    """A call of `scaled_dot_product_attention` as blocks have it, and the tensors that its function of scores reads."""
    from ....codegen import expr as ex
    from .blocked import call_of, causal_blocks
    from .programs import PLACES, Program, element, symbol

    working, index = compute_dtype(query.dtype.name), "int64"
    places = {n: symbol(n, index) for n in PLACES}
    blocks, program = None, Program()
    if diagonal is not None:
        blocks = causal_blocks(query.shape[2], key.shape[2], diagonal)
        program = Program(None, places["k"] <= places["q"] + diagonal)
    elif mask is not None:
        seen = mask.reshape((*[1] * (4 - mask.ndim), *mask.shape))
        at = [ex.const(0, index) if n == 1 else places[p] for p, n in zip(PLACES, seen.shape)]
        result = element(0, at, seen.dtype.name)
        if seen.dtype.name == "bool":
            program = Program(None, result, (seen,))
        else:
            program = Program(symbol("score", working) + ex.cast(result, working), None, (seen,))
    again = functools.partial(_again, diagonal=diagonal, factor=factor)
    call, captures = call_of("scaled_dot_product_attention", query, key, program, blocks, factor, again)
    causal = diagonal is not None
    return call._replace(reach=diagonal if causal else key.shape[2], causal=causal), captures


def _again(query, key, value, mask=None, *, diagonal, factor) -> TensorBase:
    return all_scores.attend(query, key, value, mask, 0.0, diagonal, factor, query.shape[1] != key.shape[1])


def attend(
    call: Any, captures: tuple[TensorBase, ...], query: TensorBase, key: TensorBase, value: TensorBase
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """Attention as a call (`blocked.call_of`) has it: output (B, heads, L, Ev), logarithms of the sums and largest scores (B, heads, L)."""
    plain = call.name == "scaled_dot_product_attention"
    leaf = scaled_dot_product_flash_attention if plain else flex_attention_forward
    return leaf(query, key, value, call, *captures)


def _in_blocks(
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    call: Any,
    c0: TensorBase | None = None,
    c1: TensorBase | None = None,
    c2: TensorBase | None = None,
    c3: TensorBase | None = None,
    c4: TensorBase | None = None,
    c5: TensorBase | None = None,
    c6: TensorBase | None = None,
    c7: TensorBase | None = None,
    c8: TensorBase | None = None,
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """Output, logarithms of the sums of exponentials and largest scores of a call whose functions read the tensors behind it."""
    from .blocked import forward

    return forward(call, query, key, value, _given(c0, c1, c2, c3, c4, c5, c6, c7, c8))


def _given(*captures: TensorBase | None) -> tuple[TensorBase, ...]:
    return tuple(c for c in captures if c is not None)


def _blocked_gradients(
    grad_out, grad_lse, query, key, value, call, c0, c1, c2, c3, c4, c5, c6, c7, c8, out, lse, needs
) -> tuple:
    given = (grad_out, grad_lse, query, key, value, call, out, lse, needs)
    return flex_attention_backward(*given, *_given(c0, c1, c2, c3, c4, c5, c6, c7, c8))


def _count_blocked_backward(
    grad: Shape, lse: Any, query: Shape, key: Shape, value: Shape, call: Any, *rest: Any
) -> Count:
    result = attention_backward((*query[:-1], value[-1]), query, key, value)
    plain = call.name == "scaled_dot_product_attention"
    return result if plain else result._replace(name="flex_attention_backward")


_READ = tuple(f"c{k}" for k in range(9))
_blocked: dict[str, Any] = {"results": ("out", "lse", "top"), "inputs": ("query", "key", "value", *_READ)}
scaled_dot_product_flash_attention = leaf(
    "library",
    name="scaled_dot_product_flash_attention",
    label="ScaledDotProductFlashAttentionForCpuBackward0",
    flops=attention,
    **_blocked,
)(_in_blocks)
flex_attention_forward = leaf(
    "library", name="flex_attention_forward", label="FlexAttentionBackward0", flops=flex_attention, **_blocked
)(_in_blocks)
scaled_dot_product_flash_attention.derivative(_blocked_gradients)
flex_attention_forward.derivative(_blocked_gradients)


@leaf(
    "library",
    results=("to_query", "to_key", "to_value", *(f"to_{n}" for n in _READ)),
    inputs=("grad_out", "grad_lse", "query", "key", "value", *_READ),
    flops=_count_blocked_backward,
)
def flex_attention_backward(
    grad_out: TensorBase | None,
    grad_lse: TensorBase | None,
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    call: Any,
    out: TensorBase,
    lse: TensorBase,
    wanted: Sequence[bool],
    c0: TensorBase | None = None,
    c1: TensorBase | None = None,
    c2: TensorBase | None = None,
    c3: TensorBase | None = None,
    c4: TensorBase | None = None,
    c5: TensorBase | None = None,
    c6: TensorBase | None = None,
    c7: TensorBase | None = None,
    c8: TensorBase | None = None,
) -> tuple[TensorBase | None, ...]:
    """The gradients of a call in blocks, None where not `wanted`."""
    from .blocked import backward

    captures = _given(c0, c1, c2, c3, c4, c5, c6, c7, c8)
    result = backward(call, wanted, (grad_out, grad_lse), query, key, value, out, lse, captures)
    return *result, *[None] * (len(_READ) - len(captures))


@flex_attention_backward.derivative
def _blocked_again(
    grads, grad_out, query, key, value, call, wanted, c0, c1, c2, c3, c4, c5, c6, c7, c8, needs
) -> tuple:
    if call.again is None or grad_out is None:
        raise RuntimeError(
            f"the backward pass of {call.name} is not differentiable: there are no second derivatives"
        )
    captures = _given(c0, c1, c2, c3, c4, c5, c6, c7, c8)
    many = 3 + len(captures)

    def first(grad_out, *inputs):
        return gradients(call.again, inputs, (grad_out,), wanted[:many])

    given = (grad_out, query, key, value, *captures)
    of_grad, *rest = gradients(first, given, grads[:many], (needs[0], *needs[2 : 2 + many]))
    return of_grad, None, *rest
