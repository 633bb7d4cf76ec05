"""Moving between channels and pixels, and resizing images."""

from __future__ import annotations

from typing import Any

from ...core.base.tensor import TensorBase
from ..declare.half_types import in_float32
from ..declare.registry import library
from ..declare.results import copied


@library("composite", "nn.functional.pixel_shuffle", "pixel_shuffle", batching="leading")
def pixel_shuffle(input: TensorBase, upscale_factor: int) -> TensorBase:
    """(*, C r², H, W) to (*, C, H r, W r): result[c, h r + i, w r + j] = input[c r² + i r + j, h, w].
    The source is Shi et al. (2016).

    Raises:
        RuntimeError: the channels are no multiple of r²

    >>> import flambeau
    >>> flambeau.nn.functional.pixel_shuffle(flambeau.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0 or input.shape[-3] % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={input.shape[-3]} is not divisible by {r * r}"
        )
    *lead, c, h, w = input.shape
    n = len(lead)
    parts = input.reshape(*lead, c // (r * r), r, r, h, w)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return copied(parts.permute(order), [*lead, c // (r * r), h * r, w * r])


@library("composite", "nn.functional.pixel_unshuffle", "pixel_unshuffle", batching="leading")
def pixel_unshuffle(input: TensorBase, downscale_factor: int) -> TensorBase:
    """(*, C, H r, W r) to (*, C r², H, W): result[c r² + i r + j, h, w] = input[c, h r + i, w r + j].
    It is the inverse of `pixel_shuffle`.

    Raises:
        RuntimeError: height or width is no multiple of r

    >>> import flambeau
    >>> flambeau.nn.functional.pixel_unshuffle(flambeau.arange(4).reshape(1, 2, 2), 2).flatten()
    tensor([0, 1, 2, 3])
    """
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    *lead, c, h, w = input.shape
    if r <= 0 or h % r or w % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got {(h, w)} and {r}"
        )
    n = len(lead)
    parts = input.reshape(*lead, c, h // r, r, w // r, r)
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return copied(parts.permute(order), [*lead, c * r * r, h // r, w // r])


def _response_cast(on_host: bool, input: Any, *_: Any, **__: Any) -> str:
    """The rule of autocast: of a power, and on the CPU of a mean over three dimensions where there are as many."""
    return "fallthrough" if on_host and input.ndim == 3 else "float32"


@library("composite", "nn.functional.local_response_norm", autocast=_response_cast)
@in_float32()
def local_response_norm(
    input: TensorBase, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> TensorBase:
    """x / (k + alpha · mean of squares over `size` neighbouring channels)^beta (Krizhevsky et al. 2012).

    Shape:
        input: (N, C, *); the result has the same

    Raises:
        ValueError: there are fewer than three dimensions

    >>> import flambeau
    >>> flambeau.nn.functional.local_response_norm(flambeau.ones(1, 2, 1), size=2, alpha=2.0, beta=1.0)
    tensor([[[0.5000],
             [0.3333]]])
    """
    from .padding import pad

    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm(): Expected 3D or higher dimensionality input (got {input.ndim} dimensions)"
        )
    if size <= 0:
        raise RuntimeError(f"local_response_norm(): size should be greater than zero, got {size}")
    if not input.numel():
        return input
    squares = pad(input.square().transpose(1, -1), (size // 2, (size - 1) // 2))
    windows = squares.unfold(-1, size, 1)
    whole = not (
        input.is_floating_point() or input.is_complex()
    )  # a mean of integers is cut off, as in PyTorch's pooling
    mean = windows.sum(-1).div(size, rounding_mode="trunc") if whole else windows.mean(-1)
    mean = mean.transpose(1, -1)
    return input / (mean * alpha + k) ** beta
