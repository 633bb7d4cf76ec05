"""Which stream of random numbers generators of the host draw.

`stream` is "philox" or "pytorch".  Philox numbers (the default) are made in parallel and are the same on every device.  With
"pytorch", programs draw PyTorch's own CPU numbers from the same seeds and states: mt19937, element after element.  The environment's
FLAMBEAU_RANDOM sets it at the start.

What is set counts for generators that are made from then on, and for the default one, which begins the stream with its seed.  A
generator goes on with the stream that it was made with, and `set_state` continues the one that the state is of: 16 bytes are Philox,
5056 bytes are a state of PyTorch's, which PyTorch's own `get_state` and `set_state` exchange with these.  Generators of
other devices draw Philox.

Equal to PyTorch's in every bit, on a processor with fused products (AVX2) and the same C library: `rand`, `randint`, `randperm`,
`random_`, `uniform_`, `bernoulli`, `normal_` and `randn`, `exponential_`, `geometric_`, `cauchy_`, `log_normal_`, and what
is made of them.  Not to be had, and drawn from a Philox stream whose seed is the generator's next 64 bits: von Mises and negative
binomial numbers, and dropout inside of attention kernels.

>>> import flambeau
>>> flambeau.backends.random.stream
'philox'
>>> flambeau.backends.random.stream = "pytorch"
>>> _ = flambeau.manual_seed(0)
>>> flambeau.rand(2)
tensor([0.4963, 0.7682])
>>> flambeau.backends.random.stream = "philox"
"""

from __future__ import annotations

import sys
from types import ModuleType

from ..core.make.random import get_stream, set_stream


class _WithStream(ModuleType):
    @property
    def stream(self) -> str:
        """What generators of the host that are made now draw: "philox" or "pytorch"."""
        return get_stream()

    @stream.setter
    def stream(self, name: str) -> None:
        set_stream(name)


sys.modules[__name__].__class__ = _WithStream
