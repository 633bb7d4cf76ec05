"""How devices compute what the CPU has loops or libraries for: orders, searches, special functions, transforms, matrices, draws.

Nothing here is recorded and nothing public: the declarations call these functions for tensors of devices, beside what they do on the
CPU.  All of it is made of kernels (`declare/indexed.py`) and of operations; sizes alone travel to the host.
"""

from ...core.base.lazily import waiting as _waiting

# Each is imported for the first operation that runs in it.
_waiting(
    __name__,
    "draws",
    "elementwise",
    "matrices",
    "ordering",
    "places",
    "rotations",
    "special",
    "transforms",
    "windows",
)
