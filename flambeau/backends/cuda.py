"""NVIDIA's devices: what is built for them and what programs allow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple

from ..core.base.tensor import TensorBase
from ..operations.neural.attention.attention import _refusal
from ..operations.neural.attention.backends import SDPBackend, state
from ._switched import Part, has_precision

__all__ = [
    "SDPAParams",
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_ck_sdpa_available",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


def is_built() -> bool:
    """True: support for NVIDIA's devices is part of every build; `cuda.is_available()` says whether there is one.

    >>> import flambeau
    >>> flambeau.backends.cuda.is_built()
    True
    """
    return True


class _Products(Part):
    """Roundings that products may make; permissions of which nothing here makes use."""

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_accumulation = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _PERMISSIONS:
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)


_PERMISSIONS = (
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_accumulation",
    "allow_fp16_reduced_precision_reduction",
    "allow_tf32",
    "fp32_precision",
)
matmul = _Products()
has_precision(__name__)


# --- which library computes products and decompositions ------------------------------
class _BlasBackend(Enum):
    """The libraries of products, by PyTorch's numbers."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


def _chosen(backend: object, kind: type[Enum], names: dict[str, Enum]) -> Enum:
    """The library that an argument means.  RuntimeError for any other."""
    if isinstance(backend, str):
        if backend not in names:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(names)}.")
        return names[backend]
    if not isinstance(backend, kind):
        raise RuntimeError("Unknown input value type.")
    return backend


def preferred_blas_library(backend: str | _BlasBackend | None = None) -> _BlasBackend:
    """Choose which library computes products of matrices on NVIDIA's devices, where it is installed and takes the product: "cublas",
    "cublaslt", or "default"; without an argument what was chosen.

    By default a product of at least 2**24 multiplications is computed by cuBLAS, by cuBLASLt and by the kernel of our own when its
    description (sizes, dtype, order) is first met, and from then on by the one that was the fastest, also in other processes: what was
    found is kept beside the kernels, for this card, driver and version of the library.  Smaller ones are cuBLAS's, and with a bias
    cuBLASLt's, which adds it as it writes.  Sums are rounded in another order by another library: "cublas" gives the same bits wherever
    cuBLAS is the same.

    Raises:
        RuntimeError: the argument is no such name, or "ck", AMD's Composable Kernel, which is not here

    >>> import flambeau
    >>> flambeau.backends.cuda.preferred_blas_library().name
    'Default'
    """
    if backend is not None:
        chosen = _chosen(backend, _BlasBackend, _BLAS)
        if chosen is _BlasBackend.Ck:
            raise RuntimeError("preferred_blas_library(): AMD's Composable Kernel is not here")
        _choices["blas"] = chosen
        from ..devices.cuda import prefer_blas

        prefer_blas(chosen.value)
    return _choices["blas"]


_BLAS: dict[str, Enum] = {
    "default": _BlasBackend.Default,
    "cublas": _BlasBackend.Cublas,
    "hipblas": _BlasBackend.Cublas,
    "cublaslt": _BlasBackend.Cublaslt,
    "hipblaslt": _BlasBackend.Cublaslt,
    "ck": _BlasBackend.Ck,
}


class _LinalgBackend(Enum):
    """The libraries of decompositions, by PyTorch's numbers."""

    Default = 0
    Cusolver = 1
    Magma = 2


def preferred_linalg_library(backend: str | _LinalgBackend | None = None) -> _LinalgBackend:
    """Choose which library decomposes matrices on NVIDIA's devices: "cusolver" for all of them, or "default", which leaves small ones and
    stacks of many to kernels of our own; without an argument what was chosen.  Where cuSOLVER is not installed those serve all.

    Cholesky's, LU and what solves by it, QR, eigenvalues of Hermitian matrices and singular values are decomposed so.

    Raises:
        RuntimeError: the argument is no such name, or "magma", which is not here

    >>> import flambeau
    >>> flambeau.backends.cuda.preferred_linalg_library().name
    'Default'
    """
    if backend is not None:
        chosen = _chosen(backend, _LinalgBackend, _LINALG)
        if chosen is _LinalgBackend.Magma:
            raise RuntimeError("preferred_linalg_library(): MAGMA is not here")
        _choices["linalg"] = chosen
        from ..devices import cusolver

        cusolver.preferred["linalg"] = chosen.value
    return _choices["linalg"]


_LINALG: dict[str, Enum] = {
    "default": _LinalgBackend.Default,
    "cusolver": _LinalgBackend.Cusolver,
    "magma": _LinalgBackend.Magma,
}
_choices: dict[str, Any] = {"blas": _BlasBackend.Default, "linalg": _LinalgBackend.Default}


# --- attention: which ways of computing it may be taken, on all devices ---
class SDPAParams(NamedTuple):
    """The arguments of a call of `scaled_dot_product_attention`, to be checked.

    >>> import flambeau
    >>> q = flambeau.ones(1, 1, 2, 4)
    >>> flambeau.backends.cuda.SDPAParams(q, q, q, None, 0.0, True, False).is_causal
    True
    """

    query: TensorBase
    key: TensorBase
    value: TensorBase
    attn_mask: TensorBase | None
    dropout: float
    is_causal: bool
    enable_gqa: bool


def is_flash_attention_available() -> bool:
    """True: attention in blocks is part of every build.

    >>> import flambeau
    >>> flambeau.backends.cuda.is_flash_attention_available()
    True
    """
    return True


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether attention in blocks is on and can serve the call; with `debug` a warning says why not.

    Raises:
        AttributeError: `params` is no SDPAParams

    >>> import flambeau
    >>> from flambeau.backends.cuda import SDPAParams, can_use_flash_attention
    >>> q = flambeau.ones(1, 1, 2, 4)
    >>> can_use_flash_attention(SDPAParams(q, q, q, None, 0.0, True, False))
    True
    >>> can_use_flash_attention(SDPAParams(q[0], q[0], q[0], None, 0.0, True, False))
    False
    """
    if not flash_sdp_enabled():
        why: str | None = "it is switched off"
    else:
        why = _refusal(
            params.query, params.key, params.value, params.attn_mask, params.dropout, params.enable_gqa
        )
    if why is not None and debug:
        warnings.warn(f"FLASH_ATTENTION cannot be used: {why}", stacklevel=2)
    return why is None


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: there is none here.

    Raises nothing.

    >>> import flambeau
    >>> q = flambeau.ones(1, 1, 2, 4)
    >>> flambeau.backends.cuda.can_use_efficient_attention((q, q, q, None, 0.0, True, False))
    False
    """
    return _not_here("EFFICIENT_ATTENTION", debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: there is none here.

    Raises nothing.

    >>> import flambeau
    >>> q = flambeau.ones(1, 1, 2, 4)
    >>> flambeau.backends.cuda.can_use_cudnn_attention((q, q, q, None, 0.0, True, False))
    False
    """
    return _not_here("CUDNN_ATTENTION", debug)


def _not_here(name: str, debug: bool) -> bool:
    if debug:
        warnings.warn(f"{name} cannot be used: it is not here", stacklevel=3)
    return False


def _switch(backend: SDPBackend, enabled: bool) -> None:
    state.enabled = state.enabled | {backend} if enabled else state.enabled - {backend}


def flash_sdp_enabled() -> bool:
    """Whether attention in blocks may be taken; True at first.

    >>> import flambeau
    >>> flambeau.backends.cuda.flash_sdp_enabled()
    True
    """
    return SDPBackend.FLASH_ATTENTION in state.enabled


def enable_flash_sdp(enabled: bool) -> None:
    """Let it be taken, or no longer, in the whole process; `nn.attention.sdpa_kernel` does so for a block.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.cuda.enable_flash_sdp(True)
    """
    _switch(SDPBackend.FLASH_ATTENTION, enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether by EFFICIENT_ATTENTION, which is not here, may be taken; True at first.

    >>> import flambeau
    >>> flambeau.backends.cuda.mem_efficient_sdp_enabled()
    True
    """
    return SDPBackend.EFFICIENT_ATTENTION in state.enabled


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Let it be taken, or no longer, in the whole process; `nn.attention.sdpa_kernel` does so for a block.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.cuda.enable_mem_efficient_sdp(True)
    """
    _switch(SDPBackend.EFFICIENT_ATTENTION, enabled)


def math_sdp_enabled() -> bool:
    """Whether attention with all scores at once may be taken; True at first.

    >>> import flambeau
    >>> flambeau.backends.cuda.math_sdp_enabled()
    True
    """
    return SDPBackend.MATH in state.enabled


def enable_math_sdp(enabled: bool) -> None:
    """Let it be taken, or no longer, in the whole process; `nn.attention.sdpa_kernel` does so for a block.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.cuda.enable_math_sdp(True)
    """
    _switch(SDPBackend.MATH, enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention by cuDNN, which is not here, may be taken; True at first.

    >>> import flambeau
    >>> flambeau.backends.cuda.cudnn_sdp_enabled()
    True
    """
    return SDPBackend.CUDNN_ATTENTION in state.enabled


def enable_cudnn_sdp(enabled: bool) -> None:
    """Let it be taken, or no longer, in the whole process; `nn.attention.sdpa_kernel` does so for a block.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.cuda.enable_cudnn_sdp(True)
    """
    _switch(SDPBackend.CUDNN_ATTENTION, enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """A context in which these ways of computing attention may be taken; a FutureWarning names `nn.attention.sdpa_kernel`, which
    took its place.

    >>> import flambeau, warnings
    >>> warnings.simplefilter("ignore")
    >>> with flambeau.backends.cuda.sdp_kernel(enable_flash=False):
    ...     flambeau.backends.cuda.flash_sdp_enabled()
    False
    """
    warnings.warn(
        "backends.cuda.sdp_kernel() is the old name of nn.attention.sdpa_kernel()",
        FutureWarning,
        stacklevel=3,
    )
    before = state.enabled
    enable_flash_sdp(enable_flash)
    enable_math_sdp(enable_math)
    enable_mem_efficient_sdp(enable_mem_efficient)
    enable_cudnn_sdp(enable_cudnn)
    try:
        yield
    finally:
        state.enabled = before


_halves = {"allowed": False}


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Permission to sum scores in half types, of which nothing here makes use: sums are made in float32.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)
    """
    _halves["allowed"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What was set; False at first.

    >>> import flambeau
    >>> flambeau.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    False
    """
    return _halves["allowed"]


def is_ck_sdpa_available() -> bool:
    """False: AMD's Composable Kernel is not here.

    >>> import flambeau
    >>> flambeau.backends.cuda.is_ck_sdpa_available()
    False
    """
    return False
