"""Which stream of random numbers generators of the host draw.

`stream` is "philox" or "pytorch".  Philox numbers are made in parallel and are the same on every device; they are the default but where
`import torch` means this library.  With "pytorch", programs draw PyTorch's own CPU numbers from the same seeds and states: mt19937,
element after element.  The environment's FLAMBEAU_RANDOM sets it at the start.

What is set counts for generators that are made from then on, and for the default one, which begins the stream with its seed.  A
generator goes on with the stream that it was made with, and `set_state` continues the one that the state is of: 16 bytes are Philox,
5056 bytes are a state of PyTorch's, which PyTorch's own `get_state` and `set_state` exchange with these.  Generators of other devices
draw Philox.

`tools/random_on_torch.py` compares with PyTorch element by element.  Equal in every bit, for all dtypes: `rand`, `randint`,
`randperm`, `random_`, `uniform_`, `bernoulli`, `multinomial` with replacement, dropout of every kind, samplers, splits, workers'
seeds.  Equal with the same C library, of whose logarithms and sines they are made (float32's own are computed here): `randn`,
`normal`, `exponential_`, `geometric_`, `cauchy_`, `log_normal_`, `poisson`, `binomial`, gamma and Dirichlet numbers, `nn.init`.
Distributions that compute with these come within some units in the last place.

Not PyTorch's are `LKJCholesky` and `Wishart`, whose samples are wrong there, scrambled Sobol points, and the order among equal
quotients in `multinomial` of bfloat16 without replacement. (A PyTorch built to draw `bernoulli_` by Intel's VSL has other trials;
its wheels are not.) What PyTorch has not, as dropout inside of attention kernels, takes a Philox stream whose seed is the
generator's next 64 bits.

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
