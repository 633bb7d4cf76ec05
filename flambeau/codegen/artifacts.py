"""The kernels that a process has used, as bytes that another process, or another machine of the same kind, takes up.

A file begins with a magic word and the SHA-256 of all that follows: for each kernel its digest, the number of bytes of its code, the
code.  A digest says of which sources, compiler and processor the code is, so what another version has written is never looked up.
"""

from __future__ import annotations

import hashlib
import struct

from . import cache

MAGIC = b"flambeau-artifacts1\n"
_CHECK = hashlib.sha256().digest_size
_ENTRY = struct.Struct("<40sQ")


def packed() -> tuple[bytes, list[str]]:
    """The kernels that this process has made or read and that lie on the disk, and their digests."""
    result = {digest: cache.read(digest) for digest in sorted(cache.used)}
    entries = {digest: code for digest, code in result.items() if code is not None}
    body = b"".join(_ENTRY.pack(digest.encode(), len(code)) + code for digest, code in entries.items())
    return MAGIC + hashlib.sha256(body).digest() + body, list(entries)


def unpack(data: bytes) -> list[str]:
    """Store kernels on the disk; their digests.

    ValueError where the bytes are not what `packed` gave, and nothing is stored.
    """
    begin = len(MAGIC) + _CHECK
    body = data[begin:]
    if data[: len(MAGIC)] != MAGIC or data[len(MAGIC) : begin] != hashlib.sha256(body).digest():
        raise ValueError("they are damaged, or of another version")
    entries: dict[str, bytes] = {}
    at = 0
    while at < len(body):
        if at + _ENTRY.size > len(body):
            raise ValueError("an entry is cut off")
        name, size = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        if not set(name) <= set(b"0123456789abcdef") or size > min(cache.LARGEST_BYTES, len(body) - at):
            raise ValueError("an entry has no digest, or is longer than what there is")
        entries[name.decode()] = body[at : at + size]
        at += size
    # what lies there already is left alone: a digest names one code
    return [d for d, code in entries.items() if cache.read(d) == code or cache.write(d, code)]
