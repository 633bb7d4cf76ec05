"""AMDGCN objects as code objects: by a linker, by comgr, and what is said where neither is there."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import struct
import subprocess
import sys
from contextlib import suppress

import pytest

from flambeau.codegen import expr, kernels, linking
from flambeau.codegen import schedule_gpu as gpu
from flambeau.codegen import target as tg

SHARED_OBJECT, PT_LOAD, PT_NOTE = 3, 1, 4


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Each test finds its own linker."""
    linking._linker.cache_clear()
    monkeypatch.delenv("FLAMBEAU_LLD", raising=False)
    yield
    linking._linker.cache_clear()


def compiled(processor: str) -> bytes:
    x = expr.input(0, "float32")
    cube = kernels.Pointwise("cube", (x * x * x,), ("c",), (kernels.Operand("float32", "c"),), ())
    return tg.image(str(gpu.module_for(cube, "amdgcn", gpu.PLAIN)), "amdgcn", processor)


def lld(folder) -> str:
    """An ld.lld that knows AMD's processors: the system's, or that of the package ziglang."""
    found = shutil.which("ld.lld")
    if found is not None:
        return found
    pytest.importorskip("ziglang", reason="there is no ld.lld")
    script = folder / "ld.lld"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang ld.lld "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def check(linked: bytes, processor: str) -> None:
    """A shared object for the processor, of the fifth version, with segments, and the kernel and its descriptor among its symbols."""
    kind, flags = struct.unpack_from("<H", linked, 16)[0], struct.unpack_from("<I", linked, 48)[0]
    assert linked[:4] == b"\x7fELF" and kind == SHARED_OBJECT
    assert linked[7] == 64 and linked[8] == 3  # ELFOSABI_AMDGPU_HSA, ELFABIVERSION_AMDGPU_HSA_V5
    assert flags & 0xFF == {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}[processor]
    at, size, count = (
        struct.unpack_from("<Q", linked, 32)[0],
        *struct.unpack_from("<HH", linked, 54),
    )
    segments = {struct.unpack_from("<I", linked, at + k * size)[0] for k in range(count)}
    assert {PT_LOAD, PT_NOTE} <= segments
    assert {b"kernel", b"kernel.kd"} <= set(linked.split(b"\0"))


@pytest.mark.parametrize("processor", tg.PROCESSORS["amdgcn"])
def test_by_a_linker(tmp_path, monkeypatch, processor):
    monkeypatch.setenv("FLAMBEAU_LLD", lld(tmp_path))
    check(linking.code_object(compiled(processor), processor), processor)


def test_what_is_linked_already_is_left_alone():
    image = bytearray(compiled("gfx90a"))
    struct.pack_into("<H", image, 16, SHARED_OBJECT)
    assert linking.code_object(bytes(image), "gfx90a") == bytes(image)


def test_without_a_linker(tmp_path, monkeypatch):
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in linking.comgr_candidates():
        with suppress(OSError):
            ctypes.CDLL(name)
            pytest.skip(f"{name} is installed")
    with pytest.raises(RuntimeError, match="libamd_comgr.so or ld.lld, which come with ROCm, and neither is found"):
        linking.code_object(compiled("gfx90a"), "gfx90a")


def test_linkers_that_fail(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_LLD", str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="none cannot be run to link a kernel for gfx942"):
        linking.code_object(compiled("gfx942"), "gfx942")
    linking._linker.cache_clear()
    broken = tmp_path / "ld.lld"
    broken.write_text("#!/bin/sh\necho no such machine >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("FLAMBEAU_LLD", str(broken))
    with pytest.raises(RuntimeError, match="cannot link a kernel for gfx942:\nno such machine"):
        linking.code_object(compiled("gfx942"), "gfx942")


COMGR = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// comgr's functions on one object: "linking" makes a shared object of its header.
static struct item { char *bytes; size_t n; int kind; } items[16];
static uint64_t made, live, inside, result;
static char isa[64];
void amd_comgr_get_version(size_t *major, size_t *minor) { *major = VERSION, *minor = 0; }
int amd_comgr_status_string(int s, const char **t) { return *t = s == 2 ? "INVALID_ARGUMENT" : "ERROR", 0; }
int amd_comgr_create_data(int kind, uint64_t *d) { return *d = ++made, live++, items[made].kind = kind, 0; }
int amd_comgr_release_data(uint64_t d) { return live--, 0; }
int amd_comgr_set_data(uint64_t d, size_t n, const char *b) { return items[d].bytes = memcpy(malloc(n), b, n), items[d].n = n, 0; }
int amd_comgr_set_data_name(uint64_t d, const char *name) { return 0; }
int amd_comgr_get_data(uint64_t d, size_t *n, char *b) { return b ? (void)memcpy(b, items[d].bytes, *n) : (void)(*n = items[d].n), 0; }
int amd_comgr_create_data_set(uint64_t *s) { return *s = ++made, live++, 0; }
int amd_comgr_destroy_data_set(uint64_t s) { return live--, 0; }
int amd_comgr_data_set_add(uint64_t s, uint64_t d) { return inside = d, 0; }
int amd_comgr_create_action_info(uint64_t *a) { return *a = ++made, live++, 0; }
int amd_comgr_destroy_action_info(uint64_t a) { return live--, 0; }
int amd_comgr_action_info_set_isa_name(uint64_t a, const char *name) { return strcpy(isa, name), strcmp(isa, "amdgcn-amd-amdhsa--gfx90a") ? 2 : 0; }
int amd_comgr_do_action(int action, uint64_t a, uint64_t s, uint64_t out) {
    if (action != (VERSION == 2 ? 9 : 7) || items[inside].kind != 7) return 1;
    items[inside].bytes[16] = 3;
    return result = inside, 0;
}
int amd_comgr_action_data_get_data(uint64_t s, int kind, size_t k, uint64_t *d) { return kind == 8 && !k ? *d = result, live++, 0 : 1; }
long fake_live(void) { return live; }
"""


@pytest.mark.parametrize("version", [2, 3])
def test_by_comgr(tmp_path, version):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build a comgr with")
    source, library = tmp_path / "comgr.c", tmp_path / f"libamd_comgr{version}.so"
    source.write_text(COMGR)
    command = [compiler, "-shared", "-fPIC", f"-DVERSION={version}", "-o", str(library), str(source)]
    subprocess.run(command, check=True, timeout=60)
    comgr = linking.Comgr(str(library))
    image = compiled("gfx90a")
    linked = comgr.link(image, "gfx90a")
    assert linked[16] == SHARED_OBJECT and linked[17:] == image[17:] and len(linked) == len(image)
    with pytest.raises(RuntimeError, match=r"amd_comgr_action_info_set_isa_name: INVALID_ARGUMENT \(2\)"):
        comgr.link(image, "gfx9999")
    assert ctypes.CDLL(str(library)).fake_live() == 0


def test_a_comgr_of_another_version(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build a comgr with")
    source, library = tmp_path / "comgr.c", tmp_path / "libamd_comgr4.so"
    source.write_text(COMGR)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-DVERSION=4", "-o", str(library), str(source)], check=True, timeout=60
    )
    with pytest.raises(RuntimeError, match=r"is comgr 4.0: version 2 or 3 is wanted"):
        linking.Comgr(str(library))


def test_the_comgr_of_this_machine():
    """Where ROCm's own is installed, it links what its version knows."""
    for name in linking.comgr_candidates():
        if os.path.isabs(name) and not os.path.exists(name):
            continue
        try:
            comgr = linking.Comgr(name)
        except OSError:
            continue
        check(comgr.link(compiled("gfx90a"), "gfx90a"), "gfx90a")
        return
    pytest.skip("there is no comgr")
