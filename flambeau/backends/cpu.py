"""The host's processor."""

from __future__ import annotations


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
