"""Kernels in a thread whose stack is as small as `threading.stack_size` allows: the bits of a thread with a large one."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import threading
import flambeau as torch
from flambeau.nn import functional as F

torch.set_num_threads(1)
bf16, f64 = torch.bfloat16, torch.float64
torch.manual_seed(0)
r = torch.randn
lstm, half_lstm = torch.nn.LSTM(64, 128), torch.nn.LSTM(64, 128).bfloat16()


def attention_gradients(x):
    given = [x.requires_grad_(), *(r(x.shape, dtype=bf16).requires_grad_() for _ in range(2))]
    return torch.cat(torch.autograd.grad(F.scaled_dot_product_attention(*given).sum(), given))


cases = {
    "deep": lambda: r(100, 2000) @ r(2000, 300),
    "one band": lambda: r(64, 900) @ r(900, 512),
    "one band, deep": lambda: r(64, 1900) @ r(1900, 512),
    "float64": lambda: r(100, 2000, dtype=f64) @ r(2000, 300, dtype=f64),
    "complex64": lambda: r(60, 700, dtype=torch.complex64) @ r(700, 90, dtype=torch.complex64),
    "bfloat16": lambda: r(100, 2000, dtype=bf16) @ r(2000, 300, dtype=bf16),
    "bfloat16, turned": lambda: r(2000, 100, dtype=bf16).t() @ r(2000, 300, dtype=bf16),
    "float16": lambda: r(100, 2000, dtype=torch.float16) @ r(2000, 300, dtype=torch.float16),
    "stacks": lambda: r(8, 40, 40) @ r(8, 40, 40),
    "stacks, turned": lambda: r(8, 30, 200) @ r(8, 70, 200).mT,
    "dot products": lambda: r(3, 3000) @ r(500, 3000).t(),
    "convolution": lambda: F.conv2d(r(2, 64, 20, 20), r(64, 64, 3, 3), padding=1),
    "few channels": lambda: F.conv2d(r(2, 3, 64, 64), r(32, 3, 7, 7), stride=2),
    "depthwise": lambda: F.conv2d(r(2, 32, 40, 40), r(32, 1, 3, 3), groups=32),
    "depthwise, halves": lambda: F.conv2d(r(2, 32, 40, 40, dtype=bf16), r(32, 1, 3, 3, dtype=bf16), groups=32),
    "halves": lambda: F.conv2d(r(2, 64, 20, 20, dtype=bf16), r(64, 64, 3, 3, dtype=bf16), padding=1),
    "attention": lambda: F.scaled_dot_product_attention(*(r(1, 4, 300, 64) for _ in range(3))),
    "attention of halves": lambda: F.scaled_dot_product_attention(*(r(1, 4, 300, 64, dtype=bf16) for _ in range(3))),
    "gradients of attention of halves": lambda: attention_gradients(r(1, 4, 300, 64, dtype=bf16)),
    "recurrent": lambda: lstm(r(5, 3, 64))[0],
    "recurrent, halves": lambda: half_lstm(r(5, 9, 64, dtype=bf16))[0],
    "sorted": lambda: r(100_000).sort()[0],
    "fft": lambda: torch.view_as_real(torch.fft.fft(r(5, 1000))),
    "singular values": lambda: torch.linalg.svdvals(r(30, 20)),
    "reflections": lambda: torch.linalg.qr(r(900, 60))[1],
    "resized": lambda: F.interpolate(r(1, 3, 40, 40), size=(70, 70), mode="bicubic"),
}

def result(name):
    torch.manual_seed(1)
    return torch.view_as_real(y) if (y := cases[name]()).is_complex() else y

def work():
    small[name] = result(name)

small = {}
for name in cases:
    threading.stack_size(65536)
    thread = threading.Thread(target=work)
    print(name, flush=True)
    thread.start(), thread.join()
    threading.stack_size(0)
    assert torch.equal(small[name], result(name)), f"{name}: other bits"
print("all", len(cases))
"""


def test_the_smallest_stack_is_enough():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=dict(os.environ), capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0 and ran.stdout.splitlines()[-1].startswith("all"), (
        ran.stdout[-200:],
        ran.stderr,
    )
