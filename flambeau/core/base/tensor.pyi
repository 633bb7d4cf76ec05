# Written by `python tools/interface.py` from the compiled module.
from typing import Any as _Any

from flambeau import Tensor as Tensor
TensorBase = Tensor

OutOfMemoryError: _Any
_dtypes: _Any
_index: _Any
_operator_numbers: _Any
callbacks: _Any
display: _Any
inherit_operators: _Any
set_operator: _Any
set_public_node: _Any
set_tensor_class: _Any
warnings: _Any
