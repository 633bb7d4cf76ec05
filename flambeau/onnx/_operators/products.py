"""Products of matrices."""

from __future__ import annotations

from ..._tensor import Tensor
from .declare import fl, operator, same

same("MatMul", fl.matmul, 2)
same("Det", fl.det)


@operator("Gemm", since=7)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """alpha · A · B + beta · C."""
    left, right = a.mT if transA else a, b.mT if transB else b
    if c is not None and alpha == beta == 1.0:
        return fl.addmm(c, left, right)
    result = fl.matmul(left, right)
    if alpha != 1.0:
        result = result * alpha if result.is_floating_point() else (result * alpha).to(result.dtype)
    if c is None:
        return result
    return result + (c if beta == 1.0 else (c * beta).to(c.dtype))


@operator("Einsum")
def einsum(*inputs: Tensor, equation: str) -> Tensor:
    return fl.einsum(equation, *inputs)
