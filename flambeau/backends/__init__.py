"""What computes: which libraries and processors there are, and what programs allow them.

Each answers truly for what stands here.  Switches of libraries that are not here (cuDNN) are kept as programs set them,
and change nothing.  `fp32_precision` is such a switch: what operands of float32 may be rounded to.  `random` chooses which
stream of random numbers is drawn.

>>> import flambeau
>>> flambeau.backends.fp32_precision
'none'
"""

from ..core.base.lazily import lazily as _lazily
from ._switched import (
    assignable as __allow_nonbracketed_mutation,  # noqa: F401
)
from ._switched import disable_global_flags, flags_frozen, has_precision

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "disable_global_flags",
    "flags_frozen",
    "kleidiai",
    "mha",
    "miopen",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
    "random",
]

__getattr__, __dir__ = _lazily(__name__, submodules=tuple(n for n in __all__ if n not in globals()))
has_precision(__name__)
del has_precision
