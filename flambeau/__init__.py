"""PyTorch built anew, Python first: tensors, a tape, neural networks, optimisers, data loading.

Operations are declared once, in `flambeau.operations`.  They stand here in one flat namespace, and on the Tensor class.

>>> import flambeau as torch
>>> torch.arange(3).square().sum()
tensor(5)
"""

from .core.base import interpreter as _interpreter  # first of all
from ._compat import absent as _absent

_absent.take_imports()
from .core.base.lazily import waiting as _waiting

_waiting(
    __name__,
    *(
        "_C",
        "__config__",
        "_dynamo",
        "_functorch",
        "_subclasses",
        "accelerator",
        "ao",
        "backends",
        "classes",
        "cpu",
        "cuda",
    ),
    *(
        "distributed",
        "distributions",
        "export",
        "fft",
        "functional",
        "fx",
        "hub",
        "jit",
        "kernels",
        "library",
        "linalg",
        "masked",
        "monitor",
        "mps",
        "mtia",
    ),
    *(
        "multiprocessing",
        "nested",
        "nn",
        "onnx",
        "opencl",
        "optim",
        "profiler",
        "quantization",
        "quasirandom",
        "serialization",
        "signal",
    ),
    *("special", "testing", "xpu"),
)
from .torch_version import __version__

try:
    from .core.base import dtypes as _dtypes
except ImportError as _error:
    raise _interpreter.not_built(_error) from _error
from .core.base.device import get_default_device, set_default_device
from .core.base.dtypes import Size, device, dtype, get_default_dtype, promote_types, set_default_dtype
from .core.base.memory import OutOfMemoryError
from .core.base.memory import Storage as UntypedStorage
from .core.base.tensor import inherit_operators as _inherit_operators
from .core.base.once import is_warn_always_enabled, set_warn_always
from .core.base.parallel import get_num_threads, set_flush_denormal, set_num_threads
from .devices.streams import Event, Stream
from .core.call.operands import result_type
from .storage import LEGACY as _legacy_storages, TypedStorage, from_file, is_storage
from ._tensor import Tensor
from .core.base.formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    legacy_contiguous_format,
    memory_format,
    preserve_format,
    qscheme,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from math import e, inf, nan, pi

from .core.base import display as _display
from .core.base.naming import name_type as _name_type
from .core.make.random import Generator as _Generator

for _kind, _name in (
    (dtype, "dtype"),
    (device, "device"),
    (_Generator, "Generator"),
    (UntypedStorage, "storage.UntypedStorage"),
):
    _name_type(_kind, _display.public(_name))
for _kind in (Size, layout, memory_format, qscheme):
    _kind.__module__ = _display.NAME
newaxis = None
globals().update(qscheme.__members__)
globals().update(_dtypes.by_name)
globals().update(_dtypes.without_tensors)
globals().update(
    {_name: _absent.unmakeable(_name) for _name in (f"{_kind}Type" for _kind in _absent.TYPES.split())}
)
globals().update(_legacy_storages)
Storage = _legacy_storages["FloatStorage"]
float, double, half = _dtypes.by_name["float32"], _dtypes.by_name["float64"], _dtypes.by_name["float16"]
int, long, short = _dtypes.by_name["int32"], _dtypes.by_name["int64"], _dtypes.by_name["int16"]
cfloat, cdouble, chalf = (
    _dtypes.by_name["complex64"],
    _dtypes.by_name["complex128"],
    _dtypes.by_name["complex32"],
)

from .operations.declare.registry import published as _published

globals().update(_published(""))
for _name, _function in _published("Tensor.").items():
    setattr(Tensor, _name, _function)
_inherit_operators(Tensor)
del _inherit_operators

from ._compat import operators as _operators  # noqa: F401
from ._compat.foreach import functions as _foreach_functions

globals().update(_foreach_functions())
del _foreach_functions
from . import amp
from .amp import GradScaler, autocast
from .amp._state import (
    OLD as _old_autocast,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)

globals().update(_old_autocast)
from . import _utils, autograd, utils
from .autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .core.call.function import BuiltIn as _BuiltIn

for _function in (get_num_threads, set_num_threads, set_flush_denormal, result_type, is_grad_enabled):
    globals()[_function.__name__] = _BuiltIn(_function)  # no class that holds them binds them, as in PyTorch
    globals()[_function.__name__].__module__ = __name__
del _BuiltIn
from .core.tape import tensor_backward as _backward
from .autograd.grad_mode import is_inference_mode_enabled
from .core.base.typeinfo import finfo, iinfo

Tensor.backward = _backward

from ._compat import typed as _typed
from ._compat.typed import set_default_tensor_type

globals().update(_typed.CLASSES)
Tensor.new = _typed.new

from ._compat import array_object as _array_object

Tensor.__array_namespace__ = _array_object.__array_namespace__
Tensor.__cuda_array_interface__ = _array_object.__cuda_array_interface__
Tensor.to_device = _array_object.to_device

from . import sparse
from .sparse import (
    hspmm,
    native_norm,
    resize_as_sparse_,
    smm,
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    sspaddmm,
)

for _name, _function in sparse.METHODS.items():
    setattr(Tensor, _name, _function)
globals().update(sparse.COPIES)
dsmm = hsmm = spmm = globals()["mm"]
saddmm = globals()["addmm"]

from . import func, overrides, return_types, types
from .operations.linalg.quantised import (
    _convert_weight_to_int4pack_for_cpu,
    _weight_int4pack_mm_for_cpu,
    _weight_int8pack_mm,
)
from .operations.neural.quantizing import (
    QUANTISED as _quantised,
    _empty_affine_quantized,
    _empty_per_channel_affine_quantized,
    _make_per_channel_quantized_tensor,
    _make_per_tensor_quantized_tensor,
    empty_quantized,
    quantize_per_channel,
    quantize_per_tensor,
    quantize_per_tensor_dynamic,
)

for _name, _function in _quantised.items():
    setattr(Tensor, _name, _function)
    globals().setdefault(_name, _function)  # `qscheme` is a class
from .operations.linalg.scaled import _scaled_mm, grouped_mm as _grouped_mm
from .operations.moving.searching import (
    _convert_indices_from_coo_to_csr,
    _convert_indices_from_csr_to_coo,
)
from .operations.rows.segments import segment_reduce as _segment_reduce
from .operations.rows.softmax import _log_softmax_backward_data, _softmax_backward_data
from ._compat.printing import set_printoptions
from ._files import load, save
from ._compat.switches import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    get_num_interop_threads,
    has_lapack,
    has_mkl,
    has_openmp,
    has_spectral,
    init_num_threads,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_deterministic_algorithms_warn_only_enabled,
    is_vulkan_available,
    set_anomaly_enabled,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_num_interop_threads,
    use_deterministic_algorithms,
)
from ._compat.queries import (
    can_cast,
    get_device,
    is_complex,
    is_conj,
    is_distributed,
    is_floating_point,
    is_inference,
    is_neg,
    is_tensor,
    numel,
    typename,
)
from ._symbols.numbers import (
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sqrt,
    sym_sum,
    SymBool,
    SymFloat,
    SymInt,
)
from ._compat.checks import (
    _assert,
    _assert_async,
    _check,
    _check_index,
    _check_is_size,
    _check_not_implemented,
    _check_tensor_all,
    _check_tensor_all_with,
    _check_type,
    _check_value,
    _check_with,
)
from ._higher_order_ops import cond
from ._compat.tags import Tag
from .func import vmap
from .futures import Future
from . import compiler, futures, ops, random, torch_version, version
from .accelerator import get_device_module
from .compiler import compile
from .graph.lazy import lazy
from .random import thread_safe_generator
from .jit import ScriptFunction, ScriptModule
from ._files.records import PyTorchFileReader
from ._compat.as_torch import as_torch

_absent.attach()
