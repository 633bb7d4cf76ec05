"""Machine code for the host."""

from __future__ import annotations

import ctypes
import struct

import numpy as np

from flambeau.codegen import target

ADD_CONSTANTS = """
define void @kernel(ptr %p) {
  %v = load <4 x float>, ptr %p
  %w = fadd <4 x float> %v, <float 1.0, float 2.0, float 3.0, float 4.0>
  store <4 x float> %w, ptr %p
  ret void
}
"""
RELA, ABSOLUTE = 4, 1  # SHT_RELA and R_X86_64_64 of the System V ABI


def relocations(elf: bytes) -> set[int]:
    """The kinds of relocations in an object file."""
    (first,), (size, count) = struct.unpack_from("<Q", elf, 0x28), struct.unpack_from("<HH", elf, 0x3A)
    kinds = set()
    for k in range(count):
        _, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", elf, first + k * size)
        if kind == RELA:
            kinds |= {struct.unpack_from("<QI", elf, at)[1] for at in range(offset, offset + length, 24)}
    return kinds


def test_code_finds_its_constants_however_far_they_are():
    """With 32-bit distances the loader ends the process where large tensors leave no room for constants near the code."""
    assert relocations(target.host_object(ADD_CONSTANTS)) == {ABSOLUTE}


def test_code_runs():
    address = target.load(
        target.host_object(ADD_CONSTANTS.replace("@kernel", "@plus_constants")), "plus_constants"
    )
    x = np.zeros(8, "float32")
    start = (-x.ctypes.data % 16) // 4
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(x.ctypes.data + 4 * start)
    assert x[start : start + 4].tolist() == [1.0, 2.0, 3.0, 4.0]
