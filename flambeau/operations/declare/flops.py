"""Floating-point operations of a call, from the shapes that it was given: the field `flops` of declarations.

A rule gets the arguments of a call in order, shapes in place of tensors, and returns a `Count`.  A product with a sum counts as two.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

Shape = Sequence[int]


class Count(NamedTuple):
    """How many operations a call makes."""

    name: (
        str | None
    )  # what `utils.flop_counter` counts it as: one of PyTorch's operations; None for what it does not count
    flops: int


def product_flops(a: Shape, a_form: int, b: Shape, b_form: int) -> int:
    """Of stacks of matrices, each as it lies in the last two dimensions (form 0) or transposed (form 1)."""
    ahead = [1] * max(len(a), len(b))
    stacks = [
        max(x, y) if x and y else 0
        for x, y in zip((ahead + list(a[:-2]))[-len(ahead) :], (ahead + list(b[:-2]))[-len(ahead) :])
    ]
    columns = b[-2] if b_form else b[-1]
    return 2 * prod(stacks) * a[-2] * a[-1] * columns


def matrices(a: Shape, b: Shape, *rest: Any) -> Count:
    """Of a @ b with any number of dimensions before the last two."""
    count = product_flops([1, *a] if len(a) == 1 else a, 0, [*b, 1] if len(b) == 1 else b, 0)
    if len(a) < 2 or len(b) < 2:
        return Count(None, count)
    return Count("aten.mm" if len(b) == 2 else "aten.bmm", count)


def with_addend(addend: Shape, a: Shape, b: Shape, *rest: Any) -> Count:
    """Of addend + a @ b: the sum is not counted."""
    return Count("aten.addmm" if len(b) == 2 else "aten.baddbmm", matrices(a, b).flops)


def gradient_of_product(a: Shape, a_form: int, b: Shape, b_form: int, sizes: Shape, *rest: Any) -> Count:
    """Of a product whose result has these sizes; operands may be transposed."""
    if len(a) < 2 or len(b) < 2 or len(sizes) < 2:
        return Count(None, 0)
    whole = len(sizes) == 2 or len(b) == 2  # of matrices, though operands may be stacks of rows
    return Count("aten.mm" if whole else "aten.bmm", product_flops(a, a_form, b, b_form))


def linear(input: Shape, weight: Shape, bias: Shape | None = None) -> Count:
    """Of input @ weight.T + bias."""
    if len(weight) < 2:
        return Count(None, 2 * prod(input))
    return Count("aten.mm" if bias is None else "aten.addmm", 2 * prod(input) * weight[0])


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """Of a convolution: a product with the window at every place of the result; of a transposed one, of the input."""
    dims = len(w_shape) - 2
    places = (x_shape if transposed else out_shape)[-dims:] if dims else ()
    return 2 * prod(x_shape[: len(x_shape) - dims - 1]) * prod(places) * prod(w_shape)


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Of attention: scores, and their product with the values."""
    rows = prod(query_shape[:-1])
    return 2 * rows * key_shape[-2] * (query_shape[-1] + value_shape[-1])


def sdpa_backward_flop_count(
    grad_out_shape: Shape, query_shape: Shape, key_shape: Shape, value_shape: Shape
) -> int:
    """Of its backward where scores are computed again: five products."""
    rows, keys = prod(query_shape[:-1]), key_shape[-2]
    return 2 * rows * keys * (3 * query_shape[-1] + 2 * value_shape[-1])


def attention(query: Shape, key: Shape, value: Shape, *rest: Any) -> Count:
    """Of attention under the name of PyTorch's in blocks."""
    return Count("aten._scaled_dot_product_flash_attention", sdpa_flop_count(query, key, value))


def flex_attention(query: Shape, key: Shape, value: Shape, *rest: Any) -> Count:
    """Of attention with functions of scores."""
    return Count("flex_attention", sdpa_flop_count(query, key, value))


def attention_backward(grad: Shape, query: Shape, key: Shape, value: Shape, *rest: Any) -> Count:
    """Of its backward."""
    name = "aten._scaled_dot_product_flash_attention_backward"
    return Count(name, sdpa_backward_flop_count(grad, query, key, value))


def elements(*given: Any) -> Count:
    """One for each element of the result; PyTorch's counter of programs leaves these out."""
    shapes = [x for x in given if isinstance(x, tuple)]
    most = max(map(len, shapes), default=0)
    padded = [[1] * (most - len(s)) + list(s) for s in shapes]
    return Count(None, prod(max(sizes) if min(sizes) else 0 for sizes in zip(*padded)) if shapes else 0)


def counted(op: Any, args: Sequence[Any], named: dict[str, Any]) -> Count | None:
    """What a call counts by the operation's declaration, shapes in place of tensors; None where that says nothing."""
    rule = getattr(op, "flops", None)
    if rule is None:
        return None
    given = list(args)
    if named:
        parameters = list(op.__signature__.parameters.values())[len(given) :]
        while parameters and any(p.name in named for p in parameters):
            first, *parameters = parameters
            given.append(named.get(first.name, first.default))
    return rule(*given)
