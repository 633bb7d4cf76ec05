"""What processes do together beside collectives: training on uneven inputs, ways of adding gradients up."""

from ..._compat.absent import refusing as _refusing

__getattr__ = _refusing("distributed.algorithms")
