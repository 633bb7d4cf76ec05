# Written by `python tools/interface.py` from the compiled module.
from typing import Any as _Any

from flambeau import Size as Size
from flambeau import device as device
from flambeau import dtype as dtype

DEVICE_TYPES: _Any
_category: _Any
_code: _Any
_dtype_named: _Any
_i: _Any
_j: _Any
_name: _Any
_size: _Any
accelerator: _Any
builtins: _Any
by_name: _Any
cpu_device: _Any
display: _Any
enter_device: _Any
functools: _Any
get_default_dtype: _Any
implied_dtype: _Any
leave_device: _Any
nearest: _Any
promote_types: _Any
set_default_dtype: _Any
without_tensors: _Any
