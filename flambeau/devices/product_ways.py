"""How products of matrices are computed the fastest on a device: what was measured, kept on disk beside the kernels.

Measured are cuBLAS, cuBLASLt and the kernel of our own, when a product of that description is first met.  What was found holds for this
card, driver and version of the library, in all processes: a product has the same bits in all runs but for those that measure at once.
"""

from __future__ import annotations

import hashlib
import json

from ..codegen import cache

WAYS = range(3)  # of core/lib/products/contraction.pxd


class Ways:
    """What was found for one card and version of the library: descriptions, tuples of numbers, and the way for each."""

    def __init__(self, fingerprint: str, version: int) -> None:
        text = f"ways of products, {fingerprint}, cuBLASLt {version}"
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:40]
        self.measured = self.read()

    def read(self) -> dict[tuple[int, ...], int]:
        """What the disk has; nothing where it has none, or what no version of ours has written."""
        content = cache.read(self.digest)
        try:
            pairs = json.loads(content or b"[]")
            return {tuple(int(n) for n in description): int(way) for description, way in pairs if way in WAYS}
        except (ValueError, TypeError):
            return {}

    def keep(self, description: tuple[int, ...], way: int) -> None:
        """Note what was found, with what other processes have written meanwhile, which goes before."""
        self.measured.setdefault(description, way)
        self.measured.update(self.read())
        pairs = sorted([list(description), way] for description, way in self.measured.items())
        cache.write(self.digest, json.dumps(pairs).encode())
