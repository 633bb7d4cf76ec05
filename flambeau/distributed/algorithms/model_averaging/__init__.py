"""Parameters averaged over processes now and then, in place of gradients at every step."""

from ...._compat.absent import refusing as _refusing
from . import averagers, hierarchical_model_averager, utils

__all__ = ["averagers", "hierarchical_model_averager", "utils"]

__getattr__ = _refusing("distributed.algorithms.model_averaging")
