"""The operations, each declared once; importing this package declares them all.

`declare` turns bodies into operations and lists them; every other folder declares a family.
"""

from __future__ import annotations

from typing import Any

from ..core.base.callbacks import set_callback
from .linalg import (  # noqa: F401
    decompositions,
    determinants,
    distances,
    einsum,
    exponential,
    lapack,
    lobpcg,
    matrices,
    products,
    quantised,
    reflections,
    scaled,
)
from .moving import (  # noqa: F401
    creation,
    device_bodies,
    indexing,
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
from .neural import activations, flat, quantizing  # noqa: F401
from .neural.attention import attention  # noqa: F401
from .neural.convolution import convolution, unfolding  # noqa: F401
from .neural.embedding import bags, embedding  # noqa: F401
from .neural.losses import ctc, linear_losses, losses  # noqa: F401
from .neural.normalization import normalization  # noqa: F401
from .neural.pooling import fractional_pooling, pooling, unpooling  # noqa: F401
from .neural.recurrent import recurrent, recurrent_flat  # noqa: F401
from .neural.resampling import resizing  # noqa: F401
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
from .random import dropout, random, sampled  # noqa: F401
from .rows import histograms, masked, moments, norms, reductions, scans, segments, softmax  # noqa: F401
from .signal import spectral, windows  # noqa: F401


def _document(op: Any) -> str | None:
    """The docstring of an operation, for the first of which is imported what makes them."""
    from .declare.documents import document

    return document(op)


set_callback("document", _document)
