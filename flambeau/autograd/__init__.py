"""Automatic differentiation: gradients of results with respect to tensors."""

from ..core.base.lazily import lazily as _lazily
from ..core.base.profiling import is_profiling as _profiler_enabled  # noqa: F401
from ..core.tape import is_grad_enabled
from . import anomaly_mode, forward_ad, functional, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .gradients import backward, grad

__getattr__, __dir__ = _lazily(
    __name__,
    ("profiler", "profiler_util", "variable"),
    {"Variable": ".variable", "_disable_profiler": ".profiler"},
)

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
