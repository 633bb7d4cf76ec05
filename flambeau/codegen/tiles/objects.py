"""Machine code of functions written for tiles: in memory, on disk under a digest of their text, or compiled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ...core.base import forks
from ...core.base.stacks import deep
from .. import cache, target


def compiled(text: Callable[[str], str]) -> int:
    """Where a function stands whose module `text` writes for a symbol; compiled when it is new to this processor."""
    return deep(_compiled, text)


def _compiled(text: Callable[[str], str]) -> int:
    with forks.making:
        told = repr((target.llvm().llvm_version_info, target.processor()))
        digest = hashlib.sha256((told + text("tile")).encode()).hexdigest()[:40]
        symbol = "t" + digest
        code = cache.read(digest)
        if code is None:
            code = target.host_object(text(symbol))
            cache.write(digest, code)
        return target.load(code, symbol)
