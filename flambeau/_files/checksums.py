"""CRC-32 of large data by several threads that read it: zlib and the system work without the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..core.base.parallel import get_num_threads

BLOCK = 1 << 20  # worked on at a time, so that a block's checksum finds it in the cache
_LARGE = 8 << 20  # bytes from which a thread pays
_POLYNOMIAL = 0xEDB88320


def by_parts(n: int, work: Callable[[int, int], int]) -> int:
    """The checksum of n bytes, of which `work(begin, end)` fetches a part and returns its checksum, in several threads."""
    threads = min(get_num_threads(), 8, n // _LARGE + 1)
    if threads < 2:
        return work(0, n)
    cuts = [n * i // threads // 4096 * 4096 for i in range(threads)] + [n]
    result: list[Any] = [None] * threads

    def run(i: int) -> None:
        try:
            result[i] = work(cuts[i], cuts[i + 1])
        except BaseException as error:  # for the thread that waits
            result[i] = error

    workers = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(1, threads)]
    for worker in workers:
        worker.start()
    run(0)
    for worker in workers:
        worker.join()
    crc = 0
    for i, part in enumerate(result):
        if isinstance(part, BaseException):
            raise part
        crc = combined(crc, part, cuts[i + 1] - cuts[i])
    return crc


def combined(first: int, second: int, n: int) -> int:
    """The checksum of two pieces, of which the second has n bytes: zlib's crc32_combine."""
    shift, power = 1 << 31, 1 << 23  # 1 and x^8, as polynomials with the constant term on top
    while n:
        if n & 1:
            shift = _times(power, shift)
        power = _times(power, power)
        n >>= 1
    return _times(shift, first) ^ second


def _times(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo CRC-32's."""
    product, bit = 0, 1 << 31
    while bit:
        if a & bit:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
        bit >>= 1
    return product
