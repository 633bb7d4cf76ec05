"""What programs say of a model when its graph is quantised: `custom_config`."""

from ...._compat.absent import refusing as _refusing
from . import custom_config

__all__ = ["custom_config"]
__getattr__ = _refusing("ao.quantization.fx")
