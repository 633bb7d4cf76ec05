"""The host's processor, and which ways of computing may be taken on it.

`allow_winograd` (True): whether convolutions of 3 × 3 windows in float32 may be computed by Winograd's, where that is
faster.  Errors are then up to three times those of a sum of products, and an infinity or a NaN spreads: results are made in squares
of 4 × 4 (or 2 × 2) places from patches of 6 × 6 (4 × 4) of the input, and every result of a square whose patch holds such a number
is NaN or infinite, in every filter, where a sum would make so only the 3 × 3 that see it.  As patches overlap, one number reaches up
to four squares.  So it is for float16, bfloat16 and complex64, which are computed in float32, for each plane of a convolution of
three dimensions that sees the number, for gradients in the input, and for those in the weight, of which all nine taps of a channel
are lost.  float64 always takes sums.  False takes sums alone; setting anything but a bool raises RuntimeError.

`prepack_limit` (256 MiB, or FLAMBEAU_PREPACK_LIMIT): the most bytes that all weights together may take in the layouts in which
convolutions and recurrent layers read them.  A weight that is used a second time without having been written to is kept laid
out; Winograd's values of 3 × 3 windows take 4 times the weight's bytes (F(4 × 4)), other layouts as many as the weight.  Results have the
same bits.  A weight whose memory others know (`numpy()`, `data_ptr()`, shared memory, mapped files) is laid out at every call.  0 keeps
nothing; where a lower limit is passed, each layout goes at its next use.  RuntimeError for what is no number of bytes.

>>> import flambeau
>>> flambeau.backends.cpu.allow_winograd, flambeau.backends.cpu.prepack_limit >> 20
(True, 256)
"""

from __future__ import annotations

import sys
from types import ModuleType

from ..core.base import prepacked as _prepacked
from ..operations.neural.convolution.families import allowed as _allowed

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest vectors that kernels are made of: "AVX512", "AVX2", "NEON", or "DEFAULT" for others.

    >>> import flambeau
    >>> flambeau.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "NEON", "DEFAULT")
    True
    """
    from ..codegen.target import processor

    features = processor()[1].split(",")
    for feature, name in (("+avx512f", "AVX512"), ("+avx2", "AVX2"), ("+neon", "NEON")):
        if feature in features:
            return name
    return "DEFAULT"


def _get(self: ModuleType) -> bool:
    return _allowed["winograd"]


def _set(self: ModuleType, value: bool) -> None:
    if not isinstance(value, bool):
        raise RuntimeError(f"flambeau.backends.cpu.allow_winograd must be a bool, not {type(value).__name__}")
    _allowed["winograd"] = value


class _Switched(ModuleType):
    allow_winograd = property(_get, _set)
    prepack_limit = property(
        lambda self: _prepacked.get_limit(), lambda self, nbytes: _prepacked.set_limit(nbytes)
    )


sys.modules[__name__].__class__ = _Switched
