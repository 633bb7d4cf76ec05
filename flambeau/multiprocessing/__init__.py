"""Python's `multiprocessing`, with tensors, modules and storages sent as shared memory.

What `multiprocessing` has, this has: `Process`, `Queue`, `SimpleQueue`, `Pipe`, `Pool`, locks, the three start methods.  A tensor
that is put into a queue or sent through a pipe moves to shared memory (`Tensor.share_memory_`), and the process that receives it
has a tensor over the same elements: what one writes, the other sees.  Views share as they did; what is sent twice arrives over one
storage.  A leaf's `requires_grad` travels, its `.grad` and its hooks do not.

The memory has no name and dies with its last user, whatever ends it.  What was put into a queue arrives though the process that
put it has ended since; through Python's own queues and managers it has to be fetched from that process.

>>> import flambeau
>>> from flambeau import multiprocessing as mp
>>> queue = mp.SimpleQueue()
>>> x = flambeau.zeros(3)
>>> queue.put(x)
>>> queue.get().fill_(2)
tensor([2., 2., 2.])
>>> x
tensor([2., 2., 2.])
"""

from typing import TYPE_CHECKING

from ..core.base.lazily import functions_first as _functions_first
from ..core.base.lazily import on_first_use as _on_first_use

if TYPE_CHECKING:
    from ._public import *  # noqa: F403

__getattr__, __dir__ = _on_first_use(__name__, "_public")
_functions_first(__name__)  # `spawn`
