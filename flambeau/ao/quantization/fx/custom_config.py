"""Configurations of `quantize_fx` beside a `QConfigMapping`."""

from ...._compat.absent import refusing as _refusing
from ..._graph_configs import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig

__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig"]
__getattr__ = _refusing("ao.quantization.fx.custom_config")
