"""The operations, each declared once; importing this package declares them all.

`declare` turns bodies into operations and lists them; every other folder declares a family.
"""

from .linalg import decompositions, determinants, distances, einsum, lapack, matrices, products, scaled  # noqa: F401
from .moving import (  # noqa: F401
    creation,
    device_bodies,
    joining,
    padding,
    pixels,
    questions,
    searching,
    shaping,
    sorting,
    view_copies,
    viewing,
)
from .neural import (  # noqa: F401
    activations,
    attention,
    convolution,
    ctc,
    embedding,
    fractional_pooling,
    linear_losses,
    losses,
    normalization,
    pooling,
    recurrent,
    resizing,
    unfolding,
    unpooling,
)
from .pointwise import (  # noqa: F401
    arithmetic,
    complex_numbers,
    composites,
    copying,
    elementary,
    integers,
    special,
    storage_dtypes,
)
from .random import dropout, random  # noqa: F401
from .rows import histograms, masked, moments, norms, reductions, scans, softmax  # noqa: F401
from .signal import spectral, windows  # noqa: F401
