"""The host's processor, and which ways of computing may be taken on it.

`allow_winograd` (True): whether convolutions of 3 × 3 windows in float32 may be computed by Winograd's, where that is
faster.  Errors are then up to three times those of a sum of products, and a number that is not finite makes NaN of all
results of its square of 4 × 4 places.  False takes sums alone; setting anything but a bool raises RuntimeError.

>>> import flambeau
>>> flambeau.backends.cpu.allow_winograd
True
"""

from __future__ import annotations

import sys
from types import ModuleType

from ..operations.neural.convolution_families import allowed as _allowed


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


sys.modules[__name__].__class__ = _Switched
