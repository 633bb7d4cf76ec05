"""Machine code of functions written for tiles: in memory, on disk under a digest, or compiled."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable
from pathlib import Path

from ...core.base import forks
from ...core.base.stacks import deep
from .. import build, cache, target


def compiled(text: Callable[[str], str], key: tuple[Hashable, ...] = ()) -> int:
    """Where a function stands whose module `text` writes for a symbol; compiled when it is new to this processor.

    It lies on the disk under a digest of that text.  `key` is, where it is given, all that the text depends on beside the sources: then
    what lies on the disk is found without writing the text, which takes as long as loading it.
    """
    return deep(_compiled, text, key)


@functools.cache
def _version() -> bytes:
    """What decides a tile's code besides its key."""
    digest = hashlib.sha256(build.version("cpu"))
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _compiled(text: Callable[[str], str], key: tuple[Hashable, ...]) -> int:
    with forks.making:
        if key:
            description = _version() + repr((target.processor(), key)).encode()
        else:
            description = (
                repr((target.llvm().llvm_version_info, target.processor())) + text("tile")
            ).encode()
        digest = hashlib.sha256(description).hexdigest()[:40]
        symbol = "t" + digest
        code = cache.read(digest)
        if code is None:
            code = target.host_object(text(symbol))
            cache.write(digest, code)
        return target.load(code, symbol)
