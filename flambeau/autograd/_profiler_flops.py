"""Floating-point operations of a call, from the shapes that it was given; a product with a sum counts as two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt, prod
from typing import Any

# What was given comes as the recorder tells it: of a tensor (shape, dtype), lists of these, numbers as they are.


def _shape(x: Any) -> Sequence[int]:
    return x[0]


def _product(a: Any, b: Any, *rest: Any) -> int:
    """a @ b, with any number of dimensions before the last two."""
    left, right = _shape(a), _shape(b)
    if not left or not right:
        return 0
    rows = prod(left[:-1])
    columns = right[-1] if len(right) > 1 else 1
    stacks = 1  # of matrices that b has and a has not
    if len(right) > 2:
        ahead = [1] * len(right) + list(left[:-2])
        for k, size in enumerate(reversed(right[:-2])):
            if ahead[len(ahead) - 1 - k] == 1:
                stacks *= size
    return 2 * rows * left[-1] * columns * stacks


def _with_addend(addend: Any, a: Any, b: Any, *rest: Any) -> int:
    return _product(a, b)


def _linear(input: Any, weight: Any, *rest: Any) -> int:
    return 2 * prod(_shape(input)) * (_shape(weight)[0] if len(_shape(weight)) > 1 else 1)


def _gradient_of_product(a: Any, a_form: Any, b: Any, b_form: Any, sizes: Any, *rest: Any) -> int:
    """Each of the three shapes names two of rows, columns and terms; stacks stand in all."""
    stacks = prod(sizes[:-2]) or 1
    return 2 * isqrt(prod(_shape(a)) * prod(_shape(b)) * prod(sizes) // stacks)


def _convolution(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    *rest: Any,
) -> int:
    """Every element of the result is a sum over the window and the channels of a group."""
    image, kernel = _shape(input), _shape(weight)
    dims = len(kernel) - 2

    def each(value: Any) -> list[int]:
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        return values * dims if len(values) == 1 else values

    strides, dilations = each(stride), each(dilation)
    out = 1
    for d in range(dims):
        reach = dilations[d] * (kernel[2 + d] - 1)
        around = reach if padding == "same" else 0 if isinstance(padding, str) else 2 * each(padding)[d]
        out *= (image[len(image) - dims + d] + around - reach - 1) // strides[d] + 1
    batch = prod(image[: len(image) - dims - 1])
    return 2 * batch * out * prod(kernel)


def _attention(query: Any, key: Any, value: Any, *rest: Any) -> int:
    q, k, v = _shape(query), _shape(key), _shape(value)
    return 2 * prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


def _pointwise(*given: Any) -> int:
    """One for each element of the result."""
    shapes = [_shape(x) for x in given if isinstance(x, tuple)]
    most = max(map(len, shapes), default=0)
    padded = [[1] * (most - len(s)) + list(s) for s in shapes]
    return prod(max(sizes) if min(sizes) else 0 for sizes in zip(*padded)) if shapes else 0


RULES: dict[str, Callable[..., int]] = {
    "aten::mm": _product,
    "aten::bmm": _product,
    "aten::matmul": _product,
    "aten::mv": _product,
    "aten::addmm": _with_addend,
    "aten::baddbmm": _with_addend,
    "aten::linear": _linear,
    "aten::conv1d": _convolution,
    "aten::conv2d": _convolution,
    "aten::conv3d": _convolution,
    "aten::scaled_dot_product_attention": _attention,
    "aten::add": _pointwise,
    "aten::add_": _pointwise,
    "aten::mul": _pointwise,
    "aten::mul_": _pointwise,
}


def flops_of(name: str, values: list, keywords: Any, positional: int) -> int:
    """How many a call makes; 0 where that is not known."""
    rule = RULES.get(name)
    if rule is None:
        return 0
    if name == "aten::mm" and positional == 7:
        rule = _gradient_of_product
    try:
        return rule(*values[:positional], **_named(rule, keywords, values[positional:]))
    except (TypeError, IndexError, KeyError):
        return 0  # given otherwise than the rule reads: no answer is better than a wrong one


def _named(rule: Callable[..., int], keywords: Any, values: list) -> dict[str, Any]:
    if rule is not _convolution or not keywords:
        return {}
    known = ("bias", "stride", "padding", "dilation", "groups")
    return {name: value for name, value in zip(keywords, values) if name in known}
