"""NVIDIA's devices: what is built for them and what programs allow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

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
