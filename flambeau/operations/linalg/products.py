"""Matrix products: compiled functions of `core/lib/products.pyx` under their public names."""

from __future__ import annotations

from ...codegen import tiles  # noqa: F401  provides the tiles of products in bfloat16
from ...codegen.tiles import panels  # noqa: F401  provides those of products in float32 and float64
from ...core.call.wrapping import write_out
from ...core.lib import products
from ..declare.registry import register

for (
    _name
) in "matmul mm bmm mv dot vdot inner outer addmm addmv addbmm baddbmm addr chain_matmul tensordot".split():
    if hasattr(products, _name):
        register(
            _name,
            "library",
            getattr(products, _name),
            in_place=getattr(products, _name + "_", None),
            places=(_name, f"Tensor.{_name}"),
        )
for _name, _places in {
    "linear": ("nn.functional.linear",),
    "bilinear": ("nn.functional.bilinear",),
    "multi_dot": ("linalg.multi_dot",),
}.items():
    if hasattr(products, _name):
        register(_name, "library", getattr(products, _name), places=_places)


def _linear_written_out(input, weight, bias=None):
    """What wrapper subclasses see of `linear`: a product with the turned weight, of rows, as in PyTorch."""
    turned = weight.t() if weight.ndim == 2 else weight
    if input.ndim < 2 or turned.ndim < 2:
        found = products.matmul(input, turned)
        return found if bias is None else found + bias
    rows = input if input.ndim == 2 else input.reshape(-1, input.shape[-1])
    found = products.mm(rows, turned) if bias is None else products.addmm(bias, rows, turned)
    return found if input.ndim == 2 else found.reshape(*input.shape[:-1], found.shape[-1])


write_out(products.linear, _linear_written_out)
register("ger", "library", products.outer)
register("linalg.matmul", "library", products.matmul, places=("linalg.matmul",))
