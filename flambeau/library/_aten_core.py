"""ATen's core operations that are not declared here, as `_aten_steps` has others: what graphs in core operations call."""

from __future__ import annotations

from typing import Any

from ..operations.declare.registry import REGISTRY
from ._aten import names
from ._aten_steps import enter, step

REDUCTIONS = ("none", "mean", "sum")

_BATCH_NORM = "Tensor input, Tensor? weight, Tensor? bias"


# --- batch normalisation ------------------------------
@step(
    f"_native_batch_norm_legit_functional({_BATCH_NORM}, Tensor running_mean, Tensor running_var, bool training, float momentum, "
    "float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)"
)
def _functional(x, weight, bias, mean, var, training, momentum, eps):
    mean, var = mean.clone(), var.clone()
    return (*names()["native_batch_norm"](x, weight, bias, mean, var, training, momentum, eps), mean, var)


step(
    f"_native_batch_norm_legit({_BATCH_NORM}, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, "
    "float eps) -> (Tensor, Tensor, Tensor)"
)(lambda *args: names()["native_batch_norm"](*args))
step(
    f"_native_batch_norm_legit.no_stats({_BATCH_NORM}, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
)(
    lambda x, weight, bias, training, momentum, eps: names()["native_batch_norm"](
        x, weight, bias, None, None, training, momentum, eps
    )
)
step(
    f"_native_batch_norm_legit_no_training({_BATCH_NORM}, Tensor running_mean, Tensor running_var, float momentum, float eps) -> "
    "(Tensor, Tensor, Tensor)"
)(
    lambda x, weight, bias, mean, var, momentum, eps: names()["native_batch_norm"](
        x, weight, bias, mean, var, False, momentum, eps
    )
)


# --- margins ------------------------------
def _padded(mode: str) -> Any:
    return lambda x, padding: REGISTRY["pad"].function(x, list(padding), mode)


for _name, _mode in (("reflection", "reflect"), ("replication", "replicate")):
    for _n in (1, 2, 3):
        step(f"{_name}_pad{_n}d(Tensor self, SymInt[{2 * _n}] padding) -> Tensor")(_padded(_mode))


# --- distances and bags ------------------------------
step("_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor")(
    lambda a, b, p, compute_mode: names()["cdist"](a, b, p)
)
step("_pdist_forward(Tensor self, float p=2) -> Tensor")(lambda x, p=2.0: names()["pdist"](x, p))


def _bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    weights=None,
    last=False,
    padding=-1,
):
    """The bags, and three tensors that only their backward pass in ATen reads."""
    reduced = ("sum", "mean", "max")[mode]
    result = REGISTRY["embedding_bag"].function(
        indices,
        weight,
        offsets,
        None,
        2.0,
        scale_grad_by_freq,
        reduced,
        sparse,
        weights,
        last,
        None if padding < 0 else padding,
    )
    empty = indices.new_empty(0)
    return result, empty, empty.clone(), empty.clone()


_BAG = (
    "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
    "Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"
)
step(f"_embedding_bag{_BAG}", f"_embedding_bag_forward_only{_BAG}")(_bag)


# --- elements ------------------------------
def _written(name: str) -> Any:
    return lambda x, **options: x.copy_(names()[name](x, **options))


step("hardsigmoid_(Tensor(a!) self) -> Tensor(a!)")(_written("hardsigmoid"))
step("hardswish_(Tensor(a!) self) -> Tensor(a!)")(_written("hardswish"))
step("mish_(Tensor(a!) self) -> Tensor(a!)")(_written("mish"))
step("silu_(Tensor(a!) self) -> Tensor(a!)")(_written("silu"))
step("gelu_(Tensor(a!) self, *, str approximate='none') -> Tensor(a!)")(_written("gelu"))
for _sign, _name in (("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor")):
    for _kind in ("Tensor", "Scalar"):
        step(f"__{_sign}__.{_kind}(Tensor self, {_kind} other) -> Tensor")(
            lambda x, y, name=_name: names()[name](x, y)
        )
        step(f"__i{_sign}__.{_kind}(Tensor(a!) self, {_kind} other) -> Tensor(a!)")(
            lambda x, y, name=_name: x.copy_(names()[name](x, y))
        )
step("_prelu_kernel(Tensor self, Tensor weight) -> Tensor")(lambda x, weight: x.where(x > 0, x * weight))
step("zero(Tensor self) -> Tensor")(lambda x: x.new_zeros(x.shape))
step("lift(Tensor self) -> Tensor")(lambda x: x.clone())


@step("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")
def _safe_softmax(x, dim, dtype=None):
    """Rows of -inf alone give 0."""
    masked = (x == float("-inf")).all(dim, keepdim=True)
    return names()["softmax"](x, dim, dtype=dtype).masked_fill(masked, 0.0)


step("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor")(
    lambda x, indices, values, accumulate=False: names()["index_put"](x, indices, values, accumulate)
)
step("nonzero_numpy(Tensor self) -> Tensor[]")(lambda x: list(x.nonzero(as_tuple=True)))


step(
    "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor info)"
)(
    lambda x, pivot=True, check_errors=True: tuple(
        names()["linalg_lu_factor_ex"](x, pivot=pivot, check_errors=check_errors)
    )
)


# --- losses ------------------------------
def _nll(x, target, weight, reduction, ignore_index):
    """The loss, and the weights of the targets together."""
    result = REGISTRY["nll_loss"].function(x, target, weight, None, ignore_index, None, REDUCTIONS[reduction])
    not_ignored = target != ignore_index
    if weight is None:
        total = not_ignored.sum().to(x.dtype)
    else:
        total = weight[target.masked_fill(~not_ignored, 0)].masked_fill(~not_ignored, 0.0).sum()
    return result, total if reduction else x.new_zeros(())


_NLL = (
    "(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> "
    "(Tensor output, Tensor total_weight)"
)
step(f"nll_loss_forward{_NLL}", f"nll_loss2d_forward{_NLL}")(_nll)
step("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)")(
    lambda x: (REGISTRY["logsigmoid"].function(x), x.new_empty(0))
)


# --- sizes ------------------------------
@step("sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()")
def _constrain_range(size, *, min=None, max=None):
    if (min is not None and size < min) or (max is not None and size > max):
        ends = "-inf" if min is None else min, "inf" if max is None else max
        raise RuntimeError(f"Invalid value range for {size} between [{ends[0]}, {ends[1]}].")


enter()
