"""Cross-entropy of logits whose classes lie over several processes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ....core.base import display
from .. import _rules_layers

__all__ = ["loss_parallel"]


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """While it is on, `cross_entropy` of logits that are cut along the classes does not gather them.

    What is sent is the largest logit, the sum of exponentials and the target's logit of each row.  `backward` stands inside as well.
    The logits are a DTensor (N, C) or (N, C, …) with `Shard(1)`, the targets class numbers, the same on all processes.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
    >>> from flambeau.distributed.tensor.parallel import loss_parallel
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> mesh = init_device_mesh("cpu", (2,))
    >>> logits = distribute_tensor(flambeau.zeros(3, 8), mesh, [Shard(1)])
    >>> target = distribute_tensor(flambeau.tensor([0, 1, 2]), mesh, [Replicate()])
    >>> with loss_parallel():
    ...     flambeau.nn.functional.cross_entropy(logits, target).placements
    (Replicate(),)
    >>> dist.destroy_process_group()
    """
    before, _rules_layers.loss_is_parallel = _rules_layers.loss_is_parallel, True
    try:
        yield
    finally:
        _rules_layers.loss_is_parallel = before


loss_parallel.__module__ = display.public("distributed.tensor.parallel")
