"""Kernels as accelerators load them, from memory's files or from the compiler.

An image is kept on disk under a digest of the kernel, its form, the target, the compiler, and the device with its driver.
Where the driver gives out what it has made of an image, that is kept instead: it loads several times faster.
"""

from __future__ import annotations

import hashlib

from ..codegen import build, cache, linking, schedule_gpu, schedule_gpu_rows, schedule_gpu_threads, target
from ..codegen.kernels import prefixes
from ..core.base.stacks import deep

SYMBOL = schedule_gpu_threads.SYMBOL
statistics = {"compiled": 0, "loaded": 0}


def find(kernel, form: tuple, name: str, processor: str, fingerprint: str) -> tuple[bytes, str, bool]:
    """The image of a kernel in that form for a processor of a target, its digest, and whether it came from the disk."""
    text = f"image {name} {processor} {form} {fingerprint}\n{kernel.text()}"
    digest = hashlib.sha256(build.version("gpu") + text.encode()).hexdigest()[:40]
    cached = cache.read(digest)
    if cached is not None:
        statistics["loaded"] += 1
        return cached, digest, True
    statistics["compiled"] += 1
    module = schedule_gpu.module_for(kernel, name, schedule_gpu.Form(*form))
    image = deep(target.image, str(module), name, processor)
    image = image.encode() if isinstance(image, str) else image
    if name == "amdgcn":
        image = linking.code_object(image, processor)
    return image, digest, False


def keep(digest: str, image: bytes, native: bytes | None) -> None:
    """Store an image that was just loaded; `native` is what the driver has made of it, if it tells."""
    cache.write(digest, image if native is None else native)


def row_limits(kernel, name: str) -> tuple[int, int, bool]:
    """What decides the form of a row kernel on a target: neighbouring threads that read memory together, how many elements a thread may
    hold, and whether it scans.
    """
    most = schedule_gpu_rows.most_held(kernel, name)
    return target.TARGETS[name].lanes, most, bool(prefixes(kernel.outputs))
