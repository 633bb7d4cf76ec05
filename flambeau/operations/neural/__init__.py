"""Operations of neural networks."""

from ..._lazily import waiting as _waiting

_waiting(
    __name__, "convolution_families", "convolution_grid", "recurrent_tiles"
)  # for the first of their calls
