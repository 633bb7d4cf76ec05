"""The old classes of sparse tensors in coordinates, one for each dtype: `sparse.FloatTensor`, `sparse.LongTensor` …

They make tensors and tell tensors of their dtype; what they make are Tensors, and nothing is derived from them.
"""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..core.base import display
from ..core.base.dtypes import by_name
from ..core.base.formats import sparse_coo
from ..core.base.tensor import TensorBase
from ..operations.pointwise.copying import OLD_NAMES

_KINDS = "float64 float32 float16 bfloat16 uint8 int8 int16 int32 int64"


class sparsetype(type):
    """The class of the old classes of sparse tensors."""

    dtype: Any

    def __call__(cls, *args: Any) -> TensorBase:
        """From indices, values and perhaps a size; from sizes; or without elements."""
        from . import sparse_coo_tensor

        if args and isinstance(args[0], TensorBase):
            return sparse_coo_tensor(*args, dtype=cls.dtype)
        sizes = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args or (0,)
        return sparse_coo_tensor(tuple(sizes), dtype=cls.dtype)

    def __instancecheck__(cls, x: object) -> bool:
        return (
            isinstance(x, Tensor)
            and x.layout is sparse_coo
            and x.dtype == cls.dtype
            and x.device.type == "cpu"
        )


def _made(kind: str) -> sparsetype:
    document = (
        f"The old name of sparse tensors of {kind}; use `{display.NAME}.sparse_coo_tensor(…, dtype={kind})`."
    )
    members = {
        "__module__": display.public("sparse"),
        "__doc__": document,
        "dtype": by_name[kind],
        "layout": sparse_coo,
    }
    return sparsetype(f"{OLD_NAMES[kind]}Tensor", (), {**members, "is_sparse": True, "is_cuda": False})


(
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    ShortTensor,
    IntTensor,
    LongTensor,
) = map(_made, _KINDS.split())
