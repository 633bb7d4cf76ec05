"""What may still change of distributed tensors: plain tensors among them, functions of pieces, rules of a program's own operations,
attention over a sequence in parts.

`implicit_replication()` takes plain tensors to be the same on all processes, `local_map` runs a function on pieces, and
`register_sharding` enters a rule.  In `context_parallel` each process has a part of a sequence.
"""

from ...._compat.absent import refusing as _refusing
from .._dispatch import implicit_replication
from ._attention import context_parallel, context_parallel_unshard, set_rotate_method
from ._func_map import local_map
from ._register_sharding import register_sharding

__all__ = [
    "context_parallel",
    "context_parallel_unshard",
    "implicit_replication",
    "local_map",
    "register_sharding",
    "set_rotate_method",
]
__getattr__ = _refusing("distributed.tensor.experimental")
