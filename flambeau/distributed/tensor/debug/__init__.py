"""What distributed tensors do, for the eye: collectives counted, shards drawn, as `torch.distributed.tensor.debug`."""

from ...._compat.absent import refusing as _refusing
from ._comm_mode import CommDebugMode

__all__ = ["CommDebugMode"]
__getattr__ = _refusing("distributed.tensor.debug")
