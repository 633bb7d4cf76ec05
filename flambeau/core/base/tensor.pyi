# Written by `python tools/interface.py` from the compiled module.
from typing import Any as _Any

from flambeau import Tensor as Tensor
TensorBase = Tensor

OutOfMemoryError: _Any
_dtypes: _Any
_index: _Any
_operator_numbers: _Any
display: _Any
inherit_operators: _Any
provided: _Any
set_node_shown: _Any
set_operator: _Any
set_tensor_class: _Any
