"""Which public operations a class that holds them binds: methods of Tensor, and what PyTorch has as functions of Python.

PyTorch's built-in functions are no methods (`class Layer: act = torch.relu` and `Layer().act(x)`), its functions of Python are.  The
lists are those of PyTorch; `tools/bound_on_torch.py` compares them with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.call.operation import Form, Op

# Functions of Python in the flat namespace.
_FLAT = frozenset(
    """
    atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum from_dlpack
    lobpcg lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index
    """.split()
)
# Built-in functions in `nn.functional`, where the others are of Python.
_BUILT_IN = frozenset(
    """
    adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_ linear logsigmoid
    native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_
    scaled_dot_product_attention selu_ softplus softshrink threshold_
    """.split()
)
_forms: dict[str, Form] = {}


def is_bound(home: str, name: str) -> bool:
    """Whether a class binds what is public under that name there ("" the flat namespace, "Tensor", "nn.functional" …)."""
    if home in ("Tensor", "signal.windows", "masked", "nn.grad"):
        return True
    return name in _FLAT if not home else home == "nn.functional" and name not in _BUILT_IN


def form_at(op: Any, place: str) -> Callable[..., Any]:
    """What is public there of an operation: itself, or its form that a class binds; what is no operation stays as it is."""
    home, _, name = place.rpartition(".")
    if not isinstance(op, Op) or isinstance(op, Form) or not is_bound(home, name):
        return op
    found = _forms.get(place)
    if found is None or found.op is not op:
        found = _forms[place] = Form(op, place)
        if home == "Tensor" and op.method is None:
            op.method = found
    return found
