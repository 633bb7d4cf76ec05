"""flambeau: PyTorch built anew, Python first.

    import flambeau as torch

runs people's code: tensors, a tape, neural networks, optimisers, data loading.  Operations are declared once, in
`flambeau.operations`; this file gathers them into one flat namespace and onto the Tensor class.
"""

from __future__ import annotations

from . import _interpreter  # noqa: F401  first of all
from .version import __version__
from .core.base import dtypes as _dtypes
from .core.base.device import get_default_device, set_default_device
from .core.base.dtypes import Size, device, dtype, get_default_dtype, promote_types, set_default_dtype
from .core.base.memory import OutOfMemoryError
from .core.base.memory import Storage as UntypedStorage
from .core.base.tensor import inherit_operators as _inherit_operators
from .core.base.parallel import get_num_threads, set_num_threads
from .core.call.operands import result_type
from .storage import LEGACY as _legacy_storages, TypedStorage, from_file, is_storage
from ._tensor import Tensor
from .core.base.formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    strided,
)
from math import e, inf, nan, pi

newaxis = None
globals().update(_dtypes.by_name)
globals().update(_legacy_storages)
float, double, half = _dtypes.by_name["float32"], _dtypes.by_name["float64"], _dtypes.by_name["float16"]
int, long, short = _dtypes.by_name["int32"], _dtypes.by_name["int64"], _dtypes.by_name["int16"]
cfloat, cdouble = _dtypes.by_name["complex64"], _dtypes.by_name["complex128"]

from .operations.declare.registry import published as _published

globals().update(_published(""))
for _name, _function in _published("Tensor.").items():
    setattr(Tensor, _name, _function)
_inherit_operators(Tensor)
del _inherit_operators

from . import _operators  # noqa: F401
from ._foreach import functions as _foreach_functions

globals().update(_foreach_functions())
del _foreach_functions
from . import autograd, cpu, cuda, fft, linalg, masked, opencl, signal, special, utils
from .autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .core.tape import tensor_backward as _backward
from .autograd.grad_mode import is_inference_mode_enabled
from ._typeinfo import finfo, iinfo

Tensor.backward = _backward

from . import sparse
from .sparse import sparse_coo_tensor

Tensor.to_dense, Tensor.to_sparse = sparse.to_dense, sparse.to_sparse

from . import _C, func, nn, optim, overrides, return_types
from ._printing import set_printoptions
from ._files import load, save
from ._switches import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    get_num_interop_threads,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_num_interop_threads,
    use_deterministic_algorithms,
)
from ._queries import can_cast, is_complex, is_floating_point, is_tensor, numel
from . import (
    __config__,
    accelerator,
    backends,
    distributions,
    hub,
    multiprocessing,
    random,
    serialization,
    testing,
    version,
)
