# Written by `python tools/interface.py` from the registry and the public namespace.
from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import object as _object
from builtins import slice as _slice
from builtins import str as _str
from builtins import tuple as _tuple
from collections.abc import Callable as _Callable
from collections.abc import Iterable as _Iterable
from collections.abc import Sequence as _Sequence
from flambeau import Generator as _Generator
from flambeau import Size as _Size
from flambeau import device as _device
from flambeau import dtype as _dtype
from flambeau import layout as _layout
from flambeau import memory_format as _memory_format
from flambeau import qscheme as _qscheme
from flambeau import return_types as _return_types
from typing import Any as _Any
from typing import Literal as _Literal
from typing import SupportsIndex as _SupportsIndex
from typing import TypeVar as _TypeVar
from typing import overload as _overload
_F = _TypeVar('_F', bound=_Callable[..., _Any])

from .devices.streams import Event as Event
from .futures import Future as Future
from .amp.grad_scaler import GradScaler as GradScaler
from ._files.records import PyTorchFileReader as PyTorchFileReader
from .jit._modules import ScriptFunction as ScriptFunction
from .jit._modules import ScriptModule as ScriptModule
from .devices.streams import Stream as Stream
from ._symbols.numbers import SymBool as SymBool
from ._symbols.numbers import SymFloat as SymFloat
from ._symbols.numbers import SymInt as SymInt
from ._compat.tags import Tag as Tag
from .storage import TypedStorage as TypedStorage
from . import accelerator as accelerator
from . import amp as amp
from . import ao as ao
from ._compat.switches import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from ._compat.as_torch import as_torch as as_torch
from .amp.autocast_mode import autocast as autocast
from .amp._state import autocast_decrement_nesting as autocast_decrement_nesting
from .amp._state import autocast_increment_nesting as autocast_increment_nesting
from . import autograd as autograd
from . import backends as backends
from ._compat.queries import can_cast as can_cast
from . import classes as classes
from .amp._state import clear_autocast_cache as clear_autocast_cache
from .compiler import compile as compile
from . import compiler as compiler
from ._higher_order_ops.cond import cond as cond
from . import cpu as cpu
from . import cuda as cuda
from . import distributed as distributed
from . import distributions as distributions
from .operations.neural.quantizing import empty_quantized as empty_quantized
from .core.tape.contexts import enable_grad as enable_grad
from . import export as export
from . import fft as fft
from .core.base.typeinfo import finfo as finfo
from .storage import from_file as from_file
from . import func as func
from . import functional as functional
from . import futures as futures
from . import fx as fx
from .amp._state import get_autocast_dtype as get_autocast_dtype
from ._compat.switches import get_deterministic_debug_mode as get_deterministic_debug_mode
from ._compat.queries import get_device as get_device
from .accelerator import get_device_module as get_device_module
from ._compat.switches import get_float32_matmul_precision as get_float32_matmul_precision
from ._compat.switches import get_num_interop_threads as get_num_interop_threads
from . import graph as graph
from .sparse import hspmm as hspmm
from . import hub as hub
from .core.base.typeinfo import iinfo as iinfo
from .autograd.grad_mode import inference_mode as inference_mode
from ._compat.switches import init_num_threads as init_num_threads
from ._compat.switches import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from ._compat.switches import is_anomaly_enabled as is_anomaly_enabled
from .amp._state import is_autocast_cache_enabled as is_autocast_cache_enabled
from .amp._state import is_autocast_enabled as is_autocast_enabled
from ._compat.queries import is_complex as is_complex
from ._compat.queries import is_conj as is_conj
from ._compat.switches import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from ._compat.queries import is_distributed as is_distributed
from ._compat.queries import is_floating_point as is_floating_point
from ._compat.queries import is_inference as is_inference
from ._compat.queries import is_neg as is_neg
from .storage import is_storage as is_storage
from ._compat.queries import is_tensor as is_tensor
from ._compat.switches import is_vulkan_available as is_vulkan_available
from .core.base.once import is_warn_always_enabled as is_warn_always_enabled
from . import jit as jit
from . import kernels as kernels
from .core.base.formats import layout as layout
from .graph.lazy import lazy as lazy
from . import library as library
from . import linalg as linalg
from ._files import load as load
from . import masked as masked
from .core.base.formats import memory_format as memory_format
from . import monitor as monitor
from . import mps as mps
from . import mtia as mtia
from . import multiprocessing as multiprocessing
from .sparse import native_norm as native_norm
from . import nested as nested
from . import nn as nn
from .autograd.grad_mode import no_grad as no_grad
from ._compat.queries import numel as numel
from . import onnx as onnx
from . import opencl as opencl
from . import ops as ops
from . import optim as optim
from . import overrides as overrides
from . import profiler as profiler
from .core.base.formats import qscheme as qscheme
from . import quantization as quantization
from .operations.neural.quantizing import quantize_per_channel as quantize_per_channel
from .operations.neural.quantizing import quantize_per_tensor as quantize_per_tensor
from .operations.neural.quantizing import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
from . import quasirandom as quasirandom
from . import random as random
from .sparse import resize_as_sparse_ as resize_as_sparse_
from . import return_types as return_types
from ._files import save as save
from . import serialization as serialization
from ._compat.switches import set_anomaly_enabled as set_anomaly_enabled
from .amp._state import set_autocast_cache_enabled as set_autocast_cache_enabled
from .amp._state import set_autocast_dtype as set_autocast_dtype
from .amp._state import set_autocast_enabled as set_autocast_enabled
from ._compat.typed import set_default_tensor_type as set_default_tensor_type
from ._compat.switches import set_deterministic_debug_mode as set_deterministic_debug_mode
from ._compat.switches import set_float32_matmul_precision as set_float32_matmul_precision
from .autograd.grad_mode import set_grad_enabled as set_grad_enabled
from ._compat.switches import set_num_interop_threads as set_num_interop_threads
from ._compat.printing import set_printoptions as set_printoptions
from .core.base.once import set_warn_always as set_warn_always
from . import signal as signal
from .sparse import smm as smm
from . import sparse as sparse
from .sparse import sparse_bsc_tensor as sparse_bsc_tensor
from .sparse import sparse_bsr_tensor as sparse_bsr_tensor
from .sparse import sparse_compressed_tensor as sparse_compressed_tensor
from .sparse import sparse_coo_tensor as sparse_coo_tensor
from .sparse import sparse_csc_tensor as sparse_csc_tensor
from .sparse import sparse_csr_tensor as sparse_csr_tensor
from . import special as special
from .sparse import sspaddmm as sspaddmm
from . import storage as storage
from ._symbols.numbers import sym_float as sym_float
from ._symbols.numbers import sym_int as sym_int
from ._symbols.numbers import sym_ite as sym_ite
from ._symbols.numbers import sym_max as sym_max
from ._symbols.numbers import sym_min as sym_min
from ._symbols.numbers import sym_not as sym_not
from ._symbols.numbers import sym_sqrt as sym_sqrt
from ._symbols.numbers import sym_sum as sym_sum
from . import testing as testing
from .random import thread_safe_generator as thread_safe_generator
from . import torch_version as torch_version
from ._compat.queries import typename as typename
from . import types as types
from ._compat.switches import use_deterministic_algorithms as use_deterministic_algorithms
from . import utils as utils
from . import version as version
from .func._vmap import vmap as vmap
from . import xpu as xpu
from ._tensor import Tensor as Tensor

class AnyType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class AwaitType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class BFloat16Storage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class BFloat16Tensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class BoolStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class BoolTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class BoolType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ByteStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ByteTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class CharStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class CharTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ClassType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ComplexDoubleStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ComplexFloatStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ComplexType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class DeviceObjType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class DictType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class DoubleStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class DoubleTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class EnumType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class FloatStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class FloatTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class FloatType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class FutureType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class Generator:
    """A stream of random numbers."""
    device: _device
    def __init__(self, device: _device | _str | _int | None=...) -> None: ...
    def clone_state(self) -> _Generator:
        """Another generator that continues the same stream."""
    def get_offset(self) -> _int:
        """How many counters, of four words each, have been used. RuntimeError for a generator of PyTorch's stream, which has none."""
    def get_state(self) -> Tensor:
        """A uint8 tensor: of 16 bytes, the seed and the counters used, both little-endian; of 5056 bytes for PyTorch's stream, laid out as PyTorch does it."""
    def initial_seed(self) -> _int:
        """The seed."""
    def manual_seed(self, seed: _int) -> _Generator:
        """Start the stream of that seed; returns the generator. RuntimeError for a seed beyond 64 bits, and for another seed than its own while a CUDA graph captures what it draws."""
    def seed(self) -> _int:
        """Start a stream that nobody can foresee; returns its seed."""
    def set_offset(self, offset: _int) -> _Generator:
        """Continue behind that many counters; returns the generator. RuntimeError unless it is in [0, 2**64 - 1], and for a generator of PyTorch's stream, which has no counters."""
    def set_state(self, new_state: Tensor) -> _Generator:
        """Continue where `get_state` was called, here or, for 5056 bytes, in PyTorch: the generator draws the stream that the state is of. TypeError unless it is a uint8 tensor, RuntimeError unless it is such a state."""

class HalfStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class HalfTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class InferredType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class IntStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class IntTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class IntType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class InterfaceType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ListType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class LongStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class LongTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class NoneType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class NumberType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class OptionalType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class OutOfMemoryError(RuntimeError):
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class PyObjectType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class RRefType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ShortStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class ShortTensor:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class Size(_tuple[_int, ...]):
    """The sizes of a tensor's dimensions."""
    def __new__(cls, sizes: _Iterable[_int]=...) -> _Size: ...
    @_overload
    def __getitem__(self, key: _SupportsIndex, /) -> _int: ...
    @_overload
    def __getitem__(self, key: _slice, /) -> _Size: ...
    def __add__(self, other: _tuple[_int, ...], /) -> _Size: ...  # type: ignore[override]
    def __radd__(self, other: _tuple[_int, ...], /) -> _Size: ...
    def __mul__(self, count: _SupportsIndex, /) -> _Size: ...
    def __rmul__(self, count: _SupportsIndex, /) -> _Size: ...
    def numel(self) -> _int:
        """numel(self) --"""

class Storage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class StreamObjType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class StringType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class SymBoolType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class SymIntType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class TensorType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class TupleType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class UnionType:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class UntypedStorage:
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    def __getattr__(self, name: _str) -> _Any: ...

class device:
    """Where tensors are: `device("cpu")`, `device("cuda", 1)`, `device("cuda:1")`.  As a context or decorator, the default for what is made."""
    type: _str
    index: _int | None
    @_overload
    def __init__(self, device: _device | _str | _int) -> None: ...
    @_overload
    def __init__(self, type: _str, index: _int=...) -> None: ...
    def __enter__(self) -> _device: ...
    def __exit__(self, *error: _object) -> None: ...
    def __call__(self, function: _F, /) -> _F: ...

class dtype:
    """The type of a tensor's elements, such as `flambeau.float32`."""
    is_complex: _bool
    is_floating_point: _bool
    is_signed: _bool
    itemsize: _int
    name: _str
    code: _int
    def to_complex(self) -> _dtype:
        """The complex dtype whose parts hold this dtype's numbers; RuntimeError for integers, bool and float8."""
    def to_real(self) -> _dtype:
        """The dtype of a complex dtype's parts; any other dtype itself."""

__version__: _str
bfloat16: _dtype
bits16: _dtype
bits1x8: _dtype
bits2x4: _dtype
bits4x2: _dtype
bits8: _dtype
bool: _dtype
cdouble: _dtype
cfloat: _dtype
chalf: _dtype
channels_last: _memory_format
channels_last_3d: _memory_format
complex128: _dtype
complex32: _dtype
complex64: _dtype
contiguous_format: _memory_format
default_generator: _Generator
double: _dtype
e: _float
float: _dtype
float16: _dtype
float32: _dtype
float4_e2m1fn_x2: _dtype
float64: _dtype
float8_e4m3fn: _dtype
float8_e4m3fnuz: _dtype
float8_e5m2: _dtype
float8_e5m2fnuz: _dtype
float8_e8m0fnu: _dtype
half: _dtype
has_lapack: _bool
has_mkl: _bool
has_openmp: _bool
has_spectral: _bool
inf: _float
int: _dtype
int1: _dtype
int16: _dtype
int2: _dtype
int3: _dtype
int32: _dtype
int4: _dtype
int5: _dtype
int6: _dtype
int64: _dtype
int7: _dtype
int8: _dtype
jagged: _layout
legacy_contiguous_format: _memory_format
long: _dtype
nan: _float
newaxis: None
per_channel_affine: _qscheme
per_channel_affine_float_qparams: _qscheme
per_channel_symmetric: _qscheme
per_tensor_affine: _qscheme
per_tensor_symmetric: _qscheme
pi: _float
preserve_format: _memory_format
qint32: _dtype
qint8: _dtype
quint2x4: _dtype
quint4x2: _dtype
quint8: _dtype
short: _dtype
sparse_bsc: _layout
sparse_bsr: _layout
sparse_coo: _layout
sparse_csc: _layout
sparse_csr: _layout
strided: _layout
uint1: _dtype
uint16: _dtype
uint2: _dtype
uint3: _dtype
uint32: _dtype
uint4: _dtype
uint5: _dtype
uint6: _dtype
uint64: _dtype
uint7: _dtype
uint8: _dtype

def abs(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """|input|: the absolute value, element by element, a real number; its derivative at 0 is 0."""
def abs_(input: Tensor) -> Tensor:
    """`abs` in place: the result is written over the tensor itself, which is returned."""
def absolute(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """|input|: the absolute value, element by element, a real number; its derivative at 0 is 0."""
def absolute_(input: Tensor) -> Tensor:
    """`abs` in place: the result is written over the tensor itself, which is returned."""
def acos(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arccos(input), the arc cosine in radians, element by element; integers become the default dtype."""
def acos_(input: Tensor) -> Tensor:
    """`acos` in place: the result is written over the tensor itself, which is returned."""
def acosh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(input + √(input² - 1)), the inverse hyperbolic cosine, element by element; integers become the default dtype."""
def acosh_(input: Tensor) -> Tensor:
    """`acosh` in place: the result is written over the tensor itself, which is returned."""
def adaptive_avg_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None]) -> Tensor:
    """Σ part / size: the means of `output_size` equal parts of an input (N, C, L) or (C, L)."""
def adaptive_max_pool1d(input: Tensor, output_size: _int | None | _Sequence[_int | None]) -> _tuple[Tensor, Tensor]:
    """max(input[⌊i n / size⌋ : ⌈(i + 1) n / size⌉]) for each of `output_size` parts, and its place. The input is (N, C, L) or (C, L)."""
def add(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input + alpha · other, element by element."""
def add_(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1.0) -> Tensor:
    """`add` in place: the result is written over the tensor itself, which is returned."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2).sum(0)` of b matrices each, (b, n, k) and (b, k, m); input broadcasts to (n, m), and is not read where beta is 0. RuntimeError where the shapes do not fit or the dtypes differ."""
def addbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
    """`addbmm` with its result written to input, which must have the result's shape."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input + value · tensor1 / tensor2."""
def addcdiv_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _complex = 1.0) -> Tensor:
    """`addcdiv` in place: the result is written over the tensor itself, which is returned."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input + value · tensor1 · tensor2."""
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _complex = 1.0) -> Tensor:
    """`addcmul` in place: the result is written over the tensor itself, which is returned."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """`beta * input + alpha * mat1 @ mat2` of matrices (n, k) and (k, m); input broadcasts to (n, m), and is not read where beta is 0. RuntimeError where the shapes do not fit or the dtypes differ."""
def addmm_(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
    """`addmm` with its result written to input, which must have the result's shape."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """`beta * input + alpha * mat @ vec` of a matrix (n, k) and a vector (k); input broadcasts to (n), and is not read where beta is 0. RuntimeError where the shapes do not fit or the dtypes differ."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
    """`addmv` with its result written to input, which must have the result's shape."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`; input broadcasts to (n, m), and is not read where beta is 0; dtypes are promoted. RuntimeError where the shapes do not fit."""
def addr_(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
    """`addr` with its result written to input, which must have the result's shape."""
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged, and complex numbers conjugated; RuntimeError for a vector."""
def affine_grid_generator(theta: Tensor, size: _Sequence[_int], align_corners: _bool) -> Tensor:
    """`nn.functional.affine_grid`, theta · (x, y, 1): the places to which affine maps, (N, 2, 3) or (N, 3, 4), take those of an image."""
def alias_copy(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(view_as(input, …)): what `view_as` shows, row-major and in memory of its own; shapes and errors are the view's."""
def all(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether all input ≠ 0, over `dim` (bool; uint8 for uint8)."""
def allclose(input: Tensor, other: Tensor | _complex, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
    """Whether |input - other| <= atol + rtol · |other| for all elements, a bool of Python; see `isclose`."""
def alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """a · (mask · x + (1 - mask) · α′) + b: drop elements so that mean and variance stay, each with chance `p`, where `train`; else the input itself."""
def alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """a · (mask · x + (1 - mask) · α′) + b: drop elements so that mean and variance stay in place, each with chance `p`, where `train`."""
def amax(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """max(input) over `dim`; equal ones share the gradient."""
def amin(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """min(input) over `dim`; equal ones share the gradient."""
def aminmax(input: Tensor, *, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.aminmax:
    """min(input) and max(input) over `dim` (all by default), as a named tuple (min, max)."""
def angle(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arg(input): the angle of each complex number in radians, in (-π, π]; of real ones, 0 or π, and NaN for NaN."""
def any(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether any input ≠ 0, over `dim` (bool; uint8 for uint8)."""
def arange(start: Tensor | _complex | None = None, end: Tensor | _complex | None = None, step: _float | None = None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of start, start + step, … before end, of shape (⌈(end - start) / step⌉,)."""
def arccos(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arccos(input), the arc cosine in radians, element by element; integers become the default dtype."""
def arccos_(input: Tensor) -> Tensor:
    """`acos` in place: the result is written over the tensor itself, which is returned."""
def arccosh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(input + √(input² - 1)), the inverse hyperbolic cosine, element by element; integers become the default dtype."""
def arccosh_(input: Tensor) -> Tensor:
    """`acosh` in place: the result is written over the tensor itself, which is returned."""
def arcsin(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arcsin(input), the arc sine in radians, element by element; integers become the default dtype."""
def arcsin_(input: Tensor) -> Tensor:
    """`asin` in place: the result is written over the tensor itself, which is returned."""
def arcsinh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(input + √(input² + 1)), the inverse hyperbolic sine, element by element; integers become the default dtype."""
def arcsinh_(input: Tensor) -> Tensor:
    """`asinh` in place: the result is written over the tensor itself, which is returned."""
def arctan(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arctan(input), the arc tangent in radians, element by element; integers become the default dtype."""
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arctan(input / other) with the quadrant: angle of the point (other, input), in (-π, π]."""
def arctan2_(input: Tensor, other: Tensor) -> Tensor:
    """`atan2` in place: the result is written over the tensor itself, which is returned."""
def arctan_(input: Tensor) -> Tensor:
    """`atan` in place: the result is written over the tensor itself, which is returned."""
def arctanh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log((1 + input) / (1 - input)) / 2, the inverse hyperbolic tangent, element by element; integers become the default dtype."""
def arctanh_(input: Tensor) -> Tensor:
    """`atanh` in place: the result is written over the tensor itself, which is returned."""
def argmax(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """argmax(input): where the largest element stands (the first of equal ones), along `dim` or in the flattened tensor (int64). (int64)."""
def argmin(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """argmin(input): where the smallest element stands (the first of equal ones), along `dim` or in the flattened tensor (int64). (int64)."""
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = False) -> Tensor:
    """Indices (int64) that sort along `dim`: the second result of `sort`."""
def argwhere(input: Tensor) -> Tensor:
    """`nonzero(input)`."""
def as_strided(input: Tensor, size: _int | _Sequence[_int], stride: _int | _Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """Any view of the storage: element `i` lies at storage_offset + i · stride, counted in elements."""
def as_strided_(input: Tensor, size: _int | _Sequence[_int], stride: _int | _Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """`as_strided` in place: the tensor itself gets the new shape."""
def as_strided_copy(input: Tensor, size: _Sequence[_int], stride: _Sequence[_int], storage_offset: None | _int = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(as_strided(input, …)): what `as_strided` shows, row-major and in memory of its own; shapes and errors are the view's."""
def as_strided_scatter(input: Tensor, src: Tensor, size: _Sequence[_int], stride: _Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """A row-major copy of `input` with `src` at the places of `as_strided(size, stride, storage_offset)`."""
def as_tensor(data: _Any, dtype: _dtype | None = None, device: _device | _str | _int | None = None, *, layout: _layout | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """As `tensor`, but a tensor of the right dtype is returned as it is, and a NumPy array shares its memory."""
def asarray(obj: _Any, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, copy: _Any = None, requires_grad: _bool | None = None) -> Tensor:
    """A tensor of `obj`, sharing its memory where that is possible and `copy` is not True."""
def asin(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arcsin(input), the arc sine in radians, element by element; integers become the default dtype."""
def asin_(input: Tensor) -> Tensor:
    """`asin` in place: the result is written over the tensor itself, which is returned."""
def asinh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(input + √(input² + 1)), the inverse hyperbolic sine, element by element; integers become the default dtype."""
def asinh_(input: Tensor) -> Tensor:
    """`asinh` in place: the result is written over the tensor itself, which is returned."""
def atan(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arctan(input), the arc tangent in radians, element by element; integers become the default dtype."""
def atan2(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """arctan(input / other) with the quadrant: angle of the point (other, input), in (-π, π]."""
def atan2_(input: Tensor, other: Tensor) -> Tensor:
    """`atan2` in place: the result is written over the tensor itself, which is returned."""
def atan_(input: Tensor) -> Tensor:
    """`atan` in place: the result is written over the tensor itself, which is returned."""
def atanh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log((1 + input) / (1 - input)) / 2, the inverse hyperbolic tangent, element by element; integers become the default dtype."""
def atanh_(input: Tensor) -> Tensor:
    """`atanh` in place: the result is written over the tensor itself, which is returned."""
@_overload
def atleast_1d(input: Tensor, /) -> Tensor:
    """0-dim tensors as vectors of one element; several tensors give a tuple."""
@_overload
def atleast_1d(first: Tensor, second: Tensor, /, *tensors: Tensor) -> _tuple[Tensor, ...]:
    """0-dim tensors as vectors of one element; several tensors give a tuple."""
@_overload
def atleast_1d(tensors: _Sequence[Tensor], /) -> _tuple[Tensor, ...]:
    """0-dim tensors as vectors of one element; several tensors give a tuple."""
@_overload
def atleast_2d(input: Tensor, /) -> Tensor:
    """Tensors of fewer than two dimensions with new ones in front; several tensors give a tuple."""
@_overload
def atleast_2d(first: Tensor, second: Tensor, /, *tensors: Tensor) -> _tuple[Tensor, ...]:
    """Tensors of fewer than two dimensions with new ones in front; several tensors give a tuple."""
@_overload
def atleast_2d(tensors: _Sequence[Tensor], /) -> _tuple[Tensor, ...]:
    """Tensors of fewer than two dimensions with new ones in front; several tensors give a tuple."""
@_overload
def atleast_3d(input: Tensor, /) -> Tensor:
    """Tensors of fewer than three dimensions with new ones: behind a matrix, on both sides of a vector."""
@_overload
def atleast_3d(first: Tensor, second: Tensor, /, *tensors: Tensor) -> _tuple[Tensor, ...]:
    """Tensors of fewer than three dimensions with new ones: behind a matrix, on both sides of a vector."""
@_overload
def atleast_3d(tensors: _Sequence[Tensor], /) -> _tuple[Tensor, ...]:
    """Tensors of fewer than three dimensions with new ones: behind a matrix, on both sides of a vector."""
def avg_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """Σ window / size: the mean of each window of an input (N, C, L) or (C, L)."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """`beta * input + alpha * batch1 @ batch2` of b matrices each, (b, n, k) and (b, k, m); input broadcasts to (b, n, m), and is not read where beta is 0. RuntimeError where the shapes do not fit or the dtypes differ."""
def baddbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
    """`baddbmm` with its result written to input, which must have the result's shape."""
def bartlett_window(window_length: _int, periodic: _bool = True, *values: _Any, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **named: _Any) -> Tensor:
    """1 - |2k/n - 1|, a triangle: a period of that length or, unless `periodic`, symmetric."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-05, cudnn_enabled: _bool = True) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias for each channel (Ioffe and Szegedy 2015). The channel is dimension 1."""
def bernoulli(input: Tensor, p: _float | None = None, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
    """1 with the probability that the element of `input` gives (or `p`, where it is given), else 0, in input's dtype."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`y[..., n] = input1[..., :] @ weight[n] @ input2[..., :] + bias[n]`."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: _int = 1) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`, -(y log σ(x) + (1 - y) log(1 - σ(x))), with a number for the reduction: 0 none, 1 mean, 2 sum."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """How often each non-negative integer occurs in a 1-dim tensor, or the sum of the weights where it does."""
def binomial(count: Tensor, prob: Tensor, generator: _Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with probability `prob`: floating-point tensors of one dtype, which broadcast."""
def bitwise_and(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input ∧ other, of each bit of integers, or of bools."""
def bitwise_and_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`bitwise_and` in place: the result is written over the tensor itself, which is returned."""
def bitwise_left_shift(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · 2^other, wrapping."""
def bitwise_left_shift_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`bitwise_left_shift` in place: the result is written over the tensor itself, which is returned."""
def bitwise_not(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """-input - 1 for integers, the complement of each element's bits; of bools, the opposite."""
def bitwise_not_(input: Tensor) -> Tensor:
    """`bitwise_not` in place: the result is written over the tensor itself, which is returned."""
def bitwise_or(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input ∨ other, of each bit of integers, or of bools."""
def bitwise_or_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`bitwise_or` in place: the result is written over the tensor itself, which is returned."""
def bitwise_right_shift(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """⌊input / 2^other⌋."""
def bitwise_right_shift_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`bitwise_right_shift` in place: the result is written over the tensor itself, which is returned."""
def bitwise_xor(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input ⊕ other, of each bit of integers, or of bools."""
def bitwise_xor_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`bitwise_xor` in place: the result is written over the tensor itself, which is returned."""
def blackman_window(window_length: _int, periodic: _bool = True, *values: _Any, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **named: _Any) -> Tensor:
    """0.42 - 0.5 cos(2πk/n) + 0.08 cos(4πk/n): a period of that length or, unless `periodic`, symmetric."""
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given ones (or rows, or numbers) along its diagonal and zeros elsewhere: [[A, 0], [0, B]] for A and B."""
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The products of b matrices each: (b, n, k) and (b, k, m) give (b, n, m). RuntimeError for other shapes (nothing broadcasts) or different dtypes."""
def broadcast_shapes(*shapes: _Any) -> _Size:
    """The shape that tensors of these shapes broadcast to; RuntimeError where they do not."""
def broadcast_tensors(*tensors: Tensor) -> _tuple[Tensor, ...]:
    """Views of the tensors, all of the shape that they broadcast to."""
def broadcast_to(input: Tensor, *sizes: _int | _Sequence[_int], size: _int | _Sequence[_int] | None = None) -> Tensor:
    """`input.expand(size)`."""
def bucketize(input: Tensor, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Tensor | None = None) -> Tensor:
    """k with boundaries[k - 1] < input ≤ boundaries[k], or ≤ and < where `right`. It is `searchsorted` in a 1-dim tensor."""
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples of one element of each 1-dim tensor, as rows in lexical order."""
def cat(tensors: _Sequence[Tensor], dim: _int | _Sequence[_int] | None = 0, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The tensors one after another along `dim`; their other sizes must agree, their dtypes are promoted to a common one. Empty 1-dim tensors are skipped. ValueError for no tensors, RuntimeError for 0-dim ones and for sizes that differ."""
def ccol_indices_copy(self: Tensor) -> Tensor:
    """`x.ccol_indices()` in memory of its own."""
def cdist(x1: Tensor, x2: Tensor, p: _float = 2.0, compute_mode: _str = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
    """The p-norm of every row of x1 (…, P, M) less every row of x2 (…, R, M): (…, P, R)."""
def ceil(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """⌈input⌉: the smallest integer not below, as a floating-point number; its derivative is 0."""
def ceil_(input: Tensor) -> Tensor:
    """`ceil` in place: the result is written over the tensor itself, which is returned."""
def celu(input: Tensor, alpha: _complex = 1.0, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """max(0, x) + min(0, alpha · (exp(x / alpha) - 1)) (Barron 2017)."""
def celu_(input: Tensor, alpha: _complex = 1.0) -> Tensor:
    """`celu` in place: the result is written over the tensor itself, which is returned."""
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """A₁ · A₂ · … · Aₙ in the order of least work, as `linalg.multi_dot`; of one matrix, itself."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """result[:, k · groups + g] = input[:, g · C / groups + k] (Zhang et al. 2018). The channels of `groups` groups of (N, C, *) are dealt out in turn."""
def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """`linalg.cholesky`: L with A = L Lᴴ, or its Hermitian transpose where `upper`."""
def cholesky_inverse(L: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """(L Lᴴ)⁻¹, or (Lᴴ L)⁻¹ where `upper`."""
def cholesky_solve(input: Tensor, L: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """X with A X = input, for A = L Lᴴ (Lᴴ L where `upper`)."""
def chunk(input: Tensor, chunks: _int, dim: _int | _Sequence[_int] | None = 0) -> _tuple[Tensor, ...]:
    """At most `chunks` pieces of equal length; the last may be shorter."""
def clamp(input: Tensor, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """min(max(input, min), max): input, kept between min and max (numbers or tensors; either may be None, not both)."""
def clamp_(input: Tensor, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None) -> Tensor:
    """`clamp` in place."""
def clamp_max(input: Tensor, max: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """min(input, max): input, lowered to max where it is more."""
def clamp_max_(input: Tensor, max: Tensor | _complex) -> Tensor:
    """`clamp_max` in place: the result is written over the tensor itself, which is returned."""
def clamp_min(input: Tensor, min: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """max(input, min): input, raised to min where it is less."""
def clamp_min_(input: Tensor, min: Tensor | _complex) -> Tensor:
    """`clamp_min` in place: the result is written over the tensor itself, which is returned."""
def clip(input: Tensor, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """min(max(input, min), max): input, kept between min and max (numbers or tensors; either may be None, not both)."""
def clip_(input: Tensor, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None) -> Tensor:
    """`clamp` in place."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """A copy with its own memory, on the tape: with the strides of the input where it has no gaps, or in `memory_format`."""
def col_indices_copy(self: Tensor) -> Tensor:
    """`x.col_indices()` in memory of its own."""
def column_stack(tensors: _Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """[a b …]: the tensors side by side as columns; 0-dim and 1-dim ones become matrices of one column first."""
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """All choices of r elements of a 1-dim tensor, as rows in the order of `itertools.combinations`."""
def complex(real: Tensor, imag: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The complex numbers real + i·imag; of float16, complex32."""
def concat(tensors: _Sequence[Tensor], dim: _int | _Sequence[_int] | None = 0, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """cat(tensors, dim=0, *, out=None) -> Tensor"""
def concatenate(tensors: _Sequence[Tensor], dim: _int | _Sequence[_int] | None = 0, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """cat(tensors, dim=0, *, out=None) -> Tensor"""
def conj(input: Tensor) -> Tensor:
    """re - i · im: the complex conjugate, in memory of its own; a real tensor itself."""
def conj_physical(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """re - i · im: the complex conjugate, element by element; of real numbers, themselves."""
def conj_physical_(input: Tensor) -> Tensor:
    """`conj_physical` in place: the result is written over the tensor itself, which is returned."""
def constant_pad_nd(input: Tensor, pad_: _Sequence[_int], value: _complex = 0) -> Tensor:
    """`nn.functional.pad` with a constant."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Σ input[k · stride + j · dilation - padding] · weight[j] + bias: cross-correlation."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Σ input[k · stride + j · dilation - padding] · weight[j] + bias: cross-correlation."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Σ input[k · stride + j · dilation - padding] · weight[j] + bias: cross-correlation."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor:
    """result[t, n, o] = bias[o] + Σ input[t + k - pad, n, c] · weight[k, c, o]. It is the cross-correlation of an input (T, N, C) with a weight (K, C, O) along time, with `pad` zeros at both ends."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, output_padding: _int | _Sequence[_int] = 0, groups: _int = 1, dilation: _int | _Sequence[_int] = 1) -> Tensor:
    """Each input[k] · weight[j] added at k · stride + j · dilation - padding: a convolution's adjoint."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, output_padding: _int | _Sequence[_int] = 0, groups: _int = 1, dilation: _int | _Sequence[_int] = 1) -> Tensor:
    """Each input[k] · weight[j] added at k · stride + j · dilation - padding: a convolution's adjoint."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | _Sequence[_int] = 1, padding: _int | _Sequence[_int] | _str = 0, output_padding: _int | _Sequence[_int] = 0, groups: _int = 1, dilation: _int | _Sequence[_int] = 1) -> Tensor:
    """Each input[k] · weight[j] added at k · stride + j · dilation - padding: a convolution's adjoint."""
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: _Sequence[_int], padding: _Sequence[_int], dilation: _Sequence[_int], transposed: _bool, output_padding: _Sequence[_int], groups: _int) -> Tensor:
    """`nn.functional.conv1d` and its kin: Σ input[at · stride + k · dilation - padding] · weight[k] in 1 to 3 dimensions, or the transposed one, distinguished by the weight."""
def copysign(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """|input| with other's sign."""
def copysign_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`copysign` in place: the result is written over the tensor itself, which is returned."""
def corrcoef(input: Tensor) -> Tensor:
    """C[i, j] / √(C[i, i] · C[j, j]) for C = `cov(input)`, within [-1, 1]. These are correlation coefficients of variables (rows) over observations (columns)."""
def cos(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Cosine of radians, cos(input), element by element; integers become the default dtype."""
def cos_(input: Tensor) -> Tensor:
    """`cos` in place: the result is written over the tensor itself, which is returned."""
def cosh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """(e^input + e^-input) / 2, the hyperbolic cosine, element by element; integers become the default dtype."""
def cosh_(input: Tensor) -> Tensor:
    """`cosh` in place: the result is written over the tensor itself, which is returned."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """1 - cos for targets of 1, max(0, cos - margin) for targets of -1; inputs (N, D) or (D,)."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """x1·x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along `dim`."""
def count_nonzero(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Σ (input ≠ 0): how many elements are not zero, over `dim` (int64)."""
def cov(input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Σ (x - mean) (y - mean)ᵀ / (n - correction) of variables (rows) over observations (columns)."""
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """(a₂b₃ - a₃b₂, a₃b₁ - a₁b₃, a₁b₂ - a₂b₁) for a = input and b = other along `dim`. That has three elements; by default it is the first dimension that has."""
def crow_indices_copy(self: Tensor) -> Tensor:
    """`x.crow_indices()` in memory of its own."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | _int | _Sequence[_int], target_lengths: Tensor | _int | _Sequence[_int], blank: _int = 0, reduction: _int = 1, zero_infinity: _bool = False) -> Tensor:
    """`nn.functional.ctc_loss` with a number for the reduction: 0 none, 1 mean, 2 sum."""
def cummax(input: Tensor, dim: _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.cummax:
    """max(x₀ … xₖ) for each k along `dim` and where it stands, as a named tuple (values, indices)."""
def cummin(input: Tensor, dim: _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.cummin:
    """min(x₀ … xₖ) for each k along `dim` and where it stands, as a named tuple (values, indices)."""
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Π x₀ … xₖ for each k along `dim`, the running product; integers and bools give int64."""
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Σ x₀ … xₖ for each k along `dim`, the running sum; integers and bools give int64, half types are summed in float32, float32 in float64."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _float = 1.0, dim: _int = -1) -> Tensor:
    """Σ dx · (yₖ + yₖ₊₁) / 2 up to each place along `dim`, at places `x` or at distance `dx`. It is the running integral by the trapezoidal rule."""
def deg2rad(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · π / 180: degrees to radians."""
def deg2rad_(input: Tensor) -> Tensor:
    """`deg2rad` in place: the result is written over the tensor itself, which is returned."""
def dequantize(input: Tensor) -> Tensor:
    """The numbers of a quantised tensor, in float32, or of a sequence of them; any other tensor in float32."""
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Σ sign(π) Π A[k, π(k)]: the determinant of square matrices."""
def detach(input: Tensor) -> Tensor:
    """The same elements without history; writes to it are seen by the tape as writes to the input."""
def detach_(input: Tensor) -> Tensor:
    """Cut the tensor off from its history; RuntimeError for a view."""
def detach_copy(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(detach(input, …)): what `detach` shows, row-major and in memory of its own; shapes and errors are the view's."""
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Of a vector, the matrix with it as a diagonal; of a matrix, a copy of its diagonal. RuntimeError for other ranks."""
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """Matrices, over dimensions dim1 and dim2, with the last dimension of `input` as their diagonal and zeros elsewhere."""
def diagflat(input: Tensor, offset: _int = 0) -> Tensor:
    """The matrix with all elements, flattened, as a diagonal."""
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """The diagonal of the matrices along dim1 and dim2, as a new last dimension; `offset` > 0 lies above the main one."""
def diagonal_copy(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(diagonal(input, …)): what `diagonal` shows, row-major and in memory of its own; shapes and errors are the view's."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """A copy of `input` with `src` as its diagonal."""
def diff(input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """x[k + 1] - x[k] along `dim`, n times over; `prepend` and `append` are joined on first."""
def digamma(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Γ′(input) / Γ(input): the logarithmic derivative of Γ, element by element."""
def digamma_(input: Tensor) -> Tensor:
    """`digamma` in place: the result is written over the tensor itself, which is returned."""
def dist(input: Tensor, other: Tensor | _complex, p: _float | _str | None = 2) -> Tensor:
    """(Σ |input - other|^p)^(1/p): the p-norm of the difference."""
def div(input: Tensor, other: Tensor | _complex, *, rounding_mode: _str | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input / other: in floating point, or rounded by `rounding_mode` "trunc" or "floor"."""
def div_(input: Tensor, other: Tensor | _complex, *, rounding_mode: _str | None = None) -> Tensor:
    """`div` in place."""
def divide(input: Tensor, other: Tensor | _complex, *, rounding_mode: _str | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input / other: in floating point, or rounded by `rounding_mode` "trunc" or "floor"."""
def divide_(input: Tensor, other: Tensor | _complex, *, rounding_mode: _str | None = None) -> Tensor:
    """`div` in place."""
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The sum of products of two vectors of one length, 0-dim. RuntimeError for other shapes or different dtypes."""
def dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """`nn.functional.dropout`: elements zeroed with chance p, the others times 1 / (1 - p); the input itself unless `train`."""
def dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """Zero elements and scale the others by 1 / (1 - p) in place, each with chance `p`, where `train`."""
def dsmm(input: Tensor, mat2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """mm(input, mat2, *, out=None) -> Tensor"""
def dsplit(input: Tensor, indices_or_sections: Tensor | _int | _Sequence[_int]) -> _tuple[Tensor, ...]:
    """`tensor_split` along depth, dimension 2 of at least 3; sections must be of equal length."""
def dstack(tensors: _Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The tensors one behind another: along the third dimension, which is added where it is missing."""
def einsum(*args: _Any) -> Tensor:
    """Sum of products of tensors whose dimensions are named by letters."""
def embedding(weight: Tensor, indices: Tensor, padding_idx: _int = -1, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """weight[indices]: `nn.functional.embedding` with the table first, rows of `weight` (V, D) at the places `indices` (*): (*, D)."""
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: _bool = False, mode: _int = 0, sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> _tuple[Tensor, Tensor, Tensor, Tensor]:
    """Σ weight[indices] over bags (`mode` 0), means (1) or maxima (2) of rows of `weight` (V, D). The bags start at `offsets` (B); the result is (B, D)."""
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: _float, norm_type: _float) -> Tensor:
    """row · min(1, max_norm / ‖row‖ₚ) for the rows of a table (V, D) at `indices`, in place. p is `norm_type`."""
@_overload
def empty(*size: _int | _Sequence[_int], dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor: elements are not set."""
@_overload
def empty(size: _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor: elements are not set."""
def empty_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of input's shape, dtype and layout, not set."""
def empty_permuted(size: _Sequence[_int], physical_layout: _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """An uninitialised tensor of shape `size` whose dimensions lie in memory in the order `physical_layout`, outermost first."""
def empty_strided(size: _int | _Sequence[_int], stride: _int | _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor with that layout."""
def eq(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input = other, element by element (bool)."""
def eq_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`eq` in place: the result is written over the tensor itself, which is returned."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Whether input = other: both tensors have the same shape and elements; a bool of Python."""
def erf(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Error function, 2/√π ∫₀ˣ exp(-t²) dt, element by element; integers become the default dtype."""
def erf_(input: Tensor) -> Tensor:
    """`erf` in place: the result is written over the tensor itself, which is returned."""
def erfc(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1 - erf(input), exact for large inputs, element by element; integers become the default dtype."""
def erfc_(input: Tensor) -> Tensor:
    """`erfc` in place: the result is written over the tensor itself, which is returned."""
def erfinv(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """y with erf(y) = input, the inverse of erf, element by element; integers become the default dtype."""
def erfinv_(input: Tensor) -> Tensor:
    """`erfinv` in place: the result is written over the tensor itself, which is returned."""
def exp(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """e^input, element by element; integers become the default dtype."""
def exp2(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """2^input, element by element; integers become the default dtype."""
def exp2_(input: Tensor) -> Tensor:
    """`exp2` in place: the result is written over the tensor itself, which is returned."""
def exp_(input: Tensor) -> Tensor:
    """`exp` in place: the result is written over the tensor itself, which is returned."""
def expand_copy(input: Tensor, size: _Sequence[_int], *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(expand(input, …)): what `expand` shows, row-major and in memory of its own; shapes and errors are the view's."""
def expm1(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """exp(input) - 1, exact for small inputs, element by element; integers become the default dtype."""
def expm1_(input: Tensor) -> Tensor:
    """`expm1` in place: the result is written over the tensor itself, which is returned."""
def eye(n: Tensor | _int, m: _Any = None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """(n, m) Tensor with ones on the diagonal."""
def fake_quantize_per_channel_affine(input: Tensor, scale: Tensor, zero_point: Tensor, axis: _int, quant_min: _int, quant_max: _int) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point, (C,), for each index of dimension `axis`."""
def fake_quantize_per_tensor_affine(input: Tensor, scale: _Any, zero_point: _Any, quant_min: _int, quant_max: _int) -> Tensor:
    """Round to multiples of `scale` as if quantised to integers from `quant_min` to `quant_max`, of which `zero_point` is 0."""
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """a · (mask · x + (1 - mask) · α′) + b: drop channels so that mean and variance stay, each with chance `p`, where `train`; else the input itself."""
def feature_alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """a · (mask · x + (1 - mask) · α′) + b: drop channels so that mean and variance stay in place, each with chance `p`, where `train`."""
def feature_dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """Zero channels and scale the others by 1 / (1 - p), each with chance `p`, where `train`; else the input itself."""
def feature_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """Zero channels and scale the others by 1 / (1 - p) in place, each with chance `p`, where `train`."""
def fill(input: Tensor, value: Tensor | _complex) -> Tensor:
    """A tensor of the same shape and dtype with `value` (a number or a 0-dim tensor) everywhere."""
def fill_(input: Tensor, value: Tensor | _complex) -> Tensor:
    """Write `value`, a number or a 0-dim tensor, to every element. RuntimeError for a number that the dtype cannot hold and for a tensor with dimensions."""
def fill_diagonal_(self: Tensor, fill_value: _complex, wrap: _bool = False) -> Tensor:
    """The main diagonal set to a number, in place; `wrap` starts it again below the square part of a tall matrix."""
def fix(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """sign(input) · ⌊|input|⌋: the integer before the point, as a floating-point number; its derivative is 0."""
def fix_(input: Tensor) -> Tensor:
    """`trunc` in place: the result is written over the tensor itself, which is returned."""
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
    """Dimensions start_dim … end_dim made one; a 0-dim tensor gets one dimension."""
def flip(input: Tensor, *dims_: _int | _Sequence[_int], dims: _int | _Sequence[_int] | None = None) -> Tensor:
    """A copy with the elements in reverse order along `dims`."""
def fliplr(input: Tensor) -> Tensor:
    """The columns (dimension 1) in reverse order."""
def flipud(input: Tensor) -> Tensor:
    """The rows (dimension 0) in reverse order."""
def float_power(input: Tensor, exponent: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input^exponent in float64, or in complex128 where either is complex."""
def float_power_(self: Tensor, exponent: Tensor | _complex) -> Tensor:
    """`float_power` in place: input^exponent in float64, or in complex128 where either is complex."""
def floor(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """⌊input⌋: the largest integer not above, as a floating-point number; its derivative is 0."""
def floor_(input: Tensor) -> Tensor:
    """`floor` in place: the result is written over the tensor itself, which is returned."""
def floor_divide(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Quotient rounded down, ⌊input / other⌋; the caller has ruled out integer zeros."""
def floor_divide_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`floor_divide` in place."""
def fmax(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """max(input, other); a NaN loses to a number."""
def fmin(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """min(input, other); a NaN loses to a number."""
def fmod(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input - other · trunc(input / other): of input's sign."""
def fmod_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`fmod` in place."""
def frac(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input - trunc(input): the part after the point, with input's sign."""
def frac_(input: Tensor) -> Tensor:
    """`frac` in place: the result is written over the tensor itself, which is returned."""
def frexp(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.frexp:
    """Mantissa, of magnitude in [0.5, 1), and exponent (int32) with input = mantissa · 2^exponent."""
def frobenius_norm(input: Tensor, dim: _int | _tuple[_int, ...], keepdim: _bool = False) -> Tensor:
    """√(Σ |input|²) over `dim`."""
def from_dlpack(ext_tensor: _Any, *, device: _device | _str | _int | None = None, copy: _Any = None) -> Tensor:
    """A tensor of the shape of another library's array, or a DLPack capsule, whose memory it shares."""
def from_numpy(array: _Any) -> Tensor:
    """A tensor of an ndarray's shape that shares its memory."""
def frombuffer(buffer: _Any, *, dtype: _dtype | None, count: _float = -1, offset: _float = 0, requires_grad: _bool = False) -> Tensor:
    """A tensor of shape (elements,) over the memory of an object with the buffer protocol, from byte `offset` on."""
def full(size: _int | _Sequence[_int], fill_value: Tensor | _complex, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of one number, which gives the dtype."""
def full_like(input: Tensor, fill_value: Tensor | _complex, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of one number in input's shape, dtype and layout."""
def gather(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Elements of dimension `dim` chosen by `index`, whose shape the result has."""
def gcd(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """max {d : input = d · i, other = d · j}: the greatest common divisor of integers."""
def gcd_(self: Tensor, *others: Tensor) -> Tensor:
    """`gcd` in place."""
def ge(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input ≥ other, element by element (bool)."""
def ge_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`ge` in place: the result is written over the tensor itself, which is returned."""
def geqrf(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.geqrf:
    """QR decomposition in LAPACK's compact form: `a` holds R and, below its diagonal, the vectors of the reflections whose scales are `tau`; `linalg.householder_product` makes Q of both."""
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """outer(input, vec2, *, out=None) -> Tensor"""
def get_autocast_cpu_dtype() -> _dtype:
    """The lower dtype for "cpu"; deprecated: `get_autocast_dtype` takes the type of device."""
def get_autocast_gpu_dtype() -> _dtype:
    """The lower dtype for "cuda"; deprecated: `get_autocast_dtype` takes the type of device."""
def get_autocast_ipu_dtype() -> _dtype:
    """The lower dtype for "ipu"; deprecated: `get_autocast_dtype` takes the type of device."""
def get_autocast_xla_dtype() -> _dtype:
    """The lower dtype for "xla"; deprecated: `get_autocast_dtype` takes the type of device."""
def get_default_device() -> _device:
    """Where this thread makes tensors without a device argument: that of the innermost `with device(…)`, else that of `set_default_device`, else the CPU."""
def get_default_dtype() -> _dtype:
    """The dtype that Python floats become: float32 unless `set_default_dtype` has changed it."""
def get_num_threads() -> _int:
    """Returns the number of threads that CPU operations share their work over."""
def get_rng_state() -> Tensor:
    """The default generator's state, a uint8 tensor."""
def gradient(input: Tensor, *, spacing: _float = 1, dim: _int | _Sequence[_int] | None = None, edge_order: _int = 1) -> _tuple[Tensor, ...]:
    """Derivatives along dimensions (`dim`, all by default), from differences to both neighbours; at the edges one-sided ones of `edge_order` 1 or 2."""
def greater(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input > other, element by element (bool)."""
def greater_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`gt` in place: the result is written over the tensor itself, which is returned."""
def greater_equal(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input ≥ other, element by element (bool)."""
def greater_equal_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`ge` in place: the result is written over the tensor itself, which is returned."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`nn.functional.grid_sample`, Σ wₖ · input[k], with numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`nn.functional.grid_sample`, Σ wₖ · input[k], its modes by number."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`nn.functional.grid_sample`, Σ wₖ · input[k], its modes by number."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05, cudnn_enabled: _bool = True) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias for each group of each example (Wu and He 2018). The channels, dimension 1, are in `num_groups` groups."""
def gru(input: Tensor, hx: _Any, params: _Any, has_biases: _bool, num_layers: _Any, dropout: _Any, train: _bool, bidirectional: _bool, batch_first: _bool) -> _tuple[Tensor, ...]:
    """Layers of gated recurrent units (Cho et al. 2014): the last one's outputs and the state at the end."""
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None=None, b_hh: Tensor | None=None) -> Tensor:
    """The next state, (N, H), of gated recurrent units (Cho et al. 2014)."""
def gt(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input > other, element by element (bool)."""
def gt_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`gt` in place: the result is written over the tensor itself, which is returned."""
def hamming_window(window_length: _int, periodic: _bool = True, *values: _Any, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **named: _Any) -> Tensor:
    """alpha - beta · cos(2πk/n): a period of that length or, unless `periodic`, symmetric."""
def hann_window(window_length: _int, periodic: _bool = True, *values: _Any, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **named: _Any) -> Tensor:
    """0.5 - 0.5 cos(2πk/n): a period of that length or, unless `periodic`, symmetric."""
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input where |input| > lambd, else 0."""
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """0 where input < 0 and for NaN, 1 where input > 0, `values` where input = 0."""
def heaviside_(input: Tensor, values: Tensor) -> Tensor:
    """`heaviside` in place: the result is written over the tensor itself, which is returned."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1."""
def histc(input: Tensor, bins: _int = 100, min: _float = 0, max: _float = 0, *, out: Tensor | None = None) -> Tensor:
    """How many elements lie in each of `bins` equal parts of [min, max]; of [smallest, largest] where both are equal."""
def histogram(input: Tensor, bins: _Any, *, range: _Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.histogram:
    """How many elements, or what weight of them, lie in each bin, and the edges of the bins; the last bin is closed."""
def histogramdd(input: Tensor, bins: _Any, *, range: _Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> _return_types.histogramdd:
    """How many points (rows of the last dimension), or what weight of them, each box of a grid holds."""
def hsmm(input: Tensor, mat2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """mm(input, mat2, *, out=None) -> Tensor"""
def hsplit(input: Tensor, indices_or_sections: Tensor | _int | _Sequence[_int]) -> _tuple[Tensor, ...]:
    """`tensor_split` along columns: dimension 1, or 0 of a vector; sections must be of equal length."""
def hstack(tensors: _Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """[A B …]: the tensors side by side, along the second dimension, 1-dim ones along the first."""
def hypot(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """√(input² + other²) without overflow."""
def hypot_(input: Tensor, other: Tensor) -> Tensor:
    """`hypot` in place: the result is written over the tensor itself, which is returned."""
def i0(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1/π ∫₀^π exp(x · cos t) dt, the modified Bessel function of the first kind of order 0, element by element; integers become the default dtype."""
def i0_(self: Tensor, *others: Tensor) -> Tensor:
    """`i0` in place."""
def igamma(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Regularised lower incomplete gamma function, 1/Γ(a) ∫₀ˣ t^(a-1) e^(-t) dt with a = input, x = other."""
def igamma_(self: Tensor, *others: Tensor) -> Tensor:
    """`igamma` in place."""
def igammac(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Regularised upper incomplete gamma function, 1 - igamma(input, other)."""
def igammac_(self: Tensor, *others: Tensor) -> Tensor:
    """`igammac` in place."""
def imag(input: Tensor) -> Tensor:
    """The imaginary part of complex numbers, a view. RuntimeError for real dtypes."""
def index_add(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, *, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """A copy of the input with `alpha` times the parts of `source` added to the parts that `index` names."""
def index_add_(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, *, alpha: _complex = 1) -> Tensor:
    """Add `alpha` times the parts of `source` to the parts of dimension `dim` that `index` names; equal indices add up."""
def index_copy(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """A copy of the input with the parts that `index` names overwritten by those of `source`."""
def index_copy_(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor) -> Tensor:
    """Overwrite the parts of dimension `dim` that `index` names by those of `source`; of equal indices the last wins."""
def index_fill(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, value: Tensor | _complex) -> Tensor:
    """A copy of the input with the parts that `index` names filled with `value`."""
def index_fill_(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, value: Tensor | _complex) -> Tensor:
    """Fill the parts of dimension `dim` that `index` names with `value`, a number or a 0-dim tensor."""
def index_put(input: Tensor, indices: Tensor | _int | _Sequence[_int], values: _Any, accumulate: _bool = False) -> Tensor:
    """A copy of the input with `values` written (or added) at `indices`."""
def index_put_(input: Tensor, indices: Tensor | _int | _Sequence[_int], values: _Any, accumulate: _bool = False) -> Tensor:
    """`input[indices] = values`, or `+=` with `accumulate`, where equal indices add up in their order."""
def index_reduce(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, reduce: _str | _bool | None, *, include_self: _bool = True, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """A copy of the input with the parts of `source` combined where `index` says, as `index_reduce_` does."""
def index_reduce_(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, reduce: _str | _bool | None, *, include_self: _bool = True) -> Tensor:
    """Combine the parts of `source` with the parts of dimension `dim` that a vector of indices names, by "prod", "mean", "amax" or "amin"."""
def index_select(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The parts of dimension `dim` that a vector of indices names, in its order."""
def indices_copy(self: Tensor) -> Tensor:
    """`x.indices()` in memory of its own."""
def initial_seed() -> _int:
    """The default generator's seed; `manual_seed` of it repeats draws of the same shapes."""
def inner(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Sums of products over the last dimension of both; the shape is input's other dimensions, then other's. With a 0-dim tensor it is the product of all elements with it. RuntimeError where the last sizes or the dtypes differ."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: _bool = True, momentum: _float = 0.1, eps: _float = 1e-05, cudnn_enabled: _bool = True) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias for each channel of each example (Ulyanov et al. 2016)."""
def int_repr(input: Tensor) -> Tensor:
    """The integers of a quantised tensor, in memory of their own."""
def inverse(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A⁻¹, the inverse of square matrices; LinAlgError where one is singular."""
def is_autocast_cpu_enabled() -> _bool:
    """Whether autocast is on for "cpu"; deprecated: `is_autocast_enabled` takes the type of device."""
def is_autocast_ipu_enabled() -> _bool:
    """Whether autocast is on for "ipu"; deprecated: `is_autocast_enabled` takes the type of device."""
def is_autocast_xla_enabled() -> _bool:
    """Whether autocast is on for "xla"; deprecated: `is_autocast_enabled` takes the type of device."""
def is_grad_enabled() -> _bool:
    """Whether operations are recorded in this thread."""
def is_inference_mode_enabled() -> _bool:
    """Whether this thread is in inference mode."""
def is_nonzero(input: Tensor) -> _bool:
    """Whether a tensor's only element is not zero; RuntimeError unless there is just one."""
def is_same_size(input: Tensor, other: Tensor) -> _bool:
    """Whether two tensors have one shape."""
def is_set_to(input: Tensor, tensor: Tensor) -> _bool:
    """Whether both lie over the same storage at the same place with the same shape and strides."""
def is_signed(input: Tensor) -> _bool:
    """Whether the tensor's dtype has negative numbers."""
def isclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol · |other|, element by element (bool)."""
def isfinite(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """|input| < inf: whether each element is a finite number."""
def isin(elements: _Any, test_elements: _Any, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether each element is among the test elements (bool)."""
def isinf(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """|input| = inf: whether each element is infinite."""
def isnan(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input ≠ input: whether each element is not a number."""
def isneginf(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input = -inf: whether each element is -inf."""
def isposinf(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input = inf: whether each element is +inf."""
def isreal(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """im(input) = 0: whether the imaginary part is 0, element by element; True for real numbers."""
def istft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
    """The signal with the least squared distance to these short-time transforms: D. W. Griffin and J. S. Lim, "Signal estimation from modified short-time Fourier transform" (1984)."""
def kaiser_window(window_length: _int, periodic: _bool = True, *values: _Any, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, **named: _Any) -> Tensor:
    """I₀(beta · √(1 - (2k/n - 1)²)) / I₀(beta): a period of that length or, unless `periodic`, symmetric."""
def kl_div(input: Tensor, target: Tensor, reduction: _int = 1, *, log_target: _bool = False) -> Tensor:
    """`nn.functional.kl_div`, target · (log target - input), with a number for the reduction: 0 none, 1 mean, 2 sum."""
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker product: every element of `input` times the whole of `other`."""
def kthvalue(input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.kthvalue:
    """The k-th smallest element along `dim`, counted from 1, and where it stands: (values, indices)."""
def layer_norm(input: Tensor, normalized_shape: _int | _Sequence[_int], weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05, cudnn_enable: _bool = True) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias over the last dimensions (Ba et al. 2016). These have the sizes `normalized_shape`."""
def lcm(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """|input · other| / gcd(input, other): the least common multiple of integers, element by element."""
def lcm_(self: Tensor, *others: Tensor) -> Tensor:
    """`lcm` in place."""
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input · 2^other, in the common dtype; integers become the default dtype."""
def ldexp_(self: Tensor, other: Tensor) -> Tensor:
    """`ldexp` in place: self · 2^other."""
def le(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input ≤ other, element by element (bool)."""
def le_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`le` in place: the result is written over the tensor itself, which is returned."""
def lerp(input: Tensor, end: Tensor, weight: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input + weight · (end - input), computed from the nearer end."""
def lerp_(input: Tensor, end: Tensor, weight: Tensor | _complex) -> Tensor:
    """`lerp` in place: the result is written over the tensor itself, which is returned."""
def less(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input < other, element by element (bool)."""
def less_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`lt` in place: the result is written over the tensor itself, which is returned."""
def less_equal(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input ≤ other, element by element (bool)."""
def less_equal_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`le` in place: the result is written over the tensor itself, which is returned."""
def lgamma(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Logarithm of |Γ(input)|, element by element; integers become the default dtype."""
def lgamma_(input: Tensor) -> Tensor:
    """`lgamma` in place: the result is written over the tensor itself, which is returned."""
def linspace(start: Tensor | _complex, end: Tensor | _complex, steps: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1-D Tensor of equally spaced points, both ends included."""
def lobpcg(A: Tensor, k: _int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: _int | None = None, iK: Tensor | None = None, niter: _int | None = None, tol: _float | None = None, largest: _bool | None = None, method: _str | None = None, tracker: _Any = None, ortho_iparams: _Any = None, ortho_fparams: _Any = None, ortho_bparams: _Any = None) -> _tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) eigenvalues, (*, k), and eigenvectors, (*, m, k), of symmetric matrices A, (*, m, m)."""
def log(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Natural logarithm, log(input), element by element; integers become the default dtype."""
def log10(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log₁₀(input), the logarithm to base 10, element by element; integers become the default dtype."""
def log10_(input: Tensor) -> Tensor:
    """`log10` in place: the result is written over the tensor itself, which is returned."""
def log1p(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(1 + input), exact for small inputs, element by element; integers become the default dtype."""
def log1p_(input: Tensor) -> Tensor:
    """`log1p` in place: the result is written over the tensor itself, which is returned."""
def log2(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log₂(input), the logarithm to base 2, element by element; integers become the default dtype."""
def log2_(input: Tensor) -> Tensor:
    """`log2` in place: the result is written over the tensor itself, which is returned."""
def log_(input: Tensor) -> Tensor:
    """`log` in place: the result is written over the tensor itself, which is returned."""
def log_softmax(input: Tensor, dim: _int | _Sequence[_int] | None, dtype: None | _dtype = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input - log Σ exp(input), relative to the largest element."""
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(exp(input) + exp(other)) without overflow."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log₂(2^input + 2^other) without overflow."""
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """log Σ exp(x₀ … xₖ) for each k along `dim`, without overflow. NotImplementedError for integers."""
def logdet(A: Tensor) -> Tensor:
    """log(det A): NaN where the determinant is negative, -inf where it is 0."""
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input ∧ other, of the elements taken as truth values: input ≠ 0 (bool)."""
def logical_and_(input: Tensor, other: Tensor) -> Tensor:
    """`logical_and` in place: the result is written over the tensor itself, which is returned."""
def logical_not(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input = 0: whether each element is zero (bool)."""
def logical_not_(input: Tensor) -> Tensor:
    """`logical_not` in place: the result is written over the tensor itself, which is returned."""
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input ∨ other, of the elements taken as truth values: input ≠ 0 (bool)."""
def logical_or_(input: Tensor, other: Tensor) -> Tensor:
    """`logical_or` in place: the result is written over the tensor itself, which is returned."""
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input ⊕ other, of the elements taken as truth values: input ≠ 0 (bool)."""
def logical_xor_(input: Tensor, other: Tensor) -> Tensor:
    """`logical_xor` in place: the result is written over the tensor itself, which is returned."""
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps]."""
def logit_(self: Tensor, eps: _float | None = None) -> Tensor:
    """`logit` in place: log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps]."""
def logspace(start: Tensor | _complex, end: Tensor | _complex, steps: _int, base: _Any = None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """base to the power of linspace(start, end, steps)."""
def logsumexp(input: Tensor, dim: _int | _Sequence[_int] | None, keepdim: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log Σ exp(input) over `dim`, without overflow."""
def lstm(input: Tensor, hx: _Any, params: _Any, has_biases: _bool, num_layers: _Any, dropout: _Any, train: _bool, bidirectional: _bool, batch_first: _bool) -> _tuple[Tensor, ...]:
    """Layers of long short-term memory (Hochreiter and Schmidhuber 1997): the last one's outputs and the states h and c at the end."""
def lstm_cell(input: Tensor, hx: _Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None=None, b_hh: Tensor | None=None) -> _tuple[Tensor, Tensor]:
    """The next pair (h, c), (N, H), of long short-term memory (Hochreiter and Schmidhuber 1997)."""
def lt(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input < other, element by element (bool)."""
def lt_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`lt` in place: the result is written over the tensor itself, which is returned."""
@_overload
def lu(A: Tensor, pivot: _bool=True, get_infos: _Literal[False]=False) -> _tuple[Tensor, Tensor]:
    """`linalg.lu_factor`, A = P L U, without an error for a zero pivot; with the verdicts where `get_infos`."""
@_overload
def lu(A: Tensor, pivot: _bool=True, *, get_infos: _Literal[True]) -> _tuple[Tensor, Tensor, Tensor]:
    """`linalg.lu_factor`, A = P L U, without an error for a zero pivot; with the verdicts where `get_infos`."""
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """`linalg.lu_solve`: X with A X = b for A = P L U."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.lu_unpack:
    """P, L and U with A = P L U of what `linalg.lu_factor` gave; empty where not unpacked."""
def manual_seed(seed: _Any) -> _Generator:
    """Start the streams of that seed on the host and on every device; returns the host's generator."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """max(0, -y (x1 - x2) + margin)."""
def masked_fill(input: Tensor, mask: Tensor | None, value: Tensor | _complex) -> Tensor:
    """value · mask + input · (1 - mask): input, with `value` (a number or a 0-dim tensor) where the mask (bool) holds."""
def masked_fill_(input: Tensor, mask: Tensor | None, value: Tensor | _complex) -> Tensor:
    """`masked_fill` in place."""
def masked_scatter(input: Tensor, mask: Tensor | None, source: Tensor) -> Tensor:
    """A copy of the input with the elements of `source`, in order, where `mask` is true; input and mask broadcast."""
def masked_scatter_(input: Tensor, mask: Tensor | None, source: Tensor) -> Tensor:
    """Write the elements of `source`, in order, where `mask` (which broadcasts) is true."""
def masked_select(input: Tensor, mask: Tensor | None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The elements where `mask` is true, as a vector; both broadcast."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The matrix product `input @ other`. Two vectors give their dot product, a 0-dim tensor; a vector beside a matrix counts as a row on the left and as a column on the right, and its dimension does not appear in the result; dimensions before the last two count matrices and broadcast."""
def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices, Σ Aᵏ / k!, by scaling, squaring and Taylor polynomials (Bader, Blanes, Casas 2019)."""
def matrix_power(A: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """A · A · … · A, n times, by repeated squaring; for negative n of the inverse, for 0 the identity."""
@_overload
def max(input: Tensor, *, out: Tensor | None=None) -> Tensor:
    """max(input): the max of all elements; or along `dim`, or of two tensors."""
@_overload
def max(input: Tensor, dim: _int, keepdim: _bool=False, *, out: _tuple[Tensor, Tensor] | None=None) -> _return_types.max:
    """max(input): the max of all elements; or along `dim`, or of two tensors."""
@_overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None=None) -> Tensor:
    """max(input): the max of all elements; or along `dim`, or of two tensors."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _Literal[False]=False) -> Tensor:
    """max(window) for each window of an input (N, C, L) or (C, L)."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, L) or (C, L)."""
@_overload
def max_pool1d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, L) or (C, L)."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None = None, padding: _int | _Sequence[_int] | _str = 0, dilation: _int | _Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = True) -> _tuple[Tensor, Tensor]:
    """max(window) for each window and its flat place of an input (N, C, L) or (C, L)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _Literal[False]=False) -> Tensor:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool2d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _Literal[False]=False) -> Tensor:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, *, return_indices: _Literal[True]) -> _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
@_overload
def max_pool3d(input: Tensor, kernel_size: _int | _Sequence[_int], stride: _int | _Sequence[_int] | None=None, padding: _int | _Sequence[_int]=0, dilation: _int | _Sequence[_int]=1, ceil_mode: _bool=False, return_indices: _bool=False) -> Tensor | _tuple[Tensor, Tensor]:
    """max(window) for each window of an input (N, C, *) or (C, *)."""
def maximum(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """max(input, other), NaN where either is; at a tie the gradient is halved."""
def mean(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Σ input / n over `dim`, the arithmetic mean; floating-point dtypes only."""
@_overload
def median(input: Tensor) -> Tensor:
    """The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`."""
@_overload
def median(input: Tensor, dim: _int, keepdim: _bool=False, *, out: _tuple[Tensor, Tensor] | None=None) -> _return_types.median:
    """The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`."""
def meshgrid(*tensors: Tensor, indexing: _str | None = None) -> _tuple[Tensor, ...]:
    """Coordinates of a grid: result k varies along dimension k with the elements of tensor k (1-dim or 0-dim)."""
@_overload
def min(input: Tensor, *, out: Tensor | None=None) -> Tensor:
    """min(input): the min of all elements; or along `dim`, or of two tensors."""
@_overload
def min(input: Tensor, dim: _int, keepdim: _bool=False, *, out: _tuple[Tensor, Tensor] | None=None) -> _return_types.min:
    """min(input): the min of all elements; or along `dim`, or of two tensors."""
@_overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None=None) -> Tensor:
    """min(input): the min of all elements; or along `dim`, or of two tensors."""
def minimum(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """min(input, other), NaN where either is; at a tie the gradient is halved."""
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The product of an (n, k) and a (k, m) matrix. RuntimeError for other shapes or different dtypes."""
def mode(input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.mode:
    """The most frequent element along `dim`, the smallest of equally frequent ones, and where it last stands."""
def moveaxis(input: Tensor, source: _int | _Sequence[_int], destination: _int | _Sequence[_int]) -> Tensor:
    """`movedim` by NumPy's name."""
def movedim(input: Tensor, source: _int | _Sequence[_int], destination: _int | _Sequence[_int]) -> Tensor:
    """Dimensions `source` (an int or several) moved to `destination`; the others keep their order."""
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in order along the first dimension."""
def mul(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · other, element by element."""
def mul_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`mul` in place: the result is written over the tensor itself, which is returned."""
def multinomial(input: Tensor, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Indices (int64) drawn from each row of weights, which need not sum to 1: shape [num_samples] or [rows, num_samples]."""
def multiply(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · other, element by element."""
def multiply_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`mul` in place: the result is written over the tensor itself, which is returned."""
def mv(input: Tensor, vec: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The product of an (n, k) matrix and a vector of k elements: n elements. RuntimeError for other shapes or different dtypes."""
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension p: p(p-1)/4 · log π + Σ lgamma(input - j/2), j < p."""
def mvlgamma_(self: Tensor, p: _int) -> Tensor:
    """`mvlgamma` in place: Logarithm of the multivariate gamma function of dimension p: p(p-1)/4 · log π + Σ lgamma(input - j/2), j < p."""
def nan_to_num(input: Tensor, nan: _float | None = 0.0, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input, or `nan`, `posinf`, `neginf` where it is NaN, +inf, -inf. The infinities become the dtype's largest and lowest by default."""
def nan_to_num_(self: Tensor, nan: _float | None = 0.0, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
    """`nan_to_num` in place: input, or `nan`, `posinf`, `neginf` where it is NaN, +inf, -inf. The infinities become the dtype's largest and lowest by default."""
def nanmean(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Σ input / n over `dim` (all by default), over the n elements that are numbers."""
@_overload
def nanmedian(input: Tensor) -> Tensor:
    """The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`."""
@_overload
def nanmedian(input: Tensor, dim: _int, keepdim: _bool=False, *, out: _tuple[Tensor, Tensor] | None=None) -> _return_types.nanmedian:
    """The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`."""
def nanquantile(input: Tensor, q: Tensor | _float, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
    """x₍q (n - 1)₎ of the n sorted elements: the q-quantiles along `dim`, or of all elements."""
def nansum(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Σ input over `dim` (all by default), in which NaN counts as zero."""
def narrow(input: Tensor, dim: _int | _Sequence[_int] | None, start: _int, length: _int) -> Tensor:
    """Positions start … start + length - 1 of dimension `dim`; a negative start counts from the end."""
def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor:
    """`narrow`, input[start : start + length] along `dim`, in memory of its own."""
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float) -> _tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.batch_norm`, and the batch's means and 1 / √(variance + eps), (C,), which have no gradients."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """result[:, k · groups + g] = input[:, g · C / groups + k] (Zhang et al. 2018). The channels of `groups` groups of (N, C, *) are dealt out in turn."""
def native_dropout(input: Tensor, p: _float, train: _bool | None) -> _tuple[Tensor, Tensor]:
    """Elements zeroed with chance `p`, the others scaled by 1 / (1 - p); and a bool tensor of those that are kept."""
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: _int, C: _int, HxW: _int, group: _int, eps: _float) -> _tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.group_norm`, and the means and 1 / √(variance + eps), (N, group), which have no gradients."""
def native_layer_norm(input: Tensor, normalized_shape: _int | _Sequence[_int], weight: Tensor | None, bias: Tensor | None, eps: _float) -> _tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.layer_norm`, and the means and 1 / √(variance + eps), which have no gradients."""
def ne(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input ≠ other, element by element (bool)."""
def ne_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`ne` in place: the result is written over the tensor itself, which is returned."""
def neg(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """-input, element by element."""
def neg_(input: Tensor) -> Tensor:
    """`neg` in place: the result is written over the tensor itself, which is returned."""
def negative(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """-input, element by element."""
def negative_(input: Tensor) -> Tensor:
    """`neg` in place: the result is written over the tensor itself, which is returned."""
def nextafter(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """min {y > input} where other > input, max {y < input} where it is less. It is the floating-point number next to `input` in the direction of `other`, of the dtype of both."""
def nextafter_(self: Tensor, *others: Tensor) -> Tensor:
    """`nextafter` in place."""
@_overload
def nonzero(input: Tensor, *, as_tuple: _Literal[False]=False, out: Tensor | None=None) -> Tensor:
    """Where the elements are not zero: a row of coordinates for each, in row-major order."""
@_overload
def nonzero(input: Tensor, *, as_tuple: _Literal[True]) -> _tuple[Tensor, ...]:
    """Where the elements are not zero: a row of coordinates for each, in row-major order."""
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The first `size` rows of `nonzero`, and rows of `fill_value` where there are fewer: (size, input.ndim), int64."""
def norm(input: Tensor, p: _float | _str | None = 'fro', dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None, dtype: _dtype | None = None) -> Tensor:
    """(Σ |x|^p)^(1/p), the p-norm, over `dim` (all by default). For inf it is the largest |x|, for 0 the count of non-zeros."""
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor:
    """(Σ |v|^p)^(1/p), p = `pow`, over all dimensions but `dim`, which keep size 1. Where `dim` is -1 it is over all of them."""
def normal(mean: Tensor | _complex, std: Tensor | _complex = 1.0, size: _int | _Sequence[_int] | None = None, *, generator: _Generator | None = None, out: Tensor | None = None, **options: _Any) -> Tensor:
    """Normal numbers whose mean and standard deviation are tensors, which broadcast, or numbers with a `size`, the shape of the result."""
def not_equal(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether input ≠ other, element by element (bool)."""
def not_equal_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`ne` in place: the result is written over the tensor itself, which is returned."""
def nuclear_norm(input: Tensor, dim: _int | _Sequence[_int] | None = (-2, -1), keepdim: _bool = False) -> Tensor:
    """Σ σₖ: the sum of the singular values of matrices."""
@_overload
def ones(*size: _int | _Sequence[_int], dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of ones."""
@_overload
def ones(size: _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of ones."""
def ones_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of ones in input's shape, dtype and layout."""
def orgqr(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of the product of the reflections 1 - τₖ vₖ vₖᴴ. The vₖ stand below the diagonal of the m by n `input` (with a 1 on it and zeros above)."""
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Q · other, or other · Q unless `left`, for the square Q of the reflections in `input` and `tau`, as `geqrf` gives them."""
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """All products of the elements of two vectors, as a matrix; dtypes are promoted. RuntimeError unless both are 1-D."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float | _str | None = 2.0, eps: _float | None = 1e-06, keepdim: _bool = False) -> Tensor:
    """(Σ |x1 - x2 + eps|^p)^(1/p) over the last dimension."""
def pca_lowrank(A: Tensor, q: _int | None = None, center: _bool = True, niter: _int = 2) -> _tuple[Tensor, Tensor, Tensor]:
    """Principal components: U, S and V with A - mean ≈ U diag(S) Vᴴ by `svd_lowrank`. The mean is that of the rows, where `center`; q is by default up to 6."""
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """‖inputᵢ - inputⱼ‖ₚ for all i < j, the rows of a matrix, in the order of the upper triangle's elements."""
def permute(input: Tensor, *dims_: _int | _Sequence[_int], dims: _int | _Sequence[_int] | None = None) -> Tensor:
    """Dimensions in another order: dimension k of the result is dimension dims[k] of the input."""
def permute_copy(input: Tensor, dims: _Sequence[_int], *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(permute(input, …)): what `permute` shows, row-major and in memory of its own; shapes and errors are the view's."""
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor:
    """`linalg.pinv`: V S⁺ Uᴴ for input = U S Vᴴ, where singular values up to rcond · largest count as 0."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(*, C r², H, W) to (*, C, H r, W r): result[c, h r + i, w r + j] = input[c r² + i r + j, h, w]. The source is Shi et al. (2016)."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(*, C, H r, W r) to (*, C r², H, W): result[c r² + i r + j, h, w] = input[c, h r + i, w r + j]. It is the inverse of `pixel_shuffle`."""
def poisson(input: Tensor, generator: _Generator | None = None) -> Tensor:
    """Poisson numbers with the rates that `input` gives; RuntimeError where one is negative or NaN. The gradient is 0."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float | None = 1e-08, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """exp(x) - y x (or x - y log x); `full` adds Stirling's approximation of log y! for y > 1."""
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The complex numbers of that length and angle: abs · (cos angle + i·sin angle)."""
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ψ⁽ⁿ⁾(x) = dⁿ⁺¹/dxⁿ⁺¹ log Γ(x): the n-th derivative of `digamma`."""
def positive(input: Tensor) -> Tensor:
    """+input: the tensor itself; RuntimeError for bool."""
def pow(input: Tensor | _complex, exponent: Tensor | _complex, *, out: Tensor | None=None) -> Tensor:
    """input^exponent, element by element; RuntimeError for a negative integer exponent of integers."""
def pow_(input: Tensor, exponent: Tensor | _complex) -> Tensor:
    """`pow` in place."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """max(0, input) + weight · min(0, input); `weight` has one element or one a channel (dimension 1)."""
def prod(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Π input over one `dim`, or of all elements; integers and bools give int64."""
def promote_types(type1: _dtype, type2: _dtype) -> _dtype:
    """The smallest dtype that holds both kinds of value without loss of category."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """A copy of the input with the elements of `source` written (or added) at positions counted in row-major order."""
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """Write (or add) the elements of `source` at positions counted in row-major order."""
def q_per_channel_axis(input: Tensor) -> _int:
    """The dimension of the channels of a tensor that is quantised per channel."""
def q_per_channel_scales(input: Tensor) -> Tensor:
    """The scales of a tensor that is quantised per channel, (C,)."""
def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """The zero points of a tensor that is quantised per channel, (C,)."""
def q_scale(input: Tensor) -> _float:
    """The scale of a tensor that is quantised per tensor: a number."""
def q_zero_point(input: Tensor) -> _int:
    """The zero point of a tensor that is quantised per tensor: the code that means 0."""
def qr(input: Tensor, some: _bool = True, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_qr:
    """`linalg.qr`, input = Q R: reduced where `some`, else complete."""
def quantile(input: Tensor, q: Tensor | _float, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
    """x₍q (n - 1)₎ of the n sorted elements: the q-quantiles along `dim`, or of all elements."""
def rad2deg(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · 180 / π: radians to degrees."""
def rad2deg_(input: Tensor) -> Tensor:
    """`rad2deg` in place: the result is written over the tensor itself, which is returned."""
def rand(*size: _int | _Sequence[_int], generator: _Generator | None = None, **options: _Any) -> Tensor:
    """rand(*size, generator=None, out=None, dtype=None, requires_grad=False): numbers uniform in [0, 1)."""
def rand_like(input: Tensor, *, generator: _Generator | None = None, **options: _Any) -> Tensor:
    """Numbers uniform in [0, 1), in the shape and, unless another is given, the dtype of `input`."""
def randint(*given: _Any, generator: _Generator | None = None, **options: _Any) -> Tensor:
    """randint(low=0, high, size, *, generator=None, out=None, dtype=int64): integers in [low, high)."""
def randint_like(input: Tensor, *given: _Any, generator: _Generator | None = None, **options: _Any) -> Tensor:
    """Integers in [low, high), in the shape and dtype of `input`: randint_like(input, low=0, high)."""
def randn(*size: _int | _Sequence[_int], generator: _Generator | None = None, **options: _Any) -> Tensor:
    """randn(*size, generator=None, out=None, dtype=None, requires_grad=False): standard normal numbers."""
def randn_like(input: Tensor, *, generator: _Generator | None = None, **options: _Any) -> Tensor:
    """Standard normal numbers, in the shape and, unless another is given, the dtype of `input`."""
def randperm(n: Tensor | _int, generator: _Generator | None = None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The integers 0 … n - 1 in random order, each order with equal probability. RuntimeError where the dtype cannot tell them apart."""
def range(start: _float, end: _float, step: _float = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """start + k · step for k = 0, …, ⌊(end - start) / step⌋, both ends included. They are floating-point numbers; `arange` leaves out the end."""
def ravel(input: Tensor) -> Tensor:
    """One dimension: a view where the input is contiguous, else a copy."""
def real(input: Tensor) -> Tensor:
    """The real part of complex numbers, a view; real numbers themselves."""
def reciprocal(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1 / input."""
def reciprocal_(input: Tensor) -> Tensor:
    """`reciprocal` in place: the result is written over the tensor itself, which is returned."""
def relu(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """max(input, 0), element by element; the derivative at 0 is 0."""
def relu_(input: Tensor) -> Tensor:
    """`relu` in place: the result is written over the tensor itself, which is returned."""
def remainder(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input - other · ⌊input / other⌋: of other's sign."""
def remainder_(input: Tensor, other: Tensor | _complex) -> Tensor:
    """`remainder` in place."""
def renorm(input: Tensor, p: _float | _str | None, dim: _int | _Sequence[_int] | None, maxnorm: _float, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · min(1, maxnorm / ‖slice‖ₚ): slices along `dim` whose p-norm is above maxnorm, cut to it."""
def repeat_interleave(input: Tensor, repeats: Tensor | _int | None = None, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
    """Every element (or slice along `dim`) `repeats` times over: a number, or a tensor with a number for each."""
def reshape(input: Tensor, *shape_: _int | _Sequence[_int], shape: _int | _Sequence[_int] | _dtype | None = None) -> Tensor:
    """The elements in the same order with another shape: a view where the strides allow it, else a copy."""
def resize_as_(input: Tensor, the_template: _Any, *, memory_format: _memory_format | None = None) -> Tensor:
    """`resize_` to the shape of another tensor."""
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself, for resolve_conj(x) = x: conjugates are never put off."""
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself, for resolve_neg(x) = x: negatives are never put off."""
def result_type(a: _Any, b: _Any) -> _dtype:
    """The dtype of an arithmetic operation on `a` and `b` (tensors or numbers)."""
def rms_norm(input: Tensor, normalized_shape: _int | _Sequence[_int], weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """input / √(mean of squares + eps) over the last dimensions, times weight (Zhang and Sennrich 2019)."""
def rnn_relu(input: Tensor, hx: _Any, params: _Any, has_biases: _bool, num_layers: _Any, dropout: _Any, train: _bool, bidirectional: _bool, batch_first: _bool) -> _tuple[Tensor, ...]:
    """Layers of Elman's recurrent network (1990) with max(0, x): the last one's outputs and the state at the end."""
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None=None, b_hh: Tensor | None=None) -> Tensor:
    """The next state, (N, H), of Elman's recurrent network (1990) with max(0, x)."""
def rnn_tanh(input: Tensor, hx: _Any, params: _Any, has_biases: _bool, num_layers: _Any, dropout: _Any, train: _bool, bidirectional: _bool, batch_first: _bool) -> _tuple[Tensor, ...]:
    """Layers of Elman's recurrent network (1990) with tanh: the last one's outputs and the state at the end."""
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None=None, b_hh: Tensor | None=None) -> Tensor:
    """The next state, (N, H), of Elman's recurrent network (1990) with tanh."""
def roll(input: Tensor, shifts: _int | _Sequence[_int], dims: _int | _Sequence[_int] | None = None) -> Tensor:
    """The elements moved on by `shifts` along `dims`, the last ones to the front; without dims, along all as if one."""
def rot90(input: Tensor, k: _int = 1, dims: _Sequence[_int] = (0, 1)) -> Tensor:
    """The plane of two dimensions turned by k quarters, from the first of `dims` towards the second."""
def round(input: Tensor, *, decimals: _float = 0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Nearest multiple of 10^-decimals, ties to even; its derivative is 0."""
def round_(self: Tensor, *, decimals: _int = 0) -> Tensor:
    """`round` in place: Nearest multiple of 10^-decimals, ties to even; its derivative is 0."""
def row_indices_copy(self: Tensor) -> Tensor:
    """`x.row_indices()` in memory of its own."""
def row_stack(tensors: _Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The tensors one above another: along the first dimension, where a 1-dim tensor counts as a row."""
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False) -> Tensor:
    """x above 0, else x times a random slope in [lower, upper]; outside training the mean slope (Xu et al. 2015)."""
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False) -> Tensor:
    """`rrelu`, written over the input."""
def rsqrt(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1 / √input."""
def rsqrt_(input: Tensor) -> Tensor:
    """`rsqrt` in place: the result is written over the tensor itself, which is returned."""
def rsub(input: Tensor, other: Tensor | _complex, alpha: _complex = 1.0, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """other - alpha · input."""
def saddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """addmm(input, mat1, mat2, *, beta=1, alpha=1, out=None) -> Tensor"""
def scalar_tensor(s: _int | _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """0-dim Tensor of the default dtype."""
def scatter(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex | None = None, *, value: Tensor | _complex | None = None, reduce: _str | _bool | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """A copy of the input with the elements of `src` (or a number) written where `index` says."""
def scatter_(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex | None = None, *, value: Tensor | _complex | None = None, reduce: _str | _bool | None = None) -> Tensor:
    """Write the elements of `src` (or a number) to the places of dimension `dim` that `index` names; of equal indices the last wins. `reduce` "add" or "multiply" combines instead."""
def scatter_add(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """A copy of the input with the elements of `src` added where `index` says."""
def scatter_add_(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex) -> Tensor:
    """Add the elements of `src` to the places of dimension `dim` that `index` names, in the order of the elements."""
def scatter_reduce(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex, reduce: _str | _bool | None, *, include_self: _bool = True, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """A copy of the input with the elements of `src` combined where `index` says, as `scatter_reduce_` does."""
def scatter_reduce_(input: Tensor, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex, reduce: _str | _bool | None, *, include_self: _bool = True) -> Tensor:
    """Combine the elements of `src` that go to one place by "sum", "prod", "mean", "amax" or "amin"."""
def searchsorted(sorted_sequence: Tensor, input: Tensor, *, out_int32: _bool = False, right: _bool = False, side: _str | None = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Where values belong in ascending rows: before equal elements, or behind them where `right` (or side="right")."""
def seed() -> _int:
    """Give the host and every device a seed that nobody can foresee, and return it."""
def segment_reduce(data: Tensor, reduce: _str, *, lengths: Tensor | None = None, indices: Tensor | None = None, offsets: Tensor | None = None, axis: _int = 0, unsafe: _bool = False, initial: _Any = None) -> Tensor:
    """One row for each segment along `axis`: the sum, mean, prod, max or min of its rows, or `initial` where it has none."""
def select(input: Tensor, dim: _int | _Sequence[_int] | None, index: _int) -> Tensor:
    """The part at position `index` of dimension `dim`, which the result lacks."""
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(select(input, …)): what `select` shows, row-major and in memory of its own; shapes and errors are the view's."""
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int) -> Tensor:
    """A copy of `input` with `src` at one index of `dim`."""
def selu(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """scale · (max(0, x) + min(0, α · (exp(x) - 1))): a scaled elu whose activations keep mean 0 and variance 1 (Klambauer et al. 2017)."""
def selu_(input: Tensor) -> Tensor:
    """`selu` in place: the result is written over the tensor itself, which is returned."""
def set_autocast_cpu_dtype(dtype: _dtype) -> None:
    """Sets the lower dtype for "cpu"; deprecated: `set_autocast_dtype` takes the type of device."""
def set_autocast_cpu_enabled(enabled: _bool) -> None:
    """Switches autocast on or off for "cpu"; deprecated: `set_autocast_enabled` takes the type of device."""
def set_autocast_gpu_dtype(dtype: _dtype) -> None:
    """Sets the lower dtype for "cuda"; deprecated: `set_autocast_dtype` takes the type of device."""
def set_autocast_ipu_dtype(dtype: _dtype) -> None:
    """Sets the lower dtype for "ipu"; deprecated: `set_autocast_dtype` takes the type of device."""
def set_autocast_ipu_enabled(enabled: _bool) -> None:
    """Switches autocast on or off for "ipu"; deprecated: `set_autocast_enabled` takes the type of device."""
def set_autocast_xla_dtype(dtype: _dtype) -> None:
    """Sets the lower dtype for "xla"; deprecated: `set_autocast_dtype` takes the type of device."""
def set_autocast_xla_enabled(enabled: _bool) -> None:
    """Switches autocast on or off for "xla"; deprecated: `set_autocast_enabled` takes the type of device."""
def set_default_device(device: _device | _str | _int | None) -> None:
    """Choose where this thread makes tensors without a device argument: a device, its name, or None for the CPU. A `with device(…)` around the call goes before it."""
def set_default_dtype(d: _dtype) -> None:
    """Choose what Python floats become; TypeError unless it is a floating-point dtype."""
def set_flush_denormal(mode: _bool) -> _bool:
    """Lets arithmetic take numbers too small to be normal (below 1.2e-38 in float32) for zeros, or no longer."""
def set_num_threads(n: _int) -> None:
    """Sets the number of threads that CPU operations share their work over, the caller's thread included."""
def set_rng_state(new_state: _Any) -> None:
    """Let the default generator continue from a state."""
def sgn(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input / |input|, or 0 at 0: the sign of each element; of a complex number, the one of length 1 in its direction."""
def sgn_(input: Tensor) -> Tensor:
    """`sgn` in place: the result is written over the tensor itself, which is returned."""
def sigmoid(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Logistic function, 1 / (1 + exp(-input)), element by element; integers become the default dtype."""
def sigmoid_(input: Tensor) -> Tensor:
    """`sigmoid` in place: the result is written over the tensor itself, which is returned."""
def sign(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """-1, 0 or 1 by the sign of each element."""
def sign_(input: Tensor) -> Tensor:
    """`sign` in place: the result is written over the tensor itself, which is returned."""
def signbit(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Whether the sign bit is set, input < 0: true for -0.0 too."""
def sin(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Sine of radians, sin(input), element by element; integers become the default dtype."""
def sin_(input: Tensor) -> Tensor:
    """`sin` in place: the result is written over the tensor itself, which is returned."""
def sinc(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """sin(πx) / (πx), 1 at 0."""
def sinc_(input: Tensor) -> Tensor:
    """`sinc` in place: the result is written over the tensor itself, which is returned."""
def sinh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """(e^input - e^-input) / 2, the hyperbolic sine, element by element; integers become the default dtype."""
def sinh_(input: Tensor) -> Tensor:
    """`sinh` in place: the result is written over the tensor itself, which is returned."""
def slice_copy(input: Tensor, dim: _int = 0, start: None | _int = None, end: None | _int = None, step: _int = 1, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(narrow(input, …)): what `narrow` shows, row-major and in memory of its own; shapes and errors are the view's."""
def slice_scatter(input: Tensor, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """A copy of `input` with `src` in place of the slice start:end:step of `dim`."""
def slogdet(A: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_slogdet:
    """det A / |det A| (or 0) and log |det A|, as a named tuple (sign, logabsdet)."""
def softmax(input: Tensor, dim: _int | _Sequence[_int] | None, dtype: None | _dtype = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """exp(input) / Σ exp(input) along `dim`, relative to the largest element, so that nothing overflows."""
def sort(input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.sort:
    """The elements in order along `dim` and where each stood, as a named tuple (values, indices)."""
def split(tensor: Tensor, split_size_or_sections: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = 0, *, split_size: _int | _Sequence[_int] | None = None) -> _tuple[Tensor, ...]:
    """Pieces of `split_size_or_sections` elements (the last may be shorter), or of the lengths in that list."""
def split_copy(tensor: Tensor, split_size: _int, dim: _int = 0) -> _tuple[Tensor, ...]:
    """clone(split(input, …)): what `split` shows, row-major and in memory of its own; shapes and errors are the view's."""
def split_with_sizes(input: Tensor, split_sizes: _int | _Sequence[_int], dim: _int | _Sequence[_int] | None = 0) -> _tuple[Tensor, ...]:
    """Pieces of the given lengths, whose sum is the size of the dimension."""
def split_with_sizes_copy(input: Tensor, split_sizes: _Sequence[_int], dim: _int = 0) -> _tuple[Tensor, ...]:
    """clone(split_with_sizes(input, …)): what `split_with_sizes` shows, row-major and in memory of its own; shapes and errors are the view's."""
def spmm(input: Tensor, mat2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """mm(input, mat2, *, out=None) -> Tensor"""
def sqrt(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """√input: the square root; NaN below 0."""
def sqrt_(input: Tensor) -> Tensor:
    """`sqrt` in place: the result is written over the tensor itself, which is returned."""
def square(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input², element by element; int64 for bool."""
def square_(input: Tensor) -> Tensor:
    """`square` in place: the result is written over the tensor itself, which is returned."""
def squeeze(input: Tensor, *dims: _int | _Sequence[_int], dim: _int | _Sequence[_int] | None = None) -> Tensor:
    """Without the dimensions of size 1: all of them, or those given."""
def squeeze_copy(input: Tensor, dim: _int | _Sequence[_int] | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(squeeze(input, …)): what `squeeze` shows, row-major and in memory of its own; shapes and errors are the view's."""
def stack(tensors: _Sequence[Tensor], dim: _int | _Sequence[_int] | None = 0, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensors of one shape side by side along a new dimension `dim`. RuntimeError for no tensors and for shapes that differ."""
def std(input: Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """√(Σ (x - mean)² / (n - correction)) over `dim`: the standard deviation, the root of `var`."""
def std_mean(input: Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None) -> _tuple[Tensor, Tensor]:
    """√(Σ (x - mean)² / (n - correction)) and the mean over `dim`; correction is 1 unless it is given."""
def stft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None) -> Tensor:
    """Σ window[k] · input[t · hop_length + k] · e^(-2πi f k / n_fft): windows of n_fft elements. They stand at every hop_length-th place; the result is (batch, frequency, place)."""
def sub(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input - alpha · other, element by element."""
def sub_(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1.0) -> Tensor:
    """`sub` in place: the result is written over the tensor itself, which is returned."""
def subtract(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input - alpha · other, element by element."""
def subtract_(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1.0) -> Tensor:
    """`sub` in place: the result is written over the tensor itself, which is returned."""
def sum(input: Tensor, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Sum over `dim` (an int, a tuple, or None for all), Σᵢ xᵢ; integers and bools give int64."""
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.svd:
    """`linalg.svd`, input = U diag(S) Vᴴ, with V instead of its Hermitian transpose; zeros for U and V unless `compute_uv`."""
def svd_lowrank(A: Tensor, q: _int | None = 6, niter: _int | None = 2, M: Tensor | None = None) -> _tuple[Tensor, Tensor, Tensor]:
    """U, S and V of the best approximation of A - M of rank q, at most A's rows or columns, that random projections find."""
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """`transpose` by NumPy's name."""
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Another name of `transpose`."""
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; tensors of fewer dimensions are returned as they are, as a view."""
def t_copy(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(t(input, …)): what `t` shows, row-major and in memory of its own; shapes and errors are the view's."""
def take(input: Tensor, index: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The elements at positions counted in row-major order; the result has the index tensor's shape."""
def take_along_dim(input: Tensor, indices: Tensor | _int | _Sequence[_int], dim: _int | _Sequence[_int] | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """`gather` with broadcasting: the other dimensions of input and indices are repeated to match, and negative indices count from the end. Without `dim`, both are flattened."""
def tan(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """sin(input) / cos(input), the tangent of radians, element by element; integers become the default dtype."""
def tan_(input: Tensor) -> Tensor:
    """`tan` in place: the result is written over the tensor itself, which is returned."""
def tanh(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """sinh(input) / cosh(input), the hyperbolic tangent, element by element; integers become the default dtype."""
def tanh_(input: Tensor) -> Tensor:
    """`tanh` in place: the result is written over the tensor itself, which is returned."""
def tensor(data: _Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """A copy of `data`: a number, nested sequences of numbers, a NumPy array, a tensor. Without `dtype`, ints become int64, bools bool, floats the default dtype; mixtures the dtype that holds all."""
def tensor_split(input: Tensor, indices_or_sections: Tensor | _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = 0, *, sections: _int | None = None, indices: Tensor | _int | _Sequence[_int] | None = None) -> _tuple[Tensor, ...]:
    """That many pieces of nearly equal length, or the pieces between the given positions."""
def tensordot(a: Tensor, b: Tensor, dims: _int | _Sequence[_int] = 2, out: Tensor | None = None) -> Tensor:
    """Σ a[i, k] · b[k, j] over the last `dims` dimensions of a and the first of b, or over the two lists `dims`."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False) -> Tensor:
    """input where input > threshold, else `value`."""
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """`threshold` in place."""
def tile(input: Tensor, *dims_: _int | _Sequence[_int], dims: _int | _Sequence[_int] | None = None) -> Tensor:
    """`repeat`, with repeats of 1 in front where `dims` are fewer than the dimensions."""
def topk(input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.topk:
    """The k largest (or smallest) elements along `dim`, in that order, and where they stand: (values, indices)."""
def trace(input: Tensor) -> Tensor:
    """Σ inputᵢᵢ: the sum of a matrix's diagonal. RuntimeError unless there are two dimensions."""
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Dimensions dim0 and dim1 exchanged."""
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(transpose(input, …)): what `transpose` shows, row-major and in memory of its own; shapes and errors are the view's."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _float = 1.0, dim: _int = -1) -> Tensor:
    """Σ dx · (yₖ + yₖ₊₁) / 2 along `dim`: the integral by the trapezoidal rule, at places `x` or at distance `dx`."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: _float = 1.0, dim: _int = -1) -> Tensor:
    """Σ dx · (yₖ + yₖ₊₁) / 2 along `dim`: the integral by the trapezoidal rule, at places `x` or at distance `dx`."""
def triangular_solve(b: Tensor, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.triangular_solve:
    """X with A X = b for triangular A (its transpose where requested), and A again."""
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangles of matrices: elements up to the given diagonal (0 the main one, above it positive), zeros beyond."""
def tril_indices(row: _int, col: _int, offset: _Any = None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """(2, n) int64 Tensor: where the lower triangle of a matrix is."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float | _str | None = 2.0, eps: _float | None = 1e-06, swap: _bool = False, size_average: _bool | None = None, reduce: _str | _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); `swap` takes the nearer pair (Balntas et al. 2016)."""
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangles of matrices: elements from the given diagonal on (0 the main one, above it positive), zeros before."""
def triu_indices(row: _int, col: _int, offset: _Any = None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """(2, n) int64 Tensor: where the upper triangle of a matrix is."""
def true_divide(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input / other: the quotient in floating point, element by element."""
def true_divide_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`true_divide` in place: the result is written over the tensor itself, which is returned."""
def trunc(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """sign(input) · ⌊|input|⌋: the integer before the point, as a floating-point number; its derivative is 0."""
def trunc_(input: Tensor) -> Tensor:
    """`trunc` in place: the result is written over the tensor itself, which is returned."""
def unbind(input: Tensor, dim: _int | _Sequence[_int] | None = 0) -> _tuple[Tensor, ...]:
    """The parts along a dimension, each without it."""
def unbind_copy(input: Tensor, dim: _int = 0) -> _tuple[Tensor, ...]:
    """clone(unbind(input, …)): what `unbind` shows, row-major and in memory of its own; shapes and errors are the view's."""
def unflatten(input: Tensor, dim: _int | _Sequence[_int] | None, sizes: _int | _Sequence[_int]) -> Tensor:
    """Dimension `dim` split into `sizes`, whose product is its size; one may be -1."""
def unfold_copy(input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(unfold(input, …)): what `unfold` shows, row-major and in memory of its own; shapes and errors are the view's."""
@_overload
def unique(input: Tensor, sorted: _bool=True, return_inverse: _Literal[False]=False, return_counts: _Literal[False]=False, dim: _int | None=None) -> Tensor:
    """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
@_overload
def unique(input: Tensor, sorted: _bool=True, *, return_inverse: _Literal[True], return_counts: _Literal[False]=False, dim: _int | None=None) -> _tuple[Tensor, Tensor]:
    """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
@_overload
def unique(input: Tensor, sorted: _bool=True, *, return_inverse: _Literal[False]=False, return_counts: _Literal[True], dim: _int | None=None) -> _tuple[Tensor, Tensor]:
    """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
@_overload
def unique(input: Tensor, sorted: _bool=True, *, return_inverse: _Literal[True], return_counts: _Literal[True], dim: _int | None=None) -> _tuple[Tensor, Tensor, Tensor]:
    """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
@_overload
def unique(input: Tensor, sorted: _bool=True, return_inverse: _bool=False, return_counts: _bool=False, dim: _int | None=None) -> Tensor | _tuple[Tensor, ...]:
    """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
@_overload
def unique_consecutive(input: Tensor, return_inverse: _Literal[False]=False, return_counts: _Literal[False]=False, dim: _int | None=None) -> Tensor:
    """The elements (or slices along `dim`) without those that are equal to the one before."""
@_overload
def unique_consecutive(input: Tensor, *, return_inverse: _Literal[True], return_counts: _Literal[False]=False, dim: _int | None=None) -> _tuple[Tensor, Tensor]:
    """The elements (or slices along `dim`) without those that are equal to the one before."""
@_overload
def unique_consecutive(input: Tensor, *, return_inverse: _Literal[False]=False, return_counts: _Literal[True], dim: _int | None=None) -> _tuple[Tensor, Tensor]:
    """The elements (or slices along `dim`) without those that are equal to the one before."""
@_overload
def unique_consecutive(input: Tensor, *, return_inverse: _Literal[True], return_counts: _Literal[True], dim: _int | None=None) -> _tuple[Tensor, Tensor, Tensor]:
    """The elements (or slices along `dim`) without those that are equal to the one before."""
@_overload
def unique_consecutive(input: Tensor, return_inverse: _bool=False, return_counts: _bool=False, dim: _int | None=None) -> Tensor | _tuple[Tensor, ...]:
    """The elements (or slices along `dim`) without those that are equal to the one before."""
def unravel_index(indices: Tensor, shape: _int | _Sequence[_int] | _dtype) -> _tuple[Tensor, ...]:
    """Coordinates, one tensor for each dimension, of places counted in row-major order."""
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> _tuple[Tensor, ...]:
    """`chunk`: at most `chunks` pieces of ⌈n / chunks⌉ elements along `dim`."""
def unsafe_split(tensor: Tensor, split_size: _int, dim: _int = 0) -> _tuple[Tensor, ...]:
    """`split`: pieces of `split_size` along `dim`, of which the last may be shorter."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: _Sequence[_int], dim: _int = 0) -> _tuple[Tensor, ...]:
    """`split_with_sizes`: pieces of the given lengths along `dim`, n = Σ split_sizes."""
def unsqueeze(input: Tensor, dim: _int | _Sequence[_int] | None) -> Tensor:
    """A new dimension of size 1 at `dim`."""
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(unsqueeze(input, …)): what `unsqueeze` shows, row-major and in memory of its own; shapes and errors are the view's."""
def values_copy(self: Tensor) -> Tensor:
    """`x.values()` in memory of its own."""
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor:
    """xᵢ^(N - 1 - j): powers of a vector as columns, the highest first unless `increasing`. There are N columns, by default as many as elements."""
def var(input: Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Σ (x - mean)² / (n - correction) over `dim`: the variance, with a correction of 1 by default."""
def var_mean(input: Tensor, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None) -> _tuple[Tensor, Tensor]:
    """Σ (x - mean)² / (n - correction) and the mean over `dim`; correction is 1 unless it is given."""
def vdot(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The sum of products of two vectors of one length, the first conjugated: for real dtypes the same as `dot`."""
def view_as_complex(input: Tensor) -> Tensor:
    """A real tensor whose last dimension has size 2 as a complex one; the strides must allow it."""
def view_as_complex_copy(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(view_as_complex(input, …)): what `view_as_complex` shows, row-major and in memory of its own; shapes and errors are the view's."""
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor as a real one with a last dimension of size 2: the real part and the imaginary part."""
def view_as_real_copy(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(view_as_real(input, …)): what `view_as_real` shows, row-major and in memory of its own; shapes and errors are the view's."""
def view_copy(input: Tensor, size: _int | _Sequence[_int], *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """clone(view(input, …)): what `view` shows, row-major and in memory of its own; shapes and errors are the view's."""
def vsplit(input: Tensor, indices_or_sections: Tensor | _int | _Sequence[_int]) -> _tuple[Tensor, ...]:
    """`tensor_split` along rows, dimension 0 of at least 2; sections must be of equal length."""
def vstack(tensors: _Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The tensors one above another: along the first dimension, where a 1-dim tensor counts as a row."""
@_overload
def where(condition: Tensor) -> _tuple[Tensor, ...]:
    """input where the condition (bool) holds, else other; with the condition alone, its true indices as a tuple: result[i] = input[i] if condition[i] else other[i]."""
@_overload
def where(condition: Tensor, input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None=None) -> Tensor:
    """input where the condition (bool) holds, else other; with the condition alone, its true indices as a tuple: result[i] = input[i] if condition[i] else other[i]."""
def xlogy(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · log(other), 0 where input is 0 and other is a number."""
def xlogy_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """`xlogy` in place: the result is written over the tensor itself, which is returned."""
def zero_(input: Tensor) -> Tensor:
    """Write zero to every element, of whatever shape."""
@_overload
def zeros(*size: _int | _Sequence[_int], dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of zeros."""
@_overload
def zeros(size: _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of zeros."""
def zeros_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Tensor of zeros in input's shape, dtype and layout."""
