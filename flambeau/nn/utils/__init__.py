"""Tools for a module's parameters and gradients, and for batches of sequences.

Each name is loaded with its file when it is first used: a program that trains needs few of them.
"""

from ...core.base.lazily import functions_first as _functions_first
from ...core.base.lazily import lazily as _lazily

# The file of each name; what is a file itself stands below.
_WHERE = {
    name: f".{module}"
    for module, names in {
        "clip_grad": (
            "clip_grad_norm",
            "clip_grad_norm_",
            "clip_grad_value_",
            "clip_grads_with_norm_",
            "get_total_norm",
        ),
        "convert_parameters": ("parameters_to_vector", "vector_to_parameters"),
        "fusion": (
            "fuse_conv_bn_eval",
            "fuse_conv_bn_weights",
            "fuse_linear_bn_eval",
            "fuse_linear_bn_weights",
        ),
        "init": ("skip_init",),
        "memory_format": ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"),
        "spectral_norm": ("remove_spectral_norm", "spectral_norm"),
        "weight_norm": ("remove_weight_norm", "weight_norm"),
    }.items()
    for name in names
}
# The files that are names themselves, and those that are for programs to import by their own.
_MODULES = ("parametrizations", "parametrize", "rnn", "stateless")
_MORE_MODULES = ("clip_grad", "convert_parameters", "fusion", "init", "memory_format", "prune")

__all__ = sorted([*_WHERE, *_MODULES])

__getattr__, __dir__ = _lazily(__name__, submodules=(*_MODULES, *_MORE_MODULES), names=_WHERE)
_functions_first(__name__)  # `spectral_norm`, `weight_norm`
