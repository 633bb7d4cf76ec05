"""Ranges for NVIDIA's profilers, through a stand-in for their library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
static int depth;
int nvtxRangePushA(const char *m) { printf("push %s\n", m); return depth++; }
int nvtxRangePop(void) { printf("pop\n"); return --depth; }
uint64_t nvtxRangeStartA(const char *m) { printf("start %s\n", m); return 1ull << 40; }
void nvtxRangeEnd(uint64_t id) { printf("end %llu\n", (unsigned long long)id); fflush(stdout); }
void nvtxMarkA(const char *m) { printf("mark %s\n", m); }
"""
PROGRAM = """
import flambeau
nvtx = flambeau.cuda.nvtx
assert nvtx.range_push("outer") == 0
try:
    with nvtx.range("step {} of {n}", 3, n=4):
        nvtx.mark("m\u00e4rk")
        raise KeyError
except KeyError:
    pass
assert nvtx.range_pop() == 0
found = nvtx.range_start("loading")
assert found == 1 << 40
nvtx.range_end(found)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler to build a library with")
def test_what_the_library_is_told(tmp_path):
    source, library = tmp_path / "nvtx.c", tmp_path / "libnvtx.so"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    environment = os.environ | {"FLAMBEAU_LIBNVTX": str(library), "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "push outer", "push step 3 of 4", "mark m\u00e4rk", "pop", "pop", "start loading", f"end {1 << 40}",
    ]  # fmt: skip


def test_without_the_library(tmp_path):
    program = """
import flambeau
nvtx = flambeau.cuda.nvtx
for call in (nvtx.range_pop, lambda: nvtx.mark("x"), lambda: nvtx.range("x").__enter__(), lambda: nvtx.range_end(1)):
    try:
        call()
    except RuntimeError as error:
        assert "NVTX functions not installed" in str(error)
    else:
        raise AssertionError
"""
    environment = os.environ | {"FLAMBEAU_LIBNVTX": str(tmp_path / "none.so")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
