"""What computes: which libraries and processors there are, and what programs allow them.

Each answers truly for what stands here.  Switches of libraries that are not here (cuDNN) are kept as programs set them,
and change nothing.
"""

from .._lazily import lazily

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

__getattr__, __dir__ = lazily(__name__, submodules=tuple(__all__))
