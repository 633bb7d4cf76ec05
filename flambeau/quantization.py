"""`ao.quantization`, where PyTorch had it first.

>>> import flambeau
>>> flambeau.quantization.QuantStub is flambeau.ao.quantization.QuantStub
True
"""

from ._compat.absent import refusing as _refusing
from .ao.quantization import *  # noqa: F403
from .ao.quantization import __all__ as __all__

__path__: list[str] = []  # libraries import from modules below it
__getattr__ = _refusing("quantization")
