"""Which products NVIDIA's tensor cores compute, and by which instruction; the kernels are in `schedule_gpu_stages.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .irtext import Module
from .schedule_gpu_mma import ByWarps
from .schedule_gpu_stages import STAGES, StagedProduct
from .schedule_gpu_wgmma import ByWarpgroups

if TYPE_CHECKING:
    from .schedule_gpu_products import Product

DTYPES = ("float16", "bfloat16")


class TensorCoreProduct(StagedProduct):
    """A product in a dtype of DTYPES for a processor of STAGES."""

    __slots__ = ()

    @property
    def instruction(self) -> str:
        """What multiplies: sm_100 has no wgmma, and its own tcgen05 is not used yet."""
        return "wgmma" if self.processor == "sm_90a" else "mma"

    def fitted(self, vector: int, processor: str = "") -> TensorCoreProduct:
        return self

    def module(self, target: str) -> Module:
        return (ByWarpgroups if self.instruction == "wgmma" else ByWarps)(self).module


def chosen(product: Product, processor: str) -> TensorCoreProduct | None:
    """The product by tensor cores, where the processor has those that take its dtype and add up in float32."""
    if product.dtype not in DTYPES or processor not in STAGES:
        return None
    return TensorCoreProduct(
        product.dtype,
        product.a_turned,
        product.b_turned,
        product.adds,
        processor,
        product.addend,
        product.taps,
        product.summed,
        product.after,
    )
