"""The operations, each declared once; importing this package declares them all.

`declare` turns bodies into operations and lists them; every other folder declares a family.
"""

from .linalg import decompositions, distances, einsum, lapack, matrices, products  # noqa: F401
from .moving import (  # noqa: F401
    creation,
    joining,
    older_names,
    padding,
    pixels,
    searching,
    shaping,
    sorting,
    unfolding,
    viewing,
)
from .neural import (  # noqa: F401
    activation_functions,
    activations,
    attention,
    convolution,
    ctc,
    embedding,
    losses,
    normalization,
    pooling,
    recurrent,
    resizing,
    unpooling,
)
from .pointwise import arithmetic, complex_numbers, copying, elementary, integers, special  # noqa: F401
from .random import dropout, random  # noqa: F401
from .rows import histograms, masked, reductions, scans, summaries  # noqa: F401
from .signal import spectral, windows  # noqa: F401
