"""ATen's operations that are steps of others there and are not declared here: what they compute, in operations that are.

Programs call them (`ops.aten._to_copy(x, dtype=…)`) and register for them what their own classes do. They are defined with the first
look-up in `ops`, as a program's library would define them, and have their gradients from what they call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.base.tensor import TensorBase
from ..operations.declare.registry import REGISTRY
from ..sparse import mm
from ..sparse.tensors import overrides
from ._aten import names
from ._libraries import Library

STEPS: dict[str, Callable[..., Any]] = {}


def step(*schemas: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What an operation of ATen computes, by its schema there."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        STEPS.update(dict.fromkeys(schemas, function))
        return function

    return declare


# --- copies and views ------------------------------
@step(
    "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
    "bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"
)
def _to_copy(
    x, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None
):
    if layout not in (None, x.layout):
        raise NotImplementedError(f"_to_copy(): a copy in layout {layout} is made by to_sparse and its kin")
    options = {"memory_format": memory_format} if memory_format is not None else {}
    made = x.to(dtype=dtype, device=device, non_blocking=non_blocking, copy=True, **options)
    return made.pin_memory() if pin_memory else made


step("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor")(
    lambda x, src, non_blocking=False: x.clone().copy_(src)
)
step("alias(Tensor(a) self) -> Tensor(a)", "lift_fresh(Tensor(a) self) -> Tensor(a)")(lambda x: x.view_as(x))
step("lift_fresh_copy(Tensor self) -> Tensor")(lambda x: x.clone())
step("_conj(Tensor(a) self) -> Tensor(a)")(lambda x: x.conj())
step("_conj_physical(Tensor self) -> Tensor")(lambda x: x.conj_physical())
step("_unsafe_view(Tensor self, SymInt[] size) -> Tensor")(lambda x, size: x.view(size))
step("_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)")(
    lambda x, size, stride: x.as_strided(size, stride)
)
step("_pin_memory(Tensor self, Device? device=None) -> Tensor")(lambda x, device=None: x.pin_memory())


def _piece(x, dim, start, end, step):
    dim = dim + x.dim() if dim < 0 else dim
    return (*[slice(None)] * dim, slice(start, end, step))


step(
    "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"
)(lambda x, dim=0, start=None, end=None, step=1: x[_piece(x, dim, start, end, step)])


@step(
    "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor"
)
def _slice_backward(grad, sizes, dim, start, end, step):
    grad_input = grad.new_zeros(sizes)
    return names()["slice_scatter"](grad_input, grad, dim, start, end, step)


@step("select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor")
def _select_backward(grad, sizes, dim, index):
    return names()["select_scatter"](grad.new_zeros(sizes), grad, dim, index)


@step(
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
)
def _index(x, indices):
    return x[tuple(slice(None) if index is None else index for index in indices)]


step("numpy_T(Tensor(a) self) -> Tensor(a)")(lambda x: x.permute(*reversed(range(x.dim()))))
step("mT(Tensor(a) self) -> Tensor(a)")(lambda x: x.mT)
step("matrix_H(Tensor(a) self) -> Tensor(a)")(lambda x: x.H)
step("mH(Tensor(a) self) -> Tensor(a)")(lambda x: x.mH)


# --- shapes ------------------------------
step("sym_size.int(Tensor self, int dim) -> SymInt")(lambda x, dim: x.size(dim))
step("sym_size(Tensor self) -> SymInt[]")(lambda x: list(x.shape))
step("sym_stride.int(Tensor self, int dim) -> SymInt")(lambda x, dim: x.stride(dim))
step("sym_stride(Tensor self) -> SymInt[]")(lambda x: list(x.stride()))
step("sym_numel(Tensor self) -> SymInt")(lambda x: x.numel())
step("sym_storage_offset(Tensor self) -> SymInt")(lambda x: x.storage_offset())


# --- what is checked, and read ------------------------------
step("_local_scalar_dense(Tensor self) -> Scalar")(lambda x: x.item())
step("_is_all_true(Tensor self) -> Tensor")(lambda x: x.all())
step("_is_any_true(Tensor self) -> Tensor")(lambda x: x.any())


@step(
    "_assert_scalar(Scalar self, str assert_msg) -> ()",
    "_assert_async.msg(Tensor self, str assert_msg) -> ()",
)
def _assert_scalar(value, message):
    if not value:
        raise RuntimeError(message)


@step("_assert_async(Tensor self) -> ()")
def _assert_async(value):
    _assert_scalar(value, "Expected Tensor with single nonzero value, but got zero")


@step(
    "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
    "Layout? layout=None) -> ()"
)
def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    for what, wanted, has in (
        ("sizes", size, list(a.shape)),
        ("strides", stride, list(a.stride()) if stride is not None else None),
        ("dtype", dtype, a.dtype),
        ("device", device, a.device),
        ("layout", layout, a.layout),
    ):
        if wanted is not None and (list(wanted) if isinstance(wanted, Sequence) else wanted) != has:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {wanted}, Got: {has}")


@step("sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()")
def _constrain_size(size, *, min=None, max=None):
    low = 0 if min is None else min
    if max is not None and max <= 2:
        raise RuntimeError(f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    if size < low or max is not None and size > max:
        raise RuntimeError(
            f"Invalid value range for {size} between [{low}, {'inf' if max is None else max}]."
        )


# --- layers ------------------------------
def _softened(name: str) -> Callable[..., Any]:
    def soften(x: TensorBase, dim: int, half_to_float: bool) -> Any:
        if half_to_float:
            raise RuntimeError(f"{name.strip('_')} with half to float conversion is not supported on CPU")
        return getattr(x, name)(dim)

    return soften


step("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor")(_softened("softmax"))
step("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor")(_softened("log_softmax"))


@step("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor")
def _softmax_backward(grad, output, dim, dtype):
    return ((grad - (grad * output).sum(dim, keepdim=True)) * output).to(dtype)


@step(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"
)
def _log_softmax_backward(grad, output, dim, dtype):
    return (grad - output.exp() * grad.sum(dim, keepdim=True)).to(dtype)


step("threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor")(
    lambda grad, x, threshold: grad.masked_fill(x <= threshold, 0)
)
step("tanh_backward(Tensor grad_output, Tensor output) -> Tensor")(lambda grad, y: grad * (1 - y * y).conj())
step("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor")(
    lambda grad, y: grad * (y * (1 - y)).conj()
)
step("_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor")(
    lambda x, size: names()["adaptive_avg_pool2d"](x, tuple(size))
)
step("_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor")(
    lambda x, size: names()["adaptive_avg_pool3d"](x, tuple(size))
)


@step(
    "_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
    "transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor",
    "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
)
def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *switches):
    return names()["convolution"](
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


# --- products and transforms ------------------------------
@overrides("_sparse_addmm.default")
@step("_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
def _sparse_addmm(x, a, b, *, beta=1, alpha=1):
    return names()["addmm"](x, a, b, beta=beta, alpha=alpha)


@overrides("_sparse_mm_reduce_impl.default")
@step("_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)")
def _sparse_mm_reduce_impl(a, b, reduce):
    return mm(a, b, reduce), b.new_empty(0).long()


def _scaled(x: TensorBase, dims: Sequence[int], normalization: int, sizes: Sequence[int]) -> Any:
    """A transform that nothing scaled, scaled as ATen numbers it: 0 not, 1 by 1/√n, 2 by 1/n."""
    count = math.prod(sizes[dim] for dim in dims)
    return x if normalization == 0 else x / (math.sqrt(count) if normalization == 1 else count)


@step("_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor")
def _fft_c2c(x, dims, normalization, forward):
    name, unscaled = ("fft_fftn", "backward") if forward else ("fft_ifftn", "forward")
    return _scaled(names()[name](x, dim=dims, norm=unscaled), dims, normalization, x.shape)


@step("_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor")
def _fft_r2c(x, dims, normalization, onesided):
    return _scaled(
        names()["fft_rfftn" if onesided else "fft_fftn"](x, dim=dims), dims, normalization, x.shape
    )


@step("_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor")
def _fft_c2r(x, dims, normalization, size):
    sizes = [*(x.shape[dim] for dim in dims[:-1]), size]
    made = names()["fft_irfftn"](x, s=sizes, dim=dims, norm="forward")
    return _scaled(made, dims, normalization, made.shape)


def _upsampled(mode: str, aligned: bool) -> Callable[..., Any]:
    """A resampling by sizes or factors; factors win where both are given, as sizes of a trace are those of its example."""

    def resample(x, output_size, *align, **factors):
        align_rest = align[1:] if aligned else align
        scales = list(factors.values())[0] if factors else (align_rest[0] if align_rest else None)
        scales = None if scales is None else list(scales)
        named = {"align_corners": align[0]} if aligned else {}
        size = output_size if scales is None else None
        return REGISTRY["interpolate"].function(x, size=size, scale_factor=scales, mode=mode, **named)

    return resample


def _resized(mode: str, aligned: bool) -> Callable[..., Any]:
    """A resampling to sizes; factors beside them say what the sizes were computed of."""

    def resample(x, output_size, *rest):
        named = {"align_corners": rest[0]} if aligned else {}
        return REGISTRY["interpolate"].function(x, size=list(output_size), mode=mode, **named)

    return resample


for _mode, _name, _ranks in (
    ("nearest", "upsample_nearest", (1, 2, 3)),
    ("nearest-exact", "_upsample_nearest_exact", (1, 2, 3)),
    ("linear", "upsample_linear", (1,)),
    ("bilinear", "upsample_bilinear", (2,)),
    ("bicubic", "upsample_bicubic", (2,)),
    ("trilinear", "upsample_trilinear", (3,)),
):
    for _n in _ranks:
        _aligned = "bool align_corners, " if "linear" in _mode or "cubic" in _mode else ""
        _parts = ", ".join(
            f"float? scales{_axis}=None" for _axis in (("",), ("_h", "_w"), ("_d", "_h", "_w"))[_n - 1]
        )
        step(f"{_name}{_n}d(Tensor self, SymInt[{_n}] output_size, {_aligned}{_parts}) -> Tensor")(
            _resized(_mode, bool(_aligned))
        )
        _head = f"{_name}{_n}d.vec(Tensor input, SymInt[]? output_size, {_aligned}float[]? scale_factors) -> Tensor"
        step(_head)(_upsampled(_mode, bool(_aligned)))


_library = Library("aten", "FRAGMENT")
_entered: set[str] = set()


def enter() -> None:
    """Define the operations that were declared since it was called last."""
    for schema, function in STEPS.items():
        if schema not in _entered:
            _entered.add(schema)
            _library.define(schema)
            _library.impl(schema.partition("(")[0], function, "CompositeImplicitAutograd")


enter()
