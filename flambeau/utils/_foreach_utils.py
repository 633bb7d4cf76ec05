"""Lists of tensors by device and dtype, where PyTorch keeps the function."""

from __future__ import annotations

from ..core.base.lazily import lazily

__getattr__, __dir__ = lazily(__name__, names={"_group_tensors_by_device_and_dtype": "..optim._derived"})
