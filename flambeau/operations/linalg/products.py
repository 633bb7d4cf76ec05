"""Matrix products: compiled functions of `core/lib/products/products.pyx` under their public names."""

from __future__ import annotations

import math
from typing import Any

from ...codegen import tiles  # noqa: F401  provides the tiles of products
from ...core.base.tensor import TensorBase
from ...core.call.wrapping import set_decomposition
from ...core.lib.products import contraction, products
from ..declare import flops
from ..declare.dtype_groups import EVERY, NUMBERS
from ..declare.registry import leaf, register


def _inner_cast(on_host: bool, input: Any, other: Any, **_: Any) -> str:
    """A product of matrices, or `dot`, which is in one list alone; the dtypes are compared before."""
    if not on_host:
        return "promote"
    return "lower" if input.dtype == other.dtype and max(input.ndim, other.ndim) > 1 else "fallthrough"


# What a call computes as one product: left, right, addend, and the factors of the product and of the addend; None for another thing.
# Arguments are tensors, or what has their shapes, `mT`, `is_contiguous`, and `flatten` where they are.
def _of_two(input: Any, other: Any, **_: Any) -> tuple | None:
    return (input, other, None, 1, 1) if min(len(input.shape), len(other.shape)) > 1 else None


def _of_three(
    input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1, **_: Any
) -> tuple | None:
    return batch1, batch2, input, alpha, beta


def _of_layer(input: Any, weight: Any, bias: Any = None) -> tuple | None:
    return (input, weight.mT, bias, 1, 1) if min(len(input.shape), len(weight.shape)) > 1 else None


def _of_gradient(
    a: Any, a_form: int, b: Any, b_form: int, sizes: tuple, form: int, alpha: tuple
) -> tuple | None:
    """Where both are read as matrices: those that are added up lie one after another in both, as one longer product."""
    if form or max(a_form, b_form) > 1:
        return None
    if len(sizes) == 2 < len(a.shape) == len(b.shape) and a_form == 1 and b_form == 0:
        if a.shape[:-2] != b.shape[:-2] or not (a.is_contiguous() and b.is_contiguous()):
            return None
        a, b = a.flatten(0, -2), b.flatten(0, -2)
    left, right = a.mT if a_form else a, b.mT if b_form else b
    ahead = left.shape[:-2] if len(left.shape) >= len(right.shape) else right.shape[:-2]
    whole = tuple(ahead) + (left.shape[-2], right.shape[-1]) == sizes
    return (left, right, None, alpha[0], 1) if whole else None


_PRODUCTS: dict[Any, Any] = {
    **dict.fromkeys((products.matmul, products.mm, products.bmm), _of_two),
    **dict.fromkeys((products.addmm, products.baddbmm), _of_three),
}
_FLOPS: dict[Any, Any] = {
    products.addmm: flops.with_addend,
    products.baddbmm: flops.with_addend,
    **dict.fromkeys((products.matmul, products.mm, products.bmm, products.mv), flops.matrices),
}
for _name, _autocast, _dtypes in (
    ("matmul", "lower", NUMBERS),
    ("mm", "lower", NUMBERS),
    ("bmm", "lower", NUMBERS),
    ("mv", ("fallthrough", "lower"), NUMBERS),
    ("dot", ("fallthrough", "promote"), NUMBERS),
    ("vdot", ("fallthrough", "promote"), NUMBERS),
    ("inner", _inner_cast, NUMBERS),
    ("outer", None, EVERY),
    ("addmm", "lower", NUMBERS),
    ("addmv", ("fallthrough", "lower"), NUMBERS),
    ("addbmm", "lower", NUMBERS),
    ("baddbmm", "lower", NUMBERS),
    ("addr", ("fallthrough", "lower"), EVERY),
):
    register(
        _name,
        "library",
        getattr(products, _name),
        in_place=getattr(products, _name + "_", None),
        places=(_name, f"Tensor.{_name}"),
        autocast=_autocast,
        flops=_FLOPS.get(getattr(products, _name)),
        product=_PRODUCTS.get(getattr(products, _name)),
        dtypes=_dtypes,
        sharding="product",
    )
register(
    "linear",
    "library",
    products.linear,
    places=("nn.functional.linear",),
    autocast="lower",
    flops=flops.linear,
    product=_of_layer,
    gain=1.0,
    dtypes=NUMBERS,
)


def _linear_written_out(input, weight, bias=None):
    """What wrapper subclasses see of `linear`: a product with the turned weight, of rows, as in PyTorch."""
    turned = weight.t() if weight.ndim == 2 else weight
    if input.ndim < 2 or turned.ndim < 2 or not getattr(type(input), "_joins_rows", True):
        result = products.matmul(input, turned)
        return result if bias is None else result + bias
    rows = input if input.ndim == 2 else input.reshape(-1, input.shape[-1])
    result = products.mm(rows, turned) if bias is None else products.addmm(bias, rows, turned)
    return result if input.ndim == 2 else result.reshape(*input.shape[:-1], result.shape[-1])


set_decomposition(products.linear, _linear_written_out)
# Gradients of products, as modes of the lower level see them.
register(
    "product_as",
    "library",
    contraction.product_op,
    places=(),
    aten="mm",
    flops=flops.gradient_of_product,
    product=_of_gradient,
    sharding="gradient of product",
)
register("columns_summed", "library", contraction.column_sums_op, places=(), aten="sum", sharding="columns")
ger = register("ger", "library", products.outer)
register(
    "linalg.matmul",
    "library",
    products.matmul,
    places=("linalg.matmul",),
    autocast="lower",
    dtypes=NUMBERS,
    sharding="product",
)


def _count_sliced(input: flops.Shape, matrix: flops.Shape) -> flops.Count:
    return flops.Count("aten.bmm", 2 * math.prod(input) * matrix[-1])


@leaf("library", label="BmmBackward0", flops=_count_sliced)
def sliced_product(input: TensorBase, matrix: TensorBase) -> TensorBase:
    """input (B, …, k) times a matrix (B, k, m) of which all slices are the same memory: one product.  What each slice adds to the
    gradient is apart.
    """
    return products.matmul(input, matrix[0])


@sliced_product.derivative
def _sliced_gradients(grad: TensorBase, input: TensorBase, matrix: TensorBase) -> tuple:
    of_input = sliced_product(grad, matrix.mT.conj())
    return of_input, products.matmul(rows_of_slices(input).mT.conj(), rows_of_slices(grad))


def rows_of_slices(x: TensorBase) -> TensorBase:
    """(B, …, n) as (B, rows, n)."""
    return x.reshape(x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1])
