"""Overloads of ATen that archives call and whose arguments are not those of the operation of that name here: what they compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.base.dtypes import by_name
from ._aten import names

OVERLOADS: dict[str, list[tuple[str, Callable[..., Any]]]] = {}  # by name: schemas, and what they compute


def overload(schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What an overload of ATen computes, by its schema there."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        OVERLOADS.setdefault(schema.partition("(")[0].partition(".")[0], []).append((schema, function))
        return function

    return declare


# --- layers ------------------------------
@overload(
    "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation, SymInt groups) -> "
    "Tensor"
)
def _convolution_mode(x, weight, bias, stride, padding, dilation, groups):
    convolve = names()[f"conv{weight.dim() - 2}d"]
    return convolve(x, weight, bias, list(stride), padding, list(dilation), groups)


def _recurrent(name: str, hidden: str, results: str) -> None:
    """Layers of packed sequences: the operation here tells them by its arguments."""
    weights = (
        "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
    )
    head = f"{name}.data(Tensor data, Tensor batch_sizes, {hidden} hx, {weights}) -> ({results})"
    overload(head)(lambda *args: names()[name](*args))


_recurrent("lstm", "Tensor[]", "Tensor, Tensor, Tensor")
_recurrent("gru", "Tensor", "Tensor, Tensor")
_recurrent("rnn_tanh", "Tensor", "Tensor, Tensor")
_recurrent("rnn_relu", "Tensor", "Tensor, Tensor")


def _unpooled(n: int) -> Callable[..., Any]:
    def unpool(x, indices, output_size, *rest):
        shape = [*x.shape[:-n], *output_size]
        flat = x.new_zeros([*x.shape[:-n], math.prod(output_size)])
        return flat.scatter(-1, indices.flatten(-n), x.flatten(-n)).view(shape)

    return unpool


overload("max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor")(_unpooled(2))
overload(
    "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor"
)(_unpooled(3))


# --- elements ------------------------------
def _all_three(result: Any, inverse: bool, counts: bool) -> tuple[Any, Any, Any]:
    """Values, places and counts, where what was not requested is empty."""
    parts = list(result) if isinstance(result, tuple) else [result]
    empty = parts[0].new_empty(0, dtype=by_name["int64"])
    values = parts.pop(0)
    return values, parts.pop(0) if inverse else empty, parts.pop(0) if counts else empty


@overload(
    "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)"
)
def _unique2(x, sorted=True, return_inverse=False, return_counts=False):
    return _all_three(x.unique(sorted, return_inverse, return_counts), return_inverse, return_counts)


@overload(
    "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> "
    "(Tensor, Tensor, Tensor)"
)
def _unique_dim(x, dim, sorted=True, return_inverse=False, return_counts=False):
    return _all_three(x.unique(sorted, return_inverse, return_counts, dim), return_inverse, return_counts)


@overload(
    "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)"
)
def _unique_consecutive(x, return_inverse=False, return_counts=False, dim=None):
    result = x.unique_consecutive(return_inverse, return_counts, dim)
    return _all_three(result, return_inverse, return_counts)


@overload(
    "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
    "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"
)
def _to(
    x,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    non_blocking=False,
    copy=False,
    memory_format=None,
):
    if layout not in (None, x.layout):
        raise NotImplementedError(f"to(): a copy in layout {layout} is made by to_sparse and its kin")
    options = {} if memory_format is None else {"memory_format": memory_format}
    return x.to(dtype=dtype, device=device, non_blocking=non_blocking, copy=copy, **options)


# --- products and transforms ------------------------------
overload("cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor")(
    lambda a, b, p=2.0, compute_mode=None: names()["cdist"](a, b, p)
)
overload("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor")(
    lambda a, b, dims_self, dims_other: names()["tensordot"](a, b, (list(dims_self), list(dims_other)))
)


@overload(
    "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, "
    "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor"
)
def _stft(x, n_fft, hop_length=None, win_length=None, window=None, normalized=False, *rest):
    onesided, return_complex = (*rest, None, None)[:2]
    return names()["stft"](
        x, n_fft, hop_length, win_length, window, False, "reflect", normalized, onesided, return_complex
    )
