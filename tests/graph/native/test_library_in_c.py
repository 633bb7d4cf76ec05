"""Libraries called from programs in C that the system's compiler makes: values of eager calls, and all that a header promises."""

from __future__ import annotations

import doctest
import json
import os
import shlex
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_cases import CONVOLUTIONS, ELEMENTS, PRODUCTS, TABLES

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "native.md"
CC = [*shlex.split(os.environ.get("CC", "cc")), "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]

# Reads each input from a file, runs twice, writes each output to a file.  Buffers end where a page begins that may not be touched in
# the first run, and begin where one ends in the second.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "net.h"

#define PAGE 65536

static char *room(int64_t bytes, int64_t alignment, int is_second)
{
    size_t own = ((size_t)bytes + alignment - 1) / alignment * alignment, whole = (own + PAGE - 1) / PAGE * PAGE;
    char *found = mmap(NULL, whole + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED || mprotect(found, PAGE, PROT_NONE) || mprotect(found + PAGE + whole, PAGE, PROT_NONE))
        exit(100);
    memset(found + PAGE, 0xA5, whole);
    return is_second ? found + PAGE : found + PAGE + whole - own;
}

static void moved(const char *kind, int k, void *data, int64_t bytes, const char *mode)
{
    char name[64];
    FILE *file;
    sprintf(name, "%s%d.bin", kind, k);
    file = fopen(name, mode);
    if (!file || (int64_t)(mode[0] == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file)) != bytes)
        exit(101);
    fclose(file);
}

int main(void)
{
    const void *inputs[NET_INPUTS + 1];
    void *outputs[2][NET_OUTPUTS + 1];
    int k, turn, code;
#ifdef WEIGHTS
    code = net_load(WEIGHTS);
    if (code != NET_OK) {
        fprintf(stderr, "%s\n", net_message(code));
        return code;
    }
#endif
    for (turn = 0; turn < 2; turn++) {
        for (k = 0; k < NET_INPUTS; k++) {
            void *data = room(net_inputs[k].bytes, 1, turn);
            moved("in", k, data, net_inputs[k].bytes, "rb");
            inputs[k] = data;
        }
        for (k = 0; k < NET_OUTPUTS; k++)
            outputs[turn][k] = room(net_outputs[k].bytes, 1, turn);
        code = net_run(inputs, outputs[turn], room(NET_WORKSPACE, NET_ALIGNMENT, turn));
        if (code != NET_OK)
            return code;
    }
    for (k = 0; k < NET_OUTPUTS; k++) {
        if (memcmp(outputs[0][k], outputs[1][k], net_outputs[k].bytes))
            exit(102);
        moved("out", k, outputs[1][k], net_outputs[k].bytes, "wb");
    }
#ifdef WEIGHTS
    net_unload();
#endif
    return 0;
}
"""


def elements(t: Any) -> bytes:
    """The elements of a tensor in the order of rows."""
    return bytes(t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()) if t.numel() else b""


def built(made: Any, folder: Path, program: str, *flags: str) -> Path:
    """A program in C linked with a library."""
    source, binary = folder / "main.c", folder / "main"
    source.write_text(program)
    command = [
        *CC,
        *flags,
        "-D_DEFAULT_SOURCE",
        str(source),
        str(made.library),
        f"-Wl,-rpath,{folder}",
    ]
    subprocess.run([*command, "-lm", "-lpthread", "-o", str(binary)], cwd=folder, check=True)
    return binary


def through_c(function: Any, args: tuple[Any, ...], folder: Path) -> list[Any]:
    """The results of a library for these arguments, from a process in which there is no Python."""
    made = torch.compiler.export_library(function, args, folder / "net.so")
    weights = [] if made.weights is None else [f'-DWEIGHTS="{made.weights.name}"']
    binary = built(made, folder, PROGRAM, *weights)
    given = [t for t in args if isinstance(t, torch.Tensor)]
    for k, t in enumerate(given):
        (folder / f"in{k}.bin").write_bytes(elements(t))
    done = subprocess.run([str(binary)], cwd=folder, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    found = []
    for k, wanted in enumerate(flat(function(*args))):
        data = bytearray((folder / f"out{k}.bin").read_bytes())
        own = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        found.append(own.view(wanted.dtype).reshape(wanted.shape))
    return found


def flat(x: Any) -> list[Any]:
    if isinstance(x, torch.Tensor):
        return [x]
    return [t for y in (x.values() if isinstance(x, dict) else x) for t in flat(y)]


def same_as_eager(function: Any, args: tuple[Any, ...], folder: Path, exactly: bool) -> None:
    with torch.no_grad():
        found, wanted = through_c(function, args, folder), flat(function(*args))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        if exactly:
            assert elements(a) == elements(b)
        else:
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Block(nn.Module):
    """A transformer block with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def network(*layers: nn.Module) -> nn.Module:
    net = nn.Sequential(*layers)
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-1, 1)
            m.running_var.uniform_(0.5, 2)
    return net.eval()


def models() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    torch.manual_seed(0)
    return {
        "mlp": (
            network(nn.Linear(32, 70), nn.ReLU(), nn.Linear(70, 33), nn.GELU(), nn.Linear(33, 10)),
            (torch.randn(5, 32),),
        ),
        "float64": (
            network(nn.Linear(9, 20), nn.Tanh(), nn.Linear(20, 3)).double(),
            (torch.randn(4, 9).double(),),
        ),
        "cnn": (
            network(
                nn.Conv2d(3, 8, 3, padding=1),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(8, 20, 3, stride=2, padding=(2, 1), dilation=2, bias=False),
                nn.BatchNorm2d(20),
                nn.SiLU(),
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
                nn.Linear(20, 10),
            ),
            (torch.randn(2, 3, 18, 16),),
        ),
        "transformer": (Block(32, 4).eval(), (torch.randn(2, 7, 32),)),
        "encoder": (nn.TransformerEncoderLayer(24, 3, 50, batch_first=True).eval(), (torch.randn(2, 5, 24),)),
        "embedding": (
            network(nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 4)),
            (torch.tensor([[1, 10, 0]]),),
        ),
    }


@pytest.mark.parametrize("name", list(models()))
def test_a_model_from_c(name, tmp_path):
    model, args = models()[name]
    same_as_eager(model, args, tmp_path, exactly=False)


@pytest.mark.parametrize("kind", [ELEMENTS, PRODUCTS, TABLES], ids=["elements", "products", "tables"])
def test_nothing_is_touched_beside_what_is_given(kind, tmp_path):
    for k, (function, args) in enumerate(kind.values()):
        folder = tmp_path / str(k)
        folder.mkdir()
        same_as_eager(function, args, folder, exactly=kind is ELEMENTS)


def test_no_pixel_is_read_beside_images(tmp_path):
    for k, (net, x) in enumerate(CONVOLUTIONS.values()):
        folder = tmp_path / str(k)
        folder.mkdir()
        same_as_eager(net.eval(), (x,), folder, exactly=False)


def test_rows_from_c_have_the_bits_of_eager_calls_where_kernels_are_the_same(tmp_path):
    def rows(x, w):
        return {
            "norm": F.layer_norm(x, (33,), w),
            "softmax": F.softmax(x, -1),
            "across": F.softmax(x, 0),
            "sums": (x.sum(0), x.amax(1), x.argmin(1)),
            "log": F.log_softmax(x * 3, 1),
        }

    same_as_eager(rows, (torch.randn(9, 33), torch.randn(33)), tmp_path, exactly=True)


def test_long_and_tall_reductions_from_c_are_cut_into_the_same_blocks(tmp_path):
    def reduced(x, y):
        return x.sum(), x.sum(1), x.argmax(1), x.argmax(), y.sum(0), y.argmax(0), y.amin(0), y.mean()

    same_as_eager(reduced, (torch.randn(3, 70001), torch.randn(70001, 5)), tmp_path, exactly=True)


def test_programs_find_a_library_that_was_moved_beside_them(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    made = torch.compiler.export_library(lambda x: x + 1, (torch.ones(1),), tmp_path / "net.so")
    program = """
        #include <stdio.h>
        #include "net.h"
        int main(void)
        {
            float x[1] = {41}, y[1] = {0};
            const void *inputs[] = {x};
            void *outputs[] = {y};
            int code = net_run(inputs, outputs, NULL);
            printf("%d %g %d %d", code, y[0], NET_WORKSPACE, (int)net_inputs[0].rank);
            return 0;
        }
    """
    binary = built(made, tmp_path, program, "-Wl,-rpath,$ORIGIN/there")
    made.library.rename(there / made.library.name)
    done = subprocess.run([str(binary)], capture_output=True, text=True, check=True)
    assert done.stdout == "0 42 0 1"


def test_cpp_takes_the_header(tmp_path):
    torch.compiler.export_library(lambda x: x + 1, (torch.ones(1),), tmp_path / "net.so")
    text = (tmp_path / "net.h").read_text()
    assert text.index('extern "C" {') < text.index("int net_run(") < text.rindex("#ifdef __cplusplus")
    assert max(map(len, text.splitlines())) <= 140 and len(text.splitlines()) < 75


def test_the_file_of_weights_is_read_by_other_tools(tmp_path):
    net = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5))
    made = torch.compiler.export_library(net, (torch.ones(2, 3),), tmp_path / "net.so")
    data = made.weights.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    told = json.loads(data[8 : 8 + length])
    assert told.pop("__metadata__")["sha256"]
    at = 0
    for described in told.values():
        begin, end = described["data_offsets"]
        assert (
            begin == at
            and end - begin == 4 * int(np.prod(described["shape"]))
            and described["dtype"] == "F32"
        )
        at = end
    assert 8 + length + at == len(data)
    bias = net[0].bias.detach().numpy().tobytes()
    assert bias in data[8 + length :]


def test_the_example_of_the_document_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text()
    names: dict[str, Any] = {}
    examples = doctest.DocTestParser().get_doctest(text, names, "native.md", str(DOCUMENT), 0)
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, clear_globs=False)
    assert result.attempted >= 7 and result.failed == 0
    program = text.split("```c\n")[1].split("```")[0]
    binary = built(examples.globs["made"], tmp_path, program)
    done = subprocess.run([str(binary)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [float(word) for word in done.stdout.split()]
    with torch.no_grad():
        wanted = examples.globs["net"](torch.tensor([[1.0, 2.0, 3.0]])).flatten().tolist()
    np.testing.assert_allclose(found, wanted, atol=1e-4)
