"""Reductions and normalisations of the elements that a mask holds, and tensors with a mask, as `torch.masked` names them."""

from ..core.base.lazily import lazily as _lazily
from ..operations.declare.registry import published as _published

_functions = _published("masked.")
_later = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")

globals().update(_functions)
__all__ = [*_later, *sorted(_functions)]
__getattr__, __dir__ = _lazily(__name__, ("maskedtensor",), {name: ".maskedtensor" for name in _later})
