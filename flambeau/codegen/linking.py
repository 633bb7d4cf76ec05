"""AMDGCN objects linked into code objects, which AMD's driver loads: by ROCm's own library or linker, found at run time.

The library is comgr, libamd_comgr.so, which comes with HIP; else it is LLVM's linker, ld.lld.  FLAMBEAU_LLD names a linker, and then
nothing else is used.  Nothing is linked that is a shared object already.

Constants and signatures are those of amd_comgr.h.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64
from pathlib import Path

from .target import TARGETS

_SHARED_OBJECT = 3  # e_type of an ELF file
_RELOCATABLE, _EXECUTABLE = 7, 8  # kinds of data
_LINK = {2: 9, 3: 7}  # the action "relocatable to executable" of each major version
_LINK_SECONDS = 120
_HANDLE = c_uint64  # structures of one 64-bit number
_SIGNATURES = {
    "amd_comgr_get_version": [POINTER(c_size_t), POINTER(c_size_t)],
    "amd_comgr_status_string": [c_int, POINTER(c_char_p)],
    "amd_comgr_create_data": [c_int, POINTER(_HANDLE)],
    "amd_comgr_release_data": [_HANDLE],
    "amd_comgr_set_data": [_HANDLE, c_size_t, c_char_p],
    "amd_comgr_set_data_name": [_HANDLE, c_char_p],
    "amd_comgr_get_data": [_HANDLE, POINTER(c_size_t), c_char_p],
    "amd_comgr_create_data_set": [POINTER(_HANDLE)],
    "amd_comgr_destroy_data_set": [_HANDLE],
    "amd_comgr_data_set_add": [_HANDLE, _HANDLE],
    "amd_comgr_create_action_info": [POINTER(_HANDLE)],
    "amd_comgr_destroy_action_info": [_HANDLE],
    "amd_comgr_action_info_set_isa_name": [_HANDLE, c_char_p],
    "amd_comgr_do_action": [c_int, _HANDLE, _HANDLE, _HANDLE],
    "amd_comgr_action_data_get_data": [_HANDLE, c_int, c_size_t, POINTER(_HANDLE)],
}


def code_object(image: bytes, processor: str) -> bytes:
    """The code object of an AMDGCN object for a processor.

    Raises:
        RuntimeError: there is neither comgr nor ld.lld, or the one that is there fails
    """
    (kind,) = struct.unpack_from("<H", image, 16)
    return image if kind == _SHARED_OBJECT else _linker()(image, processor)


@functools.cache
def _linker() -> Callable[[bytes, str], bytes]:
    """What links: a function of an object and its processor."""
    given = os.environ.get("FLAMBEAU_LLD")
    if given is not None:
        return functools.partial(_by_command, given)
    for name in comgr_candidates():
        try:
            return Comgr(name).link
        except OSError:
            continue
    for name in lld_candidates():
        found = shutil.which(name)
        if found is not None:
            return functools.partial(_by_command, found)
    raise RuntimeError(
        "kernels for AMD's devices are linked by libamd_comgr.so or ld.lld, which come with ROCm, and neither is found: tried "
        f"{', '.join([*comgr_candidates(), *lld_candidates()])}; ROCM_PATH names ROCm's folder, FLAMBEAU_LLD a linker"
    )


def _root() -> Path:
    return Path(os.environ.get("ROCM_PATH", "/opt/rocm"))


def comgr_candidates() -> list[str]:
    """Where comgr may be, best first."""
    names = ["libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so"]
    return names + [str(_root() / "lib" / name) for name in names]


def lld_candidates() -> list[str]:
    """Where LLVM's linker may be, best first."""
    return [str(_root() / folder / "ld.lld") for folder in ("llvm/bin", "lib/llvm/bin")] + ["ld.lld"]


def _by_command(linker: str, image: bytes, processor: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made, result = Path(folder) / "kernel.o", Path(folder) / "kernel.so"
        made.write_bytes(image)
        command = [linker, "-shared", "--no-undefined", str(made), "-o", str(result)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LINK_SECONDS)
        except OSError as error:
            raise RuntimeError(f"{linker} cannot be run to link a kernel for {processor}: {error}") from error
        if done.returncode:
            raise RuntimeError(f"{linker} cannot link a kernel for {processor}:\n{done.stderr}")
        return result.read_bytes()


class Comgr:
    """AMD's code object manager.  OSError where the library cannot be opened, RuntimeError where it is no comgr that is known here."""

    def __init__(self, path: str) -> None:
        self.path, self._loaded = path, ctypes.CDLL(path)
        for name, arguments in _SIGNATURES.items():
            if not hasattr(self._loaded, name):
                raise RuntimeError(f"{path} has no {name}: it is no comgr of version 2 or 3")
            getattr(self._loaded, name).argtypes = arguments
        major, minor = c_size_t(), c_size_t()
        self._loaded.amd_comgr_get_version(byref(major), byref(minor))
        if major.value not in _LINK:
            raise RuntimeError(f"{path} is comgr {major.value}.{minor.value}: version 2 or 3 is wanted")
        self.action = _LINK[major.value]

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._loaded, "amd_comgr_" + name)(*arguments)
        if status:
            text = c_char_p()
            self._loaded.amd_comgr_status_string(status, byref(text))
            raise RuntimeError(f"{self.path}: amd_comgr_{name}: {(text.value or b'').decode()} ({status})")

    def _made(self, name: str, *arguments: object) -> _HANDLE:
        """The handle that a function gives through its last argument."""
        handle = _HANDLE()
        self._call(name, *arguments, byref(handle))
        return handle

    def link(self, image: bytes, processor: str) -> bytes:
        """The code object of one object."""
        undo: list[tuple[str, _HANDLE]] = []

        def made(destroy: str, name: str, *arguments: object) -> _HANDLE:
            handle = self._made(name, *arguments)
            undo.append((destroy, handle))
            return handle

        try:
            given = made("destroy_data_set", "create_data_set")
            results = made("destroy_data_set", "create_data_set")
            data = made("release_data", "create_data", _RELOCATABLE)
            self._call("set_data", data, len(image), image)
            self._call("set_data_name", data, b"kernel.o")
            self._call("data_set_add", given, data)
            action = made("destroy_action_info", "create_action_info")
            self._call("action_info_set_isa_name", action, f"{TARGETS['amdgcn'].triple}--{processor}".encode())
            self._call("do_action", self.action, action, given, results)
            result = made("release_data", "action_data_get_data", results, _EXECUTABLE, 0)
            size = c_size_t()
            self._call("get_data", result, byref(size), None)
            linked = ctypes.create_string_buffer(size.value)
            self._call("get_data", result, byref(size), linked)
            return linked.raw
        finally:
            for destroy, handle in reversed(undo):
                self._call(destroy, handle)
