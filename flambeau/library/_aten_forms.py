"""How calls of operations here are written as ATen's, where names and places of the arguments do not tell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMS: dict[str, Callable[..., Any]] = {}


def form(*operations: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function of an operation's arguments that gives ATen's name, arguments by position and by name, and where ATen has several
    results which one it is; None where there is no such call there."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        FORMS.update(dict.fromkeys(operations, function))
        return function

    return declare


@form("embedding")
def _embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if max_norm is not None:
        return None
    place = -1 if padding_idx is None else padding_idx
    return "embedding", (weight, input, place, scale_grad_by_freq, sparse), {}


@form("arange")
def _arange(start=None, end=None, step=None, **options):
    limits = [x for x in (start, end, step) if x is not None]
    if any(options.get(name) for name in ("requires_grad", "memory_format", "out")):
        return None
    return "arange", limits, {name: options.get(name) for name in ("dtype", "device")}


@form("embedding_bag")
def _embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    if max_norm is not None or offsets is None or mode not in ("sum", "mean", "max"):
        return None
    if input.is_floating_point():  # the order of before, which is taken, too
        input, weight = weight, input
    number = ("sum", "mean", "max").index(mode)
    options = (scale_grad_by_freq, number, sparse, per_sample_weights, include_last_offset, padding_idx)
    return "embedding_bag", (weight, input, offsets, *options), {}, 0


@form("split")
def _split(tensor, split_size_or_sections=None, dim=0, *, split_size=None):
    size = split_size_or_sections if split_size is None else split_size
    return "split_with_sizes" if isinstance(size, (list, tuple)) else "split", (tensor, size, dim), {}


@form("einsum")
def _einsum(args):
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    return ("einsum", (equation, operands), {}) if isinstance(equation, str) else None


form("cube")(lambda input: ("pow", (input, 3), {}))
form("T")(lambda input: ("numpy_T", (input,), {}))
form("mT")(lambda input: ("mT", (input,), {}))
form("H")(lambda input: ("matrix_H", (input,), {}))
form("mH")(lambda input: ("mH", (input,), {}))


@form("meshgrid")
def _meshgrid(tensors=(), indexing=None):
    listed = (
        list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    )
    return "meshgrid", (listed,), {"indexing": indexing or "ij"}


_SAMPLED = {
    "nearest": ("upsample_nearest", (1, 2, 3)),
    "nearest-exact": ("_upsample_nearest_exact", (1, 2, 3)),
    "linear": ("upsample_linear", (1,)),
    "bilinear": ("upsample_bilinear", (2,)),
    "bicubic": ("upsample_bicubic", (2,)),
    "trilinear": ("upsample_trilinear", (3,)),
}


@form("interpolate")
def _interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    name, ranks = _SAMPLED.get(mode, ("", ()))
    rank = input.dim() - 2
    if antialias or recompute_scale_factor or rank not in ranks:
        return None

    def all_of(x):
        return x if x is None or isinstance(x, (list, tuple)) else [x] * rank

    factors = all_of(scale_factor)
    factors = factors if factors is None else [float(f) for f in factors]
    aligned = (bool(align_corners),) if "linear" in mode or "cubic" in mode else ()
    return f"{name}{rank}d", (input, all_of(size), *aligned, factors), {}


@form("grid_sample")
def _grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    modes = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return (
        "grid_sampler",
        (input, grid, modes[0].index(mode), modes[1].index(padding_mode), bool(align_corners)),
        {},
    )


def _pools(n: int) -> None:
    """Pooling that gives places, too: ATen has names of their own for it."""

    @form(f"max_pool{n}d")
    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        name = f"max_pool{n}d_with_indices" if return_indices else f"max_pool{n}d"
        return name, (input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode), {}

    @form(f"adaptive_max_pool{n}d")
    def adaptive(input, output_size, return_indices=False):
        item = None if return_indices else 0
        return f"adaptive_max_pool{n}d", (input, output_size), {}, item


for _n in (1, 2, 3):
    _pools(_n)
