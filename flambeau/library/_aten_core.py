"""ATen's core operations that are not declared here, as `_aten_steps` has others: what graphs in core operations call."""

from __future__ import annotations

from typing import Any

from ..operations.declare.registry import REGISTRY
from ._aten import names
from ._aten_steps import enter, step

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
    found = REGISTRY["embedding_bag"].function(
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
    return found, empty, empty.clone(), empty.clone()


_BAG = (
    "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
    "Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"
)
step(f"_embedding_bag{_BAG}", f"_embedding_bag_forward_only{_BAG}")(_bag)

enter()
