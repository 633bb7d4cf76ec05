"""From a kernel to the address of its machine code: memory, then disk, then the compiler."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from ..core.base import forks
from . import (
    cache,
    schedule_cpu,
    target,
)
from . import expr as ex
from .kernels import Pointwise, Row

_addresses: dict[str, int] = {}
statistics = {"compiled": 0, "loaded": 0}


# What the other kind of hardware alone is made with: an edit there leaves kernels on the disk good.
ELSEWHERE = {"cpu": "schedule_gpu*.py", "gpu": "schedule_cpu*.py"}


def sources(kind: str) -> list[Path]:
    """The files of this package that kernels for a "cpu" or a "gpu" are made with."""
    package = Path(__file__).parent
    return sorted(set(package.glob("*.py")) - set(package.glob(ELSEWHERE[kind])))


@functools.cache
def version(kind: str) -> bytes:
    """What decides a kernel's code besides the kernel: the sources it is made with, LLVM, the processor."""
    digest = hashlib.sha256()
    for path in sources(kind):
        digest.update(path.read_bytes())
    binding = target.llvm()
    digest.update(
        repr((binding.llvm_version_info, binding.get_default_triple(), target.processor())).encode()
    )
    return digest.digest()


def address(kernel) -> int:
    """Where the kernel's machine code stands in this process; compiles it when it is new."""
    digest = hashlib.sha256(version("cpu") + kernel.text().encode()).hexdigest()[:40]
    with forks.making:
        result = _addresses.get(digest)
        if result is not None:
            return result
        symbol = "k" + digest
        code = cache.read(digest)
        loaded = _try_load(code, symbol) if code is not None else None
        if loaded is None:
            text = str(schedule_cpu.module_for(kernel, target.llvm().get_default_triple()))
            settled = isinstance(kernel, (Pointwise, Row))
            code = target.host_object(text.replace("@kernel(", f"@{symbol}("), settled=settled)
            loaded = target.load(code, symbol)
            cache.write(digest, code)
            statistics["compiled"] += 1
        else:
            statistics["loaded"] += 1
        _addresses[digest] = loaded
        ex.forget()
        return loaded


def _try_load(code: bytes, symbol: str) -> int | None:
    try:
        return target.load(code, symbol)
    except RuntimeError:
        return None
